//! Properties of a store, and the state of its caches.

use std::time::{Instant, SystemTime};

use super::cache::RequestTime;
use super::KeySyntax;

/// The properties of a store. A wrapper inherits those of its inner store.
#[derive(Clone, Copy, Debug)]
pub struct StoreInfo {
    /// The syntax of the keys.
    pub keys: KeySyntax,
    /// Whether the store rejects every change.
    pub read_only: bool,
    /// Whether [`super::Store::hold`] excludes every process whose updates exclude each other.
    pub is_exclusive: bool,
    /// Whether an update that deletes the value sees all changes by others, as one that writes it.
    pub has_conditional_deletes: bool,
    /// Whether values are in local files: reading one of them in pieces, by several threads, counts
    /// as one request.
    pub is_local: bool,
    /// How many concurrent requests the store needs because each has a latency; 0: requests return
    /// at once.
    pub concurrency: usize,
    /// How many concurrent writes the store needs.
    pub write_concurrency: usize,
    /// The maximum size of a cached value; None: no cache.
    pub cache_limit: Option<u64>,
}

impl StoreInfo {
    /// Return whether a cache has room for a value of this many bytes.
    pub fn can_cache(&self, bytes: usize) -> bool {
        self.cache_limit.is_some_and(|limit| bytes as u64 <= limit)
    }
}

impl Default for StoreInfo {
    fn default() -> Self {
        StoreInfo {
            keys: KeySyntax::Paths,
            read_only: false,
            is_exclusive: true,
            has_conditional_deletes: true,
            is_local: false,
            concurrency: 0,
            write_concurrency: 0,
            cache_limit: None,
        }
    }
}

/// What the caches of a store hold about a key.
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheState {
    /// Whether a cache holds some of the value, which it may evict.
    pub has_content: bool,
    /// The time of the request whose cached response the store would return now.
    pub requested_at: Option<Instant>,
    /// The time since which responses about the key are coalesced.
    pub coalesced_since: Option<SystemTime>,
    pub(super) first_request: Option<RequestTime>,
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
