//! The number of worker threads.

use pyo3::prelude::*;
use tessarr_engine::pool;

use crate::runtime::error::argument;

/// Limit the worker threads of this process to `n`. None sets the number of available processors,
/// by the CPU affinity and the CPU quota of the control group.
#[pyfunction]
#[pyo3(signature = (n))]
fn set_threads(py: Python<'_>, n: Option<usize>) -> PyResult<()> {
    if n == Some(0) {
        return Err(argument(py, "at least 1 thread has to work"));
    }
    pool::set_threads(n.unwrap_or(0));
    Ok(())
}

/// Return the limit on worker threads.
#[pyfunction]
fn threads() -> usize {
    pool::threads()
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(set_threads, module)?)?;
    module.add_function(wrap_pyfunction!(threads, module)?)
}
