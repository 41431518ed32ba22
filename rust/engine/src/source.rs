//! Encoded bytes: in memory, or a range of an opened object.

use std::ops::RangeInclusive;

use crate::error::{Error, Result};
use crate::scratch::{reserve, sized};
use crate::store::{Object, Version};

/// The version of the object that holds some bytes, and their offset in it, where known.
pub type Place = Option<(Version, u64)>;

/// The encoding of a chunk, shard or subchunk.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    data: Data<'a>,
    place: Place,
}

#[derive(Clone, Copy)]
enum Data<'a> {
    Bytes(&'a [u8]),
    Object { object: &'a dyn Object, offset: u64, size: u64 },
}

impl<'a> Source<'a> {
    /// All of `object`.
    pub fn of(object: &'a dyn Object) -> Source<'a> {
        let data = match object.bytes() {
            Some(bytes) => Data::Bytes(bytes),
            None => Data::Object { object, offset: 0, size: object.size() },
        };
        Source { data, place: object.version().map(|version| (version, 0)) }
    }

    /// Bytes that no object holds as they are: a codec made them.
    pub fn made(bytes: &'a [u8]) -> Source<'a> {
        Source { data: Data::Bytes(bytes), place: None }
    }

    /// `bytes`, which were read here from `offset`.
    pub fn fetched<'b>(&self, offset: u64, bytes: &'b [u8]) -> Source<'b> {
        Source { data: Data::Bytes(bytes), place: self.place_of(offset) }
    }

    /// The bytes, where they are in memory.
    pub fn in_memory(&self) -> Option<&'a [u8]> {
        match self.data {
            Data::Bytes(bytes) => Some(bytes),
            Data::Object { .. } => None,
        }
    }

    /// Number of bytes.
    pub fn size(&self) -> u64 {
        match self.data {
            Data::Bytes(bytes) => bytes.len() as u64,
            Data::Object { size, .. } => size,
        }
    }

    /// Where the first byte is.
    pub fn place(&self) -> Place {
        self.place
    }

    fn place_of(&self, offset: u64) -> Place {
        self.place.map(|(version, start)| (version, start + offset))
    }

    /// `size` bytes from `offset`.
    pub fn part(&self, offset: u64, size: u64) -> Result<Source<'a>> {
        if offset.checked_add(size).is_none_or(|end| end > self.size()) {
            let have = self.size();
            return Err(Error::size(format!(
                "{size} bytes from {offset} reach past the end, there are {have}"
            )));
        }
        let data = match self.data {
            Data::Bytes(bytes) => Data::Bytes(&bytes[offset as usize..(offset + size) as usize]),
            Data::Object { object, offset: start, .. } => {
                Data::Object { object, offset: start + offset, size }
            }
        };
        Ok(Source { data, place: self.place_of(offset) })
    }

    /// Fill `out` from `offset`.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        match self.part(offset, out.len() as u64)?.data {
            Data::Bytes(bytes) => {
                out.copy_from_slice(bytes);
                Ok(())
            }
            Data::Object { object, offset, .. } => object.read_at(offset, out),
        }
    }

    /// Append all bytes to `out`.
    pub fn append_to(&self, out: &mut Vec<u8>) -> Result<()> {
        let (before, size) = (out.len(), self.size() as usize);
        reserve(out, size)?;
        match self.data {
            Data::Bytes(bytes) => out.extend_from_slice(bytes),
            Data::Object { object, offset, .. } => {
                out.resize(before + size, 0);
                object.read_at(offset, &mut out[before..])?;
            }
        }
        Ok(())
    }

    /// All bytes, in memory, if they are as many as they can be.
    pub fn load<'b>(&self, possible: &RangeInclusive<usize>, buffer: &'b mut Vec<u8>) -> Result<&'b [u8]>
    where
        'a: 'b,
    {
        let size = self.size();
        let (least, most) = (*possible.start() as u64, *possible.end() as u64);
        if size > most || size < least {
            let (words, bound) = if size > most { ("at most", most) } else { ("at least", least) };
            return Err(Error::size(format!("has {size} bytes, an encoded chunk here has {words} {bound}")));
        }
        match self.data {
            Data::Bytes(bytes) => Ok(bytes),
            Data::Object { object, offset, size } => {
                let out = sized(buffer, size as usize)?;
                object.read_at(offset, out)?;
                Ok(out)
            }
        }
    }
}
