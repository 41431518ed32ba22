//! Uploads of objects: one conditional PUT request each.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Method, StatusCode, Uri};

use super::transport::Transport;
use super::{read_error_body, HttpClient, HttpError, RequestOutcome, ERROR_BODY_TIMEOUT};

/// The minimum upload rate in bytes per second: many uploads may share a slow connection.
const MIN_BYTES_PER_SECOND: u64 = 16 << 10;

/// The condition on the object under which an upload happens.
#[derive(Debug, PartialEq, Eq)]
pub enum PutPrecondition {
    /// No condition.
    Anything,
    /// The object does not exist.
    Absent,
    /// The object has this tag.
    HasTag(Vec<u8>),
}

/// The result of an upload.
#[derive(Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// The object is stored and has this tag; empty if the server does not send one.
    Done(String),
    /// The condition does not hold.
    PreconditionFailed,
    /// The server rejected the request.
    Refused(HttpError),
    /// The response was lost: the object may be stored.
    Lost,
    /// The object is not stored, or may be stored again.
    Unusable,
}

/// Bytes that are shared with the caller.
struct SharedBytes(Arc<Vec<u8>>);

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl RequestOutcome for PutOutcome {
    const TIMED_OUT: Self = PutOutcome::Lost;
    const UNUSABLE: Self = PutOutcome::Unusable;

    fn is_success(&self) -> bool {
        matches!(self, PutOutcome::Done(_))
    }
}

impl HttpClient {
    /// Store an object, if the condition holds. `on_done` runs in a thread that serves responses,
    /// as for `get`.
    pub fn put(
        self: &Arc<Self>,
        url: &str,
        data: Arc<Vec<u8>>,
        precondition: PutPrecondition,
        on_done: impl FnOnce(PutOutcome) + Send + 'static,
    ) {
        let (Some(transport), Ok(url)) = (Transport::get(), url.parse::<Uri>()) else {
            self.record(false);
            return on_done(PutOutcome::Unusable);
        };
        let (http, target, data) = (self.clone(), url.clone(), Bytes::from_owner(SharedBytes(data)));
        let work = async move { http.send_put(transport, &target, data, precondition).await };
        self.start(transport, url, || true, on_done, work); // an upload cannot be cancelled
    }

    /// None: the object is not stored, or may be stored again.
    async fn send_put(
        &self,
        transport: &Transport,
        url: &Uri,
        data: Bytes,
        precondition: PutPrecondition,
    ) -> Option<PutOutcome> {
        let is_any = precondition == PutPrecondition::Anything;
        let condition = match &precondition {
            PutPrecondition::Anything => None,
            PutPrecondition::Absent => Some((header::IF_NONE_MATCH, HeaderValue::from_static("*"))),
            PutPrecondition::HasTag(tag) => Some((header::IF_MATCH, HeaderValue::from_bytes(tag).ok()?)),
        };
        let upload_time = Duration::from_secs(data.len() as u64 / MIN_BYTES_PER_SECOND);
        let request = self.request(url, Method::PUT, data, condition)?;
        let sent = tokio::time::timeout(
            self.idle_timeout.saturating_add(upload_time),
            transport.send(request, false),
        );
        let Ok(response) = sent.await else { return Some(PutOutcome::Lost) };
        let (head, body) = match response? {
            Ok(response) => response.into_parts(),
            Err(error) if is_any || error.is_connect() => return None,
            Err(_) => return Some(PutOutcome::Lost),
        };
        self.cookies.store(url.path(), &head.headers);
        // If more follows, or takes longer, the connection is closed.
        let error_body =
            tokio::time::timeout(ERROR_BODY_TIMEOUT, read_error_body(body)).await.unwrap_or_default();
        let is_conflict = || String::from_utf8_lossy(&error_body).contains("ConditionalRequestConflict");
        match head.status {
            StatusCode::OK | StatusCode::CREATED | StatusCode::NO_CONTENT => {
                let tag = self.generation_header.as_ref().and_then(|name| head.headers.get(name));
                Some(PutOutcome::Done(tag.and_then(|tag| tag.to_str().ok()).unwrap_or_default().to_owned()))
            }
            StatusCode::PRECONDITION_FAILED if !is_any => Some(PutOutcome::PreconditionFailed),
            StatusCode::CONFLICT if is_conflict() => Some(PutOutcome::PreconditionFailed),
            StatusCode::NOT_FOUND if matches!(precondition, PutPrecondition::HasTag(_)) => {
                Some(PutOutcome::PreconditionFailed)
            }
            status if status.is_client_error() || status.is_server_error() => {
                Some(PutOutcome::Refused(HttpError::of(&head)))
            }
            _ => None, // a redirect
        }
    }
}
