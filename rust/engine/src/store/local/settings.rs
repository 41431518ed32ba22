//! How a folder is used.

use std::time::Duration;

/// What may be chosen of a store in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Refuse every change.
    pub read_only: bool,
    /// Every change has reached the disk when the call returns.
    pub durable: bool,
    /// How values are read.
    pub reading: Reading,
    /// How writers of one key keep out of each other's way.
    pub locking: Locking,
    /// How long to wait for another writer of one key. Writing one value takes seconds at
    /// most; a longer wait means a stopped process or a broken network file system.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            read_only: false,
            durable: false,
            reading: Reading::Plain,
            locking: Locking::System,
            patience: Duration::from_secs(60),
        }
    }
}

/// How values are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reading {
    /// Through the cache of the system.
    Plain,
    /// As memory: without a copy.
    Mapped,
    /// Past the cache of the system, where the file system can do that.
    Direct,
}

/// How writers of one key keep out of each other's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Locking {
    /// By a lock of the system on the lock file; one that a killed writer left is taken over.
    System,
    /// By the lock file: whoever makes it may write. One that a killed writer left has to be
    /// removed by hand.
    File,
    /// Not at all, except within the process. Each value is replaced at once; of two changes
    /// of parts of one value one may be lost.
    Nothing,
    /// As `Nothing`, and values are changed in place: readers may see half of a change.
    InPlace,
}
