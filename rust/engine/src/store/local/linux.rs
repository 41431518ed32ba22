//! System calls of Linux, with `portable` as the fallback.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::portable;

/// The flag that opens a file past the page cache.
pub(super) const DIRECT: libc::c_int = libc::O_DIRECT;

/// Lock `file` for this open file description alone; false if another one holds the lock.
///
/// Open file description locks work on NFS and exclude the byte range locks of other programs,
/// TensorStore's in particular; `flock` does neither.
pub(super) fn try_lock(file: &File) -> io::Result<bool> {
    let whole = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    loop {
        // SAFETY: the descriptor is open while `file` is borrowed; `whole` is an
        // initialised `struct flock` that lives longer than the call.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const whole) } == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EAGAIN | libc::EACCES) => return Ok(false),
            Some(libc::EINVAL | libc::ENOLCK | libc::ENOSYS | libc::EOPNOTSUPP) => {
                return portable::try_lock(file);
            }
            _ => return Err(error),
        }
    }
}

/// Exchange two folders atomically.
pub(super) fn exchange(first: &Path, second: &Path) -> io::Result<()> {
    let paths = [first, second].map(|path| CString::new(path.as_os_str().as_bytes()));
    let [Ok(first_path), Ok(second_path)] = paths else { return Err(io::ErrorKind::InvalidInput.into()) };
    // SAFETY: both strings end in NUL and live longer than the call.
    let result = unsafe {
        let (from, to) = (first_path.as_ptr(), second_path.as_ptr());
        libc::renameat2(libc::AT_FDCWD, from, libc::AT_FDCWD, to, libc::RENAME_EXCHANGE)
    };
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP) => portable::exchange(first, second),
        _ => Err(error),
    }
}

/// Copy `size` bytes at `offset` of `from` to `target_offset` of `to`, inside the kernel if
/// possible: Btrfs and XFS then share the blocks, NFS copies on the server.
pub(super) fn copy_range(
    from: &File,
    offset: u64,
    to: &File,
    target_offset: u64,
    size: u64,
) -> io::Result<()> {
    let mut copied = 0;
    while copied < size {
        let (Ok(mut source), Ok(mut target)) =
            (i64::try_from(offset + copied), i64::try_from(target_offset + copied))
        else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let most = (size - copied).min(1 << 30) as usize;
        // SAFETY: both descriptors are open while the files are borrowed; the
        // offsets live longer than the call.
        let count = unsafe {
            let (from, to) = (from.as_raw_fd(), to.as_raw_fd());
            libc::copy_file_range(from, &raw mut source, to, &raw mut target, most, 0)
        };
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            _ if count > 0 => copied += count as u64,
            Some(libc::EINTR) if count < 0 => {}
            Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) if count < 0 => return Err(error),
            // Also at the end of `from`, which some file systems (FUSE) report wrongly.
            _ => {
                return portable::copy_range(from, offset + copied, to, target_offset + copied, size - copied)
            }
        }
    }
    Ok(())
}
