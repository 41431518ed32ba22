//! Transposition: the closest axis of the source (rows) differs from that of the destination
//! (cells).
//!
//! Both buffers consist of cache lines of 64 bytes. On one side a line holds runs of one cell and
//! many rows, on the other side runs of one row and many cells. The copy therefore processes square
//! blocks of a line's width: every line is used completely while it is in the cache. Strides that
//! are large powers of two map all lines of a block to the same few cache sets, where they would
//! evict each other. Hence the copy reads whole source lines into a buffer and writes whole
//! destination lines from it.

use std::mem::MaybeUninit;

use super::kernel::{kernel_of, Inner, Kernel, Move, Shape};
use super::Dim;

/// The size of a cache line, and of one side of a block.
const LINE: usize = 64;

/// The size of a vector, and of one side of a tile, which registers transpose.
const VECTOR: usize = 16;

/// The number of blocks per side of an area. With large strides every line of a block is in another
/// page. The pages of an area stay in the translation buffer, and each serves this many lines.
const AREA: usize = 4;

/// Transposition by blocks, and by tiles if the layout allows it.
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

/// Return whether enough rows are adjacent in the source and enough cells in the destination.
fn fits_tiles(inner: &Inner<'_>) -> bool {
    let Inner { rows, cells, run, .. } = *inner;
    let side = VECTOR / run;
    rows.src == run as isize && cells.dst == run as isize && rows.count >= side && cells.count >= side
}

/// Copy blocks run by run, the longer axis innermost.
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
            for index in start..outer.count.min(start + side) {
                let (mut src, mut dst) = (element(src, outer.src, index), element_mut(dst, outer.dst, index));
                (src, dst) = (element(src, long.src, first), element_mut(dst, long.dst, first));
                for _ in 0..steps {
                    // SAFETY: a run of the plan.
                    unsafe { mover.move_run(src, dst) };
                    src = src.wrapping_offset(long.src);
                    dst = dst.wrapping_offset(long.dst);
                }
            }
        }
    }
}

#[inline(always)]
fn element(base: *const u8, stride: isize, index: usize) -> *const u8 {
    base.wrapping_offset(stride.wrapping_mul(index as isize))
}

#[inline(always)]
fn element_mut(base: *mut u8, stride: isize, index: usize) -> *mut u8 {
    base.wrapping_offset(stride.wrapping_mul(index as isize))
}

/// Return the blocks of an axis of at least `tile` runs: the start and the number of runs of each,
/// a multiple of `tile` up to `side`. The last block may overlap the previous one.
#[inline(always)]
fn blocks(count: usize, side: usize, tile: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut covered = 0;
    std::iter::from_fn(move || {
        let (start, size) = match count - covered {
            0 => return None,
            remaining if remaining >= tile => (covered, remaining.min(side) / tile * tile),
            _ => (count - tile, tile),
        };
        covered = start + size;
        Some((start, size))
    })
}

/// Return the number of cells before the first cache line boundary of the destination, if it is the
/// same for all rows and a multiple of tiles: later blocks write whole lines.
#[inline(always)]
fn lead<const E: usize, const N: usize>(inner: &Inner<'_>, dst: *mut u8) -> usize {
    let bytes = (dst as usize).wrapping_neg() % LINE;
    if inner.rows.dst % LINE as isize == 0 && bytes % VECTOR == 0 && inner.cells.count >= 8 * LINE / E {
        bytes / E
    } else {
        0
    }
}

/// As `blocks`, with a first block of `lead` runs unless that is 0.
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
                    let src = element(src, cells.src, cell).wrapping_add(row * E);
                    let dst = element_mut(dst, rows.dst, row).wrapping_add(cell * E);
                    // SAFETY: the block is within rows and cells. In the first call the compiler
                    // knows the counts; the second is the general one.
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

/// The lines of one block, in a buffer that is aligned to lines.
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
    // Up to twice as fast outside the caches; smaller runs have too many lines per block (a few per
    // cent slower).
    if E >= 4 {
        (0..rows.count).for_each(|row| prepare_write(element_mut(dst, rows.dst, row)));
    }
    for cell in (0..cells.count).step_by(N) {
        let src = element(src, cells.src, cell);
        for row in (0..rows.count).step_by(N) {
            // SAFETY: a tile of the block, into the lines of its rows.
            unsafe { tile::<E, N>(src.add(row * E), cells.src, lines.add(row * LINE + cell * E)) };
        }
    }
    for row in 0..rows.count {
        let dst = element_mut(dst, rows.dst, row);
        for index in (0..cells.count * E).step_by(VECTOR) {
            // SAFETY: the tiles above wrote this line of the buffer.
            unsafe { mover.vector(lines.add(row * LINE + index), dst.add(index)) };
        }
    }
}

/// Prefetch the cache line at `dst` for writing.
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
    // SAFETY: the contract; unaligned access; x86-64 always has SSE2.
    unsafe {
        let mut vectors = [_mm_setzero_si128(); N];
        for (index, vector) in vectors.iter_mut().enumerate() {
            *vector = _mm_loadu_si128(element(src, stride, index).cast());
        }
        for _ in 0..N.trailing_zeros() {
            let from = vectors;
            for index in 0..N / 2 {
                let (a, b) = (from[index], from[index + N / 2]);
                (vectors[2 * index], vectors[2 * index + 1]) = match E {
                    1 => (_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)),
                    2 => (_mm_unpacklo_epi16(a, b), _mm_unpackhi_epi16(a, b)),
                    4 => (_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b)),
                    _ => (_mm_unpacklo_epi64(a, b), _mm_unpackhi_epi64(a, b)),
                };
            }
        }
        for (index, vector) in vectors.into_iter().enumerate() {
            _mm_storeu_si128(dst.add(index * LINE).cast(), vector);
        }
    }
}

/// The portable implementation.
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
            let from = element(src, stride, cell).wrapping_add(row * E).cast::<[u8; E]>();
            let to = dst.wrapping_add(row * LINE + cell * E).cast::<[u8; E]>();
            // SAFETY: within the tile; bytes have no alignment.
            unsafe { to.write(from.read()) };
        }
    }
}

/// Return the kernel for a transposition.
pub(super) fn tiles(inner: &Inner<'_>) -> Kernel {
    kernel_of::<Blocks>(inner.run, inner.unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both implementations transpose a tile equally.
    fn implementations_agree<const E: usize, const N: usize>() {
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

    /// The vector tiles equal the portable tiles, for every size of run.
    #[test]
    fn vector_tiles_equal_portable_tiles() {
        implementations_agree::<1, 16>();
        implementations_agree::<2, 8>();
        implementations_agree::<4, 4>();
        implementations_agree::<8, 2>();
        implementations_agree::<16, 1>();
    }
}
