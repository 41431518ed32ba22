//! Objects of classes that Python derives from those of the engine.

use pyo3::exceptions::PyTypeError;
use pyo3::ffi::PyTypeObject;
use pyo3::impl_::pymethods::tp_new_impl;
use pyo3::prelude::*;
use pyo3::types::PyType;
use pyo3::PyClass;

/// An object of a class that is `T` or derives from it, without its constructors: to call these takes longer
/// than what is done with a small object. PyO3 has no other way to it than that of its own macros.
pub(crate) fn made_as<'py, T: PyClass>(
    class: &Bound<'py, PyType>,
    value: impl Into<PyClassInitializer<T>>,
) -> PyResult<Bound<'py, T>> {
    let py = class.py();
    if !class.is_subclass_of::<T>()? {
        let message = format!("{} is no {}", class.repr()?, T::type_object(py).repr()?);
        return Err(PyTypeError::new_err(message));
    }
    // SAFETY: the class derives from `T`.
    unsafe { made_of(py, class.as_type_ptr(), value) }
}

/// An object of the class of another one, in the same way.
pub(crate) fn made_like<'py, T: PyClass>(
    other: &Bound<'py, T>,
    value: impl Into<PyClassInitializer<T>>,
) -> PyResult<Bound<'py, T>> {
    // SAFETY: an object is a `T` as its class derives from it, and stays one.
    unsafe { made_of(other.py(), other.as_any().get_type_ptr(), value) }
}

/// An object of a class.
///
/// # Safety
/// The class is one, and derives from `T`, so that what is made of it is one.
unsafe fn made_of<'py, T: PyClass>(
    py: Python<'py>,
    class: *mut PyTypeObject,
    value: impl Into<PyClassInitializer<T>>,
) -> PyResult<Bound<'py, T>> {
    // SAFETY: the caller knows the class.
    unsafe {
        let made = tp_new_impl::<PyClassInitializer<T>, T>(py, value.into(), class)?;
        Ok(Bound::from_owned_ptr(py, made).cast_into_unchecked())
    }
}
