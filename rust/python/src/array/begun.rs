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

use super::viewed::Spread;
use super::{interruptibly, ArrayBase, Memory, State};
use crate::error::{is_exit, to_py};

/// What is read or written, and the future that is told how it ended.
pub(crate) struct Transfer {
    pub parts: Vec<Part>,
    pub future: Py<PyAny>,
    pub result: Py<PyAny>,
}

/// What is read or written of one array.
pub(crate) struct Part {
    pub base: Py<ArrayBase>,
    pub state: Arc<State>,
    pub selection: Selection,
    pub memory: Memory,
    pub buffer: Py<PyUntypedArray>,
    pub writes: bool,
    /// Where what was read goes then.
    pub spread: Option<Spread>,
}

/// What Ctrl-C raised in the thread that waits.
type Raised = Arc<Mutex<Option<Error>>>;

/// How a transfer ended.
type Ended = OnceLock<Result<Arena>>;

/// Have threads of the engine do transfers; who waits for one of them may help.
pub(crate) fn begin(py: Python<'_>, transfers: Vec<Transfer>) -> Begun {
    let raised = Raised::default();
    let (concurrency, told) = (concurrency(&parts(&transfers)), raised.clone());
    // Where no thread can be made, it is done here: others may need the GIL for it.
    let queued = py.detach(|| pool::spawn(concurrency, move |runner| run(transfers, runner, &told)));
    Begun { queued, raised }
}

/// Have a thread of the engine read what is small, with all that was begun by then: to wake a thread,
/// and to be told by it, takes longer than the read does.
pub(super) fn begin_small(base: &Bound<'_, ArrayBase>, transfer: Transfer) -> Begun {
    let (py, raised, array) = (base.py(), Raised::default(), base.clone().unbind());
    let (concurrency, told) = (concurrency(&parts(std::slice::from_ref(&transfer))), raised.clone());
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

/// All parts, in their order.
fn parts(transfers: &[Transfer]) -> Vec<&Part> {
    transfers.iter().flat_map(|transfer| &transfer.parts).collect()
}

/// How many of them the stores want under way; 0: they do not wait.
fn concurrency(parts: &[&Part]) -> usize {
    parts.iter().map(|part| part.concurrency()).max().unwrap_or(0)
}

/// Do them, and tell the futures, whatever happens. Who waits may be interrupted, but what was
/// begun goes on: a worker does it again.
fn run(transfers: Vec<Transfer>, runner: Runner, told: &Raised) {
    let all = parts(&transfers);
    let ended: Vec<Ended> = all.iter().map(|_| Ended::new()).collect();
    match runner {
        Runner::Worker => drop(each(&all, &ended, None)),
        Runner::Caller => {
            if let Err(raised) = interruptibly(|interrupt| each(&all, &ended, Some(interrupt))) {
                *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(raised);
                let again = concurrency(&all);
                pool::spawn(again, move |_| run(transfers, Runner::Worker, &Raised::default()));
                return;
            }
        }
    }
    // At interpreter exit nobody waits any more.
    Python::try_attach(move |py| {
        let mut ended = ended.into_iter();
        for transfer in transfers {
            transfer.tell(py, &mut ended);
        }
    });
}

/// Do parts side by side, those that read the same array as one. What Ctrl-C raised in code of
/// Python ends it, where it is asked about.
fn each(parts: &[&Part], ended: &[Ended], interrupt: Option<Interrupt<'_>>) -> Result<()> {
    let alike = alike(parts);
    let some = |number: usize| {
        let reads = &alike[number];
        let done = pool::guarded(|| Ok(together(parts, reads, interrupt)));
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
    match concurrency(parts) {
        waiting if waiting > pool::threads() => pool::wait_for(alike.len(), waiting, asked, &some),
        _ => pool::parallel_for(alike.len(), usize::MAX, asked, &some),
    }
}

/// Which of them read the same array, also where it was opened more than once, and nothing is kept
/// aside of it.
fn alike(parts: &[&Part]) -> Vec<Vec<usize>> {
    let mut found: Vec<Vec<usize>> = Vec::new();
    let mut known = HashMap::new();
    for (index, part) in parts.iter().enumerate() {
        let base = part.base.get();
        let alone = part.writes || base.above.get().is_some();
        let place = (Arc::as_ptr(&base.store).cast::<()>(), &base.prefix, Arc::as_ptr(&part.state.array));
        let number = if alone { found.len() } else { *known.entry(place).or_insert(found.len()) };
        match found.get_mut(number) {
            Some(same) => same.push(index),
            None => found.push(vec![index]),
        }
    }
    found
}

/// Do those of `parts` that are `alike`.
fn together(parts: &[&Part], alike: &[usize], interrupt: Option<Interrupt<'_>>) -> Vec<Result<Arena>> {
    let Part { base, state, selection, memory, writes, .. } = parts[alike[0]];
    let done = if let [_] = alike {
        vec![base.get().transfer(state, interrupt, selection, memory, *writes)]
    } else {
        let reads: Vec<(&Selection, *mut u8)> =
            alike.iter().map(|&index| (&parts[index].selection, parts[index].memory.address)).collect();
        // SAFETY: as for one of them; who collects them gives each places of its own.
        unsafe { read::read_together(base.get().operation(state, interrupt), &reads) }
    };
    let spread = |(&index, done): (&usize, Result<Arena>)| {
        done.and_then(|arena| parts[index].spread.as_ref().map_or(Ok(()), Spread::copy).map(|()| arena))
    };
    alike.iter().zip(done).map(spread).collect()
}

impl Part {
    fn concurrency(&self) -> usize {
        let store = &self.base.get().store;
        if self.writes {
            store.write_concurrency()
        } else {
            store.concurrency()
        }
    }

    fn deliver(&self, py: Python<'_>, ended: Ended) -> PyResult<()> {
        let ended = ended.into_inner().unwrap_or_else(|| Err(Error::internal("a transfer was not begun")));
        let arena = ended.map_err(|error| to_py(py, error))?;
        let elements = &self.state.description.bind(py).get().elements;
        match self.writes {
            true => Ok(()),
            false => self.memory.deliver(elements, self.buffer.bind(py), arena),
        }
    }
}

impl Transfer {
    /// Tell the future how the parts ended: of several errors it is told the first.
    fn tell(self, py: Python<'_>, ended: &mut impl Iterator<Item = Ended>) {
        let ended = self.parts.iter().zip(ended).map(|(part, ended)| part.deliver(py, ended));
        // All are delivered, whatever becomes of one.
        let told = match ended.fold(Ok(()), PyResult::and) {
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
