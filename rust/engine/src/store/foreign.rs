//! Adapter that implements a [`Store`] with simple calls, such as those of a Python object.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use super::joined;
use super::key_locks::{KeyGuard, KeyLocks};
use super::wrappers::split::is_document;
use super::{
    AsyncRequest, AttemptedWrite, Call, Change, Depth, Exchange, KeySyntax, Listing, Precondition,
    PrefixChange, ReadFlags, ReadHint, StartRequest, Store, StoreInfo, UpdateOptions, UpdateOutcome, Updater,
    ValuePart, ValueReader, Version,
};
use crate::error::{Error, Result};

/// The calls that a foreign store provides. Keys are checked before each call.
pub trait Foreign: Send + Sync + Debug {
    /// Open the value; None if the key is absent.
    fn get(self: &Arc<Self>, key: &str, hint: ReadHint) -> Result<Option<Box<dyn ValueReader>>>;

    /// Replace the value; return its version, if known.
    fn put(self: &Arc<Self>, key: &str, data: &[u8]) -> Result<Option<Version>>;

    /// Remove the key, which may be absent.
    fn delete(self: &Arc<Self>, key: &str) -> Result<()>;

    /// Replace the value by `data` if it is still `expected` (None: absent), atomically for all
    /// users of the store.
    fn replace(
        self: &Arc<Self>,
        key: &str,
        data: Option<&[u8]>,
        expected: Option<&dyn ValueReader>,
    ) -> Result<ReplaceOutcome>;

    /// Return whether `replace` compares versions alone.
    fn compares_versions(&self) -> bool {
        false
    }

    /// Return every key under `prefix`, in any order.
    fn list(self: &Arc<Self>, prefix: &str) -> Result<Vec<String>>;

    /// Return every key under `prefix` with the size of its value, in any order. None: not supported.
    fn list_sizes(self: &Arc<Self>, _prefix: &str) -> Result<Option<Vec<(String, u64)>>> {
        Ok(None)
    }

    /// Return one level below `prefix`. None: not supported.
    fn list_dir(self: &Arc<Self>, prefix: &str) -> Result<Option<Listing>>;

    /// Delete or replace every key under `prefix`. False: not supported.
    fn change_prefix(self: &Arc<Self>, prefix: &str, change: PrefixChange<'_>) -> Result<bool>;

    /// See [`Store::changes_atomically`].
    fn changes_atomically(&self, _change: PrefixChange<'_>) -> bool {
        false
    }

    /// Lock the key against other users of the store until the returned guard is dropped. None: not
    /// supported.
    fn hold(&self, _key: &str) -> Result<Option<Box<dyn Any + Send>>> {
        Ok(None)
    }

    /// See [`Store::exchange`].
    fn exchange(&self, _changes: &[Exchange]) -> Result<Option<bool>> {
        Ok(None)
    }

    /// Return a text that identifies the root of the keys among all stores; None: unknown.
    fn location(&self) -> Option<&str> {
        None
    }

    /// Return the properties of the store, except the key syntax and whether it is read-only.
    fn info(&self) -> StoreInfo {
        StoreInfo::default()
    }

    /// See [`Store::async_requests`].
    fn async_requests(self: Arc<Self>, _call: Call) -> Option<StartRequest> {
        None
    }

    /// See [`Store::check_may_block`].
    fn check_may_block(&self) -> Result<()> {
        Ok(())
    }
}

/// The outcome of a conditional replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplaceOutcome {
    /// The store does not support it.
    Unsupported,
    /// The current value is not the expected one; nothing changed.
    Conflict,
    /// The current value is not the expected one, but an earlier response was lost: the write may
    /// have been applied.
    Ambiguous,
    /// The value is replaced and has this version, if known.
    Done(Option<Version>),
}

/// A value with a known version and unknown bytes.
struct VersionOnly(Version);

impl ValueReader for VersionOnly {
    fn size(&self) -> u64 {
        0
    }

    fn version(&self) -> Option<Version> {
        Some(self.0)
    }

    fn read_with(&self, _: u64, _: &mut [u8], _: ReadFlags) -> Result<()> {
        Err(Error::internal("a value was read, but only its version is known"))
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
    keys: KeySyntax,
    read_only: bool,
    key_locks: Arc<KeyLocks>,
}

impl<F: Foreign> ForeignStore<F> {
    /// Adapt `foreign`. Adapters with the same `identity` exclude each other.
    pub fn new(foreign: F, read_only: bool, identity: usize) -> Self {
        let (foreign, key_locks) = (Arc::new(foreign), KeyLocks::for_identity(identity));
        ForeignStore { foreign, keys: KeySyntax::Paths, read_only, key_locks }
    }

    /// Use another key syntax.
    pub fn of(self, keys: KeySyntax) -> Self {
        ForeignStore { keys, ..self }
    }

    /// Return the adapted store.
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
        current: Option<Option<&dyn ValueReader>>,
    ) -> Result<ReplaceOutcome> {
        let joined_bytes;
        let data = match change {
            Change::Keep => return Ok(ReplaceOutcome::Done(None)),
            Change::Delete => None,
            Change::Write(parts) => Some(match &parts[..] {
                [ValuePart::Current { .. }] | [] | [_, _, ..] => {
                    joined_bytes = joined(parts, current.flatten())?;
                    &joined_bytes[..]
                }
                [part] => part.bytes().unwrap_or_default(),
            }),
        };
        if let Some(current) = current {
            match self.foreign.replace(key, data, current)? {
                ReplaceOutcome::Unsupported => {}
                result => return Ok(result),
            }
        }
        Ok(ReplaceOutcome::Done(match data {
            Some(data) => self.foreign.put(key, data)?,
            None => self.foreign.delete(key).map(|()| None)?,
        }))
    }

    /// Update by comparing versions alone. None: the precondition does not hold, nothing would
    /// change, or a response was lost, which `ambiguous` records.
    fn update_by_version<'a>(
        &self,
        key: &str,
        options: UpdateOptions,
        ambiguous: &mut AttemptedWrite,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<Option<UpdateOutcome<'a>>> {
        let version_only = match options.precondition {
            Precondition::Version(version) if self.foreign.compares_versions() => Some(VersionOnly(version)),
            Precondition::Absent if self.foreign.compares_versions() => None,
            _ => return Ok(None),
        };
        let current = version_only.as_ref().map(|version_only| version_only as &dyn ValueReader);
        let change = match updater(current) {
            Ok(Change::Keep) => return Ok(None),
            // The error may result from the expected version, which may be outdated.
            Err(error) if !error.ends_wait() => return Ok(None),
            result => result?,
        };
        Ok(match self.apply(key, &change, Some(current))? {
            ReplaceOutcome::Done(version) => Some(UpdateOutcome { change, version }),
            ReplaceOutcome::Conflict if options.strict => Some(Change::Keep.into()),
            ReplaceOutcome::Conflict | ReplaceOutcome::Unsupported => None,
            ReplaceOutcome::Ambiguous => {
                *ambiguous = AttemptedWrite::of(&change, options.strict)?;
                None
            }
        })
    }

    fn update_locked<'a>(
        &self,
        key: &str,
        options: UpdateOptions,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<UpdateOutcome<'a>> {
        let mut ambiguous = AttemptedWrite::Untracked;
        let outcome = self.update_with_conflicts(key, options, &mut ambiguous, updater);
        outcome.map_err(|error| {
            if ambiguous == AttemptedWrite::Untracked {
                error
            } else {
                error.after_ambiguous_write()
            }
        })
    }

    /// Update until it succeeds or fails; `ambiguous` records a write whose response was lost.
    fn update_with_conflicts<'a>(
        &self,
        key: &str,
        options: UpdateOptions,
        ambiguous: &mut AttemptedWrite,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<UpdateOutcome<'a>> {
        if let Some(outcome) = self.update_by_version(key, options, ambiguous, updater)? {
            return Ok(outcome);
        }
        for _ in 0..ATTEMPTS {
            let opened = self.foreign.get(key, ReadHint::Whole)?;
            let current = opened.as_deref();
            let change = ambiguous.decide(current, options.strict, true, updater)?;
            match self.apply(key, &change, Some(current))? {
                ReplaceOutcome::Done(version) => return Ok(UpdateOutcome { change, version }),
                ReplaceOutcome::Ambiguous => *ambiguous = AttemptedWrite::of(&change, options.strict)?,
                ReplaceOutcome::Conflict | ReplaceOutcome::Unsupported => {}
            }
        }
        let why = format!("other writers changed {key:?} during each of {ATTEMPTS} attempts to change it");
        Err(Error::store(true, why))
    }
}

/// Start a write once `key_locks` grant the lock of its key.
fn put_locked(key_locks: &Arc<KeyLocks>, start: StartRequest, request: AsyncRequest) {
    let AsyncRequest::Put { key, value, completion } = request else { return start(request) };
    let (name, is_active) = (key.clone(), completion.active_check());
    let on_locked = move |guard: Result<KeyGuard>| match guard {
        Ok(guard) => {
            let completion = completion.map(move |result| {
                drop(guard);
                result
            });
            start(AsyncRequest::Put { key, value, completion });
        }
        Err(error) => completion.complete(Err(error)),
    };
    key_locks.lock_async(&name, is_active, on_locked);
}

impl<F: Foreign> Store for ForeignStore<F> {
    fn info(&self) -> StoreInfo {
        StoreInfo { keys: self.keys, read_only: self.read_only, ..self.foreign.info() }
    }

    fn open(&self, key: &str, hint: ReadHint) -> Result<Option<Box<dyn ValueReader>>> {
        self.keys.check(key)?;
        self.foreign.get(key, hint).map_err(|error| error.at_key(key))
    }

    fn update<'a>(
        &self,
        key: &str,
        options: UpdateOptions,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<UpdateOutcome<'a>> {
        self.keys.check(key)?;
        self.check_writable().map_err(|error| error.at_key(key))?;
        let unconditional = if options.current { None } else { Some(updater(None)?) };
        let _guard = self.key_locks.lock(key)?;
        match unconditional {
            None => self.update_locked(key, options, updater),
            Some(change) => self.apply(key, &change, None).map(|result| match result {
                ReplaceOutcome::Done(version) => UpdateOutcome { change, version },
                ReplaceOutcome::Conflict | ReplaceOutcome::Ambiguous | ReplaceOutcome::Unsupported => {
                    change.into()
                }
            }),
        }
        .map_err(|error| error.at_key(key))
    }

    /// Without a location, stores with one identity are recognised by their locks.
    fn location(&self, key: &str) -> String {
        match self.foreign.location() {
            Some(location) => format!("{location}/{key}"),
            None => format!("{:p}/{key}", Arc::as_ptr(&self.key_locks)),
        }
    }

    fn hold(&self, key: &str, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.keys.check(key)?;
        self.check_writable().map_err(|error| error.at_key(key))?;
        let _guard = self.key_locks.lock(key)?;
        let _foreign_guard = self.foreign.hold(key).map_err(|error| error.at_key(key))?;
        work()
    }

    fn list_keys(&self, prefix: &str, depth: Depth) -> Result<Listing> {
        self.keys.check_prefix(prefix)?;
        if depth == Depth::Level {
            if let Some(mut listing) = self.foreign.list_dir(prefix)? {
                let below = |name: &str| {
                    let rest = name.strip_prefix(prefix);
                    rest.is_some_and(|rest| !rest.contains('/') && self.keys.is_valid(name))
                };
                listing.keys.retain(|key| below(key));
                listing.prefixes.retain(|folder| folder.strip_suffix('/').is_some_and(below));
                for names in [&mut listing.keys, &mut listing.prefixes] {
                    names.sort_unstable();
                    names.dedup();
                }
                return Ok(listing);
            }
        }
        let mut keys = self.foreign.list(prefix)?;
        keys.retain(|key| key.starts_with(prefix) && self.keys.is_valid(key));
        keys.sort_unstable();
        keys.dedup();
        Ok(Listing::of(keys, prefix, depth))
    }

    fn list_sizes(&self, prefix: &str) -> Result<Option<Vec<(String, u64)>>> {
        self.keys.check_prefix(prefix)?;
        let Some(mut sizes) = self.foreign.list_sizes(prefix)? else { return Ok(None) };
        sizes.retain(|(key, _)| key.starts_with(prefix) && self.keys.is_valid(key));
        sizes.sort_unstable();
        sizes.dedup_by(|(a, _), (b, _)| a == b);
        Ok(Some(sizes))
    }

    fn change_prefix(&self, prefix: &str, change: PrefixChange<'_>) -> Result<bool> {
        if change == PrefixChange::RemoveLink {
            return Ok(false);
        }
        change.prefixes(prefix).try_for_each(|prefix| self.keys.check_prefix(prefix))?;
        self.check_writable()?;
        if self.foreign.change_prefix(prefix, change)? {
            return Ok(true);
        }
        if matches!(change, PrefixChange::ReplaceBy(_)) {
            return Ok(false);
        }
        let mut keys = self.list(prefix)?;
        // Metadata first: a deletion that stops leaves no array whose chunks are gone.
        keys.sort_by_key(|key| !is_document(key));
        for key in keys {
            let _guard = self.key_locks.lock(&key)?;
            self.foreign.delete(&key).map_err(|error| error.at_key(&key))?;
        }
        Ok(true)
    }

    fn changes_atomically(&self, _: &str, change: PrefixChange<'_>) -> bool {
        let is_writable = !self.read_only || change == PrefixChange::Delete;
        is_writable && self.foreign.changes_atomically(change)
    }

    fn exchange(&self, changes: &[Exchange]) -> Result<Option<bool>> {
        self.check_writable()?;
        for change in changes {
            self.keys.check(&change.key)?;
        }
        self.foreign.exchange(changes)
    }

    fn async_requests(&self, call: Call) -> Option<StartRequest> {
        let is_allowed = !(call.changes() && self.read_only);
        let start = self.foreign.clone().async_requests(call).filter(|_| is_allowed)?;
        let (keys, key_locks) = (self.keys, self.key_locks.clone());
        Some(Arc::new(move |request: AsyncRequest| match keys.check(request.key()) {
            Ok(()) => put_locked(&key_locks, start.clone(), request.with_key_in_errors()),
            Err(error) => request.fail(error),
        }))
    }

    fn check_may_block(&self) -> Result<()> {
        self.foreign.check_may_block()
    }
}
