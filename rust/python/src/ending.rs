//! The end of the program, which no thread of the engine should meet inside of Python.

use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// How many threads are inside of Python, or wait for the GIL. No lock, which a fork might copy locked.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// The process that has stores of Python; children of it by fork have none of its threads.
static PROCESS: OnceLock<u32> = OnceLock::new();

/// So long the end waits for threads that are inside: to let the GIL go, and have it again, takes far less. Who waits
/// there for something else is not waited for.
const LONGEST: Duration = Duration::from_millis(200);

/// Has the end of the program wait for threads that are inside of Python.
///
/// Python ends each of them where it next asks for the GIL, with all calls of Rust that it has on the stack, which
/// aborts the process.
pub(crate) fn prepare(py: Python<'_>) -> PyResult<()> {
    if PROCESS.set(process::id()).is_err() {
        return Ok(());
    }
    let leave = wrap_pyfunction!(leave, py)?;
    py.import("atexit")?.call_method1("register", (leave,)).map(drop)
}

#[pyfunction]
fn leave(py: Python<'_>) {
    if PROCESS.get() == Some(&process::id()) {
        py.detach(|| {
            let begun = Instant::now();
            while INSIDE.load(Ordering::Acquire) > 0 && begun.elapsed() < LONGEST {
                sleep(Duration::from_millis(1));
            }
        });
    }
}

struct Inside;

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, Ordering::Release);
    }
}

/// What `work` gives, with the GIL; None: Python shuts down.
pub(crate) fn attached<R>(work: impl for<'py> FnOnce(Python<'py>) -> R) -> Option<R> {
    INSIDE.fetch_add(1, Ordering::Relaxed);
    let _inside = Inside;
    Python::try_attach(work)
}
