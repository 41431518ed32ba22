//! Counts what is asked of a store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use super::watched::{Call, Done, Watch, WatchedStore};
use super::Store;
use crate::error::Result;

/// How often what was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Values opened, or found absent; also in order to change them, where that was then not done.
    pub opens: u64,
    /// Reads of opened values; a value in memory is read without.
    pub reads: u64,
    /// Bytes that these reads gave.
    pub read_bytes: u64,
    /// Changes of one key.
    pub updates: u64,
    /// Values opened, or found absent, in order to change them, which was then done.
    pub looks: u64,
    /// Reads of values in order to change them.
    pub look_reads: u64,
    /// Bytes written by them, copies of the current value not included.
    pub written_bytes: u64,
    /// How often a key was held while something else was done.
    pub holds: u64,
    /// Listings, deep and of one level.
    pub lists: u64,
    /// Prefixes deleted.
    pub delete_prefixes: u64,
}

/// Passes everything on to another store and counts it.
pub type CountingStore = WatchedStore<Tally>;

/// The counters of a [`CountingStore`].
#[derive(Debug, Default)]
pub struct Tally {
    opens: AtomicU64,
    reads: AtomicU64,
    read_bytes: AtomicU64,
    updates: AtomicU64,
    looks: AtomicU64,
    look_reads: AtomicU64,
    written_bytes: AtomicU64,
    holds: AtomicU64,
    lists: AtomicU64,
    delete_prefixes: AtomicU64,
}

impl Watch for Tally {
    fn after(&self, call: Call, _key: &str, done: &Done<'_>) -> Result<()> {
        let add = |counter: &AtomicU64, count: u64| {
            counter.fetch_add(count, Ordering::Relaxed);
        };
        add(&self.look_reads, done.looked.reads);
        match call {
            Call::Open => add(&self.opens, 1),
            Call::Update if done.kept => add(&self.opens, 1),
            Call::Read => {
                add(&self.reads, 1);
                add(&self.read_bytes, done.bytes);
            }
            Call::Hold => add(&self.holds, 1),
            Call::Update => {
                add(&self.updates, 1);
                add(&self.looks, done.looked.opens);
                add(&self.written_bytes, done.bytes);
            }
            Call::List | Call::ListDir => add(&self.lists, 1),
            Call::DeletePrefix => add(&self.delete_prefixes, 1),
        }
        Ok(())
    }
}

impl CountingStore {
    /// Counts what is asked of `inner` through the new store.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self::watched_by(inner, Tally::default())
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let tally = self.watch();
        Counts {
            opens: read(&tally.opens),
            reads: read(&tally.reads),
            read_bytes: read(&tally.read_bytes),
            updates: read(&tally.updates),
            looks: read(&tally.looks),
            look_reads: read(&tally.look_reads),
            written_bytes: read(&tally.written_bytes),
            holds: read(&tally.holds),
            lists: read(&tally.lists),
            delete_prefixes: read(&tally.delete_prefixes),
        }
    }
}
