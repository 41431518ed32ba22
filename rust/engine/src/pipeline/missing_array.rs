//! Tells a chunk that is not stored from an array that is gone, where a folder answers at once.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::array::{Array, KeyEncoding};
use crate::error::{Error, Kind, Result};
use crate::pipeline::operation::Operation;
use crate::store::PathKind;

/// For so many missing chunks of an opened array, the engine checks what has the path of the chunk.
const CHECKED_PATHS: u32 = 32;

/// The search for keys of another encoding lists so many entries of a folder,
const LISTED_ENTRIES: usize = 256;

/// and so many folders, besides one for each axis.
const LISTED_FOLDERS: usize = 16;

/// What an opened array knows of its presence in a folder.
#[derive(Debug)]
pub struct Presence {
    /// The key of the metadata document, or of the folder of the array.
    document: String,
    /// Operations that have begun.
    begun: AtomicU64,
    /// The last operation for which the document was looked for.
    checked: AtomicU64,
    /// How many paths of missing chunks are still checked.
    paths_left: AtomicU32,
    /// Whether the search for keys of another encoding has found none.
    keys_checked: AtomicBool,
}

/// One operation's use of the presence of its array.
#[derive(Clone, Copy)]
pub struct Check<'a> {
    presence: &'a Presence,
    operation: u64,
}

impl Presence {
    /// Of an array that is there as long as something has the path of the key `document`.
    pub fn new(document: String) -> Self {
        Presence {
            document,
            begun: AtomicU64::new(0),
            checked: AtomicU64::new(0),
            paths_left: AtomicU32::new(CHECKED_PATHS),
            keys_checked: AtomicBool::new(false),
        }
    }

    /// What an operation that begins now checks.
    pub fn check(&self) -> Check<'_> {
        Check { presence: self, operation: self.begun.fetch_add(1, Ordering::Relaxed) + 1 }
    }
}

impl Operation<'_> {
    /// Fails where the metadata document of the array has vanished: once in an operation.
    pub fn check_array(&self) -> Result<()> {
        let Some(Check { presence, operation }) = self.check else { return Ok(()) };
        if presence.checked.load(Ordering::Relaxed) >= operation
            || self.store.path_kind(&presence.document)? != Some(PathKind::Nothing)
        {
            presence.checked.fetch_max(operation, Ordering::Relaxed);
            return Ok(());
        }
        let message = format!(
            "the array is gone: {:?} has vanished from its folder, which was deleted, moved or unmounted; open \
             the array again",
            presence.document
        );
        Err(Error { code: Some("array_not_found"), ..Error::new(Kind::NotFound, message) })
    }

    /// Fails where the chunk that `key` lacks is not simply unwritten: the array has vanished, something
    /// other than a file has the path of the chunk, or chunks are stored under keys of another encoding.
    pub(crate) fn check_missing(&self, key: &str) -> Result<()> {
        let Some(Check { presence, .. }) = self.check else { return Ok(()) };
        self.check_array()?;
        let take = |left: u32| left.checked_sub(1);
        if presence.paths_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
            // After an error the next missing chunk is checked, too.
            self.check_path(key).inspect_err(|_| {
                presence.paths_left.fetch_add(1, Ordering::Relaxed);
            })?;
        }
        if !presence.keys_checked.load(Ordering::Relaxed) {
            self.check_keys()?;
            presence.keys_checked.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Fails where something other than a file has the path of a chunk.
    fn check_path(&self, key: &str) -> Result<()> {
        match self.store.path_kind(key)? {
            Some(PathKind::Folder) => Err(failed("its file should be where a folder with files is")),
            Some(PathKind::Special) => {
                Err(failed("its file should be where a pipe, a socket or a device is"))
            }
            _ => Ok(()),
        }
    }

    /// Fails where a chunk is stored under a key of another encoding than that of the array, and not under
    /// its own key. Lists the folder of the array, and those folders in it that hold keys of another
    /// encoding, all within bounds.
    fn check_keys(&self) -> Result<()> {
        if !self.array.has_numbered_keys() {
            return Ok(());
        }
        let rank = self.array.cuts.len();
        let encodings = KeyEncoding::numbered();
        let mut folders = vec![self.prefix.to_owned()];
        for _ in 0..LISTED_FOLDERS + rank {
            let Some(folder) = folders.pop() else { break };
            let Some(found) = self.store.first_entries(&folder, LISTED_ENTRIES)? else { return Ok(()) };
            for key in &found.keys {
                self.check_key(key, &encodings)?;
            }
            folders.extend(found.prefixes.into_iter().filter(|below| {
                let below = &below[self.prefix.len()..];
                encodings.iter().any(|encoding| encoding.has_folder(below, rank))
                    && !self.array.keys.has_folder(below, rank)
            }));
        }
        Ok(())
    }

    /// Fails where `key` is that of a chunk in another encoding, and nothing is stored under its own key.
    fn check_key(&self, key: &str, encodings: &[KeyEncoding]) -> Result<()> {
        let (own, rank) = (&self.array.keys, self.array.cuts.len());
        let name = &key[self.prefix.len()..];
        if own.cell_of_key(name, rank).is_some() {
            return Ok(());
        }
        let decoded = encodings.iter().find_map(|other| Some((other, other.cell_of_key(name, rank)?)));
        let Some((other, cell)) = decoded.filter(|(_, cell)| self.has_cell(cell)) else { return Ok(()) };
        let mut wanted = String::new();
        self.array.format_key(self.prefix, &cell, &mut wanted)?;
        if matches!(self.store.path_kind(&wanted)?, Some(PathKind::Value) | None) {
            return Ok(());
        }
        Err(failed(format!(
            "no chunk is stored under {wanted:?}, but one is under {key:?}: by the metadata, keys have \
             {own}, this key has {other}; correct the metadata, or rename or delete the files"
        )))
    }

    /// Whether the array has elements in `cell`.
    fn has_cell(&self, cell: &[u64]) -> bool {
        let Array { shape, cuts, .. } = self.array;
        let mut axes = cell.iter().zip(shape).zip(cuts);
        axes.all(|((&cell, &length), cuts)| length > 0 && cell <= cuts.cell_of(length - 1))
    }
}

fn failed(message: impl Into<String>) -> Error {
    Error::new(Kind::Store { retryable: false, errno: None }, message)
}
