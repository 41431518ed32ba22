//! Numbered tasks that several threads run, and the check for interrupts.

use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// The interval at which a calling thread checks for an interrupt.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(50);

/// The numbered tasks of one `parallel_for`, on the stack of its caller.
pub(super) struct Job<'a> {
    task: &'a (dyn Fn(usize) -> Result<()> + Sync),
    tasks: usize,
    /// The next task to hand out; from `tasks` on, none.
    next: AtomicUsize,
    /// The number of working threads besides the caller; changed under the pool's lock.
    pub(super) active: AtomicUsize,
    /// Signals that the last of them has finished.
    pub(super) done: Condvar,
    /// The error of the lowest task so far.
    error: Mutex<Option<(usize, Error)>>,
}

impl<'a> Job<'a> {
    pub(super) fn new(tasks: usize, task: &'a (dyn Fn(usize) -> Result<()> + Sync)) -> Self {
        Job {
            task,
            tasks,
            next: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
            done: Condvar::new(),
            error: Mutex::new(None),
        }
    }

    /// Run tasks until none are left. Never unwinds.
    pub(super) fn work(&self, check: &mut InterruptCheck<'_>) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.tasks {
                return;
            }
            if let Err(error) = guarded(|| (self.task)(index)) {
                self.fail(index, error);
            }
            if check.check() {
                self.stop();
            }
        }
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= self.tasks
    }

    /// Hand out no more tasks.
    fn stop(&self) {
        self.next.store(self.tasks, Ordering::Relaxed);
    }

    fn fail(&self, index: usize, error: Error) {
        self.stop();
        let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        let other = if first.as_ref().is_none_or(|(lowest, _)| index < *lowest) {
            first.replace((index, error)).map(|(_, other)| other)
        } else {
            Some(error)
        };
        // Dropping the exception of a callback waits for its interpreter.
        drop(first);
        drop(other);
    }

    /// Return the outcome, once no task runs any more.
    pub(super) fn outcome(self) -> Result<()> {
        match self.error.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }
}

/// `work`, with a panic as a `Kind::Internal` error.
pub fn guarded<R>(work: impl FnOnce() -> Result<R>) -> Result<R> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panic_error(panic)))
}

/// Return the message of a panic, as an error.
fn panic_error(panic: Box<dyn Any + Send>) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    let error = Error::internal(format!("a task panicked: {text}"));
    // Its destructor could panic again.
    std::mem::forget(panic);
    error
}

/// Checks from time to time whether the operation was interrupted.
pub(super) struct InterruptCheck<'a> {
    interrupt: Option<&'a dyn Fn() -> bool>,
    last_check: Option<Instant>,
    pub(super) interrupted: bool,
}

impl<'a> InterruptCheck<'a> {
    pub(super) fn new(interrupt: Option<&'a dyn Fn() -> bool>) -> Self {
        let last_check = interrupt.is_some().then(Instant::now);
        InterruptCheck { interrupt, last_check, interrupted: false }
    }

    /// The check of a helper, which never checks.
    pub(super) const DISABLED: InterruptCheck<'static> =
        InterruptCheck { interrupt: None, last_check: None, interrupted: false };

    /// Return the time until the next check; None: this check is disabled.
    pub(super) fn time_to_check(&self) -> Option<Duration> {
        let last_check = self.last_check.filter(|_| !self.interrupted)?;
        Some(INTERRUPT_INTERVAL.saturating_sub(last_check.elapsed()))
    }

    /// Check for an interrupt if a check is due. Return true if this check detects one. Never
    /// unwinds.
    pub(super) fn check(&mut self) -> bool {
        let (Some(interrupt), Some(Duration::ZERO)) = (self.interrupt, self.time_to_check()) else {
            return false;
        };
        self.last_check = Some(Instant::now());
        self.interrupted = catch_unwind(AssertUnwindSafe(interrupt)).unwrap_or(true);
        self.interrupted
    }
}
