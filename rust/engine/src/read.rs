//! Reading: from keys to the caller's buffer.
//!
//! A chunk is decoded straight into the caller's buffer where its bytes lie
//! there in one run, else into scratch and copied once. Of uncompressed chunks
//! only the needed ranges are read; of shards only the needed subchunks, with
//! neighbouring ranges in one request.

mod parts;
mod together;

use crate::array::{Array, Body, Level, Missing, Shard};
use crate::copy::{self, Axis};
use crate::error::{Error, Kind, Result};
use crate::operation::{Address, Chunk, Operation, Portion, Run};
use crate::pipeline::expect_size;
use crate::scratch::{reserve, sized, Scratch};
use crate::selection::{Direction, Selection};
use crate::shard::{self, Entry};
use crate::source::{Kept, Source};
use crate::store::{Opened, Want};
use crate::vlen::{self, Arena};
use parts::{Parts, Subchunks, Wanted};

pub(crate) use parts::Target;
pub use together::read_together;

/// What a request is worth: how much is read by one.
#[derive(Clone, Copy)]
struct Worth {
    /// Bytes that one more is worth; smaller gaps are read over.
    gap: u64,
    /// Uncompressed chunks are read and copied in pieces of about this size.
    slab: usize,
    /// Subchunks are fetched together up to this size.
    group: u64,
}

/// Where they are answered at once: pieces stay in the processor's cache.
const QUICK: Worth = Worth { gap: 8 << 10, slab: 256 << 10, group: 1 << 20 };

/// Where each is waited for: there they are few rather than quick. Of slabs there may be as many under way as the
/// store wants, each with its memory.
const WAITED: Worth = Worth { gap: 64 << 10, slab: 16 << 20, group: 128 << 20 };

/// Larger uncompressed chunks are read in parts also where decoded chunks are remembered.
const KEPT_RAW_BYTES: usize = 16 << 20;

/// Larger chunks of which several reads want parts are read by each as if it were alone.
const SHARED_BYTES: u64 = 4 << 20;

/// Subchunks of a shard that are fetched together.
struct Group {
    entries: std::ops::Range<usize>,
    /// The bytes that hold them; None: each is fetched by itself.
    span: Option<(u64, u64)>,
}

/// One read in progress, or several of the same array.
pub(crate) struct Reader<'a> {
    operation: Operation<'a>,
    array: &'a Array,
    /// Shards spread their subchunks over the pool; those that are waited for, always.
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
        Reader { operation, array: operation.array, spread }
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
        opened: Option<Opened>,
        parts: &Parts<'_, '_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.operation.store.read_on(opened, key, self.want(parts), |object| match object {
            Some(object) => self.level(parts, Source::of(&*object), scratch),
            None if self.array.missing == Missing::Fill => self.fill(parts),
            None => Err(missing()),
        })
    }

    fn want(&self, parts: &Parts<'_, '_>) -> Want {
        let level = parts.level;
        let waits = self.operation.store.concurrency() > 0;
        let together = waits && level.decoded_bytes as u64 <= WAITED.group;
        match &level.body {
            _ if together && parts.is_full(&self.array.shape) => Want::Whole,
            Body::Shard(shard) if together && self.wants_all(shard, parts) => Want::Whole,
            Body::Shard(shard) if level.pipeline.is_empty() => shard.want(),
            _ if level.is_raw() && !self.keeps_raw(level) => Want::Ranges,
            _ => Want::Whole,
        }
    }

    /// Whether an uncompressed chunk is read whole, as it stays where it is read from.
    fn keeps_raw(&self, level: &Level) -> bool {
        level.decoded_bytes <= KEPT_RAW_BYTES && self.operation.store.keeps(level.decoded_bytes)
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

    fn shard(
        &self,
        shard: &Shard,
        parts: &Parts<'_, '_>,
        source: Source<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let inside = parts.inside(shard)?;
        if source.in_memory().is_none() {
            let together = if source.size() <= QUICK.group {
                inside.subchunks() == self.subchunks_of(shard, parts)
            } else {
                source.size() <= WAITED.group && parts.is_full(&self.array.shape)
            };
            if together && (parts.wanted.len() > 1 || !shard::is_known(shard, source)) {
                // All of a shard, its index included, is one request.
                let source = if kept(&shard.level, source).is_some() { source.once() } else { source };
                return self
                    .fetched(source, scratch, |source, scratch| self.shard(shard, parts, source, scratch));
            }
        }
        let index = shard::index(shard, source, scratch)?;
        let touches = &inside.touches;
        let of = Subchunks { parts, level: &shard.level, inside };
        let mut found: Vec<Entry> = Vec::new();
        reserve(&mut found, touches.len())?;
        for (first, touch) in touches.iter().enumerate() {
            if first > 0 && touches[first - 1].number == touch.number {
                continue;
            }
            match shard::numbered(&index, touch.number) {
                Ok(Some((offset, size))) => found.push(Entry { offset, size, task: first }),
                told => of.with(first, |parts, cell| {
                    let refuse = self.array.missing == Missing::Refuse;
                    let done = told.and_then(|_| if refuse { Err(missing()) } else { self.fill(parts) });
                    done.map_err(|error| error.in_subchunk(cell))
                })?,
            }
        }
        found.sort_unstable_by_key(|entry| entry.offset);
        if source.in_memory().is_none() && kept(&shard.level, source).is_some() {
            let is_here = |entry: &Entry| {
                let part = source.part(entry.offset, entry.size).ok()?;
                kept(&shard.level, part)?.find(shard.level.id)
            };
            let here: Vec<Entry>;
            (here, found) = found.into_iter().partition(|entry| is_here(entry).is_some());
            self.remembered(&of, source, &here)?;
        }
        self.subchunks(&of, source, 0, &found)
    }

    /// Subchunks that are remembered, for which nothing is asked.
    fn remembered(&self, of: &Subchunks<'_, '_>, source: Source<'_>, entries: &[Entry]) -> Result<()> {
        let run = match self.spread {
            true => Run::decide(entries.len(), of.level.decoded_bytes, 0),
            false => Run::Here,
        };
        run.each(entries.len(), self.operation.interrupt, &|number, scratch| {
            let group = Group { entries: number..number + 1, span: None };
            self.group(of, source, 0, entries, &group, scratch)
        })
    }

    /// Something is wanted of every subchunk of the shard that `parts` are of.
    fn wants_all(&self, shard: &Shard, parts: &Parts<'_, '_>) -> bool {
        parts.inside(shard).is_ok_and(|inside| inside.subchunks() == self.subchunks_of(shard, parts))
    }

    /// How many subchunks of the shard that `parts` are of are not all past the array's edge.
    fn subchunks_of(&self, shard: &Shard, parts: &Parts<'_, '_>) -> u64 {
        let ends = self.array.shape.iter().zip(parts.origin).map(|(end, origin)| end - origin);
        let lengths = ends.zip(&parts.level.shape).map(|(end, &length)| end.min(length));
        lengths.zip(&shard.level.shape).map(|(length, size)| length.div_ceil(*size)).product()
    }

    /// Subchunks that `entries` tell in their order, where `source` begins at `start` of the shard.
    fn subchunks(
        &self,
        of: &Subchunks<'_, '_>,
        source: Source<'_>,
        start: u64,
        entries: &[Entry],
    ) -> Result<()> {
        let concurrency = if source.in_memory().is_none() { self.operation.store.concurrency() } else { 0 };
        let groups = group(entries, start + source.size(), worth(concurrency))?;
        let run = if self.spread || concurrency > 0 {
            let bytes = of.level.decoded_bytes * (entries.len() / groups.len().max(1));
            Run::decide(groups.len(), bytes, concurrency)
        } else {
            Run::Here
        };
        run.each(groups.len(), self.operation.interrupt, &|number, scratch| {
            self.group(of, source, start, entries, &groups[number], scratch)
        })
    }

    /// Subchunks whose bytes are close together: one request, then each by itself.
    fn group(
        &self,
        of: &Subchunks<'_, '_>,
        source: Source<'_>,
        start: u64,
        entries: &[Entry],
        group: &Group,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let entries = &entries[group.entries.clone()];
        if let (None, Some((first, end))) = (source.in_memory(), group.span) {
            let part = source.part(first - start, end - first)?;
            let part = if kept(of.level, part).is_some() { part.once() } else { part };
            return self.fetched(part, scratch, |source, _| self.subchunks(of, source, first, entries));
        }
        for entry in entries {
            let part = source.part(entry.offset - start, entry.size)?;
            of.with(entry.task, |parts, cell| {
                self.level(parts, part, scratch).map_err(|error| error.in_subchunk(cell))
            })?;
        }
        Ok(())
    }

    /// A chunk or subchunk of elements.
    fn leaf(&self, parts: &Parts<'_, '_>, source: Source<'_>, scratch: &mut Scratch) -> Result<()> {
        let level = parts.level;
        if let Some(kept) = kept(level, source) {
            return self.keeping(parts, source, kept, scratch);
        }
        if level.is_raw() {
            expect_size(usize::try_from(source.size()).unwrap_or(usize::MAX), level.decoded_bytes)?;
            let apart = parts.wanted.len() > 1 && source.in_memory().is_none();
            if apart && source.size() <= SHARED_BYTES {
                return self.fetched(source, scratch, |source, scratch| self.leaf(parts, source, scratch));
            }
            return parts.each(|portion, target| self.raw(portion, target, source, scratch));
        }
        let (mut encoded, mut decoded) = (scratch.take(), scratch.take());
        let done = (|| {
            let bytes = source.load(&level.encoded_bytes, &mut encoded)?;
            let _turn = self.operation.store.decoding()?;
            if let Body::Vlen(_) = level.body {
                let source = source.fetched(0, bytes);
                return parts
                    .each(|portion, target| self.elements(portion, target, source, &mut decoded, scratch));
            }
            self.encoded(parts, bytes, &mut decoded, scratch)
        })();
        scratch.give(encoded);
        scratch.give(decoded);
        done
    }

    /// A chunk or subchunk that stays decoded.
    fn keeping(
        &self,
        parts: &Parts<'_, '_>,
        source: Source<'_>,
        kept: Kept<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let level = parts.level;
        let deliver = |bytes: &[u8]| parts.each(|portion, target| self.deliver(portion, target, bytes, 0));
        if let Some(bytes) = kept.find(level.id).filter(|bytes| bytes.len() == level.decoded_bytes) {
            let _turn = self.operation.store.decoding()?;
            return deliver(&bytes);
        }
        let (source, mut encoded, mut decoded) = (source.once(), scratch.take(), Vec::new());
        let done = (|| {
            let out = sized(&mut decoded, level.decoded_bytes)?;
            if level.is_raw() {
                expect_size(usize::try_from(source.size()).unwrap_or(usize::MAX), out.len())?;
                source.read_at(0, out)?;
                let _turn = self.operation.store.decoding()?;
                return deliver(out);
            }
            let bytes = source.load(&level.encoded_bytes, &mut encoded)?;
            let _turn = self.operation.store.decoding()?;
            level.decode_into(bytes, out, scratch)?;
            deliver(out)
        })();
        scratch.give(encoded);
        done.map(|()| kept.keep(level.id, decoded))
    }

    /// Elements of any length: what is wanted of them stays in the arena.
    fn elements(
        &self,
        portion: &Portion<'_, '_>,
        target: &Target<'_>,
        source: Source<'_>,
        handles: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let handles = sized(handles, portion.level.decoded_bytes)?;
        let mut elements = Vec::new();
        portion.level.load(source, handles, &mut elements, scratch)?;
        if !portion.is_full(Some(&self.array.shape)) {
            let gathered = portion.of_copy(Direction::FromCell, |copy| {
                let places = || offsets(copy.axes).map(|offset| (copy.cell + offset) as usize);
                // SAFETY: the portion lies inside the chunk, all of whose handles
                // point into `elements`, which lives until it is replaced here.
                Some(unsafe { vlen::gather(handles, places) })
            });
            elements = gathered.ok_or_else(|| Error::internal("fields of elements of any length"))??;
        }
        target.arena.keep(elements);
        self.deliver(portion, target, handles, 0)
    }

    /// Elements that stand as they are: read only what is needed.
    fn raw(
        &self,
        portion: &Portion<'_, '_>,
        target: &Target<'_>,
        source: Source<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        if let Some(bytes) = source.in_memory() {
            let _turn = self.operation.store.decoding()?;
            return self.deliver(portion, target, bytes, 0);
        }
        if let Some((from, out)) = target.run(portion) {
            source.read_at(from as u64, out)?;
            return self.finish(portion.level, out);
        }
        let (low, high) = portion.span();
        let piece = portion.piece;
        let concurrency = self.operation.store.concurrency();
        if let Some((axis, places)) = slabs(portion, low, high, worth(concurrency)) {
            let count = piece.places(axis).div_ceil(places);
            let run = if concurrency > 0 { Run::decide(count, 0, concurrency) } else { Run::Here };
            return run.each(count, self.operation.interrupt, &|number, scratch| {
                let done = number * places;
                let piece = &piece.slab(axis, done..piece.places(axis).min(done + places));
                self.raw(&Portion { piece, ..*portion }, target, source, scratch)
            });
        }
        let mut buffer = scratch.take();
        let done = (|| {
            let out = sized(&mut buffer, high - low)?;
            source.read_at(low as u64, out)?;
            self.deliver(portion, target, out, low)
        })();
        scratch.give(buffer);
        done
    }

    /// Bytes under codecs: decode straight into the caller's buffer where
    /// possible, only the needed part where the codec can, else all, and copy.
    fn encoded(
        &self,
        parts: &Parts<'_, '_>,
        bytes: &[u8],
        decoded: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let level = parts.level;
        let total = level.decoded_bytes;
        let deliver = |bytes: &[u8]| parts.each(|portion, target| self.deliver(portion, target, bytes, 0));
        if let Body::Foreign(_) = level.body {
            let out = sized(decoded, total)?;
            level.decode_into(bytes, out, scratch)?;
            return deliver(out);
        }
        if let Some(view) = level.pipeline.view(bytes) {
            let view = view?;
            expect_size(view.len(), total)?;
            return deliver(view);
        }
        if let [wanted] = parts.wanted {
            let (portion, target) = (&parts.portion(wanted), wanted.target);
            if let Some((_, out)) = target.run(portion).filter(|(_, out)| out.len() == total) {
                level.pipeline.decode_into(bytes, out, scratch)?;
                return self.finish(level, out);
            }
            let (low, high) = portion.span();
            let out = sized(decoded, total)?;
            if high - low < total / 4 * 3
                && level.pipeline.decode_part(bytes, total, low, &mut out[low..high], scratch)?
            {
                return self.deliver(portion, target, &out[low..high], low);
            }
        }
        let out = sized(decoded, total)?;
        level.pipeline.decode_into(bytes, out, scratch)?;
        deliver(out)
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

    /// Copy `portion` out of `decoded`, which holds the decoded chunk from byte `low` on.
    fn deliver(
        &self,
        portion: &Portion<'_, '_>,
        target: &Target<'_>,
        decoded: &[u8],
        low: usize,
    ) -> Result<()> {
        if self.array.is_bool && !copy::bool_ok(decoded) {
            self.check_selected(portion, decoded, low)?;
        }
        let swap = portion.level.swap();
        portion.each_copy(Direction::FromCell, |copy| {
            let item = copy.item(swap);
            // SAFETY: `decoded` covers the span of the portion, the caller of
            // `read` vouches for the other side, and the two do not overlap.
            unsafe {
                let from = decoded.as_ptr().offset(copy.cell - low as isize);
                copy::copy(from, target.out.0.offset(copy.caller), copy.axes, item);
            }
        });
        Ok(())
    }

    /// Some byte of the chunk is neither 0 nor 1: is it one that was asked for?
    /// What stands past the edge of the array is nobody's business.
    fn check_selected(&self, portion: &Portion<'_, '_>, decoded: &[u8], low: usize) -> Result<()> {
        let mut good = true;
        portion.each_copy(Direction::FromCell, |copy| {
            good &= offsets(copy.axes).all(|offset| decoded[(copy.cell + offset) as usize - low] <= 1);
        });
        if good {
            Ok(())
        } else {
            Err(bad_bool())
        }
    }
}

/// Where the chunk of `level` stays that is decoded of `source`, if it does.
fn kept<'a>(level: &Level, source: Source<'a>) -> Option<Kept<'a>> {
    let is_raw = level.is_raw();
    match level.body {
        Body::Bytes { .. } if is_raw && level.decoded_bytes > KEPT_RAW_BYTES => None,
        Body::Bytes { .. } | Body::Foreign(_) => source.kept(level.decoded_bytes, is_raw),
        Body::Shard(_) | Body::Vlen(_) => None,
    }
}

fn bad_bool() -> Error {
    Error::data("a boolean is stored as neither 0 nor 1")
}

/// Every source offset of a copy, in no order that matters.
pub(crate) fn offsets<'a>(axes: &'a [Axis<'a>]) -> Box<dyn Iterator<Item = isize> + 'a> {
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

/// What a request is worth to a store that wants so many under way.
fn worth(concurrency: usize) -> Worth {
    if concurrency > 0 {
        WAITED
    } else {
        QUICK
    }
}

/// The axis along which to read slab by slab, and the places of one slab: one,
/// where that saves more bytes than its requests cost; else as many as stay in
/// the processor's cache between reading and copying, or as are worth one request.
fn slabs(portion: &Portion<'_, '_>, low: usize, high: usize, worth: Worth) -> Option<(usize, usize)> {
    let Portion { level, piece, origin } = *portion;
    let axes = 0..origin.len();
    let axis = axes.filter(|&axis| piece.places(axis) > 1).max_by_key(|&axis| level.strides[axis])?;
    let places = piece.places(axis);
    let (first, last) = Portion { piece: &piece.slab(axis, 0..1), ..*portion }.span();
    let apart = (last - first).saturating_mul(places);
    if (high - low).saturating_sub(apart) as u64 > worth.gap * places as u64 {
        return Some((axis, 1));
    }
    // Points are in no order: a few of them may span as much as all.
    let fit = (places * worth.slab / (high - low)).max(1);
    (fit < places && !piece.is_joint(axis)).then_some((axis, fit))
}

/// Cut `entries`, which are in their order and before `size`, into groups to fetch together.
fn group(entries: &[Entry], size: u64, worth: Worth) -> Result<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::new();
    let (mut start, mut end) = (0u64, 0u64);
    for (number, entry) in entries.iter().enumerate() {
        let after = entry.offset.checked_add(entry.size).filter(|&after| after <= size);
        let after = after.ok_or_else(|| {
            let Entry { offset, size: bytes, .. } = entry;
            Error::size(format!(
                "the shard index points to {bytes} bytes from {offset}, the shard has {size}"
            ))
        })?;
        let joins = entry.offset <= end.saturating_add(worth.gap) && after.max(end) - start <= worth.group;
        match groups.last_mut() {
            Some(group) if joins => {
                end = end.max(after);
                *group = Group { entries: group.entries.start..number + 1, span: Some((start, end)) };
            }
            _ => {
                groups.push(Group { entries: number..number + 1, span: None });
                (start, end) = (entry.offset, after);
            }
        }
    }
    Ok(groups)
}
