//! Several reads of one array: chunks that several touch are fetched and decoded once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::OnceLock;

use smallvec::SmallVec;

use super::parts::{Failure, Parts, Target, Wanted};
use super::Reader;
use crate::array::PerAxis;
use crate::error::{Error, Result};
use crate::pipeline::fetch_queue::Request;
use crate::pipeline::operation::{Address, Operation};
use crate::scratch::Scratch;
use crate::selection::{Division, Piece, Selection};
use crate::store::{OpenResult, ReadHint};
use crate::vlen::Arena;

/// A read that touches more chunks does not share them with others.
const MANY: usize = 1 << 16;

/// A chunk that a read touches: its cell, which of the reads, and which task of its division.
type Touch = (PerAxis<u64>, usize, usize);

/// Read selections, each into its buffer. `ended` is told the number of each and how it ended, as soon
/// as it did, in any thread.
///
/// # Safety
/// As for [`super::read`], for each of them. Of bytes that several buffers share, nobody knows whose
/// they are.
pub unsafe fn read_together(
    operation: Operation<'_>,
    reads: &[(&Selection, *mut u8)],
    ended: &(dyn Fn(usize, Result<Arena>) + Sync),
) {
    let ends: Vec<End> = reads.iter().map(|_| End::default()).collect();
    let targets: Vec<Target<'_>> =
        reads.iter().zip(&ends).map(|(read, end)| Target::new(Address(read.1), &end.arena)).collect();
    let pieces: Vec<Piece<'_>> = reads.iter().map(|(selection, _)| selection.piece()).collect();
    let divided =
        |(piece, end): (&_, &End)| operation.divide(piece).map_err(|error| end.failed.set(error)).ok();
    let mut divisions: Vec<Option<Division<'_>>> = pieces.iter().zip(&ends).map(divided).collect();
    let many = |division: &mut Division<'_>| division.tasks() > MANY;
    let alone: Vec<bool> = divisions.iter_mut().map(|division| division.take_if(many).is_some()).collect();
    let together = Together { operation, targets: &targets, divisions: &divisions, ends: &ends, ended };
    together.read();
    for (number, (&(selection, out), end)) in reads.iter().zip(&ends).enumerate() {
        if alone[number] {
            // SAFETY: the caller's promise.
            ended(number, unsafe { super::read(operation, selection, out) });
        } else if divisions[number].as_ref().is_none_or(|division| division.tasks() == 0) {
            ended(number, end.outcome());
        }
    }
}

/// Tell the keys of chunks that reads of `selections` will open together, how, and how many bytes each chunk has,
/// decoded; not of what is read alone.
pub fn wants(
    operation: Operation<'_>,
    selections: &[&Selection],
    tell: &mut dyn FnMut(&str, ReadHint, usize),
) {
    let ends: Vec<End> = selections.iter().map(|_| End::default()).collect();
    let nowhere = |end| Target::new(Address(std::ptr::null_mut()), end);
    let targets: Vec<Target<'_>> = ends.iter().map(|end| nowhere(&end.arena)).collect();
    let pieces: Vec<Piece<'_>> = selections.iter().map(|selection| selection.piece()).collect();
    let divided = |piece: &_| operation.divide(piece).ok().filter(|division| division.tasks() <= MANY);
    let divisions: Vec<Option<Division<'_>>> = pieces.iter().map(divided).collect();
    let ended = &|_, _| {};
    let together = Together { operation, targets: &targets, divisions: &divisions, ends: &ends, ended };
    let reader = &Reader::new(operation, false);
    let touches = together.touches();
    Scratch::with(|scratch| {
        for chunk in touches.chunk_by(|one, next| one.0 == next.0) {
            let told = |key: &str, parts: &Parts<'_, '_>, _: &mut Scratch| {
                tell(key, reader.want(parts), parts.level.decoded_bytes);
                Ok(())
            };
            let target = |n: usize| &targets[chunk[n].1];
            // What is wrong with it, the read finds, too.
            let _ = together.with(chunk, target, |cell, wanted| at(reader, cell, wanted, scratch, told));
        }
    });
}

/// How a read ends.
#[derive(Default)]
struct End {
    arena: Arena,
    /// Why it failed.
    failed: OnceLock<Error>,
    /// How many chunks it waits for.
    chunks: AtomicUsize,
}

impl End {
    fn fail(&self, error: Error) {
        // The first one counts.
        let _ = self.failed.set(error);
    }

    fn outcome(&self) -> Result<Arena> {
        self.failed.get().cloned().map_or_else(|| Ok(self.arena.take()), Err)
    }
}

/// Reads in progress.
struct Together<'a, 's> {
    operation: Operation<'a>,
    targets: &'a [Target<'a>],
    /// None: there is nothing to be read.
    divisions: &'a [Option<Division<'s>>],
    ends: &'a [End],
    ended: &'a (dyn Fn(usize, Result<Arena>) + Sync),
}

impl Together<'_, '_> {
    fn read(&self) {
        let touches = self.touches();
        let chunks: Vec<&[Touch]> = touches.chunk_by(|one, next| one.0 == next.0).collect();
        let Some([(first, ..), ..]) = chunks.first() else { return };
        let operation = self.operation;
        let reader = &Reader::new(operation, operation.spreads(chunks.len()));
        let run = operation.run(first, chunks.len(), operation.store.concurrency());
        let done = run.and_then(|run| {
            let request =
                |chunk: usize, scratch: &mut Scratch| self.request(reader, chunks[chunk], scratch).map(Some);
            operation.opened(run, chunks.len(), &request, &|chunk, opened, scratch| {
                self.chunk(reader, chunks[chunk], opened, scratch);
                for &(_, read, _) in chunks[chunk] {
                    if self.ends[read].chunks.fetch_sub(1, Ordering::AcqRel) == 1 {
                        (self.ended)(read, self.ends[read].outcome());
                    }
                }
                Ok(())
            })
        });
        let Err(error) = done else { return };
        for (read, end) in self.ends.iter().enumerate() {
            if end.chunks.load(Ordering::Acquire) > 0 {
                end.fail(error.clone());
                (self.ended)(read, end.outcome());
            }
        }
    }

    /// The chunks that are touched, each by all reads that touch it.
    fn touches(&self) -> Vec<Touch> {
        let mut found = Vec::new();
        let mut cell = PerAxis::new();
        for (read, division) in self.divisions.iter().enumerate() {
            let Some(division) = division else { continue };
            self.ends[read].chunks.store(division.tasks(), Ordering::Release);
            found.extend((0..division.tasks()).map(|task| {
                division.task(task, &mut cell);
                (cell.clone(), read, task)
            }));
        }
        found.sort_unstable();
        found
    }

    /// Do `work` with the cell of a chunk, and with what is wanted of it, each by the target with its number.
    fn with<'t, R>(
        &self,
        touches: &[Touch],
        target: impl Fn(usize) -> &'t Target<'t>,
        work: impl FnOnce(&[u64], &[Wanted<'_, '_>]) -> R,
    ) -> R {
        let mut cell = PerAxis::new();
        let piece = |&(_, read, task): &Touch| {
            let division = self.divisions[read].as_ref()?;
            Some(division.task(task, &mut cell))
        };
        let pieces: SmallVec<[Piece<'_>; 2]> = touches.iter().filter_map(piece).collect();
        let wanted: SmallVec<[Wanted<'_, '_>; 2]> =
            pieces.iter().enumerate().map(|(n, piece)| Wanted { target: target(n), piece }).collect();
        work(&cell, &wanted)
    }

    /// What is to be asked for to read one chunk.
    fn request(&self, reader: &Reader<'_>, touches: &[Touch], scratch: &mut Scratch) -> Result<Request> {
        self.with(
            touches,
            |n| &self.targets[touches[n].1],
            |cell, wanted| {
                at(reader, cell, wanted, scratch, |key, parts, _| Ok((key.to_owned(), reader.want(parts))))
            },
        )
    }

    /// Read what is wanted of one chunk, which may have been opened. What is wrong only where some want it is the
    /// error of these.
    fn chunk(
        &self,
        reader: &Reader<'_>,
        touches: &[Touch],
        opened: Option<OpenResult>,
        scratch: &mut Scratch,
    ) {
        let failures: SmallVec<[Failure; 2]> = touches.iter().map(|_| Failure::default()).collect();
        let beside = |(touch, failure): (&Touch, _)| self.targets[touch.1].beside(failure);
        let targets: SmallVec<[Target<'_>; 2]> = touches.iter().zip(&failures).map(beside).collect();
        let ends = || touches.iter().map(|touch| &self.ends[touch.1]);
        let done = self.with(
            touches,
            |n| &targets[n],
            |cell, wanted| {
                at(reader, cell, wanted, scratch, |key, parts, scratch| {
                    reader.parts(key, opened, parts, scratch)?;
                    for (end, failure) in ends().zip(&failures) {
                        failure
                            .take()
                            .into_iter()
                            .for_each(|error| end.fail(error.at_key(key).at_chunk(cell)));
                    }
                    Ok(())
                })
            },
        );
        if let Err(error) = done {
            ends().for_each(|end| end.fail(error.clone()));
        }
    }
}

/// Do `work` with the key of the chunk at `cell`, and with what is wanted of it.
fn at<R>(
    reader: &Reader<'_>,
    cell: &[u64],
    wanted: &[Wanted<'_, '_>],
    scratch: &mut Scratch,
    work: impl FnOnce(&str, &Parts<'_, '_>, &mut Scratch) -> Result<R>,
) -> Result<R> {
    let mut key = std::mem::take(&mut scratch.key);
    let done = reader.operation.with_chunk(cell, &mut key, |key, level, origin| {
        work(key, &Parts::new(level, origin, wanted), scratch)
    });
    scratch.key = key;
    done
}
