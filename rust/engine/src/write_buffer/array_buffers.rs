//! Reads and writes of an array in blocks of buffered writes.

use std::sync::Arc;

use super::buffered_array::{takes, BufferedArray};
use super::buffered_chunk::State;
use super::failures::Failures;
use super::node::Node;
use super::scope::{remove_finished, scopes_at, store_all, BufferScope};
use super::{PutResult, WriteBuffer};
use crate::array::PerAxis;
use crate::error::Result;
use crate::pipeline::operation::{BufferPtr, Chunk, Chunks, Executor, Operation, Requests};
use crate::read;
use crate::scratch::Scratch;
use crate::selection::Selection;
use crate::vlen::Arena;
use crate::write;

pub use super::buffered_array::{ArrayAccess, MetadataDocument};

/// The buffers with elements of an array, for one operation.
pub struct ArrayBuffers {
    /// The block whose memory receives elements, and its buffer; None: writes go to the store.
    active: Option<(Arc<BufferScope>, Arc<BufferedArray>)>,
    /// The active buffer, and those of blocks that end, all for arrays with the same chunks. A
    /// chunk is in at most one of them.
    own: Vec<Arc<BufferedArray>>,
    /// The buffers, with elements, of array objects with other codecs, another data type or another
    /// store object.
    others: Vec<Arc<BufferedArray>>,
}

impl ArrayBuffers {
    /// Return the buffers of the array at `location` for a read or write; None: no block contains
    /// the array.
    pub fn find(location: &str, writes: bool, access: impl FnOnce() -> ArrayAccess) -> Option<ArrayBuffers> {
        let scopes = scopes_at(location);
        if scopes.is_empty() {
            return None;
        }
        let access = access();
        let add = |scope: &Arc<BufferScope>| Some((scope.clone(), scope.find_or_add(location, &access)?));
        let takes_writes = writes && access.may_buffer;
        let active = if takes_writes { scopes.iter().find_map(add) } else { None };
        // The other buffers are read afterwards: blocks that were not active then get no new ones.
        let mut buffers = ArrayBuffers { active, own: Vec::new(), others: Vec::new() };
        for buffered in scopes.iter().flat_map(|scope| scope.arrays_where(|other| other == location)) {
            if access.may_buffer && buffered.is_shared_with(&access) {
                buffers.own.push(buffered);
            } else if !buffered.buffer.is_empty() {
                buffers.others.push(buffered);
            }
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
        if !self.has_any(operation, selection)? {
            // SAFETY: guaranteed by the caller.
            return unsafe { read::read(operation, selection, out) };
        }
        let own: Vec<&WriteBuffer> = self.own.iter().map(|buffered| &buffered.buffer).collect();
        // SAFETY: guaranteed by the caller.
        unsafe { super::read(operation, &own, selection, out) }
    }

    /// Return whether buffers have elements of a chunk that `selection` touches.
    fn has_any(&self, operation: Operation<'_>, selection: &Selection) -> Result<bool> {
        let own: Vec<_> = self.own.iter().filter(|buffered| !buffered.buffer.is_empty()).collect();
        let whole = selection.piece();
        if own.is_empty() || whole.is_empty() {
            return Ok(false);
        }
        let (division, mut cell) = (operation.divide(&whole)?, PerAxis::new());
        Ok((0..division.tasks()).any(|task| {
            division.find_cell(task, &mut cell);
            own.iter().any(|buffered| buffered.buffer.find(&cell).is_some())
        }))
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
        if self.own.is_empty() {
            // SAFETY: guaranteed by the caller.
            return unsafe { write::write(operation, selection, value) };
        }
        // SAFETY: guaranteed by the caller.
        let result = unsafe { self.write_own(operation, selection, BufferPtr(value.cast_mut())) };
        if self.own.iter().any(|buffered| buffered.buffer.is_draining()) {
            remove_finished();
        }
        result
    }

    /// # Safety
    /// As for [`write::write`].
    unsafe fn write_own(
        &self,
        operation: Operation<'_>,
        selection: &Selection,
        value: BufferPtr,
    ) -> Result<()> {
        write::check_writable(operation)?;
        let Some(chunks) = operation.chunks(selection, Requests::None)? else { return Ok(()) };
        let needs_store = self.prepare(operation, &chunks)?;
        let put = |chunk: &Chunk<'_, '_>, scratch: &mut Scratch| {
            // SAFETY: guaranteed by the caller.
            match takes(&self.own, chunk) && unsafe { self.put(operation, chunk, value) }? {
                true => Ok(()),
                // SAFETY: guaranteed by the caller.
                false => unsafe { write::write_chunk(operation, chunk, value, scratch) },
            }
        };
        if needs_store {
            let encode = |chunk: &Chunk<'_, '_>, scratch: &mut Scratch| match takes(&self.own, chunk) {
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

    /// Buffer the caller's elements of a chunk; return whether a buffer takes them.
    ///
    /// # Safety
    /// As for [`write::write`], for the elements of the chunk.
    unsafe fn put(&self, operation: Operation<'_>, chunk: &Chunk<'_, '_>, value: BufferPtr) -> Result<bool> {
        for buffered in &self.own {
            loop {
                // SAFETY: guaranteed by the caller.
                match unsafe { buffered.buffer.put(operation.array, chunk, value) }? {
                    PutResult::Done => return Ok(true),
                    PutResult::Rejected => break,
                    PutResult::StoreFirst(first) => {
                        let failures = Failures::default();
                        // Without interrupts: this thread may be a worker.
                        buffered.store_chunks(&[(chunk.cell.into(), first)], None, &failures)?;
                        failures.result()?;
                    }
                }
            }
        }
        Ok(false)
    }

    /// Make room for the parts of chunks of a write. Return whether some chunks go to the store:
    /// whole ones, those without room, or those of a block that ends.
    fn prepare(&self, operation: Operation<'_>, chunks: &Chunks<'_, '_>) -> Result<bool> {
        let Some((scope, active)) = &self.active else { return Ok(true) };
        let (mut has_whole, mut at_most) = (self.own.len() > 1, 0_usize);
        let each_part = |work: &mut dyn FnMut(&Chunk<'_, '_>, bool) -> Result<()>| {
            Scratch::with(|scratch| {
                (0..chunks.division.tasks()).try_for_each(|task| {
                    chunks.with(task, scratch, |chunk, _| work(chunk, takes(&self.own, chunk)))
                })
            })
        };
        each_part(&mut |chunk, is_part| {
            has_whole |= !is_part;
            at_most = at_most.saturating_add(if is_part { chunk.portion.level.decoded_bytes } else { 0 });
            Ok(())
        })?;
        if scope.memory().has_room(at_most) {
            return Ok(has_whole);
        }
        let (mut touched, mut missing) = (0_usize, 0_usize);
        each_part(&mut |chunk, is_part| {
            if !is_part {
                return Ok(());
            }
            touched = touched.saturating_add(Node::missing_bytes(None, &chunk.portion)?);
            let lacks = |state: &mut State| Node::missing_bytes(state.node(), &chunk.portion);
            let bytes = match active.buffer.find(chunk.cell) {
                Some(chunk_buffer) => {
                    chunk_buffer.set_last_write(scope.memory().next_write());
                    chunk_buffer.with(lacks)?
                }
                None => Node::missing_bytes(None, &chunk.portion)?,
            };
            missing = missing.saturating_add(bytes);
            Ok(())
        })?;
        if missing > 0 && !scope.memory().has_room(missing) {
            // A write to more chunks than the memory holds would store and read them in each turn.
            scope.make_room(missing, touched <= scope.memory().limit(), operation.interrupt)?;
        }
        Ok(has_whole || !scope.memory().has_room(missing))
    }
}
