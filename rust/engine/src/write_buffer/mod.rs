//! Elements that are kept aside until they are stored: what was written in a transaction.
//!
//! For every chunk, or subchunk of a shard, that was written to there is a *leaf*: the decoded
//! chunk, and which elements of it are new. Nothing is read in order to write a part of a chunk;
//! reads put what is stored and what is kept together; and in the end each chunk or shard is
//! changed once, by the same code as any write, so that what others wrote to the rest of it
//! meanwhile stays.

mod chunk;
mod chunk_memory;
mod mask;
mod node;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::array::{Array, PerAxis};
use crate::error::{Error, Kind, Result};
use crate::pipeline::operation::{Address, Operation, Run};
use crate::read::{self, Reader};
use crate::scratch::Scratch;
use crate::selection::Selection;
use crate::store::{fork, StagedStore, Wait};
use crate::vlen::Arena;
use crate::write::{self, Writer};
use chunk::Target;
use node::{Covered, Pad};

/// What was written to an array, and is not stored yet.
pub struct Overlay {
    shelf: Mutex<Shelf>,
}

#[derive(Default)]
struct Shelf {
    chunks: BTreeMap<PerAxis<u64>, Arc<Kept>>,
    /// Where the array ends, along axes of which somebody has said so.
    ends: PerAxis<Option<u64>>,
    /// Nothing more is taken.
    closed: bool,
}

/// Whether a chunk lies outside of `ends` altogether.
fn is_outside(ends: &[Option<u64>], array: &Array, cell: &[u64]) -> bool {
    let mut starts = array.cuts.iter().zip(cell).map(|(cuts, &cell)| cuts.bounds(cell).0);
    ends.iter().any(|end| starts.next().zip(*end).is_some_and(|(start, end)| start >= end))
}

/// What is kept of one chunk.
#[derive(Default)]
struct Kept {
    state: Mutex<State>,
}

#[derive(Default)]
enum State {
    /// Nothing yet.
    #[default]
    Empty,
    Some(Pad),
    /// It is being stored, in a process of so many forks.
    Leaves(u64),
    /// It is stored, and not on the shelf any more.
    Gone,
}

impl Kept {
    /// Do `work` with what is kept, at once: it waits for nobody, and no fork comes between.
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let _gate = fork::gate();
        let mut state = lock(&self.state);
        work(&mut state)
    }

    /// Do `work` with what is kept as soon as nobody stores it, and once.
    fn once_there<T>(&self, mut work: impl FnMut(&mut State) -> Result<T>) -> Result<T> {
        let mut wait = Wait::unlimited();
        loop {
            let done = self.with(|state| match *state {
                State::Leaves(generation) => Err(generation),
                _ => Ok(work(state)),
            });
            match done {
                Ok(done) => return done,
                Err(generation) if generation == fork::generation() => wait.step()?,
                Err(_) => return Err(Error::new(Kind::Argument, FORKED)),
            }
        }
    }
}

/// Nobody here knows how that ended.
const FORKED: &str = "it was being stored by another thread when this process was forked";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for Overlay {
    /// Nothing yet.
    fn default() -> Self {
        fork::register();
        Overlay { shelf: Mutex::default() }
    }
}

impl Overlay {
    fn with<T>(&self, work: impl FnOnce(&mut Shelf) -> T) -> T {
        let _gate = fork::gate();
        let mut shelf = lock(&self.shelf);
        work(&mut shelf)
    }

    /// Whether there is nothing to be stored.
    pub fn is_empty(&self) -> bool {
        self.with(|shelf| shelf.chunks.is_empty())
    }

    /// How many bytes of elements are kept, as chunks of which parts are kept are whole ones.
    pub fn bytes(&self) -> usize {
        let chunks: Vec<Arc<Kept>> = self.with(|shelf| shelf.chunks.values().cloned().collect());
        let bytes = |state: &mut State| match state {
            State::Some(pad) => pad.bytes(),
            State::Empty | State::Leaves(_) | State::Gone => 0,
        };
        chunks.iter().map(|kept| kept.with(bytes)).sum()
    }

    /// Refuse what is written from now on.
    pub fn close(&self) {
        self.with(|shelf| shelf.closed = true);
    }

    /// Forget everything.
    pub fn clear(&self) {
        drop(self.with(|shelf| std::mem::take(&mut shelf.chunks)));
    }

    /// Have `array` end there, along axes where that is said: chunks that lie outside altogether are forgotten,
    /// and not taken of who has begun to write before.
    pub fn trim(&self, array: &Array, ends: &[Option<u64>]) {
        let ends = self.with(|shelf| {
            shelf.ends.resize(array.cuts.len(), None);
            for (end, new) in shelf.ends.iter_mut().zip(ends) {
                *end = new.or(*end);
            }
            shelf.ends.clone()
        });
        self.forget(|cell| is_outside(&ends, array, cell));
    }

    /// Forget where the array ends: what is there is somebody else's to say.
    pub fn unbound(&self) {
        self.with(|shelf| shelf.ends.clear());
    }

    fn forget(&self, unwanted: impl Fn(&[u64]) -> bool) {
        for (cell, kept) in self.some(unwanted) {
            self.remove(&cell, &kept);
        }
    }

    fn some(&self, wanted: impl Fn(&[u64]) -> bool) -> Vec<(PerAxis<u64>, Arc<Kept>)> {
        let copied = |(cell, kept): (&PerAxis<u64>, &Arc<Kept>)| (cell.clone(), kept.clone());
        let mut found: Vec<_> = self.with(|shelf| shelf.chunks.iter().map(copied).collect());
        found.retain(|(cell, _)| wanted(cell)); // perhaps Python is asked
        found
    }

    fn remove(&self, cell: &[u64], kept: &Arc<Kept>) {
        self.with(|shelf| {
            if shelf.chunks.get(cell).is_some_and(|found| Arc::ptr_eq(found, kept)) {
                shelf.chunks.remove(cell);
            }
        });
    }

    fn find(&self, cell: &[u64]) -> Option<Arc<Kept>> {
        self.with(|shelf| shelf.chunks.get(cell).cloned())
    }

    /// None: there is no such chunk any more.
    fn find_or_make(&self, array: &Array, cell: &[u64]) -> Result<Option<Arc<Kept>>> {
        self.with(|shelf| {
            if shelf.closed {
                return Err(Error::new(Kind::Argument, "the transaction is over"));
            }
            if let Some(kept) = shelf.chunks.get(cell) {
                return Ok(Some(kept.clone()));
            }
            if is_outside(&shelf.ends, array, cell) {
                return Ok(None);
            }
            let kept = Arc::<Kept>::default();
            shelf.chunks.insert(cell.into(), kept.clone());
            Ok(Some(kept))
        })
    }
}

/// Write `selection` from the buffer at `value` to `overlay`.
///
/// # Safety
/// As for [`write::write`].
///
/// # Errors
/// If there is no memory, or the overlay is closed.
pub unsafe fn write(
    operation: Operation<'_>,
    overlay: &Overlay,
    selection: &Selection,
    value: *const u8,
) -> Result<()> {
    write::check_writable(operation)?;
    let value = Address(value.cast_mut());
    operation.each_chunk(selection, 0, &|chunk, _| {
        let put = |state: &mut State| {
            if let State::Empty = state {
                *state = State::Some(Pad::of(chunk.portion.level));
            }
            let State::Some(pad) = state else { return Ok(false) };
            // SAFETY: the caller's promise.
            unsafe { pad.put(&chunk.portion, value, operation.array, chunk.spread) }.map(|()| true)
        };
        while let Some(kept) = overlay.find_or_make(operation.array, chunk.cell)? {
            if kept.once_there(put)? {
                break;
            }
        }
        Ok(())
    })
}

/// Read `selection` into the buffer at `out`: what `overlay` keeps, and where that has nothing,
/// what is stored.
///
/// # Safety
/// As for [`crate::read::read`].
///
/// # Errors
/// As there.
pub unsafe fn read(
    operation: Operation<'_>,
    overlay: &Overlay,
    selection: &Selection,
    out: *mut u8,
) -> Result<Arena> {
    let (out, arena) = (Address(out), Arena::default());
    operation.each_chunk(selection, operation.store.concurrency(), &|chunk, scratch| {
        let reader = Reader::new(operation, chunk.spread);
        let found = &read::Target::new(out, &arena);
        let target = &Target { out, arena: &arena };
        // Whether it is all now; None: it was stored. What the store has may have been read before.
        let give = |state: &mut State, has_rest: bool, scratch: &mut Scratch| match state {
            State::Some(pad) => {
                let covered = if has_rest { Covered::All } else { pad.covers(&chunk.portion)? };
                if let Covered::Some(_) = covered {
                    return Ok(Some(covered));
                }
                // SAFETY: the caller's promise.
                unsafe { pad.read(&chunk.portion, target, chunk.spread, scratch) }.map(|()| Some(covered))
            }
            State::Empty if has_rest => Ok(Some(Covered::All)),
            State::Empty => Ok(Some(Covered::Some(Vec::new()))),
            State::Leaves(_) | State::Gone => Ok(None),
        };
        loop {
            let Some(kept) = overlay.find(chunk.cell) else {
                return reader.chunk(chunk, found, scratch);
            };
            let covered = match kept.once_there(|state| give(state, false, scratch))? {
                Some(Covered::All) => return Ok(()),
                Some(Covered::Some(covered)) => covered,
                None => continue,
            };
            // Nobody who writes waits for what is read.
            reader.without(chunk.portion.level, &covered).chunk(chunk, found, scratch)?;
            // It may be from before it was stored.
            if kept.once_there(|state| give(state, true, scratch))?.is_some() {
                return Ok(());
            }
        }
    })?;
    Ok(arena)
}

/// Keys that are not below the first, but below the last, unless that is empty.
#[derive(Clone, Copy, Default)]
pub struct Keys<'a> {
    /// The first.
    pub first: &'a [u8],
    /// The last, which is not among them.
    pub last: &'a [u8],
    /// What overwrites all of them.
    pub over: Option<&'a StagedStore>,
}

impl Keys<'_> {
    /// Whether the key of a chunk is one of them.
    fn contain(self, operation: Operation<'_>, cell: &[u64]) -> Result<bool> {
        if self.first.is_empty() && self.last.is_empty() && self.over.is_none() {
            return Ok(true);
        }
        let mut key = String::new();
        operation.array.format_key(operation.prefix, cell, &mut key)?;
        let between = self.first <= key.as_bytes() && (self.last.is_empty() || key.as_bytes() < self.last);
        Ok(between && self.over.is_none_or(|stage| stage.overwrites(&key)))
    }
}

/// Forget what `overlay` keeps of chunks with such keys.
pub fn forget(operation: Operation<'_>, overlay: &Overlay, keys: Keys<'_>) {
    overlay.forget(|cell| keys.contain(operation, cell).unwrap_or(false));
}

/// Store what `overlay` keeps of chunks with such keys; it is not kept any more then,
/// unless it `stays`. Who reads or writes one of the chunks meanwhile waits until it is stored.
///
/// # Errors
/// As for [`write::write`].
pub fn store(operation: Operation<'_>, overlay: &Overlay, keys: Keys<'_>, stays: bool) -> Result<()> {
    // Where it has no key, that is told below.
    let chunks = overlay.some(|cell| keys.contain(operation, cell).unwrap_or(true));
    let Some((first, _)) = chunks.first() else { return Ok(()) };
    let bytes = operation.with_chunk(first, &mut String::new(), |_, level, _| Ok(level.decoded_bytes))?;
    let run = Run::decide(chunks.len(), bytes, operation.store.write_concurrency());
    let spread = operation.spreads(chunks.len());
    operation.each(run, chunks.len(), &|task, scratch| {
        let (cell, kept) = &chunks[task];
        let take = |state: &mut State| match std::mem::replace(state, State::Leaves(fork::generation())) {
            State::Some(pad) => Ok(Some(pad)),
            other => {
                *state = other;
                Ok(None)
            }
        };
        let Some(mut pad) = kept.once_there(take)? else { return Ok(()) };
        let mut key = std::mem::take(&mut scratch.key);
        let done = operation.with_chunk(cell, &mut key, |key, level, origin| {
            pad.store(key, level, origin, &Writer::new(operation, spread), stays, scratch)
        });
        scratch.key = key;
        if stays || done.is_err() {
            kept.with(|state| *state = State::Some(pad));
        } else {
            overlay.remove(cell, kept);
            kept.with(|state| *state = State::Gone);
        }
        done
    })
}
