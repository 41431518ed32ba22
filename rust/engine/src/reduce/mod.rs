//! Blocks of an array, each reduced to one element: mean, median, mode, least and greatest.
//!
//! One axis is that of *rows*: the last one, or one before where all later ones have blocks of one
//! item. Work is cut into *pieces*: some blocks beside each other in a row, of one place along the
//! other axes. A kernel takes the rows of a piece one after the other and gives one
//! element for each block.

mod element;
mod kernel;
mod network;

use std::ops::Range;

use crate::convert::half::{BFloat16, Float16};
use crate::error::{Error, Kind, Result};
use crate::pool;
use element::{Bit, Complex, Element, Integer, Real, Total};
use kernel::{FloatMean, Greatest, IntegerMean, Kernel, Least, Majority, Median, Mode, Sums};

/// Items of a piece: what a kernel keeps of them stays near the processor.
const PIECE: usize = 8 << 10;

/// Items of a task: it takes longer than waking a thread.
const TASK: usize = 128 << 10;

/// What is made of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The mean; that of integers is rounded to the nearest, halves to the even one.
    Mean,
    /// The least element, NaN only where there is nothing else.
    Min,
    /// The greatest element, NaN only where there is nothing else.
    Max,
    /// The middle element, the lower one of two; NaN is greater than all others.
    Median,
    /// The most frequent element, the least one of several.
    Mode,
}

impl Method {
    /// The method that is so called.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
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

/// How one axis is cut: a short block, whole ones, and a short one again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The length of the block at the beginning; 0 where there is none.
    pub first: usize,
    /// The length of whole blocks.
    pub whole: usize,
    /// How many of them there are.
    pub wholes: usize,
    /// The length of the block at the end; 0 where there is none.
    pub last: usize,
}

impl Cut {
    const ONE: Cut = Cut { first: 0, whole: 1, wholes: 1, last: 0 };

    fn lead(&self) -> usize {
        usize::from(self.first > 0)
    }

    /// How many blocks there are.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.lead() + self.wholes + usize::from(self.last > 0)
    }

    /// How many items there are; None if there is no such number.
    #[must_use]
    pub fn items(&self) -> Option<usize> {
        self.whole.checked_mul(self.wholes)?.checked_add(self.first)?.checked_add(self.last)
    }

    fn longest(&self) -> usize {
        let whole = if self.wholes > 0 { self.whole } else { 0 };
        whole.max(self.first).max(self.last)
    }

    /// Where a block begins, how long it is, and how many from it on are as long.
    fn block(&self, number: usize) -> (usize, usize, usize) {
        if number < self.lead() {
            return (0, self.first, 1);
        }
        let number = number - self.lead();
        let begin = self.first + number * self.whole;
        match self.wholes.saturating_sub(number) {
            0 => (begin, self.last, 1),
            left => (begin, self.whole, left),
        }
    }
}

/// Where the items of an array are: the first one, and how far it is to the next along each axis.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The first item.
    pub address: *mut u8,
    /// In bytes.
    pub strides: &'a [isize],
}

/// One axis of source and target.
#[derive(Clone, Copy)]
struct Axis {
    cut: Cut,
    /// Bytes from one item of the source to the next.
    step: isize,
    /// Bytes from one item of the target to the next.
    stride: isize,
}

/// All that tasks share.
struct Job {
    source: *const u8,
    target: *mut u8,
    /// The axis of rows.
    row: Axis,
    outer: Vec<Axis>,
    /// Blocks of a piece.
    blocks: usize,
    /// Pieces of a row.
    pieces: usize,
}

// SAFETY: tasks read the source and write parts of the target that are apart.
unsafe impl Sync for Job {}

/// Does some pieces of a job.
///
/// Safety contract: that of [`reduce`].
type Work = unsafe fn(&Job, Range<usize>);

/// Reduce each block of `source` to one element of `target`.
///
/// `kind` is the type of both: `bool`, `bfloat16`, or as NumPy writes it without the byte order (`i4`, `f2`, `c8`).
///
/// # Errors
/// If there is no such method for such elements.
///
/// # Safety
/// All items that `dim_grids` tell of are readable at `source`, all blocks writable at `target`, and the two are
/// apart.
pub unsafe fn reduce(
    kind: &str,
    method: Method,
    dim_grids: &[Cut],
    source: Place<'_>,
    target: Place<'_>,
) -> Result<()> {
    let each: usize = dim_grids.iter().map(Cut::longest).product();
    let total: usize = dim_grids.iter().map(Cut::blocks).product();
    let Some(work) = chosen(kind, method, each) else {
        return Err(Error::new(Kind::Argument, format!("there is no {method:?} of elements of {kind}")));
    };
    if total == 0 || each == 0 {
        return Ok(());
    }
    let axes = dim_grids.iter().zip(source.strides).zip(target.strides);
    let mut outer: Vec<Axis> = axes.map(|((&cut, &step), &stride)| Axis { cut, step, stride }).collect();
    let row = match along(dim_grids) {
        Some(axis) => outer.remove(axis),
        None => Axis { cut: Cut::ONE, step: 0, stride: 0 },
    };
    let blocks = (PIECE / each).clamp(1, row.cut.blocks());
    let pieces = row.cut.blocks().div_ceil(blocks);
    let all = total / row.cut.blocks() * pieces;
    let job = Job { source: source.address, target: target.address, row, outer, blocks, pieces };
    let some = (TASK / (each * blocks)).max(1);
    pool::parallel_for(all.div_ceil(some), pool::threads(), None, &|task| {
        // SAFETY: the caller's promise; pieces are apart.
        unsafe { work(&job, task * some..all.min((task + 1) * some)) };
        Ok(())
    })
}

/// The axis of rows: the one with most blocks, of the last and those before it that have only axes
/// of single items behind them. None: there are no axes.
fn along(dim_grids: &[Cut]) -> Option<usize> {
    let mut found = dim_grids.len().checked_sub(1)?;
    for axis in (0..found).rev() {
        if dim_grids[axis + 1].longest() > 1 {
            break;
        }
        if dim_grids[axis].blocks() > dim_grids[found].blocks() {
            found = axis;
        }
    }
    Some(found)
}

/// How many bytes an element of a kind has; None if there is no such kind.
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

/// What does such work; None if nothing does.
fn chosen(kind: &str, method: Method, each: usize) -> Option<Work> {
    Some(match kind {
        "bool" => bits(method, each),
        "i1" => integers::<i8>(method, each),
        "u1" => integers::<u8>(method, each),
        "i2" => integers::<i16>(method, each),
        "u2" => integers::<u16>(method, each),
        "i4" => integers::<i32>(method, each),
        "u4" => integers::<u32>(method, each),
        "i8" => integers::<i64>(method, each),
        "u8" => integers::<u64>(method, each),
        "f2" => reals::<Float16>(method),
        "bfloat16" => reals::<BFloat16>(method),
        "f4" => reals::<f32>(method),
        "f8" => reals::<f64>(method),
        "c8" => complex::<Complex<f32>>(method)?,
        "c16" => complex::<Complex<f64>>(method)?,
        _ => return None,
    })
}

fn bits(method: Method, each: usize) -> Work {
    let small = each < 1 << 31;
    match method {
        Method::Min => best::<Bit, Least<_>>(),
        Method::Max => best::<Bit, Greatest<_>>(),
        Method::Mean if small => best::<Bit, Sums<i32, IntegerMean>>(),
        Method::Mean => best::<Bit, Sums<i128, IntegerMean>>(),
        _ if small => best::<Bit, Sums<i32, Majority>>(),
        _ => best::<Bit, Sums<i128, Majority>>(),
    }
}

fn integers<E: Element<Wide: Integer>>(method: Method, each: usize) -> Work
where
    i128: Total<E::Wide>,
{
    match method {
        Method::Mean if each <= <E::Wide as Integer>::MOST => {
            best::<E, Sums<<E::Wide as Integer>::Sum, IntegerMean>>()
        }
        Method::Mean => best::<E, Sums<i128, IntegerMean>>(),
        other => ordered::<E>(other),
    }
}

fn reals<E: Element<Wide: Real>>(method: Method) -> Work {
    match method {
        Method::Mean => best::<E, FloatMean>(),
        other => ordered::<E>(other),
    }
}

fn complex<E: Element<Wide: Real>>(method: Method) -> Option<Work> {
    match method {
        Method::Mean => Some(best::<E, FloatMean>()),
        Method::Mode => Some(best::<E, Mode<_>>()),
        _ => None,
    }
}

/// All but means.
fn ordered<E: Element>(method: Method) -> Work {
    match method {
        Method::Min => best::<E, Least<_>>(),
        Method::Max => best::<E, Greatest<_>>(),
        Method::Median => best::<E, Median<_>>(),
        _ => best::<E, Mode<_>>(),
    }
}

/// The work of kernel `K`, as this processor does it best: many small numbers gain by wider vectors.
fn best<E: Element, K: Kernel<E>>() -> Work {
    #[cfg(target_arch = "x86_64")]
    if size_of::<E::Wide>() <= 4 && std::arch::is_x86_feature_detected!("avx2") {
        return wide::<E, K>;
    }
    plain::<E, K>
}

/// Work compiled with wider vectors.
///
/// # Safety
/// The contract of [`Work`]; the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn wide<E: Element, K: Kernel<E>>(job: &Job, pieces: Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe { do_pieces::<E, K>(job, pieces) }
}

/// # Safety
/// The contract of [`Work`].
unsafe fn plain<E: Element, K: Kernel<E>>(job: &Job, pieces: Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe { do_pieces::<E, K>(job, pieces) }
}

/// # Safety
/// The contract of [`Work`].
#[inline(always)]
unsafe fn do_pieces<E: Element, K: Kernel<E>>(job: &Job, pieces: Range<usize>) {
    let mut kernel = K::default();
    let mut results: Vec<E::Wide> = Vec::new();
    let mut rows = Rows::<E> { counts: vec![0; job.outer.len()], ..Rows::new(&job.outer, job.row.step) };
    for piece in pieces {
        let (mut place, mut block) = (piece / job.pieces, piece % job.pieces * job.blocks);
        let (mut source, mut target) = (job.source, job.target);
        for (axis, count) in job.outer.iter().zip(&mut rows.counts).rev() {
            let number = place % axis.cut.blocks();
            place /= axis.cut.blocks();
            let (begin, length, _) = axis.cut.block(number);
            *count = length;
            source = source.wrapping_offset(begin as isize * axis.step);
            target = target.wrapping_offset(number as isize * axis.stride);
        }
        let end = job.row.cut.blocks().min(block + job.blocks);
        while block < end {
            let (begin, length, alike) = job.row.cut.block(block);
            let alike = alike.min(end - block);
            rows.begin(source.wrapping_offset(begin as isize * job.row.step), length * alike);
            results.resize(alike, E::Wide::default());
            kernel.reduce(&mut rows, length, &mut results);
            let mut at = target.wrapping_offset(block as isize * job.row.stride);
            for &result in &results {
                // SAFETY: the caller's promise.
                unsafe { at.cast::<E>().write_unaligned(E::narrow(result)) };
                at = at.wrapping_offset(job.row.stride);
            }
            block += alike;
        }
    }
}

/// The rows of a piece, one after the other.
struct Rows<'a, E: Element> {
    outer: &'a [Axis],
    /// Bytes from one item of a row to the next.
    step: isize,
    /// How many rows there are along each of the other axes.
    counts: Vec<usize>,
    /// Where along these the next row is.
    index: Vec<usize>,
    next: *const u8,
    left: usize,
    width: usize,
    buffer: Vec<E::Wide>,
}

impl<'a, E: Element> Rows<'a, E> {
    fn new(outer: &'a [Axis], step: isize) -> Self {
        let counts = vec![0; outer.len()];
        let index = vec![0; outer.len()];
        Rows { outer, step, counts, index, next: std::ptr::null(), left: 0, width: 0, buffer: Vec::new() }
    }

    /// Begin with the first row of `width` items.
    fn begin(&mut self, first: *const u8, width: usize) {
        self.index.fill(0);
        self.next = first;
        self.left = self.counts.iter().product();
        self.width = width;
    }

    /// How many rows are left.
    fn left(&self) -> usize {
        self.left
    }

    /// The next row.
    #[inline(always)]
    fn next(&mut self) -> Option<&[E::Wide]> {
        if self.left == 0 {
            return None;
        }
        let at = self.next;
        self.left -= 1;
        self.advance();
        let whole = self.step == size_of::<E>() as isize;
        if E::SAME && whole && at.cast::<E::Wide>().is_aligned() {
            // SAFETY: `reduce`'s caller promised that the items are there; they are of this type.
            return Some(unsafe { std::slice::from_raw_parts(at.cast(), self.width) });
        }
        self.buffer.clear();
        let place = |item: usize| {
            at.wrapping_offset(item as isize * if whole { size_of::<E>() as isize } else { self.step })
        };
        // SAFETY: as above.
        let items = (0..self.width).map(|item| unsafe { place(item).cast::<E>().read_unaligned() }.widen());
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
