//! A store that counts what is asked of another.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use super::{Change, Listing, Object, Store, Updater, Version, Want};
use crate::error::Result;

/// How often what was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Values opened, or found absent.
    pub opens: u64,
    /// Reads of opened values; a value in memory is read without.
    pub reads: u64,
    /// Bytes that these reads gave.
    pub read_bytes: u64,
    /// Changes of one key.
    pub updates: u64,
    /// Bytes written by them, copies of the current value not included.
    pub written_bytes: u64,
    /// Listings, deep and of one level.
    pub lists: u64,
    /// Prefixes deleted.
    pub delete_prefixes: u64,
}

/// Passes everything on to another store and counts it.
#[derive(Debug)]
pub struct CountingStore {
    inner: Arc<dyn Store>,
    tally: Arc<Tally>,
}

#[derive(Debug, Default)]
struct Tally {
    opens: AtomicU64,
    reads: AtomicU64,
    read_bytes: AtomicU64,
    updates: AtomicU64,
    written_bytes: AtomicU64,
    lists: AtomicU64,
    delete_prefixes: AtomicU64,
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

impl CountingStore {
    /// Counts what is asked of `inner` through the new store.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        CountingStore { inner, tally: Arc::default() }
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            opens: read(&self.tally.opens),
            reads: read(&self.tally.reads),
            read_bytes: read(&self.tally.read_bytes),
            updates: read(&self.tally.updates),
            written_bytes: read(&self.tally.written_bytes),
            lists: read(&self.tally.lists),
            delete_prefixes: read(&self.tally.delete_prefixes),
        }
    }
}

impl Store for CountingStore {
    fn open(&self, key: &str, want: Want) -> Result<Option<Box<dyn Object>>> {
        add(&self.tally.opens, 1);
        let opened = self.inner.open(key, want)?;
        Ok(opened
            .map(|inner| Box::new(CountedObject { inner, tally: self.tally.clone() }) as Box<dyn Object>))
    }

    fn update<'a>(
        &self,
        key: &str,
        needs_current: bool,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<Change<'a>> {
        add(&self.tally.updates, 1);
        let change = self.inner.update(key, needs_current, &mut |current| {
            let change = updater(current)?;
            if let Change::Write(parts) = &change {
                let fresh = parts.iter().filter(|part| !matches!(part, super::Part::Current { .. }));
                add(&self.tally.written_bytes, fresh.map(super::Part::size).sum());
            }
            Ok(change)
        })?;
        Ok(change)
    }

    fn hold(&self, key: &str, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        add(&self.tally.updates, 1);
        self.inner.hold(key, work)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        add(&self.tally.lists, 1);
        self.inner.list(prefix)
    }

    fn list_dir(&self, prefix: &str) -> Result<Listing> {
        add(&self.tally.lists, 1);
        self.inner.list_dir(prefix)
    }

    fn delete_prefix(&self, prefix: &str) -> Result<()> {
        add(&self.tally.delete_prefixes, 1);
        self.inner.delete_prefix(prefix)
    }

    fn read_only(&self) -> bool {
        self.inner.read_only()
    }
}

struct CountedObject {
    inner: Box<dyn Object>,
    tally: Arc<Tally>,
}

impl Object for CountedObject {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn version(&self) -> Option<Version> {
        self.inner.version()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        add(&self.tally.reads, 1);
        add(&self.tally.read_bytes, out.len() as u64);
        self.inner.read_at(offset, out)
    }

    fn bytes(&self) -> Option<&[u8]> {
        self.inner.bytes()
    }

    fn file(&self) -> Option<&std::fs::File> {
        self.inner.file()
    }
}
