//! Calls of a store that is written in Python.

use std::any::Any;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::runtime::once_cell::intern;
use pyo3::exceptions::{PyFileNotFoundError, PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyList};
use tessarr_engine::store::{
    read_all, Exchange, Expected, Foreign, Listing, NewValue, PrefixChange, ReadHint, ReplaceOutcome,
    StoreInfo, ValueReader, Version,
};
use tessarr_engine::{Error, Result};

use super::bytes_of;
use super::foreign_values::{Bytes, Ranged, Whole};
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
    has_block_check: bool,
    concurrency: usize,
    /// A number for the store in its versions.
    number: u64,
    /// See `Foreign::location`.
    location: Option<String>,
}

impl std::fmt::Debug for PyForeign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PyForeign").field(&self.object).finish()
    }
}

/// How to open a value.
struct Opening {
    method: &'static str,
    /// The offset of the bytes to read at once, for methods with an offset.
    from: Option<u64>,
    /// The number of bytes; None: all.
    count: Option<u64>,
    /// The size up to which opening reads the whole value.
    whole: u64,
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
            Some(limit) if !mapping => limit.extract()?,
            _ => 0,
        };
        let deletes_atomically = match object.getattr_opt("deletes_at_once")? {
            Some(flag) if !mapping && !flag.is_callable() => flag.is_truthy()?,
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
            location: match object.getattr_opt("_location")? {
                Some(location) if !mapping => location.extract().ok(),
                _ => None,
            },
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
            has_block_check: !mapping && has("_check_may_block")?,
            object: object.clone().unbind(),
        };
        Ok((foreign, changeable))
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
        (version, state): (Option<Version>, Option<Version>),
    ) -> PyResult<Whole> {
        let bytes = bytes_of(value).map_err(|_| self.no_bytes(value, key))?;
        Ok(Whole { bytes: Bytes::of(bytes), version, state })
    }

    fn no_bytes(&self, value: &Bound<'_, PyAny>, key: &str) -> PyErr {
        let name =
            |object: &Bound<'_, PyAny>| object.get_type().fully_qualified_name().map(|it| it.to_string());
        match (name(self.object.bind(value.py())), name(value)) {
            (Ok(store), Ok(class)) => PyTypeError::new_err(format!(
                "the store {store} gave a {class} for the key {key:?}, not bytes"
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

    fn version_named(&self, key: &str, tag: &[u8]) -> Option<Version> {
        Version::foreign(self.number, key, tag)
    }

    /// Return the method and the arguments that open a value.
    fn opening(&self, want: ReadHint) -> Opening {
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
    fn opened(
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

    fn call<T>(&self, work: impl for<'py> FnOnce(&Bound<'py, PyAny>) -> PyResult<T>) -> Result<T> {
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

    fn put(self: &Arc<Self>, key: &str, data: &[u8]) -> Result<Option<Version>> {
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

    fn delete(self: &Arc<Self>, key: &str) -> Result<()> {
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
        self: &Arc<Self>,
        key: &str,
        data: Option<&[u8]>,
        expected: Option<&dyn ValueReader>,
    ) -> Result<ReplaceOutcome> {
        let (method, expected) = match (expected, expected.map(ValueReader::version)) {
            (None, _) if self.has_replace_version => ("replace_version", None),
            (_, Some(Some(version))) if self.has_replace_version => {
                ("replace_version", Some(version.tag().to_vec()))
            }
            _ if self.has_replace => ("replace", expected.map(read_all).transpose()?),
            _ => return Ok(ReplaceOutcome::Unsupported),
        };
        self.call(|object| {
            let py = object.py();
            let data = data.map(|bytes| PyBytes::new(py, bytes));
            let expected = expected.map(|bytes| PyBytes::new(py, &bytes));
            let answer = match object.call_method1(method, (key, data, expected)) {
                Err(raised) if is_kind(py, &raised, "answer_lost") => return Ok(ReplaceOutcome::Ambiguous),
                answer => answer?,
            };
            Ok(match (answer.is_truthy()?, self.has_replace_version) {
                (false, _) => ReplaceOutcome::Conflict,
                (true, true) => ReplaceOutcome::Done(self.tagged(&answer, key)?),
                (true, false) => ReplaceOutcome::Done(None),
            })
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

    fn list(self: &Arc<Self>, prefix: &str) -> Result<Vec<String>> {
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

    fn list_dir(self: &Arc<Self>, prefix: &str) -> Result<Option<Listing>> {
        if !self.has_list_dir {
            return Ok(None);
        }
        self.call(|object| {
            let found = object.call_method1(intern!(object.py(), "list_dir"), (prefix,))?;
            let (keys, prefixes) = found.extract()?;
            Ok(Some(Listing { keys, prefixes }))
        })
    }

    fn change_prefix(self: &Arc<Self>, prefix: &str, change: PrefixChange<'_>) -> Result<bool> {
        let is_supported = match change {
            PrefixChange::ReplaceBy(_) => self.has_replace_prefix,
            _ => self.has_delete_prefix,
        };
        if is_supported {
            self.call(|object| match change {
                PrefixChange::ReplaceBy(staged) => {
                    object.call_method1(intern!(object.py(), "replace_prefix"), (staged, prefix)).map(drop)
                }
                _ => object.call_method1(intern!(object.py(), "delete_prefix"), (prefix,)).map(drop),
            })?;
        }
        Ok(is_supported)
    }

    fn changes_atomically(&self, change: PrefixChange<'_>) -> bool {
        match change {
            PrefixChange::ReplaceBy(_) => self.has_replace_prefix,
            _ => self.deletes_atomically,
        }
    }

    fn hold(&self, key: &str) -> Result<Option<Box<dyn Any + Send>>> {
        if !self.has_hold {
            return Ok(None);
        }
        self.call(|object| {
            let manager = object.call_method1(intern!(object.py(), "hold"), (key,))?;
            manager.call_method0(intern!(object.py(), "__enter__"))?;
            Ok(Some(Box::new(HeldLock { manager: GilValue::new(manager.unbind()) }) as Box<dyn Any + Send>))
        })
    }

    fn location(&self) -> Option<&str> {
        self.location.as_deref()
    }

    fn info(&self) -> StoreInfo {
        StoreInfo {
            is_exclusive: self.has_hold || !(self.has_replace || self.has_replace_version),
            concurrency: self.concurrency,
            write_concurrency: self.concurrency,
            ..StoreInfo::default()
        }
    }

    fn check_may_block(&self) -> Result<()> {
        if !self.has_block_check {
            return Ok(());
        }
        self.call(|object| object.call_method0(intern!(object.py(), "_check_may_block")).map(drop))
    }
}

/// Return the error for a response of a wrong length.
pub(super) fn wrong_count(piece: &[u8], offset: u64, count: u64) -> Error {
    Error::size(format!("the store gave {} bytes at offset {offset}, not {count}", piece.len()))
}

/// Return whether `raised` is of a kind of `tessarr.errors.KINDS`.
pub(super) fn is_kind(py: Python<'_>, raised: &PyErr, name: &str) -> bool {
    let kind = raised.value(py).getattr_opt(intern!(py, "kind")).ok().flatten();
    kind.is_some_and(|kind| kind.eq(name).unwrap_or(false))
}

/// An entered context manager of Python.
struct HeldLock {
    manager: GilValue<Py<PyAny>>,
}

impl Drop for HeldLock {
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
