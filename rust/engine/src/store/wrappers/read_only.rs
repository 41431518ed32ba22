//! Another store, without write access.

use std::sync::Arc;

use crate::error::{Error, Kind, Result};
use crate::store::{
    Call, Depth, Exchange, Listing, PrefixChange, ReadHint, StartRequest, Store, StoreInfo, UpdateOptions,
    UpdateOutcome, Updater, ValueReader,
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

    fn info(&self) -> StoreInfo {
        StoreInfo { read_only: true, ..self.inner.info() }
    }

    fn open(&self, key: &str, hint: ReadHint) -> Result<Option<Box<dyn ValueReader>>> {
        self.inner.open(key, hint)
    }

    fn list_keys(&self, prefix: &str, depth: Depth) -> Result<Listing> {
        self.inner.list_keys(prefix, depth)
    }

    fn async_requests(&self, call: Call) -> Option<StartRequest> {
        self.inner.async_requests(call).filter(|_| !call.changes())
    }

    fn list_sizes(&self, prefix: &str) -> Result<Option<Vec<(String, u64)>>> {
        self.inner.list_sizes(prefix)
    }

    fn update<'a>(&self, key: &str, _: UpdateOptions, _: &mut Updater<'_, 'a>) -> Result<UpdateOutcome<'a>> {
        self.keys().check(key)?;
        Err(refusal().at_key(key))
    }

    fn hold(&self, key: &str, _: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.keys().check(key)?;
        Err(refusal().at_key(key))
    }

    fn change_prefix(&self, prefix: &str, _: PrefixChange<'_>) -> Result<bool> {
        self.keys().check_prefix(prefix)?;
        Err(refusal())
    }

    fn exchange(&self, _: &[Exchange]) -> Result<Option<bool>> {
        Err(refusal())
    }
}
