//! Read groups: several reads of one array, which fetch and decode shared chunks once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::OnceLock;

use smallvec::SmallVec;

use super::chunk_reads::{ChunkRead, ChunkReads, Failure, Target};
use super::Reader;
use crate::array::PerAxis;
use crate::error::{Error, Result};
use crate::pipeline::fetch_queue::Request;
use crate::pipeline::operation::{BufferPtr, Operation, Requests};
use crate::scratch::Scratch;
use crate::selection::{Division, Piece, Selection};
use crate::store::{CacheShare, OpenResult, ReadHint};
use crate::vlen::Arena;

/// The maximum number of chunks of a read that shares chunks with other reads.
const MAX_SHARED_CHUNKS: usize = 1 << 16;

/// The maximum numbers of reads that run together, and of chunks that they touch (once per read).
/// More reads run in several groups, one after another, so that their number takes little memory.
const MAX_GROUP_READS: usize = 1 << 13;
const MAX_GROUP_TOUCHES: usize = 1 << 18;

/// A chunk that a read touches: its cell, the number of the read, and of the task in its division.
type Touch = (PerAxis<u64>, usize, usize);

/// Read selections, each into its buffer. `on_end` receives the number of each read and its result
/// as soon as it ends, in any thread.
///
/// # Safety
/// As for [`super::read`], for each of them. Bytes that several buffers share have undefined
/// contents.
pub unsafe fn read_group(
    operation: Operation<'_>,
    reads: &[(&Selection, *mut u8)],
    on_end: &(dyn Fn(usize, Result<Arena>) + Sync),
) {
    let (mut first, mut touches, mut divisions) = (0, 0, Vec::new());
    let run = |first: usize, divisions: Vec<Result<Division<'_>>>| {
        let reads = &reads[first..first + divisions.len()];
        // SAFETY: guaranteed by the caller.
        unsafe { read_divided(operation, reads, divisions, &|number, done| on_end(first + number, done)) };
    };
    for (selection, _) in reads {
        let division = operation.divide(&selection.piece());
        let tasks = division.as_ref().map_or(0, Division::tasks);
        let shared_tasks = if tasks > MAX_SHARED_CHUNKS { 0 } else { tasks };
        if divisions.len() == MAX_GROUP_READS || touches + shared_tasks > MAX_GROUP_TOUCHES {
            let count = divisions.len();
            run(first, std::mem::take(&mut divisions));
            (first, touches) = (first + count, 0);
        }
        divisions.push(division);
        touches += shared_tasks;
    }
    run(first, divisions);
}

/// Read selections that are divided among chunks.
///
/// # Safety
/// As for [`read_group`].
unsafe fn read_divided(
    operation: Operation<'_>,
    reads: &[(&Selection, *mut u8)],
    divisions: Vec<Result<Division<'_>>>,
    on_end: &(dyn Fn(usize, Result<Arena>) + Sync),
) {
    let states: Vec<ReadState> = reads.iter().map(|_| ReadState::default()).collect();
    let targets: Vec<Target<'_>> =
        reads.iter().zip(&states).map(|(read, state)| Target::new(BufferPtr(read.1), &state.arena)).collect();
    let set_error =
        |(division, state): (Result<_>, &ReadState)| division.map_err(|error| state.fail(error)).ok();
    let mut divisions: Vec<Option<Division<'_>>> =
        divisions.into_iter().zip(&states).map(set_error).collect();
    let is_large = |division: &mut Division<'_>| division.tasks() > MAX_SHARED_CHUNKS;
    let is_separate: Vec<bool> =
        divisions.iter_mut().map(|division| division.take_if(is_large).is_some()).collect();
    let group = ReadGroup { operation, targets: &targets, divisions: &divisions, states: &states, on_end };
    group.read();
    for (number, (&(selection, out), state)) in reads.iter().zip(&states).enumerate() {
        if is_separate[number] {
            // SAFETY: guaranteed by the caller.
            on_end(number, unsafe { super::read(operation, selection, out) });
        } else if divisions[number].as_ref().is_none_or(|division| division.tasks() == 0) {
            on_end(number, state.result());
        }
    }
}

/// Report the chunks that reads of `selections` will open as a group: key, read hint, and decoded
/// size. Reads that do not share chunks are left out.
pub fn group_hints(
    operation: Operation<'_>,
    selections: &[&Selection],
    report: &mut dyn FnMut(&str, ReadHint, usize),
) {
    let states: Vec<ReadState> = selections.iter().map(|_| ReadState::default()).collect();
    let without_buffer = |state| Target::new(BufferPtr(std::ptr::null_mut()), state);
    let targets: Vec<Target<'_>> = states.iter().map(|state| without_buffer(&state.arena)).collect();
    let pieces: Vec<Piece<'_>> = selections.iter().map(|selection| selection.piece()).collect();
    let divide =
        |piece: &_| operation.divide(piece).ok().filter(|division| division.tasks() <= MAX_SHARED_CHUNKS);
    let divisions: Vec<Option<Division<'_>>> = pieces.iter().map(divide).collect();
    let on_end = &|_, _| {};
    let group = ReadGroup { operation, targets: &targets, divisions: &divisions, states: &states, on_end };
    let touches = group.touches();
    let reader = &Reader::new(operation, false, group.cache_share(&touches));
    Scratch::with(|scratch| {
        for chunk in touches.chunk_by(|left, next| left.0 == next.0) {
            let report_chunk = |key: &str, reads: &ChunkReads<'_, '_>, _: &mut Scratch| {
                report(key, reader.read_hint(key, reads), reads.level.decoded_bytes);
                Ok(())
            };
            let target = |n: usize| &targets[chunk[n].1];
            // The read reports the error.
            let _ = group
                .with(chunk, target, |cell, items| with_reads(reader, cell, items, scratch, report_chunk));
        }
    });
}

/// The state of one read of the group.
#[derive(Default)]
struct ReadState {
    arena: Arena,
    /// Its first error.
    error: OnceLock<Error>,
    /// The number of chunks that it waits for.
    chunks: AtomicUsize,
}

impl ReadState {
    fn fail(&self, error: Error) {
        // The first error wins.
        let _ = self.error.set(error);
    }

    fn result(&self) -> Result<Arena> {
        self.error.get().cloned().map_or_else(|| Ok(self.arena.take()), Err)
    }
}

/// Reads in progress.
struct ReadGroup<'a, 's> {
    operation: Operation<'a>,
    targets: &'a [Target<'a>],
    /// None: the read has ended, or runs alone.
    divisions: &'a [Option<Division<'s>>],
    states: &'a [ReadState],
    on_end: &'a (dyn Fn(usize, Result<Arena>) + Sync),
}

impl ReadGroup<'_, '_> {
    fn read(&self) {
        let touches = self.touches();
        let chunks: Vec<&[Touch]> = touches.chunk_by(|left, next| left.0 == next.0).collect();
        let Some([(first, ..), ..]) = chunks.first() else { return };
        let operation = self.operation;
        let cache_share = self.cache_share(&touches);
        let reader = &Reader::new(operation, operation.shares_workers(chunks.len()), cache_share);
        let run = operation.run(first, chunks.len(), Requests::Reads);
        let result = run.and_then(|run| {
            let request =
                |chunk: usize, scratch: &mut Scratch| self.request(reader, chunks[chunk], scratch).map(Some);
            operation.fetch_each(run, chunks.len(), &request, &|chunk, opened, scratch| {
                self.chunk(reader, chunks[chunk], opened, scratch);
                for &(_, read, _) in chunks[chunk] {
                    if self.states[read].chunks.fetch_sub(1, Ordering::AcqRel) == 1 {
                        (self.on_end)(read, self.states[read].result());
                    }
                }
                Ok(())
            })
        });
        let Err(error) = result else { return };
        for (read, state) in self.states.iter().enumerate() {
            if state.chunks.load(Ordering::Acquire) > 0 {
                state.fail(error.clone());
                (self.on_end)(read, state.result());
            }
        }
    }

    /// Return the touched chunks, sorted by cell, with every read that touches them.
    fn touches(&self) -> Vec<Touch> {
        let mut touches = Vec::new();
        let mut cell = PerAxis::new();
        for (read, division) in self.divisions.iter().enumerate() {
            let Some(division) = division else { continue };
            self.states[read].chunks.store(division.tasks(), Ordering::Release);
            touches.extend((0..division.tasks()).map(|task| {
                division.find_cell(task, &mut cell);
                (cell.clone(), read, task)
            }));
        }
        touches.sort_unstable();
        touches
    }

    /// Return the share of the chunk cache for the touched chunks.
    fn cache_share(&self, touches: &[Touch]) -> Option<CacheShare<'_>> {
        let chunks = touches.chunk_by(|left, next| left.0 == next.0).count();
        // The read reports the error.
        self.operation.cache_share(&touches.first()?.0, chunks).unwrap_or(None)
    }

    /// Run `work` with the cell of a chunk and its reads, each with the target of its number.
    fn with<'t, R>(
        &self,
        touches: &[Touch],
        target: impl Fn(usize) -> &'t Target<'t>,
        work: impl FnOnce(&[u64], &[ChunkRead<'_, '_>]) -> R,
    ) -> R {
        let mut cell = PerAxis::new();
        let piece = |&(_, read, task): &Touch| {
            let division = self.divisions[read].as_ref()?;
            Some(division.task(task, &mut cell))
        };
        let pieces: SmallVec<[Piece<'_>; 2]> = touches.iter().filter_map(piece).collect();
        let items: SmallVec<[ChunkRead<'_, '_>; 2]> =
            pieces.iter().enumerate().map(|(n, piece)| ChunkRead { target: target(n), piece }).collect();
        work(&cell, &items)
    }

    /// Return the request for one chunk.
    fn request(&self, reader: &Reader<'_>, touches: &[Touch], scratch: &mut Scratch) -> Result<Request> {
        self.with(
            touches,
            |n| &self.targets[touches[n].1],
            |cell, items| {
                with_reads(reader, cell, items, scratch, |key, reads, _| {
                    Ok((key.to_owned(), reader.read_hint(key, reads)))
                })
            },
        )
    }

    /// Perform the reads of one chunk, which may be open already. An error that concerns some reads
    /// fails only these.
    fn chunk(
        &self,
        reader: &Reader<'_>,
        touches: &[Touch],
        opened: Option<OpenResult>,
        scratch: &mut Scratch,
    ) {
        let failures: SmallVec<[Failure; 2]> = touches.iter().map(|_| Failure::default()).collect();
        let with_failure = |(touch, failure): (&Touch, _)| self.targets[touch.1].with_failure(failure);
        let targets: SmallVec<[Target<'_>; 2]> = touches.iter().zip(&failures).map(with_failure).collect();
        let states = || touches.iter().map(|touch| &self.states[touch.1]);
        let result = self.with(
            touches,
            |n| &targets[n],
            |cell, items| {
                with_reads(reader, cell, items, scratch, |key, reads, scratch| {
                    reader.read_chunk(key, opened, reads, scratch)?;
                    for (state, failure) in states().zip(&failures) {
                        failure
                            .take()
                            .into_iter()
                            .for_each(|error| state.fail(error.at_key(key).at_chunk(cell)));
                    }
                    Ok(())
                })
            },
        );
        if let Err(error) = result {
            states().for_each(|state| state.fail(error.clone()));
        }
    }
}

/// Run `work` with the key of the chunk at `cell`, and with its reads.
fn with_reads<R>(
    reader: &Reader<'_>,
    cell: &[u64],
    items: &[ChunkRead<'_, '_>],
    scratch: &mut Scratch,
    work: impl FnOnce(&str, &ChunkReads<'_, '_>, &mut Scratch) -> Result<R>,
) -> Result<R> {
    reader.operation.with_chunk(cell, scratch, |key, level, origin, scratch| {
        work(key, &ChunkReads::new(level, origin, items), scratch)
    })
}
