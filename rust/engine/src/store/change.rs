//! Changes of a value: what decides them, what they are, and what was made.

use std::sync::Arc;

use super::{Expected, Object, Version};
use crate::error::{Error, Result};
use crate::pipeline::source::Source;
use crate::scratch::reserve;

/// A piece of a new value.
#[derive(Debug)]
pub enum Part<'a> {
    /// Bytes that a worker made; handed back for reuse.
    Owned(Vec<u8>),
    /// Bytes of the caller.
    Borrowed(&'a [u8]),
    /// Bytes that the store may keep as they are.
    Shared(Arc<Vec<u8>>),
    /// `size` bytes of the current value from `offset`, copied as they are.
    Current {
        /// First byte in the current value.
        offset: u64,
        /// How many.
        size: u64,
    },
}

impl Part<'_> {
    pub(super) fn again(&self) -> Part<'_> {
        match self {
            Part::Owned(bytes) => Part::Borrowed(bytes),
            Part::Borrowed(bytes) => Part::Borrowed(bytes),
            Part::Shared(bytes) => Part::Shared(bytes.clone()),
            Part::Current { offset, size } => Part::Current { offset: *offset, size: *size },
        }
    }

    /// The size in bytes.
    pub fn size(&self) -> u64 {
        match self {
            Part::Owned(bytes) => bytes.len() as u64,
            Part::Borrowed(bytes) => bytes.len() as u64,
            Part::Shared(bytes) => bytes.len() as u64,
            Part::Current { size, .. } => *size,
        }
    }
}

/// What to do with one key.
#[derive(Debug)]
pub enum Change<'a> {
    /// Leave it as it is.
    Keep,
    /// Remove it; a missing key is fine.
    Delete,
    /// Replace the value by these parts, one after another.
    Write(Vec<Part<'a>>),
}

impl Change<'_> {
    /// The same change, of bytes that stay where they are.
    pub(crate) fn again(&self) -> Change<'_> {
        match self {
            Change::Keep => Change::Keep,
            Change::Delete => Change::Delete,
            Change::Write(parts) => Change::Write(parts.iter().map(Part::again).collect()),
        }
    }
}

/// What who changes a key has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Its current value, in order to decide the change.
    pub current: bool,
    /// The version of the new one, where the store can tell.
    pub version: bool,
    /// What the current value is thought to be. A store that compares when it makes a change
    /// need not open the value then: who decides is given an object of that version, with
    /// nothing in it, and is asked again if the value is another one.
    pub known: Known,
    /// Whether nothing is to be changed if the value is not what it is thought to be: then a
    /// store that compares need not ask who decides again. What was made is [`Change::Keep`] then.
    pub only: bool,
}

/// What somebody thinks that a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Anything.
    Nothing,
    /// There is none.
    Absent,
    /// It is in this state.
    Version(Version),
}

impl Need {
    /// Nothing.
    pub const NOTHING: Need = Need { current: false, version: false, known: Known::Nothing, only: false };
    /// The current value.
    pub const CURRENT: Need = Need { current: true, ..Need::NOTHING };

    /// The current value, or nothing.
    pub fn of_current(current: bool) -> Self {
        Need { current, ..Need::NOTHING }
    }

    /// The current value, in order to compare it with what it is expected to be.
    pub fn of_expected(expected: &Expected) -> Self {
        let known = match expected {
            Expected::Absent => Known::Absent,
            Expected::Version(version) => Known::Version(*version),
            Expected::Anything | Expected::Bytes(_) => Known::Nothing,
        };
        Need { known, ..Need::of_current(*expected != Expected::Anything) }
    }
}

/// A change that was made.
#[derive(Debug)]
pub struct Made<'a> {
    /// The change, for reuse of its buffers.
    pub change: Change<'a>,
    /// The version of the new value, where that was needed and is known.
    pub version: Option<Version>,
}

impl<'a> From<Change<'a>> for Made<'a> {
    fn from(change: Change<'a>) -> Self {
        Made { change, version: None }
    }
}

/// Decides the change of one key, given its current value (None: absent).
/// It may be called again where it sees the current value: on a conflict, or if the change could
/// not be made.
pub type Updater<'f, 'a> = dyn FnMut(Option<&dyn Object>) -> Result<Change<'a>> + 'f;

/// Appends what `parts` make to `out`; `current` is what [`Part::Current`] is of.
pub fn join(parts: &[Part<'_>], current: Option<Source<'_>>, out: &mut Vec<u8>) -> Result<()> {
    let size = parts.iter().map(Part::size).fold(0, u64::saturating_add);
    reserve(out, usize::try_from(size).unwrap_or(usize::MAX))?;
    for part in parts {
        match part {
            Part::Owned(bytes) => out.extend_from_slice(bytes),
            Part::Borrowed(bytes) => out.extend_from_slice(bytes),
            Part::Shared(bytes) => out.extend_from_slice(bytes),
            Part::Current { offset, size } => {
                current.ok_or_else(no_current)?.part(*offset, *size)?.append_to(out)?;
            }
        }
    }
    Ok(())
}

/// What `parts` make of the value of `current`.
pub(super) fn joined(parts: &[Part<'_>], current: Option<&dyn Object>) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    join(parts, current.map(Source::of), &mut out)?;
    Ok(out)
}

pub(super) fn no_current() -> Error {
    Error::internal("a part of the current value, but there is none")
}
