//! Parallel copies: the division of copies into pieces for several threads.
//!
//! A *walk* is one nest of axes with the start of both arrays.

use smallvec::SmallVec;

use super::Axis;
use crate::error::Result;
use crate::pool;

/// A nest of axes, and the start of both arrays.
pub struct Walk<'a> {
    /// The axes, outermost first.
    pub axes: SmallVec<[Axis<'a>; 4]>,
    /// The source.
    pub src: *const u8,
    /// The destination.
    pub dst: *mut u8,
}

// SAFETY: threads only read the walk itself; what they do at its pointers is unsafe anyway.
unsafe impl Sync for Walk<'_> {}

impl<'a> Walk<'a> {
    fn items(&self) -> usize {
        let counts = self.axes.iter().map(|axis| match axis {
            Axis::Strided { count, .. } => *count,
            Axis::List { offsets } => offsets.len(),
        });
        counts.fold(1, usize::saturating_mul)
    }

    /// Return the axis that can be divided into `pieces` pieces without a common destination.
    fn divisible_axis(&self, pieces: usize) -> Option<usize> {
        self.axes.iter().position(|axis| match *axis {
            Axis::Strided { count, dst, .. } => dst != 0 && count >= pieces,
            Axis::List { .. } => false,
        })
    }

    /// Return one of `pieces` pieces; the whole walk if it cannot be divided.
    fn piece(&self, piece: usize, pieces: usize) -> Walk<'a> {
        let Walk { mut axes, mut src, mut dst } = Walk { axes: self.axes.clone(), ..*self };
        if let Some(Axis::Strided { count, src: src_step, dst: dst_step }) =
            self.divisible_axis(pieces).map(|axis| &mut axes[axis])
        {
            let (first, last) = (*count * piece / pieces, *count * (piece + 1) / pieces);
            *count = last - first;
            src = src.wrapping_offset(first as isize * *src_step);
            dst = dst.wrapping_offset(first as isize * *dst_step);
        }
        Walk { axes, src, dst }
    }
}

/// Call `work` for walks that have no common destination. Large walks are divided into pieces of
/// `grain` items, so that other threads are worth waking.
///
/// # Errors
/// `Kind::Internal` if a thread fails.
pub fn in_pieces(
    walks: &[Walk<'_>],
    grain: usize,
    work: &(dyn Fn(&[Axis<'_>], *const u8, *mut u8) + Sync),
) -> Result<()> {
    let threads = |items: usize| (items / grain.max(1)).min(pool::threads());
    let total = threads(walks.iter().map(Walk::items).fold(0, usize::saturating_add));
    if total < 2 {
        walks.iter().for_each(|walk| work(&walk.axes, walk.src, walk.dst));
        return Ok(());
    }
    let pieces = |walk: &Walk<'_>| {
        let pieces = threads(walk.items()).max(1);
        if walk.divisible_axis(pieces).is_some() {
            pieces
        } else {
            1
        }
    };
    let tasks = walks.iter().flat_map(|walk| {
        let pieces = pieces(walk);
        (0..pieces).map(move |piece| (walk, piece, pieces))
    });
    let tasks: Vec<_> = tasks.collect();
    // A thread processes consecutive tasks. Neighbours often share cache lines of the destination,
    // and two threads that write to one line slow each other down: single tiles of 200² items of
    // two bytes took three times as long.
    let ends =
        batch_ends(tasks.iter().map(|(walk, _, pieces)| walk.items() / pieces), total * BATCHES_PER_THREAD);
    pool::parallel_for(ends.len(), total, None, &|batch| {
        let begin = if batch == 0 { 0 } else { ends[batch - 1] };
        for (walk, piece, pieces) in &tasks[begin..ends[batch]] {
            let Walk { axes, src, dst } = walk.piece(*piece, *pieces);
            work(&axes, src, dst);
        }
        Ok(())
    })
}

/// Return the ends of batches of consecutive tasks: each has about the same number of items and at
/// least one task.
pub(super) fn batch_ends(items: impl Iterator<Item = usize> + Clone, count: usize) -> Vec<usize> {
    let total = items.clone().fold(0, usize::saturating_add);
    let batch_size = total.div_ceil(count.max(1)).max(1);
    let (mut ends, mut batch_items) = (Vec::with_capacity(count + 1), 0);
    let mut last = 0;
    for (task, items) in items.enumerate() {
        // A task that would make a batch more than half of its size too long begins the next batch.
        if batch_items > 0 && batch_items + items / 2 > batch_size {
            ends.push(task);
            batch_items = 0;
        }
        batch_items += items;
        last = task + 1;
    }
    if last > 0 {
        ends.push(last);
    }
    ends
}

/// The number of batches per thread, if all threads are equally fast.
const BATCHES_PER_THREAD: usize = 4;
