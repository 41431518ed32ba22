//! Limits on concurrent requests, on the request rate, and on chunks that are decoded or encoded.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::instrumented::{Call, CallReport, InstrumentedStore, StoreObserver};
use crate::error::Result;
use crate::pool;
use crate::store::{fork, interruptible_wait, recv_interruptible, Store};

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
    pub fn wrap(self: &Arc<Self>, inner: Arc<dyn Store>) -> InstrumentedStore<Self> {
        InstrumentedStore::observed_by(inner, self.clone())
    }

    fn rate_limiter(&self, call: Call) -> Option<&RateLimiter> {
        if call.changes() { &self.writes } else { &self.reads }.as_ref()
    }
}

/// A counting semaphore for threads and for callbacks, which get permits in the order of their
/// requests. A forked child starts with an unused one.
struct Semaphore {
    limit: Option<u64>,
    state: fork::PerProcess<Mutex<State>>,
}

#[derive(Default)]
struct State {
    count: u64,
    /// Callbacks to run when a permit is free; no thread waits for them.
    callbacks: VecDeque<OnPermit>,
    /// A thread is running queued callbacks.
    is_serving: bool,
}

/// Runs with a permit; the permit is held as long as the value lives.
pub type OnPermit = Box<dyn FnOnce(Option<OwnedPermit>) + Send>;

thread_local! {
    /// Semaphores whose permits this thread holds. Its further requests need no second permit: the
    /// thread would wait for itself.
    static HELD_SEMAPHORES: RefCell<Vec<*const Semaphore>> = const { RefCell::new(Vec::new()) };
}

impl Semaphore {
    fn new(limit: Option<u64>) -> Self {
        Semaphore { limit, state: fork::PerProcess::new() }
    }

    /// Return whether this thread holds a permit.
    fn is_held_by_thread(&self) -> bool {
        let this: *const Semaphore = self;
        HELD_SEMAPHORES.with_borrow(|held| held.contains(&this))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.get().lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wait for a permit, which the returned guard holds.
    fn acquire(self: &Arc<Self>) -> Result<Option<Permit>> {
        if self.limit.is_none() || self.is_held_by_thread() {
            return Ok(None);
        }
        let (sender, receiver) = channel();
        // The permit of a thread that was interrupted is dropped with the channel.
        self.acquire_async(Box::new(move |permit| drop(sender.send(permit))));
        let Some(owned_permit) = recv_interruptible(&receiver)?.flatten() else { return Ok(None) };
        HELD_SEMAPHORES.with_borrow_mut(|held| held.push(Arc::as_ptr(self)));
        Ok(Some(Permit(owned_permit)))
    }

    /// Run `on_permit` with a permit: here, or in the thread that releases one.
    fn acquire_async(self: &Arc<Self>, on_permit: OnPermit) {
        let Some(limit) = self.limit.filter(|_| !self.is_held_by_thread()) else { return on_permit(None) };
        let mut state = self.lock();
        if state.count < limit && state.callbacks.is_empty() {
            state.count += 1;
            drop(state);
            return on_permit(Some(self.owned_permit()));
        }
        state.callbacks.push_back(on_permit);
    }

    fn owned_permit(self: &Arc<Self>) -> OwnedPermit {
        OwnedPermit { semaphore: self.clone(), generation: fork::generation() }
    }

    /// Release one permit, and run queued callbacks while permits are free.
    fn release(self: &Arc<Self>) {
        let mut state = self.lock();
        state.count -= 1;
        if state.is_serving {
            return; // that thread checks the queue again
        }
        state.is_serving = true;
        let is_free = |state: &State| self.limit.is_some_and(|limit| state.count < limit);
        while let Some(on_permit) = is_free(&state).then(|| state.callbacks.pop_front()).flatten() {
            state.count += 1;
            drop(state);
            let owned_permit = self.owned_permit();
            // The panic hook reports a panic. Dropping the callback completes its request with an
            // error.
            let _ = pool::guarded(|| {
                on_permit(Some(owned_permit));
                Ok(())
            });
            state = self.lock();
        }
        state.is_serving = false;
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Semaphore").field(&self.limit).finish()
    }
}

/// A permit that is released in the thread that acquired it.
pub struct Permit(OwnedPermit);

impl Drop for Permit {
    fn drop(&mut self) {
        let this = Arc::as_ptr(&self.0.semaphore);
        HELD_SEMAPHORES.with_borrow_mut(|held| {
            if let Some(position) = held.iter().rposition(|&other| other == this) {
                held.swap_remove(position);
            }
        });
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
            self.semaphore.release();
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

impl StoreObserver for Limits {
    fn before(&self, call: Call) -> Result<Option<Permit>> {
        if call == Call::Hold {
            return Ok(None); // requests inside the held section count themselves
        }
        if call != Call::ReadContinued {
            self.rate_limiter(call).map_or(Ok(()), RateLimiter::wait)?;
        }
        self.requests.acquire()
    }

    fn supports_async(&self, call: Call) -> bool {
        self.rate_limiter(call).is_none()
    }

    fn acquire_async(&self, on_permit: OnPermit) {
        self.requests.acquire_async(on_permit);
    }

    fn coding_permit(&self) -> Result<Option<Permit>> {
        self.chunks.acquire()
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
    fn permits_are_granted_in_the_order_of_requests() {
        let semaphore = Arc::new(Semaphore::new(Some(1)));
        let (sender, receiver) = channel();
        let first = Arc::new(Mutex::new(None));
        let held = first.clone();
        semaphore.acquire_async(Box::new(move |owned_permit| *held.lock().unwrap() = owned_permit));
        let queue = |name| {
            let sender = sender.clone();
            semaphore.acquire_async(Box::new(move |_permit| sender.send(name).unwrap()));
        };
        queue("first callback");
        std::thread::scope(|scope| {
            let (sender, semaphore) = (sender.clone(), &semaphore);
            scope.spawn(move || {
                let permit = semaphore.acquire().unwrap();
                sender.send("thread").unwrap();
                drop(permit);
            });
            while semaphore.lock().callbacks.len() < 2 {
                std::thread::sleep(Duration::from_millis(1));
            }
            queue("last callback");
            let released = first.lock().unwrap().take();
            drop(released);
        });
        drop(sender);
        assert_eq!(receiver.iter().collect::<Vec<_>>(), ["first callback", "thread", "last callback"]);
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
        assert_eq!(semaphore.lock().count, 0);
    }
}
