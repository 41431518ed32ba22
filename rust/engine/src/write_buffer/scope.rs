//! Blocks of buffered writes: arrays collect parts of chunks, and store each chunk once.
//!
//! While a [`BufferScope`] is active, the arrays of its store below its prefix write parts of
//! chunks to write buffers, which share the memory of the scope. Whole chunks go to the store. If
//! the memory is full, the scope stores chunks: complete ones first, then those whose last write
//! is oldest. The end of the scope stores the rest.
//!
//! All objects of an array share its buffer if they use the same store object. An array object
//! with other codecs or another data type stores the buffered chunks before it reads or writes. A
//! forked child neither sees nor stores the elements in the buffers of its parent.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::buffered_chunk::{BufferedChunk, State};
use super::memory::BufferMemory;
use super::node::Node;
use super::{lock, KeyInterval, WriteBuffer};
use crate::array::{Array, PerAxis};
use crate::error::Result;
use crate::grid;
use crate::pipeline::missing_array::ArrayPresence;
use crate::pipeline::operation::{BufferPtr, Chunk, Chunks, Executor, Interrupt, Operation, Requests};
use crate::read;
use crate::scratch::Scratch;
use crate::selection::Selection;
use crate::store::{fork, Store};
use crate::vlen::Arena;
use crate::write;

/// The active scopes in the order of their starts.
static SCOPES: Mutex<Vec<Arc<BufferScope>>> = Mutex::new(Vec::new());

/// The number of active scopes.
static ACTIVE: AtomicUsize = AtomicUsize::new(0);

/// The arrays of a store below a prefix, which buffer parts of chunks.
pub struct BufferScope {
    store: Arc<dyn Store>,
    prefix: Box<str>,
    memory: Arc<BufferMemory>,
    /// The fork generation of the process that started the scope.
    generation: u64,
    arrays: Mutex<ScopeArrays>,
}

#[derive(Default)]
struct ScopeArrays {
    arrays: Vec<Arc<BufferedArray>>,
    /// The scope ends: no array is added.
    is_draining: bool,
}

/// An array, and what storing its chunks depends on.
#[derive(Clone)]
pub struct ArrayAccess {
    /// The store of the chunks.
    pub store: Arc<dyn Store>,
    /// The prefix of the chunk keys.
    pub prefix: Box<str>,
    /// The description.
    pub array: Arc<Array>,
    /// As for [`Operation`].
    pub keeps_past: bool,
    /// The check that the array still exists.
    pub presence: Option<Arc<ArrayPresence>>,
    /// Whether the array may buffer writes.
    pub may_buffer: bool,
}

/// An array with a write buffer in a scope.
struct BufferedArray {
    access: ArrayAccess,
    buffer: WriteBuffer,
}

fn is_same_store(first: &Arc<dyn Store>, second: &Arc<dyn Store>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(first), Arc::as_ptr(second))
}

/// Return the active scopes of a store that this process started.
fn scopes_of(store: &Arc<dyn Store>) -> Vec<Arc<BufferScope>> {
    if !is_active() {
        return Vec::new();
    }
    let _gate = fork::gate();
    let scopes = lock(&SCOPES);
    let matches = |scope: &&Arc<BufferScope>| scope.is_own() && is_same_store(&scope.store, store);
    scopes.iter().filter(matches).cloned().collect()
}

/// Return whether any scope is active.
pub fn is_active() -> bool {
    ACTIVE.load(Ordering::Acquire) > 0
}

/// Return whether an active scope contains an array.
pub fn contains(store: &Arc<dyn Store>, prefix: &str) -> bool {
    scopes_of(store).iter().any(|scope| scope.contains(prefix))
}

/// Store all buffered chunks of a store with keys below `prefix`, or of an array around it.
///
/// # Errors
/// As for [`write::write`].
pub fn store_below(store: &Arc<dyn Store>, prefix: &str, interrupt: Option<Interrupt<'_>>) -> Result<()> {
    let is_related = |array: &str| array.starts_with(prefix) || prefix.starts_with(array);
    let scopes = scopes_of(store);
    let arrays: Vec<Arc<BufferedArray>> =
        scopes.iter().flat_map(|scope| scope.arrays_where(is_related)).collect();
    store_all(&arrays, interrupt)
}

/// Store the buffered chunks of all arrays. An error of one does not prevent the others.
fn store_all(arrays: &[Arc<BufferedArray>], interrupt: Option<Interrupt<'_>>) -> Result<()> {
    arrays.iter().map(|buffered| buffered.store(interrupt)).fold(Ok(()), Result::and)
}

impl BufferScope {
    /// Start to buffer at most `limit` bytes of writes to the arrays of `store` below `prefix`.
    pub fn start(store: Arc<dyn Store>, prefix: &str, limit: usize) -> Arc<BufferScope> {
        fork::register();
        let scope = Arc::new(BufferScope {
            store,
            prefix: prefix.into(),
            memory: Arc::new(BufferMemory::new(limit)),
            generation: fork::generation(),
            arrays: Mutex::default(),
        });
        let _gate = fork::gate();
        lock(&SCOPES).push(scope.clone());
        ACTIVE.fetch_add(1, Ordering::Release);
        scope
    }

    /// Return the number of buffered bytes.
    pub fn used(&self) -> usize {
        self.memory.used()
    }

    /// Store all buffered chunks of the arrays of the scope, also those in the buffers of other
    /// scopes.
    ///
    /// # Errors
    /// As for [`write::write`]. Chunks that are not stored stay in the buffer.
    pub fn store(&self, interrupt: Option<Interrupt<'_>>) -> Result<()> {
        match self.is_own() {
            true => store_below(&self.store, &self.prefix, interrupt),
            false => Ok(()),
        }
    }

    /// Store all buffered chunks, and end the scope. A second call has no effect.
    ///
    /// # Errors
    /// As for [`write::write`]. Elements that are not stored are discarded.
    pub fn end(self: &Arc<Self>, interrupt: Option<Interrupt<'_>>) -> Result<()> {
        self.drain();
        // Until all chunks are stored, reads need the buffer.
        let result = self.store(interrupt);
        {
            let _gate = fork::gate();
            let mut scopes = lock(&SCOPES);
            let count = scopes.len();
            scopes.retain(|scope| !Arc::ptr_eq(scope, self));
            ACTIVE.fetch_sub(count - scopes.len(), Ordering::Release);
        }
        self.arrays().iter().for_each(|buffered| buffered.buffer.clear());
        result
    }

    /// Let only chunks in the buffers receive writes.
    fn drain(&self) {
        let arrays = {
            let _gate = fork::gate();
            let mut arrays = lock(&self.arrays);
            arrays.is_draining = true;
            arrays.arrays.clone()
        };
        arrays.iter().for_each(|buffered| buffered.buffer.with(|chunks| chunks.is_draining = true));
    }

    fn is_own(&self) -> bool {
        self.generation == fork::generation()
    }

    fn contains(&self, prefix: &str) -> bool {
        prefix.starts_with(&*self.prefix)
    }

    fn arrays(&self) -> Vec<Arc<BufferedArray>> {
        self.arrays_where(|_| true)
    }

    /// Return the arrays whose prefix fulfils `condition`.
    fn arrays_where(&self, condition: impl Fn(&str) -> bool) -> Vec<Arc<BufferedArray>> {
        let _gate = fork::gate();
        let arrays = lock(&self.arrays);
        arrays.arrays.iter().filter(|buffered| condition(&buffered.access.prefix)).cloned().collect()
    }

    /// Return the buffer of an array, which is created if it is missing; None: the scope ends.
    fn find_or_add(&self, access: &ArrayAccess) -> Option<Arc<BufferedArray>> {
        let _gate = fork::gate();
        let mut arrays = lock(&self.arrays);
        if let Some(buffered) = arrays.arrays.iter().find(|buffered| buffered.has_same_chunks(access)) {
            return Some(buffered.clone());
        }
        if arrays.is_draining {
            return None;
        }
        let buffer = WriteBuffer::new(self.memory.clone());
        let buffered = Arc::new(BufferedArray { access: access.clone(), buffer });
        arrays.arrays.push(buffered.clone());
        Some(buffered)
    }

    /// Store chunks until `bytes` more bytes and a reserve have room, or no chunk is left. Chunks
    /// with missing elements are stored only if `may_store_parts`.
    fn make_room(&self, bytes: usize, may_store_parts: bool, interrupt: Option<Interrupt<'_>>) -> Result<()> {
        // Small steps would store few chunks at a time, and compare all of them each time.
        let reserve = self.memory.limit() / 8;
        let goal = self.memory.limit().saturating_sub(bytes).saturating_sub(reserve);
        let arrays = self.arrays();
        let mut candidates = Vec::new();
        for (number, buffered) in arrays.iter().enumerate() {
            buffered.add_candidates(number, &mut candidates)?;
        }
        candidates.retain(|candidate| candidate.is_full || may_store_parts);
        candidates.sort_unstable_by_key(|candidate| (!candidate.is_full, candidate.last_write));
        let mut used = self.memory.used();
        let mut chosen: Vec<Vec<(PerAxis<u64>, Arc<BufferedChunk>)>> = vec![Vec::new(); arrays.len()];
        for candidate in candidates {
            if used <= goal {
                break;
            }
            used = used.saturating_sub(candidate.bytes);
            chosen[candidate.array].push((candidate.cell, candidate.chunk));
        }
        for (buffered, chunks) in arrays.iter().zip(&chosen) {
            buffered.buffer.store_chunks(buffered.operation(interrupt), chunks, false)?;
        }
        Ok(())
    }
}

/// A chunk that the scope may store to free memory.
struct Candidate {
    /// The number of its array in the scope.
    array: usize,
    cell: PerAxis<u64>,
    chunk: Arc<BufferedChunk>,
    is_full: bool,
    last_write: u64,
    bytes: usize,
}

impl BufferedArray {
    fn has_same_chunks(&self, access: &ArrayAccess) -> bool {
        self.access.prefix == access.prefix && self.access.array.has_same_chunks(&access.array)
    }

    fn operation<'a>(&'a self, interrupt: Option<Interrupt<'a>>) -> Operation<'a> {
        let ArrayAccess { store, prefix, array, keeps_past, presence, .. } = &self.access;
        let check = presence.as_ref().map(|presence| presence.check());
        Operation { keeps_past: *keeps_past, interrupt, check, ..Operation::new(array, &**store, prefix) }
    }

    fn store(&self, interrupt: Option<Interrupt<'_>>) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let operation = self.operation(interrupt);
        operation.check_array()?;
        super::store(operation, &self.buffer, KeyInterval::default(), false)
    }

    fn add_candidates(&self, number: usize, candidates: &mut Vec<Candidate>) -> Result<()> {
        let array = &self.access.array;
        for (cell, chunk) in self.buffer.matching(|_| true) {
            let level = array.level(&grid::bounds(&array.dim_grids, &cell).1)?;
            let measure = |state: &mut State| match state {
                State::Some(charged) => Some((charged.node.is_full(&level), charged.charge.bytes())),
                State::Empty | State::Storing(_) | State::Stored => None,
            };
            if let Some((is_full, bytes)) = chunk.with(measure) {
                let last_write = chunk.last_write();
                candidates.push(Candidate { array: number, cell, chunk, is_full, last_write, bytes });
            }
        }
        Ok(())
    }

    /// Return whether the buffer takes the elements of a chunk: those of a whole chunk only if it
    /// has others of the chunk.
    fn takes(&self, chunk: &Chunk<'_, '_>) -> bool {
        !chunk.portion.is_full(None) || self.buffer.find(chunk.cell).is_some()
    }
}

/// The buffers with elements of an array, for one operation.
pub struct ArrayBuffers {
    /// The buffer of arrays with the same chunks, and its scope.
    own: Option<(Arc<BufferScope>, Arc<BufferedArray>)>,
    /// The buffers of array objects with other codecs or another data type, with elements.
    others: Vec<Arc<BufferedArray>>,
}

impl ArrayBuffers {
    /// Return the buffers for a read or write; None: no active scope contains the array.
    pub fn find(
        store: &Arc<dyn Store>,
        prefix: &str,
        writes: bool,
        access: impl FnOnce() -> ArrayAccess,
    ) -> Option<ArrayBuffers> {
        let mut scopes = scopes_of(store);
        scopes.retain(|scope| scope.contains(prefix));
        if scopes.is_empty() {
            return None;
        }
        let access = access();
        let mut buffers = ArrayBuffers { own: None, others: Vec::new() };
        for scope in &scopes {
            for buffered in scope.arrays_where(|other| other == prefix) {
                if buffers.own.is_none() && access.may_buffer && buffered.has_same_chunks(&access) {
                    buffers.own = Some((scope.clone(), buffered));
                } else if !buffered.buffer.is_empty() {
                    buffers.others.push(buffered);
                }
            }
        }
        if buffers.own.is_none() && writes && access.may_buffer {
            buffers.own = scopes
                .iter()
                .find_map(|scope| scope.find_or_add(&access).map(|buffered| (scope.clone(), buffered)));
        }
        Some(buffers)
    }

    /// Read `selection` into the buffer at `out`.
    ///
    /// # Safety
    /// As for [`read::read`].
    ///
    /// # Errors
    /// As for [`read::read`].
    pub unsafe fn read(
        &self,
        operation: Operation<'_>,
        selection: &Selection,
        out: *mut u8,
    ) -> Result<Arena> {
        store_all(&self.others, operation.interrupt)?;
        match &self.own {
            // SAFETY: guaranteed by the caller.
            Some((_, own)) if own.buffer.has_any(operation, selection)? => unsafe {
                super::read(operation, &own.buffer, selection, out)
            },
            // SAFETY: guaranteed by the caller.
            _ => unsafe { read::read(operation, selection, out) },
        }
    }

    /// Write `selection` from the buffer at `value`: parts of chunks to the buffer, as far as the
    /// memory has room for them, and the rest to the store.
    ///
    /// # Safety
    /// As for [`write::write`].
    ///
    /// # Errors
    /// As for [`write::write`].
    pub unsafe fn write(
        &self,
        operation: Operation<'_>,
        selection: &Selection,
        value: *const u8,
    ) -> Result<()> {
        store_all(&self.others, operation.interrupt)?;
        let Some((scope, own)) = &self.own else {
            // SAFETY: guaranteed by the caller.
            return unsafe { write::write(operation, selection, value) };
        };
        write::check_writable(operation)?;
        let Some(chunks) = operation.chunks(selection, Requests::None)? else { return Ok(()) };
        let needs_store = prepare(scope, own, operation, &chunks)?;
        let value = BufferPtr(value.cast_mut());
        let put = |chunk: &Chunk<'_, '_>, scratch: &mut Scratch| {
            // SAFETY: guaranteed by the caller.
            let is_buffered =
                own.takes(chunk) && unsafe { own.buffer.put(operation, chunk, value, scratch) }?;
            match is_buffered {
                true => Ok(()),
                // SAFETY: guaranteed by the caller.
                false => unsafe { write::write_chunk(operation, chunk, value, scratch) },
            }
        };
        if needs_store {
            let encode = |chunk: &Chunk<'_, '_>, scratch: &mut Scratch| match own.takes(chunk) {
                true => Ok(None),
                // SAFETY: guaranteed by the caller.
                false => unsafe { write::encode_chunk(operation, chunk, value, scratch) },
            };
            return operation.each_upload(selection, &encode, &put);
        }
        let (tasks, items) = (chunks.division.tasks(), selection.piece().items());
        let bytes = items.saturating_mul(operation.array.item_bytes) / tasks;
        let run = Executor::choose(tasks, bytes, 0);
        run.each(tasks, operation.interrupt, &|task, scratch| chunks.with(task, scratch, put))
    }
}

/// Make room for the parts of chunks of a write. Return whether some chunks go to the store: whole
/// ones, or those without room.
fn prepare(
    scope: &BufferScope,
    own: &BufferedArray,
    operation: Operation<'_>,
    chunks: &Chunks<'_, '_>,
) -> Result<bool> {
    let (mut has_whole, mut at_most) = (false, 0_usize);
    let each_part = |work: &mut dyn FnMut(&Chunk<'_, '_>, bool) -> Result<()>| {
        Scratch::with(|scratch| {
            (0..chunks.division.tasks())
                .try_for_each(|task| chunks.with(task, scratch, |chunk, _| work(chunk, own.takes(chunk))))
        })
    };
    each_part(&mut |chunk, is_part| {
        has_whole |= !is_part;
        at_most = at_most.saturating_add(if is_part { chunk.portion.level.decoded_bytes } else { 0 });
        Ok(())
    })?;
    if scope.memory.has_room(at_most) {
        return Ok(has_whole);
    }
    let (mut touched, mut missing) = (0_usize, 0_usize);
    each_part(&mut |chunk, is_part| {
        if !is_part {
            return Ok(());
        }
        touched = touched.saturating_add(Node::missing_bytes(None, &chunk.portion)?);
        let lacks = |state: &mut State| Node::missing_bytes(state.node(), &chunk.portion);
        let bytes = match own.buffer.find(chunk.cell) {
            Some(chunk_buffer) => {
                chunk_buffer.set_last_write(scope.memory.next_write());
                chunk_buffer.with(lacks)?
            }
            None => Node::missing_bytes(None, &chunk.portion)?,
        };
        missing = missing.saturating_add(bytes);
        Ok(())
    })?;
    if missing > 0 && !scope.memory.has_room(missing) {
        // A write to more chunks than the memory holds would store and read them in each turn.
        scope.make_room(missing, touched <= scope.memory.limit(), operation.interrupt)?;
    }
    Ok(has_whole || !scope.memory.has_room(missing))
}

impl WriteBuffer {
    /// Return whether the buffer has elements of a chunk that `selection` touches.
    fn has_any(&self, operation: Operation<'_>, selection: &Selection) -> Result<bool> {
        if self.is_empty() {
            return Ok(false);
        }
        let whole = selection.piece();
        if whole.is_empty() {
            return Ok(false);
        }
        let (division, mut cell) = (operation.divide(&whole)?, PerAxis::new());
        Ok((0..division.tasks()).any(|task| {
            division.find_cell(task, &mut cell);
            self.find(&cell).is_some()
        }))
    }
}
