//! Tells a chunk that is not stored from an array that is gone, where a folder answers at once.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::array::KeyEncoding;
use crate::error::{Error, Kind, Result};
use crate::operation::Operation;
use crate::store::AtPath;

/// So many missing chunks of an opened array are looked for under the other separator.
const LOOKED_FOR: u32 = 32;

/// What an opened array knows of its presence in a folder.
#[derive(Debug)]
pub struct Presence {
    /// The key of the metadata document, or of the folder of the array.
    document: String,
    /// Operations that have begun.
    begun: AtomicU64,
    /// The last operation for which the document was looked for.
    checked: AtomicU64,
    /// How many missing chunks are still looked for under the other separator.
    left: AtomicU32,
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
            left: AtomicU32::new(LOOKED_FOR),
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
            || self.store.at_path(&presence.document)? != Some(AtPath::Nothing)
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

    /// Fails where the chunk that `key` lacks is not simply unwritten: the array has vanished, or the chunk is
    /// stored under a key with the other separator.
    pub(crate) fn check_missing(&self, key: &str) -> Result<()> {
        let Some(Check { presence, .. }) = self.check else { return Ok(()) };
        self.check_array()?;
        let take = |left: u32| left.checked_sub(1);
        if presence.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            return Ok(());
        }
        let found = self.strange(key)?;
        if found.is_some() {
            // The next missing chunk is looked for, too.
            presence.left.fetch_add(1, Ordering::Relaxed);
        }
        found.map_or(Ok(()), Err)
    }

    /// The error of a chunk that is not where it should be: its path is that of something else, or its key has
    /// the other separator.
    fn strange(&self, key: &str) -> Result<Option<Error>> {
        let failed =
            |message: String| Some(Error::new(Kind::Store { retryable: false, errno: None }, message));
        match self.store.at_path(key)? {
            Some(AtPath::Folder) => {
                return Ok(failed("its file should be where a folder with files is".to_owned()));
            }
            Some(AtPath::Special) => {
                return Ok(failed("its file should be where a pipe, a socket or a device is".to_owned()));
            }
            _ => {}
        }
        let Some((other, separator, stored)) = self.other_key(key) else { return Ok(None) };
        if self.store.at_path(&other)? != Some(AtPath::Value) {
            return Ok(None);
        }
        Ok(failed(format!(
            "nothing is stored under this key, but under {other:?}: the keys of chunks have the separator \
             {separator:?} by the metadata, these chunks have {stored:?}; correct the separator in the \
             metadata, or delete these files"
        )))
    }

    /// The key of a chunk with the other separator, where that differs; both separators.
    fn other_key(&self, key: &str) -> Option<(String, char, char)> {
        let KeyEncoding::Numbers { separator, .. } = self.array.keys else { return None };
        let other = if separator == '/' { '.' } else { '/' };
        let own = key.strip_prefix(self.prefix)?;
        let renamed = own.replace(separator, other.encode_utf8(&mut [0; 4]));
        (renamed != own).then(|| (format!("{}{renamed}", self.prefix), separator, other))
    }
}
