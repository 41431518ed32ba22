//! Memory for what is kept of chunks: of each its own, or one piece for all those of a shard, in
//! which they lie as they are stored.

use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::array::Shard;
use crate::scratch::blank;

/// Where the elements of a chunk are kept.
pub(super) enum Room {
    Own(Vec<MaybeUninit<u8>>),
    Slot(Slot),
}

impl Default for Room {
    fn default() -> Self {
        Room::Own(Vec::new())
    }
}

impl Deref for Room {
    type Target = [MaybeUninit<u8>];

    fn deref(&self) -> &Self::Target {
        match self {
            Room::Own(bytes) => bytes,
            // SAFETY: the slot lies inside its slab, and is borrowed as long as what is given.
            Room::Slot(slot) => unsafe { std::slice::from_raw_parts(slot.first().as_ptr(), slot.size) },
        }
    }
}

impl DerefMut for Room {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Room::Own(bytes) => bytes,
            // SAFETY: as above; no other slot has these bytes.
            Room::Slot(slot) => unsafe { std::slice::from_raw_parts_mut(slot.first().as_ptr(), slot.size) },
        }
    }
}

/// A part of a slab that nobody else has.
pub(super) struct Slot {
    slab: Arc<Slab>,
    start: usize,
    size: usize,
}

impl Slot {
    fn first(&self) -> NonNull<MaybeUninit<u8>> {
        // SAFETY: it lies inside the slab.
        unsafe { self.slab.first.add(self.start) }
    }
}

/// Memory for a shard whose subchunks no codec changes: all of them, in the order of their numbers,
/// and the index.
pub(super) struct Slab {
    first: NonNull<MaybeUninit<u8>>,
    size: usize,
    capacity: usize,
}

// SAFETY: it is memory that slots share, each with bytes of its own.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

impl Slab {
    /// Memory for all of a shard, not cleared; None if its subchunks are not stored as they are, or
    /// there is not so much.
    pub(super) fn new(shard: &Shard) -> Option<Arc<Slab>> {
        if !shard.level.is_raw() {
            return None;
        }
        let subchunks = shard.level.decoded_bytes.checked_mul(shard.entries)?;
        blank(subchunks.checked_add(shard.index_bytes)?).ok().map(Slab::of)
    }

    /// What was made of one before.
    pub(super) fn of(bytes: Vec<MaybeUninit<u8>>) -> Arc<Slab> {
        let mut bytes = ManuallyDrop::new(bytes);
        let (size, capacity) = (bytes.len(), bytes.capacity());
        // SAFETY: a list's is never null. It is that of all its capacity, which a slice's would not be.
        let first = unsafe { NonNull::new_unchecked(bytes.as_mut_ptr()) };
        Arc::new(Slab { first, size, capacity })
    }

    /// Where a subchunk lies.
    ///
    /// # Safety
    /// It is not given again before the one that was given is gone.
    pub(super) unsafe fn slot(self: &Arc<Slab>, shard: &Shard, number: usize) -> Slot {
        let size = shard.level.decoded_bytes;
        let start = shard.first_byte() + number * size;
        assert!(number < shard.entries && start + size <= self.size);
        Slot { slab: self.clone(), start, size }
    }

    /// The shard, with an index; None while a slot is somewhere.
    ///
    /// # Safety
    /// All of the slots are initialised.
    pub(super) unsafe fn completed(self: Arc<Slab>, shard: &Shard, index: &[u8]) -> Option<Vec<u8>> {
        let slab = ManuallyDrop::new(Arc::into_inner(self)?);
        // SAFETY: these are the parts of a list that was not dropped, and is nowhere else.
        let mut bytes = unsafe { Vec::from_raw_parts(slab.first.as_ptr(), slab.size, slab.capacity) };
        let start = if shard.index_at_start { 0 } else { bytes.len() - index.len() };
        bytes[start..][..index.len()].copy_from_slice(uninitialised(index));
        // SAFETY: the caller's promise, and the index is there.
        Some(unsafe { initialised_all(bytes) })
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: as in `completed`; no slot is left, as each has the slab.
        drop(unsafe { Vec::from_raw_parts(self.first.as_ptr(), self.size, self.capacity) });
    }
}

/// # Safety
/// They are.
pub(super) unsafe fn initialised(bytes: &[MaybeUninit<u8>]) -> &[u8] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }
}

/// # Safety
/// They are.
pub(super) unsafe fn initialised_mut(bytes: &mut [MaybeUninit<u8>]) -> &mut [u8] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len()) }
}

/// # Safety
/// They are.
pub(super) unsafe fn initialised_all(bytes: Vec<MaybeUninit<u8>>) -> Vec<u8> {
    let mut bytes = ManuallyDrop::new(bytes);
    // SAFETY: the caller's promise; the one is laid out as the other, and not dropped.
    unsafe { Vec::from_raw_parts(bytes.as_mut_ptr().cast(), bytes.len(), bytes.capacity()) }
}

pub(super) fn uninitialised_all(bytes: Vec<u8>) -> Vec<MaybeUninit<u8>> {
    let mut bytes = ManuallyDrop::new(bytes);
    // SAFETY: what is initialised may be; the one is laid out as the other, and not dropped.
    unsafe { Vec::from_raw_parts(bytes.as_mut_ptr().cast(), bytes.len(), bytes.capacity()) }
}

pub(super) fn uninitialised(bytes: &[u8]) -> &[MaybeUninit<u8>] {
    // SAFETY: what is initialised may be.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }
}

/// # Safety
/// Nothing is copied to it that is not initialised.
pub(super) unsafe fn uninitialised_mut(bytes: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len()) }
}
