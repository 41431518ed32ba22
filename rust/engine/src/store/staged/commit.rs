//! Commits of staged changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use super::{covers, StagedChanges, StagedKey, StagedStore};
use crate::error::{Error, Kind, Result};
use crate::pool;
use crate::store::exchange::{Exchange, Expected, NewValue};
use crate::store::{read_all, Change, ReadHint, Store, UpdateOptions, ValuePart};

/// Applies a staged change to a value that another writer has changed; None: the change depends on
/// the old value.
pub type Redo<'r> = &'r (dyn Fn(&str, Option<&[u8]>) -> Result<Option<NewValue>> + Sync);

/// The outcome of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// All changes are applied.
    Done,
    /// The precondition of this key does not hold.
    Conflict(String),
    /// The store cannot change this many keys atomically.
    NotAtomic(usize),
}

/// The result of deciding changes again after a conflict.
enum Redecision {
    /// Some changes were decided again.
    Decided,
    /// All preconditions hold by now.
    AllHold,
    /// The change of this key cannot be decided again.
    Impossible(String),
}

/// How often in a row a store may report a conflict while all preconditions hold: a value may
/// change and change back.
const MAX_SPURIOUS_CONFLICTS: usize = 8;

impl StagedStore {
    /// Apply the changes to the inner store, and reject later changes.
    ///
    /// With `atomic`, or if it costs nothing, this applies all changes atomically or none.
    /// Otherwise it compares keys that were only read first, and each other key when it writes it,
    /// so that a conflict may leave some changes applied. `redo` can resolve a conflict.
    ///
    /// A second call returns the outcome again, for callers that were interrupted. After an error
    /// it applies the remaining changes.
    pub fn commit(&self, atomic: bool, redo: Redo<'_>) -> Result<CommitOutcome> {
        let (mut stage, earlier_outcome) = self.with(|stage| {
            let outcome = stage.outcome.clone();
            let closed = StagedChanges { closed: true, outcome: outcome.clone(), ..StagedChanges::default() };
            (std::mem::replace(stage, closed), outcome)
        });
        if let Some(earlier_outcome) = earlier_outcome {
            return Ok(earlier_outcome);
        }
        let required = stage.required();
        let redo: Redo<'_> = &|key, current| match required.contains(key) {
            true => Ok(None), // a required precondition
            false => redo(key, current),
        };
        let result = self.apply(&mut stage, atomic, redo);
        self.with(|remaining| match &result {
            Ok(outcome) => remaining.outcome = Some(outcome.clone()),
            Err(_) => *remaining = StagedChanges { closed: true, ..stage },
        });
        result
    }

    /// Apply changes to the inner store. Applied changes leave the stage.
    fn apply(&self, stage: &mut StagedChanges, atomic: bool, redo: Redo<'_>) -> Result<CommitOutcome> {
        let changing =
            stage.keys.values().filter(|staged| !matches!(staged.new, NewValue::Unchanged)).count();
        // Reads that need not repeat are compared once, before any change.
        let changes = self.repeatable || changing > 0 || !stage.deleted.is_empty();
        let is_single_key = !self.repeatable && changing == 1 && stage.deleted.is_empty();
        if changes && (atomic || is_nonblocking_below(&*self.inner)) {
            match self.apply_atomically(stage, redo)? {
                CommitOutcome::NotAtomic(_) if !atomic || is_single_key => {}
                outcome => return Ok(outcome),
            }
        }
        // A single change is compared when it is written. With repeatable reads, the other keys are
        // compared before the first write.
        let first = match self.repeatable {
            true => stage.keys.iter().find(|(key, staged)| is_compared(staged) && !stage.covers(key)),
            false => None,
        };
        let first = first.map(exchange);
        if let Some(key) = self.first_mismatch(stage, first.as_ref(), redo)? {
            return Ok(CommitOutcome::Conflict(key));
        }
        let StagedChanges { keys, deleted, .. } = stage;
        if let Some(first) = first {
            if !self.commit_one(&first, redo)? {
                return Ok(CommitOutcome::Conflict(first.key));
            }
            keys.remove(&first.key);
        }
        keys.retain(|_, staged| !matches!(staged.new, NewValue::Unchanged));
        for (_, staged) in keys.iter_mut().filter(|(key, _)| covers(deleted, key)) {
            staged.expected = Expected::Anything;
        }
        let written = |staged: &StagedKey| matches!(staged.new, NewValue::Value(_));
        let replaced = |key: &str| keys.get(key).is_some_and(written);
        for deleted in &*deleted {
            self.inner.delete_range(&deleted.start, deleted.range(), &replaced)?;
        }
        keys.retain(|key, staged| written(staged) || !covers(deleted, key));
        deleted.clear();
        self.commit_each(keys, redo)
    }

    /// Return a key whose precondition does not hold, among those that are compared before `first`
    /// is written.
    fn first_mismatch(
        &self,
        stage: &StagedChanges,
        first: Option<&Exchange>,
        redo: Redo<'_>,
    ) -> Result<Option<String>> {
        for (key, staged) in &stage.keys {
            let is_read = matches!(staged.new, NewValue::Unchanged);
            let is_other = self.repeatable && first.is_none_or(|first| first.key != *key);
            if !(is_read || is_other || stage.covers(key)) || self.is_expected(key, &staged.expected)? {
                continue;
            }
            if !is_read || self.redo_for_current(key, redo)?.is_none() {
                return Ok(Some(key.clone()));
            }
        }
        Ok(None)
    }

    /// Return all changes with their preconditions.
    fn all_exchanges(&self, stage: &StagedChanges) -> Result<Vec<Exchange>> {
        let mut exchanges: Vec<Exchange> = stage.keys.iter().map(exchange).collect();
        let mut deleted_keys = BTreeSet::new();
        for deleted in &stage.deleted {
            self.inner.list_range(&deleted.start, deleted.range(), &mut |key| {
                if !stage.keys.contains_key(key) {
                    deleted_keys.insert(key.to_owned());
                }
            })?;
        }
        let delete = |key| Exchange { key, expected: Expected::Anything, new: NewValue::Absent };
        exchanges.extend(deleted_keys.into_iter().map(delete));
        Ok(exchanges)
    }

    /// Apply the changes of keys one by one.
    fn commit_each(&self, keys: &mut BTreeMap<String, StagedKey>, redo: Redo<'_>) -> Result<CommitOutcome> {
        let exchanges: Vec<Exchange> = keys.iter().map(exchange).collect();
        let remaining = Mutex::new((keys, None));
        let task = |index: usize| {
            let exchange = &exchanges[index];
            let result = self.commit_one(exchange, redo)?;
            let mut remaining = remaining.lock().unwrap_or_else(PoisonError::into_inner);
            match result {
                true => drop(remaining.0.remove(&exchange.key)),
                false => drop(remaining.1.get_or_insert_with(|| exchange.key.clone())),
            }
            Ok(())
        };
        match self.inner.info().write_concurrency {
            0 => pool::parallel_for(exchanges.len(), usize::MAX, None, &task)?,
            limit => {
                self.inner.check_may_block()?;
                pool::wait_for(exchanges.len(), limit, None, &task)?;
            }
        }
        let (_, conflict) = remaining.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(conflict.map_or(CommitOutcome::Done, CommitOutcome::Conflict))
    }

    /// Apply all changes atomically.
    fn apply_atomically(&self, stage: &mut StagedChanges, redo: Redo<'_>) -> Result<CommitOutcome> {
        let mut spurious_conflicts = 0;
        loop {
            let exchanges = self.all_exchanges(stage)?;
            let result = match &*exchanges {
                [] => Some(true),
                // A folder is removed as a whole: a symbolic link itself, not its target.
                [exchange] if matches!(exchange.new, NewValue::Absent) && stage.covers(&exchange.key) => {
                    Some(self.apply_covering_deletions(stage, exchange)?)
                }
                [exchange] => Some(self.commit_one(exchange, redo)?),
                _ => self.inner.exchange(&exchanges)?,
            };
            match (result, &*exchanges) {
                (Some(true), _) => return Ok(CommitOutcome::Done),
                (None, _) => return Ok(CommitOutcome::NotAtomic(exchanges.len())),
                (Some(false), [exchange]) => return Ok(CommitOutcome::Conflict(exchange.key.clone())),
                (Some(false), _) => {}
            }
            spurious_conflicts = match self.redecide(stage, redo)? {
                Redecision::Decided => 0,
                Redecision::AllHold if spurious_conflicts < MAX_SPURIOUS_CONFLICTS => spurious_conflicts + 1,
                Redecision::AllHold => return Ok(CommitOutcome::Conflict(exchanges[0].key.clone())),
                Redecision::Impossible(key) => return Ok(CommitOutcome::Conflict(key)),
            };
        }
    }

    /// Apply deletions of prefixes that cover one staged key; false: its precondition does not
    /// hold.
    fn apply_covering_deletions(&self, stage: &StagedChanges, exchange: &Exchange) -> Result<bool> {
        if !self.is_expected(&exchange.key, &exchange.expected)? {
            return Ok(false);
        }
        for deleted in &stage.deleted {
            self.inner.delete_range(&deleted.start, deleted.range(), &|_| false)?;
        }
        Ok(true)
    }

    /// Decide again the changes whose preconditions do not hold.
    fn redecide(&self, stage: &mut StagedChanges, redo: Redo<'_>) -> Result<Redecision> {
        let mut redecision = Redecision::AllHold;
        for (key, staged) in &mut stage.keys {
            if self.is_expected(key, &staged.expected)? {
                continue;
            }
            let Some(redone) = self.redo_for_current(key, redo)? else {
                return Ok(Redecision::Impossible(key.clone()));
            };
            (staged.expected, staged.new) = redone;
            redecision = Redecision::Decided;
        }
        Ok(redecision)
    }

    /// Apply the change of `key` to its current value; None: not possible.
    fn redo_for_current(&self, key: &str, redo: Redo<'_>) -> Result<Option<(Expected, NewValue)>> {
        let object = self.inner.open(key, ReadHint::Whole)?;
        let bytes = object.as_deref().map(read_all).transpose()?;
        let Some(new) = redo(key, bytes.as_deref())? else { return Ok(None) };
        Ok(Some((Expected::of(object.as_deref())?, new)))
    }

    fn is_expected(&self, key: &str, expected: &Expected) -> Result<bool> {
        Ok(*expected == Expected::Anything
            || expected.matches(self.inner.open(key, ReadHint::Revalidate)?.as_deref())?)
    }

    /// Apply the change of one key; false: its precondition does not hold.
    fn commit_one(&self, exchange: &Exchange, redo: Redo<'_>) -> Result<bool> {
        let mut is_match = true;
        let is_conditional = exchange.expected != Expected::Anything;
        let options = UpdateOptions::expecting(&exchange.expected);
        let outcome = self.inner.update(&exchange.key, options, &mut |current| {
            is_match = !is_conditional || exchange.expected.matches(current)?;
            if is_match {
                return Ok(match &exchange.new {
                    NewValue::Unchanged => Change::Keep,
                    NewValue::Absent => Change::Delete,
                    NewValue::Value(bytes) => Change::Write(vec![ValuePart::Shared(bytes.clone())]),
                });
            }
            let bytes = current.map(read_all).transpose()?;
            // An error instead of `Keep`: after a lost response the store checks whether its own
            // write is the current value.
            let rebased = redo(&exchange.key, bytes.as_deref())?.ok_or_else(|| conflict(&exchange.key))?;
            is_match = true;
            Ok(match rebased {
                NewValue::Unchanged => Change::Keep,
                NewValue::Absent => Change::Delete,
                NewValue::Value(bytes) => Change::Write(vec![ValuePart::Shared(bytes)]),
            })
        });
        match outcome {
            Err(error) if !is_match && error.kind == Kind::Conflict => Ok(false),
            outcome => outcome.map(|_| true),
        }
    }
}

/// Return whether a store below wrappers returns without blocking.
fn is_nonblocking_below(store: &dyn Store) -> bool {
    store.is_nonblocking() || store.inner().is_some_and(is_nonblocking_below)
}

/// Return whether the change of a key has a precondition.
fn is_compared(staged: &StagedKey) -> bool {
    !matches!(staged.new, NewValue::Unchanged) && staged.expected != Expected::Anything
}

/// Return the error of a key that another writer has changed.
fn conflict(key: &str) -> Error {
    Error::new(Kind::Conflict, format!("{key:?} does not have the expected value"))
}

/// Return the change of a key.
fn exchange((key, staged): (&String, &StagedKey)) -> Exchange {
    Exchange { key: key.clone(), expected: staged.expected.clone(), new: staged.new.clone() }
}
