//! The keys below a prefix of another store, as a store.

use std::sync::Arc;
use std::time::Instant;

use crate::error::Result;
use crate::store::{
    AsyncGet, AsyncPut, Completion, Exchange, KeySyntax, Listing, PathKind, ReadHint, Store, UpdateOptions,
    UpdateOutcome, Updater, ValueReader, Version,
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
        with_prefix(&self.prefix, key)
    }

    fn strip(&self, keys: &mut [String]) {
        for key in keys {
            key.drain(..self.prefix.len());
        }
    }

    fn stripped(&self, mut listing: Listing) -> Listing {
        self.strip(&mut listing.keys);
        self.strip(&mut listing.prefixes);
        listing
    }
}

fn with_prefix(prefix: &str, key: &str) -> String {
    let mut full_key = String::with_capacity(prefix.len() + key.len());
    full_key.push_str(prefix);
    full_key.push_str(key);
    full_key
}

/// Starts reads of the inner store.
struct PrefixGet {
    inner: Arc<dyn AsyncGet>,
    prefix: String,
    keys: KeySyntax,
}

impl AsyncGet for PrefixGet {
    fn get(&self, key: &str, hint: ReadHint, completion: Completion) {
        match self.keys.check(key) {
            Ok(()) => self.inner.get(&with_prefix(&self.prefix, key), hint, completion),
            Err(error) => completion.complete(Err(error)),
        }
    }
}

/// Starts writes of the inner store.
struct PrefixPut {
    inner: Arc<dyn AsyncPut>,
    prefix: String,
    keys: KeySyntax,
}

impl AsyncPut for PrefixPut {
    fn put(&self, key: &str, value: &Arc<Vec<u8>>, completion: Completion<Option<Version>>) {
        match self.keys.check(key) {
            Ok(()) => self.inner.put(&with_prefix(&self.prefix, key), value, completion),
            Err(error) => completion.complete(Err(error)),
        }
    }
}

impl Store for PrefixStore {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&*self.inner)
    }

    fn is_cached(&self, key: &str) -> bool {
        self.inner.is_cached(&self.with_prefix(key))
    }

    fn cached_since(&self, key: &str) -> Option<Instant> {
        self.inner.cached_since(&self.with_prefix(key))
    }

    fn open(&self, key: &str, hint: ReadHint) -> Result<Option<Box<dyn ValueReader>>> {
        self.inner.open(&self.key(key)?, hint)
    }

    fn async_get(&self) -> Option<Arc<dyn AsyncGet>> {
        let (prefix, keys) = (self.prefix.clone(), self.keys());
        Some(Arc::new(PrefixGet { inner: self.inner.async_get()?, prefix, keys }))
    }

    fn async_put(&self) -> Option<Arc<dyn AsyncPut>> {
        let (prefix, keys) = (self.prefix.clone(), self.keys());
        Some(Arc::new(PrefixPut { inner: self.inner.async_put()?, prefix, keys }))
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

    fn path_kind(&self, key: &str) -> Result<Option<PathKind>> {
        self.inner.path_kind(&self.key(key)?)
    }

    fn first_entries(&self, prefix: &str, limit: usize) -> Result<Option<Listing>> {
        let listing = self.inner.first_entries(&self.prefix(prefix)?, limit)?;
        Ok(listing.map(|listing| self.stripped(listing)))
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let mut keys = self.inner.list(&self.prefix(prefix)?)?;
        self.strip(&mut keys);
        Ok(keys)
    }

    fn list_dir(&self, prefix: &str) -> Result<Listing> {
        Ok(self.stripped(self.inner.list_dir(&self.prefix(prefix)?)?))
    }

    fn delete_prefix(&self, prefix: &str) -> Result<()> {
        self.inner.delete_prefix(&self.prefix(prefix)?)
    }

    fn deletes_atomically(&self, prefix: &str) -> bool {
        self.inner.deletes_atomically(&self.with_prefix(prefix))
    }

    fn replaces_atomically(&self, prefix: &str) -> bool {
        // The staged keys of the root lie below the root itself.
        let with_prefix = self.with_prefix(prefix);
        self.inner.replaces_atomically(if prefix.is_empty() { "" } else { &with_prefix })
    }

    fn replace_prefix(&self, staged: &str, prefix: &str) -> Result<bool> {
        self.inner.replace_prefix(&self.prefix(staged)?, &self.prefix(prefix)?)
    }

    fn clear_prefix(&self, prefix: &str) -> Result<()> {
        self.inner.clear_prefix(&self.prefix(prefix)?)
    }

    fn remove_link(&self, prefix: &str) -> Result<bool> {
        self.inner.remove_link(&self.prefix(prefix)?)
    }

    fn exchange(&self, changes: &[Exchange]) -> Result<Option<bool>> {
        let renamed = |change: &Exchange| Ok(Exchange { key: self.key(&change.key)?, ..change.clone() });
        self.inner.exchange(&changes.iter().map(renamed).collect::<Result<Vec<_>>>()?)
    }
}
