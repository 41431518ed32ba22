//! Values that a store is given together: each is made by whichever thread is free, and no thread waits until one of
//! them is stored.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::array::PerAxis;
use crate::error::{Error, Kind, Result};
use crate::pipeline::operation::{Interrupt, Run};
use crate::pool;
use crate::scratch::Scratch;
use crate::store::{fork, AsyncPut, CancelToken, Completion};

/// Values of so many bytes may be ready, beside those that are under way.
const READY_BYTES: usize = 64 << 20;

/// How often who waits asks whether it was interrupted.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// A chunk that was made.
pub(crate) struct Departing {
    pub(crate) key: String,
    pub(crate) cell: PerAxis<u64>,
    pub(crate) value: Arc<Vec<u8>>,
}

/// Makes the value of a task; None: there is none, or what is there is needed for it.
pub(crate) type Make<'m> = &'m (dyn Fn(usize, &mut Scratch) -> Result<Option<Departing>> + Sync);

/// Does a task, and waits until it is done.
pub(crate) type Wait<'w> = &'w (dyn Fn(usize, &mut Scratch) -> Result<()> + Sync);

/// What is ready, and what is under way.
struct Departures {
    put: Arc<dyn AsyncPut>,
    /// How many are under way at a time, and may be ready.
    most: usize,
    /// Of the process.
    generation: u64,
    state: Mutex<State>,
    /// There is room for what is made, or what was waited for is done.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Departing>,
    bytes: usize,
    under_way: usize,
    /// Somebody gives the store what is ready.
    giving: bool,
    /// How many threads wait: until no more than so many are under way, or for room.
    waiting: usize,
    awaited: Option<usize>,
    /// Nothing more is to be stored: why.
    ended: Option<Error>,
}

impl State {
    fn has_room(&self, most: usize) -> bool {
        self.ready.len() < most && self.bytes < READY_BYTES
    }

    /// Whether those who wait are to look: who looked at every change would do little else.
    fn is_awaited(&self, most: usize) -> bool {
        let is_over = match self.awaited {
            Some(few) => self.is_settled(few),
            None => self.ready.len() * 2 <= most && self.bytes * 2 <= READY_BYTES,
        };
        self.waiting > 0 && is_over
    }

    fn is_settled(&self, few: usize) -> bool {
        self.ready.is_empty() && self.under_way <= few
    }
}

/// Make the values of 0..tasks and have them stored, at most `most` at a time; do those tasks that have none with
/// `wait`. The first error ends it, when what is under way is done.
pub(crate) fn each(
    put: Arc<dyn AsyncPut>,
    tasks: usize,
    most: usize,
    interrupt: Option<Interrupt<'_>>,
    make: Make<'_>,
    wait: Wait<'_>,
) -> Result<()> {
    fork::register();
    let departures = &Departures::new(put, most);
    let asks = || {
        let is_asked = interrupt.is_some_and(|interrupt| interrupt());
        if is_asked {
            departures.end(interrupted()); // at once: others may wait for room
        }
        is_asked
    };
    let interrupt = interrupt.map(|_| &asks as Interrupt<'_>);
    let caller = std::thread::current().id();
    let asked = || interrupt.filter(|_| std::thread::current().id() == caller); // others are told nothing
    let left = Mutex::new(Vec::new());
    let one = |task, scratch: &mut Scratch| {
        departures.wait_for_room(asked())?;
        match make(task, scratch)? {
            Some(value) => departures.add(value),
            None => left.lock().unwrap_or_else(PoisonError::into_inner).push(task),
        }
        Ok(())
    };
    let made = Run::Waiting(pool::threads()).each(tasks, interrupt, &|task, scratch| {
        pool::guarded(|| one(task, scratch)).inspect_err(|error| departures.end(error.clone()))
    });
    let left = left.into_inner().unwrap_or_else(PoisonError::into_inner);
    let done = made.and_then(|()| {
        let threads = left.len().min(most);
        departures.settle(most - threads, interrupt)?;
        Run::Waiting(threads).each(left.len(), interrupt, &|task, scratch| wait(left[task], scratch))
    });
    if let Err(error) = done {
        departures.end(error);
    }
    departures.settle(0, interrupt)
}

fn interrupted() -> Error {
    Error::new(Kind::Interrupted, "interrupted")
}

impl Departures {
    fn new(put: Arc<dyn AsyncPut>, most: usize) -> Arc<Self> {
        let generation = fork::generation();
        Arc::new(Departures { put, most, generation, state: Mutex::default(), changed: Condvar::new() })
    }

    /// An error in a child that a task has forked: what is under way is so in the parent, perhaps with the lock.
    fn check_own(&self) -> Result<()> {
        match self.generation == fork::generation() {
            true => Ok(()),
            false => Err(Error::internal("a task of a parallel operation forked the process")),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wait until there is room for what is to be made.
    fn wait_for_room(&self, interrupt: Option<Interrupt<'_>>) -> Result<()> {
        self.wait(interrupt, |state| state.ended.is_some() || state.has_room(self.most))?;
        self.lock().ended.clone().map_or(Ok(()), Err)
    }

    /// Wait until at most so many are under way, and nothing is ready, or all has ended.
    fn settle(&self, few: usize, interrupt: Option<Interrupt<'_>>) -> Result<()> {
        self.check_own()?;
        self.lock().awaited = Some(few);
        let is_settled = |state: &State| state.is_settled(few);
        if let Err(error) = self.wait(interrupt, is_settled) {
            self.end(error);
            self.check_own()?;
            self.wait(None, is_settled)?; // what is under way is done
        }
        let mut state = self.lock();
        state.awaited = None;
        state.ended.clone().map_or(Ok(()), Err)
    }

    fn wait(&self, interrupt: Option<Interrupt<'_>>, is_over: impl Fn(&State) -> bool) -> Result<()> {
        self.check_own()?;
        let mut state = self.lock();
        while !is_over(&state) {
            state.waiting += 1;
            let waited = self.changed.wait_timeout(state, ASK_EVERY).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            state.waiting -= 1;
            if waited.1.timed_out() {
                drop(state); // whoever is asked may do anything
                if interrupt.is_some_and(|interrupt| interrupt()) {
                    return Err(interrupted());
                }
                self.check_own()?;
                state = self.lock();
            }
        }
        Ok(())
    }

    fn add(self: &Arc<Self>, value: Departing) {
        if self.check_own().is_err() {
            return; // who waits is told
        }
        let mut state = self.lock();
        if state.ended.is_none() {
            state.bytes += value.value.len();
            state.ready.push_back(value);
        }
        drop(state);
        self.go();
    }

    /// Give the store what it may be given now. What it tells meanwhile are no calls inside of this one.
    fn go(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.giving {
            return; // who does looks again
        }
        state.giving = true;
        while state.under_way < self.most {
            let Some(Departing { key, cell, value }) = state.ready.pop_front() else { break };
            state.bytes -= value.len();
            state.under_way += 1;
            drop(state);
            let mut departed = Departed { departures: Some(self.clone()), key: key.clone(), cell };
            let told = Completion::new(self.clone(), move |done| departed.is_told(done.map(drop)));
            // The panic hook tells of a panic; what was to be told has told that there was no answer.
            let _ = pool::guarded(|| {
                self.put.put(&key, &value, told);
                Ok(())
            });
            state = self.lock();
        }
        state.giving = false;
        let is_awaited = state.is_awaited(self.most);
        drop(state);
        if is_awaited {
            self.changed.notify_all();
        }
    }

    /// Nothing more is to be stored.
    fn end(&self, error: Error) {
        if self.check_own().is_err() {
            return;
        }
        let mut state = self.lock();
        let mut error = Some(error);
        if state.ended.is_none() {
            state.ended = error.take();
        }
        state.bytes = 0;
        let left = std::mem::take(&mut state.ready);
        drop(state);
        self.changed.notify_all();
        drop((error, left)); // not while it is locked: an exception of Python is let go with the GIL
    }
}

impl CancelToken for Departures {
    fn is_active(&self) -> bool {
        self.lock().ended.is_none()
    }
}

/// A value that is under way.
struct Departed {
    /// None: it was told what became of it.
    departures: Option<Arc<Departures>>,
    key: String,
    cell: PerAxis<u64>,
}

impl Departed {
    fn is_told(&mut self, done: Result<()>) {
        let Some(departures) = self.departures.take() else { return };
        if let Err(error) = done {
            departures.end(error.at_key(&self.key).at_chunk(&self.cell));
        }
        departures.lock().under_way -= 1;
        departures.go();
    }
}

impl Drop for Departed {
    fn drop(&mut self) {
        // In a forked child nobody waits, and what is locked stays so.
        if self.departures.as_ref().is_some_and(|departures| departures.check_own().is_ok()) {
            self.is_told(Err(Error::internal("a store has not answered")));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::mpsc::{channel, Sender};
    use std::thread::spawn;

    use super::*;
    use crate::store::Version;

    const TASKS: usize = 200;
    const MOST: usize = 5;

    type Given = (String, usize, Completion<Option<Version>>);

    /// Passes on what it is given.
    struct Gives(Mutex<Sender<Given>>);

    impl AsyncPut for Gives {
        fn put(&self, key: &str, value: &Arc<Vec<u8>>, told: Completion<Option<Version>>) {
            // Where nobody takes it, it is let go.
            let _ = self.0.lock().unwrap().send((key.to_owned(), value.len(), told));
        }
    }

    fn made(task: usize, bytes: usize) -> Departing {
        Departing { key: task.to_string(), cell: vec![task as u64].into(), value: Arc::new(vec![0; bytes]) }
    }

    /// Have TASKS stored by a store that does `answer` with all that it was given meanwhile.
    fn stored(
        interrupt: Option<Interrupt<'_>>,
        answer: impl FnMut(Vec<Given>) + Send + 'static,
        make: Make<'_>,
        wait: Wait<'_>,
    ) -> Result<()> {
        let (give, given) = channel();
        let mut answer = answer;
        spawn(move || {
            while let Ok(first) = given.recv() {
                std::thread::sleep(Duration::from_micros(200));
                answer(std::iter::once(first).chain(given.try_iter()).collect());
            }
        });
        each(Arc::new(Gives(Mutex::new(give))), TASKS, MOST, interrupt, make, wait)
    }

    fn fine(given: Vec<Given>) {
        given.into_iter().rev().for_each(|(.., told)| told.complete(Ok(None)));
    }

    const NOTHING: Wait<'static> = &|_, _| Ok(());

    #[test]
    fn every_task_is_done_once_and_few_at_a_time() {
        let (done, waiting) = (Arc::new(Mutex::new(Vec::new())), AtomicUsize::new(0));
        let told = done.clone();
        let answer = move |given: Vec<Given>| {
            assert!(given.len() <= MOST);
            told.lock().unwrap().extend(given.iter().map(|(key, bytes, _)| (key.parse().unwrap(), *bytes)));
            fine(given);
        };
        let make = |task: usize, _: &mut Scratch| Ok((task % 3 != 0).then(|| made(task, task)));
        let wait = |task: usize, _: &mut Scratch| {
            assert!(waiting.fetch_add(1, Ordering::SeqCst) < MOST);
            std::thread::sleep(Duration::from_micros(200));
            done.lock().unwrap().push((task, 0));
            waiting.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        };
        stored(None, answer, &make, &wait).unwrap();
        let mut done = std::mem::take(&mut *done.lock().unwrap());
        done.sort_unstable();
        let expected = (0..TASKS).map(|task| (task, if task % 3 == 0 { 0 } else { task }));
        assert_eq!(done, expected.collect::<Vec<_>>());
    }

    #[test]
    fn the_first_error_ends_it_when_what_is_under_way_is_done() {
        for of in ["make", "wait", "store"] {
            let under_way = Arc::new(AtomicUsize::new(0));
            let (given_now, count) = (under_way.clone(), Arc::new(AtomicUsize::new(0)));
            let counted = count.clone();
            let answer = move |given: Vec<Given>| {
                given_now.fetch_add(given.len(), Ordering::SeqCst);
                counted.fetch_add(given.len(), Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(1));
                given_now.fetch_sub(given.len(), Ordering::SeqCst);
                for (key, _, told) in given {
                    told.complete(if of == "store" && key == "20" {
                        Err(Error::internal("twenty"))
                    } else {
                        Ok(None)
                    });
                }
            };
            let fail = |task: usize, step| match task == 20 && of == step {
                true => Err(Error::internal("twenty")),
                false => Ok(()),
            };
            let make = |task: usize, _: &mut Scratch| {
                fail(task, "make").map(|()| (of != "wait" || task > 20).then(|| made(task, 1)))
            };
            let error = stored(None, answer, &make, &|task, _| fail(task, "wait")).unwrap_err();
            assert_eq!(error.message, "twenty");
            assert_eq!(under_way.load(Ordering::SeqCst), 0);
            assert!(count.load(Ordering::SeqCst) < TASKS);
            if of == "store" {
                assert_eq!((error.key.as_deref(), error.chunk.as_deref()), (Some("20"), Some(&[20][..])));
            }
        }
    }

    #[test]
    fn what_is_never_answered_is_an_error() {
        let make = |task: usize, _: &mut Scratch| Ok(Some(made(task, 1)));
        let done = stored(None, drop, &make, NOTHING);
        assert!(done.unwrap_err().message.contains("has not answered"));
    }

    #[test]
    fn who_waits_is_interrupted_and_what_is_under_way_is_done() {
        for slow in [0, TASKS - 1] {
            let (asked, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
            let (was_asked, told) = (asked.clone(), done.clone());
            let answer = move |given: Vec<Given>| {
                let is_slow = given.iter().any(|(key, ..)| *key == slow.to_string());
                while is_slow && !was_asked.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                told.fetch_add(given.len(), Ordering::SeqCst);
                fine(given);
            };
            let caller = std::thread::current().id();
            let begun = AtomicUsize::new(0);
            let interrupt = || {
                let is_caller = std::thread::current().id() == caller && begun.load(Ordering::SeqCst) > slow;
                asked.fetch_or(is_caller, Ordering::SeqCst);
                is_caller
            };
            let make = |task: usize, _: &mut Scratch| {
                begun.fetch_add(1, Ordering::SeqCst);
                Ok(Some(made(task, 1)))
            };
            let error = stored(Some(&interrupt), answer, &make, NOTHING).unwrap_err();
            assert_eq!(error.kind, Kind::Interrupted);
            assert!(done.load(Ordering::SeqCst) > 0);
        }
    }

    #[test]
    fn few_bytes_are_ready() {
        let size = READY_BYTES / 4;
        let (bytes, most) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
        let told = bytes.clone();
        let answer = move |given: Vec<Given>| {
            told.fetch_sub(size * given.len(), Ordering::SeqCst);
            fine(given);
        };
        let make = |task: usize, _: &mut Scratch| {
            most.fetch_max(bytes.fetch_add(size, Ordering::SeqCst) + size, Ordering::SeqCst);
            Ok(Some(made(task, size)))
        };
        stored(None, answer, &make, NOTHING).unwrap();
        assert!(most.into_inner() <= size * (4 + MOST + 2 * pool::threads()));
    }

    /// Does not wait for anybody, and tells before it returns.
    struct AtOnce;

    impl AsyncPut for AtOnce {
        fn put(&self, _: &str, _: &Arc<Vec<u8>>, told: Completion<Option<Version>>) {
            told.complete(Ok(None));
        }
    }

    #[test]
    fn a_store_may_tell_at_once() {
        let make = |task: usize, _: &mut Scratch| Ok(Some(made(task, 1)));
        each(Arc::new(AtOnce), 100_000, MOST, None, &make, NOTHING).unwrap();
    }

    /// Passes on what it is given, which is told by who looks at it.
    fn slow() -> (Arc<Gives>, std::sync::mpsc::Receiver<Given>) {
        let (give, given) = channel();
        (Arc::new(Gives(Mutex::new(give))), given)
    }

    #[test]
    fn an_error_ends_those_who_wait_for_room_at_once() {
        let (store, given) = slow();
        let make = |task: usize, _: &mut Scratch| match task == 2 * MOST - 1 {
            true => Err(Error::internal("no more")),
            false => Ok(Some(made(task, 1))),
        };
        let done = spawn(move || each(store, TASKS, MOST, None, &make, NOTHING));
        let under_way: Vec<Given> = given.iter().take(MOST).collect();
        while under_way[0].2.is_active() {
            std::thread::sleep(Duration::from_millis(1)); // the error is told though nothing is done
        }
        under_way.into_iter().for_each(|(.., told)| told.complete(Ok(None)));
        assert_eq!(done.join().unwrap().unwrap_err().message, "no more");
        assert_eq!(given.iter().count(), 0); // nothing more was given
    }
}
