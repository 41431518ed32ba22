//! Numbered tasks, and who works on them.

use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// How often a calling thread asks whether it was interrupted.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(50);

/// The numbered tasks of one `parallel_for`, on the stack of its caller.
pub(super) struct Job<'a> {
    task: &'a (dyn Fn(usize) -> Result<()> + Sync),
    tasks: usize,
    /// The next task to hand out; `tasks` and more: none.
    next: AtomicUsize,
    /// Threads besides the caller that are at work; changed under the pool's lock.
    pub(super) active: AtomicUsize,
    /// Signals the end of the last of them.
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

    /// Run tasks until there are none. Never unwinds.
    pub(super) fn work(&self, watch: &mut Watch<'_>) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.tasks {
                return;
            }
            if let Err(error) = guarded(|| (self.task)(index)) {
                self.fail(index, error);
            }
            if watch.is_up() {
                self.stop();
            }
        }
    }

    pub(super) fn is_handed_out(&self) -> bool {
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
        // A callback's exception waits for its interpreter when it is dropped.
        drop(first);
        drop(other);
    }

    /// To be asked when no task runs any more.
    pub(super) fn outcome(self) -> Result<()> {
        match self.error.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }
}

/// `work`, whose panic becomes a `Kind::Internal` error.
pub fn guarded<R>(work: impl FnOnce() -> Result<R>) -> Result<R> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(panic)))
}

/// What a panic's payload says, as an error.
fn panicked(panic: Box<dyn Any + Send>) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    let error = Error::internal(format!("a task panicked: {text}"));
    // Its destructor could panic again, out of here.
    std::mem::forget(panic);
    error
}

/// Asks from time to time whether the operation was interrupted.
pub(super) struct Watch<'a> {
    interrupt: Option<&'a dyn Fn() -> bool>,
    asked: Option<Instant>,
    pub(super) interrupted: bool,
}

impl<'a> Watch<'a> {
    pub(super) fn new(interrupt: Option<&'a dyn Fn() -> bool>) -> Self {
        let asked = interrupt.is_some().then(Instant::now);
        Watch { interrupt, asked, interrupted: false }
    }

    /// A helper's, which asks nothing.
    pub(super) const BLIND: Watch<'static> = Watch { interrupt: None, asked: None, interrupted: false };

    /// How long until the next question; None: there is none to ask.
    pub(super) fn due_in(&self) -> Option<Duration> {
        let asked = self.asked.filter(|_| !self.interrupted)?;
        Some(INTERRUPT_INTERVAL.saturating_sub(asked.elapsed()))
    }

    /// Ask if it is time to, and say whether the answer was yes now. Never unwinds.
    pub(super) fn is_up(&mut self) -> bool {
        let (Some(interrupt), Some(Duration::ZERO)) = (self.interrupt, self.due_in()) else { return false };
        self.asked = Some(Instant::now());
        self.interrupted = catch_unwind(AssertUnwindSafe(interrupt)).unwrap_or(true);
        self.interrupted
    }
}
