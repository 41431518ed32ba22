//! A cache of decoded shard indexes.
//!
//! The key holds the version of the object, so an entry is never stale. Two generations approximate
//! least-recently-used order: a full young generation becomes the old one, and a hit in the old
//! generation moves the entry to the young one. Every access passes the gate of [`fork`], so a
//! child process finds the maps whole and unlocked.
//!
//! The cache also remembers which index the shard at a key had last. A remote read can then begin
//! with the subchunk: the response has the version of the object, which confirms the index.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::store::{fork, Version};

/// The maximum size of one generation.
const GENERATION_BYTES: usize = 16 << 20;

/// Identifies an index: object version, range of the shard in the object, sharding codec.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct IndexKey {
    /// The version of the object.
    pub version: Version,
    /// The offset of the shard in the object.
    pub offset: u64,
    /// The size of the shard in bytes.
    pub size: u64,
    /// `Shard::id`: another level that reads the same bytes as a shard has another index.
    pub shard: u64,
}

/// A decoded index: offset and size of each subchunk, in C order.
pub type Index = Arc<Vec<[u64; 2]>>;

/// Two generations of entries, with their sizes in bytes.
struct Generations<K, V> {
    young: HashMap<K, (V, usize)>,
    old: HashMap<K, (V, usize)>,
    young_bytes: usize,
}

#[derive(Default)]
struct Caches {
    indexes: Generations<IndexKey, Index>,
    /// By the hash of a shard and its key: a wrong entry costs a request.
    last: Generations<u64, IndexKey>,
}

static CACHES: Mutex<Option<Caches>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Caches>> {
    // A panic cannot leave the maps inconsistent: every change is one insert or swap.
    CACHES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Return the index for `key`.
pub fn get(key: &IndexKey) -> Option<Index> {
    let _gate = fork::gate();
    lock().as_mut()?.indexes.get(key)
}

/// Add `index` for `key`.
pub fn insert(key: IndexKey, index: Index) {
    let _gate = fork::gate();
    let bytes = std::mem::size_of_val(&**index) + 128;
    lock().get_or_insert_default().indexes.insert(key, index, bytes);
}

/// Return the last known index of the shard at `key`, and the size of the shard.
pub fn last(shard: u64, key: &str) -> Option<(Index, u64)> {
    let _gate = fork::gate();
    let mut guard = lock();
    let caches = guard.as_mut()?;
    let index_key = caches.last.get(&hash(shard, key))?;
    Some((caches.indexes.get(&index_key)?, index_key.size))
}

/// Record that the shard at `key` has the index for `index_key`; None: it may have changed.
pub fn set_last(shard: u64, key: &str, index_key: Option<IndexKey>) {
    let _gate = fork::gate();
    let (mut guard, hash) = (lock(), hash(shard, key));
    match index_key {
        Some(index_key) => guard.get_or_insert_default().last.insert(hash, index_key, 256),
        None => guard.as_mut().map_or((), |caches| caches.last.remove(&hash)),
    }
}

fn hash(shard: u64, key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (shard, key).hash(&mut hasher);
    hasher.finish()
}

impl<K, V> Default for Generations<K, V> {
    fn default() -> Self {
        Generations { young: HashMap::new(), old: HashMap::new(), young_bytes: 0 }
    }
}

impl<K: Copy + Eq + Hash, V: Clone> Generations<K, V> {
    fn get(&mut self, key: &K) -> Option<V> {
        if let Some((value, _)) = self.young.get(key) {
            return Some(value.clone());
        }
        let (value, bytes) = self.old.remove(key)?;
        self.insert(*key, value.clone(), bytes);
        Some(value)
    }

    fn insert(&mut self, key: K, value: V, bytes: usize) {
        if bytes > GENERATION_BYTES {
            return;
        }
        if self.young_bytes + bytes > GENERATION_BYTES {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += bytes;
        self.young.insert(key, (value, bytes));
    }

    fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn last_index_is_that_of_the_last_version() {
        let shard = u64::MAX;
        let key = |tag: &[u8]| {
            let version = Version::foreign(1, "c/0", tag).unwrap();
            IndexKey { version, offset: 0, size: tag.len() as u64, shard }
        };
        assert!(last(shard, "c/0").is_none());
        for tag in [&b"a"[..], b"bb"] {
            insert(key(tag), Arc::new(vec![[tag.len() as u64, 0]]));
            set_last(shard, "c/0", Some(key(tag)));
            let (index, size) = last(shard, "c/0").unwrap();
            assert_eq!((index[0][0], size), (tag.len() as u64, tag.len() as u64));
        }
        assert!(last(shard, "c/1").is_none());
        set_last(shard, "c/0", None);
        assert!(last(shard, "c/0").is_none());
    }
}
