//! Conversion of the engine's errors to the classes of `tessarr.errors`.

use std::fmt::Write;
use std::sync::Arc;

use crate::runtime::once_cell::{intern, OnceCell};
use pyo3::exceptions::{PyException, PyKeyboardInterrupt, PyMemoryError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use tessarr_engine::error::EXIT;
use tessarr_engine::{Error, Kind};

use crate::runtime::fallible;
use crate::runtime::gil_value::GilValue;

static ERRORS: OnceCell<Py<PyModule>> = OnceCell::new();

/// Return the name of the Python class of a kind.
fn class_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Data => "DataError",
        Kind::Store { .. } => "StoreError",
        Kind::Argument => "ArgumentError",
        Kind::Selection => "SelectionError",
        Kind::Conflict => "ConflictError",
        Kind::ReadOnly => "ReadOnlyError",
        Kind::Exists => "ExistsError",
        Kind::NotFound => "NotFoundError",
        Kind::Unsupported => "UnsupportedError",
        Kind::Memory => "OutOfMemoryError",
        Kind::Interrupted | Kind::Foreign | Kind::Internal => "InternalError",
    }
}

/// Return the chunk and the key that an error concerns; empty if it has neither.
fn place(error: &Error) -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    if let Some(chunk) = &error.chunk {
        let cell: Vec<String> = chunk.iter().map(u64::to_string).collect();
        let comma = if cell.len() == 1 { "," } else { "" };
        let _ = write!(text, "chunk ({}{comma})", cell.join(", "));
    }
    if let Some(key) = &error.key {
        let _ = if text.is_empty() { write!(text, "key {key:?}") } else { write!(text, " (key {key:?})") };
    }
    text
}

/// Return what failed, where and why, in one line.
fn message(error: &Error) -> String {
    let mut text = place(error);
    if error.kind == Kind::Data && error.chunk.is_some() {
        text.insert_str(0, "cannot decode ");
    }
    if !text.is_empty() {
        text.push_str(": ");
    }
    if let Some(codec) = &error.codec {
        let _ = write!(text, "{codec}: ");
    }
    text.push_str(&error.message);
    text
}

/// Return the exception of `error`.
pub(crate) fn to_py(py: Python<'_>, error: Error) -> PyErr {
    let exception = match error.kind {
        Kind::Interrupted => return PyKeyboardInterrupt::new_err(()),
        Kind::Foreign => raised(py, &error),
        _ => build(py, &error).unwrap_or_else(|failure| failure),
    };
    if let Some(note) = &error.note {
        // An exception that rejects the note is still raised.
        let _ = exception.value(py).call_method1("add_note", (note.as_str(),));
    }
    exception
}

/// Return whether an exception is of the Python class of a kind.
pub(crate) fn is_of(py: Python<'_>, error: &PyErr, kind: Kind) -> bool {
    class(py, kind).is_ok_and(|class| error.matches(py, class).unwrap_or(false))
}

fn class(py: Python<'_>, kind: Kind) -> PyResult<Bound<'_, PyAny>> {
    named(py, class_name(kind))
}

/// Return a class of `tessarr.errors`.
pub(crate) fn named<'py>(py: Python<'py>, class: &str) -> PyResult<Bound<'py, PyAny>> {
    let import = || py.import(fallible::text(py, "tessarr.errors")?).map(Bound::unbind);
    ERRORS.get_or_try_init(py, import)?.bind(py).getattr(fallible::text(py, class)?)
}

fn build(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let class = class(py, error.kind)?;
    let fields = fallible::dict(py)?;
    let text = |text: Option<&str>| text.map(|text| fallible::text(py, text)).transpose();
    if let Some(code) = error.code {
        fields.set_item(intern!(py, "kind"), text(Some(code))?)?;
    }
    fields.set_item(intern!(py, "key"), text(error.key.as_deref())?)?;
    // The engine reports "zstd, codec 2 of 3"; the field contains only the name.
    let codec =
        error.codec.as_deref().map(|codec| codec.split_once(", codec ").map_or(codec, |(name, _)| name));
    fields.set_item(intern!(py, "codec"), text(codec)?)?;
    let chunk = error.chunk.as_ref().map(|chunk| PyTuple::new(py, chunk)).transpose()?;
    fields.set_item(intern!(py, "chunk"), chunk)?;
    if let Kind::Store { retryable, errno } = error.kind {
        fields.set_item("retryable", retryable)?;
        fields.set_item("errno", errno)?;
        fields.set_item("filename", error.file.as_deref().map(|path| path.as_os_str()))?;
    }
    let message = fallible::text(py, &message(error))?.into_any();
    let built = PyErr::from_value(class.call(fallible::single(message)?, Some(&fields))?);
    if let Some(cause) = raised_by(error) {
        built.set_cause(py, Some(cause.clone_ref(py)));
    }
    Ok(built)
}

/// Return a note with the location where a callback raised; None if the location is unknown.
fn note(error: &Error) -> Option<String> {
    let place = place(error);
    match (&error.codec, place.is_empty()) {
        (Some(codec), true) => Some(format!("raised in {codec}")),
        (Some(codec), false) => Some(format!("raised in {codec}, for {place}")),
        (None, false) => Some(format!("raised for {place}")),
        (None, true) => None,
    }
}

/// Return the exception that a callback raised, if `error` contains one.
pub(crate) fn raised_by(error: &Error) -> Option<&PyErr> {
    error.foreign.as_ref().and_then(|inner| inner.downcast_ref::<GilValue<PyErr>>()).and_then(GilValue::get)
}

/// Return the exception that a callback raised. An error about damaged data gets its location;
/// every other exception of a codec gets a note.
fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let Some(inner) = raised_by(error) else {
        return PyRuntimeError::new_err(message(error));
    };
    let inner = inner.clone_ref(py);
    let value = inner.value(py);
    let damage = class(py, Kind::Data).and_then(|class| value.is_instance(&class));
    if damage.unwrap_or(false) {
        let mut located = error.clone();
        (located.kind, located.message) = (Kind::Data, value.to_string());
        return match build(py, &located) {
            Ok(outer) => {
                // An exception without a kind keeps the kind of its class.
                if let Ok(kind) = value.getattr("kind") {
                    let _ = outer.value(py).setattr("kind", kind);
                }
                outer
            }
            Err(failure) => failure,
        };
    }
    if let Some(note) = note(error) {
        // An exception that rejects the note is still raised.
        let _ = value.call_method1("add_note", (note,));
    }
    inner
}

/// Return the engine's error for an exception that a callback raised.
pub(crate) fn foreign(py: Python<'_>, error: PyErr) -> Error {
    let mut wrapped = Error::new(Kind::Foreign, format!("raised {}", error.value(py)));
    wrapped.code = (!error.is_instance_of::<PyException>(py)).then_some(EXIT);
    wrapped.foreign = Some(Arc::new(GilValue::new(error)));
    wrapped
}

/// Return an `OutOfMemoryError` for a `MemoryError` of Python, with `what` as the object that did
/// not fit; return every other exception unchanged.
pub(crate) fn out_of_memory(py: Python<'_>, error: PyErr, what: &str) -> PyErr {
    if !error.is_instance_of::<PyMemoryError>(py) || is_of(py, &error, Kind::Memory) {
        return error;
    }
    to_py(py, Error::new(Kind::Memory, format!("there is no memory for {what}")))
}

/// Return an `ArgumentError`.
pub(crate) fn argument(py: Python<'_>, message: impl Into<String>) -> PyErr {
    to_py(py, Error::new(Kind::Argument, message))
}

/// Return whether a value is an integer of more than 64 bits.
fn is_too_large(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyInt>() && value.extract::<i64>().is_err() && value.extract::<u64>().is_err()
}

/// Return the exception for an invalid value in JSON. A value that is not JSON raises
/// `NotJSONError`, a TypeError. A value with more than 64 bits raises `TooLargeError`, an
/// OverflowError.
pub(crate) fn refused(value: &Bound<'_, PyAny>, message: String) -> PyErr {
    let plain = value.is_none()
        || value.is_instance_of::<PyInt>()
        || value.is_instance_of::<PyFloat>()
        || value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyBytes>()
        || value.is_instance_of::<PyList>()
        || value.is_instance_of::<PyTuple>()
        || value.is_instance_of::<PyDict>();
    let name = match plain {
        true if is_too_large(value) => "TooLargeError",
        true => return argument(value.py(), message),
        false => "NotJSONError",
    };
    let raised = named(value.py(), name).and_then(|class| class.call1((message,)));
    raised.map_or_else(|failure| failure, PyErr::from_value)
}
