//! Files that answers have, or that they tell of.

use std::time::{Duration, SystemTime};

use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::response::Parts;
use hyper::StatusCode;

use super::Piece;

/// Memory for so many bytes is made at once where a server says that they come.
const BELIEVED: u64 = 64 << 20;

/// Servers count seconds: a file that was changed so long ago gets another time when it changes again.
const RACY: Duration = Duration::from_secs(2);

/// Read what is no file, so that its connection can be used again; of more it is closed.
pub(super) async fn read_past(mut body: Incoming) -> Vec<u8> {
    let mut data = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        data.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        if data.len() > super::REST {
            break;
        }
    }
    data
}

/// The file that an answer has; None: it is unclear.
pub(super) async fn file(
    head: &Parts,
    mut body: Incoming,
    names: Option<&HeaderName>,
    silence: Duration,
) -> Option<Piece> {
    let told = Headers::of(&head.headers)?;
    let coded = |coding: &str| !coding.eq_ignore_ascii_case("identity");
    if told.coding.is_some_and(coded) || told.transfer.is_some_and(|how| !how.eq_ignore_ascii_case("chunked"))
    {
        return None;
    }
    let mut data = Vec::new();
    let size = body.size_hint().exact().unwrap_or(0);
    data.try_reserve_exact(size.min(BELIEVED) as usize).ok()?;
    while let Some(frame) = tokio::time::timeout(silence, body.frame()).await.ok()? {
        let Ok(bytes) = frame.ok()?.into_data() else { continue };
        data.try_reserve(bytes.len()).ok()?;
        data.extend_from_slice(&bytes);
    }
    let count = data.len() as u64;
    let (first, size) = match head.status {
        StatusCode::PARTIAL_CONTENT => range_of(told.range?, count)?,
        _ => (0, count),
    };
    let (tag, lasts) = told.state(head, names)?;
    Some(Piece { data, first, size, tag, lasts })
}

/// The end of a file behind which, or at which, a range begins, if the server says where that is: in a header, or in
/// words, as S3 does.
pub(super) fn beyond(
    head: &Parts,
    words: &[u8],
    range: &HeaderValue,
    names: Option<&HeaderName>,
) -> Option<Piece> {
    if head.status != StatusCode::RANGE_NOT_SATISFIABLE {
        return None;
    }
    let told = Headers::of(&head.headers)?;
    let size = match told.range {
        Some(range) => {
            let (unit, size) = range.split_once(" */")?;
            number(size).filter(|_| unit.eq_ignore_ascii_case("bytes"))?
        }
        None => {
            let (_, words) = std::str::from_utf8(words).ok()?.split_once("<ActualObjectSize>")?;
            number(words.split_once("</ActualObjectSize>")?.0)?
        }
    };
    let (begin, _) = range.to_str().ok()?.strip_prefix("bytes=")?.split_once('-')?;
    // The last bytes, so many, are only of a file without any out of range.
    let begin = if begin.is_empty() { 0 } else { number(begin)? };
    let (tag, lasts) = told.state(head, names)?;
    // What is empty may be asked for because of its state.
    let suffices = size <= begin && (size > 0 || !tag.is_empty());
    suffices.then_some(Piece { data: Vec::new(), first: size, size, tag, lasts })
}

/// What headers say of a file.
struct Headers<'h> {
    coding: Option<&'h str>,
    transfer: Option<&'h str>,
    range: Option<&'h str>,
    tag: Option<&'h str>,
    modified: Option<&'h str>,
    now: Option<&'h str>,
}

impl<'h> Headers<'h> {
    /// None: some are not plain text, which others may read in another way.
    fn of(headers: &'h HeaderMap) -> Option<Self> {
        let text = |name: HeaderName| headers.get(name).map(HeaderValue::to_str).transpose().ok();
        let only = |name: HeaderName| {
            let mut all = headers.get_all(name).iter();
            let first = all.next().map(HeaderValue::to_str).transpose().ok()?;
            all.next().is_none().then_some(first)
        };
        Some(Headers {
            coding: only(header::CONTENT_ENCODING)?,
            transfer: only(header::TRANSFER_ENCODING)?,
            range: only(header::CONTENT_RANGE)?,
            tag: text(header::ETAG)?,
            modified: text(header::LAST_MODIFIED)?,
            now: text(header::DATE)?,
        })
    }

    /// What tells the state from others, and whether from all. None: something is unclear.
    fn state(&self, head: &Parts, names: Option<&HeaderName>) -> Option<(String, bool)> {
        let (tag, lasts) = match names {
            Some(name) => (head.headers.get(name).map_or(Ok(""), HeaderValue::to_str).ok()?.to_owned(), true),
            None => self.usual()?,
        };
        let lasts = lasts && !tag.is_empty() && !tag.starts_with("W/");
        Some((tag, lasts))
    }

    /// What is usual for that.
    fn usual(&self) -> Option<(String, bool)> {
        let old = is_old(self.modified, self.now)?;
        let tag = match (self.tag.filter(|tag| !tag.is_empty()), self.modified) {
            (Some(tag), _) => tag.to_owned(),
            (None, Some(modified)) if old => format!("W/{modified}"), // else it may be the time of the answer
            _ => String::new(),
        };
        Some((tag, old))
    }
}

/// A number in digits alone.
fn number(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| plain)
}

/// Where a part of at most so many bytes begins, and how many the file has.
fn range_of(told: &str, count: u64) -> Option<(u64, u64)> {
    let (unit, rest) = told.split_once(' ')?;
    let (range, size) = rest.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last, size) = (number(first)?, number(last)?, number(size)?);
    let fits = first <= last && last < size && count <= last - first + 1;
    (unit.eq_ignore_ascii_case("bytes") && fits).then_some((first, size))
}

/// Whether a file that changes again gets another time: many servers make tags of it. None: a time is told in
/// another way than servers do.
pub(super) fn is_old(modified: Option<&str>, now: Option<&str>) -> Option<bool> {
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
