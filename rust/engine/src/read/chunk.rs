//! Chunks and subchunks of elements: decoded, and delivered to the callers' buffers.

use super::parts::{Parts, Target};
use super::{kept, Reader, Worth, SHARED_BYTES, WAITED};
use crate::array::{Body, Level};
use crate::codec::chain::expect_size;
use crate::copy::{self, Axis};
use crate::error::{Error, Result};
use crate::pipeline::operation::{Portion, Run};
use crate::pipeline::source::{Kept, Source};
use crate::scratch::{sized, Scratch};
use crate::selection::Direction;
use crate::vlen;

impl Reader<'_> {
    /// A chunk or subchunk of elements.
    pub(super) fn leaf(
        &self,
        parts: &Parts<'_, '_>,
        source: Source<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let level = parts.level;
        if let Some(kept) = kept(level, source) {
            return self.keeping(parts, source, kept, scratch);
        }
        if level.is_raw() {
            expect_size(usize::try_from(source.size()).unwrap_or(usize::MAX), level.decoded_bytes)?;
            return self.all_raw(parts, source, scratch);
        }
        let (mut encoded, mut decoded) = (scratch.take(), scratch.take());
        let done = (|| {
            let bytes = source.load(&level.encoded_bytes, &mut encoded)?;
            let _turn = self.operation.store.coding_permit()?;
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
        if let Some(chunk) = kept.find() {
            return self.deliver_kept(parts, &chunk);
        }
        let (mut chunk, turn) = (Vec::new(), || self.operation.store.coding_permit());
        let out = sized(&mut chunk, parts.level.decoded_bytes)?;
        let _turn = parts.level.load(source.once(), out, &mut Vec::new(), scratch, turn)?;
        self.deliver_all(parts, out)?;
        kept.keep(chunk);
        Ok(())
    }

    /// A chunk or subchunk that has stayed.
    pub(super) fn deliver_kept(&self, parts: &Parts<'_, '_>, chunk: &[u8]) -> Result<()> {
        let _turn = self.operation.store.coding_permit()?;
        self.deliver_all(parts, chunk)
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
        portion.level.load(source, handles, &mut elements, scratch, || Ok(()))?;
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

    /// Elements that stand as they are, for all who want some of them.
    fn all_raw(&self, parts: &Parts<'_, '_>, source: Source<'_>, scratch: &mut Scratch) -> Result<()> {
        let (low, high) = parts.span();
        let most = if self.is_local() { SHARED_BYTES } else { WAITED.span };
        if parts.wanted.len() > 1 && source.in_memory().is_none() && high - low <= most {
            let part = source.part(low as u64, (high - low) as u64)?;
            return self.fetched(part, scratch, |part, _| {
                let bytes = part.in_memory().unwrap_or_default();
                parts.each(|portion, target| self.deliver(portion, target, bytes, low))
            });
        }
        let mut next = source;
        parts.each(|portion, target| {
            let source = std::mem::replace(&mut next, self.more(source));
            self.raw(portion, target, source, scratch)
        })
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
            let _turn = self.operation.store.coding_permit()?;
            return self.deliver(portion, target, bytes, 0);
        }
        if let Some((from, out)) = target.run(portion) {
            source.read_at(from as u64, out)?;
            return self.finish(portion.level, out);
        }
        let (low, high) = portion.span();
        let piece = portion.piece;
        let concurrency = self.operation.store.concurrency();
        if let Some((axis, places)) = slabs(portion, low, high, self.worth(source)) {
            let count = piece.places(axis).div_ceil(places);
            let run = if concurrency > 0 { Run::decide(count, 0, concurrency) } else { Run::Here };
            return self.operation.each(run, count, &|number, scratch| {
                let done = number * places;
                let source = if number > 0 { self.more(source) } else { source };
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
        if let Body::Foreign(_) = level.body {
            let out = sized(decoded, total)?;
            level.decode_into(bytes, out, scratch)?;
            return self.deliver_all(parts, out);
        }
        if let Some(view) = level.pipeline.view(bytes) {
            let view = view?;
            expect_size(view.len(), total)?;
            return self.deliver_all(parts, view);
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
        self.deliver_all(parts, out)
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

    /// Copy all that is wanted out of a decoded chunk.
    fn deliver_all(&self, parts: &Parts<'_, '_>, decoded: &[u8]) -> Result<()> {
        parts.each(|portion, target| self.deliver(portion, target, decoded, 0))
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

/// The axis along which to read slab by slab, and the places of one slab: one,
/// where that saves more bytes than its requests cost; else as many as stay in
/// the processor's cache between reading and copying, or as are worth one request.
fn slabs(portion: &Portion<'_, '_>, low: usize, high: usize, worth: Worth) -> Option<(usize, usize)> {
    if high - low <= worth.span {
        return None;
    }
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
