//! The exit of the interpreter, while threads of the engine call Python.

use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// The number of threads that run Python code or wait for the GIL. It is not a lock, which a fork
/// could copy locked.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// The process that has stores written in Python. Its forked children have none of its threads.
static PROCESS: OnceLock<u32> = OnceLock::new();

/// The time that the exit waits for threads that run Python code. A release and reacquisition of
/// the GIL takes far less. The exit does not wait for threads that wait for another event.
const LONGEST: Duration = Duration::from_millis(200);

/// Make the interpreter's exit wait for threads that run Python code, so that short calls complete.
/// Threads that still run stop where they next need the GIL, see [`StopAtExit`].
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
            let start = Instant::now();
            while INSIDE.load(Ordering::Acquire) > 0 && start.elapsed() < LONGEST {
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

/// Run `work` with the GIL; None: the interpreter shuts down.
pub(crate) fn attached<R>(work: impl for<'py> FnOnce(Python<'py>) -> R) -> Option<R> {
    INSIDE.fetch_add(1, Ordering::Relaxed);
    let _inside = Inside;
    let _stop = StopAtExit::new();
    Python::try_attach(work)
}

#[cfg(target_os = "linux")]
use stop::StopAtExit;

#[cfg(target_os = "linux")]
mod stop {
    use std::cell::UnsafeCell;
    use std::ffi::{c_int, c_void};
    use std::marker::PhantomData;
    use std::mem::MaybeUninit;
    use std::thread::sleep;
    use std::time::Duration;

    /// glibc's `struct _pthread_cleanup_buffer`, and musl's `struct __ptcb`, which is shorter.
    type Buffer = MaybeUninit<[usize; 4]>;

    extern "C" {
        fn _pthread_cleanup_push(
            buffer: *mut Buffer,
            routine: extern "C" fn(*mut c_void),
            argument: *mut c_void,
        );
        fn _pthread_cleanup_pop(buffer: *mut Buffer, execute: c_int);
    }

    /// While it lives, `pthread_exit` stops the calling thread forever instead of unwinding its
    /// stack.
    ///
    /// Before Python 3.14, a finalizing interpreter calls `pthread_exit` in each thread that needs
    /// the GIL. glibc unwinds the stack then, and aborts the process at the first Rust function. A
    /// cleanup handler runs before glibc unwinds the frame that contains the handler's buffer.
    /// glibc compares addresses: a buffer outside of the stack belongs to every frame, so its
    /// handler runs before all Rust functions.
    pub(super) struct StopAtExit {
        buffer: Box<UnsafeCell<Buffer>>,
        /// The list of handlers belongs to the thread.
        _not_send: PhantomData<*mut ()>,
    }

    impl StopAtExit {
        pub(super) fn new() -> StopAtExit {
            let buffer = Box::new(UnsafeCell::new(Buffer::uninit()));
            // SAFETY: the buffer is large enough, and stays at its address until `drop` removes it
            // from the thread's list, in the same thread and in reverse order.
            unsafe { _pthread_cleanup_push(buffer.get(), stop, std::ptr::null_mut()) };
            StopAtExit { buffer, _not_send: PhantomData }
        }
    }

    impl Drop for StopAtExit {
        fn drop(&mut self) {
            // SAFETY: `new` has added the buffer, and later buffers are already removed.
            unsafe { _pthread_cleanup_pop(self.buffer.get(), 0) };
        }
    }

    extern "C" fn stop(_: *mut c_void) {
        loop {
            sleep(Duration::from_secs(3600));
        }
    }
}

/// On other platforms `pthread_exit` does not unwind.
#[cfg(not(target_os = "linux"))]
struct StopAtExit;

#[cfg(not(target_os = "linux"))]
impl StopAtExit {
    fn new() -> StopAtExit {
        StopAtExit
    }
}
