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

    /// A piece of as many as there are; all of the walk where it cannot be cut.
    fn piece(&self, piece: usize, pieces: usize) -> Walk<'a> {
        let Walk { mut axes, mut src, mut dst } = Walk { axes: self.axes.clone(), ..*self };
        if let Some(Axis::Strided { count, src: by, dst: step }) =
            self.divided(pieces).map(|at| &mut axes[at])
        {
            let (first, last) = (*count * piece / pieces, *count * (piece + 1) / pieces);
            *count = last - first;
            src = src.wrapping_offset(first as isize * *by);
            dst = dst.wrapping_offset(first as isize * *step);
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
    let pieces = |walk: &Walk<'_>| {
        let pieces = threads(walk.items()).max(1);
        if walk.divided(pieces).is_some() {
            pieces
        } else {
            1
        }
    };
    let tasks = walks.iter().flat_map(|walk| {
        let pieces = pieces(walk);
        (0..pieces).map(move |piece| (walk, piece, pieces))
    });
    let tasks = Shared(tasks.collect::<Vec<_>>());
    // A thread takes tasks that follow one another. Neighbours often share cache lines of the destination,
    // and two threads that write to one line keep taking it from each other: tiles of 200² items of two
    // bytes, one by one, took three times as long.
    let ends = turns(tasks.get().iter().map(|(walk, _, pieces)| walk.items() / pieces), all * TURNS);
    pool::parallel_for(ends.len(), all, None, &|turn| {
        let begin = if turn == 0 { 0 } else { ends[turn - 1] };
        for (walk, piece, pieces) in &tasks.get()[begin..ends[turn]] {
            let Walk { axes, src, dst } = walk.piece(*piece, *pieces);
            work(&axes, src, dst);
        }
        Ok(())
    })
}

/// Where each turn ends, which takes tasks of about equally many items in all, and at least one.
pub(super) fn turns(items: impl Iterator<Item = usize> + Clone, count: usize) -> Vec<usize> {
    let all = items.clone().fold(0, usize::saturating_add);
    let each = all.div_ceil(count.max(1)).max(1);
    let (mut ends, mut before) = (Vec::with_capacity(count + 1), 0);
    let mut last = 0;
    for (task, items) in items.enumerate() {
        // One that would make a turn longer by more than half of it begins the next.
        if before > 0 && before + items / 2 > each {
            ends.push(task);
            before = 0;
        }
        before += items;
        last = task + 1;
    }
    if last > 0 {
        ends.push(last);
    }
    ends
}

/// How often each thread takes some of the tasks, if all are equally fast.
const TURNS: usize = 4;

/// What several threads look at.
struct Shared<T>(T);

impl<T> Shared<T> {
    fn get(&self) -> &T {
        &self.0
    }
}

// SAFETY: what is done with it is up to the threads.
unsafe impl<T> Sync for Shared<T> {}
