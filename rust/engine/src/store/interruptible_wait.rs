//! Waiting, for others or for some time, that can be interrupted.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::error::Result;

/// How long a thread waits before it asks again.
pub(super) const ASK_EVERY: Duration = Duration::from_millis(50);

static CHECK: OnceLock<fn() -> Result<()>> = OnceLock::new();

/// Sets what a waiting thread asks about every 50 ms, with no lock of this process
/// held; an error ends its wait. The first call counts.
pub fn while_waiting(check: fn() -> Result<()>) {
    let _ = CHECK.set(check);
}

/// Whether the wait may go on.
pub(super) fn ask() -> Result<()> {
    CHECK.get().map_or(Ok(()), |check| check())
}

/// What another thread sends, unless the user interrupts; None: it sends nothing.
///
/// # Errors
/// Where the user does.
pub fn received<T>(from: &Receiver<T>) -> Result<Option<T>> {
    loop {
        match from.recv_timeout(ASK_EVERY) {
            Ok(found) => return Ok(Some(found)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => ask()?,
        }
    }
}

/// Sleeps, unless the user interrupts.
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

/// Waiting for somebody else, in steps that become longer.
///
/// Polls, instead of waiting inside the kernel, for three reasons: the wait ends
/// some time; a lock that a forked child inherited (it lives as long as the child)
/// does not hold us up; and no thread is stuck where no signal reaches it.
pub(crate) struct Wait {
    deadline: Option<Instant>,
    pause: Duration,
    asked: Option<Instant>,
}

impl Wait {
    /// At most so long, as far as the clock goes.
    pub(super) fn at_most(patience: Duration) -> Self {
        Wait { deadline: Instant::now().checked_add(patience), ..Wait::forever() }
    }

    pub(crate) fn forever() -> Self {
        Wait { deadline: None, pause: Duration::from_micros(20), asked: None }
    }

    /// Whether it took too long.
    pub(super) fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Sleeps a little longer than the last time, unless the user interrupts.
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
