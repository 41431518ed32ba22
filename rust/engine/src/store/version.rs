//! Which state a value is in.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Identifies one state of a value: equal versions mean equal bytes, wherever they are.
///
/// Local: (device, inode, size, mtime ns and ctime ns mixed); memory: a counter; foreign: where
/// the value is, and what its store calls the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    size: u8,
    bytes: [u8; Version::MOST],
}

/// The bytes that tell where the value of a foreign store is.
const PLACE: usize = size_of::<u64>();

impl Version {
    /// So many bytes it has at most.
    const MOST: usize = 87;

    /// What these bytes were before; None: they are too many.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut found = Version { size: bytes.len().try_into().ok()?, bytes: [0; Version::MOST] };
        found.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(found)
    }

    /// Of a store of this machine.
    pub(super) fn of(words: [u64; 4]) -> Self {
        let mut found = Version { size: 32, bytes: [0; Version::MOST] };
        found.bytes[..32].copy_from_slice(words.map(u64::to_le_bytes).as_flattened());
        found
    }

    /// Of a value of a foreign store, which has a name of its own for the state; None where that
    /// is too long.
    pub fn foreign(store: u64, key: &str, tag: &[u8]) -> Option<Self> {
        let mut hasher = DefaultHasher::new();
        (store, key).hash(&mut hasher);
        Version::new(&[&hasher.finish().to_le_bytes(), tag].concat())
    }

    /// What it is made of.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.size)).unwrap_or_default()
    }

    /// What a foreign store calls the state.
    pub fn tag(&self) -> &[u8] {
        self.bytes().get(PLACE..).unwrap_or_default()
    }
}
