//! What of a selection is stored, told by the smallest chunks that it touches.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::array::{Body, PerAxis, Shard};
use crate::error::{Error, Result};
use crate::pipeline::operation::{origin_of, Operation, Portion, Run};
use crate::pipeline::source::Source;
use crate::scratch::Scratch;
use crate::selection::{divide, Division, Piece, Selection};
use crate::shard_index;
use crate::store::{KeyRange, ReadHint};

/// A listing tells so many keys in the time of one lookup.
const QUICK: u64 = 4;

/// The same where each request is waited for: so many keys come with one.
const WAITED: u64 = 1000;

/// What is to be found out, or was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Whether nothing is stored.
    pub not_stored: bool,
    /// Whether everything is.
    pub fully_stored: bool,
}

/// What was found so far.
struct Search<'a> {
    operation: Operation<'a>,
    asked: Statistics,
    /// A chunk that is stored.
    some: AtomicBool,
    /// A chunk that is not.
    lacks: AtomicBool,
}

/// Tells what of `selection`, which may reach beyond the array, is stored. Nothing is right of what
/// is not `asked`.
///
/// Chunks are looked up side by side where a store waits, or by one listing where that is less; of
/// shards the index is read.
pub fn stored(operation: Operation<'_>, selection: &Selection, asked: Statistics) -> Result<Statistics> {
    let search = Search { operation, asked, some: AtomicBool::new(false), lacks: AtomicBool::new(false) };
    let whole = selection.piece();
    if !whole.is_empty() && !search.is_over() {
        let cuts = &operation.array.cuts;
        let base: PerAxis<u64> = cuts.iter().map(|_| 0).collect();
        search.chunks(&whole, &divide(&whole, &base, cuts)?)?;
    }
    Ok(Statistics { not_stored: !search.some.into_inner(), fully_stored: !search.lacks.into_inner() })
}

impl Search<'_> {
    fn note(&self, there: bool) {
        let found = if there { &self.some } else { &self.lacks };
        found.store(true, Ordering::Relaxed);
    }

    /// Whether what is to be found out is known.
    fn is_over(&self) -> bool {
        let (some, lacks) = (self.some.load(Ordering::Relaxed), self.lacks.load(Ordering::Relaxed));
        (some || !self.asked.not_stored) && (lacks || !self.asked.fully_stored)
    }

    /// Look for the chunks among which `whole` is divided, until everything is known.
    fn chunks(&self, whole: &Piece<'_>, division: &Division<'_>) -> Result<()> {
        let listed = self.listed(whole, division)?;
        let count = listed.as_ref().map_or(division.tasks(), Vec::len);
        if count < division.tasks() {
            self.note(false);
        }
        if listed.is_some() && !self.operation.array.is_sharded() {
            if count > 0 {
                self.note(true);
            }
            return Ok(()); // the listing has told it all
        }
        // Nothing is decoded: there is no work for other threads but to wait.
        let run = Run::decide(count, 0, self.operation.store.concurrency());
        let done = self.operation.each(run, count, &|number, scratch| {
            if self.is_over() {
                // There may be more chunks than anybody can wait for.
                return Err(Error::internal("nothing is left to be found out"));
            }
            let mut cell = PerAxis::new();
            let piece = &division.task(listed.as_ref().map_or(number, |listed| listed[number]), &mut cell);
            let mut key = std::mem::take(&mut scratch.key);
            let done = self.operation.with_chunk(&cell, &mut key, |key, level, origin| {
                self.chunk(key, &Portion { level, piece, origin }, scratch)
            });
            scratch.key = key;
            done
        });
        if self.is_over() {
            return Ok(());
        }
        done
    }

    fn chunk(&self, key: &str, portion: &Portion<'_, '_>, scratch: &mut Scratch) -> Result<()> {
        let store = self.operation.store;
        let Body::Shard(shard) = &portion.level.body else {
            self.note(store.open(key, ReadHint::UnknownRanges)?.is_some());
            return Ok(());
        };
        let want = if portion.level.pipeline.is_empty() { shard.want() } else { ReadHint::Whole };
        store.read(key, want, |object| match object {
            Some(object) => self.shard(shard, portion, Source::of(&*object), scratch),
            None => {
                self.note(false);
                Ok(())
            }
        })
    }

    /// Which tasks have a chunk that is there, where it takes fewer requests to list the keys.
    fn listed(&self, whole: &Piece<'_>, division: &Division<'_>) -> Result<Option<Vec<usize>>> {
        let (array, prefix, cells) = (self.operation.array, self.operation.prefix, division.tasks() as u64);
        // Shards that are there are opened all the same.
        let few = if array.is_sharded() { WAITED } else { 1 };
        if cells <= few || !array.has_numbered_keys() {
            return Ok(None);
        }
        let reaches = (0..array.cuts.len()).map(|axis| whole.reach(axis));
        let (lows, highs): (PerAxis<u64>, PerAxis<u64>) = array
            .cuts
            .iter()
            .zip(reaches)
            .map(|(cuts, (low, high))| (cuts.cell_of(low as u64), cuts.cell_of(high as u64)))
            .unzip();
        let same = lows.iter().zip(&highs).take_while(|(low, high)| low == high).count();
        let sides = array.cuts.iter().zip(&array.shape).skip(same);
        let around = sides.map(|(cuts, &size)| cuts.cell_of(size.saturating_sub(1)) + 1);
        let around = around.fold(1, u64::saturating_mul);
        let keys = if self.operation.store.concurrency() > 0 { WAITED } else { QUICK };
        if cells.saturating_mul(keys) < around {
            return Ok(None);
        }
        let (mut first, mut last) = (String::new(), String::new());
        array.format_key(prefix, &lows, &mut first)?;
        array.format_key(prefix, &highs, &mut last)?;
        let alike = first.bytes().zip(last.bytes()).take_while(|(one, other)| one == other).count();
        let start = first.as_bytes()[..alike].iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
        let mut found = Vec::new();
        let all = KeyRange { first: b"", end: b"" };
        self.operation.store.list_range(&first[..start], all, &mut |key| {
            found.extend(array.cell_of_key(prefix, key).and_then(|cell| division.find(&cell)));
        })?;
        found.sort_unstable();
        Ok(Some(found))
    }

    /// A shard whose encoding is `source`.
    fn shard(
        &self,
        shard: &Shard,
        portion: &Portion<'_, '_>,
        source: Source<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let level = portion.level;
        if level.pipeline.is_empty() {
            return self.subchunks(shard, portion, source, scratch);
        }
        let (mut encoded, mut decoded) = (scratch.take(), scratch.take());
        let done = (|| {
            let bytes = source.load(&level.encoded_bytes, &mut encoded)?;
            level.pipeline.decode(bytes, &mut decoded, shard.most_bytes(), scratch)?;
            self.subchunks(shard, portion, Source::made(&decoded), scratch)
        })();
        scratch.give(encoded);
        scratch.give(decoded);
        done
    }

    /// The index of a shard tells which of its subchunks are stored.
    fn subchunks(
        &self,
        shard: &Shard,
        portion: &Portion<'_, '_>,
        source: Source<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let index = shard_index::index(shard, source, scratch)?;
        let division = portion.divide(&shard.cuts)?;
        let (level, shape) = (&shard.level, &self.operation.array.shape);
        let mut cell = PerAxis::new();
        for task in 0..division.tasks() {
            if self.is_over() {
                break;
            }
            let piece = &division.task(task, &mut cell);
            let origin = &origin_of(portion.origin, &cell, &level.shape);
            let inside = origin.iter().zip(shape).all(|(&start, &size)| start < size);
            match (shard_index::entry(shard, &index, &cell)?.filter(|_| inside), &level.body) {
                (Some((offset, size)), Body::Shard(inner)) => {
                    let part = source.part(offset, size)?;
                    self.shard(inner, &Portion { level, piece, origin }, part, scratch)?;
                }
                (found, _) => self.note(found.is_some()),
            }
        }
        Ok(())
    }
}
