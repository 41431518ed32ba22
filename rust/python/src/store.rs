//! The stores as Python classes, which `tessarr.store.mapping` makes mappings of, and documents.

mod foreign;
mod stamped;
mod wrap;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{IntoPyDict, PyBytes, PyDict, PyList, PyMapping, PyMemoryView, PyTuple, PyType};
use pyo3::PyClass;
use tessarr_engine::store as engine;
use tessarr_engine::{Error, Kind};

use self::foreign::PyForeign;
use self::stamped::{ReadResult, TimestampedStorageGeneration, Unread};
use crate::error::{argument, foreign, to_py};

/// Adds the classes of this file to `module`.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    engine::while_waiting(check_signals);
    module.add_class::<Store>()?;
    module.add_class::<Value>()?;
    module.add_class::<ReadResult>()?;
    module.add_class::<Unread>()?;
    module.add_class::<TimestampedStorageGeneration>()?;
    module.add_class::<LocalStore>()?;
    module.add_class::<MemoryStore>()?;
    module.add_class::<ForeignStore>()?;
    module.add_class::<CountingStore>()?;
    module.add_class::<SplitStore>()?;
    wrap::register(module)?;
    module.add_function(wrap_pyfunction!(unpickle_memory_store, module)?)?;
    module.add_function(wrap_pyfunction!(asked_of_files, module)?)?;
    Ok(())
}

/// Raises what a signal handler raised (Ctrl-C) in a thread that waits for another writer.
fn check_signals() -> tessarr_engine::Result<()> {
    let checked = Python::try_attach(|py| py.check_signals().map_err(|raised| foreign(py, raised)));
    checked.unwrap_or(Ok(()))
}

/// The bytes of any object with a buffer; `bytes` objects are not copied.
pub(crate) fn bytes_of(object: &Bound<'_, PyAny>) -> PyResult<PyBackedBytes> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(bytes.clone().into());
    }
    let view = PyMemoryView::from(object)?;
    let bytes = view.call_method0("tobytes")?;
    Ok(bytes.cast_into::<PyBytes>()?.into())
}

/// Base of the stores: keys to byte strings, each replaced atomically.
///
/// Notes
/// -----
/// Keys are relative and "/"-separated, without empty, "." or ".." segments and without
/// segments ending in ".__lock"; other keys are an `ArgumentError` before any I/O. All
/// methods release the GIL, are thread safe, and work in a forked child. A class of Python
/// may derive from this one: ``super().__new__(cls, store)`` makes a store that is `store`.
#[pyclass(subclass, frozen, module = "tessarr._engine")]
pub(crate) struct Store {
    inner: Arc<dyn engine::Store>,
}

impl Store {
    /// The engine's store.
    pub(crate) fn engine(&self) -> Arc<dyn engine::Store> {
        self.inner.clone()
    }
}

#[pymethods]
impl Store {
    #[new]
    fn new(store: &Bound<'_, Store>) -> Self {
        Store { inner: store.get().engine() }
    }

    /// The value of `key`; `default` if it is absent. More than `limit` bytes are a
    /// `DataError`, before memory is taken where the store can tell the size.
    #[pyo3(signature = (key, default = None, *, limit = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &str,
        default: Option<Bound<'py, PyAny>>,
        limit: Option<u64>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let loaded = py.detach(|| self.inner.load(key, limit));
        let loaded = loaded.map_err(|error| to_py(py, error.at_key(key)))?;
        Ok(loaded.map(|value| PyBytes::new(py, value.bytes()).into_any()).or(default))
    }

    /// Replace the value of `key` by the bytes of `data`, any object with a buffer.
    fn put(&self, py: Python<'_>, key: &str, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let data = bytes_of(data)?;
        py.detach(|| self.inner.put(key, &data)).map_err(|error| to_py(py, error))
    }

    /// Remove `key`; that it is absent is fine.
    fn delete(&self, py: Python<'_>, key: &str) -> PyResult<()> {
        py.detach(|| self.inner.delete(key)).map_err(|error| to_py(py, error))
    }

    /// Change `key` to `data` (None: remove it) if its value is `expected` (None:
    /// absent), at once; else change nothing and give False.
    fn replace(
        &self,
        py: Python<'_>,
        key: &str,
        data: Option<&Bound<'_, PyAny>>,
        expected: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let data = data.map(bytes_of).transpose()?;
        let expected = expected.map(bytes_of).transpose()?;
        py.detach(|| self.inner.replace(key, data.as_deref(), expected.as_deref()))
            .map_err(|error| to_py(py, error))
    }

    /// Change `key` to what `make` gives for its value (None: absent) while nobody else changes
    /// it: None removes it, and what was given leaves it. `make` may be called again, and use
    /// every other key. More than `limit` bytes are a `DataError`.
    #[pyo3(signature = (key, make, *, limit = None))]
    fn change(&self, key: &str, make: &Bound<'_, PyAny>, limit: Option<u64>) -> PyResult<()> {
        let py = make.py();
        let make = make.clone().unbind();
        let mut raised: Option<PyErr> = None;
        let changed = py.detach(|| {
            self.inner.update(key, engine::Need::CURRENT, &mut |current| {
                let read = |object| engine::check_size(object, limit).and_then(|()| engine::read_all(object));
                let current = current.map(read).transpose()?;
                raised = None;
                let made = Python::try_attach(|py| made_of(make.bind(py), current.as_deref()));
                made.and_then(|made| made.map_err(|error| raised = Some(error)).ok())
                    .ok_or_else(|| Error::internal("no value was made"))
            })
        });
        match (changed, raised) {
            (Ok(_), _) => Ok(()),
            (Err(_), Some(error)) => Err(error),
            (Err(error), None) => Err(to_py(py, error.at_key(key))),
        }
    }

    /// Change `key` to `data` (None: remove it), where `version` is given only if its value is in
    /// the state that it is of (empty: absent). Give whether that was done, and the version of
    /// the new value, None where the store cannot tell.
    #[pyo3(signature = (key, data, version = None))]
    fn write<'py>(
        &self,
        py: Python<'py>,
        key: &str,
        data: Option<&Bound<'py, PyAny>>,
        version: Option<&[u8]>,
    ) -> PyResult<(bool, Option<Bound<'py, PyBytes>>)> {
        let data = data.map(bytes_of).transpose()?;
        let expected = match version {
            None => engine::Expected::Anything,
            Some([]) => engine::Expected::Absent,
            Some(version) => match engine::Version::new(version) {
                Some(version) => engine::Expected::Version(version),
                None => return Ok((false, None)), // that of no value
            },
        };
        let (done, version) = py
            .detach(|| self.inner.write(key, data.as_deref(), &expected))
            .map_err(|error| to_py(py, error))?;
        Ok((done, version.map(|version| PyBytes::new(py, version.bytes()))))
    }

    /// Change `key` to `data` (None: remove it), where `expected` is given only if its value has
    /// that generation. Give that of the new value; it is empty where nothing was changed.
    #[pyo3(signature = (key, data, expected = None))]
    fn write_stamped(
        &self,
        py: Python<'_>,
        key: &str,
        data: Option<&Bound<'_, PyAny>>,
        expected: Option<&[u8]>,
    ) -> PyResult<TimestampedStorageGeneration> {
        stamped::write(py, self, key, data, expected)
    }

    /// Call `work` while nobody else holds `key`, which need not exist, and give
    /// what it returns. Threads exclude each other, and processes where the store
    /// is a folder. `work` may use every other key; to hold `key` again would wait
    /// for itself.
    fn hold<'py>(&self, key: &str, work: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = work.py();
        let work = work.clone().unbind();
        let mut outcome: Option<PyResult<Py<PyAny>>> = None;
        let held = py.detach(|| {
            self.inner.hold(key, &mut || {
                outcome = Python::try_attach(|py| work.call0(py));
                Ok(())
            })
        });
        held.map_err(|error| to_py(py, error.at_key(key)))?;
        match outcome {
            Some(done) => done.map(|value| value.into_bound(py)),
            None => Err(to_py(py, Error::internal("nothing was done while a key was held"))),
        }
    }

    /// The size of the value in bytes; None if `key` is absent.
    fn size(&self, py: Python<'_>, key: &str) -> PyResult<Option<u64>> {
        let opened = py.detach(|| self.inner.open(key, engine::Want::Ranges));
        Ok(opened.map_err(|error| to_py(py, error))?.map(|object| object.size()))
    }

    /// The value of `key`, opened for reading parts of it; None if it is absent.
    fn open_value(&self, py: Python<'_>, key: &str) -> PyResult<Option<Value>> {
        let opened = py.detach(|| self.inner.open(key, engine::Want::Ranges));
        Ok(opened.map_err(|error| to_py(py, error.at_key(key)))?.map(Value))
    }

    /// The value of `key` with its version, which is None where the store cannot say; None if the
    /// key is absent. More than `limit` bytes are a `DataError`.
    #[pyo3(signature = (key, *, limit = None))]
    fn get_version<'py>(
        &self,
        py: Python<'py>,
        key: &str,
        limit: Option<u64>,
    ) -> PyResult<Option<Versioned<'py>>> {
        let found = py.detach(|| self.inner.load_version(key, limit));
        let found = found.map_err(|error| to_py(py, error.at_key(key)))?;
        Ok(found.map(|(value, version)| {
            let version = version.map(|version| PyBytes::new(py, version.bytes()));
            (PyBytes::new(py, value.bytes()), version)
        }))
    }

    /// The value of `key`, or those of its bytes that are in `span` (the first, from the end if
    /// negative, and the one behind the last), and its generation. It is not read where that is
    /// `known`. Where more than `most` bytes would have to be read for that, it is opened only, and
    /// what is given reads it.
    #[pyo3(signature = (key, known = None, span = None, most = None))]
    fn read_stamped(
        &self,
        py: Python<'_>,
        key: &str,
        known: Option<&[u8]>,
        span: Option<(i64, Option<i64>)>,
        most: Option<u64>,
    ) -> PyResult<stamped::Answer> {
        stamped::read(py, self, key, known.unwrap_or_default(), span, most.unwrap_or(u64::MAX))
    }

    /// Every key that begins with `start` and is from `first` on and before `end`, sorted, each
    /// without its first `strip` bytes.
    #[pyo3(signature = (start, first = None, end = None, *, strip = 0))]
    fn list_range<'py>(
        &self,
        py: Python<'py>,
        start: &str,
        first: Option<&[u8]>,
        end: Option<&[u8]>,
        strip: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        let range = key_range(first, end);
        let (mut text, mut ends) = (Vec::new(), vec![0]);
        let mut found = |key: &str| {
            text.extend_from_slice(key.as_bytes().get(strip..).unwrap_or_default());
            ends.push(text.len());
        };
        let listed = py.detach(|| self.inner.list_range(start, range, &mut found));
        listed.map_err(|error| to_py(py, error))?;
        PyList::new(py, ends.windows(2).map(|ends| PyBytes::new(py, &text[ends[0]..ends[1]])))
    }

    /// Every key under `prefix` ("" or ending in "/"), sorted.
    #[pyo3(signature = (prefix = ""))]
    fn list(&self, py: Python<'_>, prefix: &str) -> PyResult<Vec<String>> {
        py.detach(|| self.inner.list(prefix)).map_err(|error| to_py(py, error))
    }

    /// The keys and the prefixes one level below `prefix`, each whole and sorted.
    #[pyo3(signature = (prefix = ""))]
    fn list_dir(&self, py: Python<'_>, prefix: &str) -> PyResult<(Vec<String>, Vec<String>)> {
        let listing = py.detach(|| self.inner.list_dir(prefix)).map_err(|error| to_py(py, error))?;
        Ok((listing.keys, listing.prefixes))
    }

    /// Remove every key that begins with `start` and is from `first` on and before `end`.
    #[pyo3(signature = (start, first = None, end = None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: &str,
        first: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> PyResult<()> {
        let range = key_range(first, end);
        py.detach(|| self.inner.delete_range(start, range)).map_err(|error| to_py(py, error))
    }

    /// Remove every key under `prefix`.
    fn delete_prefix(&self, py: Python<'_>, prefix: &str) -> PyResult<()> {
        py.detach(|| self.inner.delete_prefix(prefix)).map_err(|error| to_py(py, error))
    }

    /// How many changes should be under way at a time, because each is waited for; 0: they
    /// are made at once.
    #[getter]
    fn write_concurrency(&self) -> usize {
        self.inner.write_concurrency()
    }

    /// Whether `hold` keeps out everybody whose changes of one key are kept apart: not
    /// where that is done by comparing, on servers.
    #[getter]
    fn is_exclusive(&self) -> bool {
        self.inner.is_exclusive()
    }

    /// Whether the store refuses every change.
    #[getter]
    fn read_only(&self) -> bool {
        self.inner.read_only()
    }
}

/// The bytes of a value, and its version.
type Versioned<'py> = (Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>);

fn key_range<'b>(first: Option<&'b [u8]>, end: Option<&'b [u8]>) -> engine::KeyRange<'b> {
    engine::KeyRange { first: first.unwrap_or_default(), end: end.unwrap_or_default() }
}

/// The change to what `make` gives for a value.
fn made_of(make: &Bound<'_, PyAny>, current: Option<&[u8]>) -> PyResult<engine::Change<'static>> {
    let current = current.map(|bytes| PyBytes::new(make.py(), bytes));
    let made = make.call1((current.as_ref(),))?;
    if current.is_some_and(|current| made.is(&current)) {
        return Ok(engine::Change::Keep);
    }
    if made.is_none() {
        return Ok(engine::Change::Delete);
    }
    Ok(engine::Change::Write(vec![engine::Part::Owned(bytes_of(&made)?.to_vec())]))
}

/// A value of a store, opened: later changes of the key do not show.
#[pyclass(frozen, module = "tessarr._engine")]
pub(crate) struct Value(Box<dyn engine::Object>);

#[pymethods]
impl Value {
    /// The size in bytes.
    #[getter]
    fn size(&self) -> u64 {
        self.0.size()
    }

    /// Which state was opened, to be compared with a version that was had before: it may be too
    /// young to be one.
    #[getter]
    fn state<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.0.state().map(|state| PyBytes::new(py, state.bytes()))
    }

    /// What tells this state of the value from others; None where the store cannot say.
    #[getter]
    fn version<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.0.version().map(|version| PyBytes::new(py, version.bytes()))
    }

    /// Exactly `count` bytes from `offset`.
    fn read<'py>(&self, py: Python<'py>, offset: u64, count: usize) -> PyResult<Bound<'py, PyBytes>> {
        let end = offset.checked_add(count as u64);
        if end.is_none_or(|end| end > self.0.size()) {
            let message = format!("{count} bytes from {offset} of a value of {}", self.0.size());
            return Err(to_py(py, Error::size(message)));
        }
        PyBytes::new_with(py, count, |out| {
            py.detach(|| self.0.read_at(offset, out)).map_err(|error| to_py(py, error))
        })
    }
}

fn initializer<S>(store: S, inner: Arc<dyn engine::Store>) -> PyClassInitializer<S>
where
    S: PyClass<BaseType = Store>,
{
    PyClassInitializer::from(Store { inner }).add_subclass(store)
}

/// A store in a folder: the file ``path/key`` holds the value of ``key``.
#[pyclass(extends = Store, subclass, frozen, eq, hash, module = "tessarr._engine")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct LocalStore(Arc<engine::LocalStore>);

#[pymethods]
impl LocalStore {
    #[new]
    #[pyo3(signature = (
        path, *, read_only = false, durable = false, reading = "default", locking = "os", lock_timeout_s = 60.0
    ))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        read_only: bool,
        durable: bool,
        reading: &str,
        locking: &str,
        lock_timeout_s: f64,
    ) -> PyResult<PyClassInitializer<Self>> {
        let settings = engine::Settings {
            read_only,
            durable,
            reading: named(py, "reading", &READINGS, reading)?,
            locking: named(py, "locking", &LOCKINGS, locking)?,
            patience: wrap::duration(py, "lock_timeout_s", lock_timeout_s)?,
        };
        let store = engine::LocalStore::new(&path, settings);
        let store = Arc::new(store.map_err(|error| to_py(py, error))?);
        Ok(initializer(LocalStore(store.clone()), store))
    }

    /// The folder, absolute.
    #[getter]
    fn path(&self) -> &std::ffi::OsStr {
        self.0.root().as_os_str()
    }

    /// Whether changes are synchronised with the disk.
    #[getter]
    fn durable(&self) -> bool {
        self.0.settings().durable
    }

    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<((&std::ffi::OsStr,), Bound<'py, PyDict>)> {
        Ok(((self.path(),), options(py, self.0.settings())?))
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let (py, this) = (slf.py(), slf.get());
        let mut text = format!("{}({}", slf.get_type().name()?, this.path().into_pyobject(py)?.repr()?);
        for (name, value) in options(py, this.0.settings())? {
            text.push_str(&format!(", {name}={}", value.repr()?));
        }
        Ok(text + ")")
    }
}

/// The keywords that make `settings`, without those that are as they are by default.
fn options<'py>(py: Python<'py>, settings: &engine::Settings) -> PyResult<Bound<'py, PyDict>> {
    let (options, plain) = (PyDict::new(py), engine::Settings::default());
    if settings.read_only != plain.read_only {
        options.set_item("read_only", settings.read_only)?;
    }
    if settings.durable != plain.durable {
        options.set_item("durable", settings.durable)?;
    }
    if settings.reading != plain.reading {
        options.set_item("reading", name_of(&READINGS, settings.reading))?;
    }
    if settings.locking != plain.locking {
        options.set_item("locking", name_of(&LOCKINGS, settings.locking))?;
    }
    if settings.patience != plain.patience {
        let endless = settings.patience == Duration::MAX;
        let patience_s = if endless { f64::INFINITY } else { settings.patience.as_secs_f64() };
        options.set_item("lock_timeout_s", patience_s)?;
    }
    Ok(options)
}

/// The words for what may be chosen: those of TensorStore.
const READINGS: [(&str, engine::Reading); 3] = [
    ("default", engine::Reading::Plain),
    ("memmap", engine::Reading::Mapped),
    ("direct", engine::Reading::Direct),
];
const LOCKINGS: [(&str, engine::Locking); 4] = [
    ("os", engine::Locking::System),
    ("lockfile", engine::Locking::File),
    ("none", engine::Locking::Nothing),
    ("non_atomic", engine::Locking::InPlace),
];

/// What `word` stands for.
fn named<T: Copy>(py: Python<'_>, what: &str, words: &[(&str, T)], word: &str) -> PyResult<T> {
    let found = words.iter().find(|(name, _)| *name == word);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<String> = words.iter().map(|(name, _)| format!("{name:?}")).collect();
        argument(py, format!("{what} must be one of {}, not {word:?}", names.join(", ")))
    })
}

/// The word that stands for `value`.
fn name_of<T: PartialEq>(words: &[(&'static str, T)], value: T) -> &'static str {
    words.iter().find(|(_, other)| *other == value).map_or("", |(name, _)| name)
}

/// A store in memory.
#[pyclass(extends = Store, subclass, frozen, module = "tessarr._engine")]
pub(crate) struct MemoryStore {
    store: Arc<engine::MemoryStore>,
    name: Option<String>,
}

#[pymethods]
impl MemoryStore {
    #[new]
    #[pyo3(signature = (items = None, *, name = None))]
    fn new(
        py: Python<'_>,
        items: Option<&Bound<'_, PyAny>>,
        name: Option<String>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let store = match &name {
            None => Arc::new(engine::MemoryStore::new()),
            Some(name) => py.detach(|| engine::MemoryStore::named(name)),
        };
        if let Some(items) = items {
            for item in items.cast::<PyMapping>()?.items()?.iter() {
                let (key, data) = item.extract::<(String, Bound<'_, PyAny>)>()?;
                let data = bytes_of(&data)?;
                let put = py.detach(|| (&*store as &dyn engine::Store).put(&key, &data));
                put.map_err(|error| to_py(py, error))?;
            }
        }
        Ok(initializer(MemoryStore { store: store.clone(), name }, store))
    }

    /// The name that it is shared by; None if it has none.
    #[getter]
    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<MemoryStore>().is_ok_and(|other| Arc::ptr_eq(&self.store, &other.get().store))
    }

    fn __hash__(&self) -> usize {
        Arc::as_ptr(&self.store) as usize >> 4
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let py = slf.py();
        let this = slf.get();
        let class = slf.get_type();
        if let Some(name) = &this.name {
            let rebuild = py.import("tessarr._engine")?.getattr("unpickle_memory_store")?;
            return Ok((rebuild, (class, name, std::process::id()).into_pyobject(py)?));
        }
        let items = PyDict::new(py);
        let store: &dyn engine::Store = &*this.store;
        for key in py.detach(|| store.list("")).map_err(|error| to_py(py, error))? {
            let opened = store.open(&key, engine::Want::Whole).map_err(|error| to_py(py, error))?;
            if let Some(object) = opened {
                items.set_item(&key, PyBytes::new(py, object.bytes().unwrap_or_default()))?;
            }
        }
        Ok((class.into_any(), (items,).into_pyobject(py)?))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(match &self.name {
            None => "MemoryStore()".to_owned(),
            Some(name) => format!("MemoryStore(name={})", name.into_pyobject(py)?.repr()?),
        })
    }
}

/// The memory store `name`, of class `class`, of process `process`, if this is that process.
#[pyfunction]
#[pyo3(signature = (class, name, process, /))]
fn unpickle_memory_store<'py>(
    class: &Bound<'py, PyType>,
    name: &str,
    process: u32,
) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    let here = std::process::id();
    if process != here {
        let kind = Kind::Store { retryable: false, errno: None };
        let message = format!(
            "the memory store {name:?} lives in process {process}, this is process {here}; \
             use a folder, or a memory store without a name, whose pickle holds its contents"
        );
        return Err(to_py(py, Error::new(kind, message)));
    }
    let options = PyDict::new(py);
    options.set_item("name", name)?;
    class.call((), Some(&options))
}

/// A store that a Python object implements.
#[pyclass(extends = Store, subclass, frozen, module = "tessarr._engine")]
pub(crate) struct ForeignStore(Arc<engine::ForeignStore<PyForeign>>);

#[pymethods]
impl ForeignStore {
    #[new]
    #[pyo3(signature = (object, *, read_only = false))]
    fn new(object: &Bound<'_, PyAny>, read_only: bool) -> PyResult<PyClassInitializer<Self>> {
        let (foreign, changeable) = PyForeign::new(object, read_only)?;
        let identity = object.as_ptr() as usize;
        let store = Arc::new(engine::ForeignStore::new(foreign, read_only || !changeable, identity));
        Ok(initializer(ForeignStore(store.clone()), store))
    }

    /// The Python object.
    #[getter]
    fn object(&self, py: Python<'_>) -> Py<PyAny> {
        self.0.foreign().object().clone_ref(py)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = other.py();
        let Ok(other) = other.cast::<ForeignStore>() else { return Ok(false) };
        let (here, there) = (&self.0, &other.get().0);
        if engine::Store::read_only(&**here) != engine::Store::read_only(&**there) {
            return Ok(false);
        }
        let (mine, theirs) = (here.foreign().object(), there.foreign().object());
        // Mappings are compared by what is in them, which is not what is asked here.
        let by_identity = here.foreign().is_mapping() || there.foreign().is_mapping();
        if mine.is(theirs) || by_identity {
            return Ok(mine.is(theirs));
        }
        mine.bind(py).eq(theirs)
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        let foreign = self.0.foreign();
        if foreign.is_mapping() {
            return Ok((foreign.object().as_ptr() as isize) >> 4);
        }
        foreign.object().bind(py).hash()
    }

    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<((Py<PyAny>,), Bound<'py, PyDict>)> {
        let options = PyDict::new(py);
        options.set_item("read_only", engine::Store::read_only(&*self.0))?;
        Ok(((self.object(py),), options))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        // Not the repr of the object: a dict would show every chunk.
        let class = self.0.foreign().object().bind(py).get_type();
        let read_only = if engine::Store::read_only(&*self.0) { ", read_only=True" } else { "" };
        Ok(format!("ForeignStore(<{}>{read_only})", class.fully_qualified_name()?))
    }
}

/// Passes everything on to another store and counts it.
#[pyclass(extends = Store, subclass, frozen, module = "tessarr._engine")]
pub(crate) struct CountingStore {
    counting: Arc<engine::CountingStore>,
    store: Py<Store>,
}

#[pymethods]
impl CountingStore {
    #[new]
    fn new(store: &Bound<'_, Store>) -> PyClassInitializer<Self> {
        let counting = Arc::new(engine::CountingStore::new(store.get().engine()));
        let store = store.clone().unbind();
        initializer(CountingStore { counting: counting.clone(), store }, counting)
    }

    /// The store that does the work.
    #[getter]
    fn store(&self, py: Python<'_>) -> Py<Store> {
        self.store.clone_ref(py)
    }

    fn __getnewargs__(&self, py: Python<'_>) -> (Py<Store>,) {
        (self.store(py),)
    }

    fn __repr__(&self) -> String {
        let counts = self.counting.counts();
        format!("CountingStore(opens={}, updates={}, lists={})", counts.opens, counts.updates, counts.lists)
    }

    /// How often what was asked: opens, reads, read_bytes, updates, looks (opens in order to
    /// change what is there) and look_reads, written_bytes, holds, lists, delete_prefixes.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        told(py, self.counting.counts())
    }
}

fn told(py: Python<'_>, counts: engine::Counts) -> PyResult<Bound<'_, PyDict>> {
    let fields = [
        ("opens", counts.opens),
        ("reads", counts.reads),
        ("read_bytes", counts.read_bytes),
        ("updates", counts.updates),
        ("looks", counts.looks),
        ("look_reads", counts.look_reads),
        ("holds", counts.holds),
        ("written_bytes", counts.written_bytes),
        ("lists", counts.lists),
        ("delete_prefixes", counts.delete_prefixes),
    ];
    fields.into_py_dict(py)
}

/// How often what was asked of all stores in folders of this process, as of a `CountingStore`.
#[pyfunction]
fn asked_of_files(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    told(py, engine::asked_of_files())
}

/// Keeps documents in one store, and everything else in another.
#[pyclass(extends = Store, subclass, frozen, module = "tessarr._engine")]
pub(crate) struct SplitStore {
    metadata: Py<Store>,
    chunks: Py<Store>,
}

#[pymethods]
impl SplitStore {
    #[new]
    fn new(metadata: &Bound<'_, Store>, chunks: &Bound<'_, Store>) -> PyClassInitializer<Self> {
        let split = Arc::new(engine::SplitStore::new(metadata.get().engine(), chunks.get().engine()));
        let (metadata, chunks) = (metadata.clone().unbind(), chunks.clone().unbind());
        initializer(SplitStore { metadata, chunks }, split)
    }

    /// Where documents are.
    #[getter]
    fn metadata(&self, py: Python<'_>) -> Py<Store> {
        self.metadata.clone_ref(py)
    }

    /// Where chunks are.
    #[getter]
    fn chunks(&self, py: Python<'_>) -> Py<Store> {
        self.chunks.clone_ref(py)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = other.py();
        let Ok(other) = other.cast::<SplitStore>() else { return Ok(false) };
        let same = |here: &Py<Store>, there: &Py<Store>| here.bind(py).eq(there);
        Ok(same(&self.metadata, &other.get().metadata)? && same(&self.chunks, &other.get().chunks)?)
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        (self.metadata(py), self.chunks(py)).into_pyobject(py)?.hash()
    }

    fn __getnewargs__(&self, py: Python<'_>) -> (Py<Store>, Py<Store>) {
        (self.metadata(py), self.chunks(py))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("SplitStore({}, {})", self.metadata.bind(py).repr()?, self.chunks.bind(py).repr()?))
    }
}
