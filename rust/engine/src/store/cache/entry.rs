//! Cache entries, and the values that they belong to.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::{read_all, Depth, Listing, ValueReader, Version};
use crate::error::Result;

/// The kind of an entry of a key or prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EntryKind {
    /// The value, or its absence.
    Value,
    /// A range of the value.
    Range { offset: u64, count: u64 },
    /// A listing of the prefix.
    Listing(Depth),
    /// The chunk that a level of an array decodes from `size` bytes at `offset`.
    Decoded { offset: u64, size: u64, level: u64 },
}

impl EntryKind {
    pub(super) const FIRST_RANGE: EntryKind = EntryKind::Range { offset: 0, count: 0 };
    pub(super) const FIRST_DECODED: EntryKind = EntryKind::Decoded { offset: 0, size: 0, level: 0 };
}

/// Identifies a value: one reader, or all values of one version.
#[derive(Clone, Copy)]
pub(super) struct ValueId {
    /// Unique for each reader.
    id: u64,
    state: Option<Version>,
    /// Whether `state` is a version.
    is_version: bool,
}

impl ValueId {
    /// Return the value that a reader has opened.
    pub(super) fn of(object: &dyn ValueReader) -> Self {
        let version = object.version();
        ValueId { state: version.or_else(|| object.state()), ..ValueId::of_written(version) }
    }

    /// Return a value that was just written.
    pub(super) fn of_written(version: Option<Version>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        ValueId { id: NEXT.fetch_add(1, Ordering::Relaxed), state: version, is_version: version.is_some() }
    }

    pub(super) fn version(&self) -> Option<Version> {
        self.state.filter(|_| self.is_version)
    }

    /// Return the state of the value, which may be too recent to be a version.
    pub(super) fn state(&self) -> Option<Version> {
        self.state
    }

    pub(super) fn equals(&self, other: &ValueId) -> bool {
        self.id == other.id || (self.is_version && other.is_version && self.state == other.state)
    }

    /// Return whether `object` is this value, as far as its store can tell.
    pub(super) fn matches_reader(&self, object: &dyn ValueReader) -> bool {
        self.state.is_some() && object.state() == self.state
    }
}

/// A value that was read completely.
pub(super) struct WholeValue {
    pub(super) bytes: Vec<u8>,
    pub(super) value_id: ValueId,
}

impl WholeValue {
    /// Read an open value completely.
    pub(super) fn of(object: &dyn ValueReader) -> Result<Self> {
        Ok(WholeValue { bytes: read_all(object)?, value_id: ValueId::of(object) })
    }
}

/// A cached response. Long ones are boxed: a cache may have many entries.
#[derive(Clone)]
pub(super) enum CacheEntry {
    Absent,
    Whole(Arc<WholeValue>),
    /// The value exists; its bytes may be cached as ranges.
    Exists {
        size: u64,
        value_id: Box<ValueId>,
    },
    Range(Arc<Vec<u8>>),
    Listing(Arc<Listing>),
    Decoded(Arc<Vec<u8>>),
}

/// Bytes of a value, and their offset.
pub(super) type CachedRange = (Arc<Vec<u8>>, u64);

/// The overhead of a value and of a range in bytes, whatever the length of the key. Together they
/// do not exceed what TensorStore counts for a chunk, so that a small pool holds as many chunks.
const VALUE_OVERHEAD: u64 = 96;
const RANGE_OVERHEAD: u64 = 160;

/// The overhead of an absent value: more than half of its true size.
const ABSENT_OVERHEAD: u64 = 300;

impl CacheEntry {
    /// Return the value to which the entry belongs.
    pub(super) fn value_id(&self) -> Option<ValueId> {
        match self {
            CacheEntry::Whole(whole) => Some(whole.value_id),
            CacheEntry::Exists { value_id, .. } => Some(**value_id),
            _ => None,
        }
    }

    pub(super) fn size(&self) -> u64 {
        let texts = |texts: &[String]| texts.iter().map(|text| text.len() as u64 + 24).sum::<u64>();
        match self {
            CacheEntry::Absent => ABSENT_OVERHEAD,
            CacheEntry::Exists { .. } => VALUE_OVERHEAD,
            CacheEntry::Whole(whole) => VALUE_OVERHEAD + whole.bytes.len() as u64,
            CacheEntry::Range(bytes) | CacheEntry::Decoded(bytes) => RANGE_OVERHEAD + bytes.len() as u64,
            CacheEntry::Listing(listing) => RANGE_OVERHEAD + texts(&listing.keys) + texts(&listing.prefixes),
        }
    }
}

/// An entry in the cache.
pub(super) struct LruSlot {
    pub(super) entry: CacheEntry,
    pub(super) bytes: u64,
    pub(super) last_used: u64,
    /// The time of the request that fetched or last confirmed the entry.
    pub(super) confirmed_at: Instant,
}

impl LruSlot {
    /// Mark the entry as most recently used.
    pub(super) fn mark_used(&mut self, clock: &mut u64, order: &mut BTreeMap<u64, (Arc<str>, EntryKind)>) {
        *clock += 1;
        if let Some(entry) = order.remove(&self.last_used) {
            order.insert(*clock, entry);
        }
        self.last_used = *clock;
    }
}

/// The entries of a key or prefix.
#[derive(Default)]
pub(super) struct KeyEntries {
    pub(super) value: Option<LruSlot>,
    /// Ranges and decoded chunks of `value`, which need it; and listings.
    pub(super) parts: BTreeMap<EntryKind, LruSlot>,
}

impl KeyEntries {
    pub(super) fn get_mut(&mut self, kind: EntryKind) -> Option<&mut LruSlot> {
        match kind {
            EntryKind::Value => self.value.as_mut(),
            _ => self.parts.get_mut(&kind),
        }
    }

    pub(super) fn remove(&mut self, kind: EntryKind) -> Option<LruSlot> {
        match kind {
            EntryKind::Value => self.value.take(),
            _ => self.parts.remove(&kind),
        }
    }

    pub(super) fn equals(&self, of: ValueId) -> bool {
        self.value
            .as_ref()
            .and_then(|value| value.entry.value_id())
            .is_some_and(|value_id| value_id.equals(&of))
    }

    pub(super) fn lru_slots(&self) -> impl Iterator<Item = &LruSlot> {
        self.value.iter().chain(self.parts.values())
    }
}

/// The staleness bound of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Any age.
    Always,
    /// At most this old.
    For(Duration),
    /// Requested at this time or later.
    Since(Instant),
    /// Entries are validated on every use.
    Now,
}

impl Freshness {
    pub(super) fn allows(self, confirmed_at: Instant) -> bool {
        match self {
            Freshness::Always => true,
            Freshness::For(age) => confirmed_at.elapsed() < age,
            Freshness::Since(requested_at) => confirmed_at >= requested_at,
            Freshness::Now => false,
        }
    }
}

/// The result of a cache lookup.
pub(super) enum Lookup {
    /// A fresh entry.
    Fresh(CacheEntry),
    /// An entry that must be validated.
    Stale(CacheEntry),
    /// No entry.
    Missing,
}
