//! Buffered elements of one chunk or subchunk.

use std::mem::MaybeUninit;
use std::sync::Arc;

use super::chunk_memory::{
    initialised, initialised_all, initialised_mut, uninitialised, uninitialised_all, uninitialised_mut,
    ChunkMemory,
};
use super::mask::Mask;
use crate::array::{Array, Body, Level};
use crate::copy;
use crate::error::{Error, Result};
use crate::pipeline::operation::{BufferPtr, Portion};
use crate::read::offsets;
use crate::scratch::{uninitialized, Scratch};
use crate::selection::Direction;
use crate::vlen::{self, Arena};
use crate::write;

/// A chunk or subchunk of elements, and which of them were written.
#[derive(Default)]
pub(super) struct ElementChunk {
    /// The elements in the form without codecs; empty before the first write. Memory is not
    /// cleared: unwritten elements are not initialised. Handles and booleans are zeros, because
    /// they are inspected in place.
    values: ChunkMemory,
    mask: Mask,
    /// The targets of handles.
    elements: Vec<Vec<u8>>,
}

/// The destination of a read.
pub(super) struct Target<'a> {
    pub(super) out: BufferPtr,
    pub(super) arena: &'a Arena,
}

impl ElementChunk {
    /// Return an empty chunk with this memory.
    pub(super) fn with_memory(values: ChunkMemory) -> ElementChunk {
        ElementChunk { values, ..ElementChunk::default() }
    }

    /// Move the elements to other memory; the caller moves their bytes.
    pub(super) fn move_to(&mut self, values: ChunkMemory) {
        self.values = values;
    }

    /// Return the number of bytes of elements.
    pub(super) fn bytes(&self) -> usize {
        self.values.len() + self.elements.iter().map(Vec::len).sum::<usize>()
    }

    /// Return whether all elements of `portion` were written.
    pub(super) fn covers(&self, portion: &Portion<'_, '_>) -> bool {
        self.mask.covers(portion)
    }

    /// Return whether every element was written, including those outside the array.
    pub(super) fn is_full(&self, level: &Level) -> bool {
        self.mask.is_all(level)
    }

    /// Buffer the elements of `portion`.
    ///
    /// # Safety
    /// As for [`write::write`], for the elements of the portion.
    pub(super) unsafe fn put(
        &mut self,
        portion: &Portion<'_, '_>,
        value: BufferPtr,
        array: &Array,
    ) -> Result<()> {
        let has_handles = matches!(portion.level.body, Body::Vlen(_));
        if self.mask.is_empty() {
            if self.values.is_empty() {
                self.values = ChunkMemory::Own(uninitialized(portion.level.decoded_bytes)?);
            }
            if (has_handles || array.is_bool) && !portion.is_whole_chunk() {
                self.values.fill(MaybeUninit::new(0));
            }
        }
        // SAFETY: guaranteed by the caller; the memory has the size of the chunk.
        unsafe { write::put(portion, value, self.values.as_mut_ptr().cast()) };
        if array.is_bool {
            let (low, high) = portion.span();
            // SAFETY: all bytes of booleans are initialised.
            copy::normalize_bools(unsafe { initialised_mut(&mut self.values[low..high]) });
        }
        if has_handles {
            // SAFETY: the offsets of handles are valid, too. The caller keeps the targets of the
            // copied handles alive.
            let elements_copy = unsafe { gather_elements(portion, initialised_mut(&mut self.values)) };
            self.elements.push(elements_copy?);
        }
        self.mask.add(portion)
    }

    /// Copy the written elements of `portion` into the caller's buffer.
    ///
    /// # Safety
    /// As for [`crate::read::read`], for the elements of the portion.
    pub(super) unsafe fn read(
        &mut self,
        portion: &Portion<'_, '_>,
        target: &Target<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        if !self.mask.covers(portion) {
            self.mask.make_byte_mask(portion.level)?;
        }
        if let Body::Vlen(_) = portion.level.body {
            let mut handles = scratch.take();
            handles.clear();
            // SAFETY: of handles all bytes are initialised.
            handles.extend_from_slice(unsafe { initialised(&self.values) });
            // SAFETY: `elements` owns the targets of the handles; unwritten handles are empty.
            let elements_copy = unsafe { gather_elements(portion, &mut handles) };
            let result = elements_copy.map(|elements_copy| {
                target.arena.add(elements_copy);
                // SAFETY: guaranteed by the caller.
                unsafe { self.mask.deliver(portion, uninitialised(&handles), target.out) }
            });
            scratch.put_back(handles);
            return result;
        }
        // SAFETY: guaranteed by the caller.
        unsafe { self.mask.deliver(portion, &self.values, target.out) };
        Ok(())
    }

    /// Return all elements, including those outside the array, if all were written.
    pub(super) fn all(&self, level: &Level) -> Option<&[u8]> {
        // SAFETY: all of them are initialised then.
        self.mask.is_all(level).then(|| unsafe { initialised(&self.values) })
    }

    /// Copy the written elements into the decoded `chunk`.
    pub(super) fn merge(&self, level: &Level, chunk: &mut [u8]) {
        // SAFETY: only written, and so initialised, elements are copied.
        self.mask.merge(level, &self.values, unsafe { uninitialised_mut(chunk) });
    }

    /// Take the elements of a chunk without codecs; the mask stays.
    pub(super) fn take_elements(&mut self, level: &Level, array: &Array) -> Option<RawElements> {
        let written = match &mut self.values {
            ChunkMemory::Own(values) if level.is_raw() && !values.is_empty() => std::mem::take(values),
            _ => return None,
        };
        Some(RawElements { written, all: None, is_bool: array.is_bool })
    }

    /// Restore the elements of a variable-length chunk after a failed write.
    pub(super) fn restore_elements(&mut self, mut raw: RawElements) {
        raw.make_mutable();
        self.values = ChunkMemory::Own(raw.written);
    }

    /// Return all elements of a variable-length chunk. The unwritten ones come from `rest`, which
    /// is needed only if some are unwritten. A later call may pass another `rest`.
    pub(super) fn complete(
        &self,
        raw: &mut RawElements,
        level: &Level,
        rest: Option<&[u8]>,
    ) -> Result<Arc<Vec<u8>>> {
        raw.make_mutable();
        match rest {
            Some(rest) => self.mask.complete(level, &mut raw.written, uninitialised(rest)),
            None if self.mask.is_all(level) => {}
            None => return Err(Error::internal("elements of a chunk without memory")),
        }
        if raw.is_bool {
            // SAFETY: all elements are initialised now.
            copy::normalize_bools(unsafe { initialised_mut(&mut raw.written) });
        }
        // SAFETY: as above.
        let values = unsafe { initialised_all(std::mem::take(&mut raw.written)) };
        Ok(raw.all.insert(Arc::new(values)).clone())
    }
}

/// The elements of a chunk without codecs.
pub(super) struct RawElements {
    /// The written elements.
    written: Vec<MaybeUninit<u8>>,
    /// All elements, once they were computed.
    all: Option<Arc<Vec<u8>>>,
    is_bool: bool,
}

impl RawElements {
    /// Make the elements mutable again.
    fn make_mutable(&mut self) {
        if let Some(all) = self.all.take() {
            self.written = uninitialised_all(Arc::unwrap_or_clone(all));
        }
    }
}

/// Copy the targets of the handles of `portion` in `values` to new memory, and redirect the
/// handles.
///
/// # Safety
/// The handles have valid targets.
unsafe fn gather_elements(portion: &Portion<'_, '_>, values: &mut [u8]) -> Result<Vec<u8>> {
    let elements_copy = portion.single_copy(Direction::FromCell, |copy| {
        let item_offsets = || offsets(copy.axes).map(|offset| (copy.cell + offset) as usize);
        // SAFETY: guaranteed by the caller; the portion lies inside the chunk.
        Some(unsafe { vlen::gather(values, item_offsets) })
    });
    elements_copy.ok_or_else(|| Error::internal("fields of variable-length elements"))?
}
