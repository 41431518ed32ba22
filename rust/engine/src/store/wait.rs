//! Lets a thread that waits for another writer be interrupted.

use std::sync::OnceLock;
use std::time::Duration;

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
