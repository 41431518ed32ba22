//! Encoded bytes: in memory, or a range of an open value.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::array::Level;
use crate::error::{Error, Result};
use crate::scratch::{reserve, sized};
use crate::store::{DecodedCache, ReadFlags, ValueReader, Version};

/// The version of the value that holds some bytes, and their offset in it, if known.
pub type ValuePosition = Option<(Version, u64)>;

/// The encoding of a chunk, shard or subchunk.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    data: Data<'a>,
    position: ValuePosition,
    /// The cache for chunks decoded from it, and the offset there.
    decoded_slot: Option<(&'a dyn DecodedCache, u64)>,
    /// The bytes are in the memory of an open value.
    is_value_memory: bool,
    /// No chunk decoded from it is cached.
    has_no_cached_chunks: bool,
}

/// The slot in a cache for the chunk that a level decodes from some bytes.
#[derive(Clone, Copy)]
pub struct DecodedSlot<'a> {
    cache: &'a dyn DecodedCache,
    offset: u64,
    size: u64,
    level: u64,
    bytes: usize,
    has_no_cached_chunks: bool,
}

impl DecodedSlot<'_> {
    /// Return the cached chunk, if any.
    pub fn get(&self) -> Option<Arc<Vec<u8>>> {
        if self.has_no_cached_chunks {
            return None;
        }
        let chunk = self.cache.get(self.offset, self.size, self.level);
        chunk.filter(|chunk| chunk.len() == self.bytes)
    }

    /// Cache the chunk.
    pub fn insert(&self, chunk: Vec<u8>) {
        self.cache.insert(self.offset, self.size, self.level, chunk);
    }

    /// See [`DecodedCache::is_for_parts`].
    pub fn is_for_parts(&self) -> bool {
        self.cache.is_for_parts()
    }

    /// See [`DecodedCache::is_read_again`].
    pub fn is_read_again(&self) -> bool {
        self.cache.is_read_again(self.offset, self.level)
    }
}

#[derive(Clone, Copy)]
enum Data<'a> {
    Bytes(&'a [u8]),
    Reader(ReaderRange<'a>),
}

/// A range of an open value.
#[derive(Clone, Copy)]
struct ReaderRange<'a> {
    object: &'a dyn ValueReader,
    key: Option<&'a str>,
    offset: u64,
    size: u64,
    flags: ReadFlags,
}

impl ReaderRange<'_> {
    fn read(&self, out: &mut [u8]) -> Result<()> {
        self.object.read_with(self.offset, out, self.flags)
    }
}

/// A range of a stored value that is not in memory.
pub struct RemoteRange<'a> {
    /// The open value.
    pub object: &'a dyn ValueReader,
    /// Its key.
    pub key: &'a str,
    /// The offset of the range.
    pub offset: u64,
}

impl<'a> Source<'a> {
    /// Return all of `object`.
    pub fn of(object: &'a dyn ValueReader) -> Source<'a> {
        let data = match object.bytes() {
            Some(bytes) => Data::Bytes(bytes),
            None => {
                let (size, flags) = (object.size(), ReadFlags::default());
                Data::Reader(ReaderRange { object, key: None, offset: 0, size, flags })
            }
        };
        Source {
            data,
            position: object.version().map(|version| (version, 0)),
            decoded_slot: object.decoded_cache().map(|cache| (cache, 0)),
            is_value_memory: matches!(data, Data::Bytes(_)),
            has_no_cached_chunks: false,
        }
    }

    /// Return the same bytes, as the value of a key.
    pub fn of_key(self, key: &'a str) -> Source<'a> {
        self.with_range(|range| ReaderRange { key: Some(key), ..range })
    }

    /// Return the same bytes, of which `cache` holds decoded chunks.
    pub fn cached_in(self, cache: Option<&'a dyn DecodedCache>) -> Source<'a> {
        Source { decoded_slot: cache.map(|cache| (cache, 0)).or(self.decoded_slot), ..self }
    }

    /// Return the same bytes without a cache for parts of chunks.
    pub fn without_cache_for_parts(self) -> Source<'a> {
        Source { decoded_slot: self.decoded_slot.filter(|(cache, _)| !cache.is_for_parts()), ..self }
    }

    /// Return whether some chunk decoded from it may be cached.
    pub fn may_have_cached_chunks(&self) -> bool {
        !self.has_no_cached_chunks && self.decoded_slot.is_some_and(|(cache, _)| !cache.is_empty())
    }

    /// Return the range of a value with a key, if it is not in memory.
    pub fn remote_range(&self) -> Option<RemoteRange<'a>> {
        match self.data {
            Data::Reader(ReaderRange { object, key, offset, .. }) => {
                key.map(|key| RemoteRange { object, key, offset })
            }
            Data::Bytes(_) => None,
        }
    }

    /// Return a source of bytes that a codec has computed.
    pub fn computed(bytes: &'a [u8]) -> Source<'a> {
        Source {
            data: Data::Bytes(bytes),
            position: None,
            decoded_slot: None,
            is_value_memory: false,
            has_no_cached_chunks: true,
        }
    }

    /// `bytes`, which were read from `offset`.
    pub fn with_bytes<'b>(&self, offset: u64, bytes: &'b [u8]) -> Source<'b>
    where
        'a: 'b,
    {
        let (position, decoded_slot) = (self.position_of(offset), self.cache_from(offset));
        Source {
            data: Data::Bytes(bytes),
            position,
            decoded_slot,
            is_value_memory: false,
            has_no_cached_chunks: self.has_no_cached_chunks,
        }
    }

    /// Return the same bytes, for a cache that holds only the decoded chunk.
    pub fn caching_decoded_only(self) -> Source<'a> {
        self.with_range(|range| {
            let flags = ReadFlags { decoded_is_cached: true, ..range.flags };
            ReaderRange { flags, ..range }
        })
    }

    /// Return the same bytes, read as the continuation of an earlier request.
    pub fn continuing_request(self) -> Source<'a> {
        self.with_range(|range| {
            let flags = ReadFlags { continues_request: true, ..range.flags };
            ReaderRange { flags, ..range }
        })
    }

    fn with_range(self, change: impl Fn(ReaderRange<'a>) -> ReaderRange<'a>) -> Source<'a> {
        match self.data {
            Data::Bytes(_) => self,
            Data::Reader(range) => Source { data: Data::Reader(change(range)), ..self },
        }
    }

    /// Return the same bytes, from which no decoded chunk is cached.
    pub fn without_cached_chunks(self) -> Source<'a> {
        Source { has_no_cached_chunks: true, ..self }
    }

    /// Return the slot for the chunk that `level` decodes from all of it, if the cache has room.
    /// Uncompressed chunks in memory need none.
    pub fn decoded_slot(&self, level: &Level) -> Option<DecodedSlot<'a>> {
        let (cache, offset) = self.decoded_slot.filter(|_| !(self.is_value_memory && level.is_raw()))?;
        let (size, bytes) = (self.size(), level.decoded_bytes);
        let decoded_slot = DecodedSlot {
            cache,
            offset,
            size,
            level: level.id,
            bytes,
            has_no_cached_chunks: self.has_no_cached_chunks,
        };
        cache.has_room(bytes).then_some(decoded_slot)
    }

    /// Return the bytes, if they are in memory.
    pub fn in_memory(&self) -> Option<&'a [u8]> {
        match self.data {
            Data::Bytes(bytes) => Some(bytes),
            Data::Reader(_) => None,
        }
    }

    /// Return the number of bytes.
    pub fn size(&self) -> u64 {
        match self.data {
            Data::Bytes(bytes) => bytes.len() as u64,
            Data::Reader(range) => range.size,
        }
    }

    /// Return whether a cache holds the bytes, so that reading them needs no request.
    pub fn is_in_cache(&self) -> bool {
        match self.data {
            Data::Bytes(_) => true,
            Data::Reader(range) => range.object.is_cached(range.offset, range.size),
        }
    }

    /// Return the position of the first byte.
    pub fn position(&self) -> ValuePosition {
        self.position
    }

    fn cache_from(&self, offset: u64) -> Option<(&'a dyn DecodedCache, u64)> {
        self.decoded_slot.map(|(cache, start)| (cache, start + offset))
    }

    fn position_of(&self, offset: u64) -> ValuePosition {
        self.position.map(|(version, start)| (version, start + offset))
    }

    /// `size` bytes from `offset`.
    pub fn part(&self, offset: u64, size: u64) -> Result<Source<'a>> {
        if offset.checked_add(size).is_none_or(|end| end > self.size()) {
            let available = self.size();
            return Err(Error::size(format!(
                "{size} bytes from {offset} reach past the end, only {available} exist"
            )));
        }
        let data = match self.data {
            Data::Bytes(bytes) => Data::Bytes(&bytes[offset as usize..(offset + size) as usize]),
            Data::Reader(range) => Data::Reader(ReaderRange { offset: range.offset + offset, size, ..range }),
        };
        let (position, decoded_slot) = (self.position_of(offset), self.cache_from(offset));
        Ok(Source { data, position, decoded_slot, ..*self })
    }

    /// Fill `out` from `offset`.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        match self.part(offset, out.len() as u64)?.data {
            Data::Bytes(bytes) => {
                out.copy_from_slice(bytes);
                Ok(())
            }
            Data::Reader(range) => range.read(out),
        }
    }

    /// Append all bytes to `out`.
    pub fn append_to(&self, out: &mut Vec<u8>) -> Result<()> {
        let (before, size) = (out.len(), self.size() as usize);
        reserve(out, size)?;
        match self.data {
            Data::Bytes(bytes) => out.extend_from_slice(bytes),
            Data::Reader(range) => {
                out.resize(before + size, 0);
                range.read(&mut out[before..])?;
            }
        }
        Ok(())
    }

    /// Load all bytes, if their number is in the `possible` range.
    pub fn load<'b>(&self, possible: &RangeInclusive<usize>, buffer: &'b mut Vec<u8>) -> Result<&'b [u8]>
    where
        'a: 'b,
    {
        let size = self.size();
        let (min, max) = (*possible.start() as u64, *possible.end() as u64);
        if size > max || size < min {
            let (bound_text, bound) = if size > max { ("at most", max) } else { ("at least", min) };
            return Err(Error::size(format!(
                "has {size} bytes, an encoded chunk here has {bound_text} {bound}"
            )));
        }
        match self.data {
            Data::Bytes(bytes) => Ok(bytes),
            Data::Reader(range) => {
                let out = sized(buffer, size as usize)?;
                range.read(out)?;
                Ok(out)
            }
        }
    }
}
