//! What reads want of a chunk, shard or subchunk.

use std::sync::{Mutex, OnceLock, PoisonError};

use smallvec::SmallVec;

use crate::array::{Level, PerAxis, Shard};
use crate::copy::{self, Item};
use crate::error::{Error, Kind, Result};
use crate::pipeline::operation::{origin_of, Address, Portion};
use crate::scratch::reserve;
use crate::selection::{Direction, Division, Piece};
use crate::vlen::Arena;

/// Where a read puts what it finds.
pub(crate) struct Target<'a> {
    pub(super) out: Address,
    /// Where items are handles, keeps what they point to.
    pub(super) arena: &'a Arena,
    /// Why what it wants of a chunk fails, where others go on that want some of the same chunk.
    failure: Option<&'a Failure>,
}

/// The first error of what is wrong with what a read wants.
#[derive(Default)]
pub(super) struct Failure(Mutex<Option<Error>>);

impl Failure {
    fn set(&self, error: Error) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    pub(super) fn take(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<'a> Target<'a> {
    /// A buffer, as `read` is given it.
    pub(crate) fn new(out: Address, arena: &'a Arena) -> Self {
        Target { out, arena, failure: None }
    }

    /// The same for one chunk, of which others want some, too: they go on if it fails.
    pub(super) fn beside<'b>(&self, failure: &'b Failure) -> Target<'b>
    where
        'a: 'b,
    {
        Target { out: self.out, arena: self.arena, failure: Some(failure) }
    }

    /// What is stored is wrong where this one wants it, which others need not mind.
    fn fail(&self, error: Error) -> Result<()> {
        match self.failure {
            Some(failure) if matches!(error.kind, Kind::Data | Kind::NotFound) => {
                failure.set(error);
                Ok(())
            }
            _ => Err(error),
        }
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
pub(super) struct Parts<'p, 's> {
    pub(super) level: &'p Level,
    pub(super) origin: &'p [u64],
    /// By one read, or several.
    pub(super) wanted: &'p [Wanted<'p, 's>],
    /// What they touch of a shard, when somebody has asked.
    inside: OnceLock<Result<Inside<'s>>>,
}

impl<'p, 's> Parts<'p, 's> {
    pub(super) fn new(level: &'p Level, origin: &'p [u64], wanted: &'p [Wanted<'p, 's>]) -> Self {
        Parts { level, origin, wanted, inside: OnceLock::new() }
    }

    pub(super) fn portion(&self, wanted: &Wanted<'p, 's>) -> Portion<'p, 's> {
        Portion { level: self.level, piece: wanted.piece, origin: self.origin }
    }

    /// Do `work` for what each read wants.
    pub(super) fn each(
        &self,
        mut work: impl FnMut(&Portion<'_, '_>, &Target<'_>) -> Result<()>,
    ) -> Result<()> {
        self.wanted.iter().try_for_each(|wanted| {
            work(&self.portion(wanted), wanted.target).or_else(|error| wanted.target.fail(error))
        })
    }

    /// Read it from the beginning.
    pub(super) fn begin(&self) {
        let failures = self.wanted.iter().filter_map(|wanted| wanted.target.failure);
        failures.for_each(|failure| drop(failure.take()));
    }

    /// All reads that want some of it fail; others go on.
    fn fail(&self, error: &Error) -> Result<()> {
        self.wanted.iter().try_for_each(|wanted| wanted.target.fail(error.clone()))
    }

    /// The bytes from the first to the last that are wanted of the decoded chunk.
    pub(super) fn span(&self) -> (usize, usize) {
        let spans = self.wanted.iter().map(|wanted| self.portion(wanted).span());
        let around = spans.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
        around.unwrap_or_default()
    }

    pub(super) fn is_full(&self, bounds: &[u64]) -> bool {
        self.wanted.iter().any(|wanted| self.portion(wanted).is_full(Some(bounds)))
    }

    /// Which subchunks they touch of the shard that this is.
    pub(super) fn inside(&self, shard: &Shard) -> Result<&Inside<'s>> {
        let find = || {
            let divided = self.wanted.iter().map(|wanted| self.portion(wanted).divide(&shard.cuts));
            let divisions = divided.collect::<Result<Vec<_>>>()?;
            Ok(Inside { touches: touches(shard, &divisions)?, divisions })
        };
        self.inside.get_or_init(find).as_ref().map_err(Error::clone)
    }
}

/// What reads touch of a shard.
pub(super) struct Inside<'s> {
    divisions: Vec<Division<'s>>,
    /// Those of one subchunk stand side by side.
    pub(super) touches: Vec<Touch>,
}

impl Inside<'_> {
    /// How many subchunks are touched.
    pub(super) fn subchunks(&self) -> u64 {
        self.touches.chunk_by(|one, next| one.number == next.number).count() as u64
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
fn touches(shard: &Shard, divisions: &[Division<'_>]) -> Result<Vec<Touch>> {
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

/// Subchunks of a shard that are read.
pub(super) struct Subchunks<'d, 's> {
    pub(super) parts: &'d Parts<'d, 's>,
    pub(super) level: &'d Level,
    pub(super) inside: &'d Inside<'s>,
    /// They are all that a shard has, which is not in memory.
    pub(super) is_all: bool,
}

impl Subchunks<'_, '_> {
    /// Do `work` with what is wanted of the subchunk whose touches begin at `first`. An error says which that is.
    pub(super) fn with(&self, first: usize, work: impl FnOnce(&Parts<'_, '_>) -> Result<()>) -> Result<()> {
        let Inside { divisions, touches } = self.inside;
        let number = touches[first].number;
        let same = touches[first..].iter().take_while(|touch| touch.number == number);
        let mut cell = PerAxis::new();
        let pieces: SmallVec<[(usize, Piece<'_>); 1]> =
            same.map(|touch| (touch.read, divisions[touch.read].task(touch.task, &mut cell))).collect();
        let wanted: SmallVec<[Wanted<'_, '_>; 1]> =
            pieces.iter().map(|(read, piece)| Wanted { piece, ..self.parts.wanted[*read] }).collect();
        let origin = &origin_of(self.parts.origin, &cell, &self.level.shape);
        let parts = Parts::new(self.level, origin, &wanted);
        work(&parts).or_else(|error| parts.fail(&error.in_subchunk(&cell)))
    }
}
