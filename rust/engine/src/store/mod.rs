//! Key-value stores: byte strings under keys, with ranged reads and atomic replacement.

mod ambiguous_write;
mod async_ops;
mod cache;
mod change;
mod exchange;
mod foreign;
pub(crate) mod fork;
mod info;
mod interruptible_wait;
mod key;
mod key_locks;
mod listing;
mod local;
mod memory;
mod object;
mod read_batch;
mod staged;
mod swap_cell;
mod value_reader;
mod version;
mod wrappers;

use std::fmt::Debug;
use std::sync::Arc;

use crate::error::Result;
use ambiguous_write::AttemptedWrite;
use change::{joined, no_current};
use listing::folder_of;
use object::run_after;
use value_reader::{has_bytes, past_the_end, read_from, Unversioned, REPLACED};

pub use async_ops::{AsyncRequest, CancelToken, Completion, OpenResult, StartRequest};
pub use cache::{
    chunk_cache_counts, chunk_cache_limit, set_chunk_cache_limit, CacheCounts, CachePool, CacheShare,
    CachedStore, ChunkCache, Freshness, ValueChunks,
};
pub use change::{join, Change, Precondition, UpdateOptions, UpdateOutcome, Updater, ValuePart};
pub use exchange::{Exchange, Expected, NewValue};
pub use foreign::{Foreign, ForeignStore, ReplaceOutcome};
pub use info::{CacheState, PathKind, StoreInfo};
pub(crate) use interruptible_wait::Wait;
pub use interruptible_wait::{recv_interruptible, set_interrupt_check};
pub use key::{KeySyntax, LOCK_SUFFIX};
pub use listing::{Depth, KeyRange, Listing, PrefixChange};
pub use local::{local_counts, LocalStore, Locking, ReadMode, Settings};
pub use memory::MemoryStore;
pub use object::{
    run_blocking, BucketSettings, ConnectionSettings, Credentials, GetCredentials, Kind as ObjectKind,
    ObjectSettings, Objects,
};
pub use read_batch::{read_batch, BatchRead, BatchResponse};
pub use staged::{CommitOutcome, Redo, StagedRegions, StagedStore};
pub use swap_cell::SwapCell;
pub use value_reader::{
    check_size, read_all, replaced, DecodedCache, LoadedValue, ReadFlags, ReadHint, ValueReader,
};
pub use version::Version;
pub use wrappers::*;

/// The number of attempts of a read whose value other writes replace.
const ATTEMPTS: usize = 100;

/// The number of attempts to read a value in parts. Then one request reads the whole value, which
/// has a single state.
const MAX_PARTIAL_ATTEMPTS: usize = 3;

/// The maximum size of a value that one request then reads.
const MAX_WHOLE_BYTES: u64 = 128 << 20;

/// A key-value store. It rejects invalid keys (`Kind::Argument`) before any I/O.
///
/// A wrapper returns its inner store, and implements only what it changes.
pub trait Store: Send + Sync + Debug {
    /// Open a value; None if the key is absent (a folder counts as absent).
    fn open(&self, key: &str, hint: ReadHint) -> Result<Option<Box<dyn ValueReader>>>;

    /// Decide and apply one change atomically: no other thread or process updates this key in
    /// between.
    ///
    /// `updater` receives the current value if `options` request it. Otherwise it receives None,
    /// and runs before any lock. `updater` may use other keys of the store, and may open `key`.
    fn update<'a>(
        &self,
        key: &str,
        options: UpdateOptions,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<UpdateOutcome<'a>>;

    /// Return the keys under `prefix` ("" or ending in "/").
    fn list_keys(&self, prefix: &str, depth: Depth) -> Result<Listing>;

    /// Change every key under `prefix` ("" or ending in "/"). Return false, without effect, if the
    /// store does not support the change, or if there is no link to remove.
    fn change_prefix(&self, prefix: &str, change: PrefixChange<'_>) -> Result<bool>;

    /// Return the inner store of a wrapper, whose properties this store inherits.
    fn inner(&self) -> Option<&dyn Store> {
        None
    }

    /// Return the properties of the store.
    fn info(&self) -> StoreInfo {
        self.inner().map_or_else(StoreInfo::default, Store::info)
    }

    /// Return what caches hold about `key`.
    fn cache_state(&self, key: &str) -> CacheState {
        self.inner().map_or_else(CacheState::default, |inner| inner.cache_state(key))
    }

    /// Return the function that starts asynchronous requests of one kind: [`Call::Open`] or
    /// [`Call::Update`]. None: not supported now.
    fn async_requests(&self, _call: Call) -> Option<StartRequest> {
        None
    }

    /// Run `work` while this caller alone holds the lock of `key`, which may be absent. `work` may
    /// use other keys.
    fn hold(&self, key: &str, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        match self.inner() {
            Some(inner) => inner.hold(key, work),
            None => self
                .update(key, UpdateOptions::READ_CURRENT, &mut |_| work().map(|()| Change::Keep))
                .map(drop),
        }
    }

    /// Return every key under `prefix` with the size of its value, sorted. None: listings of the store
    /// lack sizes.
    fn list_sizes(&self, _prefix: &str) -> Result<Option<Vec<(String, u64)>>> {
        Ok(None)
    }

    /// Call `visit` for every key that begins with `start` (any text) and is in `range`, in order.
    /// `visit` may run while the store is locked: it must not use a store.
    fn list_range(&self, start: &str, range: KeyRange<'_>, visit: &mut dyn FnMut(&str)) -> Result<()> {
        let folder = folder_of(start);
        let keys = if folder == start {
            self.list(folder)?
        } else {
            // Other folders are not read.
            let Listing { mut keys, prefixes } = self.list_dir(folder)?;
            keys.retain(|key| key.starts_with(start));
            for prefix in prefixes.iter().filter(|prefix| prefix.starts_with(start)) {
                keys.append(&mut self.list(prefix)?);
            }
            keys.sort_unstable();
            keys
        };
        keys.iter().filter(|key| range.holds(key)).for_each(|key| visit(key));
        Ok(())
    }

    /// Remove every key that begins with `start` and is in `range`. Keys for which `replaced`
    /// returns true may remain: they are written next.
    fn delete_range(&self, start: &str, range: KeyRange<'_>, replaced: &dyn Fn(&str) -> bool) -> Result<()> {
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
        keys.iter().try_for_each(|key| {
            self.update(key, UpdateOptions::UNCONDITIONAL, &mut |_| Ok(Change::Delete)).map(|_| ())
        })
    }

    /// Return whether [`Store::change_prefix`] is atomic for readers and when the process is
    /// killed; for [`PrefixChange::ReplaceBy`], whether the store supports it.
    fn changes_atomically(&self, prefix: &str, change: PrefixChange<'_>) -> bool {
        self.inner().is_some_and(|inner| inner.changes_atomically(prefix, change))
    }

    /// Apply all `changes` atomically, if each precondition holds. Return false, without effect, if
    /// one does not hold. None: not supported.
    fn exchange(&self, _changes: &[Exchange]) -> Result<Option<bool>> {
        Ok(None)
    }

    /// Return the local store that holds the values, and its key for `key`. None: the store is not
    /// local, or has staged changes.
    fn local(&self, key: &str) -> Option<(&LocalStore, String)> {
        self.inner()?.local(key)
    }

    /// Return a text that identifies `key`, or a prefix of keys, among all stores of the process: two
    /// stores with the same keys at one location return the same text. The text of a prefix begins
    /// the texts of all keys below it.
    fn location(&self, key: &str) -> String {
        match self.inner() {
            Some(inner) => inner.location(key),
            None => format!("{:p}/{key}", std::ptr::from_ref(self).cast::<()>()),
        }
    }

    /// As `location`, but below staged changes.
    fn stored_location(&self, key: &str) -> String {
        match self.inner() {
            Some(inner) => inner.stored_location(key),
            None => self.location(key),
        }
    }

    /// Return whether one key is read, or replaced unconditionally, without waiting for a device or
    /// for other threads: in less time than releasing Python's lock takes.
    fn is_nonblocking(&self) -> bool {
        false
    }

    /// Return an error if this thread must not block on the store: other threads would wait for
    /// this thread.
    fn check_may_block(&self) -> Result<()> {
        self.inner().map_or(Ok(()), Store::check_may_block)
    }

    /// Wait for a permit to decode or encode a chunk, which the returned guard holds. No request
    /// runs during the wait.
    fn coding_permit(&self) -> Result<Option<Permit>> {
        self.inner().map_or(Ok(None), Store::coding_permit)
    }

    /// Return the same store on top of the stores that `replace` returns for its inner stores.
    /// None: it replaces none, or this store does not support it.
    fn with_inner(&self, _replace: ReplaceStore<'_>) -> Option<Arc<dyn Store>> {
        None
    }

    /// Return every key under `prefix`, sorted.
    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.list_keys(prefix, Depth::All).map(|listing| listing.keys)
    }

    /// Return the keys and prefixes one level below `prefix`.
    fn list_dir(&self, prefix: &str) -> Result<Listing> {
        self.list_keys(prefix, Depth::Level)
    }

    /// Remove every key under `prefix`.
    fn delete_prefix(&self, prefix: &str) -> Result<()> {
        self.change_prefix(prefix, PrefixChange::Delete).map(drop)
    }

    /// Return the syntax of the keys.
    fn keys(&self) -> KeySyntax {
        self.info().keys
    }

    /// Return whether the store rejects every change.
    fn read_only(&self) -> bool {
        self.info().read_only
    }

    /// Return how many concurrent requests the store needs, see [`StoreInfo::concurrency`].
    fn concurrency(&self) -> usize {
        self.info().concurrency
    }
}

/// Returns the replacement of an inner store.
pub type ReplaceStore<'r> = &'r dyn Fn(&Arc<dyn Store>) -> Option<Arc<dyn Store>>;

/// Return `store` on top of `shared` instead of `below`, so that reads are coalesced. None: `below`
/// is not below `store`.
pub fn with_coalescing(
    store: &Arc<dyn Store>,
    below: &Arc<dyn Store>,
    shared: &Arc<CoalescingStore>,
) -> Option<Arc<dyn Store>> {
    match std::ptr::addr_eq(Arc::as_ptr(store), Arc::as_ptr(below)) {
        true => Some(shared.clone()),
        false => store.with_inner(&|inner| with_coalescing(inner, below, shared)),
    }
}

impl dyn Store + '_ {
    /// Return the kind of the path of `key` in a local file system. None: the store is not local,
    /// or has staged changes.
    pub fn path_kind(&self, key: &str) -> Result<Option<PathKind>> {
        self.local(key).map(|(local, key)| local.path_kind(&key)).transpose()
    }

    /// Keys and prefixes one level below `prefix`, of the first `limit` entries of a local folder.
    /// None: the store has no folders, has staged changes, or may not list this folder.
    pub fn first_entries(&self, prefix: &str, limit: usize) -> Option<Listing> {
        let (local, folder) = self.local(prefix)?;
        let mut listing = local.first_entries(&folder, limit)?;
        for key in listing.keys.iter_mut().chain(&mut listing.prefixes) {
            key.drain(..folder.len() - prefix.len());
        }
        Some(listing)
    }

    /// Run `work` with the open value of `key`; None: it is absent. If the value is replaced while
    /// `work` reads it, `work` starts again.
    pub fn read<T>(
        &self,
        key: &str,
        hint: ReadHint,
        work: impl FnMut(Option<Box<dyn ValueReader>>) -> Result<T>,
    ) -> Result<T> {
        self.read_opened(None, key, || hint, work)
    }

    /// Like `read`, with a value that may be open already.
    pub(crate) fn read_opened<T>(
        &self,
        mut opened: Option<OpenResult>,
        key: &str,
        hint: impl Fn() -> ReadHint,
        mut work: impl FnMut(Option<Box<dyn ValueReader>>) -> Result<T>,
    ) -> Result<T> {
        let (mut attempts, mut bytes) = (0, 0);
        loop {
            let reads_whole = attempts >= MAX_PARTIAL_ATTEMPTS && bytes <= MAX_WHOLE_BYTES;
            let hint = || if reads_whole { ReadHint::Prefix(MAX_WHOLE_BYTES) } else { hint() };
            let object = opened.take().unwrap_or_else(|| self.open(key, hint()))?;
            bytes = object.as_ref().map_or(0, |object| object.size());
            attempts += 1;
            match work(object) {
                Err(error) if error.code == Some(REPLACED) && attempts < ATTEMPTS => {}
                done => return done,
            }
        }
    }

    /// Return the whole value in memory, if it has at most `limit` bytes. A larger value raises a
    /// `Kind::Data` error before it is read, if the store knows its size.
    pub fn load(&self, key: &str, limit: Option<u64>) -> Result<Option<LoadedValue>> {
        Ok(self.load_version(key, limit)?.map(|(value, _)| value))
    }

    /// Like `load`; returns the version as well, if the store has versions.
    pub fn load_version(
        &self,
        key: &str,
        limit: Option<u64>,
    ) -> Result<Option<(LoadedValue, Option<Version>)>> {
        self.read(key, limit.map_or(ReadHint::Whole, ReadHint::Prefix), |object| {
            let Some(object) = object else { return Ok(None) };
            check_size(&*object, limit).map_err(|error| error.at_key(key))?;
            let version = object.version();
            Ok(Some((LoadedValue::of(object)?, version)))
        })
    }

    /// Return a copy of the whole value; None if the key is absent.
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.load(key, None)?.map(|loaded| match loaded {
            LoadedValue::InStore(object) => object.bytes().unwrap_or_default().to_vec(),
            LoadedValue::Copied(bytes) => bytes,
        }))
    }

    /// Replace the value of `key`.
    pub fn put(&self, key: &str, data: &[u8]) -> Result<()> {
        self.update(key, UpdateOptions::UNCONDITIONAL, &mut |_| {
            Ok(Change::Write(vec![ValuePart::Borrowed(data)]))
        })?;
        Ok(())
    }

    /// Replace the value of `key`, and return the new version, if known.
    pub(crate) fn put_shared(&self, key: &str, value: &Arc<Vec<u8>>) -> Result<Option<Version>> {
        let options = UpdateOptions { version: true, ..UpdateOptions::UNCONDITIONAL };
        let write = || Change::Write(vec![ValuePart::Shared(value.clone())]);
        Ok(self.update(key, options, &mut |_| Ok(write()))?.version)
    }

    /// Remove `key`, which may be absent.
    pub fn delete(&self, key: &str) -> Result<()> {
        self.update(key, UpdateOptions::UNCONDITIONAL, &mut |_| Ok(Change::Delete))?;
        Ok(())
    }

    /// Change `key` to `data` if its value is `expected` (None: absent), atomically. Return false,
    /// without effect, if it is not.
    pub fn replace(&self, key: &str, data: Option<&[u8]>, expected: Option<&[u8]>) -> Result<bool> {
        let is_expected = |current: Option<&dyn ValueReader>| match (current, expected) {
            (None, None) => Ok(true),
            (Some(object), Some(bytes)) => has_bytes(object, bytes),
            _ => Ok(false),
        };
        Ok(self.write_if(key, data, UpdateOptions::READ_CURRENT, is_expected)?.0)
    }

    /// Like `replace`, for an expected state. Returns the version of the new value as well, if
    /// known.
    pub fn write(
        &self,
        key: &str,
        data: Option<&[u8]>,
        expected: &Expected,
    ) -> Result<(bool, Option<Version>)> {
        self.write_if(key, data, UpdateOptions::expecting(expected), |current| expected.matches(current))
    }

    /// Like `write`, with a function that compares the current value.
    pub fn write_if(
        &self,
        key: &str,
        data: Option<&[u8]>,
        options: UpdateOptions,
        is_expected: impl Fn(Option<&dyn ValueReader>) -> Result<bool>,
    ) -> Result<(bool, Option<Version>)> {
        let mut matched = true;
        let options = UpdateOptions { version: true, strict: true, ..options };
        let outcome = self.update(key, options, &mut |current| {
            matched = is_expected(current)?;
            Ok(match data {
                _ if !matched => Change::Keep,
                Some(data) => Change::Write(vec![ValuePart::Borrowed(data)]),
                None => Change::Delete,
            })
        })?;
        Ok((matched && !matches!(outcome.change, Change::Keep), outcome.version))
    }
}

#[cfg(test)]
mod tests;
