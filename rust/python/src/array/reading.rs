//! Reads that were asked for, and begin together.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use tessarr_engine::Error;

use super::begun::{begin, begin_soon, Begun, FutureRef, Part, Transfer};
use super::sharing::{share, Place};
use crate::error::to_py;
use crate::store::{SharedStore, Store};

/// A read that has not begun, unless somebody took it.
#[pyclass(frozen, module = "tessarr._engine")]
pub(crate) struct Reading(Mutex<Option<Read>>);

/// What is read, nothing if there is nothing to be read, and what whoever reads it gets.
struct Read {
    part: Option<Part>,
    result: Py<PyAny>,
}

impl Reading {
    pub(super) fn of(part: Option<Part>, result: Py<PyAny>) -> Self {
        Reading(Mutex::new(Some(Read { part, result })))
    }

    fn held(&self) -> MutexGuard<'_, Option<Read>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Reading {
    /// Whether there is nothing to be read.
    #[getter]
    fn empty(&self) -> bool {
        self.held().as_ref().is_none_or(|read| read.part.is_none())
    }

    /// Read in this thread, and return the result; Ctrl-C raises what is pending.
    fn now(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let taken = self.held().take();
        let Some(Read { part, result }) = taken else {
            return Err(to_py(py, Error::internal("a read was begun twice")));
        };
        part.map_or(Ok(()), |part| part.read(py))?;
        Ok(result)
    }

    // The lock is held for a moment, and never while Python collects garbage: all of it is seen.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Ok(held) = self.0.try_lock() else { return Ok(()) };
        let Some(Read { part, result }) = held.as_ref() else { return Ok(()) };
        visit.call(result)?;
        part.iter().try_for_each(|part| part.visit(&visit))
    }

    fn __clear__(&self) {
        let taken = self.held().take();
        drop(taken);
    }
}

/// Where a read is, and what is shared there; None: nothing is.
type Placed<'py> = Option<(Bound<'py, Store>, Bound<'py, SharedStore>)>;

/// Have threads of the engine read, side by side; of each a future is told. Who waits for one helps with
/// all. A single one that is small is read `soon`, with those of its array that were begun by then. Of each may
/// be told where it is, below caches and transactions, and what is shared there with others. With `weak` the
/// engine does not keep the futures alive: when all are dropped, a read that no thread has begun leaves the
/// queue, if they alone hold what this returns.
#[pyfunction]
#[pyo3(signature = (reads, futures, *, soon = false, places = None, weak = false))]
fn read_together(
    py: Python<'_>,
    reads: Vec<Bound<'_, Reading>>,
    futures: Vec<Bound<'_, PyAny>>,
    soon: bool,
    places: Option<Vec<Placed<'_>>>,
    weak: bool,
) -> PyResult<Begun> {
    let futures = futures.into_iter().map(|future| match weak {
        true => FutureRef::weak(&future),
        false => Ok(FutureRef::Strong(future.unbind())),
    });
    let futures = futures.collect::<PyResult<Vec<_>>>()?;
    let mut shared = Vec::new();
    let mut place = places.into_iter().flatten();
    let begun = reads.iter().zip(futures).filter_map(|(read, future)| {
        let place = place.next().flatten();
        let Read { part, result } = read.get().held().take()?;
        shared.push(
            place.map(|(below, shared)| Place { below: below.get().engine(), shared: shared.get().engine() }),
        );
        Some(Transfer { parts: part.into_iter().collect(), future, result })
    });
    let mut transfers: Vec<Transfer> = begun.collect();
    if shared.iter().any(Option::is_some) {
        let parts = transfers.iter_mut().zip(shared).filter_map(|(transfer, place)| {
            let [part] = &mut transfer.parts[..] else { return None };
            Some((part, place?))
        });
        let parts = parts.collect();
        py.detach(|| share(parts));
    }
    Ok(match &transfers[..] {
        [one] if soon && !one.parts.is_empty() => begin_soon(py, transfers.swap_remove(0)),
        _ => begin(py, transfers),
    })
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Reading>()?;
    module.add_function(wrap_pyfunction!(read_together, module)?)
}
