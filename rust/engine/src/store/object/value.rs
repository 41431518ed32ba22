//! Open values of an object store.

use std::sync::{Arc, Mutex, PoisonError};

use super::{wait, ByteRange, ObjectPart, Objects};
use crate::error::Result;
use crate::store::{past_the_end, replaced, ReadFlags, ValueReader, Version};

/// An open value, with its known bytes.
pub(super) struct RemoteValue {
    objects: Arc<Objects>,
    key: String,
    size: u64,
    version: Option<Version>,
    state: Option<Version>,
    known: Mutex<Arc<ObjectPart>>,
}

impl RemoteValue {
    /// Return the value of a first part, which is in memory if it is whole and has at most `whole`
    /// bytes. The versions are for preconditions and for comparisons.
    pub(super) fn open(
        objects: Arc<Objects>,
        key: String,
        part: ObjectPart,
        whole: u64,
        [version, state]: [Option<Version>; 2],
    ) -> Box<dyn ValueReader> {
        if part.is_whole() && part.size <= whole {
            return Box::new(WholeValue { bytes: part.data, version, state });
        }
        Box::new(RemoteValue {
            objects,
            key,
            size: part.size,
            version,
            state,
            known: Mutex::new(part.into()),
        })
    }

    fn known(&self) -> Arc<ObjectPart> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Read bytes from the server, which may send fewer than one request asks for.
    fn request(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < out.len() {
            done += self.request_first(offset + done as u64, &mut out[done..])?;
        }
        Ok(())
    }

    /// Read the first of these bytes from the server, and return their number.
    fn request_first(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let (objects, key, count) = (self.objects.clone(), self.key.clone(), out.len() as u64);
        let part = wait(true, async move { objects.fetch(&key, ByteRange::Span { offset, count }).await })?;
        let Some(part) = part else { return Err(replaced(&self.key)) };
        let known = self.known();
        // A server that refused the first range may not have sent the state.
        let is_first = known.data.is_empty() && known.tag.is_empty();
        let count = part.copy_first(offset, out);
        if part.size != self.size || !is_first && part.tag != known.tag || count == 0 {
            return Err(replaced(&self.key));
        }
        if is_first || part.is_whole() {
            // The server does not support ranges and returned the whole value.
            *self.known.lock().unwrap_or_else(PoisonError::into_inner) = part.into();
        }
        Ok(count)
    }
}

impl ValueReader for RemoteValue {
    fn size(&self) -> u64 {
        self.size
    }

    fn version(&self) -> Option<Version> {
        self.version
    }

    fn state(&self) -> Option<Version> {
        self.state
    }

    fn needs_request(&self, offset: u64, count: u64) -> bool {
        !self.known().contains(offset, count)
    }

    fn read_with(&self, offset: u64, out: &mut [u8], _: ReadFlags) -> Result<()> {
        let count = out.len() as u64;
        if offset.checked_add(count).is_none_or(|end| end > self.size) {
            return Err(past_the_end(offset, out.len(), self.size));
        }
        match out.is_empty() || self.known().copy_to(offset, out) {
            true => Ok(()),
            false => self.request(offset, out),
        }
    }
}

/// A value in memory.
struct WholeValue {
    bytes: Vec<u8>,
    version: Option<Version>,
    state: Option<Version>,
}

impl ValueReader for WholeValue {
    fn version(&self) -> Option<Version> {
        self.version
    }

    fn state(&self) -> Option<Version> {
        self.state
    }

    fn bytes(&self) -> Option<&[u8]> {
        Some(&self.bytes)
    }
}
