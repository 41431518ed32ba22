//! Staged changes of a transaction, over another store.
//!
//! Readers of the staged store see its changes; readers of the inner store do not. A commit
//! compares every value that a change was decided on before it applies the change.

mod commit;
mod whole_value;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

use super::exchange::{Expected, New};
use super::key_locks::KeyLocks;
use super::memory::take_or_join;
use super::{folder_of, fork, through, Unversioned, ATTEMPTS, REPLACED};
use super::{AtPath, Change, KeyRange, Listing, Made, Need, Object, SharedStore, Store, Updater, Want};
use crate::error::{Error, Kind, Result};

use self::whole_value::WholeObject;
use super::change::Known;

pub use self::commit::{Outcome, Redo};

/// Stages changes of another store.
#[derive(Debug)]
pub struct StagedStore {
    inner: Arc<dyn Store>,
    stage: Arc<Mutex<Stage>>,
    changing: Arc<KeyLocks>,
    /// Whether a commit compares keys that were only read, too.
    repeatable: bool,
}

#[derive(Debug, Default)]
struct Stage {
    keys: BTreeMap<String, Staged>,
    /// Deletions, which happened before the writes in `keys`.
    deleted: Vec<Deleted>,
    /// The number of deletions so far.
    deletions: u64,
    /// Later changes are refused.
    closed: bool,
    /// The outcome of a commit.
    outcome: Option<Outcome>,
}

/// The keys that begin with a text and are in a range.
#[derive(Debug)]
struct Deleted {
    start: String,
    first: Vec<u8>,
    end: Vec<u8>,
}

impl Deleted {
    fn range(&self) -> KeyRange<'_> {
        KeyRange { first: &self.first, end: &self.end }
    }

    fn has(&self, key: &str) -> bool {
        key.starts_with(&self.start) && self.range().holds(key)
    }

    fn has_all(&self, other: &Deleted) -> bool {
        let ends_later = self.end.is_empty() || !other.end.is_empty() && other.end <= self.end;
        other.start.starts_with(&self.start) && self.first <= other.first && ends_later
    }
}

#[derive(Clone, Debug)]
struct Staged {
    expected: Expected,
    /// The precondition is required by the user: it must hold whatever else happens to the key.
    asked: bool,
    new: New,
}

/// The state of a key in the staged store.
struct Current {
    object: Option<Box<dyn Object>>,
    /// Its state in the inner store, if that was read.
    found: Option<Expected>,
    /// The number of deletions before.
    deletions: u64,
}

/// Whether a deletion covers `key`.
fn hides(deleted: &[Deleted], key: &str) -> bool {
    deleted.iter().any(|deleted| deleted.has(key))
}

impl Stage {
    fn check_open(&self) -> Result<()> {
        match self.closed {
            false => Ok(()),
            true => Err(Error::new(Kind::Argument, "the transaction is over")),
        }
    }

    /// Whether a deletion hides the value of `key` in the inner store.
    fn hides(&self, key: &str) -> bool {
        hides(&self.deleted, key)
    }

    /// Drop the change of a key that is deleted with others. The precondition remains if it is
    /// required, or if reads must repeat.
    fn forget(&mut self, key: &str, repeatable: bool) -> Option<New> {
        let stays = |it: &Staged| it.asked || (repeatable && it.expected != Expected::Anything);
        let staged = self.keys.get_mut(key).filter(|it| stays(it));
        match staged {
            Some(staged) => Some(std::mem::replace(&mut staged.new, New::Nothing)),
            None => self.keys.remove(key).map(|staged| staged.new),
        }
    }

    /// Keys with a required precondition.
    fn asked(&self) -> BTreeSet<String> {
        self.keys.iter().filter(|(_, it)| it.asked).map(|(key, _)| key.clone()).collect()
    }

    fn below<'s>(&'s self, prefix: &'s str) -> impl Iterator<Item = (&'s String, &'s Staged)> {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        self.keys.range::<str, _>(from).take_while(move |(key, _)| key.starts_with(prefix))
    }
}

impl StagedStore {
    /// Stage changes of `inner`.
    pub fn new(inner: Arc<dyn Store>, repeatable: bool) -> Self {
        fork::register();
        StagedStore { inner, stage: Arc::default(), changing: Arc::new(KeyLocks::new()), repeatable }
    }

    /// The same staged changes on top of a wrapper of the inner store.
    pub fn over(&self, inner: Arc<dyn Store>) -> Self {
        let (stage, changing) = (self.stage.clone(), self.changing.clone());
        StagedStore { inner, stage, changing, repeatable: self.repeatable }
    }

    /// Identifies the set of staged changes, as long as one of its stores lives.
    pub fn number(&self) -> usize {
        Arc::as_ptr(&self.stage) as usize
    }

    fn with<T>(&self, work: impl FnOnce(&mut Stage) -> T) -> T {
        let _gate = fork::gate();
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut stage)
    }

    /// The number of staged changes.
    pub fn changes(&self) -> usize {
        self.with(|stage| {
            let written = stage.keys.values().filter(|staged| !matches!(staged.new, New::Same)).count();
            written + stage.deleted.len()
        })
    }

    /// Whether a change of `key` is staged.
    pub fn replaces(&self, key: &str) -> bool {
        self.with(|stage| match stage.keys.get(key) {
            Some(Staged { new: New::Value(_) | New::Nothing, .. }) => true,
            _ => stage.hides(key),
        })
    }

    /// Whether the staged value of `key` does not depend on what others store before the commit.
    pub fn overwrites(&self, key: &str) -> bool {
        self.with(|stage| match stage.keys.get(key) {
            Some(Staged { new: New::Same, .. }) | None => stage.hides(key),
            Some(staged) => staged.asked || staged.expected == Expected::Anything,
        })
    }

    /// Whether at most one key changes, to a value of at most `limit` bytes.
    pub fn is_small(&self, most: usize) -> bool {
        self.with(|stage| {
            let small = |staged: &Staged| !matches!(&staged.new, New::Value(bytes) if bytes.len() > most);
            stage.deleted.is_empty() && stage.keys.len() <= 1 && stage.keys.values().all(small)
        })
    }

    /// Stage a change with the precondition that the inner store holds `seen`. False, without
    /// effect: the key was changed here, or read in another state.
    pub fn assume(&self, key: &str, seen: Expected, new: New) -> Result<bool> {
        let _held = self.changing.hold(key)?;
        self.assume_held(key, seen, new)
    }

    fn assume_held(&self, key: &str, seen: Expected, new: New) -> Result<bool> {
        self.keys().check(key)?;
        if !matches!(new, New::Same) {
            self.check_writable(key)?;
        }
        let fits = |it: &Staged| matches!(it.new, New::Same) && it.expected == seen;
        let untouched = |stage: &Stage| stage.keys.get(key).is_none_or(fits) && !stage.hides(key);
        let Some(deletions) = self.with(|stage| untouched(stage).then_some(stage.deletions)) else {
            return Ok(false);
        };
        self.stage(key, Some(seen), new, Some(deletions))
    }

    /// Stage the required precondition that the inner store holds `expected`. False, without
    /// effect, as for [`Self::stage_if`].
    pub fn expect(&self, key: &str, asked: Expected) -> Result<bool> {
        let _held = self.changing.hold(key)?;
        let done = self.assume_held(key, asked, New::Same)?;
        if done {
            self.ask(key);
        }
        Ok(done)
    }

    /// Stage the precondition that a key which is only read holds `seen`, or a value that `Redo`
    /// accepts. False, without effect: the key was changed here, or read in another state.
    pub fn rely(&self, key: &str, seen: Expected) -> Result<bool> {
        self.assume(key, seen, New::Same)
    }

    fn check_writable(&self, key: &str) -> Result<()> {
        match self.inner.read_only() {
            true => Err(crate::store::wrappers::read_only::refusal().at_key(key)),
            false => Ok(()),
        }
    }

    /// The current state of a key; `whole`: the caller reads all of it.
    fn current(&self, key: &str, want: Want, whole: bool) -> Result<Current> {
        for _ in 1..ATTEMPTS {
            match self.current_now(key, want, whole) {
                Err(error) if error.code == Some(REPLACED) => {} // the value was replaced during the comparison
                found => return found,
            }
        }
        self.current_now(key, want, whole)
    }

    fn current_now(&self, key: &str, want: Want, whole: bool) -> Result<Current> {
        let (staged, hidden, deletions) =
            self.with(|stage| (stage.keys.get(key).cloned(), stage.hides(key), stage.deletions));
        let here = |object| Ok(Current { object, found: None, deletions });
        match staged {
            Some(Staged { new: New::Value(bytes), .. }) => return here(Some(Box::new(Unversioned(bytes)))),
            Some(Staged { new: New::Nothing, .. }) => return here(None),
            _ if hidden => return here(None),
            _ => {}
        }
        let object = self.inner.open(key, want)?;
        let object = if whole { object.map(WholeObject::of) } else { object };
        // A file that was too recent to have a version may have one now: it is the same value.
        let found = match staged.map(|staged| staged.expected) {
            Some(before) if before != Expected::Anything && before.matches(object.as_deref())? => before,
            _ => Expected::of(object.as_deref())?,
        };
        Ok(Current { object, found: Some(found), deletions })
    }

    /// Stage a change of a key, and its state in the inner store when it was first read. False,
    /// without effect: a deletion followed `deletions`, so that the key may differ.
    ///
    /// With repeatable reads, a state that differs from the first one raises an error.
    fn stage(&self, key: &str, found: Option<Expected>, new: New, deletions: Option<u64>) -> Result<bool> {
        self.with(|stage| {
            // Checked under the lock: a commit may begin at any time.
            stage.check_open()?;
            if deletions.is_some_and(|deletions| deletions != stage.deletions) {
                return Ok(false);
            }
            match stage.keys.get_mut(key) {
                Some(staged) => {
                    let differs = |now: &Expected| *now != staged.expected;
                    if self.repeatable
                        && staged.expected != Expected::Anything
                        && found.as_ref().is_some_and(differs)
                    {
                        let why = "Generation mismatch: others changed it after this transaction had read it";
                        return Err(Error::new(Kind::Conflict, why).at_key(key));
                    }
                    if let (Expected::Anything, Some(found)) = (&staged.expected, found) {
                        // After a blind write, later reads need no precondition.
                        if matches!(staged.new, New::Same) {
                            staged.expected = found;
                        }
                    }
                    let blind = deletions.is_none();
                    if blind && !staged.asked && !self.repeatable {
                        staged.expected = Expected::Anything; // the new value does not depend on the old one
                    }
                    if !matches!(new, New::Same) {
                        staged.new = new;
                    }
                }
                None => {
                    let expected = found.unwrap_or(Expected::Anything);
                    stage.keys.insert(key.to_owned(), Staged { expected, asked: false, new });
                }
            }
            Ok(true)
        })
    }

    /// Make the precondition of a key required, even if the key is deleted with others.
    pub fn ask(&self, key: &str) {
        self.with(|stage| {
            if let Some(staged) = stage.keys.get_mut(key) {
                staged.asked = staged.expected != Expected::Anything;
            }
        });
    }

    /// A key whose required precondition does not hold in the inner store.
    pub fn unmet(&self) -> Result<Option<String>> {
        let asked =
            |(key, staged): (&String, &Staged)| staged.asked.then(|| (key.clone(), staged.expected.clone()));
        let conditions: Vec<_> = self.with(|stage| stage.keys.iter().filter_map(asked).collect());
        for (key, expected) in conditions {
            if !expected.matches(self.inner.open(&key, Want::Nothing)?.as_deref())? {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// Discard all changes; later changes are refused.
    pub fn abort(&self) {
        let old = self.with(|stage| std::mem::replace(stage, Stage { closed: true, ..Stage::default() }));
        drop(old);
    }
}

impl Store for StagedStore {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&*self.inner)
    }

    fn through(&self, below: &Arc<dyn Store>, shared: &Arc<SharedStore>) -> Option<Arc<dyn Store>> {
        Some(Arc::new(self.over(through(&self.inner, below, shared)?)))
    }

    fn open(&self, key: &str, want: Want) -> Result<Option<Box<dyn Object>>> {
        self.keys().check(key)?;
        if !self.repeatable {
            let staged = self.with(|stage| {
                let found = stage.keys.get(key).filter(|staged| !matches!(staged.new, New::Same)).cloned();
                (found.is_none() && !stage.hides(key)).then_some(()).ok_or(found)
            });
            return match staged {
                Ok(()) => self.inner.open(key, want),
                Err(Some(Staged { new: New::Value(bytes), .. })) => Ok(Some(Box::new(Unversioned(bytes)))),
                Err(_) => Ok(None),
            };
        }
        loop {
            let Current { object, found, deletions } = self.current(key, want, false)?;
            if found.is_none() || self.stage(key, found, New::Same, Some(deletions))? {
                return Ok(object);
            }
        }
    }

    fn update<'a>(&self, key: &str, need: Need, updater: &mut Updater<'_, 'a>) -> Result<Made<'a>> {
        self.keys().check(key)?;
        self.check_writable(key)?;
        let _held = self.changing.hold(key)?;
        loop {
            let (object, found, deletions) = match need.current {
                true => {
                    let want = if need.known == Known::Nothing { Want::Whole } else { Want::Ranges };
                    let Current { object, found, deletions } = self.current(key, want, true)?;
                    (object, found, Some(deletions))
                }
                false => (None, None, None),
            };
            let current = object.as_deref();
            let mut change = updater(current)?;
            let new = match &mut change {
                Change::Keep => New::Same,
                Change::Delete => New::Nothing,
                Change::Write(parts) => New::Value(take_or_join(parts, current)?),
            };
            let changes_nothing = found.is_none() && matches!(new, New::Same);
            // A deletion of many keys locks none of them.
            if changes_nothing || self.stage(key, found, new, deletions)? {
                return Ok(change.into());
            }
        }
    }

    fn at_path(&self, _key: &str) -> Result<Option<AtPath>> {
        Ok(None)
    }

    fn first_entries(&self, _prefix: &str, _limit: usize) -> Result<Option<Listing>> {
        Ok(None)
    }

    fn hold(&self, key: &str, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.keys().check(key)?;
        self.with(|stage| stage.check_open())?;
        let _held = self.changing.hold(key)?;
        work()
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.keys().check_prefix(prefix)?;
        let mut keys = self.inner.list(prefix)?;
        self.with(|stage| {
            let untouched = |key: &str| stage.keys.get(key).is_none_or(|it| matches!(it.new, New::Same));
            keys.retain(|key| untouched(key) && !stage.hides(key));
            let written = stage.below(prefix).filter(|(_, staged)| matches!(staged.new, New::Value(_)));
            keys.extend(written.map(|(key, _)| key.clone()));
        });
        keys.sort_unstable();
        Ok(keys)
    }

    fn list_dir(&self, prefix: &str) -> Result<Listing> {
        self.keys().check_prefix(prefix)?;
        let touched = self.with(|stage| {
            let deleted = |it: &Deleted| it.start.starts_with(prefix) || prefix.starts_with(&it.start);
            stage.below(prefix).any(|(_, staged)| !matches!(staged.new, New::Same))
                || stage.deleted.iter().any(deleted)
        });
        match touched {
            false => self.inner.list_dir(prefix),
            true => Ok(Listing::of(self.list(prefix)?.iter().map(String::as_str), prefix)),
        }
    }

    fn deletes_at_once(&self, _: &str) -> bool {
        true // nothing changes before the commit
    }

    fn replaces_at_once(&self, _: &str) -> bool {
        false
    }

    fn replace_prefix(&self, _: &str, _: &str) -> Result<bool> {
        Ok(false)
    }

    fn delete_prefix(&self, prefix: &str) -> Result<()> {
        self.keys().check_prefix(prefix)?;
        self.delete_range(prefix, KeyRange { first: b"", end: b"" })
    }

    /// The commit deletes the prefix, and the link with it, before any single key.
    fn remove_link(&self, prefix: &str) -> Result<bool> {
        self.keys().check_prefix(prefix)?;
        Ok(false)
    }

    fn delete_range(&self, start: &str, range: KeyRange<'_>) -> Result<()> {
        self.keys().check_prefix(folder_of(start))?;
        if self.inner.read_only() {
            return Err(crate::store::wrappers::read_only::refusal());
        }
        if range.is_empty() {
            return Ok(());
        }
        let deleted = Deleted { start: start.into(), first: range.first.into(), end: range.end.into() };
        let old = self.with(|stage| {
            stage.check_open()?;
            let below = stage.below(start).map(|(key, _)| key).filter(|key| deleted.has(key));
            let gone: Vec<String> = below.cloned().collect();
            stage.deletions += 1;
            if !stage.deleted.iter().any(|before| before.has_all(&deleted)) {
                stage.deleted.push(deleted);
            }
            Ok(gone.iter().filter_map(|key| stage.forget(key, self.repeatable)).collect::<Vec<_>>())
        });
        old.map(drop)
    }
}
