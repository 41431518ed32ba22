//! Counts what is asked of a store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use super::instrumented::{Call, Done, Watch, WatchedStore};
use crate::error::Result;
use crate::store::Store;

/// How often what was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Values opened, or found absent; also in order to change them, where that was then not done.
    pub opens: u64,
    /// Reads of opened values; a value in memory is read without. What is read of a file for one purpose is one.
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

impl Tally {
    /// Counts a call that read or wrote so many bytes.
    pub(in crate::store) fn count(&self, call: Call, bytes: u64) {
        match call {
            Call::Open => add(&self.opens, 1),
            Call::Read => {
                add(&self.reads, 1);
                add(&self.read_bytes, bytes);
            }
            Call::ReadMore => add(&self.read_bytes, bytes),
            Call::Hold => add(&self.holds, 1),
            Call::Update => {
                add(&self.updates, 1);
                add(&self.written_bytes, bytes);
            }
            Call::List | Call::ListDir => add(&self.lists, 1),
            Call::DeletePrefix => add(&self.delete_prefixes, 1),
        }
    }

    /// The counts so far.
    pub(in crate::store) fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            opens: read(&self.opens),
            reads: read(&self.reads),
            read_bytes: read(&self.read_bytes),
            updates: read(&self.updates),
            looks: read(&self.looks),
            look_reads: read(&self.look_reads),
            written_bytes: read(&self.written_bytes),
            holds: read(&self.holds),
            lists: read(&self.lists),
            delete_prefixes: read(&self.delete_prefixes),
        }
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

impl Watch for Tally {
    fn queues(&self, _call: Call) -> bool {
        true
    }

    fn after(&self, call: Call, _key: &str, done: &Done<'_>) -> Result<()> {
        add(&self.look_reads, done.looked.reads);
        if done.kept {
            self.count(Call::Open, done.bytes);
            return Ok(());
        }
        add(&self.looks, done.looked.opens);
        self.count(call, done.bytes);
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
        self.watch().counts()
    }
}
