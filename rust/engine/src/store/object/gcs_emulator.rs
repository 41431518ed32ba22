//! Emulators of GCS, which have its JSON interface alone: `object_store` uses the XML interface.
//!
//! Requests become those of the JSON interface (cloud.google.com/storage/docs/json_api/v1), and its
//! responses those of the XML interface.

use async_trait::async_trait;
use http_body_util::BodyExt;
use hyper::header::{HeaderName, HeaderValue, ETAG};
use hyper::{Method, Uri};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService,
};
use object_store::ClientOptions;
use percent_encoding::{utf8_percent_encode, NON_ALPHANUMERIC};
use serde_json::Value;
use url::form_urlencoded;

use super::connector::Connector;
use super::list_response::without_invalid_keys;

const CONDITION: HeaderName = HeaderName::from_static("x-goog-if-generation-match");
const GENERATION: HeaderName = HeaderName::from_static("x-goog-generation");

/// Sends the requests of one bucket to an emulator.
#[derive(Clone, Debug)]
pub(super) struct GcsEmulator {
    connector: Connector,
    /// The path of the bucket in URLs.
    bucket: String,
}

impl GcsEmulator {
    pub(super) fn new(connector: Connector, bucket: &str) -> Self {
        // The encoding of `object_store`.
        GcsEmulator { connector, bucket: utf8_percent_encode(bucket, NON_ALPHANUMERIC).to_string() }
    }
}

impl HttpConnector for GcsEmulator {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        // The metadata service has other time limits.
        let client = self.connector.connect(options)?;
        Ok(HttpClient::new(EmulatorClient { client, bucket: self.bucket.clone() }))
    }
}

/// A client of an emulator, and of the services with credentials.
#[derive(Debug)]
struct EmulatorClient {
    client: HttpClient,
    bucket: String,
}

#[async_trait]
impl HttpService for EmulatorClient {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let path = request.uri().path().to_owned();
        let Some(object) = path.strip_prefix('/').and_then(|path| path.strip_prefix(&self.bucket)) else {
            return self.client.execute(request).await;
        };
        let (method, object) = (request.method().clone(), object.trim_start_matches('/'));
        match (method, object.is_empty()) {
            (Method::PUT, false) => {
                let condition = request.headers_mut().remove(CONDITION);
                let condition = condition.as_ref().and_then(|value| value.to_str().ok());
                let condition =
                    condition.map_or_else(String::new, |text| format!("&ifGenerationMatch={text}"));
                let bucket = &self.bucket;
                let target =
                    format!("/upload/storage/v1/b/{bucket}/o?uploadType=media&name={object}{condition}");
                *request.method_mut() = Method::POST;
                *request.uri_mut() = moved(request.uri(), &target)?;
                stored(self.client.execute(request).await?).await
            }
            (Method::GET, true) => {
                let query = json_query(request.uri().query().unwrap_or_default());
                let target = format!("/storage/v1/b/{}/o?{query}", self.bucket);
                *request.uri_mut() = moved(request.uri(), &target)?;
                listed(self.client.execute(request).await?).await
            }
            (method, false) => {
                let media = if method == Method::DELETE { "" } else { "?alt=media" };
                let target = format!("/storage/v1/b/{}/o/{object}{media}", self.bucket);
                *request.uri_mut() = moved(request.uri(), &target)?;
                self.client.execute(request).await
            }
            (_, true) => self.client.execute(request).await,
        }
    }
}

fn moved(from: &Uri, target: &str) -> Result<Uri, HttpError> {
    let mut parts = from.clone().into_parts();
    parts.path_and_query =
        Some(target.parse().map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?);
    Uri::from_parts(parts).map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))
}

/// Return the query of a listing, whose names differ between the interfaces.
fn json_query(query: &str) -> String {
    let pairs = form_urlencoded::parse(query.as_bytes()).filter_map(|(name, value)| {
        let name = match &*name {
            "list-type" => return None,
            "continuation-token" => "pageToken",
            "max-keys" => "maxResults",
            "start-after" => "startOffset",
            name => name,
        };
        Some(format!("{name}={}", utf8_percent_encode(&value, NON_ALPHANUMERIC)))
    });
    pairs.collect::<Vec<_>>().join("&")
}

async fn json(response: HttpResponse) -> Result<(hyper::http::response::Parts, Value), HttpError> {
    let (head, body) = response.into_parts();
    let bytes = body.collect().await?.to_bytes();
    let value =
        serde_json::from_slice(&bytes).map_err(|error| HttpError::new(HttpErrorKind::Decode, error))?;
    Ok((head, value))
}

/// Return the response to a stored object, with its generation in headers.
async fn stored(response: HttpResponse) -> Result<HttpResponse, HttpError> {
    let (mut head, value) = json(response).await?;
    for (header, member) in [(GENERATION, "generation"), (ETAG, "etag")] {
        let text = value.get(member).and_then(Value::as_str).unwrap_or_default();
        if let Ok(text) = HeaderValue::from_str(text) {
            head.headers.insert(header, text);
        }
    }
    Ok(HttpResponse::from_parts(head, HttpResponseBody::from(String::new())))
}

/// Return a listing as XML.
async fn listed(response: HttpResponse) -> Result<HttpResponse, HttpError> {
    let (head, value) = json(response).await?;
    let text =
        |value: &Value, member: &str| escaped(value.get(member).and_then(Value::as_str).unwrap_or_default());
    let mut xml = "<ListBucketResult>".to_owned();
    for item in value.get("items").and_then(Value::as_array).into_iter().flatten() {
        let [name, updated, size, etag] =
            ["name", "updated", "size", "etag"].map(|member| text(item, member));
        xml += &format!(
            "<Contents><Key>{name}</Key><LastModified>{updated}</LastModified><Size>{size}</Size>\
             <ETag>{etag}</ETag></Contents>"
        );
    }
    for prefix in value.get("prefixes").and_then(Value::as_array).into_iter().flatten() {
        let prefix = escaped(prefix.as_str().unwrap_or_default());
        xml += &format!("<CommonPrefixes><Prefix>{prefix}</Prefix></CommonPrefixes>");
    }
    let token = text(&value, "nextPageToken");
    if !token.is_empty() {
        xml += &format!("<NextContinuationToken>{token}</NextContinuationToken>");
    }
    xml += "</ListBucketResult>";
    let xml = without_invalid_keys(&xml).unwrap_or(xml);
    Ok(HttpResponse::from_parts(head, HttpResponseBody::from(xml)))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
