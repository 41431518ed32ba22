//! What a cached store remembers: answers, and of which value they are.

use std::collections::BTreeMap;
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
    pub(super) const FIRST_RANGE: Part = Part::Range { offset: 0, count: 0 };
    pub(super) const FIRST_DECODED: Part = Part::Decoded { offset: 0, size: 0, level: 0 };
}

/// Which value it is: what was opened at once, or all that have one version.
#[derive(Clone, Copy)]
pub(super) struct Same {
    /// Differs between any two that were opened.
    id: u64,
    state: Option<Version>,
    /// Whether that is a version.
    lasts: bool,
}

impl Same {
    /// A value that was opened just now.
    pub(super) fn of(object: &dyn Object) -> Self {
        let version = object.version();
        Same { state: version.or_else(|| object.state()), ..Same::written(version) }
    }

    /// A value that was written just now.
    pub(super) fn written(version: Option<Version>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Same { id: NEXT.fetch_add(1, Ordering::Relaxed), state: version, lasts: version.is_some() }
    }

    pub(super) fn version(&self) -> Option<Version> {
        self.state.filter(|_| self.lasts)
    }

    /// The state in which it was, which may be too young to be a version.
    pub(super) fn state(&self) -> Option<Version> {
        self.state
    }

    pub(super) fn is(&self, other: &Same) -> bool {
        self.id == other.id || (self.lasts && other.lasts && self.state == other.state)
    }

    /// Whether `object` is it, as far as its store can tell; not where that tells nothing.
    pub(super) fn is_in(&self, object: &dyn Object) -> bool {
        self.state.is_some() && object.state() == self.state
    }
}

/// A value that was read whole.
pub(super) struct Whole {
    pub(super) bytes: Vec<u8>,
    pub(super) same: Same,
}

impl Whole {
    /// Reads a value that is open.
    pub(super) fn of(object: &dyn Object) -> Result<Self> {
        Ok(Whole { bytes: read_all(object)?, same: Same::of(object) })
    }
}

/// An answer. Those that are long are elsewhere: there may be very many.
#[derive(Clone)]
pub(super) enum Answer {
    Absent,
    Whole(Arc<Whole>),
    /// The value is there; its bytes are remembered as ranges, or not.
    Opened {
        size: u64,
        same: Box<Same>,
    },
    Range(Arc<Vec<u8>>),
    Keys(Arc<Vec<String>>),
    Level(Arc<Listing>),
    Decoded(Arc<Vec<u8>>),
}

/// Bytes of a value, and where they begin.
pub(super) type Piece = (Arc<Vec<u8>>, u64);

/// What counts for a value, and for a part of one, beside the bytes that are held, whatever the name. Both together
/// are no more than TensorStore counts for a chunk, of which a pool that is small then holds as many.
const VALUE: u64 = 96;
const PART: u64 = 160;

/// What counts for a value that is absent: more than half of what it takes.
const ABSENT: u64 = 300;

impl Answer {
    /// Which value it is.
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

/// An answer that is kept.
pub(super) struct Slot {
    pub(super) answer: Answer,
    pub(super) bytes: u64,
    pub(super) used: u64,
    /// When the store was asked that gave it, or last said that it still holds.
    pub(super) checked: Instant,
}

impl Slot {
    /// Makes it the last that was used.
    pub(super) fn touch(&mut self, clock: &mut u64, order: &mut BTreeMap<u64, (Arc<str>, Part)>) {
        *clock += 1;
        if let Some(entry) = order.remove(&self.used) {
            order.insert(*clock, entry);
        }
        self.used = *clock;
    }
}

/// What is remembered of a name.
#[derive(Default)]
pub(super) struct Known {
    pub(super) value: Option<Slot>,
    /// Parts of that very value, without which they are of no use; and listings.
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
    pub(super) fn allows(self, checked: Instant) -> bool {
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
