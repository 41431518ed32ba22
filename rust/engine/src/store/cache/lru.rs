//! Cache entries in the order of their last use.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Instant;

use super::entry::{CacheEntry, CachedRange, EntryKind, Freshness, KeyEntries, Lookup, LruSlot, ValueId};

/// When a key was last invalidated: a response to an earlier request must not be cached. Epochs
/// count all invalidations in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Epoch(u64);

static INVALIDATIONS: AtomicU64 = AtomicU64::new(0);

impl Epoch {
    /// An epoch that no invalidation precedes.
    pub(super) const PAST: Epoch = Epoch(u64::MAX);

    /// Return the epoch after all invalidations so far.
    pub(super) fn now() -> Self {
        Epoch(INVALIDATIONS.load(Ordering::SeqCst))
    }

    /// Return the epoch of an invalidation that happens now.
    fn next() -> u64 {
        INVALIDATIONS.fetch_add(1, Ordering::SeqCst) + 1
    }
}

/// Entries by key and kind, up to a number of bytes.
pub(super) struct Lru {
    names: BTreeMap<Arc<str>, KeyEntries>,
    /// Entries by the time of their last use: the first is evicted first.
    order: BTreeMap<u64, (Arc<str>, EntryKind)>,
    /// Values whose decoded chunks are cached as well: their bytes are evicted first.
    with_decoded_chunks: BTreeSet<Arc<str>>,
    clock: u64,
    bytes: u64,
    limit: u64,
    /// Epochs by the hash of the key, and the epoch of all keys.
    epochs: HashMap<u64, u64>,
    epoch_of_all: u64,
    hasher: RandomState,
}

/// The maximum size of `Lru::epochs` before it becomes "all keys".
const MAX_EPOCHS: usize = 4096;

impl Lru {
    pub(super) fn new(limit: u64) -> Self {
        Lru {
            names: BTreeMap::new(),
            order: BTreeMap::new(),
            with_decoded_chunks: BTreeSet::new(),
            clock: 0,
            bytes: 0,
            limit,
            epochs: HashMap::new(),
            epoch_of_all: 0,
            hasher: RandomState::new(),
        }
    }

    pub(super) fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
        self.evict();
    }

    /// Return the number of cached bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Return the epoch of a key, to be read before a request is sent.
    pub(super) fn epoch(&self, name: &str) -> Epoch {
        let cached = self.epochs.get(&self.hasher.hash_one(name));
        Epoch(self.epoch_of_all.max(cached.copied().unwrap_or(0)))
    }

    pub(super) fn look_up(&mut self, name: &str, kind: EntryKind, freshness: Freshness) -> Lookup {
        let Some(slot) = self.names.get_mut(name).and_then(|entries| entries.get_mut(kind)) else {
            return Lookup::Missing;
        };
        if !freshness.allows(slot.confirmed_at) {
            return Lookup::Stale(slot.entry.clone());
        }
        slot.mark_used(&mut self.clock, &mut self.order);
        Lookup::Fresh(slot.entry.clone())
    }

    /// Return the cached value of `name`, or its absence, at any age.
    pub(super) fn value(&self, name: &str) -> Option<&CacheEntry> {
        self.names.get(name)?.value.as_ref().map(|slot| &slot.entry)
    }

    /// Return a cached range of the value `of` that contains these bytes, and its offset.
    ///
    /// No range contains another one: the last that begins before reaches furthest.
    pub(super) fn look_up_range(
        &mut self,
        name: &str,
        offset: u64,
        count: u64,
        of: ValueId,
    ) -> Option<CachedRange> {
        let entries = self.names.get_mut(name).filter(|entries| entries.equals(of))?;
        let up_to_offset = EntryKind::FIRST_RANGE..=EntryKind::Range { offset, count: u64::MAX };
        let (kind, slot) = entries.parts.range_mut(up_to_offset).next_back()?;
        match (kind, &slot.entry) {
            (EntryKind::Range { offset: from, .. }, CacheEntry::Range(bytes))
                if from + bytes.len() as u64 >= offset.saturating_add(count) =>
            {
                let cached = (bytes.clone(), *from);
                slot.mark_used(&mut self.clock, &mut self.order);
                Some(cached)
            }
            _ => None,
        }
    }

    /// Return a decoded chunk of the value `of`, if cached.
    pub(super) fn look_up_decoded(
        &mut self,
        name: &str,
        kind: EntryKind,
        of: ValueId,
    ) -> Option<Arc<Vec<u8>>> {
        let entries = self.names.get_mut(name).filter(|entries| entries.equals(of))?;
        let slot = entries.parts.get_mut(&kind)?;
        let CacheEntry::Decoded(bytes) = &slot.entry else { return None };
        let cached = bytes.clone();
        // The value must not be evicted before the chunks that need it.
        for slot in std::iter::once(slot).chain(&mut entries.value) {
            slot.mark_used(&mut self.clock, &mut self.order);
        }
        Some(cached)
    }

    fn mark_value_used(&mut self, name: &str) {
        if let Some(slot) = self.names.get_mut(name).and_then(|entries| entries.value.as_mut()) {
            slot.mark_used(&mut self.clock, &mut self.order);
        }
    }

    /// Return whether `of` is the cached value of `name`.
    pub(super) fn has_value(&self, name: &str, of: ValueId) -> bool {
        self.names.get(name).is_some_and(|entries| entries.equals(of))
    }

    /// Return whether decoded chunks of the value of `name` are cached.
    pub(super) fn has_decoded(&self, name: &str) -> bool {
        self.names
            .get(name)
            .is_some_and(|entries| entries.parts.range(EntryKind::FIRST_DECODED..).next().is_some())
    }

    /// Return the time of the request for the cached value, if it is fresh.
    pub(super) fn cached_at(&self, name: &str, freshness: Freshness) -> Option<Instant> {
        let value = self.names.get(name)?.value.as_ref()?;
        freshness.allows(value.confirmed_at).then_some(value.confirmed_at)
    }

    /// Return whether the value, a part of it, or its absence is cached, at any age.
    pub(super) fn has_content(&self, name: &str) -> bool {
        let has = |entries: &KeyEntries| {
            !entries.parts.is_empty()
                || entries.value.as_ref().is_some_and(|slot| !matches!(slot.entry, CacheEntry::Exists { .. }))
        };
        self.names.get(name).is_some_and(has)
    }

    /// Return whether no part of the value of `name` is cached.
    pub(super) fn lacks_parts(&self, name: &str) -> bool {
        self.names.get(name).is_none_or(|entries| entries.parts.is_empty())
    }

    /// Cache a range or a decoded chunk of `of`, if that is still the value of `name`.
    pub(super) fn insert_part(&mut self, name: &str, kind: EntryKind, entry: CacheEntry, of: ValueId) {
        if matches!(kind, EntryKind::Range { offset, count } if self.look_up_range(name, offset, count, of).is_some())
        {
            return;
        }
        let Some(entries) = self.names.get(name).filter(|entries| entries.equals(of)) else { return };
        if let Some(LruSlot { entry: CacheEntry::Whole(whole), bytes, .. }) = &entries.value {
            let is_all = matches!(kind, EntryKind::Decoded { size, .. } if size == whole.bytes.len() as u64);
            let both = bytes + entry.size();
            // The chunk would evict the value, without which it is useless.
            let would_evict_value = both > self.limit && !is_all && whole.value_id.version().is_none();
            if would_evict_value || matches!(kind, EntryKind::Range { .. }) {
                return;
            }
            if is_all || whole.value_id.version().is_some() {
                self.with_decoded_chunks.insert(name.into());
            }
        }
        self.mark_value_used(name);
        let epoch = self.epoch(name);
        self.insert(name, kind, entry, epoch, Instant::now());
    }

    /// Drop the bytes of a value whose decoded chunks are cached, and return whether this dropped
    /// any. The bytes of a value without a version stay unless one chunk covers it.
    fn drop_bytes(&mut self, name: &str) -> bool {
        let Some(KeyEntries { value: Some(slot), parts }) = self.names.get_mut(name) else { return false };
        let CacheEntry::Whole(whole) = &slot.entry else { return false };
        let (size, value_id) = (whole.bytes.len() as u64, Box::new(whole.value_id));
        let all = |level| EntryKind::Decoded { offset: 0, size, level };
        let first = match value_id.version() {
            Some(_) => parts.range(EntryKind::FIRST_DECODED..).next(),
            None => parts.range(all(0)..=all(u64::MAX)).next(),
        };
        if first.is_none() {
            return false;
        }
        slot.entry = CacheEntry::Exists { size, value_id };
        slot.bytes -= size;
        self.bytes -= size;
        true
    }

    /// Evict entries until the limit holds.
    fn evict(&mut self) {
        while self.bytes > self.limit {
            if let Some(name) = self.with_decoded_chunks.pop_first() {
                self.drop_bytes(&name);
                continue;
            }
            let Some((name, kind)) = self.order.first_key_value().map(|(_, entry)| entry.clone()) else {
                break;
            };
            let outlives_parts = self.outlives_parts(&name, kind);
            if outlives_parts || kind == EntryKind::Value && self.drop_bytes(&name) {
                self.mark_value_used(&name);
                if kind == EntryKind::Value {
                    continue;
                }
            }
            if kind == EntryKind::Value {
                self.remove_ranges(&name);
                self.remove_decoded(&name);
            }
            self.remove(&name, kind);
        }
    }

    /// Return whether a value stays when its last part is evicted: the version of a shard
    /// identifies other chunks inside it.
    fn outlives_parts(&self, name: &str, kind: EntryKind) -> bool {
        let Some(KeyEntries { value: Some(slot), parts }) = self.names.get(name) else { return false };
        let CacheEntry::Exists { size, value_id } = &slot.entry else { return false };
        let is_inside =
            |kind: &EntryKind| matches!(kind, EntryKind::Decoded { size: bytes, .. } if bytes < size);
        let is_last = kind == EntryKind::Value || parts.len() == 1;
        is_last
            && value_id.version().is_some()
            && parts.last_key_value().is_some_and(|(kind, _)| is_inside(kind))
    }

    /// Record that the value of `name` was confirmed at `confirmed_at`.
    pub(super) fn confirm(&mut self, name: &str, confirmed_at: Instant, request_time: Epoch) {
        if request_time != self.epoch(name) {
            return;
        }
        if let Some(slot) = self.names.get_mut(name).and_then(|entries| entries.value.as_mut()) {
            slot.confirmed_at = slot.confirmed_at.max(confirmed_at);
        }
    }

    /// Cache an entry, unless it may be outdated or is too large.
    pub(super) fn insert(
        &mut self,
        name: &str,
        kind: EntryKind,
        entry: CacheEntry,
        request_time: Epoch,
        confirmed_at: Instant,
    ) {
        let bytes = entry.size();
        if bytes > self.limit || request_time != self.epoch(name) {
            return;
        }
        match kind {
            EntryKind::Range { offset, count } => {
                let end = offset.saturating_add(count);
                self.remove_inside(name, offset, end);
            }
            EntryKind::Value => {
                let is_same =
                    |entries: &KeyEntries| entry.value_id().is_some_and(|value_id| entries.equals(value_id));
                let is_other = !self.names.get(name).is_some_and(is_same);
                if is_other || matches!(entry, CacheEntry::Whole(_)) {
                    self.remove_ranges(name);
                }
                if is_other {
                    self.remove_decoded(name);
                }
            }
            _ => {}
        }
        self.remove(name, kind);
        self.clock += 1;
        let name: Arc<str> = self.names.get_key_value(name).map_or_else(|| name.into(), |(k, _)| k.clone());
        self.bytes += bytes;
        self.order.insert(self.clock, (name.clone(), kind));
        let slot = LruSlot { entry, bytes, last_used: self.clock, confirmed_at };
        let entries = self.names.entry(name).or_default();
        match kind {
            EntryKind::Value => entries.value = Some(slot),
            _ => drop(entries.parts.insert(kind, slot)),
        }
        self.evict();
    }

    /// Drop the ranges of the value of `name`.
    fn remove_ranges(&mut self, name: &str) {
        self.remove_inside(name, 0, u64::MAX);
    }

    /// Drop the decoded chunks of the value of `name`.
    fn remove_decoded(&mut self, name: &str) {
        let Some(entries) = self.names.get(name) else { return };
        let decoded: Vec<EntryKind> =
            entries.parts.range(EntryKind::FIRST_DECODED..).map(|(kind, _)| *kind).collect();
        for kind in decoded {
            self.remove(name, kind);
        }
    }

    /// Drop the ranges of the value of `name` inside another range.
    fn remove_inside(&mut self, name: &str, from: u64, end: u64) {
        let Some(entries) = self.names.get(name) else { return };
        let within = EntryKind::Range { offset: from, count: 0 }..EntryKind::Range { offset: end, count: 0 };
        let ends = |kind: &EntryKind| match kind {
            EntryKind::Range { offset, count } => offset.saturating_add(*count),
            _ => u64::MAX,
        };
        let inside: Vec<EntryKind> =
            entries.parts.range(within).map(|(kind, _)| *kind).take_while(|kind| ends(kind) <= end).collect();
        for kind in inside {
            self.remove(name, kind);
        }
    }

    fn remove(&mut self, name: &str, kind: EntryKind) {
        let Some(entries) = self.names.get_mut(name) else { return };
        if let Some(slot) = entries.remove(kind) {
            self.order.remove(&slot.last_used);
            self.bytes -= slot.bytes;
        }
        if entries.value.is_none() && entries.parts.is_empty() {
            self.names.remove(name);
            self.with_decoded_chunks.remove(name);
        }
    }

    /// Invalidate the value of the key `name`, and the listings that may contain it.
    pub(super) fn invalidate(&mut self, namespace: &str, name: &str) {
        self.invalidate_name(name);
        for (slash, _) in name.match_indices('/') {
            self.invalidate_name(&name[..=slash]);
        }
        self.invalidate_name(namespace);
    }

    /// Drop the entries of `name`.
    pub(super) fn forget(&mut self, name: &str) {
        if let Some(entries) = self.names.remove(name) {
            self.with_decoded_chunks.remove(name);
            for slot in entries.lru_slots() {
                self.order.remove(&slot.last_used);
                self.bytes -= slot.bytes;
            }
        }
    }

    fn invalidate_name(&mut self, name: &str) {
        self.forget(name);
        if self.epochs.len() >= MAX_EPOCHS {
            self.epochs.clear();
            self.epoch_of_all = Epoch::next();
        }
        self.epochs.insert(self.hasher.hash_one(name), Epoch::next());
    }

    /// Invalidate everything about keys under `prefix`.
    pub(super) fn invalidate_prefix(&mut self, namespace: &str, prefix: &str) {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let below = self.names.range::<str, _>(from).map(|(name, _)| name.clone());
        for name in below.take_while(|name| name.starts_with(prefix)).collect::<Vec<_>>() {
            self.invalidate_name(&name);
        }
        self.invalidate(namespace, prefix);
        self.epochs.clear();
        self.epoch_of_all = Epoch::next();
    }

    /// Drop all entries.
    pub(super) fn clear(&mut self) {
        self.names.clear();
        self.order.clear();
        self.with_decoded_chunks.clear();
        self.bytes = 0;
        self.epochs.clear();
        self.epoch_of_all = Epoch::next();
    }
}
