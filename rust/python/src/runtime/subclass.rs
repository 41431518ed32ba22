//! Instances of Python classes that derive from the binding's classes.

use crate::runtime::once_cell::intern;
use crate::runtime::once_cell::OnceCell;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi::PyTypeObject;
use pyo3::impl_::pymethods::tp_new_impl;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use pyo3::PyClass;

use crate::runtime::safe_repr::safe_repr;

/// Return a new instance of a class that is `T` or derives from it, without a call of its
/// constructors. Constructor calls take longer than operations on small objects. PyO3 offers this
/// to its own macros only.
pub(crate) fn new_instance<'py, T: PyClass>(
    class: &Bound<'py, PyType>,
    value: impl Into<PyClassInitializer<T>>,
) -> PyResult<Bound<'py, T>> {
    let py = class.py();
    if !class.is_subclass_of::<T>()? {
        let message = format!("{} is no {}", safe_repr(class), T::type_object(py).repr()?);
        return Err(PyTypeError::new_err(message));
    }
    // SAFETY: the class derives from `T`.
    unsafe { allocate_instance(py, class.as_type_ptr(), value) }
}

/// Return a new instance of the class of another object.
pub(crate) fn new_like<'py, T: PyClass>(
    other: &Bound<'py, T>,
    value: impl Into<PyClassInitializer<T>>,
) -> PyResult<Bound<'py, T>> {
    // SAFETY: the class of a `T` object derives from `T`, and it cannot change to another class.
    unsafe { allocate_instance(other.py(), other.as_any().get_type_ptr(), value) }
}

/// The pickled form of an object: a function that creates an instance without `__init__`, its
/// class, and the state.
pub(crate) type PickleParts<'py, S> = (Bound<'py, PyAny>, (Bound<'py, PyType>,), S);

/// Return the pickled form of an object with a state for its `__setstate__`.
pub(crate) fn pickle_parts<'py, T, S>(object: &Bound<'py, T>, state: S) -> PyResult<PickleParts<'py, S>> {
    static NEW: OnceCell<Py<PyAny>> = OnceCell::new();
    let new = NEW.import(object.py(), "copyreg", "__newobj__")?;
    Ok((new.clone(), (object.as_any().get_type(),), state))
}

/// Return the `__dict__` of an object, if its class has one.
pub(crate) fn attributes<'py, T>(object: &Bound<'py, T>) -> PyResult<Option<Bound<'py, PyDict>>> {
    let found = object.as_any().getattr_opt(intern!(object.py(), "__dict__"))?;
    Ok(found.map(Bound::cast_into).transpose()?)
}

/// Update the `__dict__` of an object.
pub(crate) fn set_attributes<T>(object: &Bound<'_, T>, kept: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    match (attributes(object)?, kept) {
        (Some(own), Some(kept)) => own.update(kept.as_mapping()),
        _ => Ok(()),
    }
}

/// Return a copy of an object with a new value and the same `__dict__`; with a memo, a deep copy.
pub(crate) fn copy_instance<'py, T: PyClass>(
    other: &Bound<'py, T>,
    value: impl Into<PyClassInitializer<T>>,
    memo: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, T>> {
    let made = new_like(other, value)?;
    let kept = match (attributes(other)?, memo) {
        (Some(kept), Some(memo)) => {
            let deep = kept.py().import("copy")?.call_method1("deepcopy", (kept, memo))?;
            Some(deep.cast_into()?)
        }
        (kept, _) => kept,
    };
    set_attributes(&made, kept.as_ref())?;
    Ok(made)
}

/// Allocate an object of a class.
///
/// # Safety
/// The object is a class that derives from `T`.
unsafe fn allocate_instance<'py, T: PyClass>(
    py: Python<'py>,
    class: *mut PyTypeObject,
    value: impl Into<PyClassInitializer<T>>,
) -> PyResult<Bound<'py, T>> {
    // SAFETY: the caller guarantees that the class derives from `T`.
    unsafe {
        let made = tp_new_impl::<PyClassInitializer<T>, T>(py, value.into(), class)?;
        Ok(Bound::from_owned_ptr(py, made).cast_into_unchecked())
    }
}
