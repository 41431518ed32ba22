//! Reads that were asked for, and begin together.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use super::begun::{begin, begin_soon, Begun, Transfer};

/// A read that has not begun, unless somebody took it.
#[pyclass(frozen, module = "tessarr._engine")]
pub(crate) struct Reading(Mutex<Option<Transfer>>);

impl Reading {
    pub(super) fn of(transfer: Transfer) -> Self {
        Reading(Mutex::new(Some(transfer)))
    }

    /// One whose future was told already.
    pub(super) fn ended() -> Self {
        Reading(Mutex::new(None))
    }

    fn take(&self) -> Option<Transfer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[pymethods]
impl Reading {
    // The lock is held for a moment, and never while Python collects garbage: all of it is seen.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.try_lock().map_or(Ok(()), |held| held.iter().try_for_each(|transfer| transfer.visit(&visit)))
    }

    fn __clear__(&self) {
        drop(self.take());
    }
}

/// Have threads of the engine read, side by side; the futures are told. Who waits for one helps with
/// all. A single one that is small is read `soon`, with those of its array that were begun by then.
#[pyfunction]
#[pyo3(signature = (reads, *, soon = false))]
fn read_together(py: Python<'_>, reads: Vec<Bound<'_, Reading>>, soon: bool) -> Begun {
    let mut transfers: Vec<Transfer> = reads.iter().filter_map(|read| read.get().take()).collect();
    match transfers.len() {
        1 if soon => begin_soon(py, transfers.swap_remove(0)),
        _ => begin(py, transfers),
    }
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Reading>()?;
    module.add_function(wrap_pyfunction!(read_together, module)?)
}
