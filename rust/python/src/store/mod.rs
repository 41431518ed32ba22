//! `Store`: the base class of Python's stores, and `ValueReader`.

mod counting_store;
mod foreign;
mod foreign_store;
mod foreign_values;
mod local;
pub(crate) mod memory;
mod object;
mod read_batch;
mod split;
mod versioned;
mod wrappers;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use pyo3::exceptions::{PyException, PyUnicodeEncodeError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PyString};
use pyo3::PyClass;
use tessarr_engine::error::EXIT;
use tessarr_engine::store::{self as engine, PrefixChange};
use tessarr_engine::{warning, Error, Kind};

pub(crate) use self::wrappers::{CoalescingStore, StagedStore};
use crate::array::{buffered_location, discard_buffered, store_buffered, Buffered};
use crate::runtime::bytes::copy_to_bytes;
use crate::runtime::error::{argument, foreign, to_py};
use crate::runtime::safe_repr::safe_repr;

/// The size up to which a copy keeps the GIL.
const SMALL_BYTES: usize = 64 << 10;

/// Add the classes of this file to `module`.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    engine::set_interrupt_check(check_signals);
    warning::show_by(warn);
    module.add_class::<Store>()?;
    module.add_class::<ValueReader>()?;
    module.add_class::<local::LocalStore>()?;
    module.add_class::<foreign_store::ForeignStore>()?;
    module.add_class::<split::SplitStore>()?;
    module.add_class::<object::ObjectStore>()?;
    module.add_class::<versioned::UnreadValue>()?;
    module.add_function(wrap_pyfunction!(versioned::compute_digest, module)?)?;
    memory::register(module)?;
    counting_store::register(module)?;
    wrappers::register(module)
}

/// Raise the exception of a signal handler (Ctrl-C) in a thread that waits for another writer.
fn check_signals() -> tessarr_engine::Result<()> {
    let checked =
        crate::runtime::atexit::attached(|py| py.check_signals().map_err(|raised| foreign(py, raised)));
    checked.unwrap_or(Ok(()))
}

/// Show a `TessarrWarning`.
fn warn(message: &str) -> tessarr_engine::Result<()> {
    let shown = crate::runtime::atexit::attached(|py| {
        let warned =
            py.import("tessarr.format.user_warnings").and_then(|it| it.call_method1("warn_user", (message,)));
        warned.map(drop).map_err(|raised| foreign(py, raised))
    });
    shown.unwrap_or(Ok(()))
}

/// Return the bytes of any object with a buffer, without a copy of `bytes` objects.
pub(crate) fn bytes_of(object: &Bound<'_, PyAny>) -> PyResult<PyBackedBytes> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(bytes.clone().into());
    }
    let view = PyMemoryView::from(object)?;
    let bytes = view.call_method0("tobytes")?;
    Ok(bytes.cast_into::<PyBytes>()?.into())
}

/// Return a key or a prefix; raise an error if UTF-8 cannot encode it.
pub(crate) fn text<'a>(object: &'a Bound<'_, PyAny>) -> PyResult<&'a str> {
    let text = object.cast::<PyString>()?;
    text.to_str().map_err(|error| {
        let py = object.py();
        match error.is_instance_of::<PyUnicodeEncodeError>(py) {
            true => argument(py, format!("{} is not a key: UTF-8 cannot encode it", safe_repr(object))),
            false => error,
        }
    })
}

/// Base of the stores: keys to byte strings, each replaced atomically.
///
/// Notes
/// -----
/// Keys are relative and "/"-separated, without empty, "." or ".." segments and without segments
/// ending in ".__lock". Other keys raise an `ArgumentError` before any I/O. All methods release the
/// GIL, are thread safe, and work in a forked child. A Python subclass calls ``super().__new__(cls,
/// store)`` to wrap `store`.
#[pyclass(subclass, frozen, module = "tessarr._engine")]
pub(crate) struct Store {
    pub(crate) inner: Arc<dyn engine::Store>,
    /// Unique in the process.
    pub(crate) number: u64,
}

impl Store {
    pub(crate) fn of(inner: Arc<dyn engine::Store>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Store { inner, number: NEXT.fetch_add(1, Ordering::Relaxed) }
    }

    /// Return the engine's store.
    pub(crate) fn engine(&self) -> Arc<dyn engine::Store> {
        self.inner.clone()
    }

    /// Read or write one key, which copies `bytes` bytes. Release the GIL if the size justifies it.
    /// `work` must not depend on the current value, because it would wait for other writers, which
    /// may need the GIL.
    pub(crate) fn run<T: Send>(&self, py: Python<'_>, bytes: usize, work: impl FnOnce() -> T + Send) -> T {
        if self.inner.is_nonblocking() && bytes <= SMALL_BYTES {
            return work();
        }
        py.detach(work)
    }

    fn change_prefix(&self, py: Python<'_>, prefix: &str, change: PrefixChange<'_>) -> PyResult<bool> {
        let location = buffered_location(&self.inner, prefix);
        match change {
            // The target of a link stays, and should receive what can be stored.
            PrefixChange::RemoveLink => match self.store_buffered_chunks(py, prefix) {
                Err(error) if !error.is_instance_of::<PyException>(py) => return Err(error),
                _ => {}
            },
            // Buffered chunks of arrays below the prefix are discarded with these arrays.
            _ => store_buffered(py, &self.inner, prefix, Buffered::Inside)?,
        }
        if let PrefixChange::ReplaceBy(staged) = change {
            self.store_buffered_chunks(py, staged)?;
        }
        let is_changed =
            py.detach(|| self.inner.change_prefix(prefix, change)).map_err(|error| to_py(py, error))?;
        if is_changed && change != PrefixChange::RemoveLink {
            discard_buffered(py, location.as_deref())?;
        }
        Ok(is_changed)
    }
}

#[pymethods]
impl Store {
    #[new]
    fn new(store: &Bound<'_, Store>) -> Self {
        Store::of(store.get().engine())
    }

    /// Return the value of `key`, or `default` if it is missing. More than `limit` bytes raise a
    /// `DataError`, before any allocation if the store reports the size.
    #[pyo3(signature = (key, default = None, *, limit = None))]
    pub(crate) fn get<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = text)] key: &str,
        default: Option<Bound<'py, PyAny>>,
        limit: Option<u64>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let loaded = self.run(py, 0, || self.inner.load(key, limit));
        let loaded = loaded.map_err(|error| to_py(py, error.at_key(key)))?;
        match loaded {
            Some(value) => Ok(Some(copy_to_bytes(py, value.bytes())?.into_any())),
            None => Ok(default),
        }
    }

    /// Replace the value of `key` by the bytes of `data`, any object with a buffer.
    pub(crate) fn put(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = text)] key: &str,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let data = bytes_of(data)?;
        self.run(py, data.len(), || self.inner.put(key, &data)).map_err(|error| to_py(py, error))
    }

    /// Delete `key`, which may be missing.
    pub(crate) fn delete(&self, py: Python<'_>, #[pyo3(from_py_with = text)] key: &str) -> PyResult<()> {
        self.run(py, 0, || self.inner.delete(key)).map_err(|error| to_py(py, error))
    }

    /// Set `key` to `data` (None: delete it) if its value is `expected` (None: missing),
    /// atomically. Otherwise change nothing and return False.
    fn replace(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = text)] key: &str,
        data: Option<&Bound<'_, PyAny>>,
        expected: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let data = data.map(bytes_of).transpose()?;
        let expected = expected.map(bytes_of).transpose()?;
        py.detach(|| self.inner.replace(key, data.as_deref(), expected.as_deref()))
            .map_err(|error| to_py(py, error))
    }

    /// Set `key` to the result of `make` for its value (None: missing), without other changes in
    /// between. The result None deletes the key, and the same object leaves it unchanged. The store
    /// may call `make` again, and `make` may use every other key. More than `limit` bytes raise a
    /// `DataError`.
    #[pyo3(signature = (key, make, *, limit = None))]
    fn change(
        &self,
        #[pyo3(from_py_with = text)] key: &str,
        make: &Bound<'_, PyAny>,
        limit: Option<u64>,
    ) -> PyResult<()> {
        let py = make.py();
        let make = make.clone().unbind();
        let mut raised: Option<PyErr> = None;
        let changed = py.detach(|| {
            self.inner.update(key, engine::UpdateOptions::READ_CURRENT, &mut |current| {
                let read = |object| engine::check_size(object, limit).and_then(|()| engine::read_all(object));
                let current = current.map(read).transpose()?;
                raised = None;
                let mut error = Error::internal("no value was made");
                let made = crate::runtime::atexit::attached(|py| {
                    let made = call_updater(make.bind(py), current.as_deref());
                    // An exception that ends the program is raised unchanged and without a retry.
                    let ends = |raised: &PyErr| !raised.is_instance_of::<PyException>(py);
                    error.code = made.as_ref().is_err_and(ends).then_some(EXIT);
                    made
                });
                made.and_then(|made| made.map_err(|error| raised = Some(error)).ok()).ok_or(error)
            })
        });
        match (changed, raised) {
            (Ok(_), _) => Ok(()),
            (Err(error), Some(raised)) if error.kind == Kind::Internal => Err(raised),
            (Err(error), _) => Err(to_py(py, error.at_key(key))),
        }
    }

    /// Set `key` to `data` (None: delete it). With `version`, do this only if the value still has
    /// this state (empty: missing). Return whether the write happened, and the version of the new
    /// value (None: unknown).
    #[pyo3(signature = (key, data, version = None))]
    fn write<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = text)] key: &str,
        data: Option<&Bound<'py, PyAny>>,
        version: Option<&[u8]>,
    ) -> PyResult<(bool, Option<Bound<'py, PyBytes>>)> {
        let data = data.map(bytes_of).transpose()?;
        let expected = match version {
            None => engine::Expected::Anything,
            Some([]) => engine::Expected::Absent,
            Some(version) => match engine::Version::new(version) {
                Some(version) => engine::Expected::Version(version),
                None => return Ok((false, None)), // a missing value has no version
            },
        };
        let (done, version) = py
            .detach(|| self.inner.write(key, data.as_deref(), &expected))
            .map_err(|error| to_py(py, error))?;
        Ok((done, version.map(|version| PyBytes::new(py, version.bytes()))))
    }

    /// Set `key` to `data` (None: delete it). With `expected`, do this only if the value has this
    /// generation. Return the generation of the new value, which is empty if nothing changed, and
    /// the time.
    #[pyo3(signature = (key, data, expected = None))]
    fn write_versioned<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = text)] key: &str,
        data: Option<&Bound<'_, PyAny>>,
        expected: Option<&[u8]>,
    ) -> PyResult<versioned::Written<'py>> {
        versioned::write(py, self, key, data, expected)
    }

    /// Call `work` while holding the lock of `key`, which may be missing, and return its result.
    /// The lock excludes threads, and processes if the store is a folder. `work` may use every
    /// other key; a second lock of `key` deadlocks.
    fn hold<'py>(
        &self,
        #[pyo3(from_py_with = text)] key: &str,
        work: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = work.py();
        let work = work.clone().unbind();
        let mut outcome: Option<PyResult<Py<PyAny>>> = None;
        let held = py.detach(|| {
            self.inner.hold(key, &mut || {
                outcome = crate::runtime::atexit::attached(|py| work.call0(py));
                Ok(())
            })
        });
        held.map_err(|error| to_py(py, error.at_key(key)))?;
        match outcome {
            Some(done) => done.map(|value| value.into_bound(py)),
            None => Err(to_py(py, Error::internal("nothing was done while a key was held"))),
        }
    }

    /// Return the size of the value in bytes; None if `key` is missing.
    pub(crate) fn size(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = text)] key: &str,
    ) -> PyResult<Option<u64>> {
        let opened = self.run(py, 0, || self.inner.open(key, engine::ReadHint::UnknownRanges));
        Ok(opened.map_err(|error| to_py(py, error))?.map(|object| object.size()))
    }

    /// Return a reader of parts of the value of `key`; None if it is missing.
    ///
    /// The first request of a remote store fetches only `byte_range`: the first byte, counted from
    /// the end if negative, and the byte after the last one.
    #[pyo3(signature = (key, byte_range = None))]
    fn open_value(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = text)] key: &str,
        byte_range: Option<(i64, Option<i64>)>,
    ) -> PyResult<Option<ValueReader>> {
        let hint = match byte_range {
            Some((first, None)) if first < 0 => engine::ReadHint::Suffix(first.unsigned_abs()),
            Some((first, Some(end))) if 0 <= first && first < end => {
                engine::ReadHint::Range { offset: first as u64, count: (end - first) as u64 }
            }
            _ => engine::ReadHint::UnknownRanges,
        };
        let opened = py.detach(|| self.inner.open(key, hint));
        Ok(opened.map_err(|error| to_py(py, error.at_key(key)))?.map(ValueReader))
    }

    /// Return the value of `key` with its version (None: unknown); None if the key is missing. More
    /// than `limit` bytes raise a `DataError`.
    #[pyo3(signature = (key, *, limit = None))]
    fn get_version<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = text)] key: &str,
        limit: Option<u64>,
    ) -> PyResult<Option<Versioned<'py>>> {
        let found = py.detach(|| self.inner.load_version(key, limit));
        let found = found.map_err(|error| to_py(py, error.at_key(key)))?;
        Ok(found.map(|(value, version)| {
            let version = version.map(|version| PyBytes::new(py, version.bytes()));
            (PyBytes::new(py, value.bytes()), version)
        }))
    }

    /// Return the value of `key` and its generation, or only the bytes in `byte_range`.
    ///
    /// `byte_range` is the first byte, counted from the end if negative, and the byte after the
    /// last one. A value whose generation is `known` is not read. The result has the state of the
    /// key, the value, the source of the generation, and the time of the read. The source is the
    /// generation, None for the digest of the value, or the offset of the value in the whole one,
    /// whose digest is the generation. If the read needs more than `max_bytes` bytes, the result is
    /// an open value, whose `read` returns all this.
    #[pyo3(signature = (key, known = None, byte_range = None, max_bytes = None))]
    fn read_versioned<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = text)] key: &str,
        known: Option<&[u8]>,
        byte_range: Option<(i64, Option<i64>)>,
        max_bytes: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let limit = max_bytes.unwrap_or(u64::MAX);
        versioned::read(py, self, key, known.unwrap_or_default(), byte_range, limit)
    }

    /// Return every key that begins with `start` and lies from `first` to before `end`, sorted and
    /// without its first `strip` bytes.
    #[pyo3(signature = (start, first = None, end = None, *, strip = 0))]
    pub(crate) fn list_range<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = text)] start: &str,
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
        if !range.is_empty() {
            self.store_buffered_chunks(py, start)?;
            let listed = py.detach(|| self.inner.list_range(start, range, &mut found));
            listed.map_err(|error| to_py(py, error))?;
        }
        PyList::new(py, ends.windows(2).map(|ends| PyBytes::new(py, &text[ends[0]..ends[1]])))
    }

    /// Store the chunks with keys under `prefix` that blocks of buffered writes hold, as `list` and
    /// changes of a prefix do.
    fn store_buffered_chunks(&self, py: Python<'_>, prefix: &str) -> PyResult<()> {
        store_buffered(py, &self.inner, prefix, Buffered::Below)
    }

    /// Return every key under `prefix` ("" or ending in "/"), sorted.
    #[pyo3(signature = (prefix = ""))]
    fn list(&self, py: Python<'_>, #[pyo3(from_py_with = text)] prefix: &str) -> PyResult<Vec<String>> {
        self.store_buffered_chunks(py, prefix)?;
        py.detach(|| self.inner.list(prefix)).map_err(|error| to_py(py, error))
    }

    /// Return the keys and the prefixes one level below `prefix`, each whole and sorted.
    #[pyo3(signature = (prefix = ""))]
    fn list_dir(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = text)] prefix: &str,
    ) -> PyResult<(Vec<String>, Vec<String>)> {
        store_buffered(py, &self.inner, prefix, Buffered::Around)?;
        let listing = py.detach(|| self.inner.list_dir(prefix)).map_err(|error| to_py(py, error))?;
        Ok((listing.keys, listing.prefixes))
    }

    /// Return every key under `prefix` with the size of its value, sorted. None: listings of the store
    /// lack sizes.
    fn list_sizes(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = text)] prefix: &str,
    ) -> PyResult<Option<Vec<(String, u64)>>> {
        self.store_buffered_chunks(py, prefix)?;
        py.detach(|| self.inner.list_sizes(prefix)).map_err(|error| to_py(py, error))
    }

    /// Perform reads in up to `concurrency` threads. Each read is "get", "size", "list" or
    /// "list_dir", with the key or the prefix; `limit` is as for `get`. Return the responses in
    /// order, with an exception for each failed read.
    #[pyo3(signature = (reads, concurrency, *, limit = None))]
    fn read_batch<'py>(
        &self,
        py: Python<'py>,
        reads: Vec<(Bound<'py, PyString>, Bound<'py, PyAny>)>,
        concurrency: usize,
        limit: Option<u64>,
    ) -> PyResult<Bound<'py, PyList>> {
        read_batch::read(py, self, reads, concurrency, limit)
    }

    /// Delete every key that begins with `start` and lies from `first` to before `end`.
    #[pyo3(signature = (start, first = None, end = None))]
    pub(crate) fn delete_range(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = text)] start: &str,
        first: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> PyResult<()> {
        let range = key_range(first, end);
        self.store_buffered_chunks(py, start)?;
        py.detach(|| self.inner.delete_range(start, range, &|_| false)).map_err(|error| to_py(py, error))
    }

    /// Delete every key under `prefix`.
    fn delete_prefix(&self, py: Python<'_>, #[pyo3(from_py_with = text)] prefix: &str) -> PyResult<()> {
        self.change_prefix(py, prefix, PrefixChange::Delete).map(drop)
    }

    /// Return whether `delete_prefix` is one step, for readers and if the program is killed.
    fn deletes_at_once(&self, prefix: &str) -> bool {
        self.inner.changes_atomically(prefix, PrefixChange::Delete)
    }

    /// Return whether `replace_prefix` can replace the keys under `prefix`.
    fn replaces_at_once(&self, prefix: &str) -> bool {
        self.inner.changes_atomically(prefix, PrefixChange::ReplaceBy(""))
    }

    /// Move every key under `staged` to `prefix` in one step, for readers and if the program is
    /// killed. The old keys under `prefix` are deleted, or move to `staged`. Return whether the
    /// store supports this.
    fn replace_prefix(&self, py: Python<'_>, staged: &str, prefix: &str) -> PyResult<bool> {
        self.change_prefix(py, prefix, PrefixChange::ReplaceBy(staged))
    }

    /// Delete every key under `prefix` before new keys replace them immediately. A folder may
    /// remain, and the deletion is as durable as the next write.
    fn clear_prefix(&self, py: Python<'_>, #[pyo3(from_py_with = text)] prefix: &str) -> PyResult<()> {
        self.change_prefix(py, prefix, PrefixChange::Clear).map(drop)
    }

    /// Remove the folder of `prefix` if it is a symbolic link, without its target. Return whether
    /// it was one.
    fn remove_link(&self, py: Python<'_>, #[pyo3(from_py_with = text)] prefix: &str) -> PyResult<bool> {
        self.change_prefix(py, prefix, PrefixChange::RemoveLink)
    }

    /// The number of reads to run concurrently, because each waits for a response; 0: reads complete
    /// at once.
    #[getter]
    fn concurrency(&self) -> usize {
        self.inner.concurrency()
    }

    /// The number of changes to run concurrently, because each waits for a response; 0: changes
    /// complete at once.
    #[getter]
    fn write_concurrency(&self) -> usize {
        self.inner.info().write_concurrency
    }

    /// Whether `hold` excludes every other writer of the key. This is false for servers, which
    /// compare versions instead.
    #[getter]
    fn is_exclusive(&self) -> bool {
        self.inner.info().is_exclusive
    }

    /// Whether the store rejects every change.
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

/// Call `make` for a value and return the change.
fn call_updater(make: &Bound<'_, PyAny>, current: Option<&[u8]>) -> PyResult<engine::Change<'static>> {
    let current = current.map(|bytes| PyBytes::new(make.py(), bytes));
    let made = make.call1((current.as_ref(),))?;
    if current.is_some_and(|current| made.is(&current)) {
        return Ok(engine::Change::Keep);
    }
    if made.is_none() {
        return Ok(engine::Change::Delete);
    }
    Ok(engine::Change::Write(vec![engine::ValuePart::Owned(bytes_of(&made)?.to_vec())]))
}

/// An open value: later changes of the key do not show.
#[pyclass(frozen, module = "tessarr._engine")]
pub(crate) struct ValueReader(Box<dyn engine::ValueReader>);

#[pymethods]
impl ValueReader {
    /// The size in bytes.
    #[getter]
    pub(crate) fn size(&self) -> u64 {
        self.0.size()
    }

    /// The state of the value, for comparison with an earlier version. A state may be too new to be
    /// a version.
    #[getter]
    fn state<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.0.state().map(|state| PyBytes::new(py, state.bytes()))
    }

    /// The version of the value; None if the store has no versions.
    #[getter]
    fn version<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.0.version().map(|version| PyBytes::new(py, version.bytes()))
    }

    /// Return exactly `count` bytes from `offset`.
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
    PyClassInitializer::from(Store::of(inner)).add_subclass(store)
}
