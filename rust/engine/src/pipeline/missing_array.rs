//! Detection of missing arrays, misplaced files and wrong key encodings behind missing chunks.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::array::{Array, KeyEncoding};
use crate::error::{Error, Kind, Result};
use crate::pipeline::operation::Operation;
use crate::store::PathKind;

/// The number of missing chunks of an open array for which the engine checks the path.
const CHECKED_PATHS: u32 = 32;

/// The search for keys of another encoding lists so many entries of a folder,
const LISTED_ENTRIES: usize = 256;

/// and so many folders, in addition to one for each axis.
const LISTED_FOLDERS: usize = 16;

/// The knowledge of an open array about its presence in a folder.
#[derive(Debug)]
pub struct ArrayPresence {
    /// The key of the metadata document, or of the folder of the array.
    document: String,
    /// The number of operations so far.
    operations: AtomicU64,
    /// The last operation that checked the document.
    last_checked: AtomicU64,
    /// How many paths of missing chunks are still checked.
    paths_remaining: AtomicU32,
    /// Whether the search for keys of another encoding has ended without a result.
    keys_checked: AtomicBool,
}

/// The presence of the array, as one operation checks it.
#[derive(Clone, Copy)]
pub struct PresenceCheck<'a> {
    presence: &'a ArrayPresence,
    operation: u64,
}

impl ArrayPresence {
    /// Return the presence of an array that exists as long as the key `document` does.
    pub fn new(document: String) -> Self {
        ArrayPresence {
            document,
            operations: AtomicU64::new(0),
            last_checked: AtomicU64::new(0),
            paths_remaining: AtomicU32::new(CHECKED_PATHS),
            keys_checked: AtomicBool::new(false),
        }
    }

    /// Return the checks of an operation that starts now.
    pub fn check(&self) -> PresenceCheck<'_> {
        PresenceCheck { presence: self, operation: self.operations.fetch_add(1, Ordering::Relaxed) + 1 }
    }
}

impl Operation<'_> {
    /// Raise an error if the metadata document of the array has vanished; checked once in an
    /// operation.
    pub fn check_array(&self) -> Result<()> {
        let Some(PresenceCheck { presence, operation }) = self.check else { return Ok(()) };
        if presence.last_checked.load(Ordering::Relaxed) >= operation
            || self.store.path_kind(&presence.document)? != Some(PathKind::Nothing)
        {
            presence.last_checked.fetch_max(operation, Ordering::Relaxed);
            return Ok(());
        }
        let message = format!(
            "the array is gone: {:?} has vanished from its folder, which was deleted, moved or unmounted; open \
             the array again",
            presence.document
        );
        Err(Error { code: Some("array_not_found"), ..Error::new(Kind::NotFound, message) })
    }

    /// Raise an error unless the chunk at `key` is simply unwritten: the array has vanished, the
    /// path of the chunk is not a file, or chunks are stored under keys of another encoding.
    pub(crate) fn check_missing(&self, key: &str) -> Result<()> {
        let Some(PresenceCheck { presence, .. }) = self.check else { return Ok(()) };
        self.check_array()?;
        let decrement = |remaining: u32| remaining.checked_sub(1);
        if presence.paths_remaining.fetch_update(Ordering::Relaxed, Ordering::Relaxed, decrement).is_ok() {
            // After an error the next missing chunk is checked, too.
            self.check_path(key).inspect_err(|_| {
                presence.paths_remaining.fetch_add(1, Ordering::Relaxed);
            })?;
        }
        if !presence.keys_checked.load(Ordering::Relaxed) {
            self.check_keys()?;
            presence.keys_checked.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Raise an error if the path of a chunk is not a file.
    fn check_path(&self, key: &str) -> Result<()> {
        match self.store.path_kind(key)? {
            Some(PathKind::Folder) => Err(failed("its file should be where a folder with files is")),
            Some(PathKind::Special) => {
                Err(failed("its file should be where a pipe, a socket or a device is"))
            }
            _ => Ok(()),
        }
    }

    /// Raise an error if a chunk is stored under a key of another encoding than the array's, and
    /// not under its own key. Lists the folder of the array, and folders in it with keys of another
    /// encoding, up to a limit.
    fn check_keys(&self) -> Result<()> {
        if !self.array.has_numbered_keys() {
            return Ok(());
        }
        let rank = self.array.dim_grids.len();
        let encodings = KeyEncoding::numbered();
        let mut folders = vec![self.prefix.to_owned()];
        for _ in 0..LISTED_FOLDERS + rank {
            let Some(folder) = folders.pop() else { break };
            let Some(listing) = self.store.first_entries(&folder, LISTED_ENTRIES) else { return Ok(()) };
            for key in &listing.keys {
                self.check_key(key, &encodings)?;
            }
            folders.extend(listing.prefixes.into_iter().filter(|folder| {
                let folder = &folder[self.prefix.len()..];
                encodings.iter().any(|encoding| encoding.has_folder(folder, rank))
                    && !self.array.keys.has_folder(folder, rank)
            }));
        }
        Ok(())
    }

    /// Return whether the array has documents of both formats, so that each may have separate
    /// chunks.
    fn has_both_formats(&self) -> Result<bool> {
        for name in ["zarr.json", ".zarray"] {
            if self.store.path_kind(&format!("{}{name}", self.prefix))? != Some(PathKind::Value) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Raise an error if `key` belongs to a chunk in another encoding, and its own key is missing.
    fn check_key(&self, key: &str, encodings: &[KeyEncoding]) -> Result<()> {
        let (own, rank) = (&self.array.keys, self.array.dim_grids.len());
        let name = &key[self.prefix.len()..];
        if own.cell_of_key(name, rank).is_some() {
            return Ok(());
        }
        let decoded = encodings.iter().find_map(|other| Some((other, other.cell_of_key(name, rank)?)));
        let Some((other, cell)) = decoded.filter(|(_, cell)| self.has_cell(cell)) else { return Ok(()) };
        let mut own_key = String::new();
        self.array.format_key(self.prefix, &cell, &mut own_key)?;
        if matches!(self.store.path_kind(&own_key)?, Some(PathKind::Value) | None)
            || self.has_both_formats()?
        {
            return Ok(());
        }
        Err(failed(format!(
            "no chunk is stored under {own_key:?}, but one is under {key:?}: by the metadata, keys have \
             {own}, this key has {other}; correct the metadata, or rename or delete the files"
        )))
    }

    /// Return whether the array has elements in `cell`.
    fn has_cell(&self, cell: &[u64]) -> bool {
        let Array { shape, dim_grids, .. } = self.array;
        let mut axes = cell.iter().zip(shape).zip(dim_grids);
        axes.all(|((&cell, &length), dim_grids)| length > 0 && cell <= dim_grids.cell_of(length - 1))
    }
}

fn failed(message: impl Into<String>) -> Error {
    Error::store(false, message)
}
