//! Access to Python's runtime: the GIL, errors, memory and classes.

pub(crate) mod allocator;
pub(crate) mod atexit;
pub(crate) mod bool_arg;
pub(crate) mod bytes;
pub(crate) mod error;
pub(crate) mod fallible;
pub(crate) mod gil_value;
pub(crate) mod once_cell;
pub(crate) mod pool;
pub(crate) mod safe_repr;

use pyo3::prelude::*;

/// Add the classes and functions of this folder to `module`.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    bool_arg::register(module)?;
    pool::register(module)
}
