//! Values of a store, opened and read.

use std::sync::Arc;

use super::Version;
use crate::error::{Error, Kind, Result};

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
    /// These bytes, then ranges.
    Part {
        /// Where they begin.
        offset: u64,
        /// How many they are.
        count: u64,
    },
    /// Ranges, known later.
    Ranges,
    /// Nothing, unless it is another one than it was.
    Nothing,
}

/// How bytes of a value are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    /// What is decoded of them is remembered instead of them.
    pub once: bool,
    /// They are of what was asked for with others before, see [`super::Store::at_hand`].
    pub more: bool,
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

    /// The same, where it is known how these bytes are read.
    fn read_as(&self, offset: u64, out: &mut [u8], _how: How) -> Result<()> {
        self.read_at(offset, out)
    }

    /// Whether these bytes are remembered, and nothing is asked for them.
    fn remembers(&self, _offset: u64, _count: u64) -> bool {
        false
    }

    /// Whether a request is sent for these bytes, and no other one if the store is asked for this part of the value.
    fn takes_request(&self, _offset: u64, _count: u64) -> bool {
        false
    }

    /// Where chunks stay that are decoded of it, if they do.
    fn decoded(&self) -> Option<&dyn Decoded> {
        None
    }

    /// The whole value where it is in memory anyway.
    fn bytes(&self) -> Option<&[u8]> {
        None
    }

    /// The file, where there is one, for copying inside the kernel.
    fn file(&self) -> Option<&std::fs::File> {
        None
    }
}

/// Remembers chunks that were decoded of a value, while that is the same.
pub trait Decoded: Send + Sync {
    /// Whether there is room for a chunk of so many bytes.
    fn has_room(&self, bytes: usize) -> bool;

    /// The chunk that `level` decodes of `size` bytes from `offset`.
    fn find(&self, offset: u64, size: u64, level: u64) -> Option<Arc<Vec<u8>>>;

    /// Remembers such a chunk.
    fn keep(&self, offset: u64, size: u64, level: u64, bytes: Vec<u8>);
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
pub(super) const REPLACED: &str = "value_replaced";

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
pub(super) fn holds(object: &dyn Object, expected: &[u8]) -> Result<bool> {
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

pub(super) fn past_the_end(offset: u64, count: usize, size: u64) -> Error {
    Error::size(format!("a value of {size} bytes has no {count} bytes at offset {offset}"))
}

/// The value of `key` that was opened can no longer be read.
pub fn replaced(key: &str) -> Error {
    let kind = Kind::Store { retryable: true, errno: None };
    let message = "others replaced the value while parts of it were read; read again";
    Error { code: Some(REPLACED), ..Error::new(kind, message) }.at_key(key)
}

/// An empty vector with room for `size` bytes; too much is an error, no abort.
pub(super) fn room_for(size: u64) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    crate::scratch::reserve(&mut out, usize::try_from(size).unwrap_or(usize::MAX))?;
    Ok(out)
}

/// Bytes of a value that is not stored, or not yet. They have no version but themselves: those that are encoded in
/// order to be looked at are then the same as those that are staged later.
pub(super) struct Unversioned(pub(super) Arc<Vec<u8>>);

impl Object for Unversioned {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn version(&self) -> Option<Version> {
        None
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        read_from(&self.0, offset, out)
    }

    fn bytes(&self) -> Option<&[u8]> {
        Some(&self.0)
    }
}
