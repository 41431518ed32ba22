//! Files that are stored: one request each, which says what they have to be before.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Method, StatusCode, Uri};

use super::client::Client;
use super::{read_past, Outcome, Refusal, Web, REST_TIME};

/// So many bytes are sent in a second at least: many values may share a connection that is slow.
const SLOWEST: u64 = 16 << 10;

/// What a file has to be before it is stored.
#[derive(Debug, PartialEq, Eq)]
pub enum Before {
    /// Whatever it is.
    Anything,
    /// There is none.
    Absent,
    /// In the state with this tag.
    Tagged(Vec<u8>),
}

/// What became of a file that was to be stored.
#[derive(Debug, PartialEq, Eq)]
pub enum Stored {
    /// It is, and has this tag; an empty one where the server does not say.
    Done(String),
    /// It is not what was expected.
    Otherwise,
    /// The server does not do it.
    Refused(Refusal),
    /// Nobody knows: there was no answer.
    Lost,
    /// It is not, or may be stored once more.
    Unclear,
}

/// Bytes that others have, too.
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
    /// Store a file, if it is as expected. `told` is told by a thread on which answers wait, as by `get`.
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
        self.begin(client, url, || true, told, work); // what was begun is done
    }

    /// None: it is not stored, or may be stored once more.
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
        // What is more, or takes longer, closes the connection.
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
            _ => None, // it is to be stored elsewhere
        }
    }
}
