//! Batches of concurrent reads, for Python.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use tessarr_engine::store::{read_batch, BatchRead, BatchResponse};
use tessarr_engine::Result;

use super::{text, Store};
use crate::array::{store_buffered, Buffered};
use crate::runtime::bytes::copy_to_bytes;
use crate::runtime::error::{argument, to_py};

/// Perform reads, each of which is the name of a method of `Store` with its key or prefix.
pub(super) fn read<'py>(
    py: Python<'py>,
    store: &Store,
    reads: Vec<(Bound<'py, PyString>, Bound<'py, PyAny>)>,
    concurrency: usize,
    limit: Option<u64>,
) -> PyResult<Bound<'py, PyList>> {
    let reads: Vec<_> =
        reads.iter().map(|(method, key)| parse(method, key, limit)).collect::<PyResult<_>>()?;
    for read in &reads {
        match read {
            BatchRead::Keys(prefix) => store.store_buffered_chunks(py, prefix)?,
            BatchRead::Level(prefix) => store_buffered(py, &store.inner, prefix, Buffered::Around)?,
            BatchRead::Value(..) | BatchRead::Size(_) => {}
        }
    }
    let inner = store.engine();
    let responses = py.detach(|| read_batch(&inner, reads, concurrency)).map_err(|error| to_py(py, error))?;
    let result = PyList::empty(py);
    for response in responses {
        result.append(to_object(py, response)?)?;
    }
    Ok(result)
}

fn parse(method: &Bound<'_, PyString>, key: &Bound<'_, PyAny>, limit: Option<u64>) -> PyResult<BatchRead> {
    let key = text(key)?.to_owned();
    Ok(match method.to_str()? {
        "get" => BatchRead::Value(key, limit),
        "size" => BatchRead::Size(key),
        "list" => BatchRead::Keys(key),
        "list_dir" => BatchRead::Level(key),
        other => return Err(argument(method.py(), format!("{other:?} is not a read of a batch"))),
    })
}

/// Return a response, or the exception of a failed read.
fn to_object<'py>(py: Python<'py>, response: Result<BatchResponse>) -> PyResult<Bound<'py, PyAny>> {
    let object = match response {
        Ok(BatchResponse::Value(None)) => py.None().into_bound(py),
        Ok(BatchResponse::Value(Some(value))) => copy_to_bytes(py, value.bytes())?.into_any(),
        Ok(BatchResponse::Size(size)) => size.into_pyobject(py)?,
        Ok(BatchResponse::Keys(keys)) => keys.into_pyobject(py)?,
        Ok(BatchResponse::Level(listing)) => (listing.keys, listing.prefixes).into_pyobject(py)?.into_any(),
        Err(error) => to_py(py, error).into_value(py).into_bound(py).into_any(),
    };
    Ok(object)
}
