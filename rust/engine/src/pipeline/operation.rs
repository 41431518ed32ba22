//! Operations: one read or write of a selection, divided into tasks.

use std::sync::Arc;

use crate::array::{Array, Body, Level, LevelRef, PerAxis};
use crate::copy::{Axis, Item};
use crate::error::Result;
use crate::grid::{self, DimGrid};
use crate::pipeline::fetch_queue;
use crate::pipeline::missing_array::PresenceCheck;
use crate::pipeline::upload_queue::{self, EncodedChunk};
use crate::pool;
use crate::scratch::Scratch;
use crate::selection::{divide, Direction, Division, Field, Piece, Selection};
use crate::store::{CacheShare, Call, ChunkCache, OpenResult, ReadHint, Store};

use smallvec::SmallVec;

/// Tasks that decode or encode fewer bytes than this in sum run on the calling thread: waking a
/// worker costs as much.
const PARALLEL_BYTES: usize = 128 << 10;

/// Checks whether to stop (Ctrl-C). Workers may call it too; for them it returns false.
pub type Interrupt<'a> = &'a (dyn Fn() -> bool + Sync);

/// One read or write of one array.
#[derive(Clone, Copy)]
pub struct Operation<'a> {
    /// The array description.
    pub array: &'a Array,
    /// The store of its chunks.
    pub store: &'a dyn Store,
    /// The prefix of its chunk keys: "" or ending in "/".
    pub prefix: &'a str,
    /// Whether written chunks keep their elements past the edge of the array, which may belong to a
    /// larger array by now. Otherwise these become fill, and overwriting a chunk up to the edge
    /// reads nothing.
    pub keeps_past: bool,
    /// The check for an interrupt, called every 50 ms.
    pub interrupt: Option<Interrupt<'a>>,
    /// How to distinguish a missing chunk from a missing array; None: not at all.
    pub check: Option<PresenceCheck<'a>>,
    /// The cache of decoded chunks, for stores without a cache.
    pub chunk_cache: Option<&'a ChunkCache>,
}

/// The address of the caller's buffer, for all workers.
#[derive(Clone, Copy)]
pub struct BufferPtr(pub *mut u8);

// SAFETY: workers access disjoint items of the buffer in a read, and only read it in a write. The
// caller keeps it alive until the operation ends.
unsafe impl Send for BufferPtr {}
// SAFETY: as above.
unsafe impl Sync for BufferPtr {}

/// Where tasks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executor {
    /// One after another, on the calling thread.
    CallingThread,
    /// On the workers of the pool.
    Pool,
    /// On this many extra threads, which block on the store most of the time.
    Blocking(usize),
}

/// The requests of tasks that run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requests {
    /// None: the store does not block.
    None,
    /// Reads of chunks, or of some subchunks of shards.
    Reads,
    /// Writes of chunks or shards.
    Writes,
}

/// The decoded bytes of chunks in flight; more would cost memory, and no longer hide latency.
const MAX_BYTES_IN_FLIGHT: usize = 64 << 20;

/// The number of requests that are in flight whatever their size.
const MIN_IN_FLIGHT: usize = 8;

impl Executor {
    /// Choose for `tasks` tasks of `bytes` decoded bytes each, and a store that needs `concurrency`
    /// requests in flight (0: it does not block).
    pub fn choose(tasks: usize, bytes: usize, concurrency: usize) -> Executor {
        let threads = pool::threads();
        match tasks {
            0 | 1 => Executor::CallingThread,
            _ if concurrency > threads => Executor::Blocking(concurrency),
            _ if threads > 1 && tasks.saturating_mul(bytes) >= PARALLEL_BYTES => Executor::Pool,
            _ => Executor::CallingThread,
        }
    }

    /// As [`Executor::choose`] if `may_spread`, otherwise the calling thread.
    pub(crate) fn choose_if(may_spread: bool, tasks: usize, bytes: usize, concurrency: usize) -> Executor {
        match may_spread {
            true => Executor::choose(tasks, bytes, concurrency),
            false => Executor::CallingThread,
        }
    }

    /// Run `work` for 0..`tasks`. The first error ends it.
    pub fn each(
        self,
        tasks: usize,
        interrupt: Option<Interrupt<'_>>,
        work: &(dyn Fn(usize, &mut Scratch) -> Result<()> + Sync),
    ) -> Result<()> {
        let interrupt = interrupt.map(|interrupt| interrupt as &dyn Fn() -> bool);
        let task = |task| Scratch::with(|scratch| work(task, scratch));
        match self {
            Executor::CallingThread => pool::parallel_for(tasks, 1, interrupt, &task),
            Executor::Pool => pool::parallel_for(tasks, usize::MAX, interrupt, &task),
            Executor::Blocking(threads) => pool::wait_for(tasks, threads, interrupt, &task),
        }
    }
}

/// A strided copy between a decoded chunk and the caller's buffer.
pub struct Copy<'c> {
    /// The offset of the first byte in the decoded chunk.
    pub cell: isize,
    /// The offset of the first byte in the caller's buffer.
    pub caller: isize,
    /// The axes, in the requested direction.
    pub axes: &'c [Axis<'c>],
    /// The bytes of each item to copy.
    pub field: Field,
}

impl Copy<'_> {
    /// Return the item to copy, for a level with this byte-swap unit.
    pub fn item(&self, swap: usize) -> Item {
        let bytes = self.field.bytes;
        Item { bytes, swap: if bytes < swap { 0 } else { swap } }
    }
}

/// The part of a selection in one chunk, shard or subchunk.
#[derive(Clone, Copy)]
pub struct Portion<'p, 's> {
    /// How the chunk is encoded.
    pub level: &'p Level,
    /// The part of the selection inside the chunk.
    pub piece: &'p Piece<'s>,
    /// The array index of the first element of the chunk.
    pub origin: &'p [u64],
}

impl<'s> Portion<'_, 's> {
    /// Divide the portion among subchunks with these `dim_grids`.
    pub fn divide(&self, dim_grids: &[DimGrid]) -> Result<Division<'s>> {
        divide(self.piece, self.origin, dim_grids)
    }

    /// Return whether it contains every element inside `bounds`. Without bounds it must contain
    /// every element.
    pub fn is_full(&self, bounds: Option<&[u64]>) -> bool {
        self.piece.covers(self.origin, &self.level.shape, bounds)
    }

    /// Return whether it is the whole chunk, including elements outside the array, as one box.
    pub fn is_whole_chunk(&self) -> bool {
        let as_box = self.piece.as_box(self.origin);
        as_box
            .is_some_and(|sides| sides.iter().zip(&self.level.shape).all(|(side, &size)| *side == (0..size)))
    }

    /// Return the bytes of the decoded chunk between the first and the last selected element.
    pub fn span(&self) -> (usize, usize) {
        let (low, high) = self.piece.span(self.origin, &self.level.strides, self.level.item_bytes);
        let unit = self.level.swap().max(1);
        (low / unit * unit, high.div_ceil(unit) * unit)
    }

    /// Return the fields of each item to copy: single bytes, if a field is a part of a number in
    /// another byte order.
    pub fn fields(&self) -> SmallVec<[Field; 1]> {
        let (fields, unit) = (self.piece.fields(self.level.item_bytes), self.level.swap());
        let is_whole = |field: &Field| field.item % unit == 0 && field.bytes % unit == 0;
        match unit < 2 || fields.iter().all(is_whole) {
            true => fields,
            false => self.bytes(),
        }
    }

    /// Return the bytes of each item to copy, at their stored positions.
    pub fn bytes(&self) -> SmallVec<[Field; 1]> {
        let unit = self.level.swap().max(1);
        let bytes = |field: Field| {
            (0..field.bytes).map(move |k| {
                let position = field.item + k;
                let store_chunk = position / unit * unit + (unit - 1 - position % unit);
                Field { item: store_chunk, caller: field.caller + k, bytes: 1 }
            })
        };
        self.piece.fields(self.level.item_bytes).into_iter().flat_map(bytes).collect()
    }

    /// Call `copy` with the strided copy between the decoded chunk and the caller's buffer, once
    /// for each selected field.
    pub fn each_copy(&self, direction: Direction, mut copy: impl FnMut(&Copy<'_>)) {
        let fields = self.fields();
        self.piece.with_copy(direction, self.origin, &self.level.strides, |cell, caller, axes| {
            for &field in &fields {
                let (cell, caller) = (cell + field.item as isize, caller + field.caller as isize);
                copy(&Copy { cell, caller, axes, field });
            }
        });
    }

    /// Call `find` with the copy if it is the only one.
    pub fn single_copy<R>(
        &self,
        direction: Direction,
        find: impl FnOnce(&Copy<'_>) -> Option<R>,
    ) -> Option<R> {
        let [field] = self.fields()[..] else { return None };
        self.piece.with_copy(direction, self.origin, &self.level.strides, |cell, caller, axes| {
            let (cell, caller) = (cell + field.item as isize, caller + field.caller as isize);
            find(&Copy { cell, caller, axes, field })
        })
    }
}

/// Processes a chunk, with its open value if it was fetched.
type ProcessValue<'w> = &'w (dyn Fn(&Chunk<'_, '_>, Option<OpenResult>, &mut Scratch) -> Result<()> + Sync);

/// Encodes a chunk; None: it has no value, or needs the stored one.
type EncodeChunk<'m> = &'m (dyn Fn(&Chunk<'_, '_>, &mut Scratch) -> Result<Option<Arc<Vec<u8>>>> + Sync);

/// Processes a chunk.
type ProcessChunk<'w> = &'w (dyn Fn(&Chunk<'_, '_>, &mut Scratch) -> Result<()> + Sync);

/// A chunk that a selection touches.
pub struct Chunk<'k, 's> {
    /// Its key in the store.
    pub key: &'k str,
    /// Its cell in the grid.
    pub cell: &'k [u64],
    /// The part of the selection in it.
    pub portion: Portion<'k, 's>,
    /// Whether workers share the subchunks of one shard, because the operation has few chunks.
    pub spread: bool,
    /// The cache of decoded chunks, if those of the operation fit into it.
    pub chunk_cache: Option<CacheShare<'k>>,
}

impl<'a> Operation<'a> {
    /// Return an operation without interrupts that fills chunks past the edge.
    pub fn new(array: &'a Array, store: &'a dyn Store, prefix: &'a str) -> Self {
        Operation { array, store, prefix, keeps_past: false, interrupt: None, check: None, chunk_cache: None }
    }
}

impl<'a> Operation<'a> {
    /// Return the bounds inside which a write must know every element, if it has bounds.
    pub(crate) fn bounds(&self) -> Option<&[u64]> {
        (!self.keeps_past).then_some(&self.array.shape)
    }

    /// Run `work` for every chunk that `selection` touches; errors name the chunk.
    pub fn each_chunk(self, selection: &Selection, requests: Requests, work: ProcessChunk<'_>) -> Result<()> {
        self.check_may_block(requests)?;
        let Some(chunks) = self.chunks(selection, requests)? else { return Ok(()) };
        let work = |task, scratch: &mut Scratch| chunks.with(task, scratch, work);
        chunks.run.each(chunks.division.tasks(), self.interrupt, &work)
    }

    /// Return an error if this thread must not block on the store or on a key: the holder of the
    /// key may wait for this thread.
    fn check_may_block(self, requests: Requests) -> Result<()> {
        if self.concurrency(requests) > 0 {
            self.store.check_may_block()
        } else {
            Ok(())
        }
    }

    /// Like `each_chunk`, for writes. `make` encodes chunks that need no stored value, for a store
    /// with asynchronous writes; `store` encodes and stores a chunk.
    pub(crate) fn each_upload(
        self,
        selection: &Selection,
        make: EncodeChunk<'_>,
        store: ProcessChunk<'_>,
    ) -> Result<()> {
        self.check_may_block(Requests::Writes)?;
        let Some(chunks) = self.chunks(selection, Requests::Writes)? else { return Ok(()) };
        let tasks = chunks.division.tasks();
        let store_chunk = |task, scratch: &mut Scratch| chunks.with(task, scratch, store);
        if let Executor::Blocking(limit) = chunks.run {
            if let Some(start) = self.store.async_requests(Call::Update) {
                let encode = |chunk: &Chunk<'_, '_>, scratch: &mut Scratch| {
                    let (key, cell) = (chunk.key.to_owned(), chunk.cell.into());
                    Ok(make(chunk, scratch)?.map(|value| EncodedChunk { key, cell, value }))
                };
                let encode = |task, scratch: &mut Scratch| chunks.with(task, scratch, encode);
                return upload_queue::run(start, tasks, limit, self.interrupt, &encode, &store_chunk);
            }
        }
        chunks.run.each(tasks, self.interrupt, &store_chunk)
    }

    /// Run `work`, which uses the store, for 0..`tasks`.
    pub(crate) fn each(
        self,
        run: Executor,
        tasks: usize,
        work: &(dyn Fn(usize, &mut Scratch) -> Result<()> + Sync),
    ) -> Result<()> {
        if run != Executor::CallingThread {
            self.store.check_may_block()?;
        }
        run.each(tasks, self.interrupt, work)
    }

    /// Like `each_chunk`, for reads, which are asynchronous if the store supports it. `hint`
    /// returns the read hint of each chunk.
    pub(crate) fn each_fetch(
        self,
        selection: &Selection,
        hint: &(dyn Fn(&Chunk<'_, '_>) -> ReadHint + Sync),
        work: ProcessValue<'_>,
    ) -> Result<()> {
        let Some(chunks) = self.chunks(selection, Requests::Reads)? else { return Ok(()) };
        let request = |task, scratch: &mut Scratch| {
            chunks.with(task, scratch, |chunk, _| Ok(Some((chunk.key.to_owned(), hint(chunk)))))
        };
        self.fetch_each(chunks.run, chunks.division.tasks(), &request, &|task, opened, scratch| {
            chunks.with(task, scratch, |chunk, scratch| work(chunk, opened, scratch))
        })
    }

    /// Run `work` for 0..`tasks`, with the value that each task has to `request`, if it was
    /// fetched. `work` also reports the errors of `request`.
    pub(crate) fn fetch_each(
        self,
        run: Executor,
        tasks: usize,
        request: fetch_queue::MakeRequest<'_>,
        work: fetch_queue::Process<'_>,
    ) -> Result<()> {
        self.store.check_may_block()?;
        if let Executor::Blocking(limit) = run {
            if let Some(start) = self.store.async_requests(Call::Open) {
                return fetch_queue::run(start, tasks, limit, pool::threads(), self.interrupt, request, work);
            }
        }
        let order = self.cached_first(tasks, request);
        let position = |number: usize| order.as_ref().map_or(number, |order| order[number]);
        run.each(tasks, self.interrupt, &|number, scratch| work(position(number), None, scratch))
    }

    /// Return the order of tasks that uses cached values before other reads evict them; None: any
    /// order.
    fn cached_first(self, tasks: usize, request: fetch_queue::MakeRequest<'_>) -> Option<Vec<usize>> {
        if tasks < 2 || !self.store.info().can_cache(0) {
            return None;
        }
        let is_in_cache = |scratch: &mut Scratch, task| {
            // The task reports the error.
            let request_of_task = request(task, scratch).ok().flatten();
            request_of_task.is_some_and(|(key, _)| self.store.cache_state(&key).has_content)
        };
        let (mut first, rest): (Vec<usize>, Vec<usize>) =
            Scratch::with(|scratch| (0..tasks).partition(|&task| is_in_cache(scratch, task)));
        let is_mixed = !first.is_empty() && !rest.is_empty();
        first.extend(rest);
        is_mixed.then_some(first)
    }

    /// Return the chunks that `selection` touches; None if it is empty.
    pub(crate) fn chunks<'s>(
        self,
        selection: &'s Selection,
        requests: Requests,
    ) -> Result<Option<Chunks<'a, 's>>> {
        let whole = selection.piece();
        if whole.is_empty() {
            return Ok(None);
        }
        let division = self.divide(&whole)?;
        let spread = self.shares_workers(division.tasks());
        let (run, chunk_cache) = match division.tasks() {
            1 => (Executor::CallingThread, self.chunk_cache.map(|cache| CacheShare::new(cache, 1))),
            tasks => {
                let mut first = PerAxis::new();
                division.find_cell(0, &mut first);
                (self.run(&first, tasks, requests)?, self.cache_share(&first, tasks)?)
            }
        };
        Ok(Some(Chunks { operation: self, division, spread, run, chunk_cache }))
    }

    /// Return the share of the chunk cache for `tasks` chunks, the first of which is at `cell`; None:
    /// the cache has no room for them.
    pub(crate) fn cache_share(self, cell: &[u64], tasks: usize) -> Result<Option<CacheShare<'a>>> {
        let Some(cache) = self.chunk_cache else { return Ok(None) };
        let (share, level) = (CacheShare::new(cache, tasks), self.level_at(cell)?);
        Ok(share.has_room(1, level.innermost().decoded_bytes).then_some(share))
    }

    /// Return the level of the chunk at `cell`.
    fn level_at(self, cell: &[u64]) -> Result<LevelRef<'a>> {
        let shape = grid::bounds(&self.array.dim_grids, cell).1;
        self.array.level(&shape).map_err(|error| error.at_chunk(cell))
    }

    /// Divide a selection among chunks.
    pub(crate) fn divide<'s>(self, whole: &Piece<'s>) -> Result<Division<'s>> {
        let dim_grids = &self.array.dim_grids;
        let base: PerAxis<u64> = dim_grids.iter().map(|_| 0).collect();
        divide(whole, &base, dim_grids)
    }

    /// Choose the executor for `tasks` chunks, the first of which is at `cell`.
    pub(crate) fn run(self, cell: &[u64], tasks: usize, requests: Requests) -> Result<Executor> {
        let level = self.level_at(cell)?;
        let bytes = match &level.body {
            Body::Shard(shard) if requests == Requests::Reads => shard.level.decoded_bytes,
            _ => level.decoded_bytes,
        };
        let most = (MAX_BYTES_IN_FLIGHT / bytes.max(1)).max(MIN_IN_FLIGHT);
        Ok(Executor::choose(tasks, level.decoded_bytes, self.concurrency(requests).min(most)))
    }

    /// Return how many requests the store needs in flight.
    fn concurrency(self, requests: Requests) -> usize {
        match requests {
            Requests::None => 0,
            Requests::Reads => self.store.concurrency(),
            Requests::Writes => self.store.info().write_concurrency,
        }
    }

    /// Return whether workers share the subchunks of one shard, because the operation has few
    /// chunks.
    pub(crate) fn shares_workers(self, chunks: usize) -> bool {
        chunks < 2 * pool::threads()
    }

    /// Run `work` with the key of a chunk, its level, and the array index of its first element;
    /// errors name the chunk.
    pub(crate) fn with_chunk<R>(
        self,
        cell: &[u64],
        scratch: &mut Scratch,
        work: impl FnOnce(&str, &Level, &[u64], &mut Scratch) -> Result<R>,
    ) -> Result<R> {
        let (origin, shape) = grid::bounds(&self.array.dim_grids, cell);
        let mut key = std::mem::take(&mut scratch.key);
        let result = self.array.format_key(self.prefix, cell, &mut key).and_then(|()| {
            let level = self.array.level(&shape)?;
            work(&key, &level, &origin, scratch).map_err(|error| error.at_key(&key))
        });
        scratch.key = key;
        result.map_err(|error| error.at_chunk(cell))
    }
}

/// The chunks that a selection touches, each a task.
pub(crate) struct Chunks<'a, 's> {
    operation: Operation<'a>,
    pub(crate) division: Division<'s>,
    spread: bool,
    run: Executor,
    chunk_cache: Option<CacheShare<'a>>,
}

impl Chunks<'_, '_> {
    /// Run `work` with the chunk of a task; errors name the chunk.
    pub(crate) fn with<R>(
        &self,
        task: usize,
        scratch: &mut Scratch,
        work: impl FnOnce(&Chunk<'_, '_>, &mut Scratch) -> Result<R>,
    ) -> Result<R> {
        let mut cell = PerAxis::new();
        let piece = self.division.task(task, &mut cell);
        self.operation.with_chunk(&cell, scratch, |key, level, origin, scratch| {
            let portion = Portion { level, piece: &piece, origin };
            let (spread, chunk_cache) = (self.spread, self.chunk_cache);
            work(&Chunk { key, cell: &cell, portion, spread, chunk_cache }, scratch)
        })
    }
}

/// Return the array index of the first element of `cell`.
pub fn origin_of(base: &[u64], cell: &[u64], shape: &[u64]) -> PerAxis<u64> {
    base.iter().zip(cell).zip(shape).map(|((base, cell), size)| base + cell * size).collect()
}
