//! The lock file of one key: TensorStore's protocol, so that both libraries may
//! write one array at the same time.
//!
//! The lock file of the file `key` is `key.__lock`, and it is also the new value
//! in the making. Only the holder of an exclusive lock on the whole file *that
//! has this path* may write to it, remove it, or rename it to `key`. A process
//! that opened the file and then waited for the lock may find that the file lost
//! its path meanwhile (it became the value, or was removed): then its lock means
//! nothing, and it starts again. Readers never lock. A killed process leaves at
//! most an unlocked lock file, which the next writer takes over.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::wait;
use super::platform;

/// How long to wait for another writer of one key. Writing one value takes
/// seconds at most; a longer wait means a stopped process or a broken network file system.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Exclusive right to change one key. Dropping it removes the lock file.
pub(super) struct Lock {
    path: PathBuf,
    pub(super) file: File,
    /// Bytes that a killed writer left in the file.
    pub(super) stale_bytes: u64,
    has_path: bool,
}

enum Attempt {
    Held(u64),
    /// The file lost its path while we waited.
    Moved,
}

impl Lock {
    /// Waits for the lock of `path`, creating the file. `ErrorKind::NotFound`:
    /// there is no such folder. `ErrorKind::TimedOut`: somebody holds it too long.
    pub(super) fn create(path: PathBuf) -> io::Result<Lock> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let file = options().create(true).truncate(false).open(&path)?;
            if let Attempt::Held(stale_bytes) = hold(&file, &path, deadline)? {
                return Ok(Lock { path, file, stale_bytes, has_path: true });
            }
            if Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    /// Removes a lock file once nobody holds it.
    pub(super) fn remove(path: &Path) -> io::Result<()> {
        match options().open(path) {
            Ok(file) => match hold(&file, path, Instant::now() + PATIENCE)? {
                Attempt::Held(_) => fs::remove_file(path),
                Attempt::Moved => Ok(()),
            },
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => fs::remove_file(path),
            Err(error) => Err(error),
        }
    }

    /// Makes the lock file the value; the lock is gone then.
    pub(super) fn rename(&mut self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)?;
        self.has_path = false;
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The path no longer is ours: somebody removed the file against the rules.
    pub(super) fn forget(&mut self) {
        self.has_path = false;
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.has_path {
            // Nothing depends on it: a lock file that stays is taken over.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// No symbolic link, which could lead the write out of the root; no waiting at a pipe.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    options
}

/// Waits for the lock on `file`, or until `path` is another file.
///
/// Polls, instead of waiting inside the kernel, for three reasons: the wait ends
/// after [`PATIENCE`]; a lock that a forked child inherited (it lives as long as
/// the child) does not hold us up once the file lost its path; and no thread is
/// stuck where no signal reaches it.
fn hold(file: &File, path: &Path, deadline: Instant) -> io::Result<Attempt> {
    let mut pause = Duration::from_micros(20);
    let mut asked = None;
    loop {
        let locked = platform::try_lock(file)?;
        let ours = file.metadata()?;
        if !ours.is_file() {
            return Err(io::Error::other("the lock file is not a regular file"));
        }
        match fs::symlink_metadata(path) {
            Ok(found) if (found.dev(), found.ino()) == (ours.dev(), ours.ino()) => {
                if locked {
                    return Ok(Attempt::Held(ours.len()));
                }
            }
            Ok(_) => return Ok(Attempt::Moved),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Attempt::Moved),
            Err(error) => return Err(error),
        }
        let now = Instant::now();
        if now >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if now - *asked.get_or_insert(now) >= wait::ASK_EVERY {
            wait::ask().map_err(io::Error::other)?;
            asked = Some(now);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(1));
    }
}
