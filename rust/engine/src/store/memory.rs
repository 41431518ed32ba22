//! A store in memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::key_locks::KeyLocks;
use super::{
    folder_of, fork, joined, Change, Depth, Exchange, KeyRange, KeySyntax, Listing, NewValue, PrefixChange,
    ReadHint, Store, StoreInfo, UpdateOptions, UpdateOutcome, Updater, ValuePart, ValueReader, Version,
};
use crate::error::Result;

/// Keys and values in one ordered map.
///
/// Reads copy nothing: a [`ValueReader`] shares the value. Two locks are always taken in this
/// order: the lock of a key (`KeyLocks`) while its change is decided, then the map while one entry
/// is read or exchanged. The map is ordered, so that listing a level skips what lies below it.
pub struct MemoryStore {
    map: RwLock<BTreeMap<Box<str>, Value>>,
    key_locks: KeyLocks,
    keys: KeySyntax,
}

#[derive(Clone)]
struct Value {
    bytes: Arc<Vec<u8>>,
    state: u64,
}

/// Numbers every value stored in any memory store of the process.
static STATES: AtomicU64 = AtomicU64::new(1);

fn version_of(state: u64) -> Version {
    // No device has this number, so no file has this version.
    Version::of([u64::MAX, 0, 0, state])
}

impl MemoryStore {
    /// Return an empty store.
    pub fn new() -> Self {
        Self::of(KeySyntax::default())
    }

    /// Return an empty store with this key syntax.
    pub fn of(keys: KeySyntax) -> Self {
        MemoryStore { map: RwLock::default(), key_locks: KeyLocks::new(), keys }
    }

    /// Return the store of this name in the process; it lives as long as the process.
    pub fn named(name: &str) -> Arc<Self> {
        static NAMED: Mutex<BTreeMap<String, Arc<MemoryStore>>> = Mutex::new(BTreeMap::new());
        fork::register();
        let _gate = fork::gate();
        let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
        named.entry(name.to_owned()).or_default().clone()
    }

    /// Apply a change; false: the value is not the one that was `expected` on, and stays.
    fn apply<'a>(
        &self,
        key: &str,
        mut change: Change<'a>,
        current: Option<&dyn ValueReader>,
        expected: Option<Option<u64>>,
    ) -> Result<(bool, UpdateOutcome<'a>)> {
        let mut version = None;
        let applied = match &mut change {
            Change::Keep => true,
            Change::Delete => self.set(key, None, expected),
            Change::Write(parts) => {
                let bytes = into_shared_bytes(parts, current)?;
                let state = STATES.fetch_add(1, Ordering::Relaxed);
                version = Some(version_of(state));
                self.set(key, Some(Value { bytes, state }), expected)
            }
        };
        Ok((applied, UpdateOutcome { change, version }))
    }

    fn get(&self, key: &str) -> Option<Value> {
        let _gate = fork::gate();
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        map.get(key).cloned()
    }

    fn contains(&self, key: &str) -> bool {
        let _gate = fork::gate();
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        map.contains_key(key)
    }

    /// Exchange one value; the old value is freed outside the locks. False: the value is not the
    /// one that was `expected` on, and stays.
    fn set(&self, key: &str, value: Option<Value>, expected: Option<Option<u64>>) -> bool {
        let old = {
            let _gate = fork::gate();
            let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
            if expected.is_some_and(|state| state != map.get(key).map(|value| value.state)) {
                return false;
            }
            insert_or_remove(&mut map, key, value)
        };
        drop(old);
        true
    }
}

fn insert_or_remove(map: &mut BTreeMap<Box<str>, Value>, key: &str, value: Option<Value>) -> Option<Value> {
    match value {
        None => map.remove(key),
        Some(value) => match map.get_mut(key) {
            Some(entry) => Some(std::mem::replace(entry, value)),
            None => map.insert(key.into(), value),
        },
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
    fn info(&self) -> StoreInfo {
        StoreInfo { keys: self.keys, ..StoreInfo::default() }
    }

    fn is_nonblocking(&self) -> bool {
        true
    }

    fn open(&self, key: &str, _: ReadHint) -> Result<Option<Box<dyn ValueReader>>> {
        self.keys.check(key)?;
        Ok(self.get(key).map(|value| Box::new(MemoryObject(value)) as Box<dyn ValueReader>))
    }

    fn update<'a>(
        &self,
        key: &str,
        options: UpdateOptions,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<UpdateOutcome<'a>> {
        self.keys.check(key)?;
        // A change that needs no current value is computed without the lock of the key.
        let unconditional = if options.current { None } else { Some(updater(None)?) };
        match &unconditional {
            Some(Change::Keep) => return Ok(Change::Keep.into()),
            Some(Change::Delete) if !self.contains(key) => return Ok(Change::Delete.into()),
            _ => {}
        }
        // An unconditional change needs no lock: an update that decides on the replaced value runs
        // again.
        if let Some(change) = unconditional {
            return Ok(self.apply(key, change, None, None)?.1);
        }
        let _guard = self.key_locks.lock(key)?;
        loop {
            let current = self.get(key).map(MemoryObject);
            let expected = current.as_ref().map(|object| object.0.state);
            let current = current.as_ref().map(|object| object as &dyn ValueReader);
            // Only unconditional and atomic changes can intervene.
            if let (true, outcome) = self.apply(key, updater(current)?, current, Some(expected))? {
                return Ok(outcome);
            }
        }
    }

    fn exchange(&self, changes: &[Exchange]) -> Result<Option<bool>> {
        let mut values = Vec::with_capacity(changes.len());
        for change in changes {
            self.keys.check(&change.key)?;
            values.push(match &change.new {
                NewValue::Value(bytes) => {
                    let state = STATES.fetch_add(1, Ordering::Relaxed);
                    Some(Value { bytes: bytes.clone(), state })
                }
                NewValue::Unchanged | NewValue::Absent => None,
            });
        }
        let mut old = Vec::with_capacity(changes.len());
        let _gate = fork::gate();
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        for change in changes {
            let current = map.get(change.key.as_str()).cloned().map(MemoryObject);
            if !change.expected.matches(current.as_ref().map(|object| object as &dyn ValueReader))? {
                return Ok(Some(false));
            }
        }
        for (change, value) in changes.iter().zip(values) {
            if !matches!(change.new, NewValue::Unchanged) {
                old.push(insert_or_remove(&mut map, &change.key, value));
            }
        }
        drop(map);
        Ok(Some(true))
    }

    fn list_keys(&self, prefix: &str, depth: Depth) -> Result<Listing> {
        self.keys.check_prefix(prefix)?;
        let mut listing = Listing::default();
        let mut next = Bound::Included(prefix.to_owned());
        let _gate = fork::gate();
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        if depth == Depth::All {
            let keys = map.range::<str, _>((next.as_ref().map(String::as_str), Bound::Unbounded));
            let keys = keys.map(|(key, _)| &**key).take_while(|key| key.starts_with(prefix));
            listing.keys.extend(keys.map(str::to_owned));
            return Ok(listing);
        }
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

    fn list_range(&self, start: &str, range: KeyRange<'_>, visit: &mut dyn FnMut(&str)) -> Result<()> {
        self.keys.check_prefix(folder_of(start))?;
        let from = std::str::from_utf8(range.first).map_or(start, |first| first.max(start));
        let starts_in_range = range.first <= from.as_bytes();
        let _gate = fork::gate();
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        for (key, _) in map.range::<str, _>((Bound::Included(from), Bound::Unbounded)) {
            if !(start.is_empty() || key.starts_with(start)) || range.is_before(key.as_bytes()) {
                break;
            }
            if starts_in_range || range.holds(key) {
                visit(key);
            }
        }
        Ok(())
    }

    fn changes_atomically(&self, _: &str, _: PrefixChange<'_>) -> bool {
        true // no other process uses the store, and a killed process leaves nothing
    }

    fn change_prefix(&self, prefix: &str, change: PrefixChange<'_>) -> Result<bool> {
        let staged = match change {
            PrefixChange::RemoveLink => return Ok(false),
            PrefixChange::Delete | PrefixChange::Clear => {
                for key in self.list(prefix)? {
                    let _guard = self.key_locks.lock(&key)?;
                    self.set(&key, None, None);
                }
                return Ok(true);
            }
            PrefixChange::ReplaceBy(staged) => staged,
        };
        self.keys.check_prefix(staged)?;
        self.keys.check_prefix(prefix)?;
        let mut old = Vec::new();
        let _gate = fork::gate();
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        let mut take = |start: &str| {
            let after = (Bound::Included(start), Bound::Unbounded);
            let keys = map.range::<str, _>(after).map(|(key, _)| key.clone());
            let keys: Vec<Box<str>> = keys.take_while(|key| key.starts_with(start)).collect();
            keys.into_iter().filter_map(|key| map.remove_entry(&key)).collect::<Vec<_>>()
        };
        let new = take(staged);
        old.append(&mut take(prefix));
        for (key, value) in new {
            map.insert(format!("{prefix}{}", &key[staged.len()..]).into(), value);
        }
        drop(map);
        Ok(true)
    }
}

/// Return the bytes of a new value. This shares shared bytes, and takes a worker's buffer if it
/// fits well. It copies other parts, and the buffer returns to the worker.
pub(super) fn into_shared_bytes(
    parts: &mut [ValuePart<'_>],
    current: Option<&dyn ValueReader>,
) -> Result<Arc<Vec<u8>>> {
    match parts {
        [ValuePart::Shared(bytes)] => Ok(bytes.clone()),
        [ValuePart::Owned(bytes)] if bytes.capacity() - bytes.len() <= bytes.len() / 8 => {
            Ok(Arc::new(std::mem::take(bytes)))
        }
        _ => joined(parts, current).map(Arc::new),
    }
}

struct MemoryObject(Value);

impl ValueReader for MemoryObject {
    fn version(&self) -> Option<Version> {
        Some(version_of(self.0.state))
    }

    fn bytes(&self) -> Option<&[u8]> {
        Some(&self.0.bytes)
    }
}
