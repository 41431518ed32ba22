//! Counts of the calls to a store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use super::instrumented::{Call, CallReport, InstrumentedStore, StoreObserver};
use crate::error::Result;
use crate::store::Store;

/// The number of calls of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Values opened or absent, including updates that changed nothing.
    pub opens: u64,
    /// Ranged reads of open values; values in memory need none. Related reads of one file count
    /// once.
    pub reads: u64,
    /// Bytes of these reads.
    pub read_bytes: u64,
    /// Changes of one key.
    pub updates: u64,
    /// Values opened or absent within updates that changed the key.
    pub looks: u64,
    /// Ranged reads within updates.
    pub look_reads: u64,
    /// Bytes written, without copies of the current value.
    pub written_bytes: u64,
    /// Sections that held the lock of a key.
    pub holds: u64,
    /// Listings, deep and of one level.
    pub lists: u64,
    /// Prefixes deleted.
    pub delete_prefixes: u64,
}

/// Passes all calls to another store and counts them.
pub type CountingStore = InstrumentedStore<Counters>;

/// The counters of a [`CountingStore`].
#[derive(Debug, Default)]
pub struct Counters {
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

impl Counters {
    /// Count a call that read or wrote `bytes`.
    pub(in crate::store) fn count(&self, call: Call, bytes: u64) {
        match call {
            Call::Open => add(&self.opens, 1),
            Call::Read => {
                add(&self.reads, 1);
                add(&self.read_bytes, bytes);
            }
            Call::ReadContinued => add(&self.read_bytes, bytes),
            Call::Hold => add(&self.holds, 1),
            Call::Update => {
                add(&self.updates, 1);
                add(&self.written_bytes, bytes);
            }
            Call::List | Call::ListDir => add(&self.lists, 1),
            Call::DeletePrefix => add(&self.delete_prefixes, 1),
        }
    }

    /// Return the counts so far.
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

impl StoreObserver for Counters {
    fn supports_async(&self, _call: Call) -> bool {
        true
    }

    fn after(&self, call: Call, _key: &str, report: &CallReport<'_>) -> Result<()> {
        add(&self.look_reads, report.current_reads);
        if report.is_unchanged {
            self.count(Call::Open, report.bytes);
            return Ok(());
        }
        add(&self.looks, report.current_opens);
        self.count(call, report.bytes);
        Ok(())
    }
}

impl CountingStore {
    /// Count the calls to `inner`.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self::observed_by(inner, Counters::default())
    }

    /// Return the counts so far.
    pub fn counts(&self) -> Counts {
        self.observer().counts()
    }
}
