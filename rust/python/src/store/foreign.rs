//! Calls a store that is written in Python.

use std::any::Any;

use pyo3::exceptions::{PyFileNotFoundError, PyKeyError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict};
use tessarr_engine::store::{Exchange, Expected, Foreign, Listing, New, Object, Version, Want};
use tessarr_engine::{Error, Result};

use super::bytes_of;
use crate::error::foreign;
use crate::kept::Kept;

/// A mapping of keys to bytes, or an object with the methods of the protocol.
#[derive(Debug)]
pub(super) struct PyForeign {
    object: Py<PyAny>,
    mapping: bool,
    has_open_value: bool,
    has_open_tail: bool,
    has_get_prefix: bool,
    has_replace: bool,
    has_replace_all: bool,
    has_list_dir: bool,
    has_delete_prefix: bool,
    has_hold: bool,
    concurrency: usize,
}

impl PyForeign {
    /// Finds out what `object` offers; also whether it can be changed at all.
    pub(super) fn new(object: &Bound<'_, PyAny>, read_only: bool) -> PyResult<(Self, bool)> {
        let py = object.py();
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
        let foreign = PyForeign {
            concurrency,
            mapping,
            has_open_value: !mapping && has("open_value")?,
            has_open_tail: !mapping && has("open_tail")? && has("open_value")?,
            has_get_prefix: !mapping && has("get_prefix")? && has("open_value")?,
            has_replace: !mapping && has("replace")?,
            has_replace_all: !mapping && has("replace_all")?,
            has_list_dir: !mapping && has("list_dir")?,
            has_delete_prefix: !mapping && has("delete_prefix")?,
            has_hold: !mapping && has("hold")? && !object.is_instance_of::<super::Store>(),
            object: object.clone().unbind(),
        };
        Ok((foreign, changeable))
    }

    pub(super) fn object(&self) -> &Py<PyAny> {
        &self.object
    }

    /// Whether it is a mapping without the methods of a store.
    pub(super) fn is_mapping(&self) -> bool {
        self.mapping
    }

    fn call<T>(&self, work: impl for<'py> FnOnce(&Bound<'py, PyAny>) -> PyResult<T>) -> Result<T> {
        attached(|py| work(self.object.bind(py)))
    }
}

/// Runs `work` with the GIL; an exception becomes the error that carries it.
fn attached<T>(work: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T> {
    match Python::try_attach(|py| work(py).map_err(|raised| foreign(py, raised))) {
        Some(done) => done,
        None => Err(Error::internal("a store written in Python was called while Python shuts down")),
    }
}

/// None for an exception that says "no such key".
fn unless_missing<T>(py: Python<'_>, done: PyResult<T>) -> PyResult<Option<T>> {
    match done {
        Ok(value) => Ok(Some(value)),
        Err(raised) if raised.is_instance_of::<PyKeyError>(py) => Ok(None),
        Err(raised) if raised.is_instance_of::<PyFileNotFoundError>(py) => Ok(None),
        Err(raised) => Err(raised),
    }
}

impl Foreign for PyForeign {
    fn get(&self, key: &str, want: Want) -> Result<Option<Box<dyn Object>>> {
        let ranged = self.has_open_value && want != Want::Whole;
        let found = self.call(|object| {
            let py = object.py();
            let mut head = None;
            if let (true, Want::Prefix(count)) = (self.has_get_prefix, want) {
                let arguments = (key, count.saturating_add(1));
                let found = object.call_method1(intern!(py, "get_prefix"), arguments);
                let Some(found) = unless_missing(py, found)?.filter(|found| !found.is_none()) else {
                    return Ok(None);
                };
                let bytes = Kept::new(bytes_of(&found)?);
                let whole = Whole { bytes };
                if whole.size() <= count {
                    return Ok(Some(Box::new(whole) as Box<dyn Object>));
                }
                head = Some(whole);
            }
            let value = match (self.mapping, ranged) {
                (true, _) => object.get_item(key),
                (false, true) => match want {
                    Want::Suffix(count) if self.has_open_tail => {
                        object.call_method1(intern!(py, "open_tail"), (key, count))
                    }
                    _ => object.call_method1(intern!(py, "open_value"), (key,)),
                },
                (false, false) => object.call_method1(intern!(py, "get"), (key,)),
            };
            let Some(value) = unless_missing(py, value)?.filter(|value| !value.is_none()) else {
                return Ok(None);
            };
            if ranged {
                let size = value.getattr(intern!(py, "size"))?.extract()?;
                let (key, value) = (key.to_owned(), Kept::new(value.unbind()));
                return Ok(Some(Box::new(Ranged { key, value, size, head }) as Box<dyn Object>));
            }
            match bytes_of(&value) {
                Ok(bytes) => Ok(Some(Box::new(Whole { bytes: Kept::new(bytes) }) as Box<dyn Object>)),
                Err(_) => Err(PyTypeError::new_err(format!(
                    "the store {} gave a {} for the key {key:?}, not bytes",
                    object.get_type().fully_qualified_name()?,
                    value.get_type().fully_qualified_name()?
                ))),
            }
        });
        found
    }

    fn put(&self, key: &str, data: &[u8]) -> Result<()> {
        self.call(|object| {
            let py = object.py();
            let data = PyBytes::new(py, data);
            match self.mapping {
                true => object.set_item(key, data),
                false => object.call_method1(intern!(py, "put"), (key, data)).map(drop),
            }
        })
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

    fn replace(&self, key: &str, data: Option<&[u8]>, expected: Option<&[u8]>) -> Result<Option<bool>> {
        if !self.has_replace {
            return Ok(None);
        }
        self.call(|object| {
            let py = object.py();
            let data = data.map(|bytes| PyBytes::new(py, bytes));
            let expected = expected.map(|bytes| PyBytes::new(py, bytes));
            object.call_method1(intern!(py, "replace"), (key, data, expected))?.is_truthy().map(Some)
        })
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
                    // Stores of Python have no versions.
                    Expected::Version(_) => return Ok(None),
                }
                match &change.new {
                    New::Same => {}
                    New::Nothing => values.set_item(&change.key, py.None())?,
                    New::Value(bytes) => values.set_item(&change.key, PyBytes::new(py, bytes))?,
                }
            }
            object.call_method1(intern!(py, "replace_all"), (values, conditions))?.is_truthy().map(Some)
        })
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.call(|object| {
            let keys = match self.mapping {
                true => object.try_iter()?,
                false => object.call_method1(intern!(object.py(), "list"), (prefix,))?.try_iter()?,
            };
            // A mapping may hold what is no key, of any type: that is not ours.
            let texts = keys.filter_map(|key| match key {
                Ok(key) => key.extract::<String>().ok().filter(|key| key.starts_with(prefix)).map(Ok),
                Err(raised) => Some(Err(raised)),
            });
            texts.collect()
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
            Ok(Some(Box::new(Entered { manager: Kept::new(manager.unbind()) }) as Box<dyn Any + Send>))
        })
    }

    fn concurrency(&self) -> usize {
        self.concurrency
    }
}

/// Whether `raised` says that the value which was opened is another one now.
fn is_replaced(py: Python<'_>, raised: &PyErr) -> bool {
    let kind = raised.value(py).getattr_opt(intern!(py, "kind")).ok().flatten();
    kind.is_some_and(|kind| kind.eq("value_replaced").unwrap_or(false))
}

/// A context manager of Python that was entered.
struct Entered {
    manager: Kept<Py<PyAny>>,
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
        drop(left); // Python shuts down, and takes the lock with it
    }
}

/// A value that the store gave whole.
struct Whole {
    bytes: Kept<PyBackedBytes>,
}

impl Whole {
    fn slice(&self) -> &[u8] {
        self.bytes.get().map_or(&[], |bytes| bytes)
    }
}

impl Object for Whole {
    fn size(&self) -> u64 {
        self.slice().len() as u64
    }

    fn version(&self) -> Option<Version> {
        None
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        tessarr_engine::store::read_from(self.slice(), offset, out)
    }

    fn bytes(&self) -> Option<&[u8]> {
        Some(self.slice())
    }
}

/// A value that the store opened, to be read by ranges.
struct Ranged {
    key: String,
    value: Kept<Py<PyAny>>,
    size: u64,
    /// The first bytes, where they came before the value was opened.
    head: Option<Whole>,
}

impl Object for Ranged {
    fn size(&self) -> u64 {
        self.size
    }

    fn version(&self) -> Option<Version> {
        None
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let end = offset.saturating_add(out.len() as u64);
        if let Some(head) = self.head.as_ref().filter(|head| end <= head.size()) {
            return head.read_at(offset, out);
        }
        let value = self.value.get().ok_or_else(|| Error::internal("a value was let go while in use"))?;
        let piece =
            attached(|py| match value.bind(py).call_method1(intern!(py, "read"), (offset, out.len())) {
                Err(raised) if is_replaced(py, &raised) => Ok(None),
                done => Ok(Some(Whole { bytes: Kept::new(bytes_of(&done?)?) })),
            })?;
        let Some(piece) = piece else { return Err(tessarr_engine::store::replaced(&self.key)) };
        let piece = piece.slice();
        if piece.len() != out.len() {
            let (gave, asked) = (piece.len(), out.len());
            return Err(Error::size(format!("the store gave {gave} bytes at offset {offset}, not {asked}")));
        }
        out.copy_from_slice(piece);
        Ok(())
    }
}
