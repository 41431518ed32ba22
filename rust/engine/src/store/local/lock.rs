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
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::super::wait::Wait;
use super::super::LOCK_SUFFIX;
use super::{platform, Locking, Settings};

/// How long to wait for another writer before its lock file is removed with a folder.
const PATIENCE: Duration = Duration::from_secs(60);

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
    /// The lock of the file `target`, as `settings` say. `ErrorKind::NotFound`: there is no
    /// such folder. `ErrorKind::TimedOut`: somebody holds it too long.
    pub(super) fn of(target: &Path, settings: &Settings) -> io::Result<Lock> {
        let path = with_suffix(target, "");
        match settings.locking {
            Locking::System => Lock::create(path, settings.patience),
            Locking::File => Lock::claim(path, settings.patience),
            Locking::Nothing | Locking::InPlace => Lock::make(with_suffix(target, &unused_name())),
        }
    }

    /// Waits for the lock of `path`, creating the file.
    pub(super) fn create(path: PathBuf, patience: Duration) -> io::Result<Lock> {
        let mut wait = Wait::at_most(patience);
        loop {
            let file = options().create(true).truncate(false).open(&path)?;
            if let Attempt::Held(stale_bytes) = hold(&file, &path, &mut wait)? {
                return Ok(Lock { path, file, stale_bytes, has_path: true });
            }
            if wait.is_over() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    /// Waits until `path` can be made.
    fn claim(path: PathBuf, patience: Duration) -> io::Result<Lock> {
        let mut wait = Wait::at_most(patience);
        loop {
            match options().create_new(true).open(&path) {
                Ok(file) => return Ok(Lock { path, file, stale_bytes: 0, has_path: true }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => a_little(&mut wait)?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes a file that is nobody else's.
    fn make(path: PathBuf) -> io::Result<Lock> {
        let file = options().create_new(true).open(&path)?;
        Ok(Lock { path, file, stale_bytes: 0, has_path: true })
    }

    /// Removes a lock file once nobody holds it.
    pub(super) fn remove(path: &Path) -> io::Result<()> {
        match options().open(path) {
            Ok(file) => match hold(&file, path, &mut Wait::at_most(PATIENCE))? {
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

fn with_suffix(target: &Path, own: &str) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(own);
    name.push(LOCK_SUFFIX);
    name.into()
}

/// A name that no other thread or process uses, most probably on no other machine either.
pub(super) fn unused_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("_{:x}_{since:x}_{count:x}", std::process::id())
}

/// Waits for the lock on `file`, or until `path` is another file.
fn hold(file: &File, path: &Path, wait: &mut Wait) -> io::Result<Attempt> {
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
        a_little(wait)?;
    }
}

fn a_little(wait: &mut Wait) -> io::Result<()> {
    match wait.is_over() {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => wait.a_little().map_err(io::Error::other),
    }
}
