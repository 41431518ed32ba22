//! Write buffers: written elements until they are stored.
//!
//! A transaction has a buffer for each array ([`write`], [`read`], [`store`]), and so has a block of
//! buffered writes ([`scope`], [`array_buffers`]).
//!
//! Each written chunk or subchunk has a *node*: the decoded chunk, and a mask of its written
//! elements. Writing a part of a chunk reads nothing; reads combine stored and buffered elements. A
//! commit updates each chunk or shard once, by the same code as any write, so that it does not undo
//! concurrent writes to the chunk.

pub mod array_buffers;
mod buffered_array;
mod buffered_chunk;
mod chunk;
pub mod commit;
mod eviction;
mod failures;
mod mask;
mod memory;
mod node;
pub mod scope;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::array::{Array, PerAxis};
use crate::error::{Error, Result};
use crate::pipeline::operation::{BufferPtr, Chunk, Operation, Requests};
use crate::pool;
use crate::read::{self, Reader};
use crate::scratch::Scratch;
use crate::selection::Selection;
use crate::store::{fork, StagedStore};
use crate::vlen::Arena;
use crate::write::{self, Writer};
use buffered_chunk::{BufferedChunk, ChargedNode, State};
use chunk::Target;
use memory::BufferMemory;
use node::{Coverage, Node};

/// The written elements of an array that are not yet stored.
pub struct WriteBuffer {
    buffered: Mutex<BufferedChunks>,
    memory: Arc<BufferMemory>,
}

#[derive(Default)]
struct BufferedChunks {
    chunks: BTreeMap<PerAxis<u64>, Arc<BufferedChunk>>,
    /// The end of the array along each axis, if the transaction has changed it.
    ends: PerAxis<Option<u64>>,
    /// Writes are rejected.
    is_closed: bool,
    /// The buffer takes no more elements, and each write stores the chunk that it touches.
    is_draining: bool,
}

/// Return whether a chunk lies completely outside `ends`.
fn is_outside(ends: &[Option<u64>], array: &Array, cell: &[u64]) -> bool {
    let mut starts = array.dim_grids.iter().zip(cell).map(|(dim_grids, &cell)| dim_grids.bounds(cell).0);
    ends.iter().any(|end| starts.next().zip(*end).is_some_and(|(start, end)| start >= end))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for WriteBuffer {
    /// Return an empty buffer.
    fn default() -> Self {
        WriteBuffer::new(Arc::new(BufferMemory::new(usize::MAX)))
    }
}

/// The outcome of an attempt to buffer elements.
enum PutOutcome {
    Done,
    /// Another thread has stored the chunk: try again.
    Stored,
    /// The memory is full, and the chunk has no elements yet.
    Rejected,
    /// The memory is full for other elements of the chunk.
    Full,
}

impl WriteBuffer {
    fn new(memory: Arc<BufferMemory>) -> Self {
        fork::register();
        WriteBuffer { buffered: Mutex::default(), memory }
    }

    fn with<T>(&self, work: impl FnOnce(&mut BufferedChunks) -> T) -> T {
        let _gate = fork::gate();
        let mut buffered = lock(&self.buffered);
        work(&mut buffered)
    }

    /// Return whether the buffer is empty.
    pub fn is_empty(&self) -> bool {
        self.with(|buffered| buffered.chunks.is_empty())
    }

    /// Return the number of buffered bytes; partly written chunks count completely.
    pub fn bytes(&self) -> usize {
        let chunks: Vec<Arc<BufferedChunk>> =
            self.with(|buffered| buffered.chunks.values().cloned().collect());
        let bytes = |state: &mut State| match state {
            State::Some(charged) => charged.node.bytes(),
            State::Empty | State::Storing(..) | State::Stored => 0,
        };
        chunks.iter().map(|chunk_buffer| chunk_buffer.with(bytes)).sum()
    }

    /// Reject later writes.
    pub fn close(&self) {
        self.with(|buffered| buffered.is_closed = true);
    }

    /// Discard everything.
    pub fn clear(&self) {
        drop(self.with(|buffered| std::mem::take(&mut buffered.chunks)));
    }

    /// Set the end of `array` along some axes. This discards chunks that lie completely outside,
    /// and rejects writes to them, also those already started.
    pub fn trim(&self, array: &Array, ends: &[Option<u64>]) {
        let ends = self.with(|buffered| {
            buffered.ends.resize(array.dim_grids.len(), None);
            for (end, new) in buffered.ends.iter_mut().zip(ends) {
                *end = new.or(*end);
            }
            buffered.ends.clone()
        });
        self.discard(|cell| is_outside(&ends, array, cell));
    }

    /// Forget the end of the array, which other writers may have changed.
    pub fn clear_ends(&self) {
        self.with(|buffered| buffered.ends.clear());
    }

    fn discard(&self, condition: impl Fn(&[u64]) -> bool) {
        for (cell, chunk_buffer) in self.matching(condition) {
            self.remove(&cell, &chunk_buffer);
        }
    }

    /// Discard everything. Writes that already run start again.
    fn discard_all(&self) -> Result<()> {
        for (cell, chunk_buffer) in self.matching(|_| true) {
            let old = chunk_buffer.when_not_storing(|state| Ok(std::mem::replace(state, State::Stored)))?;
            drop(old);
            self.remove(&cell, &chunk_buffer);
        }
        Ok(())
    }

    /// Take no more elements: a write to a chunk in the buffer stores the chunk first.
    fn drain(&self) {
        self.with(|buffered| buffered.is_draining = true);
    }

    fn is_draining(&self) -> bool {
        self.with(|buffered| buffered.is_draining)
    }

    fn matching(&self, condition: impl Fn(&[u64]) -> bool) -> Vec<(PerAxis<u64>, Arc<BufferedChunk>)> {
        let cloned =
            |(cell, chunk_buffer): (&PerAxis<u64>, &Arc<BufferedChunk>)| (cell.clone(), chunk_buffer.clone());
        let mut matches: Vec<_> = self.with(|buffered| buffered.chunks.iter().map(cloned).collect());
        matches.retain(|(cell, _)| condition(cell)); // the condition may call Python
        matches
    }

    fn remove(&self, cell: &[u64], chunk_buffer: &Arc<BufferedChunk>) {
        self.with(|buffered| {
            if buffered.chunks.get(cell).is_some_and(|matches| Arc::ptr_eq(matches, chunk_buffer)) {
                buffered.chunks.remove(cell);
            }
        });
    }

    fn find(&self, cell: &[u64]) -> Option<Arc<BufferedChunk>> {
        self.with(|buffered| buffered.chunks.get(cell).cloned())
    }

    /// Return the chunk that takes elements, which is created if it is missing.
    fn find_or_create(&self, array: &Array, cell: &[u64]) -> Result<Receiver> {
        self.with(|buffered| {
            if buffered.is_closed {
                return Err(Error::argument("the transaction is over"));
            }
            match buffered.chunks.get(cell) {
                Some(chunk_buffer) if buffered.is_draining => {
                    return Ok(Receiver::Draining(chunk_buffer.clone()))
                }
                Some(chunk_buffer) => return Ok(Receiver::Chunk(chunk_buffer.clone())),
                None if buffered.is_draining || is_outside(&buffered.ends, array, cell) => {
                    return Ok(Receiver::None)
                }
                None => {}
            }
            let chunk_buffer = Arc::<BufferedChunk>::default();
            buffered.chunks.insert(cell.into(), chunk_buffer.clone());
            Ok(Receiver::Chunk(chunk_buffer))
        })
    }
}

/// What takes the elements of a chunk.
enum Receiver {
    Chunk(Arc<BufferedChunk>),
    /// The store, after it has received this chunk.
    Draining(Arc<BufferedChunk>),
    /// Not the buffer: it takes no more chunks, or the resized array no longer has this one.
    None,
}

/// The result of [`WriteBuffer::put`].
enum PutResult {
    Done,
    /// The buffer does not take the chunk.
    Rejected,
    /// This chunk must be stored before another attempt.
    StoreFirst(Arc<BufferedChunk>),
}

impl WriteBuffer {
    /// Buffer the caller's elements of a chunk.
    ///
    /// # Safety
    /// As for [`write::write`], for the elements of the chunk.
    unsafe fn put(&self, array: &Array, chunk: &Chunk<'_, '_>, value: BufferPtr) -> Result<PutResult> {
        loop {
            let chunk_buffer = match self.find_or_create(array, chunk.cell)? {
                Receiver::Chunk(chunk_buffer) => chunk_buffer,
                Receiver::Draining(chunk_buffer) => return Ok(PutResult::StoreFirst(chunk_buffer)),
                Receiver::None => return Ok(PutResult::Rejected),
            };
            chunk_buffer.set_last_write(self.memory.next_write());
            let put = |state: &mut State| {
                // SAFETY: guaranteed by the caller.
                unsafe { self.put_state(array, chunk, value, state) }
            };
            match chunk_buffer.when_not_storing(put)? {
                PutOutcome::Done => return Ok(PutResult::Done),
                PutOutcome::Stored => self.remove(chunk.cell, &chunk_buffer),
                PutOutcome::Rejected => {
                    self.remove(chunk.cell, &chunk_buffer);
                    return Ok(PutResult::Rejected);
                }
                PutOutcome::Full => return Ok(PutResult::StoreFirst(chunk_buffer)),
            }
        }
    }

    /// # Safety
    /// As for [`write::write`], for the elements of the chunk.
    unsafe fn put_state(
        &self,
        array: &Array,
        chunk: &Chunk<'_, '_>,
        value: BufferPtr,
        state: &mut State,
    ) -> Result<PutOutcome> {
        let portion = &chunk.portion;
        if let State::Storing(..) | State::Stored = state {
            return Ok(PutOutcome::Stored);
        }
        let is_tight = !self.memory.has_room(portion.level.decoded_bytes);
        if is_tight && !self.memory.has_room(Node::missing_bytes(state.node(), portion)?) {
            if let State::Empty = state {
                *state = State::Stored;
                return Ok(PutOutcome::Rejected);
            }
            return Ok(PutOutcome::Full);
        }
        if let State::Empty = state {
            *state = State::Some(ChargedNode::new(portion.level, &self.memory));
        }
        let State::Some(ChargedNode { node, charge }) = state else { return Ok(PutOutcome::Stored) };
        // SAFETY: guaranteed by the caller.
        unsafe { node.put(portion, value, array, chunk.spread, charge) }?;
        Ok(PutOutcome::Done)
    }

    /// Store a chunk, after which it leaves the buffer, unless it `stays`.
    fn store_chunk(
        &self,
        operation: Operation<'_>,
        cell: &[u64],
        chunk_buffer: &Arc<BufferedChunk>,
        spread: bool,
        stays: bool,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let Some(charged) = chunk_buffer.when_not_storing(|state| Ok(state.start_storing()))? else {
            self.remove(cell, chunk_buffer);
            return Ok(());
        };
        // The node is restored even if the write panics.
        let result = pool::guarded(|| {
            operation.with_chunk(cell, scratch, |key, level, origin, scratch| {
                charged.node.store(key, level, origin, &Writer::new(operation, spread), scratch)
            })
        });
        chunk_buffer.set_failed(result.is_err());
        if stays || result.is_err() {
            chunk_buffer.with(|state| *state = State::Some(charged));
        } else {
            self.remove(cell, chunk_buffer);
            chunk_buffer.with(|state| *state = State::Stored);
        }
        result
    }

    /// Store chunks, as `store_chunk` does. `handle` receives each error; an error that it returns
    /// ends the work.
    fn store_chunks(
        &self,
        operation: Operation<'_>,
        chunks: &[(PerAxis<u64>, Arc<BufferedChunk>)],
        stays: bool,
        handle: &(dyn Fn(Error) -> Result<()> + Sync),
    ) -> Result<()> {
        let Some((first, _)) = chunks.first() else { return Ok(()) };
        let run = operation.run(first, chunks.len(), Requests::Writes)?;
        let spread = operation.shares_workers(chunks.len());
        operation.each(run, chunks.len(), &|task, scratch| {
            let (cell, chunk_buffer) = &chunks[task];
            self.store_chunk(operation, cell, chunk_buffer, spread, stays, scratch).or_else(handle)
        })
    }
}

/// Write `selection` from the buffer at `value` to the write buffer.
///
/// # Safety
/// As for [`write::write`].
///
/// # Errors
/// If memory is exhausted, or the write buffer is closed.
pub unsafe fn write(
    operation: Operation<'_>,
    buffer: &WriteBuffer,
    selection: &Selection,
    value: *const u8,
) -> Result<()> {
    write::check_writable(operation)?;
    let value = BufferPtr(value.cast_mut());
    operation.each_chunk(selection, Requests::None, &|chunk, _| {
        // SAFETY: guaranteed by the caller.
        match unsafe { buffer.put(operation.array, chunk, value) }? {
            // A chunk outside the resized array takes no elements.
            PutResult::Done | PutResult::Rejected => Ok(()),
            PutResult::StoreFirst(_) => Err(Error::internal("the memory of a transaction is limited")),
        }
    })
}

/// Read `selection` into the buffer at `out`: elements in one of `buffers`, and stored ones where
/// none are buffered.
///
/// # Safety
/// As for [`crate::read::read`].
///
/// # Errors
/// As for [`crate::read::read`].
pub unsafe fn read(
    operation: Operation<'_>,
    buffers: &[&WriteBuffer],
    selection: &Selection,
    out: *mut u8,
) -> Result<Arena> {
    let (out, arena) = (BufferPtr(out), Arena::default());
    operation.each_chunk(selection, Requests::Reads, &|chunk, scratch| {
        let reader = Reader::of_chunk(operation, chunk);
        let matches = &read::Target::new(out, &arena);
        let target = &Target { out, arena: &arena };
        // Deliver the buffered elements, and return whether that was everything. None: another
        // thread stored the chunk, so that an earlier read of the store may be outdated.
        let deliver = |state: &mut State, rest_is_delivered: bool, scratch: &mut Scratch| match state {
            State::Some(ChargedNode { node, charge }) => {
                let coverage = if rest_is_delivered { Coverage::All } else { node.covers(&chunk.portion)? };
                if let Coverage::Some(_) = coverage {
                    return Ok(Some(coverage));
                }
                // SAFETY: guaranteed by the caller.
                unsafe { node.read(&chunk.portion, target, charge, chunk.spread, scratch) }
                    .map(|()| Some(coverage))
            }
            State::Empty if rest_is_delivered => Ok(Some(Coverage::All)),
            State::Empty => Ok(Some(Coverage::Some(Vec::new()))),
            State::Storing(..) | State::Stored => Ok(None),
        };
        loop {
            let mut found = buffers.iter().filter_map(|buffer| Some((buffer, buffer.find(chunk.cell)?)));
            let Some((buffer, chunk_buffer)) = found.next() else {
                return reader.chunk(chunk, matches, scratch);
            };
            let coverage = match chunk_buffer.when_not_storing(|state| deliver(state, false, scratch))? {
                Some(Coverage::All) => return Ok(()),
                Some(Coverage::Some(coverage)) => coverage,
                None => {
                    buffer.remove(chunk.cell, &chunk_buffer);
                    continue;
                }
            };
            // Writers do not wait for this read.
            reader.skipping(chunk.portion.level, &coverage).chunk(chunk, matches, scratch)?;
            // The read may predate a write of the chunk to the store.
            if chunk_buffer.when_not_storing(|state| deliver(state, true, scratch))?.is_some() {
                return Ok(());
            }
        }
    })?;
    Ok(arena)
}

/// The keys from `first` up to, but not including, `last`, which has no effect if it is empty.
#[derive(Clone, Copy, Default)]
pub struct KeyInterval<'a> {
    /// The first key.
    pub first: &'a [u8],
    /// The key after the last one.
    pub last: &'a [u8],
    /// Only keys that these staged changes overwrite.
    pub overwriting: Option<&'a StagedStore>,
}

impl KeyInterval<'_> {
    /// Return whether the key of a chunk is in the interval.
    fn contains(self, operation: Operation<'_>, cell: &[u64]) -> Result<bool> {
        if self.first.is_empty() && self.last.is_empty() && self.overwriting.is_none() {
            return Ok(true);
        }
        let mut key = String::new();
        operation.array.format_key(operation.prefix, cell, &mut key)?;
        let is_inside = self.first <= key.as_bytes() && (self.last.is_empty() || key.as_bytes() < self.last);
        Ok(is_inside && self.overwriting.is_none_or(|stage| stage.overwrites(&key)))
    }
}

/// Discard the buffered chunks with keys in the interval.
pub fn discard(operation: Operation<'_>, buffer: &WriteBuffer, keys: KeyInterval<'_>) {
    buffer.discard(|cell| keys.contains(operation, cell).unwrap_or(false));
}

/// Store the buffered chunks with keys in the interval. They leave the buffer, unless it `stays`.
/// Reads and writes of these chunks wait until then.
///
/// # Errors
/// As for [`write::write`].
pub fn store(
    operation: Operation<'_>,
    buffer: &WriteBuffer,
    keys: KeyInterval<'_>,
    stays: bool,
) -> Result<()> {
    // A chunk without a key fails below.
    let chunks = buffer.matching(|cell| keys.contains(operation, cell).unwrap_or(true));
    buffer.store_chunks(operation, &chunks, stays, &Err)
}
