//! Conditional writes by generation.

use pyo3::prelude::*;
use tessarr_engine::store as engine;
use tessarr_engine::Result;

use super::generation::{compute_digest, expected_of, has_digest, now, of_version, DIGEST, MISSING};
use super::versioned::TimestampedStorageGeneration;
use crate::runtime::error::to_py;
use crate::store::{bytes_of, Store};

/// Write a key of `store` if it has the expected generation, see `Store.write_versioned`.
pub(crate) fn write(
    py: Python<'_>,
    store: &Store,
    key: &str,
    data: Option<&Bound<'_, PyAny>>,
    expected: Option<&[u8]>,
) -> PyResult<TimestampedStorageGeneration> {
    let data = data.map(bytes_of).transpose()?;
    let change = || change(&*store.inner, key, data.as_deref(), expected);
    let changed = match expected {
        None | Some([]) => store.run(py, data.as_deref().map_or(0, <[u8]>::len), change),
        Some(_) => py.detach(change),
    };
    let (done, version) = changed.map_err(|error| to_py(py, error))?;
    let generation = match (&data, version) {
        _ if !done => Vec::new(),
        (None, _) => MISSING.to_vec(),
        (Some(_), Some(version)) => of_version(&version),
        (Some(data), None) => compute_digest(py, data)?,
    };
    Ok(TimestampedStorageGeneration::of(py, &generation, now()))
}

/// Change the value, and return whether the write happened, with the new version if the store has
/// one.
fn change(
    store: &dyn engine::Store,
    key: &str,
    data: Option<&[u8]>,
    expected: Option<&[u8]>,
) -> Result<(bool, Option<engine::Version>)> {
    store.keys().check(key)?; // also if no generation can match
    match (expected_of(expected), expected) {
        (Some(expected), _) => store.write(key, data, &expected),
        (None, Some(generation @ [DIGEST, ..])) => {
            let has = |current: Option<&dyn engine::ValueReader>| match current {
                Some(object) => has_digest(&engine::read_all(object)?, generation),
                None => Ok(false),
            };
            store.write_if(key, data, engine::UpdateOptions::READ_CURRENT, has)
        }
        (None, _) => Ok((false, None)), // a missing value has no version
    }
}
