//! A store whose calls are observed: to count, to delay, to limit, or to log them.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::limits::{OnPermit, Permit};
use crate::error::{Error, Result};
use crate::store::interruptible_wait;
use crate::store::{
    AsyncRequest, Change, Depth, Exchange, Listing, NewValue, Precondition, PrefixChange, ReadFlags,
    ReadHint, ReplaceStore, StartRequest, Store, StoreInfo, UpdateOptions, UpdateOutcome, Updater, ValuePart,
    ValueReader,
};

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Opens a value, which may be absent.
    Open,
    /// Read a range of an open value; values in memory need no such call.
    Read,
    /// Continues an earlier read.
    ReadContinued,
    /// Changes one key.
    Update,
    /// Runs work while holding the lock of a key.
    Hold,
    /// Lists every key under a prefix.
    List,
    /// Lists one level below a prefix.
    ListDir,
    /// Deletes everything under a prefix.
    DeletePrefix,
}

impl Call {
    /// Return the name that users know.
    pub fn name(self) -> &'static str {
        match self {
            Call::Open => "open",
            Call::Read | Call::ReadContinued => "read",
            Call::Update => "update",
            Call::Hold => "hold",
            Call::List => "list",
            Call::ListDir => "list_dir",
            Call::DeletePrefix => "delete_prefix",
        }
    }

    /// Return whether the call may change the store.
    pub fn changes(self) -> bool {
        matches!(self, Call::Update | Call::Hold | Call::DeletePrefix)
    }
}

/// The outcome of a call.
#[derive(Debug, Default)]
pub struct CallReport<'e> {
    /// Bytes that the call read or wrote. A value in memory is read when it is opened; copies of
    /// the current value count as not written.
    pub bytes: u64,
    /// Whether an update decided to change nothing: it only read the value.
    pub is_unchanged: bool,
    /// How often an update opened the current value, or found it absent.
    pub current_opens: u64,
    /// How often an update read the current value.
    pub current_reads: u64,
    /// The error, if the call failed.
    pub error: Option<&'e Error>,
    /// The duration of the call.
    pub duration: Duration,
}

/// Observes every call, in the calling thread; an error fails the call.
pub trait StoreObserver: Send + Sync + Debug {
    /// Runs before the call. The returned permit lives until the call ends.
    fn before(&self, _call: Call) -> Result<Option<Permit>> {
        Ok(None)
    }

    /// Return whether calls of this kind may be asynchronous: then `after` neither blocks nor calls
    /// a store.
    fn supports_async(&self, _call: Call) -> bool {
        false
    }

    /// Like [`StoreObserver::before`] for an asynchronous call: runs `on_permit` when the call may
    /// start.
    fn acquire_async(&self, on_permit: OnPermit) {
        on_permit(None);
    }

    /// Runs after the call. For listings, `key` is a prefix.
    fn after(&self, call: Call, key: &str, result: &CallReport<'_>) -> Result<()>;

    /// Runs before a chunk is decoded or encoded. The returned permit lives until the end of that.
    fn coding_permit(&self) -> Result<Option<Permit>> {
        Ok(None)
    }

    /// Return how many concurrent calls this delay requires.
    fn concurrency(&self) -> usize {
        0
    }
}

/// Passes all calls to another store, and reports them to a [`StoreObserver`].
#[derive(Debug)]
pub struct InstrumentedStore<W> {
    inner: Arc<dyn Store>,
    observer: Arc<W>,
}

impl<W: StoreObserver> InstrumentedStore<W> {
    /// Report the calls to `inner` to `observer`.
    pub fn observed_by(inner: Arc<dyn Store>, observer: impl Into<Arc<W>>) -> Self {
        InstrumentedStore { inner, observer: observer.into() }
    }

    /// Return the observer.
    pub fn observer(&self) -> &W {
        &self.observer
    }

    /// Run `work` between the two reports, if this thread may block. That check comes before the
    /// permit: others could wait for the permit that this thread would hold.
    fn report<T>(
        &self,
        call: Call,
        key: &str,
        work: impl FnOnce(&mut CallReport<'_>) -> Result<T>,
    ) -> Result<T> {
        self.inner.check_may_block()?;
        report(&*self.observer, call, key, work)
    }
}

/// Run `work`, which fills in the report, between the two calls of the observer.
fn report<T, W: StoreObserver>(
    observer: &W,
    call: Call,
    key: &str,
    work: impl FnOnce(&mut CallReport<'_>) -> Result<T>,
) -> Result<T> {
    let permit = observer.before(call)?;
    let (start, mut report) = (Instant::now(), CallReport::default());
    let result = work(&mut report);
    drop(permit);
    after(observer, call, key, start, report, result)
}

/// Report the end of a call that began at `start`.
fn after<T, W: StoreObserver>(
    observer: &W,
    call: Call,
    key: &str,
    start: Instant,
    report: CallReport<'_>,
    result: Result<T>,
) -> Result<T> {
    let report = CallReport { error: result.as_ref().err(), duration: start.elapsed(), ..report };
    let reported = observer.after(call, key, &report);
    let value = result?;
    reported.map(|()| value)
}

/// Return the number of bytes that opening a value has read.
fn bytes_in_memory(opened: Option<&dyn ValueReader>) -> u64 {
    opened.and_then(ValueReader::bytes).map_or(0, |bytes| bytes.len() as u64)
}

/// Start a request when the observer permits it, and report the end.
fn start_observed<W: StoreObserver + 'static>(
    observer: &Arc<W>,
    call: Call,
    start: StartRequest,
    request: AsyncRequest,
) {
    let reporter = observer.clone();
    observer.acquire_async(Box::new(move |permit| {
        if !request.is_active() {
            return;
        }
        let (began, name) = (Instant::now(), request.key().to_owned());
        start(match request {
            AsyncRequest::Open { key, hint, completion } => {
                let completion = completion.map(move |opened| {
                    drop(permit);
                    let bytes = opened.as_ref().map_or(0, |opened| bytes_in_memory(opened.as_deref()));
                    let report = CallReport { bytes, ..CallReport::default() };
                    let opened = after(&*reporter, call, &name, began, report, opened)?;
                    Ok(opened.map(|inner| InstrumentedReader::boxed(inner, name, reporter)))
                });
                AsyncRequest::Open { key, hint, completion }
            }
            AsyncRequest::Put { key, value, completion } => {
                let report = CallReport { bytes: value.len() as u64, ..CallReport::default() };
                let completion = completion.map(move |result| {
                    drop(permit);
                    after(&*reporter, call, &name, began, report, result)
                });
                AsyncRequest::Put { key, value, completion }
            }
        });
    }));
}

impl<W: StoreObserver + 'static> Store for InstrumentedStore<W> {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&*self.inner)
    }

    fn info(&self) -> StoreInfo {
        let (inner, concurrency) = (self.inner.info(), self.observer.concurrency());
        StoreInfo {
            concurrency: inner.concurrency.max(concurrency),
            write_concurrency: inner.write_concurrency.max(concurrency),
            ..inner
        }
    }

    fn with_inner(&self, replace: ReplaceStore<'_>) -> Option<Arc<dyn Store>> {
        let inner = replace(&self.inner)?;
        Some(Arc::new(InstrumentedStore { inner, observer: self.observer.clone() }))
    }

    fn async_requests(&self, call: Call) -> Option<StartRequest> {
        let start = self.inner.async_requests(call).filter(|_| self.observer.supports_async(call))?;
        let observer = self.observer.clone();
        Some(Arc::new(move |request| start_observed(&observer, call, start.clone(), request)))
    }

    fn open(&self, key: &str, hint: ReadHint) -> Result<Option<Box<dyn ValueReader>>> {
        let opened = self.report(Call::Open, key, |report| {
            let opened = self.inner.open(key, hint)?;
            report.bytes = bytes_in_memory(opened.as_deref());
            Ok(opened)
        })?;
        Ok(opened.map(|inner| InstrumentedReader::boxed(inner, key.to_owned(), self.observer.clone())))
    }

    fn update<'a>(
        &self,
        key: &str,
        options: UpdateOptions,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<UpdateOutcome<'a>> {
        self.report(Call::Update, key, |report| {
            // A store that compares versions does not open the value before the first conflict.
            let mut is_unread = options.precondition != Precondition::Anything;
            self.inner.update(key, options, &mut |current| {
                let counted = current.map(|inner| CountedReads { inner, reads: AtomicU64::new(0) });
                let decided = updater(counted.as_ref().map(|counted| counted as &dyn ValueReader));
                if options.current && !std::mem::take(&mut is_unread) {
                    report.current_opens += 1;
                }
                report.current_reads += counted.map_or(0, |counted| counted.reads.into_inner());
                let change = decided?;
                report.is_unchanged = matches!(change, Change::Keep);
                if let Change::Write(parts) = &change {
                    let new_parts = parts.iter().filter(|part| !matches!(part, ValuePart::Current { .. }));
                    report.bytes = new_parts.map(ValuePart::size).sum();
                }
                Ok(change)
            })
        })
    }

    fn hold(&self, key: &str, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.report(Call::Hold, key, |_| self.inner.hold(key, work))
    }

    fn list_keys(&self, prefix: &str, depth: Depth) -> Result<Listing> {
        let call = if depth == Depth::All { Call::List } else { Call::ListDir };
        self.report(call, prefix, |_| self.inner.list_keys(prefix, depth))
    }

    fn change_prefix(&self, prefix: &str, change: PrefixChange<'_>) -> Result<bool> {
        let call = match change {
            PrefixChange::Delete | PrefixChange::Clear => Call::DeletePrefix,
            PrefixChange::ReplaceBy(_) => Call::Update,
            PrefixChange::RemoveLink => return self.inner.change_prefix(prefix, change),
        };
        self.report(call, prefix, |_| self.inner.change_prefix(prefix, change))
    }

    fn exchange(&self, changes: &[Exchange]) -> Result<Option<bool>> {
        let key = changes.first().map_or("", |change| change.key.as_str());
        self.report(Call::Update, key, |report| {
            let sizes = changes.iter().map(|change| match &change.new {
                NewValue::Value(value) => value.len() as u64,
                _ => 0,
            });
            report.bytes = sizes.sum();
            self.inner.exchange(changes)
        })
    }

    fn coding_permit(&self) -> Result<Option<Permit>> {
        match self.observer.coding_permit()? {
            None => self.inner.coding_permit(),
            permit => Ok(permit),
        }
    }
}

struct InstrumentedReader<W> {
    inner: Box<dyn ValueReader>,
    key: String,
    observer: Arc<W>,
}

impl<W: StoreObserver + 'static> InstrumentedReader<W> {
    fn boxed(inner: Box<dyn ValueReader>, key: String, observer: Arc<W>) -> Box<dyn ValueReader> {
        Box::new(InstrumentedReader { inner, key, observer })
    }
}

impl<W: StoreObserver> ValueReader for InstrumentedReader<W> {
    fn inner(&self) -> Option<&dyn ValueReader> {
        Some(&*self.inner)
    }

    fn read_with(&self, offset: u64, out: &mut [u8], flags: ReadFlags) -> Result<()> {
        let call = if flags.continues_request { Call::ReadContinued } else { Call::Read };
        report(&*self.observer, call, &self.key, |report| {
            report.bytes = out.len() as u64;
            self.inner.read_with(offset, out, flags)
        })
    }
}

/// Counts reads of a value within an update, which is one call.
struct CountedReads<'o> {
    inner: &'o dyn ValueReader,
    reads: AtomicU64,
}

impl ValueReader for CountedReads<'_> {
    fn inner(&self) -> Option<&dyn ValueReader> {
        Some(self.inner)
    }

    fn read_with(&self, offset: u64, out: &mut [u8], _: ReadFlags) -> Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.inner.read_at(offset, out)
    }
}

/// Delays calls, like a remote store.
#[derive(Clone, Copy, Debug, Default)]
pub struct Latency {
    /// The delay of calls that do not change a value.
    pub read: Duration,
    /// The delay of calls that may change the store.
    pub write: Duration,
    /// The bandwidth in bytes per second; None: unlimited.
    pub bytes_per_second: Option<f64>,
    /// How many concurrent calls the delay requires.
    pub concurrency: usize,
}

impl StoreObserver for Latency {
    fn concurrency(&self) -> usize {
        self.concurrency
    }

    fn before(&self, call: Call) -> Result<Option<Permit>> {
        interruptible_wait::sleep(if call.changes() { self.write } else { self.read }).map(|()| None)
    }

    fn after(&self, _call: Call, _key: &str, result: &CallReport<'_>) -> Result<()> {
        let Some(rate) = self.bytes_per_second else { return Ok(()) };
        interruptible_wait::sleep(
            Duration::try_from_secs_f64(result.bytes as f64 / rate).unwrap_or(Duration::MAX),
        )
    }
}
