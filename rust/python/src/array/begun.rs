//! Transfers that somebody waits for: a thread of the engine does them, or who waits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use numpy::PyUntypedArray;
use pyo3::prelude::*;
use tessarr_engine::operation::Interrupt;
use tessarr_engine::pool::{Queued, Runner};
use tessarr_engine::selection::Selection;
use tessarr_engine::vlen::Arena;
use tessarr_engine::{pool, read, Error, Result};

use super::{interruptibly, ArrayBase, Memory, State};
use crate::error::{is_exit, to_py};

/// What is read or written, and the future that is told how it ended.
pub(super) struct Transfer {
    pub base: Py<ArrayBase>,
    pub state: Arc<State>,
    pub selection: Selection,
    pub memory: Memory,
    pub buffer: Py<PyUntypedArray>,
    pub future: Py<PyAny>,
    pub result: Py<PyAny>,
    pub writes: bool,
}

/// What Ctrl-C raised in the thread that waits.
type Raised = Arc<Mutex<Option<Error>>>;

/// How a transfer ended.
type Ended = OnceLock<Result<Arena>>;

/// Have threads of the engine do transfers; who waits for one of them may help.
pub(super) fn begin(py: Python<'_>, transfers: Vec<Transfer>) -> Begun {
    let raised = Raised::default();
    let (concurrency, told) = (concurrency(&transfers), raised.clone());
    // Where no thread can be made, it is done here: others may need the GIL for it.
    let queued = py.detach(|| pool::spawn(concurrency, move |runner| run(transfers, runner, &told)));
    Begun { queued, raised }
}

/// Have a thread of the engine read what is small, with all that was begun by then: to wake a thread,
/// and to be told by it, takes longer than the read does.
pub(super) fn begin_small(base: &Bound<'_, ArrayBase>, transfer: Transfer) -> Begun {
    let (py, raised, array) = (base.py(), Raised::default(), base.clone().unbind());
    let (concurrency, told) = (transfer.concurrency(), raised.clone());
    let take = move |runner| {
        let transfers = array.get().waiting.take();
        if !transfers.is_empty() {
            run(transfers, runner, &told);
        }
    };
    let first = base.get().waiting.add(transfer);
    let queued = if first { py.detach(|| pool::spawn(concurrency, take)) } else { Queued::new(take) };
    Begun { queued, raised }
}

/// How many of them the stores want under way; 0: they do not wait.
fn concurrency(transfers: &[Transfer]) -> usize {
    transfers.iter().map(Transfer::concurrency).max().unwrap_or(0)
}

/// Do them, and tell the futures, whatever happens. Who waits may be interrupted, but what was
/// begun goes on: a worker does it again.
fn run(transfers: Vec<Transfer>, runner: Runner, told: &Raised) {
    let ended: Vec<Ended> = transfers.iter().map(|_| Ended::new()).collect();
    match runner {
        Runner::Worker => drop(each(&transfers, &ended, None)),
        Runner::Caller => {
            if let Err(raised) = interruptibly(|interrupt| each(&transfers, &ended, Some(interrupt))) {
                *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(raised);
                let again = concurrency(&transfers);
                pool::spawn(again, move |_| run(transfers, Runner::Worker, &Raised::default()));
                return;
            }
        }
    }
    // At interpreter exit nobody waits any more.
    Python::try_attach(move |py| {
        for (transfer, ended) in transfers.into_iter().zip(ended) {
            let ended = ended.into_inner();
            transfer.tell(py, ended.unwrap_or_else(|| Err(Error::internal("a transfer was not begun"))));
        }
    });
}

/// Do transfers side by side, those that read the same array as one. What Ctrl-C raised in code of
/// Python ends it, where it is asked about.
fn each(transfers: &[Transfer], ended: &[Ended], interrupt: Option<Interrupt<'_>>) -> Result<()> {
    let alike = alike(transfers);
    let some = |number: usize| {
        let reads = &alike[number];
        let done = pool::guarded(|| Ok(together(transfers, reads, interrupt)));
        let done = done.unwrap_or_else(|error| reads.iter().map(|_| Err(error.clone())).collect());
        for (&index, done) in reads.iter().zip(done) {
            match done {
                Err(error) if interrupt.is_some() && is_exit(&error) => return Err(error),
                done => drop(ended[index].set(done)),
            }
        }
        Ok(())
    };
    let asked = interrupt.map(|interrupt| interrupt as &dyn Fn() -> bool);
    match concurrency(transfers) {
        waiting if waiting > pool::threads() => pool::wait_for(alike.len(), waiting, asked, &some),
        _ => pool::parallel_for(alike.len(), usize::MAX, asked, &some),
    }
}

/// Which of them read the same array, where nothing is kept aside of it.
fn alike(transfers: &[Transfer]) -> Vec<Vec<usize>> {
    let mut found: Vec<Vec<usize>> = Vec::new();
    let mut known = HashMap::new();
    for (index, transfer) in transfers.iter().enumerate() {
        let alone = transfer.writes || transfer.base.get().above.get().is_some();
        let place = (transfer.base.as_ptr(), Arc::as_ptr(&transfer.state));
        let number = if alone { found.len() } else { *known.entry(place).or_insert(found.len()) };
        match found.get_mut(number) {
            Some(same) => same.push(index),
            None => found.push(vec![index]),
        }
    }
    found
}

/// Do those of `transfers` that are `alike`.
fn together(transfers: &[Transfer], alike: &[usize], interrupt: Option<Interrupt<'_>>) -> Vec<Result<Arena>> {
    let Transfer { base, state, selection, memory, writes, .. } = &transfers[alike[0]];
    if let [_] = alike {
        return vec![base.get().transfer(state, interrupt, selection, memory, *writes)];
    }
    let reads: Vec<(&Selection, *mut u8)> =
        alike.iter().map(|&index| (&transfers[index].selection, transfers[index].memory.address)).collect();
    // SAFETY: as for one of them; who collects them gives each a buffer of its own.
    unsafe { read::read_together(base.get().operation(state, interrupt), &reads) }
}

impl Transfer {
    fn concurrency(&self) -> usize {
        let store = &self.base.get().store;
        if self.writes {
            store.write_concurrency()
        } else {
            store.concurrency()
        }
    }

    fn tell(self, py: Python<'_>, done: Result<Arena>) {
        let elements = &self.state.description.bind(py).get().elements;
        let delivered = done.map_err(|error| to_py(py, error)).and_then(|arena| match self.writes {
            true => Ok(()),
            false => self.memory.deliver(elements, self.buffer.bind(py), arena),
        });
        let told = match delivered {
            Ok(()) => self.future.call_method1(py, "set_result", (&self.result,)),
            Err(error) => self.future.call_method1(py, "set_exception", (error,)),
        };
        // A cancelled future refuses its result: nothing to do.
        drop(told);
    }
}

/// An operation that a thread of the engine is to do.
#[pyclass(frozen, module = "tessarr._engine")]
pub(crate) struct Begun {
    queued: Queued,
    raised: Raised,
}

#[pymethods]
impl Begun {
    /// Do it in this thread, if no other has begun it; Ctrl-C raises what is pending.
    fn help(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.queued.help());
        let raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner).take();
        raised.map_or(Ok(()), |error| Err(to_py(py, error)))
    }
}
