//! Reads and writes of objects by HTTP (S3, GCS, Azure, web servers), without a thread for each.

use std::borrow::Cow;
use std::error::Error;
use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::ext::ReasonPhrase;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::response::Parts;
use hyper::{Method, Request, StatusCode, Uri};

use crate::pool;
use crate::store::fork;

mod cookies;
mod response;
mod signature;
mod transport;
mod upload;

use cookies::Cookies;
use response::{empty_part_at_end, read_body, read_error_body};
pub use signature::Signer;
pub use transport::run_blocking;
use transport::{Error as SendError, Transport};
pub use upload::{PutOutcome, PutPrecondition};

/// How many bytes of an error response are read, and for how long, so that the connection can be
/// reused.
const MAX_ERROR_BODY: usize = 64 << 10;
const ERROR_BODY_TIMEOUT: Duration = Duration::from_millis(50);

/// How often a pending request checks whether its caller still needs the response.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Longer entity tags are hashed, as the Python side does.
const MAX_TAG_BYTES: usize = 40;

/// The circuit breaker: after this many unusable responses in a row no request is sent during
/// `BREAKER_PAUSE`, then one.
const MAX_FAILURES: u32 = 3;
const BREAKER_PAUSE: Duration = Duration::from_secs(60);

/// Sends HTTP requests with the headers, credentials and time limits of one store.
pub struct HttpClient {
    headers: HeaderMap,
    cookies: Cookies,
    /// The time limit of a request, including the wait for a permit.
    timeout: Duration,
    /// The time limit between two packets of a response.
    idle_timeout: Duration,
    signer: Option<Signer>,
    /// The header that names a generation uniquely; None: `ETag` and `Last-Modified`, which may
    /// not.
    generation_header: Option<HeaderName>,
    /// Whether the status 403 means that the object does not exist.
    forbidden_is_absent: bool,
    /// Unusable responses since the last success.
    failures: AtomicU32,
    /// When the circuit breaker allows the next request.
    retry_at: Mutex<Option<Instant>>,
}

impl std::fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Web").finish_non_exhaustive() // headers may contain secrets
    }
}

/// A part of an object.
#[derive(Debug, PartialEq, Eq)]
pub struct ResponseBody {
    /// The bytes: all of the object if the server does not support ranges.
    pub data: Vec<u8>,
    /// The offset of these bytes in the object.
    pub first: u64,
    /// The size of the object in bytes.
    pub size: u64,
    /// The generation of the object; empty if the server does not send one.
    pub tag: String,
    /// Whether no other state of the object has this tag.
    pub is_strong: bool,
}

impl ResponseBody {
    /// Return whether these bytes are in the part.
    pub fn contains(&self, offset: u64, count: u64) -> bool {
        let end = self.first.saturating_add(self.data.len() as u64);
        count == 0 || self.first <= offset && offset.checked_add(count).is_some_and(|until| until <= end)
    }

    /// Return whether the part is the whole object.
    pub fn is_whole(&self) -> bool {
        self.first == 0 && self.size == self.data.len() as u64
    }

    /// Copy bytes, if they are in the part.
    pub fn copy_to(&self, offset: u64, out: &mut [u8]) -> bool {
        let start = offset.checked_sub(self.first).and_then(|start| usize::try_from(start).ok());
        let bytes = start.and_then(|start| self.data.get(start..)?.get(..out.len()));
        bytes.is_some_and(|bytes| {
            out.copy_from_slice(bytes);
            true
        })
    }

    /// Return the tag, hashed if it is long.
    pub fn state(&self) -> Cow<'_, [u8]> {
        match self.tag.len() <= MAX_TAG_BYTES {
            true => self.tag.as_bytes().into(),
            false => {
                ring::digest::digest(&ring::digest::SHA256, self.tag.as_bytes()).as_ref().to_vec().into()
            }
        }
    }
}

/// An HTTP status that reports an error.
#[derive(Debug, PartialEq, Eq)]
pub struct HttpError {
    /// The status code.
    pub status: u16,
    /// The reason phrase.
    pub reason: String,
    /// The response headers.
    pub headers: Vec<(String, String)>,
}

impl HttpError {
    fn of(head: &Parts) -> Self {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let known = || head.status.canonical_reason().unwrap_or_default().as_bytes();
        let reason = head.extensions.get().map_or_else(known, ReasonPhrase::as_bytes);
        let headers = head.headers.iter().map(|(name, value)| (name.to_string(), text(value.as_bytes())));
        HttpError { status: head.status.as_u16(), reason: text(reason), headers: headers.collect() }
    }

    /// Return whether a change may have been applied despite this status: a server failed, or a
    /// gateway timed out. A server that reports to be busy has applied nothing.
    pub fn may_have_done(&self) -> bool {
        matches!(self.status, 500 | 502 | 504)
    }
}

/// The result of a read request.
#[derive(Debug, PartialEq, Eq)]
pub enum GetOutcome {
    /// The object exists.
    ResponseBody(ResponseBody),
    /// The object does not exist.
    Absent,
    /// The server rejected the request.
    Refused(HttpError),
    /// The request timed out; it is not retried here.
    TimedOut,
    /// No response, or one that is not understood.
    Unusable,
}

/// The result of a request.
trait RequestOutcome: Send + 'static {
    /// The request timed out.
    const TIMED_OUT: Self;
    /// The response is not understood.
    const UNUSABLE: Self;

    /// Return whether the request succeeded.
    fn is_success(&self) -> bool;
}

impl RequestOutcome for GetOutcome {
    const TIMED_OUT: Self = GetOutcome::TimedOut;
    const UNUSABLE: Self = GetOutcome::Unusable;

    fn is_success(&self) -> bool {
        matches!(self, GetOutcome::ResponseBody(_))
    }
}

impl HttpClient {
    /// Send `headers` with each request, within `timeout`. None: a header is invalid.
    pub fn new(headers: &[(String, String)], timeout: Duration) -> Option<Self> {
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            let name: HeaderName = name.parse().ok()?;
            all.append(name, HeaderValue::from_str(value).ok()?);
        }
        let identity = HeaderValue::from_static("identity"); // ranges refer to the unencoded object
        all.entry(header::ACCEPT_ENCODING).or_insert(identity);
        let user_agent = HeaderValue::from_static(concat!("tessarr/", env!("CARGO_PKG_VERSION")));
        all.entry(header::USER_AGENT).or_insert(user_agent);
        all.entry(header::ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        let (cookies, failures, retry_at) = (Cookies::default(), AtomicU32::new(0), Mutex::default());
        let (idle_timeout, signer, generation_header, forbidden_is_absent) =
            (Duration::MAX, None, None, false);
        Some(HttpClient {
            headers: all,
            cookies,
            timeout,
            idle_timeout,
            signer,
            generation_header,
            forbidden_is_absent,
            failures,
            retry_at,
        })
    }

    /// Limit the time between packets instead of the time of a request.
    pub fn with_idle_timeout(self) -> Self {
        HttpClient { timeout: Duration::MAX, idle_timeout: self.timeout, ..self }
    }

    /// Sign all requests.
    pub fn with_signer(self, signer: Signer) -> Self {
        HttpClient { signer: Some(signer), ..self }
    }

    /// Use `header` as the generation. None: the name is invalid.
    pub fn with_generation_header(self, header: &str) -> Option<Self> {
        Some(HttpClient { generation_header: Some(header.parse().ok()?), ..self })
    }

    /// Set whether the status 403 means that an object does not exist, as for users without list
    /// permission.
    pub fn with_forbidden_as_absent(self, forbidden_is_absent: bool) -> Self {
        HttpClient { forbidden_is_absent, ..self }
    }

    /// Return whether the circuit breaker allows a request. After a pause it allows only one
    /// caller.
    pub fn try_admit(&self) -> bool {
        // Other callers wait for the result of this request.
        self.is_admitted(|now| Some(now + BREAKER_PAUSE))
    }

    /// Return whether the circuit breaker would allow a request.
    pub fn is_available(&self) -> bool {
        self.is_admitted(|_| None)
    }

    fn is_admitted(&self, next: impl FnOnce(Instant) -> Option<Instant>) -> bool {
        if self.failures.load(Ordering::Relaxed) < MAX_FAILURES {
            return true;
        }
        let now = Instant::now();
        let _gate = fork::gate();
        let mut retry_at = self.retry_at.lock().unwrap_or_else(PoisonError::into_inner);
        let is_allowed = retry_at.is_none_or(|retry_at| retry_at <= now);
        if is_allowed {
            *retry_at = next(now).or(*retry_at);
        }
        is_allowed
    }

    /// Record whether a response was usable.
    fn record(&self, is_usable: bool) {
        if is_usable {
            self.failures.store(0, Ordering::Relaxed);
        } else if self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_FAILURES {
            let _gate = fork::gate();
            let mut retry_at = self.retry_at.lock().unwrap_or_else(PoisonError::into_inner);
            *retry_at = Some(Instant::now() + BREAKER_PAUSE);
        }
    }

    /// Get an object, or the range in the value of its `Range` header.
    ///
    /// `on_done` runs in a thread that serves other responses: it passes long work to
    /// [`run_blocking`]. The client drops the request soon after `is_active` returns false.
    pub fn get(
        self: &Arc<Self>,
        url: &str,
        range: Option<&str>,
        is_active: impl Fn() -> bool + Send + 'static,
        on_done: impl FnOnce(GetOutcome) + Send + 'static,
    ) {
        let parsed: Option<Uri> = url.parse().ok();
        let range = range.map(HeaderValue::from_str).transpose().ok();
        let (Some(transport), Some(url), Some(range)) = (Transport::get(), parsed, range) else {
            self.record(false);
            return on_done(GetOutcome::Unusable);
        };
        let (http, read_body) = (self.clone(), url.clone());
        self.start(transport, url, is_active, on_done, async move {
            http.outcome(transport, &read_body, range).await
        });
    }

    /// Run a request once it has a permit, and pass its result to `on_done` as long as its caller
    /// needs it.
    fn start<T: RequestOutcome>(
        self: &Arc<Self>,
        transport: &'static Transport,
        url: Uri,
        is_active: impl Fn() -> bool + Send + 'static,
        on_done: impl FnOnce(T) + Send + 'static,
        work: impl Future<Output = Option<T>> + Send + 'static,
    ) {
        let http = self.clone();
        transport.spawn(async move {
            let attempt = async {
                let _permit = transport.acquire(&url).await;
                work.await
            };
            let mut attempt = std::pin::pin!(tokio::time::timeout(http.timeout, attempt));
            let outcome = loop {
                match tokio::time::timeout(CHECK_INTERVAL, attempt.as_mut()).await {
                    Ok(outcome) => break outcome.unwrap_or(Some(T::TIMED_OUT)),
                    Err(_) if is_active() => {}
                    Err(_) => return,
                }
            };
            match &outcome {
                None => http.record(false),
                Some(outcome) if outcome.is_success() => http.record(true),
                // A server that redirects to another one still reports missing objects itself.
                Some(_) => {}
            }
            // The panic hook reports a panic.
            let _ = pool::guarded(|| {
                on_done(outcome.unwrap_or(T::UNUSABLE));
                Ok(())
            });
        });
    }

    /// None: the response is not understood.
    async fn outcome(
        &self,
        transport: &Transport,
        url: &Uri,
        range: Option<HeaderValue>,
    ) -> Option<GetOutcome> {
        let outcome = self.attempt(transport, url, range.as_ref()).await;
        if range.is_some() && matches!(&outcome, Some(GetOutcome::Refused(refusal)) if refusal.status == 416)
        {
            return self.attempt(transport, url, None).await; // the server has not sent the size
        }
        outcome
    }

    async fn attempt(
        &self,
        transport: &Transport,
        url: &Uri,
        range: Option<&HeaderValue>,
    ) -> Option<GetOutcome> {
        let request = || {
            let range = range.map(|range| (header::RANGE, range.clone()));
            self.request(url, Method::GET, Bytes::new(), range)
        };
        let sent = |request, new_connection| {
            tokio::time::timeout(self.idle_timeout, transport.send(request, new_connection))
        };
        let Ok(outcome) = sent(request()?, false).await else { return Some(GetOutcome::TimedOut) };
        let mut outcome = outcome?;
        if match &outcome {
            Ok(outcome) => outcome.status() == StatusCode::REQUEST_TIMEOUT,
            Err(error) => is_closed_connection(error),
        } {
            let Ok(retry_at) = sent(request()?, true).await else { return Some(GetOutcome::TimedOut) };
            outcome = retry_at?;
        }
        let (head, body) = match outcome {
            Ok(outcome) => outcome.into_parts(),
            Err(error) => return is_connect_timeout(&error).then_some(GetOutcome::TimedOut),
        };
        self.cookies.store(url.path(), &head.headers);
        match head.status {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => {
                read_body(&head, body, self.generation_header.as_ref(), self.idle_timeout)
                    .await
                    .map(GetOutcome::ResponseBody)
            }
            status => {
                // If more follows, or takes longer, the connection is closed.
                let error_body =
                    tokio::time::timeout(ERROR_BODY_TIMEOUT, read_error_body(body)).await.unwrap_or_default();
                match status {
                    StatusCode::NOT_FOUND => Some(GetOutcome::Absent),
                    StatusCode::FORBIDDEN if self.forbidden_is_absent => Some(GetOutcome::Absent),
                    _ if status.is_client_error() || status.is_server_error() => {
                        let empty_part_at_end = |range| {
                            empty_part_at_end(&head, &error_body, range, self.generation_header.as_ref())
                        };
                        let body_part = range.and_then(empty_part_at_end).map(GetOutcome::ResponseBody);
                        Some(body_part.unwrap_or_else(|| GetOutcome::Refused(HttpError::of(&head))))
                    }
                    _ => None, // a redirect, or an unexpected status
                }
            }
        }
    }

    /// None: a header is invalid.
    fn request(
        &self,
        url: &Uri,
        method: Method,
        body: Bytes,
        more: Option<(HeaderName, HeaderValue)>,
    ) -> Option<Request<Full<Bytes>>> {
        let mut request = Request::new(Full::new(body.clone()));
        *request.method_mut() = method;
        *request.uri_mut() = url.clone();
        *request.headers_mut() = self.headers.clone();
        self.cookies.add_to(request.headers_mut());
        if let Some((name, value)) = more {
            request.headers_mut().insert(name, value);
        }
        if let Some(signer) = &self.signer {
            signer.sign(&mut request, &body, SystemTime::now())?;
        }
        Some(request)
    }
}

/// Return whether the connection was closed before a response arrived, as idle connections often
/// are.
fn is_closed_connection(error: &SendError) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<hyper::Error>());
    cause.is_some_and(|cause| !cause.is_parse() && !cause.is_user())
}

/// Return whether connecting timed out.
fn is_connect_timeout(error: &SendError) -> bool {
    let mut cause = error.source();
    while let Some(source) = cause {
        let io_error = source.downcast_ref::<io::Error>();
        if io_error.is_some_and(|error| error.kind() == io::ErrorKind::TimedOut) {
            return true;
        }
        cause = source.source();
    }
    false
}

#[cfg(test)]
mod tests;
