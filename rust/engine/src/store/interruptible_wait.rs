//! Waits that the user can interrupt.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::error::Result;

/// The interval between checks for an interrupt.
pub(super) const ASK_EVERY: Duration = Duration::from_millis(50);

static CHECK: OnceLock<fn() -> Result<()>> = OnceLock::new();

/// Set the check that waiting threads run every 50 ms, without holding a lock; an error ends the
/// wait. The first call wins.
pub fn while_waiting(check: fn() -> Result<()>) {
    let _ = CHECK.set(check);
}

/// Return an error if the user has interrupted the wait.
pub(super) fn ask() -> Result<()> {
    CHECK.get().map_or(Ok(()), |check| check())
}

/// Receive from another thread, unless the user interrupts; None: the sender is gone.
///
/// # Errors
/// The error of an interrupt.
pub fn received<T>(from: &Receiver<T>) -> Result<Option<T>> {
    loop {
        match from.recv_timeout(ASK_EVERY) {
            Ok(found) => return Ok(Some(found)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => ask()?,
        }
    }
}

/// Sleep, unless the user interrupts.
pub(super) fn sleep(duration: Duration) -> Result<()> {
    let mut left = duration;
    while left > ASK_EVERY {
        std::thread::sleep(ASK_EVERY);
        ask()?;
        left -= ASK_EVERY;
    }
    if !left.is_zero() {
        std::thread::sleep(left);
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
    asked: Option<Instant>,
}

impl Wait {
    /// Wait for at most `timeout`.
    pub(super) fn at_most(patience: Duration) -> Self {
        Wait { deadline: Instant::now().checked_add(patience), ..Wait::forever() }
    }

    pub(crate) fn forever() -> Self {
        Wait { deadline: None, pause: Duration::from_micros(20), asked: None }
    }

    /// Whether the time is over.
    pub(super) fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Sleep a little longer than the last time, unless the user interrupts.
    pub(crate) fn a_little(&mut self) -> Result<()> {
        let now = Instant::now();
        if now - *self.asked.get_or_insert(now) >= ASK_EVERY {
            ask()?;
            self.asked = Some(now);
        }
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(Duration::from_millis(1));
        Ok(())
    }
}
