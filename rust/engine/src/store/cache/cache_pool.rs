//! What is remembered, by one store or by several.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::entry::{Answer, Found, Fresh, Part, Piece, Same};
use super::lru::{Epoch, Shelf};
use super::CachedStore;
use crate::store::{fork, Store};

/// A memory that several stores share: the least recently used goes first, whosoever it is.
#[derive(Clone, Debug)]
pub struct CachePool(Arc<Memory>);

/// What a [`CachedStore`] did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Answers that were remembered.
    pub hits: u64,
    /// Answers that the store below had to give.
    pub misses: u64,
    /// Bytes that are remembered now.
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
    /// Does `work` with the shelf; nothing else is locked, and nothing is called.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Shelf) -> T) -> T {
        let _gate = fork::gate();
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut shelf)
    }

    /// The answer that is remembered, and when it was asked for.
    pub(super) fn find(&self, name: &str, part: Part, fresh: Fresh) -> (Found, Asked) {
        let time = Instant::now();
        let (found, epoch) = self.with(|shelf| (shelf.find(name, part, fresh), shelf.epoch(name)));
        self.count(matches!(found, Found::Fresh(_)));
        (found, Asked { epoch, time })
    }

    /// A range of the value `of` that is remembered and these bytes are in, and where it begins.
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

/// When a store was asked: what is told of the state of before must not be kept after a change.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Asked {
    pub(super) epoch: Epoch,
    pub(super) time: Instant,
}

impl Asked {
    /// When somebody asks now.
    pub(in crate::store) fn now() -> Self {
        Asked { epoch: Epoch::now(), time: Instant::now() }
    }

    /// When an answer may have been given that was asked for then, or at any time since `first`.
    pub(super) fn since(self, first: Asked) -> Self {
        let epoch = if self.epoch <= first.epoch { self.epoch } else { Epoch::PAST };
        Asked { epoch, time: self.time.min(first.time) }
    }
}

impl CachePool {
    /// Remembers at most `limit` bytes.
    pub fn new(limit: u64) -> Self {
        fork::register();
        let shelf = Mutex::new(Shelf::new(limit));
        let memory = Memory { shelf, limit, hits: AtomicU64::new(0), misses: AtomicU64::new(0) };
        CachePool(Arc::new(memory))
    }

    /// Remembers answers of `inner`, as long as they are `fresh`. `space` stands for the place
    /// that it is, the same for all stores that are this place.
    pub fn store(&self, inner: Arc<dyn Store>, space: u64, fresh: Fresh) -> CachedStore {
        let space = format!("{space}:").into();
        CachedStore { inner, memory: self.0.clone(), space, fresh, shared: None }
    }

    /// What all stores with this memory did so far.
    pub fn counts(&self) -> CacheCounts {
        self.0.counts()
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.0.with(Shelf::clear);
    }
}
