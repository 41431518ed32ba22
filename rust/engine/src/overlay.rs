//! Elements that are kept aside until they are stored: what was written in a transaction.
//!
//! For every chunk, or subchunk of a shard, that was written to there is a *leaf*: the decoded
//! chunk, and which elements of it are new. Nothing is read in order to write a part of a chunk;
//! reads put what is stored and what is kept together; and in the end each chunk or shard is
//! changed once, by the same code as any write, so that what others wrote to the rest of it
//! meanwhile stays. What was read of a chunk that parts are kept of is remembered, so that it need
//! not be read again then.

mod leaf;
mod written;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::array::{Array, Body, Level, PerAxis, Shard};
use crate::error::{Error, Kind, Result};
use crate::operation::{origin_of, Address, Operation, Portion, Run};
use crate::pool;
use crate::read::{self, Reader};
use crate::scratch::Scratch;
use crate::selection::Selection;
use crate::store::{fork, CachePool, CachedStore, Fresh, Store, Wait};
use crate::vlen::Arena;
use crate::write::{self, New, Parts, Touched, Work, Writer};
use leaf::{Leaf, Target};

/// What was written to an array, and is not stored yet.
pub struct Overlay {
    shelf: Mutex<Shelf>,
    memory: CachePool,
}

/// So many bytes are remembered of what was read of chunks that parts are kept of.
const REMEMBERED: u64 = 1 << 28;

/// An overlay above a store.
pub struct Above {
    /// What is kept.
    pub overlay: Arc<Overlay>,
    /// The store, remembering.
    store: CachedStore,
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
    /// Whether what the store has of it was read.
    read: AtomicBool,
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
        let mut wait = Wait::forever();
        loop {
            let done = self.with(|state| match *state {
                State::Leaves(generation) => Err(generation),
                _ => Ok(work(state)),
            });
            match done {
                Ok(done) => return done,
                Err(generation) if generation == fork::generation() => wait.a_little()?,
                Err(_) => return Err(Error::new(Kind::Argument, FORKED)),
            }
        }
    }
}

/// Nobody here knows how that ended.
const FORKED: &str = "it was being stored by another thread when this process was forked";

/// What is kept of a chunk, shard or subchunk.
enum Pad {
    Leaf(Leaf),
    /// By their numbers in the index of the shard, with their places.
    Shard(BTreeMap<usize, (PerAxis<u64>, Pad)>),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for Overlay {
    /// Nothing yet.
    fn default() -> Self {
        fork::register();
        Overlay { shelf: Mutex::default(), memory: CachePool::new(REMEMBERED) }
    }
}

impl Overlay {
    /// The overlay above `store`, or another way to ask the same one.
    pub fn above(self: &Arc<Self>, store: Arc<dyn Store>) -> Above {
        Above { overlay: self.clone(), store: self.memory.store(store, 0, Fresh::Now) }
    }

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
        self.memory.clear();
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

/// Read `selection` into the buffer at `out`: what the overlay `above` the store keeps, and where
/// that has nothing, what is stored.
///
/// # Safety
/// As for [`crate::read::read`].
///
/// # Errors
/// As there.
pub unsafe fn read(
    operation: Operation<'_>,
    above: &Above,
    selection: &Selection,
    out: *mut u8,
) -> Result<Arena> {
    let (out, arena) = (Address(out), Arena::default());
    operation.each_chunk(selection, operation.store.concurrency(), &|chunk, scratch| {
        let reader = |operation| Reader::new(operation, chunk.spread);
        let found = &read::Target::new(out, &arena);
        let target = &Target { out, arena: &arena };
        // Whether it is all now; None: it was stored. What the store has may have been read before.
        let give = |state: &mut State, has_rest: bool, scratch: &mut Scratch| match state {
            State::Some(pad) if has_rest || pad.covers(&chunk.portion)? => {
                // SAFETY: the caller's promise.
                unsafe { pad.read(&chunk.portion, target, chunk.spread, scratch) }.map(|()| Some(true))
            }
            State::Some(_) | State::Empty => Ok(Some(has_rest)),
            State::Leaves(_) | State::Gone => Ok(None),
        };
        loop {
            let Some(kept) = above.overlay.find(chunk.cell) else {
                return reader(operation).chunk(chunk, found, scratch);
            };
            match kept.once_there(|state| give(state, false, scratch))? {
                Some(true) => return Ok(()),
                Some(false) => {}
                None => continue,
            }
            // Nobody who writes waits for what is read.
            kept.read.store(true, Ordering::Relaxed);
            reader(above.asks(operation)).chunk(chunk, found, scratch)?;
            // It may be from before it was stored.
            if kept.once_there(|state| give(state, true, scratch))?.is_some() {
                return Ok(());
            }
        }
    })?;
    Ok(arena)
}

/// Keys that are not below the first, but below the last, unless that is empty.
#[derive(Clone, Copy)]
pub struct Keys<'a> {
    /// The first.
    pub first: &'a [u8],
    /// The last, which is not among them.
    pub last: &'a [u8],
}

impl Keys<'_> {
    /// Whether the key of a chunk is one of them.
    fn contain(self, operation: Operation<'_>, cell: &[u64]) -> Result<bool> {
        if self.first.is_empty() && self.last.is_empty() {
            return Ok(true);
        }
        let mut key = String::new();
        operation.array.format_key(operation.prefix, cell, &mut key)?;
        Ok(self.first <= key.as_bytes() && (self.last.is_empty() || key.as_bytes() < self.last))
    }
}

/// Forget what the overlay `above` the store keeps of chunks with such keys.
pub fn forget(operation: Operation<'_>, above: &Above, keys: Keys<'_>) {
    above.overlay.forget(|cell| keys.contain(operation, cell).unwrap_or(false));
}

/// Store what the overlay `above` the store keeps of chunks with such keys; it is not kept any more then,
/// unless it `stays`. Who reads or writes one of the chunks meanwhile waits until it is stored.
///
/// # Errors
/// As for [`write::write`].
pub fn store(operation: Operation<'_>, above: &Above, keys: Keys<'_>, stays: bool) -> Result<()> {
    // Where it has no key, that is told below.
    let chunks = above.overlay.some(|cell| keys.contain(operation, cell).unwrap_or(true));
    let Some((first, _)) = chunks.first() else { return Ok(()) };
    let bytes = operation.with_chunk(first, &mut String::new(), |_, level, _| Ok(level.decoded_bytes))?;
    let run = Run::decide(chunks.len(), bytes, operation.store.write_concurrency());
    let spread = operation.spreads(chunks.len());
    run.each(chunks.len(), operation.interrupt, &|task, scratch| {
        let (cell, kept) = &chunks[task];
        let take = |state: &mut State| match std::mem::replace(state, State::Leaves(fork::generation())) {
            State::Some(pad) => Ok(Some(pad)),
            other => {
                *state = other;
                Ok(None)
            }
        };
        let Some(mut pad) = kept.once_there(take)? else { return Ok(()) };
        let was_read = kept.read.load(Ordering::Relaxed);
        let operation = if was_read { above.asks(operation) } else { operation };
        let mut key = std::mem::take(&mut scratch.key);
        let done = operation.with_chunk(cell, &mut key, |key, level, origin| {
            pad.store(key, level, origin, &Writer::new(operation, spread), stays, scratch)
        });
        scratch.key = key;
        if stays || done.is_err() {
            kept.with(|state| *state = State::Some(pad));
        } else {
            above.overlay.remove(cell, kept);
            kept.with(|state| *state = State::Gone);
        }
        done
    })
}

impl Above {
    /// The operation, in the store that remembers.
    fn asks<'a>(&'a self, operation: Operation<'a>) -> Operation<'a> {
        Operation { store: &self.store, ..operation }
    }
}

impl Pad {
    fn of(level: &Level) -> Pad {
        if let Body::Shard(_) = level.body {
            return Pad::Shard(BTreeMap::new());
        }
        Pad::Leaf(Leaf::default())
    }

    /// How many bytes of elements there are.
    fn bytes(&self) -> usize {
        match self {
            Pad::Leaf(leaf) => leaf.bytes(),
            Pad::Shard(kept) => kept.values().map(|(_, pad)| pad.bytes()).sum(),
        }
    }

    /// Keep the elements of `portion`.
    ///
    /// # Safety
    /// As for [`write::write`], for what is selected by the portion.
    unsafe fn put(
        &mut self,
        portion: &Portion<'_, '_>,
        value: Address,
        array: &Array,
        spread: bool,
    ) -> Result<()> {
        let (kept, shard) = match (self, &portion.level.body) {
            // SAFETY: the caller's promise.
            (Pad::Leaf(leaf), _) => return unsafe { leaf.put(portion, value, array) },
            (Pad::Shard(kept), Body::Shard(shard)) => (kept, shard),
            (Pad::Shard(_), _) => return Err(mismatch()),
        };
        for_subchunks(kept, portion, shard, true, spread, &|portion, pad, _| {
            // SAFETY: the caller's promise.
            unsafe { pad.put(portion, value, array, false) }
        })
    }

    /// Store what is kept of a chunk at `key`, which `level` is of. If it `stays`, or cannot be
    /// stored, it is as it was then.
    fn store(
        &mut self,
        key: &str,
        level: &Level,
        origin: &[u64],
        writer: &Writer<'_>,
        stays: bool,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let mut raw = match self {
            Pad::Leaf(leaf) => leaf.take_raw(level, writer.array),
            Pad::Shard(_) => None,
        };
        let new = KeptNew { pad: self, level, origin };
        // What was taken is given back also where something panics.
        let done = pool::guarded(|| match (&mut raw, &*self) {
            (Some(raw), Pad::Leaf(leaf)) => {
                writer.raw_chunk(key, &new, &mut |rest| leaf.completed(raw, level, rest), scratch)
            }
            _ => writer.chunk(key, &new, scratch),
        });
        if let (true, Some(raw), Pad::Leaf(leaf)) = (stays || done.is_err(), raw, self) {
            leaf.give_raw(raw);
        }
        done
    }

    /// Everything that is selected by `portion` is kept here.
    fn covers(&self, portion: &Portion<'_, '_>) -> Result<bool> {
        let (kept, shard) = match (self, &portion.level.body) {
            (Pad::Leaf(leaf), _) => return Ok(leaf.covers(portion)),
            (Pad::Shard(kept), Body::Shard(shard)) => (kept, shard),
            (Pad::Shard(_), _) => return Err(mismatch()),
        };
        let division = portion.divide(&shard.cuts)?;
        let mut cell = PerAxis::new();
        for task in 0..division.tasks() {
            let piece = &division.task(task, &mut cell);
            let Some((_, pad)) = kept.get(&shard.number(&cell)) else { return Ok(false) };
            let origin = &origin_of(portion.origin, &cell, &shard.level.shape);
            if !pad.covers(&Portion { level: &shard.level, piece, origin })? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Every element is kept here.
    fn is_full(&self, level: &Level) -> bool {
        match (self, &level.body) {
            (Pad::Leaf(leaf), _) => leaf.is_full(level),
            (Pad::Shard(kept), Body::Shard(shard)) => {
                kept.len() == shard.entries && kept.values().all(|(_, pad)| pad.is_full(&shard.level))
            }
            (Pad::Shard(_), _) => false,
        }
    }

    /// Put what is kept of `portion` into the caller's buffer.
    ///
    /// # Safety
    /// As for [`crate::read::read`], for what is selected by the portion.
    unsafe fn read(
        &mut self,
        portion: &Portion<'_, '_>,
        target: &Target<'_>,
        spread: bool,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let (kept, shard) = match (self, &portion.level.body) {
            // SAFETY: the caller's promise.
            (Pad::Leaf(leaf), _) => return unsafe { leaf.read(portion, target, scratch) },
            (Pad::Shard(kept), Body::Shard(shard)) => (kept, shard),
            (Pad::Shard(_), _) => return Err(mismatch()),
        };
        for_subchunks(kept, portion, shard, false, spread, &|portion, pad, scratch| {
            // SAFETY: the caller's promise.
            unsafe { pad.read(portion, target, false, scratch) }
        })
    }
}

fn mismatch() -> Error {
    Error::internal("a shard is kept for a chunk that is none")
}

/// Do `work` with each subchunk that `portion` touches, and what is kept of it; with `make` of
/// all of them, else of those of which something is.
fn for_subchunks(
    kept: &mut BTreeMap<usize, (PerAxis<u64>, Pad)>,
    portion: &Portion<'_, '_>,
    shard: &Shard,
    make: bool,
    spread: bool,
    work: &(dyn Fn(&Portion<'_, '_>, &mut Pad, &mut Scratch) -> Result<()> + Sync),
) -> Result<()> {
    let level = &shard.level;
    let division = portion.divide(&shard.cuts)?;
    let mut tasks: Vec<(usize, usize)> = Vec::new();
    let mut cell = PerAxis::new();
    for task in 0..division.tasks() {
        division.task(task, &mut cell);
        let number = shard.number(&cell);
        if make && !kept.contains_key(&number) {
            kept.insert(number, (cell.clone(), Pad::of(level)));
        }
        tasks.push((number, task));
    }
    tasks.sort_unstable();
    let (Some(&(first, _)), Some(&(last, _))) = (tasks.first(), tasks.last()) else { return Ok(()) };
    let mut wanted = tasks.iter().peekable();
    let mut found: Vec<(usize, Mutex<&mut Pad>)> = Vec::new();
    for (number, (_, pad)) in kept.range_mut(first..=last) {
        while wanted.next_if(|(want, _)| want < number).is_some() {}
        if let Some((_, task)) = wanted.next_if(|(want, _)| want == number) {
            found.push((*task, Mutex::new(pad)));
        }
    }
    let run = if spread { Run::decide(found.len(), level.decoded_bytes, 0) } else { Run::Here };
    // Nobody is asked whether to stop: the chunk is held, and the answer may want it.
    run.each(found.len(), None, &|place, scratch| {
        let (task, pad) = &found[place];
        let mut cell = PerAxis::new();
        let piece = &division.task(*task, &mut cell);
        let origin = &origin_of(portion.origin, &cell, &level.shape);
        work(&Portion { level, piece, origin }, &mut lock(pad), scratch)
    })
}

/// What a write makes of a chunk of which something is kept.
struct KeptNew<'a, 'p> {
    pad: &'a Pad,
    level: &'p Level,
    origin: &'p [u64],
}

impl<'a> New<'a> for KeptNew<'a, '_> {
    fn level(&self) -> &Level {
        self.level
    }

    fn origin(&self) -> &[u64] {
        self.origin
    }

    /// Also outside of the array: it may be larger by now than who wrote to it knew.
    fn is_full(&self, _array: &Array) -> bool {
        self.pad.is_full(self.level)
    }

    fn run(&self) -> Option<&'a [u8]> {
        match self.pad {
            Pad::Leaf(leaf) => leaf.whole(self.level),
            Pad::Shard(_) => None,
        }
    }

    fn put(&self, chunk: &mut [u8]) {
        if let Pad::Leaf(leaf) = self.pad {
            leaf.merge(self.level, chunk);
        }
    }

    fn parts<'n>(&'n self, shard: &'n Shard) -> Result<Box<dyn Parts<'a> + 'n>> {
        let Pad::Shard(kept) = self.pad else { return Err(mismatch()) };
        Ok(Box::new(KeptParts { kept: kept.iter().collect(), shard, origin: self.origin }))
    }
}

/// The subchunks of which something is kept.
struct KeptParts<'a, 'n> {
    kept: Vec<(&'a usize, &'a (PerAxis<u64>, Pad))>,
    shard: &'n Shard,
    origin: &'n [u64],
}

impl<'a> Parts<'a> for KeptParts<'a, '_> {
    fn touched(&self) -> Result<Vec<Touched>> {
        Ok(self.kept.iter().enumerate().map(|(task, (&number, _))| Touched { number, task }).collect())
    }

    fn with(&self, task: usize, work: &mut Work<'_, 'a>) -> Result<()> {
        let (_, (cell, pad)) = self.kept[task];
        let level = &self.shard.level;
        let origin = &origin_of(self.origin, cell, &level.shape);
        work(cell, &KeptNew { pad, level, origin })
    }
}
