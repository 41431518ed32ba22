//! Objects of a web server, which are read-only.

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Response, StatusCode, Uri};
use object_store::client::{HttpError, HttpRequest};

use super::client::Kind;
use super::connector::{no_body, Connector, Refusal, TimedBody};
use super::cookies::Cookies;
use super::failure::{Action, Attempt, Failure, LISTING_ADVICE};
use super::response::{empty_part_at_end, read_body};
use super::{index_page, ByteRange, KnownState, ObjectPart};
use crate::error::{Error, Result};
use crate::store::{Depth, Listing};

/// The maximum number of redirects of a request.
const MAX_REDIRECTS: usize = 10;

/// Folders of web servers below each other that a listing visits.
const MAX_FOLDERS: usize = 100_000;

/// The objects below a URL.
#[derive(Debug)]
pub(super) struct Web {
    /// The URL without the query; it ends in "/".
    root: String,
    /// "", or "?" and the query of each request.
    query: String,
    headers: HeaderMap,
    connector: Connector,
    cookies: Cookies,
    /// Whether the server reports absent objects as forbidden.
    forbidden_is_absent: bool,
}

impl Web {
    /// # Errors
    /// The URL is malformed.
    pub(super) fn new(
        url: &str,
        mut headers: HeaderMap,
        connector: Connector,
        forbidden_is_absent: bool,
    ) -> Result<Self> {
        let (root, query) = url.split_once('?').unwrap_or((url, ""));
        let root = format!("{}/", root.trim_end_matches('/'));
        let query = if query.is_empty() { String::new() } else { format!("?{query}") };
        root.parse::<Uri>().map_err(|error| Error::argument(format!("{root:?} is not a URL: {error}")))?;
        let identity = HeaderValue::from_static("identity"); // ranges refer to the unencoded object
        headers.entry(header::ACCEPT_ENCODING).or_insert(identity);
        headers.entry(header::ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        Ok(Web { root, query, headers, connector, cookies: Cookies::default(), forbidden_is_absent })
    }

    fn url(&self, key: &str) -> String {
        format!("{}{}{}", self.root, percent_encoding::utf8_percent_encode(key, &ESCAPED), self.query)
    }

    /// Read an object, or a range of it; None: it does not exist. The part is empty if the object is in
    /// the `known` state.
    pub(super) async fn get(
        &self,
        key: &str,
        range: ByteRange,
        known: Option<&KnownState>,
    ) -> Result<Option<ObjectPart>> {
        let url = self.url(key);
        let header = match range {
            ByteRange::Whole => None,
            ByteRange::Last(count) => Some(format!("bytes=-{}", count.max(1))),
            ByteRange::Span { offset, count } => {
                Some(format!("bytes={offset}-{}", offset.saturating_add(count.max(1) - 1)))
            }
        };
        let range = header.and_then(|text| HeaderValue::from_str(&text).ok());
        match self.get_range(&url, range.as_ref(), known).await {
            // The server has not sent the size.
            Err(Failure::Range) if range.is_some() => {
                resolve(Action::Read, shown(&url), self.get_range(&url, None, None).await)
            }
            answer => resolve(Action::Read, shown(&url), answer),
        }
    }

    async fn get_range(
        &self,
        url: &str,
        range: Option<&HeaderValue>,
        known: Option<&KnownState>,
    ) -> std::result::Result<ObjectPart, Failure> {
        let tag = known.and_then(|known| HeaderValue::from_str(&known.tag).ok());
        let headers = [(header::RANGE, range), (header::IF_NONE_MATCH, tag.as_ref())];
        let (head, body) = self.send(url, &headers, Action::Read).await?.into_parts();
        if let (StatusCode::NOT_MODIFIED, Some(known)) = (head.status, known) {
            return Ok(known.to_part());
        }
        if has_object(head.status) {
            return match read_body(&head, body).await {
                Ok(part) => Ok(part),
                Err(error) => Err(self.attempt(url, Action::Read).failure(&error)),
            };
        }
        let refusal = Refusal::read(&head, body).await;
        let part = range.and_then(|range| empty_part_at_end(&head.headers, &refusal, range));
        part.ok_or_else(|| self.attempt(url, Action::Read).refused(&refusal))
    }

    fn attempt<'a>(&'a self, url: &'a str, action: Action) -> Attempt<'a> {
        let forbidden_is_absent = self.forbidden_is_absent;
        Attempt {
            action,
            kind: Kind::Http,
            url: shown(url),
            bucket: &self.root,
            anonymous: None,
            forbidden_is_absent,
        }
    }

    /// Send a request, and follow redirects.
    async fn send(
        &self,
        url: &str,
        headers: &[(HeaderName, Option<&HeaderValue>)],
        action: Action,
    ) -> std::result::Result<Response<TimedBody>, Failure> {
        let fail = |error: HttpError| self.attempt(url, action).failure(&error);
        let first = parse(url).map_err(Failure::Other)?;
        let mut target = first.clone();
        for _ in 0..=MAX_REDIRECTS {
            let mut request = HttpRequest::new(no_body());
            *request.method_mut() = Method::GET;
            *request.uri_mut() = target.clone();
            *request.headers_mut() = self.headers.clone();
            if target.authority() == first.authority() && target.scheme() == first.scheme() {
                self.cookies.add_to(request.headers_mut());
            } else {
                request.headers_mut().remove(header::AUTHORIZATION);
                request.headers_mut().remove(header::COOKIE);
            }
            for (name, value) in headers {
                if let Some(value) = *value {
                    request.headers_mut().insert(name, value.clone());
                }
            }
            let response = self.connector.send(request).await.map_err(fail)?;
            self.cookies.store(target.path(), response.headers());
            match redirect(&target, response.status(), response.headers()) {
                Some(next) => target = next,
                None => return Ok(response),
            }
        }
        let why = format!("cannot {action} {}: it redirects more than {MAX_REDIRECTS} times", shown(url));
        Err(Failure::Other(Error::store(false, why)))
    }

    /// Return the keys below a prefix from the pages that the server shows for folders.
    pub(super) async fn list(&self, prefix: &str, depth: Depth) -> Result<Listing> {
        let mut listing = self.list_folder(prefix).await?;
        // The folder may be absent. That of the store is not, so that it has a file at least.
        let is_empty = |listing: &Listing| listing.keys.is_empty() && listing.prefixes.is_empty();
        if is_empty(&listing) && (prefix.is_empty() || is_empty(&self.list_folder("").await?)) {
            return Err(self.no_listing(prefix));
        }
        if depth == Depth::Level {
            return Ok(listing);
        }
        let mut folders = std::mem::take(&mut listing.prefixes);
        let mut count = 0;
        while let Some(folder) = folders.pop() {
            count += 1;
            if count > MAX_FOLDERS {
                let why = format!("cannot list {}: more than {MAX_FOLDERS} folders", self.root);
                return Err(Error::store(false, why));
            }
            let below = self.list_folder(&folder).await?;
            listing.keys.extend(below.keys);
            folders.extend(below.prefixes);
        }
        Ok(listing)
    }

    /// Return the error of a server that does not show the files of folders.
    fn no_listing(&self, prefix: &str) -> Error {
        let url = format!("{}{prefix}", self.root);
        let why = "the server does not show the files of a folder";
        Error::store(false, format!("cannot list {url}: {why}; {LISTING_ADVICE}"))
    }

    async fn list_folder(&self, prefix: &str) -> Result<Listing> {
        let url = self.url(prefix);
        let Some(page) = resolve(Action::List, shown(&url), self.get_page(&url).await)? else {
            return Ok(Listing::default());
        };
        let path = parse(&url)?.path().to_owned();
        Ok(index_page::parse(&String::from_utf8_lossy(&page.data), &path, prefix))
    }

    async fn get_page(&self, url: &str) -> std::result::Result<ObjectPart, Failure> {
        let (head, body) = self.send(url, &[], Action::List).await?.into_parts();
        if !has_object(head.status) {
            return Err(self.attempt(url, Action::List).refused(&Refusal::read(&head, body).await));
        }
        let page = read_body(&head, body).await;
        page.map_err(|error| self.attempt(url, Action::List).failure(&error))
    }
}

/// Return whether a response contains an object.
fn has_object(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 206)
}

/// Return an object, or None if it does not exist.
fn resolve(
    action: Action,
    url: &str,
    answer: std::result::Result<ObjectPart, Failure>,
) -> Result<Option<ObjectPart>> {
    match answer {
        Ok(part) => Ok(Some(part)),
        Err(Failure::Absent) => Ok(None),
        Err(failure) => Err(failure.into_error(action, url)),
    }
}

/// Return a URL without its query, which may contain a signature.
fn shown(url: &str) -> &str {
    url.split_once('?').map_or(url, |(url, _)| url)
}

/// The characters of keys that URLs escape.
const ESCAPED: percent_encoding::AsciiSet = {
    let plain =
        percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');
    let plain = plain.remove(b'!').remove(b'$').remove(b'&').remove(b'\'').remove(b'(').remove(b')');
    plain.remove(b'*').remove(b',').remove(b';').remove(b'=').remove(b':').remove(b'@')
};

fn parse(url: &str) -> Result<Uri> {
    url.parse().map_err(|error| Error::argument(format!("{:?} is not a URL: {error}", shown(url))))
}

/// Return where a response redirects to.
fn redirect(from: &Uri, status: StatusCode, headers: &HeaderMap) -> Option<Uri> {
    if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = headers.get(header::LOCATION)?.to_str().ok()?;
    let base = url::Url::parse(&from.to_string()).ok()?;
    base.join(location).ok()?.as_str().parse().ok()
}
