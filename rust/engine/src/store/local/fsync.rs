//! Synchronisation with the disk, and how many writes should wait for it concurrently.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A disk synchronises this many files about as fast as one.
pub(super) const TOGETHER: usize = 8;

/// The wait that is worth a thread, in microseconds.
const WORTH_US: u64 = 50;

/// Longer waits count as this long.
const MOST_US: u64 = 1000;

/// The moving average of waits in microseconds. File systems in memory do not wait.
pub(super) static LATELY_US: AtomicU64 = AtomicU64::new(200);

/// Wait until the data of `file` is on the disk.
pub(super) fn synchronise(file: &File) -> io::Result<()> {
    let begun = Instant::now();
    file.sync_data()?;
    let took = u64::try_from(begun.elapsed().as_micros()).unwrap_or(MOST_US);
    LATELY_US.store(next(LATELY_US.load(Ordering::Relaxed), took), Ordering::Relaxed);
    Ok(())
}

fn next(lately: u64, took: u64) -> u64 {
    (3 * lately + took.min(MOST_US)) / 4
}

/// How many writes should run concurrently; 0: they do not wait.
pub(super) fn concurrency() -> usize {
    if LATELY_US.load(Ordering::Relaxed) < WORTH_US {
        0
    } else {
        TOGETHER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_found_out_and_forgotten() {
        let mut lately = 200;
        for _ in 0..10 {
            lately = next(lately, 1);
        }
        assert!(lately < WORTH_US);
        assert!(next(lately, u64::MAX) > WORTH_US);
    }
}
