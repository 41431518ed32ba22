//! How many threads work.

use pyo3::prelude::*;
use tessarr_engine::pool;

use crate::error::argument;

/// Let at most `n` threads work, in all operations of this process together.
#[pyfunction]
fn set_threads(py: Python<'_>, n: usize) -> PyResult<()> {
    if n == 0 {
        return Err(argument(py, "at least 1 thread has to work"));
    }
    pool::set_threads(n);
    Ok(())
}

/// How many threads may work.
#[pyfunction]
fn threads() -> usize {
    pool::threads()
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(set_threads, module)?)?;
    module.add_function(wrap_pyfunction!(threads, module)?)
}
