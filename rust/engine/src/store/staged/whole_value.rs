//! A reader that fetches the whole value with the first read.

use std::sync::{Mutex, OnceLock, PoisonError};

use crate::error::Result;
use crate::store::{read_all, read_from, DecodedCache, ReadFlags, ValueReader, Version};

/// A value that one request reads completely when a part of it is needed.
pub(super) struct WholeValueReader {
    object: Box<dyn ValueReader>,
    bytes: OnceLock<Vec<u8>>,
    reading: Mutex<()>,
}

impl WholeValueReader {
    /// Wrap `object`, unless it is in memory.
    pub(super) fn of(object: Box<dyn ValueReader>) -> Box<dyn ValueReader> {
        match object.bytes() {
            Some(_) => object,
            None => Box::new(WholeValueReader { object, bytes: OnceLock::new(), reading: Mutex::default() }),
        }
    }

    fn load(&self) -> Result<&[u8]> {
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = self.bytes.get() {
            return Ok(bytes);
        }
        let bytes = read_all(&*self.object)?;
        Ok(self.bytes.get_or_init(|| bytes))
    }
}

impl ValueReader for WholeValueReader {
    fn size(&self) -> u64 {
        self.object.size()
    }

    fn version(&self) -> Option<Version> {
        self.object.version()
    }

    fn state(&self) -> Option<Version> {
        self.object.state()
    }

    fn read_with(&self, offset: u64, out: &mut [u8], _: ReadFlags) -> Result<()> {
        read_from(self.load()?, offset, out)
    }

    fn decoded_cache(&self) -> Option<&dyn DecodedCache> {
        self.object.decoded_cache()
    }

    fn bytes(&self) -> Option<&[u8]> {
        self.bytes.get().map(Vec::as_slice)
    }
}
