//! Reusable memory of a worker thread, so that processing a chunk allocates nothing.

use std::alloc::{alloc_zeroed, Layout};
use std::cell::RefCell;
use std::mem::MaybeUninit;

use crate::codec::Context;
use crate::error::{Error, Result};

/// The maximum total size of the spare buffers after an operation; larger ones are freed.
const MAX_SPARE_BYTES: usize = 48 << 20;

/// Codec contexts and reusable buffers of one thread.
#[derive(Default)]
pub struct Scratch {
    /// Codec contexts and tables.
    pub context: Context,
    /// The text of the current key.
    pub key: String,
    spare: Vec<Vec<u8>>,
}

type Spare = Vec<Box<Scratch>>;

thread_local! {
    static SPARE: RefCell<Spare> = const { RefCell::new(Vec::new()) };
}

impl Scratch {
    /// Call `work` with a scratch of this thread. Calls nest (work inside a shard, or a codec
    /// written in Python that reads another array), and each depth has a separate scratch.
    pub fn with<R>(work: impl FnOnce(&mut Scratch) -> R) -> R {
        let mut scratch = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        let result = work(&mut scratch);
        scratch.trim();
        SPARE.with_borrow_mut(|spare| spare.push(scratch));
        result
    }

    /// Return a buffer of any length and content. Return it with [`Scratch::put_back`].
    pub fn take(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Return `buffer` for the next [`Scratch::take`].
    pub fn put_back(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() > 0 {
            self.spare.push(buffer);
        }
    }

    /// Run `work` with a buffer of any length and content.
    pub fn with_buffer<R>(&mut self, work: impl FnOnce(&mut Vec<u8>, &mut Scratch) -> R) -> R {
        let mut buffer = self.take();
        let result = work(&mut buffer, self);
        self.put_back(buffer);
        result
    }

    fn trim(&mut self) {
        self.context.trim();
        let mut total = 0;
        self.spare.retain(|buffer| {
            let fits = total + buffer.capacity() <= MAX_SPARE_BYTES;
            total += if fits { buffer.capacity() } else { 0 };
            fits
        });
    }
}

/// Return the first `size` bytes of `buffer`, grown where needed. Old content stays: only new
/// memory is cleared, by the system.
///
/// # Errors
/// `Kind::Memory`: sizes come from metadata and may have any value.
pub fn sized(buffer: &mut Vec<u8>, size: usize) -> Result<&mut [u8]> {
    if buffer.len() < size {
        if buffer.capacity() < size {
            *buffer = Vec::new();
            *buffer = zeroed(size)?;
        } else {
            buffer.resize(size, 0);
        }
    }
    Ok(&mut buffer[..size])
}

/// `vec![0; size]`, with an error instead of an abort when memory runs out.
fn zeroed(size: usize) -> Result<Vec<u8>> {
    let no_memory = || Error::memory(size, "a buffer");
    let layout = Layout::array::<u8>(size).map_err(|_| no_memory())?;
    if size == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the layout has a size.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        return Err(no_memory());
    }
    // SAFETY: the global allocator has just allocated `size` initialised bytes.
    Ok(unsafe { Vec::from_raw_parts(memory, size, size) })
}

/// Uninitialised memory for `size` bytes.
///
/// # Errors
/// As of [`sized`].
pub fn uninitialized(size: usize) -> Result<Vec<MaybeUninit<u8>>> {
    let mut bytes = Vec::new();
    reserve(&mut bytes, size)?;
    // SAFETY: the capacity is reserved, and the bytes need not be initialised.
    unsafe { bytes.set_len(size) };
    Ok(bytes)
}

/// Return `bytes` as a buffer to fill.
///
/// # Safety
/// Only initialised bytes are written to it.
pub unsafe fn as_uninit(bytes: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    // SAFETY: the layouts are equal; the caller keeps the bytes initialised.
    unsafe { &mut *(std::ptr::from_mut(bytes) as *mut [MaybeUninit<u8>]) }
}

/// Reserve capacity for `more` items in `list`, with an error instead of an abort.
pub fn reserve<T>(list: &mut Vec<T>, more: usize) -> Result<()> {
    list.try_reserve_exact(more).map_err(|_| Error::memory(more.saturating_mul(size_of::<T>()), "a buffer"))
}

/// `item`, repeated `count` times.
pub fn repeated<T: Clone>(item: T, count: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    reserve(&mut list, count)?;
    list.resize(count, item);
    Ok(list)
}
