//! Which elements of a chunk were written.

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::array::{Level, PerAxis};
use crate::copy::{self, Axis, Item};
use crate::error::Result;
use crate::pipeline::operation::{Address, Portion};
use crate::scratch::sized;
use crate::selection::Direction;

/// Bytes of a decoded chunk, of which only those of elements that were written have to be initialised.
type Bytes = [MaybeUninit<u8>];

/// Which elements of a chunk were written, by their places in it.
#[derive(Default)]
pub(super) enum Written {
    /// None.
    #[default]
    Nothing,
    /// Those of a box.
    Box(PerAxis<Range<u64>>),
    /// Those where the mask has ones.
    Mask(Mask),
}

/// Ones and zeros, laid out as the decoded chunk.
pub(super) struct Mask {
    ones: Vec<u8>,
    /// How many there are for each item: one, or one for each of its bytes.
    unit: usize,
}

impl Mask {
    /// No element yet.
    fn of(level: &Level, unit: usize) -> Result<Mask> {
        let mut ones = Vec::new();
        sized(&mut ones, level.decoded_bytes / level.item_bytes * unit)?;
        Ok(Mask { ones, unit })
    }

    /// From one item to the next along each axis.
    fn strides(&self, level: &Level) -> PerAxis<isize> {
        let (unit, item) = (self.unit as isize, level.item_bytes as isize);
        level.strides.iter().map(|stride| stride / item * unit).collect()
    }

    fn add_box(&mut self, level: &Level, part: &[Range<u64>]) {
        let (start, axes) = box_axes(part, &self.strides(level));
        let ones = vec![1; self.unit];
        // SAFETY: the box lies inside the chunk, which the mask is as large as.
        unsafe { copy::fill(self.ones.as_mut_ptr().offset(start), &axes, &ones) };
    }

    fn add(&mut self, portion: &Portion<'_, '_>) {
        let Portion { level, piece, origin } = *portion;
        let strides = self.strides(level);
        piece.with_copy(Direction::ToCell, origin, &strides, |start, _, axes| {
            for (at, count) in self.marks(portion) {
                // SAFETY: the portion lies inside the chunk, which the mask is as large as.
                unsafe { copy::fill(self.ones.as_mut_ptr().offset(start).add(at), axes, &vec![1; count]) };
            }
        });
    }

    /// Where, among those of an item, the marks of what is selected begin, and how many they are.
    fn marks(&self, portion: &Portion<'_, '_>) -> PerAxis<(usize, usize)> {
        if self.unit == 1 {
            return PerAxis::from_elem((0, 1), 1);
        }
        portion.fields().iter().map(|field| (field.item, field.bytes)).collect()
    }

    /// Copies what stands where there are ones, or zeros; both sides are laid out as decoded.
    fn copy_runs(&self, mark: u8, level: &Level, from: &Bytes, to: &mut Bytes) {
        let bytes = level.item_bytes / self.unit;
        for run in runs(&self.ones, mark) {
            let run = run.start * bytes..run.end * bytes;
            to[run.clone()].copy_from_slice(&from[run]);
        }
    }

    /// Mark bytes, and not items.
    fn widen(&mut self, level: &Level) -> Result<()> {
        if self.unit == level.item_bytes {
            return Ok(());
        }
        let mut wide = Mask::of(level, level.item_bytes)?;
        let items = wide.ones.chunks_exact_mut(level.item_bytes).zip(&self.ones);
        items.for_each(|(marks, &one)| marks.fill(one));
        *self = wide;
        Ok(())
    }

    fn covers(&self, portion: &Portion<'_, '_>) -> bool {
        let Portion { level, piece, origin } = *portion;
        let marks = self.marks(portion);
        piece.with_copy(Direction::FromCell, origin, &self.strides(level), |start, _, axes| {
            copy::all_steps(axes, &mut |at, _| {
                let first = (start + at) as usize;
                marks.iter().all(|&(at, count)| self.ones[first + at..][..count].iter().all(|&one| one == 1))
            })
        })
    }
}

/// The least item of a box, and its axes, by which both sides are walked alike.
fn box_axes(part: &[Range<u64>], strides: &[isize]) -> (isize, PerAxis<Axis<'static>>) {
    let start = part.iter().zip(strides).map(|(range, stride)| range.start as isize * stride).sum();
    let axes = part.iter().zip(strides).map(|(range, &stride)| Axis::Strided {
        count: range.end.saturating_sub(range.start) as usize,
        src: stride,
        dst: stride,
    });
    (start, axes.collect())
}

/// Boxes that are, together, what a chunk has outside of one.
fn around(level: &Level, part: &[Range<u64>]) -> Vec<PerAxis<Range<u64>>> {
    let mut left: PerAxis<Range<u64>> = level.shape.iter().map(|&size| 0..size).collect();
    let mut found = Vec::new();
    for (axis, range) in part.iter().enumerate() {
        for beside in [0..range.start, range.end..level.shape[axis]] {
            let mut one = left.clone();
            one[axis] = beside;
            found.push(one);
        }
        left[axis] = range.clone();
    }
    found.retain(|one| one.iter().all(|range| !range.is_empty()));
    found
}

/// Copies a box; both sides are laid out as decoded.
fn copy_box(level: &Level, part: &[Range<u64>], from: &Bytes, to: &mut Bytes) {
    assert!(from.len() >= level.decoded_bytes && to.len() >= level.decoded_bytes);
    let (start, axes) = box_axes(part, &level.strides);
    let item = Item { bytes: level.item_bytes, swap: 0 };
    // SAFETY: the box lies inside the chunk, whose bytes both have.
    unsafe {
        let (from, to) = (from.as_ptr().offset(start), to.as_mut_ptr().offset(start));
        copy::copy(from.cast(), to.cast(), &axes, item);
    }
}

/// The box that is the two together, if there is one.
fn joined(one: &[Range<u64>], other: &[Range<u64>]) -> Option<PerAxis<Range<u64>>> {
    let holds = |a: &[Range<u64>], b: &[Range<u64>]| {
        a.iter().zip(b).all(|(a, b)| a.start <= b.start && b.end <= a.end)
    };
    if holds(one, other) {
        return Some(one.into());
    }
    if holds(other, one) {
        return Some(other.into());
    }
    let mut differing = (0..one.len()).filter(|&axis| one[axis] != other[axis]);
    let (axis, None) = (differing.next()?, differing.next()) else { return None };
    let (a, b) = (&one[axis], &other[axis]);
    if a.start > b.end || b.start > a.end {
        return None;
    }
    let mut both: PerAxis<Range<u64>> = one.into();
    both[axis] = a.start.min(b.start)..a.end.max(b.end);
    Some(both)
}

impl Written {
    /// No element was written.
    pub(super) fn is_nothing(&self) -> bool {
        matches!(self, Written::Nothing)
    }

    /// What is selected by `portion` has been written, too.
    pub(super) fn add(&mut self, portion: &Portion<'_, '_>) -> Result<()> {
        let whole_items = portion.piece.has_whole_items();
        if let Some(part) = portion.piece.as_box(portion.origin) {
            let both = match self {
                Written::Nothing => Some(part),
                Written::Box(before) => joined(before, &part),
                Written::Mask(_) => None,
            };
            if let Some(both) = both {
                *self = Written::Box(both);
                return Ok(());
            }
        }
        let mask = self.become_mask(portion.level)?;
        if !whole_items {
            mask.widen(portion.level)?;
        }
        mask.add(portion);
        Ok(())
    }

    /// Tell it by a mask.
    pub(super) fn become_mask(&mut self, level: &Level) -> Result<&mut Mask> {
        if !matches!(self, Written::Mask(_)) {
            let mut mask = Mask::of(level, 1)?;
            if let Written::Box(part) = self {
                mask.add_box(level, part);
            }
            *self = Written::Mask(mask);
        }
        match self {
            Written::Mask(mask) => Ok(mask),
            _ => Err(crate::Error::internal("a mask was made, and is none")),
        }
    }

    /// All that is selected by `portion` was written.
    pub(super) fn covers(&self, portion: &Portion<'_, '_>) -> bool {
        match self {
            Written::Nothing => false,
            Written::Box(part) => part.iter().enumerate().all(|(axis, range)| {
                let (first, last) = portion.piece.reach(axis);
                let origin = portion.origin[axis];
                range.start <= first as u64 - origin && (last as u64 - origin) < range.end
            }),
            Written::Mask(mask) => mask.covers(portion),
        }
    }

    /// Every element of the chunk was written, also those outside of the array.
    pub(super) fn is_all(&self, level: &Level) -> bool {
        match self {
            Written::Nothing => false,
            Written::Box(part) => {
                part.iter().zip(&level.shape).all(|(range, &size)| range.start == 0 && range.end == size)
            }
            Written::Mask(mask) => copy::is_filled(&mask.ones, &[1]),
        }
    }

    /// Copies what was written from `values` to `chunk`, both of which are laid out as decoded.
    pub(super) fn merge(&self, level: &Level, values: &Bytes, chunk: &mut Bytes) {
        match self {
            Written::Nothing => {}
            Written::Box(part) => copy_box(level, part, values, chunk),
            Written::Mask(mask) => mask.copy_runs(1, level, values, chunk),
        }
    }

    /// Copies what was not written from `rest` to `values`, both of which are laid out as decoded.
    pub(super) fn complete(&self, level: &Level, values: &mut Bytes, rest: &Bytes) {
        match self {
            Written::Nothing => values.copy_from_slice(rest),
            Written::Box(part) => {
                for beside in around(level, part) {
                    copy_box(level, &beside, rest, values);
                }
            }
            Written::Mask(mask) => mask.copy_runs(0, level, rest, values),
        }
    }

    /// Copies what was written of `portion` from `values`, which are laid out as decoded, to the caller.
    ///
    /// It covers the portion, or is a mask.
    ///
    /// # Safety
    /// As for [`crate::read::read`], for what is selected by the portion.
    pub(super) unsafe fn deliver(&self, portion: &Portion<'_, '_>, values: &Bytes, out: Address) {
        let Portion { level, piece, origin } = *portion;
        let swap = level.swap();
        let Written::Mask(mask) = self else {
            return portion.each_copy(Direction::FromCell, |copy| {
                let item = copy.item(swap);
                // SAFETY: the caller's promise; the portion lies inside the chunk.
                unsafe {
                    let from = values.as_ptr().offset(copy.cell).cast();
                    copy::copy(from, out.0.offset(copy.caller), copy.axes, item);
                }
            });
        };
        // Of a number, too, some bytes may have been written.
        let of_items = mask.unit == 1;
        let fields = if of_items { portion.fields() } else { portion.bytes() };
        let unit = fields.iter().fold(swap.max(1), |unit, field| unit.min(field.bytes));
        piece.with_copy(Direction::FromCell, origin, &level.strides, |cell, caller, axes| {
            copy::all_steps(axes, &mut |src, dst| {
                let item = (cell + src) as usize;
                let first = item / level.item_bytes * mask.unit;
                for field in &fields {
                    let mark = if of_items { first } else { first + field.item };
                    if mask.ones[mark] == 1 {
                        let from = &values[item + field.item..][..field.bytes];
                        // SAFETY: the caller's promise.
                        unsafe { give(from, out.0.offset(caller + dst).add(field.caller), unit) };
                    }
                }
                true
            });
        });
    }
}

/// Copies bytes, those of each `unit` reversed.
///
/// # Safety
/// As many can be written at `to`.
unsafe fn give(from: &Bytes, to: *mut u8, unit: usize) {
    if unit < 2 {
        // SAFETY: the caller's promise; what is kept is nobody's buffer.
        return unsafe { std::ptr::copy_nonoverlapping(from.as_ptr().cast(), to, from.len()) };
    }
    for (at, &byte) in from.iter().enumerate() {
        let place = at / unit * unit + (unit - 1 - at % unit);
        // SAFETY: the caller's promise.
        unsafe { to.cast::<MaybeUninit<u8>>().add(place).write(byte) };
    }
}

/// Where runs of ones, or of zeros, begin and end.
fn runs(ones: &[u8], mark: u8) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + next(&ones[at..], mark)?;
        at = next(&ones[start..], 1 - mark).map_or(ones.len(), |count| start + count);
        Some(start..at)
    })
}

/// The place of the first `wanted` one or zero.
fn next(ones: &[u8], wanted: u8) -> Option<usize> {
    const BLOCK: usize = 32;
    let other = [1 - wanted; BLOCK];
    let blocks = ones.chunks_exact(BLOCK).take_while(|block| **block == other).count();
    let skipped = blocks * BLOCK;
    ones[skipped..].iter().position(|&one| one == wanted).map(|count| skipped + count)
}
