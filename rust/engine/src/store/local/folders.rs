//! Folders of a local store: listing and removal of the keys below a prefix.
//!
//! Reads and listings follow symbolic links, so that users can link data sets together. Removing a
//! prefix removes the links below it and never their targets.

use std::fs::{self, DirEntry, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::{Listing, LOCK_SUFFIX};
use super::lock::{unused_name, Lock};
use super::{failure, platform};
use crate::error::Result;
use crate::store::wrappers::split::is_document;

/// The meaning of a directory entry.
enum Entry {
    Value(String),
    Folder(String),
}

/// Return every key below the folder `path`, whose keys start with `prefix`, sorted.
pub(super) fn list_keys(path: PathBuf, prefix: &str) -> Result<Listing> {
    let mut listing = Listing::default();
    let mut open = vec![(path, prefix.to_owned())];
    while let Some((path, prefix)) = open.pop() {
        each_entry(&path, usize::MAX, |entry| match entry {
            Entry::Value(name) => listing.keys.push(format!("{prefix}{name}")),
            Entry::Folder(name) => {
                let below = format!("{prefix}{name}/");
                open.push((path.join(name), below));
            }
        })
        .map_err(|error| failure("list", &path, error))?;
    }
    listing.keys.sort_unstable();
    Ok(listing)
}

/// Return one level below the folder `path`, whose keys start with `prefix`: its first `limit`
/// entries, sorted.
pub(super) fn list_level(path: &Path, prefix: &str, limit: usize) -> Result<Listing> {
    let mut listing = Listing::default();
    each_entry(path, limit, |entry| match entry {
        Entry::Value(name) => listing.keys.push(format!("{prefix}{name}")),
        Entry::Folder(name) => listing.prefixes.push(format!("{prefix}{name}/")),
    })
    .map_err(|error| failure("list", path, error))?;
    listing.keys.sort_unstable();
    listing.prefixes.sort_unstable();
    Ok(listing)
}

/// Call `visit` with every value and folder among the first `limit` entries of the folder `path`.
/// Skip lock files, names that are not UTF-8, dangling links, pipes, devices, and links to `path`
/// or a folder above it, which would make the walk endless. A missing folder is empty.
fn each_entry(path: &Path, limit: usize, mut visit: impl FnMut(Entry)) -> io::Result<()> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if is_absence(&error) => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries.take(limit) {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.ends_with(LOCK_SUFFIX) {
            continue;
        }
        let mut file_type = entry.file_type()?;
        if file_type.is_symlink() {
            match fs::metadata(entry.path()) {
                Ok(target) if target.is_dir() && is_ancestor(path, &target)? => continue,
                Ok(target) => file_type = target.file_type(),
                Err(_) => continue, // dangling or a loop: open() treats it as absent, too
            }
        }
        if file_type.is_dir() {
            visit(Entry::Folder(name));
        } else if file_type.is_file() {
            visit(Entry::Value(name));
        }
    }
    Ok(())
}

/// Return whether the folder `target` is `path` or a folder above it.
fn is_ancestor(path: &Path, target: &Metadata) -> io::Result<bool> {
    for folder in path.ancestors().filter(|folder| !folder.as_os_str().is_empty()) {
        let metadata = fs::metadata(folder)?;
        if (metadata.dev(), metadata.ino()) == (target.dev(), target.ino()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Return whether the error means that the path does not exist.
pub(super) fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        || matches!(error.raw_os_error(), Some(libc::ENAMETOOLONG | libc::ENXIO | libc::ELOOP))
}

/// How often a folder is emptied again because other processes write into it.
const MAX_ROUNDS: u32 = 20;

/// The suffix of the hidden folder into which a folder is moved for removal.
const DISCARDED_SUFFIX: &str = ".__deleted.__lock";

/// Remove the folder `path` atomically for readers, and for processes after a crash: first move it
/// into a hidden folder beside it. Folders that a killed process left there are removed as well.
pub(super) fn remove_atomically(path: &Path) -> Result<bool> {
    let mut hidden = path.as_os_str().to_owned();
    hidden.push(DISCARDED_SUFFIX);
    let hidden = PathBuf::from(hidden);
    let is_moved =
        fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir()) && move_into(path, &hidden);
    if !is_moved {
        remove(&hidden)?;
        return remove(path);
    }
    remove(&hidden)?;
    Ok(true)
}

/// Move the folder `path` into the folder `hidden`. False: it was not moved, or another process
/// moved it.
fn move_into(path: &Path, hidden: &Path) -> bool {
    for _ in 0..MAX_ROUNDS {
        match fs::create_dir(hidden) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return false,
            _ => {}
        }
        match fs::rename(path, hidden.join(unused_name())) {
            Ok(()) => return true,
            // Another process removes the same folder, and has removed the hidden one.
            Err(error) if error.kind() == ErrorKind::NotFound && path.is_dir() => {}
            Err(_) => return false,
        }
    }
    false
}

/// Exchange the folders `staged` and `path`, atomically if the system supports it. False: nothing
/// changed, because `path` is neither a folder nor a link, or cannot be renamed (a mount point, or
/// a folder of a lower overlay layer).
pub(super) fn exchange(staged: &Path, path: &Path) -> Result<bool> {
    let result = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() || metadata.is_symlink() => platform::exchange(staged, path),
        Ok(_) => return Ok(false),
        Err(error) if is_absence(&error) => fs::rename(staged, path),
        Err(error) => Err(error),
    };
    match result {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EXDEV | libc::EPERM)) => {
            Ok(false)
        }
        Err(error) => Err(failure("replace", path, error)),
    }
}

/// Remove the folder `path` and everything below it. Documents are removed before other files, and
/// files before folders: metadata goes first, so that no reader sees half an array. False if the
/// folder does not exist.
pub(super) fn remove(path: &Path) -> Result<bool> {
    let fail = |error| failure("remove", path, error);
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(metadata) if metadata.is_symlink() => return remove_link(path),
        Ok(_) => return Ok(false), // a value: no key lies below it
        Err(error) if is_absence(&error) => return Ok(false),
        Err(error) => return Err(fail(error)),
    }
    for round in 0..MAX_ROUNDS {
        empty(path)?;
        match fs::remove_dir(path) {
            Ok(()) => return Ok(true),
            Err(error) if is_absence(&error) => return Ok(true),
            // Linux reports ENOTEMPTY, other systems EEXIST.
            Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists) => {
                std::thread::sleep(Duration::from_micros(50 << round.min(8)));
            }
            Err(error) => return Err(fail(error)),
        }
    }
    Err(failure("remove", path, io::Error::new(ErrorKind::WouldBlock, "another process keeps writing to it")))
}

/// Remove the symbolic link `path`; false: it is none.
pub(super) fn remove_link(path: &Path) -> Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => {}
        Err(error) if !is_absence(&error) => return Err(failure("remove", path, error)),
        _ => return Ok(false),
    }
    ignore_absence(fs::remove_file(path)).map(|()| true).map_err(|error| failure("remove", path, error))
}

/// Return the symbolic link without a target at `path` or above it.
pub(super) fn dangling_link(path: &Path) -> Option<&Path> {
    path.ancestors()
        .find(|path| path.is_symlink() && fs::metadata(path).is_err_and(|error| is_absence(&error)))
}

/// Remove everything below the folder `path`, in the same order, but not the folder.
pub(super) fn empty(path: &Path) -> Result<()> {
    let fail = |error| failure("remove", path, error);
    let mut folders = Vec::new();
    for entry in documents_first(path).map_err(fail)? {
        let path = entry.path();
        if entry.file_type().map_err(fail)?.is_dir() {
            folders.push(path);
            continue;
        }
        let lock_file = entry.file_name().as_encoded_bytes().ends_with(LOCK_SUFFIX.as_bytes());
        // Removing the lock file of a writer would admit a second one.
        let removed = if lock_file { Lock::remove(&path) } else { fs::remove_file(&path) };
        ignore_absence(removed).map_err(|error| failure("remove", &path, error))?;
    }
    folders.iter().try_for_each(|folder| remove(folder).map(|_| ()))
}

/// Return the entries of a folder, documents first; none if it does not exist.
pub(super) fn documents_first(path: &Path) -> io::Result<Vec<DirEntry>> {
    let mut entries = match fs::read_dir(path) {
        Ok(entries) => entries.collect::<io::Result<Vec<DirEntry>>>()?,
        Err(error) if is_absence(&error) => Vec::new(),
        Err(error) => return Err(error),
    };
    entries.sort_by_cached_key(|entry| !entry.file_name().to_str().is_some_and(is_document));
    Ok(entries)
}

/// Remove the folder `path` if it contains only folders.
pub(super) fn remove_empty_tree(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        remove_empty_tree(&entry.path())?;
    }
    fs::remove_dir(path)
}

/// Return whether the folder `path` contains only folders; false if that is unknown.
pub(super) fn is_empty_tree(path: &Path) -> bool {
    let Ok(entries) = fs::read_dir(path) else { return false };
    entries.into_iter().all(|entry| {
        entry.is_ok_and(|entry| {
            entry.file_type().is_ok_and(|file_type| file_type.is_dir()) && is_empty_tree(&entry.path())
        })
    })
}

fn ignore_absence(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if is_absence(&error) => Ok(()),
        result => result,
    }
}

/// Create the missing folders of `path`, unless other processes remove them at the same time.
/// Return the folders with new entries, outermost first.
pub(super) fn create_folders(path: &Path) -> io::Result<Vec<PathBuf>> {
    if fs::create_dir(path).is_ok() {
        return Ok(vec![path.parent().unwrap_or(path).to_owned()]); // without looking at those above
    }
    let missing: Vec<&Path> = path.ancestors().take_while(|folder| !folder.is_dir()).collect();
    let mut changed_folders = Vec::with_capacity(missing.len());
    for folder in missing.iter().rev() {
        match fs::create_dir(folder) {
            Ok(()) => changed_folders.push(folder.parent().unwrap_or(path).to_owned()),
            Err(error) if error.kind() == ErrorKind::NotFound => break,
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            Err(_) if folder.symlink_metadata().is_ok() && !folder.is_dir() => {
                return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
            }
            Err(_) => {}
        }
    }
    Ok(changed_folders)
}

/// Make the entries of a folder durable.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    fs::File::open(path)?.sync_all()
}
