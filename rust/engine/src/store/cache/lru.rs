//! Cache entries in the order of their last use.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Instant;

use super::entry::{Answer, Found, Fresh, Known, Part, Piece, Same, Slot, Whole};
use crate::store::Version;

/// When a key was last invalidated: a response to an earlier request must not be cached. Epochs
/// count all invalidations in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Epoch(u64);

static FORGOTTEN_ANYWHERE: AtomicU64 = AtomicU64::new(0);

impl Epoch {
    /// An epoch that no invalidation precedes.
    pub(super) const PAST: Epoch = Epoch(u64::MAX);

    /// The epoch after all invalidations so far.
    pub(super) fn now() -> Self {
        Epoch(FORGOTTEN_ANYWHERE.load(Ordering::SeqCst))
    }

    /// The epoch of an invalidation that happens now.
    fn next() -> u64 {
        FORGOTTEN_ANYWHERE.fetch_add(1, Ordering::SeqCst) + 1
    }
}

/// Entries by key and kind, up to a number of bytes.
pub(super) struct Shelf {
    names: BTreeMap<Arc<str>, Known>,
    /// Entries by the time of their last use: the first is evicted first.
    order: BTreeMap<u64, (Arc<str>, Part)>,
    /// Values whose decoded chunks are cached as well: their bytes are evicted first.
    twice: BTreeSet<Arc<str>>,
    clock: u64,
    bytes: u64,
    limit: u64,
    /// Epochs by the hash of the key, and the epoch of all keys.
    forgotten: HashMap<u64, u64>,
    forgotten_all: u64,
    hasher: RandomState,
}

/// The maximum size of `Lru::epochs` before it becomes "all keys".
const FORGOTTEN: usize = 4096;

impl Shelf {
    pub(super) fn new(limit: u64) -> Self {
        Shelf {
            names: BTreeMap::new(),
            order: BTreeMap::new(),
            twice: BTreeSet::new(),
            clock: 0,
            bytes: 0,
            limit,
            forgotten: HashMap::new(),
            forgotten_all: 0,
            hasher: RandomState::new(),
        }
    }

    /// The number of cached bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The epoch of a key, to be read before a request is sent.
    pub(super) fn epoch(&self, name: &str) -> Epoch {
        let found = self.forgotten.get(&self.hasher.hash_one(name));
        Epoch(self.forgotten_all.max(found.copied().unwrap_or(0)))
    }

    pub(super) fn find(&mut self, name: &str, part: Part, fresh: Fresh) -> Found {
        let Some(slot) = self.names.get_mut(name).and_then(|known| known.get_mut(part)) else {
            return Found::Nothing;
        };
        if !fresh.allows(slot.checked) {
            return Found::Stale(slot.answer.clone());
        }
        slot.touch(&mut self.clock, &mut self.order);
        Found::Fresh(slot.answer.clone())
    }

    fn value(&self, name: &str) -> Option<&Answer> {
        self.names.get(name)?.value.as_ref().map(|slot| &slot.answer)
    }

    /// The value of `name`, if it is cached completely, at any age.
    pub(super) fn whole(&self, name: &str) -> Option<Arc<Whole>> {
        match self.value(name)? {
            Answer::Whole(whole) => Some(whole.clone()),
            _ => None,
        }
    }

    /// The version of the value of `name`, if cached, at any age.
    pub(super) fn version(&self, name: &str) -> Option<Version> {
        self.value(name)?.same()?.version()
    }

    /// Whether the absence of `name` is cached.
    pub(super) fn is_absent(&self, name: &str) -> bool {
        matches!(self.value(name), Some(Answer::Absent))
    }

    /// A cached range of the value `of` that contains these bytes, and its offset.
    ///
    /// No range contains another one: the last that begins before reaches furthest.
    pub(super) fn find_range(&mut self, name: &str, offset: u64, count: u64, of: Same) -> Option<Piece> {
        let known = self.names.get_mut(name).filter(|known| known.is(of))?;
        let before = Part::FIRST_RANGE..=Part::Range { offset, count: u64::MAX };
        let (part, slot) = known.parts.range_mut(before).next_back()?;
        match (part, &slot.answer) {
            (Part::Range { offset: from, .. }, Answer::Range(bytes))
                if from + bytes.len() as u64 >= offset.saturating_add(count) =>
            {
                let found = (bytes.clone(), *from);
                slot.touch(&mut self.clock, &mut self.order);
                Some(found)
            }
            _ => None,
        }
    }

    /// A decoded chunk of the value `of`, if cached.
    pub(super) fn find_decoded(&mut self, name: &str, part: Part, of: Same) -> Option<Arc<Vec<u8>>> {
        let known = self.names.get_mut(name).filter(|known| known.is(of))?;
        let slot = known.parts.get_mut(&part)?;
        let Answer::Decoded(bytes) = &slot.answer else { return None };
        let found = bytes.clone();
        // The value must not be evicted before the chunks that need it.
        for slot in std::iter::once(slot).chain(&mut known.value) {
            slot.touch(&mut self.clock, &mut self.order);
        }
        Some(found)
    }

    fn touch_value(&mut self, name: &str) {
        if let Some(slot) = self.names.get_mut(name).and_then(|known| known.value.as_mut()) {
            slot.touch(&mut self.clock, &mut self.order);
        }
    }

    /// Whether decoded chunks of the value of `name` are cached.
    pub(super) fn has_decoded(&self, name: &str) -> bool {
        self.names.get(name).is_some_and(|known| known.parts.range(Part::FIRST_DECODED..).next().is_some())
    }

    /// The time of the request for the cached value, if it is fresh.
    pub(super) fn asked_at(&self, name: &str, fresh: Fresh) -> Option<Instant> {
        let value = self.names.get(name)?.value.as_ref()?;
        fresh.allows(value.checked).then_some(value.checked)
    }

    /// Whether the value, a part of it, or its absence is cached, at any age.
    pub(super) fn knows(&self, name: &str) -> bool {
        let has = |known: &Known| {
            !known.parts.is_empty()
                || known.value.as_ref().is_some_and(|slot| !matches!(slot.answer, Answer::Opened { .. }))
        };
        self.names.get(name).is_some_and(has)
    }

    /// Whether no part of the value of `name` is cached.
    pub(super) fn lacks_parts(&self, name: &str) -> bool {
        self.names.get(name).is_none_or(|known| known.parts.is_empty())
    }

    /// Cache a range or a decoded chunk of `of`, if that is still the value of `name`.
    pub(super) fn keep_of(&mut self, name: &str, part: Part, answer: Answer, of: Same) {
        if matches!(part, Part::Range { offset, count } if self.find_range(name, offset, count, of).is_some())
        {
            return;
        }
        let Some(known) = self.names.get(name).filter(|known| known.is(of)) else { return };
        if let Some(Slot { answer: Answer::Whole(whole), bytes, .. }) = &known.value {
            let is_all = matches!(part, Part::Decoded { size, .. } if size == whole.bytes.len() as u64);
            let both = bytes + answer.size();
            // The chunk would evict the value, without which it is useless.
            let instead = both > self.limit && !is_all && whole.same.version().is_none();
            if instead || matches!(part, Part::Range { .. }) {
                return;
            }
            if is_all || whole.same.version().is_some() {
                self.twice.insert(name.into());
            }
        }
        self.touch_value(name);
        let epoch = self.epoch(name);
        self.keep(name, part, answer, epoch, Instant::now());
    }

    /// Drop the bytes of a value whose decoded chunks are cached; returns whether it did. A value
    /// without a version keeps its bytes unless one chunk covers it.
    fn slim(&mut self, name: &str) -> bool {
        let Some(Known { value: Some(slot), parts }) = self.names.get_mut(name) else { return false };
        let Answer::Whole(whole) = &slot.answer else { return false };
        let (size, same) = (whole.bytes.len() as u64, Box::new(whole.same));
        let all = |level| Part::Decoded { offset: 0, size, level };
        let first = match same.version() {
            Some(_) => parts.range(Part::FIRST_DECODED..).next(),
            None => parts.range(all(0)..=all(u64::MAX)).next(),
        };
        if first.is_none() {
            return false;
        }
        slot.answer = Answer::Opened { size, same };
        slot.bytes -= size;
        self.bytes -= size;
        true
    }

    /// Evict entries until the limit holds.
    fn evict(&mut self) {
        while self.bytes > self.limit {
            if let Some(name) = self.twice.pop_first() {
                self.slim(&name);
                continue;
            }
            let Some((name, part)) = self.order.first_key_value().map(|(_, entry)| entry.clone()) else {
                break;
            };
            let outlives = self.outlives(&name, part);
            if outlives || part == Part::Value && self.slim(&name) {
                self.touch_value(&name);
                if part == Part::Value {
                    continue;
                }
            }
            if part == Part::Value {
                self.remove_ranges(&name);
                self.remove_decoded(&name);
            }
            self.remove(&name, part);
        }
    }

    /// Whether a value stays when its last part is evicted: the version of a shard identifies other
    /// chunks inside it.
    fn outlives(&self, name: &str, part: Part) -> bool {
        let Some(Known { value: Some(slot), parts }) = self.names.get(name) else { return false };
        let Answer::Opened { size, same } = &slot.answer else { return false };
        let is_inside = |part: &Part| matches!(part, Part::Decoded { size: bytes, .. } if bytes < size);
        let is_last = part == Part::Value || parts.len() == 1;
        is_last && same.version().is_some() && parts.last_key_value().is_some_and(|(part, _)| is_inside(part))
    }

    /// Record that the value of `name` was confirmed at `checked`.
    pub(super) fn confirm(&mut self, name: &str, checked: Instant, asked: Epoch) {
        if asked != self.epoch(name) {
            return;
        }
        if let Some(slot) = self.names.get_mut(name).and_then(|known| known.value.as_mut()) {
            slot.checked = slot.checked.max(checked);
        }
    }

    /// Cache an entry, unless it may be outdated or is too large.
    pub(super) fn keep(&mut self, name: &str, part: Part, answer: Answer, asked: Epoch, checked: Instant) {
        let bytes = answer.size();
        if bytes > self.limit || asked != self.epoch(name) {
            return;
        }
        match part {
            Part::Range { offset, count } => {
                let end = offset.saturating_add(count);
                self.remove_inside(name, offset, end);
            }
            Part::Value => {
                let is_same = |known: &Known| answer.same().is_some_and(|same| known.is(same));
                let is_other = !self.names.get(name).is_some_and(is_same);
                if is_other || matches!(answer, Answer::Whole(_)) {
                    self.remove_ranges(name);
                }
                if is_other {
                    self.remove_decoded(name);
                }
            }
            _ => {}
        }
        self.remove(name, part);
        self.clock += 1;
        let name: Arc<str> = self.names.get_key_value(name).map_or_else(|| name.into(), |(k, _)| k.clone());
        self.bytes += bytes;
        self.order.insert(self.clock, (name.clone(), part));
        let slot = Slot { answer, bytes, used: self.clock, checked };
        let known = self.names.entry(name).or_default();
        match part {
            Part::Value => known.value = Some(slot),
            _ => drop(known.parts.insert(part, slot)),
        }
        self.evict();
    }

    /// Drop the ranges of the value of `name`.
    fn remove_ranges(&mut self, name: &str) {
        self.remove_inside(name, 0, u64::MAX);
    }

    /// Drop the decoded chunks of the value of `name`.
    fn remove_decoded(&mut self, name: &str) {
        let Some(known) = self.names.get(name) else { return };
        let decoded: Vec<Part> = known.parts.range(Part::FIRST_DECODED..).map(|(part, _)| *part).collect();
        for part in decoded {
            self.remove(name, part);
        }
    }

    /// Drop the ranges of the value of `name` inside another range.
    fn remove_inside(&mut self, name: &str, from: u64, end: u64) {
        let Some(known) = self.names.get(name) else { return };
        let within = Part::Range { offset: from, count: 0 }..Part::Range { offset: end, count: 0 };
        let ends = |part: &Part| match part {
            Part::Range { offset, count } => offset.saturating_add(*count),
            _ => u64::MAX,
        };
        let inside: Vec<Part> =
            known.parts.range(within).map(|(part, _)| *part).take_while(|part| ends(part) <= end).collect();
        for part in inside {
            self.remove(name, part);
        }
    }

    fn remove(&mut self, name: &str, part: Part) {
        let Some(known) = self.names.get_mut(name) else { return };
        if let Some(slot) = known.remove(part) {
            self.order.remove(&slot.used);
            self.bytes -= slot.bytes;
        }
        if known.value.is_none() && known.parts.is_empty() {
            self.names.remove(name);
            self.twice.remove(name);
        }
    }

    /// Invalidate the value of the key `name`, and the listings that may contain it.
    pub(super) fn forget(&mut self, space: &str, name: &str) {
        self.forget_name(name);
        for (slash, _) in name.match_indices('/') {
            self.forget_name(&name[..=slash]);
        }
        self.forget_name(space);
    }

    fn forget_name(&mut self, name: &str) {
        if let Some(known) = self.names.remove(name) {
            self.twice.remove(name);
            for slot in known.slots() {
                self.order.remove(&slot.used);
                self.bytes -= slot.bytes;
            }
        }
        if self.forgotten.len() >= FORGOTTEN {
            self.forgotten.clear();
            self.forgotten_all = Epoch::next();
        }
        self.forgotten.insert(self.hasher.hash_one(name), Epoch::next());
    }

    /// Invalidate everything about keys under `prefix`.
    pub(super) fn forget_below(&mut self, space: &str, prefix: &str) {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let below = self.names.range::<str, _>(from).map(|(name, _)| name.clone());
        for name in below.take_while(|name| name.starts_with(prefix)).collect::<Vec<_>>() {
            self.forget_name(&name);
        }
        self.forget(space, prefix);
        self.forgotten.clear();
        self.forgotten_all = Epoch::next();
    }

    /// Drop all entries.
    pub(super) fn clear(&mut self) {
        self.names.clear();
        self.order.clear();
        self.twice.clear();
        self.bytes = 0;
        self.forgotten.clear();
        self.forgotten_all = Epoch::next();
    }
}
