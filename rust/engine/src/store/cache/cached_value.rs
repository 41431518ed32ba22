//! Readers of cached values.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::cache_pool::{CachePool, RequestTime};
use super::entry::{CacheEntry, EntryKind, Freshness, ValueId, WholeValue};
use super::{CachedStore, SMALL_VALUE_BYTES};
use crate::error::Result;
use crate::store::{self, read_from, DecodedCache, ReadFlags, ReadHint, ValueReader, Version};

/// The decoded chunks of a value.
pub(super) struct DecodedChunks {
    pub(super) name: String,
    pub(super) of: ValueId,
    pub(super) memory: Arc<CachePool>,
}

impl DecodedCache for DecodedChunks {
    fn has_room(&self, bytes: usize) -> bool {
        bytes as u64 <= self.memory.limit()
    }

    fn get(&self, offset: u64, size: u64, level: u64) -> Option<Arc<Vec<u8>>> {
        let kind = EntryKind::Decoded { offset, size, level };
        self.memory.with(|lru| lru.look_up_decoded(&self.name, kind, self.of))
    }

    fn insert(&self, offset: u64, size: u64, level: u64, bytes: Vec<u8>) {
        let kind = EntryKind::Decoded { offset, size, level };
        let entry = CacheEntry::Decoded(Arc::new(bytes));
        self.memory.with(|lru| lru.insert_part(&self.name, kind, entry, self.of));
    }
}

/// A cached value.
pub(super) struct WholeValueReader {
    pub(super) whole: Arc<WholeValue>,
    /// None: the value is about to be changed.
    pub(super) chunks: Option<DecodedChunks>,
}

impl ValueReader for WholeValueReader {
    fn version(&self) -> Option<Version> {
        self.whole.value_id.version()
    }

    fn state(&self) -> Option<Version> {
        self.whole.value_id.state()
    }

    fn bytes(&self) -> Option<&[u8]> {
        Some(&self.whole.bytes)
    }

    fn decoded_cache(&self) -> Option<&dyn DecodedCache> {
        self.chunks.as_ref().map(|chunks| chunks as &dyn DecodedCache)
    }
}

/// A value with some cached ranges; reading another range opens it in the inner store.
pub(super) struct RangedReader {
    pub(super) key: String,
    pub(super) chunks: DecodedChunks,
    pub(super) size: u64,
    pub(super) request_time: RequestTime,
    pub(super) reader: OnceLock<Box<dyn ValueReader>>,
    pub(super) opening: Mutex<()>,
    /// A continued read was sent before the read that it continues.
    pub(super) sent_ahead: AtomicBool,
    pub(super) store: CachedStore,
}

impl RangedReader {
    /// Open the value in the inner store.
    fn reader(&self, hint: ReadHint) -> Result<&dyn ValueReader> {
        if let Some(object) = self.reader.get() {
            return Ok(&**object);
        }
        // Several threads may read ranges; one of them opens the value.
        let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(object) = self.reader.get() {
            return Ok(&**object);
        }
        let opened = self.store.inner.open(&self.key, hint)?;
        let is_current =
            self.store.memory.with(|lru| lru.epoch(&self.chunks.name)) == self.request_time.epoch;
        let same =
            |object: &dyn ValueReader| object.size() == self.size && self.chunks.of.matches_reader(object);
        match opened.filter(|object| is_current && same(&**object)) {
            Some(object) => Ok(&**self.reader.get_or_init(|| object)),
            None => {
                self.store.invalidate(&self.key);
                Err(store::replaced(&self.key))
            }
        }
    }
}

impl ValueReader for RangedReader {
    fn size(&self) -> u64 {
        self.size
    }

    fn version(&self) -> Option<Version> {
        self.chunks.of.version()
    }

    fn state(&self) -> Option<Version> {
        self.chunks.of.state()
    }

    fn read_with(&self, offset: u64, out: &mut [u8], flags: ReadFlags) -> Result<()> {
        let count = out.len() as u64;
        if !self.fill_from_cache(offset, out)? {
            if self.must_read_whole() {
                return self.read_whole();
            }
            let continues_request = self.is_continuation(flags);
            self.reader(ReadHint::Range { offset, count })?.read_with(
                offset,
                out,
                ReadFlags { continues_request, ..flags },
            )?;
            if !flags.decoded_is_cached && count <= self.store.memory.limit() {
                let (kind, entry) =
                    (EntryKind::Range { offset, count }, CacheEntry::Range(Arc::new(out.to_vec())));
                self.store.memory.with(|lru| lru.insert_part(&self.chunks.name, kind, entry, self.chunks.of));
            }
        }
        Ok(())
    }

    fn is_cached(&self, offset: u64, count: u64) -> bool {
        self.store
            .memory
            .with(|lru| lru.look_up_range(&self.chunks.name, offset, count, self.chunks.of))
            .is_some()
    }

    fn decoded_cache(&self) -> Option<&dyn DecodedCache> {
        Some(self)
    }
}

impl DecodedCache for RangedReader {
    fn has_room(&self, bytes: usize) -> bool {
        self.chunks.has_room(bytes)
    }

    fn get(&self, offset: u64, size: u64, level: u64) -> Option<Arc<Vec<u8>>> {
        let inner = || self.inner_decoded_cache()?.get(offset, size, level);
        self.chunks.get(offset, size, level).or_else(inner)
    }

    fn insert(&self, offset: u64, size: u64, level: u64, bytes: Vec<u8>) {
        if let Some(inner) = self.inner_decoded_cache().filter(|inner| inner.has_room(bytes.len())) {
            inner.insert(offset, size, level, bytes.clone());
        }
        self.chunks.insert(offset, size, level, bytes);
    }
}

impl RangedReader {
    /// Return the cache of decoded chunks of an inner cache.
    fn inner_decoded_cache(&self) -> Option<&dyn DecodedCache> {
        match self.reader.get() {
            Some(object) => object.decoded_cache(),
            // This needs no request. If the value differs, the next read reports it.
            None => self
                .store
                .inner
                .cache_state(&self.key)
                .requested_at
                .and_then(|_| self.reader(ReadHint::Revalidate).ok())?
                .decoded_cache(),
        }
    }

    /// Return whether the value has cached ranges but no version, so that ranges of two states could
    /// mix. The entries of other caches are validated when the value is opened again.
    fn must_read_whole(&self) -> bool {
        matches!(self.store.freshness, Freshness::Always | Freshness::Since(_))
            && self.chunks.of.state().is_none()
            && self.size <= SMALL_VALUE_BYTES.min(self.store.memory.limit())
            && !self.store.memory.with(|lru| lru.lacks_parts(&self.chunks.name))
    }

    /// Read and cache the whole current value, and let the caller start again with it.
    fn read_whole(&self) -> Result<()> {
        let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        let is_whole = |entry: &CacheEntry| matches!(entry, CacheEntry::Whole(_));
        if !self.store.memory.with(|lru| lru.value(&self.chunks.name).is_some_and(is_whole)) {
            let entry = match self.store.inner.open(&self.key, ReadHint::Whole)? {
                Some(object) => CacheEntry::Whole(Arc::new(WholeValue::of(&*object)?)),
                None => CacheEntry::Absent,
            };
            self.store.memory.insert(&self.chunks.name, EntryKind::Value, entry, self.request_time);
        }
        Err(store::replaced(&self.key))
    }

    /// Return whether a read continues another one that was sent.
    fn is_continuation(&self, flags: ReadFlags) -> bool {
        match flags.continues_request {
            // The first read may have been answered from the cache.
            true => self.reader.get().is_some() || self.sent_ahead.swap(true, Ordering::Relaxed),
            // Threads send related reads in any order: the first one counts as the request.
            false => self.sent_ahead.swap(false, Ordering::Relaxed),
        }
    }

    /// Fill `out` if these bytes are cached.
    fn fill_from_cache(&self, offset: u64, out: &mut [u8]) -> Result<bool> {
        let count = out.len() as u64;
        if count == 0 {
            return Ok(true);
        }
        // The age of a range does not matter: the value was validated when it was opened.
        match self.store.memory.look_up_range(&self.chunks.name, offset, count, self.chunks.of) {
            Some((bytes, from)) => read_from(&bytes, offset - from, out).map(|()| true),
            None => Ok(false),
        }
    }
}
