//! The keys below a prefix of another store, as a store.

use std::sync::Arc;
use std::time::Instant;

use crate::error::Result;
use crate::store::{
    Ask, AtPath, Exchange, Keys, Listing, Made, Need, Object, Put, Store, Told, Updater, Version, Want,
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

    /// The key in the inner store; an error names the key without the prefix.
    fn key(&self, key: &str) -> Result<String> {
        self.keys().check(key)?;
        Ok(self.below(key))
    }

    fn prefix(&self, prefix: &str) -> Result<String> {
        self.keys().check_prefix(prefix)?;
        Ok(self.below(prefix))
    }

    fn below(&self, key: &str) -> String {
        below(&self.prefix, key)
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

fn below(prefix: &str, key: &str) -> String {
    let mut whole = String::with_capacity(prefix.len() + key.len());
    whole.push_str(prefix);
    whole.push_str(key);
    whole
}

/// Starts reads of the inner store.
struct PrefixAsk {
    inner: Arc<dyn Ask>,
    prefix: String,
    keys: Keys,
}

impl Ask for PrefixAsk {
    fn ask(&self, key: &str, want: Want, told: Told) {
        match self.keys.check(key) {
            Ok(()) => self.inner.ask(&below(&self.prefix, key), want, told),
            Err(error) => told.tell(Err(error)),
        }
    }
}

/// Starts writes of the inner store.
struct PrefixPut {
    inner: Arc<dyn Put>,
    prefix: String,
    keys: Keys,
}

impl Put for PrefixPut {
    fn put(&self, key: &str, value: &Arc<Vec<u8>>, told: Told<Option<Version>>) {
        match self.keys.check(key) {
            Ok(()) => self.inner.put(&below(&self.prefix, key), value, told),
            Err(error) => told.tell(Err(error)),
        }
    }
}

impl Store for PrefixStore {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&*self.inner)
    }

    fn remembers(&self, key: &str) -> bool {
        self.inner.remembers(&self.below(key))
    }

    fn asked_since(&self, key: &str) -> Option<Instant> {
        self.inner.asked_since(&self.below(key))
    }

    fn open(&self, key: &str, want: Want) -> Result<Option<Box<dyn Object>>> {
        self.inner.open(&self.key(key)?, want)
    }

    fn asking(&self) -> Option<Arc<dyn Ask>> {
        let (prefix, keys) = (self.prefix.clone(), self.keys());
        Some(Arc::new(PrefixAsk { inner: self.inner.asking()?, prefix, keys }))
    }

    fn putting(&self) -> Option<Arc<dyn Put>> {
        let (prefix, keys) = (self.prefix.clone(), self.keys());
        Some(Arc::new(PrefixPut { inner: self.inner.putting()?, prefix, keys }))
    }

    fn update<'a>(&self, key: &str, need: Need, updater: &mut Updater<'_, 'a>) -> Result<Made<'a>> {
        self.inner.update(&self.key(key)?, need, updater)
    }

    fn hold(&self, key: &str, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.inner.hold(&self.key(key)?, work)
    }

    fn at_path(&self, key: &str) -> Result<Option<AtPath>> {
        self.inner.at_path(&self.key(key)?)
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

    fn deletes_at_once(&self, prefix: &str) -> bool {
        self.inner.deletes_at_once(&self.below(prefix))
    }

    fn replaces_at_once(&self, prefix: &str) -> bool {
        // The staged keys of the root lie below the root itself.
        let below = self.below(prefix);
        self.inner.replaces_at_once(if prefix.is_empty() { "" } else { &below })
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
