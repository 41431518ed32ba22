//! Waiting for what another thread of Python does.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::runtime::once_cell::intern;
use pyo3::prelude::*;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Event>()
}

/// How often the main thread looks for signals.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Keeps who waits until it is opened.
///
/// Who waits for a lock of Python is ended by Python where it shuts down, with all that calls of Rust have on the
/// stack, which aborts the process. Here the thread stays, as all threads do that Python knows nothing of.
#[pyclass(frozen, module = "tessarr._engine")]
#[derive(Default)]
pub(crate) struct Event {
    is_open: Mutex<bool>,
    opened: Condvar,
}

#[pymethods]
impl Event {
    #[new]
    fn new() -> Self {
        Event::default()
    }

    /// Let go who waits, and who will.
    fn open(&self) {
        *self.is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
    }

    /// Wait until it is open. A signal handler that raises ends it early.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        let look_every = is_main(py)?.then_some(LOOK_EVERY);
        while !py.detach(|| self.is_open_in(look_every)) {
            py.check_signals()?;
        }
        Ok(())
    }
}

impl Event {
    /// Whether it is open, some time later at most; None: it will be.
    fn is_open_in(&self, time: Option<Duration>) -> bool {
        let is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_closed = |is_open: &mut bool| !*is_open;
        match time {
            Some(time) => {
                let waited = self.opened.wait_timeout_while(is_open, time, is_closed);
                *waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => *self.opened.wait_while(is_open, is_closed).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// Whether the thread is the one that handles signals.
fn is_main(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import(intern!(py, "threading"))?;
    let main = threading.call_method0(intern!(py, "main_thread"))?.getattr(intern!(py, "ident"))?;
    threading.call_method0(intern!(py, "get_ident"))?.eq(main)
}
