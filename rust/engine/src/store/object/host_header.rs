//! Requests whose header `Host` names another server than the endpoint, as those to a gateway.
//!
//! Signatures of S3 contain the header. `object_store` therefore has the named server as its endpoint,
//! and this module sends the requests to the real one.

use async_trait::async_trait;
use hyper::header::{HeaderValue, HOST};
use hyper::http::uri::{Authority, Scheme};
use hyper::Uri;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::ClientOptions;

use super::connector::Connector;
use crate::error::{Error, Result};

/// Sends the requests for one server to another one.
#[derive(Clone, Debug)]
pub(super) struct Gateway {
    connector: Connector,
    named: Authority,
    scheme: Scheme,
    real: Authority,
}

impl Gateway {
    /// Return the gateway at an endpoint, and the endpoint with the server of the header.
    ///
    /// # Errors
    /// The endpoint or the header is malformed.
    pub(super) fn new(connector: Connector, endpoint: &str, header: &HeaderValue) -> Result<(Self, String)> {
        let invalid =
            || Error::argument(format!("the endpoint {endpoint:?} cannot have the header Host {header:?}"));
        let parts = endpoint.parse::<Uri>().map_err(|_| invalid())?.into_parts();
        let (Some(scheme), Some(real)) = (parts.scheme, parts.authority) else { return Err(invalid()) };
        let named = Authority::try_from(header.as_bytes()).map_err(|_| invalid())?;
        let path = parts
            .path_and_query
            .map_or_else(String::new, |path| path.path().trim_end_matches('/').to_owned());
        let renamed = format!("{scheme}://{named}{path}");
        Ok((Gateway { connector, named, scheme, real }, renamed))
    }
}

impl HttpConnector for Gateway {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = self.connector.connect(options)?;
        Ok(HttpClient::new(GatewayClient { client, gateway: self.clone() }))
    }
}

/// A client of a gateway, and of the services with credentials.
#[derive(Debug)]
struct GatewayClient {
    client: HttpClient,
    gateway: Gateway,
}

#[async_trait]
impl HttpService for GatewayClient {
    async fn call(&self, mut request: HttpRequest) -> std::result::Result<HttpResponse, HttpError> {
        let Gateway { named, scheme, real, .. } = &self.gateway;
        if request.uri().authority() == Some(named) {
            let mut parts = request.uri().clone().into_parts();
            (parts.scheme, parts.authority) = (Some(scheme.clone()), Some(real.clone()));
            *request.uri_mut() = Uri::from_parts(parts).map_err(invalid)?;
            let host = HeaderValue::from_str(named.as_str()).map_err(invalid)?;
            request.headers_mut().insert(HOST, host);
        }
        self.client.execute(request).await
    }
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, error)
}
