//! Stores: keys to byte strings, read by ranges, replaced atomically.

mod cached;
mod counting;
mod exchange;
mod foreign;
pub(crate) mod fork;
mod key;
mod keylock;
mod limits;
mod local;
mod memory;
mod prefix;
mod readonly;
mod retrying;
mod shared;
mod split;
mod staged;
mod version;
mod wait;
mod watched;

use std::fmt::Debug;
use std::sync::Arc;

use crate::error::{Error, Kind, Result};

pub use cached::{CacheCounts, CachePool, CachedStore, Fresh};
pub use counting::{CountingStore, Counts};
pub use exchange::{Exchange, Expected, New};
pub use foreign::{Foreign, ForeignStore, Replaced};
pub use key::{check_key, check_prefix, is_key, LOCK_SUFFIX};
pub use limits::{Limited, Limits, Rate, Turn};
pub use local::{asked_of_files, LocalStore, Locking, Reading, Settings};
pub use memory::MemoryStore;
pub use prefix::PrefixStore;
pub use readonly::ReadOnlyStore;
pub use retrying::{Retries, RetryingStore};
pub use shared::SharedStore;
pub use split::SplitStore;
pub use staged::{Outcome, Redo, StagedStore};
pub use version::Version;
pub use wait::while_waiting;
pub use watched::{Call, Done, Latency, Looked, Watch, WatchedStore};

/// What the caller is going to read, so that a remote store can fetch it with
/// the first request. Local and memory stores need no hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// All of the value.
    Whole,
    /// Its first bytes, then ranges.
    Prefix(u64),
    /// Its last bytes, then ranges.
    Suffix(u64),
    /// Ranges, known later.
    Ranges,
}

/// One value of a store, opened: later replacement does not change what it reads.
pub trait Object: Send + Sync {
    /// The size in bytes.
    fn size(&self) -> u64;

    /// The state that was opened, where the store can tell.
    fn version(&self) -> Option<Version>;

    /// The state that was opened, to be compared with a version that was had before: it may be
    /// too young to be one, because it could change again and look the same.
    fn state(&self) -> Option<Version> {
        self.version()
    }

    /// Fill `out` from `offset`; a range past the end is a `Kind::Data` error.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()>;

    /// The whole value where it is in memory anyway.
    fn bytes(&self) -> Option<&[u8]> {
        None
    }

    /// The file, where there is one, for copying inside the kernel.
    fn file(&self) -> Option<&std::fs::File> {
        None
    }
}

/// A whole value in memory.
pub enum Loaded {
    /// The store has it there.
    There(Box<dyn Object>),
    /// It was read.
    Copied(Vec<u8>),
}

impl Loaded {
    /// The value of `object`.
    pub fn of(object: Box<dyn Object>) -> Result<Self> {
        match object.bytes() {
            Some(_) => Ok(Loaded::There(object)),
            None => read_all(&*object).map(Loaded::Copied),
        }
    }

    /// The value.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Loaded::There(object) => object.bytes().unwrap_or_default(),
            Loaded::Copied(bytes) => bytes,
        }
    }
}

/// The code of the error of an [`Object`] that cannot go on reading the value that it
/// opened, because another took its place.
const REPLACED: &str = "value_replaced";

/// How often a value is read again that was replaced while it was read.
const ATTEMPTS: usize = 100;

/// A piece of a new value.
#[derive(Debug)]
pub enum Part<'a> {
    /// Bytes that a worker made; handed back for reuse.
    Owned(Vec<u8>),
    /// Bytes of the caller.
    Borrowed(&'a [u8]),
    /// Bytes that the store may keep as they are.
    Shared(Arc<Vec<u8>>),
    /// `size` bytes of the current value from `offset`, copied as they are.
    Current {
        /// First byte in the current value.
        offset: u64,
        /// How many.
        size: u64,
    },
}

impl Part<'_> {
    fn again(&self) -> Part<'_> {
        match self {
            Part::Owned(bytes) => Part::Borrowed(bytes),
            Part::Borrowed(bytes) => Part::Borrowed(bytes),
            Part::Shared(bytes) => Part::Shared(bytes.clone()),
            Part::Current { offset, size } => Part::Current { offset: *offset, size: *size },
        }
    }

    /// The size in bytes.
    pub fn size(&self) -> u64 {
        match self {
            Part::Owned(bytes) => bytes.len() as u64,
            Part::Borrowed(bytes) => bytes.len() as u64,
            Part::Shared(bytes) => bytes.len() as u64,
            Part::Current { size, .. } => *size,
        }
    }
}

/// What to do with one key.
#[derive(Debug)]
pub enum Change<'a> {
    /// Leave it as it is.
    Keep,
    /// Remove it; a missing key is fine.
    Delete,
    /// Replace the value by these parts, one after another.
    Write(Vec<Part<'a>>),
}

impl Change<'_> {
    /// The same change, of bytes that stay where they are.
    fn again(&self) -> Change<'_> {
        match self {
            Change::Keep => Change::Keep,
            Change::Delete => Change::Delete,
            Change::Write(parts) => Change::Write(parts.iter().map(Part::again).collect()),
        }
    }
}

/// What who changes a key has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Its current value, in order to decide the change.
    pub current: bool,
    /// The version of the new one, where the store can tell.
    pub version: bool,
    /// What the current value is thought to be. A store that compares when it makes a change
    /// need not open the value then: who decides is given an object of that version, with
    /// nothing in it, and is asked again if the value is another one.
    pub known: Known,
    /// Whether nothing is to be changed if the value is not what it is thought to be: then a
    /// store that compares need not ask who decides again. What was made is [`Change::Keep`] then.
    pub only: bool,
}

/// What somebody thinks that a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Anything.
    Nothing,
    /// There is none.
    Absent,
    /// It is in this state.
    Version(Version),
}

impl Need {
    /// Nothing.
    pub const NOTHING: Need = Need { current: false, version: false, known: Known::Nothing, only: false };
    /// The current value.
    pub const CURRENT: Need = Need { current: true, ..Need::NOTHING };

    /// The current value, or nothing.
    pub fn of_current(current: bool) -> Self {
        Need { current, ..Need::NOTHING }
    }

    /// The current value, in order to compare it with what it is expected to be.
    pub fn of_expected(expected: &Expected) -> Self {
        let known = match expected {
            Expected::Absent => Known::Absent,
            Expected::Version(version) => Known::Version(*version),
            Expected::Anything | Expected::Bytes(_) => Known::Nothing,
        };
        Need { known, ..Need::of_current(*expected != Expected::Anything) }
    }
}

/// A change that was made.
#[derive(Debug)]
pub struct Made<'a> {
    /// The change, for reuse of its buffers.
    pub change: Change<'a>,
    /// The version of the new value, where that was needed and is known.
    pub version: Option<Version>,
}

impl<'a> From<Change<'a>> for Made<'a> {
    fn from(change: Change<'a>) -> Self {
        Made { change, version: None }
    }
}

/// Decides the change of one key, given its current value (None: absent).
/// It may be called again where it sees the current value: on a conflict, or if the change could
/// not be made.
pub type Updater<'f, 'a> = dyn FnMut(Option<&dyn Object>) -> Result<Change<'a>> + 'f;

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
        self.first <= key.as_bytes() && !self.is_before(key)
    }

    /// Whether every key is in it.
    fn is_all(&self) -> bool {
        self.first.is_empty() && self.end.is_empty()
    }

    /// Whether the range ends before a key.
    fn is_before(&self, key: &str) -> bool {
        !self.end.is_empty() && self.end <= key.as_bytes()
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

/// A key-value store. Keys are "/"-separated, relative, without empty, "." or
/// ".." segments; anything else is refused (`Kind::Argument`) before any I/O.
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

    /// Keys and prefixes one level below `prefix`.
    fn list_dir(&self, prefix: &str) -> Result<Listing>;

    /// Remove every key under `prefix` ("" or ending in "/").
    fn delete_prefix(&self, prefix: &str) -> Result<()>;

    /// Remove every key under `prefix` because others are stored there at once: a folder may stay, and
    /// that they are gone is as durable as what is stored next.
    fn clear_prefix(&self, prefix: &str) -> Result<()> {
        self.delete_prefix(prefix)
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

    /// Waits until one more chunk of what is here may be decoded or encoded; it is so as long as
    /// what is given back lives. No request is made meanwhile.
    fn decoding(&self) -> Result<Option<Turn<'_>>> {
        self.inner().map_or(Ok(None), |inner| inner.decoding())
    }

    /// How many changes should be under way at a time.
    fn write_concurrency(&self) -> usize {
        self.inner().map_or_else(|| self.concurrency(), |inner| inner.write_concurrency())
    }
}

impl dyn Store + '_ {
    /// What `work` makes of the value of `key`, opened; None: it is absent. Where the
    /// value was replaced between two parts that `work` read, `work` starts again.
    pub fn read<T>(
        &self,
        key: &str,
        want: Want,
        mut work: impl FnMut(Option<Box<dyn Object>>) -> Result<T>,
    ) -> Result<T> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            match work(self.open(key, want)?) {
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

    /// Removes `key`; that it is absent is fine.
    pub fn delete(&self, key: &str) -> Result<()> {
        self.update(key, Need::NOTHING, &mut |_| Ok(Change::Delete))?;
        Ok(())
    }

    /// Changes `key` to `data` if its value is `expected` (None: absent), at once.
    /// Gives false, and changes nothing, if it is not.
    pub fn replace(&self, key: &str, data: Option<&[u8]>, expected: Option<&[u8]>) -> Result<bool> {
        let mut matched = false;
        self.update(key, Need::CURRENT, &mut |current| {
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

    /// Removes every key that begins with `start` and is in a range.
    pub fn delete_range(&self, start: &str, range: KeyRange<'_>) -> Result<()> {
        if range.is_all() && folder_of(start) == start {
            return self.delete_prefix(start);
        }
        let mut keys = Vec::new();
        self.list_range(start, range, &mut |key| keys.push(key.to_owned()))?;
        keys.iter().try_for_each(|key| self.delete(key))
    }
}

/// Refuses a value of more than `limit` bytes (`Kind::Data`).
pub fn check_size(object: &dyn Object, limit: Option<u64>) -> Result<()> {
    match limit {
        Some(limit) if object.size() > limit => {
            let message = format!("has {} bytes, at most {limit} are allowed", object.size());
            Err(Error { code: Some("too_large"), ..Error::data(message) })
        }
        _ => Ok(()),
    }
}

/// What a text begins with, up to its last "/".
fn folder_of(start: &str) -> &str {
    &start[..start.rfind('/').map_or(0, |slash| slash + 1)]
}

/// All bytes of `object`.
pub fn read_all(object: &dyn Object) -> Result<Vec<u8>> {
    if let Some(bytes) = object.bytes() {
        return Ok(bytes.to_vec());
    }
    let mut out = room_for(object.size())?;
    out.resize(object.size() as usize, 0);
    object.read_at(0, &mut out)?;
    Ok(out)
}

/// Whether the bytes of `object` are `expected`.
fn holds(object: &dyn Object, expected: &[u8]) -> Result<bool> {
    if object.size() != expected.len() as u64 {
        return Ok(false);
    }
    match object.bytes() {
        Some(bytes) => Ok(bytes == expected),
        None => Ok(read_all(object)? == expected),
    }
}

/// [`Object::read_at`] of a value in memory.
pub fn read_from(bytes: &[u8], offset: u64, out: &mut [u8]) -> Result<()> {
    let found = usize::try_from(offset)
        .ok()
        .and_then(|start| Some(start..start.checked_add(out.len())?))
        .and_then(|range| bytes.get(range));
    match found {
        Some(found) => out.copy_from_slice(found),
        None => return Err(past_the_end(offset, out.len(), bytes.len() as u64)),
    }
    Ok(())
}

fn past_the_end(offset: u64, count: usize, size: u64) -> Error {
    Error::size(format!("a value of {size} bytes has no {count} bytes at offset {offset}"))
}

/// The bytes that `parts` make, one after another.
fn joined(parts: &[Part<'_>], current: Option<&dyn Object>) -> Result<Vec<u8>> {
    let mut out = room_for(parts.iter().map(Part::size).fold(0, u64::saturating_add))?;
    for part in parts {
        match part {
            Part::Owned(bytes) => out.extend_from_slice(bytes),
            Part::Borrowed(bytes) => out.extend_from_slice(bytes),
            Part::Shared(bytes) => out.extend_from_slice(bytes),
            Part::Current { offset, size } => {
                let current = current.ok_or_else(no_current)?;
                let start = out.len();
                out.resize(start + *size as usize, 0);
                current.read_at(*offset, &mut out[start..])?;
            }
        }
    }
    Ok(out)
}

/// The value of `key` that was opened can no longer be read.
pub fn replaced(key: &str) -> Error {
    let kind = Kind::Store { retryable: true, errno: None };
    let message = "others replaced the value while parts of it were read; read again";
    Error { code: Some(REPLACED), ..Error::new(kind, message) }.at_key(key)
}

fn no_current() -> Error {
    Error::internal("a part of the current value, but there is none")
}

/// An empty vector with room for `size` bytes; too much is an error, no abort.
fn room_for(size: u64) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    crate::scratch::reserve(&mut out, usize::try_from(size).unwrap_or(usize::MAX))?;
    Ok(out)
}

#[cfg(test)]
mod tests;
