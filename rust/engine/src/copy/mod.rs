//! The strided copy of the engine: between chunks and the caller's buffers.
//!
//! A copy is a nest of axes. Each axis steps through source and destination together, either by two
//! byte strides or by a list of offset pairs. [`Plan::new`] converts the nest to a normal form, for
//! which few kernels suffice:
//!
//! 1. Axes of one step are dropped. An axis with a negative destination stride is reversed, so that
//!    destinations ascend.
//! 2. An axis that is contiguous in both buffers is absorbed into the *run*, the number of bytes
//!    that one step copies (at first one item).
//! 3. The other axes are ordered by destination stride, widest outermost, and neighbours that
//!    together form one longer axis are merged.
//! 4. The innermost one or two axes become the kernel's *rows* and *cells*. If the closest axis of
//!    the source is not that of the destination, the copy is a transposition of the two, processed
//!    in tiles (`copy/transpose.rs`).
//!
//! Every axis ascends (or descends if no two steps share a byte). Among steps that write the same
//! destination, the last one in the caller's C order therefore wins, whatever the order of the
//! axes.

mod kernel;
mod pieces;
mod scan;
mod transpose;

use kernel::{Inner, Kernel};
use smallvec::SmallVec;

pub use pieces::{in_pieces, Walk};
pub use scan::{are_valid_bools, is_filled, normalize_bools, swap_in_place};

/// One axis of a copy, in bytes.
#[derive(Clone, Copy, Debug)]
pub enum Axis<'a> {
    /// `count` steps; the strides may be negative, and `src` 0 broadcasts.
    Strided {
        /// The number of steps.
        count: usize,
        /// The distance between source items.
        src: isize,
        /// The distance between destination items.
        dst: isize,
    },
    /// One step per pair: (source offset, destination offset).
    List {
        /// The pairs, in the order of the copy.
        offsets: &'a [(isize, isize)],
    },
}

/// The item that one step copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// The size of an item.
    pub bytes: usize,
    /// The size of the groups whose bytes are reversed; 0 and 1 reverse nothing. complex128 has
    /// items of 16 and units of 8. Must divide `bytes`.
    pub swap: usize,
}

/// A regular axis after normalisation.
#[derive(Clone, Copy, Debug)]
struct Dim {
    count: usize,
    src: isize,
    dst: isize,
}

impl Dim {
    const ONE: Dim = Dim { count: 1, src: 0, dst: 0 };
}

/// The outer axes of a plan, on the stack while they are few.
type Levels<'a> = SmallVec<[Axis<'a>; 8]>;

fn strided(axis: &Axis<'_>) -> Option<Dim> {
    match *axis {
        Axis::Strided { count, src, dst } => Some(Dim { count, src, dst }),
        Axis::List { .. } => None,
    }
}

/// Insert an axis in descending order of weight, stable for equal weights.
fn insert<'a>(levels: &mut Levels<'a>, axis: Axis<'a>) {
    let key = weight(&axis);
    let position = levels.iter().rposition(|level| weight(level) >= key).map_or(0, |last| last + 1);
    levels.insert(position, axis);
}

/// Return the sort key of an axis: its destination stride, then its source stride. The first step
/// of a list counts.
fn weight(axis: &Axis<'_>) -> (usize, usize) {
    match *axis {
        Axis::Strided { src, dst, .. } => (dst.unsigned_abs(), src.unsigned_abs()),
        Axis::List { offsets } => match offsets {
            [first, second, ..] => {
                let (src, dst) = (first.0.abs_diff(second.0), first.1.abs_diff(second.1));
                if dst == 0 {
                    (src, src)
                } else {
                    (dst, src)
                }
            }
            _ => (0, 0),
        },
    }
}

/// Axes in the order of iteration: destinations ascend, the widest stride outermost.
#[derive(Clone, Debug)]
struct Nest<'a> {
    levels: Levels<'a>,
    src_shift: isize,
    dst_shift: isize,
    empty: bool,
}

impl<'a> Nest<'a> {
    /// `src_mask` is as for [`Plan::build`].
    fn new(axes: &[Axis<'a>], src_mask: isize) -> Self {
        let mut levels = Levels::new();
        let (mut src_shift, mut dst_shift) = (0isize, 0isize);
        let mut empty = false;
        for axis in axes {
            match *axis {
                Axis::Strided { count: 0, .. } | Axis::List { offsets: [] } => empty = true,
                Axis::Strided { count: 1, .. } => {}
                Axis::Strided { count, src, mut dst } => {
                    let mut src = src & src_mask;
                    if dst < 0 {
                        let last = (count - 1) as isize;
                        src_shift = src_shift.wrapping_add(src.wrapping_mul(last));
                        dst_shift = dst_shift.wrapping_add(dst.wrapping_mul(last));
                        (src, dst) = (src.wrapping_neg(), dst.wrapping_neg());
                    }
                    insert(&mut levels, Axis::Strided { count, src, dst });
                }
                Axis::List { offsets: [(src, dst)] } => {
                    src_shift = src_shift.wrapping_add(src & src_mask);
                    dst_shift = dst_shift.wrapping_add(*dst);
                }
                Axis::List { .. } => insert(&mut levels, *axis),
            }
        }
        Nest { levels, src_shift, dst_shift, empty }
    }
}

/// A copy in normal form: planned once, run on any number of buffers.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The axes outside `inner`.
    outer: Nest<'a>,
    inner: Inner<'a>,
    kernel: Kernel,
}

impl<'a> Plan<'a> {
    /// Plan the copy of one item per step of the nest `axes` (outermost first;
    /// no axes: one item).
    #[must_use]
    pub fn new(axes: &[Axis<'a>], item: Item) -> Self {
        let unit = if item.swap < 2 { 1 } else { item.swap };
        debug_assert_eq!(
            item.bytes % unit,
            0,
            "swap unit {unit} does not divide item of {} bytes",
            item.bytes
        );
        Self::build(axes, item.bytes, unit, -1)
    }

    /// Plan to write one value of `bytes` bytes at every step of `axes`. The source strides are
    /// ignored, so the axes of a copy also describe a fill. Run the plan with the value as source.
    #[must_use]
    pub fn fill(axes: &[Axis<'a>], bytes: usize) -> Self {
        Self::build(axes, bytes, 1, 0)
    }

    /// `src_mask` is -1, or 0 to ignore source strides and offsets.
    fn build(axes: &[Axis<'a>], bytes: usize, unit: usize, src_mask: isize) -> Self {
        let mut outer = Nest::new(axes, src_mask);
        outer.empty |= bytes == 0;
        if outer.empty {
            outer.levels.clear();
        }
        let run = absorb(&mut outer.levels, bytes);
        merge(&mut outer.levels);
        let (inner, kernel) = choose(&mut outer.levels, run, unit, src_mask);
        Plan { outer, inner, kernel }
    }

    /// Return the size in bytes if the whole copy is one `memcpy` between the two base pointers, so
    /// that a decoder may write to the destination directly.
    #[must_use]
    pub fn contiguous_bytes(&self) -> Option<usize> {
        let Nest { levels, src_shift, dst_shift, empty } = &self.outer;
        if *empty {
            return Some(0);
        }
        let single = levels.is_empty() && self.inner.is_single_run();
        (single && *src_shift == 0 && *dst_shift == 0).then_some(self.inner.run)
    }

    /// Copy from `src` to `dst`.
    ///
    /// # Safety
    /// At every step, at the offsets of `axes`, the bytes of the item are readable from `src` and
    /// writable from `dst`, and no written byte is also read. Alignment is not required.
    pub unsafe fn run(&self, src: *const u8, dst: *mut u8) {
        let Nest { levels, src_shift, dst_shift, empty } = &self.outer;
        if *empty {
            return;
        }
        // SAFETY: the caller's promise; the normal form visits the same addresses.
        unsafe { self.walk(levels, src.wrapping_offset(*src_shift), dst.wrapping_offset(*dst_shift)) }
    }

    /// # Safety
    /// As `run`, for the steps of `levels` from `src` and `dst`.
    unsafe fn walk(&self, levels: &[Axis<'_>], src: *const u8, dst: *mut u8) {
        let Some((level, rest)) = levels.split_first() else {
            // SAFETY: `choose` selected this kernel for this inner part.
            return unsafe { (self.kernel)(&self.inner, src, dst) };
        };
        match *level {
            Axis::Strided { count, src: src_step, dst: dst_step } => {
                let (mut src, mut dst) = (src, dst);
                for _ in 0..count {
                    // SAFETY: one step of this level.
                    unsafe { self.walk(rest, src, dst) };
                    src = src.wrapping_offset(src_step);
                    dst = dst.wrapping_offset(dst_step);
                }
            }
            Axis::List { offsets } => {
                for &(src_offset, dst_offset) in offsets {
                    let src_offset = src_offset & self.inner.src_mask;
                    // SAFETY: one step of this level.
                    unsafe {
                        self.walk(rest, src.wrapping_offset(src_offset), dst.wrapping_offset(dst_offset))
                    };
                }
            }
        }
    }
}

/// Absorb axes that continue the run in both buffers.
fn absorb(levels: &mut Levels<'_>, bytes: usize) -> usize {
    let mut run = bytes;
    let continues = |axis: &Axis<'_>, run: usize| match strided(axis) {
        Some(dim) => dim.src == run as isize && dim.dst == run as isize,
        None => false,
    };
    while let Some(position) = levels.iter().rposition(|axis| continues(axis, run)) {
        run *= strided(&levels.remove(position)).map_or(1, |dim| dim.count);
    }
    run
}

/// Merge neighbours that together are one regular axis.
fn merge(levels: &mut Levels<'_>) {
    for position in (1..levels.len()).rev() {
        let (Some(outer), Some(inner)) = (strided(&levels[position - 1]), strided(&levels[position])) else {
            continue;
        };
        let span = inner.count as isize;
        if outer.src == inner.src.wrapping_mul(span) && outer.dst == inner.dst.wrapping_mul(span) {
            let count = outer.count * inner.count;
            levels.remove(position);
            levels[position - 1] = Axis::Strided { count, src: inner.src, dst: inner.dst };
        }
    }
}

/// Remove the innermost axes from `levels` and select the kernel for them.
fn choose<'a>(levels: &mut Levels<'a>, run: usize, unit: usize, src_mask: isize) -> (Inner<'a>, Kernel) {
    let mut inner = Inner { rows: Dim::ONE, cells: Dim::ONE, list: &[], src_mask, run, unit };
    match levels.pop() {
        None => {}
        Some(Axis::List { offsets }) => {
            inner.list = offsets;
            return (inner, kernel::list(&inner));
        }
        Some(Axis::Strided { count, src, dst }) => {
            inner.cells = Dim { count, src, dst };
            if let Some((position, rows)) = closest_source(levels, inner.cells) {
                levels.remove(position);
                inner.rows = rows;
                return (inner, transpose::tiles(&inner));
            }
            if let Some(rows) = levels.last().and_then(strided) {
                levels.pop();
                inner.rows = rows;
            }
        }
    }
    (inner, kernel::grid(&inner))
}

/// Return the axis with a smaller source stride than `cells`, if any.
fn closest_source(levels: &Levels<'_>, cells: Dim) -> Option<(usize, Dim)> {
    let dims = levels.iter().enumerate().filter_map(|(position, axis)| Some((position, strided(axis)?)));
    dims.filter(|(_, dim)| dim.src != 0 && dim.src.unsigned_abs() < cells.src.unsigned_abs())
        .min_by_key(|(_, dim)| dim.src.unsigned_abs())
}

/// Copy one item per step of the nest `axes`, from `src` to `dst`.
///
/// # Safety
/// As for [`Plan::run`].
pub unsafe fn copy(src: *const u8, dst: *mut u8, axes: &[Axis<'_>], item: Item) {
    // SAFETY: the caller's promise.
    unsafe { Plan::new(axes, item).run(src, dst) }
}

/// Write `value` at every step of the nest `axes`; their source strides are ignored.
///
/// # Safety
/// At every step `value.len()` bytes are writable from `dst`, and none of them is in `value`.
pub unsafe fn fill(dst: *mut u8, axes: &[Axis<'_>], value: &[u8]) {
    // SAFETY: the caller's promise; the only bytes read are those of `value`.
    unsafe { Plan::fill(axes, value.len()).run(value.as_ptr(), dst) }
}

/// Return whether `work` returns true for the source and destination offsets of every step of the
/// nest `axes`; stops at the first false.
pub fn all_steps(axes: &[Axis<'_>], work: &mut dyn FnMut(isize, isize) -> bool) -> bool {
    let Some((axis, rest)) = axes.split_first() else { return work(0, 0) };
    let mut visit = |src: isize, dst: isize| match rest {
        [] => work(src, dst),
        _ => all_steps(rest, &mut |inner_src, inner_dst| work(src + inner_src, dst + inner_dst)),
    };
    match *axis {
        Axis::Strided { count, src, dst } => (0..count as isize).all(|step| visit(step * src, step * dst)),
        Axis::List { offsets } => offsets.iter().all(|&(src, dst)| visit(src, dst)),
    }
}

/// Call `work` for each *row* of the nest `axes`: the offsets of its first items in source and
/// destination, the number of items, and their strides in both. Each step of a list is a row.
pub fn each_row(axes: &[Axis<'_>], work: &mut dyn FnMut((isize, isize), usize, (isize, isize))) {
    let Nest { mut levels, src_shift, dst_shift, empty } = Nest::new(axes, -1);
    if empty {
        return;
    }
    merge(&mut levels);
    let row = match levels.last().and_then(strided) {
        Some(row) => {
            levels.pop();
            row
        }
        None => Dim::ONE,
    };
    all_steps(&levels, &mut |src, dst| {
        work((src + src_shift, dst + dst_shift), row.count, (row.src, row.dst));
        true
    });
}

#[cfg(test)]
mod tests;
