//! Credentials that a callback of the user returns, and errors of all credentials.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use object_store::aws::AwsCredential;
use object_store::azure::AzureCredential;
use object_store::gcp::GcpCredential;
use object_store::CredentialProvider;
use tokio::sync::Mutex;

use super::failure::credentials_error;
use crate::error::Error;

/// New credentials are asked for this long before the old ones expire, or after half of their time.
const MARGIN: Duration = Duration::from_secs(300);

/// Credentials by the names of their parts, and when they expire.
pub struct Credentials {
    /// The parts, such as `access_key_id` or `token`.
    pub parts: HashMap<String, String>,
    /// When they expire, if they do.
    pub expires_at: Option<SystemTime>,
}

/// Returns credentials; it may block.
pub type GetCredentials = Arc<dyn Fn() -> crate::Result<Credentials> + Send + Sync>;

/// The credentials of a service.
pub(super) trait FromParts: Sized {
    /// Take the parts that the service needs; the error is the name of a missing one.
    fn from_parts(parts: &mut HashMap<String, String>) -> Result<Self, &'static str>;
}

impl FromParts for AwsCredential {
    fn from_parts(parts: &mut HashMap<String, String>) -> Result<Self, &'static str> {
        let mut take = |name| parts.remove(name).ok_or(name);
        Ok(AwsCredential {
            key_id: take("access_key_id")?,
            secret_key: take("secret_access_key")?,
            token: take("session_token").or_else(|_| take("token")).ok(), // obstore has the latter
        })
    }
}

impl FromParts for GcpCredential {
    fn from_parts(parts: &mut HashMap<String, String>) -> Result<Self, &'static str> {
        Ok(GcpCredential { bearer: parts.remove("token").ok_or("token")? })
    }
}

impl FromParts for AzureCredential {
    fn from_parts(parts: &mut HashMap<String, String>) -> Result<Self, &'static str> {
        Ok(AzureCredential::BearerToken(parts.remove("token").ok_or("token")?))
    }
}

/// Credentials and when they are asked for again.
type Cached<T> = Option<(Arc<T>, Option<SystemTime>)>;

/// Provides the credentials of a callback until shortly before they expire.
pub(super) struct CallbackProvider<T> {
    get: GetCredentials,
    cached: Mutex<Cached<T>>,
}

impl<T> CallbackProvider<T> {
    pub(super) fn new(get: GetCredentials) -> Self {
        CallbackProvider { get, cached: Mutex::new(None) }
    }
}

impl<T> fmt::Debug for CallbackProvider<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallbackProvider").finish_non_exhaustive()
    }
}

/// An error of the engine as one of `object_store`.
#[derive(Debug)]
pub(super) struct EngineError(pub(super) Error);

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for EngineError {}

/// Credentials of another provider. Its errors are no refusals of the bucket: a missing service with
/// credentials does not mean that an object does not exist.
#[derive(Debug)]
pub(super) struct CheckedProvider<T>(pub(super) Arc<dyn CredentialProvider<Credential = T>>);

#[async_trait]
impl<T: fmt::Debug + Send + Sync + 'static> CredentialProvider for CheckedProvider<T> {
    type Credential = T;

    async fn get_credential(&self) -> object_store::Result<Arc<T>> {
        self.0.get_credential().await.map_err(|error| failed(credentials_error(&error)))
    }
}

/// Return an error of the engine as one of `object_store`.
fn failed(error: Error) -> object_store::Error {
    object_store::Error::Generic { store: "credentials", source: Box::new(EngineError(error)) }
}

#[async_trait]
impl<T: FromParts + Send + Sync + 'static> CredentialProvider for CallbackProvider<T> {
    type Credential = T;

    async fn get_credential(&self) -> object_store::Result<Arc<T>> {
        let mut cached = self.cached.lock().await;
        if let Some((credential, until)) = cached.as_ref() {
            if until.is_none_or(|until| SystemTime::now() < until) {
                return Ok(credential.clone());
            }
        }
        let get = self.get.clone();
        let fetched = tokio::task::spawn_blocking(move || get()).await;
        let fetched = fetched.unwrap_or_else(|_| Err(Error::internal("the credentials raised a panic")));
        let (credential, until) = fetched.and_then(parse).map_err(failed)?;
        Ok(cached.insert((Arc::new(credential), until)).0.clone())
    }
}

fn parse<T: FromParts>(fetched: Credentials) -> crate::Result<(T, Option<SystemTime>)> {
    let Credentials { mut parts, expires_at } = fetched;
    let credential = T::from_parts(&mut parts).map_err(|name| {
        Error::argument(format!(
            "the credentials lack {name:?}: the function of the option credentials returns it"
        ))
    })?;
    let now = SystemTime::now();
    let until = expires_at.map(|end| {
        let rest = end.duration_since(now).unwrap_or_default();
        now + rest.saturating_sub(MARGIN.min(rest / 2))
    });
    Ok((credential, until))
}
