//! Timers of a process, served by one thread.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::fork;

/// How often the thread checks whether entries are still needed.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

type Work = Box<dyn FnOnce() + Send>;

/// Work and its due time.
struct Entry {
    due: Instant,
    is_active: Box<dyn Fn() -> bool + Send>,
    work: Work,
}

/// The pending entries; a thread runs while any exist.
#[derive(Default)]
struct Timer {
    entries: Mutex<Entries>,
    added: Condvar,
}

#[derive(Default)]
struct Entries {
    all: Vec<Entry>,
    has_thread: bool,
}

impl Timer {
    /// Return the timer of this process.
    fn get() -> &'static Timer {
        static TIMER: OnceLock<fork::PerProcess<Timer>> = OnceLock::new();
        TIMER.get_or_init(fork::PerProcess::new).get()
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Run each entry when it is due, or drop it once it is not needed.
    fn serve(&'static self) {
        let mut entries = self.lock();
        while !entries.all.is_empty() {
            let now = Instant::now();
            let (mut finished, all): (Vec<_>, Vec<_>) =
                entries.all.drain(..).partition(|entry| entry.due <= now || !(entry.is_active)());
            entries.all = all;
            if !finished.is_empty() {
                drop(entries);
                finished.sort_by_key(|entry| entry.due);
                finished.into_iter().for_each(|entry| finish(entry, now));
                entries = self.lock();
                continue;
            }
            let remaining =
                entries.all.iter().map(|entry| entry.due - now).fold(CHECK_INTERVAL, Duration::min);
            entries = self.added.wait_timeout(entries, remaining).unwrap_or_else(PoisonError::into_inner).0;
        }
        entries.has_thread = false;
    }
}

/// Run `work`, which is short, after `delay`, unless `is_active` returns false before: then it is
/// dropped soon. If no thread can be created, it runs now.
pub(super) fn run_after(
    delay: Duration,
    is_active: impl Fn() -> bool + Send + 'static,
    work: impl FnOnce() + Send + 'static,
) {
    let timer = Timer::get();
    let now = Instant::now();
    let due = now.checked_add(delay).unwrap_or(now);
    let mut entries = timer.lock();
    entries.all.push(Entry { due, is_active: Box::new(is_active), work: Box::new(work) });
    if entries.has_thread {
        timer.added.notify_one();
        return;
    }
    entries.has_thread = true;
    drop(entries);
    let thread = std::thread::Builder::new().name("tessarr-timer".to_owned());
    if thread.spawn(move || timer.serve()).is_err() {
        let remaining = {
            let mut entries = timer.lock();
            entries.has_thread = false;
            std::mem::take(&mut entries.all)
        };
        remaining.into_iter().for_each(|entry| finish(entry, due));
    }
}

/// Run an entry that is due, or drop it; the panic hook reports a panic.
fn finish(entry: Entry, now: Instant) {
    let end = || match entry.due <= now {
        true => (entry.work)(),
        false => drop(entry.work),
    };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(end)) {
        std::mem::forget(panic);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn entries_run_in_the_order_of_their_due_times() {
        let (sender, receiver) = channel();
        for number in [3, 1, 2] {
            let sender = sender.clone();
            let work = move || {
                let _ = sender.send(number);
            };
            run_after(Duration::from_millis(20 * number), || true, work);
        }
        drop(sender);
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn inactive_entry_is_dropped() {
        let (sender, receiver) = channel::<()>();
        let work = move || {
            let _ = sender.send(());
        };
        run_after(Duration::from_secs(3600), || false, work);
        assert!(receiver.recv().is_err());
    }
}
