//! A store in a folder: the file `root/key` holds the value of `key`.
//!
//! Values are never changed in place but replaced by `rename`, so that a reader sees one complete
//! value without a lock. Writers of one key exclude each other by a lock file (see `lock`), unless
//! the settings say otherwise. Only regular files are values, through symbolic links; other files
//! at the path of a key count as absent.

mod folders;
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

use super::key_locks::{KeyGuard, KeyLocks};
use super::wrappers::counting::{Counters, Counts};
use super::wrappers::Call;
use super::{folder_of, joined, no_current};
use super::{
    Change, Depth, Listing, PathKind, PrefixChange, ReadHint, Store, StoreInfo, UpdateOptions, UpdateOutcome,
    Updater, ValuePart, ValueReader, Version,
};
use crate::error::{Error, Kind, Result};
use lock::{Lock, LockSupport};
use opened_file::{open_value, LocalValue, ModificationMark};
pub use settings::{Locking, ReadMode, Settings};

/// How many writes run concurrently if each waits for the disk, which synchronises this many files
/// about as fast as one.
const DURABLE_WRITES: usize = 8;

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
static IN_PROCESS_LOCKS: LazyLock<KeyLocks> = LazyLock::new(KeyLocks::new);

/// Counts of the calls to all local stores.
static COUNTERS: LazyLock<Counters> = LazyLock::new(Counters::default);

/// Return the number of calls to all local stores of this process.
pub fn local_counts() -> Counts {
    COUNTERS.counts()
}

/// The outcome of a change.
enum Applied {
    /// It is applied. The new version, if requested and known.
    Done(Option<Version>),
    /// Another process removed the lock file; nothing changed.
    LockLost,
}

impl LocalStore {
    /// Return the store in the folder `root` (made absolute).
    pub fn new(root: &Path, settings: Settings) -> Result<Self> {
        if root.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(Error::new(Kind::Argument, format!("{root:?} is not a path: it contains NUL")));
        }
        let root = std::path::absolute(root)
            .map_err(|error| Error::new(Kind::Argument, format!("{root:?} is not a path: {error}")))?;
        Ok(LocalStore { root, settings, locks: LockSupport::default() })
    }

    /// Return the absolute path of the folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Return the settings.
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
        created.map_err(|error| failure("create folder", folder, error))
    }

    /// Sync the entries of `folders` to the disk, if the settings require it.
    fn synchronise_folders(&self, folders: &[PathBuf]) -> Result<()> {
        for folder in folders.iter().rev().filter(|_| self.settings.durable) {
            match folders::sync_folder(folder) {
                Err(error) if !folders::is_absence(&error) => {
                    return Err(failure("synchronise", folder, error))
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
        current: Option<&LocalValue>,
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
                    return Err(failure("delete", path, error))
                }
                _ => {}
            },
            Change::Write(parts) => match lock {
                None => self.write_in_place(path, parts, current)?,
                Some(lock) => match self.write_by_rename(lock, path, parts, current, versioned)? {
                    Applied::Done(new_version) => version = new_version,
                    lost => return Ok(lost),
                },
            },
        }
        if self.settings.durable {
            let folder = path.parent().unwrap_or(&self.root);
            folders::sync_folder(folder).map_err(|error| failure("synchronise", folder, error))?;
        }
        Ok(Applied::Done(version))
    }

    /// Write the lock file, and rename it to the value.
    fn write_by_rename(
        &self,
        mut lock: Lock,
        path: &Path,
        parts: &[ValuePart<'_>],
        current: Option<&LocalValue>,
        versioned: bool,
    ) -> Result<Applied> {
        keep_permissions(path, &lock.file).map_err(|error| failure("replace", path, error))?;
        write_parts(&lock, parts, current)?;
        let mark = if versioned { ModificationMark::set_on(&lock.file) } else { None };
        self.synchronise(&lock.file, path)?;
        match rename(&mut lock, path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                lock.give_up_path();
                Ok(Applied::LockLost)
            }
            result => {
                result.map_err(|error| failure("replace", path, error))?;
                Ok(Applied::Done(mark.and_then(|mark| mark.version(&lock.file))))
            }
        }
    }

    fn write_in_place(
        &self,
        path: &Path,
        parts: &[ValuePart<'_>],
        current: Option<&LocalValue>,
    ) -> Result<()> {
        let bytes = joined(parts, current.map(|object| object as &dyn ValueReader))?;
        let new_folders = self.create_folder_of(path)?;
        let file = File::create(path).or_else(|error| match error.kind() {
            ErrorKind::IsADirectory if folders::remove_empty_tree(path).is_ok() => File::create(path),
            _ => Err(error),
        });
        let result = file.and_then(|mut file| file.write_all(&bytes).map(|()| file));
        let file = result.map_err(|error| failure("write", path, error))?;
        self.synchronise(&file, path)?;
        self.synchronise_folders(&new_folders)
    }

    fn synchronise(&self, file: &File, path: &Path) -> Result<()> {
        if self.settings.durable {
            file.sync_data().map_err(|error| failure("synchronise", path, error))?;
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
    fn lock_in_process(&self, key: &str) -> Result<Option<KeyGuard>> {
        match self.settings.locking {
            Locking::System | Locking::File => Ok(None),
            Locking::Nothing | Locking::InPlace => IN_PROCESS_LOCKS.lock(key).map(Some),
        }
    }

    /// Implements `update`; its errors name no key. New folders are synchronised last: by then most
    /// file systems have done so with the file.
    fn update_without_key<'a>(
        &self,
        key: &str,
        options: UpdateOptions,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<UpdateOutcome<'a>> {
        self.check_writable()?;
        let mut new_folders = Vec::new();
        let result = self.update_creating_folders(key, options, updater, &mut new_folders);
        let synchronised = self.synchronise_folders(&new_folders);
        result.and_then(|outcome| synchronised.map(|()| outcome))
    }

    fn update_creating_folders<'a>(
        &self,
        key: &str,
        options: UpdateOptions,
        updater: &mut Updater<'_, 'a>,
        new_folders: &mut Vec<PathBuf>,
    ) -> Result<UpdateOutcome<'a>> {
        let path = self.path(key);
        // A change that needs no current value is computed before the lock is taken. Deleting an
        // absent key needs no lock: a locked delete would not change more.
        let mut unconditional = if options.current { None } else { Some(updater(None)?) };
        match &unconditional {
            Some(Change::Keep) => return Ok(Change::Keep.into()),
            Some(Change::Delete) if !path.is_file() => return Ok(Change::Delete.into()),
            _ => {}
        }
        let name = path.to_string_lossy();
        let _guard = self.lock_in_process(&name)?;
        let mut if_absent = None;
        for _ in 0..ATTEMPTS {
            let lock = match self.lock(&path) {
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                    // The folder is missing, so the key is absent. A change that stores nothing
                    // needs no folder. A new value is written if the key is still absent under the
                    // lock.
                    if options.current && if_absent.is_none() {
                        match updater(None)? {
                            Change::Write(parts) => if_absent = Some(Change::Write(parts)),
                            change => return Ok(change.into()),
                        }
                    }
                    new_folders.append(&mut self.create_folder_of(&path)?);
                    continue;
                }
                result => result.map_err(|error| self.lock_error(&path, error))?,
            };
            let (current, change) = match unconditional.take() {
                Some(change) => (None, change),
                None => {
                    let current = open_path(&path, ReadMode::Plain)?;
                    let change = match (&current, if_absent.take()) {
                        (None, Some(change)) => change,
                        _ => updater(current.as_ref().map(|object| object as &dyn ValueReader))?,
                    };
                    (current, change)
                }
            };
            if let Applied::Done(version) =
                self.apply(lock, &path, current.as_ref(), &change, options.version)?
            {
                return Ok(UpdateOutcome { change, version });
            }
            unconditional = if options.current { None } else { Some(change) };
        }
        Err(vanishing_error("replace", &path))
    }

    /// Return the kind of the path of `key`.
    pub(super) fn path_kind(&self, key: &str) -> Result<PathKind> {
        self.keys().check(key)?;
        let path = self.path(key);
        Ok(match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => PathKind::Value,
            Ok(metadata) if !metadata.is_dir() => PathKind::Special,
            Ok(_) if folders::is_empty_tree(&path) => PathKind::EmptyFolder,
            Ok(_) => PathKind::Folder,
            Err(error) if folders::is_absence(&error) => PathKind::Nothing,
            // An unreadable entry may be a value.
            Err(_) => PathKind::Value,
        })
    }

    /// Return one level below `prefix`, of the first `limit` entries of the folder; None: it cannot
    /// be listed, though its files may be readable.
    pub(super) fn first_entries(&self, prefix: &str, limit: usize) -> Option<Listing> {
        self.keys().check_prefix(prefix).ok()?;
        folders::list_level(&self.path(prefix), prefix, limit).ok()
    }

    /// Return the error of a key that could not be locked.
    fn lock_error(&self, path: &Path, error: io::Error) -> Error {
        if error.kind() != ErrorKind::TimedOut {
            return failure("lock", path, error);
        }
        let waited = self.settings.timeout.as_secs_f64();
        let hint = match self.settings.locking {
            Locking::File => "; if no writer runs, remove the lock file",
            _ => "",
        };
        let message = format!("cannot lock {path:?}: another writer holds it for more than {waited} s{hint}");
        Error::new(Kind::Store { retryable: true, errno: Some(libc::ETIMEDOUT) }, message)
    }
}

impl Store for LocalStore {
    fn open(&self, key: &str, _: ReadHint) -> Result<Option<Box<dyn ValueReader>>> {
        COUNTERS.count(Call::Open, 0);
        self.keys().check(key)?;
        thread_local! {
            static PATH: RefCell<PathBuf> = RefCell::default();
        }
        PATH.with_borrow_mut(|path| {
            path.as_mut_os_string().clear();
            path.push(&self.root);
            path.push(key);
            match open_path(path, self.settings.read_mode) {
                Ok(object) => Ok(object.map(|object| Box::new(object) as Box<dyn ValueReader>)),
                Err(error) => Err(error.at_key(key)),
            }
        })
    }

    fn update<'a>(
        &self,
        key: &str,
        options: UpdateOptions,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<UpdateOutcome<'a>> {
        self.keys().check(key)?;
        let outcome = self.update_without_key(key, options, updater).map_err(|error| error.at_key(key))?;
        match &outcome.change {
            Change::Keep => COUNTERS.count(Call::Open, 0),
            Change::Delete => COUNTERS.count(Call::Update, 0),
            Change::Write(parts) => COUNTERS.count(Call::Update, parts.iter().map(ValuePart::size).sum()),
        }
        Ok(outcome)
    }

    fn hold(&self, key: &str, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.keys().check(key)?;
        self.check_writable()?;
        let path = self.path(key);
        let name = path.to_string_lossy();
        if let Some(_guard) = self.lock_in_process(&name)? {
            return work();
        }
        for _ in 0..ATTEMPTS {
            match self.lock(&path) {
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                    let new_folders = self.create_folder_of(&path)?;
                    self.synchronise_folders(&new_folders)?;
                }
                result => {
                    let _guard = result.map_err(|error| self.lock_error(&path, error))?;
                    return work();
                }
            }
        }
        Err(vanishing_error("lock", &path))
    }

    fn local(&self, key: &str) -> Option<(&LocalStore, String)> {
        Some((self, key.to_owned()))
    }

    /// The path without symbolic links in its folder.
    fn location(&self, key: &str) -> String {
        let (folder, name) = key.split_at(folder_of(key).len());
        let folder = self.path(folder);
        let existing = |path: &Path| {
            let below = folder.strip_prefix(path).ok()?;
            Some(path.canonicalize().ok()?.join(below))
        };
        let real = folder.ancestors().find_map(existing).unwrap_or_else(|| folder.clone());
        real.join(name).display().to_string()
    }

    fn list_keys(&self, prefix: &str, depth: Depth) -> Result<Listing> {
        COUNTERS.count(if depth == Depth::All { Call::List } else { Call::ListDir }, 0);
        self.keys().check_prefix(prefix)?;
        let path = self.path(prefix);
        match depth {
            Depth::All => folders::list_keys(path, prefix),
            Depth::Level => folders::list_level(&path, prefix, usize::MAX),
        }
    }

    fn changes_atomically(&self, prefix: &str, change: PrefixChange<'_>) -> bool {
        let is_writable = !self.settings.read_only || change == PrefixChange::Delete;
        !prefix.is_empty() && is_writable
    }

    fn change_prefix(&self, prefix: &str, change: PrefixChange<'_>) -> Result<bool> {
        change.prefixes(prefix).try_for_each(|prefix| self.keys().check_prefix(prefix))?;
        self.check_writable()?;
        match change {
            PrefixChange::Delete | PrefixChange::Clear => COUNTERS.count(Call::DeletePrefix, 0),
            PrefixChange::ReplaceBy(_) => COUNTERS.count(Call::Update, 0),
            PrefixChange::RemoveLink => {}
        }
        let folder = prefix.strip_suffix('/').map(|folder| self.path(folder));
        let is_changed = match (change, &folder) {
            (PrefixChange::Delete | PrefixChange::Clear, None) => {
                folders::empty(&self.root)?;
                self.synchronise_folders(std::slice::from_ref(&self.root))?;
                return Ok(true);
            }
            (_, None) => return Ok(false),
            (PrefixChange::Clear, Some(folder))
                if folder.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) =>
            {
                folders::empty(folder)?;
                return Ok(true);
            }
            (PrefixChange::Delete | PrefixChange::Clear, Some(folder)) => folders::remove_atomically(folder)?,
            (PrefixChange::RemoveLink, Some(folder)) => folders::remove_link(folder)?,
            (PrefixChange::ReplaceBy(staged), Some(folder)) => {
                let Some(staged) = staged.strip_suffix('/') else { return Ok(false) };
                let new_folders = self.create_folder_of(folder)?;
                let is_exchanged = folders::exchange(&self.path(staged), folder)?;
                self.synchronise_folders(&new_folders)?;
                is_exchanged
            }
        };
        if is_changed {
            let parent = folder.as_deref().and_then(Path::parent).unwrap_or(&self.root);
            self.synchronise_folders(&[parent.to_owned()])?;
        }
        Ok(is_changed)
    }

    fn info(&self) -> StoreInfo {
        StoreInfo {
            read_only: self.settings.read_only,
            is_local: true,
            write_concurrency: if self.settings.durable { DURABLE_WRITES } else { 0 },
            ..StoreInfo::default()
        }
    }
}

/// Write the new value into the lock file.
fn write_parts(lock: &Lock, parts: &[ValuePart<'_>], current: Option<&LocalValue>) -> Result<()> {
    let fail = |error| failure("write", lock.path(), error);
    if lock.stale_bytes > 0 {
        lock.file.set_len(0).map_err(fail)?;
    }
    let mut position = 0;
    let mut pending: Vec<IoSlice<'_>> = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            ValuePart::Current { offset, size } => {
                position += write_all(&lock.file, &mut pending).map_err(fail)?;
                let current = current.ok_or_else(no_current)?;
                current.check_range(*offset, *size)?;
                platform::copy_range(&current.file, *offset, &lock.file, position, *size).map_err(fail)?;
                position += size;
                io::Seek::seek(&mut &lock.file, io::SeekFrom::Start(position)).map_err(fail)?;
            }
            part => pending.push(IoSlice::new(part.bytes().unwrap_or_default())),
        }
    }
    write_all(&lock.file, &mut pending).map_err(fail)?;
    Ok(())
}

/// Write all of `pending` at the position of `file` and clear it. Returns the size.
fn write_all(mut file: &File, pending: &mut Vec<IoSlice<'_>>) -> io::Result<u64> {
    let size = pending.iter().map(|slice| slice.len() as u64).sum();
    let mut remaining_slices = &mut pending[..];
    let mut hint = size;
    while hint > 0 {
        match file.write_vectored(remaining_slices) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => {
                hint -= count as u64;
                IoSlice::advance_slices(&mut remaining_slices, count);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    pending.clear();
    Ok(size)
}

/// Set the permissions of the new value to those of the file that it replaces, before it is
/// written.
fn keep_permissions(path: &Path, file: &File) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(old) if old.is_file() && old.mode() != file.metadata()?.mode() => {
            match file.set_permissions(old.permissions()) {
                // The file has another owner, or the file system has no permissions.
                Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
                Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
                result => result,
            }
        }
        _ => Ok(()),
    }
}

/// Rename the lock file to the value. Folders without files, which deleted keys left at this path,
/// are removed.
fn rename(lock: &mut Lock, path: &Path) -> io::Result<()> {
    match lock.rename(path) {
        Err(error) if error.kind() == ErrorKind::IsADirectory => match folders::remove_empty_tree(path) {
            Ok(()) => lock.rename(path),
            Err(_) => Err(error),
        },
        result => result,
    }
}

fn open_path(path: &Path, reading: ReadMode) -> Result<Option<LocalValue>> {
    open_value(path, reading).map_err(|error| failure("open", path, error))
}

fn vanishing_error(action: &str, path: &Path) -> Error {
    let error = io::Error::new(ErrorKind::WouldBlock, "its folder or lock file keeps vanishing");
    failure(action, path, error)
}

/// Return the error of a failed action on a path.
fn failure(action: &str, path: &Path, error: io::Error) -> Error {
    let error = match error.downcast::<Error>() {
        Ok(interruption) => return interruption,
        Err(error) => error,
    };
    let mut failure = Error::io(format_args!("cannot {action} {path:?}"), &error);
    let is_no_folder = error.kind() == ErrorKind::NotADirectory;
    if is_no_folder || error.raw_os_error() == Some(libc::ELOOP) {
        if let Some(link) = folders::dangling_link(path) {
            failure.message.push_str(&format!(
                ": {link:?} is a broken symbolic link; remove the link, or restore its target"
            ));
        } else if is_no_folder {
            failure.message.push_str(": a file exists instead of a folder");
        }
    }
    Error { file: Some(Box::new(path.to_owned())), ..failure }
}

#[cfg(test)]
mod tests;
