//! The chunk cache: decoded chunks of arrays whose store has no cache.
//!
//! A read of a part of a compressed chunk leaves the decoded chunk in the cache, so that a loop over
//! rows decodes each chunk once. All arrays of the process share one pool, unless an array has its
//! own. An entry belongs to one version of the stored value, and every read compares this version
//! with that of the open value: an entry is never stale. A value without a version, such as a file
//! that changed a moment ago, is not cached.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
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

/// The pools of arrays with a limit of their own, by the names and limits of the arrays.
type ArrayPools = BTreeMap<(String, u64), Weak<CachePool>>;

/// Return the pool of the array `name`, which all its views with this limit share.
fn pool_of_array(name: String, limit: u64) -> Arc<CachePool> {
    static POOLS: Mutex<ArrayPools> = Mutex::new(BTreeMap::new());
    fork::register();
    let _gate = fork::gate();
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    if pools.len().is_power_of_two() {
        // Seldom enough, and often enough that most of the pools are in use.
        pools.retain(|_, pool| pool.strong_count() > 0);
    }
    let pool = pools.entry((name, limit)).or_default();
    pool.upgrade().unwrap_or_else(|| {
        let new = Arc::new(CachePool::of_process(limit));
        *pool = Arc::downgrade(&new);
        new
    })
}

impl ChunkCache {
    /// Return the cache of the array at `prefix` of `store`: a part of the pool of the process, or the
    /// pool of the array with a limit. None: no cache. `number` is unique for the store, also among
    /// former stores: the values of another store may have equal keys and tags.
    pub fn new(store: &dyn Store, number: u64, prefix: &str, limit: Option<u64>) -> Option<Self> {
        let location = match store.local("") {
            Some((local, folder)) => format!("{}/{folder}", local.root().display()),
            None => format!("{number}:"),
        };
        let pool = match limit {
            None => pool().clone(),
            Some(0) => return None,
            Some(limit) => pool_of_array([&location, prefix].concat(), limit),
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

/// The chunk cache in an operation on chunks that together may take half of it. Larger operations
/// are rarely repeated, and filling so much memory takes longer than reusing the memory of one chunk.
/// A single chunk may take all of the cache.
#[derive(Clone, Copy)]
pub struct CacheShare<'a> {
    pub(crate) cache: &'a ChunkCache,
    /// The number of chunks or shards.
    chunks: usize,
}

impl<'a> CacheShare<'a> {
    /// Return the share of `chunks` chunks or shards.
    pub(crate) fn new(cache: &'a ChunkCache, chunks: usize) -> Self {
        CacheShare { cache, chunks }
    }

    /// Return whether `count` parts of each chunk or shard fit, of `bytes` decoded bytes each.
    pub(crate) fn has_room(&self, count: usize, bytes: usize) -> bool {
        let count = count.saturating_mul(self.chunks);
        self.cache.has_room(bytes.saturating_mul(if count > 1 { count.saturating_mul(2) } else { 1 }))
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

    /// A cache of at most `limit` bytes over a new store with the keys "a" and "b".
    fn cache(limit: u64) -> (Arc<dyn Store>, ChunkCache) {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        store.put("a", b"encoded").unwrap();
        store.put("b", b"encoded").unwrap();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let cache = ChunkCache::new(&*store, number, "", Some(limit)).unwrap();
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
    fn stores_share_no_entries() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        store.put("a", b"encoded").unwrap();
        let [old, new] = [u64::MAX, u64::MAX - 1].map(|number| ChunkCache::new(&*store, number, "", None));
        let (old, new) = (old.unwrap(), new.unwrap());
        chunks(&store, &old, "a").insert(0, 7, 1, vec![1; 10]);
        assert!(old.of_known_value("a").is_some() && new.of_known_value("a").is_none());
        assert!(chunks(&store, &new, "a").get(0, 7, 1).is_none());
    }

    #[test]
    fn pool_belongs_to_an_array_and_a_limit_while_in_use() {
        let store = MemoryStore::default();
        let cache = |number, prefix, limit| ChunkCache::new(&store, number, prefix, Some(limit)).unwrap();
        let number = u64::MAX - 2;
        let first = cache(number, "a/", 3000);
        assert!(Arc::ptr_eq(&first.pool, &cache(number, "a/", 3000).pool));
        for other in [cache(number, "a/", 4000), cache(number, "b/", 3000), cache(number - 1, "a/", 3000)] {
            assert!(!Arc::ptr_eq(&first.pool, &other.pool));
        }
        let weak = Arc::downgrade(&first.pool);
        drop(first);
        assert!(weak.upgrade().is_none());
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
