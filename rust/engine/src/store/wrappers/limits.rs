//! A store that is asked by few at a time, and not too often.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::instrumented::{Call, Done, Watch, WatchedStore};
use crate::error::Result;
use crate::pool;
use crate::store::{fork, interruptible_wait, Store};

/// How many requests may be under way at a time, how many begin in a second, and how many chunks
/// are decoded or encoded at a time: those of all stores together that are limited by it.
#[derive(Debug)]
pub struct Limits {
    requests: Arc<Gate>,
    chunks: Arc<Gate>,
    reads: Option<Rate>,
    writes: Option<Rate>,
}

impl Limits {
    /// None sets no limit.
    pub fn new(
        requests: Option<u64>,
        chunks: Option<u64>,
        reads: Option<Rate>,
        writes: Option<Rate>,
    ) -> Self {
        let gate = |most| Arc::new(Gate::new(most));
        Limits { requests: gate(requests), chunks: gate(chunks), reads, writes }
    }

    /// `inner`, asked within the limits.
    pub fn over(self: &Arc<Self>, inner: Arc<dyn Store>) -> WatchedStore<Limited> {
        WatchedStore::watched_by(inner, Limited(self.clone()))
    }
}

/// Where a few are let in at a time.
struct Gate {
    most: Option<u64>,
    inside: fork::Own<Inside>,
}

/// Who is inside, and who waits. In a forked child nobody does.
#[derive(Default)]
struct Inside {
    state: Mutex<State>,
    left: Condvar,
}

#[derive(Default)]
struct State {
    count: u64,
    /// Threads that wait.
    sleeping: usize,
    /// What is to be done when there is room, in its order: no thread waits for it.
    queued: VecDeque<Enter>,
    /// The last place went to what was queued: the next one is a thread's.
    for_threads: bool,
    /// Somebody lets in what is queued.
    serving: bool,
}

/// What is done when somebody is let in, who is inside as long as the place lives.
pub type Enter = Box<dyn FnOnce(Option<Place>) + Send>;

impl Inside {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

thread_local! {
    /// Where the thread is inside. What it asks for meanwhile needs no other turn: else it
    /// would wait for itself.
    static HELD: RefCell<Vec<*const Gate>> = const { RefCell::new(Vec::new()) };
}

impl Gate {
    fn new(most: Option<u64>) -> Self {
        Gate { most, inside: fork::Own::new() }
    }

    /// Whether the thread is inside.
    fn is_held(&self) -> bool {
        let me: *const Gate = self;
        HELD.with_borrow(|held| held.contains(&me))
    }

    /// Waits until one more is let in; it is inside as long as what is given back lives.
    fn turn(self: &Arc<Self>) -> Result<Option<Turn<'_>>> {
        let Some(most) = self.most.filter(|_| !self.is_held()) else { return Ok(None) };
        let inside = self.inside.get();
        let mut state = inside.lock();
        loop {
            if state.count < most {
                state.count += 1;
                drop(state);
                self.serve();
                HELD.with_borrow_mut(|held| held.push(Arc::as_ptr(self)));
                return Ok(Some(Turn { gate: self, inside }));
            }
            state.sleeping += 1;
            let waited = inside.left.wait_timeout(state, interruptible_wait::ASK_EVERY);
            let (found, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = found;
            state.sleeping -= 1;
            if timeout.timed_out() {
                drop(state);
                self.serve(); // the place that was this one's, if it was woken at the same time
                interruptible_wait::ask()?;
                state = inside.lock();
            }
        }
    }

    /// Does `enter` when one more may be let in: here, or in the thread of who leaves.
    fn queue(self: &Arc<Self>, enter: Enter) {
        let Some(most) = self.most.filter(|_| !self.is_held()) else { return enter(None) };
        let mut state = self.inside.get().lock();
        if state.count < most && state.sleeping == 0 && state.queued.is_empty() {
            state.count += 1;
            drop(state);
            return enter(Some(self.place()));
        }
        state.queued.push_back(enter);
    }

    fn place(self: &Arc<Self>) -> Place {
        Place { gate: self.clone(), generation: fork::generation() }
    }

    /// Lets in what is queued, as long as there is room.
    fn serve(self: &Arc<Self>) {
        let Some(most) = self.most else { return };
        let inside = self.inside.get();
        let mut state = inside.lock();
        if state.serving {
            return; // who does looks again
        }
        state.serving = true;
        while let Some(enter) = (state.count < most).then(|| state.queued.pop_front()).flatten() {
            state.count += 1;
            drop(state);
            let place = self.place();
            // The panic hook tells of a panic, and who is not let in is told that nobody answers.
            let _ = pool::guarded(|| {
                enter(Some(place));
                Ok(())
            });
            state = inside.lock();
        }
        state.serving = false;
    }

    /// One of those inside leaves.
    fn leave(self: &Arc<Self>, inside: &Inside) {
        let mut state = inside.lock();
        state.count -= 1;
        let has_threads = state.sleeping > 0;
        state.for_threads = has_threads && !state.for_threads;
        let serves = !state.for_threads && !state.queued.is_empty();
        drop(state);
        if has_threads {
            inside.left.notify_one();
        }
        if serves {
            self.serve();
        }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gate").field(&self.most).finish()
    }
}

/// One of those that are let in. It ends in the thread in which it began.
pub struct Turn<'g> {
    gate: &'g Arc<Gate>,
    inside: &'g fork::Made<Inside>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let me = Arc::as_ptr(self.gate);
        HELD.with_borrow_mut(|held| {
            if let Some(at) = held.iter().rposition(|&other| other == me) {
                held.swap_remove(at);
            }
        });
        if self.inside.is_own() {
            self.gate.leave(self.inside);
        }
    }
}

/// One of those that are let in, in no thread.
pub struct Place {
    gate: Arc<Gate>,
    generation: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.generation == fork::generation() {
            self.gate.leave(self.gate.inside.get());
        }
    }
}

/// How many requests begin in a second.
#[derive(Debug)]
pub struct Rate {
    per_second: f64,
    doubling: Option<Duration>,
    start: Instant,
    /// When the next one may begin, in nanoseconds since the start.
    next: AtomicU64,
}

impl Rate {
    /// `per_second` in the beginning; twice as many after each `doubling`.
    pub fn new(per_second: f64, doubling: Option<Duration>) -> Self {
        Rate { per_second, doubling, start: Instant::now(), next: AtomicU64::new(0) }
    }

    /// How long it is from one request to the next, in nanoseconds, after so many.
    fn interval(&self, since: u64) -> u64 {
        let grown = self.doubling.map_or(0.0, |doubling| since as f64 / doubling.as_nanos() as f64);
        // A sum that is too large for the type saturates.
        (1e9 / (self.per_second * grown.exp2())) as u64
    }

    /// Waits until it may begin.
    fn wait(&self) -> Result<()> {
        let now = self.start.elapsed().as_nanos() as u64;
        let mut mine = now;
        let later = |next: u64| {
            mine = next.max(now);
            Some(mine.saturating_add(self.interval(mine)))
        };
        let _ = self.next.fetch_update(Ordering::AcqRel, Ordering::Acquire, later);
        interruptible_wait::sleep(Duration::from_nanos(mine - now))
    }
}

/// Makes whatever asks a store wait for its turn.
#[derive(Debug)]
pub struct Limited(Arc<Limits>);

impl Limited {
    fn rate(&self, call: Call) -> Option<&Rate> {
        if call.changes() { &self.0.writes } else { &self.0.reads }.as_ref()
    }
}

impl Watch for Limited {
    fn before(&self, call: Call) -> Result<Option<Turn<'_>>> {
        if call == Call::Hold {
            return Ok(None); // what is asked meanwhile counts
        }
        if call != Call::ReadMore {
            self.rate(call).map_or(Ok(()), Rate::wait)?;
        }
        self.0.requests.turn()
    }

    fn queues(&self, call: Call) -> bool {
        self.rate(call).is_none()
    }

    fn queue(&self, enter: Enter) {
        self.0.requests.queue(enter);
    }

    fn decoding(&self) -> Result<Option<Turn<'_>>> {
        self.0.chunks.turn()
    }

    fn after(&self, _call: Call, _key: &str, _done: &Done<'_>) -> Result<()> {
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// How often the thread has gone to sleep.
    fn sleeps() -> i64 {
        // SAFETY: numbers, all of which may be zero; they are written to what is their place.
        unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
            usage.ru_nvcsw
        }
    }

    #[test]
    fn who_waits_for_a_turn_sleeps_until_one_is_free() {
        let gate = &Arc::new(Gate::new(Some(1)));
        let first = gate.turn().unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let before = sleeps();
                drop(gate.turn().unwrap());
                sleeps() - before
            });
            std::thread::sleep(Duration::from_millis(200));
            drop(first);
            assert!(waiter.join().unwrap() < 20);
        });
    }

    #[test]
    fn who_is_inside_needs_no_other_turn() {
        let gate = Arc::new(Gate::new(Some(1)));
        let first = gate.turn().unwrap();
        assert!(gate.turn().unwrap().is_none());
        drop(first);
        assert!(gate.turn().unwrap().is_some());
    }

    #[test]
    fn who_waits_and_what_is_queued_take_turns() {
        let gate = Arc::new(Gate::new(Some(1)));
        let (tell, told) = std::sync::mpsc::channel();
        let held = Arc::new(Mutex::new(Vec::new()));
        let first = held.clone();
        gate.queue(Box::new(move |place| first.lock().unwrap().push(place)));
        for _ in 0..3 {
            let (tell, held) = (tell.clone(), held.clone());
            gate.queue(Box::new(move |place| {
                held.lock().unwrap().push(place);
                tell.send("queued").unwrap();
            }));
        }
        std::thread::scope(|scope| {
            let tell = tell.clone();
            let gate = &gate;
            let waiter = scope.spawn(move || {
                let turn = gate.turn().unwrap();
                tell.send("waited").unwrap();
                drop(turn);
            });
            while gate.inside.get().lock().sleeping == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            for turn in 0..4 {
                while turn == 1 && !waiter.is_finished() {
                    std::thread::yield_now(); // whose turn it is
                }
                while held.lock().unwrap().is_empty() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                let left = held.lock().unwrap().pop();
                drop(left);
            }
        });
        drop(tell);
        assert_eq!(told.iter().collect::<Vec<_>>(), ["waited", "queued", "queued", "queued"]);
    }

    #[test]
    #[allow(clippy::panic)]
    fn who_panics_keeps_nobody_out() {
        let gate = Arc::new(Gate::new(Some(1)));
        let (first, told) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(Vec::new())));
        let held = first.clone();
        gate.queue(Box::new(move |place| *held.lock().unwrap() = place));
        gate.queue(Box::new(|_| panic!("now")));
        for number in 0..2 {
            let told = told.clone();
            gate.queue(Box::new(move |_| told.lock().unwrap().push(number)));
        }
        let left = first.lock().unwrap().take();
        drop(left);
        assert_eq!(*told.lock().unwrap(), [0, 1]);
        assert!(gate.turn().unwrap().is_some());
    }

    #[test]
    fn what_is_queued_where_there_is_room_is_done_at_once() {
        let gate = Arc::new(Gate::new(Some(1)));
        let done = Arc::new(Mutex::new(Vec::new()));
        for number in 0..3 {
            let done = done.clone();
            // Each leaves at once, and lets in the next one.
            gate.queue(Box::new(move |place| {
                assert!(place.is_some());
                done.lock().unwrap().push(number);
            }));
        }
        assert_eq!(*done.lock().unwrap(), [0, 1, 2]);
        assert_eq!(gate.inside.get().lock().count, 0);
    }
}
