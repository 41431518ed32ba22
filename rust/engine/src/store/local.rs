//! A store in a folder: the file `root/key` holds the value of `key`.
//!
//! Values are never changed in place but replaced by `rename`, so a reader sees
//! one value whole, without any lock; writers of one key exclude each other by a
//! lock file, see `lock`. Only regular files are values (through symbolic links);
//! anything else that has the path of a key counts as absent.

#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod linux;
mod lock;
mod portable;
mod tree;

#[cfg(all(target_os = "linux", not(feature = "portable")))]
use linux as platform;
#[cfg(any(not(target_os = "linux"), feature = "portable"))]
use portable as platform;

use std::cell::RefCell;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, IoSlice, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{check_key, check_prefix, no_current, past_the_end, LOCK_SUFFIX};
use super::{Change, Listing, Object, Part, Store, Updater, Version, Want};
use crate::error::{Error, Kind, Result};
use lock::Lock;

/// How often a write starts again because its folder or lock file vanished.
const ATTEMPTS: usize = 100;

/// Keys and values as files below one folder, which is created by the first write.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct LocalStore {
    root: PathBuf,
    read_only: bool,
    durable: bool,
}

impl LocalStore {
    /// The store in the folder `root` (made absolute). `durable`: every change
    /// has reached the disk when the call returns.
    pub fn new(root: &Path, read_only: bool, durable: bool) -> Result<Self> {
        if root.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(Error::new(Kind::Argument, format!("{root:?} is not a path: it contains NUL")));
        }
        let root = std::path::absolute(root)
            .map_err(|error| Error::new(Kind::Argument, format!("{root:?} is not a path: {error}")))?;
        Ok(LocalStore { root, read_only, durable })
    }

    /// The folder, absolute.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether changes are synchronised with the disk.
    pub fn durable(&self) -> bool {
        self.durable
    }

    fn path(&self, key: &str) -> PathBuf {
        self.root.join(key)
    }

    fn create_folder_of(&self, path: &Path) -> Result<()> {
        let folder = path.parent().unwrap_or(&self.root);
        let created = tree::create_folders(folder, self.durable);
        Ok(created.map_err(|error| Failure::new("create folder", folder, error))?)
    }

    fn check_writable(&self) -> Result<()> {
        if self.read_only {
            let message = format!("the store {:?} is open for reading only", self.root);
            return Err(Error::new(Kind::ReadOnly, message));
        }
        Ok(())
    }

    /// Makes `change` under `lock`. False: others removed the lock file, so that
    /// nothing was changed.
    fn apply(
        &self,
        mut lock: Lock,
        path: &Path,
        current: Option<&LocalObject>,
        change: &Change<'_>,
    ) -> Result<bool> {
        match change {
            Change::Keep => return Ok(true),
            Change::Delete => match fs::remove_file(path) {
                Err(error) if !tree::is_absence(&error) => {
                    return Err(Failure::new("delete", path, error).into())
                }
                _ => {}
            },
            Change::Write(parts) => {
                write_parts(&lock, parts, current)?;
                if self.durable {
                    lock.file.sync_data().map_err(|error| Failure::new("synchronise", path, error))?;
                }
                match rename(&mut lock, path) {
                    Err(error) if error.kind() == ErrorKind::NotFound => {
                        lock.forget();
                        return Ok(false);
                    }
                    done => done.map_err(|error| Failure::new("replace", path, error))?,
                }
            }
        }
        if self.durable {
            let folder = path.parent().unwrap_or(&self.root);
            tree::sync_folder(folder).map_err(|error| Failure::new("synchronise", folder, error))?;
        }
        Ok(true)
    }

    fn update_unnamed<'a>(
        &self,
        key: &str,
        needs_current: bool,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<Change<'a>> {
        self.check_writable()?;
        let path = self.path(key);
        // What does not depend on the current value is made before the lock is
        // taken. Deleting what does not exist needs no lock: at the moment of
        // this look the key is absent, and so it would be after a locked delete.
        let mut early = if needs_current { None } else { Some(updater(None)?) };
        match &early {
            Some(Change::Keep) => return Ok(Change::Keep),
            Some(Change::Delete) if !path.is_file() => return Ok(Change::Delete),
            _ => {}
        }
        let lock_path = with_lock_suffix(&path);
        let mut if_absent = None;
        for _ in 0..ATTEMPTS {
            let lock = match Lock::create(lock_path.clone()) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    // The folder is missing, so the key is absent: no folder is made
                    // for a change that stores nothing. A new value counts if the key
                    // is still absent under the lock.
                    if needs_current && if_absent.is_none() {
                        match updater(None)? {
                            Change::Write(parts) => if_absent = Some(Change::Write(parts)),
                            nothing => return Ok(nothing),
                        }
                    }
                    self.create_folder_of(&path)?;
                    continue;
                }
                done => done.map_err(|error| Failure::new("lock", &lock_path, error))?,
            };
            let (current, change) = match early.take() {
                Some(change) => (None, change),
                None => {
                    let current = open_value(&path).map_err(|error| Failure::new("open", &path, error))?;
                    let change = match (&current, if_absent.take()) {
                        (None, Some(change)) => change,
                        _ => updater(current.as_ref().map(|object| object as &dyn Object))?,
                    };
                    (current, change)
                }
            };
            if self.apply(lock, &path, current.as_ref(), &change)? {
                return Ok(change);
            }
            early = if needs_current { None } else { Some(change) };
        }
        Err(vanishing("replace", &path).into())
    }
}

impl Store for LocalStore {
    fn open(&self, key: &str, _want: Want) -> Result<Option<Box<dyn Object>>> {
        check_key(key)?;
        thread_local! {
            static PATH: RefCell<PathBuf> = RefCell::default();
        }
        PATH.with_borrow_mut(|path| {
            path.as_mut_os_string().clear();
            path.push(&self.root);
            path.push(key);
            match open_value(path) {
                Ok(object) => Ok(object.map(|object| Box::new(object) as Box<dyn Object>)),
                Err(error) => Err(Error::from(Failure::new("open", path, error)).at_key(key)),
            }
        })
    }

    fn update<'a>(
        &self,
        key: &str,
        needs_current: bool,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<Change<'a>> {
        check_key(key)?;
        self.update_unnamed(key, needs_current, updater).map_err(|error| error.at_key(key))
    }

    fn hold(&self, key: &str, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        check_key(key)?;
        self.check_writable()?;
        let path = self.path(key);
        for _ in 0..ATTEMPTS {
            match Lock::create(with_lock_suffix(&path)) {
                Err(error) if error.kind() == ErrorKind::NotFound => self.create_folder_of(&path)?,
                done => {
                    let _held = done.map_err(|error| Failure::new("lock", &path, error))?;
                    return work();
                }
            }
        }
        Err(vanishing("lock", &path).into())
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        check_prefix(prefix)?;
        let mut keys = tree::keys(self.path(prefix), prefix)?;
        keys.sort_unstable();
        Ok(keys)
    }

    fn list_dir(&self, prefix: &str) -> Result<Listing> {
        check_prefix(prefix)?;
        Ok(tree::level(&self.path(prefix), prefix)?)
    }

    fn delete_prefix(&self, prefix: &str) -> Result<()> {
        check_prefix(prefix)?;
        self.check_writable()?;
        match prefix.strip_suffix('/') {
            None => tree::empty(&self.root)?,
            Some(folder) => tree::remove(&self.path(folder))?,
        }
        if self.durable {
            let folder = self.path(prefix);
            let parent = if prefix.is_empty() { &folder } else { folder.parent().unwrap_or(&self.root) };
            match tree::sync_folder(parent) {
                Err(error) if !tree::is_absence(&error) => {
                    return Err(Failure::new("synchronise", parent, error).into())
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read_only(&self) -> bool {
        self.read_only
    }
}

/// Writes the new value into the lock file.
fn write_parts(lock: &Lock, parts: &[Part<'_>], current: Option<&LocalObject>) -> Result<()> {
    let fail = |error| Failure::new("write", lock.path(), error);
    if lock.stale_bytes > 0 {
        lock.file.set_len(0).map_err(fail)?;
    }
    let mut at = 0;
    let mut pending: Vec<IoSlice<'_>> = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Part::Owned(bytes) => pending.push(IoSlice::new(bytes)),
            Part::Borrowed(bytes) => pending.push(IoSlice::new(bytes)),
            Part::Current { offset, size } => {
                at += write_all(&lock.file, &mut pending).map_err(fail)?;
                let current = current.ok_or_else(no_current)?;
                current.check_range(*offset, *size)?;
                platform::copy_range(&current.file, *offset, &lock.file, at, *size).map_err(fail)?;
                at += size;
                io::Seek::seek(&mut &lock.file, io::SeekFrom::Start(at)).map_err(fail)?;
            }
        }
    }
    write_all(&lock.file, &mut pending).map_err(fail)?;
    Ok(())
}

/// Writes all of `pending` at the position of `file` and clears it. Gives the size.
fn write_all(mut file: &File, pending: &mut Vec<IoSlice<'_>>) -> io::Result<u64> {
    let size = pending.iter().map(|slice| slice.len() as u64).sum();
    let mut rest = &mut pending[..];
    let mut left = size;
    while left > 0 {
        match file.write_vectored(rest) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => {
                left -= count as u64;
                IoSlice::advance_slices(&mut rest, count);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    pending.clear();
    Ok(size)
}

/// Makes the lock file the value. Folders without a file, which deleted keys left
/// behind at this path, make way.
fn rename(lock: &mut Lock, path: &Path) -> io::Result<()> {
    match lock.rename(path) {
        Err(error) if error.kind() == ErrorKind::IsADirectory => match tree::remove_hollow(path) {
            Ok(()) => lock.rename(path),
            Err(_) => Err(error),
        },
        done => done,
    }
}

fn with_lock_suffix(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(LOCK_SUFFIX);
    name.into()
}

/// An open file. Replacing the value gives its path to another file, so this one
/// stays what it was.
struct LocalObject {
    file: File,
    size: u64,
    version: Option<Version>,
}

/// Opens the value at `path`; None unless a regular file is there.
/// Three system calls: open, statx, and the close at the end.
fn open_value(path: &Path) -> io::Result<Option<LocalObject>> {
    // Opening a pipe would wait for its writer without O_NONBLOCK; for a regular
    // file it means nothing.
    let file = match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path) {
        Ok(file) => file,
        Err(error) if tree::is_absence(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let found = file.metadata()?;
    if !found.is_file() {
        return Ok(None);
    }
    Ok(Some(LocalObject { size: found.len(), version: version(&found), file }))
}

/// A file changed this recently could change again without a new time stamp.
///
/// The kernel stamps files with a clock that ticks every 1 to 10 ms. Somebody
/// else's writer that changes files in place (zarrs does) could change a file
/// twice within one tick; whoever looked in between would hold a version that
/// equals the one after. So a file whose stamps are this young, or from the
/// future, has no version (git calls such files "racily clean").
const RACY: Duration = Duration::from_millis(20);

fn version(found: &Metadata) -> Option<Version> {
    let stamp = |seconds: i64, nanoseconds: i64| {
        let seconds = u64::try_from(seconds).unwrap_or(0);
        seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds as u64)
    };
    let modified = stamp(found.mtime(), found.mtime_nsec());
    let changed = stamp(found.ctime(), found.ctime_nsec());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let racy_since = now.checked_sub(RACY)?.as_nanos();
    if u128::from(modified.max(changed)) >= racy_since {
        return None;
    }
    // The second stamp is scattered over all bits, lest two shifts cancel out.
    let mixed = modified ^ changed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    Some(Version([found.dev(), found.ino(), found.len(), mixed]))
}

impl LocalObject {
    fn check_range(&self, offset: u64, count: u64) -> Result<()> {
        match offset.checked_add(count) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(past_the_end(offset, count as usize, self.size)),
        }
    }
}

impl Object for LocalObject {
    fn size(&self) -> u64 {
        self.size
    }

    fn version(&self) -> Option<Version> {
        self.version
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.check_range(offset, out.len() as u64)?;
        self.file.read_exact_at(out, offset).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => Error::data("the file became shorter while it was read"),
            _ => Error::io("cannot read", &error),
        })
    }

    fn file(&self) -> Option<&File> {
        Some(&self.file)
    }
}

fn vanishing(action: &'static str, path: &Path) -> Failure {
    let error = io::Error::new(ErrorKind::WouldBlock, "its folder or lock file keeps vanishing");
    Failure::new(action, path, error)
}

/// What could not be done with which path.
struct Failure {
    action: &'static str,
    path: PathBuf,
    error: io::Error,
}

impl Failure {
    fn new(action: &'static str, path: &Path, error: io::Error) -> Self {
        Failure { action, path: path.to_owned(), error }
    }
}

impl From<Failure> for Error {
    fn from(Failure { action, path, error }: Failure) -> Self {
        let error = match error.downcast::<Error>() {
            Ok(interruption) => return interruption,
            Err(error) => error,
        };
        if error.kind() == ErrorKind::TimedOut && action == "lock" {
            let waited = lock::PATIENCE.as_secs();
            let message =
                format!("cannot {action} {path:?}: another writer holds it for more than {waited} s");
            let errno = Some(libc::ETIMEDOUT);
            return Error::new(Kind::Store { retryable: true, errno }, message);
        }
        let what = format_args!("cannot {action} {path:?}");
        if error.kind() == ErrorKind::NotADirectory {
            let found = Error::io(what, &error);
            return Error {
                message: format!("{}: a file is where a folder should be", found.message),
                ..found
            };
        }
        Error::io(what, &error)
    }
}

#[cfg(test)]
mod tests;
