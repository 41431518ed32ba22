//! Changes that were kept aside are made.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use super::{hides, Stage, Staged, StagedStore};
use crate::error::{Error, Kind, Result};
use crate::pool;
use crate::store::exchange::{Exchange, Expected, New};
use crate::store::{read_all, Change, Need, Part, Store, Want};

/// What a change makes of the value that others have given a key meanwhile; None: it cannot be
/// made of any other than the one that it was decided on.
pub type Redo<'r> = &'r (dyn Fn(&str, Option<&[u8]>) -> Result<Option<New>> + Sync);

/// How a commit ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything is done.
    Done,
    /// This key is not what was expected.
    Conflict(String),
    /// So many keys cannot be changed at once.
    NotAtomic(usize),
}

/// What became of changes that the store below did not make, as something was not what was expected.
enum Again {
    /// Some were decided again.
    Decided,
    /// All is as expected by now.
    Same,
    /// This one cannot be decided again.
    Cannot(String),
}

/// How often in a row a store may deny changes while all is as expected: others may change a value,
/// and change it back, between.
const DENIED: usize = 8;

impl StagedStore {
    /// Makes the changes in the store below; later ones are refused.
    ///
    /// With `atomic`, and where that takes no longer, all at once or none. Otherwise what was only
    /// read is compared first, and then each key by itself when it is changed, so that a conflict
    /// may leave others changed. Before something is a conflict, `redo` is asked.
    /// Called again it tells how it ended, for those who were interrupted before they could see it;
    /// after an error it makes those changes that were not made.
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
            true => Ok(None), // whatever else was made of it here
            false => redo(key, current),
        };
        let done = self.change(&mut stage, atomic, redo);
        self.with(|left| match &done {
            Ok(outcome) => left.outcome = Some(outcome.clone()),
            Err(_) => *left = Stage { closed: true, ..stage },
        });
        done
    }

    /// Makes changes in the store below. What is made leaves the stage.
    fn change(&self, stage: &mut Stage, atomic: bool, redo: Redo<'_>) -> Result<Outcome> {
        let changing = stage.keys.values().filter(|staged| !matches!(staged.new, New::Same)).count();
        // Of what reads need not repeat of, it is enough that it is as expected before anything is changed.
        let changes = self.repeatable || changing > 0 || !stage.deleted.is_empty();
        let is_one = !self.repeatable && changing == 1 && stage.deleted.is_empty();
        if changes && (atomic || is_brief_below(&*self.inner)) {
            match self.change_at_once(stage, redo)? {
                Outcome::NotAtomic(_) if !atomic || is_one => {}
                outcome => return Ok(outcome),
            }
        }
        // A change of one key is compared when it is made; of several, none is made where a read does not repeat:
        // the others are compared before the first is made.
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

    /// A key that is not as expected, of those that are compared before `first` is changed.
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

    /// All that is to change, and what that is expected to be.
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

    /// Makes changes of keys, each by itself.
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

    /// Makes all changes at once.
    fn change_at_once(&self, stage: &mut Stage, redo: Redo<'_>) -> Result<Outcome> {
        let mut denied = 0;
        loop {
            let exchanges = self.all_exchanges(stage)?;
            let done = match &*exchanges {
                [] => Some(true),
                // Whole folders are removed as such: a symbolic link itself, not a key that it leads to.
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

    /// Makes all deletions of prefixes, which hide one key; false: the key is not as expected.
    fn delete_hidden(&self, stage: &Stage, one: &Exchange) -> Result<bool> {
        if !self.is_expected(&one.key, &one.expected)? {
            return Ok(false);
        }
        for deleted in &stage.deleted {
            self.inner.delete_range_before(&deleted.start, deleted.range(), &|_| false)?;
        }
        Ok(true)
    }

    /// Decides changes of keys again that are not what was expected.
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

    /// What others have given a key, and what it is to be then; None: that cannot be told.
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

    /// Makes a change of one key; false: it is not what was expected.
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
            // As an error, and not as something to keep: where an answer was lost, it is looked whether
            // what is there now was made here.
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

/// Whether nobody is waited for, behind whatever else is asked first.
fn is_brief_below(store: &dyn Store) -> bool {
    store.is_brief() || store.inner().is_some_and(is_brief_below)
}

/// Whether a change is made if the key is as expected, and only then.
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
