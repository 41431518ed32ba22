//! Commits of staged changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use super::{hides, Stage, Staged, StagedStore};
use crate::error::{Error, Kind, Result};
use crate::pool;
use crate::store::exchange::{Exchange, Expected, New};
use crate::store::{read_all, Change, Need, Part, Store, Want};

/// Applies a staged change to a value that others have written meanwhile; None: the change depends
/// on the old value.
pub type Redo<'r> = &'r (dyn Fn(&str, Option<&[u8]>) -> Result<Option<New>> + Sync);

/// The outcome of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All changes are applied.
    Done,
    /// The precondition of this key does not hold.
    Conflict(String),
    /// The store cannot change this many keys atomically.
    NotAtomic(usize),
}

/// The result of deciding changes again after a conflict.
enum Again {
    /// Some changes were decided again.
    Decided,
    /// All preconditions hold by now.
    Same,
    /// The change of this key cannot be decided again.
    Cannot(String),
}

/// How often in a row a store may report a conflict while all preconditions hold: a value may
/// change and change back.
const DENIED: usize = 8;

impl StagedStore {
    /// Apply the changes to the inner store; later changes are refused.
    ///
    /// With `atomic`, or if it costs nothing, all changes are applied at once or none. Otherwise
    /// keys that were only read are compared first, and each other key when it is written, so that
    /// a conflict may leave some changes applied. `redo` can resolve a conflict. A second call
    /// returns the outcome again, for callers that were interrupted; after an error it applies the
    /// remaining changes.
    pub fn commit(&self, atomic: bool, redo: Redo<'_>) -> Result<Outcome> {
        let (mut stage, earlier) = self.with(|stage| {
            let outcome = stage.outcome.clone();
            let closed = Stage { closed: true, outcome: outcome.clone(), ..Stage::default() };
            (std::mem::replace(stage, closed), outcome)
        });
        if let Some(earlier) = earlier {
            return Ok(earlier);
        }
        let asked = stage.asked();
        let redo: Redo<'_> = &|key, current| match asked.contains(key) {
            true => Ok(None), // a required precondition
            false => redo(key, current),
        };
        let done = self.change(&mut stage, atomic, redo);
        self.with(|left| match &done {
            Ok(outcome) => left.outcome = Some(outcome.clone()),
            Err(_) => *left = Stage { closed: true, ..stage },
        });
        done
    }

    /// Apply changes to the inner store. Applied changes leave the stage.
    fn change(&self, stage: &mut Stage, atomic: bool, redo: Redo<'_>) -> Result<Outcome> {
        let changing = stage.keys.values().filter(|staged| !matches!(staged.new, New::Same)).count();
        // Reads that need not repeat are compared once, before any change.
        let changes = self.repeatable || changing > 0 || !stage.deleted.is_empty();
        let is_one = !self.repeatable && changing == 1 && stage.deleted.is_empty();
        if changes && (atomic || is_brief_below(&*self.inner)) {
            match self.change_at_once(stage, redo)? {
                Outcome::NotAtomic(_) if !atomic || is_one => {}
                outcome => return Ok(outcome),
            }
        }
        // A single change is compared when it is written. With repeatable reads, the other keys are
        // compared before the first write.
        let first = match self.repeatable {
            true => stage.keys.iter().find(|(key, staged)| is_compared(staged) && !stage.hides(key)),
            false => None,
        };
        let first = first.map(exchange);
        if let Some(key) = self.differs(stage, first.as_ref(), redo)? {
            return Ok(Outcome::Conflict(key));
        }
        let Stage { keys, deleted, .. } = stage;
        if let Some(first) = first {
            if !self.commit_one(&first, redo)? {
                return Ok(Outcome::Conflict(first.key));
            }
            keys.remove(&first.key);
        }
        keys.retain(|_, staged| !matches!(staged.new, New::Same));
        for (_, staged) in keys.iter_mut().filter(|(key, _)| hides(deleted, key)) {
            staged.expected = Expected::Anything;
        }
        let written = |staged: &Staged| matches!(staged.new, New::Value(_));
        let replaced = |key: &str| keys.get(key).is_some_and(written);
        for deleted in &*deleted {
            self.inner.delete_range_before(&deleted.start, deleted.range(), &replaced)?;
        }
        keys.retain(|key, staged| written(staged) || !hides(deleted, key));
        deleted.clear();
        self.commit_each(keys, redo)
    }

    /// A key whose precondition does not hold, among those that are compared before `first` is
    /// written.
    fn differs(&self, stage: &Stage, first: Option<&Exchange>, redo: Redo<'_>) -> Result<Option<String>> {
        for (key, staged) in &stage.keys {
            let read = matches!(staged.new, New::Same);
            let others = self.repeatable && first.is_none_or(|first| first.key != *key);
            if !(read || others || stage.hides(key)) || self.is_expected(key, &staged.expected)? {
                continue;
            }
            if !read || self.decide(key, redo)?.is_none() {
                return Ok(Some(key.clone()));
            }
        }
        Ok(None)
    }

    /// All changes with their preconditions.
    fn all_exchanges(&self, stage: &Stage) -> Result<Vec<Exchange>> {
        let mut exchanges: Vec<Exchange> = stage.keys.iter().map(exchange).collect();
        let mut gone = BTreeSet::new();
        for deleted in &stage.deleted {
            self.inner.list_range(&deleted.start, deleted.range(), &mut |key| {
                if !stage.keys.contains_key(key) {
                    gone.insert(key.to_owned());
                }
            })?;
        }
        let delete = |key| Exchange { key, expected: Expected::Anything, new: New::Nothing };
        exchanges.extend(gone.into_iter().map(delete));
        Ok(exchanges)
    }

    /// Apply the changes of keys one by one.
    fn commit_each(&self, keys: &mut BTreeMap<String, Staged>, redo: Redo<'_>) -> Result<Outcome> {
        let exchanges: Vec<Exchange> = keys.iter().map(exchange).collect();
        let left = Mutex::new((keys, None));
        let task = |at: usize| {
            let one = &exchanges[at];
            let done = self.commit_one(one, redo)?;
            let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
            match done {
                true => drop(left.0.remove(&one.key)),
                false => drop(left.1.get_or_insert_with(|| one.key.clone())),
            }
            Ok(())
        };
        match self.inner.write_concurrency() {
            0 => pool::parallel_for(exchanges.len(), usize::MAX, None, &task)?,
            many => {
                self.inner.may_wait()?;
                pool::wait_for(exchanges.len(), many, None, &task)?;
            }
        }
        let (_, conflict) = left.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(conflict.map_or(Outcome::Done, Outcome::Conflict))
    }

    /// Apply all changes atomically.
    fn change_at_once(&self, stage: &mut Stage, redo: Redo<'_>) -> Result<Outcome> {
        let mut denied = 0;
        loop {
            let exchanges = self.all_exchanges(stage)?;
            let done = match &*exchanges {
                [] => Some(true),
                // A folder is removed as a whole: a symbolic link itself, not its target.
                [one] if matches!(one.new, New::Nothing) && stage.hides(&one.key) => {
                    Some(self.delete_hidden(stage, one)?)
                }
                [one] => Some(self.commit_one(one, redo)?),
                _ => self.inner.exchange(&exchanges)?,
            };
            match (done, &*exchanges) {
                (Some(true), _) => return Ok(Outcome::Done),
                (None, _) => return Ok(Outcome::NotAtomic(exchanges.len())),
                (Some(false), [one]) => return Ok(Outcome::Conflict(one.key.clone())),
                (Some(false), _) => {}
            }
            denied = match self.decide_again(stage, redo)? {
                Again::Decided => 0,
                Again::Same if denied < DENIED => denied + 1,
                Again::Same => return Ok(Outcome::Conflict(exchanges[0].key.clone())),
                Again::Cannot(key) => return Ok(Outcome::Conflict(key)),
            };
        }
    }

    /// Apply deletions of prefixes that cover one staged key; false: its precondition does not
    /// hold.
    fn delete_hidden(&self, stage: &Stage, one: &Exchange) -> Result<bool> {
        if !self.is_expected(&one.key, &one.expected)? {
            return Ok(false);
        }
        for deleted in &stage.deleted {
            self.inner.delete_range_before(&deleted.start, deleted.range(), &|_| false)?;
        }
        Ok(true)
    }

    /// Decide again the changes whose preconditions do not hold.
    fn decide_again(&self, stage: &mut Stage, redo: Redo<'_>) -> Result<Again> {
        let mut again = Again::Same;
        for (key, staged) in &mut stage.keys {
            if self.is_expected(key, &staged.expected)? {
                continue;
            }
            let Some(decided) = self.decide(key, redo)? else { return Ok(Again::Cannot(key.clone())) };
            (staged.expected, staged.new) = decided;
            again = Again::Decided;
        }
        Ok(again)
    }

    /// Apply the change of `key` to its current value; None: not possible.
    fn decide(&self, key: &str, redo: Redo<'_>) -> Result<Option<(Expected, New)>> {
        let object = self.inner.open(key, Want::Whole)?;
        let bytes = object.as_deref().map(read_all).transpose()?;
        let Some(new) = redo(key, bytes.as_deref())? else { return Ok(None) };
        Ok(Some((Expected::of(object.as_deref())?, new)))
    }

    fn is_expected(&self, key: &str, expected: &Expected) -> Result<bool> {
        Ok(*expected == Expected::Anything
            || expected.matches(self.inner.open(key, Want::Nothing)?.as_deref())?)
    }

    /// Apply the change of one key; false: its precondition does not hold.
    fn commit_one(&self, exchange: &Exchange, redo: Redo<'_>) -> Result<bool> {
        let mut matched = true;
        let looks = exchange.expected != Expected::Anything;
        let need = Need::of_expected(&exchange.expected);
        let made = self.inner.update(&exchange.key, need, &mut |current| {
            matched = !looks || exchange.expected.matches(current)?;
            if matched {
                return Ok(match &exchange.new {
                    New::Same => Change::Keep,
                    New::Nothing => Change::Delete,
                    New::Value(bytes) => Change::Write(vec![Part::Shared(bytes.clone())]),
                });
            }
            let bytes = current.map(read_all).transpose()?;
            // An error instead of `Keep`: after a lost response the store checks whether its own
            // write is the current value.
            let again = redo(&exchange.key, bytes.as_deref())?.ok_or_else(|| conflict(&exchange.key))?;
            matched = true;
            Ok(match again {
                New::Same => Change::Keep,
                New::Nothing => Change::Delete,
                New::Value(bytes) => Change::Write(vec![Part::Shared(bytes)]),
            })
        });
        match made {
            Err(error) if !matched && error.kind == Kind::Conflict => Ok(false),
            made => made.map(|_| true),
        }
    }
}

/// Whether a store below wrappers returns without blocking.
fn is_brief_below(store: &dyn Store) -> bool {
    store.is_brief() || store.inner().is_some_and(is_brief_below)
}

/// Whether the change of a key has a precondition.
fn is_compared(staged: &Staged) -> bool {
    !matches!(staged.new, New::Same) && staged.expected != Expected::Anything
}

/// The error of a key that others have changed.
fn conflict(key: &str) -> Error {
    Error::new(Kind::Conflict, format!("{key:?} is not what was expected"))
}

/// The change of a key.
fn exchange((key, staged): (&String, &Staged)) -> Exchange {
    Exchange { key: key.clone(), expected: staged.expected.clone(), new: staged.new.clone() }
}
