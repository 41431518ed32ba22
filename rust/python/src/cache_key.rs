//! Cache keys of JSON values, and integers that JSON of TensorStore cannot hold.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

/// The maximum length of a key in bytes.
const LONGEST: usize = 1 << 14;

/// The maximum depth of a value.
const DEEPEST: usize = 100;

/// Return bytes that are equal only for equal values of equal types. Return None for long values
/// and for values that are not JSON, tuples or bytes.
#[pyfunction]
fn make_cache_key<'py>(value: &Bound<'py, PyAny>) -> Option<Bound<'py, PyBytes>> {
    let mut key = Vec::with_capacity(256);
    add(&mut key, value, DEEPEST).map(|()| PyBytes::new(value.py(), &key))
}

/// Append the kind, the length and the content of a value to a key.
fn add(key: &mut Vec<u8>, value: &Bound<'_, PyAny>, depth: usize) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    if let Ok(text) = value.cast_exact::<PyString>() {
        return plain(key, b's', text.to_str().ok()?.as_bytes());
    }
    if let Ok(object) = value.cast_exact::<PyDict>() {
        start(key, b'd', object.len())?;
        return object.iter().try_for_each(|(name, member)| {
            add(key, &name, depth)?;
            add(key, &member, depth)
        });
    }
    if let Ok(list) = value.cast_exact::<PyList>() {
        start(key, b'l', list.len())?;
        return list.iter().try_for_each(|item| add(key, &item, depth));
    }
    if let Ok(tuple) = value.cast_exact::<PyTuple>() {
        start(key, b't', tuple.len())?;
        return tuple.iter_borrowed().try_for_each(|item| add(key, &item, depth));
    }
    if let Ok(number) = value.cast_exact::<PyInt>() {
        return match number.extract::<i64>() {
            Ok(number) => plain(key, b'i', &number.to_le_bytes()),
            Err(_) => plain(key, b'n', number.str().ok()?.to_str().ok()?.as_bytes()),
        };
    }
    if let Ok(flag) = value.cast_exact::<PyBool>() {
        return plain(key, if flag.is_true() { b'T' } else { b'F' }, &[]);
    }
    if let Ok(number) = value.cast_exact::<PyFloat>() {
        return plain(key, b'f', &number.value().to_bits().to_le_bytes());
    }
    if let Ok(bytes) = value.cast_exact::<PyBytes>() {
        return plain(key, b'b', bytes.as_bytes());
    }
    if value.is_none() {
        return plain(key, b'N', &[]);
    }
    None
}

/// Return the first integer of JSON that has more than 64 bits, or None.
#[pyfunction]
fn find_large_int<'py>(value: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    first_too_large(value, DEEPEST)
}

fn first_too_large<'py>(value: &Bound<'py, PyAny>, depth: usize) -> Option<Bound<'py, PyAny>> {
    let depth = depth.checked_sub(1)?;
    if is_too_large(value) {
        return Some(value.clone());
    }
    if let Ok(object) = value.cast::<PyDict>() {
        return object.values().iter().find_map(|member| first_too_large(&member, depth));
    }
    if let Ok(list) = value.cast::<PyList>() {
        return list.iter().find_map(|item| first_too_large(&item, depth));
    }
    let tuple = value.cast::<PyTuple>().ok()?;
    tuple.iter().find_map(|item| first_too_large(&item, depth))
}

/// Return whether a value is an integer of more than 64 bits.
pub(crate) fn is_too_large(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyInt>() && value.extract::<i64>().is_err() && value.extract::<u64>().is_err()
}

fn plain(key: &mut Vec<u8>, kind: u8, bytes: &[u8]) -> Option<()> {
    start(key, kind, bytes.len())?;
    (bytes.len() <= LONGEST - key.len()).then(|| key.extend_from_slice(bytes))
}

fn start(key: &mut Vec<u8>, kind: u8, length: usize) -> Option<()> {
    key.push(kind);
    key.extend_from_slice(&(length as u64).to_le_bytes());
    (key.len() < LONGEST).then_some(())
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(find_large_int, module)?)?;
    module.add_function(wrap_pyfunction!(make_cache_key, module)?)
}
