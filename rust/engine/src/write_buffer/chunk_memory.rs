//! Memory of buffered chunks: one block each, or a slab for all subchunks of a shard.

use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::array::Shard;
use crate::scratch::uninitialized;

/// The memory of the elements of a chunk.
pub(super) enum ChunkMemory {
    Own(Vec<MaybeUninit<u8>>),
    Slot(Slot),
}

impl Default for ChunkMemory {
    fn default() -> Self {
        ChunkMemory::Own(Vec::new())
    }
}

impl Deref for ChunkMemory {
    type Target = [MaybeUninit<u8>];

    fn deref(&self) -> &Self::Target {
        match self {
            ChunkMemory::Own(bytes) => bytes,
            // SAFETY: the slot lies inside its slab, and is borrowed as long as the result.
            ChunkMemory::Slot(slot) => unsafe {
                std::slice::from_raw_parts(slot.first().as_ptr(), slot.size)
            },
        }
    }
}

impl DerefMut for ChunkMemory {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            ChunkMemory::Own(bytes) => bytes,
            // SAFETY: as above; no other slot has these bytes.
            ChunkMemory::Slot(slot) => unsafe {
                std::slice::from_raw_parts_mut(slot.first().as_ptr(), slot.size)
            },
        }
    }
}

/// An exclusive part of a slab.
pub(super) struct Slot {
    slab: Arc<Slab>,
    start: usize,
    size: usize,
}

impl Slot {
    fn first(&self) -> NonNull<MaybeUninit<u8>> {
        // SAFETY: the slot lies inside the slab.
        unsafe { self.slab.first.add(self.start) }
    }
}

/// Memory for a shard whose subchunks have no codecs: all subchunks in the order of their numbers,
/// and the index.
pub(super) struct Slab {
    first: NonNull<MaybeUninit<u8>>,
    size: usize,
    capacity: usize,
}

// SAFETY: slots share the memory, each with its own bytes.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

impl Slab {
    /// Memory for a shard, not cleared; None if its subchunks have codecs, or memory is short.
    pub(super) fn new(shard: &Shard) -> Option<Arc<Slab>> {
        if !shard.level.is_raw() {
            return None;
        }
        let subchunks = shard.level.decoded_bytes.checked_mul(shard.entries)?;
        uninitialized(subchunks.checked_add(shard.index_bytes)?).ok().map(Slab::of)
    }

    /// Return a slab from the bytes of an earlier one.
    pub(super) fn of(bytes: Vec<MaybeUninit<u8>>) -> Arc<Slab> {
        let mut bytes = ManuallyDrop::new(bytes);
        let (size, capacity) = (bytes.len(), bytes.capacity());
        // SAFETY: the pointer of a vector is never null. It covers the whole capacity, unlike a
        // slice's.
        let first = unsafe { NonNull::new_unchecked(bytes.as_mut_ptr()) };
        Arc::new(Slab { first, size, capacity })
    }

    /// Return the slot of a subchunk.
    ///
    /// # Safety
    /// At most one slot of a subchunk exists at a time.
    pub(super) unsafe fn slot(self: &Arc<Slab>, shard: &Shard, number: usize) -> Slot {
        let size = shard.level.decoded_bytes;
        let start = shard.first_byte() + number * size;
        assert!(number < shard.entries && start + size <= self.size);
        Slot { slab: self.clone(), start, size }
    }

    /// Return the shard with its index; None while a slot exists.
    ///
    /// # Safety
    /// All slots are initialised.
    pub(super) unsafe fn completed(self: Arc<Slab>, shard: &Shard, index: &[u8]) -> Option<Vec<u8>> {
        let slab = ManuallyDrop::new(Arc::into_inner(self)?);
        // SAFETY: these are the parts of a vector that was not dropped and has no other owner.
        let mut bytes = unsafe { Vec::from_raw_parts(slab.first.as_ptr(), slab.size, slab.capacity) };
        let start = if shard.index_at_start { 0 } else { bytes.len() - index.len() };
        bytes[start..][..index.len()].copy_from_slice(uninitialised(index));
        // SAFETY: guaranteed by the caller, and the index is written.
        Some(unsafe { initialised_all(bytes) })
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: as in `completed`; no slot is left, because slots hold the slab.
        drop(unsafe { Vec::from_raw_parts(self.first.as_ptr(), self.size, self.capacity) });
    }
}

/// # Safety
/// All bytes are initialised.
pub(super) unsafe fn initialised(bytes: &[MaybeUninit<u8>]) -> &[u8] {
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }
}

/// # Safety
/// All bytes are initialised.
pub(super) unsafe fn initialised_mut(bytes: &mut [MaybeUninit<u8>]) -> &mut [u8] {
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len()) }
}

/// # Safety
/// All bytes are initialised.
pub(super) unsafe fn initialised_all(bytes: Vec<MaybeUninit<u8>>) -> Vec<u8> {
    let mut bytes = ManuallyDrop::new(bytes);
    // SAFETY: guaranteed by the caller; both types have the same layout, and the original is not
    // dropped.
    unsafe { Vec::from_raw_parts(bytes.as_mut_ptr().cast(), bytes.len(), bytes.capacity()) }
}

pub(super) fn uninitialised_all(bytes: Vec<u8>) -> Vec<MaybeUninit<u8>> {
    let mut bytes = ManuallyDrop::new(bytes);
    // SAFETY: initialised bytes are valid; both types have the same layout, and the original is not
    // dropped.
    unsafe { Vec::from_raw_parts(bytes.as_mut_ptr().cast(), bytes.len(), bytes.capacity()) }
}

pub(super) fn uninitialised(bytes: &[u8]) -> &[MaybeUninit<u8>] {
    // SAFETY: initialised bytes are valid.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }
}

/// # Safety
/// Only initialised bytes are copied to it.
pub(super) unsafe fn uninitialised_mut(bytes: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len()) }
}
