//! Stores: keys to byte strings, read by ranges, replaced atomically.

mod ambiguous_write;
mod async_ops;
mod cache;
mod change;
mod exchange;
mod foreign;
pub(crate) mod fork;
mod interruptible_wait;
mod key;
mod key_locks;
mod local;
mod memory;
mod object;
mod staged;
mod swap_cell;
mod timer;
mod value_reader;
mod version;
mod wrappers;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use crate::error::Result;
use ambiguous_write::Tried;
use change::{joined, no_current};
use value_reader::{holds, past_the_end, Unversioned, REPLACED};

pub use async_ops::{by_thread, Ask, Asker, Opened, Put, Told};
pub use cache::{CacheCounts, CachePool, CachedStore, Fresh};
pub use change::{join, Change, Known, Made, Need, Part, Updater};
pub use exchange::{Exchange, Expected, New};
pub use foreign::{Foreign, ForeignStore, Replaced};
pub(crate) use interruptible_wait::Wait;
pub use interruptible_wait::{received, while_waiting};
pub use key::{Keys, LOCK_SUFFIX};
pub use local::{asked_of_files, LocalStore, Locking, Reading, Settings};
pub use memory::MemoryStore;
pub use object::{aside, Answer, Before, Piece, Refusal, Signer, Stored, Web};
pub use staged::{Outcome, Redo, StagedStore};
pub use swap_cell::Slot;
pub use value_reader::{check_size, read_all, read_from, replaced, Decoded, How, Loaded, Object, Want};
pub use version::Version;
pub use wrappers::PrefixStore;
pub use wrappers::ReadOnlyStore;
pub use wrappers::SplitStore;
pub use wrappers::{want_of, SharedStore, Span};
pub use wrappers::{Call, Done, Latency, Looked, Watch, WatchedStore};
pub use wrappers::{CountingStore, Counts};
pub use wrappers::{Enter, Limited, Limits, Place, Rate, Turn};
pub use wrappers::{Passes, Retries, RetryingStore};

/// How often a value is read again that was replaced while it was read.
const ATTEMPTS: usize = 100;

/// After so many times all of it is read by one request, which gives a single state,
const APART: usize = 3;

/// if it has at most so many bytes.
const TOGETHER_BYTES: u64 = 128 << 20;

/// Keys from one, to before another, in the order of their bytes, which need not be text.
#[derive(Clone, Copy, Debug)]
pub struct KeyRange<'b> {
    /// The first key.
    pub first: &'b [u8],
    /// The first key beyond; empty: there is no end.
    pub end: &'b [u8],
}

impl KeyRange<'_> {
    /// Whether a key is in the range.
    pub fn holds(&self, key: &str) -> bool {
        self.first <= key.as_bytes() && !self.is_before(key.as_bytes())
    }

    /// Whether no key is in the range.
    pub fn is_empty(&self) -> bool {
        self.is_before(self.first)
    }

    /// Whether every key is in it that begins with `start`.
    fn has_all(&self, start: &str) -> bool {
        self.first <= start.as_bytes() && self.end.is_empty()
    }

    /// Whether the range ends before a key.
    fn is_before(&self, key: &[u8]) -> bool {
        !self.end.is_empty() && self.end <= key
    }
}

/// What lies directly below a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Keys directly under the prefix, sorted, whole keys.
    pub keys: Vec<String>,
    /// Prefixes one level down, sorted, each ending in "/", whole. A local
    /// store names every folder, also one without a file below.
    pub prefixes: Vec<String>,
}

impl Listing {
    /// The level below `prefix`, given every key under it in order.
    pub fn of<'k>(keys: impl IntoIterator<Item = &'k str>, prefix: &str) -> Self {
        let mut listing = Listing::default();
        for key in keys {
            let Some(rest) = key.strip_prefix(prefix) else { continue };
            match rest.find('/') {
                None => listing.keys.push(key.to_owned()),
                Some(slash) => {
                    let below = &key[..=prefix.len() + slash];
                    if listing.prefixes.last().is_none_or(|last| last != below) {
                        listing.prefixes.push(below.to_owned());
                    }
                }
            }
        }
        listing
    }
}

/// What has the path of a key in a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtPath {
    /// Nothing.
    Nothing,
    /// A file, which is the value.
    Value,
    /// A folder without any file below.
    EmptyFolder,
    /// A folder with files below.
    Folder,
    /// A pipe, a device or a socket.
    Special,
}

/// A key-value store. What is none of the [`Keys`] that it has is refused
/// (`Kind::Argument`) before any I/O.
pub trait Store: Send + Sync + Debug {
    /// Open one value; None if the key is absent (a directory is absent too).
    fn open(&self, key: &str, want: Want) -> Result<Option<Box<dyn Object>>>;

    /// Decide and make one change so that no other `update` of this key, by
    /// any thread or process, falls between. `updater` sees the current value
    /// where it is needed, else None, and then it runs before anything is
    /// locked. Inside `updater` other keys of the store may be used freely, `key`
    /// itself only be opened.
    fn update<'a>(&self, key: &str, need: Need, updater: &mut Updater<'_, 'a>) -> Result<Made<'a>>;

    /// Do `work` while nobody else, in any thread or process, holds `key`, which
    /// need not exist. Inside `work` other keys may be used freely.
    fn hold(&self, key: &str, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.update(key, Need::CURRENT, &mut |_| work().map(|()| Change::Keep)).map(drop)
    }

    /// Every key under `prefix` ("" or ending in "/"), sorted.
    fn list(&self, prefix: &str) -> Result<Vec<String>>;

    /// Tells every key that begins with `start`, any text, and is in a range, in their order.
    /// `found` may be called while the store is locked: it uses none.
    fn list_range(&self, start: &str, range: KeyRange<'_>, found: &mut dyn FnMut(&str)) -> Result<()> {
        let folder = folder_of(start);
        let keys = if folder == start {
            self.list(folder)?
        } else {
            // Folders beside it are not looked into.
            let Listing { mut keys, prefixes } = self.list_dir(folder)?;
            keys.retain(|key| key.starts_with(start));
            for prefix in prefixes.iter().filter(|prefix| prefix.starts_with(start)) {
                keys.append(&mut self.list(prefix)?);
            }
            keys.sort_unstable();
            keys
        };
        keys.iter().filter(|key| range.holds(key)).for_each(|key| found(key));
        Ok(())
    }

    /// What has the path of `key`, where a file system answers at once; None: the store has no such
    /// paths, or has changes that are not made yet.
    fn at_path(&self, key: &str) -> Result<Option<AtPath>> {
        self.inner().map_or(Ok(None), |inner| inner.at_path(key))
    }

    /// Keys and prefixes one level below `prefix`, of the first `limit` entries of a folder, where a file
    /// system answers at once; None: the store has no folders, has changes that are not made yet, or
    /// may not list this one.
    fn first_entries(&self, prefix: &str, limit: usize) -> Result<Option<Listing>> {
        self.inner().map_or(Ok(None), |inner| inner.first_entries(prefix, limit))
    }

    /// Keys and prefixes one level below `prefix`.
    fn list_dir(&self, prefix: &str) -> Result<Listing>;

    /// Remove every key under `prefix` ("" or ending in "/").
    fn delete_prefix(&self, prefix: &str) -> Result<()>;

    /// Whether [`Store::delete_prefix`] is one step, for readers and if the program is killed.
    fn deletes_at_once(&self, prefix: &str) -> bool {
        self.inner().is_some_and(|inner| inner.deletes_at_once(prefix))
    }

    /// Whether [`Store::replace_prefix`] can replace what is under `prefix`.
    fn replaces_at_once(&self, prefix: &str) -> bool {
        self.inner().is_some_and(|inner| inner.replaces_at_once(prefix))
    }

    /// Move every key under `staged` to `prefix` in one step, for readers and if the program is killed.
    /// What was under `prefix` is removed, or is under `staged` then. False: the store cannot do that,
    /// and nothing was changed.
    fn replace_prefix(&self, staged: &str, prefix: &str) -> Result<bool> {
        self.inner().map_or(Ok(false), |inner| inner.replace_prefix(staged, prefix))
    }

    /// Remove every key under `prefix` because others are stored there at once: a folder may stay, and
    /// that they are gone is as durable as what is stored next.
    fn clear_prefix(&self, prefix: &str) -> Result<()> {
        self.delete_prefix(prefix)
    }

    /// Remove the symbolic link that the folder of `prefix` is, and nothing that the link leads to.
    /// False: the folder is no symbolic link, or the store has none.
    fn remove_link(&self, prefix: &str) -> Result<bool> {
        self.inner().map_or(Ok(false), |inner| inner.remove_link(prefix))
    }

    /// Remove every key that begins with `start` and is in a range.
    fn delete_range(&self, start: &str, range: KeyRange<'_>) -> Result<()> {
        self.delete_range_before(start, range, &|_| false)
    }

    /// The same, before others are written: keys that `replaced` tells may stay.
    fn delete_range_before(
        &self,
        start: &str,
        range: KeyRange<'_>,
        replaced: &dyn Fn(&str) -> bool,
    ) -> Result<()> {
        if range.has_all(start) && folder_of(start) == start {
            return self.delete_prefix(start);
        }
        if range.is_empty() {
            return Ok(());
        }
        let mut keys = Vec::new();
        self.list_range(start, range, &mut |key| {
            if !replaced(key) {
                keys.push(key.to_owned());
            }
        })?;
        keys.iter()
            .try_for_each(|key| self.update(key, Need::NOTHING, &mut |_| Ok(Change::Delete)).map(|_| ()))
    }

    /// Make all `changes` at once, if every key is as expected: no reader sees some of them.
    /// False: one key is not, and nothing was changed. None: the store cannot do that.
    fn exchange(&self, _changes: &[Exchange]) -> Result<Option<bool>> {
        Ok(None)
    }

    /// The store that this one stands before, if it is so: what that one says of itself holds here, too.
    fn inner(&self) -> Option<&dyn Store> {
        None
    }

    /// Whether one key is looked up, or replaced whatever is there, without ever waiting for others or for
    /// a device: in less time than it takes a thread of Python to let others run meanwhile.
    fn is_brief(&self) -> bool {
        false
    }

    /// Which texts are its keys.
    fn keys(&self) -> Keys {
        self.inner().map_or(Keys::Paths, |inner| inner.keys())
    }

    /// Refuses every change.
    fn read_only(&self) -> bool {
        self.inner().is_some_and(|inner| inner.read_only())
    }

    /// Whether [`Store::hold`] keeps out everybody whose updates it keeps apart, in other
    /// processes, too.
    fn is_exclusive(&self) -> bool {
        self.inner().is_none_or(|inner| inner.is_exclusive())
    }

    /// How many requests should be under way at a time, because each is waited for;
    /// 0: answers come at once.
    fn concurrency(&self) -> usize {
        self.inner().map_or(0, |inner| inner.concurrency())
    }

    /// Values are at hand, as files are: what is read of one piece by piece, by several threads, counts as one
    /// request if it was wanted at once.
    fn at_hand(&self) -> bool {
        self.inner().is_some_and(|inner| inner.at_hand())
    }

    /// What asks it for values without waiting for each; None: it cannot be asked so.
    fn asking(&self) -> Option<Arc<dyn Ask>> {
        None
    }

    /// What is given values without waiting for each, now; None: it cannot be given them so.
    fn putting(&self) -> Option<Arc<dyn Put>> {
        None
    }

    /// An error if this thread must not wait for it, also where others ask it: they would wait for this thread.
    fn may_wait(&self) -> Result<()> {
        self.inner().map_or(Ok(()), |inner| inner.may_wait())
    }

    /// Waits until one more chunk of what is here may be decoded or encoded; it is so as long as
    /// what is given back lives. No request is made meanwhile.
    fn decoding(&self) -> Result<Option<Turn<'_>>> {
        self.inner().map_or(Ok(None), |inner| inner.decoding())
    }

    /// Whether so many bytes of a value that are read stay in memory.
    fn keeps(&self, bytes: usize) -> bool {
        self.inner().is_some_and(|inner| inner.keeps(bytes))
    }

    /// Whether something of the value of `key` is in memory, that others may push out of it.
    fn remembers(&self, key: &str) -> bool {
        self.inner().is_some_and(|inner| inner.remembers(key))
    }

    /// When an answer about the value of `key` that is given now was asked for, at the earliest, if that was before.
    fn asked_since(&self, key: &str) -> Option<Instant> {
        self.inner().and_then(|inner| inner.asked_since(key))
    }

    /// The same store, whose reads ask `shared` for what they would ask `below`; None: it does not stand before that.
    fn through(&self, _below: &Arc<dyn Store>, _shared: &Arc<SharedStore>) -> Option<Arc<dyn Store>> {
        None
    }

    /// Since when an answer about the value of `key` is known that others were given before.
    fn shared_since(&self, key: &str) -> Option<SystemTime> {
        self.inner().and_then(|inner| inner.shared_since(key))
    }

    /// How many changes should be under way at a time.
    fn write_concurrency(&self) -> usize {
        self.inner().map_or_else(|| self.concurrency(), |inner| inner.write_concurrency())
    }
}

/// `store`, or what it is of it that asks `shared` for what `store` would ask `below`.
pub fn through(
    store: &Arc<dyn Store>,
    below: &Arc<dyn Store>,
    shared: &Arc<SharedStore>,
) -> Option<Arc<dyn Store>> {
    match std::ptr::addr_eq(Arc::as_ptr(store), Arc::as_ptr(below)) {
        true => Some(shared.clone()),
        false => store.through(below, shared),
    }
}

impl dyn Store + '_ {
    /// What `work` makes of the value of `key`, opened; None: it is absent. Where the
    /// value was replaced between two parts that `work` read, `work` starts again.
    pub fn read<T>(
        &self,
        key: &str,
        want: Want,
        work: impl FnMut(Option<Box<dyn Object>>) -> Result<T>,
    ) -> Result<T> {
        self.read_on(None, key, || want, work)
    }

    /// The same where it may have been opened before.
    pub(crate) fn read_on<T>(
        &self,
        mut opened: Option<Opened>,
        key: &str,
        want: impl Fn() -> Want,
        mut work: impl FnMut(Option<Box<dyn Object>>) -> Result<T>,
    ) -> Result<T> {
        let (mut attempts, mut bytes) = (0, 0);
        loop {
            let together = attempts >= APART && bytes <= TOGETHER_BYTES;
            let want = || if together { Want::Prefix(TOGETHER_BYTES) } else { want() };
            let object = opened.take().unwrap_or_else(|| self.open(key, want()))?;
            bytes = object.as_ref().map_or(0, |object| object.size());
            attempts += 1;
            match work(object) {
                Err(error) if error.code == Some(REPLACED) && attempts < ATTEMPTS => {}
                done => return done,
            }
        }
    }

    /// The whole value in memory, if it has at most `limit` bytes; more are a
    /// `Kind::Data` error before any of them is read, where the store can tell.
    pub fn load(&self, key: &str, limit: Option<u64>) -> Result<Option<Loaded>> {
        self.read(key, limit.map_or(Want::Whole, Want::Prefix), |object| {
            let Some(object) = object else { return Ok(None) };
            check_size(&*object, limit).map_err(|error| error.at_key(key))?;
            Loaded::of(object).map(Some)
        })
    }

    /// The whole value in memory, and its version, where the store can tell.
    pub fn load_version(&self, key: &str, limit: Option<u64>) -> Result<Option<(Loaded, Option<Version>)>> {
        self.read(key, limit.map_or(Want::Whole, Want::Prefix), |object| {
            let Some(object) = object else { return Ok(None) };
            check_size(&*object, limit).map_err(|error| error.at_key(key))?;
            let version = object.version();
            Ok(Some((Loaded::of(object)?, version)))
        })
    }

    /// The whole value, copied; None if the key is absent.
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.load(key, None)?.map(|loaded| match loaded {
            Loaded::There(object) => object.bytes().unwrap_or_default().to_vec(),
            Loaded::Copied(bytes) => bytes,
        }))
    }

    /// Replaces the value of `key`.
    pub fn put(&self, key: &str, data: &[u8]) -> Result<()> {
        self.update(key, Need::NOTHING, &mut |_| Ok(Change::Write(vec![Part::Borrowed(data)])))?;
        Ok(())
    }

    /// Replaces the value of `key`, and gives the version of the new one, where that is known.
    pub(crate) fn put_shared(&self, key: &str, value: &Arc<Vec<u8>>) -> Result<Option<Version>> {
        let need = Need { version: true, ..Need::NOTHING };
        let write = || Change::Write(vec![Part::Shared(value.clone())]);
        Ok(self.update(key, need, &mut |_| Ok(write()))?.version)
    }

    /// Removes `key`; that it is absent is fine.
    pub fn delete(&self, key: &str) -> Result<()> {
        self.update(key, Need::NOTHING, &mut |_| Ok(Change::Delete))?;
        Ok(())
    }

    /// Changes `key` to `data` if its value is `expected` (None: absent), at once.
    /// Gives false, and changes nothing, if it is not.
    pub fn replace(&self, key: &str, data: Option<&[u8]>, expected: Option<&[u8]>) -> Result<bool> {
        let mut matched = false;
        let need = Need { only: true, ..Need::CURRENT };
        self.update(key, need, &mut |current| {
            matched = match (current, expected) {
                (None, None) => true,
                (Some(object), Some(bytes)) => holds(object, bytes)?,
                _ => false,
            };
            Ok(match data {
                _ if !matched => Change::Keep,
                Some(data) => Change::Write(vec![Part::Borrowed(data)]),
                None => Change::Delete,
            })
        })?;
        Ok(matched)
    }

    /// The same where what is expected is a state. Gives the version of the new value, too, where
    /// the store can tell.
    pub fn write(
        &self,
        key: &str,
        data: Option<&[u8]>,
        expected: &Expected,
    ) -> Result<(bool, Option<Version>)> {
        self.write_if(key, data, Need::of_expected(expected), |current| expected.matches(current))
    }

    /// The same where the current value, if it is needed, tells whether it is expected.
    pub fn write_if(
        &self,
        key: &str,
        data: Option<&[u8]>,
        need: Need,
        is_expected: impl Fn(Option<&dyn Object>) -> Result<bool>,
    ) -> Result<(bool, Option<Version>)> {
        let mut matched = true;
        let need = Need { version: true, only: true, ..need };
        let made = self.update(key, need, &mut |current| {
            matched = is_expected(current)?;
            Ok(match data {
                _ if !matched => Change::Keep,
                Some(data) => Change::Write(vec![Part::Borrowed(data)]),
                None => Change::Delete,
            })
        })?;
        Ok((matched && !matches!(made.change, Change::Keep), made.version))
    }
}

/// What a text begins with, up to its last "/".
fn folder_of(start: &str) -> &str {
    &start[..start.rfind('/').map_or(0, |slash| slash + 1)]
}

#[cfg(test)]
mod tests;
