//! The compiled array description: everything about an array that its chunks
//! do not say, checked once, so that the work on a chunk only looks things up.
//!
//! All shapes and strides are in the order of the array's axes, at every level
//! of sharding. Transposition is therefore no step of its own: it is a choice
//! of strides ([`Level::strides`]), and the one strided copy does the rest.

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::{Deref, RangeInclusive};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use smallvec::SmallVec;

use crate::codec::{BytesCodec, Foreign};
use crate::error::{Error, Kind, Result};
use crate::grid::Cuts;
use crate::pipeline::{expect_size, Pipeline};
use crate::scratch::Scratch;
use crate::source::Source;
use crate::vlen::{self, Handle, HANDLE_BYTES};

/// A chunk of so many bytes is not decoded from fewer than can make them: whoever
/// writes a chunk shape into a document would else decide what memory we take.
const CHECKED_BYTES: usize = 64 << 20;

/// One value per axis; on the stack for every rank that people use.
pub type PerAxis<T> = SmallVec<[T; 6]>;

/// A chain of codecs as the metadata gives it, not yet bound to a shape.
pub struct Chain {
    /// All leading transposes composed: encoded axis i is decoded axis `order[i]`.
    pub order: Option<Vec<usize>>,
    /// The codec from an array to bytes.
    pub array_bytes: ArrayBytes,
    /// The codecs from bytes to bytes, in encoding order.
    pub pipeline: Pipeline,
}

/// The codec that turns an array into bytes.
pub enum ArrayBytes {
    /// Elements one after another in C order of the encoded axes.
    Bytes {
        /// Byte-swap unit, 0 where stored and wanted byte order agree.
        swap: usize,
    },
    /// Subchunks and an index of where they are.
    Sharding {
        /// Shape of a subchunk, in the order of the encoded axes.
        subchunk_shape: Vec<u64>,
        /// How a subchunk is encoded.
        chain: Box<Chain>,
        /// How the index, an array of u64, is encoded.
        index_chain: Box<Chain>,
        /// The index comes first, else last.
        index_at_start: bool,
    },
    /// Elements of any length.
    Vlen(vlen::Kind),
    /// A codec outside the engine.
    Foreign(Foreign),
}

/// How the key of a chunk is made from its grid position.
#[derive(Clone)]
pub enum KeyEncoding {
    /// The numbers, joined.
    Numbers {
        /// "c" and a separator first (`default`), else the bare numbers (`v2`).
        with_c: bool,
        /// '/' or '.'.
        separator: char,
    },
    /// An encoding outside the engine.
    Foreign(Arc<dyn ForeignKeys>),
}

/// A key encoding that lives outside of the engine.
pub trait ForeignKeys: Send + Sync {
    /// Append the key of chunk `cell` to `key`.
    fn push_key(&self, cell: &[u64], key: &mut String) -> Result<()>;
}

/// How the array is cut into chunks, and how these are encoded.
pub enum Grid {
    /// Chunks of one shape.
    Regular {
        /// The shape of a chunk.
        chunk_shape: Vec<u64>,
        /// The codecs.
        chain: Chain,
    },
    /// Chunks of several shapes.
    Varying {
        /// How each axis is cut.
        cuts: Vec<Cuts>,
        /// The codecs.
        chains: Arc<dyn Chains>,
    },
}

/// The codecs of an array whose chunks have several shapes.
pub trait Chains: Send + Sync {
    /// The codecs of a chunk of `shape`.
    fn chain(&self, shape: &[u64]) -> Result<Chain>;
}

/// What is read where nothing is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The fill value.
    Fill,
    /// An error where a chunk or shard is missing; the fill value where a shard lacks a subchunk.
    RefuseChunks,
    /// An error.
    Refuse,
}

/// What the binding extracts from Python.
pub struct Plan {
    /// The array's shape.
    pub shape: Vec<u64>,
    /// Its chunks.
    pub grid: Grid,
    /// Bytes of one item.
    pub item_bytes: usize,
    /// Bytes other than 0 and 1 are refused.
    pub is_bool: bool,
    /// Elements have any length: items are handles (see [`crate::vlen`]).
    pub is_vlen: bool,
    /// One item, in the byte order of the caller's buffers; where items are handles, one element.
    pub fill: Vec<u8>,
    /// Chunk keys.
    pub keys: KeyEncoding,
    /// Store chunks that are all fill.
    pub store_fill: bool,
    /// What is read where nothing is stored.
    pub missing: Missing,
}

/// A compiled array.
pub struct Array {
    /// The array's shape.
    pub shape: PerAxis<u64>,
    /// How each axis is cut into chunks.
    pub cuts: PerAxis<Cuts>,
    /// Bytes of one item.
    pub item_bytes: usize,
    /// Bytes other than 0 and 1 are refused.
    pub is_bool: bool,
    /// One item, in the byte order of the caller's buffers.
    pub fill: Vec<u8>,
    /// Where items are handles, the element that `fill` points to.
    pub fill_element: Option<Arc<[u8]>>,
    /// Chunk keys.
    pub keys: KeyEncoding,
    /// Store chunks that are all fill.
    pub store_fill: bool,
    /// What is read where nothing is stored.
    pub missing: Missing,
    levels: Levels,
}

/// The outermost levels: one per shape of a chunk.
#[derive(Clone)]
enum Levels {
    One(Arc<Level>),
    Many(Arc<Varying>),
}

impl Levels {
    /// The same for another fill value.
    fn refilled(&self, fill: &[u8]) -> Levels {
        match self {
            Levels::One(level) => {
                let mut level = Level::clone(level);
                level.refill(fill);
                Levels::One(Arc::new(level))
            }
            Levels::Many(varying) => {
                Levels::Many(Arc::new(Varying { chains: varying.chains.clone(), bound: RwLock::default() }))
            }
        }
    }
}

struct Varying {
    chains: Arc<dyn Chains>,
    /// Bound when a chunk of the shape is first met.
    bound: RwLock<HashMap<PerAxis<u64>, Arc<Level>>>,
}

/// Levels of so many shapes are kept; a grid may have any number of them.
const KEPT_LEVELS: usize = 1024;

/// The level of a chunk.
pub enum LevelRef<'a> {
    /// Of all chunks.
    One(&'a Level),
    /// Of chunks of this shape.
    Shared(Arc<Level>),
}

impl Deref for LevelRef<'_> {
    type Target = Level;

    fn deref(&self) -> &Level {
        match self {
            LevelRef::One(level) => level,
            LevelRef::Shared(level) => level,
        }
    }
}

/// A codec chain bound to a chunk shape.
#[derive(Clone)]
pub struct Level {
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
    pub cuts: PerAxis<Cuts>,
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

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

fn bad(message: impl Into<String>) -> Error {
    Error::new(Kind::Argument, message)
}

/// One item of the fill value, and where items are handles the element that it points to.
type Fill = (Vec<u8>, Option<Arc<[u8]>>);

fn fill_of(fill: Vec<u8>, is_vlen: bool, item_bytes: usize) -> Result<Fill> {
    let (fill, element) = if is_vlen {
        let element: Arc<[u8]> = fill.into();
        (Handle::of(&element).to_item().to_vec(), Some(element))
    } else {
        (fill, None)
    };
    if item_bytes == 0 || fill.len() != item_bytes {
        return Err(bad(format!("the fill value has {} bytes, an item {item_bytes}", fill.len())));
    }
    Ok((fill, element))
}

fn check_shape(shape: &[u64]) -> Result<()> {
    match shape.iter().any(|&size| size > i64::MAX as u64) {
        true => Err(bad("the array's shape exceeds 2^63 - 1")),
        false => Ok(()),
    }
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
}

impl Array {
    /// Whether chunks are shards, which hold smaller ones.
    pub fn is_sharded(&self) -> bool {
        matches!(&self.levels, Levels::One(level) if matches!(level.body, Body::Shard(_)))
    }

    /// Whether chunks are encoded, decoded and named without asking anybody.
    pub fn is_native(&self) -> bool {
        self.has_numbered_keys() && matches!(&self.levels, Levels::One(level) if level.is_native())
    }

    /// Check `plan` and bind its codecs to shapes.
    pub fn compile(plan: Plan) -> Result<Array> {
        let rank = plan.shape.len();
        let (fill, fill_element) = fill_of(plan.fill, plan.is_vlen, plan.item_bytes)?;
        if plan.is_bool && plan.item_bytes != 1 {
            return Err(bad(format!("booleans of {} bytes", plan.item_bytes)));
        }
        check_shape(&plan.shape)?;
        let (cuts, levels): (PerAxis<Cuts>, Levels) = match plan.grid {
            Grid::Regular { chunk_shape, chain } => {
                let level = bind_chunk(chain, &chunk_shape, plan.item_bytes, &fill, plan.is_vlen)?;
                (chunk_shape.into_iter().map(Cuts::Every).collect(), Levels::One(Arc::new(level)))
            }
            Grid::Varying { cuts, chains } => {
                (cuts.into(), Levels::Many(Arc::new(Varying { chains, bound: RwLock::default() })))
            }
        };
        if cuts.len() != rank {
            return Err(bad(format!("the grid has {} axes, the array has {rank}", cuts.len())));
        }
        Ok(Array {
            shape: plan.shape.into(),
            cuts,
            item_bytes: plan.item_bytes,
            is_bool: plan.is_bool,
            fill,
            fill_element,
            keys: plan.keys,
            store_fill: plan.store_fill,
            missing: plan.missing,
            levels,
        })
    }

    /// The same array with another shape, as many axes, and another fill value, as [`Plan`] has it, if
    /// one is given; the grid and the codecs are the same.
    pub fn alike(&self, shape: &[u64], fill: Option<&[u8]>) -> Result<Array> {
        check_shape(shape)?;
        if shape.len() != self.cuts.len() {
            return Err(bad(format!("the grid has {} axes, the array has {}", self.cuts.len(), shape.len())));
        }
        let (fill, fill_element, levels) = match fill {
            // The very same: levels point to it, too.
            None => (self.fill.clone(), self.fill_element.clone(), self.levels.clone()),
            Some(fill) => {
                let (fill, element) = fill_of(fill.to_vec(), self.fill_element.is_some(), self.item_bytes)?;
                let levels = self.levels.refilled(&fill);
                (fill, element, levels)
            }
        };
        Ok(Array {
            shape: shape.into(),
            cuts: self.cuts.clone(),
            fill,
            fill_element,
            keys: self.keys.clone(),
            levels,
            ..*self
        })
    }

    /// The level of a chunk of `shape`, which is one of the grid's.
    pub fn level(&self, shape: &[u64]) -> Result<LevelRef<'_>> {
        let Varying { chains, bound } = match &self.levels {
            Levels::One(level) => return Ok(LevelRef::One(level)),
            Levels::Many(varying) => &**varying,
        };
        // Nobody waits for the map: in a forked child its lock may be held for ever.
        if let Some(level) = bound.try_read().ok().and_then(|bound| bound.get(shape).cloned()) {
            return Ok(LevelRef::Shared(level));
        }
        // No lock is held meanwhile: the chain may come from Python, which others may hold.
        let level = Arc::new(bind_chunk(
            chains.chain(shape)?,
            shape,
            self.item_bytes,
            &self.fill,
            self.fill_element.is_some(),
        )?);
        let Ok(mut bound) = bound.try_write() else { return Ok(LevelRef::Shared(level)) };
        if bound.len() >= KEPT_LEVELS {
            bound.clear();
        }
        // Who came first is kept: a level is known by its identity.
        Ok(LevelRef::Shared(bound.entry(shape.into()).or_insert(level).clone()))
    }

    /// Write the key of chunk `cell` below `prefix` to `key`.
    pub fn format_key(&self, prefix: &str, cell: &[u64], key: &mut String) -> Result<()> {
        key.clear();
        key.push_str(prefix);
        let (with_c, separator) = match &self.keys {
            KeyEncoding::Numbers { with_c, separator } => (*with_c, *separator),
            KeyEncoding::Foreign(keys) => return keys.push_key(cell, key),
        };
        if with_c {
            key.push('c');
        } else if cell.is_empty() {
            key.push('0');
        }
        for (axis, index) in cell.iter().enumerate() {
            if with_c || axis > 0 {
                key.push(separator);
            }
            push_decimal(key, *index);
        }
        Ok(())
    }
}

impl Array {
    /// Whether keys are made of the numbers of chunks.
    pub fn has_numbered_keys(&self) -> bool {
        matches!(self.keys, KeyEncoding::Numbers { .. })
    }

    /// The chunk that has `key`; None if none has, or keys are not made of numbers. What `made` holds
    /// is replaced.
    pub fn cell_of_key(&self, prefix: &str, key: &str, made: &mut String) -> Option<PerAxis<u64>> {
        let KeyEncoding::Numbers { separator, .. } = self.keys else { return None };
        let numbers = key.strip_prefix(prefix)?.split(separator);
        let cell: PerAxis<u64> = numbers.filter_map(|number| number.parse().ok()).collect();
        let whole = cell.len() == self.cuts.len() && self.format_key(prefix, &cell, made).is_ok();
        (whole && made == key).then_some(cell)
    }
}

/// The level of a chunk of `shape`.
fn bind_chunk(chain: Chain, shape: &[u64], item_bytes: usize, fill: &[u8], is_vlen: bool) -> Result<Level> {
    let axes: PerAxis<usize> = (0..shape.len()).collect();
    let level = Level::bind(chain, &axes, shape, item_bytes, fill)?;
    // Handles must not be taken for items, nor items for handles.
    if matches!(level.innermost().body, Body::Vlen(_)) == is_vlen {
        return Ok(level);
    }
    Err(bad("the codec from an array to bytes does not fit the elements"))
}

/// Append `number`; most chunk indices are short, and `write!` costs more than the digits.
fn push_decimal(text: &mut String, number: u64) {
    if number < 10 {
        text.push((b'0' + number as u8) as char);
    } else {
        // Writing to a String does not fail.
        let _ = write!(text, "{number}");
    }
}

impl Level {
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
            Body::Shard(shard) => (shard.bound(), shard.most_bytes()),
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
    fn refill(&mut self, fill: &[u8]) {
        self.stored_fill = self.body.stored(fill);
        if let Body::Shard(shard) = &mut self.body {
            shard.id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
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
        scratch.give(inner);
        done.map_err(|error| error.in_codec(codec.name()))
    }

    /// Load and decode the chunk of elements at `source`, in stored byte order.
    /// Where items are handles, they point into what becomes of `elements`.
    pub fn load(
        &self,
        source: Source<'_>,
        out: &mut [u8],
        elements: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        if let Body::Vlen(kind) = self.body {
            let mut encoded = scratch.take();
            let done = source.load(&self.encoded_bytes, &mut encoded).and_then(|bytes| {
                // A few bytes must not make it reserve what only the codec's header promises.
                let most = self.pipeline.most_decoded(bytes.len());
                let most = most.min(vlen::most_bytes(out.len() / HANDLE_BYTES));
                self.pipeline.decode(bytes, elements, most, scratch)
            });
            scratch.give(encoded);
            return done.and_then(|()| vlen::decode(elements, out, kind));
        }
        if self.is_raw() {
            expect_size(usize::try_from(source.size()).unwrap_or(usize::MAX), out.len())?;
            return source.read_at(0, out);
        }
        let mut encoded = scratch.take();
        let done = source
            .load(&self.encoded_bytes, &mut encoded)
            .and_then(|bytes| self.decode_into(bytes, out, scratch));
        scratch.give(encoded);
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
        // 2^26 entries are an index of 1 GiB, which a sparse file brings for nothing
        // and every reader of one subchunk would hold twice: a mistake or an attack.
        if entries > 1 << 26 {
            return Err(bad(format!("a shard has {entries} subchunks, at most 2^26 are possible")));
        }
        let axes: Vec<usize> = (0..=rank).collect();
        let index = Level::bind(index_chain, &axes, &index_shape, 8, &[0xff; 8])?;
        let index_bytes =
            index.fixed_size().ok_or_else(|| bad("the index codecs of a shard have no fixed size"))?;
        Ok(Shard {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            cuts: level.shape.iter().copied().map(Cuts::Every).collect(),
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
