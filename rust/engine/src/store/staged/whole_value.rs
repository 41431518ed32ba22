//! A reader that fetches the whole value with the first read.

use std::sync::{Mutex, OnceLock, PoisonError};

use crate::error::Result;
use crate::store::{read_all, read_from, Decoded, Object, Version};

/// A value that one request reads completely when a part of it is needed.
pub(super) struct WholeObject {
    object: Box<dyn Object>,
    bytes: OnceLock<Vec<u8>>,
    reading: Mutex<()>,
}

impl WholeObject {
    /// Wrap `object`, unless it is in memory.
    pub(super) fn of(object: Box<dyn Object>) -> Box<dyn Object> {
        match object.bytes() {
            Some(_) => object,
            None => Box::new(WholeObject { object, bytes: OnceLock::new(), reading: Mutex::default() }),
        }
    }

    fn all(&self) -> Result<&[u8]> {
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = self.bytes.get() {
            return Ok(bytes);
        }
        let bytes = read_all(&*self.object)?;
        Ok(self.bytes.get_or_init(|| bytes))
    }
}

impl Object for WholeObject {
    fn size(&self) -> u64 {
        self.object.size()
    }

    fn version(&self) -> Option<Version> {
        self.object.version()
    }

    fn state(&self) -> Option<Version> {
        self.object.state()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        read_from(self.all()?, offset, out)
    }

    fn decoded(&self) -> Option<&dyn Decoded> {
        self.object.decoded()
    }

    fn bytes(&self) -> Option<&[u8]> {
        self.bytes.get().map(Vec::as_slice)
    }
}
