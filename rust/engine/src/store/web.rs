//! Files of web servers: one request each, for which no thread waits.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::response::Parts;
use hyper::{Request, StatusCode, Uri};

use crate::pool;

mod client;

pub use client::aside;
use client::Client;

/// How long a request takes at most: as long as in Python.
const PATIENCE: Duration = Duration::from_secs(300);

/// So many bytes are read of answers that are no files, so that the connection can be used again.
const REST: usize = 64 << 10;

/// Memory for so many bytes is made at once where a server says that they come.
const BELIEVED: u64 = 64 << 20;

/// What servers call a state is told as it is up to so many bytes, as Python does.
const TAG_BYTES: usize = 40;

/// Servers count seconds: a file that was changed so long ago gets another time when it changes again.
const RACY: Duration = Duration::from_secs(2);

/// So many answers in a row may be unclear.
const ATTEMPTS: u32 = 3;

/// Asks web servers.
pub struct Web {
    headers: HeaderMap,
    /// How many answers were unclear since one was not.
    unclear: AtomicU32,
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

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// There is a file.
    Piece(Piece),
    /// There is none.
    Absent,
    /// The server answers with this status.
    Refused(u16),
    /// There was none for so long that nobody asks again.
    Late,
    /// No answer, or one that means something else.
    Unclear,
}

impl Web {
    /// Each request has `headers`. None: some are none.
    pub fn new(headers: &[(String, String)]) -> Option<Self> {
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            let name: HeaderName = name.parse().ok()?;
            all.append(name, HeaderValue::from_str(value).ok()?);
        }
        let plain = HeaderValue::from_static("identity"); // of an encoding a part says nothing
        all.entry(header::ACCEPT_ENCODING).or_insert(plain);
        let here = HeaderValue::from_static(concat!("tessarr/", env!("CARGO_PKG_VERSION")));
        all.entry(header::USER_AGENT).or_insert(here);
        Some(Web { headers: all, unclear: AtomicU32::new(0) })
    }

    /// Whether answers were clear, of late.
    pub fn is_clear(&self) -> bool {
        self.unclear.load(Ordering::Relaxed) < ATTEMPTS
    }

    /// Ask for a range of a file, as the header says it, or for all. `told` is told by a thread on which other
    /// answers wait: it does what takes long [`aside`].
    pub fn get(self: &Arc<Self>, url: &str, range: Option<&str>, told: impl FnOnce(Answer) + Send + 'static) {
        let parsed: Option<Uri> = url.parse().ok();
        let range = range.map(HeaderValue::from_str).transpose().ok();
        let (Some(client), Some(url), Some(range)) = (Client::get(), parsed, range) else {
            self.unclear.fetch_add(1, Ordering::Relaxed);
            return told(Answer::Unclear);
        };
        let web = self.clone();
        client.begin(async move {
            let answer = tokio::time::timeout(PATIENCE, web.answer(client, url, range)).await;
            let answer = match answer {
                Ok(answer) => answer,
                Err(_) => Some(Answer::Late),
            };
            match answer {
                None => web.unclear.fetch_add(1, Ordering::Relaxed),
                Some(_) => web.unclear.swap(0, Ordering::Relaxed),
            };
            // The panic hook tells of a panic.
            let _ = pool::guarded(|| {
                told(answer.unwrap_or(Answer::Unclear));
                Ok(())
            });
        });
    }

    /// None: it is unclear.
    async fn answer(&self, client: &Client, url: Uri, range: Option<HeaderValue>) -> Option<Answer> {
        let turn = client.turns.acquire().await;
        let ranged = range.is_some();
        let mut answer = self.asked(client, &url, range).await;
        if ranged && matches!(answer, Some(Answer::Refused(416))) {
            answer = self.asked(client, &url, None).await; // there may be nothing in it
        }
        drop(turn);
        answer
    }

    async fn asked(&self, client: &Client, url: &Uri, range: Option<HeaderValue>) -> Option<Answer> {
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = url.clone();
        *request.headers_mut() = self.headers.clone();
        if let Some(range) = range {
            request.headers_mut().insert(header::RANGE, range);
        }
        let again = request.clone();
        let answer = match client.send(request).await? {
            // A connection may have been closed when it was used again.
            Err(error) if !error.is_connect() => client.send(again).await?,
            answer => answer,
        };
        let (head, body) = answer.ok()?.into_parts();
        match head.status {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => file(&head, body).await.map(Answer::Piece),
            status => {
                read_past(body).await;
                match status {
                    StatusCode::NOT_FOUND => Some(Answer::Absent),
                    _ if status.is_client_error() || status.is_server_error() => {
                        Some(Answer::Refused(status.as_u16()))
                    }
                    _ => None, // it is elsewhere, or something else
                }
            }
        }
    }
}

/// Read what is no file, so that its connection can be used again; of more it is closed.
async fn read_past(mut body: Incoming) {
    let mut count = 0;
    while let Some(Ok(frame)) = body.frame().await {
        count += frame.data_ref().map_or(0, |data| data.len());
        if count > REST {
            return;
        }
    }
}

/// The file that an answer has; None: it is unclear.
async fn file(head: &Parts, mut body: Incoming) -> Option<Piece> {
    let told = Headers::of(&head.headers)?;
    if told.coding.is_some_and(|coding| !coding.eq_ignore_ascii_case("identity")) {
        return None;
    }
    let mut data = Vec::new();
    let size = body.size_hint().exact().unwrap_or(0);
    data.try_reserve_exact(size.min(BELIEVED) as usize).ok()?;
    while let Some(frame) = body.frame().await {
        let Ok(bytes) = frame.ok()?.into_data() else { continue };
        data.try_reserve(bytes.len()).ok()?;
        data.extend_from_slice(&bytes);
    }
    let (first, size) = match told.range {
        Some(range) if head.status == StatusCode::PARTIAL_CONTENT => range_of(range)?,
        _ => (0, data.len() as u64),
    };
    let old = is_old(told.modified, told.now)?;
    let tag = match (told.tag, told.modified) {
        (Some(tag), _) => tag.to_owned(),
        (None, Some(modified)) if old => format!("W/{modified}"), // else it may be the time of the answer
        _ => String::new(),
    };
    let lasts = old && !tag.is_empty() && !tag.starts_with("W/");
    Some(Piece { data, first, size, tag, lasts })
}

/// What headers say of a file.
struct Headers<'h> {
    coding: Option<&'h str>,
    range: Option<&'h str>,
    tag: Option<&'h str>,
    modified: Option<&'h str>,
    now: Option<&'h str>,
}

impl<'h> Headers<'h> {
    /// None: some are not plain text, which others may read in another way.
    fn of(headers: &'h HeaderMap) -> Option<Self> {
        let text = |name: HeaderName| headers.get(name).map(HeaderValue::to_str).transpose().ok();
        Some(Headers {
            coding: text(header::CONTENT_ENCODING)?,
            range: text(header::CONTENT_RANGE)?,
            tag: text(header::ETAG)?,
            modified: text(header::LAST_MODIFIED)?,
            now: text(header::DATE)?,
        })
    }
}

/// Where a part begins, and how many bytes the file has.
fn range_of(told: &str) -> Option<(u64, u64)> {
    let (unit, rest) = told.split_once(' ')?;
    let (range, size) = rest.split_once('/')?;
    let (first, _) = range.split_once('-')?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    Some((first.parse().ok()?, size.parse().ok()?))
}

/// Whether a file that changes again gets another time: many servers make tags of it. None: a time is told in
/// another way than servers do.
fn is_old(modified: Option<&str>, now: Option<&str>) -> Option<bool> {
    let time = |text: Option<&str>| {
        let Some(text) = text else { return Some(None) };
        let time: SystemTime = httpdate::parse_http_date(text).ok()?;
        (httpdate::fmt_http_date(time) == text).then_some(Some(time))
    };
    if modified.is_none() {
        return Some(true);
    }
    Some(match (time(modified)?, time(now)?) {
        (Some(modified), Some(now)) => now.duration_since(modified).is_ok_and(|since| since >= RACY),
        _ => false,
    })
}

#[cfg(test)]
mod tests;
