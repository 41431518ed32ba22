//! A store that remembers what another one answered.
//!
//! Values, parts of values, absence and listings are kept, up to a number of bytes;
//! the least recently used goes first. What changes through the cache is forgotten, so that
//! its own users always see their changes; what others change below it shows when
//! the answer is forgotten: by `clear`, by its age, or because there is no room.
//!
//! Changes are decided by the store below with its current value, never by what is
//! remembered. A read that runs while the key is changed is not remembered.

mod shelf;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use self::shelf::{Answer, Epoch, Part, Shelf, Whole};
use super::{check_key, check_prefix, fork, read_all, read_from};
use super::{Change, Listing, Object, Store, Updater, Version, Want};
use crate::error::Result;

/// Remembers what another store answered.
#[derive(Debug)]
pub struct CachedStore {
    inner: Arc<dyn Store>,
    memory: Arc<Memory>,
}

/// What a [`CachedStore`] did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Answers that were remembered.
    pub hits: u64,
    /// Answers that the store below had to give.
    pub misses: u64,
    /// Bytes that are remembered now.
    pub bytes: u64,
}

struct Memory {
    shelf: Mutex<Shelf>,
    limit: u64,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Memory({} bytes)", self.limit)
    }
}

impl Memory {
    /// Does `work` with the shelf; nothing else is locked, and nothing is called.
    fn with<T>(&self, work: impl FnOnce(&mut Shelf) -> T) -> T {
        let _gate = fork::gate();
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut shelf)
    }

    /// The answer that is remembered, and when it was asked for.
    fn find(&self, name: &str, part: Part) -> (Option<Answer>, Epoch) {
        let (found, asked) = self.with(|shelf| (shelf.find(name, part), shelf.epoch(name)));
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        (found, asked)
    }

    fn keep(&self, name: &str, part: Part, answer: Answer, asked: Epoch) {
        self.with(|shelf| shelf.keep(name, part, answer, asked));
    }
}

impl CachedStore {
    /// Remembers answers of `inner`: at most `limit` bytes, none older than `max_age`.
    pub fn new(inner: Arc<dyn Store>, limit: u64, max_age: Option<Duration>) -> Self {
        fork::register();
        let shelf = Mutex::new(Shelf::new(limit, max_age));
        let memory = Memory { shelf, limit, hits: AtomicU64::new(0), misses: AtomicU64::new(0) };
        CachedStore { inner, memory: Arc::new(memory) }
    }

    /// What it did so far.
    pub fn counts(&self) -> CacheCounts {
        CacheCounts {
            hits: self.memory.hits.load(Ordering::Relaxed),
            misses: self.memory.misses.load(Ordering::Relaxed),
            bytes: self.memory.with(|shelf| shelf.bytes()),
        }
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.memory.with(|shelf| shelf.forget_below(""));
    }

    /// The value, to be read by ranges or whole.
    fn ask(&self, key: &str, want: Want, asked: Epoch) -> Result<Option<Box<dyn Object>>> {
        let Some(object) = self.inner.open(key, want)? else {
            self.memory.keep(key, Part::Value, Answer::Absent, asked);
            return Ok(None);
        };
        let (size, version) = (object.size(), object.version());
        let whole = match want {
            Want::Whole => true,
            Want::Prefix(limit) => size <= limit,
            Want::Suffix(_) | Want::Ranges => object.bytes().is_some(),
        };
        if whole && size <= self.memory.limit {
            let whole = Arc::new(Whole { bytes: read_all(&*object)?, version });
            self.memory.keep(key, Part::Value, Answer::Whole(whole.clone()), asked);
            return Ok(Some(Box::new(WholeObject(whole))));
        }
        self.memory.keep(key, Part::Value, Answer::Opened { size, version }, asked);
        Ok(Some(self.ranged(key, size, version, asked, Some(object))))
    }

    fn ranged(
        &self,
        key: &str,
        size: u64,
        version: Option<Version>,
        asked: Epoch,
        object: Option<Box<dyn Object>>,
    ) -> Box<dyn Object> {
        let opened = OnceLock::new();
        if let Some(object) = object {
            let _ = opened.set(object);
        }
        let (inner, memory) = (self.inner.clone(), self.memory.clone());
        Box::new(RangedObject { key: key.to_owned(), size, version, asked, opened, inner, memory })
    }
}

impl Store for CachedStore {
    fn open(&self, key: &str, want: Want) -> Result<Option<Box<dyn Object>>> {
        check_key(key)?;
        let (found, asked) = self.memory.find(key, Part::Value);
        match found {
            Some(Answer::Absent) => Ok(None),
            Some(Answer::Whole(whole)) => Ok(Some(Box::new(WholeObject(whole)))),
            Some(Answer::Opened { size, version }) => {
                let whole = match want {
                    Want::Whole => true,
                    Want::Prefix(limit) => size <= limit,
                    Want::Suffix(_) | Want::Ranges => false,
                };
                match whole && size <= self.memory.limit {
                    true => self.ask(key, want, asked),
                    false => Ok(Some(self.ranged(key, size, version, asked, None))),
                }
            }
            _ => self.ask(key, want, asked),
        }
    }

    fn update<'a>(
        &self,
        key: &str,
        needs_current: bool,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<Change<'a>> {
        // Before, so that who has read a part of the old value reads none of the new one as
        // its other parts; after, also where nothing was changed: what the caller expected
        // may be what is remembered.
        self.memory.with(|shelf| shelf.forget(key));
        let change = self.inner.update(key, needs_current, updater);
        self.memory.with(|shelf| shelf.forget(key));
        change
    }

    fn hold(&self, key: &str, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        // Whoever held the key before may have changed what is beside it: `work` looks again.
        let folder = &key[..key.rfind('/').map_or(0, |slash| slash + 1)];
        self.inner.hold(key, &mut || {
            self.memory.with(|shelf| shelf.forget_below(folder));
            work()
        })
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        check_prefix(prefix)?;
        let (found, asked) = self.memory.find(prefix, Part::Keys);
        if let Some(Answer::Keys(keys)) = found {
            return Ok(keys.to_vec());
        }
        let keys = self.inner.list(prefix)?;
        self.memory.keep(prefix, Part::Keys, Answer::Keys(Arc::new(keys.clone())), asked);
        Ok(keys)
    }

    fn list_dir(&self, prefix: &str) -> Result<Listing> {
        check_prefix(prefix)?;
        let (found, asked) = self.memory.find(prefix, Part::Level);
        if let Some(Answer::Level(level)) = found {
            return Ok((*level).clone());
        }
        let level = self.inner.list_dir(prefix)?;
        self.memory.keep(prefix, Part::Level, Answer::Level(Arc::new(level.clone())), asked);
        Ok(level)
    }

    fn delete_prefix(&self, prefix: &str) -> Result<()> {
        self.memory.with(|shelf| shelf.forget_below(prefix));
        let done = self.inner.delete_prefix(prefix);
        self.memory.with(|shelf| shelf.forget_below(prefix));
        done
    }

    fn read_only(&self) -> bool {
        self.inner.read_only()
    }

    fn concurrency(&self) -> usize {
        self.inner.concurrency()
    }
}

struct WholeObject(Arc<Whole>);

impl Object for WholeObject {
    fn size(&self) -> u64 {
        self.0.bytes.len() as u64
    }

    fn version(&self) -> Option<Version> {
        self.0.version
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        read_from(&self.0.bytes, offset, out)
    }

    fn bytes(&self) -> Option<&[u8]> {
        Some(&self.0.bytes)
    }
}

/// A value of which some ranges are remembered; it is opened below when another is read.
struct RangedObject {
    key: String,
    size: u64,
    version: Option<Version>,
    asked: Epoch,
    opened: OnceLock<Box<dyn Object>>,
    inner: Arc<dyn Store>,
    memory: Arc<Memory>,
}

impl RangedObject {
    fn opened(&self) -> Result<&dyn Object> {
        if let Some(object) = self.opened.get() {
            return Ok(&**object);
        }
        let found = self.inner.open(&self.key, Want::Ranges)?;
        let current = self.memory.with(|shelf| shelf.epoch(&self.key)) == self.asked;
        let same = |object: &dyn Object| object.size() == self.size && object.version() == self.version;
        match found.filter(|object| current && same(&**object)) {
            Some(object) => Ok(&**self.opened.get_or_init(|| object)),
            None => {
                self.memory.with(|shelf| shelf.forget(&self.key));
                Err(super::replaced(&self.key))
            }
        }
    }
}

impl Object for RangedObject {
    fn size(&self) -> u64 {
        self.size
    }

    fn version(&self) -> Option<Version> {
        self.version
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let part = Part::Range { offset, count: out.len() as u64 };
        // What was forgotten since the value was opened belongs to a later one.
        if let (Some(Answer::Range(bytes)), asked) = self.memory.find(&self.key, part) {
            if asked == self.asked {
                return read_from(&bytes, 0, out);
            }
        }
        self.opened()?.read_at(offset, out)?;
        if out.len() as u64 <= self.memory.limit {
            self.memory.keep(&self.key, part, Answer::Range(Arc::new(out.to_vec())), self.asked);
        }
        Ok(())
    }
}
