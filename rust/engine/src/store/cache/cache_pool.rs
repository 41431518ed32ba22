//! Cache memory that one or several stores share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::entry::{Answer, Found, Fresh, Part, Piece, Same};
use super::lru::{Epoch, Shelf};
use super::CachedStore;
use crate::store::{fork, Store};

/// A memory limit that several caches share; the least recently used entry is evicted first.
#[derive(Clone, Debug)]
pub struct CachePool(Arc<Memory>);

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

pub(super) struct Memory {
    shelf: Mutex<Shelf>,
    pub(super) limit: u64,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Memory({} bytes)", self.limit)
    }
}

impl Memory {
    /// Run `work` with the entries locked; `work` calls no store.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Shelf) -> T) -> T {
        let _gate = fork::gate();
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut shelf)
    }

    /// Look up an entry; return the time of the lookup as well.
    pub(super) fn find(&self, name: &str, part: Part, fresh: Fresh) -> (Found, Asked) {
        let time = Instant::now();
        let (found, epoch) = self.with(|shelf| (shelf.find(name, part, fresh), shelf.epoch(name)));
        self.count(matches!(found, Found::Fresh(_)));
        (found, Asked { epoch, time })
    }

    /// A cached range of the value `of` that contains these bytes, and its offset.
    pub(super) fn find_range(&self, name: &str, offset: u64, count: u64, of: Same) -> Option<Piece> {
        let found = self.with(|shelf| shelf.find_range(name, offset, count, of));
        self.count(found.is_some());
        found
    }

    fn count(&self, hit: bool) {
        let counter = if hit { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn keep(&self, name: &str, part: Part, answer: Answer, asked: Asked) {
        self.with(|shelf| shelf.keep(name, part, answer, asked.epoch, asked.time));
    }

    pub(super) fn counts(&self) -> CacheCounts {
        CacheCounts {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            bytes: self.with(|shelf| shelf.bytes()),
        }
    }
}

/// The time of a request: a response about the state before a change must not be cached after it.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Asked {
    pub(super) epoch: Epoch,
    pub(super) time: Instant,
}

impl Asked {
    /// A request that starts now.
    pub(in crate::store) fn now() -> Self {
        Asked { epoch: Epoch::now(), time: Instant::now() }
    }

    /// The time of a coalesced response: it may stem from any request since `first`.
    pub(super) fn since(self, first: Asked) -> Self {
        let epoch = if self.epoch <= first.epoch { self.epoch } else { Epoch::PAST };
        Asked { epoch, time: self.time.min(first.time) }
    }
}

impl CachePool {
    /// Hold at most `limit` bytes.
    pub fn new(limit: u64) -> Self {
        fork::register();
        let shelf = Mutex::new(Shelf::new(limit));
        let memory = Memory { shelf, limit, hits: AtomicU64::new(0), misses: AtomicU64::new(0) };
        CachePool(Arc::new(memory))
    }

    /// Cache the responses of `inner` while they are fresh. Stores with the same `namespace` share
    /// entries: they must be views of the same data.
    pub fn store(&self, inner: Arc<dyn Store>, space: u64, fresh: Fresh) -> CachedStore {
        let space = format!("{space}:").into();
        CachedStore { inner, memory: self.0.clone(), space, fresh, shared: None }
    }

    /// The statistics of all stores in this pool.
    pub fn counts(&self) -> CacheCounts {
        self.0.counts()
    }

    /// Drop all entries.
    pub fn clear(&self) {
        self.0.with(Shelf::clear);
    }
}
