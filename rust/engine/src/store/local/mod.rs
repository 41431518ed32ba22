//! A store in a folder: the file `root/key` holds the value of `key`.
//!
//! Values are never changed in place but replaced by `rename`, so that a reader sees one complete
//! value without a lock. Writers of one key exclude each other by a lock file (see `lock`), unless
//! the settings say otherwise. Only regular files are values, through symbolic links; other files
//! at the path of a key count as absent.

mod folders;
mod fsync;
#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod linux;
mod lock;
mod lock_owner;
mod mmap;
mod opened_file;
mod portable;
mod settings;

#[cfg(all(target_os = "linux", not(feature = "portable")))]
use linux as platform;
#[cfg(any(not(target_os = "linux"), feature = "portable"))]
use portable as platform;

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, ErrorKind, IoSlice, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use super::key_locks::{Held, KeyLocks};
use super::wrappers::counting::{Counts, Tally};
use super::wrappers::Call;
use super::{joined, no_current};
use super::{AtPath, Change, Listing, Made, Need, Object, Part, Store, Updater, Version, Want};
use crate::error::{Error, Kind, Result};
use lock::{Lock, LockSupport};
use opened_file::{open_value, LocalObject, Mark};
pub use settings::{Locking, Reading, Settings};

/// How often a write starts again because its folder or lock file vanished.
const ATTEMPTS: usize = 100;

/// Values as files below one folder, which the first write creates.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct LocalStore {
    root: PathBuf,
    settings: Settings,
    locks: LockSupport,
}

/// Keys, by path, that threads of this process are changing without a lock file.
static CHANGING: LazyLock<KeyLocks> = LazyLock::new(KeyLocks::new);

/// Counts of the calls to all local stores.
static ASKED: LazyLock<Tally> = LazyLock::new(Tally::default);

/// The number of calls to all local stores of this process.
pub fn asked_of_files() -> Counts {
    ASKED.counts()
}

/// The outcome of a change.
enum Applied {
    /// It is applied. The new version, if requested and known.
    Done(Option<Version>),
    /// Another process removed the lock file; nothing changed.
    LockLost,
}

impl LocalStore {
    /// The store in the folder `root` (made absolute).
    pub fn new(root: &Path, settings: Settings) -> Result<Self> {
        if root.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(Error::new(Kind::Argument, format!("{root:?} is not a path: it contains NUL")));
        }
        let root = std::path::absolute(root)
            .map_err(|error| Error::new(Kind::Argument, format!("{root:?} is not a path: {error}")))?;
        Ok(LocalStore { root, settings, locks: LockSupport::default() })
    }

    /// The absolute path of the folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    fn path(&self, key: &str) -> PathBuf {
        self.root.join(key)
    }

    /// Create the folder of the value at `path`. Returns the folders that got new entries.
    fn create_folder_of(&self, path: &Path) -> Result<Vec<PathBuf>> {
        let folder = path.parent().unwrap_or(&self.root);
        let created = folders::create_folders(folder);
        Ok(created.map_err(|error| Failure::new("create folder", folder, error))?)
    }

    /// Make the entries of `folders` durable, if the settings ask for it.
    fn synchronise_folders(&self, folders: &[PathBuf]) -> Result<()> {
        for folder in folders.iter().rev().filter(|_| self.settings.durable) {
            match folders::sync_folder(folder) {
                Err(error) if !folders::is_absence(&error) => {
                    return Err(Failure::new("synchronise", folder, error).into())
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn check_writable(&self) -> Result<()> {
        if self.settings.read_only {
            let message = format!("the store {:?} is open for reading only", self.root);
            return Err(Error::new(Kind::ReadOnly, message));
        }
        Ok(())
    }

    /// Apply `change` under `lock`, or in place without one. `versioned`: return the new version.
    fn apply(
        &self,
        lock: Option<Lock>,
        path: &Path,
        current: Option<&LocalObject>,
        change: &Change<'_>,
        versioned: bool,
    ) -> Result<Applied> {
        let mut version = None;
        match change {
            Change::Keep => return Ok(Applied::Done(None)),
            Change::Delete => match fs::remove_file(path) {
                // A key whose path is a folder is absent; systems report that with different
                // errors.
                Err(error) if !folders::is_absence(&error) && !path.is_dir() => {
                    return Err(Failure::new("delete", path, error).into())
                }
                _ => {}
            },
            Change::Write(parts) => match lock {
                None => self.write_in_place(path, parts, current)?,
                Some(lock) => match self.write_aside(lock, path, parts, current, versioned)? {
                    Applied::Done(found) => version = found,
                    lost => return Ok(lost),
                },
            },
        }
        if self.settings.durable {
            let folder = path.parent().unwrap_or(&self.root);
            folders::sync_folder(folder).map_err(|error| Failure::new("synchronise", folder, error))?;
        }
        Ok(Applied::Done(version))
    }

    /// Write the lock file, and rename it to the value.
    fn write_aside(
        &self,
        mut lock: Lock,
        path: &Path,
        parts: &[Part<'_>],
        current: Option<&LocalObject>,
        versioned: bool,
    ) -> Result<Applied> {
        keep_permissions(path, &lock.file).map_err(|error| Failure::new("replace", path, error))?;
        write_parts(&lock, parts, current)?;
        let mark = if versioned { Mark::on(&lock.file) } else { None };
        self.synchronise(&lock.file, path)?;
        match rename(&mut lock, path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                lock.forget();
                Ok(Applied::LockLost)
            }
            done => {
                done.map_err(|error| Failure::new("replace", path, error))?;
                Ok(Applied::Done(mark.and_then(|mark| mark.version(&lock.file))))
            }
        }
    }

    fn write_in_place(&self, path: &Path, parts: &[Part<'_>], current: Option<&LocalObject>) -> Result<()> {
        let whole = joined(parts, current.map(|object| object as &dyn Object))?;
        let grown = self.create_folder_of(path)?;
        let file = File::create(path).or_else(|error| match error.kind() {
            ErrorKind::IsADirectory if folders::remove_hollow(path).is_ok() => File::create(path),
            _ => Err(error),
        });
        let done = file.and_then(|mut file| file.write_all(&whole).map(|()| file));
        let file = done.map_err(|error| Failure::new("write", path, error))?;
        self.synchronise(&file, path)?;
        self.synchronise_folders(&grown)
    }

    fn synchronise(&self, file: &File, path: &Path) -> Result<()> {
        if self.settings.durable {
            fsync::synchronise(file).map_err(|error| Failure::new("synchronise", path, error))?;
        }
        Ok(())
    }

    /// Lock `path`; None if values are changed in place, without a lock. [`ErrorKind::NotFound`]:
    /// the folder does not exist.
    fn lock(&self, path: &Path) -> io::Result<Option<Lock>> {
        match self.settings.locking {
            Locking::InPlace => Ok(None),
            _ => Lock::of(path, &self.settings, &self.locks).map(Some),
        }
    }

    /// Lock `key` against other threads, for settings without a lock file.
    fn turn(&self, key: &str) -> Result<Option<Held>> {
        match self.settings.locking {
            Locking::System | Locking::File => Ok(None),
            Locking::Nothing | Locking::InPlace => CHANGING.hold(key).map(Some),
        }
    }

    /// Implements `update`; its errors name no key. New folders are synchronised last: by then most
    /// file systems have done so with the file.
    fn update_unnamed<'a>(&self, key: &str, need: Need, updater: &mut Updater<'_, 'a>) -> Result<Made<'a>> {
        self.check_writable()?;
        let mut grown = Vec::new();
        let done = self.update_in_folders(key, need, updater, &mut grown);
        let synchronised = self.synchronise_folders(&grown);
        done.and_then(|made| synchronised.map(|()| made))
    }

    fn update_in_folders<'a>(
        &self,
        key: &str,
        need: Need,
        updater: &mut Updater<'_, 'a>,
        grown: &mut Vec<PathBuf>,
    ) -> Result<Made<'a>> {
        let path = self.path(key);
        // A change that needs no current value is computed before the lock is taken. Deleting an
        // absent key needs no lock: a locked delete would not change more.
        let mut early = if need.current { None } else { Some(updater(None)?) };
        match &early {
            Some(Change::Keep) => return Ok(Change::Keep.into()),
            Some(Change::Delete) if !path.is_file() => return Ok(Change::Delete.into()),
            _ => {}
        }
        let name = path.to_string_lossy();
        let _turn = self.turn(&name)?;
        let mut if_absent = None;
        for _ in 0..ATTEMPTS {
            let lock = match self.lock(&path) {
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                    // The folder is missing, so the key is absent: a change that stores nothing
                    // needs no folder. A new value is written if the key is still absent under the
                    // lock.
                    if need.current && if_absent.is_none() {
                        match updater(None)? {
                            Change::Write(parts) => if_absent = Some(Change::Write(parts)),
                            nothing => return Ok(nothing.into()),
                        }
                    }
                    grown.append(&mut self.create_folder_of(&path)?);
                    continue;
                }
                done => done.map_err(|error| self.unlocked(&path, error))?,
            };
            let (current, change) = match early.take() {
                Some(change) => (None, change),
                None => {
                    let current = opened(&path, Reading::Plain)?;
                    let change = match (&current, if_absent.take()) {
                        (None, Some(change)) => change,
                        _ => updater(current.as_ref().map(|object| object as &dyn Object))?,
                    };
                    (current, change)
                }
            };
            if let Applied::Done(version) =
                self.apply(lock, &path, current.as_ref(), &change, need.version)?
            {
                return Ok(Made { change, version });
            }
            early = if need.current { None } else { Some(change) };
        }
        Err(vanishing("replace", &path).into())
    }

    /// The error of a key that could not be locked.
    fn unlocked(&self, path: &Path, error: io::Error) -> Error {
        if error.kind() != ErrorKind::TimedOut {
            return Failure::new("lock", path, error).into();
        }
        let waited = self.settings.patience.as_secs_f64();
        let left = match self.settings.locking {
            Locking::File => "; if it is none, remove the lock file",
            _ => "",
        };
        let message = format!("cannot lock {path:?}: another writer holds it for more than {waited} s{left}");
        Error::new(Kind::Store { retryable: true, errno: Some(libc::ETIMEDOUT) }, message)
    }
}

impl Store for LocalStore {
    fn open(&self, key: &str, _want: Want) -> Result<Option<Box<dyn Object>>> {
        ASKED.count(Call::Open, 0);
        self.keys().check(key)?;
        thread_local! {
            static PATH: RefCell<PathBuf> = RefCell::default();
        }
        PATH.with_borrow_mut(|path| {
            path.as_mut_os_string().clear();
            path.push(&self.root);
            path.push(key);
            match opened(path, self.settings.reading) {
                Ok(object) => Ok(object.map(|object| Box::new(object) as Box<dyn Object>)),
                Err(error) => Err(error.at_key(key)),
            }
        })
    }

    fn update<'a>(&self, key: &str, need: Need, updater: &mut Updater<'_, 'a>) -> Result<Made<'a>> {
        self.keys().check(key)?;
        let made = self.update_unnamed(key, need, updater).map_err(|error| error.at_key(key))?;
        match &made.change {
            Change::Keep => ASKED.count(Call::Open, 0),
            Change::Delete => ASKED.count(Call::Update, 0),
            Change::Write(parts) => ASKED.count(Call::Update, parts.iter().map(Part::size).sum()),
        }
        Ok(made)
    }

    fn hold(&self, key: &str, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.keys().check(key)?;
        self.check_writable()?;
        let path = self.path(key);
        let name = path.to_string_lossy();
        if let Some(_held) = self.turn(&name)? {
            return work();
        }
        for _ in 0..ATTEMPTS {
            match self.lock(&path) {
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                    let grown = self.create_folder_of(&path)?;
                    self.synchronise_folders(&grown)?;
                }
                done => {
                    let _held = done.map_err(|error| self.unlocked(&path, error))?;
                    return work();
                }
            }
        }
        Err(vanishing("lock", &path).into())
    }

    fn at_path(&self, key: &str) -> Result<Option<AtPath>> {
        self.keys().check(key)?;
        let path = self.path(key);
        Ok(Some(match fs::metadata(&path) {
            Ok(found) if found.is_file() => AtPath::Value,
            Ok(found) if !found.is_dir() => AtPath::Special,
            Ok(_) if folders::is_hollow(&path) => AtPath::EmptyFolder,
            Ok(_) => AtPath::Folder,
            Err(error) if folders::is_absence(&error) => AtPath::Nothing,
            // An unreadable entry may be a value.
            Err(_) => AtPath::Value,
        }))
    }

    fn first_entries(&self, prefix: &str, limit: usize) -> Result<Option<Listing>> {
        self.keys().check_prefix(prefix)?;
        // Permissions of a folder and its files may differ.
        Ok(folders::level(&self.path(prefix), prefix, limit).ok())
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        ASKED.count(Call::List, 0);
        self.keys().check_prefix(prefix)?;
        let mut keys = folders::keys(self.path(prefix), prefix)?;
        keys.sort_unstable();
        Ok(keys)
    }

    fn list_dir(&self, prefix: &str) -> Result<Listing> {
        ASKED.count(Call::ListDir, 0);
        self.keys().check_prefix(prefix)?;
        Ok(folders::level(&self.path(prefix), prefix, usize::MAX)?)
    }

    fn delete_prefix(&self, prefix: &str) -> Result<()> {
        ASKED.count(Call::DeletePrefix, 0);
        self.keys().check_prefix(prefix)?;
        self.check_writable()?;
        let Some(folder) = prefix.strip_suffix('/') else {
            folders::empty(&self.root)?;
            return self.synchronise_folders(std::slice::from_ref(&self.root));
        };
        let folder = self.path(folder);
        if folders::discard(&folder)? {
            self.synchronise_folders(&[folder.parent().unwrap_or(&self.root).to_owned()])?;
        }
        Ok(())
    }

    fn deletes_at_once(&self, prefix: &str) -> bool {
        !prefix.is_empty()
    }

    fn replaces_at_once(&self, prefix: &str) -> bool {
        !prefix.is_empty() && !self.read_only()
    }

    fn replace_prefix(&self, staged: &str, prefix: &str) -> Result<bool> {
        ASKED.count(Call::Update, 0);
        self.keys().check_prefix(staged)?;
        self.keys().check_prefix(prefix)?;
        self.check_writable()?;
        let (Some(staged), Some(folder)) = (staged.strip_suffix('/'), prefix.strip_suffix('/')) else {
            return Ok(false);
        };
        let folder = self.path(folder);
        let grown = self.create_folder_of(&folder)?;
        let done = folders::exchange(&self.path(staged), &folder)?;
        self.synchronise_folders(&grown)?;
        self.synchronise_folders(&[folder.parent().unwrap_or(&self.root).to_owned()])?;
        Ok(done)
    }

    fn clear_prefix(&self, prefix: &str) -> Result<()> {
        let folder = self.path(prefix.strip_suffix('/').unwrap_or_default());
        if prefix.is_empty() || !folder.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            return self.delete_prefix(prefix);
        }
        ASKED.count(Call::DeletePrefix, 0);
        self.keys().check_prefix(prefix)?;
        self.check_writable()?;
        Ok(folders::empty(&folder)?)
    }

    fn remove_link(&self, prefix: &str) -> Result<bool> {
        self.keys().check_prefix(prefix)?;
        self.check_writable()?;
        let Some(folder) = prefix.strip_suffix('/') else { return Ok(false) };
        let path = self.path(folder);
        let removed = folders::remove_link(&path)?;
        if removed {
            self.synchronise_folders(&[path.parent().unwrap_or(&self.root).to_owned()])?;
        }
        Ok(removed)
    }

    fn read_only(&self) -> bool {
        self.settings.read_only
    }

    fn at_hand(&self) -> bool {
        true
    }

    fn write_concurrency(&self) -> usize {
        if self.settings.durable {
            fsync::concurrency()
        } else {
            0
        }
    }
}

/// Write the new value into the lock file.
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
            Part::Shared(bytes) => pending.push(IoSlice::new(bytes)),
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

/// Write all of `pending` at the position of `file` and clear it. Returns the size.
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

/// Give the new value the permissions of the file that it replaces, before it is written.
fn keep_permissions(path: &Path, file: &File) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(old) if old.is_file() && old.mode() != file.metadata()?.mode() => {
            match file.set_permissions(old.permissions()) {
                // The file has another owner, or the file system has no permissions.
                Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
                Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
                done => done,
            }
        }
        _ => Ok(()),
    }
}

/// Rename the lock file to the value. Folders without files, which deleted keys left at this path,
/// are removed.
fn rename(lock: &mut Lock, path: &Path) -> io::Result<()> {
    match lock.rename(path) {
        Err(error) if error.kind() == ErrorKind::IsADirectory => match folders::remove_hollow(path) {
            Ok(()) => lock.rename(path),
            Err(_) => Err(error),
        },
        done => done,
    }
}

fn opened(path: &Path, reading: Reading) -> Result<Option<LocalObject>> {
    Ok(open_value(path, reading).map_err(|error| Failure::new("open", path, error))?)
}

fn vanishing(action: &'static str, path: &Path) -> Failure {
    let error = io::Error::new(ErrorKind::WouldBlock, "its folder or lock file keeps vanishing");
    Failure::new(action, path, error)
}

/// A failed action and its path.
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
        let mut found = Error::io(format_args!("cannot {action} {path:?}"), &error);
        let no_folder = error.kind() == ErrorKind::NotADirectory;
        if no_folder || error.raw_os_error() == Some(libc::ELOOP) {
            if let Some(link) = folders::dangling_link(&path) {
                found.message.push_str(&format!(
                    ": {link:?} is a symbolic link that leads nowhere; remove the link, or restore what it leads to"
                ));
            } else if no_folder {
                found.message.push_str(": a file is where a folder should be");
            }
        }
        Error { file: Some(Box::new(path)), ..found }
    }
}

#[cfg(test)]
mod tests;
