//! Retries of requests after transient errors.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::{Error, Kind, Result, LOST};
use crate::store::{aside, interruptible_wait, timer, REPLACED};
use crate::store::{
    Ask, Change, Exchange, How, Listing, Made, Need, Object, Put, Store, Told, Tried, Updater, Version, Want,
};

/// How often, and after which delay, a request is retried.
#[derive(Clone, Copy, Debug)]
pub struct Retries {
    /// The maximum number of retries.
    pub most: u64,
    /// The delay before the first retry; it doubles each time.
    pub first: Duration,
    /// The maximum delay.
    pub longest: Duration,
}

impl Retries {
    /// A random delay between half of the interval and all of it, so that clients do not retry in
    /// step.
    fn pause(&self, tried: u64) -> Duration {
        let doubled = self.first.saturating_mul(1 << tried.min(31)).min(self.longest);
        let ticks = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().subsec_nanos();
        let share = f64::from(ticks.wrapping_mul(0x9E37_79B9)) / f64::from(u32::MAX);
        doubled.mul_f64(0.5 + 0.5 * share)
    }
}

/// Retries the requests of another store after transient errors.
///
/// [`Store::exchange`] is not retried: the first attempt may have been applied. An update whose
/// response is lost is repeated, which gives the same value, or decided again. If deciding again
/// would apply the change twice (as appending does), the update raises an error.
pub struct RetryingStore<F> {
    inner: Arc<dyn Store>,
    asking: Arc<Asking<F>>,
}

struct Asking<F> {
    retries: Retries,
    /// Converts the exception of a callback, and classifies it.
    foreign: F,
}

/// Whether an error is transient, and what it says about a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passes {
    /// A retry cannot succeed.
    Never,
    /// A retry may succeed. The request was probably not applied.
    Unclear,
    /// A retry may succeed. The response was lost: the request may have been applied.
    Lost,
    /// A retry may succeed. The server stated that the request was not applied.
    Undone,
}

impl<F: Fn(Error) -> (Error, Passes)> Asking<F> {
    /// Run `work`, and again after transient errors.
    fn each<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        let mut tried = 0;
        loop {
            let (error, passes) = match work() {
                Err(error) => self.judged(error),
                done => return done,
            };
            if tried >= self.retries.most || passes == Passes::Never {
                return Err(error);
            }
            interruptible_wait::sleep(self.retries.pause(tried))?;
            tried += 1;
        }
    }

    /// Convert an error, and classify it.
    fn judged(&self, error: Error) -> (Error, Passes) {
        match error.kind {
            Kind::Store { retryable: true, .. } if error.code != Some(REPLACED) => (error, Passes::Unclear),
            Kind::Foreign => aside(|| (self.foreign)(error)),
            _ => (error, Passes::Never),
        }
    }

    /// Classify the error of an update, which an earlier request may have applied.
    fn judged_change<T>(&self, made: &Result<T>) -> Passes {
        let Err(error) = made else { return Passes::Never };
        match self.judged(error.clone()).1 {
            Passes::Unclear | Passes::Undone if is_lost(error) => Passes::Lost,
            passes => passes,
        }
    }
}

impl<F> RetryingStore<F> {
    /// Retry the requests of `inner` by `policy`. `classify_foreign` converts and classifies
    /// exceptions.
    pub fn new(inner: Arc<dyn Store>, retries: Retries, foreign: F) -> Self {
        RetryingStore { inner, asking: Arc::new(Asking { retries, foreign }) }
    }
}

impl<F> fmt::Debug for RetryingStore<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RetryingStore").field(&self.inner).field(&self.asking.retries).finish()
    }
}

impl<F: Fn(Error) -> (Error, Passes) + Send + Sync + 'static> Asking<F> {
    fn opened(self: Arc<Self>, inner: Box<dyn Object>) -> Box<dyn Object> {
        Box::new(RetryingObject { inner, asking: self })
    }
}

/// Starts an asynchronous operation.
type Begin<T> = Arc<dyn Fn(Told<T>) + Send + Sync>;

impl<F: Fn(Error) -> (Error, Passes) + Send + Sync + 'static> Asking<F> {
    /// Start an operation, and again after transient errors as long as its caller needs the result.
    /// No thread waits meanwhile.
    fn begin<T: 'static>(self: Arc<Self>, tried: u64, begin: Begin<T>, told: Told<T>) {
        if !told.is_wanted() {
            return;
        }
        let again = begin.clone();
        let told = told.then(move |told, done| match done {
            Err(error) => match self.judged(error) {
                (_, passes) if passes != Passes::Never && tried < self.retries.most => {
                    let (pause, wanted) = (self.retries.pause(tried), told.wanted());
                    timer::after(pause, wanted, move || self.begin(tried + 1, again, told));
                }
                (error, _) => told.tell(Err(error)),
            },
            done => told.tell(done),
        });
        begin(told);
    }
}

/// Starts reads of the inner store, with retries.
struct RetryingAsk<F> {
    inner: Arc<dyn Ask>,
    asking: Arc<Asking<F>>,
}

impl<F: Fn(Error) -> (Error, Passes) + Send + Sync + 'static> Ask for RetryingAsk<F> {
    fn ask(&self, key: &str, want: Want, told: Told) {
        let (inner, key, asking) = (self.inner.clone(), key.to_owned(), self.asking.clone());
        let told = told.then(|told, opened| {
            told.tell(opened.map(|object| Some(asking.opened(object?))));
        });
        self.asking.clone().begin(0, Arc::new(move |told| inner.ask(&key, want, told)), told);
    }
}

/// Starts writes of the inner store, with retries.
struct RetryingPut<F> {
    inner: Arc<dyn Put>,
    asking: Arc<Asking<F>>,
}

impl<F: Fn(Error) -> (Error, Passes) + Send + Sync + 'static> Put for RetryingPut<F> {
    fn put(&self, key: &str, value: &Arc<Vec<u8>>, told: Told<Option<Version>>) {
        let (inner, key, value) = (self.inner.clone(), key.to_owned(), value.clone());
        self.asking.clone().begin(0, Arc::new(move |told| inner.put(&key, &value, told)), told);
    }
}

impl<F: Fn(Error) -> (Error, Passes) + Send + Sync + 'static> Store for RetryingStore<F> {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&*self.inner)
    }

    fn open(&self, key: &str, want: Want) -> Result<Option<Box<dyn Object>>> {
        let opened = self.asking.each(|| self.inner.open(key, want))?;
        Ok(opened.map(|inner| self.asking.clone().opened(inner)))
    }

    fn asking(&self) -> Option<Arc<dyn Ask>> {
        Some(Arc::new(RetryingAsk { inner: self.inner.asking()?, asking: self.asking.clone() }))
    }

    fn putting(&self) -> Option<Arc<dyn Put>> {
        Some(Arc::new(RetryingPut { inner: self.inner.putting()?, asking: self.asking.clone() }))
    }

    fn update<'a>(&self, key: &str, need: Need, updater: &mut Updater<'_, 'a>) -> Result<Made<'a>> {
        if need.current {
            let (mut tried, mut sure) = (Tried::Nothing, false);
            let made = self.asking.each(|| {
                let before = tried.clone();
                let (mut undecided, mut is_change) = (None, false);
                let mut decide = |current: Option<&dyn Object>| {
                    let decided = before.decide(current, false, sure, updater);
                    is_change = matches!(decided, Ok(Change::Delete | Change::Write(_)));
                    tried = match &decided {
                        Ok(change) => Tried::of(change, need.only)?,
                        Err(_) => before.clone(),
                    };
                    undecided = decided.as_ref().err().cloned();
                    decided
                };
                let made = self.inner.update(key, need, &mut decide);
                let knows = made.as_ref().is_err_and(is_lost);
                let is_final = |error: &Error| self.asking.judged(error.clone()).1 == Passes::Never;
                // The error comes from the updater, not from the store: return it unless the write
                // is ambiguous.
                if let Some(error) = undecided.filter(|error| !knows && is_final(error)) {
                    return Ok(Err(error));
                }
                match self.asking.judged_change(&made) {
                    Passes::Undone => tried = before.clone(),
                    Passes::Lost => sure |= is_change || knows, // otherwise only a read was lost
                    Passes::Never | Passes::Unclear => {}
                }
                let made = made?;
                if need.only && matches!(made.change, Change::Keep) {
                    before.check_refused(sure, || self.inner.open(key, Want::Whole))?;
                }
                Ok(Ok(made))
            });
            return made.and_then(|made| made).map_err(|error| error.at_key(key));
        }
        let change = updater(None)?;
        let make = || Ok(self.inner.update(key, need, &mut |_| Ok(change.again()))?.version);
        let version = self.asking.each(make)?;
        Ok(Made { change, version })
    }

    fn hold(&self, key: &str, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let mut outcome = None;
        self.asking.each(|| {
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

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.asking.each(|| self.inner.list(prefix))
    }

    fn list_dir(&self, prefix: &str) -> Result<Listing> {
        self.asking.each(|| self.inner.list_dir(prefix))
    }

    fn delete_prefix(&self, prefix: &str) -> Result<()> {
        self.asking.each(|| self.inner.delete_prefix(prefix))
    }

    fn replace_prefix(&self, staged: &str, prefix: &str) -> Result<bool> {
        self.inner.replace_prefix(staged, prefix).map_err(|error| self.asking.judged(error).0)
    }

    fn clear_prefix(&self, prefix: &str) -> Result<()> {
        self.asking.each(|| self.inner.clear_prefix(prefix))
    }

    fn exchange(&self, changes: &[Exchange]) -> Result<Option<bool>> {
        self.inner.exchange(changes).map_err(|error| self.asking.judged(error).0)
    }
}

/// Whether the error says that a write may have been applied.
fn is_lost(error: &Error) -> bool {
    error.code == Some(LOST)
}

struct RetryingObject<F> {
    inner: Box<dyn Object>,
    asking: Arc<Asking<F>>,
}

impl<F: Fn(Error) -> (Error, Passes) + Send + Sync> Object for RetryingObject<F> {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn version(&self) -> Option<Version> {
        self.inner.version()
    }

    fn takes_request(&self, offset: u64, count: u64) -> bool {
        self.inner.takes_request(offset, count)
    }

    fn state(&self) -> Option<Version> {
        self.inner.state()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.read_as(offset, out, How::default())
    }

    fn read_as(&self, offset: u64, out: &mut [u8], how: How) -> Result<()> {
        self.asking.each(|| self.inner.read_as(offset, out, how))
    }

    fn bytes(&self) -> Option<&[u8]> {
        self.inner.bytes()
    }

    fn file(&self) -> Option<&std::fs::File> {
        self.inner.file()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::channel;

    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::store::Asker;

    /// Responds "busy" this many times.
    struct Busy(AtomicU64);

    impl Ask for Busy {
        fn ask(&self, _: &str, _: Want, told: Told) {
            let left = self.0.fetch_sub(1, Ordering::Relaxed);
            let kind = Kind::Store { retryable: left < 100, errno: None };
            told.tell(if left == 0 { Ok(None) } else { Err(Error::new(kind, "busy")) });
        }
    }

    /// A flag as a cancel token.
    impl Asker for AtomicBool {
        fn wants(&self) -> bool {
            self.load(Ordering::Relaxed)
        }
    }

    /// Read from `inner` with four retries.
    fn asks(inner: Arc<dyn Ask>, told: Told) {
        let first = Duration::from_micros(1);
        let retries = Retries { most: 4, first, longest: first };
        let asking = Arc::new(Asking { retries, foreign: |error: Error| (error, Passes::Never) });
        RetryingAsk { inner, asking }.ask("key", Want::Whole, told);
    }

    /// Whether the read succeeds after `often` busy responses, and how many busy responses remain.
    fn told(often: u64) -> (bool, u64) {
        let busy = Arc::new(Busy(often.into()));
        let (tell, told) = channel();
        let wanted = Arc::new(AtomicBool::new(true));
        asks(busy.clone(), Told::new(wanted, move |opened| tell.send(opened.is_ok()).unwrap()));
        (told.recv().unwrap(), busy.0.load(Ordering::Relaxed))
    }

    #[test]
    fn what_is_asked_for_is_asked_for_again() {
        assert_eq!(told(4), (true, u64::MAX));
        assert_eq!(told(7), (false, 2));
        assert_eq!(told(200), (false, 199));
    }

    /// Responds "busy", and cancels the request after the first response.
    struct Given {
        busy: Busy,
        wanted: Arc<AtomicBool>,
    }

    impl Ask for Given {
        fn ask(&self, key: &str, want: Want, told: Told) {
            self.wanted.store(false, Ordering::Relaxed);
            self.busy.ask(key, want, told);
        }
    }

    #[test]
    fn what_nobody_wants_any_more_is_not_asked_for_again() {
        let wanted = Arc::new(AtomicBool::new(true));
        let given = Arc::new(Given { busy: Busy(AtomicU64::new(50)), wanted: wanted.clone() });
        let (tell, told) = channel::<bool>();
        asks(given.clone(), Told::new(wanted, move |opened| tell.send(opened.is_ok()).unwrap()));
        assert!(told.recv().is_err()); // the completion was dropped
        assert_eq!(given.busy.0.load(Ordering::Relaxed), 49);
    }
}
