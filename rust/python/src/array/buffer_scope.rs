//! `BufferScope`: a block of buffered writes.

use std::sync::Arc;

use pyo3::prelude::*;
use tessarr_engine::pipeline::operation::Interrupt;
use tessarr_engine::store::Store as EngineStore;
use tessarr_engine::write_buffer::scope;
use tessarr_engine::Result;

use super::run_interruptibly;
use crate::runtime::error::to_py;
use crate::store::Store;

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

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<BufferScope>()
}
