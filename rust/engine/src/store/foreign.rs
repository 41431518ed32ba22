//! Adapter that makes a [`Store`] of simple calls, such as those of a Python object.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use super::joined;
use super::key_locks::{Held, KeyLocks};
use super::{
    Ask, Change, Exchange, Keys, Known, Listing, Made, Need, Object, Put, Store, Told, Tried, Updater,
    Version, Want,
};
use crate::error::{Error, Kind, Result};

/// The calls that a foreign store provides. Keys are checked before each call.
pub trait Foreign: Send + Sync + Debug {
    /// Open the value; None if the key is absent.
    fn get(self: &Arc<Self>, key: &str, want: Want) -> Result<Option<Box<dyn Object>>>;

    /// Replace the value; return its version, if known.
    fn put(&self, key: &str, data: &[u8]) -> Result<Option<Version>>;

    /// Remove the key, which may be absent.
    fn delete(&self, key: &str) -> Result<()>;

    /// Replace the value by `data` if it is still `expected` (None: absent), atomically for all
    /// users of the store.
    fn replace(&self, key: &str, data: Option<&[u8]>, expected: Option<&dyn Object>) -> Result<Replaced>;

    /// Whether `replace` compares versions alone.
    fn compares_versions(&self) -> bool {
        false
    }

    /// Every key under `prefix`, in any order.
    fn list(&self, prefix: &str) -> Result<Vec<String>>;

    /// One level below `prefix`. None: not supported.
    fn list_dir(&self, prefix: &str) -> Result<Option<Listing>>;

    /// Remove every key under `prefix`. False: not supported.
    fn delete_prefix(&self, prefix: &str) -> Result<bool>;

    /// See [`Store::deletes_atomically`].
    fn deletes_at_once(&self) -> bool {
        false
    }

    /// See [`Store::replaces_atomically`].
    fn replaces_at_once(&self) -> bool {
        false
    }

    /// See [`Store::replace_prefix`].
    fn replace_prefix(&self, _staged: &str, _prefix: &str) -> Result<bool> {
        Ok(false)
    }

    /// Lock the key against other users of the store until the returned guard is dropped. None: not
    /// supported.
    fn hold(&self, _key: &str) -> Result<Option<Box<dyn Any + Send>>> {
        Ok(None)
    }

    /// See [`Store::is_exclusive`].
    fn is_exclusive(&self) -> bool {
        true
    }

    /// See [`Store::exchange`].
    fn exchange(&self, _changes: &[Exchange]) -> Result<Option<bool>> {
        Ok(None)
    }

    /// See [`Store::concurrency`].
    fn concurrency(&self) -> usize {
        0
    }

    /// See [`Store::async_get`].
    fn asking(self: Arc<Self>) -> Option<Arc<dyn Ask>> {
        None
    }

    /// See [`Store::async_put`].
    fn putting(self: Arc<Self>) -> Option<Arc<dyn Put>> {
        None
    }

    /// See [`Store::check_may_block`].
    fn may_wait(&self) -> Result<()> {
        Ok(())
    }
}

/// The outcome of a conditional replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// The store does not support it.
    Cannot,
    /// The current value is not the expected one; nothing changed.
    Not,
    /// The current value is not the expected one, but an earlier response was lost: the write may
    /// have been applied.
    Lost,
    /// The value is replaced and has this version, if known.
    Done(Option<Version>),
}

/// A value of which only the version is known.
struct Thought(Version);

impl Object for Thought {
    fn size(&self) -> u64 {
        0
    }

    fn version(&self) -> Option<Version> {
        Some(self.0)
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<()> {
        Err(Error::internal("a value was read of which only the version was known"))
    }
}

/// How often an update runs again after conflicts.
const ATTEMPTS: usize = 1000;

/// A [`Foreign`] as a [`Store`].
///
/// Updates of one key exclude each other within the process. They do so between processes if the
/// foreign store has `replace`, and locks do if it has `hold`.
#[derive(Debug)]
pub struct ForeignStore<F> {
    foreign: Arc<F>,
    keys: Keys,
    read_only: bool,
    changing: Arc<KeyLocks>,
}

impl<F: Foreign> ForeignStore<F> {
    /// Adapt `foreign`. Adapters with the same `identity` exclude each other.
    pub fn new(foreign: F, read_only: bool, identity: usize) -> Self {
        let (foreign, changing) = (Arc::new(foreign), KeyLocks::shared(identity));
        ForeignStore { foreign, keys: Keys::Paths, read_only, changing }
    }

    /// Use another key syntax.
    pub fn of(self, keys: Keys) -> Self {
        ForeignStore { keys, ..self }
    }

    /// The adapted store.
    pub fn foreign(&self) -> &F {
        &self.foreign
    }

    fn check_writable(&self) -> Result<()> {
        if self.read_only {
            return Err(super::wrappers::read_only::refusal());
        }
        Ok(())
    }

    /// Apply `change`, if the key still holds `current`.
    fn apply(
        &self,
        key: &str,
        change: &Change<'_>,
        current: Option<Option<&dyn Object>>,
    ) -> Result<Replaced> {
        let single;
        let data = match change {
            Change::Keep => return Ok(Replaced::Done(None)),
            Change::Delete => None,
            Change::Write(parts) => Some(match &parts[..] {
                [super::Part::Owned(bytes)] => &bytes[..],
                [super::Part::Borrowed(bytes)] => bytes,
                [super::Part::Shared(bytes)] => &bytes[..],
                _ => {
                    single = joined(parts, current.flatten())?;
                    &single[..]
                }
            }),
        };
        if let Some(current) = current {
            match self.foreign.replace(key, data, current)? {
                Replaced::Cannot => {}
                done => return Ok(done),
            }
        }
        Ok(Replaced::Done(match data {
            Some(data) => self.foreign.put(key, data)?,
            None => self.foreign.delete(key).map(|()| None)?,
        }))
    }

    /// Update by comparing versions alone. None: the precondition does not hold, nothing would
    /// change, or a response was lost, which `ambiguous` records.
    fn update_known<'a>(
        &self,
        key: &str,
        need: Need,
        lost: &mut Tried,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<Option<Made<'a>>> {
        let thought = match need.known {
            Known::Version(version) if self.foreign.compares_versions() => Some(Thought(version)),
            Known::Absent if self.foreign.compares_versions() => None,
            _ => return Ok(None),
        };
        let current = thought.as_ref().map(|thought| thought as &dyn Object);
        let change = match updater(current) {
            Ok(Change::Keep) => return Ok(None),
            // The error may result from the expected version, which may be outdated.
            Err(error) if !error.ends_wait() => return Ok(None),
            decided => decided?,
        };
        Ok(match self.apply(key, &change, Some(current))? {
            Replaced::Done(version) => Some(Made { change, version }),
            Replaced::Not if need.only => Some(Change::Keep.into()),
            Replaced::Not | Replaced::Cannot => None,
            Replaced::Lost => {
                *lost = Tried::of(&change, need.only)?;
                None
            }
        })
    }

    fn update_held<'a>(&self, key: &str, need: Need, updater: &mut Updater<'_, 'a>) -> Result<Made<'a>> {
        let mut lost = Tried::Nothing;
        let made = self.update_again(key, need, &mut lost, updater);
        made.map_err(|error| if lost == Tried::Nothing { error } else { error.after_lost() })
    }

    /// Update until it succeeds or fails; `ambiguous` records a write whose response was lost.
    fn update_again<'a>(
        &self,
        key: &str,
        need: Need,
        lost: &mut Tried,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<Made<'a>> {
        if let Some(made) = self.update_known(key, need, lost, updater)? {
            return Ok(made);
        }
        for _ in 0..ATTEMPTS {
            let opened = self.foreign.get(key, Want::Whole)?;
            let current = opened.as_deref();
            let change = lost.decide(current, need.only, true, updater)?;
            match self.apply(key, &change, Some(current))? {
                Replaced::Done(version) => return Ok(Made { change, version }),
                Replaced::Lost => *lost = Tried::of(&change, need.only)?,
                Replaced::Not | Replaced::Cannot => {}
            }
        }
        let kind = Kind::Store { retryable: true, errno: None };
        Err(Error::new(kind, format!("others changed {key:?} {ATTEMPTS} times while it was being changed")))
    }
}

/// Starts reads of a [`Foreign`].
struct ForeignAsk {
    foreign: Arc<dyn Ask>,
    keys: Keys,
}

impl Ask for ForeignAsk {
    fn ask(&self, key: &str, want: Want, told: Told) {
        if let Err(error) = self.keys.check(key) {
            return told.tell(Err(error));
        }
        let name = key.to_owned();
        let told = told.then(move |told, opened| told.tell(opened.map_err(|error| error.at_key(&name))));
        self.foreign.ask(key, want, told);
    }
}

/// Starts writes of a [`Foreign`].
struct ForeignPut {
    foreign: Arc<dyn Put>,
    keys: Keys,
    changing: Arc<KeyLocks>,
}

impl Put for ForeignPut {
    fn put(&self, key: &str, value: &Arc<Vec<u8>>, told: Told<Option<Version>>) {
        if let Err(error) = self.keys.check(key) {
            return told.tell(Err(error));
        }
        let (foreign, name, value) = (self.foreign.clone(), key.to_owned(), value.clone());
        let wanted = told.wanted();
        let begin = move |held: Result<Held>| match held {
            Ok(held) => {
                let key = name.clone();
                let told = told.then(move |told, done| {
                    drop(held);
                    told.tell(done.map_err(|error| error.at_key(&key)));
                });
                foreign.put(&name, &value, told);
            }
            Err(error) => told.tell(Err(error)),
        };
        self.changing.enter(key, wanted, begin);
    }
}

impl<F: Foreign> Store for ForeignStore<F> {
    fn keys(&self) -> Keys {
        self.keys
    }

    fn open(&self, key: &str, want: Want) -> Result<Option<Box<dyn Object>>> {
        self.keys().check(key)?;
        self.foreign.get(key, want).map_err(|error| error.at_key(key))
    }

    fn update<'a>(&self, key: &str, need: Need, updater: &mut Updater<'_, 'a>) -> Result<Made<'a>> {
        self.keys().check(key)?;
        self.check_writable().map_err(|error| error.at_key(key))?;
        let early = if need.current { None } else { Some(updater(None)?) };
        let _held = self.changing.hold(key)?;
        match early {
            None => self.update_held(key, need, updater),
            Some(change) => self.apply(key, &change, None).map(|done| match done {
                Replaced::Done(version) => Made { change, version },
                Replaced::Not | Replaced::Lost | Replaced::Cannot => change.into(),
            }),
        }
        .map_err(|error| error.at_key(key))
    }

    fn hold(&self, key: &str, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.keys().check(key)?;
        self.check_writable().map_err(|error| error.at_key(key))?;
        let _held = self.changing.hold(key)?;
        let _elsewhere = self.foreign.hold(key).map_err(|error| error.at_key(key))?;
        work()
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.keys().check_prefix(prefix)?;
        let mut keys = self.foreign.list(prefix)?;
        keys.retain(|key| key.starts_with(prefix) && self.keys().has(key));
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    fn list_dir(&self, prefix: &str) -> Result<Listing> {
        self.keys().check_prefix(prefix)?;
        let Some(mut listing) = self.foreign.list_dir(prefix)? else {
            return Ok(Listing::of(self.list(prefix)?.iter().map(String::as_str), prefix));
        };
        let below = |name: &str| {
            name.strip_prefix(prefix).is_some_and(|rest| !rest.contains('/') && self.keys().has(name))
        };
        listing.keys.retain(|key| below(key));
        listing.prefixes.retain(|folder| folder.strip_suffix('/').is_some_and(below));
        for names in [&mut listing.keys, &mut listing.prefixes] {
            names.sort_unstable();
            names.dedup();
        }
        Ok(listing)
    }

    fn delete_prefix(&self, prefix: &str) -> Result<()> {
        self.keys().check_prefix(prefix)?;
        self.check_writable()?;
        if self.foreign.delete_prefix(prefix)? {
            return Ok(());
        }
        for key in self.list(prefix)? {
            let _held = self.changing.hold(&key)?;
            self.foreign.delete(&key).map_err(|error| error.at_key(&key))?;
        }
        Ok(())
    }

    fn deletes_at_once(&self, _: &str) -> bool {
        self.foreign.deletes_at_once()
    }

    fn replaces_at_once(&self, _: &str) -> bool {
        self.foreign.replaces_at_once() && !self.read_only
    }

    fn replace_prefix(&self, staged: &str, prefix: &str) -> Result<bool> {
        self.keys().check_prefix(staged)?;
        self.keys().check_prefix(prefix)?;
        self.check_writable()?;
        self.foreign.replace_prefix(staged, prefix)
    }

    fn exchange(&self, changes: &[Exchange]) -> Result<Option<bool>> {
        self.check_writable()?;
        for change in changes {
            self.keys().check(&change.key)?;
        }
        self.foreign.exchange(changes)
    }

    fn read_only(&self) -> bool {
        self.read_only
    }

    fn is_exclusive(&self) -> bool {
        self.foreign.is_exclusive()
    }

    fn concurrency(&self) -> usize {
        self.foreign.concurrency()
    }

    fn asking(&self) -> Option<Arc<dyn Ask>> {
        Some(Arc::new(ForeignAsk { foreign: self.foreign.clone().asking()?, keys: self.keys }))
    }

    fn putting(&self) -> Option<Arc<dyn Put>> {
        let foreign = self.foreign.clone().putting().filter(|_| !self.read_only)?;
        Some(Arc::new(ForeignPut { foreign, keys: self.keys, changing: self.changing.clone() }))
    }

    fn may_wait(&self) -> Result<()> {
        self.foreign.may_wait()
    }
}
