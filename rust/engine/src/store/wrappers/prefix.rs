//! The keys below a prefix of another store, as a store.

use std::sync::Arc;

use crate::error::Result;
use crate::store::{
    AsyncRequest, CacheState, Call, Depth, Exchange, Listing, LocalStore, PrefixChange, ReadHint,
    StartRequest, Store, UpdateOptions, UpdateOutcome, Updater, ValueReader,
};

/// The keys of another store that begin with a prefix, without the prefix.
#[derive(Debug)]
pub struct PrefixStore {
    inner: Arc<dyn Store>,
    prefix: String,
}

impl PrefixStore {
    /// View the keys of `inner` under `prefix`, which is "" or ends in "/".
    pub fn new(inner: Arc<dyn Store>, prefix: &str) -> Result<Self> {
        inner.keys().check_prefix(prefix)?;
        Ok(PrefixStore { inner, prefix: prefix.to_owned() })
    }

    /// Return the key in the inner store; an error names the key without the prefix.
    fn key(&self, key: &str) -> Result<String> {
        self.keys().check(key)?;
        Ok(self.with_prefix(key))
    }

    fn prefix(&self, prefix: &str) -> Result<String> {
        self.keys().check_prefix(prefix)?;
        Ok(self.with_prefix(prefix))
    }

    fn with_prefix(&self, key: &str) -> String {
        [&self.prefix, key].concat()
    }
}

impl Store for PrefixStore {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&*self.inner)
    }

    fn open(&self, key: &str, hint: ReadHint) -> Result<Option<Box<dyn ValueReader>>> {
        self.inner.open(&self.key(key)?, hint)
    }

    fn update<'a>(
        &self,
        key: &str,
        options: UpdateOptions,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<UpdateOutcome<'a>> {
        self.inner.update(&self.key(key)?, options, updater)
    }

    fn hold(&self, key: &str, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.inner.hold(&self.key(key)?, work)
    }

    fn list_keys(&self, prefix: &str, depth: Depth) -> Result<Listing> {
        let mut listing = self.inner.list_keys(&self.prefix(prefix)?, depth)?;
        for key in listing.keys.iter_mut().chain(&mut listing.prefixes) {
            key.drain(..self.prefix.len());
        }
        Ok(listing)
    }

    fn list_sizes(&self, prefix: &str) -> Result<Option<Vec<(String, u64)>>> {
        let mut sizes = self.inner.list_sizes(&self.prefix(prefix)?)?;
        for (key, _) in sizes.iter_mut().flatten() {
            key.drain(..self.prefix.len());
        }
        Ok(sizes)
    }

    fn change_prefix(&self, prefix: &str, change: PrefixChange<'_>) -> Result<bool> {
        let prefix = self.prefix(prefix)?;
        match change {
            PrefixChange::ReplaceBy(staged) => {
                self.inner.change_prefix(&prefix, PrefixChange::ReplaceBy(&self.prefix(staged)?))
            }
            _ => self.inner.change_prefix(&prefix, change),
        }
    }

    fn changes_atomically(&self, prefix: &str, change: PrefixChange<'_>) -> bool {
        // The staged keys of the root lie below the root itself.
        let replaces_root = prefix.is_empty() && matches!(change, PrefixChange::ReplaceBy(_));
        let prefix = if replaces_root { String::new() } else { self.with_prefix(prefix) };
        self.inner.changes_atomically(&prefix, change)
    }

    fn exchange(&self, changes: &[Exchange]) -> Result<Option<bool>> {
        let renamed = |change: &Exchange| Ok(Exchange { key: self.key(&change.key)?, ..change.clone() });
        self.inner.exchange(&changes.iter().map(renamed).collect::<Result<Vec<_>>>()?)
    }

    fn cache_state(&self, key: &str) -> CacheState {
        self.inner.cache_state(&self.with_prefix(key))
    }

    fn local(&self, key: &str) -> Option<(&LocalStore, String)> {
        self.inner.local(&self.with_prefix(key))
    }

    fn location(&self, key: &str) -> String {
        self.inner.location(&self.with_prefix(key))
    }

    fn stored_location(&self, key: &str) -> String {
        self.inner.stored_location(&self.with_prefix(key))
    }

    fn async_requests(&self, call: Call) -> Option<StartRequest> {
        let start = self.inner.async_requests(call)?;
        let (prefix, keys) = (self.prefix.clone(), self.keys());
        Some(Arc::new(move |request: AsyncRequest| match keys.check(request.key()) {
            Ok(()) => {
                let key = [&prefix, request.key()].concat();
                start(request.with_key(key));
            }
            Err(error) => request.fail(error),
        }))
    }
}
