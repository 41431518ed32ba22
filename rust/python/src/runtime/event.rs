//! `Event`: a thread waits until another thread of Python sets it.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::runtime::once_cell::intern;
use pyo3::prelude::*;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Event>()
}

/// The interval in which the main thread checks for signals.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A flag that threads wait for. At interpreter exit, Python ends a thread that waits for one of
/// Python's locks, with frames of Rust on the stack, and the process aborts. A thread that waits
/// for an event stays blocked instead.
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

    /// Wake all threads that wait, now and later.
    fn open(&self) {
        *self.is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
    }

    /// Wait until the event is open. An exception of a signal handler ends the wait.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        let look_every = is_main(py)?.then_some(LOOK_EVERY);
        while !py.detach(|| self.is_open_in(look_every)) {
            py.check_signals()?;
        }
        Ok(())
    }
}

impl Event {
    /// Wait for at most `time`, or forever without one. Return whether the event is open.
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

/// Return whether this is the thread that handles signals.
fn is_main(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import(intern!(py, "threading"))?;
    let main = threading.call_method0(intern!(py, "main_thread"))?.getattr(intern!(py, "ident"))?;
    threading.call_method0(intern!(py, "get_ident"))?.eq(main)
}
