//! Conditional reads by generation.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tessarr_engine::scratch;
use tessarr_engine::store::{self as engine, ReadHint, Span};
use tessarr_engine::{Error, Kind, Result};

use super::generation::{compute_digest, has_digest, known_since, DIGEST, MISSING, VERSION};
use super::versioned::{Basis, ReadResult, Stamp, State, TimestampedStorageGeneration};
use crate::runtime::error::to_py;
use crate::store::Store;

/// The size up to which the read of a part reads the whole value, if its store has no versions.
/// This costs less than an open value for its generation.
const SMALL: u64 = 1 << 16;

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
    /// The value is larger than the limit.
    More(Box<dyn engine::ValueReader>),
}

/// A conditional read of a value or of a byte range.
struct ConditionalRead {
    store: Arc<dyn engine::Store>,
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

    /// Return the result for a value, if it needs at most `most` bytes of the value.
    fn find(&self, object: Option<Box<dyn engine::ValueReader>>, most: u64) -> Result<StoredState> {
        let Some(object) = object else { return Ok(StoredState::Missing) };
        let size = object.size();
        let hashed = matches!(self.known[..], [DIGEST, ..]);
        if (!hashed || size <= most) && self.is_known(&*object)? {
            return Ok(StoredState::Known);
        }
        let (begin, end) = self.span.map_or(Ok((0, size as usize)), |span| within(span, size))?;
        if (if hashed { size } else { (end - begin) as u64 }) > most {
            return Ok(StoredState::More(object));
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

    fn answer(self, py: Python<'_>, found: StoredState) -> PyResult<ReadOutcome> {
        let time = self.time;
        let stamp = |generation: &[u8]| {
            Ok::<_, PyErr>(Stamp::Made(Py::new(py, TimestampedStorageGeneration::of(py, generation, time))?))
        };
        let (state, value, stamp) = match found {
            StoredState::Missing => (State::Missing, PyBytes::new(py, b""), stamp(&MISSING)?),
            StoredState::Known => (State::Unspecified, PyBytes::new(py, b""), stamp(&self.known)?),
            StoredState::Value(value, version) => {
                let basis = version.map_or(Basis::Value, Basis::Version);
                (State::Value, PyBytes::new(py, value.bytes()), Stamp::Of(basis, time))
            }
            StoredState::Part(value, whole) => {
                (State::Value, PyBytes::new(py, &value), stamp(&compute_digest(py, &whole)?)?)
            }
            StoredState::PartOf(value, begin) => {
                let basis = Basis::PartOf(self.store, self.key, begin);
                (State::Value, PyBytes::new(py, &value), Stamp::Of(basis, time))
            }
            StoredState::More(object) => {
                return Ok(ReadOutcome::Later(UnreadValue(Some((object, self)))));
            }
        };
        Ok(ReadOutcome::Now(ReadResult { state, value: value.unbind(), stamp }))
    }
}

/// A value that is open and not yet read.
#[pyclass(module = "tessarr._engine")]
pub(crate) struct UnreadValue(Option<(Box<dyn engine::ValueReader>, ConditionalRead)>);

#[pymethods]
impl UnreadValue {
    /// Read the value, once.
    fn read(slf: &Bound<'_, Self>) -> PyResult<ReadOutcome> {
        let py = slf.py();
        let Some((object, wish)) = slf.borrow_mut().0.take() else {
            return Err(to_py(py, Error::internal("a value that was opened once is read again")));
        };
        let found = py.detach(|| wish.find(Some(object), u64::MAX));
        let found = found.map_err(|error| to_py(py, error.at_key(&wish.key)))?;
        wish.answer(py, found)
    }
}

/// The outcome of a read: the result, or an open value that is too large to read at once.
#[derive(IntoPyObject)]
pub(crate) enum ReadOutcome {
    Now(ReadResult),
    Later(UnreadValue),
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
    let what =
        format!("OUT_OF_RANGE: Requested byte range [{first}, {last}) is not valid for value of size {size}");
    Err(Error::new(Kind::Argument, what))
}

/// Read a key of `store` with its generation, see `Store.read_versioned`.
pub(crate) fn read(
    py: Python<'_>,
    store: &Store,
    key: &str,
    known: &[u8],
    span: Option<Span>,
    most: u64,
) -> PyResult<ReadOutcome> {
    let time = known_since(&*store.inner, key);
    let wish = ConditionalRead {
        store: store.inner.clone(),
        key: key.to_owned(),
        time,
        known: known.to_vec(),
        span,
    };
    let (whole, far) = (known.is_empty() && span.is_none(), store.inner.concurrency() > 0);
    let want = if whole {
        ReadHint::Whole
    } else {
        span.filter(|_| far).map_or(ReadHint::UnknownRanges, engine::read_hint_of)
    };
    // For a range outside of the value, a server may not return the generation, although the reader
    // knows it.
    let untold = |object: &dyn engine::ValueReader| {
        object.state().is_none() && matches!((want, known), (ReadHint::Range { .. }, [VERSION, ..]))
    };
    let find = || {
        let found = store.inner.read(key, want, |object| match object {
            Some(object) if untold(&*object) => Ok(None),
            object => wish.find(object, most).map(Some),
        });
        match found? {
            Some(found) => Ok(found),
            None => store.inner.read(key, ReadHint::UnknownRanges, |object| wish.find(object, most)),
        }
    };
    let found = if whole { store.run(py, 0, find) } else { py.detach(find) };
    wish.answer(py, found.map_err(|error| to_py(py, error.at_key(key)))?)
}
