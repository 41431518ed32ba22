//! Files as memory.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

/// The bytes of a file, mapped until this is dropped.
///
/// Who shortens the file in place meanwhile ends the process that looks at what is gone:
/// that is the price of the mode, which nobody has by default. Values that are replaced by
/// `rename`, as all writers but those in place do it, stay what they were.
pub(super) struct Map {
    start: NonNull<u8>,
    size: usize,
}

// SAFETY: the memory is only read, and unmapped by whoever drops the last reference.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// The first `size` bytes of `file`; None where the system does not map it.
    pub(super) fn of(file: &File, size: u64) -> Option<Map> {
        let size = usize::try_from(size).ok()?;
        if size == 0 {
            return Some(Map { start: NonNull::dangling(), size });
        }
        // SAFETY: a new mapping at an address that the system chooses, of an open file.
        let start = unsafe {
            let (protection, flags) = (libc::PROT_READ, libc::MAP_SHARED);
            libc::mmap(std::ptr::null_mut(), size, protection, flags, file.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        NonNull::new(start.cast()).map(|start| Map { start, size })
    }

    /// The bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: `size` bytes are mapped from `start` as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.size) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        if self.size > 0 {
            // SAFETY: what `of` has mapped, and nobody refers to it any more.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.size) };
        }
    }
}
