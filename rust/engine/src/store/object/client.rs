//! Clients of `object_store` for S3, GCS and Azure, built from options.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use object_store::aws::{AmazonS3Builder, AwsCredential};
use object_store::azure::{AzureCredential, MicrosoftAzureBuilder};
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder};
use object_store::{ClientOptions, CredentialProvider, ObjectStore, RetryConfig, StaticCredentialProvider};

use super::connector::Connector;
use super::credentials::{CallbackProvider, CheckedProvider, GetCredentials};
use super::gcs_emulator::GcsEmulator;
use super::host_header::Gateway;
use crate::error::{Error, Result};

/// How long a store stays anonymous before a refused request searches for credentials again.
const SEARCH_INTERVAL: Duration = Duration::from_secs(if cfg!(test) { 0 } else { 60 });

/// The service of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Amazon S3, and servers with its interface.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azure,
    /// A web server.
    Http,
}

/// What a client of a bucket needs to know.
pub struct BucketSettings {
    /// The service.
    pub kind: Kind,
    /// The bucket, or the container.
    pub bucket: String,
    /// Options by the names of `object_store`.
    pub options: Vec<(String, String)>,
    /// Headers of each request.
    pub headers: HeaderMap,
    /// The header `Host` of requests to S3, if it differs from the endpoint.
    pub host: Option<HeaderValue>,
    /// Returns credentials; None: `object_store` finds them.
    pub credentials: Option<GetCredentials>,
    /// Whether requests have no credentials if none are found.
    pub may_be_anonymous: bool,
}

impl fmt::Debug for BucketSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Options and headers contain secrets.
        f.debug_struct("BucketSettings").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

/// A client, and why its requests have no credentials.
pub(super) struct Client {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) anonymous: Option<Anonymous>,
}

/// Why requests have no credentials.
pub(super) enum Anonymous {
    /// The options say so, or the environment excludes all sources.
    Chosen,
    /// None were found at this time, for this reason.
    NotFound(Instant, String),
}

impl Client {
    /// Return whether credentials may be found by now: their service may have started since.
    pub(super) fn may_find_credentials(&self) -> bool {
        matches!(&self.anonymous, Some(Anonymous::NotFound(time, _)) if time.elapsed() >= SEARCH_INTERVAL)
    }
}

impl fmt::Display for Anonymous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Anonymous::Chosen => f.write_str("as the options or the environment say"),
            Anonymous::NotFound(_, why) => write!(f, "none were found: {why}"),
        }
    }
}

/// A client, and its credentials.
type Built = (Arc<dyn ObjectStore>, Box<dyn FindCredentials>);

/// The credentials that a client finds.
#[async_trait::async_trait]
trait FindCredentials: Send + Sync {
    async fn find(&self) -> object_store::Result<()>;
}

#[async_trait::async_trait]
impl<T: Send + Sync> FindCredentials for Arc<dyn CredentialProvider<Credential = T>> {
    async fn find(&self) -> object_store::Result<()> {
        self.get_credential().await.map(drop)
    }
}

/// Return a builder with the options that all services have, which is of another type for each.
macro_rules! builder {
    ($type:ty, $settings:expr, $connector:expr) => {{
        let options = ClientOptions::new().with_allow_http(true).with_connect_timeout_disabled();
        let mut builder = <$type>::new()
            .with_retry(no_retries())
            // The connector has all limits. S3 signs the headers.
            .with_client_options(options.with_default_headers($settings.headers.clone()))
            .with_http_connector($connector.clone());
        for (name, value) in &$settings.options {
            builder = builder.with_config(parse(name)?, value);
        }
        builder
    }};
}

/// Return the client of a builder, and its credentials.
macro_rules! built {
    ($settings:expr, $builder:expr) => {{
        let invalid = |error| $settings.invalid(&error);
        let credentials = checked($builder.clone().build().map_err(invalid)?.credentials().clone());
        let store = $builder.with_credentials(credentials.clone()).build().map_err(invalid)?;
        Ok((Arc::new(store), Box::new(credentials)))
    }};
}

impl BucketSettings {
    /// Return the client of the bucket in a region, which the options may leave open. A store that had
    /// credentials does not become anonymous when their service fails.
    pub(super) async fn connect(
        &self,
        connector: &Connector,
        region: Option<&str>,
        had_credentials: bool,
    ) -> Result<Client> {
        if self.skips_signatures() {
            let (store, _) = self.build(connector, region, true)?;
            return Ok(Client { store, anonymous: Some(Anonymous::Chosen) });
        }
        let (store, credentials) = self.build(connector, region, false)?;
        if !self.may_be_anonymous || had_credentials || self.credentials.is_some() {
            return Ok(Client { store, anonymous: None });
        }
        match credentials.find().await {
            Ok(()) => Ok(Client { store, anonymous: None }),
            Err(error) => {
                let (store, _) = self.build(connector, region, true)?;
                let why = super::failure::root_cause(&error);
                Ok(Client { store, anonymous: Some(Anonymous::NotFound(Instant::now(), why)) })
            }
        }
    }

    /// Check the options.
    pub(super) fn check(&self, connector: &Connector) -> Result<()> {
        self.build(connector, None, self.skips_signatures()).map(drop)
    }

    /// Return whether the options exclude credentials.
    fn skips_signatures(&self) -> bool {
        let skips = |(name, value): &(String, String)| {
            name.ends_with("skip_signature") && value.eq_ignore_ascii_case("true")
        };
        self.options.iter().any(skips)
    }

    fn build(&self, connector: &Connector, region: Option<&str>, anonymous: bool) -> Result<Built> {
        match self.kind {
            Kind::S3 => self.build_s3(connector, region, anonymous),
            Kind::Gcs => self.build_gcs(connector, anonymous),
            Kind::Azure => self.build_azure(connector, anonymous),
            Kind::Http => Err(Error::internal("a web server has no bucket")),
        }
    }

    fn build_s3(&self, connector: &Connector, region: Option<&str>, anonymous: bool) -> Result<Built> {
        let mut builder = builder!(AmazonS3Builder, self, connector)
            .with_bucket_name(&self.bucket)
            .with_skip_signature(anonymous);
        if let Some(region) = region {
            builder = builder.with_region(region);
        }
        if let Some(host) = &self.host {
            let endpoint = builder.get_config_value(&parse("aws_endpoint")?).unwrap_or_default();
            let (gateway, endpoint) = Gateway::new(connector.clone(), &endpoint, host)?;
            builder = builder.with_endpoint(endpoint).with_http_connector(gateway);
        }
        if let Some(get) = &self.credentials {
            builder = builder.with_credentials(Arc::new(CallbackProvider::<AwsCredential>::new(get.clone())));
        }
        built!(self, builder)
    }

    fn build_gcs(&self, connector: &Connector, anonymous: bool) -> Result<Built> {
        let mut builder = builder!(GoogleCloudStorageBuilder, self, connector)
            .with_bucket_name(&self.bucket)
            .with_skip_signature(anonymous);
        if self.is_gcs_emulator() {
            builder = builder.with_http_connector(GcsEmulator::new(connector.clone(), &self.bucket));
        }
        if let Some(get) = &self.credentials {
            builder = builder.with_credentials(Arc::new(CallbackProvider::<GcpCredential>::new(get.clone())));
        }
        if anonymous {
            // Writes ask for a token even so.
            let none = GcpCredential { bearer: String::new() };
            builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(none)));
        }
        built!(self, builder)
    }

    fn build_azure(&self, connector: &Connector, anonymous: bool) -> Result<Built> {
        let mut builder = builder!(MicrosoftAzureBuilder, self, connector)
            .with_container_name(&self.bucket)
            .with_skip_signature(anonymous);
        if let Some(get) = &self.credentials {
            let provider = CallbackProvider::<AzureCredential>::new(get.clone());
            builder = builder.with_credentials(Arc::new(provider));
        }
        built!(self, builder)
    }

    /// Return whether GCS is at another address than Google's.
    pub(super) fn is_gcs_emulator(&self) -> bool {
        let is_url = |name: &str| matches!(name, "google_base_url" | "base_url");
        let url = self.options.iter().rev().find(|(name, _)| is_url(name));
        self.kind == Kind::Gcs && url.is_some_and(|(_, url)| !url.contains(".googleapis.com"))
    }

    /// Return the error of options that `object_store` refuses.
    fn invalid(&self, error: &object_store::Error) -> Error {
        let BucketSettings { kind, bucket, .. } = self;
        Error::argument(format!(
            "the options or credentials of {kind} bucket {bucket:?} are invalid: {error}"
        ))
    }
}

/// Return a provider whose errors are no refusals of the bucket.
fn checked<T: fmt::Debug + Send + Sync + 'static>(
    found: Arc<dyn CredentialProvider<Credential = T>>,
) -> Arc<dyn CredentialProvider<Credential = T>> {
    Arc::new(CheckedProvider(found))
}

fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, retry_timeout: Duration::from_secs(3600), ..RetryConfig::default() }
}

fn parse<K: FromStr<Err = object_store::Error>>(name: &str) -> Result<K> {
    name.parse().map_err(|_| Error::argument(format!("{name:?} is not the name of an option")))
}

/// Return headers from names and values; an error for an invalid one.
pub(super) fn headers(pairs: &[(String, String)]) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let invalid = |_| Error::argument(format!("{name:?} is not the name of a header"));
        let parsed: HeaderName = name.parse().map_err(invalid)?;
        let invalid = |_| Error::argument(format!("the value of the header {name:?} has invalid characters"));
        headers.append(parsed, HeaderValue::from_str(value).map_err(invalid)?);
    }
    Ok(headers)
}
