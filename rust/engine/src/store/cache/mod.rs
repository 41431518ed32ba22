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
mod chunk_cache;
mod entry;
mod lru;
mod memory_share;
mod writes;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

pub(super) use self::cache_pool::RequestTime;
pub use self::cache_pool::{CacheCounts, CachePool};
use self::cached_value::{DecodedChunks, RangedReader, WholeValueReader};
pub use self::chunk_cache::{
    chunk_cache_counts, chunk_cache_limit, set_chunk_cache_limit, CacheShare, ChunkCache, ValueChunks,
};
pub use self::entry::Freshness;
use self::entry::{CacheEntry, EntryKind, Lookup, ValueId, WholeValue};
use self::writes::{cached_put, UpdateInProgress, WrittenValue};
use super::{
    CacheState, Call, Change, Depth, Exchange, Listing, Precondition, PrefixChange, ReadHint, ReplaceStore,
    StartRequest, Store, StoreInfo, UpdateOptions, UpdateOutcome, Updater, ValueReader,
};
use crate::error::Result;

/// Caches the responses of another store.
#[derive(Clone, Debug)]
pub struct CachedStore {
    inner: Arc<dyn Store>,
    memory: Arc<CachePool>,
    /// The prefix of this store's keys in the shared pool.
    namespace: Arc<str>,
    freshness: Freshness,
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

    /// Return the name of a key in the pool.
    fn name(&self, key: &str) -> String {
        [&self.namespace, key].concat()
    }

    /// Look up the value of `key`; return the time of the request as well.
    fn look_up(&self, key: &str, name: &str) -> (Lookup, RequestTime) {
        let (lookup, request_time) = self.memory.look_up(name, EntryKind::Value, self.freshness);
        if let Lookup::Fresh(CacheEntry::Absent | CacheEntry::Whole(_)) = lookup {
            return (lookup, request_time);
        }
        // The response of a cache or a coalescing store below may be older than this request.
        let CacheState { requested_at, first_request, .. } = self.inner.cache_state(key);
        let requested_at =
            requested_at.map_or(request_time.requested_at, |it| request_time.requested_at.min(it));
        let request_time = RequestTime { requested_at, ..request_time };
        (lookup, first_request.map_or(request_time, |first| request_time.since(first)))
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
        reads_whole(hint, size)
            && size <= self.memory.limit()
            && !self.memory.with(|lru| lru.has_decoded(name))
    }

    /// Return whether the cache holds only the existence of a value.
    fn lacks_parts(&self, name: &str) -> bool {
        self.memory.with(|lru| lru.lacks_parts(name))
    }

    fn is_small_value(&self, object: &dyn ValueReader) -> bool {
        object.size() <= SMALL_VALUE_BYTES.min(self.memory.limit())
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
        if size <= self.memory.limit() && (reads_whole(hint, size) || object.bytes().is_some()) {
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
        Box::new(RangedReader {
            key: key.to_owned(),
            chunks: DecodedChunks { name, of, memory: self.memory.clone() },
            size,
            request_time,
            reader: object.map_or_else(OnceLock::new, OnceLock::from),
            opening: Mutex::default(),
            sent_ahead: AtomicBool::default(),
            store: self.clone(),
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
        ReadHint::Prefix(limit) | ReadHint::IfChanged { prefix: limit, .. } => size <= limit,
        ReadHint::Suffix(_) | ReadHint::Revalidate => false,
        ReadHint::UnknownRanges | ReadHint::Range { .. } => size <= SMALL_VALUE_BYTES,
    }
}

impl Store for CachedStore {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&*self.inner)
    }

    fn with_inner(&self, replace: ReplaceStore<'_>) -> Option<Arc<dyn Store>> {
        Some(Arc::new(CachedStore { inner: replace(&self.inner)?, ..self.clone() }))
    }

    fn info(&self) -> StoreInfo {
        StoreInfo { cache_limit: Some(self.memory.limit()), ..self.inner.info() }
    }

    fn cache_state(&self, key: &str) -> CacheState {
        let (name, inner) = (self.name(key), self.inner.cache_state(key));
        let (has_content, requested_at) =
            self.memory.with(|lru| (lru.has_content(&name), lru.cached_at(&name, self.freshness)));
        CacheState { has_content, requested_at: requested_at.or(inner.requested_at), ..inner }
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

    fn async_requests(&self, call: Call) -> Option<StartRequest> {
        let start = self.inner.async_requests(call).filter(|_| call == Call::Update)?;
        let store = self.clone();
        Some(Arc::new(move |request| start(cached_put(&store, request))))
    }

    fn update<'a>(
        &self,
        key: &str,
        options: UpdateOptions,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<UpdateOutcome<'a>> {
        let (cached, update) = UpdateInProgress::start(self, self.name(key));
        let whole_value = match &cached {
            Some(CacheEntry::Whole(whole)) => Some(whole.clone()),
            _ => None,
        };
        let version = cached.as_ref().and_then(|entry| entry.value_id()?.version());
        let (mut new, mut is_kept) = (WrittenValue::Unknown, false);
        // In a remote store, only a version whose bytes are cached may replace a read.
        let is_local = self.inner.info().is_local;
        let version = version.filter(|_| whole_value.is_some() || is_local);
        let is_open = options.precondition == Precondition::Anything;
        // The cached version is not a precondition of the caller: after a mismatch the store runs
        // the updater again.
        let options = match (is_open && !options.strict, version) {
            (true, Some(version)) => {
                UpdateOptions { version: true, precondition: Precondition::Version(version), ..options }
            }
            (true, None) if matches!(cached, Some(CacheEntry::Absent)) => {
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
                _ => WrittenValue::of(&change, object, self.memory.limit())?,
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

    fn list_keys(&self, prefix: &str, depth: Depth) -> Result<Listing> {
        self.keys().check_prefix(prefix)?;
        let (name, kind) = (self.name(prefix), EntryKind::Listing(depth));
        let (lookup, request_time) = self.memory.look_up(&name, kind, self.freshness);
        if let Lookup::Fresh(CacheEntry::Listing(listing)) = lookup {
            return Ok((*listing).clone());
        }
        let listing = self.inner.list_keys(prefix, depth)?;
        self.memory.insert(&name, kind, CacheEntry::Listing(Arc::new(listing.clone())), request_time);
        Ok(listing)
    }

    fn change_prefix(&self, prefix: &str, change: PrefixChange<'_>) -> Result<bool> {
        let invalidate = || change.prefixes(prefix).for_each(|prefix| self.invalidate_prefix(prefix));
        invalidate();
        let result = self.inner.change_prefix(prefix, change);
        invalidate();
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
