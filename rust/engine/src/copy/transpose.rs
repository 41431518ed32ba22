//! Transposition: the source's closest axis (rows) is not the destination's (cells).

use super::kernel::{shaped, Inner, Kernel, Move, Shape};

/// Blocks of rows and cells, so that the lines of both buffers that a block
/// touches stay in the cache until they are used up.
struct Blocks;

/// Runs per side of a block, for runs of `run` bytes: about a cache line.
fn side(run: usize) -> usize {
    (64 / run.max(1)).clamp(8, 64)
}

impl Shape for Blocks {
    #[inline(always)]
    unsafe fn run<M: Move>(inner: &Inner<'_>, src: *const u8, dst: *mut u8) {
        let mover = M::new(inner);
        let (rows, cells, side) = (inner.rows, inner.cells, side(inner.run));
        for row in (0..rows.count).step_by(side) {
            let row_end = rows.count.min(row + side);
            for cell in (0..cells.count).step_by(side) {
                let cell_end = cells.count.min(cell + side);
                for row in row as isize..row_end as isize {
                    for cell in cell as isize..cell_end as isize {
                        let src_at = row * rows.src + cell * cells.src;
                        let dst_at = row * rows.dst + cell * cells.dst;
                        // SAFETY: one of the runs described.
                        unsafe { mover.one(src.wrapping_offset(src_at), dst.wrapping_offset(dst_at)) };
                    }
                }
            }
        }
    }
}

/// The kernel for a transposition.
pub(super) fn tiles(inner: &Inner<'_>) -> Kernel {
    shaped::<Blocks>(inner.run, inner.unit)
}
