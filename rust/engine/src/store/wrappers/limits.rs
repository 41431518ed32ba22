//! Limits on concurrent requests, on the request rate, and on chunks that are decoded or encoded.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::instrumented::{Call, CallReport, InstrumentedStore, StoreObserver};
use crate::error::Result;
use crate::pool;
use crate::store::{fork, interruptible_wait, Store};

/// Limits that several stores share: concurrent requests, requests that start per second, and
/// chunks that are decoded or encoded at a time.
#[derive(Debug)]
pub struct Limits {
    requests: Arc<Semaphore>,
    chunks: Arc<Semaphore>,
    reads: Option<RateLimiter>,
    writes: Option<RateLimiter>,
}

impl Limits {
    /// Create limits; None sets no limit.
    pub fn new(
        requests: Option<u64>,
        chunks: Option<u64>,
        reads: Option<RateLimiter>,
        writes: Option<RateLimiter>,
    ) -> Self {
        let semaphore = |limit| Arc::new(Semaphore::new(limit));
        Limits { requests: semaphore(requests), chunks: semaphore(chunks), reads, writes }
    }

    /// Return `inner` with these limits applied.
    pub fn wrap(self: &Arc<Self>, inner: Arc<dyn Store>) -> InstrumentedStore<LimitObserver> {
        InstrumentedStore::observed_by(inner, LimitObserver(self.clone()))
    }
}

/// A counting semaphore for threads and for queued callbacks.
struct Semaphore {
    limit: Option<u64>,
    shared: fork::PerProcess<SharedState>,
}

/// The state of a semaphore; a forked child starts with an unused one.
#[derive(Default)]
struct SharedState {
    state: Mutex<State>,
    released: Condvar,
}

#[derive(Default)]
struct State {
    count: u64,
    /// Threads that wait for a permit.
    waiting_threads: usize,
    /// Callbacks to run when a permit is free, in order; no thread waits for them.
    callbacks: VecDeque<OnPermit>,
    /// The last permit went to a queued callback: the next one goes to a thread.
    last_to_callback: bool,
    /// A thread is running queued callbacks.
    is_serving: bool,
}

/// Runs with a permit; the permit is held as long as the value lives.
pub type OnPermit = Box<dyn FnOnce(Option<OwnedPermit>) + Send>;

impl SharedState {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

thread_local! {
    /// Semaphores whose permits this thread holds. Its further requests need no second permit: the
    /// thread would wait for itself.
    static HELD_SEMAPHORES: RefCell<Vec<*const Semaphore>> = const { RefCell::new(Vec::new()) };
}

impl Semaphore {
    fn new(limit: Option<u64>) -> Self {
        Semaphore { limit, shared: fork::PerProcess::new() }
    }

    /// Return whether this thread holds a permit.
    fn is_held_by_thread(&self) -> bool {
        let this: *const Semaphore = self;
        HELD_SEMAPHORES.with_borrow(|held| held.contains(&this))
    }

    /// Wait for a permit, which the returned guard holds.
    fn acquire(self: &Arc<Self>) -> Result<Option<Permit<'_>>> {
        let Some(limit) = self.limit.filter(|_| !self.is_held_by_thread()) else { return Ok(None) };
        let shared = self.shared.get();
        let mut state = shared.lock();
        loop {
            if state.count < limit {
                state.count += 1;
                drop(state);
                self.run_callbacks();
                HELD_SEMAPHORES.with_borrow_mut(|held| held.push(Arc::as_ptr(self)));
                return Ok(Some(Permit { semaphore: self, shared }));
            }
            state.waiting_threads += 1;
            let result = shared.released.wait_timeout(state, interruptible_wait::CHECK_INTERVAL);
            let (guard, timeout) = result.unwrap_or_else(PoisonError::into_inner);
            state = guard;
            state.waiting_threads -= 1;
            if timeout.timed_out() {
                drop(state);
                self.run_callbacks(); // the permit of this thread, if it was woken at the same time
                interruptible_wait::check_interrupt()?;
                state = shared.lock();
            }
        }
    }

    /// Run `on_permit` with a permit: here, or in the thread that releases one.
    fn acquire_async(self: &Arc<Self>, on_permit: OnPermit) {
        let Some(limit) = self.limit.filter(|_| !self.is_held_by_thread()) else { return on_permit(None) };
        let mut state = self.shared.get().lock();
        if state.count < limit && state.waiting_threads == 0 && state.callbacks.is_empty() {
            state.count += 1;
            drop(state);
            return on_permit(Some(self.owned_permit()));
        }
        state.callbacks.push_back(on_permit);
    }

    fn owned_permit(self: &Arc<Self>) -> OwnedPermit {
        OwnedPermit { semaphore: self.clone(), generation: fork::generation() }
    }

    /// Run queued callbacks while permits are free.
    fn run_callbacks(self: &Arc<Self>) {
        let Some(limit) = self.limit else { return };
        let shared = self.shared.get();
        let mut state = shared.lock();
        if state.is_serving {
            return; // that thread checks the queue again
        }
        state.is_serving = true;
        while let Some(on_permit) = (state.count < limit).then(|| state.callbacks.pop_front()).flatten() {
            state.count += 1;
            drop(state);
            let owned_permit = self.owned_permit();
            // The panic hook reports a panic. Dropping the callback completes its request with an
            // error.
            let _ = pool::guarded(|| {
                on_permit(Some(owned_permit));
                Ok(())
            });
            state = shared.lock();
        }
        state.is_serving = false;
    }

    /// Release one permit.
    fn release(self: &Arc<Self>, shared: &SharedState) {
        let mut state = shared.lock();
        state.count -= 1;
        let threads_wait = state.waiting_threads > 0;
        state.last_to_callback = threads_wait && !state.last_to_callback;
        let runs_callbacks = !state.last_to_callback && !state.callbacks.is_empty();
        drop(state);
        if threads_wait {
            shared.released.notify_one();
        }
        if runs_callbacks {
            self.run_callbacks();
        }
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gate").field(&self.limit).finish()
    }
}

/// A permit that is released in the thread that acquired it.
pub struct Permit<'g> {
    semaphore: &'g Arc<Semaphore>,
    shared: &'g fork::ProcessValue<SharedState>,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let this = Arc::as_ptr(self.semaphore);
        HELD_SEMAPHORES.with_borrow_mut(|held| {
            if let Some(position) = held.iter().rposition(|&other| other == this) {
                held.swap_remove(position);
            }
        });
        if self.shared.is_own() {
            self.semaphore.release(self.shared);
        }
    }
}

/// A permit that any thread may release.
pub struct OwnedPermit {
    semaphore: Arc<Semaphore>,
    generation: u64,
}

impl Drop for OwnedPermit {
    fn drop(&mut self) {
        if self.generation == fork::generation() {
            self.semaphore.release(self.semaphore.shared.get());
        }
    }
}

/// A rate limiter: how many requests start per second.
#[derive(Debug)]
pub struct RateLimiter {
    per_second: f64,
    doubling: Option<Duration>,
    start: Instant,
    /// When the next request may start, in nanoseconds after `start`.
    next: AtomicU64,
}

impl RateLimiter {
    /// Allow `per_second` at first, and twice as many after each `doubling`.
    pub fn new(per_second: f64, doubling: Option<Duration>) -> Self {
        RateLimiter { per_second, doubling, start: Instant::now(), next: AtomicU64::new(0) }
    }

    /// Return the interval between requests in nanoseconds, `since` nanoseconds after the start.
    fn interval(&self, since: u64) -> u64 {
        let doublings = self.doubling.map_or(0.0, |doubling| since as f64 / doubling.as_nanos() as f64);
        // The conversion saturates.
        (1e9 / (self.per_second * doublings.exp2())) as u64
    }

    /// Wait until the next request may start.
    fn wait(&self) -> Result<()> {
        let now = self.start.elapsed().as_nanos() as u64;
        let mut start_at = now;
        let advance = |next: u64| {
            start_at = next.max(now);
            Some(start_at.saturating_add(self.interval(start_at)))
        };
        let _ = self.next.fetch_update(Ordering::AcqRel, Ordering::Acquire, advance);
        interruptible_wait::sleep(Duration::from_nanos(start_at - now))
    }
}

/// Applies [`Limits`] to the calls of a store.
#[derive(Debug)]
pub struct LimitObserver(Arc<Limits>);

impl LimitObserver {
    fn rate_limiter(&self, call: Call) -> Option<&RateLimiter> {
        if call.changes() { &self.0.writes } else { &self.0.reads }.as_ref()
    }
}

impl StoreObserver for LimitObserver {
    fn before(&self, call: Call) -> Result<Option<Permit<'_>>> {
        if call == Call::Hold {
            return Ok(None); // requests inside the held section count themselves
        }
        if call != Call::ReadContinued {
            self.rate_limiter(call).map_or(Ok(()), RateLimiter::wait)?;
        }
        self.0.requests.acquire()
    }

    fn supports_async(&self, call: Call) -> bool {
        self.rate_limiter(call).is_none()
    }

    fn acquire_async(&self, on_permit: OnPermit) {
        self.0.requests.acquire_async(on_permit);
    }

    fn coding_permit(&self) -> Result<Option<Permit<'_>>> {
        self.0.chunks.acquire()
    }

    fn after(&self, _call: Call, _key: &str, _done: &CallReport<'_>) -> Result<()> {
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
    fn waiting_thread_sleeps_until_a_permit_is_free() {
        let semaphore = &Arc::new(Semaphore::new(Some(1)));
        let first = semaphore.acquire().unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let earlier = sleeps();
                drop(semaphore.acquire().unwrap());
                sleeps() - earlier
            });
            std::thread::sleep(Duration::from_millis(200));
            drop(first);
            assert!(waiter.join().unwrap() < 20);
        });
    }

    #[test]
    fn thread_with_a_permit_needs_no_second_one() {
        let semaphore = Arc::new(Semaphore::new(Some(1)));
        let first = semaphore.acquire().unwrap();
        assert!(semaphore.acquire().unwrap().is_none());
        drop(first);
        assert!(semaphore.acquire().unwrap().is_some());
    }

    #[test]
    fn threads_and_callbacks_alternate() {
        let semaphore = Arc::new(Semaphore::new(Some(1)));
        let (sender, receiver) = std::sync::mpsc::channel();
        let held = Arc::new(Mutex::new(Vec::new()));
        let first = held.clone();
        semaphore.acquire_async(Box::new(move |owned_permit| first.lock().unwrap().push(owned_permit)));
        for _ in 0..3 {
            let (sender, held) = (sender.clone(), held.clone());
            semaphore.acquire_async(Box::new(move |owned_permit| {
                held.lock().unwrap().push(owned_permit);
                sender.send("queued").unwrap();
            }));
        }
        std::thread::scope(|scope| {
            let sender = sender.clone();
            let semaphore = &semaphore;
            let waiter = scope.spawn(move || {
                let acquire = semaphore.acquire().unwrap();
                sender.send("waited").unwrap();
                drop(acquire);
            });
            while semaphore.shared.get().lock().waiting_threads == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            for acquire in 0..4 {
                while acquire == 1 && !waiter.is_finished() {
                    std::thread::yield_now(); // until the waiting thread gets its permit
                }
                while held.lock().unwrap().is_empty() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                let released = held.lock().unwrap().pop();
                drop(released);
            }
        });
        drop(sender);
        assert_eq!(receiver.iter().collect::<Vec<_>>(), ["waited", "queued", "queued", "queued"]);
    }

    #[test]
    #[allow(clippy::panic)]
    fn panicking_callback_releases_its_permit() {
        let semaphore = Arc::new(Semaphore::new(Some(1)));
        let (first, numbers) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(Vec::new())));
        let held = first.clone();
        semaphore.acquire_async(Box::new(move |owned_permit| *held.lock().unwrap() = owned_permit));
        semaphore.acquire_async(Box::new(|_| panic!("now")));
        for number in 0..2 {
            let numbers = numbers.clone();
            semaphore.acquire_async(Box::new(move |_| numbers.lock().unwrap().push(number)));
        }
        let released = first.lock().unwrap().take();
        drop(released);
        assert_eq!(*numbers.lock().unwrap(), [0, 1]);
        assert!(semaphore.acquire().unwrap().is_some());
    }

    #[test]
    fn callbacks_run_at_once_while_permits_are_free() {
        let semaphore = Arc::new(Semaphore::new(Some(1)));
        let finished = Arc::new(Mutex::new(Vec::new()));
        for number in 0..3 {
            let finished = finished.clone();
            // Each releases its permit at once, which runs the next one.
            semaphore.acquire_async(Box::new(move |owned_permit| {
                assert!(owned_permit.is_some());
                finished.lock().unwrap().push(number);
            }));
        }
        assert_eq!(*finished.lock().unwrap(), [0, 1, 2]);
        assert_eq!(semaphore.shared.get().lock().count, 0);
    }
}
