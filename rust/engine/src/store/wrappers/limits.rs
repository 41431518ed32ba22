//! Limits on concurrent requests, on the request rate, and on chunks that are decoded or encoded.

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

/// Limits that several stores share: concurrent requests, requests that start per second, and
/// chunks that are decoded or encoded at a time.
#[derive(Debug)]
pub struct Limits {
    requests: Arc<Gate>,
    chunks: Arc<Gate>,
    reads: Option<Rate>,
    writes: Option<Rate>,
}

impl Limits {
    /// Create limits; None sets no limit.
    pub fn new(
        requests: Option<u64>,
        chunks: Option<u64>,
        reads: Option<Rate>,
        writes: Option<Rate>,
    ) -> Self {
        let gate = |most| Arc::new(Gate::new(most));
        Limits { requests: gate(requests), chunks: gate(chunks), reads, writes }
    }

    /// Return `inner` with these limits applied.
    pub fn over(self: &Arc<Self>, inner: Arc<dyn Store>) -> WatchedStore<Limited> {
        WatchedStore::watched_by(inner, Limited(self.clone()))
    }
}

/// A counting semaphore for threads and for queued callbacks.
struct Gate {
    most: Option<u64>,
    inside: fork::Own<Inside>,
}

/// The state of a semaphore; a forked child starts with an unused one.
#[derive(Default)]
struct Inside {
    state: Mutex<State>,
    left: Condvar,
}

#[derive(Default)]
struct State {
    count: u64,
    /// Threads that wait for a permit.
    sleeping: usize,
    /// Callbacks to run when a permit is free, in order; no thread waits for them.
    queued: VecDeque<Enter>,
    /// The last permit went to a queued callback: the next one goes to a thread.
    for_threads: bool,
    /// A thread is running queued callbacks.
    serving: bool,
}

/// Runs with a permit; the permit is held as long as the value lives.
pub type Enter = Box<dyn FnOnce(Option<Place>) + Send>;

impl Inside {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

thread_local! {
    /// Semaphores whose permits this thread holds. Its further requests need no second permit: the
    /// thread would wait for itself.
    static HELD: RefCell<Vec<*const Gate>> = const { RefCell::new(Vec::new()) };
}

impl Gate {
    fn new(most: Option<u64>) -> Self {
        Gate { most, inside: fork::Own::new() }
    }

    /// Whether this thread holds a permit.
    fn is_held(&self) -> bool {
        let me: *const Gate = self;
        HELD.with_borrow(|held| held.contains(&me))
    }

    /// Wait for a permit, which the returned guard holds.
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
                self.serve(); // the permit of this thread, if it was woken at the same time
                interruptible_wait::ask()?;
                state = inside.lock();
            }
        }
    }

    /// Run `on_permit` with a permit: here, or in the thread that releases one.
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

    /// Run queued callbacks while permits are free.
    fn serve(self: &Arc<Self>) {
        let Some(most) = self.most else { return };
        let inside = self.inside.get();
        let mut state = inside.lock();
        if state.serving {
            return; // that thread checks the queue again
        }
        state.serving = true;
        while let Some(enter) = (state.count < most).then(|| state.queued.pop_front()).flatten() {
            state.count += 1;
            drop(state);
            let place = self.place();
            // The panic hook reports a panic. Dropping the callback completes its request with an
            // error.
            let _ = pool::guarded(|| {
                enter(Some(place));
                Ok(())
            });
            state = inside.lock();
        }
        state.serving = false;
    }

    /// Release one permit.
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

/// A permit that is released in the thread that acquired it.
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

/// A permit that any thread may release.
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

/// A rate limiter: how many requests start per second.
#[derive(Debug)]
pub struct Rate {
    per_second: f64,
    doubling: Option<Duration>,
    start: Instant,
    /// When the next request may start, in nanoseconds after `start`.
    next: AtomicU64,
}

impl Rate {
    /// Allow `per_second` at first, and twice as many after each `doubling`.
    pub fn new(per_second: f64, doubling: Option<Duration>) -> Self {
        Rate { per_second, doubling, start: Instant::now(), next: AtomicU64::new(0) }
    }

    /// The interval between requests in nanoseconds, `since` nanoseconds after the start.
    fn interval(&self, since: u64) -> u64 {
        let grown = self.doubling.map_or(0.0, |doubling| since as f64 / doubling.as_nanos() as f64);
        // The conversion saturates.
        (1e9 / (self.per_second * grown.exp2())) as u64
    }

    /// Wait until the next request may start.
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

/// Applies [`Limits`] to the calls of a store.
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
            return Ok(None); // requests inside the held section count themselves
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

    /// The number of voluntary context switches of this thread.
    fn sleeps() -> i64 {
        // SAFETY: `rusage` consists of numbers, for which zero is valid; the call writes into it.
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
                    std::thread::yield_now(); // until the waiting thread has had its permit
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
            // Each releases its permit at once, which runs the next one.
            gate.queue(Box::new(move |place| {
                assert!(place.is_some());
                done.lock().unwrap().push(number);
            }));
        }
        assert_eq!(*done.lock().unwrap(), [0, 1, 2]);
        assert_eq!(gate.inside.get().lock().count, 0);
    }
}
