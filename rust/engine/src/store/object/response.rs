//! Parsing of HTTP responses: body, range, size and generation of an object.

use std::time::{Duration, SystemTime};

use futures_util::{Stream, TryStreamExt};
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::response::Parts;
use hyper::StatusCode;

use object_store::client::{HttpError, HttpErrorKind};

use super::connector::{Refusal, TimedBody};
use super::{ObjectPart, MAX_RESERVED};

/// How many bytes of an error response are read, so that the connection can be reused.
const MAX_ERROR_BODY: usize = 64 << 10;

/// Times in headers are whole seconds: only an object older than this gets another time when it
/// changes.
const RACY: Duration = Duration::from_secs(2);

/// Read an error response so that its connection can be reused; a long one closes it.
pub(super) async fn read_error_body(mut body: impl Body<Data = Bytes> + Unpin) -> Vec<u8> {
    let mut data = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        data.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        if data.len() > MAX_ERROR_BODY {
            break;
        }
    }
    data
}

/// Read the object in a response.
pub(super) async fn read_body(head: &Parts, body: TimedBody) -> Result<ObjectPart, HttpError> {
    let headers = Headers::of(&head.headers).ok_or_else(|| invalid("a header is repeated or not text"))?;
    let is_encoded = |content_encoding: &str| !content_encoding.eq_ignore_ascii_case("identity");
    if headers.content_encoding.is_some_and(is_encoded)
        || headers.transfer_encoding.is_some_and(|encoding| !encoding.eq_ignore_ascii_case("chunked"))
    {
        return Err(invalid("the server sends the object with another encoding than \"identity\""));
    }
    let size = body.size_hint().exact().unwrap_or(0);
    let no_memory = || invalid("there is no memory for the object");
    let data = collect(body.into_data_stream(), size, no_memory).await?;
    let count = data.len() as u64;
    let (first, size) = match head.status {
        StatusCode::PARTIAL_CONTENT => headers
            .range
            .and_then(|range| range_of(range, count))
            .ok_or_else(|| invalid("the header Content-Range does not fit the response"))?,
        _ => (0, count),
    };
    let (tag, is_strong) = headers.generation();
    Ok(ObjectPart { data, first, size, tag, is_strong })
}

/// Concatenate the pieces of an object, which has `size` bytes unless the server lies.
pub(super) async fn collect<E>(
    mut pieces: impl Stream<Item = Result<Bytes, E>> + Unpin,
    size: u64,
    no_memory: impl Fn() -> E,
) -> Result<Vec<u8>, E> {
    let mut data = Vec::new();
    data.try_reserve_exact(size.min(MAX_RESERVED) as usize).map_err(|_| no_memory())?;
    while let Some(bytes) = pieces.try_next().await? {
        data.try_reserve(bytes.len()).map_err(|_| no_memory())?;
        data.extend_from_slice(&bytes);
    }
    Ok(data)
}

/// Return the error of a response that is not understood.
fn invalid(why: &str) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, std::io::Error::other(why.to_owned()))
}

/// Return an empty part at the end of an object, for a refused range beyond its end.
pub(super) fn empty_part_at_end(
    headers: &HeaderMap,
    refusal: &Refusal,
    range: &HeaderValue,
) -> Option<ObjectPart> {
    if refusal.status != StatusCode::RANGE_NOT_SATISFIABLE {
        return None;
    }
    let size = refusal.size?;
    let (begin, _) = range.to_str().ok()?.strip_prefix("bytes=")?.split_once('-')?;
    // The last N bytes are out of range only in an empty object.
    let begin = if begin.is_empty() { 0 } else { number(begin)? };
    let (tag, is_strong) = Headers::of(headers)?.generation();
    // An empty object may be requested for its generation.
    let is_beyond = size <= begin && (size > 0 || !tag.is_empty());
    is_beyond.then_some(ObjectPart { data: Vec::new(), first: size, size, tag, is_strong })
}

/// Return the size of an object in the response to a range beyond its end: the server sends it in a
/// header, or in the body as S3 does.
pub(super) fn refused_size(headers: &HeaderMap, error_body: &str) -> Option<u64> {
    if let Some(range) = headers.get(header::CONTENT_RANGE) {
        let (unit, size) = range.to_str().ok()?.split_once(" */")?;
        return number(size).filter(|_| unit.eq_ignore_ascii_case("bytes"));
    }
    let (_, rest) = error_body.split_once("<ActualObjectSize>")?;
    number(rest.split_once("</ActualObjectSize>")?.0)
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
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let only_value = |name: HeaderName| {
            let mut all = headers.get_all(name).iter();
            let first = all.next().map(HeaderValue::to_str).transpose().ok()?;
            all.next().is_none().then_some(first)
        };
        Some(Headers {
            content_encoding: only_value(header::CONTENT_ENCODING)?,
            transfer_encoding: only_value(header::TRANSFER_ENCODING)?,
            range: only_value(header::CONTENT_RANGE)?,
            tag: text(header::ETAG),
            modified: text(header::LAST_MODIFIED),
            now: text(header::DATE),
        })
    }

    /// Return the generation from `ETag` and `Last-Modified`, and whether it is unique.
    fn generation(&self) -> (String, bool) {
        let is_stable = is_older_than_clock_tick(self.modified, self.now);
        let tag = match (self.tag.filter(|tag| !tag.is_empty()), self.modified) {
            (Some(tag), _) => tag.to_owned(),
            // Otherwise it may be the time of the response.
            (None, Some(modified)) if is_stable => format!("W/{modified}"),
            _ => String::new(),
        };
        let is_strong = is_stable && !tag.is_empty() && !tag.starts_with("W/");
        (tag, is_strong)
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
/// derive tags from the time. A date that is not in the format of HTTP means no.
pub(super) fn is_older_than_clock_tick(modified: Option<&str>, now: Option<&str>) -> bool {
    let time = |text: &str| -> Option<SystemTime> {
        let time = httpdate::parse_http_date(text).ok()?;
        (httpdate::fmt_http_date(time) == text).then_some(time)
    };
    let Some(modified) = modified else { return true };
    let age = now.and_then(|now| time(now)?.duration_since(time(modified)?).ok());
    age.is_some_and(|age| age >= RACY)
}
