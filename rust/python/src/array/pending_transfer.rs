//! `PendingTransfer`: queued reads and writes, which workers or waiting threads run.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::runtime::once_cell::intern;
use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::{PyWeakrefMethods, PyWeakrefReference};
use pyo3::{PyTraverseError, PyVisit};
use tessarr_engine::pipeline::operation::Interrupt;
use tessarr_engine::pool::{QueuedOperation, Runner};
use tessarr_engine::selection::Selection;
use tessarr_engine::store::Store;
use tessarr_engine::vlen::Arena;
use tessarr_engine::{pool, read, Error, Result};

use super::view_read::Spread;
use super::{run_interruptibly, ArrayBase, Memory, State};
use crate::runtime::error::{foreign, to_py};

/// A read or a write, and the future that receives its result.
pub(crate) struct Transfer {
    pub parts: Vec<Part>,
    pub future: FutureRef,
    pub result: Py<PyAny>,
}

/// A reference to the future of a transfer.
pub(crate) enum FutureRef {
    /// A reference that keeps the future alive: the transfer has effects beyond its result.
    Strong(Py<PyAny>),
    /// A weak reference. Once the program drops the future, no code needs the result of the
    /// transfer.
    Weak(Py<PyWeakrefReference>),
}

impl FutureRef {
    pub(super) fn weak(future: &Bound<'_, PyAny>) -> PyResult<Self> {
        PyWeakrefReference::new(future).map(|future| FutureRef::Weak(future.unbind()))
    }

    /// Return the future; None: the program has dropped it.
    fn get<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        match self {
            FutureRef::Strong(future) => Some(future.bind(py).clone()),
            FutureRef::Weak(future) => future.bind(py).upgrade(),
        }
    }
}

/// The read or write of one array.
pub(crate) struct Part {
    pub base: Py<ArrayBase>,
    pub state: Arc<State>,
    /// The store of the array, or a coalescing store in its place.
    pub store: Arc<dyn Store>,
    pub selection: Selection,
    pub memory: Memory,
    pub buffer: Py<PyUntypedArray>,
    pub writes: bool,
    /// The destination of elements that cannot be read in place.
    pub spread: Option<Spread>,
}

/// The exception of a signal handler in the waiting thread.
type Raised = Arc<Mutex<Option<Error>>>;

/// Make the waiting thread raise an error.
fn raise(raised: &Raised, error: Error) {
    *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
}

/// Receives the index and the result of each part.
type Ended<'e> = &'e (dyn Fn(usize, Result<Arena>) + Sync);

/// A queued transfer. Either the thread that runs it or a cancellation takes it, once.
pub(super) struct Slot(Mutex<Option<Transfer>>);

impl Slot {
    fn of(transfer: Transfer) -> Arc<Slot> {
        Arc::new(Slot(Mutex::new(Some(transfer))))
    }

    fn take(&self) -> Option<Transfer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Take the transfer if `condition` holds for it.
    fn take_if(&self, condition: impl FnOnce(&Transfer) -> bool) -> Option<Transfer> {
        // In a forked child the lock may belong to a thread of the parent, which never releases it.
        let mut transfer = self.0.try_lock().ok()?;
        transfer.take_if(|transfer| condition(transfer))
    }

    fn is_empty(&self) -> bool {
        self.0.try_lock().is_ok_and(|transfer| transfer.is_none())
    }
}

/// Run the transfers that are not cancelled.
fn run_queued(slots: &[Arc<Slot>], runner: Runner, told: &Raised) {
    let transfers: Vec<Transfer> = slots.iter().filter_map(|slot| slot.take()).collect();
    if !transfers.is_empty() {
        run(transfers, runner, told);
    }
}

/// Queue transfers for worker threads; a thread that waits for one of them may run them.
pub(crate) fn start_transfers(py: Python<'_>, transfers: Vec<Transfer>) -> PendingTransfer {
    let concurrency = concurrency(&transfers);
    let slots: Vec<Arc<Slot>> = transfers.into_iter().map(Slot::of).collect();
    let queued = slots.clone();
    // If no worker thread can start, the calling thread runs the transfers without the GIL, which
    // other threads may need.
    PendingTransfer::new(slots, true, |told| {
        py.detach(|| pool::spawn(concurrency, move |runner| run_queued(&queued, runner, &told)))
    })
}

/// Queue a small read of an array. A worker runs it together with all other reads of the array that
/// are queued by then: they share their requests, and one wake-up serves all.
pub(super) fn start_with_array(py: Python<'_>, transfer: Transfer) -> PendingTransfer {
    let (base, concurrency) = (transfer.parts[0].base.clone_ref(py), transfer.concurrency());
    let slot = Slot::of(transfer);
    PendingTransfer::new(vec![slot.clone()], false, |told| {
        let array = base.clone_ref(py);
        let take = move |runner| run_queued(&array.get().waiting.take(), runner, &told);
        match base.get().waiting.add(slot) {
            true => py.detach(|| pool::spawn(concurrency, take)),
            false => QueuedOperation::new(take),
        }
    })
}

/// Return the number of transfers that the stores run concurrently; 0: the stores do not wait.
fn concurrency<'t>(transfers: impl IntoIterator<Item = &'t Transfer>) -> usize {
    transfers.into_iter().map(Transfer::concurrency).max().unwrap_or(0)
}

/// Run transfers and complete their futures, also after errors. A signal may interrupt a waiting
/// thread; a worker then runs the transfers that are not complete.
fn run(transfers: Vec<Transfer>, runner: Runner, told: &Raised) {
    let raised = (runner == Runner::Caller).then_some(told);
    let pending: Vec<RunningTransfer> =
        transfers.into_iter().map(|one| RunningTransfer::new(one, raised)).collect();
    match runner {
        // An error of the whole run goes to the futures whose parts have not ended.
        Runner::Worker => drop(pool::guarded(|| run_parts(&pending, None))),
        Runner::Caller => {
            if let Err(error) = run_interruptibly(|interrupt| run_parts(&pending, Some(interrupt))) {
                raise(told, error);
                let left: Vec<Transfer> =
                    pending.into_iter().filter_map(RunningTransfer::into_incomplete).collect();
                pool::spawn(concurrency(&left), move |_| run(left, Runner::Worker, &Raised::default()));
                return;
            }
        }
    }
    // At interpreter exit no thread waits any more. The transfer's references drop before its
    // future completes, because waiting code may rely on it: a Zip file is complete once nothing
    // holds it open.
    crate::runtime::atexit::attached(move |py| pending.into_iter().for_each(|one| one.complete(py)));
}

/// Run the parts of transfers. If the store waits, the future of each transfer completes when the
/// transfer ends; other futures complete at the end, because completing them takes longer than the
/// transfers.
fn run_parts(pending: &[RunningTransfer], interrupt: Option<Interrupt<'_>>) -> Result<()> {
    let places: Vec<(&RunningTransfer, usize)> =
        pending.iter().flat_map(|one| (0..one.transfer.parts.len()).map(move |part| (one, part))).collect();
    let parts: Vec<&Part> = places.iter().map(|&(one, part)| &one.transfer.parts[part]).collect();
    let waits = concurrency(pending.iter().map(|one| &one.transfer)) > pool::threads();
    let left = AtomicUsize::new(pending.len());
    run_grouped(&parts, interrupt, &|index: usize, done| {
        let (one, part) = places[index];
        if one.end(part, done) && left.fetch_sub(1, Ordering::Relaxed) > 1 && waits {
            crate::runtime::atexit::attached(|py| one.complete(py));
        }
    })
}

/// Run the parts concurrently, and those that read the same array as one read. `end` receives the
/// result of each part. An exception of a signal handler ends the parts that check for it.
fn run_grouped(parts: &[&Part], interrupt: Option<Interrupt<'_>>, end: Ended<'_>) -> Result<()> {
    let concurrency = parts.iter().map(|part| part.concurrency()).max().unwrap_or(0);
    let alike = group_by_array(parts);
    let some = |number: usize| {
        let (reads, exit) = (&alike[number], OnceLock::new());
        let ended = |index: usize, done: Result<Arena>| {
            let index = reads[index];
            match done.and_then(|arena| parts[index].spread().map(|()| arena)) {
                Err(error) if interrupt.is_some() && error.ends_wait() => drop(exit.set(error)),
                done => end(index, done),
            }
        };
        let work = || {
            run_group(parts, reads, interrupt, &ended);
            Ok(())
        };
        if let Err(error) = pool::guarded(work) {
            reads.iter().for_each(|&index| end(index, Err(error.clone())));
        }
        exit.into_inner().map_or(Ok(()), Err)
    };
    let asked = interrupt.map(|interrupt| interrupt as &dyn Fn() -> bool);
    match concurrency > pool::threads() {
        true => pool::wait_for(alike.len(), concurrency, asked, &some),
        false => pool::parallel_for(alike.len(), usize::MAX, asked, &some),
    }
}

/// Read the parts in the calling thread and the workers; Ctrl-C raises the pending exception.
pub(super) fn read_parts(py: Python<'_>, parts: &[Part]) -> PyResult<()> {
    let results: Vec<OnceLock<Result<Arena>>> = parts.iter().map(|_| OnceLock::new()).collect();
    let references: Vec<&Part> = parts.iter().collect();
    let end = |index: usize, done| drop(results[index].set(done));
    let run = |interrupt: Interrupt<'_>| run_grouped(&references, Some(interrupt), &end);
    let done = py.detach(|| run_interruptibly(run)).and_then(|done| done);
    done.map_err(|error| to_py(py, error))?;
    deliver_all(py, parts, results.into_iter().map(OnceLock::into_inner))
}

/// Deliver the elements of each part, also if another part fails; return the first error.
fn deliver_all(
    py: Python<'_>,
    parts: &[Part],
    results: impl IntoIterator<Item = Option<Result<Arena>>>,
) -> PyResult<()> {
    let missed = || Err(Error::internal("a transfer did not start"));
    let ended = parts.iter().zip(results);
    let ended = ended.map(|(part, done)| part.deliver(py, done.unwrap_or_else(missed)));
    ended.fold(Ok(()), PyResult::and)
}

/// Group the parts that read the same array, also if it was opened more than once. An array with a
/// write buffer has a group for each part.
pub(super) fn group_by_array(parts: &[&Part]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut numbers = HashMap::new();
    for (index, part) in parts.iter().enumerate() {
        let base = part.base.get();
        let is_alone = part.writes || base.has_write_buffer();
        let location = (Arc::as_ptr(&part.store).cast::<()>(), &base.prefix, Arc::as_ptr(&part.state.array));
        let number = if is_alone { groups.len() } else { *numbers.entry(location).or_insert(groups.len()) };
        match groups.get_mut(number) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups
}

/// Run the parts of one group.
fn run_group(parts: &[&Part], alike: &[usize], interrupt: Option<Interrupt<'_>>, ended: Ended<'_>) {
    let Part { base, state, store, selection, memory, writes, .. } = parts[alike[0]];
    if let [_] = alike {
        return ended(0, base.get().transfer(state, &**store, interrupt, selection, memory, *writes));
    }
    let reads: Vec<(&Selection, *mut u8)> =
        alike.iter().map(|&index| (&parts[index].selection, parts[index].memory.address)).collect();
    // SAFETY: the safety conditions of each read hold, and each read has a separate destination.
    unsafe { read::read_group(base.get().operation(state, &**store, interrupt), &reads, ended) }
}

impl Part {
    fn concurrency(&self) -> usize {
        if self.writes {
            self.store.info().write_concurrency
        } else {
            self.store.concurrency()
        }
    }

    /// Copy the elements that were not read in place.
    fn spread(&self) -> Result<()> {
        self.spread.as_ref().map_or(Ok(()), Spread::copy)
    }

    fn deliver(&self, py: Python<'_>, done: Result<Arena>) -> PyResult<()> {
        let arena = done.map_err(|error| to_py(py, error))?;
        let elements = &self.state.description.bind(py).get().elements;
        if self.writes {
            return Ok(());
        }
        self.memory.deliver(elements, self.buffer.bind(py), arena)?;
        self.spread.iter().for_each(|spread| spread.deliver(py));
        Ok(())
    }

    /// Read in the calling thread; Ctrl-C raises the pending exception.
    pub(super) fn read(&self, py: Python<'_>) -> PyResult<()> {
        let Part { base, state, store, selection, memory, .. } = self;
        let work = |interrupt: Interrupt<'_>| {
            let arena = base.get().transfer(state, &**store, Some(interrupt), selection, memory, false)?;
            self.spread().map(|()| arena)
        };
        self.deliver(py, py.detach(|| run_interruptibly(work)).and_then(|done| done))
    }

    /// Report references to Python's garbage collector.
    pub(super) fn visit(&self, visit: &PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.base)?;
        visit.call(&self.buffer)?;
        self.spread.iter().try_for_each(|spread| spread.visit(visit))
    }
}

impl Transfer {
    fn concurrency(&self) -> usize {
        self.parts.iter().map(Part::concurrency).max().unwrap_or(0)
    }
}

/// The number of attempts to complete a future that signals interrupt.
const TIMES: usize = 8;

/// A running transfer.
struct RunningTransfer {
    transfer: Transfer,
    /// Receives an exception for the waiting thread, if that thread runs the transfer.
    raised: Option<Raised>,
    /// None: the future is complete.
    ends: Mutex<Option<PartResults>>,
}

/// The results of the parts of a transfer, and how many are missing.
struct PartResults {
    parts: Vec<Option<Result<Arena>>>,
    left: usize,
}

impl RunningTransfer {
    fn new(transfer: Transfer, raised: Option<&Raised>) -> Self {
        let left = transfer.parts.len();
        let parts = transfer.parts.iter().map(|_| None).collect();
        RunningTransfer {
            transfer,
            raised: raised.cloned(),
            ends: Mutex::new(Some(PartResults { parts, left })),
        }
    }

    fn ends(&self) -> MutexGuard<'_, Option<PartResults>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Record the result of a part; return whether it was the last one. A second result is ignored.
    fn end(&self, part: usize, done: Result<Arena>) -> bool {
        let mut ends = self.ends();
        let Some(PartResults { parts, left }) = &mut *ends else { return false };
        if parts[part].is_some() {
            return false;
        }
        parts[part] = Some(done);
        *left -= 1;
        *left == 0
    }

    /// Complete the future, once, with the result or the first error of the parts.
    fn complete(&self, py: Python<'_>) {
        let Some(PartResults { parts, .. }) = self.ends().take() else { return };
        let Some(future) = self.transfer.future.get(py) else { return };
        let end = match deliver_all(py, &self.transfer.parts, parts) {
            Ok(()) => (Some(&self.transfer.result), None),
            Err(error) => (None, Some(error.into_value(py))),
        };
        // Ctrl-C or an exception of a callback may interrupt the call. The loop completes the
        // future first.
        for _ in 0..TIMES {
            let told = future.call_method1(intern!(py, "_set_outcome"), (&end.0, &end.1));
            match (told, &self.raised) {
                (Ok(_), _) => break,
                (Err(raised), Some(waits)) => raise(waits, foreign(py, raised)),
                (Err(raised), None) => raised.write_unraisable(py, Some(&future)),
            }
        }
    }

    /// Return the transfer, unless its future is complete.
    fn into_incomplete(self) -> Option<Transfer> {
        let untold = self.ends().is_some();
        untold.then_some(self.transfer)
    }
}

/// Queued transfers that a worker thread runs.
#[pyclass(frozen, module = "tessarr._engine")]
pub(crate) struct PendingTransfer {
    queued: QueuedOperation,
    raised: Raised,
    slots: Vec<Arc<Slot>>,
    /// Whether the queued operation runs exactly the transfers of these slots.
    alone: bool,
}

impl PendingTransfer {
    fn new(slots: Vec<Arc<Slot>>, alone: bool, queue: impl FnOnce(Raised) -> QueuedOperation) -> Self {
        let raised = Raised::default();
        PendingTransfer { queued: queue(raised.clone()), raised, slots, alone }
    }

    /// Remove transfers that no thread has started from the queue; return whether there were any.
    fn withdraw(&self, condition: impl Fn(&Transfer) -> bool) -> bool {
        let taken: Vec<Transfer> = self.slots.iter().filter_map(|slot| slot.take_if(&condition)).collect();
        if !taken.is_empty() && self.alone && self.slots.iter().all(|slot| slot.is_empty()) {
            self.queued.withdraw();
        }
        !taken.is_empty()
    }
}

/// When the program drops all futures of the transfers, transfers with weak references leave the
/// queue.
impl Drop for PendingTransfer {
    fn drop(&mut self) {
        // A forked child does not touch the queue, whose entries belong to the parent.
        if self.queued.is_of_this_process() {
            self.withdraw(|transfer| matches!(transfer.future, FutureRef::Weak(_)));
        }
    }
}

#[pymethods]
impl PendingTransfer {
    /// Cancel the transfer of a future if no thread has started it; return whether it is cancelled.
    fn cancel(&self, future: &Bound<'_, PyAny>) -> bool {
        self.withdraw(|transfer| transfer.future.get(future.py()).is_some_and(|other| other.is(future)))
    }

    /// Run the transfers in this thread if no other thread has started them; Ctrl-C raises the
    /// pending exception.
    fn help(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.queued.help());
        let raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner).take();
        raised.map_or(Ok(()), |error| Err(to_py(py, error)))
    }
}
