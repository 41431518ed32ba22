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

mod client;
mod cookies;
mod response;
mod signature;
mod upload;

pub use client::aside;
use client::{Client, Error as SendError};
use cookies::Cookies;
use response::{beyond, file, read_past};
pub use signature::Signer;
pub use upload::{Before, Stored};

/// How many bytes of an error response are read, and for how long, so that the connection can be
/// reused.
const REST: usize = 64 << 10;
const REST_TIME: Duration = Duration::from_millis(50);

/// How often a pending request checks whether its caller still needs the response.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Longer entity tags are hashed, as the Python side does.
const TAG_BYTES: usize = 40;

/// The circuit breaker: after this many unusable responses in a row no request is sent during
/// `PAUSE`, then one.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_secs(60);

/// Sends HTTP requests with the headers, credentials and time limits of one store.
pub struct Web {
    headers: HeaderMap,
    cookies: Cookies,
    /// The time limit of a request, including the wait for a permit.
    patience: Duration,
    /// The time limit between two packets of a response.
    silence: Duration,
    signer: Option<Signer>,
    /// The header that names a generation uniquely; None: `ETag` and `Last-Modified`, which may
    /// not.
    names: Option<HeaderName>,
    /// Whether the status 403 means that the object does not exist.
    forbids: bool,
    /// Unusable responses since the last success.
    unclear: AtomicU32,
    /// When the circuit breaker allows the next request.
    again: Mutex<Option<Instant>>,
}

impl std::fmt::Debug for Web {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Web").finish_non_exhaustive() // headers may contain secrets
    }
}

/// A part of an object.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece {
    /// The bytes: all of the object if the server does not support ranges.
    pub data: Vec<u8>,
    /// The offset of these bytes in the object.
    pub first: u64,
    /// The size of the object in bytes.
    pub size: u64,
    /// The generation of the object; empty if the server does not send one.
    pub tag: String,
    /// Whether no other state of the object has this tag.
    pub lasts: bool,
}

impl Piece {
    /// Whether these bytes are in the part.
    pub fn has(&self, offset: u64, count: u64) -> bool {
        let end = self.first.saturating_add(self.data.len() as u64);
        count == 0 || self.first <= offset && offset.checked_add(count).is_some_and(|until| until <= end)
    }

    /// Whether the part is the whole object.
    pub fn is_whole(&self) -> bool {
        self.first == 0 && self.size == self.data.len() as u64
    }

    /// Copy bytes, if they are in the part.
    pub fn copy_to(&self, offset: u64, out: &mut [u8]) -> bool {
        let at = offset.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        let found = at.and_then(|at| self.data.get(at..)?.get(..out.len()));
        found.is_some_and(|bytes| {
            out.copy_from_slice(bytes);
            true
        })
    }

    /// The tag, hashed if it is long.
    pub fn state(&self) -> Cow<'_, [u8]> {
        match self.tag.len() <= TAG_BYTES {
            true => self.tag.as_bytes().into(),
            false => {
                ring::digest::digest(&ring::digest::SHA256, self.tag.as_bytes()).as_ref().to_vec().into()
            }
        }
    }
}

/// An HTTP status that reports an error.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status code.
    pub status: u16,
    /// The reason phrase.
    pub reason: String,
    /// The response headers.
    pub headers: Vec<(String, String)>,
}

impl Refusal {
    fn of(head: &Parts) -> Self {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let known = || head.status.canonical_reason().unwrap_or_default().as_bytes();
        let reason = head.extensions.get().map_or_else(known, ReasonPhrase::as_bytes);
        let headers = head.headers.iter().map(|(name, value)| (name.to_string(), text(value.as_bytes())));
        Refusal { status: head.status.as_u16(), reason: text(reason), headers: headers.collect() }
    }

    /// Whether a change may have been applied despite this status: a server failed, or a gateway
    /// timed out. A server that reports to be busy has applied nothing.
    pub fn may_have_done(&self) -> bool {
        matches!(self.status, 500 | 502 | 504)
    }
}

/// The result of a read request.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// The object exists.
    Piece(Piece),
    /// The object does not exist.
    Absent,
    /// The server refused the request.
    Refused(Refusal),
    /// The request timed out; it is not retried here.
    Late,
    /// No response, or one that is not understood.
    Unclear,
}

/// The result of a request.
trait Outcome: Send + 'static {
    /// The request timed out.
    const LATE: Self;
    /// The response is not understood.
    const UNCLEAR: Self;

    /// Whether the request succeeded.
    fn is_done(&self) -> bool;
}

impl Outcome for Answer {
    const LATE: Self = Answer::Late;
    const UNCLEAR: Self = Answer::Unclear;

    fn is_done(&self) -> bool {
        matches!(self, Answer::Piece(_))
    }
}

impl Web {
    /// Send `headers` with each request, within `timeout`. None: a header is invalid.
    pub fn new(headers: &[(String, String)], patience: Duration) -> Option<Self> {
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            let name: HeaderName = name.parse().ok()?;
            all.append(name, HeaderValue::from_str(value).ok()?);
        }
        let plain = HeaderValue::from_static("identity"); // ranges refer to the unencoded object
        all.entry(header::ACCEPT_ENCODING).or_insert(plain);
        let here = HeaderValue::from_static(concat!("tessarr/", env!("CARGO_PKG_VERSION")));
        all.entry(header::USER_AGENT).or_insert(here);
        all.entry(header::ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        let (cookies, unclear, again) = (Cookies::default(), AtomicU32::new(0), Mutex::default());
        let (silence, signer, names, forbids) = (Duration::MAX, None, None, false);
        Some(Web { headers: all, cookies, patience, silence, signer, names, forbids, unclear, again })
    }

    /// Limit the time between packets instead of the time of a request.
    pub fn lasting(self) -> Self {
        Web { patience: Duration::MAX, silence: self.patience, ..self }
    }

    /// Sign all requests.
    pub fn signed(self, signer: Signer) -> Self {
        Web { signer: Some(signer), ..self }
    }

    /// Use `header` as the generation. None: the name is invalid.
    pub fn naming(self, header: &str) -> Option<Self> {
        Some(Web { names: Some(header.parse().ok()?), ..self })
    }

    /// Set whether the status 403 means that an object does not exist, as for users without list
    /// permission.
    pub fn forbidding(self, forbids: bool) -> Self {
        Web { forbids, ..self }
    }

    /// Whether the circuit breaker allows a request. After a pause it allows only one caller.
    pub fn may_ask(&self) -> bool {
        self.asks(|now| Some(now + PAUSE)) // the others wait for the result of this request
    }

    /// Whether the circuit breaker would allow a request.
    pub fn would_ask(&self) -> bool {
        self.asks(|_| None)
    }

    fn asks(&self, next: impl FnOnce(Instant) -> Option<Instant>) -> bool {
        if self.unclear.load(Ordering::Relaxed) < ATTEMPTS {
            return true;
        }
        let now = Instant::now();
        let _gate = fork::gate();
        let mut again = self.again.lock().unwrap_or_else(PoisonError::into_inner);
        let may = again.is_none_or(|again| again <= now);
        if may {
            *again = next(now).or(*again);
        }
        may
    }

    /// Record whether a response was usable.
    fn note(&self, is_clear: bool) {
        if is_clear {
            self.unclear.store(0, Ordering::Relaxed);
        } else if self.unclear.fetch_add(1, Ordering::Relaxed) + 1 >= ATTEMPTS {
            let _gate = fork::gate();
            let mut again = self.again.lock().unwrap_or_else(PoisonError::into_inner);
            *again = Some(Instant::now() + PAUSE);
        }
    }

    /// Get a range of an object, given as the value of the `Range` header, or all of it. `on_done`
    /// runs in a thread that serves other responses: it passes long work to [`run_blocking`]. The
    /// request is dropped soon after `is_active` returns false.
    pub fn get(
        self: &Arc<Self>,
        url: &str,
        range: Option<&str>,
        wanted: impl Fn() -> bool + Send + 'static,
        told: impl FnOnce(Answer) + Send + 'static,
    ) {
        let parsed: Option<Uri> = url.parse().ok();
        let range = range.map(HeaderValue::from_str).transpose().ok();
        let (Some(client), Some(url), Some(range)) = (Client::get(), parsed, range) else {
            self.note(false);
            return told(Answer::Unclear);
        };
        let (web, file) = (self.clone(), url.clone());
        self.begin(client, url, wanted, told, async move { web.answer(client, &file, range).await });
    }

    /// Run a request when it has a permit, and pass its result to `on_done` as long as it is
    /// needed.
    fn begin<T: Outcome>(
        self: &Arc<Self>,
        client: &'static Client,
        url: Uri,
        wanted: impl Fn() -> bool + Send + 'static,
        told: impl FnOnce(T) + Send + 'static,
        work: impl Future<Output = Option<T>> + Send + 'static,
    ) {
        let web = self.clone();
        client.begin(async move {
            let asked = async {
                let _turn = client.turn(&url).await;
                work.await
            };
            let mut asked = std::pin::pin!(tokio::time::timeout(web.patience, asked));
            let answer = loop {
                match tokio::time::timeout(LOOK_EVERY, asked.as_mut()).await {
                    Ok(answer) => break answer.unwrap_or(Some(T::LATE)),
                    Err(_) if wanted() => {}
                    Err(_) => return,
                }
            };
            match &answer {
                None => web.note(false),
                Some(answer) if answer.is_done() => web.note(true),
                Some(_) => {} // a server that redirects elsewhere still reports missing objects itself
            }
            // The panic hook reports a panic.
            let _ = pool::guarded(|| {
                told(answer.unwrap_or(T::UNCLEAR));
                Ok(())
            });
        });
    }

    /// None: the response is not understood.
    async fn answer(&self, client: &Client, url: &Uri, range: Option<HeaderValue>) -> Option<Answer> {
        let answer = self.asked(client, url, range.as_ref()).await;
        if range.is_some() && matches!(&answer, Some(Answer::Refused(refusal)) if refusal.status == 416) {
            return self.asked(client, url, None).await; // the server has not sent the size
        }
        answer
    }

    async fn asked(&self, client: &Client, url: &Uri, range: Option<&HeaderValue>) -> Option<Answer> {
        let request = || {
            let range = range.map(|range| (header::RANGE, range.clone()));
            self.request(url, Method::GET, Bytes::new(), range)
        };
        let sent = |request, anew| tokio::time::timeout(self.silence, client.send(request, anew));
        let Ok(answer) = sent(request()?, false).await else { return Some(Answer::Late) };
        let mut answer = answer?;
        if match &answer {
            Ok(answer) => answer.status() == StatusCode::REQUEST_TIMEOUT,
            Err(error) => was_closed(error),
        } {
            let Ok(again) = sent(request()?, true).await else { return Some(Answer::Late) };
            answer = again?;
        }
        let (head, body) = match answer {
            Ok(answer) => answer.into_parts(),
            Err(error) => return is_late(&error).then_some(Answer::Late),
        };
        self.cookies.keep(url.path(), &head.headers);
        match head.status {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => {
                file(&head, body, self.names.as_ref(), self.silence).await.map(Answer::Piece)
            }
            status => {
                // If more follows, or takes longer, the connection is closed.
                let words = tokio::time::timeout(REST_TIME, read_past(body)).await.unwrap_or_default();
                match status {
                    StatusCode::NOT_FOUND => Some(Answer::Absent),
                    StatusCode::FORBIDDEN if self.forbids => Some(Answer::Absent),
                    _ if status.is_client_error() || status.is_server_error() => {
                        let beyond = |range| beyond(&head, &words, range, self.names.as_ref());
                        let piece = range.and_then(beyond).map(Answer::Piece);
                        Some(piece.unwrap_or_else(|| Answer::Refused(Refusal::of(&head))))
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

/// Whether the connection was closed before a response arrived, as idle connections often are.
fn was_closed(error: &SendError) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<hyper::Error>());
    cause.is_some_and(|cause| !cause.is_parse() && !cause.is_user())
}

/// Whether connecting timed out.
fn is_late(error: &SendError) -> bool {
    let mut cause = error.source();
    while let Some(found) = cause {
        let found_io = found.downcast_ref::<io::Error>();
        if found_io.is_some_and(|error| error.kind() == io::ErrorKind::TimedOut) {
            return true;
        }
        cause = found.source();
    }
    false
}

#[cfg(test)]
mod tests;
