//! Buffered elements of one chunk or subchunk.

use std::mem::MaybeUninit;

use super::mask::Mask;
use super::memory::Charge;
use crate::array::{Array, Body, Level};
use crate::copy;
use crate::error::{Error, Result};
use crate::pipeline::operation::{BufferPtr, Portion};
use crate::read::offsets;
use crate::scratch::{as_uninit, uninitialized, Scratch};
use crate::selection::Direction;
use crate::vlen::{self, Arena};
use crate::write;

/// A chunk or subchunk of elements, and which of them were written.
#[derive(Default)]
pub(super) struct ElementChunk {
    /// The elements in the form without codecs; empty before the first write. Memory is not
    /// cleared: unwritten elements are not initialised. Handles and booleans are zeros, because
    /// they are inspected in place.
    values: Vec<MaybeUninit<u8>>,
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
    /// Return the number of bytes of elements.
    pub(super) fn bytes(&self) -> usize {
        self.values.len() + self.elements.iter().map(Vec::len).sum::<usize>()
    }

    /// Return whether all elements of `portion` were written.
    pub(super) fn covers(&self, portion: &Portion<'_, '_>) -> bool {
        self.mask.covers(portion)
    }

    /// Return whether the chunk has memory for its elements.
    pub(super) fn is_allocated(&self) -> bool {
        !self.values.is_empty()
    }

    /// Return whether every element was written, including those outside the array.
    pub(super) fn is_full(&self, level: &Level) -> bool {
        self.mask.is_all(level)
    }

    /// Buffer the elements of `portion`, and add the new memory to `charge`.
    ///
    /// # Safety
    /// As for [`write::write`], for the elements of the portion.
    pub(super) unsafe fn put(
        &mut self,
        portion: &Portion<'_, '_>,
        value: BufferPtr,
        array: &Array,
        charge: &Charge,
    ) -> Result<()> {
        let has_handles = matches!(portion.level.body, Body::Vlen(_));
        if self.mask.is_empty() {
            if self.values.is_empty() {
                self.values = uninitialized(portion.level.decoded_bytes)?;
                charge.add(self.values.len());
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
            let elements_copy = elements_copy?;
            charge.add(elements_copy.len());
            self.elements.push(elements_copy);
        }
        let mask_bytes = self.mask.bytes();
        self.mask.add(portion)?;
        charge.add(self.mask.bytes().saturating_sub(mask_bytes));
        Ok(())
    }

    /// Copy the written elements of `portion` into the caller's buffer, and add new memory to
    /// `charge`.
    ///
    /// # Safety
    /// As for [`crate::read::read`], for the elements of the portion.
    pub(super) unsafe fn read(
        &mut self,
        portion: &Portion<'_, '_>,
        target: &Target<'_>,
        charge: &Charge,
        scratch: &mut Scratch,
    ) -> Result<()> {
        if self.mask.is_disjoint(portion) {
            return Ok(());
        }
        if !self.mask.covers(portion) {
            let mask_bytes = self.mask.bytes();
            self.mask.make_byte_mask(portion.level)?;
            charge.add(self.mask.bytes().saturating_sub(mask_bytes));
        }
        if let Body::Vlen(_) = portion.level.body {
            return scratch.with_buffer(|handles, _| {
                handles.clear();
                // SAFETY: of handles all bytes are initialised.
                handles.extend_from_slice(unsafe { initialised(&self.values) });
                // SAFETY: `elements` owns the targets of the handles; unwritten handles are empty.
                target.arena.add(unsafe { gather_elements(portion, handles) }?);
                // SAFETY: guaranteed by the caller.
                unsafe { self.mask.deliver(portion, uninitialised(handles), target.out) };
                Ok(())
            });
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
        self.mask.merge(level, &self.values, unsafe { as_uninit(chunk) });
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

/// # Safety
/// All bytes are initialised.
unsafe fn initialised(bytes: &[MaybeUninit<u8>]) -> &[u8] {
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }
}

/// # Safety
/// All bytes are initialised.
unsafe fn initialised_mut(bytes: &mut [MaybeUninit<u8>]) -> &mut [u8] {
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len()) }
}

fn uninitialised(bytes: &[u8]) -> &[MaybeUninit<u8>] {
    // SAFETY: initialised bytes are valid.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }
}
