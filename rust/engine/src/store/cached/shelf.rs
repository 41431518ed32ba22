//! What a cached store remembers: the least recently used goes first.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::{read_all, Listing, Object, Version};
use crate::error::Result;

/// Which answer about a key or a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// Whether the key is there, and what it holds.
    Value,
    /// Some of its bytes.
    Range { offset: u64, count: u64 },
    /// Every key below the prefix.
    Keys,
    /// One level below the prefix.
    Level,
    /// The chunk that a level of an array decodes of `size` bytes from `offset`.
    Decoded { offset: u64, size: u64, level: u64 },
}

impl Part {
    const FIRST_RANGE: Part = Part::Range { offset: 0, count: 0 };
    const FIRST_DECODED: Part = Part::Decoded { offset: 0, size: 0, level: 0 };
}

/// Which value it is: what was opened at once, or all that have one version.
#[derive(Clone, Copy)]
pub(super) struct Same {
    /// Differs between any two that were opened.
    id: u64,
    pub(super) version: Option<Version>,
}

impl Same {
    /// A value that was opened just now.
    pub(super) fn new(version: Option<Version>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Same { id: NEXT.fetch_add(1, Ordering::Relaxed), version }
    }

    fn is(self, other: Same) -> bool {
        self.id == other.id || (self.version.is_some() && self.version == other.version)
    }
}

/// A value that was read whole.
pub(super) struct Whole {
    pub(super) bytes: Vec<u8>,
    pub(super) same: Same,
    /// The state in which it was, which may be too young to be a version.
    pub(super) state: Option<Version>,
}

impl Whole {
    /// Reads a value that is open.
    pub(super) fn of(object: &dyn Object) -> Result<Self> {
        Ok(Whole { bytes: read_all(object)?, same: Same::new(object.version()), state: object.state() })
    }
}

/// An answer.
#[derive(Clone)]
pub(super) enum Answer {
    Absent,
    Whole(Arc<Whole>),
    /// The value is there; its bytes are remembered as ranges, or not.
    Opened {
        size: u64,
        same: Same,
    },
    Range {
        of: Same,
        bytes: Arc<Vec<u8>>,
    },
    Keys(Arc<Vec<String>>),
    Level(Arc<Listing>),
    Decoded {
        of: Same,
        bytes: Arc<Vec<u8>>,
    },
}

/// Bytes of a value, and where they begin.
pub(super) type Piece = (Arc<Vec<u8>>, u64);

/// About how many bytes an answer takes beside those that it holds.
const OVERHEAD: u64 = 128;

impl Answer {
    /// The value that it is, or is of.
    fn of(&self) -> Option<Same> {
        match self {
            Answer::Whole(whole) => Some(whole.same),
            Answer::Opened { same, .. } => Some(*same),
            Answer::Range { of, .. } | Answer::Decoded { of, .. } => Some(*of),
            Answer::Absent | Answer::Keys(_) | Answer::Level(_) => None,
        }
    }

    fn size(&self) -> u64 {
        let texts = |texts: &[String]| texts.iter().map(|text| text.len() as u64 + 24).sum::<u64>();
        OVERHEAD
            + match self {
                Answer::Absent | Answer::Opened { .. } => 0,
                Answer::Whole(whole) => whole.bytes.len() as u64,
                Answer::Range { bytes, .. } => bytes.len() as u64,
                Answer::Decoded { bytes, .. } => bytes.len() as u64 + 2 * OVERHEAD,
                Answer::Keys(keys) => texts(keys),
                Answer::Level(level) => texts(&level.keys) + texts(&level.prefixes),
            }
    }
}

struct Slot {
    answer: Answer,
    bytes: u64,
    used: u64,
    /// When the store was asked that gave it, or last said that it still holds.
    checked: Instant,
}

impl Slot {
    /// Makes it the last that was used.
    fn touch(&mut self, clock: &mut u64, order: &mut BTreeMap<u64, (Arc<str>, Part)>) {
        *clock += 1;
        if let Some(entry) = order.remove(&self.used) {
            order.insert(*clock, entry);
        }
        self.used = *clock;
    }
}

/// How old an answer may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fresh {
    /// Of any age.
    Always,
    /// Not older than that.
    For(Duration),
    /// Asked for at that time, or later.
    Since(Instant),
    /// It holds now.
    Now,
}

impl Fresh {
    fn allows(self, checked: Instant) -> bool {
        match self {
            Fresh::Always => true,
            Fresh::For(age) => checked.elapsed() < age,
            Fresh::Since(time) => checked >= time,
            Fresh::Now => false,
        }
    }
}

/// What is remembered.
pub(super) enum Found {
    /// Young enough.
    Fresh(Answer),
    /// Too old, unless the value is still in this state.
    Stale(Answer),
    /// Nothing.
    Nothing,
}

/// Counts what was forgotten about a name: an answer that was asked for before
/// something was forgotten must not be remembered after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Epoch {
    all: u64,
    name: u64,
}

/// Answers by name and part, at most so many bytes of them.
pub(super) struct Shelf {
    names: BTreeMap<Arc<str>, BTreeMap<Part, Slot>>,
    /// When each was used last: the first goes first.
    order: BTreeMap<u64, (Arc<str>, Part)>,
    /// Values that are there as the chunk that was decoded of all of them, too: they go before.
    twice: BTreeSet<Arc<str>>,
    clock: u64,
    bytes: u64,
    limit: u64,
    /// How often names were forgotten, by their hash; all of them count as one.
    forgotten: HashMap<u64, u64>,
    forgotten_all: u64,
    hasher: RandomState,
}

/// How many names may be in `Shelf::forgotten`, before it is told as "all of them".
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

    /// How many bytes are remembered.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// To be asked for before the store is asked.
    pub(super) fn epoch(&self, name: &str) -> Epoch {
        let found = self.forgotten.get(&self.hasher.hash_one(name));
        Epoch { all: self.forgotten_all, name: found.copied().unwrap_or(0) }
    }

    pub(super) fn find(&mut self, name: &str, part: Part, fresh: Fresh) -> Found {
        let Some(slot) = self.names.get_mut(name).and_then(|parts| parts.get_mut(&part)) else {
            // Parts of a value are of no use where nothing says any more of which one.
            if part == Part::Value && self.names.contains_key(name) {
                self.forget_name(name);
            }
            return Found::Nothing;
        };
        if !fresh.allows(slot.checked) {
            return Found::Stale(slot.answer.clone());
        }
        slot.touch(&mut self.clock, &mut self.order);
        Found::Fresh(slot.answer.clone())
    }

    /// The value of `name`, if it is remembered whole, of any age.
    pub(super) fn whole(&self, name: &str) -> Option<Arc<Whole>> {
        match &self.names.get(name)?.get(&Part::Value)?.answer {
            Answer::Whole(whole) => Some(whole.clone()),
            _ => None,
        }
    }

    /// Whether it is remembered that `name` has no value.
    pub(super) fn is_absent(&self, name: &str) -> bool {
        let found = self.names.get(name).and_then(|parts| parts.get(&Part::Value));
        matches!(found.map(|piece| &piece.answer), Some(Answer::Absent))
    }

    /// A remembered range of the value `of` that these bytes are in, and where it begins.
    ///
    /// All are of one value, and no range is inside of another one: the last that begins before reaches
    /// furthest.
    pub(super) fn find_range(&mut self, name: &str, offset: u64, count: u64, of: Same) -> Option<Piece> {
        let parts = self.names.get_mut(name)?;
        let (part, slot) =
            parts.range_mut(Part::FIRST_RANGE..=Part::Range { offset, count: u64::MAX }).next_back()?;
        match (part, &slot.answer) {
            (Part::Range { offset: from, .. }, Answer::Range { of: kept, bytes })
                if kept.is(of) && from + bytes.len() as u64 >= offset.saturating_add(count) =>
            {
                let found = (bytes.clone(), *from);
                slot.touch(&mut self.clock, &mut self.order);
                Some(found)
            }
            _ => None,
        }
    }

    /// A chunk that was decoded of the value `of`, if it is remembered.
    pub(super) fn find_decoded(&mut self, name: &str, part: Part, of: Same) -> Option<Arc<Vec<u8>>> {
        let parts = self.names.get_mut(name)?;
        let slot = parts.get_mut(&part)?;
        let found = match &slot.answer {
            Answer::Decoded { of: kept, bytes } if kept.is(of) => bytes.clone(),
            _ => return None,
        };
        slot.touch(&mut self.clock, &mut self.order);
        self.touch_value(name);
        Some(found)
    }

    /// Has a value not go before what was decoded of it, which is of no use without.
    fn touch_value(&mut self, name: &str) {
        if let Some(slot) = self.names.get_mut(name).and_then(|parts| parts.get_mut(&Part::Value)) {
            slot.touch(&mut self.clock, &mut self.order);
        }
    }

    /// Whether chunks are remembered that were decoded of the value of `name`.
    pub(super) fn has_decoded(&self, name: &str) -> bool {
        self.names.get(name).is_some_and(|parts| parts.range(Part::FIRST_DECODED..).next().is_some())
    }

    /// Remembers bytes of a value, or what was decoded of them, if it is still the value of `name`.
    pub(super) fn keep_of(&mut self, name: &str, part: Part, answer: Answer) {
        let value = self.names.get(name).and_then(|parts| parts.get(&Part::Value)).map(|slot| &slot.answer);
        let is_same = |value: &Answer| value.of().zip(answer.of()).is_some_and(|(one, other)| one.is(other));
        let Some(value) = value.filter(|value| is_same(value)) else { return };
        match (value, part) {
            (Answer::Whole(_), Part::Range { .. }) => return,
            (Answer::Whole(whole), Part::Decoded { size, .. }) if whole.bytes.len() as u64 == size => {
                self.twice.insert(name.into());
            }
            _ => {}
        }
        self.touch_value(name);
        let epoch = self.epoch(name);
        self.keep(name, part, answer, epoch, Instant::now());
    }

    /// Lets go of the bytes of a value whose chunk is remembered, if it has a version.
    fn slim(&mut self, name: &str) {
        if !self.has_decoded(name) {
            return;
        }
        let Some(slot) = self.names.get_mut(name).and_then(|parts| parts.get_mut(&Part::Value)) else {
            return;
        };
        if let Answer::Whole(whole) = &slot.answer {
            if whole.same.version.is_some() {
                let (size, freed) = (whole.bytes.len() as u64, whole.bytes.len() as u64);
                slot.answer = Answer::Opened { size, same: whole.same };
                slot.bytes -= freed;
                self.bytes -= freed;
            }
        }
    }

    /// Notes that the value of `name` was still the same at `checked`.
    pub(super) fn confirm(&mut self, name: &str, checked: Instant, asked: Epoch) {
        if asked != self.epoch(name) {
            return;
        }
        if let Some(slot) = self.names.get_mut(name).and_then(|parts| parts.get_mut(&Part::Value)) {
            slot.checked = slot.checked.max(checked);
        }
    }

    /// Remembers an answer, unless it may be outdated or is too large.
    pub(super) fn keep(&mut self, name: &str, part: Part, answer: Answer, asked: Epoch, checked: Instant) {
        let bytes = answer.size() + name.len() as u64;
        if bytes > self.limit || asked != self.epoch(name) {
            return;
        }
        match (part, answer.of()) {
            (Part::Range { offset, count }, Some(of)) => {
                if self.find_range(name, offset, count, of).is_some() {
                    return;
                }
                self.remove_inside(name, offset, offset.saturating_add(count));
            }
            (Part::Value, of) => self.remove_others(name, of, matches!(answer, Answer::Whole(_))),
            _ => {}
        }
        self.remove(name, part);
        self.clock += 1;
        let name: Arc<str> = self.names.get_key_value(name).map_or_else(|| name.into(), |(k, _)| k.clone());
        self.bytes += bytes;
        self.order.insert(self.clock, (name.clone(), part));
        let slot = Slot { answer, bytes, used: self.clock, checked };
        self.names.entry(name).or_default().insert(part, slot);
        while self.bytes > self.limit {
            if let Some(name) = self.twice.pop_first() {
                self.slim(&name);
                continue;
            }
            let Some((_, (name, part))) = self.order.pop_first() else { break };
            self.remove(&name, part);
        }
    }

    /// Forgets parts of what was the value of `name` and is not the value `of`; all ranges, if it `is_whole`.
    fn remove_others(&mut self, name: &str, of: Option<Same>, is_whole: bool) {
        let Some(parts) = self.names.get(name) else { return };
        let is_other = |part: &Part, slot: &Slot| match part {
            Part::Range { .. } if is_whole => true,
            Part::Range { .. } | Part::Decoded { .. } => {
                !of.zip(slot.answer.of()).is_some_and(|(one, other)| one.is(other))
            }
            _ => false,
        };
        let others: Vec<Part> =
            parts.iter().filter(|(part, slot)| is_other(part, slot)).map(|(part, _)| *part).collect();
        for part in others {
            self.remove(name, part);
        }
    }

    /// Forgets the ranges of the value of `name` that are inside of another one.
    fn remove_inside(&mut self, name: &str, from: u64, end: u64) {
        let Some(parts) = self.names.get(name) else { return };
        let within = Part::Range { offset: from, count: 0 }..Part::Range { offset: end, count: 0 };
        let ends = |part: &Part| match part {
            Part::Range { offset, count } => offset.saturating_add(*count),
            _ => u64::MAX,
        };
        let inside: Vec<Part> =
            parts.range(within).map(|(part, _)| *part).take_while(|part| ends(part) <= end).collect();
        for part in inside {
            self.remove(name, part);
        }
    }

    fn remove(&mut self, name: &str, part: Part) {
        let Some(parts) = self.names.get_mut(name) else { return };
        if let Some(slot) = parts.remove(&part) {
            self.order.remove(&slot.used);
            self.bytes -= slot.bytes;
        }
        if parts.is_empty() {
            self.names.remove(name);
            self.twice.remove(name);
        }
    }

    /// Forgets what depends on the key `name`, which begins with the name of a `space`: its
    /// value, and the listings that may name it.
    pub(super) fn forget(&mut self, space: &str, name: &str) {
        self.forget_name(name);
        for (slash, _) in name.match_indices('/') {
            self.forget_name(&name[..=slash]);
        }
        self.forget_name(space);
    }

    fn forget_name(&mut self, name: &str) {
        if let Some(parts) = self.names.remove(name) {
            self.twice.remove(name);
            for slot in parts.values() {
                self.order.remove(&slot.used);
                self.bytes -= slot.bytes;
            }
        }
        if self.forgotten.len() >= FORGOTTEN {
            self.forgotten.clear();
            self.forgotten_all += 1;
        }
        *self.forgotten.entry(self.hasher.hash_one(name)).or_default() += 1;
    }

    /// Forgets what depends on any key under `prefix`, which begins with the name of a `space`.
    pub(super) fn forget_below(&mut self, space: &str, prefix: &str) {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let below = self.names.range::<str, _>(from).map(|(name, _)| name.clone());
        for name in below.take_while(|name| name.starts_with(prefix)).collect::<Vec<_>>() {
            self.forget_name(&name);
        }
        self.forget(space, prefix);
        self.forgotten.clear();
        self.forgotten_all += 1;
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.names.clear();
        self.order.clear();
        self.twice.clear();
        self.bytes = 0;
        self.forgotten.clear();
        self.forgotten_all += 1;
    }
}
