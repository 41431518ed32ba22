//! Transfers that somebody waits for: a thread of the engine does them, or who waits.

use std::sync::{Arc, Mutex, PoisonError};

use numpy::PyUntypedArray;
use pyo3::prelude::*;
use tessarr_engine::pool::{Queued, Runner};
use tessarr_engine::selection::Selection;
use tessarr_engine::vlen::Arena;
use tessarr_engine::{pool, Error, Result};

use super::{ArrayBase, Memory, State};
use crate::error::to_py;

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

impl Transfer {
    /// Have a thread of the engine do it; who waits for it may help.
    pub(super) fn begin(self, py: Python<'_>) -> Begun {
        let raised = Raised::default();
        let told = raised.clone();
        let together = self.together();
        // Where no thread can be made, it is done here: others may need the GIL for it.
        let queued = py.detach(|| pool::spawn(together, move |runner| self.run(runner, &told)));
        Begun { queued, raised }
    }

    /// How many of its kind the store wants under way; 0: it does not wait.
    fn together(&self) -> usize {
        let store = &self.base.get().store;
        if self.writes {
            store.write_concurrency()
        } else {
            store.concurrency()
        }
    }

    /// Do it, and tell the future, whatever happens. Who waits may be interrupted, but what was
    /// begun goes on: a worker does it again.
    fn run(self, runner: Runner, told: &Raised) {
        let this = self.base.get();
        let Transfer { state, selection, memory, writes, .. } = &self;
        let done = match runner {
            Runner::Worker => pool::guarded(|| this.transfer(state, None, selection, memory, *writes)),
            Runner::Caller => match this.transfer_here(state, selection, memory, *writes) {
                Ok(done) => done,
                Err(raised) => {
                    *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(raised);
                    pool::spawn(self.together(), move |_| self.run(Runner::Worker, &Raised::default()));
                    return;
                }
            },
        };
        self.tell(done);
    }

    fn tell(self, done: Result<Arena>) {
        // At interpreter exit nobody waits any more.
        Python::try_attach(move |py| {
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
            // All of Python's that is held here goes while Python is attached.
            drop(self);
        });
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
