//! Settings of a local store.

use std::time::Duration;

/// Settings of a local store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Reject every change.
    pub read_only: bool,
    /// Return from a change when it has reached the disk.
    pub durable: bool,
    /// How values are read.
    pub read_mode: ReadMode,
    /// How writers of one key exclude each other.
    pub locking: Locking,
    /// How long to wait for another writer of a key. A write takes seconds at most; a longer wait
    /// means a stopped process or a broken network file system.
    pub timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            read_only: false,
            durable: false,
            read_mode: ReadMode::Plain,
            locking: Locking::System,
            timeout: Duration::from_secs(60),
        }
    }
}

/// How values are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadMode {
    /// Through the page cache.
    Plain,
    /// As mapped memory, without a copy.
    Mapped,
    /// Past the page cache, if the file system supports it.
    Direct,
}

/// How writers of one key exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Locking {
    /// By a system lock on the lock file. A lock file of a killed writer is taken over.
    System,
    /// By creating the lock file. A lock file of a killed writer must be removed by hand.
    File,
    /// Not at all, except within the process. Each value is replaced atomically; of two concurrent
    /// changes of one value one may be lost.
    Nothing,
    /// Like `Nothing`, and values are changed in place: readers may see half a change.
    InPlace,
}
