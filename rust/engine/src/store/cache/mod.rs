//! A store that remembers what another one answered.
//!
//! Values, parts of values, absence and listings are kept, up to a number of bytes;
//! the least recently used goes first. What is written through the cache is remembered, so that
//! its own users always see their changes; what others change below it shows when
//! the answer is forgotten: by `clear`, by its age, or because there is no room.
//!
//! Changes are decided by the store below with its current value, never by what is
//! remembered. A read that runs while the key is changed is not remembered.
//!
//! Chunks that are decoded of a value stay beside it, so that neither is anything read for them
//! again, nor decoded. Where there is no room for both, the value itself goes first.
//!
//! Several stores may share one memory, and with it the limit. An answer that is too old is
//! compared with the version that the store below tells, where it tells one: then the bytes
//! need not be read again.

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

/// Remembers what another store answered.
#[derive(Debug)]
pub struct CachedStore {
    inner: Arc<dyn Store>,
    memory: Arc<Memory>,
    /// What stands before each key in the memory, which others share.
    space: Arc<str>,
    fresh: Fresh,
    /// What stands below, where answers may have been given to others before.
    shared: Option<Arc<SharedStore>>,
}

impl CachedStore {
    /// Remembers answers of `inner`: at most `limit` bytes, none older than `max_age`.
    pub fn new(inner: Arc<dyn Store>, limit: u64, max_age: Option<Duration>) -> Self {
        CachePool::new(limit).store(inner, 0, max_age.map_or(Fresh::Always, Fresh::For))
    }

    /// What it did so far, and those that it shares its memory with.
    pub fn counts(&self) -> CacheCounts {
        self.memory.counts()
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.memory.with(|shelf| shelf.forget_below(&self.space, &self.space));
    }

    fn name(&self, key: &str) -> String {
        name(&self.space, key)
    }

    /// The answer about the value of `key`, which is called `name`, that is remembered, and when it was asked for.
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

    /// Forgets what is remembered of a value, if nobody has since it was asked for, as an answer is another one. Gives
    /// what that is remembered with.
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

    /// Whether a value that is open is read whole; not if its chunks are there already.
    fn wants_whole(&self, name: &str, want: Want, size: u64) -> bool {
        wants_whole(want, size)
            && size <= self.memory.limit
            && !self.memory.with(|shelf| shelf.has_decoded(name))
    }

    /// Nothing is remembered of a value, but that it is there.
    fn lacks_parts(&self, name: &str) -> bool {
        self.memory.with(|shelf| shelf.lacks_parts(name))
    }

    fn is_small(&self, object: &dyn Object) -> bool {
        object.size() <= SMALL.min(self.memory.limit)
    }

    /// The value, to be read by ranges or whole.
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

    /// What is remembered, if the store below says that it is still so; else what it is now.
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
            // Nothing tells whether the parts that are remembered belong to what is there now.
            let asked = self.replaced(&name, asked);
            return self.ask(key, name, want, asked);
        }
        let few = matches!(want, Want::Part { .. } | Want::Suffix(_));
        let object = self.inner.open(key, if few { want } else { Want::Nothing })?;
        let same = |object: &dyn Object| object.size() == size && of.is_in(object);
        if !object.as_deref().is_some_and(same) {
            // What is there instead was opened just now; it is remembered, unless somebody has
            // changed it through here since it was asked for.
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

/// Values up to this size are read whole, whichever of their ranges are wanted first.
const SMALL: u64 = 1 << 20;

/// Whether a value of this size is read at once.
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
            // There is nothing that could be still so.
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
        // Of what is not at hand, no part is read that is not remembered.
        let at_hand = self.inner.at_hand();
        let version = version.filter(|_| known.is_some() || at_hand);
        let is_open = need.known == Known::Nothing;
        // What is remembered is nothing that the caller thinks, who would not be asked again.
        let need = match (is_open && !need.only, version) {
            (true, Some(version)) => Need { version: true, known: Known::Version(version), ..need },
            (true, None) if absent => Need { version: true, known: Known::Absent, ..need },
            _ => Need { version: true, ..need },
        };
        let made = self.inner.update(key, need, &mut |current| {
            // What is remembered of this very state need not be read again.
            let is = |whole: &Whole| {
                whole.same.version().is_some() && current.is_some_and(|object| whole.same.is_in(object))
            };
            let known = known.as_ref().filter(|whole| is(whole));
            let whole = match (known, current) {
                (Some(whole), _) => Some(WholeObject { whole: whole.clone(), chunks: None }),
                // What is small is read at once, and so is remembered as a whole afterwards; elsewhere only its
                // version may be there, which the caller knows.
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
        // What was decided may have been refused.
        let done = |made: &&Made<'_>| decided_to_keep || !matches!(made.change, Change::Keep);
        changing.end(made.as_ref().ok().filter(done).map(|made| (new, made.version)));
        made
    }

    fn hold(&self, key: &str, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        // Whoever held the key before may have changed what is beside it: `work` looks again.
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

/// What a key is called in the memory.
fn name(space: &str, key: &str) -> String {
    let mut name = String::with_capacity(space.len() + key.len());
    name.push_str(space);
    name.push_str(key);
    name
}
