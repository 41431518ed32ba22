//! A read cache over another store.
//!
//! The cache holds values, ranges, absence and listings up to a number of bytes, and evicts the
//! least recently used entry first. Writes through the cache update it, so that its own users
//! always see their changes. Changes by others become visible when an entry ends: by `clear`, by
//! age, or by eviction.
//!
//! The inner store decides updates with its current value, never with a cached one. A read that
//! overlaps a change of the same key is not cached.
//!
//! Decoded chunks are cached beside their value, so that using them again needs neither a request
//! nor decoding. If both do not fit, the bytes of the value are evicted first.
//!
//! Several stores may share one pool and its limit. A stale entry is validated by its version, if
//! the inner store has versions: then its bytes need not be read again.

mod cache_pool;
mod cached_value;
mod entry;
mod lru;
mod writes;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use self::cache_pool::CacheMemory;
pub(super) use self::cache_pool::RequestTime;
pub use self::cache_pool::{CacheCounts, CachePool};
use self::cached_value::{DecodedChunks, RangedReader, WholeValueReader};
pub use self::entry::Freshness;
use self::entry::{CacheEntry, EntryKind, Lookup, ValueId, WholeValue};
use self::lru::Lru;
use self::writes::{CachedPut, UpdateInProgress, WrittenValue};
use super::ReadHint;
use super::{
    with_coalescing, AsyncPut, Change, CoalescingStore, Exchange, Listing, Precondition, Store,
    UpdateOptions, UpdateOutcome, Updater, ValueReader,
};
use crate::error::Result;

/// Caches the responses of another store.
#[derive(Debug)]
pub struct CachedStore {
    inner: Arc<dyn Store>,
    memory: Arc<CacheMemory>,
    /// The prefix of this store's keys in the shared pool.
    namespace: Arc<str>,
    freshness: Freshness,
    /// A coalescing store below, whose responses may be older than the request.
    coalescing: Option<Arc<CoalescingStore>>,
}

impl CachedStore {
    /// Cache responses of `inner`: at most `limit` bytes, none older than `max_age`.
    pub fn new(inner: Arc<dyn Store>, limit: u64, max_age: Option<Duration>) -> Self {
        CachePool::new(limit).store(inner, 0, max_age.map_or(Freshness::Always, Freshness::For))
    }

    /// Statistics of the pool.
    pub fn counts(&self) -> CacheCounts {
        self.memory.counts()
    }

    /// Drop all entries of this store.
    pub fn clear(&self) {
        self.memory.with(|lru| lru.invalidate_prefix(&self.namespace, &self.namespace));
    }

    fn name(&self, key: &str) -> String {
        name(&self.namespace, key)
    }

    /// Look up the value of `key`; return the time of the request as well.
    fn look_up(&self, key: &str, name: &str) -> (Lookup, RequestTime) {
        let (lookup, request_time) = self.memory.look_up(name, EntryKind::Value, self.freshness);
        if let Lookup::Fresh(CacheEntry::Absent | CacheEntry::Whole(_)) = lookup {
            return (lookup, request_time);
        }
        let requested_at = self
            .inner
            .cached_since(key)
            .map_or(request_time.requested_at, |requested_at| request_time.requested_at.min(requested_at));
        let (request_time, first) = (
            RequestTime { requested_at, ..request_time },
            self.coalescing.as_ref().and_then(|it| it.first_request(key)),
        );
        (lookup, first.map_or(request_time, |first| request_time.since(first)))
    }

    /// Invalidate a value that differs from the cached one, unless that happened since the request.
    /// Returns the time with which the new value is cached.
    fn invalidate_older(&self, name: &str, request_time: RequestTime) -> RequestTime {
        self.memory.with(|lru| {
            if lru.epoch(name) == request_time.epoch {
                lru.invalidate(&self.namespace, name);
                return RequestTime { epoch: lru.epoch(name), ..request_time };
            }
            request_time
        })
    }

    fn invalidate(&self, key: &str) {
        let name = self.name(key);
        self.memory.with(|lru| lru.invalidate(&self.namespace, &name));
    }

    fn invalidate_prefix(&self, prefix: &str) {
        let name = self.name(prefix);
        self.memory.with(|lru| lru.invalidate_prefix(&self.namespace, &name));
    }

    /// Return whether to read a value completely; not if its decoded chunks are cached.
    fn reads_whole(&self, name: &str, hint: ReadHint, size: u64) -> bool {
        reads_whole(hint, size) && size <= self.memory.limit && !self.memory.with(|lru| lru.has_decoded(name))
    }

    /// Return whether the cache holds only the existence of a value.
    fn lacks_parts(&self, name: &str) -> bool {
        self.memory.with(|lru| lru.lacks_parts(name))
    }

    fn is_small_value(&self, object: &dyn ValueReader) -> bool {
        object.size() <= SMALL_VALUE_BYTES.min(self.memory.limit)
    }

    /// Open the value in the inner store.
    fn open_inner(
        &self,
        key: &str,
        name: String,
        hint: ReadHint,
        request_time: RequestTime,
    ) -> Result<Option<Box<dyn ValueReader>>> {
        let object = self.inner.open(key, hint)?;
        self.cache_opened(key, name, hint, request_time, object)
    }

    fn cache_opened(
        &self,
        key: &str,
        name: String,
        hint: ReadHint,
        request_time: RequestTime,
        object: Option<Box<dyn ValueReader>>,
    ) -> Result<Option<Box<dyn ValueReader>>> {
        let Some(object) = object else {
            self.memory.insert(&name, EntryKind::Value, CacheEntry::Absent, request_time);
            return Ok(None);
        };
        let size = object.size();
        if size <= self.memory.limit && (reads_whole(hint, size) || object.bytes().is_some()) {
            let whole = Arc::new(WholeValue::of(&*object)?);
            self.memory.insert(&name, EntryKind::Value, CacheEntry::Whole(whole.clone()), request_time);
            return Ok(Some(self.whole_reader(name, whole)));
        }
        let value_id = ValueId::of(&*object);
        let entry = CacheEntry::Exists { size, value_id: Box::new(value_id) };
        self.memory.insert(&name, EntryKind::Value, entry, request_time);
        Ok(Some(self.ranged_reader(key, name, size, value_id, request_time, Some(object))))
    }

    fn whole_reader(&self, name: String, whole: Arc<WholeValue>) -> Box<dyn ValueReader> {
        let chunks = DecodedChunks { name, of: whole.value_id, memory: self.memory.clone() };
        Box::new(WholeValueReader { whole, chunks: Some(chunks) })
    }

    fn ranged_reader(
        &self,
        key: &str,
        name: String,
        size: u64,
        of: ValueId,
        request_time: RequestTime,
        object: Option<Box<dyn ValueReader>>,
    ) -> Box<dyn ValueReader> {
        let reader = OnceLock::new();
        if let Some(object) = object {
            let _ = reader.set(object);
        }
        let (inner, memory, namespace) = (self.inner.clone(), self.memory.clone(), self.namespace.clone());
        let chunks = DecodedChunks { name: name.clone(), of, memory: memory.clone() };
        Box::new(RangedReader {
            key: key.to_owned(),
            name,
            chunks,
            size,
            request_time,
            entries_stay_valid: matches!(self.freshness, Freshness::Always | Freshness::Since(_)),
            reader,
            opening: Mutex::default(),
            sent_ahead: AtomicBool::default(),
            inner,
            memory,
            namespace,
        })
    }

    /// Return the cached value if its version is current, otherwise the new one.
    fn revalidate(
        &self,
        key: &str,
        name: String,
        hint: ReadHint,
        request_time: RequestTime,
        old: &CacheEntry,
    ) -> Result<Option<Box<dyn ValueReader>>> {
        let (size, of) = match old {
            CacheEntry::Whole(whole) => (whole.bytes.len() as u64, whole.value_id),
            CacheEntry::Exists { size, value_id } => (*size, **value_id),
            _ => return self.open_inner(key, name, hint, request_time),
        };
        if of.version().is_none() {
            // Without a version, cached ranges may belong to another state.
            let request_time = self.invalidate_older(&name, request_time);
            return self.open_inner(key, name, hint, request_time);
        }
        let is_partial = matches!(hint, ReadHint::Range { .. } | ReadHint::Suffix(_));
        let object = self.inner.open(key, if is_partial { hint } else { ReadHint::Revalidate })?;
        let is_same = |object: &dyn ValueReader| object.size() == size && of.matches_reader(object);
        if !object.as_deref().is_some_and(is_same) {
            // The new value is open; it is cached unless this cache changed the key since the
            // request.
            let request_time = self.invalidate_older(&name, request_time);
            return self.cache_opened(key, name, hint, request_time, object);
        }
        self.memory.with(|lru| lru.confirm(&name, request_time.requested_at, request_time.epoch));
        match old {
            CacheEntry::Whole(whole) => Ok(Some(self.whole_reader(name, whole.clone()))),
            _ if self.reads_whole(&name, hint, size) => {
                self.cache_opened(key, name, hint, request_time, object)
            }
            _ => Ok(Some(self.ranged_reader(key, name, size, of, request_time, object))),
        }
    }
}

/// Values up to this size are read completely, whichever range is needed first.
const SMALL_VALUE_BYTES: u64 = 1 << 20;

/// Return whether a value of this size is read completely.
fn reads_whole(hint: ReadHint, size: u64) -> bool {
    match hint {
        ReadHint::Whole => true,
        ReadHint::Prefix(limit) => size <= limit,
        ReadHint::Suffix(_) | ReadHint::Revalidate => false,
        ReadHint::UnknownRanges | ReadHint::Range { .. } => size <= SMALL_VALUE_BYTES,
    }
}

impl Store for CachedStore {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&*self.inner)
    }

    fn with_coalescing(
        &self,
        below: &Arc<dyn Store>,
        coalescing: &Arc<CoalescingStore>,
    ) -> Option<Arc<dyn Store>> {
        let (inner, coalescing) =
            (with_coalescing(&self.inner, below, coalescing)?, Some(coalescing.clone()));
        let (memory, namespace) = (self.memory.clone(), self.namespace.clone());
        Some(Arc::new(CachedStore { inner, memory, namespace, freshness: self.freshness, coalescing }))
    }

    fn can_cache(&self, bytes: usize) -> bool {
        bytes as u64 <= self.memory.limit
    }

    fn is_cached(&self, key: &str) -> bool {
        let name = self.name(key);
        self.memory.with(|lru| lru.has_content(&name))
    }

    fn cached_since(&self, key: &str) -> Option<Instant> {
        let name = self.name(key);
        self.memory.with(|lru| lru.cached_at(&name, self.freshness)).or_else(|| self.inner.cached_since(key))
    }

    fn open(&self, key: &str, hint: ReadHint) -> Result<Option<Box<dyn ValueReader>>> {
        self.keys().check(key)?;
        let name = self.name(key);
        let (lookup, request_time) = self.look_up(key, &name);
        match lookup {
            Lookup::Fresh(CacheEntry::Absent) => Ok(None),
            Lookup::Fresh(CacheEntry::Whole(whole)) => Ok(Some(self.whole_reader(name, whole))),
            Lookup::Fresh(CacheEntry::Exists { size, value_id }) => {
                let has_no_state = value_id.state().is_none() && self.lacks_parts(&name);
                match has_no_state || self.reads_whole(&name, hint, size) {
                    true => self.open_inner(key, name, hint, request_time),
                    false => Ok(Some(self.ranged_reader(key, name, size, *value_id, request_time, None))),
                }
            }
            // No entry could be confirmed.
            Lookup::Stale(CacheEntry::Exists { .. }) if self.lacks_parts(&name) => {
                self.open_inner(key, name, hint, request_time)
            }
            Lookup::Stale(old) => self.revalidate(key, name, hint, request_time, &old),
            _ => self.open_inner(key, name, hint, request_time),
        }
    }

    fn async_put(&self) -> Option<Arc<dyn AsyncPut>> {
        let (memory, namespace) = (self.memory.clone(), self.namespace.clone());
        Some(Arc::new(CachedPut::new(self.inner.async_put()?, memory, namespace)))
    }

    fn update<'a>(
        &self,
        key: &str,
        options: UpdateOptions,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<UpdateOutcome<'a>> {
        let name = self.name(key);
        let inspect = |lru: &Lru| (lru.whole(&name), lru.version(&name), lru.is_absent(&name));
        let ((whole_value, version, absent), update) =
            UpdateInProgress::start(&self.memory, &self.namespace, name.clone(), inspect);
        let (mut new, mut is_kept) = (WrittenValue::Unknown, false);
        // In a remote store, only a version whose bytes are cached may replace a read.
        let is_local = self.inner.is_local();
        let version = version.filter(|_| whole_value.is_some() || is_local);
        let is_open = options.precondition == Precondition::Anything;
        // The cached version is not a precondition of the caller: after a mismatch the store runs
        // the updater again.
        let options = match (is_open && !options.strict, version) {
            (true, Some(version)) => {
                UpdateOptions { version: true, precondition: Precondition::Version(version), ..options }
            }
            (true, None) if absent => {
                UpdateOptions { version: true, precondition: Precondition::Absent, ..options }
            }
            _ => UpdateOptions { version: true, ..options },
        };
        let outcome = self.inner.update(key, options, &mut |current| {
            // A cached value of the current version need not be read again.
            let is = |whole: &WholeValue| {
                whole.value_id.version().is_some()
                    && current.is_some_and(|object| whole.value_id.matches_reader(object))
            };
            let whole_value = whole_value.as_ref().filter(|whole| is(whole));
            let whole = match (whole_value, current) {
                (Some(whole), _) => Some(WholeValueReader { whole: whole.clone(), chunks: None }),
                // A small value is read completely and cached afterwards. A store that compares
                // versions may hold only the version.
                (None, Some(object))
                    if options.current && (is_open || is_local) && self.is_small_value(object) =>
                {
                    Some(WholeValueReader { whole: Arc::new(WholeValue::of(object)?), chunks: None })
                }
                _ => None,
            };
            let object = whole.as_ref().map(|whole| whole as &dyn ValueReader);
            let change = updater(object.or(current))?;
            is_kept = matches!(change, Change::Keep);
            new = match (&change, &whole) {
                (Change::Keep, _) if options.current && current.is_none() => WrittenValue::Absent,
                (Change::Keep, Some(whole)) => WrittenValue::Unchanged(whole.whole.clone()),
                _ => WrittenValue::of(&change, object, self.memory.limit)?,
            };
            Ok(change)
        });
        // The change may have been rejected.
        let is_applied = |outcome: &&UpdateOutcome<'_>| is_kept || !matches!(outcome.change, Change::Keep);
        update.end(outcome.as_ref().ok().filter(is_applied).map(|outcome| (new, outcome.version)));
        outcome
    }

    fn hold(&self, key: &str, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        // The previous holder of the lock may have changed keys in the same folder.
        let folder = &key[..key.rfind('/').map_or(0, |slash| slash + 1)];
        self.inner.hold(key, &mut || {
            self.invalidate_prefix(folder);
            work()
        })
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.keys().check_prefix(prefix)?;
        let name = self.name(prefix);
        let (lookup, request_time) = self.memory.look_up(&name, EntryKind::Keys, self.freshness);
        if let Lookup::Fresh(CacheEntry::Keys(keys)) = lookup {
            return Ok(keys.to_vec());
        }
        let keys = self.inner.list(prefix)?;
        self.memory.insert(&name, EntryKind::Keys, CacheEntry::Keys(Arc::new(keys.clone())), request_time);
        Ok(keys)
    }

    fn list_dir(&self, prefix: &str) -> Result<Listing> {
        self.keys().check_prefix(prefix)?;
        let name = self.name(prefix);
        let (lookup, request_time) = self.memory.look_up(&name, EntryKind::Level, self.freshness);
        if let Lookup::Fresh(CacheEntry::Level(level)) = lookup {
            return Ok((*level).clone());
        }
        let level = self.inner.list_dir(prefix)?;
        self.memory.insert(&name, EntryKind::Level, CacheEntry::Level(Arc::new(level.clone())), request_time);
        Ok(level)
    }

    fn delete_prefix(&self, prefix: &str) -> Result<()> {
        self.invalidate_prefix(prefix);
        let result = self.inner.delete_prefix(prefix);
        self.invalidate_prefix(prefix);
        result
    }

    fn replace_prefix(&self, staged: &str, prefix: &str) -> Result<bool> {
        let invalidate = || [staged, prefix].iter().for_each(|prefix| self.invalidate_prefix(prefix));
        invalidate();
        let result = self.inner.replace_prefix(staged, prefix);
        invalidate();
        result
    }

    fn clear_prefix(&self, prefix: &str) -> Result<()> {
        self.invalidate_prefix(prefix);
        let result = self.inner.clear_prefix(prefix);
        self.invalidate_prefix(prefix);
        result
    }

    fn remove_link(&self, prefix: &str) -> Result<bool> {
        self.invalidate_prefix(prefix);
        let result = self.inner.remove_link(prefix);
        self.invalidate_prefix(prefix);
        result
    }

    fn exchange(&self, changes: &[Exchange]) -> Result<Option<bool>> {
        let invalidate = || changes.iter().for_each(|change| self.invalidate(&change.key));
        invalidate();
        let result = self.inner.exchange(changes);
        invalidate();
        result
    }
}

/// Return the name of a key in the pool.
fn name(namespace: &str, key: &str) -> String {
    let mut name = String::with_capacity(namespace.len() + key.len());
    name.push_str(namespace);
    name.push_str(key);
    name
}
