//! A read cache over another store.
//!
//! The cache holds values, ranges, absence and listings up to a number of bytes, and evicts the
//! least recently used entry first. Writes through the cache update it, so that its own users
//! always see their changes. Changes by others become visible when an entry ends: by `clear`, by
//! age, or by eviction.
//!
//! The inner store decides updates with its current value, never with a cached one. A read that
//! overlaps a change of the same key is not cached.
//!
//! Decoded chunks are cached beside their value, so that using them again needs neither a request
//! nor decoding. If both do not fit, the bytes of the value are evicted first.
//!
//! Several stores may share one pool and its limit. A stale entry is validated by its version, if
//! the inner store has versions: then its bytes need not be read again.

mod cache_pool;
mod cached_value;
mod entry;
mod lru;
mod writes;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

pub(super) use self::cache_pool::Asked;
use self::cache_pool::Memory;
pub use self::cache_pool::{CacheCounts, CachePool};
use self::cached_value::{Chunks, RangedObject, WholeObject};
pub use self::entry::Fresh;
use self::entry::{Answer, Found, Part, Same, Whole};
use self::lru::Shelf;
use self::writes::{CachedPut, Changing, Written};
use super::Want;
use super::{
    through, Change, Exchange, Known, Listing, Made, Need, Object, Put, SharedStore, Store, Updater,
};
use crate::error::Result;

/// Caches the responses of another store.
#[derive(Debug)]
pub struct CachedStore {
    inner: Arc<dyn Store>,
    memory: Arc<Memory>,
    /// The prefix of this store's keys in the shared pool.
    space: Arc<str>,
    fresh: Fresh,
    /// A coalescing store below, whose responses may be older than the request.
    shared: Option<Arc<SharedStore>>,
}

impl CachedStore {
    /// Cache responses of `inner`: at most `limit` bytes, none older than `max_age`.
    pub fn new(inner: Arc<dyn Store>, limit: u64, max_age: Option<Duration>) -> Self {
        CachePool::new(limit).store(inner, 0, max_age.map_or(Fresh::Always, Fresh::For))
    }

    /// Statistics of the pool.
    pub fn counts(&self) -> CacheCounts {
        self.memory.counts()
    }

    /// Drop all entries of this store.
    pub fn clear(&self) {
        self.memory.with(|shelf| shelf.forget_below(&self.space, &self.space));
    }

    fn name(&self, key: &str) -> String {
        name(&self.space, key)
    }

    /// Look up the value of `key`; return the time of the request as well.
    fn find(&self, key: &str, name: &str) -> (Found, Asked) {
        let (found, asked) = self.memory.find(name, Part::Value, self.fresh);
        if let Found::Fresh(Answer::Absent | Answer::Whole(_)) = found {
            return (found, asked);
        }
        let time = self.inner.asked_since(key).map_or(asked.time, |time| asked.time.min(time));
        let (asked, first) =
            (Asked { time, ..asked }, self.shared.as_ref().and_then(|it| it.first_asked(key)));
        (found, first.map_or(asked, |first| asked.since(first)))
    }

    /// Invalidate a value that differs from the cached one, unless that happened since the request.
    /// Returns the time with which the new value is cached.
    fn replaced(&self, name: &str, asked: Asked) -> Asked {
        self.memory.with(|shelf| {
            if shelf.epoch(name) == asked.epoch {
                shelf.forget(&self.space, name);
                return Asked { epoch: shelf.epoch(name), ..asked };
            }
            asked
        })
    }

    fn forget(&self, key: &str) {
        let name = self.name(key);
        self.memory.with(|shelf| shelf.forget(&self.space, &name));
    }

    fn forget_below(&self, prefix: &str) {
        let name = self.name(prefix);
        self.memory.with(|shelf| shelf.forget_below(&self.space, &name));
    }

    /// Whether to read a value completely; not if its decoded chunks are cached.
    fn wants_whole(&self, name: &str, want: Want, size: u64) -> bool {
        wants_whole(want, size)
            && size <= self.memory.limit
            && !self.memory.with(|shelf| shelf.has_decoded(name))
    }

    /// Whether nothing but the existence of a value is cached.
    fn lacks_parts(&self, name: &str) -> bool {
        self.memory.with(|shelf| shelf.lacks_parts(name))
    }

    fn is_small(&self, object: &dyn Object) -> bool {
        object.size() <= SMALL.min(self.memory.limit)
    }

    /// Open the value in the inner store.
    fn ask(&self, key: &str, name: String, want: Want, asked: Asked) -> Result<Option<Box<dyn Object>>> {
        let object = self.inner.open(key, want)?;
        self.opened(key, name, want, asked, object)
    }

    fn opened(
        &self,
        key: &str,
        name: String,
        want: Want,
        asked: Asked,
        object: Option<Box<dyn Object>>,
    ) -> Result<Option<Box<dyn Object>>> {
        let Some(object) = object else {
            self.memory.keep(&name, Part::Value, Answer::Absent, asked);
            return Ok(None);
        };
        let size = object.size();
        if size <= self.memory.limit && (wants_whole(want, size) || object.bytes().is_some()) {
            let whole = Arc::new(Whole::of(&*object)?);
            self.memory.keep(&name, Part::Value, Answer::Whole(whole.clone()), asked);
            return Ok(Some(self.remembered(name, whole)));
        }
        let same = Same::of(&*object);
        let answer = Answer::Opened { size, same: Box::new(same) };
        self.memory.keep(&name, Part::Value, answer, asked);
        Ok(Some(self.ranged(key, name, size, same, asked, Some(object))))
    }

    fn remembered(&self, name: String, whole: Arc<Whole>) -> Box<dyn Object> {
        let chunks = Chunks { name, of: whole.same, memory: self.memory.clone() };
        Box::new(WholeObject { whole, chunks: Some(chunks) })
    }

    fn ranged(
        &self,
        key: &str,
        name: String,
        size: u64,
        of: Same,
        asked: Asked,
        object: Option<Box<dyn Object>>,
    ) -> Box<dyn Object> {
        let opened = OnceLock::new();
        if let Some(object) = object {
            let _ = opened.set(object);
        }
        let (inner, memory, space) = (self.inner.clone(), self.memory.clone(), self.space.clone());
        let chunks = Chunks { name: name.clone(), of, memory: memory.clone() };
        Box::new(RangedObject {
            key: key.to_owned(),
            name,
            chunks,
            size,
            asked,
            stays: matches!(self.fresh, Fresh::Always | Fresh::Since(_)),
            opened,
            opening: Mutex::default(),
            ahead: AtomicBool::default(),
            inner,
            memory,
            space,
        })
    }

    /// Return the cached value if its version is current, otherwise the new one.
    fn validated(
        &self,
        key: &str,
        name: String,
        want: Want,
        asked: Asked,
        old: &Answer,
    ) -> Result<Option<Box<dyn Object>>> {
        let (size, of) = match old {
            Answer::Whole(whole) => (whole.bytes.len() as u64, whole.same),
            Answer::Opened { size, same } => (*size, **same),
            _ => return self.ask(key, name, want, asked),
        };
        if of.version().is_none() {
            // Without a version, cached ranges may belong to another state.
            let asked = self.replaced(&name, asked);
            return self.ask(key, name, want, asked);
        }
        let few = matches!(want, Want::Part { .. } | Want::Suffix(_));
        let object = self.inner.open(key, if few { want } else { Want::Nothing })?;
        let same = |object: &dyn Object| object.size() == size && of.is_in(object);
        if !object.as_deref().is_some_and(same) {
            // The new value is open; it is cached unless this cache changed the key since the
            // request.
            let asked = self.replaced(&name, asked);
            return self.opened(key, name, want, asked, object);
        }
        self.memory.with(|shelf| shelf.confirm(&name, asked.time, asked.epoch));
        match old {
            Answer::Whole(whole) => Ok(Some(self.remembered(name, whole.clone()))),
            _ if self.wants_whole(&name, want, size) => self.opened(key, name, want, asked, object),
            _ => Ok(Some(self.ranged(key, name, size, of, asked, object))),
        }
    }
}

/// Values up to this size are read completely, whichever range is needed first.
const SMALL: u64 = 1 << 20;

/// Whether a value of this size is read completely.
fn wants_whole(want: Want, size: u64) -> bool {
    match want {
        Want::Whole => true,
        Want::Prefix(limit) => size <= limit,
        Want::Suffix(_) | Want::Nothing => false,
        Want::Ranges | Want::Part { .. } => size <= SMALL,
    }
}

impl Store for CachedStore {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&*self.inner)
    }

    fn through(&self, below: &Arc<dyn Store>, shared: &Arc<SharedStore>) -> Option<Arc<dyn Store>> {
        let (inner, shared) = (through(&self.inner, below, shared)?, Some(shared.clone()));
        let (memory, space) = (self.memory.clone(), self.space.clone());
        Some(Arc::new(CachedStore { inner, memory, space, fresh: self.fresh, shared }))
    }

    fn keeps(&self, bytes: usize) -> bool {
        bytes as u64 <= self.memory.limit
    }

    fn remembers(&self, key: &str) -> bool {
        let name = self.name(key);
        self.memory.with(|shelf| shelf.knows(&name))
    }

    fn asked_since(&self, key: &str) -> Option<Instant> {
        let name = self.name(key);
        self.memory.with(|shelf| shelf.asked_at(&name, self.fresh)).or_else(|| self.inner.asked_since(key))
    }

    fn open(&self, key: &str, want: Want) -> Result<Option<Box<dyn Object>>> {
        self.keys().check(key)?;
        let name = self.name(key);
        let (found, asked) = self.find(key, &name);
        match found {
            Found::Fresh(Answer::Absent) => Ok(None),
            Found::Fresh(Answer::Whole(whole)) => Ok(Some(self.remembered(name, whole))),
            Found::Fresh(Answer::Opened { size, same }) => {
                let never_found = same.state().is_none() && self.lacks_parts(&name);
                match never_found || self.wants_whole(&name, want, size) {
                    true => self.ask(key, name, want, asked),
                    false => Ok(Some(self.ranged(key, name, size, *same, asked, None))),
                }
            }
            // No entry could be confirmed.
            Found::Stale(Answer::Opened { .. }) if self.lacks_parts(&name) => {
                self.ask(key, name, want, asked)
            }
            Found::Stale(old) => self.validated(key, name, want, asked, &old),
            _ => self.ask(key, name, want, asked),
        }
    }

    fn putting(&self) -> Option<Arc<dyn Put>> {
        let (memory, space) = (self.memory.clone(), self.space.clone());
        Some(Arc::new(CachedPut::new(self.inner.putting()?, memory, space)))
    }

    fn update<'a>(&self, key: &str, need: Need, updater: &mut Updater<'_, 'a>) -> Result<Made<'a>> {
        let name = self.name(key);
        let look = |shelf: &Shelf| (shelf.whole(&name), shelf.version(&name), shelf.is_absent(&name));
        let ((known, version, absent), changing) =
            Changing::begin(&self.memory, &self.space, name.clone(), look);
        let (mut new, mut decided_to_keep) = (Written::Unknown, false);
        // In a remote store, only a version whose bytes are cached may replace a read.
        let at_hand = self.inner.at_hand();
        let version = version.filter(|_| known.is_some() || at_hand);
        let is_open = need.known == Known::Nothing;
        // A cached version is no precondition of the caller: a mismatch makes the store run the
        // updater again.
        let need = match (is_open && !need.only, version) {
            (true, Some(version)) => Need { version: true, known: Known::Version(version), ..need },
            (true, None) if absent => Need { version: true, known: Known::Absent, ..need },
            _ => Need { version: true, ..need },
        };
        let made = self.inner.update(key, need, &mut |current| {
            // A cached value of the current version need not be read again.
            let is = |whole: &Whole| {
                whole.same.version().is_some() && current.is_some_and(|object| whole.same.is_in(object))
            };
            let known = known.as_ref().filter(|whole| is(whole));
            let whole = match (known, current) {
                (Some(whole), _) => Some(WholeObject { whole: whole.clone(), chunks: None }),
                // A small value is read completely and cached afterwards. A store that compares
                // versions may hold only the version.
                (None, Some(object)) if need.current && (is_open || at_hand) && self.is_small(object) => {
                    Some(WholeObject { whole: Arc::new(Whole::of(object)?), chunks: None })
                }
                _ => None,
            };
            let object = whole.as_ref().map(|whole| whole as &dyn Object);
            let change = updater(object.or(current))?;
            decided_to_keep = matches!(change, Change::Keep);
            new = match (&change, &whole) {
                (Change::Keep, _) if need.current && current.is_none() => Written::Absent,
                (Change::Keep, Some(same)) => Written::Same(same.whole.clone()),
                _ => Written::of(&change, object, self.memory.limit)?,
            };
            Ok(change)
        });
        // The change may have been refused.
        let done = |made: &&Made<'_>| decided_to_keep || !matches!(made.change, Change::Keep);
        changing.end(made.as_ref().ok().filter(done).map(|made| (new, made.version)));
        made
    }

    fn hold(&self, key: &str, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        // The previous holder of the lock may have changed keys in the same folder.
        let folder = &key[..key.rfind('/').map_or(0, |slash| slash + 1)];
        self.inner.hold(key, &mut || {
            self.forget_below(folder);
            work()
        })
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.keys().check_prefix(prefix)?;
        let name = self.name(prefix);
        let (found, asked) = self.memory.find(&name, Part::Keys, self.fresh);
        if let Found::Fresh(Answer::Keys(keys)) = found {
            return Ok(keys.to_vec());
        }
        let keys = self.inner.list(prefix)?;
        self.memory.keep(&name, Part::Keys, Answer::Keys(Arc::new(keys.clone())), asked);
        Ok(keys)
    }

    fn list_dir(&self, prefix: &str) -> Result<Listing> {
        self.keys().check_prefix(prefix)?;
        let name = self.name(prefix);
        let (found, asked) = self.memory.find(&name, Part::Level, self.fresh);
        if let Found::Fresh(Answer::Level(level)) = found {
            return Ok((*level).clone());
        }
        let level = self.inner.list_dir(prefix)?;
        self.memory.keep(&name, Part::Level, Answer::Level(Arc::new(level.clone())), asked);
        Ok(level)
    }

    fn delete_prefix(&self, prefix: &str) -> Result<()> {
        self.forget_below(prefix);
        let done = self.inner.delete_prefix(prefix);
        self.forget_below(prefix);
        done
    }

    fn replace_prefix(&self, staged: &str, prefix: &str) -> Result<bool> {
        let forget = || [staged, prefix].iter().for_each(|prefix| self.forget_below(prefix));
        forget();
        let done = self.inner.replace_prefix(staged, prefix);
        forget();
        done
    }

    fn clear_prefix(&self, prefix: &str) -> Result<()> {
        self.forget_below(prefix);
        let done = self.inner.clear_prefix(prefix);
        self.forget_below(prefix);
        done
    }

    fn remove_link(&self, prefix: &str) -> Result<bool> {
        self.forget_below(prefix);
        let done = self.inner.remove_link(prefix);
        self.forget_below(prefix);
        done
    }

    fn exchange(&self, changes: &[Exchange]) -> Result<Option<bool>> {
        let forget = || changes.iter().for_each(|change| self.forget(&change.key));
        forget();
        let done = self.inner.exchange(changes);
        forget();
        done
    }
}

/// The name of a key in the pool.
fn name(space: &str, key: &str) -> String {
    let mut name = String::with_capacity(space.len() + key.len());
    name.push_str(space);
    name.push_str(key);
    name
}
