//! Waits that the user can interrupt.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::error::Result;

/// The interval between checks for an interrupt.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(50);

static CHECK: OnceLock<fn() -> Result<()>> = OnceLock::new();

/// Set the check that waiting threads run every 50 ms, without holding a lock; an error ends the
/// wait. The first call wins.
pub fn set_interrupt_check(check: fn() -> Result<()>) {
    let _ = CHECK.set(check);
}

/// Return an error if the user has interrupted the wait.
pub(super) fn check_interrupt() -> Result<()> {
    CHECK.get().map_or(Ok(()), |check| check())
}

/// Receive from another thread, unless the user interrupts; None: the sender is gone.
///
/// # Errors
/// The error of an interrupt.
pub fn recv_interruptible<T>(receiver: &Receiver<T>) -> Result<Option<T>> {
    loop {
        match receiver.recv_timeout(CHECK_INTERVAL) {
            Ok(message) => return Ok(Some(message)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => check_interrupt()?,
        }
    }
}

/// Sleep, unless the user interrupts.
pub(super) fn sleep(duration: Duration) -> Result<()> {
    let mut remaining = duration;
    while remaining > CHECK_INTERVAL {
        std::thread::sleep(CHECK_INTERVAL);
        check_interrupt()?;
        remaining -= CHECK_INTERVAL;
    }
    if !remaining.is_zero() {
        std::thread::sleep(remaining);
    }
    Ok(())
}

/// A wait that polls with growing pauses.
///
/// Polling, instead of blocking in the kernel, ensures three properties: the wait is bounded; a
/// lock that a forked child inherited (and holds as long as it lives) does not block this process;
/// and signals reach every waiting thread.
pub(crate) struct Wait {
    deadline: Option<Instant>,
    pause: Duration,
    last_check: Option<Instant>,
}

impl Wait {
    /// Wait for at most `timeout`.
    pub(super) fn at_most(timeout: Duration) -> Self {
        Wait { deadline: Instant::now().checked_add(timeout), ..Wait::unlimited() }
    }

    pub(crate) fn unlimited() -> Self {
        Wait { deadline: None, pause: Duration::from_micros(20), last_check: None }
    }

    /// Return whether the time is over.
    pub(super) fn has_expired(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Sleep a little longer than the last time, unless the user interrupts.
    pub(crate) fn step(&mut self) -> Result<()> {
        let now = Instant::now();
        if now - *self.last_check.get_or_insert(now) >= CHECK_INTERVAL {
            check_interrupt()?;
            self.last_check = Some(now);
        }
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(Duration::from_millis(1));
        Ok(())
    }
}
