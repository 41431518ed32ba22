//! Tasks whose values a store is asked for together: each is done when its value has arrived, by whichever
//! thread is free, so that no thread waits for one of them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Error, Kind, Result};
use crate::pipeline::operation::Interrupt;
use crate::pool;
use crate::scratch::Scratch;
use crate::store::{fork, AsyncGet, CancelToken, Completion, OpenResult, ReadHint};

/// The key of a value, and how it is opened.
pub(crate) type Request = (String, ReadHint);

/// Tells what a task asks for, if anything.
pub(crate) type Prepare<'p> = &'p (dyn Fn(usize, &mut Scratch) -> Result<Option<Request>> + Sync);

/// Does a task, with what was opened for it, if that was.
pub(crate) type Work<'w> = &'w (dyn Fn(usize, Option<OpenResult>, &mut Scratch) -> Result<()> + Sync);

/// How often who waits asks whether it was interrupted.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// So many requests are prepared before their time has come.
const PREPARED: usize = 64;

/// So many values may have arrived, for each thread that works, that more is asked for without them.
const ARRIVED: usize = 4;

/// What is asked for, and what has arrived.
struct Arrivals {
    ask: Arc<dyn AsyncGet>,
    /// How many are asked for at a time.
    most: usize,
    /// How many may have arrived beside them.
    spare: usize,
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    prepared: VecDeque<(usize, Request)>,
    asked: usize,
    arrived: VecDeque<(usize, Option<OpenResult>)>,
    /// Somebody asks.
    asking: bool,
    /// Work asks for more of a value, and waits for that.
    reads_on: bool,
    /// Nothing more is wanted: why.
    ended: Option<Error>,
}

/// Do `work` for 0..tasks, in the order in which the values arrive that they `request` of a store: where there is
/// none, at once. At most `most` are asked for at a time. The first error ends it.
///
/// Values are worked on by so many `threads`, and by `most` where work waits for parts of them.
pub(crate) fn each(
    ask: Arc<dyn AsyncGet>,
    tasks: usize,
    most: usize,
    threads: usize,
    interrupt: Option<Interrupt<'_>>,
    request: Prepare<'_>,
    work: Work<'_>,
) -> Result<()> {
    fork::register();
    let spare = ARRIVED * pool::threads();
    let arrivals = Arrivals { ask, most, spare, state: Mutex::default(), arrived: Condvar::new() };
    let arrivals = &Arc::new(arrivals);
    let next = AtomicUsize::new(0);
    let prepare = |scratch: &mut Scratch| {
        while arrivals.wants_prepared() {
            let task = next.fetch_add(1, Ordering::Relaxed);
            if task >= tasks {
                break;
            }
            // What is wrong with it, `work` finds, too.
            arrivals.prepare(task, request(task, scratch).unwrap_or_default());
            arrivals.go(); // at once: there may be no other answer after which somebody looks
        }
    };
    let one = |_| {
        let task = |scratch: &mut Scratch| {
            prepare(scratch);
            arrivals.go();
            let (task, opened) = arrivals.next(interrupt)?;
            work(task, opened, scratch)
        };
        // Others wait for what the thread would have asked for, also where it panics.
        pool::guarded(|| Scratch::with(task)).inspect_err(|error| arrivals.end(error.clone()))
    };
    Scratch::with(prepare);
    let waits = arrivals.lock().reads_on;
    let threads = if waits { most.max(threads) } else { threads };
    let asked = interrupt.map(|interrupt| interrupt as &dyn Fn() -> bool);
    let done = pool::wait_for(tasks, threads, asked, &one);
    arrivals.end(Error::internal("an operation has ended"));
    done
}

impl Arrivals {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wants_prepared(&self) -> bool {
        let state = self.lock();
        state.ended.is_none() && state.prepared.len() < self.most.min(PREPARED)
    }

    fn prepare(&self, task: usize, request: Option<Request>) {
        match request {
            Some(request) => {
                let mut state = self.lock();
                state.reads_on |= !matches!(request.1, ReadHint::Whole | ReadHint::Range { .. });
                state.prepared.push_back((task, request));
            }
            None => self.arrive(task, None),
        }
    }

    /// Ask for what may be asked for now. Answers that come meanwhile are no calls inside of this one.
    fn go(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.asking {
            return; // who does looks again
        }
        state.asking = true;
        while self.has_room(&state) {
            let Some((task, (key, want))) = state.prepared.pop_front() else { break };
            state.asked += 1;
            drop(state);
            let generation = fork::generation();
            let mut awaited = Awaited { arrivals: self.clone(), task, is_there: false, generation };
            let told = Completion::new(self.clone(), move |opened| awaited.is_told(opened));
            let asked = pool::guarded(|| {
                self.ask.get(&key, want, told);
                Ok(())
            });
            asked.unwrap_or_else(|error| self.end(error));
            state = self.lock();
        }
        state.asking = false;
    }

    /// Whether one more may be asked for.
    fn has_room(&self, state: &State) -> bool {
        let asked = state.asked;
        state.ended.is_none() && asked < self.most && asked + state.arrived.len() < self.most + self.spare
    }

    fn arrive(&self, task: usize, opened: Option<OpenResult>) {
        let mut state = self.lock();
        if state.ended.is_some() {
            drop(state); // before what comes too late: to let that go may need a lock of whoever tells
            return;
        }
        state.arrived.push_back((task, opened));
        drop(state);
        self.arrived.notify_one();
    }

    /// Wait for the next value.
    fn next(&self, interrupt: Option<Interrupt<'_>>) -> Result<(usize, Option<OpenResult>)> {
        let mut state = self.lock();
        loop {
            if let Some(error) = &state.ended {
                return Err(error.clone());
            }
            if let Some(found) = state.arrived.pop_front() {
                return Ok(found);
            }
            let waited = self.arrived.wait_timeout(state, ASK_EVERY).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            if waited.1.timed_out() {
                drop(state);
                if interrupt.is_some_and(|interrupt| interrupt()) {
                    return Err(Error::new(Kind::Interrupted, "interrupted"));
                }
                state = self.lock();
            }
        }
    }

    /// Nothing more is wanted.
    fn end(&self, error: Error) {
        let mut state = self.lock();
        let first = state.ended.take();
        let (first, other) = if first.is_some() { (first, Some(error)) } else { (Some(error), None) };
        state.ended = first;
        let left = (std::mem::take(&mut state.prepared), std::mem::take(&mut state.arrived));
        drop(state);
        self.arrived.notify_all();
        drop((other, left)); // not while it is locked, as above
    }
}

impl CancelToken for Arrivals {
    fn is_active(&self) -> bool {
        self.lock().ended.is_none()
    }
}

/// A value that was asked for.
struct Awaited {
    arrivals: Arc<Arrivals>,
    task: usize,
    is_there: bool,
    generation: u64,
}

impl Awaited {
    fn is_told(&mut self, opened: OpenResult) {
        self.is_there = true;
        self.arrivals.lock().asked -= 1;
        self.arrivals.arrive(self.task, Some(opened));
        self.arrivals.go();
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        // In a forked child nobody waits, and what is locked stays so.
        if !self.is_there && self.generation == fork::generation() {
            self.is_told(Err(Error::internal("a store has not answered")));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc::{channel, Sender};
    use std::thread::spawn;

    use super::*;

    /// Passes on what it is asked for.
    struct Asked(Mutex<Sender<(String, Completion)>>);

    impl AsyncGet for Asked {
        fn get(&self, key: &str, _: ReadHint, told: Completion) {
            // Where nobody takes it, it is let go.
            let _ = self.0.lock().unwrap().send((key.to_owned(), told));
        }
    }

    /// Do `work` for tasks with the values of a store that does `answer`, by two at a time.
    fn each(
        tasks: usize,
        answer: impl FnMut(Vec<(String, Completion)>) + Send + 'static,
        work: Work<'_>,
    ) -> Result<()> {
        let (asked, recv_interruptible) = channel();
        let mut answer = answer;
        spawn(move || loop {
            let Ok(first) = recv_interruptible.recv() else { break };
            std::thread::sleep(Duration::from_millis(1));
            answer(std::iter::once(first).chain(recv_interruptible.try_iter()).collect());
        });
        let request =
            |task: usize, _: &mut Scratch| Ok((task != 3).then(|| (task.to_string(), ReadHint::Whole)));
        super::each(Arc::new(Asked(Mutex::new(asked))), tasks, 2, pool::threads(), None, &request, work)
    }

    #[test]
    fn each_task_is_done_with_what_it_has_asked_for() {
        let done = Mutex::new(Vec::new());
        let (sender, most) = channel();
        let answer = move |asked: Vec<(String, Completion)>| {
            sender.send(asked.len()).unwrap();
            asked.into_iter().rev().for_each(|(key, told)| told.complete(Err(Error::internal(key))));
        };
        let work = |task, opened: Option<OpenResult>, _: &mut Scratch| {
            let key = opened.map(|opened| opened.err().unwrap().message);
            done.lock().unwrap().push((task, key));
            Ok(())
        };
        each(20, answer, &work).unwrap();
        let mut done = done.into_inner().unwrap();
        done.sort_unstable();
        let expected: Vec<_> = (0..20).map(|task| (task, (task != 3).then(|| task.to_string()))).collect();
        assert_eq!(done, expected);
        assert_eq!(most.iter().max(), Some(2));
    }

    #[test]
    fn an_error_ends_it() {
        let work = |task, _, _: &mut Scratch| match task {
            5 => Err(Error::internal("five")),
            _ => Ok(()),
        };
        let answer = |asked: Vec<(String, Completion)>| {
            asked.into_iter().for_each(|(_, told)| told.complete(Ok(None)))
        };
        assert_eq!(each(1000, answer, &work).unwrap_err().message, "five");
    }

    #[test]
    fn what_is_never_answered_is_an_error() {
        let work =
            |_, opened: Option<OpenResult>, _: &mut Scratch| opened.map_or(Ok(()), |opened| opened.map(drop));
        assert!(each(4, drop, &work).unwrap_err().message.contains("has not answered"));
    }

    /// What `work` gives, which has not to wait for ever.
    fn in_time<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
        let (sender, receiver) = channel();
        spawn(move || sender.send(work()));
        receiver.recv_timeout(Duration::from_secs(20)).unwrap()
    }

    /// Panics where it is asked in the thread that answers.
    struct Panics(Mutex<Sender<Completion>>);

    impl AsyncGet for Panics {
        #[allow(clippy::panic)]
        fn get(&self, _: &str, _: ReadHint, told: Completion) {
            if std::thread::current().name() == Some("answers") {
                panic!("a store");
            }
            let _ = self.0.lock().unwrap().send(told);
        }
    }

    #[test]
    fn a_panic_of_who_answers_ends_it() {
        let (asked, recv_interruptible) = channel::<Completion>();
        let answers = move || recv_interruptible.iter().for_each(|told| told.complete(Ok(None)));
        std::thread::Builder::new().name("answers".to_owned()).spawn(answers).unwrap();
        let ask = Arc::new(Panics(Mutex::new(asked)));
        let request = |_: usize, _: &mut Scratch| Ok(Some((String::new(), ReadHint::Whole)));
        let work = |_: usize, _: Option<OpenResult>, _: &mut Scratch| Ok(());
        let done = in_time(move || super::each(ask, 1000, 2, 2, None, &request, &work));
        assert!(done.unwrap_err().message.contains("a store"));
    }

    #[test]
    fn what_has_ended_asks_for_nothing() {
        let (asked, recv_interruptible) = channel();
        let ask = Arc::new(Asked(Mutex::new(asked)));
        let arrivals = Arrivals { ask, most: 2, spare: 8, state: Mutex::default(), arrived: Condvar::new() };
        let arrivals = Arc::new(arrivals);
        let prepare = |task: usize| {
            arrivals.prepare(task, Some((task.to_string(), ReadHint::Whole)));
            arrivals.go();
        };
        (0..3).for_each(prepare);
        let wanted: Vec<(String, Completion)> = recv_interruptible.try_iter().collect();
        assert_eq!(wanted.len(), 2);
        assert!(wanted.iter().all(|(_, told)| told.is_active()));
        arrivals.end(Error::internal("enough"));
        assert!(!wanted.iter().any(|(_, told)| told.is_active()));
        assert!(!arrivals.wants_prepared());
        prepare(3);
        drop(wanted);
        assert_eq!(recv_interruptible.try_iter().count(), 0);
    }

    /// Answers before it returns.
    struct AtOnce;

    impl AsyncGet for AtOnce {
        fn get(&self, _: &str, _: ReadHint, told: Completion) {
            told.complete(Ok(None));
        }
    }

    #[test]
    fn a_request_that_is_ready_after_all_answers_is_asked_for() {
        const TASKS: usize = 20;
        let done = in_time(|| {
            let request = |task: usize, _: &mut Scratch| {
                if task == TASKS - 1 {
                    std::thread::sleep(Duration::from_millis(300));
                }
                Ok(Some((task.to_string(), ReadHint::Whole)))
            };
            let work = |_: usize, _: Option<OpenResult>, _: &mut Scratch| Ok(());
            super::each(Arc::new(AtOnce), TASKS, 3, 2, None, &request, &work)
        });
        done.unwrap();
    }

    #[test]
    fn as_many_wait_for_parts_as_are_asked_for_at_a_time() {
        let most = pool::threads() + 3;
        let (within, changed) = (Mutex::new(0), Condvar::new());
        let work = |_: usize, _: Option<OpenResult>, _: &mut Scratch| {
            let mut number = within.lock().unwrap();
            *number += 1;
            changed.notify_all();
            let limit = Duration::from_secs(20);
            let all = changed.wait_timeout_while(number, limit, |number| *number < most).unwrap();
            match *all.0 < most {
                true => Err(Error::internal("they wait one after another")),
                false => Ok(()),
            }
        };
        let request = |task: usize, _: &mut Scratch| Ok(Some((task.to_string(), ReadHint::Suffix(4))));
        super::each(Arc::new(AtOnce), most, most, 1, None, &request, &work).unwrap();
    }
}
