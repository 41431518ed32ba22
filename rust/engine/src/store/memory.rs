//! A store in memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::keylock::KeyLocks;
use super::{check_key, check_prefix, fork, joined, read_from};
use super::{Change, Listing, Object, Part, Store, Updater, Version, Want};
use crate::error::Result;

/// Keys and values in one ordered map.
///
/// Reading copies nothing: an [`Object`] shares the value. Two locks, never
/// nested the other way round: a key (`KeyLocks`) while its change is decided,
/// the map while one entry is looked up or exchanged. The map is ordered, so
/// that one level is listed without visiting what lies below it.
pub struct MemoryStore {
    map: RwLock<BTreeMap<Box<str>, Arc<Value>>>,
    changing: KeyLocks,
}

struct Value {
    bytes: Vec<u8>,
    state: u64,
}

/// Counts every value ever stored, in all memory stores of the process.
static STATES: AtomicU64 = AtomicU64::new(1);

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        MemoryStore { map: RwLock::default(), changing: KeyLocks::new() }
    }

    /// The store of this name, one in the whole process; it lives as long as the process.
    pub fn named(name: &str) -> Arc<Self> {
        static NAMED: Mutex<BTreeMap<String, Arc<MemoryStore>>> = Mutex::new(BTreeMap::new());
        fork::register();
        let _gate = fork::gate();
        let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
        named.entry(name.to_owned()).or_default().clone()
    }

    fn get(&self, key: &str) -> Option<Arc<Value>> {
        let _gate = fork::gate();
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        map.get(key).cloned()
    }

    fn contains(&self, key: &str) -> bool {
        let _gate = fork::gate();
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        map.contains_key(key)
    }

    /// Exchanges one value; the old one is freed outside of the locks.
    fn set(&self, key: &str, value: Option<Arc<Value>>) {
        let old = {
            let _gate = fork::gate();
            let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
            match value {
                None => map.remove(key),
                Some(value) => match map.get_mut(key) {
                    Some(slot) => Some(std::mem::replace(slot, value)),
                    None => map.insert(key.into(), value),
                },
            }
        };
        drop(old);
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MemoryStore")
    }
}

impl Store for MemoryStore {
    fn open(&self, key: &str, _want: Want) -> Result<Option<Box<dyn Object>>> {
        check_key(key)?;
        Ok(self.get(key).map(|value| Box::new(MemoryObject(value)) as Box<dyn Object>))
    }

    fn update<'a>(
        &self,
        key: &str,
        needs_current: bool,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<Change<'a>> {
        check_key(key)?;
        // What does not depend on the current value is made before the key is held.
        let early = if needs_current { None } else { Some(updater(None)?) };
        match &early {
            Some(Change::Keep) => return Ok(Change::Keep),
            Some(Change::Delete) if !self.contains(key) => return Ok(Change::Delete),
            _ => {}
        }
        let _held = self.changing.hold(key)?;
        let current = self.get(key).map(MemoryObject);
        let current = current.as_ref().map(|object| object as &dyn Object);
        let mut change = match early {
            Some(change) => change,
            None => updater(current)?,
        };
        match &mut change {
            Change::Keep => {}
            Change::Delete => self.set(key, None),
            Change::Write(parts) => {
                let bytes = take_or_join(parts, current)?;
                let state = STATES.fetch_add(1, Ordering::Relaxed);
                self.set(key, Some(Arc::new(Value { bytes, state })));
            }
        }
        Ok(change)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        check_prefix(prefix)?;
        let _gate = fork::gate();
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        let after = (Bound::Included(prefix), Bound::Unbounded);
        let keys = map.range::<str, _>(after).map(|(key, _)| &**key);
        Ok(keys.take_while(|key| key.starts_with(prefix)).map(str::to_owned).collect())
    }

    fn list_dir(&self, prefix: &str) -> Result<Listing> {
        check_prefix(prefix)?;
        let _gate = fork::gate();
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        let mut listing = Listing::default();
        let mut next = Bound::Included(prefix.to_owned());
        loop {
            let range = (next.as_ref().map(String::as_str), Bound::Unbounded);
            let Some((key, _)) = map.range::<str, _>(range).next() else { break };
            let Some(rest) = key.strip_prefix(prefix) else { break };
            match rest.find('/') {
                None => {
                    listing.keys.push(key.to_string());
                    next = Bound::Excluded(key.to_string());
                }
                Some(slash) => {
                    let below = &key[..prefix.len() + slash];
                    listing.prefixes.push(format!("{below}/"));
                    next = Bound::Included(format!("{below}0")); // "0" follows "/"
                }
            }
        }
        Ok(listing)
    }

    fn delete_prefix(&self, prefix: &str) -> Result<()> {
        for key in self.list(prefix)? {
            let _held = self.changing.hold(&key)?;
            self.set(&key, None);
        }
        Ok(())
    }
}

/// The bytes of a new value. A worker's buffer that fits is taken as it is,
/// else its bytes are copied and it goes back to the worker.
fn take_or_join(parts: &mut [Part<'_>], current: Option<&dyn Object>) -> Result<Vec<u8>> {
    if let [Part::Owned(bytes)] = parts {
        if bytes.capacity() - bytes.len() <= bytes.len() / 8 {
            return Ok(std::mem::take(bytes));
        }
    }
    joined(parts, current)
}

struct MemoryObject(Arc<Value>);

impl Object for MemoryObject {
    fn size(&self) -> u64 {
        self.0.bytes.len() as u64
    }

    fn version(&self) -> Option<Version> {
        // No device has this number, so no file has this version.
        Some(Version([u64::MAX, 0, 0, self.0.state]))
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        read_from(&self.0.bytes, offset, out)
    }

    fn bytes(&self) -> Option<&[u8]> {
        Some(&self.0.bytes)
    }
}
