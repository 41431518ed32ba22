//! A store whose calls are observed: to count, to delay, to limit, or to log them.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::limits::{OnPermit, Permit};
use crate::error::{Error, Result};
use crate::store::interruptible_wait;
use crate::store::{
    with_coalescing, AsyncGet, AsyncPut, Change, CoalescingStore, Completion, DecodedCache, Exchange,
    Listing, NewValue, OpenResult, Precondition, ReadFlags, ReadHint, Store, UpdateOptions, UpdateOutcome,
    Updater, ValuePart, ValueReader, Version,
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
#[derive(Debug)]
pub struct CallReport<'e> {
    /// Bytes that the call read or wrote. A value in memory is read when it is opened; copies of
    /// the current value count as not written.
    pub bytes: u64,
    /// Whether an update decided to change nothing: it only read the value.
    pub is_unchanged: bool,
    /// Reads of the current value by an update.
    pub current_reads: CurrentValueReads,
    /// The error, if the call failed.
    pub error: Option<&'e Error>,
    /// The duration of the call.
    pub duration: Duration,
}

/// Reads of the current value by an update.
#[derive(Clone, Copy, Debug, Default)]
pub struct CurrentValueReads {
    /// How often the value was opened, or absent.
    pub opens: u64,
    /// Reads of the open value.
    pub reads: u64,
    /// Bytes of these reads.
    pub bytes: u64,
}

/// Observes every call, in the calling thread; an error fails the call.
pub trait StoreObserver: Send + Sync + Debug {
    /// Runs before the call. The returned permit lives until the call ends.
    fn before(&self, _call: Call) -> Result<Option<Permit<'_>>> {
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
    fn coding_permit(&self) -> Result<Option<Permit<'_>>> {
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
    pub fn observed_by(inner: Arc<dyn Store>, observer: W) -> Self {
        InstrumentedStore { inner, observer: Arc::new(observer) }
    }

    /// Return the observer.
    pub fn observer(&self) -> &W {
        &self.observer
    }

    /// Run `work` between the two reports, if this thread may block. That check comes before the
    /// permit: others could wait for the permit that this thread would hold.
    fn report<T>(&self, call: Call, key: &str, work: impl FnOnce(&mut CallTrace) -> Result<T>) -> Result<T> {
        self.inner.check_may_block()?;
        report(&*self.observer, call, key, work)
    }

    fn report_simple<T>(&self, call: Call, key: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.report(call, key, |_| work())
    }
}

/// Details of a call.
#[derive(Default)]
struct CallTrace {
    bytes: u64,
    is_unchanged: bool,
    current_reads: CurrentValueReads,
}

/// Run `work` between the two reports.
fn report<T, W: StoreObserver>(
    observer: &W,
    call: Call,
    key: &str,
    work: impl FnOnce(&mut CallTrace) -> Result<T>,
) -> Result<T> {
    let permit = observer.before(call)?;
    let start = Instant::now();
    let mut trace = CallTrace::default();
    let result = work(&mut trace);
    drop(permit);
    after(observer, call, key, start, trace, result)
}

/// Report the end of a call that began at `start`.
fn after<T, W: StoreObserver>(
    observer: &W,
    call: Call,
    key: &str,
    start: Instant,
    trace: CallTrace,
    result: Result<T>,
) -> Result<T> {
    let CallTrace { bytes, is_unchanged, current_reads } = trace;
    let call_report = CallReport {
        bytes,
        is_unchanged,
        current_reads,
        error: result.as_ref().err(),
        duration: start.elapsed(),
    };
    let reported = observer.after(call, key, &call_report);
    let value = result?;
    reported.map(|()| value)
}

/// Return the number of bytes that opening a value has read.
fn bytes_in_memory(opened: Option<&dyn ValueReader>) -> u64 {
    opened.and_then(ValueReader::bytes).map_or(0, |bytes| bytes.len() as u64)
}

/// Run `start_call` when the observer permits it, and report the end; `bytes` returns the size.
fn start_async<T: 'static, W: StoreObserver + 'static>(
    observer: &Arc<W>,
    call: Call,
    key: &str,
    bytes: impl FnOnce(&Result<T>) -> u64 + Send + 'static,
    completion: Completion<T>,
    start_call: impl FnOnce(&str, Completion<T>) + Send + 'static,
) {
    let (key, reporter) = (key.to_owned(), observer.clone());
    let on_permit: OnPermit = Box::new(move |owned_permit| {
        if !completion.is_active() {
            return;
        }
        let (start, name) = (Instant::now(), key.clone());
        let completion = completion.chain(move |completion, result| {
            drop(owned_permit);
            let trace = CallTrace { bytes: bytes(&result), ..CallTrace::default() };
            completion.complete(after(&*reporter, call, &name, start, trace, result));
        });
        start_call(&key, completion);
    });
    observer.acquire_async(on_permit);
}

/// Starts reads of the inner store, and reports them.
struct InstrumentedGet<W> {
    inner: Arc<dyn AsyncGet>,
    observer: Arc<W>,
}

impl<W: StoreObserver + 'static> AsyncGet for InstrumentedGet<W> {
    fn get(&self, key: &str, hint: ReadHint, completion: Completion) {
        let (inner, observer, name) = (self.inner.clone(), self.observer.clone(), key.to_owned());
        let completion = completion.chain(|completion, opened| {
            completion.complete(opened.map(|inner| Some(InstrumentedReader::boxed(inner?, name, observer))));
        });
        let bytes =
            |opened: &OpenResult| opened.as_ref().map_or(0, |opened| bytes_in_memory(opened.as_deref()));
        let get = move |key: &str, completion| inner.get(key, hint, completion);
        start_async(&self.observer, Call::Open, key, bytes, completion, get);
    }
}

/// Starts writes of the inner store, and reports them.
struct InstrumentedPut<W> {
    inner: Arc<dyn AsyncPut>,
    observer: Arc<W>,
}

impl<W: StoreObserver + 'static> AsyncPut for InstrumentedPut<W> {
    fn put(&self, key: &str, value: &Arc<Vec<u8>>, completion: Completion<Option<Version>>) {
        let (inner, value, size) = (self.inner.clone(), value.clone(), value.len() as u64);
        let put = move |key: &str, completion| inner.put(key, &value, completion);
        start_async(&self.observer, Call::Update, key, move |_| size, completion, put);
    }
}

impl<W: StoreObserver + 'static> Store for InstrumentedStore<W> {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&*self.inner)
    }

    fn open(&self, key: &str, hint: ReadHint) -> Result<Option<Box<dyn ValueReader>>> {
        let opened = self.report(Call::Open, key, |trace| {
            let opened = self.inner.open(key, hint)?;
            trace.bytes = bytes_in_memory(opened.as_deref());
            Ok(opened)
        })?;
        Ok(opened.map(|inner| InstrumentedReader::boxed(inner, key.to_owned(), self.observer.clone())))
    }

    fn with_coalescing(
        &self,
        below: &Arc<dyn Store>,
        shared: &Arc<CoalescingStore>,
    ) -> Option<Arc<dyn Store>> {
        let inner = with_coalescing(&self.inner, below, shared)?;
        Some(Arc::new(InstrumentedStore { inner, observer: self.observer.clone() }))
    }

    fn async_get(&self) -> Option<Arc<dyn AsyncGet>> {
        let inner = self.inner.async_get().filter(|_| self.observer.supports_async(Call::Open))?;
        Some(Arc::new(InstrumentedGet { inner, observer: self.observer.clone() }))
    }

    fn async_put(&self) -> Option<Arc<dyn AsyncPut>> {
        let inner = self.inner.async_put().filter(|_| self.observer.supports_async(Call::Update))?;
        Some(Arc::new(InstrumentedPut { inner, observer: self.observer.clone() }))
    }

    fn update<'a>(
        &self,
        key: &str,
        options: UpdateOptions,
        updater: &mut Updater<'_, 'a>,
    ) -> Result<UpdateOutcome<'a>> {
        self.report(Call::Update, key, |trace| {
            // A store that compares versions does not open the value before the first conflict.
            let mut is_unread = options.precondition != Precondition::Anything;
            self.inner.update(key, options, &mut |current| {
                let counted = current.map(CountedReads::of);
                let decided = updater(counted.as_ref().map(|counted| counted as &dyn ValueReader));
                if options.current && !std::mem::take(&mut is_unread) {
                    trace.current_reads.opens += 1;
                }
                counted.iter().for_each(|counted| counted.add_to(&mut trace.current_reads));
                let change = decided?;
                trace.is_unchanged = matches!(change, Change::Keep);
                if let Change::Write(parts) = &change {
                    let new_parts = parts.iter().filter(|part| !matches!(part, ValuePart::Current { .. }));
                    trace.bytes = new_parts.map(ValuePart::size).sum();
                }
                Ok(change)
            })
        })
    }

    fn hold(&self, key: &str, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.report_simple(Call::Hold, key, || self.inner.hold(key, work))
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.report_simple(Call::List, prefix, || self.inner.list(prefix))
    }

    fn list_dir(&self, prefix: &str) -> Result<Listing> {
        self.report_simple(Call::ListDir, prefix, || self.inner.list_dir(prefix))
    }

    fn delete_prefix(&self, prefix: &str) -> Result<()> {
        self.report_simple(Call::DeletePrefix, prefix, || self.inner.delete_prefix(prefix))
    }

    fn replace_prefix(&self, staged: &str, prefix: &str) -> Result<bool> {
        self.report_simple(Call::Update, prefix, || self.inner.replace_prefix(staged, prefix))
    }

    fn clear_prefix(&self, prefix: &str) -> Result<()> {
        self.report_simple(Call::DeletePrefix, prefix, || self.inner.clear_prefix(prefix))
    }

    fn exchange(&self, changes: &[Exchange]) -> Result<Option<bool>> {
        let key = changes.first().map_or("", |change| change.key.as_str());
        self.report(Call::Update, key, |trace| {
            let sizes = changes.iter().map(|change| match &change.new {
                NewValue::Value(value) => value.len() as u64,
                _ => 0,
            });
            trace.bytes = sizes.sum();
            self.inner.exchange(changes)
        })
    }

    fn concurrency(&self) -> usize {
        self.inner.concurrency().max(self.observer.concurrency())
    }

    fn coding_permit(&self) -> Result<Option<Permit<'_>>> {
        match self.observer.coding_permit()? {
            None => self.inner.coding_permit(),
            permit => Ok(permit),
        }
    }

    fn write_concurrency(&self) -> usize {
        self.inner.write_concurrency().max(self.observer.concurrency())
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
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn version(&self) -> Option<Version> {
        self.inner.version()
    }

    fn needs_request(&self, offset: u64, count: u64) -> bool {
        self.inner.needs_request(offset, count)
    }

    fn state(&self) -> Option<Version> {
        self.inner.state()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.read_with(offset, out, ReadFlags::default())
    }

    fn read_with(&self, offset: u64, out: &mut [u8], flags: ReadFlags) -> Result<()> {
        let call = if flags.continues_request { Call::ReadContinued } else { Call::Read };
        report(&*self.observer, call, &self.key, |trace| {
            trace.bytes = out.len() as u64;
            self.inner.read_with(offset, out, flags)
        })
    }

    fn is_cached(&self, offset: u64, count: u64) -> bool {
        self.inner.is_cached(offset, count)
    }

    fn decoded_cache(&self) -> Option<&dyn DecodedCache> {
        self.inner.decoded_cache()
    }

    fn bytes(&self) -> Option<&[u8]> {
        self.inner.bytes()
    }

    fn file(&self) -> Option<&std::fs::File> {
        self.inner.file()
    }
}

/// Counts reads of a value within an update, which is one call.
struct CountedReads<'o> {
    inner: &'o dyn ValueReader,
    reads: AtomicU64,
    bytes: AtomicU64,
}

impl<'o> CountedReads<'o> {
    fn of(inner: &'o dyn ValueReader) -> Self {
        CountedReads { inner, reads: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }

    fn add_to(&self, current_reads: &mut CurrentValueReads) {
        current_reads.reads += self.reads.load(Ordering::Relaxed);
        current_reads.bytes += self.bytes.load(Ordering::Relaxed);
    }
}

impl ValueReader for CountedReads<'_> {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn version(&self) -> Option<Version> {
        self.inner.version()
    }

    fn state(&self) -> Option<Version> {
        self.inner.state()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(out.len() as u64, Ordering::Relaxed);
        self.inner.read_at(offset, out)
    }

    fn bytes(&self) -> Option<&[u8]> {
        self.inner.bytes()
    }

    fn file(&self) -> Option<&std::fs::File> {
        self.inner.file()
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

    fn before(&self, call: Call) -> Result<Option<Permit<'_>>> {
        interruptible_wait::sleep(if call.changes() { self.write } else { self.read }).map(|()| None)
    }

    fn after(&self, _call: Call, _key: &str, result: &CallReport<'_>) -> Result<()> {
        let Some(rate) = self.bytes_per_second else { return Ok(()) };
        interruptible_wait::sleep(
            Duration::try_from_secs_f64(result.bytes as f64 / rate).unwrap_or(Duration::MAX),
        )
    }
}
