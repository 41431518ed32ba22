//! Python objects and memory whose allocation raises `MemoryError` instead of a panic.

use std::ffi::c_void;
use std::marker::PhantomData;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

pub(crate) fn text<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyString>> {
    PyString::from_bytes(py, text.as_bytes())
}

pub(crate) fn dict(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    // SAFETY: the function returns a new dict, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyDict_New()).map(|dict| dict.cast_into_unchecked()) }
}

/// Return a tuple of one item.
pub(crate) fn single<'py>(item: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
    let py = item.py();
    // SAFETY: the function returns a new tuple, or null with an exception set. `PyTuple_SetItem`
    // takes over the reference to the item, and sets the only item of a tuple without another
    // owner.
    unsafe {
        let tuple = Bound::from_owned_ptr_or_err(py, ffi::PyTuple_New(1))?;
        match ffi::PyTuple_SetItem(tuple.as_ptr(), 0, item.into_ptr()) {
            0 => Ok(tuple.cast_into_unchecked()),
            _ => Err(PyErr::fetch(py)),
        }
    }
}

/// The bytes to reserve. This is more than Python needs to complete a future or to create an
/// exception: its allocator requests 1 MiB at once.
const RESERVE_BYTES: usize = 2 << 20;

/// A block of memory to free after objects have used up the rest. No code touches the block, so it
/// occupies only addresses.
pub(crate) struct Reserve<'py>(*mut c_void, PhantomData<Python<'py>>);

impl<'py> Reserve<'py> {
    pub(crate) fn new(py: Python<'py>) -> PyResult<Reserve<'py>> {
        // SAFETY: the thread holds the GIL.
        let memory = unsafe { ffi::PyMem_Malloc(RESERVE_BYTES) };
        if memory.is_null() {
            // SAFETY: as above; the function sets an exception and returns null.
            unsafe { ffi::PyErr_NoMemory() };
            return Err(PyErr::fetch(py));
        }
        Ok(Reserve(memory, PhantomData))
    }
}

impl Drop for Reserve<'_> {
    fn drop(&mut self) {
        // SAFETY: `new` has allocated the memory, and the thread holds the GIL.
        unsafe { ffi::PyMem_Free(self.0) };
    }
}
