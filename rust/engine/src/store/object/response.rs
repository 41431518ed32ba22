//! Parsing of HTTP responses: body, range, size and generation of an object.

use std::time::{Duration, SystemTime};

use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::response::Parts;
use hyper::StatusCode;

use super::ResponseBody;

/// The maximum size for which memory is reserved from `Content-Length` alone.
const MAX_RESERVED: u64 = 64 << 20;

/// Times in headers are whole seconds: only an object older than this gets another time when it
/// changes.
const RACY: Duration = Duration::from_secs(2);

/// Read an error response so that its connection can be reused; a long one closes it.
pub(super) async fn read_error_body(mut body: Incoming) -> Vec<u8> {
    let mut data = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        data.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        if data.len() > super::MAX_ERROR_BODY {
            break;
        }
    }
    data
}

/// Read the object in a response; None: the response is not understood.
pub(super) async fn read_body(
    head: &Parts,
    mut body: Incoming,
    generation_header: Option<&HeaderName>,
    idle_timeout: Duration,
) -> Option<ResponseBody> {
    let headers = Headers::of(&head.headers)?;
    let is_encoded = |content_encoding: &str| !content_encoding.eq_ignore_ascii_case("identity");
    if headers.content_encoding.is_some_and(is_encoded)
        || headers.transfer_encoding.is_some_and(|encoding| !encoding.eq_ignore_ascii_case("chunked"))
    {
        return None;
    }
    let mut data = Vec::new();
    let size = body.size_hint().exact().unwrap_or(0);
    data.try_reserve_exact(size.min(MAX_RESERVED) as usize).ok()?;
    while let Some(frame) = tokio::time::timeout(idle_timeout, body.frame()).await.ok()? {
        let Ok(bytes) = frame.ok()?.into_data() else { continue };
        data.try_reserve(bytes.len()).ok()?;
        data.extend_from_slice(&bytes);
    }
    let count = data.len() as u64;
    let (first, size) = match head.status {
        StatusCode::PARTIAL_CONTENT => range_of(headers.range?, count)?,
        _ => (0, count),
    };
    let (tag, is_strong) = headers.generation(head, generation_header)?;
    Some(ResponseBody { data, first, size, tag, is_strong })
}

/// Return an empty part at the end of an object, for a range beyond its end. The server sends the
/// size in a header, or in the body as S3 does.
pub(super) fn empty_part_at_end(
    head: &Parts,
    error_body: &[u8],
    range: &HeaderValue,
    generation_header: Option<&HeaderName>,
) -> Option<ResponseBody> {
    if head.status != StatusCode::RANGE_NOT_SATISFIABLE {
        return None;
    }
    let headers = Headers::of(&head.headers)?;
    let size = match headers.range {
        Some(range) => {
            let (unit, size) = range.split_once(" */")?;
            number(size).filter(|_| unit.eq_ignore_ascii_case("bytes"))?
        }
        None => {
            let (_, error_body) = std::str::from_utf8(error_body).ok()?.split_once("<ActualObjectSize>")?;
            number(error_body.split_once("</ActualObjectSize>")?.0)?
        }
    };
    let (begin, _) = range.to_str().ok()?.strip_prefix("bytes=")?.split_once('-')?;
    // The last N bytes are out of range only in an empty object.
    let begin = if begin.is_empty() { 0 } else { number(begin)? };
    let (tag, is_strong) = headers.generation(head, generation_header)?;
    // An empty object may be requested for its generation.
    let is_beyond = size <= begin && (size > 0 || !tag.is_empty());
    is_beyond.then_some(ResponseBody { data: Vec::new(), first: size, size, tag, is_strong })
}

/// The headers that describe an object.
struct Headers<'h> {
    content_encoding: Option<&'h str>,
    transfer_encoding: Option<&'h str>,
    range: Option<&'h str>,
    tag: Option<&'h str>,
    modified: Option<&'h str>,
    now: Option<&'h str>,
}

impl<'h> Headers<'h> {
    /// None: a header is repeated or not plain text, so that clients may read it differently.
    fn of(headers: &'h HeaderMap) -> Option<Self> {
        let text = |name: HeaderName| headers.get(name).map(HeaderValue::to_str).transpose().ok();
        let only_value = |name: HeaderName| {
            let mut all = headers.get_all(name).iter();
            let first = all.next().map(HeaderValue::to_str).transpose().ok()?;
            all.next().is_none().then_some(first)
        };
        Some(Headers {
            content_encoding: only_value(header::CONTENT_ENCODING)?,
            transfer_encoding: only_value(header::TRANSFER_ENCODING)?,
            range: only_value(header::CONTENT_RANGE)?,
            tag: text(header::ETAG)?,
            modified: text(header::LAST_MODIFIED)?,
            now: text(header::DATE)?,
        })
    }

    /// Return the generation, and whether it is unique. None: a header is invalid.
    fn generation(&self, head: &Parts, generation_header: Option<&HeaderName>) -> Option<(String, bool)> {
        let (tag, is_strong) = match generation_header {
            Some(name) => (head.headers.get(name).map_or(Ok(""), HeaderValue::to_str).ok()?.to_owned(), true),
            None => self.standard_generation()?,
        };
        let is_strong = is_strong && !tag.is_empty() && !tag.starts_with("W/");
        Some((tag, is_strong))
    }

    /// Return the generation from `ETag` and `Last-Modified`.
    fn standard_generation(&self) -> Option<(String, bool)> {
        let is_stable = is_older_than_clock_tick(self.modified, self.now)?;
        let tag = match (self.tag.filter(|tag| !tag.is_empty()), self.modified) {
            (Some(tag), _) => tag.to_owned(),
            // Otherwise it may be the time of the response.
            (None, Some(modified)) if is_stable => format!("W/{modified}"),
            _ => String::new(),
        };
        Some((tag, is_stable))
    }
}

/// Parse a number that consists of digits alone.
fn number(text: &str) -> Option<u64> {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_digits)
}

/// Parse `Content-Range`: the offset of a part of at most `count` bytes, and the size of the
/// object.
fn range_of(headers: &str, count: u64) -> Option<(u64, u64)> {
    let (unit, rest) = headers.split_once(' ')?;
    let (range, size) = rest.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last, size) = (number(first)?, number(last)?, number(size)?);
    let fits = first <= last && last < size && count <= last - first + 1;
    (unit.eq_ignore_ascii_case("bytes") && fits).then_some((first, size))
}

/// Return whether the object is old enough that another change gets another time: many servers
/// derive tags from the time. None: a date is not in the HTTP format.
pub(super) fn is_older_than_clock_tick(modified: Option<&str>, now: Option<&str>) -> Option<bool> {
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
