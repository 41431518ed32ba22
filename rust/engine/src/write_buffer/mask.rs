//! Masks of the written elements of a chunk.

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::array::{Level, PerAxis};
use crate::copy::{self, Axis, Item};
use crate::error::Result;
use crate::pipeline::operation::{BufferPtr, Portion};
use crate::scratch::sized;
use crate::selection::Direction;

/// Bytes of a decoded chunk; only those of written elements must be initialised.
type Bytes = [MaybeUninit<u8>];

/// Which elements of a chunk were written.
#[derive(Default)]
pub(super) enum Mask {
    /// No element.
    #[default]
    Empty,
    /// The elements of a box.
    Box(PerAxis<Range<u64>>),
    /// The elements whose marks are ones.
    ByteMask(ByteMask),
}

/// Marks (ones and zeros) in the layout of the decoded chunk.
pub(super) struct ByteMask {
    marks: Vec<u8>,
    /// The marks of each item: one, or one for each byte.
    unit: usize,
}

impl ByteMask {
    /// Return a mask without written elements.
    fn of(level: &Level, unit: usize) -> Result<ByteMask> {
        let mut marks = Vec::new();
        sized(&mut marks, level.decoded_bytes / level.item_bytes * unit)?;
        Ok(ByteMask { marks, unit })
    }

    /// Return the strides of the marks.
    fn strides(&self, level: &Level) -> PerAxis<isize> {
        let (unit, item) = (self.unit as isize, level.item_bytes as isize);
        level.strides.iter().map(|stride| stride / item * unit).collect()
    }

    fn add_box(&mut self, level: &Level, part: &[Range<u64>]) {
        let (start, axes) = box_axes(part, &self.strides(level));
        let marks = vec![1; self.unit];
        // SAFETY: the box lies inside the chunk, and the mask has its size.
        unsafe { copy::fill(self.marks.as_mut_ptr().offset(start), &axes, &marks) };
    }

    fn add(&mut self, portion: &Portion<'_, '_>) {
        let Portion { level, piece, origin } = *portion;
        let strides = self.strides(level);
        piece.with_copy(Direction::ToCell, origin, &strides, |start, _, axes| {
            for (index, count) in self.marks(portion) {
                // SAFETY: the portion lies inside the chunk, and the mask has its size.
                unsafe {
                    copy::fill(self.marks.as_mut_ptr().offset(start).add(index), axes, &vec![1; count])
                };
            }
        });
    }

    /// Return the positions of the selected marks within those of an item, and their number.
    fn marks(&self, portion: &Portion<'_, '_>) -> PerAxis<(usize, usize)> {
        if self.unit == 1 {
            return PerAxis::from_elem((0, 1), 1);
        }
        portion.fields().iter().map(|field| (field.item, field.bytes)).collect()
    }

    /// Copy the marked elements; both sides have the layout of the decoded chunk.
    fn copy_marked(&self, level: &Level, from: &Bytes, to: &mut Bytes) {
        let bytes = level.item_bytes / self.unit;
        for run in marked_runs(&self.marks) {
            let run = run.start * bytes..run.end * bytes;
            to[run.clone()].copy_from_slice(&from[run]);
        }
    }

    /// Mark bytes instead of items.
    fn widen(&mut self, level: &Level) -> Result<()> {
        if self.unit == level.item_bytes {
            return Ok(());
        }
        let mut byte_marks = ByteMask::of(level, level.item_bytes)?;
        let items = byte_marks.marks.chunks_exact_mut(level.item_bytes).zip(&self.marks);
        items.for_each(|(marks, &mark)| marks.fill(mark));
        *self = byte_marks;
        Ok(())
    }

    fn covers(&self, portion: &Portion<'_, '_>) -> bool {
        let Portion { level, piece, origin } = *portion;
        let marks = self.marks(portion);
        piece.with_copy(Direction::FromCell, origin, &self.strides(level), |start, _, axes| {
            copy::all_steps(axes, &mut |index, _| {
                let first = (start + index) as usize;
                marks
                    .iter()
                    .all(|&(index, count)| self.marks[first + index..][..count].iter().all(|&mark| mark == 1))
            })
        })
    }
}

/// Return the offset of the first item of a box, and its axes, the same on both sides.
fn box_axes(part: &[Range<u64>], strides: &[isize]) -> (isize, PerAxis<Axis<'static>>) {
    let start = part.iter().zip(strides).map(|(range, stride)| range.start as isize * stride).sum();
    let axes = part.iter().zip(strides).map(|(range, &stride)| Axis::Strided {
        count: range.end.saturating_sub(range.start) as usize,
        src: stride,
        dst: stride,
    });
    (start, axes.collect())
}

/// Copy a box; both sides have the layout of the decoded chunk.
fn copy_box(level: &Level, part: &[Range<u64>], from: &Bytes, to: &mut Bytes) {
    assert!(from.len() >= level.decoded_bytes && to.len() >= level.decoded_bytes);
    let (start, axes) = box_axes(part, &level.strides);
    let item = Item { bytes: level.item_bytes, swap: 0 };
    // SAFETY: the box lies inside the chunk, whose bytes both sides have.
    unsafe {
        let (from, to) = (from.as_ptr().offset(start), to.as_mut_ptr().offset(start));
        copy::copy(from.cast(), to.cast(), &axes, item);
    }
}

/// Return the union of two boxes, if it is a box.
fn union(first: &[Range<u64>], second: &[Range<u64>]) -> Option<PerAxis<Range<u64>>> {
    let contains = |a: &[Range<u64>], b: &[Range<u64>]| {
        a.iter().zip(b).all(|(a, b)| a.start <= b.start && b.end <= a.end)
    };
    if contains(first, second) {
        return Some(first.into());
    }
    if contains(second, first) {
        return Some(second.into());
    }
    let mut differing = (0..first.len()).filter(|&axis| first[axis] != second[axis]);
    let (axis, None) = (differing.next()?, differing.next()) else { return None };
    let (a, b) = (&first[axis], &second[axis]);
    if a.start > b.end || b.start > a.end {
        return None;
    }
    let mut union_box: PerAxis<Range<u64>> = first.into();
    union_box[axis] = a.start.min(b.start)..a.end.max(b.end);
    Some(union_box)
}

impl Mask {
    /// Return whether no element was written.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Mask::Empty)
    }

    /// Return the number of bytes of marks.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Mask::Empty | Mask::Box(_) => 0,
            Mask::ByteMask(mask) => mask.marks.len(),
        }
    }

    /// Add the elements of `portion`.
    pub(super) fn add(&mut self, portion: &Portion<'_, '_>) -> Result<()> {
        let whole_items = portion.piece.has_whole_items();
        if let Some(part) = portion.piece.as_box(portion.origin) {
            let union_box = match self {
                Mask::Empty => Some(part),
                Mask::Box(current) => union(current, &part),
                Mask::ByteMask(_) => None,
            };
            if let Some(union_box) = union_box {
                *self = Mask::Box(union_box);
                return Ok(());
            }
        }
        let mask = self.make_byte_mask(portion.level)?;
        if !whole_items {
            mask.widen(portion.level)?;
        }
        mask.add(portion);
        Ok(())
    }

    /// Convert to marks.
    pub(super) fn make_byte_mask(&mut self, level: &Level) -> Result<&mut ByteMask> {
        if !matches!(self, Mask::ByteMask(_)) {
            let mut mask = ByteMask::of(level, 1)?;
            if let Mask::Box(part) = self {
                mask.add_box(level, part);
            }
            *self = Mask::ByteMask(mask);
        }
        match self {
            Mask::ByteMask(mask) => Ok(mask),
            _ => Err(crate::Error::internal("a mask is missing after its creation")),
        }
    }

    /// Return whether all elements of `portion` were written.
    pub(super) fn covers(&self, portion: &Portion<'_, '_>) -> bool {
        match self {
            Mask::Empty => false,
            Mask::Box(part) => part.iter().enumerate().all(|(axis, range)| {
                let (first, last) = portion.piece.index_range(axis);
                let origin = portion.origin[axis];
                range.start <= first as u64 - origin && (last as u64 - origin) < range.end
            }),
            Mask::ByteMask(mask) => mask.covers(portion),
        }
    }

    /// Return whether it is clear without marks that no element of `portion` was written.
    pub(super) fn is_disjoint(&self, portion: &Portion<'_, '_>) -> bool {
        let Mask::Box(part) = self else { return self.is_empty() };
        part.iter().enumerate().any(|(axis, range)| {
            let (first, last) = portion.piece.index_range(axis);
            let origin = portion.origin[axis];
            range.end <= first as u64 - origin || last as u64 - origin < range.start
        })
    }

    /// Return whether every element of the chunk was written, including those outside the array.
    pub(super) fn is_all(&self, level: &Level) -> bool {
        match self {
            Mask::Empty => false,
            Mask::Box(part) => {
                part.iter().zip(&level.shape).all(|(range, &size)| range.start == 0 && range.end == size)
            }
            Mask::ByteMask(mask) => copy::is_filled(&mask.marks, &[1]),
        }
    }

    /// Copy the written elements from `values` to `chunk`; both have the layout of the decoded
    /// chunk.
    pub(super) fn merge(&self, level: &Level, values: &Bytes, chunk: &mut Bytes) {
        match self {
            Mask::Empty => {}
            Mask::Box(part) => copy_box(level, part, values, chunk),
            Mask::ByteMask(mask) => mask.copy_marked(level, values, chunk),
        }
    }

    /// Copy the written elements of `portion` from `values` (in the layout of the decoded chunk) to
    /// the caller.
    ///
    /// The mask covers the portion, or consists of marks.
    ///
    /// # Safety
    /// As for [`crate::read::read`], for the elements of the portion.
    pub(super) unsafe fn deliver(&self, portion: &Portion<'_, '_>, values: &Bytes, out: BufferPtr) {
        let Portion { level, piece, origin } = *portion;
        let swap = level.swap();
        let Mask::ByteMask(mask) = self else {
            return portion.each_copy(Direction::FromCell, |copy| {
                let item = copy.item(swap);
                // SAFETY: guaranteed by the caller; the portion lies inside the chunk.
                unsafe {
                    let from = values.as_ptr().offset(copy.cell).cast();
                    copy::copy(from, out.0.offset(copy.caller), copy.axes, item);
                }
            });
        };
        // A write may cover some bytes of a number.
        let is_per_item = mask.unit == 1;
        let fields = if is_per_item { portion.fields() } else { portion.bytes() };
        let unit = fields.iter().fold(swap.max(1), |unit, field| unit.min(field.bytes));
        piece.with_copy(Direction::FromCell, origin, &level.strides, |cell, caller, axes| {
            copy::all_steps(axes, &mut |src, dst| {
                let item = (cell + src) as usize;
                let first = item / level.item_bytes * mask.unit;
                for field in &fields {
                    let mark = if is_per_item { first } else { first + field.item };
                    if mask.marks[mark] == 1 {
                        let from = &values[item + field.item..][..field.bytes];
                        // SAFETY: guaranteed by the caller.
                        unsafe { copy_reversed(from, out.0.offset(caller + dst).add(field.caller), unit) };
                    }
                }
                true
            });
        });
    }
}

/// Copy bytes; the bytes of each `unit` are reversed.
///
/// # Safety
/// `from.len()` bytes are writable at `to`.
unsafe fn copy_reversed(from: &Bytes, to: *mut u8, unit: usize) {
    if unit < 2 {
        // SAFETY: guaranteed by the caller; buffered elements do not overlap the caller's buffer.
        return unsafe { std::ptr::copy_nonoverlapping(from.as_ptr().cast(), to, from.len()) };
    }
    for (index, &byte) in from.iter().enumerate() {
        let target = index / unit * unit + (unit - 1 - index % unit);
        // SAFETY: guaranteed by the caller.
        unsafe { to.cast::<MaybeUninit<u8>>().add(target).write(byte) };
    }
}

/// Return the runs of ones.
fn marked_runs(marks: &[u8]) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut index = 0;
    std::iter::from_fn(move || {
        let start = index + position_of(&marks[index..], 1)?;
        index = position_of(&marks[start..], 0).map_or(marks.len(), |count| start + count);
        Some(start..index)
    })
}

/// Return the position of the first mark equal to `mark`.
fn position_of(marks: &[u8], mark: u8) -> Option<usize> {
    const BLOCK: usize = 32;
    let opposite = [1 - mark; BLOCK];
    let blocks = marks.chunks_exact(BLOCK).take_while(|block| **block == opposite).count();
    let skipped = blocks * BLOCK;
    marks[skipped..].iter().position(|&other| other == mark).map(|count| skipped + count)
}
