//! Threads that are made for tasks which wait, and end with them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Scope;

use super::job::{Job, Watch};
use super::{forget_pools_in_children, GENERATION};
use crate::error::{Error, Kind, Result};

/// The most threads that [`wait_for`] has made at a time, for all its callers.
pub(super) const MOST_HELPERS: usize = 256;

/// Those that there are.
pub(super) static HELPERS: AtomicUsize = AtomicUsize::new(0);

/// As [`parallel_for`], for tasks that wait for something far away: on up to `threads`
/// threads of their own, so that waiting keeps no worker from its work. To make a thread
/// costs far less than what it then waits for.
pub fn wait_for(
    tasks: usize,
    threads: usize,
    interrupt: Option<&dyn Fn() -> bool>,
    task: &(dyn Fn(usize) -> Result<()> + Sync),
) -> Result<()> {
    let job = Job::new(tasks, task);
    let mut watch = Watch::new(interrupt);
    std::thread::scope(|scope| {
        help(scope, 1, tasks.min(threads), &job);
        job.work(&mut watch);
    });
    if watch.interrupted {
        return Err(Error::new(Kind::Interrupted, "interrupted"));
    }
    job.outcome()
}

/// Begin thread `number` of `threads` if there is work for it, which begins the next one: of work
/// that turns out not to wait, nothing is left by then.
fn help<'s>(scope: &'s Scope<'s, '_>, number: usize, threads: usize, job: &'s Job<'_>) {
    let helper = (number < threads && !job.is_handed_out()).then(Helper::enlist).flatten();
    if let Some(helper) = helper {
        let named = std::thread::Builder::new().name(format!("tessarr-wait-{number}"));
        // Where there are no more threads, the others do it.
        let _ = named.spawn_scoped(scope, move || {
            help(scope, number + 1, threads, job);
            job.work(&mut { Watch::BLIND });
            drop(helper);
        });
    }
}

/// One of the threads of [`wait_for`].
pub(super) struct Helper {
    generation: u32,
}

impl Helper {
    /// One more; None: there are as many as may be.
    pub(super) fn enlist() -> Option<Helper> {
        forget_pools_in_children();
        let generation = GENERATION.load(Ordering::Relaxed);
        let more = |count| (count < MOST_HELPERS).then_some(count + 1);
        HELPERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Helper { generation })
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // In a child that it forked itself, none of the parent's are counted.
        if self.generation == GENERATION.load(Ordering::Relaxed) {
            HELPERS.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
