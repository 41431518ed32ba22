//! Statistics of stored chunks: whether all or none of a selection is stored.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::array::{Body, PerAxis, Shard};
use crate::error::{Error, Result};
use crate::pipeline::operation::{origin_of, Chunks, Executor, Operation, Portion, Requests};
use crate::pipeline::source::Source;
use crate::scratch::Scratch;
use crate::selection::{Division, Piece, Selection};
use crate::shard_index;
use crate::store::{KeyRange, ReadHint};

/// A local listing returns this many keys in the time of one lookup.
const KEYS_PER_LOOKUP: u64 = 4;

/// A remote listing returns this many keys per request.
const KEYS_PER_REQUEST: u64 = 1000;

/// Whether all or none of a selection is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Whether no chunk is stored.
    pub not_stored: bool,
    /// Whether every chunk is stored.
    pub fully_stored: bool,
}

/// A search in progress.
struct Search<'a> {
    operation: Operation<'a>,
    requested: Statistics,
    /// A stored chunk was seen.
    has_stored: AtomicBool,
    /// A missing chunk was seen.
    has_missing: AtomicBool,
}

/// Compute the `requested` statistics of `selection`, which may reach beyond the array. The others
/// are undefined.
///
/// Chunks are looked up concurrently in remote stores, or by one listing if that is faster. For
/// shards, the index is read.
pub fn storage_statistics(
    operation: Operation<'_>,
    selection: &Selection,
    requested: Statistics,
) -> Result<Statistics> {
    let search = Search {
        operation,
        requested,
        has_stored: AtomicBool::new(false),
        has_missing: AtomicBool::new(false),
    };
    if !search.is_decided() {
        if let Some(chunks) = operation.chunks(selection, Requests::Reads)? {
            search.search_chunks(&selection.piece(), &chunks)?;
        }
    }
    Ok(Statistics {
        not_stored: !search.has_stored.into_inner(),
        fully_stored: !search.has_missing.into_inner(),
    })
}

impl Search<'_> {
    fn record(&self, is_stored: bool) {
        let flag = if is_stored { &self.has_stored } else { &self.has_missing };
        flag.store(true, Ordering::Relaxed);
    }

    /// Return whether all requested statistics are decided.
    fn is_decided(&self) -> bool {
        let (has_stored, has_missing) =
            (self.has_stored.load(Ordering::Relaxed), self.has_missing.load(Ordering::Relaxed));
        (has_stored || !self.requested.not_stored) && (has_missing || !self.requested.fully_stored)
    }

    /// Look for the chunks among which `whole` is divided, until everything is decided.
    fn search_chunks(&self, whole: &Piece<'_>, chunks: &Chunks<'_, '_>) -> Result<()> {
        let division = &chunks.division;
        let listed = self.list_stored_tasks(whole, division)?;
        let count = listed.as_ref().map_or(division.tasks(), Vec::len);
        if count < division.tasks() {
            self.record(false);
        }
        if listed.is_some() && !self.operation.array.is_sharded() {
            if count > 0 {
                self.record(true);
            }
            return Ok(()); // the listing has decided everything
        }
        // The operation does not decode, so that threads would only wait.
        let run = Executor::choose(count, 0, self.operation.store.concurrency());
        let result = self.operation.each(run, count, &|number, scratch| {
            if self.is_decided() {
                // The remaining chunks may be too many to look up.
                return Err(Error::internal("all statistics are already known"));
            }
            let task = listed.as_ref().map_or(number, |listed| listed[number]);
            chunks.with(task, scratch, |chunk, scratch| self.search_chunk(chunk.key, &chunk.portion, scratch))
        });
        if self.is_decided() {
            return Ok(());
        }
        result
    }

    fn search_chunk(&self, key: &str, portion: &Portion<'_, '_>, scratch: &mut Scratch) -> Result<()> {
        let store = self.operation.store;
        let Body::Shard(shard) = &portion.level.body else {
            self.record(store.open(key, ReadHint::UnknownRanges)?.is_some());
            return Ok(());
        };
        let hint = if portion.level.bytes_codecs.is_empty() { shard.read_hint() } else { ReadHint::Whole };
        store.read(key, hint, |object| match object {
            Some(object) => self.shard(shard, portion, Source::of(&*object), scratch),
            None => {
                self.record(false);
                Ok(())
            }
        })
    }

    /// Return the tasks whose chunk is stored, if listing the keys takes fewer requests.
    fn list_stored_tasks(&self, whole: &Piece<'_>, division: &Division<'_>) -> Result<Option<Vec<usize>>> {
        let (array, prefix, cells) = (self.operation.array, self.operation.prefix, division.tasks() as u64);
        // Stored shards are opened in any case.
        let min_cells = if array.is_sharded() { KEYS_PER_REQUEST } else { 1 };
        if cells <= min_cells || !array.has_numbered_keys() {
            return Ok(None);
        }
        let reaches = (0..array.dim_grids.len()).map(|axis| whole.index_range(axis));
        let (first_cell, last_cell): (PerAxis<u64>, PerAxis<u64>) = array
            .dim_grids
            .iter()
            .zip(reaches)
            .map(|(dim_grids, (low, high))| (dim_grids.cell_of(low as u64), dim_grids.cell_of(high as u64)))
            .unzip();
        let common_axes = first_cell.iter().zip(&last_cell).take_while(|(low, high)| low == high).count();
        let sides = array.dim_grids.iter().zip(&array.shape).skip(common_axes);
        let listed_cells = sides.map(|(dim_grids, &size)| dim_grids.cell_of(size.saturating_sub(1)) + 1);
        let listed_cells = listed_cells.fold(1, u64::saturating_mul);
        let keys = if self.operation.store.concurrency() > 0 { KEYS_PER_REQUEST } else { KEYS_PER_LOOKUP };
        if cells.saturating_mul(keys) < listed_cells {
            return Ok(None);
        }
        let (mut first, mut last) = (String::new(), String::new());
        array.format_key(prefix, &first_cell, &mut first)?;
        array.format_key(prefix, &last_cell, &mut last)?;
        let common_prefix = first.bytes().zip(last.bytes()).take_while(|(left, right)| left == right).count();
        let start =
            first.as_bytes()[..common_prefix].iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
        let mut tasks = Vec::new();
        let all = KeyRange { first: b"", end: b"" };
        self.operation.store.list_range(&first[..start], all, &mut |key| {
            tasks.extend(array.cell_of_key(prefix, key).and_then(|cell| division.find(&cell)));
        })?;
        tasks.sort_unstable();
        Ok(Some(tasks))
    }

    /// Search a shard with the encoding `source`.
    fn shard(
        &self,
        shard: &Shard,
        portion: &Portion<'_, '_>,
        source: Source<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        portion.level.with_shard(shard, source, scratch, |source, scratch| {
            self.subchunks(shard, portion, source, scratch)
        })
    }

    /// Search the index of a shard.
    fn subchunks(
        &self,
        shard: &Shard,
        portion: &Portion<'_, '_>,
        source: Source<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let index = shard_index::index(shard, source, scratch)?;
        let division = portion.divide(&shard.dim_grids)?;
        let (level, shape) = (&shard.level, &self.operation.array.shape);
        let mut cell = PerAxis::new();
        for task in 0..division.tasks() {
            if self.is_decided() {
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
                (entry, _) => self.record(entry.is_some()),
            }
        }
        Ok(())
    }
}
