//! Copies of memory as Python's `bytes`.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Copies `data` to a bytes object; `MemoryError` if there is no memory, where `PyBytes::new`
/// panics.
pub(crate) fn copy_to_bytes<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, data.len(), |buffer| {
        buffer.copy_from_slice(data);
        Ok(())
    })
}
