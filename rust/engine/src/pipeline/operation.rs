//! What reading and writing share: the array, the store, and running tasks.

use std::sync::Arc;

use crate::array::{Array, Level, PerAxis};
use crate::copy::{Axis, Item};
use crate::error::Result;
use crate::grid::{self, Cuts};
use crate::pipeline::fetch_queue;
use crate::pipeline::missing_array::Check;
use crate::pipeline::upload_queue::{self, Departing};
use crate::pool;
use crate::scratch::Scratch;
use crate::selection::{divide, Direction, Division, Field, Piece, Selection};
use crate::store::{OpenResult, ReadHint, Store};

use smallvec::SmallVec;

/// Tasks that decode or encode fewer bytes than this in sum run on the calling
/// thread: waking a worker costs as much as decoding about that many.
const PARALLEL_BYTES: usize = 128 << 10;

/// Asks whether to stop (Ctrl-C). Workers may ask too, and are told no.
pub type Interrupt<'a> = &'a (dyn Fn() -> bool + Sync);

/// One read or write of one array.
#[derive(Clone, Copy)]
pub struct Operation<'a> {
    /// The compiled array.
    pub array: &'a Array,
    /// Where its chunks are.
    pub store: &'a dyn Store,
    /// What its chunk keys start with: "" or ending in "/".
    pub prefix: &'a str,
    /// What stands past the edge of the array stays in chunks that are written, as others may have let it
    /// grow: else it becomes fill, and what is overwritten up to the edge is not read.
    pub keeps_past: bool,
    /// Asked about every 50 ms.
    pub interrupt: Option<Interrupt<'a>>,
    /// How to distinguish a chunk that is not stored from an array that is gone; None: not at all.
    pub check: Option<Check<'a>>,
}

/// The address of the caller's buffer, for all workers.
#[derive(Clone, Copy)]
pub struct Address(pub *mut u8);

// SAFETY: workers reach disjoint items of the buffer (reading) or only read
// it (writing); the caller keeps it alive until the operation has ended.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

/// How tasks are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// One after another, on the calling thread.
    Here,
    /// Spread over the pool.
    Pool,
    /// On so many threads of their own: they wait for the store, and do not work meanwhile.
    Waiting(usize),
}

impl Run {
    /// Decide for `tasks` tasks of `bytes` decoded bytes each, of which a store wants
    /// `concurrency` under way; 0: it does not wait.
    pub fn decide(tasks: usize, bytes: usize, concurrency: usize) -> Run {
        let threads = pool::threads();
        match tasks {
            0 | 1 => Run::Here,
            _ if concurrency > threads => Run::Waiting(concurrency),
            _ if threads > 1 && tasks.saturating_mul(bytes) >= PARALLEL_BYTES => Run::Pool,
            _ => Run::Here,
        }
    }

    /// Do `work` for 0..tasks. The first error ends it.
    pub fn each(
        self,
        tasks: usize,
        interrupt: Option<Interrupt<'_>>,
        work: &(dyn Fn(usize, &mut Scratch) -> Result<()> + Sync),
    ) -> Result<()> {
        let interrupt = interrupt.map(|interrupt| interrupt as &dyn Fn() -> bool);
        let task = |task| Scratch::with(|scratch| work(task, scratch));
        match self {
            Run::Here => pool::parallel_for(tasks, 1, interrupt, &task),
            Run::Pool => pool::parallel_for(tasks, usize::MAX, interrupt, &task),
            Run::Waiting(threads) => pool::wait_for(tasks, threads, interrupt, &task),
        }
    }
}

/// A strided copy between a decoded chunk and the caller's buffer.
pub struct Copy<'c> {
    /// First byte in the decoded chunk.
    pub cell: isize,
    /// First byte in the caller's buffer.
    pub caller: isize,
    /// The axes, in the direction asked for.
    pub axes: &'c [Axis<'c>],
    /// What is copied of each item.
    pub field: Field,
}

impl Copy<'_> {
    /// What is copied at a time, where the level has a byte-swap unit.
    pub fn item(&self, swap: usize) -> Item {
        let bytes = self.field.bytes;
        Item { bytes, swap: if bytes < swap { 0 } else { swap } }
    }
}

/// What an operation touches of one chunk, shard or subchunk.
#[derive(Clone, Copy)]
pub struct Portion<'p, 's> {
    /// How the chunk is encoded.
    pub level: &'p Level,
    /// The part of the selection inside it.
    pub piece: &'p Piece<'s>,
    /// The array index at which it begins.
    pub origin: &'p [u64],
}

impl<'s> Portion<'_, 's> {
    /// Which subchunks are touched of a shard that is cut by `cuts`.
    pub fn divide(&self, cuts: &[Cuts]) -> Result<Division<'s>> {
        divide(self.piece, self.origin, cuts)
    }

    /// Every element is touched that lies inside `bounds`, if there are any.
    pub fn is_full(&self, bounds: Option<&[u64]>) -> bool {
        self.piece.covers(self.origin, &self.level.shape, bounds)
    }

    /// Every element of the chunk is touched, also outside of the array, as one box.
    pub fn is_everything(&self) -> bool {
        let boxed = self.piece.as_box(self.origin);
        boxed.is_some_and(|sides| sides.iter().zip(&self.level.shape).all(|(side, &size)| *side == (0..size)))
    }

    /// The bytes of the decoded chunk between the first and the last touched element.
    pub fn span(&self) -> (usize, usize) {
        let (low, high) = self.piece.span(self.origin, &self.level.strides, self.level.item_bytes);
        let unit = self.level.swap().max(1);
        (low / unit * unit, high.div_ceil(unit) * unit)
    }

    /// What is copied of each item: bytes, where it is a part of a number that is stored in another byte order.
    pub fn fields(&self) -> SmallVec<[Field; 1]> {
        let (fields, unit) = (self.piece.fields(self.level.item_bytes), self.level.swap());
        let is_whole = |field: &Field| field.item % unit == 0 && field.bytes % unit == 0;
        match unit < 2 || fields.iter().all(is_whole) {
            true => fields,
            false => self.bytes(),
        }
    }

    /// The bytes that are copied of each item: where each is stored.
    pub fn bytes(&self) -> SmallVec<[Field; 1]> {
        let unit = self.level.swap().max(1);
        let bytes = |field: Field| {
            (0..field.bytes).map(move |k| {
                let at = field.item + k;
                let stored = at / unit * unit + (unit - 1 - at % unit);
                Field { item: stored, caller: field.caller + k, bytes: 1 }
            })
        };
        self.piece.fields(self.level.item_bytes).into_iter().flat_map(bytes).collect()
    }

    /// Call `copy` with the strided copy between the decoded chunk and the caller's
    /// buffer; if only fields of the items are touched, for each of them.
    pub fn each_copy(&self, direction: Direction, mut copy: impl FnMut(&Copy<'_>)) {
        let fields = self.fields();
        self.piece.with_copy(direction, self.origin, &self.level.strides, |cell, caller, axes| {
            for &field in &fields {
                let (cell, caller) = (cell + field.item as isize, caller + field.caller as isize);
                copy(&Copy { cell, caller, axes, field });
            }
        });
    }

    /// What `find` makes of the copy, where there is only one.
    pub fn of_copy<R>(&self, direction: Direction, find: impl FnOnce(&Copy<'_>) -> Option<R>) -> Option<R> {
        let [field] = self.fields()[..] else { return None };
        self.piece.with_copy(direction, self.origin, &self.level.strides, |cell, caller, axes| {
            let (cell, caller) = (cell + field.item as isize, caller + field.caller as isize);
            find(&Copy { cell, caller, axes, field })
        })
    }
}

/// Does something with a chunk and what was opened of it, if it was.
type WithValue<'w> = &'w (dyn Fn(&Chunk<'_, '_>, Option<OpenResult>, &mut Scratch) -> Result<()> + Sync);

/// Makes the value of a chunk; None: there is none, or what is there is needed for it.
type Make<'m> = &'m (dyn Fn(&Chunk<'_, '_>, &mut Scratch) -> Result<Option<Arc<Vec<u8>>>> + Sync);

/// Makes and stores a chunk.
type StoreChunk<'s> = &'s (dyn Fn(&Chunk<'_, '_>, &mut Scratch) -> Result<()> + Sync);

/// Does something with the chunk of a task.
type OfTask<'t> = &'t (dyn Fn(usize, &mut Scratch, &mut dyn FnMut(&Chunk<'_, '_>, &mut Scratch) -> Result<()>) -> Result<()>
         + Sync);

/// Is told how tasks are run, and how many there are.
type Tasks<'t> = &'t dyn Fn(Run, usize, OfTask<'_>) -> Result<()>;

/// One chunk that a selection touches.
pub struct Chunk<'k, 's> {
    /// Its key in the store.
    pub key: &'k str,
    /// Its place in the grid.
    pub cell: &'k [u64],
    /// What is touched of it.
    pub portion: Portion<'k, 's>,
    /// There are so few chunks that shards spread their subchunks over the pool.
    pub spread: bool,
}

impl<'a> Operation<'a> {
    /// Nobody interrupts it, and what it writes is fill past the edge.
    pub fn new(array: &'a Array, store: &'a dyn Store, prefix: &'a str) -> Self {
        Operation { array, store, prefix, keeps_past: false, interrupt: None, check: None }
    }
}

impl Operation<'_> {
    /// Where what a write has to know of a chunk ends, if it does.
    pub(crate) fn bounds(&self) -> Option<&[u64]> {
        (!self.keeps_past).then_some(&self.array.shape)
    }

    /// Do `work` for every chunk that `selection` touches; errors say which it was. The store
    /// wants `concurrency` of them under way.
    pub fn each_chunk(
        self,
        selection: &Selection,
        concurrency: usize,
        work: &(dyn Fn(&Chunk<'_, '_>, &mut Scratch) -> Result<()> + Sync),
    ) -> Result<()> {
        self.check_may_block(concurrency)?;
        self.each_task(selection, concurrency, &|run, tasks, of| {
            run.each(tasks, self.interrupt, &|task, scratch| {
                of(task, scratch, &mut |chunk, scratch| work(chunk, scratch))
            })
        })
    }

    /// An error if this thread must not wait for the store, nor for a key, as who holds that may wait for this thread.
    fn check_may_block(self, concurrency: usize) -> Result<()> {
        if concurrency > 0 {
            self.store.check_may_block()
        } else {
            Ok(())
        }
    }

    /// The same for chunks that are stored: `make` makes values of which nothing need be read, for a store that is
    /// given them without waiting for each, and `store` makes and stores a chunk.
    pub(crate) fn each_stored(
        self,
        selection: &Selection,
        make: Make<'_>,
        store: StoreChunk<'_>,
    ) -> Result<()> {
        let concurrency = self.store.write_concurrency();
        self.check_may_block(concurrency)?;
        self.each_task(selection, concurrency, &|run, tasks, of| {
            let stored = |task: usize, scratch: &mut Scratch| {
                of(task, scratch, &mut |chunk, scratch| store(chunk, scratch))
            };
            let made = |task, scratch: &mut Scratch| {
                let mut made = None;
                of(task, scratch, &mut |chunk, scratch| {
                    let (key, cell) = (chunk.key.to_owned(), chunk.cell.into());
                    made = make(chunk, scratch)?.map(|value| Departing { key, cell, value });
                    Ok(())
                })?;
                Ok(made)
            };
            if let Run::Waiting(most) = run {
                if let Some(put) = self.store.async_put() {
                    return upload_queue::each(put, tasks, most, self.interrupt, &made, &stored);
                }
            }
            run.each(tasks, self.interrupt, &stored)
        })
    }

    /// Do `work`, which asks the store, for 0..tasks.
    pub(crate) fn each(
        self,
        run: Run,
        tasks: usize,
        work: &(dyn Fn(usize, &mut Scratch) -> Result<()> + Sync),
    ) -> Result<()> {
        if run != Run::Here {
            self.store.check_may_block()?;
        }
        run.each(tasks, self.interrupt, work)
    }

    /// The same for values that are read, which the store is asked for together where it can be; `want` tells how
    /// each is opened.
    pub(crate) fn each_value(
        self,
        selection: &Selection,
        want: &(dyn Fn(&Chunk<'_, '_>) -> ReadHint + Sync),
        work: WithValue<'_>,
    ) -> Result<()> {
        self.each_task(selection, self.store.concurrency(), &|run, tasks, of| {
            let request = |task, scratch: &mut Scratch| {
                let mut asked = None;
                of(task, scratch, &mut |chunk, _| {
                    asked = Some((chunk.key.to_owned(), want(chunk)));
                    Ok(())
                })?;
                Ok(asked)
            };
            self.opened(run, tasks, &request, &|task, mut opened, scratch| {
                of(task, scratch, &mut |chunk, scratch| work(chunk, opened.take(), scratch))
            })
        })
    }

    /// Do `work` for 0..tasks, with what was opened of what each has to `request`, if it was; errors of `request`
    /// are those of `work`, too.
    pub(crate) fn opened(
        self,
        run: Run,
        tasks: usize,
        request: fetch_queue::Prepare<'_>,
        work: fetch_queue::Work<'_>,
    ) -> Result<()> {
        self.store.check_may_block()?;
        if let Run::Waiting(most) = run {
            if let Some(ask) = self.store.async_get() {
                return fetch_queue::each(ask, tasks, most, pool::threads(), self.interrupt, request, work);
            }
        }
        let order = self.remembered_first(tasks, request);
        let at = |number: usize| order.as_ref().map_or(number, |order| order[number]);
        run.each(tasks, self.interrupt, &|number, scratch| work(at(number), None, scratch))
    }

    /// The order of tasks in which values are used that are in memory, before others are read that push them out;
    /// None: any will do.
    fn remembered_first(self, tasks: usize, request: fetch_queue::Prepare<'_>) -> Option<Vec<usize>> {
        if tasks < 2 || !self.store.can_cache(0) {
            return None;
        }
        let here = |scratch: &mut Scratch, task| {
            // What is wrong with it, the task itself finds, too.
            let asked = request(task, scratch).ok().flatten();
            asked.is_some_and(|(key, _)| self.store.is_cached(&key))
        };
        let (mut first, rest): (Vec<usize>, Vec<usize>) =
            Scratch::with(|scratch| (0..tasks).partition(|&task| here(scratch, task)));
        let matters = !first.is_empty() && !rest.is_empty();
        first.extend(rest);
        matters.then_some(first)
    }

    /// Do `work` with how many chunks `selection` touches, how they are run, and what does something with one of them.
    fn each_task(self, selection: &Selection, concurrency: usize, work: Tasks<'_>) -> Result<()> {
        let whole = selection.piece();
        if whole.is_empty() {
            return Ok(());
        }
        let division = self.divide(&whole)?;
        let spread = self.spreads(division.tasks());
        let run = match division.tasks() {
            1 => Run::Here,
            tasks => {
                let mut first = PerAxis::new();
                division.task(0, &mut first);
                self.run(&first, tasks, concurrency)?
            }
        };
        work(run, division.tasks(), &|task, scratch, with| {
            let mut cell = PerAxis::new();
            let piece = division.task(task, &mut cell);
            let mut key = std::mem::take(&mut scratch.key);
            let done = self.with_chunk(&cell, &mut key, |key, level, origin| {
                let portion = Portion { level, piece: &piece, origin };
                with(&Chunk { key, cell: &cell, portion, spread }, scratch)
            });
            scratch.key = key;
            done
        })
    }

    /// Divide all that is selected among chunks.
    pub(crate) fn divide<'s>(self, whole: &Piece<'s>) -> Result<Division<'s>> {
        let cuts = &self.array.cuts;
        let base: PerAxis<u64> = cuts.iter().map(|_| 0).collect();
        divide(whole, &base, cuts)
    }

    /// How `tasks` chunks are read or written, the first of which is at `cell`.
    pub(crate) fn run(self, cell: &[u64], tasks: usize, concurrency: usize) -> Result<Run> {
        let level = self.array.level(&grid::bounds(&self.array.cuts, cell).1)?;
        Ok(Run::decide(tasks, level.decoded_bytes, concurrency))
    }

    /// So few chunks are touched that shards spread their subchunks over the pool.
    pub(crate) fn spreads(self, chunks: usize) -> bool {
        chunks < 2 * pool::threads()
    }

    /// Do `work` with the key of a chunk, which is written to `key`, with how it is encoded, and
    /// with the array index at which it begins; errors say which it was.
    pub(crate) fn with_chunk<R>(
        self,
        cell: &[u64],
        key: &mut String,
        work: impl FnOnce(&str, &Level, &[u64]) -> Result<R>,
    ) -> Result<R> {
        let (origin, shape) = grid::bounds(&self.array.cuts, cell);
        let done = self.array.format_key(self.prefix, cell, key).and_then(|()| {
            let level = self.array.level(&shape)?;
            work(key, &level, &origin).map_err(|error| error.at_key(key))
        });
        done.map_err(|error| error.at_chunk(cell))
    }
}

/// The array index at which `cell` begins.
pub fn origin_of(base: &[u64], cell: &[u64], shape: &[u64]) -> PerAxis<u64> {
    base.iter().zip(cell).zip(shape).map(|((base, cell), size)| base + cell * size).collect()
}
