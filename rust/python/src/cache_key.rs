//! Bytes that stand for plain values, by which is recalled what was made of these.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

/// So many bytes a key has at most.
const LONGEST: usize = 1 << 14;

/// As deeply as anything may be nested.
const DEEPEST: usize = 100;

/// Bytes that only equal values have, of which the types are equal, too; None where a value is more than
/// JSON, tuples and bytes, or long.
#[pyfunction]
fn make_cache_key<'py>(value: &Bound<'py, PyAny>) -> Option<Bound<'py, PyBytes>> {
    let mut key = Vec::with_capacity(256);
    add(&mut key, value, DEEPEST).map(|()| PyBytes::new(value.py(), &key))
}

/// Add a value to a key: what kind it is, how long, and what is in it.
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

/// An integer of more than 64 bits that is in JSON, or None.
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

/// Whether it is an integer that JSON of TensorStore cannot have.
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
