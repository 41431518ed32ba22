//! Updates through a cache.

use std::sync::Arc;
use std::time::Instant;

use super::cache_pool::{Asked, Memory};
use super::entry::{Answer, Part, Same, Whole};
use super::lru::Shelf;
use super::name;
use crate::error::Result;
use crate::store::{self, joined, Change, Object, Put, Told, Version};

/// Starts writes of the inner store, and caches the values.
pub(super) struct CachedPut {
    inner: Arc<dyn Put>,
    memory: Arc<Memory>,
    space: Arc<str>,
}

impl CachedPut {
    pub(super) fn new(inner: Arc<dyn Put>, memory: Arc<Memory>, space: Arc<str>) -> Self {
        CachedPut { inner, memory, space }
    }
}

impl Put for CachedPut {
    fn put(&self, key: &str, value: &Arc<Vec<u8>>, told: Told<Option<Version>>) {
        let name = name(&self.space, key);
        let ((), changing) = Changing::begin(&self.memory, &self.space, name, |_| ());
        let (new, limit) = (value.clone(), self.memory.limit);
        let told = told.then(move |told, done| {
            let size = new.len() as u64;
            let written = || Written::Ranges { size, ranges: vec![(0, new.to_vec())] };
            let known = done.as_ref().ok().filter(|_| size <= limit);
            changing.end(known.map(|version| (written(), *version)));
            told.tell(done);
        });
        self.inner.put(key, value, told);
    }
}

/// An update in progress.
///
/// It invalidates the key before, so that a reader of the old value never mixes it with the new
/// one; and after, even if nothing changed: the caller may have relied on an outdated entry.
pub(super) struct Changing {
    memory: Arc<Memory>,
    space: Arc<str>,
    name: String,
    asked: Asked,
    known: Option<(Written, Option<Version>)>,
}

impl Changing {
    /// Look at the cached entry, and invalidate it.
    pub(super) fn begin<T>(
        memory: &Arc<Memory>,
        space: &Arc<str>,
        name: String,
        look: impl FnOnce(&Shelf) -> T,
    ) -> (T, Self) {
        let time = Instant::now();
        let (found, epoch) = memory.with(|shelf| {
            let found = look(shelf);
            shelf.forget(space, &name);
            (found, shelf.epoch(&name))
        });
        let (memory, space) = (memory.clone(), space.clone());
        (found, Changing { memory, space, name, asked: Asked { epoch, time }, known: None })
    }

    /// Cache the new value; None: it is unknown.
    pub(super) fn end(mut self, known: Option<(Written, Option<Version>)>) {
        self.known = known;
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        let (alone, epoch) = self.memory.with(|shelf| {
            let alone = shelf.epoch(&self.name) == self.asked.epoch;
            shelf.forget(&self.space, &self.name);
            (alone, shelf.epoch(&self.name))
        });
        // The order of concurrent updates is unknown.
        if let (true, Some((written, version))) = (alone, self.known.take()) {
            let asked = Asked { epoch, ..self.asked };
            written.each(version, |part, answer| self.memory.keep(&self.name, part, answer, asked));
        }
    }
}

/// What is known about a written value.
pub(super) enum Written {
    Unknown,
    Absent,
    /// The value is unchanged.
    Same(Arc<Whole>),
    /// The size, and the ranges whose bytes are known.
    Ranges {
        size: u64,
        ranges: Vec<(u64, Vec<u8>)>,
    },
}

impl Written {
    /// The cacheable part of a change; `whole` is the current value, if it is cached.
    pub(super) fn of(change: &Change<'_>, whole: Option<&dyn Object>, limit: u64) -> Result<Written> {
        let parts = match change {
            Change::Delete => return Ok(Written::Absent),
            Change::Keep => return Ok(Written::Unknown),
            Change::Write(parts) => parts,
        };
        let known = |part: &store::Part<'_>| whole.is_some() || !matches!(part, store::Part::Current { .. });
        let total = |parts: &[store::Part<'_>]| parts.iter().map(store::Part::size).sum::<u64>();
        let mut ranges = Vec::new();
        let mut size = 0;
        for run in parts.chunk_by(|one, next| known(one) == known(next)) {
            let bytes = total(run);
            if run.iter().all(known) && bytes <= limit {
                ranges.push((size, joined(run, whole)?));
            }
            size += bytes;
        }
        Ok(Written::Ranges { size, ranges })
    }

    /// Pass each entry of the new value to `keep`.
    fn each(self, version: Option<Version>, keep: impl Fn(Part, Answer)) {
        match self {
            Written::Unknown => {}
            Written::Absent => keep(Part::Value, Answer::Absent),
            Written::Same(whole) => keep(Part::Value, Answer::Whole(whole)),
            Written::Ranges { size, mut ranges } => match &mut ranges[..] {
                [(0, bytes)] if bytes.len() as u64 == size => {
                    let (bytes, same) = (std::mem::take(bytes), Same::written(version));
                    let whole = Whole { bytes, same };
                    keep(Part::Value, Answer::Whole(Arc::new(whole)));
                }
                // Without a version, the other ranges may belong to another value.
                _ if version.is_some() => {
                    keep(Part::Value, Answer::Opened { size, same: Box::new(Same::written(version)) });
                    for (offset, bytes) in ranges {
                        let part = Part::Range { offset, count: bytes.len() as u64 };
                        keep(part, Answer::Range(Arc::new(bytes)));
                    }
                }
                _ => {}
            },
        }
    }
}
