//! Open files as readers of values.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::super::{past_the_end, ReadFlags, ValueReader, Version};
use super::mmap::Mmap;
use super::{folders, platform, ReadMode, COUNTERS};
use crate::error::{Error, Result};
use crate::scratch::sized;
use crate::store::Call;

/// An open file. A new value moves to the path as another file, so this one does not change.
pub(super) struct LocalValue {
    pub(super) file: File,
    state: FileState,
    access: FileAccess,
}

/// How bytes of the file are read.
enum FileAccess {
    Plain,
    Mapped(Mmap),
    Direct,
}

/// Open the value at `path`; None unless it is a regular file. A plain read needs three system
/// calls: open, statx and close.
pub(super) fn open_value(path: &Path, read_mode: ReadMode) -> io::Result<Option<LocalValue>> {
    let (file, direct) = match open(path, read_mode == ReadMode::Direct) {
        Ok(opened) => opened,
        Err(error) if folders::is_absence(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(None);
    }
    let access = match read_mode {
        ReadMode::Mapped => Mmap::of(&file, metadata.len()).map_or(FileAccess::Plain, FileAccess::Mapped),
        _ if direct => FileAccess::Direct,
        _ => FileAccess::Plain,
    };
    Ok(Some(LocalValue { state: FileState::of(&metadata), file, access }))
}

/// Return the file, and whether it bypasses the page cache.
fn open(path: &Path, direct: bool) -> io::Result<(File, bool)> {
    // Without O_NONBLOCK opening a pipe would wait for its writer; regular files ignore the flag.
    let open_with = |flags| OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | flags).open(path);
    if direct && platform::DIRECT != 0 {
        match open_with(platform::DIRECT) {
            // The file system does not support it.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            opened => return Ok((opened?, true)),
        }
    }
    Ok((open_with(0)?, false))
}

/// A file that changed this recently could change again with the same time stamp.
///
/// The kernel stamps files with a clock that ticks every 1 to 10 ms. A program that changes files
/// in place (such as zarrs) could change a file twice within one tick; a reader in between would
/// hold a version that equals the next one. So a file with such recent stamps, or stamps from the
/// future, has no version (git calls such files "racily clean"). Its stamps can still be compared
/// with those of an earlier version.
pub(super) const RACY: Duration = Duration::from_millis(20);

/// The same for file systems that store whole seconds (ext3, HFS+), or even ones (FAT): a file has no
/// version until the clock has passed its second and the next one.
const RACY_SECONDS: Duration = Duration::from_secs(3);

/// Return whether a file with these stamps in nanoseconds could change again at time `now` and get
/// equal stamps. Programs can set `modified` to a whole second, but not `changed`.
fn is_racy(modified: u64, changed: u64, now: Duration) -> bool {
    let is_whole = |stamp: u64| stamp % 1_000_000_000 == 0;
    let window = if is_whole(modified) && is_whole(changed) { RACY_SECONDS } else { RACY };
    u128::from(modified.max(changed)) >= now.saturating_sub(window).as_nanos()
}

/// The state of the file when it was opened or written.
#[derive(Clone, Copy)]
struct FileState {
    size: u64,
    stamps: Version,
    /// The stamps are too recent to be a version.
    racy: bool,
}

impl FileState {
    fn of(metadata: &Metadata) -> Self {
        let stamp = |seconds: i64, nanoseconds: i64| {
            let seconds = u64::try_from(seconds).unwrap_or(0);
            seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds as u64)
        };
        let modified = stamp(metadata.mtime(), metadata.mtime_nsec());
        let changed = stamp(metadata.ctime(), metadata.ctime_nsec());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // The second stamp is mixed over all bits, so that two shifts do not cancel out.
        let mixed = modified ^ changed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        FileState {
            size: metadata.len(),
            stamps: Version::of([metadata.dev(), metadata.ino(), metadata.len(), mixed]),
            racy: is_racy(modified, changed, now),
        }
    }
}

/// The modification time of a file that no other process has seen yet. It lies between two ticks of
/// the clock that the kernel uses for all other changes.
pub(super) struct ModificationMark(SystemTime);

impl ModificationMark {
    /// Set it on `file`; None if that is not possible.
    pub(super) fn set_on(file: &File) -> Option<ModificationMark> {
        let now = SystemTime::now();
        file.set_modified(now).ok().map(|()| ModificationMark(now))
    }

    /// Return the version of the file, if it has not changed since.
    pub(super) fn version(&self, file: &File) -> Option<Version> {
        let metadata = file.metadata().ok()?;
        (metadata.modified().ok()? == self.0).then(|| FileState::of(&metadata).stamps)
    }
}

/// Direct reads need whole blocks at addresses aligned to blocks.
const BLOCK: usize = 4096;

impl LocalValue {
    /// Fill `out` through a buffer of whole blocks.
    fn read_blocks(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let skipped = offset as usize % BLOCK;
        let count = (skipped + out.len()).next_multiple_of(BLOCK);
        let mut buffer = Vec::new();
        let buffer = sized(&mut buffer, count + BLOCK)?;
        let first = buffer.as_ptr().align_offset(BLOCK);
        let buffer = &mut buffer[first..first + count];
        let mut filled = 0;
        while filled < skipped + out.len() {
            match self.file.read_at(&mut buffer[filled..], offset - skipped as u64 + filled as u64) {
                Ok(0) => return Err(Error::data("the file was truncated during the read")),
                Ok(count) => filled += count,
                Err(error) => return Err(Error::io("cannot read by blocks", &error)),
            }
        }
        out.copy_from_slice(&buffer[skipped..skipped + out.len()]);
        Ok(())
    }

    pub(super) fn check_range(&self, offset: u64, count: u64) -> Result<()> {
        match offset.checked_add(count) {
            Some(end) if end <= self.state.size => Ok(()),
            _ => Err(past_the_end(offset, count as usize, self.state.size)),
        }
    }
}

impl ValueReader for LocalValue {
    fn size(&self) -> u64 {
        self.state.size
    }

    fn version(&self) -> Option<Version> {
        (!self.state.racy).then_some(self.state.stamps)
    }

    fn state(&self) -> Option<Version> {
        Some(self.state.stamps)
    }

    fn read_with(&self, offset: u64, out: &mut [u8], flags: ReadFlags) -> Result<()> {
        self.check_range(offset, out.len() as u64)?;
        COUNTERS
            .count(if flags.continues_request { Call::ReadContinued } else { Call::Read }, out.len() as u64);
        let filled = match &self.access {
            FileAccess::Plain => self.file.read_exact_at(out, offset),
            FileAccess::Mapped(mmap) => return super::super::read_from(mmap.bytes(), offset, out),
            FileAccess::Direct => return self.read_blocks(offset, out),
        };
        filled.map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => Error::data("the file was truncated during the read"),
            _ => Error::io("cannot read", &error),
        })
    }

    fn bytes(&self) -> Option<&[u8]> {
        match &self.access {
            FileAccess::Mapped(mmap) => Some(mmap.bytes()),
            _ => None,
        }
    }

    fn file(&self) -> Option<&File> {
        match self.access {
            FileAccess::Direct => None, // direct reads need whole blocks
            _ => Some(&self.file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Return the age in milliseconds from which a file with these stamps has a version.
    fn trusted_age(modified: u64, changed: u64) -> u64 {
        let is_racy = |age: &u64| {
            let now = Duration::from_nanos(modified.max(changed)) + Duration::from_millis(*age);
            super::is_racy(modified, changed, now)
        };
        (0..10_000).find(|age| !is_racy(age)).unwrap_or(u64::MAX)
    }

    #[test]
    fn whole_seconds_are_trusted_after_more_than_two() {
        for second in [10, 11] {
            assert_eq!(trusted_age(second * SECOND, second * SECOND), 3001);
            assert_eq!(trusted_age(3 * SECOND, second * SECOND), 3001);
        }
    }

    #[test]
    fn finer_stamps_are_trusted_after_a_few_ticks() {
        // A program has set the time of modification, to the past or the future.
        for modified in [9, 10, 12].map(|second| second * SECOND) {
            assert_eq!(trusted_age(modified, 11 * SECOND + 5), 21);
        }
        assert_eq!(trusted_age(11 * SECOND + 5, 11 * SECOND + 5), 21);
    }
}
