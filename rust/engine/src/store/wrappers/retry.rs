//! Retries of requests after transient errors.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::error::{Error, Kind, Result, AMBIGUOUS_WRITE};
use crate::store::{interruptible_wait, run_after, run_blocking, REPLACED};
use crate::store::{
    AsyncRequest, AttemptedWrite, Call, Change, Completion, Depth, Exchange, Listing, PrefixChange,
    ReadFlags, ReadHint, StartRequest, Store, UpdateOptions, UpdateOutcome, Updater, ValueReader,
};

/// How often, and after which delay, a request is retried.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// The maximum number of retries.
    pub max_retries: u64,
    /// The delay before the first retry; it doubles each time.
    pub initial_delay: Duration,
    /// The maximum delay.
    pub max_delay: Duration,
    /// No retry starts later than this after the first attempt.
    pub max_elapsed: Duration,
}

impl RetryPolicy {
    /// Return a random delay between half of the interval and all of it, so that clients do not
    /// retry in step.
    fn pause(&self, retries: u64) -> Duration {
        let doubled = self.initial_delay.saturating_mul(1 << retries.min(31)).min(self.max_delay);
        let ticks = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().subsec_nanos();
        let share = f64::from(ticks.wrapping_mul(0x9E37_79B9)) / f64::from(u32::MAX);
        doubled.mul_f64(0.5 + 0.5 * share)
    }
}

/// Retry the requests of another store after transient errors.
///
/// [`Store::exchange`] is not retried: the first attempt may have been applied. If the response of
/// an update is lost, this repeats an update with the same value, or runs the updater again. If a
/// second run would apply the change twice (as an append does), the update raises an error.
pub struct RetryingStore<F> {
    inner: Arc<dyn Store>,
    retrier: Arc<Retrier<F>>,
}

struct Retrier<F> {
    policy: RetryPolicy,
    /// Converts the exception of a callback, and classifies it.
    classify_foreign: F,
}

/// Whether an error is transient, and whether the failed write may have happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transience {
    /// A retry cannot succeed.
    Permanent,
    /// A retry may succeed. The request was probably not applied.
    Transient,
    /// A retry may succeed. The response was lost: the request may have been applied.
    Ambiguous,
    /// A retry may succeed. The server reported that it did not apply the request.
    NotApplied,
}

impl<F: Fn(Error) -> (Error, Transience)> Retrier<F> {
    /// Run `work`, and again after transient errors.
    fn run<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        let (mut retries, start) = (0, Instant::now());
        loop {
            let error = match work() {
                Err(error) => error,
                result => return result,
            };
            interruptible_wait::sleep(self.next_pause(error, retries, start)?)?;
            retries += 1;
        }
    }

    /// Return the pause before the next attempt, or the error if it is the final one.
    fn next_pause(&self, error: Error, retries: u64, start: Instant) -> Result<Duration> {
        let is_last = retries >= self.policy.max_retries || start.elapsed() > self.policy.max_elapsed;
        match self.classify(error) {
            (error, Transience::Permanent) => Err(error),
            (error, _) if is_last => Err(error),
            _ => Ok(self.policy.pause(retries)),
        }
    }

    /// Convert an error, and classify it.
    fn classify(&self, error: Error) -> (Error, Transience) {
        match error.kind {
            Kind::Store { retryable: true, .. } if error.code != Some(REPLACED) => {
                (error, Transience::Transient)
            }
            Kind::Foreign => run_blocking(|| (self.classify_foreign)(error)),
            _ => (error, Transience::Permanent),
        }
    }

    /// Classify the error of an update, which an earlier request may have applied.
    fn classify_update<T>(&self, outcome: &Result<T>) -> Transience {
        let Err(error) = outcome else { return Transience::Permanent };
        match self.classify(error.clone()).1 {
            Transience::Transient | Transience::NotApplied if is_ambiguous_error(error) => {
                Transience::Ambiguous
            }
            transience => transience,
        }
    }
}

impl<F> RetryingStore<F> {
    /// Retry the requests of `inner` by `policy`. `classify_foreign` converts and classifies
    /// exceptions.
    pub fn new(inner: Arc<dyn Store>, policy: RetryPolicy, classify_foreign: F) -> Self {
        RetryingStore { inner, retrier: Arc::new(Retrier { policy, classify_foreign }) }
    }
}

impl<F> fmt::Debug for RetryingStore<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RetryingStore").field(&self.inner).field(&self.retrier.policy).finish()
    }
}

/// Starts an operation.
type StartAsync<T> = Arc<dyn Fn(Completion<T>) + Send + Sync>;

impl<F: Fn(Error) -> (Error, Transience) + Send + Sync + 'static> Retrier<F> {
    fn wrap_reader(self: Arc<Self>, inner: Box<dyn ValueReader>) -> Box<dyn ValueReader> {
        Box::new(RetryingReader { inner, retrier: self })
    }

    /// Start a request, with retries.
    fn start(self: Arc<Self>, start: StartRequest, request: AsyncRequest) {
        match request {
            AsyncRequest::Open { key, hint, completion } => {
                let retrier = self.clone();
                let completion =
                    completion.map(|opened| Ok(opened?.map(|object| retrier.wrap_reader(object))));
                let open = move |completion| start(AsyncRequest::Open { key: key.clone(), hint, completion });
                self.run_async((0, Instant::now()), Arc::new(open), completion);
            }
            AsyncRequest::Put { key, value, completion } => {
                let put = move |completion| {
                    start(AsyncRequest::Put { key: key.clone(), value: value.clone(), completion });
                };
                self.run_async((0, Instant::now()), Arc::new(put), completion);
            }
        }
    }

    /// Start an operation, and retry it after transient errors as long as its caller needs the
    /// result. No thread waits for it. `since` has the number of retries so far, and when the first
    /// attempt started.
    fn run_async<T: 'static>(
        self: Arc<Self>,
        since: (u64, Instant),
        start: StartAsync<T>,
        completion: Completion<T>,
    ) {
        if !completion.is_active() {
            return;
        }
        let start_again = start.clone();
        start(completion.chain(move |completion, result| {
            let pause = match result {
                Err(error) => self.next_pause(error, since.0, since.1),
                result => return completion.complete(result),
            };
            match pause {
                Ok(pause) => run_after(pause, completion.active_check(), move || {
                    self.run_async((since.0 + 1, since.1), start_again, completion);
                }),
                Err(error) => completion.complete(Err(error)),
            }
        }));
    }
}

impl<F: Fn(Error) -> (Error, Transience) + Send + Sync + 'static> Store for RetryingStore<F> {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&*self.inner)
    }

    fn open(&self, key: &str, hint: ReadHint) -> Result<Option<Box<dyn ValueReader>>> {
        let opened = self.retrier.run(|| self.inner.open(key, hint))?;
        Ok(opened.map(|inner| self.retrier.clone().wrap_reader(inner)))
    }

    fn async_requests(&self, call: Call) -> Option<StartRequest> {
        let (start, retrier) = (self.inner.async_requests(call)?, self.retrier.clone());
        Some(Arc::new(move |request| retrier.clone().start(start.clone(), request)))
    }

    fn update<'a>(
        &self,
        key: &str,
        options: UpdateOptions,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<UpdateOutcome<'a>> {
        if options.current {
            let (mut attempted, mut response_lost) = (AttemptedWrite::Untracked, false);
            let outcome = self.retrier.run(|| {
                let earlier = attempted.clone();
                let (mut updater_error, mut is_change) = (None, false);
                let mut decide_again = |current: Option<&dyn ValueReader>| {
                    let decision = earlier.decide(current, false, response_lost, updater);
                    is_change = matches!(decision, Ok(Change::Delete | Change::Write(_)));
                    attempted = match &decision {
                        Ok(change) => AttemptedWrite::of(change, options.strict)?,
                        Err(_) => earlier.clone(),
                    };
                    updater_error = decision.as_ref().err().cloned();
                    decision
                };
                let outcome = self.inner.update(key, options, &mut decide_again);
                let is_ambiguous = outcome.as_ref().is_err_and(is_ambiguous_error);
                let is_final =
                    |error: &Error| self.retrier.classify(error.clone()).1 == Transience::Permanent;
                // The error comes from the updater, not from the store: return it unless the write
                // is ambiguous.
                if let Some(error) = updater_error.filter(|error| !is_ambiguous && is_final(error)) {
                    return Ok(Err(error));
                }
                match self.retrier.classify_update(&outcome) {
                    Transience::NotApplied => attempted = earlier.clone(),
                    // Otherwise only a read was lost.
                    Transience::Ambiguous => response_lost |= is_change || is_ambiguous,
                    Transience::Permanent | Transience::Transient => {}
                }
                let outcome = outcome?;
                if options.strict && matches!(outcome.change, Change::Keep) {
                    earlier.check_refusal(response_lost, || self.inner.open(key, ReadHint::Whole))?;
                }
                Ok(Ok(outcome))
            });
            return outcome.and_then(|outcome| outcome).map_err(|error| error.at_key(key));
        }
        let change = updater(None)?;
        let apply = || Ok(self.inner.update(key, options, &mut |_| Ok(change.reborrow()))?.version);
        let version = self.retrier.run(apply)?;
        Ok(UpdateOutcome { change, version })
    }

    fn hold(&self, key: &str, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let mut outcome = None;
        self.retrier.run(|| {
            if outcome.is_some() {
                return Ok(()); // only the release of the lock failed
            }
            self.inner.hold(key, &mut || {
                outcome = Some(work());
                Ok(())
            })
        })?;
        outcome.unwrap_or(Ok(()))
    }

    fn list_keys(&self, prefix: &str, depth: Depth) -> Result<Listing> {
        self.retrier.run(|| self.inner.list_keys(prefix, depth))
    }

    fn list_sizes(&self, prefix: &str) -> Result<Option<Vec<(String, u64)>>> {
        self.retrier.run(|| self.inner.list_sizes(prefix))
    }

    fn change_prefix(&self, prefix: &str, change: PrefixChange<'_>) -> Result<bool> {
        match change {
            PrefixChange::ReplaceBy(_) => {
                self.inner.change_prefix(prefix, change).map_err(|error| self.retrier.classify(error).0)
            }
            _ => self.retrier.run(|| self.inner.change_prefix(prefix, change)),
        }
    }

    fn exchange(&self, changes: &[Exchange]) -> Result<Option<bool>> {
        self.inner.exchange(changes).map_err(|error| self.retrier.classify(error).0)
    }
}

/// Return whether the error says that a write may have been applied.
fn is_ambiguous_error(error: &Error) -> bool {
    error.code == Some(AMBIGUOUS_WRITE)
}

struct RetryingReader<F> {
    inner: Box<dyn ValueReader>,
    retrier: Arc<Retrier<F>>,
}

impl<F: Fn(Error) -> (Error, Transience) + Send + Sync> ValueReader for RetryingReader<F> {
    fn inner(&self) -> Option<&dyn ValueReader> {
        Some(&*self.inner)
    }

    fn read_with(&self, offset: u64, out: &mut [u8], flags: ReadFlags) -> Result<()> {
        self.retrier.run(|| self.inner.read_with(offset, out, flags))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::channel;

    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::store::CancelToken;

    /// Responds "busy" this many times.
    struct Busy(AtomicU64);

    impl Busy {
        fn respond(&self, request: AsyncRequest) {
            let AsyncRequest::Open { completion, .. } = request else { return };
            let remaining = self.0.fetch_sub(1, Ordering::Relaxed);
            let busy = Error::store(remaining < 100, "busy");
            completion.complete(if remaining == 0 { Ok(None) } else { Err(busy) });
        }
    }

    /// A flag as a cancel token.
    impl CancelToken for AtomicBool {
        fn is_active(&self) -> bool {
            self.load(Ordering::Relaxed)
        }
    }

    /// Read from a store with four retries in some time.
    fn get_with_retries(max_elapsed: Duration, start: StartRequest, completion: Completion) {
        let initial_delay = Duration::from_micros(1);
        let max_delay = initial_delay;
        let policy = RetryPolicy { max_retries: 4, initial_delay, max_delay, max_elapsed };
        let retrier =
            Arc::new(Retrier { policy, classify_foreign: |error: Error| (error, Transience::Permanent) });
        retrier.start(start, AsyncRequest::Open { key: "key".into(), hint: ReadHint::Whole, completion });
    }

    /// Whether the read succeeds after `count` busy responses, and how many busy responses remain.
    fn read_busy(count: u64) -> (bool, u64) {
        read_busy_for(Duration::MAX, count)
    }

    fn read_busy_for(max_elapsed: Duration, count: u64) -> (bool, u64) {
        let busy = Arc::new(Busy(count.into()));
        let (sender, receiver) = channel();
        let (is_active, store) = (Arc::new(AtomicBool::new(true)), busy.clone());
        get_with_retries(
            max_elapsed,
            Arc::new(move |request| store.respond(request)),
            Completion::new(is_active, move |wrap_reader| sender.send(wrap_reader.is_ok()).unwrap()),
        );
        (receiver.recv().unwrap(), busy.0.load(Ordering::Relaxed))
    }

    #[test]
    fn transient_errors_are_retried() {
        assert_eq!(read_busy(4), (true, u64::MAX));
        assert_eq!(read_busy(7), (false, 2));
        assert_eq!(read_busy(200), (false, 199));
    }

    #[test]
    fn retries_end_after_the_time_limit() {
        assert_eq!(read_busy_for(Duration::ZERO, 4), (false, 3));
    }

    #[test]
    fn cancelled_read_is_not_retried() {
        let (busy, is_active) = (Arc::new(Busy(AtomicU64::new(50))), Arc::new(AtomicBool::new(true)));
        let (store, token) = (busy.clone(), is_active.clone());
        let cancel_and_respond = move |request| {
            token.store(false, Ordering::Relaxed);
            store.respond(request);
        };
        let (sender, receiver) = channel::<bool>();
        get_with_retries(
            Duration::MAX,
            Arc::new(cancel_and_respond),
            Completion::new(is_active, move |wrap_reader| sender.send(wrap_reader.is_ok()).unwrap()),
        );
        assert!(receiver.recv().is_err()); // the completion was dropped
        assert_eq!(busy.0.load(Ordering::Relaxed), 49);
    }
}
