//! Work that is to be done later, by one thread for all of it.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::fork;

type Work = Box<dyn FnOnce() + Send>;

/// What is to be done, which has a thread as long as there is something.
#[derive(Default)]
struct Agenda {
    entries: Mutex<Entries>,
    added: Condvar,
}

#[derive(Default)]
struct Entries {
    due: Vec<(Instant, Work)>,
    has_thread: bool,
}

impl Agenda {
    /// That of this process.
    fn get() -> &'static Agenda {
        static AGENDA: OnceLock<fork::Own<Agenda>> = OnceLock::new();
        AGENDA.get_or_init(fork::Own::new).get()
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Do everything when it is due.
    fn serve(&'static self) {
        let mut entries = self.lock();
        loop {
            let first = (0..entries.due.len()).min_by_key(|&at| entries.due[at].0);
            let Some(first) = first else {
                entries.has_thread = false;
                return;
            };
            let left = entries.due[first].0.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let (_, work) = entries.due.swap_remove(first);
                drop(entries);
                done(work);
                entries = self.lock();
            } else {
                entries = self.added.wait_timeout(entries, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

/// Do `work`, which does not take long, after a time. Where no thread can be made that waits, it is done now.
pub(super) fn after(time: Duration, work: impl FnOnce() + Send + 'static) {
    let agenda = Agenda::get();
    let now = Instant::now();
    let due = now.checked_add(time).unwrap_or(now);
    let mut entries = agenda.lock();
    entries.due.push((due, Box::new(work)));
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
            std::mem::take(&mut entries.due)
        };
        left.into_iter().for_each(|(_, work)| done(work));
    }
}

/// Do it; the panic hook has told of a panic.
fn done(work: Work) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
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
            after(Duration::from_millis(20 * number), move || {
                let _ = tell.send(number);
            });
        }
        drop(tell);
        assert_eq!(told.iter().collect::<Vec<_>>(), [1, 2, 3]);
    }
}
