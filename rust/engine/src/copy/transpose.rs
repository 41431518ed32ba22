//! Transposition: the source's closest axis (rows) is not the destination's (cells).
//!
//! Both buffers are made of cache lines of 64 bytes, and a line holds runs of one
//! cell and many rows on one side, of one row and many cells on the other. So work
//! goes on in square blocks of a line's width: every line is used up while it is
//! near. Strides that are large powers of two put all lines of a block into the same
//! few cache sets, where they would evict each other; hence a source line is read in
//! one go and a destination line is written in one go, and in between the block
//! stands in a buffer of its own.

use std::mem::MaybeUninit;

use super::kernel::{shaped, Inner, Kernel, Move, Shape};
use super::Dim;

/// The bytes of a cache line, and of one side of a block.
const LINE: usize = 64;

/// The bytes of a vector, and of one side of a tile: what registers transpose.
const VECTOR: usize = 16;

/// Blocks per side of an area. Every line of a block lies in a page of its own where
/// strides are large; an area's pages stay in the translation buffer, and each is
/// used for this many lines.
const AREA: usize = 4;

/// Transposition by blocks, of tiles where the layout allows it.
struct Blocks;

impl Shape for Blocks {
    const VECTORS: bool = true;

    #[inline(always)]
    unsafe fn run<M: Move>(inner: &Inner<'_>, src: *const u8, dst: *mut u8) {
        // SAFETY: the contract; each call has the tile that fits its size.
        unsafe {
            match M::BYTES {
                1 if fits_tiles(inner) => tiled::<M, 1, 16>(inner, src, dst),
                2 if fits_tiles(inner) => tiled::<M, 2, 8>(inner, src, dst),
                4 if fits_tiles(inner) => tiled::<M, 4, 4>(inner, src, dst),
                8 if fits_tiles(inner) => tiled::<M, 8, 2>(inner, src, dst),
                16 if fits_tiles(inner) => tiled::<M, 16, 1>(inner, src, dst),
                _ => single::<M>(inner, src, dst),
            }
        }
    }
}

/// Whether rows lie side by side in the source and cells in the destination, enough of both.
fn fits_tiles(inner: &Inner<'_>) -> bool {
    let Inner { rows, cells, run, .. } = *inner;
    let side = VECTOR / run;
    rows.src == run as isize && cells.dst == run as isize && rows.count >= side && cells.count >= side
}

/// Blocks, run by run, the longer axis innermost.
///
/// # Safety
/// The contract of [`Kernel`].
#[inline(always)]
unsafe fn single<M: Move>(inner: &Inner<'_>, src: *const u8, dst: *mut u8) {
    let mover = M::new(inner);
    let side = (LINE / inner.run).clamp(8, 64);
    let (outer, long) = if inner.rows.count > inner.cells.count {
        (inner.cells, inner.rows)
    } else {
        (inner.rows, inner.cells)
    };
    for first in (0..long.count).step_by(side) {
        let steps = side.min(long.count - first);
        for start in (0..outer.count).step_by(side) {
            for at in start..outer.count.min(start + side) {
                let (mut src, mut dst) = (place(src, outer.src, at), place_mut(dst, outer.dst, at));
                (src, dst) = (place(src, long.src, first), place_mut(dst, long.dst, first));
                for _ in 0..steps {
                    // SAFETY: one of the runs described.
                    unsafe { mover.one(src, dst) };
                    src = src.wrapping_offset(long.src);
                    dst = dst.wrapping_offset(long.dst);
                }
            }
        }
    }
}

#[inline(always)]
fn place(base: *const u8, stride: isize, at: usize) -> *const u8 {
    base.wrapping_offset(stride.wrapping_mul(at as isize))
}

#[inline(always)]
fn place_mut(base: *mut u8, stride: isize, at: usize) -> *mut u8 {
    base.wrapping_offset(stride.wrapping_mul(at as isize))
}

/// The blocks of an axis of at least `tile` runs: where each starts and how many runs
/// it has, `side` or less but a multiple of `tile`. The last may lie inside the one before.
#[inline(always)]
fn blocks(count: usize, side: usize, tile: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let (start, size) = match count - done {
            0 => return None,
            left if left >= tile => (done, left.min(side) / tile * tile),
            _ => (count - tile, tile),
        };
        done = start + size;
        Some((start, size))
    })
}

/// How many cells lie before the destination's first cache line boundary, where rows
/// agree on that and it is a matter of whole tiles: blocks from there write whole lines.
#[inline(always)]
fn lead<const E: usize, const N: usize>(inner: &Inner<'_>, dst: *mut u8) -> usize {
    let bytes = (dst as usize).wrapping_neg() % LINE;
    if inner.rows.dst % LINE as isize == 0 && bytes % VECTOR == 0 && inner.cells.count >= 8 * LINE / E {
        bytes / E
    } else {
        0
    }
}

/// As `blocks`, with a first one of `lead` runs if that is not 0.
#[inline(always)]
fn aligned_blocks(
    count: usize,
    lead: usize,
    side: usize,
    tile: usize,
) -> impl Iterator<Item = (usize, usize)> {
    let first = (lead > 0).then_some((0, lead));
    first.into_iter().chain(blocks(count - lead, side, tile).map(move |(start, size)| (lead + start, size)))
}

/// Blocks of tiles of `N` by `N` runs of `E` bytes.
///
/// # Safety
/// The contract of [`Kernel`]; `fits_tiles`; `E` is `M::BYTES` and `E * N` is [`VECTOR`].
#[inline(always)]
unsafe fn tiled<M: Move, const E: usize, const N: usize>(inner: &Inner<'_>, src: *const u8, dst: *mut u8) {
    let (rows, cells, side) = (inner.rows, inner.cells, LINE / E);
    let lead = lead::<E, N>(inner, dst);
    for (row_area, row_areas) in blocks(rows.count, side * AREA, N) {
        for (cell_area, cell_areas) in aligned_blocks(cells.count, lead, side * AREA, N) {
            for (cell, cell_count) in blocks(cell_areas, side, N) {
                for (row, row_count) in blocks(row_areas, side, N) {
                    let (row, cell) = (row_area + row, cell_area + cell);
                    let src = place(src, cells.src, cell).wrapping_add(row * E);
                    let dst = place_mut(dst, rows.dst, row).wrapping_add(cell * E);
                    // SAFETY: the block lies within rows and cells. The first call is the
                    // second with its counts known to the compiler.
                    unsafe {
                        let mover = M::new(inner);
                        if row_count == side && cell_count == side {
                            one_block::<M, E, N>(mover, sized(rows, side), sized(cells, side), src, dst);
                        } else {
                            let (rows, cells) = (sized(rows, row_count), sized(cells, cell_count));
                            one_block::<M, E, N>(mover, rows, cells, src, dst);
                        }
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn sized(dim: Dim, count: usize) -> Dim {
    Dim { count, ..dim }
}

/// One block's lines, in a buffer that is itself aligned to lines.
#[repr(align(64))]
struct Buffer([MaybeUninit<u8>; LINE * LINE]);

/// Transpose one block of at most a line's width.
///
/// # Safety
/// As `tiled`; counts are multiples of `N` and at most a line's.
#[inline(always)]
unsafe fn one_block<M: Move, const E: usize, const N: usize>(
    mover: M,
    rows: Dim,
    cells: Dim,
    src: *const u8,
    dst: *mut u8,
) {
    let mut buffer = Buffer([MaybeUninit::uninit(); LINE * LINE]);
    let lines = buffer.0.as_mut_ptr().cast::<u8>();
    // Up to twice as fast outside the caches; smaller runs have more lines per block
    // than are worth it (a few per cent slower).
    if E >= 4 {
        (0..rows.count).for_each(|row| prepare_write(place_mut(dst, rows.dst, row)));
    }
    for cell in (0..cells.count).step_by(N) {
        let src = place(src, cells.src, cell);
        for row in (0..rows.count).step_by(N) {
            // SAFETY: a tile of the block, into its rows' lines.
            unsafe { tile::<E, N>(src.add(row * E), cells.src, lines.add(row * LINE + cell * E)) };
        }
    }
    for row in 0..rows.count {
        let dst = place_mut(dst, rows.dst, row);
        for at in (0..cells.count * E).step_by(VECTOR) {
            // SAFETY: this line of the buffer was written by the tiles above.
            unsafe { mover.vector(lines.add(row * LINE + at), dst.add(at)) };
        }
    }
}

/// Ask for the cache line at `dst`, soon to be written.
#[inline(always)]
fn prepare_write(dst: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_ET0};
        // SAFETY: a hint, for any address.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(dst.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = dst;
}

/// Transpose `N` vectors of `N` runs, `stride` apart, into vectors a line apart.
///
/// Interleaving vector i with vector i + N/2, for all i, is a perfect shuffle of the
/// tile's runs; log2(N) of them exchange rows and columns.
///
/// # Safety
/// The vectors are readable and writable.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn tile<const E: usize, const N: usize>(src: *const u8, stride: isize, dst: *mut u8) {
    use std::arch::x86_64::*;
    // SAFETY: the contract; unaligned access; SSE2 is always there on x86-64.
    unsafe {
        let mut vectors = [_mm_setzero_si128(); N];
        for (at, vector) in vectors.iter_mut().enumerate() {
            *vector = _mm_loadu_si128(place(src, stride, at).cast());
        }
        for _ in 0..N.trailing_zeros() {
            let from = vectors;
            for at in 0..N / 2 {
                let (a, b) = (from[at], from[at + N / 2]);
                (vectors[2 * at], vectors[2 * at + 1]) = match E {
                    1 => (_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)),
                    2 => (_mm_unpacklo_epi16(a, b), _mm_unpackhi_epi16(a, b)),
                    4 => (_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b)),
                    _ => (_mm_unpacklo_epi64(a, b), _mm_unpackhi_epi64(a, b)),
                };
            }
        }
        for (at, vector) in vectors.into_iter().enumerate() {
            _mm_storeu_si128(dst.add(at * LINE).cast(), vector);
        }
    }
}

/// The portable twin.
///
/// # Safety
/// The vectors are readable and writable.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
unsafe fn tile<const E: usize, const N: usize>(src: *const u8, stride: isize, dst: *mut u8) {
    // SAFETY: the contract; unaligned access.
    unsafe { portable_tile::<E, N>(src, stride, dst) }
}

/// Transpose a tile run by run.
///
/// # Safety
/// As `tile`.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline(always)]
unsafe fn portable_tile<const E: usize, const N: usize>(src: *const u8, stride: isize, dst: *mut u8) {
    for cell in 0..N {
        for row in 0..N {
            let from = place(src, stride, cell).wrapping_add(row * E).cast::<[u8; E]>();
            let to = dst.wrapping_add(row * LINE + cell * E).cast::<[u8; E]>();
            // SAFETY: within the tile; bytes have no alignment.
            unsafe { to.write(from.read()) };
        }
    }
}

/// The kernel for a transposition.
pub(super) fn tiles(inner: &Inner<'_>) -> Kernel {
    shaped::<Blocks>(inner.run, inner.unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both twins transpose a tile alike.
    fn twins_agree<const E: usize, const N: usize>() {
        let src: Vec<u8> = (0..40 * N).map(|i| (i * 7 % 251) as u8).collect();
        let (mut ours, mut twin) = ([0u8; LINE * 16], [0u8; LINE * 16]);
        // SAFETY: N vectors 40 bytes apart, into N of 16 lines.
        unsafe {
            tile::<E, N>(src.as_ptr(), 40, ours.as_mut_ptr());
            portable_tile::<E, N>(src.as_ptr(), 40, twin.as_mut_ptr());
        }
        assert_eq!(ours, twin);
        assert_eq!(ours[E * (N - 1)], src[40 * (N - 1)]);
    }

    /// The vector tiles equal the portable ones, for every size of run.
    #[test]
    fn tiles_equal_their_portable_twins() {
        twins_agree::<1, 16>();
        twins_agree::<2, 8>();
        twins_agree::<4, 4>();
        twins_agree::<8, 2>();
        twins_agree::<16, 1>();
    }
}
