//! Readers of stored values.

use std::sync::Arc;

use super::Version;
use crate::error::{Error, Result};

/// The bytes that the caller is going to read, so that a remote store can fetch them with the first
/// request. Local and memory stores ignore the hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadHint {
    /// The whole value.
    Whole,
    /// The first bytes, then ranges.
    Prefix(u64),
    /// The last bytes, then ranges.
    Suffix(u64),
    /// This range, then others.
    Range {
        /// The offset of the first byte.
        offset: u64,
        /// The number of bytes.
        count: u64,
    },
    /// Ranges that are not known yet.
    UnknownRanges,
    /// Only whether the value changed.
    Revalidate,
    /// The first bytes, then ranges, unless the value still has this version: then nothing.
    IfChanged {
        /// The known version.
        version: Version,
        /// The size of the value with this version.
        size: u64,
        /// The number of bytes of another value; `u64::MAX`: all.
        prefix: u64,
    },
}

/// How bytes of a value are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadFlags {
    /// A cache stores the decoded values of these bytes, not the bytes.
    pub decoded_is_cached: bool,
    /// The read belongs to an earlier request, see [`super::Store::is_local`].
    pub continues_request: bool,
}

/// One open value of a store. Replacing the value later does not change what the reader returns.
///
/// A wrapper returns its inner reader, and implements only what it changes. A value in memory
/// returns its bytes.
pub trait ValueReader: Send + Sync {
    /// Fill `out` from `offset`; a range past the end raises a `Kind::Data` error.
    fn read_with(&self, offset: u64, out: &mut [u8], flags: ReadFlags) -> Result<()> {
        match (self.bytes(), self.inner()) {
            (Some(bytes), _) => read_from(bytes, offset, out),
            (None, Some(inner)) => inner.read_with(offset, out, flags),
            (None, None) => Err(Error::internal("a reader without bytes")),
        }
    }

    /// Like `read_with`, without flags.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.read_with(offset, out, ReadFlags::default())
    }

    /// Return the inner reader of a wrapper.
    fn inner(&self) -> Option<&dyn ValueReader> {
        None
    }

    /// Return the size in bytes.
    fn size(&self) -> u64 {
        let in_memory = || self.bytes().map_or(0, |bytes| bytes.len() as u64);
        self.inner().map_or_else(in_memory, ValueReader::size)
    }

    /// Return the version of the value, if the store has versions.
    fn version(&self) -> Option<Version> {
        self.inner()?.version()
    }

    /// Return the version for comparison with an earlier one. A value that changed very recently
    /// has no `version`, because another change could have the same time stamp.
    fn state(&self) -> Option<Version> {
        self.inner().map_or_else(|| self.version(), ValueReader::state)
    }

    /// Return whether a cache holds these bytes, so that reading them needs no request.
    fn is_cached(&self, offset: u64, count: u64) -> bool {
        self.inner().is_some_and(|inner| inner.is_cached(offset, count))
    }

    /// Return whether reading these bytes needs exactly one request, which the store can start
    /// asynchronously.
    fn needs_request(&self, offset: u64, count: u64) -> bool {
        self.inner().is_some_and(|inner| inner.needs_request(offset, count))
    }

    /// Return the cache of chunks that are decoded from this value, if any.
    fn decoded_cache(&self) -> Option<&dyn DecodedCache> {
        self.inner()?.decoded_cache()
    }

    /// Return the whole value, if it is in memory.
    fn bytes(&self) -> Option<&[u8]> {
        self.inner()?.bytes()
    }

    /// Return the file, if any, for copies inside the kernel.
    fn file(&self) -> Option<&std::fs::File> {
        self.inner()?.file()
    }
}

/// A cache of chunks that are decoded from one state of a value.
pub trait DecodedCache: Send + Sync {
    /// Return whether a chunk of this size fits into the cache.
    fn has_room(&self, bytes: usize) -> bool;

    /// Return the chunk that `level` decodes from `size` bytes at `offset`.
    fn get(&self, offset: u64, size: u64, level: u64) -> Option<Arc<Vec<u8>>>;

    /// Store a decoded chunk.
    fn insert(&self, offset: u64, size: u64, level: u64, bytes: Vec<u8>);

    /// Return whether the cache holds only compressed chunks of which a part was read.
    fn is_for_parts(&self) -> bool {
        false
    }

    /// Return whether no chunk of the value is cached.
    fn is_empty(&self) -> bool {
        false
    }

    /// Record a read of a part of the chunk that `level` decodes from `offset`, and return whether
    /// an earlier one was recorded lately.
    fn is_read_again(&self, _offset: u64, _level: u64) -> bool {
        true
    }
}

/// A whole value in memory.
pub enum LoadedValue {
    /// The store holds it in memory.
    InStore(Box<dyn ValueReader>),
    /// A copy.
    Copied(Vec<u8>),
}

impl LoadedValue {
    /// Load the value of `object`.
    pub fn of(object: Box<dyn ValueReader>) -> Result<Self> {
        match object.bytes() {
            Some(_) => Ok(LoadedValue::InStore(object)),
            None => read_all(&*object).map(LoadedValue::Copied),
        }
    }

    /// Return the bytes of the value.
    pub fn bytes(&self) -> &[u8] {
        match self {
            LoadedValue::InStore(object) => object.bytes().unwrap_or_default(),
            LoadedValue::Copied(bytes) => bytes,
        }
    }
}

/// The error code of a [`ValueReader`] that cannot continue because the value was replaced.
pub(super) const REPLACED: &str = "value_replaced";

/// Reject a value of more than `limit` bytes (`Kind::Data`).
pub fn check_size(object: &dyn ValueReader, limit: Option<u64>) -> Result<()> {
    match limit {
        Some(limit) if object.size() > limit => {
            let message = format!("has {} bytes, at most {limit} are allowed", object.size());
            Err(Error { code: Some("too_large"), ..Error::data(message) })
        }
        _ => Ok(()),
    }
}

/// Read all bytes of `object`.
pub fn read_all(object: &dyn ValueReader) -> Result<Vec<u8>> {
    if let Some(bytes) = object.bytes() {
        return Ok(bytes.to_vec());
    }
    let mut out = room_for(object.size())?;
    out.resize(object.size() as usize, 0);
    object.read_at(0, &mut out)?;
    Ok(out)
}

/// Return whether the bytes of `object` equal `expected`.
pub(super) fn has_bytes(object: &dyn ValueReader, expected: &[u8]) -> Result<bool> {
    if object.size() != expected.len() as u64 {
        return Ok(false);
    }
    match object.bytes() {
        Some(bytes) => Ok(bytes == expected),
        None => Ok(read_all(object)? == expected),
    }
}

/// Fill `out` from the bytes of a value.
pub(super) fn read_from(bytes: &[u8], offset: u64, out: &mut [u8]) -> Result<()> {
    let bytes_in_range = usize::try_from(offset)
        .ok()
        .and_then(|start| Some(start..start.checked_add(out.len())?))
        .and_then(|range| bytes.get(range));
    match bytes_in_range {
        Some(bytes_in_range) => out.copy_from_slice(bytes_in_range),
        None => return Err(past_the_end(offset, out.len(), bytes.len() as u64)),
    }
    Ok(())
}

pub(super) fn past_the_end(offset: u64, count: usize, size: u64) -> Error {
    Error::size(format!("a value of {size} bytes has no {count} bytes at offset {offset}"))
}

/// Return the error of a read from a value that was replaced.
pub fn replaced(key: &str) -> Error {
    let message = "another writer replaced the value during the read; read again";
    Error { code: Some(REPLACED), ..Error::store(true, message) }.at_key(key)
}

/// Return an empty vector with capacity for `size` bytes; too large a size raises an error instead
/// of aborting.
pub(super) fn room_for(size: u64) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    crate::scratch::reserve(&mut out, usize::try_from(size).unwrap_or(usize::MAX))?;
    Ok(out)
}

/// Bytes of a value that is not stored, or not yet. It has no version: two values with the same
/// bytes are equal.
pub(super) struct Unversioned(pub(super) Arc<Vec<u8>>);

impl ValueReader for Unversioned {
    fn bytes(&self) -> Option<&[u8]> {
        Some(&self.0)
    }
}
