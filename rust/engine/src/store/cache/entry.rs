//! Cache entries, and the values that they belong to.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::{read_all, Listing, Object, Version};
use crate::error::Result;

/// The kind of an entry of a key or prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// The value, or its absence.
    Value,
    /// A range of the value.
    Range { offset: u64, count: u64 },
    /// Every key below the prefix.
    Keys,
    /// One level below the prefix.
    Level,
    /// The chunk that a level of an array decodes from `size` bytes at `offset`.
    Decoded { offset: u64, size: u64, level: u64 },
}

impl Part {
    pub(super) const FIRST_RANGE: Part = Part::Range { offset: 0, count: 0 };
    pub(super) const FIRST_DECODED: Part = Part::Decoded { offset: 0, size: 0, level: 0 };
}

/// Identifies a value: one reader, or all values of one version.
#[derive(Clone, Copy)]
pub(super) struct Same {
    /// Unique for each reader.
    id: u64,
    state: Option<Version>,
    /// Whether `state` is a version.
    lasts: bool,
}

impl Same {
    /// The value that a reader has opened.
    pub(super) fn of(object: &dyn Object) -> Self {
        let version = object.version();
        Same { state: version.or_else(|| object.state()), ..Same::written(version) }
    }

    /// A value that was just written.
    pub(super) fn written(version: Option<Version>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Same { id: NEXT.fetch_add(1, Ordering::Relaxed), state: version, lasts: version.is_some() }
    }

    pub(super) fn version(&self) -> Option<Version> {
        self.state.filter(|_| self.lasts)
    }

    /// The state of the value, which may be too recent to be a version.
    pub(super) fn state(&self) -> Option<Version> {
        self.state
    }

    pub(super) fn is(&self, other: &Same) -> bool {
        self.id == other.id || (self.lasts && other.lasts && self.state == other.state)
    }

    /// Whether `object` is this value, as far as its store can tell.
    pub(super) fn is_in(&self, object: &dyn Object) -> bool {
        self.state.is_some() && object.state() == self.state
    }
}

/// A value that was read completely.
pub(super) struct Whole {
    pub(super) bytes: Vec<u8>,
    pub(super) same: Same,
}

impl Whole {
    /// Read an open value completely.
    pub(super) fn of(object: &dyn Object) -> Result<Self> {
        Ok(Whole { bytes: read_all(object)?, same: Same::of(object) })
    }
}

/// A cached response. Long ones are boxed: a cache may have many entries.
#[derive(Clone)]
pub(super) enum Answer {
    Absent,
    Whole(Arc<Whole>),
    /// The value exists; its bytes may be cached as ranges.
    Opened {
        size: u64,
        same: Box<Same>,
    },
    Range(Arc<Vec<u8>>),
    Keys(Arc<Vec<String>>),
    Level(Arc<Listing>),
    Decoded(Arc<Vec<u8>>),
}

/// Bytes of a value, and their offset.
pub(super) type Piece = (Arc<Vec<u8>>, u64);

/// The overhead of a value and of a range in bytes, whatever the length of the key. Together they
/// do not exceed what TensorStore counts for a chunk, so that a small pool holds as many chunks.
const VALUE: u64 = 96;
const PART: u64 = 160;

/// The overhead of an absent value: more than half of its true size.
const ABSENT: u64 = 300;

impl Answer {
    /// The value to which the entry belongs.
    pub(super) fn same(&self) -> Option<Same> {
        match self {
            Answer::Whole(whole) => Some(whole.same),
            Answer::Opened { same, .. } => Some(**same),
            _ => None,
        }
    }

    pub(super) fn size(&self) -> u64 {
        let texts = |texts: &[String]| texts.iter().map(|text| text.len() as u64 + 24).sum::<u64>();
        match self {
            Answer::Absent => ABSENT,
            Answer::Opened { .. } => VALUE,
            Answer::Whole(whole) => VALUE + whole.bytes.len() as u64,
            Answer::Range(bytes) | Answer::Decoded(bytes) => PART + bytes.len() as u64,
            Answer::Keys(keys) => PART + texts(keys),
            Answer::Level(level) => PART + texts(&level.keys) + texts(&level.prefixes),
        }
    }
}

/// An entry in the cache.
pub(super) struct Slot {
    pub(super) answer: Answer,
    pub(super) bytes: u64,
    pub(super) used: u64,
    /// The time of the request that fetched or last confirmed the entry.
    pub(super) checked: Instant,
}

impl Slot {
    /// Mark the entry as most recently used.
    pub(super) fn touch(&mut self, clock: &mut u64, order: &mut BTreeMap<u64, (Arc<str>, Part)>) {
        *clock += 1;
        if let Some(entry) = order.remove(&self.used) {
            order.insert(*clock, entry);
        }
        self.used = *clock;
    }
}

/// The entries of a key or prefix.
#[derive(Default)]
pub(super) struct Known {
    pub(super) value: Option<Slot>,
    /// Ranges and decoded chunks of `value`, which need it; and listings.
    pub(super) parts: BTreeMap<Part, Slot>,
}

impl Known {
    pub(super) fn get_mut(&mut self, part: Part) -> Option<&mut Slot> {
        match part {
            Part::Value => self.value.as_mut(),
            _ => self.parts.get_mut(&part),
        }
    }

    pub(super) fn remove(&mut self, part: Part) -> Option<Slot> {
        match part {
            Part::Value => self.value.take(),
            _ => self.parts.remove(&part),
        }
    }

    pub(super) fn is(&self, of: Same) -> bool {
        self.value.as_ref().and_then(|value| value.answer.same()).is_some_and(|same| same.is(&of))
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.value.iter().chain(self.parts.values())
    }
}

/// The staleness bound of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fresh {
    /// Any age.
    Always,
    /// At most this old.
    For(Duration),
    /// Requested at this time or later.
    Since(Instant),
    /// Entries are validated on every use.
    Now,
}

impl Fresh {
    pub(super) fn allows(self, checked: Instant) -> bool {
        match self {
            Fresh::Always => true,
            Fresh::For(age) => checked.elapsed() < age,
            Fresh::Since(time) => checked >= time,
            Fresh::Now => false,
        }
    }
}

/// The result of a cache lookup.
pub(super) enum Found {
    /// A fresh entry.
    Fresh(Answer),
    /// An entry that must be validated.
    Stale(Answer),
    /// No entry.
    Nothing,
}
