//! The inner loops: how one run is moved, and one or two axes of runs.
//!
//! A *mover* knows how to move one run; it is a type, so that the loops around
//! it are compiled for each. Kernels are function pointers, chosen once per plan.

use super::Dim;

/// The innermost part of a plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inner<'a> {
    /// The outer one of the two regular axes.
    pub(super) rows: Dim,
    /// The inner one.
    pub(super) cells: Dim,
    /// Instead of rows and cells, for list kernels.
    pub(super) list: &'a [(isize, isize)],
    /// 0 where source offsets are ignored, else -1.
    pub(super) src_mask: isize,
    /// Bytes moved at each step.
    pub(super) run: usize,
    /// Bytes of each group are reversed; 1: none are.
    pub(super) unit: usize,
}

impl Inner<'_> {
    /// One plain run is all there is.
    pub(super) fn is_single_run(&self) -> bool {
        self.rows.count == 1 && self.cells.count == 1 && self.list.is_empty() && self.unit == 1
    }
}

/// Does the innermost part of a plan from these two places.
///
/// Safety contract of every kernel: all runs that `Inner` describes from the two
/// places are readable and writable, sources and destinations apart.
pub(super) type Kernel = unsafe fn(&Inner<'_>, *const u8, *mut u8);

/// Moves one run.
pub(super) trait Move: Copy {
    /// The run's length where the type fixes it, else 0.
    const BYTES: usize = 0;

    fn new(inner: &Inner<'_>) -> Self;

    /// # Safety
    /// The run is readable at `src`, writable at `dst`, and the two are apart.
    unsafe fn one(self, src: *const u8, dst: *mut u8);

    /// Moves 16 bytes of whole runs; only where `BYTES` divides 16.
    ///
    /// # Safety
    /// As `one`, for 16 bytes.
    #[inline(always)]
    unsafe fn vector(self, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise; unaligned access.
        unsafe { dst.cast::<[u64; 2]>().write_unaligned(src.cast::<[u64; 2]>().read_unaligned()) }
    }
}

/// An unsigned integer whose bytes can be reversed.
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

/// A run of `N` units, held in registers.
#[derive(Clone, Copy)]
pub(super) struct Words<U, const N: usize, const SWAP: bool>(std::marker::PhantomData<U>);

impl<U: Unit, const N: usize, const SWAP: bool> Move for Words<U, N, SWAP> {
    const BYTES: usize = N * size_of::<U>();

    #[inline(always)]
    fn new(_: &Inner<'_>) -> Self {
        Words(std::marker::PhantomData)
    }

    #[inline(always)]
    unsafe fn one(self, src: *const u8, dst: *mut u8) {
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

/// A run of any size from that of `W` on: words one after the other, of which the last two may overlap. They
/// are two unless there are `MORE`.
#[derive(Clone, Copy)]
struct Several<W, const MORE: bool> {
    tail: usize,
    word: std::marker::PhantomData<W>,
}

impl<W: Copy, const MORE: bool> Move for Several<W, MORE> {
    #[inline(always)]
    fn new(inner: &Inner<'_>) -> Self {
        Several { tail: inner.run - size_of::<W>(), word: std::marker::PhantomData }
    }

    #[inline(always)]
    unsafe fn one(self, src: *const u8, dst: *mut u8) {
        let word = |at: usize| {
            // SAFETY: all words lie inside the run; unaligned access.
            unsafe { dst.add(at).cast::<W>().write_unaligned(src.add(at).cast::<W>().read_unaligned()) }
        };
        word(0);
        let mut at = size_of::<W>();
        while MORE && at < self.tail {
            word(at);
            at += size_of::<W>();
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
    unsafe fn one(self, src: *const u8, dst: *mut u8) {
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
    unsafe fn one(self, src: *const u8, dst: *mut u8) {
        for at in 0..self.units {
            // SAFETY: within the run; unaligned access.
            unsafe {
                let word = src.cast::<U>().add(at).read_unaligned();
                dst.cast::<U>().add(at).write_unaligned(word.swapped());
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
    unsafe fn one(self, src: *const u8, dst: *mut u8) {
        for start in (0..self.run).step_by(self.unit) {
            let end = self.run.min(start + self.unit);
            for at in start..end {
                // SAFETY: within the run.
                unsafe { *dst.add(at) = *src.add(start + end - 1 - at) };
            }
        }
    }
}

/// One shape of inner loop, compiled for every mover.
pub(super) trait Shape {
    /// Gains from AVX2 whatever is moved.
    const VECTORS: bool = false;

    /// # Safety
    /// The contract of [`Kernel`]; `M` fits the run and the unit.
    unsafe fn run<M: Move>(inner: &Inner<'_>, src: *const u8, dst: *mut u8);
}

/// A shape of loops compiled with wider vectors.
///
/// # Safety
/// As `S::run`; the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn wide<S: Shape, M: Move>(inner: &Inner<'_>, src: *const u8, dst: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { S::run::<M>(inner, src, dst) }
}

/// The loops of shape `S` around mover `M`, as this processor runs them best.
/// Movers of one register gain nothing unless the shape does.
fn best<S: Shape, M: Move>() -> Kernel {
    #[cfg(target_arch = "x86_64")]
    {
        let gains = S::VECTORS || M::BYTES == 0 || M::BYTES > 8;
        if gains && std::arch::is_x86_feature_detected!("avx2") {
            return wide::<S, M>;
        }
    }
    S::run::<M>
}

/// The loops of shape `S` around the mover for this run and unit.
pub(super) fn shaped<S: Shape>(run: usize, unit: usize) -> Kernel {
    match (unit, run) {
        (1, 1) => best::<S, Words<u8, 1, false>>(),
        (1, 2) => best::<S, Words<u16, 1, false>>(),
        (1, 4) => best::<S, Words<u32, 1, false>>(),
        (1, 8) => best::<S, Words<u64, 1, false>>(),
        (1, 16) => best::<S, Words<u64, 2, false>>(),
        (1, 3) => best::<S, Several<u16, false>>(),
        (1, 5..8) => best::<S, Several<u32, false>>(),
        (1, 9..16) => best::<S, Several<u64, false>>(),
        (1, 17..=32) => best::<S, Several<[u64; 2], false>>(),
        (1, 33..=64) => best::<S, Several<[u64; 4], false>>(),
        (1, 65..=128) => best::<S, Several<[u64; 8], false>>(),
        (1, 129..=LONG_BYTES) => best::<S, Several<[u64; 8], true>>(),
        (1, _) => best::<S, Long>(),
        (2, 2) => best::<S, Words<u16, 1, true>>(),
        (2, 4) => best::<S, Words<u16, 2, true>>(),
        (2, 8) => best::<S, Words<u16, 4, true>>(),
        (2, 16) => best::<S, Words<u16, 8, true>>(),
        (2, _) => best::<S, LongSwap<u16>>(),
        (4, 4) => best::<S, Words<u32, 1, true>>(),
        (4, 8) => best::<S, Words<u32, 2, true>>(),
        (4, 16) => best::<S, Words<u32, 4, true>>(),
        (4, _) => best::<S, LongSwap<u32>>(),
        (8, 8) => best::<S, Words<u64, 1, true>>(),
        (8, 16) => best::<S, Words<u64, 2, true>>(),
        (8, _) => best::<S, LongSwap<u64>>(),
        _ => best::<S, AnySwap>(),
    }
}

/// Runs of more bytes are copied by what the system has for that.
const LONG_BYTES: usize = 2048;

/// Cells are apart in the destination, each of them a few cache lines, so that processors do not foresee
/// which lines are next: they are asked for so many cells before. What is read far apart is not: that the
/// processor waits for several reads at once is enough.
struct Scattered;

/// How many cells before.
const AHEAD: isize = 8;

impl Shape for Scattered {
    #[inline(always)]
    unsafe fn run<M: Move>(inner: &Inner<'_>, src: *const u8, dst: *mut u8) {
        let mover = M::new(inner);
        let (rows, cells) = (inner.rows, inner.cells);
        let (mut src_row, mut dst_row) = (src, dst);
        for _ in 0..rows.count {
            let (mut src, mut dst) = (src_row, dst_row);
            for _ in 0..cells.count {
                let ahead = dst.wrapping_offset(AHEAD * cells.dst);
                for at in (0..inner.run).step_by(LINE_BYTES) {
                    prefetch(ahead.wrapping_add(at));
                }
                // SAFETY: one of the runs described.
                unsafe { mover.one(src, dst) };
                src = src.wrapping_offset(cells.src);
                dst = dst.wrapping_offset(cells.dst);
            }
            src_row = src_row.wrapping_offset(rows.src);
            dst_row = dst_row.wrapping_offset(rows.dst);
        }
    }
}

/// The bytes of a cache line.
const LINE_BYTES: usize = 64;

/// Ask for a cache line, which may be anywhere.
#[inline(always)]
fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: all processors have it, and it fails nowhere.
    unsafe {
        std::arch::x86_64::_mm_prefetch(at.cast(), std::arch::x86_64::_MM_HINT_T0);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Rows of cells, any strides.
struct Grid;

impl Shape for Grid {
    #[inline(always)]
    unsafe fn run<M: Move>(inner: &Inner<'_>, src: *const u8, dst: *mut u8) {
        let mover = M::new(inner);
        let (rows, cells) = (inner.rows, inner.cells);
        let (mut src_row, mut dst_row) = (src, dst);
        for _ in 0..rows.count {
            let (mut src, mut dst) = (src_row, dst_row);
            for _ in 0..cells.count {
                // SAFETY: one of the runs described.
                unsafe { mover.one(src, dst) };
                src = src.wrapping_offset(cells.src);
                dst = dst.wrapping_offset(cells.dst);
            }
            src_row = src_row.wrapping_offset(rows.src);
            dst_row = dst_row.wrapping_offset(rows.dst);
        }
    }
}

/// Rows of cells that lie side by side in the destination and `STEP` runs apart
/// in the source, so that the compiler can use vectors.
struct Every<const STEP: isize>;

impl<const STEP: isize> Shape for Every<STEP> {
    const VECTORS: bool = true;

    #[inline(always)]
    unsafe fn run<M: Move>(inner: &Inner<'_>, src: *const u8, dst: *mut u8) {
        let mover = M::new(inner);
        let (mut src_row, mut dst_row) = (src, dst);
        for _ in 0..inner.rows.count {
            for cell in 0..inner.cells.count as isize {
                // SAFETY: one of the runs described.
                unsafe {
                    let size = M::BYTES as isize;
                    mover.one(src_row.offset(cell * STEP * size), dst_row.offset(cell * size));
                }
            }
            src_row = src_row.wrapping_offset(inner.rows.src);
            dst_row = dst_row.wrapping_offset(inner.rows.dst);
        }
    }
}

/// Rows whose cells all get the same run, side by side.
struct Repeat;

/// A filled stretch is copied on in pieces of at most this many bytes, which
/// stay in the first-level cache.
const REPEAT_BYTES: usize = 4096;

impl Shape for Repeat {
    #[inline(always)]
    unsafe fn run<M: Move>(inner: &Inner<'_>, src: *const u8, dst: *mut u8) {
        let mover = M::new(inner);
        let total = inner.cells.count * inner.run;
        let (mut src_row, mut dst_row) = (src, dst);
        for _ in 0..inner.rows.count {
            // SAFETY: the row's bytes are writable; what is read from the
            // destination was written before.
            unsafe {
                mover.one(src_row, dst_row);
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
    let mut done = run;
    while done < total {
        // A multiple of the run, so that the pattern goes on in step.
        let piece = if done > REPEAT_BYTES { REPEAT_BYTES.max(run) / run * run } else { done };
        let piece = piece.min(total - done);
        // SAFETY: the piece is written before `done` and lies before it.
        unsafe { std::ptr::copy_nonoverlapping(dst, dst.add(done), piece) };
        done += piece;
    }
}

/// Runs at listed places.
struct List;

impl Shape for List {
    #[inline(always)]
    unsafe fn run<M: Move>(inner: &Inner<'_>, src: *const u8, dst: *mut u8) {
        let mover = M::new(inner);
        for &(src_at, dst_at) in inner.list {
            // SAFETY: one of the runs described.
            unsafe {
                mover.one(src.wrapping_offset(src_at & inner.src_mask), dst.wrapping_offset(dst_at));
            }
        }
    }
}

/// The kernel for rows of cells.
pub(super) fn grid(inner: &Inner<'_>) -> Kernel {
    let Inner { cells, run, unit, .. } = *inner;
    let size = run as isize;
    if cells.count > 1 && cells.src == 0 && cells.dst == size {
        return shaped::<Repeat>(run, unit);
    }
    let word = matches!(run, 1 | 2 | 4 | 8) && matches!(unit, 1 | 2 | 4 | 8);
    if word && cells.dst == size && cells.count >= 16 {
        match cells.src / size {
            _ if cells.src % size != 0 => {}
            -1 => return shaped::<Every<-1>>(run, unit),
            2 => return shaped::<Every<2>>(run, unit),
            3 => return shaped::<Every<3>>(run, unit),
            4 => return shaped::<Every<4>>(run, unit),
            _ => {}
        }
    }
    let few_lines = unit == 1 && (LINE_BYTES..=LONG_BYTES).contains(&run);
    if few_lines && cells.dst > size && cells.count > AHEAD as usize {
        return shaped::<Scattered>(run, unit);
    }
    shaped::<Grid>(run, unit)
}

/// The kernel for a list.
pub(super) fn list(inner: &Inner<'_>) -> Kernel {
    shaped::<List>(inner.run, inner.unit)
}
