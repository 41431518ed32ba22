//! Codecs bound to the shape of a chunk: at each level of sharding what its chunks are made of.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use super::{bad, ArrayBytes, Chain, PerAxis};
use crate::codec::chain::{expect_size, Pipeline};
use crate::codec::{BytesCodec, Foreign};
use crate::error::Result;
use crate::grid::DimGrid;
use crate::pipeline::source::Source;
use crate::scratch::Scratch;
use crate::vlen::{self, HANDLE_BYTES};

/// A chunk of so many bytes is not decoded from fewer than can make them: whoever
/// writes a chunk shape into a document would else decide what memory we take.
const CHECKED_BYTES: usize = 64 << 20;
/// A codec chain bound to a chunk shape.
#[derive(Clone)]
pub struct Level {
    /// Differs between any two of this process that may decode the same bytes to others.
    pub id: u64,
    /// The chunk's shape, array axes.
    pub shape: PerAxis<u64>,
    /// Byte strides of the decoded chunk, array axes.
    pub strides: PerAxis<isize>,
    /// Bytes of a decoded chunk.
    pub decoded_bytes: usize,
    /// Bytes of one item.
    pub item_bytes: usize,
    /// What stands under the pipeline.
    pub body: Body,
    /// Codecs from bytes to bytes.
    pub pipeline: Pipeline,
    /// One fill item in stored byte order.
    pub stored_fill: Vec<u8>,
    /// The most bytes that our encoding of the chunk has; a guess for foreign codecs.
    pub bound: usize,
    /// Fewer encoded bytes than this, or more, are refused before any memory is taken.
    pub encoded_bytes: RangeInclusive<usize>,
}

/// The array-to-bytes codec, bound.
#[derive(Clone)]
pub enum Body {
    /// Elements, with their byte-swap unit.
    Bytes {
        /// 0: none.
        swap: usize,
    },
    /// Subchunks.
    Shard(Box<Shard>),
    /// Elements of any length.
    Vlen(vlen::Kind),
    /// A codec outside the engine.
    Foreign(Foreign),
}

/// The sharding codec, bound.
#[derive(Clone)]
pub struct Shard {
    /// Differs between any two of this process, those of one array included.
    pub id: u64,
    /// Subchunks.
    pub level: Level,
    /// How the shard is cut into subchunks, array axes.
    pub dim_grids: PerAxis<DimGrid>,
    /// Steps in the index per subchunk, array axes: the index is in C order of the encoded axes.
    pub entry_strides: PerAxis<u64>,
    /// Number of subchunks.
    pub entries: usize,
    /// How the index is encoded: an array of u64 of shape (subchunks…, 2).
    pub index: Level,
    /// Bytes of the encoded index.
    pub index_bytes: usize,
    /// The index comes first, else last.
    pub index_at_start: bool,
}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The level of a chunk of `shape`.
pub(super) fn bind_chunk(
    chain: Chain,
    shape: &[u64],
    item_bytes: usize,
    fill: &[u8],
    is_vlen: bool,
) -> Result<Level> {
    let axes: PerAxis<usize> = (0..shape.len()).collect();
    let level = Level::bind(chain, &axes, shape, item_bytes, fill)?;
    // Handles must not be taken for items, nor items for handles.
    if matches!(level.innermost().body, Body::Vlen(_)) == is_vlen {
        return Ok(level);
    }
    Err(bad("the codec from an array to bytes does not fit the elements"))
}
impl Level {
    /// Whether all codecs are the engine's own.
    pub fn is_native(&self) -> bool {
        let body = match &self.body {
            Body::Bytes { .. } | Body::Vlen(_) => true,
            Body::Shard(shard) => shard.level.is_native() && shard.index.is_native(),
            Body::Foreign(_) => false,
        };
        body && self.pipeline.is_native()
    }

    /// Bind `chain` to a chunk of `shape`, given in the order of `axes`: its
    /// axis j is the array's axis `axes[j]`.
    fn bind(chain: Chain, axes: &[usize], shape: &[u64], item_bytes: usize, fill: &[u8]) -> Result<Level> {
        let rank = shape.len();
        if rank != axes.len() {
            return Err(bad(format!("a chunk shape has {rank} axes, what it divides {}", axes.len())));
        }
        let encoded_axes: Vec<usize> = match &chain.order {
            None => axes.to_vec(),
            Some(order) => {
                check_permutation(order, rank)?;
                order.iter().map(|&axis| axes[axis]).collect()
            }
        };
        if shape.contains(&0) {
            return Err(bad("a chunk has an axis of length 0"));
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
                .ok_or_else(|| bad("a chunk has more bytes than memory has addresses"))?;
        }
        let body = match chain.array_bytes {
            ArrayBytes::Bytes { swap } => {
                check_swap(swap, item_bytes)?;
                Body::Bytes { swap: if swap > 1 { swap } else { 0 } }
            }
            ArrayBytes::Foreign(codec) => Body::Foreign(codec),
            ArrayBytes::Vlen(kind) => {
                let items = bytes / item_bytes as u64;
                if item_bytes != HANDLE_BYTES || !vlen::countable(items) {
                    return Err(bad(format!("{items} elements of any length are too many for a chunk")));
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
        let (bound, most_inner) = match &body {
            Body::Bytes { .. } => (decoded_bytes, decoded_bytes),
            Body::Shard(shard) => (shard.bound(), shard.max_bytes()),
            Body::Vlen(_) => {
                let most = vlen::most_bytes(decoded_bytes / HANDLE_BYTES);
                (most, most)
            }
            Body::Foreign(_) => {
                (decoded_bytes.saturating_mul(4).saturating_add(1 << 10), most_foreign(decoded_bytes))
            }
        };
        let bound = chain.pipeline.bound(bound);
        let least = match &body {
            // Below that a codec says better what is wrong with the bytes.
            Body::Bytes { .. } if decoded_bytes >= CHECKED_BYTES => chain.pipeline.least(decoded_bytes),
            _ => 0,
        };
        let encoded_bytes = least..=chain.pipeline.most_encoded(most_inner);
        Ok(Level {
            id: next_id(),
            bound,
            encoded_bytes,
            shape: by_axis,
            strides,
            decoded_bytes,
            item_bytes,
            stored_fill: body.stored(fill),
            body,
            pipeline: chain.pipeline,
        })
    }

    /// Take another fill value.
    pub(super) fn refill(&mut self, fill: &[u8]) {
        self.id = next_id();
        self.stored_fill = self.body.stored(fill);
        if let Body::Shard(shard) = &mut self.body {
            shard.id = next_id();
            shard.level.refill(fill);
        }
    }

    /// The innermost level: what one read has to decode at least.
    pub fn innermost(&self) -> &Level {
        match &self.body {
            Body::Shard(shard) => shard.level.innermost(),
            _ => self,
        }
    }

    /// The byte-swap unit between stored and wanted bytes.
    pub fn swap(&self) -> usize {
        match self.body {
            Body::Bytes { swap } => swap,
            _ => 0,
        }
    }

    /// Stored as is: no codec moves a byte.
    pub fn is_raw(&self) -> bool {
        self.pipeline.is_empty() && matches!(self.body, Body::Bytes { .. })
    }

    /// Decode a whole chunk of elements, in stored byte order.
    pub fn decode_into(&self, encoded: &[u8], out: &mut [u8], scratch: &mut Scratch) -> Result<()> {
        let Body::Foreign(codec) = &self.body else {
            return self.pipeline.decode_into(encoded, out, scratch);
        };
        let mut inner = scratch.take();
        let done = self
            .pipeline
            .decode(encoded, &mut inner, most_foreign(self.decoded_bytes), scratch)
            .and_then(|()| codec.decode_into(&inner, out, &mut scratch.context));
        scratch.put_back(inner);
        done.map_err(|error| error.in_codec(codec.name()))
    }

    /// Load and decode the chunk of elements at `source`, in stored byte order.
    /// Where items are handles, they point into what becomes of `elements`. Between the two it is
    /// somebody's `turn`, as long as what is given back lives.
    pub fn load<T>(
        &self,
        source: Source<'_>,
        out: &mut [u8],
        elements: &mut Vec<u8>,
        scratch: &mut Scratch,
        turn: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if self.is_raw() {
            expect_size(usize::try_from(source.size()).unwrap_or(usize::MAX), out.len())?;
            source.read_at(0, out)?;
            return turn();
        }
        let mut encoded = scratch.take();
        let done = source.load(&self.encoded_bytes, &mut encoded).and_then(|bytes| {
            let turn = turn()?;
            if let Body::Vlen(kind) = self.body {
                // A few bytes must not make it reserve what only the codec's header promises.
                let most = self.pipeline.most_decoded(bytes.len());
                let most = most.min(vlen::most_bytes(out.len() / HANDLE_BYTES));
                self.pipeline.decode(bytes, elements, most, scratch)?;
                vlen::decode(elements, out, kind)?;
            } else {
                self.decode_into(bytes, out, scratch)?;
            }
            Ok(turn)
        });
        scratch.put_back(encoded);
        done
    }

    /// The size of every encoded chunk, where they are all the same.
    fn fixed_size(&self) -> Option<usize> {
        match self.body {
            Body::Bytes { .. } => self.pipeline.fixed_size(self.decoded_bytes),
            _ => None,
        }
    }
}

impl Body {
    /// An item in stored byte order.
    fn stored(&self, item: &[u8]) -> Vec<u8> {
        let mut stored = item.to_vec();
        if let Body::Bytes { swap: swap @ 2.. } = self {
            stored.chunks_exact_mut(*swap).for_each(<[u8]>::reverse);
        }
        stored
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
                return Err(bad(format!(
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
        // As TensorStore has it: an index of 16 GiB. It takes memory only where a shard of that
        // size is stored or written, as a chunk of any size does; if there is none, it is refused.
        if entries > 1 << 30 {
            return Err(bad(format!("a shard has {entries} subchunks, at most 2^30 are possible")));
        }
        let axes: Vec<usize> = (0..=rank).collect();
        let index = Level::bind(index_chain, &axes, &index_shape, 8, &[0xff; 8])?;
        let index_bytes =
            index.fixed_size().ok_or_else(|| bad("the index codecs of a shard have no fixed size"))?;
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

/// Nobody knows how much a foreign codec may make of `decoded` bytes.
fn most_foreign(decoded: usize) -> usize {
    decoded.saturating_mul(4).saturating_add(1 << 20)
}

fn check_permutation(order: &[usize], rank: usize) -> Result<()> {
    let mut seen = vec![false; rank];
    for &axis in order {
        if axis >= rank || std::mem::replace(&mut seen[axis], true) {
            return Err(bad(format!("{order:?} is no permutation of {rank} axes")));
        }
    }
    if order.len() == rank {
        Ok(())
    } else {
        Err(bad(format!("{order:?} is no permutation of {rank} axes")))
    }
}

fn check_swap(swap: usize, item_bytes: usize) -> Result<()> {
    match swap {
        0 | 1 => Ok(()),
        2 | 4 | 8 if item_bytes % swap == 0 => Ok(()),
        _ => Err(bad(format!("cannot swap units of {swap} bytes in items of {item_bytes}"))),
    }
}
