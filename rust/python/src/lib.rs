//! The binding of Tessarr's engine: extract, release the GIL, call, wrap.

use pyo3::prelude::*;

mod error;
mod store;

/// The compiled part of Tessarr; `_engine.pyi` describes it.
#[pymodule(gil_used = false)]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    store::register(module)
}
