//! The chunk cache: decoded chunks of arrays whose store has no cache.
//!
//! A read of a part of a compressed chunk leaves the decoded chunk in the cache, so that a loop over
//! rows decodes each chunk once. All arrays of the process share one pool, unless an array has its
//! own. An entry belongs to one version of the stored value, and every read compares this version
//! with that of the open value: an entry is never stale. A value without a version, such as a file
//! that changed a moment ago, is not cached.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use super::cache_pool::{CacheCounts, CachePool};
use super::cached_value::DecodedChunks;
use super::entry::{CacheEntry, EntryKind, ValueId};
use super::memory_share;
use crate::store::{fork, DecodedCache, Store, ValueReader, Version};

/// The default limit of the pool of the process.
const DEFAULT_BYTES: u64 = 64 << 20;

/// The default limit is at most this part of the memory of the process.
const MEMORY_SHARE: u64 = 16;

/// The pool of the process.
static POOL: LazyLock<Arc<CachePool>> = LazyLock::new(|| Arc::new(CachePool::of_process(default_limit())));

fn default_limit() -> u64 {
    memory_share::available_bytes().map_or(DEFAULT_BYTES, |bytes| DEFAULT_BYTES.min(bytes / MEMORY_SHARE))
}

fn pool() -> &'static Arc<CachePool> {
    fork::register();
    let _gate = fork::gate(); // a forked child inherits no half-built pool
    &POOL
}

/// Limit the pool of the process; None sets the default: 64 MiB, or a sixteenth of the memory that
/// the process may use, if that is less. 0 disables the chunk cache.
pub fn set_chunk_cache_limit(limit: Option<u64>) {
    pool().set_limit(limit.unwrap_or_else(default_limit));
}

/// Return the limit of the pool of the process.
pub fn chunk_cache_limit() -> u64 {
    pool().limit()
}

/// Return the statistics of the pool of the process.
pub fn chunk_cache_counts() -> CacheCounts {
    pool().counts()
}

/// The chunk cache of one array.
#[derive(Debug)]
pub struct ChunkCache {
    pool: Arc<CachePool>,
    /// The prefix of the names of entries: equal for two stores of one folder.
    location: Box<str>,
}

impl ChunkCache {
    /// Return the cache of an array in `store`: a part of the pool of the process, or its own pool
    /// with a limit. None: no cache.
    pub fn new(store: &Arc<dyn Store>, limit: Option<u64>) -> Option<Self> {
        let pool = match limit {
            None => pool().clone(),
            Some(0) => return None,
            Some(limit) => Arc::new(CachePool::of_process(limit)),
        };
        let location = match store.local("") {
            Some((local, prefix)) => format!("{}/{prefix}", local.root().display()),
            None => format!("{:p}/", Arc::as_ptr(store)),
        };
        Some(ChunkCache { pool, location: location.into() })
    }

    /// Return whether decoded chunks of this size fit together.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        bytes as u64 <= self.pool.limit()
    }

    /// Return the cache of the chunks that are decoded from the value of `key`; None: the value has
    /// no version.
    pub(crate) fn of_value(&self, key: &str, object: &dyn ValueReader) -> Option<ValueChunks> {
        object.version()?;
        Some(self.of(self.name(key), ValueId::of(object), object.size()))
    }

    /// Return the cache of the chunks of the last known value of `key`.
    pub(crate) fn of_known_value(&self, key: &str) -> Option<ValueChunks> {
        let name = self.name(key);
        let known = self.pool.with(|lru| match lru.value(&name) {
            Some(CacheEntry::Exists { size, value_id }) => Some((**value_id, *size)),
            _ => None,
        });
        known.map(|(of, size)| self.of(name, of, size))
    }

    /// Drop the chunks of the value of `key`, which is about to change.
    pub(crate) fn forget(&self, key: &str) {
        if self.pool.limit() > 0 {
            let name = self.name(key);
            self.pool.with(|lru| lru.forget(&name));
        }
    }

    fn name(&self, key: &str) -> String {
        [&self.location, key].concat()
    }

    fn of(&self, name: String, of: ValueId, size: u64) -> ValueChunks {
        ValueChunks { decoded: DecodedChunks { name, of, memory: self.pool.clone() }, size }
    }
}

/// The cached chunks of one version of a value.
pub struct ValueChunks {
    decoded: DecodedChunks,
    /// The size of the value.
    size: u64,
}

impl ValueChunks {
    /// Return the version and the size of the value.
    pub(crate) fn version(&self) -> Option<(Version, u64)> {
        self.decoded.of.version().map(|version| (version, self.size))
    }

    /// Return whether the chunk that `level` decodes from `size` bytes at `offset` is cached.
    pub(crate) fn contains(&self, offset: u64, size: u64, level: u64) -> bool {
        self.decoded.get(offset, size, level).is_some()
    }
}

impl DecodedCache for ValueChunks {
    fn has_room(&self, bytes: usize) -> bool {
        self.decoded.has_room(bytes)
    }

    fn get(&self, offset: u64, size: u64, level: u64) -> Option<Arc<Vec<u8>>> {
        let chunk = self.decoded.get(offset, size, level);
        self.decoded.memory.count(chunk.is_some());
        chunk
    }

    fn insert(&self, offset: u64, size: u64, level: u64, bytes: Vec<u8>) {
        let DecodedChunks { name, of, memory } = &self.decoded;
        memory.with(|lru| {
            if !lru.has_value(name, *of) {
                let value = CacheEntry::Exists { size: self.size, value_id: Box::new(*of) };
                let epoch = lru.epoch(name);
                lru.insert(name, EntryKind::Value, value, epoch, Instant::now());
            }
        });
        self.decoded.insert(offset, size, level, bytes);
    }

    fn is_for_parts(&self) -> bool {
        true
    }

    fn is_empty(&self) -> bool {
        let DecodedChunks { name, of, memory } = &self.decoded;
        memory.with(|lru| !lru.has_value(name, *of))
    }

    fn is_read_again(&self, offset: u64, level: u64) -> bool {
        /// Hashes of chunks, each at a position that it chooses; later ones replace earlier ones.
        static RECENT: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];
        let mut hasher = DefaultHasher::new();
        (&self.decoded.name, offset, level).hash(&mut hasher);
        let hash = hasher.finish();
        RECENT[hash as usize % RECENT.len()].swap(hash, Ordering::Relaxed) == hash
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::store::{MemoryStore, ReadHint};

    /// A cache of at most `limit` bytes over a store with the keys "a" and "b".
    fn cache(limit: u64) -> (Arc<dyn Store>, ChunkCache) {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        store.put("a", b"encoded").unwrap();
        store.put("b", b"encoded").unwrap();
        let cache = ChunkCache::new(&store, Some(limit)).unwrap();
        (store, cache)
    }

    fn chunks(store: &Arc<dyn Store>, cache: &ChunkCache, key: &str) -> ValueChunks {
        let object = store.open(key, ReadHint::Whole).unwrap().unwrap();
        cache.of_value(key, &*object).unwrap()
    }

    #[test]
    fn chunk_belongs_to_one_version_of_the_value() {
        let (store, cache) = cache(10_000);
        let old = chunks(&store, &cache, "a");
        assert!(old.is_empty());
        old.insert(0, 7, 1, vec![1; 100]);
        assert!(!chunks(&store, &cache, "a").is_empty());
        assert_eq!(chunks(&store, &cache, "a").get(0, 7, 1).unwrap()[..], [1; 100]);
        assert!(chunks(&store, &cache, "a").get(0, 7, 2).is_none());
        assert!(chunks(&store, &cache, "b").get(0, 7, 1).is_none());
        store.put("a", b"changed").unwrap();
        let new = chunks(&store, &cache, "a");
        assert!(new.get(0, 7, 1).is_none());
        new.insert(0, 7, 1, vec![2; 100]);
        assert!(old.get(0, 7, 1).is_none());
        assert_eq!(cache.of_known_value("a").unwrap().version(), new.version());
    }

    #[test]
    fn limit_bounds_the_chunks_and_evicts_the_least_recently_used() {
        let (store, cache) = cache(3000);
        let [a, b] = ["a", "b"].map(|key| chunks(&store, &cache, key));
        assert!(cache.has_room(3000) && !cache.has_room(3001));
        a.insert(0, 7, 1, vec![1; 1000]);
        b.insert(0, 7, 1, vec![1; 1000]);
        assert!(a.get(0, 7, 1).is_some());
        b.insert(0, 7, 2, vec![1; 1000]);
        assert!(cache.pool.counts().bytes <= 3000);
        assert!(a.get(0, 7, 1).is_some() && b.get(0, 7, 1).is_none() && b.get(0, 7, 2).is_some());
        cache.pool.set_limit(100);
        assert!(cache.pool.counts().bytes <= 100);
        assert!(a.get(0, 7, 1).is_none());
    }

    #[test]
    fn changed_value_is_forgotten() {
        let (store, cache) = cache(3000);
        chunks(&store, &cache, "a").insert(0, 7, 1, vec![1; 1000]);
        cache.forget("a");
        assert_eq!(cache.pool.counts().bytes, 0);
        assert!(cache.of_known_value("a").is_none());
    }

    #[test]
    fn second_read_of_a_chunk_is_recognised() {
        let (store, cache) = cache(3000);
        let chunks = chunks(&store, &cache, "a");
        assert!(!chunks.is_read_again(0, u64::MAX));
        assert!(chunks.is_read_again(0, u64::MAX));
        assert!(!chunks.is_read_again(1, u64::MAX));
    }
}
