//! Writing elements from the caller's buffer.

use std::marker::PhantomData;

use super::{check_writable, New, Parts, Touched, Work, Writer};
use crate::array::{Level, PerAxis, Shard};
use crate::copy::{self, Item};
use crate::error::Result;
use crate::pipeline::operation::{origin_of, Address, Chunk, Operation, Portion};
use crate::scratch::{reserve, Scratch};
use crate::selection::{Direction, Division, Selection};

/// Elements from the caller's buffer.
struct Given<'a, 'p, 's> {
    portion: Portion<'p, 's>,
    value: Address,
    is_bool: bool,
    buffer: PhantomData<&'a [u8]>,
}

impl<'p, 's> Given<'_, 'p, 's> {
    fn of(chunk: &Chunk<'p, 's>, value: Address, operation: Operation<'_>) -> Self {
        Given { portion: chunk.portion, value, is_bool: operation.array.is_bool, buffer: PhantomData }
    }
}

impl<'a> New<'a> for Given<'a, '_, '_> {
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
        if level.swap() > 1 {
            return None;
        }
        self.portion.of_copy(Direction::ToCell, |copy| {
            let item = Item { bytes: copy.field.bytes, swap: 0 };
            let bytes = copy::Plan::new(copy.axes, item).contiguous_bytes()?;
            if copy.cell != 0 || bytes != level.decoded_bytes {
                return None;
            }
            // SAFETY: the caller of `write` vouches for every offset of the
            // selection and changes nothing until the write has ended.
            let bytes = unsafe { std::slice::from_raw_parts(self.value.0.offset(copy.caller), bytes) };
            (!self.is_bool || copy::bool_ok(bytes)).then_some(bytes)
        })
    }

    fn put(&self, chunk: &mut [u8]) {
        // SAFETY: the caller of `write` vouches for its side.
        unsafe { put(&self.portion, self.value, chunk.as_mut_ptr()) }
    }

    fn parts<'n>(&'n self, shard: &'n Shard) -> Result<Box<dyn Parts<'a> + 'n>> {
        Ok(Box::new(GivenParts { given: self, shard, division: self.portion.divide(&shard.cuts)? }))
    }
}

/// The subchunks that a selection touches.
struct GivenParts<'n, 'a, 'p, 's> {
    given: &'n Given<'a, 'p, 's>,
    shard: &'n Shard,
    division: Division<'s>,
}

impl<'a> Parts<'a> for GivenParts<'_, 'a, '_, '_> {
    fn touched(&self) -> Result<Vec<Touched>> {
        let mut touched = Vec::new();
        reserve(&mut touched, self.division.tasks())?;
        let mut cell = PerAxis::new();
        for task in 0..self.division.tasks() {
            self.division.task(task, &mut cell);
            touched.push(Touched { number: self.shard.number(&cell), task });
        }
        Ok(touched)
    }

    fn with(&self, task: usize, work: &mut Work<'_, 'a>) -> Result<()> {
        let mut cell = PerAxis::new();
        let piece = &self.division.task(task, &mut cell);
        let level = &self.shard.level;
        let origin = &origin_of(self.given.portion.origin, &cell, &level.shape);
        work(&cell, &Given { portion: Portion { level, piece, origin }, ..*self.given })
    }
}

/// Copies the elements of `portion` from the caller's buffer to their places in `chunk`, which is decoded.
///
/// # Safety
/// As for [`write`], for what is selected by the portion; and all of a decoded chunk can be written.
pub(crate) unsafe fn put(portion: &Portion<'_, '_>, value: Address, chunk: *mut u8) {
    let swap = portion.level.swap();
    portion.each_copy(Direction::ToCell, |copy| {
        let item = copy.item(swap);
        // SAFETY: the caller's promise; the portion lies inside the cell, whose
        // bytes `chunk` has.
        unsafe {
            let from = value.0.offset(copy.caller);
            copy::copy(from, chunk.offset(copy.cell), copy.axes, item);
        }
    });
}

/// Write `selection` from the buffer at `value`.
///
/// # Safety
/// Every byte offset that the selection names lies inside the buffer at
/// `value`, which nobody changes until this returns. Where items are handles,
/// neither do their elements change.
///
/// # Errors
/// The first that any chunk met; other chunks may be written already, each of
/// them whole.
pub unsafe fn write(operation: Operation<'_>, selection: &Selection, value: *const u8) -> Result<()> {
    check_writable(operation)?;
    let value = Address(value.cast_mut());
    let writer = |chunk: &Chunk<'_, '_>| Writer::new(operation, chunk.spread);
    let make = |chunk: &Chunk<'_, '_>, scratch: &mut Scratch| {
        writer(chunk).value(&Given::of(chunk, value, operation), scratch)
    };
    operation.each_stored(selection, &make, &|chunk, scratch| {
        writer(chunk).chunk(chunk.key, &Given::of(chunk, value, operation), scratch)
    })
}
