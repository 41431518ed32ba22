//! Sends the requests of object stores: `object_store` signs them, this module transports them.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::response::Parts;
use hyper::{Method, Response, StatusCode};
use object_store::client::{
    ClientConfigKey, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use object_store::ClientOptions;
use tokio::time::{Instant, Sleep};

use super::dial::ConnectionSettings;
use super::list_response::without_invalid_keys;
use super::response::{read_error_body, refused_size};
use super::transport::{Permit, Senders, Transport};
use super::upload::Progress;
use crate::store::fork::PerProcess;

/// How long a refused request waits for the rest of the error response.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// The limits of connecting to a service with credentials, and of the wait for its response.
const METADATA_TIMEOUTS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// Sends requests with the time limits and headers of one store.
#[derive(Clone)]
pub(super) struct Connector(Arc<Shared>);

struct Shared {
    settings: ConnectionSettings,
    /// Headers of each request, unless it has them.
    headers: HeaderMap,
    /// The limit of the wait for a response, and between two packets of it.
    timeout: Duration,
    /// Whether the requests go to a service with credentials, which need not exist.
    is_metadata: bool,
    senders: PerProcess<OnceLock<Arc<Senders>>>,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}

/// A request that the server refused.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    /// The code in the body, such as "NoSuchBucket"; "" if there is none.
    pub(super) code: String,
    /// The message in the body, or the reason phrase.
    pub(super) message: String,
    /// The region of the bucket, if the response names it.
    pub(super) region: Option<String>,
    /// The size of the object, if the response to a range beyond its end has it.
    pub(super) size: Option<u64>,
    /// The tag of the object; "" if the response has none.
    pub(super) tag: String,
}

impl Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status.as_u16())?;
        for text in [&self.code, &self.message] {
            if !text.is_empty() {
                write!(f, " {text}")?;
            }
        }
        Ok(())
    }
}

impl Refusal {
    /// Read the error in a response.
    pub(super) async fn read(head: &Parts, body: TimedBody) -> Self {
        let read = tokio::time::timeout(ERROR_BODY_TIMEOUT, read_error_body(body));
        Refusal::of(head.status, &head.headers, &read.await.unwrap_or_default())
    }

    pub(super) fn of(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let body = String::from_utf8_lossy(body);
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let code = element(&body, "Code").or_else(|| header("x-ms-error-code")).unwrap_or_default();
        let message = element(&body, "Message").or_else(|| json_message(&body));
        let reason = || status.canonical_reason().unwrap_or_default().to_owned();
        Refusal {
            status,
            code,
            message: message.unwrap_or_else(reason).split_whitespace().collect::<Vec<_>>().join(" "),
            region: header("x-amz-bucket-region").or_else(|| element(&body, "Region")),
            size: refused_size(headers, &body),
            tag: header("etag").unwrap_or_default(),
        }
    }
}

/// Return the text of the first XML element with this name.
pub(super) fn element(body: &str, name: &str) -> Option<String> {
    let (_, rest) = body.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    Some(text.to_owned())
}

/// Return the first string member `message` of a JSON document.
fn json_message(body: &str) -> Option<String> {
    let (_, rest) = body.split_once("\"message\":")?;
    let (text, _) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
    Some(text.to_owned())
}

impl Connector {
    pub(super) fn new(settings: ConnectionSettings, headers: HeaderMap, timeout: Duration) -> Self {
        Connector(Arc::new(Shared {
            settings,
            headers,
            timeout,
            is_metadata: false,
            senders: PerProcess::new(),
        }))
    }

    /// Return the connector of a service with credentials.
    fn metadata(&self) -> Self {
        let [connect_timeout, timeout] = METADATA_TIMEOUTS.map(|limit| limit.min(self.0.timeout));
        let settings = ConnectionSettings { connect_timeout, ..self.0.settings.clone() };
        let (headers, senders) = (HeaderMap::new(), PerProcess::new());
        Connector(Arc::new(Shared { settings, headers, timeout, is_metadata: true, senders }))
    }

    /// Send a request. Idle connections may be closed at any time: a request that changes nothing is
    /// sent again by a new one.
    pub(super) async fn send(&self, request: HttpRequest) -> Result<Response<TimedBody>, HttpError> {
        let transport = Transport::get().ok_or_else(|| unusable("no thread can be created"))?;
        if !self.0.is_metadata {
            return self.send_by(transport, request).await;
        }
        let server = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        if !transport.may_exist(&server) {
            return Err(HttpError::new(
                HttpErrorKind::Connect,
                std::io::Error::other("no service with credentials responds"),
            ));
        }
        let response = self.send_by(transport, request).await;
        let is_found =
            |error: &HttpError| !matches!(error.kind(), HttpErrorKind::Connect | HttpErrorKind::Timeout);
        transport.record(server, response.as_ref().err().is_none_or(is_found));
        response
    }

    async fn send_by(
        &self,
        transport: &Transport,
        request: HttpRequest,
    ) -> Result<Response<TimedBody>, HttpError> {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let again = is_read.then(|| request.clone());
        let permit = transport.acquire(request.uri()).await;
        let permit = permit.ok_or_else(|| unusable("the process ends"))?;
        let outcome = match (self.attempt(transport, request, false).await, again) {
            (Err(error), Some(again)) if error.kind() == HttpErrorKind::Request => {
                self.attempt(transport, again, true).await
            }
            (Ok(response), Some(again)) if response.status() == StatusCode::REQUEST_TIMEOUT => {
                self.attempt(transport, again, true).await
            }
            (outcome, _) => outcome,
        };
        let timeout = self.0.timeout;
        Ok(outcome?.map(|body| TimedBody { body, timeout, sleep: None, _permit: permit }))
    }

    async fn attempt(
        &self,
        transport: &Transport,
        request: HttpRequest,
        new_connection: bool,
    ) -> Result<Response<Incoming>, HttpError> {
        let senders = self.0.senders.get().get_or_init(|| transport.senders(&self.0.settings));
        let progress = Progress::new();
        let sent = self.within_timeout(&progress, senders.send(request, &progress, new_connection));
        match sent.await {
            Err(error) => Err(error),
            Ok(None) => {
                Err(unusable("the certificates of the system, or those of the options, cannot be read"))
            }
            Ok(Some(Err(error))) => Err(HttpError::new(kind_of(&error), error)),
            Ok(Some(Ok(response))) => Ok(response),
        }
    }

    /// Wait for a response as long as the upload progresses, and then for the timeout.
    async fn within_timeout<T>(
        &self,
        progress: &Progress,
        sent: impl Future<Output = T>,
    ) -> Result<T, HttpError> {
        let mut sent = std::pin::pin!(sent);
        loop {
            let Some(end) = progress.last().checked_add(self.0.timeout) else { return Ok(sent.await) };
            match tokio::time::timeout_at(end, sent.as_mut()).await {
                Ok(response) => return Ok(response),
                Err(_) if progress.last() + self.0.timeout > Instant::now() => {}
                Err(_) => return Err(timed_out(self.0.timeout)),
            }
        }
    }
}

fn unusable(why: &str) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, std::io::Error::other(why.to_owned()))
}

fn timed_out(limit: Duration) -> HttpError {
    let message = format!("the server did not answer within {} s", limit.as_secs_f32());
    HttpError::new(HttpErrorKind::Timeout, std::io::Error::new(std::io::ErrorKind::TimedOut, message))
}

/// Return the kind of an error: whether the connection was closed before a response arrived, as idle
/// connections often are, or could not be opened.
fn kind_of(error: &hyper_util::client::legacy::Error) -> HttpErrorKind {
    if error.is_connect() {
        return HttpErrorKind::Connect;
    }
    let cause = error.source().and_then(|cause| cause.downcast_ref::<hyper::Error>());
    match cause.is_some_and(|cause| !cause.is_parse() && !cause.is_user()) {
        true => HttpErrorKind::Request,
        false => HttpErrorKind::Decode,
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        // Buckets have the limit of this connector. Only services with credentials, which need not
        // exist, have their own.
        if options.get_config_value(&ClientConfigKey::ConnectTimeout).is_none() {
            return Ok(HttpClient::new(self.clone()));
        }
        Ok(HttpClient::new(self.metadata()))
    }
}

#[async_trait]
impl HttpService for Connector {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        remove_empty_token(request.headers_mut());
        let is_signed = is_signed(request.headers());
        for (name, value) in &self.0.headers {
            if is_signed && name.as_str().starts_with("x-amz-") {
                continue; // S3 refuses those that its signature does not contain
            }
            request.headers_mut().entry(name).or_insert_with(|| value.clone());
        }
        let is_list = is_list(&request);
        let is_post = *request.method() == Method::POST;
        let has_range = request.headers().contains_key(header::RANGE);
        let (mut head, body) = self.send(request).await?.into_parts();
        if has_range && head.status.is_success() && body.size_hint().exact() == Some(0) {
            // An empty object has no ranges; not all servers say so.
            head.status = StatusCode::RANGE_NOT_SATISFIABLE;
        }
        if head.status.is_success() || head.status == StatusCode::NOT_MODIFIED {
            if !is_list && !is_post {
                return Ok(HttpResponse::from_parts(head, HttpResponseBody::new(body)));
            }
            let body = body.collect().await?.to_bytes();
            let text = String::from_utf8_lossy(&body);
            if is_post && is_error(&text) {
                return Err(HttpError::new(
                    HttpErrorKind::Unknown,
                    Refusal::of(head.status, &head.headers, &body),
                ));
            }
            let body = if is_list { without_invalid_keys(&text).map_or(body, Bytes::from) } else { body };
            return Ok(HttpResponse::from_parts(head, body.into()));
        }
        Err(HttpError::new(HttpErrorKind::Unknown, Refusal::read(&head, body).await))
    }
}

/// Return whether a request lists objects of S3, GCS or Azure.
fn is_list(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    *request.method() == Method::GET
        && query.split('&').any(|pair| matches!(pair, "list-type=2" | "comp=list"))
}

/// Return whether a response is an error despite its status: S3 sends the status of some requests
/// before it has finished them.
fn is_error(body: &str) -> bool {
    let is_code = |code: &str| element(body, "Code").is_some_and(|found| found == code);
    let declared = body.strip_prefix("<?xml").and_then(|rest| rest.split_once("?>"));
    let start = declared.map_or(body, |(_, rest)| rest.trim_start());
    start.starts_with("<Error") || is_code("InternalError") || is_code("SlowDown")
}

/// Return whether a request has a signature of AWS, which contains the headers that S3 knows.
fn is_signed(headers: &HeaderMap) -> bool {
    headers.get(header::AUTHORIZATION).is_some_and(|value| value.as_bytes().starts_with(b"AWS4-"))
}

/// Remove the header that requests without credentials have.
fn remove_empty_token(headers: &mut HeaderMap<HeaderValue>) {
    let is_empty = |value: &HeaderValue| value.as_bytes().trim_ascii() == b"Bearer";
    if headers.get(header::AUTHORIZATION).is_some_and(is_empty) {
        headers.remove(header::AUTHORIZATION);
    }
}

/// An empty body.
pub(super) fn no_body() -> HttpRequestBody {
    HttpRequestBody::empty()
}

/// The body of a response, with a limit of the time between two packets.
#[derive(Debug)]
pub(super) struct TimedBody {
    body: Incoming,
    timeout: Duration,
    /// Runs while the next packet has not arrived.
    sleep: Option<Pin<Box<Sleep>>>,
    _permit: Permit,
}

impl Body for TimedBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            this.sleep = None;
            let failed = |error| HttpError::new(HttpErrorKind::Interrupted, error);
            return Poll::Ready(frame.map(|frame| frame.map_err(failed)));
        }
        let timeout = this.timeout;
        let sleep = this.sleep.get_or_insert_with(|| {
            let end = Instant::now().checked_add(timeout);
            Box::pin(end.map_or_else(|| tokio::time::sleep(timeout), tokio::time::sleep_until))
        });
        sleep.as_mut().poll(context).map(|()| Some(Err(timed_out(timeout))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Return the error of a body that ended too early.
pub(super) fn incomplete(got: u64, size: u64) -> HttpError {
    let message = format!("the response has {got} of {size} bytes");
    HttpError::new(
        HttpErrorKind::Interrupted,
        std::io::Error::new(std::io::ErrorKind::UnexpectedEof, message),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_despite_their_status_are_recognized() {
        let error = |code: &str| format!("<Error><Code>{code}</Code></Error>");
        assert!(is_error(&format!("<?xml version=\"1.0\"?>\n{}", error("InvalidPart"))));
        assert!(is_error(&format!("<DeleteResult>{}</DeleteResult>", error("SlowDown"))));
        assert!(!is_error(&format!("<DeleteResult>{}</DeleteResult>", error("AccessDenied"))));
        assert!(!is_error("<DeleteResult></DeleteResult>"));
        // One of the responses in a batch of Azure.
        assert!(!is_error(&format!("--batch\r\n<?xml version=\"1.0\"?>{}", error("BlobNotFound"))));
    }

    #[test]
    fn messages_of_refusals_are_one_line() {
        let body = b"<Error><Code>NoSuchBucket</Code><Message>No\nbucket</Message><Region>r</Region></Error>";
        let refusal = Refusal::of(StatusCode::NOT_FOUND, &HeaderMap::new(), body);
        assert_eq!(
            (refusal.to_string().as_str(), refusal.region.as_deref()),
            ("404 NoSuchBucket No bucket", Some("r"))
        );
        let json = Refusal::of(StatusCode::FORBIDDEN, &HeaderMap::new(), b"{\"message\": \"no\"}");
        assert_eq!(json.to_string(), "403 no");
    }
}
