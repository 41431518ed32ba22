//! Readers of cached values.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::cache_pool::{Asked, Memory};
use super::entry::{Answer, Part, Same, Whole};
use super::SMALL;
use crate::error::Result;
use crate::store::{self, read_from, Decoded, How, Object, Store, Version, Want};

/// The decoded chunks of a value.
pub(super) struct Chunks {
    pub(super) name: String,
    pub(super) of: Same,
    pub(super) memory: Arc<Memory>,
}

impl Decoded for Chunks {
    fn has_room(&self, bytes: usize) -> bool {
        bytes as u64 <= self.memory.limit
    }

    fn find(&self, offset: u64, size: u64, level: u64) -> Option<Arc<Vec<u8>>> {
        let part = Part::Decoded { offset, size, level };
        self.memory.with(|shelf| shelf.find_decoded(&self.name, part, self.of))
    }

    fn keep(&self, offset: u64, size: u64, level: u64, bytes: Vec<u8>) {
        let part = Part::Decoded { offset, size, level };
        let answer = Answer::Decoded(Arc::new(bytes));
        self.memory.with(|shelf| shelf.keep_of(&self.name, part, answer, self.of));
    }
}

/// A cached value.
pub(super) struct WholeObject {
    pub(super) whole: Arc<Whole>,
    /// None: the value is about to be changed.
    pub(super) chunks: Option<Chunks>,
}

impl Object for WholeObject {
    fn size(&self) -> u64 {
        self.whole.bytes.len() as u64
    }

    fn version(&self) -> Option<Version> {
        self.whole.same.version()
    }

    fn state(&self) -> Option<Version> {
        self.whole.same.state()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        read_from(&self.whole.bytes, offset, out)
    }

    fn bytes(&self) -> Option<&[u8]> {
        Some(&self.whole.bytes)
    }

    fn decoded(&self) -> Option<&dyn Decoded> {
        self.chunks.as_ref().map(|chunks| chunks as &dyn Decoded)
    }
}

/// A value with some cached ranges; reading another range opens it in the inner store.
pub(super) struct RangedObject {
    pub(super) key: String,
    pub(super) name: String,
    pub(super) chunks: Chunks,
    pub(super) size: u64,
    pub(super) asked: Asked,
    /// Entries of this cache stay valid when the value is opened again.
    pub(super) stays: bool,
    pub(super) opened: OnceLock<Box<dyn Object>>,
    pub(super) opening: Mutex<()>,
    /// A continued read was sent before the read that it continues.
    pub(super) ahead: AtomicBool,
    pub(super) inner: Arc<dyn Store>,
    pub(super) memory: Arc<Memory>,
    pub(super) space: Arc<str>,
}

impl RangedObject {
    /// Open the value in the inner store.
    fn opened(&self, want: Want) -> Result<&dyn Object> {
        if let Some(object) = self.opened.get() {
            return Ok(&**object);
        }
        // Several threads may read ranges; one of them opens the value.
        let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(object) = self.opened.get() {
            return Ok(&**object);
        }
        let found = self.inner.open(&self.key, want)?;
        let current = self.memory.with(|shelf| shelf.epoch(&self.name)) == self.asked.epoch;
        let same = |object: &dyn Object| object.size() == self.size && self.chunks.of.is_in(object);
        match found.filter(|object| current && same(&**object)) {
            Some(object) => Ok(&**self.opened.get_or_init(|| object)),
            None => {
                self.memory.with(|shelf| shelf.forget(&self.space, &self.name));
                Err(store::replaced(&self.key))
            }
        }
    }
}

impl Object for RangedObject {
    fn size(&self) -> u64 {
        self.size
    }

    fn version(&self) -> Option<Version> {
        self.chunks.of.version()
    }

    fn state(&self) -> Option<Version> {
        self.chunks.of.state()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.read_as(offset, out, How::default())
    }

    fn read_as(&self, offset: u64, out: &mut [u8], how: How) -> Result<()> {
        let count = out.len() as u64;
        if !self.recalled(offset, out)? {
            if self.is_read_whole() {
                return self.read_whole();
            }
            let more = self.is_more(how);
            self.opened(Want::Part { offset, count })?.read_as(offset, out, How { more, ..how })?;
            if !how.once && count <= self.memory.limit {
                let (part, answer) = (Part::Range { offset, count }, Answer::Range(Arc::new(out.to_vec())));
                self.memory.with(|shelf| shelf.keep_of(&self.name, part, answer, self.chunks.of));
            }
        }
        Ok(())
    }

    fn remembers(&self, offset: u64, count: u64) -> bool {
        self.memory.with(|shelf| shelf.find_range(&self.name, offset, count, self.chunks.of)).is_some()
    }

    fn decoded(&self) -> Option<&dyn Decoded> {
        Some(self)
    }
}

impl Decoded for RangedObject {
    fn has_room(&self, bytes: usize) -> bool {
        self.chunks.has_room(bytes)
    }

    fn find(&self, offset: u64, size: u64, level: u64) -> Option<Arc<Vec<u8>>> {
        let below = || self.decoded_below()?.find(offset, size, level);
        self.chunks.find(offset, size, level).or_else(below)
    }

    fn keep(&self, offset: u64, size: u64, level: u64, bytes: Vec<u8>) {
        if let Some(below) = self.decoded_below().filter(|below| below.has_room(bytes.len())) {
            below.keep(offset, size, level, bytes.clone());
        }
        self.chunks.keep(offset, size, level, bytes);
    }
}

impl RangedObject {
    /// The cache of decoded chunks of an inner cache.
    fn decoded_below(&self) -> Option<&dyn Decoded> {
        match self.opened.get() {
            Some(object) => object.decoded(),
            // This needs no request. If the value differs, the next read reports it.
            None => {
                self.inner.asked_since(&self.key).and_then(|_| self.opened(Want::Nothing).ok())?.decoded()
            }
        }
    }

    /// Whether the value has cached ranges but no version, so that ranges of two states could mix.
    fn is_read_whole(&self) -> bool {
        self.stays
            && self.chunks.of.state().is_none()
            && self.size <= SMALL.min(self.memory.limit)
            && !self.memory.with(|shelf| shelf.lacks_parts(&self.name))
    }

    /// Read and cache the whole current value, and let the caller start again with it.
    fn read_whole(&self) -> Result<()> {
        let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if self.memory.with(|shelf| shelf.whole(&self.name)).is_none() {
            let answer = match self.inner.open(&self.key, Want::Whole)? {
                Some(object) => Answer::Whole(Arc::new(Whole::of(&*object)?)),
                None => Answer::Absent,
            };
            self.memory.keep(&self.name, Part::Value, answer, self.asked);
        }
        Err(store::replaced(&self.key))
    }

    /// Whether a read continues another one that was sent.
    fn is_more(&self, how: How) -> bool {
        match how.more {
            // The first read may have been answered from the cache.
            true => self.opened.get().is_some() || self.ahead.swap(true, Ordering::Relaxed),
            // Threads send related reads in any order: the first one counts as the request.
            false => self.ahead.swap(false, Ordering::Relaxed),
        }
    }

    /// Fill `out` if these bytes are cached.
    fn recalled(&self, offset: u64, out: &mut [u8]) -> Result<bool> {
        let count = out.len() as u64;
        if count == 0 {
            return Ok(true);
        }
        // The age of a range does not matter: the value was validated when it was opened.
        match self.memory.find_range(&self.name, offset, count, self.chunks.of) {
            Some((bytes, from)) => read_from(&bytes, offset - from, out).map(|()| true),
            None => Ok(false),
        }
    }
}
