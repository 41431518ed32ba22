//! Generations: the versions of keys, as TensorStore's `KvStore` reports them.
//!
//! A generation starts with a byte for its kind. The store's version of the value follows, or a
//! digest of the value if the store has no versions. A missing value has only the first byte.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::runtime::once_cell::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tessarr_engine::store as engine;
use tessarr_engine::{Error, Result};

use crate::runtime::error::foreign;

pub(crate) const VERSION: u8 = 0;
pub(crate) const DIGEST: u8 = 1;
pub(crate) const MISSING: [u8; 1] = [2];

/// Return the generation of a value whose store has no versions.
pub(crate) fn compute_digest(py: Python<'_>, value: &[u8]) -> PyResult<Vec<u8>> {
    let size = PyDict::new(py);
    size.set_item("digest_size", 16)?;
    let hash = py.import(intern!(py, "hashlib"))?.getattr("blake2b")?.call((value,), Some(&size))?;
    let found = hash.call_method0("digest")?;
    Ok([&[DIGEST], found.cast::<PyBytes>()?.as_bytes()].concat())
}

/// Return whether a generation is the digest of a value.
pub(crate) fn has_digest(value: &[u8], generation: &[u8]) -> Result<bool> {
    let compared = crate::runtime::atexit::attached(|py| {
        compute_digest(py, value).map(|found| found == generation).map_err(|error| foreign(py, error))
    });
    compared.unwrap_or_else(|| Err(Error::internal("nothing can be compared when Python ends")))
}

pub(crate) fn of_version(version: &engine::Version) -> Vec<u8> {
    [&[VERSION], version.bytes()].concat()
}

/// Return the expected state of a key with a generation; None if only the value can decide.
pub(crate) fn expected_of(generation: Option<&[u8]>) -> Option<engine::Expected> {
    match generation {
        None | Some([]) => Some(engine::Expected::Anything),
        Some(generation) if *generation == MISSING => Some(engine::Expected::Absent),
        Some([VERSION, version @ ..]) => engine::Version::new(version).map(engine::Expected::Version),
        Some(_) => None,
    }
}

/// Return the current time in seconds since 1970.
pub(crate) fn now() -> f64 {
    seconds(SystemTime::now())
}

/// Return the time since which the store's responses for a key are known, in seconds since 1970.
pub(crate) fn known_since(store: &dyn engine::Store, key: &str) -> f64 {
    store.coalesced_since(key).map_or_else(now, seconds)
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
