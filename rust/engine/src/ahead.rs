//! Chunks that are made ahead: while as many threads wait for a store as it wants, few others make what is stored
//! next.
//!
//! A chunk takes two steps, to be made and to be stored, and whoever takes a step does what is of most use then: as
//! many as there are cores make chunks, as long as few are ready; the others store what is. So there are encoders,
//! which may take much memory, for each core, and not for each request.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Error, Kind, Result};
use crate::operation::{Interrupt, Run};
use crate::pool;
use crate::scratch::Scratch;
use crate::store::{Change, Part};

/// Chunks of so many bytes may be ready.
const READY_BYTES: u64 = 64 << 20;

/// How often who waits asks whether it was interrupted.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// Makes the change of a chunk; None: only who stores it can.
pub(crate) type Make<'m, 'a> = &'m (dyn Fn(usize, &mut Scratch) -> Result<Option<Change<'a>>> + Sync);

/// Stores a chunk that was made, or makes it then.
pub(crate) type Store<'s, 'a> = &'s (dyn Fn(usize, Option<Change<'a>>, &mut Scratch) -> Result<()> + Sync);

/// What a step does.
enum Step<'a> {
    /// Make this chunk, which others store.
    Make(usize),
    /// Store what is ready.
    Store(Ready<'a>),
}

/// A chunk that is to be stored.
struct Ready<'a> {
    chunk: usize,
    change: Option<Change<'a>>,
}

impl Ready<'_> {
    fn bytes(&self) -> u64 {
        match &self.change {
            Some(Change::Write(parts)) => parts.iter().map(Part::size).sum(),
            _ => 0,
        }
    }
}

#[derive(Default)]
struct State<'a> {
    /// The first chunk that nobody has taken.
    next: usize,
    /// How many threads make chunks for others.
    makers: usize,
    /// How many store.
    storing: usize,
    ready: VecDeque<Ready<'a>>,
    bytes: u64,
    failed: bool,
}

struct Ahead<'a> {
    chunks: usize,
    /// How many are stored at a time, and may be ready.
    most: usize,
    /// How many threads make chunks for others.
    makers: usize,
    state: Mutex<State<'a>>,
    changed: Condvar,
}

impl<'a> Ahead<'a> {
    fn lock(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wait for something to do; None: all of it is done, or somebody else does it.
    fn take(&self, interrupt: Option<Interrupt<'_>>) -> Result<Option<Step<'a>>> {
        let mut state = self.lock();
        loop {
            let next = Some(state.next).filter(|&next| next < self.chunks);
            if state.failed || next.is_none() && state.ready.is_empty() && state.makers == 0 {
                self.changed.notify_all();
                return Ok(None);
            }
            if let Some(step) = self.step(&mut state, next) {
                return Ok(Some(step));
            }
            let waited = self.changed.wait_timeout(state, ASK_EVERY).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            if let (true, Some(interrupt)) = (waited.1.timed_out(), interrupt) {
                drop(state); // whoever is asked may do anything
                let is_interrupted = interrupt();
                state = self.lock();
                if is_interrupted {
                    state.failed = true;
                    self.changed.notify_all();
                    return Err(Error::new(Kind::Interrupted, "interrupted"));
                }
            }
        }
    }

    fn step(&self, state: &mut State<'a>, next: Option<usize>) -> Option<Step<'a>> {
        let may_store = state.storing < self.most;
        let is_short = state.ready.len() < self.most && state.bytes < READY_BYTES;
        match next {
            Some(chunk) if is_short && state.makers < self.makers => {
                state.next += 1;
                state.makers += 1;
                Some(Step::Make(chunk))
            }
            _ if may_store => {
                let ready = state.ready.pop_front()?;
                state.bytes -= ready.bytes();
                state.storing += 1;
                Some(Step::Store(ready))
            }
            _ => None,
        }
    }

    /// End a step.
    fn end(&self, done: Result<Option<Ready<'a>>>) -> Result<()> {
        let mut state = self.lock();
        let failure = match done {
            Ok(None) => {
                state.storing -= 1;
                None
            }
            Ok(Some(ready)) => {
                state.makers -= 1;
                state.bytes += ready.bytes();
                state.ready.push_back(ready);
                None
            }
            Err(error) => {
                state.failed = true;
                Some(error)
            }
        };
        drop(state);
        self.changed.notify_one();
        failure.map_or(Ok(()), Err)
    }
}

/// Make and store chunks, of which `most` are stored at a time. The first error ends it.
pub(crate) fn each<'a>(
    chunks: usize,
    most: usize,
    interrupt: Option<Interrupt<'_>>,
    make: Make<'_, 'a>,
    store: Store<'_, 'a>,
) -> Result<()> {
    let makers = pool::threads();
    let ahead = Ahead { chunks, most, makers, state: Mutex::default(), changed: Condvar::new() };
    let step = |step, scratch: &mut Scratch| match step {
        Step::Make(chunk) => Ok(Some(Ready { chunk, change: make(chunk, scratch)? })),
        Step::Store(ready) => store(ready.chunk, ready.change, scratch).map(|()| None),
    };
    let caller = std::thread::current().id();
    let asked = || interrupt.filter(|_| std::thread::current().id() == caller); // others are told nothing
    Run::Waiting(most + makers).each(2 * chunks, interrupt, &|_, scratch| match ahead.take(asked())? {
        Some(taken) => ahead.end(pool::guarded(|| step(taken, scratch))),
        None => Ok(()),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const CHUNKS: usize = 200;
    const MOST: usize = 5;

    fn made(chunk: usize) -> Change<'static> {
        Change::Write(vec![Part::Owned(vec![0; chunk])])
    }

    #[test]
    fn every_chunk_is_stored_once() {
        let (stored, storing, made_now) = (Mutex::new(Vec::new()), AtomicUsize::new(0), AtomicUsize::new(0));
        let make = |chunk: usize, _: &mut Scratch| {
            let most = 2 * MOST + pool::threads(); // stored, ready, and in work
            assert!(made_now.fetch_add(1, Ordering::SeqCst) < most);
            Ok((chunk % 3 != 0).then(|| made(chunk)))
        };
        let store = |chunk: usize, change: Option<Change<'_>>, _: &mut Scratch| {
            assert!(storing.fetch_add(1, Ordering::SeqCst) < MOST);
            std::thread::sleep(Duration::from_micros(200));
            let bytes = match change {
                Some(Change::Write(parts)) => Some(parts[0].size()),
                _ => None,
            };
            stored.lock().unwrap().push((chunk, bytes));
            storing.fetch_sub(1, Ordering::SeqCst);
            made_now.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        };
        each(CHUNKS, MOST, None, &make, &store).unwrap();
        let mut stored = stored.into_inner().unwrap();
        stored.sort_unstable();
        let expected = (0..CHUNKS).map(|chunk| (chunk, (chunk % 3 != 0).then_some(chunk as u64)));
        assert_eq!(stored, expected.collect::<Vec<_>>());
    }

    #[test]
    fn an_error_of_either_step_ends_it() {
        for in_make in [true, false] {
            let count = AtomicUsize::new(0);
            let fail = |chunk: usize, is_here: bool| match is_here && chunk == 20 {
                true => Err(Error::internal("twenty")),
                false => Ok(()),
            };
            let make = |chunk: usize, _: &mut Scratch| fail(chunk, in_make).map(|()| Some(made(chunk)));
            let store = |chunk: usize, _: Option<Change<'_>>, _: &mut Scratch| {
                count.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_micros(200));
                fail(chunk, !in_make)
            };
            assert_eq!(each(CHUNKS, MOST, None, &make, &store).unwrap_err().message, "twenty");
            assert!(count.into_inner() < CHUNKS);
        }
    }

    #[test]
    fn who_waits_is_interrupted() {
        let (asked, changed) = (Mutex::new(false), Condvar::new());
        let caller = std::thread::current().id();
        let interrupt = || {
            let is_caller = std::thread::current().id() == caller;
            if is_caller {
                *asked.lock().unwrap() = true;
                changed.notify_all();
            }
            is_caller
        };
        let make = |chunk: usize, _: &mut Scratch| Ok(Some(made(chunk)));
        let store = |_: usize, _: Option<Change<'_>>, _: &mut Scratch| {
            if std::thread::current().id() == caller {
                std::thread::sleep(Duration::from_millis(1)); // it is asked between its steps, too
            } else {
                let limit = Duration::from_secs(20);
                let waited = changed.wait_timeout_while(asked.lock().unwrap(), limit, |asked| !*asked);
                assert!(*waited.unwrap().0, "nobody has asked");
            }
            Ok(())
        };
        let done = each(CHUNKS, 1, Some(&interrupt), &make, &store);
        assert_eq!(done.unwrap_err().kind, Kind::Interrupted);
    }

    #[test]
    fn few_bytes_are_ready() {
        let (bytes, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let size = READY_BYTES as usize / 4;
        let make = |_: usize, _: &mut Scratch| {
            most.fetch_max(bytes.fetch_add(size, Ordering::SeqCst) + size, Ordering::SeqCst);
            Ok(Some(made(size)))
        };
        let store = |_: usize, _: Option<Change<'_>>, _: &mut Scratch| {
            std::thread::sleep(Duration::from_millis(2));
            bytes.fetch_sub(size, Ordering::SeqCst);
            Ok(())
        };
        each(40, 16, None, &make, &store).unwrap();
        assert!(most.into_inner() <= size * (4 + 16 + 2 * pool::threads()));
    }
}
