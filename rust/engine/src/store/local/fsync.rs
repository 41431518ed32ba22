//! Synchronisation with the disk, and how many writes should wait for it concurrently.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A disk synchronises this many files about as fast as one.
pub(super) const CONCURRENT_WRITES: usize = 8;

/// The wait that is worth a thread, in microseconds.
const MIN_WAIT_US: u64 = 50;

/// Longer waits count as this long.
const MAX_WAIT_US: u64 = 1000;

/// The moving average of waits in microseconds. File systems in memory do not wait.
pub(super) static AVERAGE_WAIT_US: AtomicU64 = AtomicU64::new(200);

/// Wait until the data of `file` is on the disk.
pub(super) fn synchronise(file: &File) -> io::Result<()> {
    let start = Instant::now();
    file.sync_data()?;
    let elapsed = u64::try_from(start.elapsed().as_micros()).unwrap_or(MAX_WAIT_US);
    AVERAGE_WAIT_US.store(next_average(AVERAGE_WAIT_US.load(Ordering::Relaxed), elapsed), Ordering::Relaxed);
    Ok(())
}

fn next_average(average: u64, elapsed: u64) -> u64 {
    (3 * average + elapsed.min(MAX_WAIT_US)) / 4
}

/// Return how many writes should run concurrently; 0: they do not wait.
pub(super) fn concurrency() -> usize {
    if AVERAGE_WAIT_US.load(Ordering::Relaxed) < MIN_WAIT_US {
        0
    } else {
        CONCURRENT_WRITES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn average_follows_short_and_long_waits() {
        let mut average = 200;
        for _ in 0..10 {
            average = next_average(average, 1);
        }
        assert!(average < MIN_WAIT_US);
        assert!(next_average(average, u64::MAX) > MIN_WAIT_US);
    }
}
