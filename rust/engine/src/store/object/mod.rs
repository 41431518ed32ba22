//! Objects of S3, GCS, Azure and web servers, by HTTP requests without a thread for each.

mod bucket;
mod client;
mod connector;
mod cookies;
mod credentials;
mod dial;
mod failure;
mod gcs_emulator;
mod host_header;
mod index_page;
mod list_response;
mod part;
mod response;
mod transport;
mod upload;
mod value;
mod web;

use std::fmt;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{HeaderValue, HOST, USER_AGENT as AGENT};

use super::foreign::{Foreign, ReplaceOutcome};
use super::wrappers::split::is_document;
use super::{
    recv_interruptible, AsyncRequest, Call, Depth, Listing, OpenResult, PrefixChange, ReadHint, StartRequest,
    StoreInfo, ValueReader, Version,
};
use crate::error::{Error, Result};
use crate::pool;
use bucket::Bucket;
pub use client::{BucketSettings, Kind};
use connector::Connector;
pub use credentials::{Credentials, GetCredentials};
pub use dial::ConnectionSettings;
pub(super) use part::{ByteRange, KnownState, ObjectPart};
pub(super) use transport::run_after;
pub use transport::run_blocking;
use transport::{while_active, Transport};
use value::RemoteValue;
use web::Web;

/// The maximum size for which memory is reserved before any byte arrived.
const MAX_RESERVED: u64 = 64 << 20;

/// How often a pending request checks whether its caller still needs the response.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How many bytes open a value of which the caller needs ranges that are not known yet.
const FIRST_BYTES: u64 = 1 << 16;

/// The name of the engine in requests.
const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("tessarr/", env!("CARGO_PKG_VERSION")));

/// The condition on an object under which it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PutPrecondition {
    /// No condition.
    Anything,
    /// The object does not exist.
    Absent,
    /// The object has this tag.
    HasTag(String),
}

/// The result of storing an object.
#[derive(Debug, PartialEq, Eq)]
enum PutOutcome {
    /// The object is stored and has this tag; "" if the server does not send one.
    Done(String),
    /// The condition does not hold.
    PreconditionFailed,
}

/// The settings of [`Objects`] beside those of the bucket.
#[derive(Debug)]
pub struct ObjectSettings {
    /// How connections are opened.
    pub connection: ConnectionSettings,
    /// The limit of the wait for a response, and between two packets of it.
    pub timeout: Duration,
    /// How many chunks are read or written at a time.
    pub concurrency: usize,
    /// Whether writes have preconditions.
    pub conditional_writes: bool,
    /// Whether a web server reports absent objects as forbidden.
    pub forbidden_is_absent: bool,
}

/// The objects below a URL.
#[derive(Debug)]
pub struct Objects {
    place: Place,
    /// Identifies the URL in versions.
    number: u64,
    /// The bucket, with a number for its options, and the prefix.
    location: String,
    concurrency: usize,
}

#[derive(Debug)]
enum Place {
    Bucket(Bucket),
    Web(Web),
}

impl Objects {
    /// Return the objects below `prefix` of a bucket, or of a web server whose URL is the bucket.
    ///
    /// # Errors
    /// A header, an option or the URL is invalid.
    pub fn new(
        mut bucket: BucketSettings,
        url: &str,
        prefix: &str,
        headers: &[(String, String)],
        settings: ObjectSettings,
    ) -> Result<Self> {
        let hash_of = |text: &str| {
            let mut hasher = DefaultHasher::new();
            (text, &bucket.options).hash(&mut hasher);
            hasher.finish()
        };
        let number = hash_of(url);
        let root = format!("{:?}:{:x}:{}", bucket.kind, hash_of(&bucket.bucket), bucket.bucket);
        let location = if prefix.is_empty() { root } else { format!("{root}/{prefix}") };
        bucket.headers = client::headers(headers)?;
        bucket.host = if bucket.kind == Kind::S3 { bucket.headers.remove(HOST) } else { None };
        let ObjectSettings { connection, timeout, concurrency, conditional_writes, forbidden_is_absent } =
            settings;
        bucket.headers.entry(AGENT).or_insert(USER_AGENT);
        let connector = Connector::new(connection, bucket.headers.clone(), timeout);
        let place = if bucket.kind == Kind::Http {
            Place::Web(Web::new(url, bucket.headers, connector, forbidden_is_absent)?)
        } else {
            bucket.check(&connector)?;
            Place::Bucket(Bucket::new(
                bucket,
                url,
                prefix,
                connector,
                conditional_writes,
                forbidden_is_absent,
            ))
        };
        Ok(Objects { place, number, location, concurrency })
    }

    /// Return a number that identifies the place.
    pub fn number(&self) -> u64 {
        self.number
    }

    async fn fetch(&self, key: &str, range: ByteRange) -> Result<Option<ObjectPart>> {
        self.fetch_unless(key, range, None).await
    }

    /// Read a part of an object, which is empty if the object is in a known state.
    async fn fetch_unless(
        &self,
        key: &str,
        range: ByteRange,
        known: Option<&KnownState>,
    ) -> Result<Option<ObjectPart>> {
        match &self.place {
            Place::Bucket(bucket) => bucket.get(key, range, known).await,
            Place::Web(web) => web.get(key, range, known).await,
        }
    }

    async fn put_object(&self, key: &str, data: Bytes, condition: PutPrecondition) -> Result<PutOutcome> {
        match &self.place {
            Place::Bucket(bucket) => bucket.put(key, data, condition).await,
            Place::Web(_) => Err(super::wrappers::read_only::refusal()),
        }
    }

    async fn delete_objects(&self, keys: &[String]) -> Result<()> {
        match &self.place {
            Place::Bucket(bucket) => bucket.delete(keys).await,
            Place::Web(_) => Err(super::wrappers::read_only::refusal()),
        }
    }

    async fn list_objects(&self, prefix: &str, depth: Depth) -> Result<Listing> {
        match &self.place {
            Place::Bucket(bucket) => bucket.list(prefix, depth).await,
            Place::Web(web) => web.list(prefix, depth).await,
        }
    }

    fn version(&self, key: &str, tag: &[u8]) -> Option<Version> {
        Version::foreign(self.number, key, tag).filter(|_| !tag.is_empty())
    }

    fn has_conditions(&self) -> bool {
        matches!(&self.place, Place::Bucket(bucket) if bucket.has_conditions())
    }

    /// Open a value with the first request that the hint asks for.
    async fn open(self: Arc<Self>, key: String, hint: ReadHint) -> OpenResult {
        let (range, whole) = match hint {
            ReadHint::Whole => (ByteRange::Whole, u64::MAX),
            ReadHint::Prefix(most) => (ByteRange::Span { offset: 0, count: most.saturating_add(1) }, most),
            ReadHint::Suffix(count) => (ByteRange::Last(count), 0),
            ReadHint::Range { offset, count } => (ByteRange::Span { offset, count }, 0),
            ReadHint::UnknownRanges | ReadHint::Revalidate => {
                (ByteRange::Span { offset: 0, count: FIRST_BYTES }, 0)
            }
            ReadHint::IfChanged { prefix: u64::MAX, .. } => (ByteRange::Whole, u64::MAX),
            ReadHint::IfChanged { prefix, .. } => (ByteRange::Span { offset: 0, count: prefix }, 0),
        };
        let known = match hint {
            ReadHint::IfChanged { version, size, .. } => KnownState::of(version.tag(), size),
            _ => None,
        };
        let Some(part) = self.fetch_unless(&key, range, known.as_ref()).await? else { return Ok(None) };
        let state = self.version(&key, &part.state());
        // A bucket compares the tag itself, of any length.
        let version = if self.has_conditions() { self.version(&key, part.tag.as_bytes()) } else { state };
        let version = version.filter(|_| part.is_strong);
        let state = version.or(state);
        Ok(Some(RemoteValue::open(self, key, part, whole, [version, state])))
    }

    async fn put_if(&self, key: &str, data: Bytes, condition: PutPrecondition) -> Result<ReplaceOutcome> {
        Ok(match self.put_object(key, data, condition).await? {
            PutOutcome::Done(tag) => ReplaceOutcome::Done(self.version(key, tag.as_bytes())),
            PutOutcome::PreconditionFailed => ReplaceOutcome::Conflict,
        })
    }

    /// Remove an object if it has a version (None: it is absent). Not every service checks the version
    /// in the same request, so that a change in between may be lost.
    async fn delete_if(&self, key: &str, expected: Option<Version>) -> Result<ReplaceOutcome> {
        let found = self.fetch(key, ByteRange::Span { offset: 0, count: 1 }).await?;
        let version = found.and_then(|part| self.version(key, part.tag.as_bytes()));
        if version != expected {
            return Ok(ReplaceOutcome::Conflict);
        }
        if version.is_some() {
            self.delete_objects(&[key.to_owned()]).await?;
        }
        Ok(ReplaceOutcome::Done(None))
    }
}

/// Return whether this is a thread of the engine, whose caller checks for signals.
fn is_engine_thread() -> bool {
    std::thread::current().name().is_some_and(|name| name.starts_with("tessarr-"))
}

fn no_transport() -> Error {
    Error::store(true, "no thread can be created, which sends requests")
}

/// Wait for the end of a request. A change finishes even if the user interrupts the wait.
fn wait<T: Send + 'static>(
    is_read: bool,
    request: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let transport = Transport::get().ok_or_else(no_transport)?;
    let (sender, results) = channel();
    let task = transport.spawn(async move {
        let _ = sender.send(request.await); // fails if no thread waits any more
    });
    let received = run_blocking(|| match is_engine_thread() {
        true => Ok(results.recv().ok()),
        false => recv_interruptible(&results),
    });
    if received.is_err() && is_read {
        task.abort();
    }
    received?.unwrap_or_else(|| Err(Error::internal("a request ended without a result")))
}

impl Foreign for Objects {
    fn location(&self) -> Option<&str> {
        Some(&self.location)
    }

    fn get(self: &Arc<Self>, key: &str, hint: ReadHint) -> OpenResult {
        wait(true, self.clone().open(key.to_owned(), hint))
    }

    fn put(self: &Arc<Self>, key: &str, data: &[u8]) -> Result<Option<Version>> {
        match self.replace_unchecked(key, data, PutPrecondition::Anything)? {
            ReplaceOutcome::Done(version) => Ok(version),
            outcome => Err(Error::internal(format!("an unconditional write ended with {outcome:?}"))),
        }
    }

    fn delete(self: &Arc<Self>, key: &str) -> Result<()> {
        let (objects, key) = (self.clone(), key.to_owned());
        wait(false, async move { objects.delete_objects(&[key]).await })
    }

    fn replace(
        self: &Arc<Self>,
        key: &str,
        data: Option<&[u8]>,
        expected: Option<&dyn ValueReader>,
    ) -> Result<ReplaceOutcome> {
        let version = expected.map(ValueReader::version);
        if !self.has_conditions() || version == Some(None) {
            return Ok(ReplaceOutcome::Unsupported);
        }
        let version = version.flatten();
        let Some(data) = data else {
            let (objects, key) = (self.clone(), key.to_owned());
            return wait(false, async move { objects.delete_if(&key, version).await });
        };
        let condition = match version {
            None => PutPrecondition::Absent,
            Some(version) => PutPrecondition::HasTag(String::from_utf8_lossy(version.tag()).into_owned()),
        };
        self.replace_unchecked(key, data, condition)
    }

    fn compares_versions(&self) -> bool {
        self.has_conditions()
    }

    fn list(self: &Arc<Self>, prefix: &str) -> Result<Vec<String>> {
        let (objects, prefix) = (self.clone(), prefix.to_owned());
        Ok(wait(true, async move { objects.list_objects(&prefix, Depth::All).await })?.keys)
    }

    fn list_sizes(self: &Arc<Self>, prefix: &str) -> Result<Option<Vec<(String, u64)>>> {
        if matches!(self.place, Place::Web(_)) {
            return Ok(None); // index pages lack exact sizes
        }
        let (objects, prefix) = (self.clone(), prefix.to_owned());
        wait(true, async move {
            match &objects.place {
                Place::Bucket(bucket) => bucket.list_sizes(&prefix).await.map(Some),
                Place::Web(_) => Ok(None),
            }
        })
    }

    fn list_dir(self: &Arc<Self>, prefix: &str) -> Result<Option<Listing>> {
        let (objects, prefix) = (self.clone(), prefix.to_owned());
        wait(true, async move { objects.list_objects(&prefix, Depth::Level).await }).map(Some)
    }

    fn change_prefix(self: &Arc<Self>, prefix: &str, change: PrefixChange<'_>) -> Result<bool> {
        if matches!(change, PrefixChange::ReplaceBy(_)) {
            return Ok(false);
        }
        let (objects, prefix) = (self.clone(), prefix.to_owned());
        wait(false, async move {
            let keys = objects.list_objects(&prefix, Depth::All).await?.keys;
            // Metadata first: a deletion that stops leaves no array whose chunks are gone.
            let (documents, others): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| is_document(key));
            for keys in [documents, others] {
                if !keys.is_empty() {
                    objects.delete_objects(&keys).await?;
                }
            }
            Ok(true)
        })
    }

    fn info(&self) -> StoreInfo {
        StoreInfo {
            concurrency: self.concurrency,
            write_concurrency: self.concurrency,
            is_exclusive: false,
            has_conditional_deletes: !self.has_conditions(),
            ..StoreInfo::default()
        }
    }

    fn async_requests(self: Arc<Self>, call: Call) -> Option<StartRequest> {
        if !matches!(call, Call::Open | Call::Update) {
            return None;
        }
        Some(Arc::new(move |request| self.clone().start(request)))
    }
}

impl Objects {
    fn replace_unchecked(
        self: &Arc<Self>,
        key: &str,
        data: &[u8],
        condition: PutPrecondition,
    ) -> Result<ReplaceOutcome> {
        let (objects, key, data) = (self.clone(), key.to_owned(), Bytes::copy_from_slice(data));
        wait(false, async move { objects.put_if(&key, data, condition).await })
    }

    /// Start a request; no thread waits for it.
    fn start(self: Arc<Self>, request: AsyncRequest) {
        let Some(transport) = Transport::get() else { return request.fail(no_transport()) };
        match request {
            AsyncRequest::Open { key, hint, completion } => {
                let is_active = completion.active_check();
                transport.spawn(async move {
                    let opened = while_active(self.open(key, hint), is_active, CHECK_INTERVAL).await;
                    if let Some(opened) = opened {
                        complete(|| completion.complete(opened));
                    }
                });
            }
            AsyncRequest::Put { key, value, completion } => {
                transport.spawn(async move {
                    let data = Bytes::from_owner(SharedBytes(value));
                    let stored = self.put_if(&key, data, PutPrecondition::Anything).await;
                    complete(|| {
                        completion.complete(stored.map(|outcome| match outcome {
                            ReplaceOutcome::Done(version) => version,
                            _ => None,
                        }));
                    });
                });
            }
        }
    }
}

/// Run a completion; the panic hook reports a panic.
fn complete(work: impl FnOnce()) {
    let _ = pool::guarded(|| {
        work();
        Ok(())
    });
}

/// Bytes that are shared with the caller.
struct SharedBytes(Arc<Vec<u8>>);

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::S3 => "s3",
            Kind::Gcs => "gcs",
            Kind::Azure => "azure",
            Kind::Http => "http",
        })
    }
}

#[cfg(test)]
mod tests;
