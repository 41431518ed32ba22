//! `WriteBuffer` of a transaction, and `BufferScope`, a block of buffered writes.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use pyo3::prelude::*;
use tessarr_engine::pipeline::operation::{Interrupt, Operation};
use tessarr_engine::selection::Selection;
use tessarr_engine::store::Store as EngineStore;
use tessarr_engine::vlen::Arena;
use tessarr_engine::write_buffer::{self, array_buffers, scope};
use tessarr_engine::Result;

use super::{run_interruptibly, ArrayBase, State};
use crate::runtime::error::{foreign, to_py};
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

/// The metadata document of an array, and the metadata that the array object has.
pub(super) struct MetadataDocument {
    pub(super) key: String,
    pub(super) is_required: bool,
    pub(super) meta: Py<PyAny>,
}

impl array_buffers::MetadataDocument for MetadataDocument {
    fn key(&self) -> &str {
        &self.key
    }

    fn is_required(&self) -> bool {
        self.is_required
    }

    fn has_same_chunks(&self, document: &[u8]) -> Result<bool> {
        let compared = crate::runtime::atexit::attached(|py| {
            let module = py.import("tessarr.array.stored_document")?;
            let name = self.key.rsplit('/').next().unwrap_or_default();
            module.call_method1("has_same_chunks", (&self.meta, name, document))?.extract()
        });
        // None: the interpreter shuts down.
        compared.unwrap_or(Ok(true)).map_err(|raised| {
            crate::runtime::atexit::attached(|py| foreign(py, raised))
                .unwrap_or_else(|| tessarr_engine::Error::internal("the interpreter shuts down"))
        })
    }
}

impl ArrayBase {
    /// Return the location of the array, see [`EngineStore::location`].
    fn location(&self) -> &str {
        self.location.get_or_init(|| self.store.location(&self.prefix).into())
    }

    /// Return the buffers of the array in blocks of buffered writes; None: no block contains it.
    pub(super) fn buffers(&self, state: &State, writes: bool) -> Option<array_buffers::ArrayBuffers> {
        if !scope::is_active() {
            return None;
        }
        array_buffers::ArrayBuffers::find(self.location(), writes, || array_buffers::ArrayAccess {
            store: self.store.clone(),
            prefix: self.prefix.clone(),
            array: state.array.clone(),
            keeps_past: self.keeps_past.load(Ordering::Relaxed),
            presence: self.presence.get().cloned(),
            document: self.document.get().map(|document| document.clone() as _),
            chunk_cache: self.chunk_cache.clone(),
            may_buffer: !self.unbuffered.load(Ordering::Relaxed),
        })
    }

    /// Read from the buffer of a transaction, and from the store with the elements of blocks of
    /// buffered writes.
    ///
    /// # Safety
    /// As for [`write_buffer::read`].
    pub(super) unsafe fn read_staged(
        &self,
        operation: Operation<'_>,
        buffer: &write_buffer::WriteBuffer,
        selection: &Selection,
        out: *mut u8,
    ) -> Result<Arena> {
        if scope::is_active() {
            let location = self.store.stored_location(&self.prefix);
            scope::store_around(&location, operation.interrupt)?;
        }
        // SAFETY: guaranteed by the caller.
        unsafe { write_buffer::read(operation, &[buffer], selection, out) }
    }

    /// Return whether the array has a write buffer.
    pub(super) fn has_write_buffer(&self) -> bool {
        self.above.get().is_some() || (scope::is_active() && scope::contains(self.location()))
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

/// If Ctrl-C prevents `end`, no writes are buffered without an end.
impl Drop for BufferScope {
    fn drop(&mut self) {
        self.0.abandon();
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

    /// Whether the block still takes elements, in this process.
    #[getter]
    fn is_open(&self) -> bool {
        self.0.is_open()
    }

    /// Store the buffered chunks of all arrays of the block.
    fn store(&self, py: Python<'_>) -> PyResult<()> {
        interruptible(py, |interrupt| self.0.store(Some(interrupt)))
    }

    /// Store the buffered chunks and end the block. Chunks that cannot be stored stay in memory.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        interruptible(py, |interrupt| self.0.end(Some(interrupt)))
    }

    /// Discard the chunks in memory.
    fn discard(&self, py: Python<'_>) -> PyResult<()> {
        interruptible(py, |_| self.0.discard())
    }
}

/// Run `work` with the GIL released; Ctrl-C raises the pending exception.
pub(crate) fn interruptible(
    py: Python<'_>,
    work: impl FnOnce(Interrupt<'_>) -> Result<()> + Send,
) -> PyResult<()> {
    let done = py.detach(|| run_interruptibly(work));
    done.and_then(|done| done).map_err(|error| to_py(py, error))
}

/// Which buffered chunks an operation concerns.
#[derive(Clone, Copy)]
pub(crate) enum Buffered {
    /// Those with keys below a prefix, or of an array around it.
    Below,
    /// Those of an array around a prefix, or at it.
    Around,
    /// Those of an array around a prefix.
    Inside,
}

/// Store buffered chunks of a store.
pub(crate) fn store_buffered(
    py: Python<'_>,
    store: &Arc<dyn EngineStore>,
    prefix: &str,
    which: Buffered,
) -> PyResult<()> {
    if !scope::is_active() {
        return Ok(());
    }
    interruptible(py, |interrupt| {
        let location = store.stored_location(prefix);
        match which {
            Buffered::Below => scope::store_below(&location, Some(interrupt)),
            Buffered::Around => scope::store_around(&location, Some(interrupt)),
            Buffered::Inside => scope::store_inside(&location, Some(interrupt)),
        }
    })
}

/// Return the location of `prefix` among all stores; None: no block of buffered writes is active.
pub(crate) fn buffered_location(store: &Arc<dyn EngineStore>, prefix: &str) -> Option<String> {
    scope::is_active().then(|| store.location(prefix))
}

/// Discard the buffered chunks of arrays below a location.
pub(crate) fn discard_buffered(py: Python<'_>, location: Option<&str>) -> PyResult<()> {
    match location {
        Some(location) => interruptible(py, |_| scope::discard_below(location)),
        None => Ok(()),
    }
}

/// End all blocks of buffered writes.
#[pyfunction]
fn end_buffer_scopes(py: Python<'_>) -> PyResult<()> {
    interruptible(py, |interrupt| scope::end_all(Some(interrupt)))
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
    module.add_class::<BufferScope>()?;
    module.add_function(wrap_pyfunction!(end_buffer_scopes, module)?)
}
