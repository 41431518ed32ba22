//! Several reads of one array: chunks that several touch are fetched and decoded once.

use std::sync::OnceLock;

use smallvec::SmallVec;

use super::parts::{Parts, Target, Wanted};
use super::Reader;
use crate::array::PerAxis;
use crate::error::{Error, Kind, Result};
use crate::operation::{Address, Operation};
use crate::scratch::Scratch;
use crate::selection::{Division, Piece, Selection};
use crate::vlen::Arena;

/// A read that touches more chunks does not share them with others.
const MANY: usize = 1 << 16;

/// A chunk that a read touches: its cell, which of the reads, and which task of its division.
type Touch = (PerAxis<u64>, usize, usize);

/// Read selections, each into its buffer.
///
/// # Safety
/// As for [`super::read`], for each of them. Of bytes that several buffers share, nobody knows whose
/// they are.
pub unsafe fn read_together(operation: Operation<'_>, reads: &[(&Selection, *mut u8)]) -> Vec<Result<Arena>> {
    let arenas: Vec<Arena> = reads.iter().map(|_| Arena::default()).collect();
    let targets: Vec<Target<'_>> =
        reads.iter().zip(&arenas).map(|(read, arena)| Target::new(Address(read.1), arena)).collect();
    let pieces: Vec<Piece<'_>> = reads.iter().map(|(selection, _)| selection.piece()).collect();
    let failed: Vec<OnceLock<Error>> = reads.iter().map(|_| OnceLock::new()).collect();
    let divided = |(piece, failed): (&_, &OnceLock<Error>)| {
        operation.divide(piece).map_err(|error| failed.set(error)).ok()
    };
    let mut divisions: Vec<Option<Division<'_>>> = pieces.iter().zip(&failed).map(divided).collect();
    let many = |division: &mut Division<'_>| division.tasks() > MANY;
    let alone: Vec<bool> = divisions.iter_mut().map(|division| division.take_if(many).is_some()).collect();
    Together { operation, targets: &targets, divisions: &divisions, failed: &failed }.read();
    let ended = arenas.into_iter().zip(failed).zip(reads.iter().zip(alone));
    ended
        .map(|((arena, failed), (&(selection, out), alone))| match failed.into_inner() {
            Some(error) => Err(error),
            // SAFETY: the caller's promise.
            None if alone => unsafe { super::read(operation, selection, out) },
            None => Ok(arena),
        })
        .collect()
}

/// Reads in progress.
struct Together<'a, 's> {
    operation: Operation<'a>,
    targets: &'a [Target<'a>],
    /// None: there is nothing to be read.
    divisions: &'a [Option<Division<'s>>],
    /// Why reads failed.
    failed: &'a [OnceLock<Error>],
}

impl Together<'_, '_> {
    fn fail(&self, read: usize, error: Error) {
        // The first one counts.
        let _ = self.failed[read].set(error);
    }

    fn read(&self) {
        let touches = self.touches();
        let chunks: Vec<&[Touch]> = touches.chunk_by(|one, next| one.0 == next.0).collect();
        let Some([(first, ..), ..]) = chunks.first() else { return };
        let operation = self.operation;
        let spread = operation.spreads(chunks.len());
        let run = operation.run(first, chunks.len(), operation.store.concurrency());
        let done = run.and_then(|run| {
            run.each(chunks.len(), operation.interrupt, &|chunk, scratch| {
                self.chunk(chunks[chunk], spread, scratch);
                Ok(())
            })
        });
        if let Err(error) = done {
            (0..self.failed.len()).for_each(|read| self.fail(read, error.clone()));
        }
    }

    /// The chunks that are touched, each by all reads that touch it.
    fn touches(&self) -> Vec<Touch> {
        let mut found = Vec::new();
        let mut cell = PerAxis::new();
        for (read, division) in self.divisions.iter().enumerate() {
            let Some(division) = division else { continue };
            found.extend((0..division.tasks()).map(|task| {
                division.task(task, &mut cell);
                (cell.clone(), read, task)
            }));
        }
        found.sort_unstable();
        found
    }

    /// Read what is wanted of one chunk.
    fn chunk(&self, touches: &[Touch], spread: bool, scratch: &mut Scratch) {
        let mut cell = PerAxis::new();
        let piece = |&(_, read, task): &Touch| {
            let division = self.divisions[read].as_ref()?;
            Some((read, division.task(task, &mut cell)))
        };
        let pieces: SmallVec<[(usize, Piece<'_>); 2]> = touches.iter().filter_map(piece).collect();
        let wanted: SmallVec<[Wanted<'_, '_>; 2]> =
            pieces.iter().map(|(read, piece)| Wanted { target: &self.targets[*read], piece }).collect();
        let mut key = std::mem::take(&mut scratch.key);
        let mut some = |wanted: &[Wanted<'_, '_>]| {
            self.operation.with_chunk(&cell, &mut key, |key, level, origin| {
                Reader::new(self.operation, spread).parts(key, &Parts::new(level, origin, wanted), scratch)
            })
        };
        match some(&wanted) {
            Ok(()) => {}
            // What is wrong may be so only in what one of them wants.
            Err(Error { kind: Kind::Data | Kind::NotFound, .. }) => {
                for (one, (read, _)) in wanted.iter().zip(&pieces) {
                    some(std::slice::from_ref(one)).unwrap_or_else(|error| self.fail(*read, error));
                }
            }
            Err(error) => pieces.iter().for_each(|(read, _)| self.fail(*read, error.clone())),
        }
        scratch.key = key;
    }
}
