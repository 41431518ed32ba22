//! The allocator: mimalloc, with a limit on the free memory that it keeps.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_long;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use libmimalloc_sys::{mi_collect, mi_option_set_default, mi_option_t};
use mimalloc::MiMalloc;

/// The size from which the allocator counts blocks.
const LARGE_BYTES: usize = 64 << 10;

/// The drop in memory use after which all free memory returns to the system.
const RETAINED_BYTES: usize = 256 << 20;

/// The delay in milliseconds after which free memory returns to the system. With mimalloc's default
/// of 10 it would often return before the next chunk needs it.
const DELAY_MS: c_long = 1000;

/// Option numbers of `mi_option_e`, which the crate does not name.
const ARENA_EAGER_COMMIT: mi_option_t = 4;
const PURGE_DELAY: mi_option_t = 15;

/// mimalloc, with a count of the bytes in use.
pub(crate) struct Allocator {
    /// Bytes of large blocks in use.
    used: AtomicUsize,
    /// The maximum of `used` since memory last returned to the system.
    most: AtomicUsize,
}

impl Allocator {
    pub(crate) const fn new() -> Allocator {
        Allocator { used: AtomicUsize::new(0), most: AtomicUsize::new(0) }
    }

    /// Set the options, except those that the environment sets.
    pub(crate) fn configure() {
        // SAFETY: the options exist, and any thread may set them at any time.
        unsafe {
            mi_option_set_default(PURGE_DELAY, DELAY_MS);
            // Otherwise each thread uses huge pages for its first small blocks, which the kernel
            // has to clear.
            mi_option_set_default(ARENA_EAGER_COMMIT, 0);
        }
    }

    fn add(&self, bytes: usize) {
        if bytes > 0 {
            let used = self.used.fetch_add(bytes, Relaxed) + bytes;
            self.most.fetch_max(used, Relaxed);
        }
    }

    fn remove(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let used = self.used.fetch_sub(bytes, Relaxed).saturating_sub(bytes);
        let most = self.most.load(Relaxed);
        // Exactly one thread returns the memory.
        if most.saturating_sub(used) > RETAINED_BYTES
            && self.most.compare_exchange(most, used, Relaxed, Relaxed).is_ok()
        {
            // SAFETY: any code outside of mimalloc may call this function at any time.
            unsafe { mi_collect(true) };
        }
    }

    /// Count a new block, unless it is null.
    fn count_block(&self, block: *mut u8, bytes: usize) -> *mut u8 {
        if !block.is_null() {
            self.add(counted(bytes));
        }
        block
    }
}

/// Return the number of bytes that a block adds to the count.
fn counted(bytes: usize) -> usize {
    match bytes < LARGE_BYTES {
        true => 0,
        false => bytes,
    }
}

// SAFETY: mimalloc allocates all blocks, and the counts do not affect them.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller satisfies the requirements.
        self.count_block(unsafe { MiMalloc.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller satisfies the requirements.
        self.count_block(unsafe { MiMalloc.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller satisfies the requirements.
        unsafe { MiMalloc.dealloc(block, layout) };
        self.remove(counted(layout.size()));
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller satisfies the requirements.
        let moved = unsafe { MiMalloc.realloc(block, layout, size) };
        let (before, now) = (counted(layout.size()), counted(size));
        if !moved.is_null() {
            self.add(now.saturating_sub(before));
            self.remove(before.saturating_sub(now));
        }
        moved
    }
}
