//! Calls of a store that is written in Python.

use std::any::Any;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::runtime::once_cell::intern;
use pyo3::exceptions::{PyFileNotFoundError, PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBool, PyBytes, PyDict, PyList};
use tessarr_engine::pool::Mailbox;
use tessarr_engine::store::{
    read_all, AsyncGet, AsyncPut, Exchange, Expected, Foreign, Listing, NewValue, PutPrecondition, ReadHint,
    ReplaceOutcome, ValueReader, Version,
};
use tessarr_engine::{Error, Result};

use super::async_bridge::{OpenRequest, PythonGet, PythonPut};
use super::bytes_of;
use super::http_site::{is_engine_thread, HttpSite};
use crate::runtime::bytes::copy_to_bytes;
use crate::runtime::error::{foreign, to_py};
use crate::runtime::gil_value::GilValue;

/// A mapping of keys to bytes, or an object with the methods of the protocol.
pub(super) struct PyForeign {
    object: Py<PyAny>,
    mapping: bool,
    has_open_value: bool,
    has_open_head: bool,
    has_open_tail: bool,
    has_open_part: bool,
    has_replace: bool,
    has_replace_version: bool,
    has_replace_all: bool,
    has_list_dir: bool,
    has_delete_prefix: bool,
    has_replace_prefix: bool,
    deletes_atomically: bool,
    has_hold: bool,
    has_answer: bool,
    /// Requests that Python has not taken.
    pub(super) asked: Mailbox<OpenRequest>,
    concurrency: usize,
    /// The web server of the store, if the engine can send its requests.
    pub(super) site: Option<Py<HttpSite>>,
    /// A number for the store in its versions.
    number: u64,
}

impl std::fmt::Debug for PyForeign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PyForeign").field(&self.object).finish()
    }
}

/// How to open a value.
pub(super) struct Opening {
    pub(super) method: &'static str,
    /// The offset of the bytes to read at once, for methods with an offset.
    pub(super) from: Option<u64>,
    /// The number of bytes; None: all.
    pub(super) count: Option<u64>,
    /// The size up to which opening reads the whole value.
    pub(super) whole: u64,
}

/// The next number of a store without an identity.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

impl PyForeign {
    /// Find the methods of `object`. The second result is whether it accepts changes.
    pub(super) fn new(object: &Bound<'_, PyAny>, read_only: bool) -> PyResult<(Self, bool)> {
        let py = object.py();
        crate::runtime::atexit::prepare(py)?;
        let abc = py.import("collections.abc")?;
        let has = |name: &str| object.getattr_opt(name).map(|method| method.is_some_and(|m| m.is_callable()));
        let mapping = object.is_instance(&abc.getattr("Mapping")?)? && !has("put")?;
        let changeable = match mapping {
            true => object.is_instance(&abc.getattr("MutableMapping")?)?,
            false => has("put")? && has("delete")?,
        };
        if !mapping && !(has("get")? && has("list")? && (changeable || read_only)) {
            return Err(PyTypeError::new_err(format!(
                "{} is not a store: it is neither a mapping of keys to bytes \
                 nor has it the methods get, put, delete and list",
                object.get_type().fully_qualified_name()?
            )));
        }
        let concurrency = match object.getattr_opt("concurrency")? {
            Some(wanted) if !mapping => wanted.extract()?,
            _ => 0,
        };
        let deletes_atomically = match object.getattr_opt("deletes_at_once")? {
            Some(told) if !mapping && !told.is_callable() => told.is_truthy()?,
            _ => false,
        };
        let mut number = DefaultHasher::new();
        match object.getattr_opt("identity")? {
            Some(identity) if !mapping => identity.extract::<String>()?.hash(&mut number),
            _ => NUMBERS.fetch_add(1, Ordering::Relaxed).hash(&mut number),
        }
        let foreign = PyForeign {
            concurrency,
            number: number.finish(),
            mapping,
            has_open_value: !mapping && has("open_value")?,
            has_open_head: !mapping && has("open_head")? && has("open_value")?,
            has_open_tail: !mapping && has("open_tail")? && has("open_value")?,
            has_open_part: !mapping && has("open_part")? && has("open_value")?,
            has_replace: !mapping && has("replace")?,
            has_replace_version: !mapping && has("replace_version")? && has("open_head")?,
            has_replace_all: !mapping && has("replace_all")?,
            has_list_dir: !mapping && has("list_dir")?,
            has_delete_prefix: !mapping && has("delete_prefix")?,
            has_replace_prefix: !mapping
                && has("replace_prefix")?
                && !object.is_instance_of::<super::Store>(),
            deletes_atomically,
            has_hold: !mapping && has("hold")? && !object.is_instance_of::<super::Store>(),
            has_answer: !mapping && has("_serve_requests")? && has("open_head")?,
            asked: Mailbox::default(),
            site: if mapping { None } else { HttpSite::of(object)? },
            object: object.clone().unbind(),
        };
        Ok((foreign, changeable))
    }

    /// Take the queued requests that are still active.
    pub(super) fn wanted(&self) -> Vec<OpenRequest> {
        self.asked.take().into_iter().filter(OpenRequest::is_active).collect()
    }

    pub(super) fn object(&self) -> &Py<PyAny> {
        &self.object
    }

    /// Return whether the object is a mapping without the methods of a store.
    pub(super) fn is_mapping(&self) -> bool {
        self.mapping
    }

    /// Return the version of an open value, if the store has one.
    fn version(&self, value: &Bound<'_, PyAny>, key: &str) -> PyResult<Option<Version>> {
        let found = value.getattr_opt(intern!(value.py(), "version"))?;
        found.map_or(Ok(None), |tag| self.tagged(&tag, key))
    }

    /// Return the state of an open value: a weaker version, which may miss changes.
    fn state(&self, value: &Bound<'_, PyAny>, key: &str) -> PyResult<Option<Version>> {
        let found = value.getattr_opt(intern!(value.py(), "state"))?;
        found.map_or(Ok(None), |tag| self.tagged(&tag, key))
    }

    /// Return a whole value with its version and state.
    fn whole(
        &self,
        value: &Bound<'_, PyAny>,
        key: &str,
        told: (Option<Version>, Option<Version>),
    ) -> PyResult<Whole> {
        let bytes = bytes_of(value).map_err(|_| self.no_bytes(value, key))?;
        Ok(Whole { bytes: Bytes::of(bytes), version: told.0, state: told.1 })
    }

    fn no_bytes(&self, value: &Bound<'_, PyAny>, key: &str) -> PyErr {
        let name =
            |object: &Bound<'_, PyAny>| object.get_type().fully_qualified_name().map(|it| it.to_string());
        match (name(self.object.bind(value.py())), name(value)) {
            (Ok(store), Ok(given)) => PyTypeError::new_err(format!(
                "the store {store} gave a {given} for the key {key:?}, not bytes"
            )),
            (Err(raised), _) | (_, Err(raised)) => raised,
        }
    }

    /// Return the version of a tag; None, True and False are not tags.
    fn tagged(&self, tag: &Bound<'_, PyAny>, key: &str) -> PyResult<Option<Version>> {
        if tag.is_none() || tag.is_instance_of::<PyBool>() {
            return Ok(None);
        }
        Ok(self.version_named(key, &bytes_of(tag)?))
    }

    pub(super) fn version_named(&self, key: &str, tag: &[u8]) -> Option<Version> {
        Version::foreign(self.number, key, tag)
    }

    /// Return the method and the arguments that open a value.
    pub(super) fn opening(&self, want: ReadHint) -> Opening {
        let (method, from, count, whole) = match want {
            ReadHint::Prefix(most) if self.has_open_head => ("open_head", None, most.checked_add(1), most),
            ReadHint::Suffix(count) if self.has_open_tail => ("open_tail", None, Some(count), 0),
            ReadHint::Range { offset, count } if self.has_open_part => {
                ("open_part", Some(offset), Some(count), 0)
            }
            ReadHint::Whole => ("open_head", None, None, u64::MAX),
            _ => ("open_value", None, None, 0),
        };
        Opening { method, from, count, whole }
    }

    /// Return the reader of an opened value; None: the key is missing.
    pub(super) fn opened(
        &self,
        key: &str,
        value: &Bound<'_, PyAny>,
        opening: &Opening,
    ) -> PyResult<Option<Box<dyn ValueReader>>> {
        if value.is_none() {
            return Ok(None);
        }
        let py = value.py();
        let size = value.getattr(intern!(py, "size"))?.extract()?;
        let version = self.version(value, key)?;
        let state = if version.is_some() { version } else { self.state(value, key)? };
        if size <= opening.whole {
            let bytes = value.call_method1(intern!(py, "read"), (0, size))?;
            let whole = self.whole(&bytes, key, (version, state))?;
            if whole.size() != size {
                let error = wrong_count(whole.slice(), 0, size);
                return Err(to_py(py, error.at_key(key)));
            }
            return Ok(Some(Box::new(whole)));
        }
        let (key, value) = (key.to_owned(), GilValue::new(value.clone().unbind()));
        Ok(Some(Box::new(Ranged { key, value, size, version, state })))
    }

    /// Return a version, if the store compares versions.
    pub(super) fn compared(&self, version: Option<Version>) -> Option<Version> {
        version.filter(|_| self.has_replace_version)
    }

    /// Replace a value with a call of the Python store.
    pub(super) fn write_by_python(&self, key: &str, data: &[u8]) -> Result<Option<Version>> {
        self.call(|object| {
            let py = object.py();
            let data = copy_to_bytes(py, data)?;
            if self.mapping {
                return object.set_item(key, data).map(|()| None);
            }
            let answer = object.call_method1(intern!(py, "put"), (key, data))?;
            Ok(if self.has_replace_version { self.tagged(&answer, key)? } else { None })
        })
    }

    pub(super) fn call<T>(&self, work: impl for<'py> FnOnce(&Bound<'py, PyAny>) -> PyResult<T>) -> Result<T> {
        attached(|py| work(self.object.bind(py)))
    }
}

/// Run `work` with the GIL held, and convert its exception to an error of the engine.
pub(super) fn attached<T>(work: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T> {
    match crate::runtime::atexit::attached(|py| work(py).map_err(|raised| foreign(py, raised))) {
        Some(done) => done,
        None => Err(Error::internal("a store written in Python was called while Python shuts down")),
    }
}

/// Return None for an exception that means a missing key.
fn unless_missing<T>(py: Python<'_>, done: PyResult<T>) -> PyResult<Option<T>> {
    match done {
        Ok(value) => Ok(Some(value)),
        Err(raised) if raised.is_instance_of::<PyKeyError>(py) => Ok(None),
        Err(raised) if raised.is_instance_of::<PyFileNotFoundError>(py) => Ok(None),
        Err(raised) => Err(raised),
    }
}

impl Foreign for PyForeign {
    fn get(self: &Arc<Self>, key: &str, want: ReadHint) -> Result<Option<Box<dyn ValueReader>>> {
        if let Some(opened) = self.open_at_site(key, want)? {
            return opened;
        }
        self.call(|object| {
            let py = object.py();
            let opens = match want {
                ReadHint::Whole => self.has_open_head,
                _ => self.has_open_value,
            };
            if !opens {
                let found = match self.mapping {
                    true => object.get_item(key),
                    false => object.call_method1(intern!(py, "get"), (key,)),
                };
                let value = unless_missing(py, found)?.filter(|value| !value.is_none());
                let whole =
                    |value| Ok(Box::new(self.whole(&value, key, (None, None))?) as Box<dyn ValueReader>);
                return value.map(whole).transpose();
            }
            let opening = self.opening(want);
            let found = match opening.method {
                "open_value" => object.call_method1(intern!(py, "open_value"), (key,)),
                method => match opening.from {
                    Some(from) => object.call_method1(method, (key, from, opening.count)),
                    None => object.call_method1(method, (key, opening.count)),
                },
            };
            unless_missing(py, found)?.map_or(Ok(None), |value| self.opened(key, &value, &opening))
        })
    }

    fn put(&self, key: &str, data: &[u8]) -> Result<Option<Version>> {
        match self.write_to_site(key, data, PutPrecondition::Anything)? {
            Some(ReplaceOutcome::Done(version)) => Ok(self.compared(version)),
            _ => self.write_by_python(key, data),
        }
    }

    fn delete(&self, key: &str) -> Result<()> {
        self.call(|object| {
            let py = object.py();
            let done = match self.mapping {
                true => object.del_item(key),
                false => object.call_method1(intern!(py, "delete"), (key,)).map(drop),
            };
            unless_missing(py, done).map(drop)
        })
    }

    fn replace(
        &self,
        key: &str,
        data: Option<&[u8]>,
        expected: Option<&dyn ValueReader>,
    ) -> Result<ReplaceOutcome> {
        let before = match (expected, expected.map(ValueReader::version)) {
            (None, _) => Some(PutPrecondition::Absent),
            (_, Some(Some(version))) => Some(PutPrecondition::HasTag(version.tag().to_vec())),
            _ => None,
        };
        let mut refused = ReplaceOutcome::Conflict;
        if let (Some(before), Some(data), true) = (before, data, self.has_replace_version) {
            match self.write_to_site(key, data, before)? {
                // Python repeats the write, which the store may then reject.
                Some(ReplaceOutcome::Ambiguous) => refused = ReplaceOutcome::Ambiguous,
                Some(done) => return Ok(done),
                None => {}
            }
        }
        let (method, expected) = match (expected, expected.map(ValueReader::version)) {
            (None, _) if self.has_replace_version => ("replace_version", None),
            (_, Some(Some(version))) if self.has_replace_version => {
                ("replace_version", Some(version.tag().to_vec()))
            }
            _ if self.has_replace => ("replace", expected.map(read_all).transpose()?),
            _ => return Ok(ReplaceOutcome::Unsupported),
        };
        let answer = self.call(|object| {
            let py = object.py();
            let data = data.map(|bytes| PyBytes::new(py, bytes));
            let expected = expected.map(|bytes| PyBytes::new(py, &bytes));
            let answer = match object.call_method1(method, (key, data, expected)) {
                Err(raised) if is_kind(py, &raised, "answer_lost") => return Ok(ReplaceOutcome::Ambiguous),
                answer => answer?,
            };
            Ok(match (answer.is_truthy()?, self.has_replace_version) {
                (false, _) => refused,
                (true, true) => ReplaceOutcome::Done(self.tagged(&answer, key)?),
                (true, false) => ReplaceOutcome::Done(None),
            })
        });
        answer.map_err(|error| {
            if refused == ReplaceOutcome::Ambiguous {
                error.after_ambiguous_write()
            } else {
                error
            }
        })
    }

    fn compares_versions(&self) -> bool {
        self.has_replace_version
    }

    fn exchange(&self, changes: &[Exchange]) -> Result<Option<bool>> {
        if !self.has_replace_all {
            return Ok(None);
        }
        self.call(|object| {
            let py = object.py();
            let conditions = PyDict::new(py);
            let values = PyDict::new(py);
            for change in changes {
                match &change.expected {
                    Expected::Anything => {}
                    Expected::Absent => conditions.set_item(&change.key, py.None())?,
                    Expected::Bytes(bytes) => conditions.set_item(&change.key, PyBytes::new(py, bytes))?,
                    Expected::Version(_) => return Ok(None),
                }
                match &change.new {
                    NewValue::Unchanged => {}
                    NewValue::Absent => values.set_item(&change.key, py.None())?,
                    NewValue::Value(bytes) => values.set_item(&change.key, PyBytes::new(py, bytes))?,
                }
            }
            object.call_method1(intern!(py, "replace_all"), (values, conditions))?.is_truthy().map(Some)
        })
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.call(|object| {
            let py = object.py();
            let keys = match self.mapping {
                true => object.clone(),
                false => object.call_method1(intern!(py, "list"), (prefix,))?,
            };
            // A single call lists the keys, so that no other thread changes a dictionary during the
            // listing. It lists an iterator, because the length of a mapping may require a full
            // listing.
            let keys = py.get_type::<PyList>().call1((keys.try_iter()?,))?.cast_into::<PyList>()?;
            // A mapping may hold other objects than keys; this skips them.
            let texts = keys.iter().filter_map(|key| key.extract::<String>().ok());
            Ok(texts.filter(|key| key.starts_with(prefix)).collect())
        })
    }

    fn list_dir(&self, prefix: &str) -> Result<Option<Listing>> {
        if !self.has_list_dir {
            return Ok(None);
        }
        self.call(|object| {
            let found = object.call_method1(intern!(object.py(), "list_dir"), (prefix,))?;
            let (keys, prefixes) = found.extract()?;
            Ok(Some(Listing { keys, prefixes }))
        })
    }

    fn delete_prefix(&self, prefix: &str) -> Result<bool> {
        if self.has_delete_prefix {
            self.call(|object| {
                object.call_method1(intern!(object.py(), "delete_prefix"), (prefix,)).map(drop)
            })?;
        }
        Ok(self.has_delete_prefix)
    }

    fn hold(&self, key: &str) -> Result<Option<Box<dyn Any + Send>>> {
        if !self.has_hold {
            return Ok(None);
        }
        self.call(|object| {
            let manager = object.call_method1(intern!(object.py(), "hold"), (key,))?;
            manager.call_method0(intern!(object.py(), "__enter__"))?;
            Ok(Some(Box::new(Entered { manager: GilValue::new(manager.unbind()) }) as Box<dyn Any + Send>))
        })
    }

    fn is_exclusive(&self) -> bool {
        self.has_hold || !(self.has_replace || self.has_replace_version)
    }

    fn deletes_atomically(&self) -> bool {
        self.deletes_atomically
    }

    fn replaces_atomically(&self) -> bool {
        self.has_replace_prefix
    }

    fn replace_prefix(&self, staged: &str, prefix: &str) -> Result<bool> {
        if !self.has_replace_prefix {
            return Ok(false);
        }
        self.call(|object| {
            object.call_method1(intern!(object.py(), "replace_prefix"), (staged, prefix)).map(|_| true)
        })
    }

    fn concurrency(&self) -> usize {
        self.concurrency
    }

    fn async_get(self: Arc<Self>) -> Option<Arc<dyn AsyncGet>> {
        self.has_answer.then(|| Arc::new(PythonGet(self)) as Arc<dyn AsyncGet>)
    }

    fn async_put(self: Arc<Self>) -> Option<Arc<dyn AsyncPut>> {
        self.site_accepts_writes().then(|| Arc::new(PythonPut(self)) as Arc<dyn AsyncPut>)
    }

    fn check_may_block(&self) -> Result<()> {
        if !self.has_answer || is_engine_thread() {
            return Ok(());
        }
        let refusal = self.call(|object| {
            let refusal = object.call_method0(intern!(object.py(), "_reentry_error"))?;
            Ok((!refusal.is_none()).then(|| foreign(object.py(), PyErr::from_value(refusal))))
        });
        match refusal {
            Ok(Some(refusal)) => Err(refusal),
            _ => Ok(()), // the request reports an error of the check itself
        }
    }
}

/// Return the error for a response of a wrong length.
pub(super) fn wrong_count(piece: &[u8], offset: u64, count: u64) -> Error {
    Error::size(format!("the store gave {} bytes at offset {offset}, not {count}", piece.len()))
}

/// Return whether `raised` is of a kind of `tessarr.errors.KINDS`.
fn is_kind(py: Python<'_>, raised: &PyErr, wanted: &str) -> bool {
    let kind = raised.value(py).getattr_opt(intern!(py, "kind")).ok().flatten();
    kind.is_some_and(|kind| kind.eq(wanted).unwrap_or(false))
}

/// An entered context manager of Python.
struct Entered {
    manager: GilValue<Py<PyAny>>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let left = attached(|py| {
            let Some(manager) = self.manager.get() else { return Ok(()) };
            let none = py.None();
            let manager = manager.bind(py);
            let left = manager.call_method1(intern!(py, "__exit__"), (&none, &none, &none));
            if let Err(raised) = left {
                raised.write_unraisable(py, Some(manager));
            }
            Ok(())
        });
        drop(left); // None: Python shuts down and releases the lock
    }
}

/// Up to this size, a copy takes less time than the later release of Python's object, for which a
/// thread waits for the GIL.
const COPIED_BYTES: usize = 64 << 10;

/// Bytes from Python.
pub(super) enum Bytes {
    Copied(Box<[u8]>),
    GilValue(GilValue<PyBackedBytes>),
}

impl Bytes {
    fn of(bytes: PyBackedBytes) -> Bytes {
        match bytes.len() <= COPIED_BYTES {
            true => Bytes::Copied(bytes.as_ref().into()),
            false => Bytes::GilValue(GilValue::new(bytes)),
        }
    }
}

/// A whole value from the store.
pub(super) struct Whole {
    pub(super) bytes: Bytes,
    pub(super) version: Option<Version>,
    pub(super) state: Option<Version>,
}

impl Whole {
    fn slice(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Copied(bytes) => bytes,
            Bytes::GilValue(bytes) => bytes.get().map_or(&[], |bytes| bytes),
        }
    }
}

impl ValueReader for Whole {
    fn size(&self) -> u64 {
        self.slice().len() as u64
    }

    fn version(&self) -> Option<Version> {
        self.version
    }

    fn state(&self) -> Option<Version> {
        self.state
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        tessarr_engine::store::read_from(self.slice(), offset, out)
    }

    fn bytes(&self) -> Option<&[u8]> {
        Some(self.slice())
    }
}

/// An open value of the store, which reads byte ranges.
struct Ranged {
    key: String,
    value: GilValue<Py<PyAny>>,
    size: u64,
    version: Option<Version>,
    state: Option<Version>,
}

impl ValueReader for Ranged {
    fn size(&self) -> u64 {
        self.size
    }

    fn version(&self) -> Option<Version> {
        self.version
    }

    fn state(&self) -> Option<Version> {
        self.state
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let value = self.value.get().ok_or_else(|| Error::internal("a value was let go while in use"))?;
        let piece =
            attached(|py| match value.bind(py).call_method1(intern!(py, "read"), (offset, out.len())) {
                Err(raised) if is_kind(py, &raised, "value_replaced") => Ok(None),
                done => Ok(Some(bytes_of(&done?)?)),
            })?;
        let Some(piece) = piece else { return Err(tessarr_engine::store::replaced(&self.key)) };
        if piece.len() != out.len() {
            return Err(wrong_count(&piece, offset, out.len() as u64));
        }
        out.copy_from_slice(&piece);
        Ok(())
    }
}
