//! Codecs bound to the shape of a chunk, for each level of sharding.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use super::{ArrayBytes, Chain, PerAxis};
use crate::codec::chain::{expect_size, BytesCodecs};
use crate::codec::{BytesCodec, Foreign};
use crate::error::{Error, Result};
use crate::grid::DimGrid;
use crate::pipeline::source::Source;
use crate::scratch::Scratch;
use crate::vlen::{self, HANDLE_BYTES};

/// A chunk of this size or more is not decoded from fewer bytes than its codecs need at least.
/// Otherwise the chunk shape in a metadata document could make the engine allocate any amount.
const CHECKED_BYTES: usize = 64 << 20;
/// A codec chain bound to a chunk shape.
#[derive(Clone)]
pub struct Level {
    /// Differs between two levels of this process that may decode the same bytes differently.
    pub id: u64,
    /// The shape of the chunk, in array axes.
    pub shape: PerAxis<u64>,
    /// The byte strides of the decoded chunk, in array axes.
    pub strides: PerAxis<isize>,
    /// The size of a decoded chunk in bytes.
    pub decoded_bytes: usize,
    /// The size of one item in bytes.
    pub item_bytes: usize,
    /// The bound array-to-bytes codec.
    pub body: Body,
    /// The bytes-to-bytes codecs.
    pub bytes_codecs: BytesCodecs,
    /// One fill item in stored byte order.
    pub stored_fill: Vec<u8>,
    /// The maximum size of the engine's encoding of the chunk; an estimate for foreign codecs.
    pub bound: usize,
    /// The engine rejects fewer or more encoded bytes before it allocates memory.
    pub encoded_bytes: RangeInclusive<usize>,
}

/// The array-to-bytes codec, bound.
#[derive(Clone)]
pub enum Body {
    /// Elements, with their byte-swap unit.
    Bytes {
        /// 0: no swap.
        swap: usize,
    },
    /// Subchunks.
    Shard(Box<Shard>),
    /// Variable-length elements.
    Vlen(vlen::Kind),
    /// A codec outside the engine.
    Foreign(Foreign),
}

/// The sharding codec, bound.
#[derive(Clone)]
pub struct Shard {
    /// Differs between any two shards of this process, even of one array.
    pub id: u64,
    /// The level of subchunks.
    pub level: Level,
    /// The division of the shard into subchunks, in array axes.
    pub dim_grids: PerAxis<DimGrid>,
    /// The strides in the index per subchunk, in array axes: the index is in C order of the encoded
    /// axes.
    pub entry_strides: PerAxis<u64>,
    /// The number of subchunks.
    pub entries: usize,
    /// The level of the index: an array of u64 of shape (subchunks…, 2).
    pub index: Level,
    /// The size of the encoded index in bytes.
    pub index_bytes: usize,
    /// The index is at the start of the shard, otherwise at the end.
    pub index_at_start: bool,
}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Return the level of a chunk of `shape`.
pub(super) fn bind_chunk(
    chain: Chain,
    shape: &[u64],
    item_bytes: usize,
    fill: &[u8],
    is_vlen: bool,
) -> Result<Level> {
    let axes: PerAxis<usize> = (0..shape.len()).collect();
    let level = Level::bind(chain, &axes, shape, item_bytes, fill)?;
    // Code for handles must not process plain items, nor code for items handles.
    if matches!(level.innermost().body, Body::Vlen(_)) == is_vlen {
        return Ok(level);
    }
    Err(Error::argument("the array-to-bytes codec does not fit the elements"))
}
impl Level {
    /// Return whether all codecs are the engine's own.
    pub fn is_native(&self) -> bool {
        let body = match &self.body {
            Body::Bytes { .. } | Body::Vlen(_) => true,
            Body::Shard(shard) => shard.level.is_native() && shard.index.is_native(),
            Body::Foreign(_) => false,
        };
        body && self.bytes_codecs.is_native()
    }

    /// Bind `chain` to a chunk of `shape`, whose axis j is the array's axis `axes[j]`.
    fn bind(chain: Chain, axes: &[usize], shape: &[u64], item_bytes: usize, fill: &[u8]) -> Result<Level> {
        let rank = shape.len();
        if rank != axes.len() {
            return Err(Error::argument(format!(
                "a chunk shape has {rank} axes, the array or shard has {}",
                axes.len()
            )));
        }
        let encoded_axes: Vec<usize> = match &chain.order {
            None => axes.to_vec(),
            Some(order) => {
                check_permutation(order, rank)?;
                order.iter().map(|&axis| axes[axis]).collect()
            }
        };
        if shape.contains(&0) {
            return Err(Error::argument("a chunk has an axis of length 0"));
        }
        let mut by_axis: PerAxis<u64> = SmallVec::from_elem(0, rank);
        for (&axis, &size) in axes.iter().zip(shape) {
            by_axis[axis] = size;
        }
        let mut strides: PerAxis<isize> = SmallVec::from_elem(0, rank);
        let mut bytes = item_bytes as u64;
        for &axis in encoded_axes.iter().rev() {
            strides[axis] = bytes as isize;
            bytes = bytes
                .checked_mul(by_axis[axis])
                .filter(|&bytes| bytes <= isize::MAX as u64 / 2)
                .ok_or_else(|| Error::argument("a chunk is larger than the address space"))?;
        }
        let body = match chain.array_bytes {
            ArrayBytes::Bytes { swap } => {
                check_swap(swap, item_bytes)?;
                Body::Bytes { swap: if swap > 1 { swap } else { 0 } }
            }
            ArrayBytes::Foreign(codec) => Body::Foreign(codec),
            ArrayBytes::Vlen(kind) => {
                let items = bytes / item_bytes as u64;
                if item_bytes != HANDLE_BYTES || !vlen::can_count(items) {
                    return Err(Error::argument(format!(
                        "a chunk of {items} variable-length elements is too large"
                    )));
                }
                Body::Vlen(kind)
            }
            ArrayBytes::Sharding { subchunk_shape, chain, index_chain, index_at_start } => {
                let outer: Vec<u64> = encoded_axes.iter().map(|&axis| by_axis[axis]).collect();
                let level = Level::bind(*chain, &encoded_axes, &subchunk_shape, item_bytes, fill)?;
                Body::Shard(Box::new(Shard::bind(
                    level,
                    &encoded_axes,
                    &outer,
                    &subchunk_shape,
                    *index_chain,
                    index_at_start,
                )?))
            }
        };
        let decoded_bytes = bytes as usize;
        let (bound, max_inner_bytes) = match &body {
            Body::Bytes { .. } => (decoded_bytes, decoded_bytes),
            Body::Shard(shard) => (shard.bound(), shard.max_bytes()),
            Body::Vlen(_) => {
                let max = vlen::max_bytes(decoded_bytes / HANDLE_BYTES);
                (max, max)
            }
            Body::Foreign(_) => {
                (decoded_bytes.saturating_mul(4).saturating_add(1 << 10), max_foreign_bytes(decoded_bytes))
            }
        };
        let bound = chain.bytes_codecs.bound(bound);
        let min_encoded = match &body {
            // For smaller chunks a codec reports an error with more detail.
            Body::Bytes { .. } if decoded_bytes >= CHECKED_BYTES => {
                chain.bytes_codecs.min_encoded(decoded_bytes)
            }
            _ => 0,
        };
        let encoded_bytes = min_encoded..=chain.bytes_codecs.max_encoded(max_inner_bytes);
        Ok(Level {
            id: next_id(),
            bound,
            encoded_bytes,
            shape: by_axis,
            strides,
            decoded_bytes,
            item_bytes,
            stored_fill: body.to_stored_order(fill),
            body,
            bytes_codecs: chain.bytes_codecs,
        })
    }

    /// Return the innermost level: the smallest unit that a read decodes.
    pub fn innermost(&self) -> &Level {
        match &self.body {
            Body::Shard(shard) => shard.level.innermost(),
            _ => self,
        }
    }

    /// Return the byte-swap unit between stored and native order.
    pub fn swap(&self) -> usize {
        match self.body {
            Body::Bytes { swap } => swap,
            _ => 0,
        }
    }

    /// Return whether elements are stored unencoded.
    pub fn is_raw(&self) -> bool {
        self.bytes_codecs.is_empty() && matches!(self.body, Body::Bytes { .. })
    }

    /// Return whether a part of a chunk may be decoded alone.
    pub fn decodes_parts(&self) -> bool {
        matches!(self.body, Body::Bytes { .. }) && self.bytes_codecs.decodes_parts()
    }

    /// Decode a whole chunk of elements, in stored byte order.
    pub fn decode_into(&self, encoded: &[u8], out: &mut [u8], scratch: &mut Scratch) -> Result<()> {
        let Body::Foreign(codec) = &self.body else {
            return self.bytes_codecs.decode_into(encoded, out, scratch);
        };
        let max_bytes = max_foreign_bytes(self.decoded_bytes);
        let decoded = scratch.with_buffer(|inner, scratch| {
            self.bytes_codecs.decode(encoded, inner, max_bytes, scratch)?;
            codec.decode_into(inner, out, &mut scratch.context)
        });
        decoded.map_err(|error| error.in_codec(codec.name()))
    }

    /// Load and decode the chunk of elements in `source`, in stored byte order. Handles point into
    /// `elements`. `acquire_permit` is called between loading and decoding; the caller gets the
    /// permit.
    pub fn load<T>(
        &self,
        source: Source<'_>,
        out: &mut [u8],
        elements: &mut Vec<u8>,
        scratch: &mut Scratch,
        acquire_permit: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if self.is_raw() {
            expect_size(usize::try_from(source.size()).unwrap_or(usize::MAX), out.len())?;
            source.read_at(0, out)?;
            return acquire_permit();
        }
        scratch.with_buffer(|encoded, scratch| {
            let bytes = source.load(&self.encoded_bytes, encoded)?;
            let permit = acquire_permit()?;
            if let Body::Vlen(kind) = self.body {
                // The codec's header alone must not decide how much memory a few bytes reserve.
                let max = self.bytes_codecs.max_decoded(bytes.len());
                let max = max.min(vlen::max_bytes(out.len() / HANDLE_BYTES));
                self.bytes_codecs.decode(bytes, elements, max, scratch)?;
                vlen::decode(elements, out, kind)?;
            } else {
                self.decode_into(bytes, out, scratch)?;
            }
            Ok(permit)
        })
    }

    /// Run `work` with the shard in `source`, without the bytes-to-bytes codecs of the level.
    pub fn with_shard<R>(
        &self,
        shard: &Shard,
        source: Source<'_>,
        scratch: &mut Scratch,
        work: impl FnOnce(Source<'_>, &mut Scratch) -> Result<R>,
    ) -> Result<R> {
        if self.bytes_codecs.is_empty() {
            return work(source, scratch);
        }
        let (mut encoded, mut decoded) = (scratch.take(), scratch.take());
        let result = source.load(&self.encoded_bytes, &mut encoded).and_then(|bytes| {
            self.bytes_codecs.decode(bytes, &mut decoded, shard.max_bytes(), scratch)?;
            work(Source::computed(&decoded), scratch)
        });
        scratch.put_back(encoded);
        scratch.put_back(decoded);
        result
    }

    /// Return the size of every encoded chunk, if all have the same size.
    fn fixed_size(&self) -> Option<usize> {
        match self.body {
            Body::Bytes { .. } => self.bytes_codecs.fixed_size(self.decoded_bytes),
            _ => None,
        }
    }
}

impl Body {
    /// Return an item in stored byte order.
    fn to_stored_order(&self, item: &[u8]) -> Vec<u8> {
        let mut to_stored_order = item.to_vec();
        if let Body::Bytes { swap: swap @ 2.. } = self {
            to_stored_order.chunks_exact_mut(*swap).for_each(<[u8]>::reverse);
        }
        to_stored_order
    }
}

impl Shard {
    fn bind(
        level: Level,
        encoded_axes: &[usize],
        outer: &[u64],
        inner: &[u64],
        index_chain: Chain,
        index_at_start: bool,
    ) -> Result<Shard> {
        let rank = outer.len();
        let mut entry_strides: PerAxis<u64> = SmallVec::from_elem(0, rank);
        let mut entries = 1u64;
        let mut index_shape = Vec::with_capacity(rank + 1);
        for position in (0..rank).rev() {
            if inner[position] == 0 || outer[position] % inner[position] != 0 {
                return Err(Error::argument(format!(
                    "subchunks of {} do not divide a shard of {} along axis {position}",
                    inner[position], outer[position]
                )));
            }
            let count = outer[position] / inner[position];
            entry_strides[encoded_axes[position]] = entries;
            entries = entries.saturating_mul(count);
            index_shape.push(count);
        }
        index_shape.reverse();
        index_shape.push(2);
        // TensorStore has the same limit: an index of 16 GiB. An index takes memory only when a
        // shard of that size is stored or written, like a chunk of any size; allocation failures
        // raise an error.
        if entries > 1 << 30 {
            return Err(Error::argument(format!(
                "a shard has {entries} subchunks, at most 2^30 are possible"
            )));
        }
        let axes: Vec<usize> = (0..=rank).collect();
        let index = Level::bind(index_chain, &axes, &index_shape, 8, &[0xff; 8])?;
        let index_bytes = index
            .fixed_size()
            .ok_or_else(|| Error::argument("the index codecs of a shard have no fixed size"))?;
        Ok(Shard {
            id: next_id(),
            dim_grids: level.shape.iter().copied().map(DimGrid::Regular).collect(),
            level,
            entry_strides,
            entries: entries as usize,
            index,
            index_bytes,
            index_at_start,
        })
    }
}

/// Return the limit of the output of a foreign codec for `decoded` bytes: the engine does not know
/// more.
fn max_foreign_bytes(decoded: usize) -> usize {
    decoded.saturating_mul(4).saturating_add(1 << 20)
}

fn check_permutation(order: &[usize], rank: usize) -> Result<()> {
    let mut seen = vec![false; rank];
    for &axis in order {
        if axis >= rank || std::mem::replace(&mut seen[axis], true) {
            return Err(Error::argument(format!("{order:?} is not a permutation of {rank} axes")));
        }
    }
    if order.len() == rank {
        Ok(())
    } else {
        Err(Error::argument(format!("{order:?} is not a permutation of {rank} axes")))
    }
}

fn check_swap(swap: usize, item_bytes: usize) -> Result<()> {
    match swap {
        0 | 1 => Ok(()),
        2 | 4 | 8 if item_bytes % swap == 0 => Ok(()),
        _ => Err(Error::argument(format!("cannot swap units of {swap} bytes in items of {item_bytes}"))),
    }
}
