//! Changes whose answers were lost: they may have been made.

use std::sync::Arc;

use super::{holds, joined};
use super::{Change, Object, Part, Updater};
use crate::error::{Error, Kind, Result, LOST};

/// Documents, unlike chunks, may be changed in ways that do not give the same twice; they are small.
const DOCUMENT_BYTES: u64 = 1 << 20;

/// What a change was to make.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) enum Tried {
    /// Nothing, or what is not kept to be compared: a chunk, which is the same if it is made twice.
    #[default]
    Nothing,
    /// No value.
    Absent,
    /// A value.
    Bytes(Arc<Vec<u8>>),
}

impl Tried {
    /// `only`: nothing is changed by who finds another value then, be it a chunk.
    pub(super) fn of(change: &Change<'_>, only: bool) -> Result<Self> {
        let parts = match change {
            Change::Keep => return Ok(Tried::Nothing),
            Change::Delete => return Ok(Tried::Absent),
            Change::Write(parts) => parts,
        };
        if let [Part::Shared(bytes)] = &parts[..] {
            return Ok(Tried::Bytes(bytes.clone())); // whatever its size, that costs nothing
        }
        let bytes = parts.iter().map(Part::size).fold(0, u64::saturating_add);
        let is_chunk = !only && bytes > DOCUMENT_BYTES;
        if is_chunk || parts.iter().any(|part| matches!(part, Part::Current { .. })) {
            return Ok(Tried::Nothing);
        }
        joined(parts, None).map(|bytes| Tried::Bytes(Arc::new(bytes)))
    }

    /// Whether it is large enough to be the same if it is made twice.
    fn is_chunk(&self) -> bool {
        matches!(self, Tried::Bytes(bytes) if bytes.len() as u64 > DOCUMENT_BYTES)
    }

    /// Has a change decided again; an error, if it was made and would be made once more.
    pub(super) fn decide<'a>(
        &self,
        current: Option<&dyn Object>,
        only: bool,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<Change<'a>> {
        let decided = updater(current);
        self.check(current, only, &decided)?;
        decided
    }

    /// The same for what was decided.
    pub(super) fn check(
        &self,
        current: Option<&dyn Object>,
        only: bool,
        decided: &Result<Change<'_>>,
    ) -> Result<()> {
        let is_same = match decided {
            _ if *self == Tried::Nothing => true,
            Ok(_) if !only && self.is_chunk() => true,
            Ok(Change::Keep) => !only,
            Ok(change) => Tried::of(change, only)? == *self,
            Err(_) => false,
        };
        match is_same {
            true => Ok(()),
            false => self.check_not_made(current),
        }
    }

    /// Refuses to go on where a value is what the change was to make.
    pub(super) fn check_not_made(&self, current: Option<&dyn Object>) -> Result<()> {
        let may_be = match (self, current) {
            (Tried::Absent, None) => true,
            (Tried::Bytes(bytes), Some(current)) => holds(current, bytes)?,
            _ => false,
        };
        if !may_be {
            return Ok(());
        }
        let kind = Kind::Store { retryable: false, errno: None };
        let message = "the answer to a change was lost, and the value is what that was to make: it was \
                       made, or others have made the same; look before you do it again";
        Err(Error { code: Some(LOST), ..Error::new(kind, message) })
    }
}
