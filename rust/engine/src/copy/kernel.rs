//! The inner loops of a copy: moving one run, and iterating over one or two axes of runs.
//!
//! A *mover* moves one run; it is a type, so that the loops around it are compiled for each mover.
//! Kernels are function pointers, selected once per plan.

use super::Dim;
use crate::has_avx2;

/// The innermost part of a plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inner<'a> {
    /// The outer one of the two regular axes.
    pub(super) rows: Dim,
    /// The inner one.
    pub(super) cells: Dim,
    /// The offsets of list kernels, which have no rows and cells.
    pub(super) list: &'a [(isize, isize)],
    /// 0 to ignore source offsets, otherwise -1.
    pub(super) src_mask: isize,
    /// The number of bytes moved at each step.
    pub(super) run: usize,
    /// The size of groups whose bytes are reversed; 1 reverses nothing.
    pub(super) unit: usize,
}

impl Inner<'_> {
    /// Return whether the plan is one plain run.
    pub(super) fn is_single_run(&self) -> bool {
        self.rows.count == 1 && self.cells.count == 1 && self.list.is_empty() && self.unit == 1
    }
}

/// Process the innermost part of a plan from these two pointers.
///
/// Safety contract of every kernel: all runs that `Inner` describes are readable and writable, and
/// sources do not overlap destinations.
pub(super) type Kernel = unsafe fn(&Inner<'_>, *const u8, *mut u8);

/// Moves one run.
pub(super) trait Move: Copy {
    /// The length of the run if the type fixes it, otherwise 0.
    const BYTES: usize = 0;

    fn new(inner: &Inner<'_>) -> Self;

    /// # Safety
    /// The run is readable at `src` and writable at `dst`, and the two do not overlap.
    unsafe fn move_run(self, src: *const u8, dst: *mut u8);

    /// Move 16 bytes of whole runs; only if `BYTES` divides 16.
    ///
    /// # Safety
    /// As `move_run`, for 16 bytes.
    #[inline(always)]
    unsafe fn vector(self, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise; unaligned access.
        unsafe { dst.cast::<[u64; 2]>().write_unaligned(src.cast::<[u64; 2]>().read_unaligned()) }
    }
}

/// An unsigned integer with a byte swap.
pub(super) trait Unit: Copy {
    fn swapped(self) -> Self;
}

macro_rules! units {
    ($($t:ty)*) => {$(
        impl Unit for $t {
            #[inline(always)]
            fn swapped(self) -> Self {
                self.swap_bytes()
            }
        }
    )*};
}
units!(u8 u16 u32 u64);

/// A run of `N` units in registers.
#[derive(Clone, Copy)]
pub(super) struct Words<U, const N: usize, const SWAP: bool>(std::marker::PhantomData<U>);

impl<U: Unit, const N: usize, const SWAP: bool> Move for Words<U, N, SWAP> {
    const BYTES: usize = N * size_of::<U>();

    #[inline(always)]
    fn new(_: &Inner<'_>) -> Self {
        Words(std::marker::PhantomData)
    }

    #[inline(always)]
    unsafe fn move_run(self, src: *const u8, dst: *mut u8) {
        // SAFETY: the run is N units long; unaligned access.
        unsafe {
            let mut words = src.cast::<[U; N]>().read_unaligned();
            if SWAP {
                words = words.map(U::swapped);
            }
            dst.cast::<[U; N]>().write_unaligned(words);
        }
    }

    #[inline(always)]
    unsafe fn vector(self, src: *const u8, dst: *mut u8) {
        // SAFETY: 16 bytes each; unaligned access. Plain bytes may be any type.
        unsafe {
            let bytes = src.cast::<[u8; 16]>().read_unaligned();
            let bytes = match (SWAP, size_of::<U>()) {
                (true, 2) => swap_vector::<u16, 8>(bytes),
                (true, 4) => swap_vector::<u32, 4>(bytes),
                (true, 8) => swap_vector::<u64, 2>(bytes),
                _ => bytes,
            };
            dst.cast::<[u8; 16]>().write_unaligned(bytes);
        }
    }
}

#[inline(always)]
fn swap_vector<U: Unit, const N: usize>(bytes: [u8; 16]) -> [u8; 16] {
    const { assert!(N * size_of::<U>() == 16) };
    // SAFETY: equal sizes, and integers are plain bytes.
    unsafe {
        let words = std::mem::transmute_copy::<[u8; 16], [U; N]>(&bytes);
        std::mem::transmute_copy::<[U; N], [u8; 16]>(&words.map(U::swapped))
    }
}

/// A run of the size of `W` or more: consecutive words, of which the last two may overlap. The run
/// has two words unless `MORE`.
#[derive(Clone, Copy)]
struct OverlappingWords<W, const MORE: bool> {
    tail: usize,
    word: std::marker::PhantomData<W>,
}

impl<W: Copy, const MORE: bool> Move for OverlappingWords<W, MORE> {
    #[inline(always)]
    fn new(inner: &Inner<'_>) -> Self {
        OverlappingWords { tail: inner.run - size_of::<W>(), word: std::marker::PhantomData }
    }

    #[inline(always)]
    unsafe fn move_run(self, src: *const u8, dst: *mut u8) {
        let word = |offset: usize| {
            // SAFETY: all words lie inside the run; unaligned access.
            unsafe {
                dst.add(offset).cast::<W>().write_unaligned(src.add(offset).cast::<W>().read_unaligned())
            }
        };
        word(0);
        let mut offset = size_of::<W>();
        while MORE && offset < self.tail {
            word(offset);
            offset += size_of::<W>();
        }
        word(self.tail);
    }
}

/// A long run.
#[derive(Clone, Copy)]
struct Long {
    run: usize,
}

impl Move for Long {
    #[inline(always)]
    fn new(inner: &Inner<'_>) -> Self {
        Long { run: inner.run }
    }

    #[inline(always)]
    unsafe fn move_run(self, src: *const u8, dst: *mut u8) {
        // SAFETY: the contract.
        unsafe { std::ptr::copy_nonoverlapping(src, dst, self.run) }
    }
}

/// A run of many units, each reversed.
#[derive(Clone, Copy)]
struct LongSwap<U> {
    units: usize,
    unit: std::marker::PhantomData<U>,
}

impl<U: Unit> Move for LongSwap<U> {
    #[inline(always)]
    fn new(inner: &Inner<'_>) -> Self {
        LongSwap { units: inner.run / size_of::<U>(), unit: std::marker::PhantomData }
    }

    #[inline(always)]
    unsafe fn move_run(self, src: *const u8, dst: *mut u8) {
        for offset in 0..self.units {
            // SAFETY: within the run; unaligned access.
            unsafe {
                let word = src.cast::<U>().add(offset).read_unaligned();
                dst.cast::<U>().add(offset).write_unaligned(word.swapped());
            }
        }
    }
}

/// A run of units of an unusual size, each reversed.
#[derive(Clone, Copy)]
struct AnySwap {
    run: usize,
    unit: usize,
}

impl Move for AnySwap {
    #[inline(always)]
    fn new(inner: &Inner<'_>) -> Self {
        AnySwap { run: inner.run, unit: inner.unit }
    }

    #[inline(always)]
    unsafe fn move_run(self, src: *const u8, dst: *mut u8) {
        for start in (0..self.run).step_by(self.unit) {
            let end = self.run.min(start + self.unit);
            for offset in start..end {
                // SAFETY: within the run.
                unsafe { *dst.add(offset) = *src.add(start + end - 1 - offset) };
            }
        }
    }
}

/// One shape of inner loop, compiled for every mover.
pub(super) trait Shape {
    /// Whether AVX2 speeds up the loop for every mover.
    const VECTORS: bool = false;

    /// # Safety
    /// The contract of [`Kernel`]; `M` fits the run and the unit.
    unsafe fn run<M: Move>(inner: &Inner<'_>, src: *const u8, dst: *mut u8);
}

/// A shape of loops compiled with wider vectors.
///
/// # Safety
/// As `S::run`; the processor has AVX2.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
unsafe fn wide<S: Shape, M: Move>(inner: &Inner<'_>, src: *const u8, dst: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { S::run::<M>(inner, src, dst) }
}

/// Return the fastest loops of shape `S` around mover `M` on this processor. Wider vectors do not
/// help movers of one register unless the shape uses them.
fn fastest<S: Shape, M: Move>() -> Kernel {
    let gains = S::VECTORS || M::BYTES == 0 || M::BYTES > 8;
    if gains && has_avx2() {
        wide::<S, M>
    } else {
        S::run::<M>
    }
}

/// Return the loops of shape `S` around the mover for this run and unit.
pub(super) fn kernel_of<S: Shape>(run: usize, unit: usize) -> Kernel {
    match (unit, run) {
        (1, 1) => fastest::<S, Words<u8, 1, false>>(),
        (1, 2) => fastest::<S, Words<u16, 1, false>>(),
        (1, 4) => fastest::<S, Words<u32, 1, false>>(),
        (1, 8) => fastest::<S, Words<u64, 1, false>>(),
        (1, 16) => fastest::<S, Words<u64, 2, false>>(),
        (1, 3) => fastest::<S, OverlappingWords<u16, false>>(),
        (1, 5..8) => fastest::<S, OverlappingWords<u32, false>>(),
        (1, 9..16) => fastest::<S, OverlappingWords<u64, false>>(),
        (1, 17..=32) => fastest::<S, OverlappingWords<[u64; 2], false>>(),
        (1, 33..=64) => fastest::<S, OverlappingWords<[u64; 4], false>>(),
        (1, 65..=128) => fastest::<S, OverlappingWords<[u64; 8], false>>(),
        (1, 129..=LONG_BYTES) => fastest::<S, OverlappingWords<[u64; 8], true>>(),
        (1, _) => fastest::<S, Long>(),
        (2, 2) => fastest::<S, Words<u16, 1, true>>(),
        (2, 4) => fastest::<S, Words<u16, 2, true>>(),
        (2, 8) => fastest::<S, Words<u16, 4, true>>(),
        (2, 16) => fastest::<S, Words<u16, 8, true>>(),
        (2, _) => fastest::<S, LongSwap<u16>>(),
        (4, 4) => fastest::<S, Words<u32, 1, true>>(),
        (4, 8) => fastest::<S, Words<u32, 2, true>>(),
        (4, 16) => fastest::<S, Words<u32, 4, true>>(),
        (4, _) => fastest::<S, LongSwap<u32>>(),
        (8, 8) => fastest::<S, Words<u64, 1, true>>(),
        (8, 16) => fastest::<S, Words<u64, 2, true>>(),
        (8, _) => fastest::<S, LongSwap<u64>>(),
        _ => fastest::<S, AnySwap>(),
    }
}

/// Longer runs are copied by the system's memcpy.
const LONG_BYTES: usize = 2048;

/// The size of a cache line.
const LINE_BYTES: usize = 64;

/// Prefetch a cache line at any address.
#[inline(always)]
fn prefetch(offset: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: all processors have the instruction, and it never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch(offset.cast(), std::arch::x86_64::_MM_HINT_T0);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = offset;
}

/// Rows of cells, any strides.
///
/// With `PREFETCH`: cells that are scattered in the destination, each of a few cache lines.
/// Processors do not predict which lines follow, so the loop prefetches them some cells ahead.
/// Scattered reads need no prefetch: the processor waits for several reads at once.
struct Grid<const PREFETCH: bool>;

/// The number of cells to prefetch ahead.
const AHEAD: isize = 8;

impl<const PREFETCH: bool> Shape for Grid<PREFETCH> {
    #[inline(always)]
    unsafe fn run<M: Move>(inner: &Inner<'_>, src: *const u8, dst: *mut u8) {
        let mover = M::new(inner);
        let (rows, cells) = (inner.rows, inner.cells);
        let (mut src_row, mut dst_row) = (src, dst);
        for _ in 0..rows.count {
            let (mut src, mut dst) = (src_row, dst_row);
            for _ in 0..cells.count {
                if PREFETCH {
                    let ahead = dst.wrapping_offset(AHEAD * cells.dst);
                    for offset in (0..inner.run).step_by(LINE_BYTES) {
                        prefetch(ahead.wrapping_add(offset));
                    }
                }
                // SAFETY: a run of the plan.
                unsafe { mover.move_run(src, dst) };
                src = src.wrapping_offset(cells.src);
                dst = dst.wrapping_offset(cells.dst);
            }
            src_row = src_row.wrapping_offset(rows.src);
            dst_row = dst_row.wrapping_offset(rows.dst);
        }
    }
}

/// Rows of cells that are adjacent in the destination and `STEP` runs from each other in the
/// source, so that the compiler can use vectors.
struct Adjacent<const STEP: isize>;

impl<const STEP: isize> Shape for Adjacent<STEP> {
    const VECTORS: bool = true;

    #[inline(always)]
    unsafe fn run<M: Move>(inner: &Inner<'_>, src: *const u8, dst: *mut u8) {
        let mover = M::new(inner);
        let (mut src_row, mut dst_row) = (src, dst);
        for _ in 0..inner.rows.count {
            for cell in 0..inner.cells.count as isize {
                // SAFETY: a run of the plan.
                unsafe {
                    let size = M::BYTES as isize;
                    mover.move_run(src_row.offset(cell * STEP * size), dst_row.offset(cell * size));
                }
            }
            src_row = src_row.wrapping_offset(inner.rows.src);
            dst_row = dst_row.wrapping_offset(inner.rows.dst);
        }
    }
}

/// Rows whose adjacent cells all have the same run.
struct Repeat;

/// The maximum size of a copy of the filled part, so that it stays in the first-level cache.
const REPEAT_BYTES: usize = 4096;

impl Shape for Repeat {
    #[inline(always)]
    unsafe fn run<M: Move>(inner: &Inner<'_>, src: *const u8, dst: *mut u8) {
        let mover = M::new(inner);
        let total = inner.cells.count * inner.run;
        let (mut src_row, mut dst_row) = (src, dst);
        for _ in 0..inner.rows.count {
            // SAFETY: the bytes of the row are writable; bytes read from the destination were
            // written before.
            unsafe {
                mover.move_run(src_row, dst_row);
                extend(dst_row, inner.run, total);
            }
            src_row = src_row.wrapping_offset(inner.rows.src);
            dst_row = dst_row.wrapping_offset(inner.rows.dst);
        }
    }
}

/// Repeat the first `run` bytes at `dst` up to `total` bytes.
///
/// # Safety
/// `total` bytes are writable at `dst`, and the first `run` are written.
unsafe fn extend(dst: *mut u8, run: usize, total: usize) {
    // SAFETY: the first run is initialised.
    let first = unsafe { std::slice::from_raw_parts(dst, run) };
    let byte = first[0];
    if first.iter().all(|&other| other == byte) {
        // SAFETY: the contract.
        return unsafe { dst.add(run).write_bytes(byte, total - run) };
    }
    let mut filled = run;
    while filled < total {
        // A multiple of the run, so that the pattern continues.
        let piece = if filled > REPEAT_BYTES { REPEAT_BYTES.max(run) / run * run } else { filled };
        let piece = piece.min(total - filled);
        // SAFETY: the piece is written before `filled` and is before it.
        unsafe { std::ptr::copy_nonoverlapping(dst, dst.add(filled), piece) };
        filled += piece;
    }
}

/// Runs at listed offsets.
struct List;

impl Shape for List {
    #[inline(always)]
    unsafe fn run<M: Move>(inner: &Inner<'_>, src: *const u8, dst: *mut u8) {
        let mover = M::new(inner);
        for &(src_offset, dst_offset) in inner.list {
            // SAFETY: a run of the plan.
            unsafe {
                mover.move_run(
                    src.wrapping_offset(src_offset & inner.src_mask),
                    dst.wrapping_offset(dst_offset),
                );
            }
        }
    }
}

/// Return the kernel for rows of cells.
pub(super) fn grid(inner: &Inner<'_>) -> Kernel {
    let Inner { cells, run, unit, .. } = *inner;
    let size = run as isize;
    if cells.count > 1 && cells.src == 0 && cells.dst == size {
        return kernel_of::<Repeat>(run, unit);
    }
    let word = matches!(run, 1 | 2 | 4 | 8) && matches!(unit, 1 | 2 | 4 | 8);
    if word && cells.dst == size && cells.count >= 16 {
        match cells.src / size {
            _ if cells.src % size != 0 => {}
            -1 => return kernel_of::<Adjacent<-1>>(run, unit),
            2 => return kernel_of::<Adjacent<2>>(run, unit),
            3 => return kernel_of::<Adjacent<3>>(run, unit),
            4 => return kernel_of::<Adjacent<4>>(run, unit),
            _ => {}
        }
    }
    let few_lines = unit == 1 && (LINE_BYTES..=LONG_BYTES).contains(&run);
    if few_lines && cells.dst > size && cells.count > AHEAD as usize {
        return kernel_of::<Grid<true>>(run, unit);
    }
    kernel_of::<Grid<false>>(run, unit)
}

/// Return the kernel for a list.
pub(super) fn list(inner: &Inner<'_>) -> Kernel {
    kernel_of::<List>(inner.run, inner.unit)
}
