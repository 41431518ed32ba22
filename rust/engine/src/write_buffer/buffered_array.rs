//! An array with a write buffer in a block of buffered writes.

use std::sync::{Arc, Mutex};

use super::failures::Failures;
use super::{lock, BufferedChunk, WriteBuffer};
use crate::array::{Array, PerAxis};
use crate::error::{Error, Kind, Result};
use crate::pipeline::missing_array::ArrayPresence;
use crate::pipeline::operation::{Chunk, Interrupt, Operation};
use crate::store::{ChunkCache, Store};

/// An array, and what storing its chunks depends on.
#[derive(Clone)]
pub struct ArrayAccess {
    /// The store of the chunks.
    pub store: Arc<dyn Store>,
    /// The prefix of the chunk keys.
    pub prefix: Box<str>,
    /// The description.
    pub array: Arc<Array>,
    /// As for [`Operation`].
    pub keeps_past: bool,
    /// The check that the array still exists.
    pub presence: Option<Arc<ArrayPresence>>,
    /// The metadata document; None: it is unknown.
    pub document: Option<Arc<dyn MetadataDocument>>,
    /// The cache of decoded chunks.
    pub chunk_cache: Option<Arc<ChunkCache>>,
    /// Whether the array may buffer writes.
    pub may_buffer: bool,
}

/// The metadata document of an array.
pub trait MetadataDocument: Send + Sync {
    /// Return the key.
    fn key(&self) -> &str;

    /// Return whether the key must exist; consolidated metadata may be the only metadata.
    fn is_required(&self) -> bool;

    /// Return whether `document`, the current value of the key, describes the same chunks.
    fn has_same_chunks(&self, document: &[u8]) -> Result<bool>;
}

/// An array with a write buffer.
pub(super) struct BufferedArray {
    pub(super) access: ArrayAccess,
    /// The location of the array, see [`Store::location`].
    pub(super) location: Box<str>,
    pub(super) buffer: WriteBuffer,
    /// The document that was compared last, and describes the same chunks.
    checked: Mutex<Vec<u8>>,
    /// The array was deleted or replaced, and elements are discarded. The next flush, or the end of
    /// the block, reports this error.
    gone: Mutex<Option<Error>>,
}

/// Chunks of a buffer with their cells.
pub(super) type Chunks = [(PerAxis<u64>, Arc<BufferedChunk>)];

impl BufferedArray {
    pub(super) fn new(access: ArrayAccess, location: &str, buffer: WriteBuffer) -> Self {
        let (checked, gone) = (Mutex::default(), Mutex::default());
        BufferedArray { access, location: location.into(), buffer, checked, gone }
    }

    /// Return whether both arrays may share a buffer: they have the same chunks in the same store
    /// object. Another one may have caches, or other settings.
    pub(super) fn is_shared_with(&self, access: &ArrayAccess) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.access.store), Arc::as_ptr(&access.store))
            && self.access.array.has_same_chunks(&access.array)
    }

    fn operation<'a>(&'a self, interrupt: Option<Interrupt<'a>>) -> Operation<'a> {
        let ArrayAccess { store, prefix, array, keeps_past, presence, chunk_cache, .. } = &self.access;
        let check = presence.as_ref().map(|presence| presence.check());
        let (keeps_past, chunk_cache) = (*keeps_past, chunk_cache.as_deref());
        Operation { keeps_past, interrupt, check, chunk_cache, ..Operation::new(array, &**store, prefix) }
    }

    /// Store all chunks. Those that fail stay in the buffer.
    pub(super) fn store(&self, interrupt: Option<Interrupt<'_>>, failures: &Failures) -> Result<()> {
        self.store_chunks(&self.buffer.matching(|_| true), interrupt, failures)
    }

    /// Store `chunks` of the buffer. Those that fail stay in the buffer, unless the array is gone.
    pub(super) fn store_chunks(
        &self,
        chunks: &Chunks,
        interrupt: Option<Interrupt<'_>>,
        failures: &Failures,
    ) -> Result<()> {
        if chunks.is_empty() {
            return Ok(());
        }
        let operation = self.operation(interrupt);
        match self.check_stored(operation) {
            Ok(None) => self.buffer.store_chunks(operation, chunks, false, &|error| failures.record(error)),
            Ok(Some(gone)) => {
                // A later array at this location must not receive the elements.
                self.buffer.discard_all()?;
                lock(&self.gone).get_or_insert(gone);
                Ok(())
            }
            Err(error) => {
                chunks.iter().for_each(|(_, chunk)| chunk.set_failed(true));
                failures.record(error)
            }
        }
    }

    /// Record the error of a deleted or replaced array.
    pub(super) fn report_gone(&self, failures: &Failures) {
        let gone = lock(&self.gone).take();
        gone.into_iter().for_each(|error| failures.record_gone(error));
    }

    /// Return whether nothing is left to store or to report.
    pub(super) fn is_finished(&self) -> bool {
        self.buffer.is_empty() && lock(&self.gone).is_none()
    }

    /// Return an error if the array was deleted or replaced.
    fn check_stored(&self, operation: Operation<'_>) -> Result<Option<Error>> {
        match operation.check_array() {
            Err(error) if error.kind == Kind::NotFound => return Ok(Some(error)),
            checked => checked?,
        }
        let Some(expected) = &self.access.document else { return Ok(None) };
        let key = expected.key();
        let Some(document) = operation.store.load(key, None).map_err(|error| error.at_key(key))? else {
            return Ok(expected.is_required().then(|| {
                let message =
                    "the array was deleted, and the elements that a block of buffered writes held for \
                               it are discarded: create or open the array again";
                Error { code: Some("array_not_found"), ..Error::new(Kind::NotFound, message) }.at_key(key)
            }));
        };
        if *lock(&self.checked) == document.bytes() {
            return Ok(None);
        }
        if !expected.has_same_chunks(document.bytes()).map_err(|error| error.at_key(key))? {
            let message =
                "the array was replaced by another one, and the elements that a block of buffered writes \
                           held for it are discarded: open the array again";
            return Ok(Some(Error::argument(message).at_key(key)));
        }
        *lock(&self.checked) = document.bytes().to_vec();
        Ok(None)
    }
}

/// Return whether buffers take the elements of a chunk: those of a whole chunk only if one of them
/// has others of the chunk.
pub(super) fn takes(buffers: &[Arc<BufferedArray>], chunk: &Chunk<'_, '_>) -> bool {
    !chunk.portion.is_full(None) || buffers.iter().any(|buffered| buffered.buffer.find(chunk.cell).is_some())
}
