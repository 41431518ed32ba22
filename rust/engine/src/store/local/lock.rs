//! The lock file of a key, by TensorStore's protocol: both libraries can write one array
//! concurrently.
//!
//! The lock file of the file `key` is `key.__lock`, and it becomes the new value. Only the holder
//! of an exclusive lock on the whole file *at this path* may write to it, remove it, or rename it
//! to `key`. While a process waits for the lock, the file may lose its path, because it became the
//! value or was removed. Then the lock is void, and the process starts again. Readers never lock. A
//! killed process leaves at most an unlocked lock file, which the next writer takes over.
//!
//! Some file systems have no locks. On these, the lock file belongs to the process that created it
//! and names this process; the new value is a separate file. If that process ran on this machine
//! and has ended, one process at a time removes its lock file, under a second lock file.

use std::fs::{self, File, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::super::LOCK_SUFFIX;
use super::lock_owner::Owner;
use super::{platform, Locking, Settings};
use crate::store::interruptible_wait::Wait;
use crate::warning::warn;

/// How long to wait for another writer before its lock file is removed with a folder.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(60);

/// The exclusive right to change one key. Dropping it removes the lock file.
pub(super) struct Lock {
    path: PathBuf,
    pub(super) file: File,
    /// Bytes that a killed writer left in the file.
    pub(super) stale_bytes: u64,
    has_path: bool,
    /// The lock file, if it is not the new value.
    guard: Option<Guard>,
}

/// A lock file that this process created. Dropping it removes the file.
struct Guard(PathBuf);

impl Drop for Guard {
    fn drop(&mut self) {
        // A lock file that remains is taken over once this process has ended.
        let _ = fs::remove_file(&self.0);
    }
}

impl Lock {
    /// Lock the file `target` according to `settings`. `ErrorKind::NotFound`: the folder does not
    /// exist. `ErrorKind::TimedOut`: another writer holds the lock too long.
    pub(super) fn of(target: &Path, settings: &Settings, support: &LockSupport) -> io::Result<Lock> {
        let path = with_suffix(target, "");
        match settings.locking {
            Locking::System if support.is_lacking() => Lock::guarded(target, settings.timeout),
            Locking::System => match Lock::create(path, settings.timeout) {
                Err(error) if is_unsupported(&error) && support.record_lacking(target)? => {
                    Lock::guarded(target, settings.timeout)
                }
                Ok(lock) => {
                    support.record_present();
                    Ok(lock)
                }
                failed => failed,
            },
            Locking::File => Lock::create_exclusive(path, settings.timeout),
            Locking::Nothing | Locking::InPlace => Lock::create_private(with_suffix(target, &unused_name())),
        }
    }

    /// Create the file `path` and wait for its lock.
    pub(super) fn create(path: PathBuf, timeout: Duration) -> io::Result<Lock> {
        let mut wait = Wait::at_most(timeout);
        loop {
            let (file, is_created) = open_or_create(&path)?;
            match wait_for_lock(&file, &path, &mut wait) {
                Ok(Some(bytes)) if bytes > 0 && Owner::of(&path)?.is_some_and(|it| !it.is_dead()) => {
                    // The owner's file system has no locks.
                    drop(file);
                    step(&mut wait)?;
                }
                Ok(Some(stale_bytes)) => {
                    return Ok(Lock { path, file, stale_bytes, has_path: true, guard: None });
                }
                Ok(None) => {}
                Err(error) => {
                    if is_created && is_unsupported(&error) {
                        fs::remove_file(&path)?;
                    }
                    return Err(error);
                }
            }
            if wait.has_expired() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    /// Wait until `path` can be created.
    fn create_exclusive(path: PathBuf, timeout: Duration) -> io::Result<Lock> {
        let mut wait = Wait::at_most(timeout);
        loop {
            match options().create_new(true).open(&path) {
                Ok(file) => return Ok(Lock { path, file, stale_bytes: 0, has_path: true, guard: None }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => step(&mut wait)?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Create a file that no other process uses.
    fn create_private(path: PathBuf) -> io::Result<Lock> {
        let file = options().create_new(true).open(&path)?;
        Ok(Lock { path, file, stale_bytes: 0, has_path: true, guard: None })
    }

    /// Wait until the lock file can be created, and create another file for the value.
    fn guarded(target: &Path, timeout: Duration) -> io::Result<Lock> {
        let value = with_suffix(target, &unused_name());
        let path = with_suffix(target, "");
        let owner = Owner::current(&value);
        let mut wait = Wait::at_most(timeout);
        while !create_with(&path, &owner.to_text())? {
            if !remove_dead(target, &path)? {
                step(&mut wait)?;
            }
        }
        let guard = Guard(path);
        let mut lock = Lock::create_private(value)?;
        lock.guard = Some(guard);
        Ok(lock)
    }

    /// Remove a lock file once no process holds it.
    pub(super) fn remove(path: &Path) -> io::Result<()> {
        match options().open(path) {
            Ok(file) => match wait_for_lock(&file, path, &mut Wait::at_most(REMOVE_TIMEOUT)) {
                Ok(Some(_)) => fs::remove_file(path),
                Ok(None) => Ok(()),
                Err(error) if is_unsupported(&error) => remove_unlocked(path),
                Err(error) => Err(error),
            },
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => fs::remove_file(path),
            Err(error) => Err(error),
        }
    }

    /// Rename the lock file to the value, which ends the lock.
    pub(super) fn rename(&mut self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)?;
        self.has_path = false;
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Release the path, because another process removed the file against the protocol.
    pub(super) fn give_up_path(&mut self) {
        self.has_path = false;
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.has_path {
            // A lock file that remains is taken over.
            let _ = fs::remove_file(&self.path);
        }
        // Other writers may start once the file of this value is gone.
        drop(self.guard.take());
    }
}

/// Whether the file system has locks, as far as a store knows.
#[derive(Debug, Default)]
pub(super) struct LockSupport(AtomicU8);

const LACKING: u8 = 1;
const PRESENT: u8 = 2;

impl LockSupport {
    fn is_lacking(&self) -> bool {
        self.0.load(Ordering::Relaxed) == LACKING
    }

    fn record_present(&self) {
        self.0.store(PRESENT, Ordering::Relaxed);
    }

    /// Record that locks are not supported. False: they were before, so lock files would not
    /// exclude other writers.
    fn record_lacking(&self, target: &Path) -> io::Result<bool> {
        match self.0.compare_exchange(0, LACKING, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                let message = format!(
                    "the file system of {:?} has no locks: writers exclude each other by lock files, and that of a \
                     writer that is killed on another machine has to be removed by hand; pass \
                     locking=\"lockfile\" or \"none\" to choose how writers exclude each other",
                    target.parent().unwrap_or(target)
                );
                warn(&message).map_err(io::Error::other).map(|()| true)
            }
            Err(state) => Ok(state == LACKING),
        }
    }
}

// This knowledge does not distinguish stores.
impl PartialEq for LockSupport {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for LockSupport {}

impl Hash for LockSupport {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// Return whether the error means that locks are not supported.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOLCK | libc::ENOSYS | libc::EOPNOTSUPP | libc::EINVAL))
        || error.raw_os_error() == Some(libc::ENOTSUP)
}

/// Open a lock file. Return whether this call created it.
fn open_or_create(path: &Path) -> io::Result<(File, bool)> {
    loop {
        match options().create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            is_created => return is_created.map(|file| (file, true)),
        }
        match options().open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened.map(|file| (file, false)),
        }
    }
}

/// Create a file with the content `text` atomically; false: the file exists.
fn create_with(path: &Path, text: &str) -> io::Result<bool> {
    let draft_path = with_suffix(path, &unused_name());
    options().create_new(true).open(&draft_path)?.write_all(text.as_bytes())?;
    let linked = fs::hard_link(&draft_path, path);
    fs::remove_file(&draft_path)?;
    match linked {
        Ok(()) => return Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error),
        Err(_) => {} // the file system has no hard links
    }
    match options().create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        is_created => is_created?.write_all(text.as_bytes()).map(|()| true),
    }
}

/// Remove the lock file of a process that has ended, and its value; false: the process runs, or
/// another one removes the file.
fn remove_dead(target: &Path, path: &Path) -> io::Result<bool> {
    let is_dead = || Owner::of(path).map(|owner| owner.filter(Owner::is_dead));
    if is_dead()?.is_none() {
        return Ok(false);
    }
    let takeover = with_suffix(target, "_takeover");
    if !create_with(&takeover, &Owner::current(path).to_text())? {
        return Ok(false);
    }
    let _takeover = Guard(takeover);
    // Another process may have removed the file and created its own in between.
    let Some(owner) = is_dead()? else { return Ok(true) };
    if owner.value.ends_with(LOCK_SUFFIX) && !owner.value.contains('/') {
        ignore_absence(fs::remove_file(path.with_file_name(&owner.value)))?;
    }
    ignore_absence(fs::remove_file(path))?;
    remove_drafts(path)?;
    Ok(true)
}

/// Remove the drafts of [`create_with`] that ended processes left beside the lock file `path`.
fn remove_drafts(path: &Path) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let mut start = name.to_owned();
    start.push("_");
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (name, draft_path) = (entry.file_name(), entry.path());
        let bytes = name.as_encoded_bytes();
        let is_draft = bytes.starts_with(start.as_encoded_bytes()) && bytes.ends_with(LOCK_SUFFIX.as_bytes());
        // A process that still writes to an empty draft creates another one.
        let is_abandoned = || match Owner::of(&draft_path)? {
            Some(owner) => Ok::<_, io::Error>(owner.is_dead()),
            None => Ok(entry.metadata().is_ok_and(|metadata| metadata.len() == 0)),
        };
        if is_draft && is_abandoned()? {
            ignore_absence(fs::remove_file(draft_path))?;
        }
    }
    Ok(())
}

/// Remove a lock file in a file system without locks, once no process owns it.
fn remove_unlocked(path: &Path) -> io::Result<()> {
    let mut wait = Wait::at_most(REMOVE_TIMEOUT);
    while Owner::of(path)?.is_some_and(|owner| !owner.is_dead()) {
        step(&mut wait)?;
    }
    ignore_absence(fs::remove_file(path))
}

fn ignore_absence(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Reject symbolic links, which could lead outside the root, and do not wait at a pipe.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    options
}

fn with_suffix(target: &Path, infix: &str) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(infix);
    name.push(LOCK_SUFFIX);
    name.into()
}

/// Return a name that no other thread or process uses, most probably on no other machine either.
pub(super) fn unused_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("_{:x}_{since:x}_{count:x}", std::process::id())
}

/// Wait for the lock on `file`, and return its size. None: it lost its path during the wait.
fn wait_for_lock(file: &File, path: &Path, wait: &mut Wait) -> io::Result<Option<u64>> {
    loop {
        let locked = platform::try_lock(file)?;
        let locked_file = file.metadata()?;
        if !locked_file.is_file() {
            return Err(io::Error::other("the lock file is not a regular file"));
        }
        match fs::symlink_metadata(path) {
            Ok(metadata) if (metadata.dev(), metadata.ino()) == (locked_file.dev(), locked_file.ino()) => {
                if locked {
                    return Ok(Some(locked_file.len()));
                }
            }
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
        step(wait)?;
    }
}

fn step(wait: &mut Wait) -> io::Result<()> {
    match wait.has_expired() {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => wait.step().map_err(io::Error::other),
    }
}
