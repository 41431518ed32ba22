//! `PreparedRead`: a read that has not started, and `start_reads`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use tessarr_engine::array::PerAxis;
use tessarr_engine::selection::Selection;
use tessarr_engine::Error;

use super::pending_transfer::{
    read_parts, start_transfers, start_with_array, FutureRef, Part, PendingTransfer, Transfer,
};
use super::shared_reads::{share, Place};
use super::{check_target, empty, fits, strides, ArrayBase, Memory};
use crate::array::selection::{basic, box_requests};
use crate::runtime::error::to_py;
use crate::store::{CoalescingStore, Store};

/// A read that has not started. It starts at most once.
#[pyclass(frozen, module = "tessarr._engine")]
pub(crate) struct PreparedRead(Mutex<Option<Read>>);

/// The part to read (None: no elements) and the result of the read.
struct Read {
    part: Option<Part>,
    result: Py<PyAny>,
    is_scalar: bool,
}

impl PreparedRead {
    pub(super) fn of(part: Option<Part>, result: Py<PyAny>) -> Self {
        PreparedRead(Mutex::new(Some(Read { part, result, is_scalar: false })))
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

    /// Return whether an integer selects each axis, so that the value is a scalar and not the result,
    /// which is an array.
    #[getter]
    fn is_scalar(&self) -> bool {
        self.held().as_ref().is_some_and(|read| read.is_scalar)
    }

    /// Return whether the read touches at most `max_cells` cells of a grid, and has only ranges.
    fn touches_at_most(&self, cell_shape: Vec<u64>, max_cells: u64) -> bool {
        let held = self.held();
        let part = held.as_ref().and_then(|read| read.part.as_ref());
        part.is_none_or(|part| part.selection.touches_at_most(&cell_shape, max_cells))
    }

    /// Read in this thread and return the result; Ctrl-C raises the pending exception.
    fn run(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let taken = self.held().take();
        let Some(Read { part, result, .. }) = taken else {
            return Err(started_twice(py));
        };
        part.map_or(Ok(()), |part| part.read(py))?;
        Ok(result)
    }

    // Threads hold the lock briefly, and never during a garbage collection, so this visits all
    // references.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Ok(held) = self.0.try_lock() else { return Ok(()) };
        let Some(Read { part, result, .. }) = held.as_ref() else { return Ok(()) };
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
    let started = reads.iter().zip(futures).filter_map(|(read, future)| {
        let place = place.next().flatten();
        let Read { part, result, .. } = read.get().held().take()?;
        shared.push(
            place.map(|(below, shared)| Place { below: below.get().engine(), shared: shared.get().engine() }),
        );
        Some(Transfer { parts: part.into_iter().collect(), future, result })
    });
    let mut transfers: Vec<Transfer> = started.collect();
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

/// Prepare a read of a basic key of the current array, into a new array or into the entry `number`
/// of the first axis of `out`. Return None if `tessarr.indexing` must parse the key, or if `out` is
/// not an array of such entries.
#[pyfunction]
#[pyo3(signature = (array, key, out=None, number=0))]
fn prepare_basic_read(
    array: &Bound<'_, ArrayBase>,
    key: &Bound<'_, PyAny>,
    out: Option<&Bound<'_, PyAny>>,
    number: usize,
) -> PyResult<Option<PreparedRead>> {
    let (py, state) = (array.py(), array.get().state());
    let description = state.description.bind(py).get();
    let elements = &description.elements;
    let Some(axes) = basic(key, &state.array.shape) else { return Ok(None) };
    let shape: PerAxis<usize> = axes.iter().filter(|along| !along.dropped).map(|along| along.count).collect();
    let (buffer, start, strides) = match out {
        None => {
            let buffer = empty(description.dtype.bind(py).clone(), shape.iter().copied())?;
            let strides = strides(elements, &buffer);
            (buffer, 0, strides)
        }
        Some(out) => {
            let Ok(out) = out.cast_exact::<PyUntypedArray>() else { return Ok(None) };
            let has_entry =
                out.shape().split_first().is_some_and(|(&count, rest)| number < count && rest == &shape[..]);
            if !(has_entry && elements.is_fixed() && fits(description, out) && check_target(out).is_ok()) {
                return Ok(None);
            }
            let (step, strides) = (out.strides()[0], PerAxis::from_slice(&out.strides()[1..]));
            (out.clone(), number as isize * step, strides)
        }
    };
    let is_scalar = shape.is_empty() && out.is_none();
    let result = buffer.clone().into_any().unbind();
    if shape.contains(&0) {
        return Ok(Some(PreparedRead::of(None, result)));
    }
    let requests = box_requests(&axes, &strides);
    let selection = Selection::new(&requests, &state.array.shape).map_err(|error| to_py(py, error))?;
    let memory = Memory::to_read(elements, &buffer)?.from(start);
    let (base, store, buffer) = (array.clone().unbind(), array.get().store.clone(), buffer.unbind());
    let part = Part { base, state, store, selection, memory, buffer, writes: false, spread: None };
    Ok(Some(PreparedRead(Mutex::new(Some(Read { part: Some(part), result, is_scalar })))))
}

/// Perform reads in the calling thread and the workers, those of the same array as one read, and
/// return their results. Ctrl-C raises the pending exception.
#[pyfunction]
fn run_reads(py: Python<'_>, reads: Vec<Bound<'_, PreparedRead>>) -> PyResult<Vec<Py<PyAny>>> {
    let (mut parts, mut results) = (Vec::with_capacity(reads.len()), Vec::with_capacity(reads.len()));
    for read in &reads {
        let taken = read.get().held().take();
        let Some(Read { part, result, .. }) = taken else { return Err(started_twice(py)) };
        parts.extend(part);
        results.push(result);
    }
    read_parts(py, &parts)?;
    Ok(results)
}

fn started_twice(py: Python<'_>) -> PyErr {
    to_py(py, Error::internal("a read was started twice"))
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PreparedRead>()?;
    module.add_function(wrap_pyfunction!(prepare_basic_read, module)?)?;
    module.add_function(wrap_pyfunction!(run_reads, module)?)?;
    module.add_function(wrap_pyfunction!(start_reads, module)?)
}
