//! A cache of decoded shard indexes.
//!
//! The key holds the version of the object, so an entry is never stale. Two generations approximate
//! least-recently-used order: a full young generation becomes the old one, and a hit in the old
//! generation moves the entry to the young one. Every access passes the gate of [`fork`], so a
//! child process finds the maps whole and unlocked.

use std::collections::HashMap;
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

#[derive(Default)]
struct Generations {
    young: HashMap<IndexKey, Index>,
    old: HashMap<IndexKey, Index>,
    young_bytes: usize,
}

static INDEXES: Mutex<Option<Generations>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Generations>> {
    // A panic cannot leave the maps inconsistent: every change is one insert or swap.
    INDEXES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Return the index for `key`.
pub fn get(key: &IndexKey) -> Option<Index> {
    let _gate = fork::gate();
    let mut guard = lock();
    let generations = guard.as_mut()?;
    if let Some(index) = generations.young.get(key) {
        return Some(index.clone());
    }
    let index = generations.old.remove(key)?;
    generations.insert(*key, index.clone());
    Some(index)
}

/// Add `index` for `key`.
pub fn insert(key: IndexKey, index: Index) {
    let _gate = fork::gate();
    lock().get_or_insert_with(Generations::default).insert(key, index);
}

impl Generations {
    fn insert(&mut self, key: IndexKey, index: Index) {
        let bytes = std::mem::size_of_val(&**index) + 128;
        if bytes > GENERATION_BYTES {
            return;
        }
        if self.young_bytes + bytes > GENERATION_BYTES {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += bytes;
        self.young.insert(key, index);
    }
}
