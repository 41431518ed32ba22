//! Timers of a process, served by one thread.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::fork;

/// How often the thread checks whether entries are still needed.
const ASK_EVERY: Duration = Duration::from_millis(50);

type Work = Box<dyn FnOnce() + Send>;

/// Work and its due time.
struct Entry {
    due: Instant,
    wanted: Box<dyn Fn() -> bool + Send>,
    work: Work,
}

/// The pending entries; a thread exists while there are any.
#[derive(Default)]
struct Agenda {
    entries: Mutex<Entries>,
    added: Condvar,
}

#[derive(Default)]
struct Entries {
    all: Vec<Entry>,
    has_thread: bool,
}

impl Agenda {
    /// The timer of this process.
    fn get() -> &'static Agenda {
        static AGENDA: OnceLock<fork::Own<Agenda>> = OnceLock::new();
        AGENDA.get_or_init(fork::Own::new).get()
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Run each entry when it is due, or drop it once it is not needed.
    fn serve(&'static self) {
        let mut entries = self.lock();
        while !entries.all.is_empty() {
            let now = Instant::now();
            let (mut over, all): (Vec<_>, Vec<_>) =
                entries.all.drain(..).partition(|entry| entry.due <= now || !(entry.wanted)());
            entries.all = all;
            if !over.is_empty() {
                drop(entries);
                over.sort_by_key(|entry| entry.due);
                over.into_iter().for_each(|entry| done(entry, now));
                entries = self.lock();
                continue;
            }
            let left = entries.all.iter().map(|entry| entry.due - now).fold(ASK_EVERY, Duration::min);
            entries = self.added.wait_timeout(entries, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        entries.has_thread = false;
    }
}

/// Run `work`, which is short, after `delay`, unless `is_active` returns false before: then it is
/// dropped soon. If no thread can be created, it runs now.
pub(super) fn after(
    time: Duration,
    wanted: impl Fn() -> bool + Send + 'static,
    work: impl FnOnce() + Send + 'static,
) {
    let agenda = Agenda::get();
    let now = Instant::now();
    let due = now.checked_add(time).unwrap_or(now);
    let mut entries = agenda.lock();
    entries.all.push(Entry { due, wanted: Box::new(wanted), work: Box::new(work) });
    if entries.has_thread {
        agenda.added.notify_one();
        return;
    }
    entries.has_thread = true;
    drop(entries);
    let named = std::thread::Builder::new().name("tessarr-later".to_owned());
    if named.spawn(move || agenda.serve()).is_err() {
        let left = {
            let mut entries = agenda.lock();
            entries.has_thread = false;
            std::mem::take(&mut entries.all)
        };
        left.into_iter().for_each(|entry| done(entry, due));
    }
}

/// Run an entry that is due, or drop it; the panic hook reports a panic.
fn done(entry: Entry, now: Instant) {
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
    fn what_is_due_first_is_done_first() {
        let (tell, told) = channel();
        for number in [3, 1, 2] {
            let tell = tell.clone();
            let work = move || {
                let _ = tell.send(number);
            };
            after(Duration::from_millis(20 * number), || true, work);
        }
        drop(tell);
        assert_eq!(told.iter().collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn what_nobody_wants_any_more_is_let_go() {
        let (tell, told) = channel::<()>();
        let work = move || {
            let _ = tell.send(());
        };
        after(Duration::from_secs(3600), || false, work);
        assert!(told.recv().is_err());
    }
}
