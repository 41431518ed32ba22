//! Files of web servers: one request each, for which no thread waits.

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

/// So many bytes are read of answers that are no files, and for so long, so that the connection can be used again.
const REST: usize = 64 << 10;
const REST_TIME: Duration = Duration::from_millis(50);

/// How often it is asked whether an answer is still wanted.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What servers call a state is told as it is up to so many bytes, as Python does.
const TAG_BYTES: usize = 40;

/// So many answers may be unclear without a file in between; then nothing is asked for so long, and after that once.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_secs(60);

/// Asks web servers.
pub struct Web {
    headers: HeaderMap,
    cookies: Cookies,
    /// How long a request takes at most, waiting for its turn included.
    patience: Duration,
    /// How long a server says nothing at most.
    silence: Duration,
    signer: Option<Signer>,
    /// The header that tells a state from all others; None: what is usual, which perhaps does not.
    names: Option<HeaderName>,
    /// Whether what is not there is forbidden.
    forbids: bool,
    /// How many answers were unclear since there was a file.
    unclear: AtomicU32,
    /// When, after too many of these, something may be asked for again.
    again: Mutex<Option<Instant>>,
}

impl std::fmt::Debug for Web {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Web").finish_non_exhaustive() // headers may be secrets
    }
}

/// A part of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece {
    /// The bytes; all, where the server knows no ranges.
    pub data: Vec<u8>,
    /// Where they begin in the file.
    pub first: u64,
    /// How many bytes the file has.
    pub size: u64,
    /// What tells this state of the file from others; empty where the server does not say.
    pub tag: String,
    /// Whether no other state has this tag.
    pub lasts: bool,
}

impl Piece {
    /// Whether some bytes are known.
    pub fn has(&self, offset: u64, count: u64) -> bool {
        let end = self.first.saturating_add(self.data.len() as u64);
        count == 0 || self.first <= offset && offset.checked_add(count).is_some_and(|until| until <= end)
    }

    /// Whether all bytes are known.
    pub fn is_whole(&self) -> bool {
        self.first == 0 && self.size == self.data.len() as u64
    }

    /// Copy bytes, if they are known.
    pub fn copy_to(&self, offset: u64, out: &mut [u8]) -> bool {
        let at = offset.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        let found = at.and_then(|at| self.data.get(at..)?.get(..out.len()));
        found.is_some_and(|bytes| {
            out.copy_from_slice(bytes);
            true
        })
    }

    /// What tells its state from others, in few bytes.
    pub fn state(&self) -> Cow<'_, [u8]> {
        match self.tag.len() <= TAG_BYTES {
            true => self.tag.as_bytes().into(),
            false => {
                ring::digest::digest(&ring::digest::SHA256, self.tag.as_bytes()).as_ref().to_vec().into()
            }
        }
    }
}

/// How a server says that it gives no file.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status.
    pub status: u16,
    /// What it is called.
    pub reason: String,
    /// What else is said.
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

    /// Whether a change that was refused so may have been made: something broke, or whoever stands between waited in
    /// vain. Who is only busy has made none.
    pub fn may_have_done(&self) -> bool {
        matches!(self.status, 500 | 502 | 504)
    }
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// There is a file.
    Piece(Piece),
    /// There is none.
    Absent,
    /// The server gives none.
    Refused(Refusal),
    /// There was none for so long that nobody asks again.
    Late,
    /// No answer, or one that means something else.
    Unclear,
}

/// What may become of a request.
trait Outcome: Send + 'static {
    /// There was no answer for too long.
    const LATE: Self;
    /// The answer, if there was one, means something else.
    const UNCLEAR: Self;

    /// The server did what was asked for.
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
    /// Each request has `headers`, and takes `patience` at most. None: some are none.
    pub fn new(headers: &[(String, String)], patience: Duration) -> Option<Self> {
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            let name: HeaderName = name.parse().ok()?;
            all.append(name, HeaderValue::from_str(value).ok()?);
        }
        let plain = HeaderValue::from_static("identity"); // of an encoding a part says nothing
        all.entry(header::ACCEPT_ENCODING).or_insert(plain);
        let here = HeaderValue::from_static(concat!("tessarr/", env!("CARGO_PKG_VERSION")));
        all.entry(header::USER_AGENT).or_insert(here);
        all.entry(header::ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        let (cookies, unclear, again) = (Cookies::default(), AtomicU32::new(0), Mutex::default());
        let (silence, signer, names, forbids) = (Duration::MAX, None, None, false);
        Some(Web { headers: all, cookies, patience, silence, signer, names, forbids, unclear, again })
    }

    /// Its requests take as long as they take: patience is for the time in which nothing comes.
    pub fn lasting(self) -> Self {
        Web { patience: Duration::MAX, silence: self.patience, ..self }
    }

    /// Its requests are signed.
    pub fn signed(self, signer: Signer) -> Self {
        Web { signer: Some(signer), ..self }
    }

    /// A header tells states of its files from all others. None: it is no header.
    pub fn naming(self, header: &str) -> Option<Self> {
        Some(Web { names: Some(header.parse().ok()?), ..self })
    }

    /// Whether its servers forbid what is not there, as those do that are not to tell what is.
    pub fn forbidding(self, forbids: bool) -> Self {
        Web { forbids, ..self }
    }

    /// Whether something may be asked for: answers were clear, of late, or were not for long. Who is told so asks.
    pub fn may_ask(&self) -> bool {
        self.asks(|now| Some(now + PAUSE)) // others wait for what becomes of this one
    }

    /// The same where nobody asks yet.
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

    /// Note whether an answer was clear.
    fn note(&self, is_clear: bool) {
        if is_clear {
            self.unclear.store(0, Ordering::Relaxed);
        } else if self.unclear.fetch_add(1, Ordering::Relaxed) + 1 >= ATTEMPTS {
            let _gate = fork::gate();
            let mut again = self.again.lock().unwrap_or_else(PoisonError::into_inner);
            *again = Some(Instant::now() + PAUSE);
        }
    }

    /// Ask for a range of a file, as the header says it, or for all. `told` is told by a thread on which other
    /// answers wait: it does what takes long [`aside`]. It is let go soon after the answer is not `wanted` any more.
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

    /// Do what asks something when it is its turn, and tell what comes of it, as long as that is wanted.
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
                Some(_) => {} // whoever sends others elsewhere still says himself what is not there
            }
            // The panic hook tells of a panic.
            let _ = pool::guarded(|| {
                told(answer.unwrap_or(T::UNCLEAR));
                Ok(())
            });
        });
    }

    /// None: it is unclear.
    async fn answer(&self, client: &Client, url: &Uri, range: Option<HeaderValue>) -> Option<Answer> {
        let answer = self.asked(client, url, range.as_ref()).await;
        if range.is_some() && matches!(&answer, Some(Answer::Refused(refusal)) if refusal.status == 416) {
            return self.asked(client, url, None).await; // the server has not told the size
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
                // What is more, or takes longer, closes the connection.
                let words = tokio::time::timeout(REST_TIME, read_past(body)).await.unwrap_or_default();
                match status {
                    StatusCode::NOT_FOUND => Some(Answer::Absent),
                    StatusCode::FORBIDDEN if self.forbids => Some(Answer::Absent),
                    _ if status.is_client_error() || status.is_server_error() => {
                        let beyond = |range| beyond(&head, &words, range, self.names.as_ref());
                        let piece = range.and_then(beyond).map(Answer::Piece);
                        Some(piece.unwrap_or_else(|| Answer::Refused(Refusal::of(&head))))
                    }
                    _ => None, // it is elsewhere, or something else
                }
            }
        }
    }

    /// None: what is to be told is no header.
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

/// Whether a connection was closed before there was an answer: when it was to be used again, as a rule.
fn was_closed(error: &SendError) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<hyper::Error>());
    cause.is_some_and(|cause| !cause.is_parse() && !cause.is_user())
}

/// Whether it took too long until there was a connection.
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
