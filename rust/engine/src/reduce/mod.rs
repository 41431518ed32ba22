//! Block reductions of an array: mean, median, mode, minimum and maximum.
//!
//! One axis is the axis of *rows*: the last one, or an earlier one if all later axes have blocks of
//! one item. Work is divided into *pieces*: adjacent blocks of a row at one position of the other
//! axes. A kernel processes the rows of a piece one after the other and returns one element for
//! each block.

mod element;
mod kernel;
mod network;

use std::ops::Range;

use crate::convert::half::{BFloat16, Float16};
use crate::error::{Error, Result};
use crate::{has_avx2, pool};
use element::{Bit, Complex, Element, Integer, Real, Total};
use kernel::{FloatMean, IntegerMean, Kernel, Majority, Maximum, Median, Minimum, Mode, Sums};

/// The number of items of a piece: the kernel's data for it fits the cache.
const PIECE_ITEMS: usize = 8 << 10;

/// The number of items of a task: that takes longer than waking a thread.
const TASK_ITEMS: usize = 128 << 10;

/// The reduction of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The mean; for integers rounded to the nearest, ties to even.
    Mean,
    /// The minimum; NaN only if all elements are NaN.
    Min,
    /// The maximum; NaN only if all elements are NaN.
    Max,
    /// The middle element, the lower one of two; NaN is greater than all others.
    Median,
    /// The most frequent element, the least one of several.
    Mode,
}

impl Method {
    /// Return the method with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "mean" => Method::Mean,
            "min" => Method::Min,
            "max" => Method::Max,
            "median" => Method::Median,
            "mode" => Method::Mode,
            _ => return None,
        })
    }
}

/// The division of one axis into blocks: a short block, whole ones, and a short one again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AxisBlocks {
    /// The length of the first block; 0 without one.
    pub first: usize,
    /// The length of whole blocks.
    pub whole: usize,
    /// The number of whole blocks.
    pub wholes: usize,
    /// The length of the last block; 0 without one.
    pub last: usize,
}

impl AxisBlocks {
    const ONE: AxisBlocks = AxisBlocks { first: 0, whole: 1, wholes: 1, last: 0 };

    fn lead(&self) -> usize {
        usize::from(self.first > 0)
    }

    /// Return the number of blocks.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.lead() + self.wholes + usize::from(self.last > 0)
    }

    /// Return the number of items; None if it exceeds `usize`.
    #[must_use]
    pub fn items(&self) -> Option<usize> {
        self.whole.checked_mul(self.wholes)?.checked_add(self.first)?.checked_add(self.last)
    }

    fn longest(&self) -> usize {
        let whole = if self.wholes > 0 { self.whole } else { 0 };
        whole.max(self.first).max(self.last)
    }

    /// Return the start and the length of a block, and the number of consecutive blocks of this
    /// length.
    fn block(&self, number: usize) -> (usize, usize, usize) {
        if number < self.lead() {
            return (0, self.first, 1);
        }
        let number = number - self.lead();
        let start = self.first + number * self.whole;
        match self.wholes.saturating_sub(number) {
            0 => (start, self.last, 1),
            remaining => (start, self.whole, remaining),
        }
    }
}

/// The positions of the items of an array: the first one, and the distance to the next along each
/// axis.
#[derive(Debug, Clone, Copy)]
pub struct StridedArray<'a> {
    /// The first item.
    pub address: *mut u8,
    /// The strides in bytes.
    pub strides: &'a [isize],
}

/// One axis of source and target.
#[derive(Clone, Copy)]
struct Axis {
    division: AxisBlocks,
    /// The stride of the source in bytes.
    step: isize,
    /// The stride of the target in bytes.
    stride: isize,
}

/// The data that tasks share.
struct Job {
    source: *const u8,
    target: *mut u8,
    /// The axis of rows.
    row: Axis,
    outer: Vec<Axis>,
    /// The number of blocks of a piece.
    blocks: usize,
    /// The number of pieces of a row.
    pieces: usize,
}

// SAFETY: tasks read the source and write disjoint parts of the target.
unsafe impl Sync for Job {}

/// Reduces some pieces of a job.
///
/// Safety contract: that of [`reduce`].
type Work = unsafe fn(&Job, Range<usize>);

/// Reduce each block of `source` to one element of `target`.
///
/// `kind` is the type of both: `bool`, `bfloat16`, or NumPy's notation without the byte order
/// (`i4`, `f2`, `c8`).
///
/// # Errors
/// `Kind::Argument` if the elements do not have this method.
///
/// # Safety
/// All items of `axis_blocks` are readable at `source`, all blocks writable at `target`, and the
/// two do not overlap.
pub unsafe fn reduce(
    kind: &str,
    method: Method,
    axis_blocks: &[AxisBlocks],
    source: StridedArray<'_>,
    target: StridedArray<'_>,
) -> Result<()> {
    let block_items: usize = axis_blocks.iter().map(AxisBlocks::longest).product();
    let total: usize = axis_blocks.iter().map(AxisBlocks::blocks).product();
    let Some(work) = select_work(kind, method, block_items) else {
        return Err(Error::argument(format!("{method:?} does not support elements of {kind}")));
    };
    if total == 0 || block_items == 0 {
        return Ok(());
    }
    let axes = axis_blocks.iter().zip(source.strides).zip(target.strides);
    let mut outer: Vec<Axis> =
        axes.map(|((&division, &step), &stride)| Axis { division, step, stride }).collect();
    let row = match row_axis(axis_blocks) {
        Some(axis) => outer.remove(axis),
        None => Axis { division: AxisBlocks::ONE, step: 0, stride: 0 },
    };
    let blocks = (PIECE_ITEMS / block_items).clamp(1, row.division.blocks());
    let pieces = row.division.blocks().div_ceil(blocks);
    let total_pieces = total / row.division.blocks() * pieces;
    let job = Job { source: source.address, target: target.address, row, outer, blocks, pieces };
    let pieces_per_task = (TASK_ITEMS / (block_items * blocks)).max(1);
    pool::parallel_for(total_pieces.div_ceil(pieces_per_task), pool::threads(), None, &|task| {
        // SAFETY: the caller's promise; pieces do not overlap.
        unsafe { work(&job, task * pieces_per_task..total_pieces.min((task + 1) * pieces_per_task)) };
        Ok(())
    })
}

/// Return the axis of rows: the one with the most blocks among the last axis and earlier axes that
/// only axes of single items follow. None without axes.
fn row_axis(axis_blocks: &[AxisBlocks]) -> Option<usize> {
    let mut best_axis = axis_blocks.len().checked_sub(1)?;
    for axis in (0..best_axis).rev() {
        if axis_blocks[axis + 1].longest() > 1 {
            break;
        }
        if axis_blocks[axis].blocks() > axis_blocks[best_axis].blocks() {
            best_axis = axis;
        }
    }
    Some(best_axis)
}

/// Return the size of an element of a kind; None if the kind is unknown.
#[must_use]
pub fn item_bytes(kind: &str) -> Option<usize> {
    Some(match kind {
        "bool" | "i1" | "u1" => 1,
        "i2" | "u2" | "f2" | "bfloat16" => 2,
        "i4" | "u4" | "f4" => 4,
        "i8" | "u8" | "f8" | "c8" => 8,
        "c16" => 16,
        _ => return None,
    })
}

/// Return the function for a reduction; None if the elements do not have the method.
fn select_work(kind: &str, method: Method, block_items: usize) -> Option<Work> {
    Some(match kind {
        "bool" => bits(method, block_items),
        "i1" => integers::<i8>(method, block_items),
        "u1" => integers::<u8>(method, block_items),
        "i2" => integers::<i16>(method, block_items),
        "u2" => integers::<u16>(method, block_items),
        "i4" => integers::<i32>(method, block_items),
        "u4" => integers::<u32>(method, block_items),
        "i8" => integers::<i64>(method, block_items),
        "u8" => integers::<u64>(method, block_items),
        "f2" => reals::<Float16>(method),
        "bfloat16" => reals::<BFloat16>(method),
        "f4" => reals::<f32>(method),
        "f8" => reals::<f64>(method),
        "c8" => complex::<Complex<f32>>(method)?,
        "c16" => complex::<Complex<f64>>(method)?,
        _ => return None,
    })
}

fn bits(method: Method, block_items: usize) -> Work {
    let small = block_items < 1 << 31;
    match method {
        Method::Min => fastest::<Bit, Minimum<_>>(),
        Method::Max => fastest::<Bit, Maximum<_>>(),
        Method::Mean if small => fastest::<Bit, Sums<i32, IntegerMean>>(),
        Method::Mean => fastest::<Bit, Sums<i128, IntegerMean>>(),
        _ if small => fastest::<Bit, Sums<i32, Majority>>(),
        _ => fastest::<Bit, Sums<i128, Majority>>(),
    }
}

fn integers<E: Element<Wide: Integer>>(method: Method, block_items: usize) -> Work
where
    i128: Total<E::Wide>,
{
    match method {
        Method::Mean if block_items <= <E::Wide as Integer>::MAX_COUNT => {
            fastest::<E, Sums<<E::Wide as Integer>::Sum, IntegerMean>>()
        }
        Method::Mean => fastest::<E, Sums<i128, IntegerMean>>(),
        other => ordering_work::<E>(other),
    }
}

fn reals<E: Element<Wide: Real>>(method: Method) -> Work {
    match method {
        Method::Mean => fastest::<E, FloatMean>(),
        other => ordering_work::<E>(other),
    }
}

fn complex<E: Element<Wide: Real>>(method: Method) -> Option<Work> {
    match method {
        Method::Mean => Some(fastest::<E, FloatMean>()),
        Method::Mode => Some(fastest::<E, Mode<_>>()),
        _ => None,
    }
}

/// Return the function of any method except the mean.
fn ordering_work<E: Element>(method: Method) -> Work {
    match method {
        Method::Min => fastest::<E, Minimum<_>>(),
        Method::Max => fastest::<E, Maximum<_>>(),
        Method::Median => fastest::<E, Median<_>>(),
        _ => fastest::<E, Mode<_>>(),
    }
}

/// Return the fastest function for kernel `K` on this processor: wider vectors help with small
/// numbers.
fn fastest<E: Element, K: Kernel<E>>() -> Work {
    if size_of::<E::Wide>() <= 4 && has_avx2() {
        wide::<E, K>
    } else {
        reduce_pieces::<E, K>
    }
}

/// The function, compiled with wider vectors.
///
/// # Safety
/// The contract of [`Work`]; the processor has AVX2.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
unsafe fn wide<E: Element, K: Kernel<E>>(job: &Job, pieces: Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe { reduce_pieces::<E, K>(job, pieces) }
}

/// # Safety
/// The contract of [`Work`].
#[inline(always)]
unsafe fn reduce_pieces<E: Element, K: Kernel<E>>(job: &Job, pieces: Range<usize>) {
    let mut kernel = K::default();
    let mut results: Vec<E::Wide> = Vec::new();
    let mut rows = Rows::<E>::new(&job.outer, job.row.step);
    for piece in pieces {
        let (mut position, mut block) = (piece / job.pieces, piece % job.pieces * job.blocks);
        let (mut source, mut target) = (job.source, job.target);
        for (axis, count) in job.outer.iter().zip(&mut rows.counts).rev() {
            let number = position % axis.division.blocks();
            position /= axis.division.blocks();
            let (start, length, _) = axis.division.block(number);
            *count = length;
            source = source.wrapping_offset(start as isize * axis.step);
            target = target.wrapping_offset(number as isize * axis.stride);
        }
        let end = job.row.division.blocks().min(block + job.blocks);
        while block < end {
            let (start, length, run_blocks) = job.row.division.block(block);
            let run_blocks = run_blocks.min(end - block);
            rows.start(source.wrapping_offset(start as isize * job.row.step), length * run_blocks);
            results.resize(run_blocks, E::Wide::default());
            kernel.reduce(&mut rows, length, &mut results);
            let mut address = target.wrapping_offset(block as isize * job.row.stride);
            for &result in &results {
                // SAFETY: the caller's promise.
                unsafe { address.cast::<E>().write_unaligned(E::narrow(result)) };
                address = address.wrapping_offset(job.row.stride);
            }
            block += run_blocks;
        }
    }
}

/// An iterator over the rows of a piece.
struct Rows<'a, E: Element> {
    outer: &'a [Axis],
    /// The distance between items of a row in bytes.
    step: isize,
    /// The number of rows along each of the other axes.
    counts: Vec<usize>,
    /// The position of the next row along these axes.
    index: Vec<usize>,
    next: *const u8,
    remaining: usize,
    width: usize,
    buffer: Vec<E::Wide>,
}

impl<'a, E: Element> Rows<'a, E> {
    fn new(outer: &'a [Axis], step: isize) -> Self {
        let (counts, index, buffer) = (vec![0; outer.len()], vec![0; outer.len()], Vec::new());
        Rows { outer, step, counts, index, next: std::ptr::null(), remaining: 0, width: 0, buffer }
    }

    /// Start at the first row of `width` items.
    fn start(&mut self, first: *const u8, width: usize) {
        self.index.fill(0);
        self.next = first;
        self.remaining = self.counts.iter().product();
        self.width = width;
    }

    /// Return the number of remaining rows.
    fn remaining(&self) -> usize {
        self.remaining
    }

    /// Return the next row.
    #[inline(always)]
    fn next(&mut self) -> Option<&[E::Wide]> {
        if self.remaining == 0 {
            return None;
        }
        let address = self.next;
        self.remaining -= 1;
        self.advance();
        let whole = self.step == size_of::<E>() as isize;
        if E::SAME && whole && address.cast::<E::Wide>().is_aligned() {
            // SAFETY: `reduce`'s caller promised that the items are readable; they have this type.
            return Some(unsafe { std::slice::from_raw_parts(address.cast(), self.width) });
        }
        self.buffer.clear();
        let item_address = |item: usize| {
            address.wrapping_offset(item as isize * if whole { size_of::<E>() as isize } else { self.step })
        };
        // SAFETY: as above.
        let items =
            (0..self.width).map(|item| unsafe { item_address(item).cast::<E>().read_unaligned() }.widen());
        self.buffer.extend(items);
        Some(&self.buffer)
    }

    fn advance(&mut self) {
        for ((axis, &count), index) in self.outer.iter().zip(&self.counts).zip(&mut self.index).rev() {
            *index += 1;
            self.next = self.next.wrapping_offset(axis.step);
            if *index < count {
                return;
            }
            self.next = self.next.wrapping_offset(-(count as isize) * axis.step);
            *index = 0;
        }
    }
}

#[cfg(test)]
mod tests;
