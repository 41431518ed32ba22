//! Wrappers: prefix, read-only, latency, retries, cache, limits, staging and coalescing.

use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes, PyDict};
use pyo3::{PyTraverseError, PyVisit};
use tessarr_engine::error::EXIT;
use tessarr_engine::store::{self as engine, NewValue};
use tessarr_engine::write_buffer::commit::CommitLocations;
use tessarr_engine::write_buffer::scope;
use tessarr_engine::{Error, Result};

use super::{initializer, versioned, Store};
use crate::array::interruptible;
use crate::runtime::error::{argument, foreign, raised_by, to_py};
use crate::runtime::gil_value::GilValue;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<CoalescingStore>()?;
    module.add_class::<CachedStore>()?;
    module.add_class::<CachePool>()?;
    module.add_class::<Limits>()?;
    module.add_class::<StagedStore>()?;
    module.add_function(wrap_pyfunction!(prefix_store, module)?)?;
    module.add_function(wrap_pyfunction!(guard_store, module)?)?;
    module.add_function(wrap_pyfunction!(delay_store, module)?)?;
    module.add_function(wrap_pyfunction!(retry_store, module)?)?;
    module.add_function(wrap_pyfunction!(set_chunk_cache_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(chunk_cache_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(count_chunk_cache, module)?)?;
    module.add_function(wrap_pyfunction!(observe_store, module)?)
}

fn wrap(inner: impl engine::Store + 'static) -> Store {
    Store::of(Arc::new(inner))
}

/// Return the part of `store` below `prefix`, which is "" or ends in "/".
#[pyfunction]
fn prefix_store(store: &Bound<'_, Store>, prefix: &str) -> PyResult<Store> {
    let made_here = engine::PrefixStore::new(store.get().engine(), prefix);
    made_here.map(wrap).map_err(|error| to_py(store.py(), error))
}

/// A wrapper that opens each announced value once and reads each of its bytes once.
#[pyclass(extends = Store, frozen, module = "tessarr._engine")]
pub(crate) struct CoalescingStore(Arc<engine::CoalescingStore>);

#[pymethods]
impl CoalescingStore {
    #[new]
    fn new(store: &Bound<'_, Store>) -> PyClassInitializer<Self> {
        let shared = Arc::new(engine::CoalescingStore::new(store.get().engine()));
        initializer(CoalescingStore(shared.clone()), shared)
    }

    /// Announce a read of the value of `key` or of a byte range of it. Ranges that are close
    /// together become one read.
    #[pyo3(signature = (key, byte_range = None))]
    fn expect(&self, key: &str, byte_range: Option<engine::Span>) {
        self.0.expect(key, byte_range);
    }

    /// Return `store` with this wrapper in place of `below`, or `store` itself if it does not
    /// contain `below`.
    fn substitute(&self, store: &Bound<'_, Store>, below: &Bound<'_, Store>) -> PyResult<Py<Store>> {
        match engine::with_coalescing(&store.get().engine(), &below.get().engine(), &self.0) {
            Some(inner) => Py::new(store.py(), Store::of(inner)),
            None => Ok(store.clone().unbind()),
        }
    }
}

impl CoalescingStore {
    pub(crate) fn engine(&self) -> Arc<engine::CoalescingStore> {
        self.0.clone()
    }
}

/// Return a wrapper that rejects every change.
#[pyfunction]
fn guard_store(store: &Bound<'_, Store>) -> Store {
    wrap(engine::ReadOnlyStore::new(store.get().engine()))
}

/// Return a duration in seconds; infinity becomes the longest duration.
pub(crate) fn duration(py: Python<'_>, name: &str, seconds: f64) -> PyResult<Duration> {
    if seconds == f64::INFINITY {
        return Ok(Duration::MAX);
    }
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| argument(py, format!("{name} must be a number of seconds, not {seconds}")))
}

/// Return a wrapper that delays every response.
#[pyfunction]
fn delay_store(
    store: &Bound<'_, Store>,
    read_s: f64,
    write_s: f64,
    bytes_per_s: Option<f64>,
    concurrency: usize,
) -> PyResult<Store> {
    let py = store.py();
    if bytes_per_s.is_some_and(|rate| rate.is_nan() || rate <= 0.0) {
        return Err(argument(py, "bytes_per_s must be a positive number"));
    }
    let latency = engine::Latency {
        read: duration(py, "read_s", read_s)?,
        write: duration(py, "write_s", write_s)?,
        bytes_per_second: bytes_per_s,
        concurrency,
    };
    Ok(wrap(engine::InstrumentedStore::observed_by(store.get().engine(), latency)))
}

/// Return a wrapper that calls ``watch(call, key, bytes, seconds, error)`` after each call.
#[pyfunction]
fn observe_store(store: &Bound<'_, Store>, watch: Py<PyAny>) -> Store {
    let watch = PyWatch { watch: GilValue::new(watch) };
    wrap(engine::InstrumentedStore::observed_by(store.get().engine(), watch))
}

/// Reports requests to a Python function.
struct PyWatch {
    watch: GilValue<Py<PyAny>>,
}

impl std::fmt::Debug for PyWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PyWatch")
    }
}

impl engine::StoreObserver for PyWatch {
    fn after(&self, call: engine::Call, key: &str, done: &engine::CallReport<'_>) -> Result<()> {
        let observed = crate::runtime::atexit::attached(|py| {
            let Some(watch) = self.watch.get() else { return Ok(()) };
            let error = done.error.map(ToString::to_string);
            let arguments = (call.name(), key, done.bytes, done.duration.as_secs_f64(), error);
            watch.call1(py, arguments).map(drop).map_err(|raised| foreign(py, raised))
        });
        observed.unwrap_or_else(|| Err(Error::internal("a store was observed while Python shuts down")))
    }
}

/// A cache of another store with at most `max_bytes`, whose entries live for `max_age_s`.
#[pyclass(extends = Store, subclass, frozen, module = "tessarr._engine")]
pub(crate) struct CachedStore(Arc<engine::CachedStore>);

#[pymethods]
impl CachedStore {
    #[new]
    fn new(
        store: &Bound<'_, Store>,
        max_bytes: u64,
        max_age_s: Option<f64>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let max_age = max_age_s.map(|age| duration(store.py(), "max_age_s", age)).transpose()?;
        let cached = Arc::new(engine::CachedStore::new(store.get().engine(), max_bytes, max_age));
        Ok(initializer(CachedStore(cached.clone()), cached))
    }

    /// Discard all entries.
    fn forget(&self, py: Python<'_>) {
        py.detach(|| self.0.clear());
    }

    /// Counts of hits and misses, and the bytes in the cache.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        to_dict(py, py.detach(|| self.0.counts()))
    }
}

fn to_dict(py: Python<'_>, counts: engine::CacheCounts) -> PyResult<Bound<'_, PyDict>> {
    [("hits", counts.hits), ("misses", counts.misses), ("bytes", counts.bytes)].into_py_dict(py)
}

/// Limit the chunk cache of the process. None sets the default: 64 MiB, or a sixteenth of the memory
/// that the process may use, if that is less.
#[pyfunction]
#[pyo3(signature = (n))]
fn set_chunk_cache_bytes(py: Python<'_>, n: Option<u64>) {
    py.detach(|| engine::set_chunk_cache_limit(n));
}

/// Return the limit of the chunk cache of the process.
#[pyfunction]
fn chunk_cache_bytes() -> u64 {
    engine::chunk_cache_limit()
}

/// Counts of hits and misses of the chunk cache of the process, and the bytes in it.
#[pyfunction]
fn count_chunk_cache(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    to_dict(py, py.detach(engine::chunk_cache_counts))
}

/// A cache of at most `max_bytes` that several stores share.
#[pyclass(frozen, module = "tessarr._engine")]
pub(crate) struct CachePool(Arc<engine::CachePool>);

#[pymethods]
impl CachePool {
    #[new]
    fn new(max_bytes: u64) -> Self {
        CachePool(engine::CachePool::new(max_bytes))
    }

    /// Return a wrapper that caches the responses of `store`. Stores of the same `space` share
    /// entries. The cache validates an entry with the store unless it was read or validated at most
    /// `max_age_s` ago; None accepts entries of any age.
    fn store(&self, store: &Bound<'_, Store>, space: u64, max_age_s: Option<f64>) -> Store {
        let fresh = match max_age_s {
            None => engine::Freshness::Always,
            Some(age) => match Duration::try_from_secs_f64(age) {
                // A fixed point in time, so that later entries have no age limit.
                Ok(age) if !age.is_zero() => std::time::Instant::now()
                    .checked_sub(age)
                    .map_or(engine::Freshness::Always, engine::Freshness::Since),
                _ => engine::Freshness::Now,
            },
        };
        wrap(self.0.store(store.get().engine(), space, fresh))
    }

    /// Discard all entries.
    fn forget(&self, py: Python<'_>) {
        py.detach(|| self.0.clear());
    }

    /// Counts of hits and misses of all stores, and the bytes in the cache.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        to_dict(py, py.detach(|| self.0.counts()))
    }
}

/// Limits that stores share: concurrent requests, requests per second, and chunks that are decoded
/// or encoded concurrently.
#[pyclass(frozen, module = "tessarr._engine")]
pub(crate) struct Limits(Arc<engine::Limits>);

#[pymethods]
impl Limits {
    /// Create limits; None sets no limit. The rates double after each `doubling_s`.
    #[new]
    fn new(
        py: Python<'_>,
        concurrency: Option<u64>,
        chunks: Option<u64>,
        reads_per_s: Option<f64>,
        writes_per_s: Option<f64>,
        doubling_s: Option<f64>,
    ) -> PyResult<Self> {
        for (name, limit) in [("concurrency", concurrency), ("chunks", chunks)] {
            if limit == Some(0) {
                return Err(argument(py, format!("{name} must be positive")));
            }
        }
        let doubling = doubling_s.map(|seconds| duration(py, "doubling_s", seconds)).transpose()?;
        let doubling = doubling.filter(|doubling| !doubling.is_zero());
        let rate = |name: &str, per_second: Option<f64>| match per_second {
            Some(rate) if rate.is_nan() || rate <= 0.0 => {
                Err(argument(py, format!("{name} must be a positive number")))
            }
            other => Ok(other.map(|rate| engine::RateLimiter::new(rate, doubling))),
        };
        let (reads, writes) = (rate("reads_per_s", reads_per_s)?, rate("writes_per_s", writes_per_s)?);
        Ok(Limits(Arc::new(engine::Limits::new(concurrency, chunks, reads, writes))))
    }

    /// Return a wrapper that applies the limits to `store`.
    fn store(&self, store: &Bound<'_, Store>) -> Store {
        wrap(self.0.wrap(store.get().engine()))
    }
}

/// Return a wrapper that repeats a request up to `most` times after a transient error.
///
/// For an exception, `judge` returns the exception to report, whether it is transient, and whether
/// nothing changed (None: unknown).
#[pyfunction]
fn retry_store(
    store: &Bound<'_, Store>,
    most: u64,
    first_s: f64,
    longest_s: f64,
    judge: Py<PyAny>,
) -> PyResult<Store> {
    let py = store.py();
    let retries = engine::RetryPolicy {
        max_retries: most,
        initial_delay: duration(py, "first_s", first_s)?,
        max_delay: duration(py, "longest_s", longest_s)?,
        max_elapsed: Duration::MAX,
    };
    let judge = GilValue::new(judge);
    let judged = move |mut error: Error| {
        let answer = crate::runtime::atexit::attached(|py| {
            let raised = raised_by(&error)?;
            let judged = judge.get()?.call1(py, (raised.value(py),)).ok()?;
            let (cause, may_pass, undone): (Bound<'_, PyAny>, bool, Option<bool>) =
                judged.extract(py).ok()?;
            let passes = match (may_pass, undone) {
                (false, _) => engine::Transience::Permanent,
                (true, None) => engine::Transience::Transient,
                (true, Some(false)) => engine::Transience::Ambiguous,
                (true, Some(true)) => engine::Transience::NotApplied,
            };
            Some((foreign(py, PyErr::from_value(cause)), passes))
        });
        let Some((cause, passes)) = answer.flatten() else { return (error, engine::Transience::Permanent) };
        error.code = cause.code.or(error.code.filter(|&code| code != EXIT));
        error.foreign = cause.foreign;
        (error, passes)
    };
    Ok(wrap(engine::RetryingStore::new(store.get().engine(), retries, judged)))
}

/// Return the value that a Python function computes for a key at commit.
fn recompute_value(
    redo: &Py<PyAny>,
    key: &str,
    current: Option<&[u8]>,
) -> tessarr_engine::Result<Option<NewValue>> {
    let value = crate::runtime::atexit::attached(|py| {
        let current = current.map(|bytes| PyBytes::new(py, bytes));
        let value = redo.bind(py).call1((key, current.clone()))?;
        Ok(match () {
            () if value.is(py.Ellipsis()) => None,
            () if value.eq(&current)? => Some(NewValue::Unchanged),
            () if value.is_none() => Some(NewValue::Absent),
            () => Some(NewValue::Value(Arc::new(value.extract::<Vec<u8>>()?))),
        })
    });
    let shut = || tessarr_engine::Error::internal("a transaction was committed while Python shuts down");
    let value = value.ok_or_else(shut)?;
    value.map_err(|error: PyErr| Python::attach(|py| foreign(py, error)))
}

/// Staged changes of another store.
#[pyclass(extends = Store, subclass, frozen, module = "tessarr._engine")]
pub(crate) struct StagedStore {
    staged: Arc<engine::StagedStore>,
    /// The store that a commit changes.
    #[pyo3(get)]
    below: Py<Store>,
    /// The staged changes of the transaction.
    #[pyo3(get)]
    owner: Option<Py<PyAny>>,
}

impl StagedStore {
    pub(crate) fn engine(&self) -> &engine::StagedStore {
        &self.staged
    }
}

#[pymethods]
impl StagedStore {
    #[new]
    #[pyo3(signature = (store, repeatable, owner = None, *, sharing = None))]
    fn new(
        store: Bound<'_, Store>,
        repeatable: bool,
        owner: Option<Py<PyAny>>,
        sharing: Option<&Bound<'_, Self>>,
    ) -> PyClassInitializer<Self> {
        let below = store.get().engine();
        let staged = Arc::new(match sharing {
            None => engine::StagedStore::new(below, repeatable),
            Some(sharing) => sharing.get().staged.on(below),
        });
        initializer(StagedStore { staged: staged.clone(), below: store.unbind(), owner }, staged)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.below)?;
        visit.call(&self.owner)
    }

    /// The number of the change set: stores with the same change set have the same number.
    #[getter]
    fn number(&self) -> usize {
        self.staged.id()
    }

    /// Return the number of keys and deleted prefixes that a commit changes.
    fn count_changes(&self) -> usize {
        self.staged.changes()
    }

    /// Return whether the cache holds the value of a key, a part of it, or its absence.
    fn is_cached(&self, key: &str) -> bool {
        engine::Store::cache_state(&*self.staged, key).has_content
    }

    /// Return whether a change or a deletion of a key is staged.
    fn is_staged(&self, key: &str) -> bool {
        self.staged.replaces(key)
    }

    /// Return whether a commit deletes every key under a prefix before it writes others.
    fn deletes_below(&self, prefix: &str) -> bool {
        self.staged.deletes_below(prefix)
    }

    /// Return whether at most one change is staged, with a value of at most `max_bytes`.
    fn is_small(&self, max_bytes: usize) -> bool {
        self.staged.is_small(max_bytes)
    }

    /// Stage a value with the precondition that the key has a version at commit. Return false,
    /// without effect, if a change of the key is staged.
    fn stage_if(&self, py: Python<'_>, key: &str, data: &[u8], version: &[u8]) -> PyResult<bool> {
        let Some(seen) = engine::Version::new(version) else { return Ok(false) };
        let (seen, new) = (engine::Expected::Version(seen), NewValue::Value(Arc::new(data.to_vec())));
        py.detach(|| self.staged.stage_if(key, seen, new)).map_err(|error| to_py(py, error))
    }

    /// Add the precondition that a key that is only read has this version at commit, or, without a
    /// version, this value. `redo` can accept another value. Return false, without effect, if a
    /// change or another precondition of the key is staged.
    fn expect_version(
        &self,
        py: Python<'_>,
        key: &str,
        data: &[u8],
        version: Option<&[u8]>,
    ) -> PyResult<bool> {
        let seen = match version.and_then(engine::Version::new) {
            Some(version) => engine::Expected::Version(version),
            None => engine::Expected::Bytes(Arc::new(data.to_vec())),
        };
        py.detach(|| self.staged.stage_read(key, seen)).map_err(|error| to_py(py, error))
    }

    /// Return the first key whose precondition does not hold now.
    fn find_conflict(&self, py: Python<'_>) -> PyResult<Option<String>> {
        py.detach(|| self.staged.unmet_precondition()).map_err(|error| to_py(py, error))
    }

    /// Write `data` (None: delete the key) with the precondition that the key has a generation at
    /// commit. This checks the condition now if a change of the key is staged, or if only the value
    /// can decide: as in `write_versioned`.
    fn write_if<'py>(
        slf: &Bound<'py, Self>,
        key: &str,
        data: Option<&Bound<'_, PyAny>>,
        generation: &[u8],
    ) -> PyResult<versioned::Written<'py>> {
        let (py, staged) = (slf.py(), &slf.get().staged);
        let expect = || {
            versioned::expected_of(Some(generation))
                .map_or(Ok(false), |expected| staged.stage_precondition(key, expected))
        };
        let is_later = py.detach(expect).map_err(|error| to_py(py, error))?;
        let written =
            versioned::write(py, slf.as_super().get(), key, data, (!is_later).then_some(generation))?;
        staged.require_precondition(key);
        Ok(written)
    }

    /// Discard all changes.
    fn abort(&self, py: Python<'_>) {
        py.detach(|| self.staged.abort());
    }

    /// Commit the changes; with `atomic` all or none. Return None, the key of a conflict, or the
    /// number of keys that the store cannot change atomically.
    ///
    /// `redo` receives the key and the current value of a conflict. It returns the new value, or
    /// Ellipsis if the change does not apply to the current value. Without `redo`, every conflict
    /// fails.
    #[pyo3(signature = (atomic, redo=None))]
    fn commit<'py>(
        &self,
        py: Python<'py>,
        atomic: bool,
        redo: Option<Py<PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let redone = |key: &str, current: Option<&[u8]>| match &redo {
            Some(redo) => recompute_value(redo, key, current),
            None => Ok(None),
        };
        let below = self.below.get().engine();
        let locations = scope::is_active().then(|| CommitLocations::new(&*below, self.staged.regions()));
        if let Some(locations) = &locations {
            interruptible(py, |interrupt| locations.store_buffered(Some(interrupt)))?;
        }
        let outcome = py.detach(|| tessarr_engine::pool::guarded(|| self.staged.commit(atomic, &redone)));
        let is_deleted = |prefix: &str| match &outcome {
            Ok(outcome) => *outcome == engine::CommitOutcome::Done,
            Err(_) => !self.staged.deletes_below(prefix), // some changes may have been applied
        };
        if let Some(locations) = &locations {
            interruptible(py, |_| locations.discard_deleted(&is_deleted))?;
        }
        Ok(match outcome.map_err(|error| to_py(py, error))? {
            engine::CommitOutcome::Done => None,
            engine::CommitOutcome::Conflict(key) => Some(key.into_pyobject(py)?.into_any()),
            engine::CommitOutcome::NotAtomic(count) => Some(count.into_pyobject(py)?.into_any()),
        })
    }
}
