//! The reads of one chunk, shard or subchunk.

use std::sync::{Mutex, OnceLock, PoisonError};

use smallvec::SmallVec;

use crate::array::{Level, PerAxis, Shard};
use crate::copy::{self, Item};
use crate::error::{Error, Kind, Result};
use crate::pipeline::operation::{origin_of, BufferPtr, Portion};
use crate::scratch::reserve;
use crate::selection::{Direction, Division, Piece};
use crate::vlen::Arena;

/// The destination of a read.
pub(crate) struct Target<'a> {
    pub(super) out: BufferPtr,
    /// The owner of elements, if items are handles.
    pub(super) arena: &'a Arena,
    /// The error of this read in a chunk that other reads share, which continue.
    failure: Option<&'a Failure>,
}

/// The first error of a read in a shared chunk.
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
    /// Return the buffer that a caller of `read` passes.
    pub(crate) fn new(out: BufferPtr, arena: &'a Arena) -> Self {
        Target { out, arena, failure: None }
    }

    /// Return the same destination, for a shared chunk: the other reads continue if this one fails.
    pub(super) fn with_failure<'b>(&self, failure: &'b Failure) -> Target<'b>
    where
        'a: 'b,
    {
        Target { out: self.out, arena: self.arena, failure: Some(failure) }
    }

    /// Record an error in the stored data, which concerns this read alone.
    fn fail(&self, error: Error) -> Result<()> {
        match self.failure {
            Some(failure) if matches!(error.kind, Kind::Data | Kind::NotFound) => {
                failure.set(error);
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Return the caller's buffer for `portion`, and its byte offset in the decoded chunk, if both
    /// are one contiguous run of the same bytes.
    #[allow(clippy::mut_from_ref)]
    pub(super) fn run(&self, portion: &Portion<'_, '_>) -> Option<(usize, &mut [u8])> {
        if portion.piece.is_scattered() {
            return None;
        }
        portion.single_copy(Direction::FromCell, |copy| {
            let item = Item { bytes: copy.field.bytes, swap: 0 };
            let bytes = copy::Plan::new(copy.axes, item).contiguous_bytes()?;
            // SAFETY: the caller of `read` guarantees every offset of the selection; no two tasks
            // reach the same items.
            let out = unsafe { std::slice::from_raw_parts_mut(self.out.0.offset(copy.caller), bytes) };
            Some((copy.cell as usize, out))
        })
    }
}

/// One read of a chunk, shard or subchunk.
#[derive(Clone, Copy)]
pub(super) struct ChunkRead<'w, 's> {
    pub(super) target: &'w Target<'w>,
    pub(super) piece: &'w Piece<'s>,
}

/// The reads of one chunk, shard or subchunk.
pub(super) struct ChunkReads<'p, 's> {
    pub(super) level: &'p Level,
    pub(super) origin: &'p [u64],
    /// One read, or several.
    pub(super) items: &'p [ChunkRead<'p, 's>],
    /// The subchunks that they touch, computed on first use.
    touched_subchunks: OnceLock<Result<TouchedSubchunks<'s>>>,
}

impl<'p, 's> ChunkReads<'p, 's> {
    pub(super) fn new(level: &'p Level, origin: &'p [u64], items: &'p [ChunkRead<'p, 's>]) -> Self {
        ChunkReads { level, origin, items, touched_subchunks: OnceLock::new() }
    }

    pub(super) fn portion(&self, read: &ChunkRead<'p, 's>) -> Portion<'p, 's> {
        Portion { level: self.level, piece: read.piece, origin: self.origin }
    }

    /// Run `work` for each read.
    pub(super) fn each(
        &self,
        mut work: impl FnMut(&Portion<'_, '_>, &Target<'_>) -> Result<()>,
    ) -> Result<()> {
        self.items.iter().try_for_each(|read| {
            work(&self.portion(read), read.target).or_else(|error| read.target.fail(error))
        })
    }

    /// Start the reads again.
    pub(super) fn start(&self) {
        let failures = self.items.iter().filter_map(|read| read.target.failure);
        failures.for_each(|failure| drop(failure.take()));
    }

    /// Fail all reads of the chunk; reads of other chunks continue.
    fn fail(&self, error: &Error) -> Result<()> {
        self.items.iter().try_for_each(|read| read.target.fail(error.clone()))
    }

    /// Return the bytes of the decoded chunk from the first to the last selected one.
    pub(super) fn span(&self) -> (usize, usize) {
        let spans = self.items.iter().map(|read| self.portion(read).span());
        let union = spans.reduce(|left, right| (left.0.min(right.0), left.1.max(right.1)));
        union.unwrap_or_default()
    }

    pub(super) fn is_full(&self, bounds: &[u64]) -> bool {
        self.items.iter().any(|read| self.portion(read).is_full(Some(bounds)))
    }

    /// Return the subchunks of the shard that the reads touch.
    pub(super) fn touched_subchunks(&self, shard: &Shard) -> Result<&TouchedSubchunks<'s>> {
        let compute = || {
            let divisions = self.items.iter().map(|read| self.portion(read).divide(&shard.dim_grids));
            let divisions = divisions.collect::<Result<Vec<_>>>()?;
            Ok(TouchedSubchunks { touches: touches(shard, &divisions)?, divisions })
        };
        self.touched_subchunks.get_or_init(compute).as_ref().map_err(Error::clone)
    }
}

/// The subchunks that reads touch.
pub(super) struct TouchedSubchunks<'s> {
    divisions: Vec<Division<'s>>,
    /// Sorted by subchunk.
    pub(super) touches: Vec<Touch>,
}

impl TouchedSubchunks<'_> {
    /// Return the number of touched subchunks.
    pub(super) fn subchunks(&self) -> u64 {
        self.touches.chunk_by(|left, next| left.number == next.number).count() as u64
    }
}

/// A subchunk, by its number in the index, that one read touches.
pub(super) struct Touch {
    pub(super) number: usize,
    /// The number of the read.
    read: usize,
    /// The number of the task in its division.
    task: usize,
}

/// Return the subchunks that `divisions` of a shard touch, sorted by subchunk.
fn touches(shard: &Shard, divisions: &[Division<'_>]) -> Result<Vec<Touch>> {
    let mut touches = Vec::new();
    reserve(&mut touches, divisions.iter().map(Division::tasks).sum())?;
    let mut cell = PerAxis::new();
    for (read, division) in divisions.iter().enumerate() {
        for task in 0..division.tasks() {
            division.find_cell(task, &mut cell);
            touches.push(Touch { number: shard.entry_number(&cell), read, task });
        }
    }
    if divisions.len() > 1 {
        touches.sort_unstable_by_key(|touch| (touch.number, touch.read));
    }
    Ok(touches)
}

/// The subchunks of a shard to read.
pub(super) struct Subchunks<'d, 's> {
    pub(super) reads: &'d ChunkReads<'d, 's>,
    pub(super) level: &'d Level,
    pub(super) touched_subchunks: &'d TouchedSubchunks<'s>,
    /// They are all subchunks of a shard that is not in memory.
    pub(super) is_all: bool,
}

impl Subchunks<'_, '_> {
    /// Run `work` with the reads of the subchunk whose touches begin at `first`. An error names the
    /// subchunk.
    pub(super) fn with(
        &self,
        first: usize,
        work: impl FnOnce(&ChunkReads<'_, '_>) -> Result<()>,
    ) -> Result<()> {
        let TouchedSubchunks { divisions, touches } = self.touched_subchunks;
        let number = touches[first].number;
        let touches_of_subchunk = touches[first..].iter().take_while(|touch| touch.number == number);
        let mut cell = PerAxis::new();
        let pieces: SmallVec<[(usize, Piece<'_>); 1]> = touches_of_subchunk
            .map(|touch| (touch.read, divisions[touch.read].task(touch.task, &mut cell)))
            .collect();
        let items: SmallVec<[ChunkRead<'_, '_>; 1]> =
            pieces.iter().map(|(read, piece)| ChunkRead { piece, ..self.reads.items[*read] }).collect();
        let origin = &origin_of(self.reads.origin, &cell, &self.level.shape);
        let reads = ChunkReads::new(self.level, origin, &items);
        work(&reads).or_else(|error| reads.fail(&error.in_subchunk(&cell)))
    }
}
