//! Reading: from keys to the caller's buffer.
//!
//! A chunk is decoded straight into the caller's buffer where its bytes lie
//! there in one run, else into scratch and copied once. Of uncompressed chunks
//! only the needed ranges are read; of shards only the needed subchunks, with
//! neighbouring ranges in one request.

mod async_parts;
mod chunk;
mod parts;
mod read_group;
mod shards;

use crate::array::{Array, Body, Level, Missing, Shard};
use crate::copy;
use crate::error::{Error, Kind, Result};
use crate::pipeline::operation::{Address, Chunk, Operation, Portion};
use crate::pipeline::source::{Kept, Source};
use crate::scratch::{sized, Scratch};
use crate::selection::{Direction, Selection};
use crate::store::{OpenResult, ReadHint};
use crate::vlen::Arena;
use parts::{Parts, Wanted};

pub(crate) use chunk::offsets;
pub(crate) use parts::Target;
pub use read_group::{read_together, wants};

/// What a request is worth: how much is read by one.
#[derive(Clone, Copy)]
struct Worth {
    /// Bytes that one more is worth; smaller gaps are read over.
    gap: u64,
    /// So many bytes of an uncompressed chunk are read by one, whichever of them are wanted.
    span: usize,
    /// Uncompressed chunks are read and copied in pieces of about this size.
    slab: usize,
    /// Subchunks are fetched together up to this size.
    group: u64,
}

/// Where values are at hand: pieces stay in the processor's cache.
const QUICK: Worth = Worth { gap: 8 << 10, span: 0, slab: 256 << 10, group: 1 << 20 };

/// Where each is answered by somebody else: there they are few rather than quick. Of slabs there may be as many under
/// way as a store wants, each with its memory.
const WAITED: Worth = Worth { gap: 64 << 10, span: 16 << 20, slab: 16 << 20, group: 128 << 20 };

/// Larger uncompressed chunks are read in parts also where decoded chunks are remembered.
const KEPT_RAW_BYTES: usize = 16 << 20;

/// Where more bytes of a chunk at hand are between parts that several reads want, each is read as if it were alone.
const SHARED_BYTES: usize = 4 << 20;

/// One read in progress, or several of the same array.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    operation: Operation<'a>,
    array: &'a Array,
    /// Shards spread their subchunks over the pool; those that are waited for, always.
    spread: bool,
    /// Subchunks of a shard that others have, by their numbers in its index.
    had: Option<(&'a Shard, &'a [usize])>,
}

/// Read `selection` into the buffer at `out`.
///
/// # Safety
/// Every byte offset that the selection names lies inside the buffer at `out`,
/// which nothing else touches until this returns.
///
/// # Errors
/// The first that any chunk met; the buffer then holds anything.
///
/// Where items are handles, the result keeps the elements that they point to; those
/// of chunks that are not stored are the array's own.
pub unsafe fn read(operation: Operation<'_>, selection: &Selection, out: *mut u8) -> Result<Arena> {
    let (out, arena) = (Address(out), Arena::default());
    let target = &Target::new(out, &arena);
    let reader = |chunk: &Chunk<'_, '_>| Reader::new(operation, chunk.spread);
    let want = |chunk: &Chunk<'_, '_>| reader(chunk).with(chunk, target, |parts| reader(chunk).want(parts));
    operation.each_value(selection, &want, &|chunk, opened, scratch| {
        let reader = reader(chunk);
        reader.with(chunk, target, |parts| reader.parts(chunk.key, opened, parts, scratch))
    })?;
    Ok(arena)
}

fn missing() -> Error {
    Error::new(Kind::NotFound, "nothing is stored, and that is not to be read as the fill value")
}

impl<'a> Reader<'a> {
    pub(crate) fn new(operation: Operation<'a>, spread: bool) -> Self {
        Reader { operation, array: operation.array, spread, had: None }
    }

    /// The same, where nothing need be read of subchunks with these numbers, in their order, of the shard that `level`
    /// is of.
    pub(crate) fn without(self, level: &'a Level, numbers: &'a [usize]) -> Self {
        match &level.body {
            Body::Shard(shard) => Reader { had: Some((shard, numbers)), ..self },
            _ => self,
        }
    }

    /// Whether nothing need be read of a subchunk.
    fn has(&self, shard: &Shard, number: usize) -> bool {
        let is_had = |(of, numbers): (&Shard, &[usize])| {
            std::ptr::eq(of, shard) && numbers.binary_search(&number).is_ok()
        };
        self.had.is_some_and(is_had)
    }

    /// What one read wants of a cell of the array's grid.
    pub(crate) fn chunk(
        &self,
        chunk: &Chunk<'_, '_>,
        target: &Target<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.with(chunk, target, |parts| self.parts(chunk.key, None, parts, scratch))
    }

    /// Do `work` with what one read wants of a cell.
    fn with<R>(
        &self,
        chunk: &Chunk<'_, '_>,
        target: &Target<'_>,
        work: impl FnOnce(&Parts<'_, '_>) -> R,
    ) -> R {
        let Portion { level, piece, origin } = chunk.portion;
        work(&Parts::new(level, origin, &[Wanted { target, piece }]))
    }

    /// What reads want of the chunk at `key`, which may have been opened.
    fn parts(
        &self,
        key: &str,
        opened: Option<OpenResult>,
        parts: &Parts<'_, '_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.operation.store.read_opened(
            opened,
            key,
            || self.want(parts),
            |object| {
                parts.begin(); // once more where it was replaced meanwhile
                match object {
                    Some(object) => self.level(parts, Source::of(&*object).of_key(key), scratch),
                    None if self.array.missing == Missing::Fill => {
                        self.operation.check_missing(key)?;
                        self.fill(parts)
                    }
                    None => Err(missing()),
                }
            },
        )
    }

    fn want(&self, parts: &Parts<'_, '_>) -> ReadHint {
        let level = parts.level;
        let waits = self.operation.store.concurrency() > 0;
        let together = waits && level.decoded_bytes as u64 <= WAITED.group;
        match &level.body {
            _ if together && parts.is_full(&self.array.shape) => ReadHint::Whole,
            Body::Shard(shard) if together && self.wants_all(shard, parts) => ReadHint::Whole,
            Body::Shard(shard) if level.pipeline.is_empty() => shard.want(),
            // Unless it stays where it is read from.
            _ if level.is_raw()
                && !(may_stay(level) && self.operation.store.can_cache(level.decoded_bytes)) =>
            {
                match parts.span() {
                    (low, high) if high - low <= WAITED.span => {
                        ReadHint::Range { offset: low as u64, count: (high - low) as u64 }
                    }
                    _ => ReadHint::UnknownRanges,
                }
            }
            _ => ReadHint::Whole,
        }
    }

    /// Values are at hand: nobody waits for one of their pieces.
    fn is_local(&self) -> bool {
        let store = self.operation.store;
        store.is_local() && store.concurrency() == 0
    }

    /// What a request is worth for bytes of `source`.
    fn worth(&self, source: Source<'_>) -> Worth {
        match source.in_memory().is_some() || self.is_local() {
            true => QUICK,
            false => WAITED,
        }
    }

    /// What is read of `source` counts as one request with what was read of it before, if it can.
    fn more<'s>(&self, source: Source<'s>) -> Source<'s> {
        match self.is_local() {
            true => source.more(),
            false => source,
        }
    }

    fn fill(&self, parts: &Parts<'_, '_>) -> Result<()> {
        parts.each(|portion, target| {
            portion.each_copy(Direction::FromCell, |copy| {
                let value = &self.array.fill[copy.field.item..][..copy.field.bytes];
                // SAFETY: the caller of `read` vouches for every offset of the selection.
                unsafe { copy::fill(target.out.0.offset(copy.caller), copy.axes, value) }
            });
            Ok(())
        })
    }

    /// Does `work` with all of `source`, fetched by one request.
    fn fetched(
        &self,
        source: Source<'_>,
        scratch: &mut Scratch,
        work: impl FnOnce(Source<'_>, &mut Scratch) -> Result<()>,
    ) -> Result<()> {
        let mut whole = scratch.take();
        let done = sized(&mut whole, source.size() as usize).and_then(|out| {
            source.read_at(0, out)?;
            work(source.fetched(0, out), scratch)
        });
        scratch.give(whole);
        done
    }

    /// A chunk, shard or subchunk whose encoding is `source`.
    fn level(&self, parts: &Parts<'_, '_>, source: Source<'_>, scratch: &mut Scratch) -> Result<()> {
        let level = parts.level;
        let Body::Shard(shard) = &level.body else {
            return self.leaf(parts, source, scratch);
        };
        if level.pipeline.is_empty() {
            return self.shard(shard, parts, source, scratch);
        }
        let (mut encoded, mut decoded) = (scratch.take(), scratch.take());
        let done = (|| {
            let bytes = source.load(&level.encoded_bytes, &mut encoded)?;
            level.pipeline.decode(bytes, &mut decoded, shard.most_bytes(), scratch)?;
            self.shard(shard, parts, Source::made(&decoded), scratch)
        })();
        scratch.give(encoded);
        scratch.give(decoded);
        done
    }
}

/// Whether a chunk of elements may be remembered.
fn may_stay(level: &Level) -> bool {
    match level.body {
        Body::Bytes { .. } | Body::Foreign(_) => !level.is_raw() || level.decoded_bytes <= KEPT_RAW_BYTES,
        Body::Shard(_) | Body::Vlen(_) => false,
    }
}

/// Where the chunk of `level` stays that is decoded of `source`, if it does.
fn kept<'a>(level: &Level, source: Source<'a>) -> Option<Kept<'a>> {
    may_stay(level).then(|| source.kept(level)).flatten()
}
