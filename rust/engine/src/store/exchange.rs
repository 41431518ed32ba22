//! Several changes that are made at once, if each key is as expected.

use std::sync::Arc;

use super::{holds, read_all, Object, Version};
use crate::error::Result;

/// What a key was found to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Nobody has looked.
    Anything,
    /// It was absent.
    Absent,
    /// Its value was in this state.
    Version(Version),
    /// Its value was these bytes, of a store that has no versions.
    Bytes(Arc<Vec<u8>>),
}

impl Expected {
    /// What `current` is, to be compared with what it will be.
    pub fn of(current: Option<&dyn Object>) -> Result<Self> {
        Ok(match current {
            None => Expected::Absent,
            Some(object) => match object.version() {
                Some(version) => Expected::Version(version),
                None => Expected::Bytes(Arc::new(read_all(object)?)),
            },
        })
    }

    /// Whether `current` is that.
    pub fn matches(&self, current: Option<&dyn Object>) -> Result<bool> {
        Ok(match (self, current) {
            (Expected::Anything, _) | (Expected::Absent, None) => true,
            (Expected::Version(version), Some(object)) => object.state() == Some(*version),
            (Expected::Bytes(bytes), Some(object)) => holds(object, bytes)?,
            _ => false,
        })
    }
}

/// What a key is to become.
#[derive(Clone, Debug)]
pub enum New {
    /// What it is.
    Same,
    /// Absent.
    Nothing,
    /// This value.
    Value(Arc<Vec<u8>>),
}

/// A change of one key among several that are made at once.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The key.
    pub key: String,
    /// What it has to be.
    pub expected: Expected,
    /// What it becomes.
    pub new: New,
}
