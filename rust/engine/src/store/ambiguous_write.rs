//! Changes whose answers were lost: they may have been made.

use std::sync::Arc;

use super::{holds, joined};
use super::{Change, Object, Part, Unversioned, Updater};
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

    /// Has a change decided again; an error, if it may have been made, and would be made once more or be
    /// told as refused. Where it is not `sure` that an answer was lost, only if the value is what was to be made.
    pub(super) fn decide<'a>(
        &self,
        current: Option<&dyn Object>,
        only: bool,
        sure: bool,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<Change<'a>> {
        let decided = updater(current);
        if self.is_same(only, &decided)? {
            return decided;
        }
        if decided.as_ref().is_err_and(Error::ends_wait) {
            return decided;
        }
        self.check_not_made(current)?;
        let may_go_on = match &decided {
            _ if !sure => return decided,
            Ok(Change::Keep) | Err(_) => false,
            // Others may have changed what was made here: it may be made again if it changes nothing of that.
            Ok(_) => self.is_settled(updater)?,
        };
        match may_go_on {
            true => updater(current),
            false => Err(lost(OTHERS)),
        }
    }

    fn is_same(&self, only: bool, decided: &Result<Change<'_>>) -> Result<bool> {
        Ok(match decided {
            _ if *self == Tried::Nothing => true,
            Ok(_) if !only && self.is_chunk() => true,
            Ok(Change::Keep) => !only,
            Ok(change) => Tried::of(change, only)? == *self,
            Err(_) => false,
        })
    }

    /// Whether a change gives the same if it is made of what it gave.
    fn is_settled(&self, updater: &mut Updater<'_, '_>) -> Result<bool> {
        let made = match self {
            Tried::Bytes(bytes) => Some(Unversioned(bytes.clone())),
            Tried::Absent | Tried::Nothing => None,
        };
        let decided = updater(made.as_ref().map(|made| made as &dyn Object));
        match decided {
            Err(error) if error.ends_wait() => Err(error),
            decided => self.is_same(false, &decided),
        }
    }

    /// Refuses to tell that nothing was changed, as `decide` does; `open` gives the value.
    pub(super) fn check_refused(
        &self,
        sure: bool,
        open: impl FnOnce() -> Result<Option<Box<dyn Object>>>,
    ) -> Result<()> {
        if *self == Tried::Nothing {
            return Ok(());
        }
        self.check_not_made(open()?.as_deref())?;
        match sure {
            true => Err(lost(OTHERS)),
            false => Ok(()),
        }
    }

    /// Refuses to go on where a value is what the change was to make.
    fn check_not_made(&self, current: Option<&dyn Object>) -> Result<()> {
        let may_be = match (self, current) {
            (Tried::Absent, None) => true,
            (Tried::Bytes(bytes), Some(current)) => holds(current, bytes)?,
            _ => false,
        };
        match may_be {
            true => Err(lost(SAME)),
            false => Ok(()),
        }
    }
}

const SAME: &str = "the value is what that was to make: it was made, or others have made the same";
const OTHERS: &str = "others have changed the value: before that it may have been made";

fn lost(found: &str) -> Error {
    let message = format!("the answer to a change was lost, and {found}; look before you do it again");
    let kind = Kind::Store { retryable: false, errno: None };
    Error { code: Some(LOST), ..Error::new(kind, message) }
}
