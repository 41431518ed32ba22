//! Encoded bytes: in memory, or a range of an opened object.

use crate::error::{Error, Result};
use crate::scratch::sized;
use crate::store::{Object, Version};

/// Where the encoding of a chunk, shard or subchunk is.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// In memory.
    Bytes(&'a [u8]),
    /// `size` bytes of `object` from `offset`.
    Object {
        /// The opened object.
        object: &'a dyn Object,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        size: u64,
    },
}

impl<'a> Source<'a> {
    /// All of `object`.
    pub fn of(object: &'a dyn Object) -> Source<'a> {
        match object.bytes() {
            Some(bytes) => Source::Bytes(bytes),
            None => Source::Object { object, offset: 0, size: object.size() },
        }
    }

    /// Number of bytes.
    pub fn size(&self) -> u64 {
        match self {
            Source::Bytes(bytes) => bytes.len() as u64,
            Source::Object { size, .. } => *size,
        }
    }

    /// First byte inside the object.
    pub fn offset(&self) -> u64 {
        match self {
            Source::Bytes(_) => 0,
            Source::Object { offset, .. } => *offset,
        }
    }

    /// The state of the object, where it can be told.
    pub fn version(&self) -> Option<Version> {
        match self {
            Source::Bytes(_) => None,
            Source::Object { object, .. } => object.version(),
        }
    }

    /// `size` bytes from `offset`.
    pub fn part(&self, offset: u64, size: u64) -> Result<Source<'a>> {
        if offset.checked_add(size).is_none_or(|end| end > self.size()) {
            let have = self.size();
            return Err(Error::size(format!(
                "{size} bytes from {offset} reach past the end, there are {have}"
            )));
        }
        Ok(match *self {
            Source::Bytes(bytes) => Source::Bytes(&bytes[offset as usize..(offset + size) as usize]),
            Source::Object { object, offset: start, .. } => {
                Source::Object { object, offset: start + offset, size }
            }
        })
    }

    /// Fill `out` from `offset`.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        match self.part(offset, out.len() as u64)? {
            Source::Bytes(bytes) => {
                out.copy_from_slice(bytes);
                Ok(())
            }
            Source::Object { object, offset, .. } => object.read_at(offset, out),
        }
    }

    /// All bytes, in memory; at most `limit`, so that no hostile size is allocated.
    pub fn load<'b>(&self, limit: usize, buffer: &'b mut Vec<u8>) -> Result<&'b [u8]>
    where
        'a: 'b,
    {
        let size = self.size();
        if size > limit as u64 {
            return Err(Error::size(format!("has {size} bytes, an encoded chunk here has at most {limit}")));
        }
        match *self {
            Source::Bytes(bytes) => Ok(bytes),
            Source::Object { object, offset, size } => {
                let out = sized(buffer, size as usize)?;
                object.read_at(offset, out)?;
                Ok(out)
            }
        }
    }
}
