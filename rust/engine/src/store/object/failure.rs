//! Why a request of an object store failed, and the error that says so.

use std::error::Error as StdError;
use std::fmt;

use object_store::client::{HttpError, HttpErrorKind};

use super::client::{Anonymous, Kind as StoreKind};
use super::connector::Refusal;
use super::credentials::EngineError;
use super::ObjectPart;
use crate::error::{Error, Kind};

/// Why a request failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The object does not exist.
    Absent,
    /// The precondition does not hold.
    Precondition,
    /// The range is not in the object.
    Range,
    /// The server has no conditional writes.
    NotImplemented,
    /// The bucket is in this region.
    Region(String),
    /// The credentials have expired.
    Expired(Error),
    /// The server may have applied the request.
    Unanswered(Error),
    /// Another error.
    Other(Error),
}

impl Failure {
    /// Return whether the server refused the request because of its credentials.
    pub(super) fn is_denied(&self) -> bool {
        let (Failure::Expired(error) | Failure::Other(error)) = self else { return false };
        matches!(error.kind, Kind::Store { errno: Some(libc::EACCES), .. })
    }

    /// Return the error of a failure that has no other meaning for the request.
    pub(super) fn into_error(self, action: Action, url: &str) -> Error {
        let why = match self {
            Failure::Expired(error) | Failure::Unanswered(error) | Failure::Other(error) => return error,
            Failure::Absent => {
                let why = "the bucket does not exist there; check its name and the endpoint";
                return Error::new(Kind::NotFound, format!("cannot {action} {url}: {why}"));
            }
            Failure::Precondition => "another request changes it".to_owned(),
            Failure::Range => "it has no such range".to_owned(),
            Failure::NotImplemented => "the server does not support this request".to_owned(),
            Failure::Region(region) => {
                format!("the bucket is in the region {region}, which refuses the request")
            }
        };
        Error::store(false, format!("cannot {action} {url}: {why}"))
    }
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Read,
    Write,
    Delete,
    List,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Action::Read => "read",
            Action::Write => "write",
            Action::Delete => "delete",
            Action::List => "list",
        })
    }
}

/// A request, for errors.
pub(super) struct Attempt<'a> {
    pub(super) action: Action,
    pub(super) kind: StoreKind,
    pub(super) url: &'a str,
    /// The bucket, the container or the server.
    pub(super) bucket: &'a str,
    /// Why the request has no credentials.
    pub(super) anonymous: Option<&'a Anonymous>,
    /// Whether the server reports absent objects as forbidden.
    pub(super) forbidden_is_absent: bool,
}

/// Return an error and its causes.
fn causes<'e>(error: &'e (dyn StdError + 'static)) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| {
        // The source of such an error is that of the error in it.
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        inner.map(|inner| inner as &(dyn StdError + 'static)).or_else(|| error.source())
    })
}

/// Return the first error in a chain with this type.
fn find<'e, T: StdError + 'static>(error: &'e (dyn StdError + 'static)) -> Option<&'e T> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

/// Return the message of the last error in a chain, which names the cause. Those before it may
/// contain URLs with secrets.
pub(super) fn root_cause(error: &(dyn StdError + 'static)) -> String {
    causes(error).last().unwrap_or(error).to_string()
}

/// Return the error of a provider of credentials. Their service may be busy or restart, in which case
/// some respond that nothing exists.
pub(super) fn credentials_error(error: &(dyn StdError + 'static)) -> Error {
    if let Some(EngineError(error)) = find(error) {
        return error.clone();
    }
    let retryable = match (find::<Refusal>(error), find::<HttpError>(error)) {
        (Some(refusal), _) => {
            matches!(refusal.status.as_u16(), 404 | 408 | 410 | 429) || refusal.status.is_server_error()
        }
        (None, Some(sent)) => sent.kind() != HttpErrorKind::Unknown,
        (None, None) => false,
    };
    Error::new(Kind::Store { retryable, errno: None }, root_cause(error))
}

impl Attempt<'_> {
    /// Return the failure that an error of `object_store` or of the connector means.
    pub(super) fn failure(&self, error: &(dyn StdError + 'static)) -> Failure {
        if let Some(EngineError(error)) = find(error) {
            let retryable = matches!(error.kind, Kind::Store { retryable: true, .. });
            let foreign = error.foreign.clone();
            let why = error.message.strip_prefix("raised ").unwrap_or(&error.message);
            let why = format!("cannot get credentials: {why}");
            return Failure::Other(Error { foreign, ..self.error(retryable, &why) });
        }
        if let Some(refusal) = find::<Refusal>(error) {
            return self.refused(refusal);
        }
        let Some(sent) = find::<HttpError>(error) else {
            if let Some(object_store::Error::NotFound { .. }) = error.downcast_ref() {
                return Failure::Absent;
            }
            return Failure::Other(self.error(false, &root_cause(error)));
        };
        let cause = root_cause(sent);
        match sent.kind() {
            HttpErrorKind::Connect if is_refused_certificate(sent) => {
                let advice = "; the option ca_bundle names further certificates";
                Failure::Other(self.error(false, &format!("cannot connect: {cause}{advice}")))
            }
            HttpErrorKind::Connect if is_no_tls(sent) => {
                let why = "the server does not use TLS; check the scheme of the address and the port";
                Failure::Other(self.error(false, &format!("cannot connect: {why}")))
            }
            HttpErrorKind::Connect => {
                let advice = "; check the address, the network and the proxy";
                Failure::Other(self.error(true, &format!("cannot connect: {cause}{advice}")))
            }
            HttpErrorKind::Unknown => Failure::Other(self.error(false, &cause)),
            HttpErrorKind::Timeout => {
                Failure::Unanswered(self.error(true, &format!("{cause}; the option timeout_s allows more")))
            }
            _ => Failure::Unanswered(self.error(true, &format!("the connection broke: {cause}"))),
        }
    }

    pub(super) fn refused(&self, refusal: &Refusal) -> Failure {
        let (status, code) = (refusal.status.as_u16(), refusal.code.as_str());
        if let Some(region) = refusal.region.as_ref().filter(|_| matches!(status, 301 | 307 | 400 | 403)) {
            if self.kind == StoreKind::S3 && (status != 403 || code == "AuthorizationHeaderMalformed") {
                return Failure::Region(region.clone());
            }
        }
        if status == 403 && self.is_absent_if_forbidden(code) {
            return Failure::Absent;
        }
        let is_read = matches!(self.action, Action::Read | Action::List);
        let errno = matches!(status, 401 | 403).then_some(libc::EACCES);
        let error = |retryable| Error {
            kind: Kind::Store { retryable, errno },
            ..self.error(retryable, &format!("{refusal}{}", self.advice(status, code)))
        };
        match (status, code) {
            (404, "NoSuchBucket" | "ContainerNotFound" | "ContainerBeingDeleted") => self.missing_bucket(),
            (404, _) if self.is_missing_bucket(refusal) => self.missing_bucket(),
            (404, _) if self.kind == StoreKind::Http => Failure::Absent,
            (404, "" | "NoSuchKey" | "BlobNotFound" | "ResourceNotFound") => Failure::Absent,
            (412, _) | (409, "ConditionalRequestConflict" | "BlobAlreadyExists") => Failure::Precondition,
            (416, _) => Failure::Range,
            (501, _) | (_, "NotImplemented") => Failure::NotImplemented,
            (_, "ExpiredToken" | "TokenRefreshRequired") | (401, _) => Failure::Expired(error(false)),
            (408 | 429 | 503, _) | (_, "SlowDown" | "RequestTimeout" | "ServerBusy" | "OperationAborted") => {
                Failure::Other(error(true))
            }
            (200 | 500 | 502 | 504, _) => match is_read {
                true => Failure::Other(error(true)),
                false => Failure::Unanswered(error(true)),
            },
            _ => Failure::Other(error(false)),
        }
    }

    /// Return whether a refused read says that the object does not exist: services hide that from
    /// clients that may not list the bucket.
    fn is_absent_if_forbidden(&self, code: &str) -> bool {
        let is_general = self.kind == StoreKind::Http || matches!(code, "" | "AccessDenied");
        self.forbidden_is_absent && self.action == Action::Read && is_general
    }

    /// Return whether a refusal without a code says that the bucket does not exist.
    fn is_missing_bucket(&self, refusal: &Refusal) -> bool {
        let message = refusal.message.to_ascii_lowercase();
        self.kind == StoreKind::Gcs && message.contains("bucket") && message.contains("not exist")
    }

    fn missing_bucket(&self) -> Failure {
        let what = if self.kind == StoreKind::Azure { "container" } else { "bucket" };
        let why =
            format!("the {what} {:?} does not exist there; check its name and the endpoint", self.bucket);
        Failure::Other(Error { kind: Kind::NotFound, ..self.error(false, &why) })
    }

    /// Return what the user can do about a refusal.
    fn advice(&self, status: u16, code: &str) -> String {
        if !matches!(status, 401 | 403) && !matches!(code, "ExpiredToken") {
            return String::new();
        }
        if self.kind == StoreKind::Http {
            return match self.action {
                Action::List => format!("; {LISTING_ADVICE}"),
                _ => format!("; pass the authorization as the option headers; {MISSING_ADVICE}"),
            };
        }
        if let Some(why) = self.anonymous {
            let listing = match self.action {
                Action::List => format!("; without listings, {LISTING_ADVICE}"),
                _ => String::new(),
            };
            return format!(
                "; the request had no credentials ({why}): pass them as storage_options, set them in the \
                 environment, or name a profile{listing}"
            );
        }
        const PUBLIC: &str = "a public bucket needs none: storage_options={\"anon\": True}";
        match (self.action, code) {
            (_, "ExpiredToken") => "; the credentials have expired".to_owned(),
            (_, "SignatureDoesNotMatch" | "InvalidAccessKeyId" | "AuthenticationFailed") => {
                format!("; check the keys; {PUBLIC}")
            }
            (Action::List, _) => format!("; the credentials may not list this bucket: {LISTING_ADVICE}"),
            (Action::Read, _) => format!("; the credentials may not do this; {PUBLIC}; {MISSING_ADVICE}"),
            _ => "; the credentials may not do this".to_owned(),
        }
    }

    fn error(&self, retryable: bool, why: &str) -> Error {
        Error::store(retryable, format!("cannot {} {}: {why}", self.action, self.url))
    }
}

/// What to do without listings.
pub(super) const LISTING_ADVICE: &str =
    "open arrays by their own URLs, or consolidate the metadata of the group";

/// What to do if absent objects are forbidden.
const MISSING_ADVICE: &str =
    "if the server reports absent objects as forbidden, pass missing_status=(404, 403)";

/// Return whether the client does not trust the certificate of the server.
fn is_refused_certificate(error: &HttpError) -> bool {
    matches!(find::<rustls::Error>(error), Some(rustls::Error::InvalidCertificate(_)))
}

/// Return whether the server responded to the start of an encrypted connection with something else.
fn is_no_tls(error: &HttpError) -> bool {
    matches!(find::<rustls::Error>(error), Some(rustls::Error::InvalidMessage(_)))
}

/// Return the end of an object, if the server refused a range that begins there or later.
pub(super) fn end_of_object(error: &(dyn StdError + 'static)) -> Option<ObjectPart> {
    let Refusal { status, size: Some(size @ 1..), tag, .. } = find::<Refusal>(error)? else { return None };
    let is_strong = !tag.is_empty() && !tag.starts_with("W/");
    let end = ObjectPart { data: Vec::new(), first: *size, size: *size, tag: tag.clone(), is_strong };
    (status.as_u16() == 416).then_some(end)
}

/// Return whether the server reported that the object does not exist.
pub(super) fn is_absent(error: &(dyn StdError + 'static)) -> bool {
    find::<Refusal>(error).is_some_and(|refusal| refusal.status.as_u16() == 404)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderMap;
    use hyper::StatusCode;

    use super::*;

    fn attempt(kind: StoreKind, action: Action, forbidden_is_absent: bool) -> Attempt<'static> {
        Attempt { action, kind, url: "s3://b/x", bucket: "b", anonymous: None, forbidden_is_absent }
    }

    fn refusal(status: u16, code: &str) -> Refusal {
        let body = format!("<Error><Code>{code}</Code></Error>");
        Refusal::of(StatusCode::from_u16(status).unwrap_or_default(), &HeaderMap::new(), body.as_bytes())
    }

    #[test]
    fn forbidden_objects_are_absent_by_option() {
        let read = |option, code| attempt(StoreKind::S3, Action::Read, option).refused(&refusal(403, code));
        assert!(matches!(read(true, "AccessDenied"), Failure::Absent));
        assert!(matches!(read(false, "AccessDenied"), Failure::Other(_)));
        assert!(matches!(read(true, "SignatureDoesNotMatch"), Failure::Other(_)));
        let write = attempt(StoreKind::S3, Action::Write, true).refused(&refusal(403, "AccessDenied"));
        assert!(matches!(write, Failure::Other(_)));
    }

    #[test]
    fn refusals_may_be_retried() {
        let write =
            |status, code| attempt(StoreKind::S3, Action::Write, false).refused(&refusal(status, code));
        for (status, code) in [(503, "SlowDown"), (429, ""), (409, "OperationAborted")] {
            let failure = write(status, code);
            let is_transient = matches!(&failure, Failure::Other(error) if error.kind == Kind::Store {
                retryable: true,
                errno: None,
            });
            assert!(is_transient, "{status} {code}: {failure:?}");
        }
        assert!(matches!(write(200, "InternalError"), Failure::Unanswered(_)));
        assert!(matches!(write(400, "NotImplemented"), Failure::NotImplemented));
    }

    #[test]
    fn causes_enter_errors_of_the_system() {
        let inner = rustls::Error::General("inner".to_owned());
        let error = std::io::Error::other(std::io::Error::other(inner));
        assert!(find::<rustls::Error>(&error).is_some());
        assert!(root_cause(&error).contains("inner"));
    }
}
