//! Values of which something is remembered.

use std::sync::{Arc, OnceLock};

use super::memory::{Asked, Memory};
use super::shelf::{Answer, Part, Whole};
use crate::error::Result;
use crate::store::{self, read_from, Object, Store, Version, Want};

/// A value that is remembered.
pub(super) struct WholeObject(pub(super) Arc<Whole>);

impl Object for WholeObject {
    fn size(&self) -> u64 {
        self.0.bytes.len() as u64
    }

    fn version(&self) -> Option<Version> {
        self.0.version
    }

    fn state(&self) -> Option<Version> {
        self.0.state
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        read_from(&self.0.bytes, offset, out)
    }

    fn bytes(&self) -> Option<&[u8]> {
        Some(&self.0.bytes)
    }
}

/// A value of which some ranges are remembered; it is opened below when another is read.
pub(super) struct RangedObject {
    pub(super) key: String,
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) version: Option<Version>,
    pub(super) asked: Asked,
    pub(super) opened: OnceLock<Box<dyn Object>>,
    pub(super) inner: Arc<dyn Store>,
    pub(super) memory: Arc<Memory>,
    pub(super) space: Arc<str>,
}

impl RangedObject {
    fn opened(&self) -> Result<&dyn Object> {
        if let Some(object) = self.opened.get() {
            return Ok(&**object);
        }
        let found = self.inner.open(&self.key, Want::Ranges)?;
        let current = self.memory.with(|shelf| shelf.epoch(&self.name)) == self.asked.epoch;
        let same = |object: &dyn Object| object.size() == self.size && object.state() == self.version;
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
        self.version
    }

    fn state(&self) -> Option<Version> {
        self.opened.get().map_or(self.version, |object| object.state())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let count = out.len() as u64;
        // What was forgotten since the value was opened belongs to a later one. How old a part
        // is does not matter: the value as a whole was compared when it was opened.
        if let (Some((bytes, from)), epoch) = self.memory.find_range(&self.name, offset, count) {
            if epoch == self.asked.epoch {
                return read_from(&bytes, offset - from, out);
            }
        }
        self.opened()?.read_at(offset, out)?;
        if count <= self.memory.limit {
            let part = Part::Range { offset, count };
            self.memory.keep(&self.name, part, Answer::Range(Arc::new(out.to_vec())), self.asked);
        }
        Ok(())
    }
}
