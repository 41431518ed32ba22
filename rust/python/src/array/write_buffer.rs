//! `WriteBuffer` of a transaction, and `BufferScope`, a block of buffered writes.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use pyo3::prelude::*;
use tessarr_engine::pipeline::operation::Interrupt;
use tessarr_engine::store::Store as EngineStore;
use tessarr_engine::write_buffer::{self, scope};
use tessarr_engine::Result;

use super::{run_interruptibly, ArrayBase, State};
use crate::runtime::error::to_py;
use crate::store::Store;

/// The write buffer of a transaction: elements that are not yet stored.
#[pyclass(frozen, module = "tessarr._engine")]
pub(crate) struct WriteBuffer(pub(super) Arc<write_buffer::WriteBuffer>);

#[pymethods]
impl WriteBuffer {
    #[new]
    fn new() -> Self {
        WriteBuffer(Arc::new(write_buffer::WriteBuffer::default()))
    }

    fn __bool__(&self) -> bool {
        !self.0.is_empty()
    }

    /// The number of bytes in the buffer.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> usize {
        py.detach(|| self.0.bytes())
    }

    /// Reject later writes.
    fn close(&self) {
        self.0.close();
    }

    /// Remove the bounds of resizes that the transaction staged.
    fn clear_ends(&self) {
        self.0.clear_ends();
    }

    /// Remove all elements.
    fn clear(&self, py: Python<'_>) {
        py.detach(|| self.0.clear());
    }
}

impl ArrayBase {
    /// Return the buffers of the array in active blocks of buffered writes; None: no block contains
    /// it.
    pub(super) fn buffers(&self, state: &State, writes: bool) -> Option<scope::ArrayBuffers> {
        scope::ArrayBuffers::find(&self.store, &self.prefix, writes, || scope::ArrayAccess {
            store: self.store.clone(),
            prefix: self.prefix.clone(),
            array: state.array.clone(),
            keeps_past: self.keeps_past.load(Ordering::Relaxed),
            presence: self.presence.get().cloned(),
            may_buffer: !self.unbuffered.load(Ordering::Relaxed),
        })
    }

    /// Return whether the array has a write buffer.
    pub(super) fn has_write_buffer(&self) -> bool {
        self.above.get().is_some() || scope::contains(&self.store, &self.prefix)
    }
}

/// A block of buffered writes, from its creation to `end`.
#[pyclass(frozen, module = "tessarr._engine")]
pub(crate) struct BufferScope(Arc<scope::BufferScope>);

impl BufferScope {
    pub(super) fn start(store: Arc<dyn EngineStore>, prefix: &str, max_bytes: usize) -> Self {
        BufferScope(scope::BufferScope::start(store, prefix, max_bytes))
    }
}

#[pymethods]
impl BufferScope {
    #[new]
    fn new(store: &Bound<'_, Store>, prefix: &str, max_bytes: usize) -> Self {
        BufferScope::start(store.get().engine(), prefix, max_bytes)
    }

    /// The number of bytes in the buffers.
    #[getter]
    fn nbytes(&self) -> usize {
        self.0.used()
    }

    /// Store the buffered chunks of all arrays of the block.
    fn store(&self, py: Python<'_>) -> PyResult<()> {
        interruptible(py, |interrupt| self.0.store(Some(interrupt)))
    }

    /// Store the buffered chunks and end the block. Elements that cannot be stored are discarded.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        interruptible(py, |interrupt| self.0.end(Some(interrupt)))
    }
}

/// Run `work` with the GIL released; Ctrl-C raises the pending exception.
fn interruptible(py: Python<'_>, work: impl FnOnce(Interrupt<'_>) -> Result<()> + Send) -> PyResult<()> {
    let done = py.detach(|| run_interruptibly(work));
    done.and_then(|done| done).map_err(|error| to_py(py, error))
}

/// Store the buffered chunks of a store with keys below `prefix`, or of an array around it.
pub(crate) fn store_below(py: Python<'_>, store: &Arc<dyn EngineStore>, prefix: &str) -> PyResult<()> {
    match scope::is_active() {
        true => interruptible(py, |interrupt| scope::store_below(store, prefix, Some(interrupt))),
        false => Ok(()),
    }
}

/// Return the interval of keys; None: no bound.
pub(super) fn keys<'a>(first: Option<&'a [u8]>, last: Option<&'a [u8]>) -> write_buffer::KeyInterval<'a> {
    write_buffer::KeyInterval {
        first: first.unwrap_or_default(),
        last: last.unwrap_or_default(),
        overwriting: None,
    }
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<WriteBuffer>()?;
    module.add_class::<BufferScope>()
}
