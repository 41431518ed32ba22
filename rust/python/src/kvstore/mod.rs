//! TensorStore's key-value stores and transactions as Python classes.

pub(crate) mod generation;
mod kvstore_handle;
mod transaction;
pub(crate) mod versioned;
mod versioned_read;
pub(crate) mod versioned_write;

use pyo3::prelude::*;

pub(crate) use self::kvstore_handle::{KvStoreBase, KvStoreCopier};
pub(crate) use self::versioned_read::{read, ReadOutcome};

/// Add the classes and functions of this folder to `module`.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<versioned::ReadResult>()?;
    module.add_class::<versioned::TimestampedStorageGeneration>()?;
    module.add_class::<versioned_read::UnreadValue>()?;
    kvstore_handle::register(module)?;
    transaction::register(module)
}
