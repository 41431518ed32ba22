//! Shard indexes: the positions of the subchunks in a shard.
//!
//! An index is an array of u64 of shape (subchunks…, 2): the offset from the start of the shard and
//! the size in bytes. Both are 2^64 − 1 for an absent subchunk (codec `sharding_indexed`). Readers
//! rely on nothing else: subchunks may be in any order, with gaps and overlaps.

pub mod cache;

use std::sync::Arc;

use crate::array::{Level, PerAxis, Shard};
use crate::codec::chain::{decoded, with_slack};
use crate::copy::{self, Axis, Item};
use crate::error::{Error, Result};
use crate::pipeline::source::Source;
use crate::scratch::{repeated, sized, Scratch};
use crate::store::{ReadHint, ValueReader};
use cache::{Index, IndexKey};

/// The offset and the size of an absent subchunk.
pub const ABSENT: u64 = u64::MAX;

/// A stored subchunk and the task that reads it.
pub struct Entry {
    /// The offset of the first byte in the shard.
    pub offset: u64,
    /// The size in bytes.
    pub size: u64,
    /// The number of the task in its division.
    pub task: usize,
}

impl Shard {
    /// Return the part that a reader fetches first.
    pub fn read_hint(&self) -> ReadHint {
        if self.index_at_start {
            ReadHint::Prefix(self.index_bytes as u64)
        } else {
            ReadHint::Suffix(self.index_bytes as u64)
        }
    }

    /// Return the number of subchunk `cell` in the index.
    pub fn entry_number(&self, cell: &[u64]) -> usize {
        cell.iter().zip(&self.entry_strides).map(|(cell, stride)| cell * stride).sum::<u64>() as usize
    }

    /// Return the offset of the first subchunk in the shards that the engine writes.
    pub fn first_byte(&self) -> usize {
        if self.index_at_start {
            self.index_bytes
        } else {
            0
        }
    }

    /// Return the maximum size of an encoded shard that the engine reads: twice the size that it
    /// would write, and room for gaps.
    pub fn max_bytes(&self) -> usize {
        with_slack(self.bound())
    }

    /// Return the maximum size that the engine writes.
    pub fn bound(&self) -> usize {
        self.level.bound.saturating_mul(self.entries).saturating_add(self.index_bytes)
    }
}

fn cache_key(shard: &Shard, source: Source<'_>) -> Option<IndexKey> {
    let size = source.size();
    source.position().map(|(version, offset)| IndexKey { version, offset, size, shard: shard.id })
}

/// Return whether a cache holds the index, decoded or as stored.
pub fn is_in_cache(shard: &Shard, source: Source<'_>) -> bool {
    cache_key(shard, source).as_ref().and_then(cache::get).is_some()
        || index_source(shard, source).is_ok_and(|part| part.is_in_cache())
}

/// Return the part of the shard that holds the index.
fn index_source<'a>(shard: &Shard, source: Source<'a>) -> Result<Source<'a>> {
    let (size, bytes) = (source.size(), shard.index_bytes as u64);
    if size < bytes {
        let error = Error::size(format!("a shard of {size} bytes is shorter than its index of {bytes}"));
        return Err(error.in_codec("sharding_indexed"));
    }
    source.part(if shard.index_at_start { 0 } else { size - bytes }, bytes)
}

/// Return the decoded index of the shard in `source`.
pub fn index(shard: &Shard, source: Source<'_>, scratch: &mut Scratch) -> Result<Index> {
    let key = cache_key(shard, source);
    if let Some(index) = key.as_ref().and_then(cache::get) {
        return Ok(index);
    }
    let part = index_source(shard, source)?;
    let (mut encoded, mut buffer) = (scratch.take(), scratch.take());
    let index = part.load(&(shard.index_bytes..=shard.index_bytes), &mut encoded).and_then(|encoded| {
        let raw =
            decoded(&shard.index.bytes_codecs, encoded, shard.index.decoded_bytes, &mut buffer, scratch)?;
        unpack_index(&shard.index, raw, shard.entries)
    });
    scratch.put_back(encoded);
    scratch.put_back(buffer);
    let index =
        index.map_err(|error| Error { message: format!("shard index: {}", error.message), ..error })?;
    if let Some(key) = key {
        cache::insert(key, index.clone());
    }
    Ok(index)
}

/// Record the index of the shard in `object`, the value of `key`, after a read.
pub fn record_last(shard: &Shard, key: &str, object: &dyn ValueReader) {
    let index_key =
        object.version().map(|version| IndexKey { version, offset: 0, size: object.size(), shard: shard.id });
    cache::set_last(shard.id, key, index_key);
}

/// Return the offset and the size of subchunk `cell`; None if it is absent.
pub fn entry(shard: &Shard, index: &Index, cell: &[u64]) -> Result<Option<(u64, u64)>> {
    entry_at(index, shard.entry_number(cell)).map_err(|error| error.in_subchunk(cell))
}

/// Return the offset and the size of a subchunk by its number in the index; None if it is absent.
pub fn entry_at(index: &Index, number: usize) -> Result<Option<(u64, u64)>> {
    match index[number] {
        [ABSENT, ABSENT] => Ok(None),
        [offset, size] if offset == ABSENT || size == ABSENT => {
            Err(Error::data("a shard index entry is half absent"))
        }
        [offset, size] => Ok(Some((offset, size))),
    }
}

/// Like [`entry_at`], for a subchunk that must be inside a shard of `size` bytes.
pub fn checked_entry(index: &Index, number: usize, size: u64) -> Result<Option<(u64, u64)>> {
    let entry = entry_at(index, number)?;
    match entry {
        Some((offset, bytes)) if offset.checked_add(bytes).is_none_or(|end| end > size) => Err(Error::size(
            format!("the shard index points to {bytes} bytes from {offset}, the shard has {size}"),
        )),
        _ => Ok(entry),
    }
}

/// Return the axes of the copy between the stored index and offsets and sizes in C order.
fn index_axes(level: &Level, is_packed: bool) -> PerAxis<Axis<'static>> {
    let mut axes = PerAxis::new();
    let mut stride = 8isize;
    for axis in (0..level.shape.len()).rev() {
        let (stored, unpacked) = (level.strides[axis], stride);
        let (src, dst) = if is_packed { (unpacked, stored) } else { (stored, unpacked) };
        axes.push(Axis::Strided { count: level.shape[axis] as usize, src, dst });
        stride *= level.shape[axis] as isize;
    }
    axes.reverse();
    axes
}

/// Return the item of the index: a u64, with the byte-swap unit between stored and native order.
fn index_item(level: &Level) -> Item {
    Item { bytes: 8, swap: level.swap() }
}

fn unpack_index(level: &Level, raw: &[u8], entries: usize) -> Result<Index> {
    let mut index = repeated([0u64; 2], entries)?;
    // SAFETY: the level's strides stay inside its decoded bytes, and `raw` has all of them; the
    // other side is a fresh array of entries × 2 u64 in C order.
    unsafe {
        copy::copy(raw.as_ptr(), index.as_mut_ptr().cast(), &index_axes(level, false), index_item(level));
    }
    Ok(Arc::new(index))
}

/// Encode `index` and append it to `out`.
pub fn encode_index(
    shard: &Shard,
    index: &[[u64; 2]],
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<()> {
    let level = &shard.index;
    let start = out.len();
    scratch.with_buffer(|buffer, scratch| {
        let raw = sized(buffer, level.decoded_bytes)?;
        // SAFETY: as in `unpack_index`, with source and destination exchanged.
        unsafe {
            copy::copy(index.as_ptr().cast(), raw.as_mut_ptr(), &index_axes(level, true), index_item(level));
        }
        level.bytes_codecs.encode(raw, out, scratch)
    })?;
    let bytes = out.len() - start;
    if bytes != shard.index_bytes {
        let message = format!("a shard index took {bytes} bytes, not {}", shard.index_bytes);
        return Err(Error::internal(message));
    }
    Ok(())
}
