//! `KvStoreBase`: a store, a key prefix and a transaction.

use std::borrow::Cow;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::runtime::once_cell::intern;
use crate::runtime::once_cell::OnceCell;
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyType};
use pyo3::{IntoPyObjectExt, PyTraverseError, PyVisit};
use tessarr_engine::{Error, Kind};

use super::transaction::{replace_transaction, TransactionBase};
use super::versioned::Octets;
use crate::runtime::error::{argument, is_of, to_py};
use crate::runtime::safe_repr::safe_repr;
use crate::runtime::subclass::new_like;
use crate::store::memory::MemoryStore;
use crate::store::Store;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<StoreLocation>()?;
    module.add_class::<KvStoreBase>()?;
    module.add_function(wrap_pyfunction!(as_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(as_text, module)?)?;
    module.add_function(wrap_pyfunction!(join_path, module)?)
}

/// Return the UTF-8 bytes of a string, or bytes. Errors call the value `what`.
#[pyfunction]
fn as_bytes<'py>(value: &Bound<'py, PyAny>, what: &str) -> PyResult<Bound<'py, PyBytes>> {
    Octets::of(value, what)
}

/// Return a path or a key as a string; bytes must be UTF-8. Errors call the value `what`.
#[pyfunction]
#[pyo3(signature = (value, what = "a path"))]
fn as_text<'py>(value: &Bound<'py, PyAny>, what: &str) -> PyResult<Bound<'py, PyString>> {
    match value.cast_exact::<PyString>() {
        Ok(text) if text.to_str().is_ok() => Ok(text.clone()),
        _ => Ok(PyString::new(value.py(), &text(value, what)?)),
    }
}

/// Return a path or a key as a string for the engine.
fn text<'a>(value: &'a Bound<'_, PyAny>, what: &str) -> PyResult<Cow<'a, str>> {
    if let Ok(Ok(text)) = value.cast::<PyString>().map(|text| text.to_str()) {
        return Ok(Cow::Borrowed(text));
    }
    let bytes = Octets::of(value, what)?;
    match std::str::from_utf8(bytes.as_bytes()) {
        Ok(text) => Ok(Cow::Owned(text.to_owned())),
        Err(_) => Err(argument(value.py(), format!("{what} has to be UTF-8: {}", safe_repr(value)))),
    }
}

/// Join a path and a component with one slash.
#[pyfunction]
fn join_path<'py>(
    path: &Bound<'py, PyString>,
    component: &Bound<'py, PyString>,
) -> PyResult<Bound<'py, PyString>> {
    let (before, behind) = (path.to_str()?, component.to_str()?);
    let between = if before.ends_with('/') || behind.starts_with('/') { "" } else { "/" };
    Ok(match (before, behind) {
        ("", _) => component.clone(),
        (_, "") => path.clone(),
        _ => PyString::new(path.py(), &[before, between, behind].concat()),
    })
}

/// The location of the keys of a key-value store.
///
/// Parameters
/// ----------
/// store
///     The store that contains the keys.
/// prefix
///     The prefix of the keys in the store.
/// strip_slash
///     Whether to remove a slash at the beginning of the key with its path.
/// read_only
///     Whether the location rejects listings and changes.
#[pyclass(frozen, module = "tessarr._engine")]
pub(crate) struct StoreLocation {
    #[pyo3(get)]
    store: Py<Store>,
    prefix: Box<str>,
    strip_slash: bool,
    #[pyo3(get)]
    read_only: bool,
}

impl StoreLocation {
    /// Return the key in the store.
    fn whole(&self, path: &str, key: &str) -> String {
        let mut whole = [&self.prefix, path, key].concat();
        if self.strip_slash && whole.starts_with('/') {
            whole.remove(0);
        }
        whole
    }
}

#[pymethods]
impl StoreLocation {
    #[new]
    #[pyo3(signature = (store, prefix = "", *, strip_slash = false, read_only = false))]
    fn new(store: Py<Store>, prefix: &str, strip_slash: bool, read_only: bool) -> Self {
        StoreLocation { store, prefix: prefix.into(), strip_slash, read_only }
    }

    /// Return the location of a new store in memory in which any string is a key.
    #[staticmethod]
    fn in_memory(py: Python<'_>) -> PyResult<Self> {
        let store = MemoryStore::of_texts(py)?.into_super();
        Ok(StoreLocation::new(store.unbind(), "", false, false))
    }

    /// Return the same location in another store, such as a wrapper.
    fn with_store(&self, store: Py<Store>) -> Self {
        StoreLocation::new(store, &self.prefix, self.strip_slash, self.read_only)
    }

    /// Return the location of keys that begin with a path.
    fn with_prefix(&self, py: Python<'_>, path: &str) -> Self {
        let prefix = [&self.prefix, path].concat();
        StoreLocation::new(self.store.clone_ref(py), &prefix, self.strip_slash, self.read_only)
    }

    /// Return the key in the store.
    fn key(&self, path: &str) -> String {
        self.whole(path, "")
    }
}

/// The attributes of a key-value store that users can change.
struct Mutable {
    path: Py<PyString>,
    transaction: Option<Py<TransactionBase>>,
}

impl Mutable {
    fn clone_ref(&self, py: Python<'_>) -> Self {
        let transaction = self.transaction.as_ref().map(|transaction| transaction.clone_ref(py));
        Mutable { path: self.path.clone_ref(py), transaction }
    }
}

/// Base of `KvStore`: its spec, the location of its keys and its path.
///
/// The spec is bound, and this class ignores its path. This class reads and changes keys in memory.
/// For other stores the methods `_read`, `_write` and `_start_delete_range` of the subclass start
/// the operation.
///
/// `_staging_store` and `_staging_range` return the store that stages changes. `_unsupported`
/// returns the error of an unsupported operation, and `_raise_conflict` receives a read that a
/// conflicting write invalidates.
#[pyclass(subclass, frozen, mapping, module = "tessarr._engine")]
pub(crate) struct KvStoreBase {
    #[pyo3(get, name = "_spec")]
    spec: Py<PyAny>,
    #[pyo3(get, name = "_location")]
    place: Py<StoreLocation>,
    chosen: Mutex<Mutable>,
}

/// A source of copies of a key-value store. It never changes, so that copies need no lock.
pub(crate) struct KvStoreCopier {
    of: Py<KvStoreBase>,
    chosen: Mutable,
}

impl KvStoreCopier {
    pub(crate) fn of(store: &Bound<'_, KvStoreBase>) -> KvStoreCopier {
        KvStoreCopier { of: store.clone().unbind(), chosen: store.get().chosen().clone_ref(store.py()) }
    }

    pub(crate) fn copy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, KvStoreBase>> {
        KvStoreBase::other(self.of.bind(py), self.chosen.clone_ref(py))
    }

    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.of)?;
        visit.call(&self.chosen.transaction)
    }
}

/// The first key of a range, and the first key after it; empty: no end.
type Ends<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// A store, a key prefix, the first key and the first key after the range.
type Range<'py> = (Bound<'py, Store>, String, Vec<u8>, Vec<u8>);

impl KvStoreBase {
    /// Return the attributes that users can change. No Python code runs while they are locked.
    fn chosen(&self) -> MutexGuard<'_, Mutable> {
        self.chosen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place<'a>(&'a self, py: Python<'a>) -> &'a StoreLocation {
        self.place.bind(py).get()
    }

    fn path(&self, py: Python<'_>) -> Py<PyString> {
        self.chosen().path.clone_ref(py)
    }

    /// Return the key in the store.
    fn whole(&self, key: &Bound<'_, PyAny>) -> PyResult<String> {
        let py = key.py();
        let key = text(key, "a key")?;
        Ok(self.place(py).whole(self.path(py).to_str(py)?, &key))
    }

    /// Raise an error if the location is read-only and `refused` is true.
    fn check(slf: &Bound<'_, Self>, refused: bool, what: &str) -> PyResult<()> {
        if refused && slf.get().place(slf.py()).read_only {
            return Err(PyErr::from_value(slf.call_method1("_unsupported", (what,))?));
        }
        Ok(())
    }

    /// Return the key in the store, and the store.
    fn at<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        writes: bool,
    ) -> PyResult<(String, Bound<'py, Store>)> {
        let whole = slf.get().whole(key)?;
        let store = KvStoreBase::_store(slf, &whole, writes)?;
        Ok((whole, store))
    }

    /// Return the error of a read. The subclass handles a conflict first.
    fn failed(slf: &Bound<'_, Self>, error: PyErr) -> PyErr {
        let py = slf.py();
        if is_of(py, &error, Kind::Conflict) {
            return slf
                .call_method1(intern!(py, "_raise_conflict"), (error.value(py),))
                .err()
                .unwrap_or(error);
        }
        error
    }

    /// Return the same store with another path.
    fn with_path<'py>(slf: &Bound<'py, Self>, path: Bound<'py, PyString>) -> PyResult<Bound<'py, Self>> {
        let transaction = slf.get()._transaction(slf.py());
        KvStoreBase::other(slf, Mutable { path: path.unbind(), transaction })
    }

    /// Return the same store with another path and transaction.
    fn other<'py>(slf: &Bound<'py, Self>, chosen: Mutable) -> PyResult<Bound<'py, Self>> {
        let (py, this) = (slf.py(), slf.get());
        let made = KvStoreBase {
            spec: this.spec.clone_ref(py),
            place: this.place.clone_ref(py),
            chosen: Mutex::new(chosen),
        };
        new_like(slf, made)
    }

    /// Return a completed future with a result or an error.
    fn completed_future<'py>(
        py: Python<'py>,
        done: PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        static FINISHED: OnceCell<Py<PyAny>> = OnceCell::new();
        static FAILED: OnceCell<Py<PyAny>> = OnceCell::new();
        static NOTHING: OnceCell<Py<PyAny>> = OnceCell::new();
        const FUTURES: &str = "tessarr.tensorstore.future.future";
        match done {
            Ok(value) if value.is_none() => Ok(NOTHING.import(py, FUTURES, "NOTHING")?.clone()),
            Ok(value) => FINISHED.import(py, FUTURES, "finished")?.call1((value,)),
            Err(error) if error.is_instance_of::<PyException>(py) => {
                FAILED.import(py, FUTURES, "failed")?.call1((error,))
            }
            Err(interrupt) => Err(interrupt),
        }
    }

    /// Return whether operations complete at once: keys are in memory and no transaction stages
    /// changes.
    fn is_nonblocking(&self, py: Python<'_>) -> bool {
        let place = self.place(py);
        place.store.get().inner.is_nonblocking() && !place.read_only && self.chosen().transaction.is_none()
    }
}

#[pymethods]
impl KvStoreBase {
    #[new]
    #[pyo3(signature = (spec = None, place = None, path = None, transaction = None))]
    fn new(
        spec: Option<Py<PyAny>>,
        place: Option<Py<StoreLocation>>,
        path: Option<Py<PyString>>,
        transaction: Option<Py<TransactionBase>>,
    ) -> PyResult<Self> {
        let (Some(spec), Some(place), Some(path)) = (spec, place, path) else {
            return Err(PyTypeError::new_err("key-value stores are had by KvStore.open"));
        };
        Ok(KvStoreBase { spec, place, chosen: Mutex::new(Mutable { path, transaction }) })
    }

    // Threads hold the lock briefly, and never during a garbage collection, so this visits all
    // references.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.spec)?;
        self.chosen.try_lock().map_or(Ok(()), |chosen| visit.call(&chosen.transaction))
    }

    /// The prefix of each key.
    #[getter(_path)]
    fn _path(&self, py: Python<'_>) -> Py<PyString> {
        self.path(py)
    }

    #[setter(_path)]
    fn set_path(&self, path: Bound<'_, PyAny>) -> PyResult<()> {
        let path = as_text(&path, "a path")?.unbind();
        let _old = std::mem::replace(&mut self.chosen().path, path);
        Ok(())
    }

    /// The transaction that stages changes.
    #[getter(_transaction)]
    fn _transaction(&self, py: Python<'_>) -> Option<Py<TransactionBase>> {
        self.chosen().transaction.as_ref().map(|transaction| transaction.clone_ref(py))
    }

    #[setter(_transaction)]
    fn set_transaction(&self, transaction: Option<Py<TransactionBase>>) {
        let _old = std::mem::replace(&mut self.chosen().transaction, transaction);
    }

    /// Return a copy, whose path and transaction can be changed.
    ///
    /// Examples
    /// --------
    /// >>> import tessarr.tensorstore as ts
    /// >>> store = ts.KvStore.open("memory://a/").result()
    /// >>> other = store.copy()
    /// >>> other.path = "b/"
    /// >>> store.url, other.url
    /// ('memory://a/', 'memory://b/')
    fn copy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let chosen = slf.get().chosen().clone_ref(slf.py());
        KvStoreBase::other(slf, chosen)
    }

    /// Return this store with a transaction that stages its changes.
    ///
    /// Raises
    /// ------
    /// ArgumentError
    ///     If its transaction is not committed.
    ///
    /// Examples
    /// --------
    /// >>> import tessarr.tensorstore as ts
    /// >>> store = ts.KvStore.open("memory://").result()
    /// >>> with ts.Transaction() as transaction:
    /// ...     store.with_transaction(transaction)["a"] = b"abc"
    /// ...     seen = "a" in store
    /// >>> seen, "a" in store
    /// (False, True)
    fn with_transaction<'py>(
        slf: &Bound<'py, Self>,
        transaction: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Self>> {
        let (py, this) = (slf.py(), slf.get());
        let transaction = replace_transaction(this._transaction(py), transaction)?.map(Bound::unbind);
        KvStoreBase::other(slf, Mutable { path: this.path(py), transaction })
    }

    fn __add__<'py>(slf: &Bound<'py, Self>, suffix: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        let py = slf.py();
        let suffix = text(suffix, "a path")?;
        let path = PyString::new(py, &[slf.get().path(py).to_str(py)?, &suffix].concat());
        KvStoreBase::with_path(slf, path)
    }

    fn __truediv__<'py>(slf: &Bound<'py, Self>, component: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        let py = slf.py();
        let component = as_text(component, "a path")?;
        KvStoreBase::with_path(slf, join_path(slf.get().path(py).bind(py), &component)?)
    }

    /// Return the key in the store.
    fn _key(&self, key: &Bound<'_, PyAny>) -> PyResult<String> {
        self.whole(key)
    }

    /// Return the store of a key; with a transaction the staging store. This first stages the array
    /// elements of the write buffer that belong to the chunk of the key.
    #[pyo3(signature = (key, writes = false))]
    fn _store<'py>(slf: &Bound<'py, Self>, key: &str, writes: bool) -> PyResult<Bound<'py, Store>> {
        let (py, this) = (slf.py(), slf.get());
        KvStoreBase::check(slf, writes, "written")?;
        let store = this.place(py).store.bind(py);
        let Some(transaction) = this._transaction(py) else {
            return Ok(store.clone());
        };
        match TransactionBase::stage(transaction.bind(py), store)? {
            Some(stage) => Ok(stage),
            None => {
                let staged = slf.call_method1(intern!(py, "_staging_store"), (key, writes));
                let told = |error| if writes { error } else { KvStoreBase::failed(slf, error) };
                Ok(staged.map_err(told)?.cast_into()?)
            }
        }
    }

    /// Return the store of a key range below the path, and the prefix and bounds of the range in
    /// it.
    #[pyo3(signature = (ends, writes = false))]
    fn _range<'py>(slf: &Bound<'py, Self>, ends: Ends<'py>, writes: bool) -> PyResult<Range<'py>> {
        let (py, this) = (slf.py(), slf.get());
        KvStoreBase::check(slf, true, if writes { "written" } else { "listed" })?;
        let start = this.place(py).key(this.path(py).to_str(py)?);
        let key_after = |key: &Bound<'_, PyBytes>| [start.as_bytes(), key.as_bytes()].concat();
        let (first, last) = ends;
        let last = if last.as_bytes().is_empty() { Vec::new() } else { key_after(&last) };
        let first = key_after(&first);
        let store = if this.chosen().transaction.is_none() {
            this.place(py).store.bind(py).clone()
        } else {
            let staged =
                slf.call_method1(intern!(py, "_staging_range"), (&start, &*first, &*last, writes))?;
            staged.cast_into()?
        };
        Ok((store, start, first, last))
    }

    fn __getitem__<'py>(slf: &Bound<'py, Self>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (key, store) = KvStoreBase::at(slf, key, false)?;
        let found = store.get().get(slf.py(), &key, None, None);
        found.map_err(|error| KvStoreBase::failed(slf, error))?.ok_or_else(|| {
            to_py(slf.py(), Error::new(Kind::NotFound, "there is none in this store").at_key(&key))
        })
    }

    fn __contains__(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (key, store) = KvStoreBase::at(slf, key, false)?;
        let found = store.get().size(slf.py(), &key).map_err(|error| KvStoreBase::failed(slf, error))?;
        Ok(found.is_some())
    }

    fn __setitem__(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let (key, store) = KvStoreBase::at(slf, key, true)?;
        if value.is_none() {
            return store.get().delete(slf.py(), &key);
        }
        let data = Octets::of(value, "a value")?;
        store.get().put(slf.py(), &key, &data)
    }

    fn __delitem__(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let (key, store) = KvStoreBase::at(slf, key, true)?;
        store.get().delete(slf.py(), &key)
    }

    /// Read the value of a key; a missing key is no error.
    ///
    /// Parameters
    /// ----------
    /// key
    ///     The key below the path.
    /// if_not_equal
    ///     A generation. If the value still has it, the value is not read, and the state of
    ///     the result is "unspecified".
    /// staleness_bound
    ///     Accepted and ignored: no value is cached, every read sends a request.
    /// batch
    ///     The batch that collects reads until it is submitted.
    /// byte_range
    ///     The byte range: ``slice(5, 10)``, ``slice(5, None)``, ``slice(None, 10)`` or, for
    ///     the last bytes, ``slice(-5, None)``.
    ///
    /// Examples
    /// --------
    /// >>> import tessarr.tensorstore as ts
    /// >>> store = ts.KvStore.open("memory://").result()
    /// >>> store["a"] = b"abc"
    /// >>> store.read("a").result().value, store.read("b").result().state
    /// (b'abc', 'missing')
    /// >>> known = store.read("a").result().stamp.generation
    /// >>> store.read("a", if_not_equal=known).result().state
    /// 'unspecified'
    #[pyo3(signature = (key, *, if_not_equal = None, staleness_bound = None, batch = None, byte_range = None))]
    fn read<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        if_not_equal: Option<&Bound<'py, PyAny>>,
        staleness_bound: Option<&Bound<'py, PyAny>>,
        batch: Option<&Bound<'py, PyAny>>,
        byte_range: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let key = this.whole(key)?;
        let options = (if_not_equal, staleness_bound, batch, byte_range);
        if !matches!(options, (None, None, None, None)) || !this.is_nonblocking(py) {
            return slf
                .call_method1(intern!(py, "_read"), (key, if_not_equal, staleness_bound, batch, byte_range));
        }
        let found = this.place(py).store.get().read_versioned(py, &key, None, None, None);
        KvStoreBase::completed_future(py, found.and_then(|found| found.into_bound_py_any(py)))
    }

    /// Replace the value of a key.
    ///
    /// Parameters
    /// ----------
    /// key
    ///     The key below the path.
    /// value
    ///     The new value; None deletes the key.
    /// if_equal
    ///     A generation. If the value has another one, nothing changes, and the generation of
    ///     the result is empty. In a transaction the value must have this generation at the
    ///     commit: otherwise the commit fails and changes nothing.
    ///
    /// Examples
    /// --------
    /// >>> import tessarr.tensorstore as ts
    /// >>> store = ts.KvStore.open("memory://").result()
    /// >>> known = store.write("a", b"abc").result().generation
    /// >>> store.write("a", b"new", if_equal=known).result().generation != b""
    /// True
    /// >>> store.write("a", b"too late", if_equal=known).result().generation, store["a"]
    /// (b'', b'new')
    #[pyo3(signature = (key, value, *, if_equal = None))]
    fn write<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        value: Option<&Bound<'py, PyAny>>,
        if_equal: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let key = this.whole(key)?;
        let known = if_equal.map(|known| Octets::of(known, "a generation")).transpose()?;
        let value = value.map(|value| Octets::of(value, "a value")).transpose()?;
        if !this.is_nonblocking(py) {
            return slf.call_method1(intern!(py, "_write"), (key, value, known));
        }
        let store = this.place(py).store.get();
        let known = known.as_ref().map(|known| known.as_bytes());
        let done = store.write_versioned(py, &key, value.as_deref(), known);
        KvStoreBase::completed_future(py, done.and_then(|stamp| Ok(Bound::new(py, stamp)?.into_any())))
    }

    /// Delete all keys in a range.
    ///
    /// Parameters
    /// ----------
    /// range
    ///     The range of keys.
    ///
    /// Examples
    /// --------
    /// >>> import tessarr.tensorstore as ts
    /// >>> store = ts.KvStore.open("memory://").result()
    /// >>> for key in ("a", "b", "c"):
    /// ...     store[key] = b""
    /// >>> store.delete_range(ts.KvStore.KeyRange("a", "c")).result()
    /// >>> store.list().result()
    /// [b'c']
    fn delete_range<'py>(slf: &Bound<'py, Self>, range: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        static CLASS: OnceCell<Py<PyType>> = OnceCell::new();
        let py = slf.py();
        if !range.is_instance(CLASS.import(py, "tessarr.tensorstore.kvstore.values", "KeyRange")?)? {
            return Err(PyTypeError::new_err(format!("range: {} is no KeyRange", safe_repr(range))));
        }
        let end = |name| Ok::<_, PyErr>(range.getattr(name)?.cast_into::<PyBytes>()?);
        let ends = (end(intern!(py, "_min"))?, end(intern!(py, "_max"))?);
        if !slf.get().is_nonblocking(py) {
            return slf.call_method1(intern!(py, "_start_delete_range"), (ends,));
        }
        KvStoreBase::completed_future(py, KvStoreBase::_delete(slf, ends).map(|()| py.None().into_bound(py)))
    }

    /// List the keys of a range without the path and without `strip` more bytes.
    fn _list_range<'py>(
        slf: &Bound<'py, Self>,
        ends: Ends<'py>,
        strip: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        let (store, start, first, last) = KvStoreBase::_range(slf, ends, false)?;
        store.get().list_range(slf.py(), &start, Some(&first), Some(&last), start.len().saturating_add(strip))
    }

    /// Delete the keys of a range.
    fn _delete<'py>(slf: &Bound<'py, Self>, ends: Ends<'py>) -> PyResult<()> {
        let (store, start, first, last) = KvStoreBase::_range(slf, ends, true)?;
        store.get().delete_range(slf.py(), &start, Some(&first), Some(&last))
    }
}
