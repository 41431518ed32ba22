//! Memory for C libraries from the allocator of Rust, which returns free memory to the system.
//! The allocator of C often keeps it.

use std::alloc::{alloc, dealloc, Layout};
use std::ffi::c_void;

/// The number of bytes before each block, which contain its size; also its alignment.
const HEADER_BYTES: usize = 16;

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.checked_add(HEADER_BYTES)?, HEADER_BYTES).ok()
}

/// Allocate a block like `malloc`; null: no memory.
pub(super) unsafe extern "C" fn allocate(bytes: usize) -> *mut c_void {
    let Some(layout) = layout(bytes) else { return std::ptr::null_mut() };
    // SAFETY: the layout has a size, and the block has room for the header.
    unsafe {
        let block = alloc(layout);
        if block.is_null() {
            return std::ptr::null_mut();
        }
        block.cast::<usize>().write(bytes);
        block.add(HEADER_BYTES).cast()
    }
}

/// Free a block of [`allocate`] like `free`.
pub(super) unsafe extern "C" fn free(memory: *mut c_void) {
    if memory.is_null() {
        return;
    }
    // SAFETY: `allocate` has returned the address, and has written the size before it.
    unsafe {
        let block = memory.cast::<u8>().sub(HEADER_BYTES);
        if let Some(layout) = layout(block.cast::<usize>().read()) {
            dealloc(block, layout);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_writable() {
        for bytes in [0, 1, 15, 100_000] {
            // SAFETY: the block has this number of bytes.
            unsafe {
                let memory = allocate(bytes);
                assert_eq!(memory.align_offset(HEADER_BYTES), 0);
                memory.cast::<u8>().write_bytes(1, bytes);
                free(memory);
            }
        }
        // SAFETY: no block is allocated.
        unsafe {
            assert!(allocate(usize::MAX).is_null() && allocate(isize::MAX as usize).is_null());
            free(std::ptr::null_mut());
        }
    }
}
