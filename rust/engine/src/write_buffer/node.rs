//! What is kept of chunks, of shards and of their subchunks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::chunk::{Leaf, Target};
use super::chunk_memory::{uninitialised_all, Room, Slab};
use super::lock;
use crate::array::{Array, Body, Level, PerAxis, Shard};
use crate::error::{Error, Result};
use crate::pipeline::operation::{origin_of, Address, Portion, Run};
use crate::pool;
use crate::scratch::Scratch;
use crate::shard_index;
use crate::write::{New, Parts, Touched, Work, Writer};

/// What is kept of a chunk, shard or subchunk.
pub(super) enum Pad {
    Leaf(Leaf),
    Shard(Subchunks),
}

/// How much is kept of what is selected.
pub(super) enum Covered {
    /// Everything.
    All,
    /// Of a shard, everything of the subchunks with these numbers, in their order; perhaps more.
    Some(Vec<usize>),
}

/// What is kept of the subchunks of a shard.
#[derive(Default)]
pub(super) struct Subchunks {
    /// By their numbers in the index, with their places.
    kept: BTreeMap<usize, (PerAxis<u64>, Pad)>,
    /// Memory for all of them, as they are stored.
    slab: Option<Arc<Slab>>,
}

/// There is such memory if the first write touches a part of the subchunks that is not less: for
/// those that are never written it stays unused.
const PART: usize = 4;

impl Pad {
    pub(super) fn of(level: &Level) -> Pad {
        if let Body::Shard(_) = level.body {
            return Pad::Shard(Subchunks::default());
        }
        Pad::Leaf(Leaf::default())
    }

    /// How many bytes of elements there are.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Pad::Leaf(leaf) => leaf.bytes(),
            Pad::Shard(shard) => shard.kept.values().map(|(_, pad)| pad.bytes()).sum(),
        }
    }

    /// Keep the elements of `portion`.
    ///
    /// # Safety
    /// As for [`write::write`], for what is selected by the portion.
    pub(super) unsafe fn put(
        &mut self,
        portion: &Portion<'_, '_>,
        value: Address,
        array: &Array,
        spread: bool,
    ) -> Result<()> {
        let (kept, shard) = match (self, &portion.level.body) {
            // SAFETY: the caller's promise.
            (Pad::Leaf(leaf), _) => return unsafe { leaf.put(portion, value, array) },
            (Pad::Shard(kept), Body::Shard(shard)) => (kept, shard),
            (Pad::Shard(_), _) => return Err(mismatch()),
        };
        kept.each(portion, shard, true, spread, &|portion, pad, _| {
            // SAFETY: the caller's promise.
            unsafe { pad.put(portion, value, array, false) }
        })
    }

    /// Store what is kept of a chunk at `key`, which `level` is of. If it `stays`, or cannot be
    /// stored, it is as it was then.
    pub(super) fn store(
        &mut self,
        key: &str,
        level: &Level,
        origin: &[u64],
        writer: &Writer<'_>,
        stays: bool,
        scratch: &mut Scratch,
    ) -> Result<()> {
        if let (Pad::Shard(kept), Body::Shard(shard), true) =
            (&mut *self, &level.body, level.pipeline.is_empty())
        {
            if let Some(whole) = pool::guarded(|| kept.take_whole(shard, writer, scratch))? {
                let done = pool::guarded(|| writer.made(key, &whole));
                if stays || done.is_err() {
                    kept.give_whole(shard, whole);
                }
                return done;
            }
        }
        let mut raw = match self {
            Pad::Leaf(leaf) => leaf.take_raw(level, writer.array),
            Pad::Shard(_) => None,
        };
        let new = KeptNew { pad: self, level, origin };
        // What was taken is given back also where something panics.
        let done = pool::guarded(|| match (&mut raw, &*self) {
            (Some(raw), Pad::Leaf(leaf)) => {
                writer.raw_chunk(key, &new, &mut |rest| leaf.completed(raw, level, rest), scratch)
            }
            _ => writer.chunk(key, &new, scratch),
        });
        if let (true, Some(raw), Pad::Leaf(leaf)) = (stays || done.is_err(), raw, self) {
            leaf.give_raw(raw);
        }
        done
    }

    /// How much is kept here of what is selected by `portion`.
    pub(super) fn covers(&self, portion: &Portion<'_, '_>) -> Result<Covered> {
        let (kept, shard) = match (self, &portion.level.body) {
            (Pad::Leaf(leaf), _) if leaf.covers(portion) => return Ok(Covered::All),
            (Pad::Leaf(_), _) => return Ok(Covered::Some(Vec::new())),
            (Pad::Shard(kept), Body::Shard(shard)) => (kept, shard),
            (Pad::Shard(_), _) => return Err(mismatch()),
        };
        let division = portion.divide(&shard.cuts)?;
        let (mut cell, mut covered) = (PerAxis::new(), Vec::new());
        for task in 0..division.tasks() {
            let piece = &division.task(task, &mut cell);
            let number = shard.number(&cell);
            let Some((_, pad)) = kept.kept.get(&number) else { continue };
            let origin = &origin_of(portion.origin, &cell, &shard.level.shape);
            if let Covered::All = pad.covers(&Portion { level: &shard.level, piece, origin })? {
                covered.push(number);
            }
        }
        if covered.len() == division.tasks() {
            return Ok(Covered::All);
        }
        covered.sort_unstable();
        Ok(Covered::Some(covered))
    }

    /// Every element is kept here.
    fn is_full(&self, level: &Level) -> bool {
        match (self, &level.body) {
            (Pad::Leaf(leaf), _) => leaf.is_full(level),
            (Pad::Shard(kept), Body::Shard(shard)) => kept.are_full(shard),
            (Pad::Shard(_), _) => false,
        }
    }

    /// Put what is kept of `portion` into the caller's buffer.
    ///
    /// # Safety
    /// As for [`crate::read::read`], for what is selected by the portion.
    pub(super) unsafe fn read(
        &mut self,
        portion: &Portion<'_, '_>,
        target: &Target<'_>,
        spread: bool,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let (kept, shard) = match (self, &portion.level.body) {
            // SAFETY: the caller's promise.
            (Pad::Leaf(leaf), _) => return unsafe { leaf.read(portion, target, scratch) },
            (Pad::Shard(kept), Body::Shard(shard)) => (kept, shard),
            (Pad::Shard(_), _) => return Err(mismatch()),
        };
        kept.each(portion, shard, false, spread, &|portion, pad, scratch| {
            // SAFETY: the caller's promise.
            unsafe { pad.read(portion, target, false, scratch) }
        })
    }
}

fn mismatch() -> Error {
    Error::internal("a shard is kept for a chunk that is none")
}

impl Subchunks {
    /// Every element of all is kept here.
    fn are_full(&self, shard: &Shard) -> bool {
        self.kept.len() == shard.entries && self.kept.values().all(|(_, pad)| pad.is_full(&shard.level))
    }

    /// What is kept of a subchunk of which nothing is.
    fn blank(&self, shard: &Shard, number: usize) -> Pad {
        match &self.slab {
            // SAFETY: it is given here only, and stays with what is kept of the subchunk.
            Some(slab) => Pad::Leaf(Leaf::at(Room::Slot(unsafe { slab.slot(shard, number) }))),
            None => Pad::of(&shard.level),
        }
    }

    /// Do `work` with each subchunk that `portion` touches, and what is kept of it; with `make` of
    /// all of them, else of those of which something is.
    fn each(
        &mut self,
        portion: &Portion<'_, '_>,
        shard: &Shard,
        make: bool,
        spread: bool,
        work: &(dyn Fn(&Portion<'_, '_>, &mut Pad, &mut Scratch) -> Result<()> + Sync),
    ) -> Result<()> {
        let level = &shard.level;
        let division = portion.divide(&shard.cuts)?;
        if make && self.kept.is_empty() && division.tasks() >= shard.entries.div_ceil(PART) {
            self.slab = Slab::new(shard);
        }
        let mut tasks: Vec<(usize, usize)> = Vec::new();
        let mut cell = PerAxis::new();
        for task in 0..division.tasks() {
            division.task(task, &mut cell);
            let number = shard.number(&cell);
            if make && !self.kept.contains_key(&number) {
                self.kept.insert(number, (cell.clone(), self.blank(shard, number)));
            }
            tasks.push((number, task));
        }
        tasks.sort_unstable();
        let (Some(&(first, _)), Some(&(last, _))) = (tasks.first(), tasks.last()) else { return Ok(()) };
        let mut wanted = tasks.iter().peekable();
        let mut found: Vec<(usize, Mutex<&mut Pad>)> = Vec::new();
        for (number, (_, pad)) in self.kept.range_mut(first..=last) {
            while wanted.next_if(|(want, _)| want < number).is_some() {}
            if let Some((_, task)) = wanted.next_if(|(want, _)| want == number) {
                found.push((*task, Mutex::new(pad)));
            }
        }
        let run = if spread { Run::decide(found.len(), level.decoded_bytes, 0) } else { Run::Here };
        // Nobody is asked whether to stop: the chunk is held, and the answer may want it.
        run.each(found.len(), None, &|place, scratch| {
            let (task, pad) = &found[place];
            let mut cell = PerAxis::new();
            let piece = &division.task(*task, &mut cell);
            let origin = &origin_of(portion.origin, &cell, &level.shape);
            work(&Portion { level, piece, origin }, &mut lock(pad), scratch)
        })
    }

    /// The shard as it is stored, if all of it was written and lies so, and no subchunk is left out
    /// as it is fill. What was written is still told.
    fn take_whole(
        &mut self,
        shard: &Shard,
        writer: &Writer<'_>,
        scratch: &mut Scratch,
    ) -> Result<Option<Arc<Vec<u8>>>> {
        let level = &shard.level;
        let stands = |pad: &Pad| match pad {
            Pad::Leaf(leaf) => leaf.whole(level).is_some_and(|bytes| !writer.is_fill(level, bytes)),
            Pad::Shard(_) => false,
        };
        let whole = self.kept.len() == shard.entries && self.kept.values().all(|(_, pad)| stands(pad));
        let (true, Some(slab)) = (whole, self.slab.clone()) else { return Ok(None) };
        let mut index = scratch.take();
        index.clear();
        shard_index::encode_index(shard, &shard.in_order()?, &mut index, scratch)?;
        self.slab = None;
        self.move_to(|_| Room::default());
        // SAFETY: every element was written.
        let whole = unsafe { slab.completed(shard, &index) };
        scratch.give(index);
        whole.map(|whole| Some(Arc::new(whole))).ok_or_else(|| Error::internal("a shard is in use"))
    }

    /// Have such a shard again, as it is not stored.
    fn give_whole(&mut self, shard: &Shard, whole: Arc<Vec<u8>>) {
        let slab = Slab::of(uninitialised_all(Arc::unwrap_or_clone(whole)));
        // SAFETY: each is given once.
        self.move_to(|number| Room::Slot(unsafe { slab.slot(shard, number) }));
        self.slab = Some(slab);
    }

    fn move_to(&mut self, room: impl Fn(usize) -> Room) {
        for (&number, (_, pad)) in &mut self.kept {
            if let Pad::Leaf(leaf) = pad {
                leaf.move_to(room(number));
            }
        }
    }
}

/// What a write makes of a chunk of which something is kept.
struct KeptNew<'a, 'p> {
    pad: &'a Pad,
    level: &'p Level,
    origin: &'p [u64],
}

impl<'a> New<'a> for KeptNew<'a, '_> {
    fn level(&self) -> &Level {
        self.level
    }

    fn origin(&self) -> &[u64] {
        self.origin
    }

    /// Also outside of the array: it may be larger by now than who wrote to it knew.
    fn is_full(&self, _bounds: Option<&[u64]>) -> bool {
        self.pad.is_full(self.level)
    }

    fn run(&self) -> Option<&'a [u8]> {
        match self.pad {
            Pad::Leaf(leaf) => leaf.whole(self.level),
            Pad::Shard(_) => None,
        }
    }

    fn put(&self, chunk: &mut [u8]) {
        if let Pad::Leaf(leaf) = self.pad {
            leaf.merge(self.level, chunk);
        }
    }

    fn parts<'n>(&'n self, shard: &'n Shard) -> Result<Box<dyn Parts<'a> + 'n>> {
        let Pad::Shard(kept) = self.pad else { return Err(mismatch()) };
        Ok(Box::new(KeptParts { kept: kept.kept.iter().collect(), shard, origin: self.origin }))
    }
}

/// The subchunks of which something is kept.
struct KeptParts<'a, 'n> {
    kept: Vec<(&'a usize, &'a (PerAxis<u64>, Pad))>,
    shard: &'n Shard,
    origin: &'n [u64],
}

impl<'a> Parts<'a> for KeptParts<'a, '_> {
    fn touched(&self) -> Result<Vec<Touched>> {
        Ok(self.kept.iter().enumerate().map(|(task, (&number, _))| Touched { number, task }).collect())
    }

    fn with(&self, task: usize, work: &mut Work<'_, 'a>) -> Result<()> {
        let (_, (cell, pad)) = self.kept[task];
        let level = &self.shard.level;
        let origin = &origin_of(self.origin, cell, &level.shape);
        work(cell, &KeptNew { pad, level, origin })
    }
}
