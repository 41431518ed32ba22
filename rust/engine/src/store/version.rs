//! Versions: identifiers of one state of a value.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Identifies one state of a value: equal versions mean equal bytes, in any store.
///
/// Local: (device, inode, size, mtime ns and ctime ns mixed); memory: a counter; foreign: a hash of
/// store and key, and the store's own generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    size: u8,
    bytes: [u8; Version::MAX_BYTES],
}

/// The size of the hash of store and key.
const LOCATION_BYTES: usize = size_of::<u64>();

impl Version {
    /// The maximum size.
    const MAX_BYTES: usize = 87;

    /// Restore a version from its bytes; None: too many bytes.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut version = Version { size: bytes.len().try_into().ok()?, bytes: [0; Version::MAX_BYTES] };
        version.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(version)
    }

    /// Return a version in a store of this machine.
    pub(super) fn of(words: [u64; 4]) -> Self {
        let mut version = Version { size: 32, bytes: [0; Version::MAX_BYTES] };
        version.bytes[..32].copy_from_slice(words.map(u64::to_le_bytes).as_flattened());
        version
    }

    /// Return a version in a foreign store with its own generation `tag`; None if that is too long.
    pub fn foreign(store: u64, key: &str, tag: &[u8]) -> Option<Self> {
        let mut hasher = DefaultHasher::new();
        (store, key).hash(&mut hasher);
        Version::new(&[&hasher.finish().to_le_bytes(), tag].concat())
    }

    /// Return the bytes of the version.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.size)).unwrap_or_default()
    }

    /// Return the generation in a foreign store.
    pub fn tag(&self) -> &[u8] {
        self.bytes().get(LOCATION_BYTES..).unwrap_or_default()
    }
}
