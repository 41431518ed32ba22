//! Stores: keys to byte strings, read by ranges, replaced atomically.

use std::fmt::Debug;

use crate::error::Result;

/// Identifies one state of a value: equal versions mean equal bytes.
/// Local: (device, inode, size, mtime ns and ctime ns mixed); memory: a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version(pub [u64; 4]);

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

/// A piece of a new value.
#[derive(Debug)]
pub enum Part<'a> {
    /// Bytes that a worker made; handed back for reuse.
    Owned(Vec<u8>),
    /// Bytes of the caller.
    Borrowed(&'a [u8]),
    /// `size` bytes of the current value from `offset`, copied as they are.
    Current {
        /// First byte in the current value.
        offset: u64,
        /// How many.
        size: u64,
    },
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

/// Decides the change of one key, given its current value (None: absent).
/// A store with optimistic concurrency may call it again on a conflict.
pub type Updater<'f, 'a> = dyn FnMut(Option<&dyn Object>) -> Result<Change<'a>> + 'f;

/// A directory listing one level down.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Keys directly under the prefix, sorted, whole keys.
    pub keys: Vec<String>,
    /// Prefixes one level down, sorted, each ending in "/", whole.
    pub prefixes: Vec<String>,
}

/// A key-value store. Keys are "/"-separated, relative, without empty, "." or
/// ".." segments; anything else is refused (`Kind::Argument`) before any I/O.
pub trait Store: Send + Sync + Debug {
    /// Open one value; None if the key is absent (a directory is absent too).
    fn open(&self, key: &str, want: Want) -> Result<Option<Box<dyn Object>>>;

    /// Decide and make one change so that no other `update` of this key, by
    /// any thread or process, falls between. `updater` sees the current value
    /// where `needs_current`, else None. Gives back what was written.
    fn update<'a>(&self, key: &str, needs_current: bool, updater: &mut Updater<'_, 'a>)
        -> Result<Change<'a>>;

    /// Every key under `prefix` ("" or ending in "/"), sorted.
    fn list(&self, prefix: &str) -> Result<Vec<String>>;

    /// Keys and prefixes one level below `prefix`.
    fn list_dir(&self, prefix: &str) -> Result<Listing>;

    /// Remove every key under `prefix` ("" or ending in "/").
    fn delete_prefix(&self, prefix: &str) -> Result<()>;

    /// Refuses every change.
    fn read_only(&self) -> bool {
        false
    }
}
