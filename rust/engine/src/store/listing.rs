//! Listings of keys, and changes of all keys under a prefix.

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
    pub(super) fn has_all(&self, start: &str) -> bool {
        self.first <= start.as_bytes() && self.end.is_empty()
    }

    /// Return whether the range ends before a key.
    pub(super) fn is_before(&self, key: &[u8]) -> bool {
        !self.end.is_empty() && self.end <= key
    }
}

/// Which keys under a prefix a listing contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// Every key.
    All,
    /// Keys and prefixes one level below the prefix.
    Level,
}

/// Keys and prefixes below a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Keys, complete and sorted.
    pub keys: Vec<String>,
    /// Prefixes one level down, complete and sorted, each ending in "/"; none in a listing of every
    /// key. A local store lists every folder, including empty ones.
    pub prefixes: Vec<String>,
}

impl Listing {
    /// Return the listing of `keys`, every key under `prefix` in order.
    pub fn of(keys: Vec<String>, prefix: &str, depth: Depth) -> Self {
        if depth == Depth::All {
            return Listing { keys, prefixes: Vec::new() };
        }
        let mut listing = Listing::default();
        for mut key in keys {
            match key[prefix.len()..].find('/') {
                None => listing.keys.push(key),
                Some(slash) => {
                    key.truncate(prefix.len() + slash + 1);
                    if listing.prefixes.last() != Some(&key) {
                        listing.prefixes.push(key);
                    }
                }
            }
        }
        listing
    }
}

/// A change of every key under a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixChange<'s> {
    /// Remove every key.
    Delete,
    /// Remove every key before others are written there. A folder may remain, and the removal is as
    /// durable as the next write.
    Clear,
    /// Remove the symbolic link at the folder of the prefix, not its target.
    RemoveLink,
    /// Move every key under this prefix to the changed one, atomically for readers and if the
    /// process is killed. The old keys are removed, or move to this prefix.
    ReplaceBy(&'s str),
}

impl<'s> PrefixChange<'s> {
    /// Return the changed prefixes.
    pub(super) fn prefixes(self, prefix: &'s str) -> impl Iterator<Item = &'s str> + Clone {
        let staged = match self {
            PrefixChange::ReplaceBy(staged) => Some(staged),
            _ => None,
        };
        std::iter::once(prefix).chain(staged)
    }
}

/// Return the part of `start` up to its last "/".
pub(super) fn folder_of(start: &str) -> &str {
    &start[..start.rfind('/').map_or(0, |slash| slash + 1)]
}
