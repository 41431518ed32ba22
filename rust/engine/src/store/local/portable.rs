//! System calls that all Unix systems have, also the fallback of `linux`.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Not all systems have this flag.
#[cfg_attr(all(target_os = "linux", not(feature = "portable")), expect(dead_code))]
pub(super) const DIRECT: libc::c_int = 0;

/// Lock `file` for this open file description alone; false if another one holds the lock. The lock
/// ends when the last descriptor of the description is closed.
pub(super) fn try_lock(file: &File) -> io::Result<bool> {
    loop {
        // SAFETY: the descriptor is open while `file` is borrowed.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::Interrupted => {}
            io::ErrorKind::WouldBlock => return Ok(false),
            _ => return Err(error),
        }
    }
}

/// Exchange two folders. For a moment none exists at `second`.
pub(super) fn exchange(first: &Path, second: &Path) -> io::Result<()> {
    let mut temporary = first.as_os_str().to_owned();
    temporary.push(".old");
    let temporary = PathBuf::from(temporary);
    fs::rename(second, &temporary)?;
    if let Err(error) = fs::rename(first, second) {
        fs::rename(&temporary, second)?;
        return Err(error);
    }
    fs::rename(&temporary, first)
}

/// Copy `size` bytes at `offset` of `from` to `target_offset` of `to`. If `from` ends early, the
/// error is `ErrorKind::UnexpectedEof`.
pub(super) fn copy_range(
    from: &File,
    offset: u64,
    to: &File,
    target_offset: u64,
    size: u64,
) -> io::Result<()> {
    let mut buffer = vec![0; size.min(1 << 20) as usize];
    let mut copied = 0;
    while copied < size {
        let count = (size - copied).min(buffer.len() as u64) as usize;
        let block = &mut buffer[..count];
        from.read_exact_at(block, offset + copied)?;
        to.write_all_at(block, target_offset + copied)?;
        copied += count as u64;
    }
    Ok(())
}
