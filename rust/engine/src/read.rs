//! Reading: from keys to the caller's buffer.
//!
//! A chunk is decoded straight into the caller's buffer where its bytes lie
//! there in one run, else into scratch and copied once. Of uncompressed chunks
//! only the needed ranges are read; of shards only the needed subchunks, with
//! neighbouring ranges in one request.

use crate::array::{Array, Body, Level, PerAxis, Shard};
use crate::copy::{self, Axis, Item};
use crate::error::{Error, Result};
use crate::operation::{origin_of, Address, Chunk, Operation, Run};
use crate::pipeline::expect_size;
use crate::scratch::{reserve, sized, Scratch};
use crate::selection::{divide, Direction, Division, Piece, Selection};
use crate::shard::{self, Entry};
use crate::source::Source;
use crate::store::Want;

/// Bytes that one more read request is worth; smaller gaps are read over.
const GAP_BYTES: u64 = 8 << 10;

/// Uncompressed chunks are read and copied in pieces of about this size.
const SLAB_BYTES: usize = 256 << 10;

/// Subchunks are fetched together up to this size.
const GROUP_BYTES: u64 = 1 << 20;

/// One read in progress.
struct Reader<'a> {
    operation: Operation<'a>,
    array: &'a Array,
    out: Address,
    /// Shards spread their subchunks over the pool.
    spread: bool,
}

/// Read `selection` into the buffer at `out`.
///
/// # Safety
/// Every byte offset that the selection names lies inside the buffer at `out`,
/// which nothing else touches until this returns.
///
/// # Errors
/// The first that any chunk met; the buffer then holds anything.
pub unsafe fn read(operation: Operation<'_>, selection: &Selection, out: *mut u8) -> Result<()> {
    let out = Address(out);
    operation.each_chunk(selection, &|chunk, scratch| {
        let address = out;
        let reader = Reader { operation, array: operation.array, out: address, spread: chunk.spread };
        reader.chunk(chunk, scratch)
    })
}

impl Reader<'_> {
    /// One cell of the array's grid.
    fn chunk(&self, chunk: &Chunk<'_, '_>, scratch: &mut Scratch) -> Result<()> {
        let level = &self.array.level;
        match self.operation.store.open(chunk.key, want(level))? {
            Some(object) => {
                let place = object.version().map(|version| (version, 0));
                self.level(level, Source::of(&*object), place, &chunk.piece, &chunk.origin, scratch)
            }
            None => {
                self.fill(&chunk.piece, &chunk.origin);
                Ok(())
            }
        }
    }

    fn fill(&self, piece: &Piece<'_>, origin: &[u64]) {
        let still: PerAxis<isize> = origin.iter().map(|_| 0).collect();
        piece.with_copy(Direction::FromCell, origin, &still, |_, to, axes| {
            // SAFETY: the caller of `read` vouches for every offset of the selection.
            unsafe { copy::fill(self.out.0.offset(to), axes, &self.array.fill) }
        });
    }

    /// A chunk, shard or subchunk whose encoding is at `source`. `place` is the
    /// version of the object and the offset in it, where known.
    fn level(
        &self,
        level: &Level,
        source: Source<'_>,
        place: shard::Place,
        piece: &Piece<'_>,
        origin: &[u64],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let Body::Shard(shard) = &level.body else {
            return self.leaf(level, source, piece, origin, scratch);
        };
        if level.pipeline.is_empty() {
            return self.shard(shard, source, place, piece, origin, scratch);
        }
        let (mut encoded, mut decoded) = (scratch.take(), scratch.take());
        let done = (|| {
            let bytes = source.load(level.most_encoded, &mut encoded)?;
            level.pipeline.decode(bytes, &mut decoded, shard.most_bytes(), scratch)?;
            self.shard(shard, Source::Bytes(&decoded), None, piece, origin, scratch)
        })();
        scratch.give(encoded);
        scratch.give(decoded);
        done
    }

    fn shard(
        &self,
        shard: &Shard,
        source: Source<'_>,
        place: shard::Place,
        piece: &Piece<'_>,
        origin: &[u64],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let index = shard::index(shard, source, place, scratch)?;
        let sub = &shard.level;
        let division = divide(piece, origin, &sub.shape)?;
        let mut cell = PerAxis::new();
        let mut found: Vec<Entry> = Vec::new();
        reserve(&mut found, division.tasks())?;
        for task in 0..division.tasks() {
            let inner = division.task(task, &mut cell);
            match shard::entry(shard, &index, &cell)? {
                Some((offset, size)) => found.push(Entry { offset, size, task }),
                None => self.fill(&inner, &origin_of(origin, &cell, &sub.shape)),
            }
        }
        let groups = group(&mut found, source)?;
        let run = Run::decide(groups.len(), sub.decoded_bytes * (found.len() / groups.len().max(1)));
        let run = Run { parallel: run.parallel && self.spread };
        run.each(groups.len(), self.operation.interrupt, &|number, scratch| {
            let entries = &found[groups[number].clone()];
            self.group(shard, source, place, entries, &division, origin, scratch)
        })
    }

    /// Subchunks whose bytes are close together: one request, then each by itself.
    #[allow(clippy::too_many_arguments)]
    fn group(
        &self,
        shard: &Shard,
        source: Source<'_>,
        place: shard::Place,
        entries: &[Entry],
        division: &Division<'_>,
        origin: &[u64],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let mut buffer = scratch.take();
        let first = entries[0].offset;
        let end = entries.iter().map(|entry| entry.offset + entry.size).max().unwrap_or(first);
        let done = (|| {
            let together = match source {
                Source::Object { .. } if entries.len() > 1 => {
                    let out = sized(&mut buffer, (end - first) as usize)?;
                    source.read_at(first, out)?;
                    Some(&*out)
                }
                _ => None,
            };
            let mut cell = PerAxis::new();
            for entry in entries {
                let piece = division.task(entry.task, &mut cell);
                let part = match together {
                    Some(bytes) => Source::Bytes(bytes).part(entry.offset - first, entry.size)?,
                    None => source.part(entry.offset, entry.size)?,
                };
                let place = place.map(|(version, offset)| (version, offset + entry.offset));
                self.level(
                    &shard.level,
                    part,
                    place,
                    &piece,
                    &origin_of(origin, &cell, &shard.level.shape),
                    scratch,
                )
                .map_err(|error| error.in_subchunk(&cell))?;
            }
            Ok(())
        })();
        scratch.give(buffer);
        done
    }

    /// A chunk or subchunk of elements.
    fn leaf(
        &self,
        level: &Level,
        source: Source<'_>,
        piece: &Piece<'_>,
        origin: &[u64],
        scratch: &mut Scratch,
    ) -> Result<()> {
        if level.is_raw() {
            expect_size(usize::try_from(source.size()).unwrap_or(usize::MAX), level.decoded_bytes)?;
            return self.raw(level, source, piece, origin, scratch);
        }
        let (mut encoded, mut decoded) = (scratch.take(), scratch.take());
        let done = (|| {
            let bytes = source.load(level.most_encoded, &mut encoded)?;
            self.encoded(level, bytes, &mut decoded, piece, origin, scratch)
        })();
        scratch.give(encoded);
        scratch.give(decoded);
        done
    }

    /// Elements that stand as they are: read only what is needed.
    fn raw(
        &self,
        level: &Level,
        source: Source<'_>,
        piece: &Piece<'_>,
        origin: &[u64],
        scratch: &mut Scratch,
    ) -> Result<()> {
        if let Source::Bytes(bytes) = source {
            return self.deliver(level, bytes, 0, piece, origin);
        }
        if let Some((from, out)) = self.run(level, piece, origin) {
            source.read_at(from as u64, out)?;
            return self.finish(level, out);
        }
        let (low, high) = piece.span(origin, &level.strides, level.item_bytes);
        if let Some((axis, places)) = slabs(piece, low, high, origin, level) {
            let mut done = 0;
            while done < piece.places(axis) {
                let end = piece.places(axis).min(done + places);
                self.raw(level, source, &piece.slab(axis, done..end), origin, scratch)?;
                done = end;
            }
            return Ok(());
        }
        let mut buffer = scratch.take();
        let done = (|| {
            let out = sized(&mut buffer, high - low)?;
            source.read_at(low as u64, out)?;
            self.deliver(level, out, low, piece, origin)
        })();
        scratch.give(buffer);
        done
    }

    /// Bytes under codecs: decode straight into the caller's buffer where
    /// possible, only the needed part where the codec can, else all, and copy.
    fn encoded(
        &self,
        level: &Level,
        bytes: &[u8],
        decoded: &mut Vec<u8>,
        piece: &Piece<'_>,
        origin: &[u64],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let total = level.decoded_bytes;
        if let Body::Foreign(_) = level.body {
            let out = sized(decoded, total)?;
            level.decode_into(bytes, out, scratch)?;
            return self.deliver(level, out, 0, piece, origin);
        }
        if let Some(view) = level.pipeline.view(bytes) {
            let view = view?;
            expect_size(view.len(), total)?;
            return self.deliver(level, view, 0, piece, origin);
        }
        if let Some((_, out)) = self.run(level, piece, origin) {
            if out.len() == total {
                level.pipeline.decode_into(bytes, out, scratch)?;
                return self.finish(level, out);
            }
        }
        let (low, high) = piece.span(origin, &level.strides, level.item_bytes);
        let out = sized(decoded, total)?;
        if high - low < total / 4 * 3
            && level.pipeline.decode_part(bytes, total, low, &mut out[low..high], scratch)?
        {
            return self.deliver(level, &out[low..high], low, piece, origin);
        }
        level.pipeline.decode_into(bytes, out, scratch)?;
        self.deliver(level, out, 0, piece, origin)
    }

    /// The caller's buffer for `piece`, and its byte offset in the decoded
    /// chunk, where the two are one run of the same bytes.
    #[allow(clippy::mut_from_ref)]
    fn run(&self, level: &Level, piece: &Piece<'_>, origin: &[u64]) -> Option<(usize, &mut [u8])> {
        let item = Item { bytes: level.item_bytes, swap: 0 };
        piece.with_copy(Direction::FromCell, origin, &level.strides, |from, to, axes| {
            let bytes = copy::Plan::new(axes, item).contiguous_bytes()?;
            // SAFETY: the caller of `read` vouches for every offset of the
            // selection; no two tasks reach the same items.
            let out = unsafe { std::slice::from_raw_parts_mut(self.out.0.offset(to), bytes) };
            Some((from as usize, out))
        })
    }

    /// Bytes stand in the caller's buffer in stored order: make them the caller's.
    fn finish(&self, level: &Level, out: &mut [u8]) -> Result<()> {
        if level.swap() > 1 {
            copy::swap_in_place(out, level.swap());
        }
        if self.array.is_bool && !copy::bool_ok(out) {
            return Err(bad_bool());
        }
        Ok(())
    }

    /// Copy `piece` out of `decoded`, which holds the decoded chunk from byte `low` on.
    fn deliver(
        &self,
        level: &Level,
        decoded: &[u8],
        low: usize,
        piece: &Piece<'_>,
        origin: &[u64],
    ) -> Result<()> {
        if self.array.is_bool && !copy::bool_ok(decoded) {
            self.check_selected(level, decoded, low, piece, origin)?;
        }
        let item = Item { bytes: level.item_bytes, swap: level.swap() };
        piece.with_copy(Direction::FromCell, origin, &level.strides, |from, to, axes| {
            // SAFETY: `decoded` covers the span of the piece, the caller of
            // `read` vouches for the other side, and the two do not overlap.
            unsafe {
                copy::copy(decoded.as_ptr().offset(from - low as isize), self.out.0.offset(to), axes, item)
            }
        });
        Ok(())
    }

    /// Some byte of the chunk is neither 0 nor 1: is it one that was asked for?
    /// What stands past the edge of the array is nobody's business.
    fn check_selected(
        &self,
        level: &Level,
        decoded: &[u8],
        low: usize,
        piece: &Piece<'_>,
        origin: &[u64],
    ) -> Result<()> {
        let good = piece.with_copy(Direction::FromCell, origin, &level.strides, |from, _, axes| {
            offsets(axes).all(|offset| decoded[(from + offset) as usize - low] <= 1)
        });
        if good {
            Ok(())
        } else {
            Err(bad_bool())
        }
    }
}

fn bad_bool() -> Error {
    Error::data("a boolean is stored as neither 0 nor 1")
}

/// Every source offset of a copy, in no order that matters.
fn offsets<'a>(axes: &'a [Axis<'a>]) -> Box<dyn Iterator<Item = isize> + 'a> {
    match axes.split_first() {
        None => Box::new(std::iter::once(0)),
        Some((Axis::Strided { count, src, .. }, rest)) => Box::new(
            (0..*count).flat_map(move |number| offsets(rest).map(move |inner| inner + number as isize * src)),
        ),
        Some((Axis::List { offsets: list }, rest)) => {
            Box::new(list.iter().flat_map(move |(at, _)| offsets(rest).map(move |inner| inner + at)))
        }
    }
}

fn want(level: &Level) -> Want {
    match &level.body {
        Body::Shard(shard) if level.pipeline.is_empty() => shard.want(),
        _ if level.is_raw() => Want::Ranges,
        _ => Want::Whole,
    }
}

/// The axis along which to read slab by slab, and the places of one slab: one,
/// where that saves more bytes than its requests cost; else as many as stay in
/// the processor's cache between reading and copying.
fn slabs(
    piece: &Piece<'_>,
    low: usize,
    high: usize,
    origin: &[u64],
    level: &Level,
) -> Option<(usize, usize)> {
    let axes = 0..origin.len();
    let axis = axes.filter(|&axis| piece.places(axis) > 1).max_by_key(|&axis| level.strides[axis])?;
    let places = piece.places(axis);
    let (first, last) = piece.slab(axis, 0..1).span(origin, &level.strides, level.item_bytes);
    let apart = (last - first).saturating_mul(places);
    if (high - low).saturating_sub(apart) as u64 > GAP_BYTES * places as u64 {
        return Some((axis, 1));
    }
    // Points are in no order: a few of them may span as much as all.
    let fit = (places * SLAB_BYTES / (high - low)).max(1);
    (fit < places && !piece.is_joint(axis)).then_some((axis, fit))
}

/// Sort `entries` by place and cut them into groups to fetch together.
fn group(entries: &mut [Entry], source: Source<'_>) -> Result<Vec<std::ops::Range<usize>>> {
    if !entries.is_sorted_by_key(|entry| entry.offset) {
        entries.sort_unstable_by_key(|entry| entry.offset);
    }
    let mut groups: Vec<std::ops::Range<usize>> = Vec::new();
    let (mut start, mut end) = (0u64, 0u64);
    for (number, entry) in entries.iter().enumerate() {
        let after = entry.offset.checked_add(entry.size).filter(|&after| after <= source.size());
        let after = after.ok_or_else(|| {
            let (offset, size, have) = (entry.offset, entry.size, source.size());
            Error::size(format!("the shard index points to {size} bytes from {offset}, the shard has {have}"))
        })?;
        let joins = entry.offset <= end.saturating_add(GAP_BYTES) && after.max(end) - start <= GROUP_BYTES;
        match groups.last_mut() {
            Some(group) if joins => {
                group.end = number + 1;
                end = end.max(after);
            }
            _ => {
                groups.push(number..number + 1);
                (start, end) = (entry.offset, after);
            }
        }
    }
    Ok(groups)
}
