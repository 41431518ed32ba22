//! Encoded bytes: in memory, or a range of an opened object.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::array::Level;
use crate::error::{Error, Result};
use crate::scratch::{reserve, sized};
use crate::store::{DecodedCache, ReadFlags, ValueReader, Version};

/// The version of the object that holds some bytes, and their offset in it, where known.
pub type Place = Option<(Version, u64)>;

/// The encoding of a chunk, shard or subchunk.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    data: Data<'a>,
    place: Place,
    /// Where chunks stay that are decoded of it, and the offset there.
    kept: Option<(&'a dyn DecodedCache, u64)>,
    /// The bytes are those of an object that has them in memory.
    lasts: bool,
    /// Nothing that is decoded of it has stayed.
    is_new: bool,
}

/// Where the chunk stays that a level decodes of some bytes.
#[derive(Clone, Copy)]
pub struct Kept<'a> {
    decoded: &'a dyn DecodedCache,
    offset: u64,
    size: u64,
    level: u64,
    bytes: usize,
    is_new: bool,
}

impl Kept<'_> {
    /// The chunk, if it is there.
    pub fn find(&self) -> Option<Arc<Vec<u8>>> {
        if self.is_new {
            return None;
        }
        let found = self.decoded.get(self.offset, self.size, self.level);
        found.filter(|found| found.len() == self.bytes)
    }

    /// Have the chunk stay.
    pub fn keep(&self, chunk: Vec<u8>) {
        self.decoded.insert(self.offset, self.size, self.level, chunk);
    }
}

#[derive(Clone, Copy)]
enum Data<'a> {
    Bytes(&'a [u8]),
    ValueReader { object: &'a dyn ValueReader, key: Option<&'a str>, offset: u64, size: u64, how: ReadFlags },
}

/// Bytes of a value of a store that are not in memory.
pub struct Elsewhere<'a> {
    /// What was opened of the value.
    pub object: &'a dyn ValueReader,
    /// Its key.
    pub key: &'a str,
    /// Where they begin in it.
    pub offset: u64,
}

impl<'a> Source<'a> {
    /// All of `object`.
    pub fn of(object: &'a dyn ValueReader) -> Source<'a> {
        let data = match object.bytes() {
            Some(bytes) => Data::Bytes(bytes),
            None => Data::ValueReader {
                object,
                key: None,
                offset: 0,
                size: object.size(),
                how: ReadFlags::default(),
            },
        };
        Source {
            data,
            place: object.version().map(|version| (version, 0)),
            kept: object.decoded_cache().map(|decoded| (decoded, 0)),
            lasts: matches!(data, Data::Bytes(_)),
            is_new: false,
        }
    }

    /// The same bytes, which are those of the value of a key.
    pub fn of_key(self, key: &'a str) -> Source<'a> {
        match self.data {
            Data::ValueReader { object, offset, size, how, .. } => {
                Source { data: Data::ValueReader { object, key: Some(key), offset, size, how }, ..self }
            }
            Data::Bytes(_) => self,
        }
    }

    /// Where they are of a value that has a key, if they are in no memory.
    pub fn elsewhere(&self) -> Option<Elsewhere<'a>> {
        match self.data {
            Data::ValueReader { object, key, offset, .. } => key.map(|key| Elsewhere { object, key, offset }),
            Data::Bytes(_) => None,
        }
    }

    /// Bytes that no object holds as they are: a codec made them.
    pub fn made(bytes: &'a [u8]) -> Source<'a> {
        Source { data: Data::Bytes(bytes), place: None, kept: None, lasts: false, is_new: true }
    }

    /// `bytes`, which were read here from `offset`.
    pub fn fetched<'b>(&self, offset: u64, bytes: &'b [u8]) -> Source<'b>
    where
        'a: 'b,
    {
        let (place, kept) = (self.place_of(offset), self.kept_from(offset));
        Source { data: Data::Bytes(bytes), place, kept, lasts: false, is_new: self.is_new }
    }

    /// The same bytes, of which only what is decoded is to be remembered.
    pub fn once(self) -> Source<'a> {
        self.read_so(|how| ReadFlags { decoded_is_cached: true, ..how })
    }

    /// The same bytes, which are asked for with others that are read before.
    pub fn more(self) -> Source<'a> {
        self.read_so(|how| ReadFlags { continues_request: true, ..how })
    }

    fn read_so(self, change: impl Fn(ReadFlags) -> ReadFlags) -> Source<'a> {
        match self.data {
            Data::Bytes(_) => self,
            Data::ValueReader { object, key, offset, size, how } => {
                Source { data: Data::ValueReader { object, key, offset, size, how: change(how) }, ..self }
            }
        }
    }

    /// The same bytes, of which somebody knows that no chunk has stayed of those that are decoded of it.
    pub fn all_new(self) -> Source<'a> {
        Source { is_new: true, ..self }
    }

    /// Where the chunk stays that `level` decodes of all of it, if it has room. What is as it is stored, and in
    /// memory, need not.
    pub fn kept(&self, level: &Level) -> Option<Kept<'a>> {
        let (decoded, offset) = self.kept.filter(|_| !(self.lasts && level.is_raw()))?;
        let (size, bytes) = (self.size(), level.decoded_bytes);
        let kept = Kept { decoded, offset, size, level: level.id, bytes, is_new: self.is_new };
        decoded.has_room(bytes).then_some(kept)
    }

    /// The bytes, where they are in memory.
    pub fn in_memory(&self) -> Option<&'a [u8]> {
        match self.data {
            Data::Bytes(bytes) => Some(bytes),
            Data::ValueReader { .. } => None,
        }
    }

    /// Number of bytes.
    pub fn size(&self) -> u64 {
        match self.data {
            Data::Bytes(bytes) => bytes.len() as u64,
            Data::ValueReader { size, .. } => size,
        }
    }

    /// Whether nothing is asked for its bytes, because they are remembered.
    pub fn is_remembered(&self) -> bool {
        match self.data {
            Data::Bytes(_) => true,
            Data::ValueReader { object, offset, size, .. } => object.is_cached(offset, size),
        }
    }

    /// Where the first byte is.
    pub fn place(&self) -> Place {
        self.place
    }

    fn kept_from(&self, offset: u64) -> Option<(&'a dyn DecodedCache, u64)> {
        self.kept.map(|(decoded, start)| (decoded, start + offset))
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
            Data::ValueReader { object, key, offset: start, how, .. } => {
                Data::ValueReader { object, key, offset: start + offset, size, how }
            }
        };
        let (place, kept) = (self.place_of(offset), self.kept_from(offset));
        Ok(Source { data, place, kept, ..*self })
    }

    /// Fill `out` from `offset`.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        match self.part(offset, out.len() as u64)?.data {
            Data::Bytes(bytes) => {
                out.copy_from_slice(bytes);
                Ok(())
            }
            Data::ValueReader { object, offset, how, .. } => object.read_with(offset, out, how),
        }
    }

    /// Append all bytes to `out`.
    pub fn append_to(&self, out: &mut Vec<u8>) -> Result<()> {
        let (before, size) = (out.len(), self.size() as usize);
        reserve(out, size)?;
        match self.data {
            Data::Bytes(bytes) => out.extend_from_slice(bytes),
            Data::ValueReader { object, offset, how, .. } => {
                out.resize(before + size, 0);
                object.read_with(offset, &mut out[before..], how)?;
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
            Data::ValueReader { object, offset, size, how, .. } => {
                let out = sized(buffer, size as usize)?;
                object.read_with(offset, out, how)?;
                Ok(out)
            }
        }
    }
}
