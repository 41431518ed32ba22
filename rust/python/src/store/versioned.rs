//! Reads and writes by generation: the version of a key, as TensorStore's `KvStore` reports it.
//!
//! A generation starts with a byte for its kind. The store's version of the value follows, or a
//! digest of the value if the store has no versions. A missing value has only the first byte.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::runtime::once_cell::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use pyo3::IntoPyObjectExt;
use tessarr_engine::scratch;
use tessarr_engine::store::{self as engine, ReadHint, Span};
use tessarr_engine::{Error, Kind, Result};

use super::{bytes_of, Store};
use crate::runtime::error::{foreign, to_py};

const VERSION: u8 = 0;
const DIGEST: u8 = 1;
const MISSING: [u8; 1] = [2];

/// The size up to which the read of a part reads the whole value, if its store has no versions.
/// This costs less than a second read of the value for its generation.
const SMALL: u64 = 1 << 16;

/// Return the generation of a value whose store has no versions.
#[pyfunction]
#[pyo3(name = "digest_generation")]
pub(super) fn compute_digest(py: Python<'_>, value: &[u8]) -> PyResult<Vec<u8>> {
    let size = PyDict::new(py);
    size.set_item("digest_size", 16)?;
    let hash = py.import(intern!(py, "hashlib"))?.getattr("blake2b")?.call((value,), Some(&size))?;
    let digest = hash.call_method0("digest")?;
    Ok([&[DIGEST], digest.cast::<PyBytes>()?.as_bytes()].concat())
}

/// Return whether a generation is the digest of a value.
fn has_digest(value: &[u8], generation: &[u8]) -> Result<bool> {
    let compared = crate::runtime::atexit::attached(|py| {
        compute_digest(py, value).map(|digest| digest == generation).map_err(|error| foreign(py, error))
    });
    compared.unwrap_or_else(|| Err(Error::internal("nothing can be compared when Python ends")))
}

fn of_version(version: &engine::Version) -> Vec<u8> {
    [&[VERSION], version.bytes()].concat()
}

/// Return the expected state of a key with a generation; None if only the value can decide.
pub(super) fn expected_of(generation: Option<&[u8]>) -> Option<engine::Expected> {
    match generation {
        None | Some([]) => Some(engine::Expected::Anything),
        Some(generation) if *generation == MISSING => Some(engine::Expected::Absent),
        Some([VERSION, version @ ..]) => engine::Version::new(version).map(engine::Expected::Version),
        Some(_) => None,
    }
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// The stored state of a key, as a read needs it.
enum StoredState {
    Missing,
    /// The reader has this generation.
    Known,
    Value(engine::LoadedValue, Option<engine::Version>),
    /// A part of a value without a version, and the whole value.
    Part(Vec<u8>, Vec<u8>),
    /// A part of a value without a version, and its offset.
    PartOf(Vec<u8>, usize),
    /// The read needs more bytes than the limit.
    Unread(Box<dyn engine::ValueReader>),
}

/// A conditional read of a value or of a byte range.
struct ConditionalRead {
    key: String,
    /// The time of the request. The result is valid since then, or newer.
    time: f64,
    /// The generation that the reader has; empty: none.
    known: Vec<u8>,
    /// The byte range; None: the whole value.
    span: Option<Span>,
}

impl ConditionalRead {
    fn is_known(&self, object: &dyn engine::ValueReader) -> Result<bool> {
        match &self.known[..] {
            [VERSION, version @ ..] => Ok(object.state().is_some_and(|state| state.bytes() == version)),
            [DIGEST, ..] => has_digest(&engine::read_all(object)?, &self.known),
            _ => Ok(false),
        }
    }

    /// Return the state of a key with a value, if that needs at most `limit` bytes of the value.
    fn read(&self, object: Option<Box<dyn engine::ValueReader>>, limit: u64) -> Result<StoredState> {
        let Some(object) = object else { return Ok(StoredState::Missing) };
        let size = object.size();
        let is_hashed = matches!(self.known[..], [DIGEST, ..]);
        if (!is_hashed || size <= limit) && self.is_known(&*object)? {
            return Ok(StoredState::Known);
        }
        let (begin, end) = self.span.map_or(Ok((0, size as usize)), |span| within(span, size))?;
        if (if is_hashed { size } else { (end - begin) as u64 }) > limit {
            return Ok(StoredState::Unread(object));
        }
        let version = object.version();
        if self.span.is_none() {
            return Ok(StoredState::Value(engine::LoadedValue::of(object)?, version));
        }
        if version.is_none() && size <= SMALL {
            let whole = engine::read_all(&*object)?;
            return Ok(StoredState::Part(whole.get(begin..end).unwrap_or_default().to_vec(), whole));
        }
        let mut part = scratch::repeated(0, end - begin)?;
        object.read_at(begin as u64, &mut part)?;
        Ok(match version {
            Some(_) => StoredState::Value(engine::LoadedValue::Copied(part), version),
            None => StoredState::PartOf(part, begin),
        })
    }

    /// Return the parts of the result as Python objects, or the open value.
    fn answer(self, py: Python<'_>, state: Result<StoredState>) -> PyResult<Bound<'_, PyAny>> {
        let generation = |generation: &[u8]| Some(PyBytes::new(py, generation).into_any());
        let (name, value, source) = match state.map_err(|error| to_py(py, error.at_key(&self.key)))? {
            StoredState::Missing => ("missing", PyBytes::new(py, b""), generation(&MISSING)),
            StoredState::Known => ("unspecified", PyBytes::new(py, b""), generation(&self.known)),
            StoredState::Value(value, version) => {
                let source = version.and_then(|version| generation(&of_version(&version)));
                ("value", PyBytes::new(py, value.bytes()), source)
            }
            StoredState::Part(value, whole) => {
                ("value", PyBytes::new(py, &value), generation(&compute_digest(py, &whole)?))
            }
            StoredState::PartOf(value, begin) => {
                ("value", PyBytes::new(py, &value), Some(begin.into_bound_py_any(py)?))
            }
            StoredState::Unread(object) => return UnreadValue(Some((object, self))).into_bound_py_any(py),
        };
        (name, value, source, self.time).into_bound_py_any(py)
    }
}

/// Return the byte range of a span in a value of a size.
fn within((first, last): Span, size: u64) -> Result<(usize, usize)> {
    let most = i64::try_from(size).unwrap_or(i64::MAX);
    let begin = if first < 0 { most.saturating_add(first) } else { first };
    let end = last.unwrap_or(most);
    if 0 <= begin && begin <= end && end <= most {
        return Ok((begin as usize, end as usize));
    }
    let last = last.map_or_else(|| "?".to_owned(), |last| last.to_string());
    let message =
        format!("OUT_OF_RANGE: Requested byte range [{first}, {last}) is not valid for value of size {size}");
    Err(Error::new(Kind::Argument, message))
}

/// A value that is open and not yet read.
#[pyclass(module = "tessarr._engine")]
pub(super) struct UnreadValue(Option<(Box<dyn engine::ValueReader>, ConditionalRead)>);

#[pymethods]
impl UnreadValue {
    /// Read the value, once.
    fn read<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let Some((object, request)) = slf.borrow_mut().0.take() else {
            return Err(to_py(py, Error::internal("a value that was opened once is read again")));
        };
        let state = py.detach(|| request.read(Some(object), u64::MAX));
        request.answer(py, state)
    }
}

/// Read a key of `store` with its generation, see `Store.read_versioned`.
pub(super) fn read<'py>(
    py: Python<'py>,
    store: &Store,
    key: &str,
    known: &[u8],
    span: Option<Span>,
    limit: u64,
) -> PyResult<Bound<'py, PyAny>> {
    let time = seconds(store.inner.cache_state(key).coalesced_since.unwrap_or_else(SystemTime::now));
    let request = ConditionalRead { key: key.to_owned(), time, known: known.to_vec(), span };
    let (is_whole, is_remote) = (known.is_empty() && span.is_none(), store.inner.info().concurrency > 0);
    let hint = if is_whole {
        ReadHint::Whole
    } else {
        span.filter(|_| is_remote).map_or(ReadHint::UnknownRanges, engine::read_hint_of)
    };
    // For a range outside of the value, a server may not return the generation, although the reader
    // knows it.
    let lacks_state = |object: &dyn engine::ValueReader| {
        object.state().is_none() && matches!((hint, known), (ReadHint::Range { .. }, [VERSION, ..]))
    };
    let read = || {
        let state = store.inner.read(key, hint, |object| match object {
            Some(object) if lacks_state(&*object) => Ok(None),
            object => request.read(object, limit).map(Some),
        });
        match state? {
            Some(state) => Ok(state),
            None => store.inner.read(key, ReadHint::UnknownRanges, |object| request.read(object, limit)),
        }
    };
    let state = if is_whole { store.run(py, 0, read) } else { py.detach(read) };
    request.answer(py, state)
}

/// The generation of a key after a write, and the time of the write.
pub(super) type Written<'py> = (Bound<'py, PyBytes>, f64);

/// Write a key of `store` if it has the expected generation, see `Store.write_versioned`.
pub(super) fn write<'py>(
    py: Python<'py>,
    store: &Store,
    key: &str,
    data: Option<&Bound<'_, PyAny>>,
    expected: Option<&[u8]>,
) -> PyResult<Written<'py>> {
    let data = data.map(bytes_of).transpose()?;
    let change = || change(&*store.inner, key, data.as_deref(), expected);
    let changed = match expected {
        None | Some([]) => store.run(py, data.as_deref().map_or(0, <[u8]>::len), change),
        Some(_) => py.detach(change),
    };
    let (done, version) = changed.map_err(|error| to_py(py, error))?;
    let generation = match (&data, version) {
        _ if !done => Vec::new(),
        (None, _) => MISSING.to_vec(),
        (Some(_), Some(version)) => of_version(&version),
        (Some(data), None) => compute_digest(py, data)?,
    };
    Ok((PyBytes::new(py, &generation), seconds(SystemTime::now())))
}

/// Change the value, and return whether the write happened, with the new version if the store has
/// one.
fn change(
    store: &dyn engine::Store,
    key: &str,
    data: Option<&[u8]>,
    expected: Option<&[u8]>,
) -> Result<(bool, Option<engine::Version>)> {
    store.keys().check(key)?; // also if no generation can match
    match (expected_of(expected), expected) {
        (Some(expected), _) => store.write(key, data, &expected),
        (None, Some(generation @ [DIGEST, ..])) => {
            let has = |current: Option<&dyn engine::ValueReader>| match current {
                Some(object) => has_digest(&engine::read_all(object)?, generation),
                None => Ok(false),
            };
            store.write_if(key, data, engine::UpdateOptions::READ_CURRENT, has)
        }
        (None, _) => Ok((false, None)), // a missing value has no version
    }
}
