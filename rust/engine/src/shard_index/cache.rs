//! DecodedCache shard indexes, kept between reads.
//!
//! The key holds the version of the object, so that an entry is right or not
//! found, never stale. Two generations make the cheapest least-recently-used
//! order: when the young one is full it becomes the old one, and what is found
//! there moves up again. Every access passes the gate of [`fork`], so that a
//! child finds the maps whole and unlocked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::store::{fork, Version};

/// Most bytes of one generation.
const GENERATION_BYTES: usize = 16 << 20;

/// Where an index is: object state, range of the shard in it, compiled sharding codec.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct IndexKey {
    /// The state of the object.
    pub version: Version,
    /// First byte of the shard in the object.
    pub offset: u64,
    /// Bytes of the shard.
    pub size: u64,
    /// `Shard::id`: the same bytes read as another level's shard have another index.
    pub shard: u64,
}

/// A decoded index: offset and size per subchunk, in C order.
pub type Index = Arc<Vec<[u64; 2]>>;

#[derive(Default)]
struct Generations {
    young: HashMap<IndexKey, Index>,
    old: HashMap<IndexKey, Index>,
    young_bytes: usize,
}

static INDEXES: Mutex<Option<Generations>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Generations>> {
    // A panic cannot leave the maps half-changed: every change is one insert or swap.
    INDEXES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The index kept under `key`.
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

/// Keep `index` under `key`.
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
