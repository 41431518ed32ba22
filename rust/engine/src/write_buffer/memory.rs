//! The memory of write buffers: a limit that several buffers share, and the order of their writes.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;

/// The memory that some write buffers share.
pub(super) struct BufferMemory {
    limit: usize,
    used: AtomicUsize,
    writes: AtomicU64,
}

impl BufferMemory {
    /// Return a memory of at most `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        BufferMemory { limit, used: AtomicUsize::new(0), writes: AtomicU64::new(0) }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Return the number of bytes in use.
    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Return whether `bytes` more bytes are within the limit.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.used().saturating_add(bytes) <= self.limit
    }

    /// Count a write, and return its number.
    pub(super) fn next_write(&self) -> u64 {
        self.writes.fetch_add(1, Ordering::Relaxed)
    }
}

/// The memory of one buffered chunk; a drop releases it.
pub(super) struct Charge {
    memory: Arc<BufferMemory>,
    bytes: AtomicUsize,
}

impl Charge {
    pub(super) fn new(memory: &Arc<BufferMemory>) -> Self {
        Charge { memory: memory.clone(), bytes: AtomicUsize::new(0) }
    }

    pub(super) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.memory.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(self.bytes(), Ordering::Relaxed);
    }
}
