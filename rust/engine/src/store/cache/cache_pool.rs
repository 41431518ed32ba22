//! Cache memory that one or several stores share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::entry::{CacheEntry, CachedRange, EntryKind, Freshness, Lookup, ValueId};
use super::lru::{Epoch, Lru};
use super::CachedStore;
use crate::store::{fork, Store};

/// Statistics of a [`CachedStore`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Requests answered from the cache.
    pub hits: u64,
    /// Requests passed to the inner store.
    pub misses: u64,
    /// Bytes in the cache now.
    pub bytes: u64,
}

/// A memory limit that several caches share; the least recently used entry is evicted first.
pub struct CachePool {
    lru: Mutex<Lru>,
    limit: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    /// The fork generation of the entries; None: a forked child keeps them.
    generation: Option<AtomicU64>,
}

impl std::fmt::Debug for CachePool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CachePool({} bytes)", self.limit())
    }
}

impl CachePool {
    /// Hold at most `limit` bytes.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self::with_generation(limit, None))
    }

    /// Hold at most `limit` bytes in this process; a forked child starts with an empty pool.
    pub(super) fn of_process(limit: u64) -> Self {
        Self::with_generation(limit, Some(AtomicU64::new(fork::generation())))
    }

    fn with_generation(limit: u64, generation: Option<AtomicU64>) -> Self {
        fork::register();
        let (hits, misses) = (AtomicU64::new(0), AtomicU64::new(0));
        CachePool { lru: Mutex::new(Lru::new(limit)), limit: AtomicU64::new(limit), hits, misses, generation }
    }

    /// Return the maximum number of bytes.
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Change the maximum number of bytes.
    pub(super) fn set_limit(&self, limit: u64) {
        self.with(|lru| {
            self.limit.store(limit, Ordering::Relaxed);
            lru.set_limit(limit);
        });
    }

    /// Cache the responses of `inner` while they are fresh. Stores with the same `namespace` share
    /// entries: they must be views of the same data.
    pub fn store(
        self: &Arc<Self>,
        inner: Arc<dyn Store>,
        namespace: u64,
        freshness: Freshness,
    ) -> CachedStore {
        CachedStore { inner, memory: self.clone(), namespace: format!("{namespace}:").into(), freshness }
    }

    /// Drop all entries.
    pub fn clear(&self) {
        self.with(Lru::clear);
    }

    /// Run `work` with the entries locked; `work` calls no store.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Lru) -> T) -> T {
        let _gate = fork::gate();
        let mut lru = self.lru.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(generation) = &self.generation {
            if generation.load(Ordering::Relaxed) != fork::generation() {
                generation.store(fork::generation(), Ordering::Relaxed);
                lru.clear();
            }
        }
        work(&mut lru)
    }

    /// Look up an entry; return the time of the lookup as well.
    pub(super) fn look_up(&self, name: &str, kind: EntryKind, freshness: Freshness) -> (Lookup, RequestTime) {
        let requested_at = Instant::now();
        let (lookup, epoch) = self.with(|lru| (lru.look_up(name, kind, freshness), lru.epoch(name)));
        self.count(matches!(lookup, Lookup::Fresh(_)));
        (lookup, RequestTime { epoch, requested_at })
    }

    /// Return a cached range of the value `of` that contains these bytes, and its offset.
    pub(super) fn look_up_range(
        &self,
        name: &str,
        offset: u64,
        count: u64,
        of: ValueId,
    ) -> Option<CachedRange> {
        let lookup = self.with(|lru| lru.look_up_range(name, offset, count, of));
        self.count(lookup.is_some());
        lookup
    }

    pub(super) fn count(&self, hit: bool) {
        let counter = if hit { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn insert(&self, name: &str, kind: EntryKind, entry: CacheEntry, request_time: RequestTime) {
        self.with(|lru| lru.insert(name, kind, entry, request_time.epoch, request_time.requested_at));
    }

    /// Return the statistics of all stores in this pool.
    pub fn counts(&self) -> CacheCounts {
        CacheCounts {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            bytes: self.with(|lru| lru.bytes()),
        }
    }
}

/// The time of a request: a response about the state before a change must not be cached after it.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct RequestTime {
    pub(super) epoch: Epoch,
    pub(super) requested_at: Instant,
}

impl RequestTime {
    /// Return a request that starts now.
    pub(in crate::store) fn now() -> Self {
        RequestTime { epoch: Epoch::now(), requested_at: Instant::now() }
    }

    /// Return the time of a coalesced response: it may stem from any request since `earliest`.
    pub(super) fn since(self, earliest: RequestTime) -> Self {
        let epoch = if self.epoch <= earliest.epoch { self.epoch } else { Epoch::PAST };
        RequestTime { epoch, requested_at: self.requested_at.min(earliest.requested_at) }
    }
}
