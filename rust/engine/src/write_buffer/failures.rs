//! Chunks that could not be stored.

use std::sync::{Arc, Mutex, PoisonError};

use super::lock;
use crate::error::{Error, Result};

/// An error names at most this many other keys.
const MAX_KEYS: usize = 5;

/// The chunks and arrays that could not be stored.
#[derive(Default)]
pub(super) struct Failures(Mutex<Recorded>);

#[derive(Default)]
struct Recorded {
    first: Option<Error>,
    /// Some chunks stay in memory.
    has_kept: bool,
    /// The number of later errors, and the keys of some of them.
    others: usize,
    keys: Vec<String>,
}

impl Failures {
    /// Record the error of a chunk that stays in memory. An interrupt is returned instead.
    pub(super) fn record(&self, error: Error) -> Result<()> {
        if error.ends_wait() {
            return Err(error);
        }
        lock(&self.0).has_kept = true;
        self.record_gone(error);
        Ok(())
    }

    /// Record the error of an array whose chunks are discarded.
    pub(super) fn record_gone(&self, error: Error) {
        let mut recorded = lock(&self.0);
        if recorded.first.is_none() {
            recorded.first = Some(error);
            return;
        }
        recorded.others += 1;
        if recorded.keys.len() < MAX_KEYS {
            recorded.keys.extend(error.key);
        }
    }

    /// Return the first error, with a note about the others.
    pub(super) fn result(self) -> Result<()> {
        let recorded = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let Some(mut error) = recorded.first else { return Ok(()) };
        let mut notes = Vec::new();
        if recorded.others > 0 {
            let keys: Vec<String> = recorded.keys.iter().map(|key| format!("{key:?}")).collect();
            let more = if recorded.others > keys.len() { ", …" } else { "" };
            let (others, keys) = (recorded.others, keys.join(", "));
            notes.push(format!("{others} more could not be stored: {keys}{more}"));
        }
        if recorded.has_kept {
            notes.push(
                "chunks that could not be stored stay in memory: the next flush() or block tries again"
                    .into(),
            );
        }
        error.note = (!notes.is_empty()).then(|| Arc::new(notes.join("; ")));
        Err(error)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn first_error_names_the_others() {
        let failures = Failures::default();
        for number in 0..8 {
            failures
                .record(Error::store(false, format!("error {number}")).at_key(&format!("c/{number}")))
                .unwrap();
        }
        let error = failures.result().unwrap_err();
        assert_eq!((error.message.as_str(), error.key.as_deref()), ("error 0", Some("c/0")));
        let note = error.note.unwrap();
        assert!(
            note.starts_with(r#"7 more could not be stored: "c/1", "c/2", "c/3", "c/4", "c/5", …; chunks"#)
        );
    }

    #[test]
    fn interrupt_is_returned_and_not_recorded() {
        let failures = Failures::default();
        assert!(failures.record(Error::new(Kind::Interrupted, "Ctrl-C")).is_err());
        assert!(failures.result().is_ok());
    }
}
