//! Folders of a local store: listing and removing what lies below a prefix.
//!
//! Symbolic links are followed for reading and listing, like every path of the
//! store: users link data sets together. Removing a prefix removes the links
//! below it and never what they point to.

use std::fs::{self, DirEntry, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::{Listing, LOCK_SUFFIX};
use super::lock::{unused_name, Lock};
use super::{platform, Failure};
use crate::store::wrappers::split::is_document;

/// What one directory entry means to the store.
enum Entry {
    Value(String),
    Folder(String),
}

/// Every key below the folder `path`, whose keys start with `prefix`; unsorted.
pub(super) fn keys(path: PathBuf, prefix: &str) -> Result<Vec<String>, Failure> {
    let mut found = Vec::new();
    let mut open = vec![(path, prefix.to_owned())];
    while let Some((path, prefix)) = open.pop() {
        each_entry(&path, usize::MAX, |entry| match entry {
            Entry::Value(name) => found.push(format!("{prefix}{name}")),
            Entry::Folder(name) => {
                let below = format!("{prefix}{name}/");
                open.push((path.join(name), below));
            }
        })
        .map_err(|error| Failure::new("list", &path, error))?;
    }
    Ok(found)
}

/// One level below the folder `path`, whose keys start with `prefix`, of its first `limit` entries; sorted.
pub(super) fn level(path: &Path, prefix: &str, limit: usize) -> Result<Listing, Failure> {
    let mut listing = Listing::default();
    each_entry(path, limit, |entry| match entry {
        Entry::Value(name) => listing.keys.push(format!("{prefix}{name}")),
        Entry::Folder(name) => listing.prefixes.push(format!("{prefix}{name}/")),
    })
    .map_err(|error| Failure::new("list", path, error))?;
    listing.keys.sort_unstable();
    listing.prefixes.sort_unstable();
    Ok(listing)
}

/// Calls `visit` with every value and folder of the first `limit` entries of the folder `path`. Lock files, names that
/// are not UTF-8, dangling links, links to `path` or to a folder above it (a walk would
/// follow them without end), pipes and devices are neither; a folder that does not exist is empty.
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
        let mut kind = entry.file_type()?;
        if kind.is_symlink() {
            match fs::metadata(entry.path()) {
                Ok(target) if target.is_dir() && leads_back(path, &target)? => continue,
                Ok(target) => kind = target.file_type(),
                Err(_) => continue, // dangling or a loop: open() finds it absent, too
            }
        }
        if kind.is_dir() {
            visit(Entry::Folder(name));
        } else if kind.is_file() {
            visit(Entry::Value(name));
        }
    }
    Ok(())
}

/// Whether `path` or a folder above it is the folder `target`.
fn leads_back(path: &Path, target: &Metadata) -> io::Result<bool> {
    for folder in path.ancestors().filter(|folder| !folder.as_os_str().is_empty()) {
        let found = fs::metadata(folder)?;
        if (found.dev(), found.ino()) == (target.dev(), target.ino()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the error means that nothing has this path.
pub(super) fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        || matches!(error.raw_os_error(), Some(libc::ENAMETOOLONG | libc::ENXIO | libc::ELOOP))
}

/// How often a folder is emptied again because somebody wrote into it meanwhile.
const ROUNDS: u32 = 20;

/// Ends the name of the folder into which a folder is moved that is removed.
const DISCARDED: &str = ".__deleted.__lock";

/// Removes the folder `path` as [`remove`] does, but in one step for readers, and for those who
/// come after a program that was killed meanwhile: it is first moved to a hidden folder beside it.
/// What such a program left there is removed, too.
pub(super) fn discard(path: &Path) -> Result<bool, Failure> {
    let mut hidden = path.as_os_str().to_owned();
    hidden.push(DISCARDED);
    let hidden = PathBuf::from(hidden);
    let moved = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) && move_into(path, &hidden);
    if !moved {
        remove(&hidden)?;
        return remove(path);
    }
    remove(&hidden)?;
    Ok(true)
}

/// Moves the folder `path` into the folder `hidden`. False: it is where it was, or another
/// program moved it.
fn move_into(path: &Path, hidden: &Path) -> bool {
    for _ in 0..ROUNDS {
        match fs::create_dir(hidden) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return false,
            _ => {}
        }
        match fs::rename(path, hidden.join(unused_name())) {
            Ok(()) => return true,
            // Another program removes the same folder, and has removed the hidden one.
            Err(error) if error.kind() == ErrorKind::NotFound && path.is_dir() => {}
            Err(_) => return false,
        }
    }
    false
}

/// Moves the folder `staged` to `path`, and the folder at `path` to `staged`, in one step where the system
/// can do that. False: nothing was changed, as there is neither a folder nor a link, or one that
/// cannot be renamed: a mount point, or a folder of a lower layer of an overlay.
pub(super) fn exchange(staged: &Path, path: &Path) -> Result<bool, Failure> {
    let done = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() || found.is_symlink() => platform::exchange(staged, path),
        Ok(_) => return Ok(false),
        Err(error) if is_absence(&error) => fs::rename(staged, path),
        Err(error) => Err(error),
    };
    match done {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EXDEV | libc::EPERM)) => {
            Ok(false)
        }
        Err(error) => Err(Failure::new("replace", path, error)),
    }
}

/// Removes the folder `path` and everything below it, documents of a folder before
/// its other files, and these before its folders: metadata goes first, so that no
/// reader finds an array half gone.
/// False if there was no such folder.
pub(super) fn remove(path: &Path) -> Result<bool, Failure> {
    let fail = |error| Failure::new("remove", path, error);
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => {}
        Ok(found) if found.is_symlink() => return remove_link(path),
        Ok(_) => return Ok(false), // a value: no key lies below it
        Err(error) if is_absence(&error) => return Ok(false),
        Err(error) => return Err(fail(error)),
    }
    for round in 0..ROUNDS {
        empty(path)?;
        match fs::remove_dir(path) {
            Ok(()) => return Ok(true),
            Err(error) if is_absence(&error) => return Ok(true),
            // Linux says ENOTEMPTY, others EEXIST.
            Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists) => {
                std::thread::sleep(Duration::from_micros(50 << round.min(8)));
            }
            Err(error) => return Err(fail(error)),
        }
    }
    Err(Failure::new("remove", path, io::Error::new(ErrorKind::WouldBlock, "somebody keeps writing into it")))
}

/// Removes the symbolic link `path`; false: it is none.
pub(super) fn remove_link(path: &Path) -> Result<bool, Failure> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => {}
        Err(error) if !is_absence(&error) => return Err(Failure::new("remove", path, error)),
        _ => return Ok(false),
    }
    absent_is_fine(fs::remove_file(path)).map(|()| true).map_err(|error| Failure::new("remove", path, error))
}

/// The symbolic link that `path` or a folder above it is, and that leads to nothing.
pub(super) fn dangling_link(path: &Path) -> Option<&Path> {
    path.ancestors()
        .find(|path| path.is_symlink() && fs::metadata(path).is_err_and(|error| is_absence(&error)))
}

/// Removes everything below the folder `path`, in the same order, but not the folder.
pub(super) fn empty(path: &Path) -> Result<(), Failure> {
    let fail = |error| Failure::new("remove", path, error);
    let mut folders = Vec::new();
    for entry in in_order(path).map_err(fail)? {
        let path = entry.path();
        if entry.file_type().map_err(fail)?.is_dir() {
            folders.push(path);
            continue;
        }
        let lock_file = entry.file_name().as_encoded_bytes().ends_with(LOCK_SUFFIX.as_bytes());
        // Removing the lock file of a writer would let two of them in.
        let removed = if lock_file { Lock::remove(&path) } else { fs::remove_file(&path) };
        absent_is_fine(removed).map_err(|error| Failure::new("remove", &path, error))?;
    }
    folders.iter().try_for_each(|folder| remove(folder).map(|_| ()))
}

/// The entries of a folder, documents first; none if it does not exist.
pub(super) fn in_order(path: &Path) -> io::Result<Vec<DirEntry>> {
    let mut entries = match fs::read_dir(path) {
        Ok(entries) => entries.collect::<io::Result<Vec<DirEntry>>>()?,
        Err(error) if is_absence(&error) => Vec::new(),
        Err(error) => return Err(error),
    };
    entries.sort_by_cached_key(|entry| !entry.file_name().to_str().is_some_and(is_document));
    Ok(entries)
}

/// Removes the folder `path` if there are only folders below it.
pub(super) fn remove_hollow(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        remove_hollow(&entry.path())?;
    }
    fs::remove_dir(path)
}

/// Whether there are only folders below the folder `path`; not known is no.
pub(super) fn is_hollow(path: &Path) -> bool {
    let Ok(entries) = fs::read_dir(path) else { return false };
    entries.into_iter().all(|entry| {
        entry.is_ok_and(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()) && is_hollow(&entry.path()))
    })
}

fn absent_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if is_absence(&error) => Ok(()),
        done => done,
    }
}

/// Creates the folders of `path` that do not exist, as far as nobody removes them meanwhile. Gives
/// those that have them as new entries, from above.
pub(super) fn create_folders(path: &Path) -> io::Result<Vec<PathBuf>> {
    let missing: Vec<&Path> = path.ancestors().take_while(|folder| !folder.is_dir()).collect();
    let mut grown = Vec::with_capacity(missing.len());
    for folder in missing.iter().rev() {
        match fs::create_dir(folder) {
            Ok(()) => grown.push(folder.parent().unwrap_or(path).to_owned()),
            Err(error) if error.kind() == ErrorKind::NotFound => break,
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            Err(_) if folder.symlink_metadata().is_ok() && !folder.is_dir() => {
                return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
            }
            Err(_) => {}
        }
    }
    Ok(grown)
}

/// Makes the entries of a folder durable.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    fs::File::open(path)?.sync_all()
}
