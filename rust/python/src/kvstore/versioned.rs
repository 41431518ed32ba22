//! TensorStore's `ReadResult` and `TimestampedStorageGeneration`.

use std::sync::Arc;

use crate::runtime::once_cell::intern;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyMemoryView, PyString, PyTuple};
use tessarr_engine::store as engine;
use tessarr_engine::Result;

use super::generation::{compute_digest, known_since, of_version, DIGEST};
use crate::runtime::error::{argument, refused, to_py};
use crate::runtime::safe_repr::safe_repr;
use crate::runtime::subclass::{attributes, copy_instance, pickle_parts, set_attributes, PickleParts};
use crate::store::bytes_of;

/// The `__dict__` of an object, if it has one.
type Attributes<'py> = Option<Bound<'py, PyDict>>;

/// The pickled state of a stamp: the generation, the time, and the `__dict__` of the object.
type Known<'py> = (Py<PyBytes>, f64, Attributes<'py>);

/// Bytes from a `bytes` object, a buffer or a UTF-8 string; empty by default.
#[derive(Default)]
pub(crate) struct Octets(Option<Py<PyBytes>>);

impl Octets {
    /// Return the bytes of a value. Errors call the value `what`.
    pub(crate) fn of<'py>(given: &Bound<'py, PyAny>, what: &str) -> PyResult<Bound<'py, PyBytes>> {
        let py = given.py();
        if let Ok(bytes) = given.cast_exact::<PyBytes>() {
            return Ok(bytes.clone());
        }
        if given.is_instance_of::<PyString>() {
            let bytes = given.call_method1(intern!(py, "encode"), ("utf-8", "surrogateescape"));
            let none = |_| argument(py, format!("{what} has to be UTF-8: {}", safe_repr(given)));
            return Ok(bytes.map_err(none)?.cast_into()?);
        }
        let is_octets = given.is_instance_of::<PyBytes>()
            || given.is_instance_of::<PyByteArray>()
            || given.is_instance_of::<PyMemoryView>();
        if is_octets {
            return Ok(PyBytes::new(py, &bytes_of(given)?));
        }
        Err(PyTypeError::new_err(format!("{what} is text or bytes, not {}", safe_repr(given))))
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

/// A time, in seconds since 1970.
struct Seconds(f64);

impl<'a, 'py> FromPyObject<'a, 'py> for Seconds {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        given.extract().map(Seconds).map_err(|error| {
            match error.is_instance_of::<PyOverflowError>(given.py()) {
                true => refused(&given, format!("time: {} is beyond the range of floats", safe_repr(&given))),
                false => error,
            }
        })
    }
}

/// The generation of a key at a time.
///
/// Parameters
/// ----------
/// generation : str or bytes
///     Equal generations mean equal values; empty: unknown.
/// time : float
///     The time at which the key had the generation, in seconds since 1970.
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
    pub(crate) fn of(py: Python<'_>, generation: &[u8], time: f64) -> Self {
        TimestampedStorageGeneration { generation: PyBytes::new(py, generation).unbind(), time }
    }

    /// Return a copy.
    fn same(&self, py: Python<'_>) -> Self {
        TimestampedStorageGeneration { generation: self.generation(py), time: self.time }
    }
}

#[pymethods]
impl TimestampedStorageGeneration {
    /// Create an unknown generation, which `__init__` changes. Subclasses may have other arguments.
    #[new]
    #[pyo3(signature = (*_arguments, **_keywords), text_signature = "(generation='', time=...)")]
    fn new(py: Python<'_>, _arguments: &Bound<'_, PyTuple>, _keywords: Option<&Bound<'_, PyDict>>) -> Self {
        TimestampedStorageGeneration::of(py, b"", f64::NEG_INFINITY)
    }

    #[pyo3(signature = (generation = Octets::default(), time = Seconds(f64::NEG_INFINITY)))]
    fn __init__(slf: &Bound<'_, Self>, generation: Octets, time: Seconds) {
        let generation = generation.bytes(slf.py());
        *slf.borrow_mut() = TimestampedStorageGeneration { generation, time: time.0 };
    }

    /// Equal generations mean equal values; empty: unknown.
    ///
    /// Examples
    /// --------
    /// >>> TimestampedStorageGeneration("x", 5).generation
    /// b'x'
    #[getter]
    fn generation(&self, py: Python<'_>) -> Py<PyBytes> {
        self.generation.clone_ref(py)
    }

    #[setter]
    fn set_generation(slf: &Bound<'_, Self>, generation: Octets) {
        slf.borrow_mut().generation = generation.bytes(slf.py());
    }

    /// The time at which the key had the generation, in seconds since 1970.
    ///
    /// Examples
    /// --------
    /// >>> TimestampedStorageGeneration("x", 5).time
    /// 5.0
    #[getter]
    fn time(&self) -> f64 {
        self.time
    }

    #[setter]
    fn set_time(slf: &Bound<'_, Self>, time: Seconds) {
        slf.borrow_mut().time = time.0;
    }

    fn __eq__(&self, py: Python<'_>, other: &Self) -> bool {
        self.time == other.time && self.generation.as_bytes(py) == other.generation.as_bytes(py)
    }

    fn __copy__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let same = slf.borrow().same(slf.py());
        copy_instance(slf, same, None)
    }

    fn __deepcopy__<'py>(slf: &Bound<'py, Self>, memo: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        let same = slf.borrow().same(slf.py());
        copy_instance(slf, same, Some(memo))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<PickleParts<'py, Known<'py>>> {
        let kept = attributes(slf)?;
        let TimestampedStorageGeneration { generation, time } = slf.borrow().same(slf.py());
        pickle_parts(slf, (generation, time, kept))
    }

    fn __setstate__(slf: &Bound<'_, Self>, state: Known<'_>) -> PyResult<()> {
        let (generation, time, kept) = state;
        *slf.borrow_mut() = TimestampedStorageGeneration { generation, time };
        set_attributes(slf, kept.as_ref())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let generation = self.generation.bind(py).repr()?;
        let time = format!("{:.6}", self.time).to_lowercase();
        Ok(format!("KvStore.TimestampedStorageGeneration({generation}, {time})"))
    }
}

/// Whether a key has a value.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum State {
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
                Err(PyTypeError::new_err(format!("a state is one of {names}, not {}", safe_repr(&state))))
            },
            Ok,
        )
    }
}

/// The stamp of a result.
pub(crate) enum Stamp {
    Made(Py<TimestampedStorageGeneration>),
    /// Not yet computed: the source, and the time since which the value is known.
    Of(Basis, f64),
}

/// The source of a generation.
#[derive(Clone)]
pub(crate) enum Basis {
    Version(engine::Version),
    /// The value itself.
    Value,
    /// The whole value, of which a read returned a part from an offset. This does not keep the
    /// value open, because a program may hold thousands of results.
    PartOf(Arc<dyn engine::Store>, String, usize),
}

/// Return the whole value, if it exists.
fn whole_of(store: &dyn engine::Store, key: &str) -> Result<Option<Vec<u8>>> {
    store.read(key, engine::ReadHint::Whole, |object| {
        object.map(|object| engine::read_all(&*object)).transpose()
    })
}

/// The result of a read.
///
/// Parameters
/// ----------
/// state : {"unspecified", "missing", "value"}
///     Whether the key has a value. Unspecified: it equals the value that the reader has.
/// value : str or bytes
///     The value.
/// stamp : TimestampedStorageGeneration
///     The generation of the value.
///
/// Examples
/// --------
/// >>> import tessarr.tensorstore as ts
/// >>> ts.KvStore.ReadResult("value", "x").value
/// b'x'
#[pyclass(subclass, weakref, module = "tessarr._engine")]
pub(crate) struct ReadResult {
    pub(crate) state: State,
    pub(crate) value: Py<PyBytes>,
    pub(crate) stamp: Stamp,
}

impl ReadResult {
    /// Create a result; without a stamp its generation is unknown.
    fn of(
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

    /// Return the stamp; compute it if necessary.
    fn settle(slf: &Bound<'_, Self>) -> PyResult<Py<TimestampedStorageGeneration>> {
        let py = slf.py();
        let (basis, mut time, value) = {
            let result = slf.borrow();
            match &result.stamp {
                Stamp::Made(made) => return Ok(made.clone_ref(py)),
                Stamp::Of(basis, time) => (basis.clone(), *time, result.value.clone_ref(py)),
            }
        };
        // The object is not borrowed here, because other threads run while this computes a digest.
        let generation = match &basis {
            Basis::Version(version) => of_version(version),
            Basis::Value => compute_digest(py, value.as_bytes(py))?,
            Basis::PartOf(store, key, begin) => {
                time = known_since(&**store, key);
                let whole = py.detach(|| whole_of(&**store, key));
                let part = value.as_bytes(py);
                match whole.map_err(|error| to_py(py, error.at_key(key)))? {
                    Some(whole) if whole.get(*begin..).is_some_and(|rest| rest.starts_with(part)) => {
                        compute_digest(py, &whole)?
                    }
                    _ => vec![DIGEST], // another write replaced that state
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

    /// Return a copy.
    fn same(slf: &Bound<'_, Self>) -> PyResult<Self> {
        let stamp = Stamp::Made(ReadResult::settle(slf)?);
        let result = slf.borrow();
        Ok(ReadResult { state: result.state, value: result.value(slf.py()), stamp })
    }

    /// Return the pickled members.
    fn members(slf: &Bound<'_, Self>) -> PyResult<Members> {
        let stamp = ReadResult::settle(slf)?;
        let result = slf.borrow();
        Ok((result.state(), result.value(slf.py()), stamp))
    }
}

type Members = (&'static str, Py<PyBytes>, Py<TimestampedStorageGeneration>);
type ResultParts = (State, Py<PyBytes>, Py<TimestampedStorageGeneration>);

#[pymethods]
impl ReadResult {
    /// Create an unspecified result, which `__init__` changes. Subclasses may have other arguments.
    #[new]
    #[pyo3(signature = (*_arguments, **_keywords), text_signature = "(state='unspecified', value='', stamp=None)")]
    fn new(
        py: Python<'_>,
        _arguments: &Bound<'_, PyTuple>,
        _keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        ReadResult::of(py, State::Unspecified, Octets::default(), None)
    }

    #[pyo3(signature = (state = State::Unspecified, value = Octets::default(), stamp = None))]
    fn __init__(
        slf: &Bound<'_, Self>,
        state: State,
        value: Octets,
        stamp: Option<Py<TimestampedStorageGeneration>>,
    ) -> PyResult<()> {
        let result = ReadResult::of(slf.py(), state, value, stamp)?;
        let _old = std::mem::replace(&mut *slf.borrow_mut(), result);
        Ok(())
    }

    /// Whether the key has a value.
    ///
    /// Examples
    /// --------
    /// >>> import tessarr.tensorstore as ts
    /// >>> ts.KvStore.open("memory://").result().read("a").result().state
    /// 'missing'
    #[getter]
    fn state(&self) -> &'static str {
        self.state.name()
    }

    #[setter]
    fn set_state(&mut self, state: State) {
        self.state = state;
    }

    /// The value.
    ///
    /// Examples
    /// --------
    /// >>> import tessarr.tensorstore as ts
    /// >>> store = ts.KvStore.open("memory://").result()
    /// >>> store["a"] = b"abc"
    /// >>> store.read("a", byte_range=slice(1, None)).result().value
    /// b'bc'
    #[getter]
    fn value(&self, py: Python<'_>) -> Py<PyBytes> {
        self.value.clone_ref(py)
    }

    #[setter]
    fn set_value(slf: &Bound<'_, Self>, value: Octets) -> PyResult<()> {
        ReadResult::settle(slf)?; // the stamp may be the digest of `value`
        slf.borrow_mut().value = value.bytes(slf.py());
        Ok(())
    }

    /// The generation of the value.
    ///
    /// Examples
    /// --------
    /// >>> import tessarr.tensorstore as ts
    /// >>> store = ts.KvStore.open("memory://").result()
    /// >>> written = store.write("a", b"abc").result()
    /// >>> store.read("a").result().stamp.generation == written.generation
    /// True
    #[getter]
    fn stamp(slf: &Bound<'_, Self>) -> PyResult<Py<TimestampedStorageGeneration>> {
        ReadResult::settle(slf)
    }

    #[setter]
    fn set_stamp(slf: &Bound<'_, Self>, stamp: Py<TimestampedStorageGeneration>) {
        // The old stamp drops after the borrow ends, because its class may have a finalizer.
        let _old = std::mem::replace(&mut slf.borrow_mut().stamp, Stamp::Made(stamp));
    }

    fn __copy__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        copy_instance(slf, ReadResult::same(slf)?, None)
    }

    fn __deepcopy__<'py>(slf: &Bound<'py, Self>, memo: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        copy_instance(slf, ReadResult::same(slf)?, Some(memo))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<PickleParts<'py, (Members, Attributes<'py>)>> {
        pickle_parts(slf, (ReadResult::members(slf)?, attributes(slf)?))
    }

    fn __setstate__(slf: &Bound<'_, Self>, state: (ResultParts, Attributes<'_>)) -> PyResult<()> {
        let ((state, value, stamp), kept) = state;
        let result = ReadResult { state, value, stamp: Stamp::Made(stamp) };
        let _old = std::mem::replace(&mut *slf.borrow_mut(), result);
        set_attributes(slf, kept.as_ref())
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let (state, value, stamp) = ReadResult::members(slf)?;
        let (value, stamp) = (value.bind(slf.py()).repr()?, stamp.bind(slf.py()).repr()?);
        Ok(format!("KvStore.ReadResult(state='{state}', value={value}, stamp={stamp})"))
    }
}
