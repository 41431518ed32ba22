//! A store whose calls are observed: to count, to delay, to limit, or to log them.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::limits::{Enter, Turn};
use crate::error::{Error, Result};
use crate::store::interruptible_wait;
use crate::store::{
    through, Ask, Change, Decoded, Exchange, How, Known, Listing, Made, Need, New, Object, Opened, Part, Put,
    SharedStore, Store, Told, Updater, Version, Want,
};

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Opens a value, which may be absent.
    Open,
    /// Reads a range of an open value; values in memory need no such call.
    Read,
    /// Continues an earlier read.
    ReadMore,
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
    /// The name that users know.
    pub fn name(self) -> &'static str {
        match self {
            Call::Open => "open",
            Call::Read | Call::ReadMore => "read",
            Call::Update => "update",
            Call::Hold => "hold",
            Call::List => "list",
            Call::ListDir => "list_dir",
            Call::DeletePrefix => "delete_prefix",
        }
    }

    /// Whether the call may change the store.
    pub fn changes(self) -> bool {
        matches!(self, Call::Update | Call::Hold | Call::DeletePrefix)
    }
}

/// The outcome of a call.
#[derive(Debug)]
pub struct Done<'e> {
    /// Bytes that the call read or wrote. A value in memory is read when it is opened; copies of
    /// the current value count as not written.
    pub bytes: u64,
    /// Whether an update decided to change nothing: it only read the value.
    pub kept: bool,
    /// Reads of the current value by an update.
    pub looked: Looked,
    /// The error, if the call failed.
    pub error: Option<&'e Error>,
    /// The duration of the call.
    pub took: Duration,
}

/// Reads of the current value by an update.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looked {
    /// How often the value was opened, or absent.
    pub opens: u64,
    /// Reads of the open value.
    pub reads: u64,
    /// Bytes of these reads.
    pub bytes: u64,
}

/// Observes every call, in the thread that makes it; an error fails the call.
pub trait Watch: Send + Sync + Debug {
    /// Runs before the call. The returned permit lives until the call ends.
    fn before(&self, _call: Call) -> Result<Option<Turn<'_>>> {
        Ok(None)
    }

    /// Whether calls of this kind may be asynchronous: then `after` neither blocks nor calls a
    /// store.
    fn queues(&self, _call: Call) -> bool {
        false
    }

    /// Like [`StoreObserver::before`] for an asynchronous call: runs `on_permit` when the call may
    /// start.
    fn queue(&self, enter: Enter) {
        enter(None);
    }

    /// Runs after the call. For listings, `key` is a prefix.
    fn after(&self, call: Call, key: &str, done: &Done<'_>) -> Result<()>;

    /// Runs before a chunk is decoded or encoded. The returned permit lives until the end of that.
    fn decoding(&self) -> Result<Option<Turn<'_>>> {
        Ok(None)
    }

    /// How many concurrent calls this delay requires.
    fn concurrency(&self) -> usize {
        0
    }
}

/// Passes all calls to another store, and reports them to a [`StoreObserver`].
#[derive(Debug)]
pub struct WatchedStore<W> {
    inner: Arc<dyn Store>,
    watch: Arc<W>,
}

impl<W: Watch> WatchedStore<W> {
    /// Report the calls to `inner` to `observer`.
    pub fn watched_by(inner: Arc<dyn Store>, watch: W) -> Self {
        WatchedStore { inner, watch: Arc::new(watch) }
    }

    /// The observer.
    pub fn watch(&self) -> &W {
        &self.watch
    }

    /// Run `work` between the two reports, if this thread may block. That check comes before the
    /// permit: others could wait for the permit that this thread would hold.
    fn tell<T>(&self, call: Call, key: &str, work: impl FnOnce(&mut Found) -> Result<T>) -> Result<T> {
        self.inner.may_wait()?;
        tell(&*self.watch, call, key, work)
    }

    fn plain<T>(&self, call: Call, key: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.tell(call, key, |_| work())
    }
}

/// Details of a call.
#[derive(Default)]
struct Found {
    bytes: u64,
    kept: bool,
    looked: Looked,
}

/// Run `work` between the two reports.
fn tell<T, W: Watch>(
    watch: &W,
    call: Call,
    key: &str,
    work: impl FnOnce(&mut Found) -> Result<T>,
) -> Result<T> {
    let turn = watch.before(call)?;
    let start = Instant::now();
    let mut found = Found::default();
    let result = work(&mut found);
    drop(turn);
    after(watch, call, key, start, found, result)
}

/// Report the end of a call that began at `start`.
fn after<T, W: Watch>(
    watch: &W,
    call: Call,
    key: &str,
    start: Instant,
    found: Found,
    result: Result<T>,
) -> Result<T> {
    let Found { bytes, kept, looked } = found;
    let done = Done { bytes, kept, looked, error: result.as_ref().err(), took: start.elapsed() };
    let told = watch.after(call, key, &done);
    let value = result?;
    told.map(|()| value)
}

/// The number of bytes that opening a value has read.
fn bytes_of(opened: Option<&dyn Object>) -> u64 {
    opened.and_then(Object::bytes).map_or(0, |bytes| bytes.len() as u64)
}

/// Run `start_call` when the observer permits it, and report the end; `bytes` gives the size.
fn begin<T: 'static, W: Watch + 'static>(
    watch: &Arc<W>,
    call: Call,
    key: &str,
    bytes: impl FnOnce(&Result<T>) -> u64 + Send + 'static,
    told: Told<T>,
    begin: impl FnOnce(&str, Told<T>) + Send + 'static,
) {
    let (key, watching) = (key.to_owned(), watch.clone());
    let enter: Enter = Box::new(move |place| {
        if !told.is_wanted() {
            return;
        }
        let (start, name) = (Instant::now(), key.clone());
        let told = told.then(move |told, done| {
            drop(place);
            let found = Found { bytes: bytes(&done), ..Found::default() };
            told.tell(after(&*watching, call, &name, start, found, done));
        });
        begin(&key, told);
    });
    watch.queue(enter);
}

/// Starts reads of the inner store, and reports them.
struct WatchedAsk<W> {
    inner: Arc<dyn Ask>,
    watch: Arc<W>,
}

impl<W: Watch + 'static> Ask for WatchedAsk<W> {
    fn ask(&self, key: &str, want: Want, told: Told) {
        let (inner, watch, name) = (self.inner.clone(), self.watch.clone(), key.to_owned());
        let told = told.then(|told, opened| {
            told.tell(opened.map(|inner| Some(WatchedObject::boxed(inner?, name, watch))));
        });
        let bytes = |opened: &Opened| opened.as_ref().map_or(0, |opened| bytes_of(opened.as_deref()));
        let ask = move |key: &str, told| inner.ask(key, want, told);
        begin(&self.watch, Call::Open, key, bytes, told, ask);
    }
}

/// Starts writes of the inner store, and reports them.
struct WatchedPut<W> {
    inner: Arc<dyn Put>,
    watch: Arc<W>,
}

impl<W: Watch + 'static> Put for WatchedPut<W> {
    fn put(&self, key: &str, value: &Arc<Vec<u8>>, told: Told<Option<Version>>) {
        let (inner, value, size) = (self.inner.clone(), value.clone(), value.len() as u64);
        let put = move |key: &str, told| inner.put(key, &value, told);
        begin(&self.watch, Call::Update, key, move |_| size, told, put);
    }
}

impl<W: Watch + 'static> Store for WatchedStore<W> {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&*self.inner)
    }

    fn open(&self, key: &str, want: Want) -> Result<Option<Box<dyn Object>>> {
        let opened = self.tell(Call::Open, key, |found| {
            let opened = self.inner.open(key, want)?;
            found.bytes = bytes_of(opened.as_deref());
            Ok(opened)
        })?;
        Ok(opened.map(|inner| WatchedObject::boxed(inner, key.to_owned(), self.watch.clone())))
    }

    fn through(&self, below: &Arc<dyn Store>, shared: &Arc<SharedStore>) -> Option<Arc<dyn Store>> {
        let inner = through(&self.inner, below, shared)?;
        Some(Arc::new(WatchedStore { inner, watch: self.watch.clone() }))
    }

    fn asking(&self) -> Option<Arc<dyn Ask>> {
        let inner = self.inner.asking().filter(|_| self.watch.queues(Call::Open))?;
        Some(Arc::new(WatchedAsk { inner, watch: self.watch.clone() }))
    }

    fn putting(&self) -> Option<Arc<dyn Put>> {
        let inner = self.inner.putting().filter(|_| self.watch.queues(Call::Update))?;
        Some(Arc::new(WatchedPut { inner, watch: self.watch.clone() }))
    }

    fn update<'a>(&self, key: &str, need: Need, updater: &mut Updater<'_, 'a>) -> Result<Made<'a>> {
        self.tell(Call::Update, key, |found| {
            // A store that compares versions opens nothing before the first conflict.
            let mut thought = need.known != Known::Nothing;
            self.inner.update(key, need, &mut |current| {
                let reads = current.map(Reads::of);
                let decided = updater(reads.as_ref().map(|reads| reads as &dyn Object));
                if need.current && !std::mem::take(&mut thought) {
                    found.looked.opens += 1;
                }
                reads.iter().for_each(|reads| reads.add_to(&mut found.looked));
                let change = decided?;
                found.kept = matches!(change, Change::Keep);
                if let Change::Write(parts) = &change {
                    let fresh = parts.iter().filter(|part| !matches!(part, Part::Current { .. }));
                    found.bytes = fresh.map(Part::size).sum();
                }
                Ok(change)
            })
        })
    }

    fn hold(&self, key: &str, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.plain(Call::Hold, key, || self.inner.hold(key, work))
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.plain(Call::List, prefix, || self.inner.list(prefix))
    }

    fn list_dir(&self, prefix: &str) -> Result<Listing> {
        self.plain(Call::ListDir, prefix, || self.inner.list_dir(prefix))
    }

    fn delete_prefix(&self, prefix: &str) -> Result<()> {
        self.plain(Call::DeletePrefix, prefix, || self.inner.delete_prefix(prefix))
    }

    fn replace_prefix(&self, staged: &str, prefix: &str) -> Result<bool> {
        self.plain(Call::Update, prefix, || self.inner.replace_prefix(staged, prefix))
    }

    fn clear_prefix(&self, prefix: &str) -> Result<()> {
        self.plain(Call::DeletePrefix, prefix, || self.inner.clear_prefix(prefix))
    }

    fn exchange(&self, changes: &[Exchange]) -> Result<Option<bool>> {
        let key = changes.first().map_or("", |change| change.key.as_str());
        self.tell(Call::Update, key, |found| {
            let sizes = changes.iter().map(|change| match &change.new {
                New::Value(value) => value.len() as u64,
                _ => 0,
            });
            found.bytes = sizes.sum();
            self.inner.exchange(changes)
        })
    }

    fn concurrency(&self) -> usize {
        self.inner.concurrency().max(self.watch.concurrency())
    }

    fn decoding(&self) -> Result<Option<Turn<'_>>> {
        match self.watch.decoding()? {
            None => self.inner.decoding(),
            turn => Ok(turn),
        }
    }

    fn write_concurrency(&self) -> usize {
        self.inner.write_concurrency().max(self.watch.concurrency())
    }
}

struct WatchedObject<W> {
    inner: Box<dyn Object>,
    key: String,
    watch: Arc<W>,
}

impl<W: Watch + 'static> WatchedObject<W> {
    fn boxed(inner: Box<dyn Object>, key: String, watch: Arc<W>) -> Box<dyn Object> {
        Box::new(WatchedObject { inner, key, watch })
    }
}

impl<W: Watch> Object for WatchedObject<W> {
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
        let call = if how.more { Call::ReadMore } else { Call::Read };
        tell(&*self.watch, call, &self.key, |found| {
            found.bytes = out.len() as u64;
            self.inner.read_as(offset, out, how)
        })
    }

    fn remembers(&self, offset: u64, count: u64) -> bool {
        self.inner.remembers(offset, count)
    }

    fn decoded(&self) -> Option<&dyn Decoded> {
        self.inner.decoded()
    }

    fn bytes(&self) -> Option<&[u8]> {
        self.inner.bytes()
    }

    fn file(&self) -> Option<&std::fs::File> {
        self.inner.file()
    }
}

/// Counts reads of a value within an update, which is one call.
struct Reads<'o> {
    inner: &'o dyn Object,
    reads: AtomicU64,
    bytes: AtomicU64,
}

impl<'o> Reads<'o> {
    fn of(inner: &'o dyn Object) -> Self {
        Reads { inner, reads: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }

    fn add_to(&self, looked: &mut Looked) {
        looked.reads += self.reads.load(Ordering::Relaxed);
        looked.bytes += self.bytes.load(Ordering::Relaxed);
    }
}

impl Object for Reads<'_> {
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
    /// The delay of calls that change nothing.
    pub read: Duration,
    /// The delay of calls that may change the store.
    pub write: Duration,
    /// The bandwidth in bytes per second; None: unlimited.
    pub bytes_per_second: Option<f64>,
    /// How many concurrent calls the delay requires.
    pub concurrency: usize,
}

impl Watch for Latency {
    fn concurrency(&self) -> usize {
        self.concurrency
    }

    fn before(&self, call: Call) -> Result<Option<Turn<'_>>> {
        interruptible_wait::sleep(if call.changes() { self.write } else { self.read }).map(|()| None)
    }

    fn after(&self, _call: Call, _key: &str, done: &Done<'_>) -> Result<()> {
        let Some(rate) = self.bytes_per_second else { return Ok(()) };
        interruptible_wait::sleep(
            Duration::try_from_secs_f64(done.bytes as f64 / rate).unwrap_or(Duration::MAX),
        )
    }
}
