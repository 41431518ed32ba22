//! Atomic changes of several keys, each with a precondition.

use std::sync::Arc;

use super::{has_bytes, read_all, ValueReader, Version};
use crate::error::Result;

/// The expected state of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Any state.
    Anything,
    /// The key is absent.
    Absent,
    /// The value has this version.
    Version(Version),
    /// The value consists of these bytes, in a store without versions.
    Bytes(Arc<Vec<u8>>),
}

impl Expected {
    /// Return the state of `current`, to compare with later ones.
    pub fn of(current: Option<&dyn ValueReader>) -> Result<Self> {
        Ok(match current {
            None => Expected::Absent,
            Some(object) => match object.version() {
                Some(version) => Expected::Version(version),
                None => Expected::Bytes(Arc::new(read_all(object)?)),
            },
        })
    }

    /// Return whether `current` is in this state.
    pub fn matches(&self, current: Option<&dyn ValueReader>) -> Result<bool> {
        Ok(match (self, current) {
            (Expected::Anything, _) | (Expected::Absent, None) => true,
            (Expected::Version(version), Some(object)) => object.state() == Some(*version),
            (Expected::Bytes(bytes), Some(object)) => has_bytes(object, bytes)?,
            _ => false,
        })
    }
}

/// The new state of a key.
#[derive(Clone, Debug)]
pub enum NewValue {
    /// The current state.
    Unchanged,
    /// Absent.
    Absent,
    /// This value.
    Value(Arc<Vec<u8>>),
}

/// The change of one key in an atomic change of several.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The key.
    pub key: String,
    /// Its precondition.
    pub expected: Expected,
    /// Its new state.
    pub new: NewValue,
}
