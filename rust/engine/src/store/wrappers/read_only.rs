//! Another store, without write access.

use std::sync::Arc;

use crate::error::{Error, Kind, Result};
use crate::store::{
    AsyncGet, Exchange, Listing, ReadHint, Store, UpdateOptions, UpdateOutcome, Updater, ValueReader,
};

/// Reads another store, and rejects every change.
#[derive(Debug)]
pub struct ReadOnlyStore {
    inner: Arc<dyn Store>,
}

impl ReadOnlyStore {
    /// Return `inner` without write access.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        ReadOnlyStore { inner }
    }
}

/// Return the error of a write to a read-only store.
pub(in crate::store) fn refusal() -> Error {
    Error::new(Kind::ReadOnly, "the store is open for reading only")
}

impl Store for ReadOnlyStore {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&*self.inner)
    }

    fn open(&self, key: &str, hint: ReadHint) -> Result<Option<Box<dyn ValueReader>>> {
        self.inner.open(key, hint)
    }

    fn async_get(&self) -> Option<Arc<dyn AsyncGet>> {
        self.inner.async_get()
    }

    fn update<'a>(&self, key: &str, _: UpdateOptions, _: &mut Updater<'_, 'a>) -> Result<UpdateOutcome<'a>> {
        self.keys().check(key)?;
        Err(refusal().at_key(key))
    }

    fn hold(&self, key: &str, _: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.keys().check(key)?;
        Err(refusal().at_key(key))
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.inner.list(prefix)
    }

    fn list_dir(&self, prefix: &str) -> Result<Listing> {
        self.inner.list_dir(prefix)
    }

    fn delete_prefix(&self, prefix: &str) -> Result<()> {
        self.keys().check_prefix(prefix)?;
        Err(refusal())
    }

    fn remove_link(&self, prefix: &str) -> Result<bool> {
        self.keys().check_prefix(prefix)?;
        Err(refusal())
    }

    fn replace_prefix(&self, _: &str, _: &str) -> Result<bool> {
        Err(refusal())
    }

    fn exchange(&self, _: &[Exchange]) -> Result<Option<bool>> {
        Err(refusal())
    }

    fn read_only(&self) -> bool {
        true
    }
}
