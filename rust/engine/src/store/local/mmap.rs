//! Memory-mapped files.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

/// The bytes of a file, mapped until this is dropped.
///
/// If another process truncates the file in place, reading the missing part kills this process:
/// hence the mode is off by default. Values that are replaced by `rename` (by all writers except
/// those in place) do not change.
pub(super) struct Mmap {
    start: NonNull<u8>,
    size: usize,
}

// SAFETY: the memory is only read; dropping the last reference unmaps it.
unsafe impl Send for Mmap {}
// SAFETY: as above.
unsafe impl Sync for Mmap {}

impl Mmap {
    /// Return the first `size` bytes of `file`; None if the system cannot map them.
    pub(super) fn of(file: &File, size: u64) -> Option<Mmap> {
        let size = usize::try_from(size).ok()?;
        if size == 0 {
            return Some(Mmap { start: NonNull::dangling(), size });
        }
        // SAFETY: a new mapping of an open file, at an address that the system chooses.
        let start = unsafe {
            let (protection, flags) = (libc::PROT_READ, libc::MAP_SHARED);
            libc::mmap(std::ptr::null_mut(), size, protection, flags, file.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        NonNull::new(start.cast()).map(|start| Mmap { start, size })
    }

    /// Return the bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: `size` bytes are mapped from `start` as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.size) }
    }
}

impl Drop for Mmap {
    fn drop(&mut self) {
        if self.size > 0 {
            // SAFETY: `of` has mapped this memory, and no reference to it remains.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.size) };
        }
    }
}
