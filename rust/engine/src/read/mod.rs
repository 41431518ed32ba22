//! Reads: from keys to the caller's buffer.
//!
//! A chunk is decoded directly into the caller's buffer if its bytes are contiguous there,
//! otherwise into scratch memory and copied once. Uncompressed chunks are read by the needed
//! ranges, shards by the needed subchunks, with neighbouring ranges in one request.

mod async_parts;
mod chunk;
mod chunk_reads;
mod read_group;
mod shards;

use crate::array::{Array, Body, Level, Missing, Shard};
use crate::copy;
use crate::error::{Error, Kind, Result};
use crate::pipeline::operation::{BufferPtr, Chunk, Operation, Portion};
use crate::pipeline::source::{DecodedSlot, Source};
use crate::scratch::{sized, Scratch};
use crate::selection::{Direction, Selection};
use crate::shard_index::{self, cache::IndexKey, Entry};
use crate::store::{CacheShare, ChunkCache, DecodedCache, OpenResult, ReadHint, ValueChunks, ValueReader};
use crate::vlen::Arena;
use chunk_reads::{ChunkRead, ChunkReads};

pub(crate) use chunk::offsets;
pub(crate) use chunk_reads::Target;
pub use read_group::{group_hints, read_group};

/// The policy of coalesced reads: how much one request reads.
#[derive(Clone, Copy)]
struct CoalescingPolicy {
    /// The number of bytes that cost as much as a request; smaller gaps are read over.
    gap: u64,
    /// Up to this size, one request reads all wanted bytes of an uncompressed chunk with the gaps.
    span: usize,
    /// Uncompressed chunks are read and copied in pieces of about this size.
    slab: usize,
    /// The maximum size of subchunks that are fetched together.
    group: u64,
}

/// For local values: pieces fit into the processor's cache.
const LOCAL: CoalescingPolicy = CoalescingPolicy { gap: 8 << 10, span: 0, slab: 256 << 10, group: 1 << 20 };

/// For remote values: requests are few. As many slabs as the store has concurrent requests may be
/// in memory.
const REMOTE: CoalescingPolicy =
    CoalescingPolicy { gap: 64 << 10, span: 16 << 20, slab: 16 << 20, group: 128 << 20 };

/// Larger uncompressed chunks are read in parts even if a cache holds decoded chunks.
const MAX_CACHED_RAW_BYTES: usize = 16 << 20;

/// Decoding all of such a chunk costs little more than decoding a part of it.
const SMALL_CHUNK_BYTES: usize = 256 << 10;

/// If the parts that several reads need of a local chunk span more bytes, each read runs alone.
const MAX_SHARED_SPAN: usize = 4 << 20;

/// One read in progress, or several of the same array.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    operation: Operation<'a>,
    array: &'a Array,
    /// Workers share the subchunks of a shard; blocking reads are always shared.
    spread: bool,
    /// The cache of decoded chunks, if those of the operation fit into it.
    chunk_cache: Option<CacheShare<'a>>,
    /// Subchunks of a shard that need no read, by their numbers in the index.
    skipped: Option<(&'a Shard, &'a [usize])>,
}

/// Read `selection` into the buffer at `out`.
///
/// # Safety
/// Every byte offset of the selection lies inside the buffer at `out`, which nothing else accesses
/// until this returns.
///
/// # Errors
/// The first error of any chunk; the buffer contents are then undefined.
///
/// If items are handles, the result owns the elements that they point to; elements of missing
/// chunks belong to the array.
pub unsafe fn read(operation: Operation<'_>, selection: &Selection, out: *mut u8) -> Result<Arena> {
    let (out, arena) = (BufferPtr(out), Arena::default());
    let target = &Target::new(out, &arena);
    let read_hint = |chunk: &Chunk<'_, '_>| {
        let reader = Reader::of_chunk(operation, chunk);
        reader.with(chunk, target, |reads| reader.read_hint(chunk.key, reads))
    };
    operation.each_fetch(selection, &read_hint, &|chunk, opened, scratch| {
        let reader = Reader::of_chunk(operation, chunk);
        reader.with(chunk, target, |reads| reader.read_chunk(chunk.key, opened, reads, scratch))
    })?;
    Ok(arena)
}

fn missing_chunk() -> Error {
    Error::new(Kind::NotFound, "the chunk is missing, and missing chunks are not read as the fill value")
}

impl<'a> Reader<'a> {
    pub(crate) fn new(operation: Operation<'a>, spread: bool, chunk_cache: Option<CacheShare<'a>>) -> Self {
        Reader { operation, array: operation.array, spread, chunk_cache, skipped: None }
    }

    /// Return the reader of a chunk of `operation`.
    pub(crate) fn of_chunk(operation: Operation<'a>, chunk: &Chunk<'a, '_>) -> Self {
        Reader::new(operation, chunk.spread, chunk.chunk_cache)
    }

    /// Return a reader that skips the subchunks with these sorted numbers, in the shard of `level`.
    pub(crate) fn skipping(self, level: &'a Level, numbers: &'a [usize]) -> Self {
        match &level.body {
            Body::Shard(shard) => Reader { skipped: Some((shard, numbers)), ..self },
            _ => self,
        }
    }

    /// Return whether a subchunk needs no read.
    fn is_skipped(&self, shard: &Shard, number: usize) -> bool {
        let is_match = |(of, numbers): (&Shard, &[usize])| {
            std::ptr::eq(of, shard) && numbers.binary_search(&number).is_ok()
        };
        self.skipped.is_some_and(is_match)
    }

    /// Perform one read of a chunk.
    pub(crate) fn chunk(
        &self,
        chunk: &Chunk<'_, '_>,
        target: &Target<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.with(chunk, target, |reads| self.read_chunk(chunk.key, None, reads, scratch))
    }

    /// Run `work` with one read of a chunk.
    fn with<R>(
        &self,
        chunk: &Chunk<'_, '_>,
        target: &Target<'_>,
        work: impl FnOnce(&ChunkReads<'_, '_>) -> R,
    ) -> R {
        let Portion { level, piece, origin } = chunk.portion;
        work(&ChunkReads::new(level, origin, &[ChunkRead { target, piece }]))
    }

    /// Perform the reads of the chunk at `key`, which may be open already.
    fn read_chunk(
        &self,
        key: &str,
        opened: Option<OpenResult>,
        reads: &ChunkReads<'_, '_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.operation.store.read_opened(
            opened,
            key,
            || self.read_hint(key, reads),
            |object| {
                reads.start(); // again, if another write replaces the value
                match object {
                    Some(object) => {
                        let chunks = self.value_chunks(key, reads, &*object);
                        let chunks = chunks.as_ref().map(|chunks| chunks as &dyn DecodedCache);
                        let source = Source::of(&*object).of_key(key).cached_in(chunks);
                        self.read_level(reads, source, scratch)?;
                        if let Some(shard) = self.remote_shard(reads.level) {
                            shard_index::record_last(shard, key, &*object);
                        }
                        Ok(())
                    }
                    None if self.array.missing == Missing::Fill => {
                        self.operation.check_missing(key)?;
                        self.deliver_fill(reads)
                    }
                    None => Err(missing_chunk()),
                }
            },
        )
    }

    /// Return the shard of a level if its store is remote, so that requests are few.
    fn remote_shard<'l>(&self, level: &'l Level) -> Option<&'l Shard> {
        match &level.body {
            Body::Shard(shard) if level.bytes_codecs.is_empty() && self.operation.store.concurrency() > 0 => {
                Some(shard)
            }
            _ => None,
        }
    }

    /// Return the cache of the chunks that are decoded from an open value; None: nothing is cached.
    fn value_chunks(
        &self,
        key: &str,
        reads: &ChunkReads<'_, '_>,
        object: &dyn ValueReader,
    ) -> Option<ValueChunks> {
        let cache = self.chunk_cache_of(reads)?;
        if object.decoded_cache().is_some() {
            return None;
        }
        cache.of_value(key, object)
    }

    /// Return the chunk cache if `reads` may use it: they read parts of compressed chunks, each of
    /// which fits into the cache.
    fn chunk_cache_of(&self, reads: &ChunkReads<'_, '_>) -> Option<&'a ChunkCache> {
        let (cache, innermost) = (self.chunk_cache?.cache, reads.level.innermost());
        if innermost.is_raw() || reads.is_full(&self.array.shape) {
            return None;
        }
        (is_cacheable(innermost) && cache.has_room(innermost.decoded_bytes)).then_some(cache)
    }

    /// Return the hint of a read whose chunks are all cached, unless the value has changed.
    fn unchanged_hint(&self, key: &str, reads: &ChunkReads<'_, '_>) -> Option<ReadHint> {
        let (level, chunks) = (reads.level, self.chunk_cache_of(reads)?.of_known_value(key)?);
        let (version, size) = chunks.version()?;
        let prefix = match &level.body {
            Body::Shard(shard) if level.bytes_codecs.is_empty() => {
                let index_key = IndexKey { version, offset: 0, size, shard: shard.id };
                let entries = self.known_entries(shard, &index_key, reads)?;
                let is_cached = |entry: &Entry| chunks.contains(entry.offset, entry.size, shard.level.id);
                let prefix = if shard.index_at_start { shard.index_bytes as u64 } else { 0 };
                entries.iter().all(is_cached).then_some(prefix)
            }
            Body::Shard(_) => None,
            _ => chunks.contains(0, size, level.id).then_some(u64::MAX),
        };
        prefix.map(|prefix| ReadHint::IfChanged { version, size, prefix })
    }

    fn read_hint(&self, key: &str, reads: &ChunkReads<'_, '_>) -> ReadHint {
        let level = reads.level;
        let blocks = self.operation.store.concurrency() > 0;
        if let Some(hint) = blocks.then(|| self.unchanged_hint(key, reads)).flatten() {
            return hint;
        }
        let is_coalesced = blocks && level.decoded_bytes as u64 <= REMOTE.group;
        match &level.body {
            _ if is_coalesced && reads.is_full(&self.array.shape) => ReadHint::Whole,
            Body::Shard(shard) if is_coalesced && self.touches_all(shard, reads) => ReadHint::Whole,
            Body::Shard(shard) if level.bytes_codecs.is_empty() => {
                let expected =
                    self.remote_shard(level).and_then(|shard| self.expected_range(shard, key, reads));
                expected.unwrap_or_else(|| shard.read_hint())
            }
            // A cacheable chunk is read completely.
            _ if level.is_raw()
                && !(is_cacheable(level) && self.operation.store.info().can_cache(level.decoded_bytes)) =>
            {
                match reads.span() {
                    (low, high) if high - low <= REMOTE.span => {
                        ReadHint::Range { offset: low as u64, count: (high - low) as u64 }
                    }
                    _ => ReadHint::UnknownRanges,
                }
            }
            _ => ReadHint::Whole,
        }
    }

    /// Return whether the store is local and its reads do not block.
    fn is_local(&self) -> bool {
        let store = self.operation.store;
        store.info().is_local && store.concurrency() == 0
    }

    /// Return the policy for bytes of `source`.
    fn policy(&self, source: Source<'_>) -> CoalescingPolicy {
        match source.in_memory().is_some() || self.is_local() {
            true => LOCAL,
            false => REMOTE,
        }
    }

    /// Read `source` as the continuation of an earlier request, if the store is local.
    fn continued<'s>(&self, source: Source<'s>) -> Source<'s> {
        match self.is_local() {
            true => source.continuing_request(),
            false => source,
        }
    }

    fn deliver_fill(&self, reads: &ChunkReads<'_, '_>) -> Result<()> {
        reads.each(|portion, target| {
            portion.each_copy(Direction::FromCell, |copy| {
                let value = match self.array.cast {
                    None => &self.array.fill[copy.field.item..][..copy.field.bytes],
                    Some(_) => self.array.delivered_fill(),
                };
                // SAFETY: the caller of `read` guarantees every offset of the selection.
                unsafe { copy::fill(target.out.0.offset(copy.caller), copy.axes, value) }
            });
            Ok(())
        })
    }

    /// Run `work` with all of `source`, fetched by one request.
    fn with_fetched(
        &self,
        source: Source<'_>,
        scratch: &mut Scratch,
        work: impl FnOnce(Source<'_>, &mut Scratch) -> Result<()>,
    ) -> Result<()> {
        scratch.with_buffer(|whole, scratch| {
            let out = sized(whole, source.size() as usize)?;
            source.read_at(0, out)?;
            work(source.with_bytes(0, out), scratch)
        })
    }

    /// Read a chunk, shard or subchunk with the encoding `source`.
    fn read_level(
        &self,
        reads: &ChunkReads<'_, '_>,
        source: Source<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let level = reads.level;
        let Body::Shard(shard) = &level.body else {
            return self.read_elements(reads, source, scratch);
        };
        level.with_shard(shard, source, scratch, |source, scratch| {
            self.read_shard(shard, reads, source, scratch)
        })
    }
}

/// Return whether the decoded chunk may be cached.
fn is_cacheable(level: &Level) -> bool {
    match level.body {
        Body::Bytes { .. } | Body::Foreign(_) => {
            !level.is_raw() || level.decoded_bytes <= MAX_CACHED_RAW_BYTES
        }
        Body::Shard(_) | Body::Vlen(_) => false,
    }
}

/// Return the slot in a cache for the chunk that `level` decodes from `source`, if any.
fn decoded_slot<'a>(level: &Level, source: Source<'a>) -> Option<DecodedSlot<'a>> {
    let slot = is_cacheable(level).then(|| source.decoded_slot(level)).flatten()?;
    (!level.is_raw() || !slot.is_for_parts()).then_some(slot)
}
