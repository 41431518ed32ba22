//! What reads want of a chunk, shard or subchunk.

use smallvec::SmallVec;

use crate::array::{Array, Level, PerAxis, Shard};
use crate::copy::{self, Item};
use crate::error::Result;
use crate::operation::{origin_of, Address, Portion};
use crate::scratch::reserve;
use crate::selection::{Direction, Division, Piece};
use crate::vlen::Arena;

/// Where a read puts what it finds.
pub(crate) struct Target<'a> {
    pub(super) out: Address,
    /// Where items are handles, keeps what they point to.
    pub(super) arena: &'a Arena,
}

impl<'a> Target<'a> {
    /// A buffer, as `read` is given it.
    pub(crate) fn new(out: Address, arena: &'a Arena) -> Self {
        Target { out, arena }
    }

    /// The caller's buffer for `portion`, and its byte offset in the decoded
    /// chunk, where the two are one run of the same bytes.
    #[allow(clippy::mut_from_ref)]
    pub(super) fn run(&self, portion: &Portion<'_, '_>) -> Option<(usize, &mut [u8])> {
        portion.of_copy(Direction::FromCell, |copy| {
            let item = Item { bytes: copy.field.bytes, swap: 0 };
            let bytes = copy::Plan::new(copy.axes, item).contiguous_bytes()?;
            // SAFETY: the caller of `read` vouches for every offset of the
            // selection; no two tasks reach the same items.
            let out = unsafe { std::slice::from_raw_parts_mut(self.out.0.offset(copy.caller), bytes) };
            Some((copy.cell as usize, out))
        })
    }
}

/// What one read wants of a chunk, shard or subchunk.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'w, 's> {
    pub(super) target: &'w Target<'w>,
    pub(super) piece: &'w Piece<'s>,
}

/// What reads want of a chunk, shard or subchunk.
#[derive(Clone, Copy)]
pub(super) struct Parts<'p, 's> {
    pub(super) level: &'p Level,
    pub(super) origin: &'p [u64],
    /// By one read, or several.
    pub(super) wanted: &'p [Wanted<'p, 's>],
}

impl<'p, 's> Parts<'p, 's> {
    pub(super) fn portion(&self, wanted: &Wanted<'p, 's>) -> Portion<'p, 's> {
        Portion { level: self.level, piece: wanted.piece, origin: self.origin }
    }

    /// Do `work` for what each read wants.
    pub(super) fn each(
        &self,
        mut work: impl FnMut(&Portion<'_, '_>, &Target<'_>) -> Result<()>,
    ) -> Result<()> {
        self.wanted.iter().try_for_each(|wanted| work(&self.portion(wanted), wanted.target))
    }

    pub(super) fn is_full(&self, array: &Array) -> bool {
        self.wanted.iter().any(|wanted| self.portion(wanted).is_full(array))
    }

    pub(super) fn divide(&self, shard: &Shard) -> Result<Vec<Division<'s>>> {
        self.wanted.iter().map(|wanted| self.portion(wanted).divide(&shard.cuts)).collect()
    }
}

/// A subchunk, by its number in the index of its shard, that one of the reads touches.
pub(super) struct Touch {
    pub(super) number: usize,
    /// Which of the reads.
    read: usize,
    /// Which task of its division.
    task: usize,
}

/// The subchunks that `divisions` of a shard touch, each by all that touch it.
pub(super) fn touches(shard: &Shard, divisions: &[Division<'_>]) -> Result<Vec<Touch>> {
    let mut found = Vec::new();
    reserve(&mut found, divisions.iter().map(Division::tasks).sum())?;
    let mut cell = PerAxis::new();
    for (read, division) in divisions.iter().enumerate() {
        for task in 0..division.tasks() {
            division.task(task, &mut cell);
            found.push(Touch { number: shard.number(&cell), read, task });
        }
    }
    if divisions.len() > 1 {
        found.sort_unstable_by_key(|touch| (touch.number, touch.read));
    }
    Ok(found)
}

/// How many subchunks are touched.
pub(super) fn touched(shard: &Shard, divisions: &[Division<'_>]) -> Result<u64> {
    match divisions {
        [division] => Ok(division.tasks() as u64),
        _ => Ok(touches(shard, divisions)?.chunk_by(|a, b| a.number == b.number).count() as u64),
    }
}

/// Subchunks of a shard that are read.
pub(super) struct Subchunks<'d, 's> {
    pub(super) parts: &'d Parts<'d, 's>,
    pub(super) level: &'d Level,
    pub(super) divisions: &'d [Division<'s>],
    /// Those of one subchunk stand side by side.
    pub(super) touches: &'d [Touch],
}

impl Subchunks<'_, '_> {
    /// Do `work` with what is wanted of the subchunk whose touches begin at `first`.
    pub(super) fn with<R>(&self, first: usize, work: impl FnOnce(&Parts<'_, '_>, &[u64]) -> R) -> R {
        let number = self.touches[first].number;
        let same = self.touches[first..].iter().take_while(|touch| touch.number == number);
        let mut cell = PerAxis::new();
        let pieces: SmallVec<[(usize, Piece<'_>); 1]> =
            same.map(|touch| (touch.read, self.divisions[touch.read].task(touch.task, &mut cell))).collect();
        let wanted: SmallVec<[Wanted<'_, '_>; 1]> =
            pieces.iter().map(|(read, piece)| Wanted { piece, ..self.parts.wanted[*read] }).collect();
        let origin = &origin_of(self.parts.origin, &cell, &self.level.shape);
        work(&Parts { level: self.level, origin, wanted: &wanted }, &cell)
    }
}
