//! Writes of elements from the caller's buffer.

use std::marker::PhantomData;
use std::sync::Arc;

use super::{check_writable, NewElements, NewSubchunks, SubchunkWork, TouchedSubchunk, Writer};
use crate::array::{Level, PerAxis, Shard};
use crate::copy::{self, Item};
use crate::error::Result;
use crate::pipeline::operation::{origin_of, BufferPtr, Chunk, Operation, Portion};
use crate::scratch::{reserve, Scratch};
use crate::selection::{Direction, Division, Selection};

/// Elements in the caller's buffer.
struct CallerElements<'a, 'p, 's> {
    portion: Portion<'p, 's>,
    value: BufferPtr,
    is_bool: bool,
    buffer: PhantomData<&'a [u8]>,
}

impl<'p, 's> CallerElements<'_, 'p, 's> {
    fn of(chunk: &Chunk<'p, 's>, value: BufferPtr, operation: Operation<'_>) -> Self {
        CallerElements {
            portion: chunk.portion,
            value,
            is_bool: operation.array.is_bool,
            buffer: PhantomData,
        }
    }
}

impl<'a> NewElements<'a> for CallerElements<'a, '_, '_> {
    fn level(&self) -> &Level {
        self.portion.level
    }

    fn origin(&self) -> &[u64] {
        self.portion.origin
    }

    fn is_full(&self, bounds: Option<&[u64]>) -> bool {
        self.portion.is_full(bounds)
    }

    fn run(&self) -> Option<&'a [u8]> {
        let level = self.portion.level;
        if level.swap() > 1 || self.portion.piece.is_scattered() {
            return None;
        }
        self.portion.single_copy(Direction::ToCell, |copy| {
            let item = Item { bytes: copy.field.bytes, swap: 0 };
            let bytes = copy::Plan::new(copy.axes, item).contiguous_bytes()?;
            if copy.cell != 0 || bytes != level.decoded_bytes {
                return None;
            }
            // SAFETY: the caller of `write` guarantees every offset of the selection, and does not
            // change the elements until the write ends.
            let bytes = unsafe { std::slice::from_raw_parts(self.value.0.offset(copy.caller), bytes) };
            (!self.is_bool || copy::are_valid_bools(bytes)).then_some(bytes)
        })
    }

    fn put(&self, chunk: &mut [u8]) {
        // SAFETY: the caller of `write` guarantees its side.
        unsafe { put(&self.portion, self.value, chunk.as_mut_ptr()) }
    }

    fn subchunks<'n>(&'n self, shard: &'n Shard) -> Result<Box<dyn NewSubchunks<'a> + 'n>> {
        Ok(Box::new(CallerSubchunks {
            elements: self,
            shard,
            division: self.portion.divide(&shard.dim_grids)?,
        }))
    }
}

/// The subchunks that a selection touches.
struct CallerSubchunks<'n, 'a, 'p, 's> {
    elements: &'n CallerElements<'a, 'p, 's>,
    shard: &'n Shard,
    division: Division<'s>,
}

impl<'a> NewSubchunks<'a> for CallerSubchunks<'_, 'a, '_, '_> {
    fn touched(&self) -> Result<Vec<TouchedSubchunk>> {
        let mut touched = Vec::new();
        reserve(&mut touched, self.division.tasks())?;
        let mut cell = PerAxis::new();
        for task in 0..self.division.tasks() {
            self.division.find_cell(task, &mut cell);
            touched.push(TouchedSubchunk { number: self.shard.entry_number(&cell), task });
        }
        Ok(touched)
    }

    fn with(&self, task: usize, work: &mut SubchunkWork<'_, 'a>) -> Result<()> {
        let mut cell = PerAxis::new();
        let piece = &self.division.task(task, &mut cell);
        let level = &self.shard.level;
        let origin = &origin_of(self.elements.portion.origin, &cell, &level.shape);
        work(&cell, &CallerElements { portion: Portion { level, piece, origin }, ..*self.elements })
    }
}

/// Copy the elements of `portion` from the caller's buffer into the decoded `chunk`.
///
/// # Safety
/// As for [`write`], for the elements of the portion; and the whole decoded chunk is writable.
pub(crate) unsafe fn put(portion: &Portion<'_, '_>, value: BufferPtr, chunk: *mut u8) {
    let swap = portion.level.swap();
    portion.each_copy(Direction::ToCell, |copy| {
        let item = copy.item(swap);
        // SAFETY: guaranteed by the caller; the portion lies inside the chunk.
        unsafe {
            let from = value.0.offset(copy.caller);
            copy::copy(from, chunk.offset(copy.cell), copy.axes, item);
        }
    });
}

/// Write `selection` from the buffer at `value`.
///
/// # Safety
/// Every byte offset of the selection lies inside the buffer at `value`, which does not change
/// until this returns. If items are handles, their elements do not change either.
///
/// # Errors
/// The first error of any chunk; other chunks may be written already, each completely.
pub unsafe fn write(operation: Operation<'_>, selection: &Selection, value: *const u8) -> Result<()> {
    check_writable(operation)?;
    let value = BufferPtr(value.cast_mut());
    // SAFETY: guaranteed by the caller.
    let encode = |chunk: &Chunk<'_, '_>, scratch: &mut Scratch| unsafe {
        encode_chunk(operation, chunk, value, scratch)
    };
    // SAFETY: guaranteed by the caller.
    operation.each_upload(selection, &encode, &|chunk, scratch| unsafe {
        write_chunk(operation, chunk, value, scratch)
    })
}

/// Encode a chunk of the caller's elements; None: it has no value, or needs the stored one.
///
/// # Safety
/// As for [`write`], for the elements of the chunk.
pub(crate) unsafe fn encode_chunk(
    operation: Operation<'_>,
    chunk: &Chunk<'_, '_>,
    value: BufferPtr,
    scratch: &mut Scratch,
) -> Result<Option<Arc<Vec<u8>>>> {
    let elements = CallerElements::of(chunk, value, operation);
    Writer::new(operation, chunk.spread).encode_value(chunk.key, &elements, scratch)
}

/// Store the caller's elements of a chunk.
///
/// # Safety
/// As for [`write`], for the elements of the chunk.
pub(crate) unsafe fn write_chunk(
    operation: Operation<'_>,
    chunk: &Chunk<'_, '_>,
    value: BufferPtr,
    scratch: &mut Scratch,
) -> Result<()> {
    let elements = CallerElements::of(chunk, value, operation);
    Writer::new(operation, chunk.spread).chunk(chunk.key, &elements, scratch)
}
