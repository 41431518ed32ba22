//! Copies of memory as Python's `bytes`.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Copy `data` to a bytes object. Raise a `MemoryError` if memory is exhausted, unlike
/// `PyBytes::new`, which panics.
pub(crate) fn copy_to_bytes<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, data.len(), |buffer| {
        buffer.copy_from_slice(data);
        Ok(())
    })
}
