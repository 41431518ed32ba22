//! Values with the generations that tell their states, as TensorStore's `KvStore` gives them.
//!
//! A generation is one byte that says what follows: the version that the store has for the state, or,
//! where it has none, a digest of the value; or nothing, where there is no value.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyMemoryView, PyString, PyType};
use tessarr_engine::scratch;
use tessarr_engine::store as engine;
use tessarr_engine::{Error, Kind, Result};

use super::{bytes_of, Store};
use crate::error::{foreign, to_py};

const VERSION: u8 = 0;
const DIGEST: u8 = 1;
const MISSING: [u8; 1] = [2];

/// Bytes, which text is in UTF-8; by default none.
#[derive(Default)]
pub(super) struct Octets(Option<Py<PyBytes>>);

impl Octets {
    /// The bytes of a value; `what` says in the error what is no text and no bytes.
    pub(super) fn of<'py>(given: &Bound<'py, PyAny>, what: &str) -> PyResult<Bound<'py, PyBytes>> {
        let py = given.py();
        if let Ok(bytes) = given.cast_exact::<PyBytes>() {
            return Ok(bytes.clone());
        }
        if given.is_instance_of::<PyString>() {
            let bytes = given.call_method1(intern!(py, "encode"), ("utf-8", "surrogateescape"))?;
            return Ok(bytes.cast_into()?);
        }
        let is_octets = given.is_instance_of::<PyBytes>()
            || given.is_instance_of::<PyByteArray>()
            || given.is_instance_of::<PyMemoryView>();
        if is_octets {
            return Ok(PyBytes::new(py, &bytes_of(given)?));
        }
        Err(PyTypeError::new_err(format!("{what} is text or bytes, not {}", given.repr()?)))
    }

    fn bytes(self, py: Python<'_>) -> Py<PyBytes> {
        self.0.unwrap_or_else(|| PyBytes::new(py, b"").unbind())
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Octets {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Octets(Some(Octets::of(&given, "it")?.unbind())))
    }
}

/// The generation of a value whose store does not tell its version.
fn digest(py: Python<'_>, value: &[u8]) -> PyResult<Vec<u8>> {
    let size = PyDict::new(py);
    size.set_item("digest_size", 16)?;
    let hash = py.import(intern!(py, "hashlib"))?.getattr("blake2b")?.call((value,), Some(&size))?;
    let found = hash.call_method0("digest")?;
    Ok([&[DIGEST], found.cast::<PyBytes>()?.as_bytes()].concat())
}

/// Whether a value has the digest that a generation is.
fn has_digest(value: &[u8], generation: &[u8]) -> Result<bool> {
    let compared = Python::try_attach(|py| {
        digest(py, value).map(|found| found == generation).map_err(|error| foreign(py, error))
    });
    compared.unwrap_or_else(|| Err(Error::internal("nothing can be compared when Python ends")))
}

/// All of a value, if there is one.
fn whole_of(store: &dyn engine::Store, key: &str) -> Result<Option<Vec<u8>>> {
    store.read(key, engine::Want::Whole, |object| object.map(|object| engine::read_all(&*object)).transpose())
}

fn of_version(version: &engine::Version) -> Vec<u8> {
    [&[VERSION], version.bytes()].concat()
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// Which state a key was in, and when.
///
/// Parameters
/// ----------
/// generation : str or bytes
///     Equal ones mean equal values; empty: not known.
/// time : float
///     When that was so, in seconds since 1970.
///
/// Examples
/// --------
/// >>> import tessarr.tensorstore as ts
/// >>> ts.KvStore.TimestampedStorageGeneration("x", 5)
/// KvStore.TimestampedStorageGeneration(b'x', 5.000000)
#[pyclass(subclass, weakref, module = "tessarr._engine")]
pub(crate) struct TimestampedStorageGeneration {
    generation: Py<PyBytes>,
    time: f64,
}

impl TimestampedStorageGeneration {
    fn of(py: Python<'_>, generation: &[u8], time: f64) -> Self {
        TimestampedStorageGeneration { generation: PyBytes::new(py, generation).unbind(), time }
    }
}

#[pymethods]
impl TimestampedStorageGeneration {
    #[new]
    #[pyo3(signature = (generation = Octets::default(), time = f64::NEG_INFINITY))]
    fn new(py: Python<'_>, generation: Octets, time: f64) -> Self {
        TimestampedStorageGeneration { generation: generation.bytes(py), time }
    }

    /// Equal ones mean equal values; empty: not known.
    #[getter]
    fn generation(&self, py: Python<'_>) -> Py<PyBytes> {
        self.generation.clone_ref(py)
    }

    #[setter]
    fn set_generation(&mut self, py: Python<'_>, generation: Octets) {
        self.generation = generation.bytes(py);
    }

    /// When that was so, in seconds since 1970.
    #[getter]
    fn time(&self) -> f64 {
        self.time
    }

    #[setter]
    fn set_time(&mut self, time: f64) {
        self.time = time;
    }

    fn __eq__(&self, py: Python<'_>, other: &Self) -> bool {
        self.time == other.time && self.generation.as_bytes(py) == other.generation.as_bytes(py)
    }

    fn __copy__(&self, py: Python<'_>) -> Self {
        TimestampedStorageGeneration { generation: self.generation(py), time: self.time }
    }

    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyDict>) -> Self {
        self.__copy__(py)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyType>, (Py<PyBytes>, f64)) {
        let stamp = slf.borrow();
        (slf.get_type(), (stamp.generation(slf.py()), stamp.time))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let generation = self.generation.bind(py).repr()?;
        let time = format!("{:.6}", self.time).to_lowercase();
        Ok(format!("KvStore.TimestampedStorageGeneration({generation}, {time})"))
    }
}

/// Whether there is a value.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Unspecified,
    Missing,
    Value,
}

impl State {
    const NAMES: [(&'static str, State); 3] =
        [("unspecified", State::Unspecified), ("missing", State::Missing), ("value", State::Value)];

    fn name(self) -> &'static str {
        State::NAMES.iter().find(|(_, state)| *state == self).map_or("", |(name, _)| name)
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for State {
    type Error = PyErr;

    fn extract(state: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let named = state.extract::<&str>().ok();
        let found = State::NAMES.iter().find(|(name, _)| named == Some(name));
        found.map(|(_, state)| *state).map_or_else(
            || {
                let names = State::NAMES.map(|(name, _)| name).join(", ");
                Err(PyTypeError::new_err(format!("a state is one of {names}, not {}", state.repr()?)))
            },
            Ok,
        )
    }
}

/// The stamp of a result.
enum Stamp {
    Made(Py<TimestampedStorageGeneration>),
    /// Nobody asked for it yet; since when it is so.
    Of(Basis, f64),
}

/// What a generation is made of.
#[derive(Clone)]
enum Basis {
    Version(engine::Version),
    /// The value itself.
    Value,
    /// All of a value of which a part, from some byte on, was read. It is not kept open: somebody may
    /// have thousands of results.
    PartOf(Arc<dyn engine::Store>, String, usize),
}

/// What reading a key gave.
///
/// Parameters
/// ----------
/// state : {"unspecified", "missing", "value"}
///     Whether there is a value. Unspecified: it is what the reader has already.
/// value : str or bytes
///     The value.
/// stamp : TimestampedStorageGeneration
///     Which state that is.
///
/// Examples
/// --------
/// >>> import tessarr.tensorstore as ts
/// >>> ts.KvStore.ReadResult("value", "x").value
/// b'x'
#[pyclass(subclass, weakref, module = "tessarr._engine")]
pub(crate) struct ReadResult {
    state: State,
    value: Py<PyBytes>,
    stamp: Stamp,
}

impl ReadResult {
    /// The stamp, made by now.
    fn settle(slf: &Bound<'_, Self>) -> PyResult<Py<TimestampedStorageGeneration>> {
        let py = slf.py();
        let (basis, mut time, value) = {
            let result = slf.borrow();
            match &result.stamp {
                Stamp::Made(made) => return Ok(made.clone_ref(py)),
                Stamp::Of(basis, time) => (basis.clone(), *time, result.value.clone_ref(py)),
            }
        };
        // Nothing is borrowed meanwhile: other threads run while a digest is made.
        let generation = match &basis {
            Basis::Version(version) => of_version(version),
            Basis::Value => digest(py, value.as_bytes(py))?,
            Basis::PartOf(store, key, begin) => {
                time = now();
                let whole = py.detach(|| whole_of(&**store, key));
                let part = value.as_bytes(py);
                match whole.map_err(|error| to_py(py, error.at_key(key)))? {
                    Some(whole) if whole.get(*begin..).is_some_and(|rest| rest.starts_with(part)) => {
                        digest(py, &whole)?
                    }
                    _ => vec![DIGEST], // it was changed since: that state is gone
                }
            }
        };
        let made = Py::new(py, TimestampedStorageGeneration::of(py, &generation, time))?;
        let mut result = slf.borrow_mut();
        if let Stamp::Made(earlier) = &result.stamp {
            return Ok(earlier.clone_ref(py));
        }
        result.stamp = Stamp::Made(made.clone_ref(py));
        Ok(made)
    }

    /// What another one can be made of.
    fn members(slf: &Bound<'_, Self>) -> PyResult<Members> {
        let stamp = ReadResult::settle(slf)?;
        let result = slf.borrow();
        Ok((result.state(), result.value(slf.py()), stamp))
    }
}

type Members = (&'static str, Py<PyBytes>, Py<TimestampedStorageGeneration>);

#[pymethods]
impl ReadResult {
    #[new]
    #[pyo3(signature = (state = State::Unspecified, value = Octets::default(), stamp = None))]
    fn new(
        py: Python<'_>,
        state: State,
        value: Octets,
        stamp: Option<Py<TimestampedStorageGeneration>>,
    ) -> PyResult<Self> {
        let value = value.bytes(py);
        let stamp = match stamp {
            Some(stamp) => stamp,
            None => Py::new(py, TimestampedStorageGeneration::of(py, b"", f64::NEG_INFINITY))?,
        };
        Ok(ReadResult { state, value, stamp: Stamp::Made(stamp) })
    }

    /// Whether there is a value.
    #[getter]
    fn state(&self) -> &'static str {
        self.state.name()
    }

    #[setter]
    fn set_state(&mut self, state: State) {
        self.state = state;
    }

    /// The value.
    #[getter]
    fn value(&self, py: Python<'_>) -> Py<PyBytes> {
        self.value.clone_ref(py)
    }

    #[setter]
    fn set_value(slf: &Bound<'_, Self>, value: Octets) -> PyResult<()> {
        ReadResult::settle(slf)?; // it may be the digest of the value that was read
        slf.borrow_mut().value = value.bytes(slf.py());
        Ok(())
    }

    /// Which state that is.
    #[getter]
    fn stamp(slf: &Bound<'_, Self>) -> PyResult<Py<TimestampedStorageGeneration>> {
        ReadResult::settle(slf)
    }

    #[setter]
    fn set_stamp(&mut self, stamp: Py<TimestampedStorageGeneration>) {
        self.stamp = Stamp::Made(stamp);
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyType>, Members)> {
        Ok((slf.get_type(), ReadResult::members(slf)?))
    }

    fn __copy__(slf: &Bound<'_, Self>) -> PyResult<Self> {
        let stamp = Stamp::Made(ReadResult::settle(slf)?);
        let result = slf.borrow();
        Ok(ReadResult { state: result.state, value: result.value(slf.py()), stamp })
    }

    fn __deepcopy__(slf: &Bound<'_, Self>, _memo: &Bound<'_, PyDict>) -> PyResult<Self> {
        ReadResult::__copy__(slf)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let (state, value, stamp) = ReadResult::members(slf)?;
        let (value, stamp) = (value.bind(slf.py()).repr()?, stamp.bind(slf.py()).repr()?);
        Ok(format!("KvStore.ReadResult(state='{state}', value={value}, stamp={stamp})"))
    }
}

/// The first byte, from the end if negative, and the one behind the last; None: to the end.
type Span = (i64, Option<i64>);

/// A value of at most so many bytes is read when a part of it is, if its store tells no version: that
/// takes less than keeping it open for somebody who may ask which state it is in.
const SMALL: u64 = 1 << 16;

/// What was found at a key.
enum Found {
    Missing,
    /// What the reader has already.
    Known,
    Value(engine::Loaded, Option<engine::Version>),
    /// A part of a value without a version, and all of it.
    Part(Vec<u8>, Vec<u8>),
    /// A part of a value without a version, and where it begins.
    PartOf(Vec<u8>, usize),
    /// More than may be read now.
    More(Box<dyn engine::Object>),
}

/// What somebody wants to know of a value.
struct Wish {
    store: Arc<dyn engine::Store>,
    key: String,
    /// When he asked: what is found was so since then, or is newer.
    time: f64,
    /// The generation that he has; empty: none.
    known: Vec<u8>,
    /// Which bytes; None: all.
    span: Option<Span>,
}

impl Wish {
    fn is_known(&self, object: &dyn engine::Object) -> Result<bool> {
        match &self.known[..] {
            [VERSION, version @ ..] => Ok(object.state().is_some_and(|state| state.bytes() == version)),
            [DIGEST, ..] => has_digest(&engine::read_all(object)?, &self.known),
            _ => Ok(false),
        }
    }

    /// What is to be told of a value, if that needs at most so many bytes of it.
    fn find(&self, object: Option<Box<dyn engine::Object>>, most: u64) -> Result<Found> {
        let Some(object) = object else { return Ok(Found::Missing) };
        let size = object.size();
        let hashed = matches!(self.known[..], [DIGEST, ..]);
        if (!hashed || size <= most) && self.is_known(&*object)? {
            return Ok(Found::Known);
        }
        let (begin, end) = self.span.map_or(Ok((0, size as usize)), |span| within(span, size))?;
        if (if hashed { size } else { (end - begin) as u64 }) > most {
            return Ok(Found::More(object));
        }
        let version = object.version();
        if self.span.is_none() {
            return Ok(Found::Value(engine::Loaded::of(object)?, version));
        }
        if version.is_none() && size <= SMALL {
            let whole = engine::read_all(&*object)?;
            return Ok(Found::Part(whole.get(begin..end).unwrap_or_default().to_vec(), whole));
        }
        let mut part = scratch::repeated(0, end - begin)?;
        object.read_at(begin as u64, &mut part)?;
        Ok(match version {
            Some(_) => Found::Value(engine::Loaded::Copied(part), version),
            None => Found::PartOf(part, begin),
        })
    }

    fn answer(self, py: Python<'_>, found: Found) -> PyResult<Answer> {
        let time = self.time;
        let stamp = |generation: &[u8]| {
            Ok::<_, PyErr>(Stamp::Made(Py::new(py, TimestampedStorageGeneration::of(py, generation, time))?))
        };
        let (state, value, stamp) = match found {
            Found::Missing => (State::Missing, PyBytes::new(py, b""), stamp(&MISSING)?),
            Found::Known => (State::Unspecified, PyBytes::new(py, b""), stamp(&self.known)?),
            Found::Value(value, version) => {
                let basis = version.map_or(Basis::Value, Basis::Version);
                (State::Value, PyBytes::new(py, value.bytes()), Stamp::Of(basis, time))
            }
            Found::Part(value, whole) => {
                (State::Value, PyBytes::new(py, &value), stamp(&digest(py, &whole)?)?)
            }
            Found::PartOf(value, begin) => {
                let basis = Basis::PartOf(self.store, self.key, begin);
                (State::Value, PyBytes::new(py, &value), Stamp::Of(basis, time))
            }
            Found::More(object) => {
                return Ok(Answer::Later(Unread(Some((object, self)))));
            }
        };
        Ok(Answer::Now(ReadResult { state, value: value.unbind(), stamp }))
    }
}

/// A value that was opened, and is not read yet.
#[pyclass(module = "tessarr._engine")]
pub(crate) struct Unread(Option<(Box<dyn engine::Object>, Wish)>);

#[pymethods]
impl Unread {
    /// Read it, once.
    fn read(slf: &Bound<'_, Self>) -> PyResult<Answer> {
        let py = slf.py();
        let Some((object, wish)) = slf.borrow_mut().0.take() else {
            return Err(to_py(py, Error::internal("a value that was opened once is read again")));
        };
        let found = py.detach(|| wish.find(Some(object), u64::MAX));
        let found = found.map_err(|error| to_py(py, error.at_key(&wish.key)))?;
        wish.answer(py, found)
    }
}

/// What asking for a value gives.
#[derive(IntoPyObject)]
pub(crate) enum Answer {
    Now(ReadResult),
    Later(Unread),
}

/// Which bytes of a value of some size a span is.
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

/// The value of a key of `store`, and which state it is in: see `Store.read_stamped`.
pub(super) fn read(
    py: Python<'_>,
    store: &Store,
    key: &str,
    known: &[u8],
    span: Option<Span>,
    most: u64,
) -> PyResult<Answer> {
    let wish =
        Wish { store: store.inner.clone(), key: key.to_owned(), time: now(), known: known.to_vec(), span };
    let whole = known.is_empty() && span.is_none();
    let want = if whole { engine::Want::Whole } else { engine::Want::Ranges };
    let find = || store.inner.read(key, want, |object| wish.find(object, most));
    let found = if whole { store.run(py, 0, find) } else { py.detach(find) };
    wish.answer(py, found.map_err(|error| to_py(py, error.at_key(key)))?)
}

/// Changes a key of `store` if it is in an expected state: see `Store.write_stamped`.
pub(super) fn write(
    py: Python<'_>,
    store: &Store,
    key: &str,
    data: Option<&Bound<'_, PyAny>>,
    expected: Option<&[u8]>,
) -> PyResult<TimestampedStorageGeneration> {
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
        (Some(data), None) => digest(py, data)?,
    };
    Ok(TimestampedStorageGeneration::of(py, &generation, now()))
}

/// Whether it was changed, and the version of the new value, where the store can tell.
fn change(
    store: &dyn engine::Store,
    key: &str,
    data: Option<&[u8]>,
    expected: Option<&[u8]>,
) -> Result<(bool, Option<engine::Version>)> {
    store.keys().check(key)?; // also where no generation is like the expected one
    match (expected_of(expected), expected) {
        (Some(expected), _) => store.write(key, data, &expected),
        (None, Some(generation @ [DIGEST, ..])) => {
            let has = |current: Option<&dyn engine::Object>| match current {
                Some(object) => has_digest(&engine::read_all(object)?, generation),
                None => Ok(false),
            };
            store.write_if(key, data, engine::Need::CURRENT, has)
        }
        (None, _) => Ok((false, None)), // that of no value
    }
}

/// What a key is that has a generation, where that can be told without its value.
pub(super) fn expected_of(generation: Option<&[u8]>) -> Option<engine::Expected> {
    match generation {
        None | Some([]) => Some(engine::Expected::Anything),
        Some(generation) if *generation == MISSING => Some(engine::Expected::Absent),
        Some([VERSION, version @ ..]) => engine::Version::new(version).map(engine::Expected::Version),
        Some(_) => None,
    }
}
