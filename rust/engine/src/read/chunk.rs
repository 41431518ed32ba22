//! Reads of chunks and subchunks of elements: decoding, and delivery to the callers' buffers.

use super::chunk_reads::{ChunkReads, Target};
use super::{decoded_slot, CoalescingPolicy, Reader, MAX_SHARED_SPAN, REMOTE, SMALL_CHUNK_BYTES};
use crate::array::{Body, Cast, Level};
use crate::codec::chain::expect_size;
use crate::convert::convert;
use crate::copy::{self, Axis};
use crate::error::{Error, Result};
use crate::pipeline::operation::{Executor, Portion};
use crate::pipeline::source::{DecodedSlot, Source};
use crate::scratch::{sized, Scratch};
use crate::selection::Direction;
use crate::vlen;

impl Reader<'_> {
    /// Read a chunk or subchunk of elements.
    pub(super) fn read_elements(
        &self,
        reads: &ChunkReads<'_, '_>,
        source: Source<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let level = reads.level;
        if let Some(slot) = decoded_slot(level, source) {
            if let Some(chunk) = slot.get() {
                return self.deliver_cached(reads, &chunk);
            }
            if !slot.is_for_parts() || self.is_worth_caching(reads, slot) {
                return self.read_into_cache(reads, source, slot, scratch);
            }
        }
        if level.is_raw() {
            expect_size(usize::try_from(source.size()).unwrap_or(usize::MAX), level.decoded_bytes)?;
            return self.deliver_raw_to_all(reads, source, scratch);
        }
        let (mut encoded, mut decoded) = (scratch.take(), scratch.take());
        let result = (|| {
            let bytes = source.load(&level.encoded_bytes, &mut encoded)?;
            let _permit = self.operation.store.coding_permit()?;
            if let Body::Vlen(_) = level.body {
                let source = source.with_bytes(0, bytes);
                return reads.each(|portion, target| {
                    self.read_variable_length(portion, target, source, &mut decoded, scratch)
                });
            }
            self.encoded(reads, bytes, &mut decoded, scratch)
        })();
        scratch.put_back(encoded);
        scratch.put_back(decoded);
        result
    }

    /// Return whether to cache a chunk of which parts are read: a small part of a large chunk is
    /// decoded alone, if that is possible, until another part is read.
    fn is_worth_caching(&self, reads: &ChunkReads<'_, '_>, slot: DecodedSlot<'_>) -> bool {
        if reads.is_full(&self.array.shape) {
            return false;
        }
        let (level, (low, high)) = (reads.level, reads.span());
        let is_small_part = level.decoded_bytes > SMALL_CHUNK_BYTES && high - low < level.decoded_bytes / 4;
        !(is_small_part && level.decodes_parts()) || slot.is_read_again()
    }

    /// Read a chunk or subchunk, and cache its decoded form.
    fn read_into_cache(
        &self,
        reads: &ChunkReads<'_, '_>,
        source: Source<'_>,
        slot: DecodedSlot<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let (mut chunk, permit) = (Vec::new(), || self.operation.store.coding_permit());
        let out = sized(&mut chunk, reads.level.decoded_bytes)?;
        let _permit =
            reads.level.load(source.caching_decoded_only(), out, &mut Vec::new(), scratch, permit)?;
        self.deliver_all(reads, out)?;
        slot.insert(chunk);
        Ok(())
    }

    /// Deliver a cached chunk or subchunk.
    pub(super) fn deliver_cached(&self, reads: &ChunkReads<'_, '_>, chunk: &[u8]) -> Result<()> {
        let _permit = self.operation.store.coding_permit()?;
        reads.each(|portion, target| {
            // Elements that are not selected need no check.
            let (low, high) = portion.span();
            self.deliver(portion, target, &chunk[low..high], low)
        })
    }

    /// Read elements of variable length. The arena holds the selected ones.
    fn read_variable_length(
        &self,
        portion: &Portion<'_, '_>,
        target: &Target<'_>,
        source: Source<'_>,
        handles: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let handles = sized(handles, portion.level.decoded_bytes)?;
        let mut elements = Vec::new();
        portion.level.load(source, handles, &mut elements, scratch, || Ok(()))?;
        if !portion.is_full(Some(&self.array.shape)) {
            let gathered = portion.single_copy(Direction::FromCell, |copy| {
                let positions = || offsets(copy.axes).map(|offset| (copy.cell + offset) as usize);
                // SAFETY: the portion lies inside the chunk; all its handles point into `elements`,
                // which lives until it is replaced here.
                Some(unsafe { vlen::gather(handles, positions) })
            });
            elements = gathered.ok_or_else(|| Error::internal("fields of variable-length elements"))??;
        }
        target.arena.add(elements);
        self.deliver(portion, target, handles, 0)
    }

    /// Read an uncompressed chunk for all reads.
    fn deliver_raw_to_all(
        &self,
        reads: &ChunkReads<'_, '_>,
        source: Source<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let (low, high) = reads.span();
        let max_span = if self.is_local() { MAX_SHARED_SPAN } else { REMOTE.span };
        if reads.items.len() > 1 && source.in_memory().is_none() && high - low <= max_span {
            let part = source.part(low as u64, (high - low) as u64)?;
            return self.with_fetched(part, scratch, |part, _| {
                let bytes = part.in_memory().unwrap_or_default();
                reads.each(|portion, target| self.deliver(portion, target, bytes, low))
            });
        }
        let mut next = source;
        reads.each(|portion, target| {
            let source = std::mem::replace(&mut next, self.continued(source));
            self.read_raw(portion, target, source, scratch)
        })
    }

    /// Read the needed bytes of an uncompressed chunk.
    fn read_raw(
        &self,
        portion: &Portion<'_, '_>,
        target: &Target<'_>,
        source: Source<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        if let Some(bytes) = source.in_memory() {
            let _permit = self.operation.store.coding_permit()?;
            return self.deliver(portion, target, bytes, 0);
        }
        if let Some((from, out)) = self.direct_target(portion, target) {
            source.read_at(from as u64, out)?;
            return self.finish(portion.level, out);
        }
        let (low, high) = portion.span();
        let piece = portion.piece;
        let concurrency = self.operation.store.concurrency();
        if let Some((axis, positions)) = slabs(portion, low, high, self.policy(source)) {
            let count = piece.positions(axis).div_ceil(positions);
            let run = Executor::choose_if(concurrency > 0, count, 0, concurrency);
            return self.operation.each(run, count, &|number, scratch| {
                let result = number * positions;
                let source = if number > 0 { self.continued(source) } else { source };
                let piece = &piece.narrow(axis, result..piece.positions(axis).min(result + positions));
                self.read_raw(&Portion { piece, ..*portion }, target, source, scratch)
            });
        }
        scratch.with_buffer(|buffer, _| {
            let out = sized(buffer, high - low)?;
            source.read_at(low as u64, out)?;
            self.deliver(portion, target, out, low)
        })
    }

    /// Decode a chunk: directly into the caller's buffer if possible, only the needed part if the
    /// codec supports it, otherwise completely, followed by a copy.
    fn encoded(
        &self,
        reads: &ChunkReads<'_, '_>,
        bytes: &[u8],
        decoded: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let level = reads.level;
        let total = level.decoded_bytes;
        if let Body::Foreign(_) = level.body {
            let out = sized(decoded, total)?;
            level.decode_into(bytes, out, scratch)?;
            return self.deliver_all(reads, out);
        }
        if let Some(view) = level.bytes_codecs.view(bytes) {
            let view = view?;
            expect_size(view.len(), total)?;
            return self.deliver_all(reads, view);
        }
        if let [read] = reads.items {
            let (portion, target) = (&reads.portion(read), read.target);
            if let Some((_, out)) = self.direct_target(portion, target).filter(|(_, out)| out.len() == total)
            {
                level.bytes_codecs.decode_into(bytes, out, scratch)?;
                return self.finish(level, out);
            }
            let (low, high) = portion.span();
            let out = sized(decoded, total)?;
            if high - low < total / 4 * 3
                && level.bytes_codecs.decode_part(bytes, total, low, &mut out[low..high], scratch)?
            {
                return self.deliver(portion, target, &out[low..high], low);
            }
        }
        let out = sized(decoded, total)?;
        level.bytes_codecs.decode_into(bytes, out, scratch)?;
        self.deliver_all(reads, out)
    }

    /// Return the caller's buffer for `portion`, and its byte offset in the decoded chunk, if the
    /// engine can decode into the buffer.
    fn direct_target<'t>(
        &self,
        portion: &Portion<'_, '_>,
        target: &'t Target<'_>,
    ) -> Option<(usize, &'t mut [u8])> {
        match self.array.cast {
            None => target.run(portion),
            Some(_) => None,
        }
    }

    /// Convert bytes in the caller's buffer from the stored form.
    fn finish(&self, level: &Level, out: &mut [u8]) -> Result<()> {
        if level.swap() > 1 {
            copy::swap_in_place(out, level.swap());
        }
        if self.array.is_bool && !copy::are_valid_bools(out) {
            return Err(bad_bool());
        }
        Ok(())
    }

    /// Copy all selected elements out of a decoded chunk.
    fn deliver_all(&self, reads: &ChunkReads<'_, '_>, decoded: &[u8]) -> Result<()> {
        reads.each(|portion, target| self.deliver(portion, target, decoded, 0))
    }

    /// Copy `portion` out of `decoded`, which contains the decoded chunk from byte `low`.
    fn deliver(
        &self,
        portion: &Portion<'_, '_>,
        target: &Target<'_>,
        decoded: &[u8],
        low: usize,
    ) -> Result<()> {
        if self.array.is_bool && !copy::are_valid_bools(decoded) {
            self.check_selected(portion, decoded, low)?;
        }
        if let Some(cast) = &self.array.cast {
            return deliver_cast(cast, portion, target, decoded, low);
        }
        let swap = portion.level.swap();
        portion.each_copy(Direction::FromCell, |copy| {
            let item = copy.item(swap);
            // SAFETY: `decoded` covers the span of the portion, the caller of `read` guarantees the
            // other side, and the two do not overlap.
            unsafe {
                let from = decoded.as_ptr().offset(copy.cell - low as isize);
                copy::copy(from, target.out.0.offset(copy.caller), copy.axes, item);
            }
        });
        Ok(())
    }

    /// Return an error if a selected byte is neither 0 nor 1; other bytes do not matter, as those
    /// past the edge of the array.
    fn check_selected(&self, portion: &Portion<'_, '_>, decoded: &[u8], low: usize) -> Result<()> {
        let mut is_valid = true;
        portion.each_copy(Direction::FromCell, |copy| {
            is_valid &= offsets(copy.axes).all(|offset| decoded[(copy.cell + offset) as usize - low] <= 1);
        });
        if is_valid {
            Ok(())
        } else {
            Err(bad_bool())
        }
    }
}

/// Convert `portion` of `decoded`, which contains the decoded chunk from byte `low`.
fn deliver_cast(
    cast: &Cast,
    portion: &Portion<'_, '_>,
    target: &Target<'_>,
    decoded: &[u8],
    low: usize,
) -> Result<()> {
    let (source_type, target_type) = cast.numbers();
    let converted = portion.single_copy(Direction::FromCell, |copy| {
        let from = decoded.as_ptr().wrapping_offset(copy.cell - low as isize);
        let (to, swap) = (target.out.0.wrapping_offset(copy.caller), portion.level.swap());
        // SAFETY: as in `deliver`; `Cast::check` compared the types with the sizes of the items.
        Some(unsafe { convert(copy.axes, (from, source_type, swap), (to, target_type)) })
    });
    converted.unwrap_or_else(|| Err(Error::internal("fields of elements that are cast")))
}

fn bad_bool() -> Error {
    Error::data("a boolean is stored as neither 0 nor 1")
}

/// Return every source offset of a copy, in unspecified order.
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

/// Return the axis along which to read in slabs, and the number of positions of one slab. One, if
/// that saves more bytes than its requests cost; otherwise as many as fit into the processor's
/// cache between reading and copying, or as are worth one request.
fn slabs(
    portion: &Portion<'_, '_>,
    low: usize,
    high: usize,
    policy: CoalescingPolicy,
) -> Option<(usize, usize)> {
    if high - low <= policy.span {
        return None;
    }
    let Portion { level, piece, origin } = *portion;
    let axes = 0..origin.len();
    let axis = axes.filter(|&axis| piece.positions(axis) > 1).max_by_key(|&axis| level.strides[axis])?;
    let positions = piece.positions(axis);
    let (first, last) = Portion { piece: &piece.narrow(axis, 0..1), ..*portion }.span();
    let separate_bytes = (last - first).saturating_mul(positions);
    if (high - low).saturating_sub(separate_bytes) as u64 > policy.gap * positions as u64 {
        return Some((axis, 1));
    }
    // Points are unordered: a few of them may span as much as all.
    let per_slab = (positions * policy.slab / (high - low)).max(1);
    (per_slab < positions && !piece.is_joint(axis)).then_some((axis, per_slab))
}
