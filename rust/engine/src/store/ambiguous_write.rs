//! Ambiguous writes: the response was lost, so the store may hold the new value.

use std::sync::Arc;

use super::{has_bytes, joined};
use super::{Change, Unversioned, Updater, ValuePart, ValueReader};
use crate::error::{Error, Result, AMBIGUOUS_WRITE};

/// The size up to which an update is a document. Unlike updates of chunks, updates of documents may
/// return another value when they run twice.
const DOCUMENT_BYTES: u64 = 1 << 20;

/// The new value of an attempted write.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) enum AttemptedWrite {
    /// No write, or one that may run twice: a chunk, which gets the same value.
    #[default]
    Untracked,
    /// A deletion.
    Absent,
    /// A value.
    Bytes(Arc<Vec<u8>>),
}

impl AttemptedWrite {
    /// With `strict` the update changes nothing if the value differs, so that chunks are compared,
    /// too.
    pub(super) fn of(change: &Change<'_>, strict: bool) -> Result<Self> {
        let parts = match change {
            Change::Keep => return Ok(AttemptedWrite::Untracked),
            Change::Delete => return Ok(AttemptedWrite::Absent),
            Change::Write(parts) => parts,
        };
        if let [ValuePart::Shared(bytes)] = &parts[..] {
            // Shared bytes cost nothing, whatever their size.
            return Ok(AttemptedWrite::Bytes(bytes.clone()));
        }
        let bytes = parts.iter().map(ValuePart::size).fold(0, u64::saturating_add);
        let is_chunk = !strict && bytes > DOCUMENT_BYTES;
        if is_chunk || parts.iter().any(|part| matches!(part, ValuePart::Current { .. })) {
            return Ok(AttemptedWrite::Untracked);
        }
        joined(parts, None).map(|bytes| AttemptedWrite::Bytes(Arc::new(bytes)))
    }

    /// Return whether the value is large enough to be a chunk, which may be written twice.
    fn is_chunk(&self) -> bool {
        matches!(self, AttemptedWrite::Bytes(bytes) if bytes.len() as u64 > DOCUMENT_BYTES)
    }

    /// Run the updater again. Return an error if the first write may have been applied, and would
    /// be applied twice or reported as rejected. If no response was certainly lost
    /// (`response_lost`), only a current value that equals the attempted one raises an error.
    pub(super) fn decide<'a>(
        &self,
        current: Option<&dyn ValueReader>,
        strict: bool,
        response_lost: bool,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<Change<'a>> {
        let decision = updater(current);
        if self.is_same(strict, &decision)? {
            return decision;
        }
        if decision.as_ref().is_err_and(Error::ends_wait) {
            return decision;
        }
        self.check_not_applied(current)?;
        let may_repeat = match &decision {
            _ if !response_lost => return decision,
            Ok(Change::Keep) | Err(_) => false,
            // Others may have changed the attempted value: an idempotent update may run again.
            Ok(_) => self.is_idempotent(updater)?,
        };
        match may_repeat {
            true => updater(current),
            false => Err(ambiguous_error(OTHER_VALUE)),
        }
    }

    fn is_same(&self, strict: bool, decision: &Result<Change<'_>>) -> Result<bool> {
        Ok(match decision {
            _ if *self == AttemptedWrite::Untracked => true,
            Ok(_) if !strict && self.is_chunk() => true,
            Ok(Change::Keep) => !strict,
            Ok(change) => AttemptedWrite::of(change, strict)? == *self,
            Err(_) => false,
        })
    }

    /// Return whether the update returns the same value when it runs on its own result.
    fn is_idempotent(&self, updater: &mut Updater<'_, '_>) -> Result<bool> {
        let reader = match self {
            AttemptedWrite::Bytes(bytes) => Some(Unversioned(bytes.clone())),
            AttemptedWrite::Absent | AttemptedWrite::Untracked => None,
        };
        let decision = updater(reader.as_ref().map(|reader| reader as &dyn ValueReader));
        match decision {
            Err(error) if error.ends_wait() => Err(error),
            decision => self.is_same(false, &decision),
        }
    }

    /// Check a write that ends as rejected, like `decide`; `open` opens the current value.
    pub(super) fn check_refusal(
        &self,
        response_lost: bool,
        open: impl FnOnce() -> Result<Option<Box<dyn ValueReader>>>,
    ) -> Result<()> {
        if *self == AttemptedWrite::Untracked {
            return Ok(());
        }
        self.check_not_applied(open()?.as_deref())?;
        match response_lost {
            true => Err(ambiguous_error(OTHER_VALUE)),
            false => Ok(()),
        }
    }

    /// Return an error if the current value equals the attempted one.
    fn check_not_applied(&self, current: Option<&dyn ValueReader>) -> Result<()> {
        let is_attempted = match (self, current) {
            (AttemptedWrite::Absent, None) => true,
            (AttemptedWrite::Bytes(bytes), Some(current)) => has_bytes(current, bytes)?,
            _ => false,
        };
        match is_attempted {
            true => Err(ambiguous_error(SAME_VALUE)),
            false => Ok(()),
        }
    }
}

const SAME_VALUE: &str =
    "the store holds the new value: the change was applied, or another writer stored the same value";
const OTHER_VALUE: &str = "another writer changed the value: the change may have been applied before";

fn ambiguous_error(why: &str) -> Error {
    let message =
        format!("the response to a change was lost, and {why}; check the value before you repeat the change");
    Error { code: Some(AMBIGUOUS_WRITE), ..Error::store(false, message) }
}
