//! Files of web servers: one request each, by threads that wait and need no lock of Python.

use std::collections::HashMap;
use std::io::Read;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use ureq::config::Config;
use ureq::http::{header, HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{time, DefaultConnector, NextTimeout};
use ureq::Agent;

use super::fork;

/// How long a request takes at most, and until there is a connection: as long as in Python.
const PATIENCE: Duration = Duration::from_secs(300);
const CONNECTED: Duration = Duration::from_secs(30);

/// So many bytes are read of answers that are no files, so that the connection can be used again.
const REST: u64 = 64 << 10;

/// So many connections stay open while nothing is asked for.
const IDLE: usize = 256;

/// So many bytes of answers and of requests a connection has memory for.
const RECEIVED: usize = 32 << 10;
const SENT: usize = 8 << 10;

/// Memory for so many bytes is made at once where a server says that they come.
const BELIEVED: u64 = 64 << 20;

/// Servers count seconds: a file that was changed so long ago gets another time when it changes again.
const RACY: Duration = Duration::from_secs(2);

/// So long it is remembered where a server is.
const REMEMBERED: Duration = Duration::from_secs(10);

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

/// Sends the requests of a process: a forked child has connections of its own.
struct Client(Agent);

impl Client {
    fn get() -> Agent {
        static CLIENT: OnceLock<fork::Own<Client>> = OnceLock::new();
        CLIENT.get_or_init(fork::Own::new).get().0.clone()
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
        let plain = header::HeaderValue::from_static("identity"); // of an encoding a part says nothing
        all.entry(header::ACCEPT_ENCODING).or_insert(plain);
        Some(Web { headers: all, unclear: AtomicU32::new(0) })
    }

    /// Whether answers were clear, of late.
    pub fn is_clear(&self) -> bool {
        self.unclear.load(Ordering::Relaxed) < ATTEMPTS
    }

    /// Ask for a range of a file, as the header says it, or for all.
    pub fn get(&self, url: &str, range: Option<&str>) -> Answer {
        let mut answer = self.asked(url, range);
        if range.is_some() && matches!(answer, Some(Answer::Refused(416))) {
            answer = self.asked(url, None); // there may be nothing in it
        }
        match answer {
            None => self.unclear.fetch_add(1, Ordering::Relaxed),
            Some(_) => self.unclear.swap(0, Ordering::Relaxed),
        };
        answer.unwrap_or(Answer::Unclear)
    }

    /// None: the answer is unclear.
    fn asked(&self, url: &str, range: Option<&str>) -> Option<Answer> {
        let mut request = Client::get().get(url);
        if let Some(headers) = request.headers_mut() {
            headers.extend(self.headers.clone());
        }
        if let Some(range) = range {
            request = request.header(header::RANGE, range);
        }
        let (head, body) = match request.call() {
            Ok(answer) => answer.into_parts(),
            Err(ureq::Error::Timeout(_)) => return Some(Answer::Late),
            Err(_) => return None,
        };
        let status = head.status;
        if !matches!(status, StatusCode::OK | StatusCode::PARTIAL_CONTENT) {
            let rest = body.into_with_config().limit(REST).reader().read_to_end(&mut Vec::new());
            drop(rest); // what is more closes the connection
            return match status {
                StatusCode::NOT_FOUND => Some(Answer::Absent),
                _ if status.is_client_error() || status.is_server_error() => {
                    Some(Answer::Refused(status.as_u16()))
                }
                _ => None, // it is elsewhere, or something else
            };
        }
        let told = Headers::of(&head.headers)?;
        if told.coding.is_some_and(|coding| !coding.eq_ignore_ascii_case("identity")) {
            return None;
        }
        let mut data = Vec::new();
        let size = body.content_length().unwrap_or(0);
        data.try_reserve_exact(size.min(BELIEVED) as usize).ok()?;
        body.into_with_config().limit(u64::MAX).reader().read_to_end(&mut data).ok()?;
        let (first, size) = match told.range {
            Some(range) if status == StatusCode::PARTIAL_CONTENT => range_of(range)?,
            _ => (0, data.len() as u64),
        };
        let old = is_old(told.modified, told.now)?;
        let tag = match (told.tag, told.modified) {
            (Some(tag), _) => tag.to_owned(),
            (None, Some(modified)) if old => format!("W/{modified}"), // else it may be the time of the answer
            _ => String::new(),
        };
        let lasts = old && !tag.is_empty() && !tag.starts_with("W/");
        Some(Answer::Piece(Piece { data, first, size, tag, lasts }))
    }
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

impl Default for Client {
    fn default() -> Self {
        let roots = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .timeout_connect(Some(CONNECTED))
            .max_redirects(0) // Python knows what of a request is sent elsewhere
            .max_idle_connections(IDLE)
            .max_idle_connections_per_host(IDLE)
            .user_agent(concat!("tessarr/", env!("CARGO_PKG_VERSION")))
            .proxy(None)
            .input_buffer_size(RECEIVED)
            .output_buffer_size(SENT)
            .tls_config(roots);
        Client(Agent::with_parts(config.build(), DefaultConnector::default(), Names::default()))
    }
}

/// Where servers are, which is asked for each request, and remembered for some seconds.
#[derive(Debug, Default)]
struct Names {
    known: Mutex<HashMap<String, (Instant, Vec<SocketAddr>)>>,
    resolver: DefaultResolver,
}

impl Resolver for Names {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let name = format!("{:?}:{:?}", uri.scheme_str(), uri.authority());
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = |since: &Instant| since.elapsed() < REMEMBERED;
        if let Some((_, found)) = lock().get(&name).filter(|(since, _)| fresh(since)) {
            let mut addresses = self.empty();
            found.iter().for_each(|address| addresses.push(*address));
            return Ok(addresses);
        }
        // With a time limit it would have a thread of its own for each request.
        let patient = NextTimeout { after: time::Duration::NotHappening, ..timeout };
        let found = self.resolver.resolve(uri, config, patient)?;
        lock().insert(name, (Instant::now(), found.to_vec()));
        Ok(found)
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
