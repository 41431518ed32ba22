//! The index of a shard: where each subchunk is.
//!
//! An index is an array of u64 of shape (subchunks…, 2): offset from the start
//! of the shard and size in bytes, both 2^64 − 1 where the subchunk is absent
//! (codec `sharding_indexed`). Readers rely on nothing else: subchunks may
//! stand in any order, with gaps and overlaps.

pub mod cache;

use std::sync::Arc;

use crate::array::{Level, PerAxis, Shard};
use crate::codec::chain::{decoded, with_slack};
use crate::copy::{self, Axis, Item};
use crate::error::{Error, Result};
use crate::pipeline::source::Source;
use crate::scratch::{repeated, sized, Scratch};
use crate::store::ReadHint;
use cache::{Index, IndexKey};

/// Both numbers of an absent subchunk.
pub const ABSENT: u64 = u64::MAX;

/// A stored subchunk and the task that wants it.
pub struct Entry {
    /// First byte in the shard.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// Number of the task in its division.
    pub task: usize,
}

impl Shard {
    /// What a reader fetches first.
    pub fn read_hint(&self) -> ReadHint {
        if self.index_at_start {
            ReadHint::Prefix(self.index_bytes as u64)
        } else {
            ReadHint::Suffix(self.index_bytes as u64)
        }
    }

    /// The place of subchunk `cell` in the index.
    pub fn number(&self, cell: &[u64]) -> usize {
        cell.iter().zip(&self.entry_strides).map(|(cell, stride)| cell * stride).sum::<u64>() as usize
    }

    /// Where the first subchunk of those that we write begins.
    pub fn first_byte(&self) -> usize {
        if self.index_at_start {
            self.index_bytes
        } else {
            0
        }
    }

    /// The index of a shard whose subchunks all have the size of decoded ones, in their order.
    pub fn sequential_index(&self) -> Result<Vec<[u64; 2]>> {
        let (first, size) = (self.first_byte() as u64, self.level.decoded_bytes as u64);
        let mut index = repeated([first, size], self.entries)?;
        index.iter_mut().enumerate().for_each(|(number, entry)| entry[0] += number as u64 * size);
        Ok(index)
    }

    /// The most bytes that an encoded shard may have before it is refused
    /// unread: twice what we would write, and room for gaps.
    pub fn max_bytes(&self) -> usize {
        with_slack(self.bound())
    }

    /// The most bytes that we write.
    pub fn bound(&self) -> usize {
        self.level.bound.saturating_mul(self.entries).saturating_add(self.index_bytes)
    }
}

fn cache_key(shard: &Shard, source: Source<'_>) -> Option<IndexKey> {
    let size = source.size();
    source.position().map(|(version, offset)| IndexKey { version, offset, size, shard: shard.id })
}

/// Whether the index is remembered, decoded or as it is stored.
pub fn is_in_cache(shard: &Shard, source: Source<'_>) -> bool {
    cache_key(shard, source).as_ref().and_then(cache::get).is_some()
        || index_source(shard, source).is_ok_and(|part| part.is_in_cache())
}

/// Where the index is stored.
fn index_source<'a>(shard: &Shard, source: Source<'a>) -> Result<Source<'a>> {
    let (size, bytes) = (source.size(), shard.index_bytes as u64);
    if size < bytes {
        let error = Error::size(format!("a shard of {size} bytes is shorter than its index of {bytes}"));
        return Err(error.in_codec("sharding_indexed"));
    }
    source.part(if shard.index_at_start { 0 } else { size - bytes }, bytes)
}

/// The decoded index of the shard at `source`.
pub fn index(shard: &Shard, source: Source<'_>, scratch: &mut Scratch) -> Result<Index> {
    let key = cache_key(shard, source);
    if let Some(index) = key.as_ref().and_then(cache::get) {
        return Ok(index);
    }
    let part = index_source(shard, source)?;
    let (mut encoded, mut buffer) = (scratch.take(), scratch.take());
    let index = part.load(&(shard.index_bytes..=shard.index_bytes), &mut encoded).and_then(|encoded| {
        let raw = decoded(&shard.index.pipeline, encoded, shard.index.decoded_bytes, &mut buffer, scratch)?;
        unpack(&shard.index, raw, shard.entries)
    });
    scratch.give(encoded);
    scratch.give(buffer);
    let index =
        index.map_err(|error| Error { message: format!("shard index: {}", error.message), ..error })?;
    if let Some(key) = key {
        cache::insert(key, index.clone());
    }
    Ok(index)
}

/// The place of subchunk `cell`, None where it is absent.
pub fn entry(shard: &Shard, index: &Index, cell: &[u64]) -> Result<Option<(u64, u64)>> {
    entry_at(index, shard.number(cell)).map_err(|error| error.in_subchunk(cell))
}

/// The place of the subchunk with a number in the index, None where it is absent.
pub fn entry_at(index: &Index, number: usize) -> Result<Option<(u64, u64)>> {
    match index[number] {
        [ABSENT, ABSENT] => Ok(None),
        [offset, size] if offset == ABSENT || size == ABSENT => {
            Err(Error::data("a shard index entry is half absent"))
        }
        [offset, size] => Ok(Some((offset, size))),
    }
}

/// The same for a subchunk that has to be in a shard of `size` bytes.
pub fn checked_entry(index: &Index, number: usize, size: u64) -> Result<Option<(u64, u64)>> {
    let entry = entry_at(index, number)?;
    match entry {
        Some((offset, bytes)) if offset.checked_add(bytes).is_none_or(|end| end > size) => Err(Error::size(
            format!("the shard index points to {bytes} bytes from {offset}, the shard has {size}"),
        )),
        _ => Ok(entry),
    }
}

/// The strided copy between the stored index and offsets and sizes in C order.
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

/// u64 is stored little-endian unless the codec swaps; the machine may differ.
fn index_item(level: &Level) -> Item {
    Item { bytes: 8, swap: level.swap() }
}

fn unpack(level: &Level, raw: &[u8], entries: usize) -> Result<Index> {
    let mut index = repeated([0u64; 2], entries)?;
    // SAFETY: the level's strides stay inside its decoded bytes, which `raw`
    // has; the other side is a fresh array of entries × 2 u64 in C order.
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
    let mut buffer = scratch.take();
    let raw = sized(&mut buffer, level.decoded_bytes)?;
    // SAFETY: as in `unpack`, the other way round.
    unsafe {
        copy::copy(index.as_ptr().cast(), raw.as_mut_ptr(), &index_axes(level, true), index_item(level));
    }
    let start = out.len();
    let result = level.pipeline.encode(raw, out, scratch);
    scratch.give(buffer);
    result?;
    let bytes = out.len() - start;
    if bytes != shard.index_bytes {
        let message = format!("a shard index took {bytes} bytes, not {}", shard.index_bytes);
        return Err(Error::internal(message));
    }
    Ok(())
}
