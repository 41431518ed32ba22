//! Key-value stores: byte strings under keys, with ranged reads and atomic replacement.

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
use ambiguous_write::AttemptedWrite;
use change::{joined, no_current};
use value_reader::{has_bytes, past_the_end, Unversioned, REPLACED};

pub use async_ops::{complete_on_thread, AsyncGet, AsyncPut, CancelToken, Completion, OpenResult};
pub use cache::{CacheCounts, CachePool, CachedStore, Freshness};
pub use change::{join, Change, Precondition, UpdateOptions, UpdateOutcome, Updater, ValuePart};
pub use exchange::{Exchange, Expected, NewValue};
pub use foreign::{Foreign, ForeignStore, ReplaceOutcome};
pub(crate) use interruptible_wait::Wait;
pub use interruptible_wait::{recv_interruptible, set_interrupt_check};
pub use key::{KeySyntax, LOCK_SUFFIX};
pub use local::{local_counts, LocalStore, Locking, ReadMode, Settings};
pub use memory::MemoryStore;
pub use object::{
    run_blocking, GetOutcome, HttpClient, HttpError, PutOutcome, PutPrecondition, ResponseBody, Signer,
};
pub use staged::{CommitOutcome, Redo, StagedStore};
pub use swap_cell::SwapCell;
pub use value_reader::{
    check_size, read_all, read_from, replaced, DecodedCache, LoadedValue, ReadFlags, ReadHint, ValueReader,
};
pub use version::Version;
pub use wrappers::PrefixStore;
pub use wrappers::ReadOnlyStore;
pub use wrappers::SplitStore;
pub use wrappers::{read_hint_of, CoalescingStore, Span};
pub use wrappers::{Call, CallReport, CurrentValueReads, InstrumentedStore, Latency, StoreObserver};
pub use wrappers::{CountingStore, Counts};
pub use wrappers::{LimitObserver, Limits, OnPermit, OwnedPermit, Permit, RateLimiter};
pub use wrappers::{RetryPolicy, RetryingStore, Transience};

/// The number of attempts of a read whose value other writes replace.
const ATTEMPTS: usize = 100;

/// The number of attempts to read a value in parts. Then one request reads the whole value, which
/// has a single state.
const MAX_PARTIAL_ATTEMPTS: usize = 3;

/// The maximum size of a value that one request then reads.
const MAX_WHOLE_BYTES: u64 = 128 << 20;

/// A range of keys in the order of their bytes; the bounds need not be valid text.
#[derive(Clone, Copy, Debug)]
pub struct KeyRange<'b> {
    /// The first key in the range.
    pub first: &'b [u8],
    /// The first key beyond the range; empty: the range has no end.
    pub end: &'b [u8],
}

impl KeyRange<'_> {
    /// Return whether `key` is in the range.
    pub fn holds(&self, key: &str) -> bool {
        self.first <= key.as_bytes() && !self.is_before(key.as_bytes())
    }

    /// Return whether no key is in the range.
    pub fn is_empty(&self) -> bool {
        self.is_before(self.first)
    }

    /// Return whether every key that begins with `start` is in the range.
    fn has_all(&self, start: &str) -> bool {
        self.first <= start.as_bytes() && self.end.is_empty()
    }

    /// Return whether the range ends before a key.
    fn is_before(&self, key: &[u8]) -> bool {
        !self.end.is_empty() && self.end <= key
    }
}

/// Keys and prefixes directly below a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Keys directly below the prefix, complete and sorted.
    pub keys: Vec<String>,
    /// Prefixes one level down, complete and sorted, each ending in "/". A local store lists every
    /// folder, including empty ones.
    pub prefixes: Vec<String>,
}

impl Listing {
    /// Return the level below `prefix`, from every key under it in order.
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

/// The kind of a key's path in a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// Nothing exists.
    Nothing,
    /// A regular file: the value.
    Value,
    /// A folder without files below it.
    EmptyFolder,
    /// A folder with files below it.
    Folder,
    /// A pipe, a device or a socket.
    Special,
}

/// A key-value store. It rejects invalid keys (`Kind::Argument`) before any I/O.
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

    /// Run `work` while this caller alone holds the lock of `key`, which may be absent. `work` may
    /// use other keys.
    fn hold(&self, key: &str, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.update(key, UpdateOptions::READ_CURRENT, &mut |_| work().map(|()| Change::Keep)).map(drop)
    }

    /// Return every key under `prefix` ("" or ending in "/"), sorted.
    fn list(&self, prefix: &str) -> Result<Vec<String>>;

    /// Call `visit` forevery key that begins with `start` (any text) and is in `range`, in order.
    /// `visit` may run while the store is locked: it must not use a store.
    fn list_range(&self, start: &str, range: KeyRange<'_>, on_key: &mut dyn FnMut(&str)) -> Result<()> {
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
        keys.iter().filter(|key| range.holds(key)).for_each(|key| on_key(key));
        Ok(())
    }

    /// Return the kind of the path of `key` in a local file system. None: the store is not local,
    /// or has staged changes.
    fn path_kind(&self, key: &str) -> Result<Option<PathKind>> {
        self.inner().map_or(Ok(None), |inner| inner.path_kind(key))
    }

    /// Keys and prefixes one level below `prefix`, of the first `limit` entries of a local folder.
    /// None: the store has no folders, has staged changes, or may not list this folder.
    fn first_entries(&self, prefix: &str, limit: usize) -> Result<Option<Listing>> {
        self.inner().map_or(Ok(None), |inner| inner.first_entries(prefix, limit))
    }

    /// Keys and prefixes one level below `prefix`.
    fn list_dir(&self, prefix: &str) -> Result<Listing>;

    /// Remove every key under `prefix` ("" or ending in "/").
    fn delete_prefix(&self, prefix: &str) -> Result<()>;

    /// Return whether [`Store::delete_prefix`] is atomic for readers and when the process is
    /// killed.
    fn deletes_atomically(&self, prefix: &str) -> bool {
        self.inner().is_some_and(|inner| inner.deletes_atomically(prefix))
    }

    /// Return whether [`Store::replace_prefix`] works for `prefix`.
    fn replaces_atomically(&self, prefix: &str) -> bool {
        self.inner().is_some_and(|inner| inner.replaces_atomically(prefix))
    }

    /// Move every key under `staged` to `prefix`, atomically for readers and if the process is
    /// killed. The old keys under `prefix` are removed, or move to `staged`. Return false, without
    /// effect, if the store does not support this.
    fn replace_prefix(&self, staged: &str, prefix: &str) -> Result<bool> {
        self.inner().map_or(Ok(false), |inner| inner.replace_prefix(staged, prefix))
    }

    /// Remove every key under `prefix` before others are written there. A folder may remain, and
    /// the removal is as durable as the next write.
    fn clear_prefix(&self, prefix: &str) -> Result<()> {
        self.delete_prefix(prefix)
    }

    /// Remove the symbolic link at the folder of `prefix`, not its target. False: the folder is no
    /// symbolic link.
    fn remove_link(&self, prefix: &str) -> Result<bool> {
        self.inner().map_or(Ok(false), |inner| inner.remove_link(prefix))
    }

    /// Remove every key that begins with `start` and is in `range`.
    fn delete_range(&self, start: &str, range: KeyRange<'_>) -> Result<()> {
        self.delete_range_before(start, range, &|_| false)
    }

    /// Like `delete_range`, but keys for which `replaced` returns true may remain: they are written
    /// next.
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
        keys.iter().try_for_each(|key| {
            self.update(key, UpdateOptions::UNCONDITIONAL, &mut |_| Ok(Change::Delete)).map(|_| ())
        })
    }

    /// Apply all `changes` atomically, if each precondition holds. Return false, without effect, if
    /// one does not hold. None: not supported.
    fn exchange(&self, _changes: &[Exchange]) -> Result<Option<bool>> {
        Ok(None)
    }

    /// Return the inner store of a wrapper, whose properties this store inherits.
    fn inner(&self) -> Option<&dyn Store> {
        None
    }

    /// Return whether one key is read, or replaced unconditionally, without waiting for a device or
    /// for other threads: in less time than releasing Python's lock takes.
    fn is_nonblocking(&self) -> bool {
        false
    }

    /// Return the syntax of its keys.
    fn keys(&self) -> KeySyntax {
        self.inner().map_or(KeySyntax::Paths, |inner| inner.keys())
    }

    /// Return whether the store rejects every change.
    fn read_only(&self) -> bool {
        self.inner().is_some_and(|inner| inner.read_only())
    }

    /// Return whether [`Store::hold`] excludes every process whose updates exclude each other.
    fn is_exclusive(&self) -> bool {
        self.inner().is_none_or(|inner| inner.is_exclusive())
    }

    /// Return how many concurrent requests the store needs because each has a latency; 0: requests
    /// return at once.
    fn concurrency(&self) -> usize {
        self.inner().map_or(0, |inner| inner.concurrency())
    }

    /// Return whether values are in local files: reading one of them in pieces, by several threads,
    /// counts as one request.
    fn is_local(&self) -> bool {
        self.inner().is_some_and(|inner| inner.is_local())
    }

    /// Return the interface for reads without a thread for each; None: not supported.
    fn async_get(&self) -> Option<Arc<dyn AsyncGet>> {
        None
    }

    /// Return the interface for writes without a thread for each; None: not supported now.
    fn async_put(&self) -> Option<Arc<dyn AsyncPut>> {
        None
    }

    /// Return an error if this thread must not block on the store: other threads would wait for
    /// this thread.
    fn check_may_block(&self) -> Result<()> {
        self.inner().map_or(Ok(()), |inner| inner.check_may_block())
    }

    /// Wait for a permit to decode or encode a chunk, which the returned guard holds. No request
    /// runs during the wait.
    fn coding_permit(&self) -> Result<Option<Permit<'_>>> {
        self.inner().map_or(Ok(None), |inner| inner.coding_permit())
    }

    /// Return whether a cache has room for a value of this many bytes.
    fn can_cache(&self, bytes: usize) -> bool {
        self.inner().is_some_and(|inner| inner.can_cache(bytes))
    }

    /// Return whether a cache holds some of the value of `key`, which it may evict.
    fn is_cached(&self, key: &str) -> bool {
        self.inner().is_some_and(|inner| inner.is_cached(key))
    }

    /// Return the time of the request whose cached response the store would return now, if any.
    fn cached_since(&self, key: &str) -> Option<Instant> {
        self.inner().and_then(|inner| inner.cached_since(key))
    }

    /// Return the same store on top of `shared` instead of `below`, so that reads are coalesced.
    /// None: `below` is not below this store.
    fn with_coalescing(
        &self,
        _below: &Arc<dyn Store>,
        _shared: &Arc<CoalescingStore>,
    ) -> Option<Arc<dyn Store>> {
        None
    }

    /// Return the time since which a coalesced response about `key` is shared.
    fn coalesced_since(&self, key: &str) -> Option<SystemTime> {
        self.inner().and_then(|inner| inner.coalesced_since(key))
    }

    /// Return how many concurrent writes the store needs.
    fn write_concurrency(&self) -> usize {
        self.inner().map_or_else(|| self.concurrency(), |inner| inner.write_concurrency())
    }
}

/// `store` on top of `shared` instead of `below`, see [`Store::with_coalescing`].
pub fn with_coalescing(
    store: &Arc<dyn Store>,
    below: &Arc<dyn Store>,
    shared: &Arc<CoalescingStore>,
) -> Option<Arc<dyn Store>> {
    match std::ptr::addr_eq(Arc::as_ptr(store), Arc::as_ptr(below)) {
        true => Some(shared.clone()),
        false => store.with_coalescing(below, shared),
    }
}

impl dyn Store + '_ {
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
        self.read(key, limit.map_or(ReadHint::Whole, ReadHint::Prefix), |object| {
            let Some(object) = object else { return Ok(None) };
            check_size(&*object, limit).map_err(|error| error.at_key(key))?;
            LoadedValue::of(object).map(Some)
        })
    }

    /// Return the whole value in memory and its version, if the store has versions.
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
        let mut matched = false;
        let options = UpdateOptions { strict: true, ..UpdateOptions::READ_CURRENT };
        self.update(key, options, &mut |current| {
            matched = match (current, expected) {
                (None, None) => true,
                (Some(object), Some(bytes)) => has_bytes(object, bytes)?,
                _ => false,
            };
            Ok(match data {
                _ if !matched => Change::Keep,
                Some(data) => Change::Write(vec![ValuePart::Borrowed(data)]),
                None => Change::Delete,
            })
        })?;
        Ok(matched)
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

/// Return the part of `start` up to its last "/".
fn folder_of(start: &str) -> &str {
    &start[..start.rfind('/').map_or(0, |slash| slash + 1)]
}

#[cfg(test)]
mod tests;
