//! `PreparedRead`: a read that has not started, and `start_reads`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use tessarr_engine::Error;

use super::pending_transfer::{
    start_transfers, start_with_array, FutureRef, Part, PendingTransfer, Transfer,
};
use super::shared_reads::{share, Place};
use crate::runtime::error::to_py;
use crate::store::{CoalescingStore, Store};

/// A read that has not started. It starts at most once.
#[pyclass(frozen, module = "tessarr._engine")]
pub(crate) struct PreparedRead(Mutex<Option<Read>>);

/// The part to read (None: no elements) and the result of the read.
struct Read {
    part: Option<Part>,
    result: Py<PyAny>,
}

impl PreparedRead {
    pub(super) fn of(part: Option<Part>, result: Py<PyAny>) -> Self {
        PreparedRead(Mutex::new(Some(Read { part, result })))
    }

    fn held(&self) -> MutexGuard<'_, Option<Read>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl PreparedRead {
    /// Return whether the read has no elements.
    #[getter]
    fn is_empty(&self) -> bool {
        self.held().as_ref().is_none_or(|read| read.part.is_none())
    }

    /// Read in this thread and return the result; Ctrl-C raises the pending exception.
    fn run(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let taken = self.held().take();
        let Some(Read { part, result }) = taken else {
            return Err(to_py(py, Error::internal("a read was begun twice")));
        };
        part.map_or(Ok(()), |part| part.read(py))?;
        Ok(result)
    }

    // Threads hold the lock briefly, and never during a garbage collection, so this visits all
    // references.
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

/// The store of a read and the coalescing store over it; None: the read shares no requests.
type Placed<'py> = Option<(Bound<'py, Store>, Bound<'py, CoalescingStore>)>;

/// Start reads on worker threads. Each completes its future, and a thread that waits for one may
/// run all of them. With `coalesce`, a single small read runs together with the queued reads of its
/// array.
///
/// For each read, `locations` contains the store below caches and transactions, and the coalescing
/// store above it. With `weak`, the engine does not keep the futures alive. If the program drops
/// all of them, a read that has not started leaves the queue, provided that only they hold the
/// returned object.
#[pyfunction]
#[pyo3(signature = (reads, futures, *, coalesce = false, locations = None, weak = false))]
fn start_reads(
    py: Python<'_>,
    reads: Vec<Bound<'_, PreparedRead>>,
    futures: Vec<Bound<'_, PyAny>>,
    coalesce: bool,
    locations: Option<Vec<Placed<'_>>>,
    weak: bool,
) -> PyResult<PendingTransfer> {
    let futures = futures.into_iter().map(|future| match weak {
        true => FutureRef::weak(&future),
        false => Ok(FutureRef::Strong(future.unbind())),
    });
    let futures = futures.collect::<PyResult<Vec<_>>>()?;
    let mut shared = Vec::new();
    let mut place = locations.into_iter().flatten();
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
        [one] if coalesce && !one.parts.is_empty() => start_with_array(py, transfers.swap_remove(0)),
        _ => start_transfers(py, transfers),
    })
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PreparedRead>()?;
    module.add_function(wrap_pyfunction!(start_reads, module)?)
}
