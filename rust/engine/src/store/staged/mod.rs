//! Staged changes of a transaction, over another store.
//!
//! Readers of the staged store see its changes; readers of the inner store do not. A commit
//! compares every value that a change was decided on before it applies the change.

mod commit;
mod whole_value;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

use super::exchange::{Expected, NewValue};
use super::key_locks::KeyLocks;
use super::memory::into_shared_bytes;
use super::{
    folder_of, fork, Change, Depth, KeyRange, Listing, LocalStore, PrefixChange, ReadHint, ReplaceStore,
    Store, Unversioned, UpdateOptions, UpdateOutcome, Updater, ValueReader, ATTEMPTS, REPLACED,
};
use crate::error::{Error, Kind, Result};

use self::whole_value::WholeValueReader;
use super::change::Precondition;

pub use self::commit::{CommitOutcome, Redo};

/// Stages changes of another store.
#[derive(Debug)]
pub struct StagedStore {
    inner: Arc<dyn Store>,
    stage: Arc<Mutex<StagedChanges>>,
    key_locks: Arc<KeyLocks>,
    /// Whether a commit compares keys that were only read, too.
    repeatable: bool,
}

#[derive(Debug, Default)]
struct StagedChanges {
    keys: BTreeMap<String, StagedKey>,
    /// Deletions, which happened before the writes in `keys`.
    deleted: Vec<DeletedRange>,
    /// The number of deletions so far.
    deletions: u64,
    /// Later changes are rejected.
    closed: bool,
    /// The outcome of a commit.
    outcome: Option<CommitOutcome>,
}

/// The keys that begin with a text and are in a range.
#[derive(Debug)]
struct DeletedRange {
    start: String,
    first: Vec<u8>,
    end: Vec<u8>,
}

impl DeletedRange {
    fn range(&self) -> KeyRange<'_> {
        KeyRange { first: &self.first, end: &self.end }
    }

    fn contains(&self, key: &str) -> bool {
        key.starts_with(&self.start) && self.range().holds(key)
    }

    /// Return whether the range contains every key that begins with the text.
    fn is_whole(&self) -> bool {
        let (first, end, start) = (&*self.first, &*self.end, self.start.as_bytes());
        first <= start && (end.is_empty() || (end > start && !end.starts_with(start)))
    }

    fn contains_range(&self, other: &DeletedRange) -> bool {
        let ends_later = self.end.is_empty() || !other.end.is_empty() && other.end <= self.end;
        other.start.starts_with(&self.start) && self.first <= other.first && ends_later
    }
}

/// What a commit changes.
#[derive(Debug, Default)]
pub struct StagedRegions {
    /// The folders of keys that are written or deleted one by one.
    pub folders: BTreeSet<String>,
    /// The texts with which keys begin, of which a range is deleted.
    pub ranges: Vec<String>,
    /// The prefixes under which every key is deleted, before other keys are written.
    pub deleted: Vec<String>,
}

#[derive(Clone, Debug)]
struct StagedKey {
    expected: Expected,
    /// The precondition is required by the user: it must hold whatever else happens to the key.
    required: bool,
    new: NewValue,
}

/// The state of a key in the staged store.
struct CurrentState {
    object: Option<Box<dyn ValueReader>>,
    /// Its state in the inner store, if that was read.
    stored: Option<Expected>,
    /// The number of deletions before.
    deletions: u64,
}

/// Return whether a deletion covers `key`.
fn covers(deleted: &[DeletedRange], key: &str) -> bool {
    deleted.iter().any(|deleted| deleted.contains(key))
}

impl StagedChanges {
    fn check_open(&self) -> Result<()> {
        match self.closed {
            false => Ok(()),
            true => Err(Error::new(Kind::Argument, "the transaction is over")),
        }
    }

    /// Return whether a deletion hides the value of `key` in the inner store.
    fn covers(&self, key: &str) -> bool {
        covers(&self.deleted, key)
    }

    /// Drop the change of a key that is deleted with others. The precondition remains if it is
    /// required, or if reads must repeat.
    fn unstage(&mut self, key: &str, repeatable: bool) -> Option<NewValue> {
        let is_kept =
            |entry: &StagedKey| entry.required || (repeatable && entry.expected != Expected::Anything);
        let staged = self.keys.get_mut(key).filter(|entry| is_kept(entry));
        match staged {
            Some(staged) => Some(std::mem::replace(&mut staged.new, NewValue::Absent)),
            None => self.keys.remove(key).map(|staged| staged.new),
        }
    }

    /// Keys with a required precondition.
    fn required(&self) -> BTreeSet<String> {
        self.keys.iter().filter(|(_, entry)| entry.required).map(|(key, _)| key.clone()).collect()
    }

    fn keys_below<'s>(&'s self, prefix: &'s str) -> impl Iterator<Item = (&'s String, &'s StagedKey)> {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        self.keys.range::<str, _>(from).take_while(move |(key, _)| key.starts_with(prefix))
    }
}

impl StagedStore {
    /// Staged changes of `inner`.
    pub fn new(inner: Arc<dyn Store>, repeatable: bool) -> Self {
        fork::register();
        StagedStore { inner, stage: Arc::default(), key_locks: Arc::new(KeyLocks::new()), repeatable }
    }

    /// Return the same staged changes on top of a wrapper of the inner store.
    pub fn on(&self, inner: Arc<dyn Store>) -> Self {
        let (stage, key_locks) = (self.stage.clone(), self.key_locks.clone());
        StagedStore { inner, stage, key_locks, repeatable: self.repeatable }
    }

    /// Identifies the set of staged changes, as long as one of its stores lives.
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.stage) as usize
    }

    fn with<T>(&self, work: impl FnOnce(&mut StagedChanges) -> T) -> T {
        let _gate = fork::gate();
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut stage)
    }

    /// Return the number of staged changes.
    pub fn changes(&self) -> usize {
        self.with(|stage| {
            let written =
                stage.keys.values().filter(|staged| !matches!(staged.new, NewValue::Unchanged)).count();
            written + stage.deleted.len()
        })
    }

    /// Return what a commit changes. Keys under deleted prefixes are not listed.
    pub fn regions(&self) -> StagedRegions {
        self.with(|stage| {
            let mut regions = StagedRegions::default();
            for range in &stage.deleted {
                let starts = if range.is_whole() { &mut regions.deleted } else { &mut regions.ranges };
                starts.push(range.start.clone());
            }
            for (key, staged) in &stage.keys {
                let is_deleted = regions.deleted.iter().any(|prefix| key.starts_with(prefix));
                if !matches!(staged.new, NewValue::Unchanged) && !is_deleted {
                    regions.folders.insert(folder_of(key).to_owned());
                }
            }
            regions
        })
    }

    /// Return whether a commit deletes every key under `prefix` before it writes others.
    pub fn deletes_below(&self, prefix: &str) -> bool {
        self.with(|stage| {
            stage.deleted.iter().any(|range| range.is_whole() && prefix.starts_with(&range.start))
        })
    }

    /// Return whether a change of `key` is staged.
    pub fn replaces(&self, key: &str) -> bool {
        self.with(|stage| match stage.keys.get(key) {
            Some(StagedKey { new: NewValue::Value(_) | NewValue::Absent, .. }) => true,
            _ => stage.covers(key),
        })
    }

    /// Return whether the staged value of `key` is independent of other writes before the commit.
    pub fn overwrites(&self, key: &str) -> bool {
        self.with(|stage| match stage.keys.get(key) {
            Some(StagedKey { new: NewValue::Unchanged, .. }) | None => stage.covers(key),
            Some(staged) => staged.required || staged.expected == Expected::Anything,
        })
    }

    /// Return whether at most one key changes, to a value of at most `limit` bytes.
    pub fn is_small(&self, limit: usize) -> bool {
        self.with(|stage| {
            let small =
                |staged: &StagedKey| !matches!(&staged.new, NewValue::Value(bytes) if bytes.len() > limit);
            stage.deleted.is_empty() && stage.keys.len() <= 1 && stage.keys.values().all(small)
        })
    }

    /// Stage a change with the precondition that the inner store holds `stored`. False, without
    /// effect: the key was changed here, or read in another state.
    pub fn stage_if(&self, key: &str, stored: Expected, new: NewValue) -> Result<bool> {
        let _guard = self.key_locks.lock(key)?;
        self.stage_if_locked(key, stored, new)
    }

    fn stage_if_locked(&self, key: &str, stored: Expected, new: NewValue) -> Result<bool> {
        self.keys().check(key)?;
        if !matches!(new, NewValue::Unchanged) {
            self.check_writable(key)?;
        }
        let is_unchanged =
            |entry: &StagedKey| matches!(entry.new, NewValue::Unchanged) && entry.expected == stored;
        let is_unchanged_here =
            |stage: &StagedChanges| stage.keys.get(key).is_none_or(is_unchanged) && !stage.covers(key);
        let Some(deletions) = self.with(|stage| is_unchanged_here(stage).then_some(stage.deletions)) else {
            return Ok(false);
        };
        self.stage_change(key, Some(stored), new, Some(deletions))
    }

    /// Stage the required precondition that the inner store holds `expected`. False, without
    /// effect, as for [`Self::stage_if`].
    pub fn stage_precondition(&self, key: &str, required: Expected) -> Result<bool> {
        let _guard = self.key_locks.lock(key)?;
        let is_staged = self.stage_if_locked(key, required, NewValue::Unchanged)?;
        if is_staged {
            self.require_precondition(key);
        }
        Ok(is_staged)
    }

    /// Stage the precondition that a key which is only read holds `stored`, or a value that `Redo`
    /// accepts. False, without effect: the key was changed here, or read in another state.
    pub fn stage_read(&self, key: &str, stored: Expected) -> Result<bool> {
        self.stage_if(key, stored, NewValue::Unchanged)
    }

    fn check_writable(&self, key: &str) -> Result<()> {
        match self.inner.read_only() {
            true => Err(crate::store::wrappers::read_only::refusal().at_key(key)),
            false => Ok(()),
        }
    }

    /// Return the current state of a key; `reads_whole`: the caller reads all of it.
    fn current_state(&self, key: &str, hint: ReadHint, reads_whole: bool) -> Result<CurrentState> {
        for _ in 1..ATTEMPTS {
            match self.read_current_state(key, hint, reads_whole) {
                // The value was replaced during the comparison.
                Err(error) if error.code == Some(REPLACED) => {}
                stored => return stored,
            }
        }
        self.read_current_state(key, hint, reads_whole)
    }

    fn read_current_state(&self, key: &str, hint: ReadHint, reads_whole: bool) -> Result<CurrentState> {
        let (staged, hidden, deletions) =
            self.with(|stage| (stage.keys.get(key).cloned(), stage.covers(key), stage.deletions));
        let without_stored = |object| Ok(CurrentState { object, stored: None, deletions });
        match staged {
            Some(StagedKey { new: NewValue::Value(bytes), .. }) => {
                return without_stored(Some(Box::new(Unversioned(bytes))))
            }
            Some(StagedKey { new: NewValue::Absent, .. }) => return without_stored(None),
            _ if hidden => return without_stored(None),
            _ => {}
        }
        let object = self.inner.open(key, hint)?;
        let object = if reads_whole { object.map(WholeValueReader::of) } else { object };
        // A file that was too recent to have a version may have one now: it is the same value.
        let stored = match staged.map(|staged| staged.expected) {
            Some(earlier) if earlier != Expected::Anything && earlier.matches(object.as_deref())? => earlier,
            _ => Expected::of(object.as_deref())?,
        };
        Ok(CurrentState { object, stored: Some(stored), deletions })
    }

    /// Stage a change of a key, and its state in the inner store when it was first read. False,
    /// without effect: a deletion followed `deletions`, so that the key may differ.
    ///
    /// With repeatable reads, a state that differs from the first one raises an error.
    fn stage_change(
        &self,
        key: &str,
        stored: Option<Expected>,
        new: NewValue,
        deletions: Option<u64>,
    ) -> Result<bool> {
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
                        && stored.as_ref().is_some_and(differs)
                    {
                        let why =
                            "Generation mismatch: another writer changed it after this transaction read it";
                        return Err(Error::new(Kind::Conflict, why).at_key(key));
                    }
                    if let (Expected::Anything, Some(stored)) = (&staged.expected, stored) {
                        // After a blind write, later reads need no precondition.
                        if matches!(staged.new, NewValue::Unchanged) {
                            staged.expected = stored;
                        }
                    }
                    let is_unconditional = deletions.is_none();
                    if is_unconditional && !staged.required && !self.repeatable {
                        // The new value does not depend on the old one.
                        staged.expected = Expected::Anything;
                    }
                    if !matches!(new, NewValue::Unchanged) {
                        staged.new = new;
                    }
                }
                None => {
                    let expected = stored.unwrap_or(Expected::Anything);
                    stage.keys.insert(key.to_owned(), StagedKey { expected, required: false, new });
                }
            }
            Ok(true)
        })
    }

    /// Make the precondition of a key required, even if the key is deleted with others.
    pub fn require_precondition(&self, key: &str) {
        self.with(|stage| {
            if let Some(staged) = stage.keys.get_mut(key) {
                staged.required = staged.expected != Expected::Anything;
            }
        });
    }

    /// Return a key whose required precondition does not hold in the inner store.
    pub fn unmet_precondition(&self) -> Result<Option<String>> {
        let required = |(key, staged): (&String, &StagedKey)| {
            staged.required.then(|| (key.clone(), staged.expected.clone()))
        };
        let conditions: Vec<_> = self.with(|stage| stage.keys.iter().filter_map(required).collect());
        for (key, expected) in conditions {
            if !expected.matches(self.inner.open(&key, ReadHint::Revalidate)?.as_deref())? {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// Discard all changes; later changes are rejected.
    pub fn abort(&self) {
        let old = self.with(|stage| {
            std::mem::replace(stage, StagedChanges { closed: true, ..StagedChanges::default() })
        });
        drop(old);
    }
}

impl Store for StagedStore {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&*self.inner)
    }

    fn with_inner(&self, replace: ReplaceStore<'_>) -> Option<Arc<dyn Store>> {
        Some(Arc::new(self.on(replace(&self.inner)?)))
    }

    fn open(&self, key: &str, hint: ReadHint) -> Result<Option<Box<dyn ValueReader>>> {
        self.keys().check(key)?;
        if !self.repeatable {
            let staged = self.with(|stage| {
                let stored =
                    stage.keys.get(key).filter(|staged| !matches!(staged.new, NewValue::Unchanged)).cloned();
                (stored.is_none() && !stage.covers(key)).then_some(()).ok_or(stored)
            });
            return match staged {
                Ok(()) => self.inner.open(key, hint),
                Err(Some(StagedKey { new: NewValue::Value(bytes), .. })) => {
                    Ok(Some(Box::new(Unversioned(bytes))))
                }
                Err(_) => Ok(None),
            };
        }
        loop {
            let CurrentState { object, stored, deletions } = self.current_state(key, hint, false)?;
            if stored.is_none() || self.stage_change(key, stored, NewValue::Unchanged, Some(deletions))? {
                return Ok(object);
            }
        }
    }

    fn update<'a>(
        &self,
        key: &str,
        options: UpdateOptions,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<UpdateOutcome<'a>> {
        self.keys().check(key)?;
        self.check_writable(key)?;
        let _guard = self.key_locks.lock(key)?;
        loop {
            let (object, stored, deletions) = match options.current {
                true => {
                    let hint = if options.precondition == Precondition::Anything {
                        ReadHint::Whole
                    } else {
                        ReadHint::UnknownRanges
                    };
                    let CurrentState { object, stored, deletions } = self.current_state(key, hint, true)?;
                    (object, stored, Some(deletions))
                }
                false => (None, None, None),
            };
            let current_state = object.as_deref();
            let mut change = updater(current_state)?;
            let new = match &mut change {
                Change::Keep => NewValue::Unchanged,
                Change::Delete => NewValue::Absent,
                Change::Write(parts) => NewValue::Value(into_shared_bytes(parts, current_state)?),
            };
            let is_noop = stored.is_none() && matches!(new, NewValue::Unchanged);
            // A deletion of many keys locks none of them.
            if is_noop || self.stage_change(key, stored, new, deletions)? {
                return Ok(change.into());
            }
        }
    }

    fn local(&self, _: &str) -> Option<(&LocalStore, String)> {
        None
    }

    /// The staged changes are not at the location of the inner store.
    fn location(&self, key: &str) -> String {
        format!("{:p}/{key}", std::ptr::from_ref(self).cast::<()>())
    }

    fn hold(&self, key: &str, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.keys().check(key)?;
        self.with(|stage| stage.check_open())?;
        let _guard = self.key_locks.lock(key)?;
        work()
    }

    fn list_keys(&self, prefix: &str, depth: Depth) -> Result<Listing> {
        self.keys().check_prefix(prefix)?;
        let is_changed = self.with(|stage| {
            let deleted =
                |entry: &DeletedRange| entry.start.starts_with(prefix) || prefix.starts_with(&entry.start);
            stage.keys_below(prefix).any(|(_, staged)| !matches!(staged.new, NewValue::Unchanged))
                || stage.deleted.iter().any(deleted)
        });
        if !is_changed {
            return self.inner.list_keys(prefix, depth);
        }
        let mut keys = self.inner.list(prefix)?;
        self.with(|stage| {
            let is_unchanged_here =
                |key: &str| stage.keys.get(key).is_none_or(|entry| matches!(entry.new, NewValue::Unchanged));
            keys.retain(|key| is_unchanged_here(key) && !stage.covers(key));
            let written =
                stage.keys_below(prefix).filter(|(_, staged)| matches!(staged.new, NewValue::Value(_)));
            keys.extend(written.map(|(key, _)| key.clone()));
        });
        keys.sort_unstable();
        Ok(Listing::of(keys, prefix, depth))
    }

    fn changes_atomically(&self, _: &str, change: PrefixChange<'_>) -> bool {
        !matches!(change, PrefixChange::ReplaceBy(_)) // nothing changes before the commit
    }

    /// Stage a deletion. A commit deletes the prefix, and the link with it, before any single key.
    fn change_prefix(&self, prefix: &str, change: PrefixChange<'_>) -> Result<bool> {
        self.keys().check_prefix(prefix)?;
        if matches!(change, PrefixChange::ReplaceBy(_) | PrefixChange::RemoveLink) {
            return Ok(false);
        }
        self.delete_range(prefix, KeyRange { first: b"", end: b"" }, &|_| false).map(|()| true)
    }

    fn delete_range(&self, start: &str, range: KeyRange<'_>, _: &dyn Fn(&str) -> bool) -> Result<()> {
        self.keys().check_prefix(folder_of(start))?;
        if self.inner.read_only() {
            return Err(crate::store::wrappers::read_only::refusal());
        }
        if range.is_empty() {
            return Ok(());
        }
        let deleted = DeletedRange { start: start.into(), first: range.first.into(), end: range.end.into() };
        let old = self.with(|stage| {
            stage.check_open()?;
            let keys_below = stage.keys_below(start).map(|(key, _)| key).filter(|key| deleted.contains(key));
            let deleted_keys: Vec<String> = keys_below.cloned().collect();
            stage.deletions += 1;
            if !stage.deleted.iter().any(|earlier| earlier.contains_range(&deleted)) {
                stage.deleted.push(deleted);
            }
            Ok(deleted_keys.iter().filter_map(|key| stage.unstage(key, self.repeatable)).collect::<Vec<_>>())
        });
        old.map(drop)
    }
}
