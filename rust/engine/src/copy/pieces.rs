//! Walks that several threads walk: each of them pieces of its own.

use smallvec::SmallVec;

use super::Axis;
use crate::error::Result;
use crate::pool;

/// Axes, and where both arrays begin.
pub struct Walk<'a> {
    /// From the outermost to the innermost.
    pub axes: SmallVec<[Axis<'a>; 4]>,
    /// What is read.
    pub src: *const u8,
    /// What is written.
    pub dst: *mut u8,
}

impl<'a> Walk<'a> {
    fn items(&self) -> usize {
        let counts = self.axes.iter().map(|axis| match axis {
            Axis::Strided { count, .. } => *count,
            Axis::List { offsets } => offsets.len(),
        });
        counts.fold(1, usize::saturating_mul)
    }

    /// The axis that is cut in order to have so many pieces that have no destination in common.
    fn divided(&self, pieces: usize) -> Option<usize> {
        self.axes.iter().position(|axis| match *axis {
            Axis::Strided { count, dst, .. } => dst != 0 && count >= pieces,
            Axis::List { .. } => false,
        })
    }

    fn piece(&self, at: usize, piece: usize, pieces: usize) -> Walk<'a> {
        let Walk { mut axes, mut src, mut dst } = Walk { axes: self.axes.clone(), ..*self };
        if let Axis::Strided { count, src: by, dst: step } = axes[at] {
            let (first, last) = (count * piece / pieces, count * (piece + 1) / pieces);
            axes[at] = Axis::Strided { count: last - first, src: by, dst: step };
            src = src.wrapping_offset(first as isize * by);
            dst = dst.wrapping_offset(first as isize * step);
        }
        Walk { axes, src, dst }
    }
}

/// Do `work` for walks that have no destination in common, and for pieces of those, where they are so
/// large that other threads are worth waking: for `grain` items each.
///
/// # Errors
/// `Kind::Internal` if a thread fails.
pub fn in_pieces(
    walks: &[Walk<'_>],
    grain: usize,
    work: &(dyn Fn(&[Axis<'_>], *const u8, *mut u8) + Sync),
) -> Result<()> {
    let threads = |items: usize| (items / grain.max(1)).min(pool::threads());
    let all = threads(walks.iter().map(Walk::items).fold(0, usize::saturating_add));
    if all < 2 {
        walks.iter().for_each(|walk| work(&walk.axes, walk.src, walk.dst));
        return Ok(());
    }
    let mut tasks: Vec<(&Walk<'_>, Option<(usize, usize, usize)>)> = Vec::with_capacity(walks.len());
    for walk in walks {
        let pieces = threads(walk.items());
        match walk.divided(pieces).filter(|_| pieces > 1) {
            Some(at) => tasks.extend((0..pieces).map(|piece| (walk, Some((at, piece, pieces))))),
            None => tasks.push((walk, None)),
        }
    }
    let tasks = Shared(tasks);
    pool::parallel_for(tasks.get().len(), all, None, &|task| {
        match tasks.get()[task] {
            (walk, None) => work(&walk.axes, walk.src, walk.dst),
            (walk, Some((at, piece, pieces))) => {
                let piece = walk.piece(at, piece, pieces);
                work(&piece.axes, piece.src, piece.dst);
            }
        }
        Ok(())
    })
}

/// What several threads look at.
struct Shared<T>(T);

impl<T> Shared<T> {
    fn get(&self) -> &T {
        &self.0
    }
}

// SAFETY: what is done with it is up to the threads.
unsafe impl<T> Sync for Shared<T> {}
