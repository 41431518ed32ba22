//! `ObjectStore`: values in S3, GCS, Azure, or on a web server.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping};
use tessarr_engine::store as engine;
use tessarr_engine::store::{
    BucketSettings, ConnectionSettings, Credentials, GetCredentials, ObjectKind, ObjectSettings, RetryPolicy,
    Transience,
};
use tessarr_engine::Error;

use super::wrappers::duration;
use super::{initializer, Store};
use crate::runtime::error::{argument, foreign, to_py};
use crate::runtime::gil_value::GilValue;

/// The delay before the first retry, and the longest one.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];

/// No retry starts later than this: a server that never answers takes a few times the timeout.
const MAX_ELAPSED: Duration = Duration::from_secs(180);

/// A store in S3, GCS, Azure, or on a web server.
#[pyclass(extends = Store, subclass, frozen, module = "tessarr._engine")]
pub(crate) struct ObjectStore;

#[pymethods]
impl ObjectStore {
    /// Create the store of the objects below `prefix` of a bucket (for "http": of a server, whose
    /// URL is `bucket`). `url` is for errors. `options` have the names of the crate object_store;
    /// `connection` is a dictionary of the names in `CONNECTION`.
    #[new]
    #[pyo3(signature = (
        kind, url, bucket, prefix, options, *, headers, connection, credentials = None, read_only = false,
        concurrency = 64, retries = 10, timeout_s = 60.0, conditional_writes = true, may_be_anonymous = true,
        forbidden_is_absent = false
    ))]
    #[allow(clippy::too_many_arguments)] // Python's keywords
    fn new(
        py: Python<'_>,
        kind: &str,
        url: &str,
        bucket: String,
        prefix: &str,
        options: Vec<(String, String)>,
        headers: Vec<(String, String)>,
        connection: &Bound<'_, PyDict>,
        credentials: Option<Py<PyAny>>,
        read_only: bool,
        concurrency: usize,
        retries: u64,
        timeout_s: f64,
        conditional_writes: bool,
        may_be_anonymous: bool,
        forbidden_is_absent: bool,
    ) -> PyResult<PyClassInitializer<Self>> {
        let kind = match kind {
            "s3" => ObjectKind::S3,
            "gcs" => ObjectKind::Gcs,
            "azure" => ObjectKind::Azure,
            "http" => ObjectKind::Http,
            _ => return Err(argument(py, format!("there are no stores of the kind {kind:?}"))),
        };
        let credentials = credentials.map(get_credentials);
        let bucket = BucketSettings {
            kind,
            bucket,
            options,
            headers: Default::default(),
            host: None,
            credentials,
            may_be_anonymous,
        };
        let settings = ObjectSettings {
            connection: connection_settings(connection)?,
            timeout: duration(py, "timeout_s", timeout_s)?,
            concurrency,
            conditional_writes,
            forbidden_is_absent,
        };
        let objects = engine::Objects::new(bucket, url, prefix, &headers, settings);
        let objects = objects.map_err(|error| to_py(py, error))?;
        let identity = objects.number() as usize;
        let store = engine::ForeignStore::new(objects, read_only || kind == ObjectKind::Http, identity);
        let [initial_delay, max_delay] = RETRY_DELAYS;
        let policy = RetryPolicy { max_retries: retries, initial_delay, max_delay, max_elapsed: MAX_ELAPSED };
        let never = |error: Error| (error, Transience::Permanent);
        let store = Arc::new(engine::RetryingStore::new(Arc::new(store), policy, never));
        Ok(initializer(ObjectStore, store))
    }
}

/// Return how connections are opened.
fn connection_settings(given: &Bound<'_, PyDict>) -> PyResult<ConnectionSettings> {
    let py = given.py();
    let mut settings = ConnectionSettings::default();
    for (name, value) in given {
        match name.extract::<&str>()? {
            "connect_timeout_s" => {
                settings.connect_timeout = duration(py, "connect_timeout_s", value.extract()?)?;
            }
            "ca_certificates" => settings.ca_certificates = value.extract()?,
            "verify" => settings.verify = value.extract()?,
            "proxy" => settings.proxy = value.extract()?,
            other => return Err(argument(py, format!("connections have no setting {other:?}"))),
        }
    }
    Ok(settings)
}

/// Return the function that calls Python for credentials.
fn get_credentials(callback: Py<PyAny>) -> GetCredentials {
    let callback = GilValue::new(callback);
    Arc::new(move || {
        let credentials = crate::runtime::atexit::attached(|py| {
            let callback = callback.get().ok_or_else(|| argument(py, "the function was let go".to_owned()));
            callback
                .and_then(|callback| parse(callback.bind(py).call0()?.cast()?))
                .map_err(|raised| foreign(py, raised))
        });
        credentials.unwrap_or_else(|| Err(Error::internal("credentials were needed while Python shuts down")))
    })
}

/// Return the parts of credentials, and when they expire.
fn parse(found: &Bound<'_, PyMapping>) -> PyResult<Credentials> {
    let mut credentials = Credentials { parts: HashMap::new(), expires_at: None };
    for item in found.items()? {
        let (name, value): (String, Bound<'_, PyAny>) = item.extract()?;
        if value.is_none() {
            continue;
        }
        if name == "expires_at" {
            if value.getattr("tzinfo")?.is_none() {
                let why = "expires_at of the credentials has no zone: use datetime.now(UTC)";
                return Err(argument(value.py(), why.to_owned()));
            }
            let seconds: f64 = value.call_method0("timestamp")?.extract()?;
            let since = Duration::try_from_secs_f64(seconds).unwrap_or_default();
            credentials.expires_at = SystemTime::UNIX_EPOCH.checked_add(since);
        } else {
            credentials.parts.insert(name, value.extract()?);
        }
    }
    Ok(credentials)
}
