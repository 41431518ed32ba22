//! Ambiguous writes: the response was lost, so the store may hold the new value.

use std::sync::Arc;

use super::{holds, joined};
use super::{Change, Object, Part, Unversioned, Updater};
use crate::error::{Error, Kind, Result, LOST};

/// Updates of documents, unlike chunks, may give another value when they run twice; documents are
/// small.
const DOCUMENT_BYTES: u64 = 1 << 20;

/// The new value of an attempted write.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) enum Tried {
    /// No write, or one that may run twice: a chunk, which gets the same value.
    #[default]
    Nothing,
    /// A deletion.
    Absent,
    /// A value.
    Bytes(Arc<Vec<u8>>),
}

impl Tried {
    /// `strict`: no change is made if the value differs, so that chunks are compared, too.
    pub(super) fn of(change: &Change<'_>, only: bool) -> Result<Self> {
        let parts = match change {
            Change::Keep => return Ok(Tried::Nothing),
            Change::Delete => return Ok(Tried::Absent),
            Change::Write(parts) => parts,
        };
        if let [Part::Shared(bytes)] = &parts[..] {
            return Ok(Tried::Bytes(bytes.clone())); // shared bytes cost nothing, whatever their size
        }
        let bytes = parts.iter().map(Part::size).fold(0, u64::saturating_add);
        let is_chunk = !only && bytes > DOCUMENT_BYTES;
        if is_chunk || parts.iter().any(|part| matches!(part, Part::Current { .. })) {
            return Ok(Tried::Nothing);
        }
        joined(parts, None).map(|bytes| Tried::Bytes(Arc::new(bytes)))
    }

    /// Whether the value is large enough to be a chunk, which may be written twice.
    fn is_chunk(&self) -> bool {
        matches!(self, Tried::Bytes(bytes) if bytes.len() as u64 > DOCUMENT_BYTES)
    }

    /// Run the updater again. Return an error if the first write may have been applied, and would
    /// be applied twice or reported as refused. If no response was certainly lost
    /// (`response_lost`), only a current value that equals the attempted one raises an error.
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
            // Others may have changed the attempted value: an idempotent update may run again.
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

    /// Whether the update gives the same value when it runs on its own result.
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

    /// Check a write that ends as refused, like `decide`; `open` opens the current value.
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

    /// Return an error if the current value equals the attempted one.
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
