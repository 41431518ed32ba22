//! Uploads of objects: one conditional PUT request each.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Method, StatusCode, Uri};

use super::client::Client;
use super::{read_past, Outcome, Refusal, Web, REST_TIME};

/// The minimum upload rate in bytes per second: many uploads may share a slow connection.
const SLOWEST: u64 = 16 << 10;

/// The condition on the object under which an upload happens.
#[derive(Debug, PartialEq, Eq)]
pub enum Before {
    /// No condition.
    Anything,
    /// The object does not exist.
    Absent,
    /// The object has this tag.
    Tagged(Vec<u8>),
}

/// The result of an upload.
#[derive(Debug, PartialEq, Eq)]
pub enum Stored {
    /// The object is stored and has this tag; empty if the server does not send one.
    Done(String),
    /// The condition does not hold.
    Otherwise,
    /// The server refused the request.
    Refused(Refusal),
    /// The response was lost: the object may be stored.
    Lost,
    /// The object is not stored, or may be stored again.
    Unclear,
}

/// Bytes that are shared with the caller.
struct Owner(Arc<Vec<u8>>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Outcome for Stored {
    const LATE: Self = Stored::Lost;
    const UNCLEAR: Self = Stored::Unclear;

    fn is_done(&self) -> bool {
        matches!(self, Stored::Done(_))
    }
}

impl Web {
    /// Store an object, if the condition holds. `on_done` runs in a thread that serves responses,
    /// as for `get`.
    pub fn put(
        self: &Arc<Self>,
        url: &str,
        data: Arc<Vec<u8>>,
        before: Before,
        told: impl FnOnce(Stored) + Send + 'static,
    ) {
        let (Some(client), Ok(url)) = (Client::get(), url.parse::<Uri>()) else {
            self.note(false);
            return told(Stored::Unclear);
        };
        let (web, file, data) = (self.clone(), url.clone(), Bytes::from_owner(Owner(data)));
        let work = async move { web.stored(client, &file, data, before).await };
        self.begin(client, url, || true, told, work); // an upload cannot be cancelled
    }

    /// None: the object is not stored, or may be stored again.
    async fn stored(&self, client: &Client, url: &Uri, data: Bytes, before: Before) -> Option<Stored> {
        let is_any = before == Before::Anything;
        let condition = match &before {
            Before::Anything => None,
            Before::Absent => Some((header::IF_NONE_MATCH, HeaderValue::from_static("*"))),
            Before::Tagged(tag) => Some((header::IF_MATCH, HeaderValue::from_bytes(tag).ok()?)),
        };
        let taken = Duration::from_secs(data.len() as u64 / SLOWEST);
        let request = self.request(url, Method::PUT, data, condition)?;
        let sent = tokio::time::timeout(self.silence.saturating_add(taken), client.send(request, false));
        let Ok(answer) = sent.await else { return Some(Stored::Lost) };
        let (head, body) = match answer? {
            Ok(answer) => answer.into_parts(),
            Err(error) if is_any || error.is_connect() => return None,
            Err(_) => return Some(Stored::Lost),
        };
        self.cookies.keep(url.path(), &head.headers);
        // If more follows, or takes longer, the connection is closed.
        let words = tokio::time::timeout(REST_TIME, read_past(body)).await.unwrap_or_default();
        let is_conflict = || String::from_utf8_lossy(&words).contains("ConditionalRequestConflict");
        match head.status {
            StatusCode::OK | StatusCode::CREATED | StatusCode::NO_CONTENT => {
                let tag = self.names.as_ref().and_then(|name| head.headers.get(name));
                Some(Stored::Done(tag.and_then(|tag| tag.to_str().ok()).unwrap_or_default().to_owned()))
            }
            StatusCode::PRECONDITION_FAILED if !is_any => Some(Stored::Otherwise),
            StatusCode::CONFLICT if is_conflict() => Some(Stored::Otherwise),
            StatusCode::NOT_FOUND if matches!(before, Before::Tagged(_)) => Some(Stored::Otherwise),
            status if status.is_client_error() || status.is_server_error() => {
                Some(Stored::Refused(Refusal::of(&head)))
            }
            _ => None, // a redirect
        }
    }
}
