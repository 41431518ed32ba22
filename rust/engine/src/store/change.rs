//! Updates of one key: options, decision and outcome.

use std::sync::Arc;

use super::{Expected, ValueReader, Version};
use crate::error::{Error, Result};
use crate::pipeline::source::Source;
use crate::scratch::reserve;

/// A part of a new value.
#[derive(Debug)]
pub enum ValuePart<'a> {
    /// Bytes in a worker's buffer, which is reused later.
    Owned(Vec<u8>),
    /// Bytes of the caller.
    Borrowed(&'a [u8]),
    /// Shared bytes, which the store may keep without a copy.
    Shared(Arc<Vec<u8>>),
    /// `size` bytes of the current value from `offset`, copied unchanged.
    Current {
        /// The offset in the current value.
        offset: u64,
        /// The number of bytes.
        size: u64,
    },
}

impl ValuePart<'_> {
    pub(super) fn reborrow(&self) -> ValuePart<'_> {
        match self {
            ValuePart::Owned(bytes) => ValuePart::Borrowed(bytes),
            ValuePart::Borrowed(bytes) => ValuePart::Borrowed(bytes),
            ValuePart::Shared(bytes) => ValuePart::Shared(bytes.clone()),
            ValuePart::Current { offset, size } => ValuePart::Current { offset: *offset, size: *size },
        }
    }

    /// Return the bytes; None: they are a part of the current value.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        match self {
            ValuePart::Owned(bytes) => Some(bytes),
            ValuePart::Borrowed(bytes) => Some(bytes),
            ValuePart::Shared(bytes) => Some(bytes),
            ValuePart::Current { .. } => None,
        }
    }

    /// Return the size in bytes.
    pub fn size(&self) -> u64 {
        match self {
            ValuePart::Current { size, .. } => *size,
            part => part.bytes().map_or(0, |bytes| bytes.len() as u64),
        }
    }
}

/// The change of one key.
#[derive(Debug)]
pub enum Change<'a> {
    /// Leave the value unchanged.
    Keep,
    /// Remove the value; the key may be absent.
    Delete,
    /// Replace the value by the concatenation of these parts.
    Write(Vec<ValuePart<'a>>),
}

impl Change<'_> {
    /// Return the same change, borrowing its bytes.
    pub(crate) fn reborrow(&self) -> Change<'_> {
        match self {
            Change::Keep => Change::Keep,
            Change::Delete => Change::Delete,
            Change::Write(parts) => Change::Write(parts.iter().map(ValuePart::reborrow).collect()),
        }
    }
}

/// The options of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateOptions {
    /// Whether the updater needs the current value.
    pub current: bool,
    /// Whether to return the version of the new value, if the store has versions.
    pub version: bool,
    /// The expected version of the current value. A store that compares versions need not open the
    /// value then: the updater gets an empty value of that version, and runs again if the version
    /// differs.
    pub precondition: Precondition,
    /// Whether the update ends without a change if the precondition does not hold. A store that
    /// compares versions need not run the updater again then; the outcome is [`Change::Keep`].
    pub strict: bool,
}

/// The expected state of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Any state.
    Anything,
    /// The key is absent.
    Absent,
    /// The value has this version.
    Version(Version),
}

impl UpdateOptions {
    /// No condition, no current value.
    pub const UNCONDITIONAL: UpdateOptions =
        UpdateOptions { current: false, version: false, precondition: Precondition::Anything, strict: false };
    /// The updater needs the current value.
    pub const READ_CURRENT: UpdateOptions = UpdateOptions { current: true, ..UpdateOptions::UNCONDITIONAL };

    /// Options that set `current` alone.
    pub fn reading_current(current: bool) -> Self {
        UpdateOptions { current, ..UpdateOptions::UNCONDITIONAL }
    }

    /// Options of an update that compares the current value with `expected`.
    pub fn expecting(expected: &Expected) -> Self {
        let precondition = match expected {
            Expected::Absent => Precondition::Absent,
            Expected::Version(version) => Precondition::Version(*version),
            Expected::Anything | Expected::Bytes(_) => Precondition::Anything,
        };
        UpdateOptions { precondition, ..UpdateOptions::reading_current(*expected != Expected::Anything) }
    }
}

/// The outcome of an update.
#[derive(Debug)]
pub struct UpdateOutcome<'a> {
    /// The change, whose buffers are reused.
    pub change: Change<'a>,
    /// The version of the new value, if it was requested and the store has versions.
    pub version: Option<Version>,
}

impl<'a> From<Change<'a>> for UpdateOutcome<'a> {
    fn from(change: Change<'a>) -> Self {
        UpdateOutcome { change, version: None }
    }
}

/// Decides the change of one key from its current value (None: absent). If it gets the current
/// value it may run again: after a conflict, or if the change failed.
pub type Updater<'f, 'a> = dyn FnMut(Option<&dyn ValueReader>) -> Result<Change<'a>> + 'f;

/// Append the concatenation of `parts` to `out`; [`ValuePart::Current`] refers to `current`.
pub fn join(parts: &[ValuePart<'_>], current: Option<Source<'_>>, out: &mut Vec<u8>) -> Result<()> {
    let size = parts.iter().map(ValuePart::size).fold(0, u64::saturating_add);
    reserve(out, usize::try_from(size).unwrap_or(usize::MAX))?;
    for part in parts {
        match part {
            ValuePart::Current { offset, size } => {
                current.ok_or_else(no_current)?.part(*offset, *size)?.append_to(out)?;
            }
            part => out.extend_from_slice(part.bytes().unwrap_or_default()),
        }
    }
    Ok(())
}

/// Concatenate `parts`; [`ValuePart::Current`] refers to `current`.
pub(super) fn joined(parts: &[ValuePart<'_>], current: Option<&dyn ValueReader>) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    join(parts, current.map(Source::of), &mut out)?;
    Ok(out)
}

pub(super) fn no_current() -> Error {
    Error::internal("a part of the current value, but the key is absent")
}
