//! `ArrayBase`: reads and writes of elements, one call per user operation.

mod buffer;
mod convert;
mod description;
mod elements;
mod pending_transfer;
mod prepared_read;
mod reduce;
mod selection;
mod shared_reads;
mod storage_statistics;
mod string_dtype;
mod summary;
mod view_read;
mod write_buffer;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use tessarr_engine::array::{Array, PerAxis};
use tessarr_engine::pipeline::missing_array::ArrayPresence;
use tessarr_engine::pipeline::operation::{Interrupt, Operation};
use tessarr_engine::pool::{self, Mailbox};
use tessarr_engine::selection::{Field, Selection};
use tessarr_engine::store::{ChunkCache, Store as EngineStore};
use tessarr_engine::vlen::Arena;
use tessarr_engine::write_buffer as engine_buffer;
use tessarr_engine::{read, write, Error, Kind};

pub(crate) use buffer::{check_target, data, empty, empty_in, flags, overlaps_itself, Memory, Order};
use buffer::{scalar, strides};
pub(crate) use pending_transfer::{start_transfers, FutureRef, PendingTransfer, Transfer};
use pending_transfer::{Part, Slot};
use prepared_read::PreparedRead;
pub(crate) use view_read::part;
pub(crate) use write_buffer::{buffered_location, discard_buffered, interruptible, store_buffered, Buffered};
use write_buffer::{keys, BufferScope, MetadataDocument, WriteBuffer};

use crate::array::description::Description;
use crate::array::selection::{basic, box_requests, requests, Along, AxisArgument};
use crate::index_space::View;
use crate::runtime::error::{foreign, to_py};
use crate::runtime::once_cell::intern;
use crate::store::{StagedStore, Store};

/// The current description; a resize replaces it as a whole.
pub(crate) struct State {
    description: Py<Description>,
    array: Arc<Array>,
}

/// Base of `tessarr.Array`: a compiled description, a store and a key prefix.
#[pyclass(subclass, frozen, module = "tessarr._engine")]
pub(crate) struct ArrayBase {
    state: RwLock<Arc<State>>,
    store: Arc<dyn EngineStore>,
    prefix: Box<str>,
    read_only: AtomicBool,
    /// Whether this class handles basic keys; otherwise the subclass handles every key.
    direct: AtomicBool,
    /// Whether chunks keep their elements beyond the edge of the array.
    keeps_past: AtomicBool,
    /// Queued small reads, which one worker runs together.
    waiting: Mailbox<Arc<Slot>>,
    /// The check that the array still exists, for a chunk that is not stored.
    presence: OnceLock<Arc<ArrayPresence>>,
    /// The metadata document.
    document: OnceLock<Arc<MetadataDocument>>,
    /// The location of the chunks among all stores.
    location: OnceLock<Box<str>>,
    /// The cache of decoded chunks.
    chunk_cache: Option<Arc<ChunkCache>>,
    /// The write buffer of a transaction.
    above: OnceLock<Arc<engine_buffer::WriteBuffer>>,
    /// Whether the writes of a block of buffered writes bypass its memory.
    unbuffered: AtomicBool,
}

impl ArrayBase {
    fn state(&self) -> Arc<State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Return the operation on `store`: the store of the array, or a coalescing store over it.
    fn operation<'a>(
        &'a self,
        state: &'a State,
        store: &'a dyn EngineStore,
        interrupt: Option<Interrupt<'a>>,
    ) -> Operation<'a> {
        let keeps_past = self.keeps_past.load(Ordering::Relaxed);
        let check = self.presence.get().map(|presence| presence.check());
        let operation = Operation::new(&state.array, store, &self.prefix);
        Operation { keeps_past, interrupt, check, chunk_cache: self.chunk_cache.as_deref(), ..operation }
    }

    fn transfer<'a>(
        &'a self,
        state: &'a State,
        store: &'a dyn EngineStore,
        interrupt: Option<Interrupt<'a>>,
        selection: &Selection,
        memory: &Memory,
        writes: bool,
    ) -> tessarr_engine::Result<Arena> {
        let operation = self.operation(state, store, interrupt);
        let at = memory.address;
        if writes {
            if state.array.cast.is_some() {
                return Err(Error::new(Kind::ReadOnly, "the array is a view that casts elements"));
            }
            operation.check_array()?;
        }
        // SAFETY: `requests` created the selection from the shape and strides of the memory at the
        // address. The operation keeps this memory alive, and it is writable for a read.
        unsafe {
            match (self.above.get(), writes) {
                (None, _) => match (self.buffers(state, writes), writes) {
                    (None, false) => read::read(operation, selection, at),
                    (None, true) => write::write(operation, selection, at).map(|()| Arena::default()),
                    (Some(buffers), false) => buffers.read(operation, selection, at),
                    (Some(buffers), true) => {
                        buffers.write(operation, selection, at).map(|()| Arena::default())
                    }
                },
                (Some(above), false) => self.read_staged(operation, above, selection, at),
                (Some(above), true) => {
                    engine_buffer::write(operation, above, selection, at).map(|()| Arena::default())
                }
            }
        }
    }

    fn check_writable(&self, py: Python<'_>) -> PyResult<()> {
        if self.read_only.load(Ordering::Relaxed) {
            let error = Error::new(Kind::ReadOnly, "the array is open for reading only");
            return Err(to_py(py, error));
        }
        Ok(())
    }

    /// Run the operation with the GIL released; Ctrl-C raises the pending exception.
    fn run(
        &self,
        py: Python<'_>,
        state: &State,
        selection: &Selection,
        memory: &Memory,
        writes: bool,
    ) -> PyResult<Arena> {
        let transfer = |interrupt: Interrupt<'_>| {
            self.transfer(state, &*self.store, Some(interrupt), selection, memory, writes)
        };
        let done = py.detach(|| run_interruptibly(transfer));
        done.and_then(|done| done).map_err(|error| to_py(py, error))
    }

    /// Return the transfer part that a worker runs.
    fn prepare_part(
        slf: &Bound<'_, Self>,
        state: Arc<State>,
        selection: Selection,
        buffer: Bound<'_, PyUntypedArray>,
        writes: bool,
    ) -> PyResult<Part> {
        let elements = &state.description.bind(slf.py()).get().elements;
        let prepare = if writes { Memory::to_write } else { Memory::to_read };
        let memory = prepare(elements, &buffer)?;
        let (base, store, buffer) = (slf.clone().unbind(), slf.get().store.clone(), buffer.unbind());
        Ok(Part { base, state, store, selection, memory, buffer, writes, spread: None })
    }
}

/// Run `work` without the GIL in the calling thread. The outer error is the exception of a signal
/// handler that interrupted `work`.
fn run_interruptibly<T>(
    work: impl FnOnce(Interrupt<'_>) -> tessarr_engine::Result<T>,
) -> tessarr_engine::Result<tessarr_engine::Result<T>> {
    let pending = Mutex::new(None);
    let interrupt = || {
        // Python raises the exception once, and it must end all parts of the work.
        if pending.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            return true;
        }
        // None: Python shuts down, and the operation continues.
        let raised = |py: Python<'_>| py.check_signals().err().map(|raised| foreign(py, raised));
        crate::runtime::atexit::attached(raised).flatten().is_some_and(|error| {
            *pending.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            true
        })
    };
    let done = pool::guarded(|| work(&interrupt));
    match (pending.into_inner().unwrap_or_else(PoisonError::into_inner), done) {
        (Some(raised), _) => Err(raised),
        // A store written in Python has received Ctrl-C itself.
        (None, Err(error)) if error.is_exit() => Err(error),
        (None, done) => Ok(done),
    }
}

#[pymethods]
impl ArrayBase {
    #[new]
    #[pyo3(signature = (description, store, prefix, read_only, chunk_cache_bytes=None, *_args, **_kwargs))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        description: Py<Description>,
        store: &Bound<'_, Store>,
        prefix: &str,
        read_only: bool,
        chunk_cache_bytes: Option<u64>,
        _args: &Bound<'_, PyAny>,
        _kwargs: Option<&Bound<'_, PyAny>>,
    ) -> Self {
        let array = description.bind(py).get().array.clone();
        let state = RwLock::new(Arc::new(State { description, array }));
        let (read_only, direct) = (AtomicBool::new(read_only), AtomicBool::new(true));
        let (store, number) = (store.get().engine(), store.get().number);
        ArrayBase {
            state,
            chunk_cache: ChunkCache::new(&*store, number, prefix, chunk_cache_bytes).map(Arc::new),
            store,
            prefix: prefix.into(),
            read_only,
            direct,
            keeps_past: AtomicBool::new(false),
            waiting: Mailbox::default(),
            presence: OnceLock::new(),
            document: OnceLock::new(),
            location: OnceLock::new(),
            above: OnceLock::new(),
            unbuffered: AtomicBool::new(false),
        }
    }

    /// Keep elements beyond the edge of the array in later writes of chunks.
    fn _keep_padding(&self) {
        self.keeps_past.store(true, Ordering::Relaxed);
    }

    /// In later reads and writes, raise an error for a missing chunk or a write if `key` no longer
    /// exists: the metadata `document`, or the folder of the array. Chunks of blocks of buffered
    /// writes are not stored if the document describes other chunks than `meta`.
    fn _check_presence(&self, key: String, document: String, meta: Py<PyAny>) {
        let is_required = key == document;
        // The checks stay enabled.
        let _ = self.document.set(Arc::new(MetadataDocument { key: document, is_required, meta }));
        let _ = self.presence.set(Arc::new(ArrayPresence::new(key)));
    }

    /// Check the presence of the array as `other` does, which is the same array.
    fn _check_presence_as(&self, other: &Bound<'_, ArrayBase>) {
        let other = other.get();
        // The checks stay enabled.
        if let (Some(presence), Some(document)) = (other.presence.get(), other.document.get()) {
            let _ = self.document.set(document.clone());
            let _ = self.presence.set(presence.clone());
        }
    }

    /// Write to the store also in blocks of buffered writes.
    fn _disable_buffer(&self) {
        self.unbuffered.store(true, Ordering::Relaxed);
    }

    /// Start a block of buffered writes of this array.
    fn _start_buffer(&self, max_bytes: usize) -> BufferScope {
        BufferScope::start(self.store.clone(), &self.prefix, max_bytes)
    }

    /// Store the chunks that blocks of buffered writes hold.
    fn _store_buffered_chunks(&self, py: Python<'_>) -> PyResult<()> {
        store_buffered(py, &self.store, &self.prefix, Buffered::Below)
    }

    /// Send later writes to `write_buffer`.
    fn _set_write_buffer(&self, write_buffer: &WriteBuffer) {
        // The first write buffer stays.
        let _ = self.above.set(write_buffer.0.clone());
    }

    /// Store elements of the write buffer: all, those of chunks with keys from `first` to before
    /// `last`, or those that a staging store overwrites. With `keep` they also stay in the buffer.
    #[pyo3(signature = (first=None, last=None, *, overwriting=None, keep=false))]
    fn _store_write_buffer(
        &self,
        py: Python<'_>,
        first: Option<PyBackedBytes>,
        last: Option<PyBackedBytes>,
        overwriting: Option<&Bound<'_, StagedStore>>,
        keep: bool,
    ) -> PyResult<()> {
        let Some(above) = self.above.get() else { return Ok(()) };
        let keys = engine_buffer::KeyInterval {
            overwriting: overwriting.map(|stage| stage.get().engine()),
            ..keys(first.as_deref(), last.as_deref())
        };
        let state = self.state();
        py.detach(|| {
            pool::guarded(|| {
                engine_buffer::store(self.operation(&state, &*self.store, None), above, keys, keep)
            })
        })
        .map_err(|error| to_py(py, error))
    }

    /// Remove the elements of chunks with keys from `first` to before `last` from the write buffer.
    fn _discard_write_buffer(&self, py: Python<'_>, first: PyBackedBytes, last: PyBackedBytes) {
        let Some(above) = self.above.get() else { return };
        let (state, keys) = (self.state(), keys(Some(&first), Some(&last)));
        py.detach(|| engine_buffer::discard(self.operation(&state, &*self.store, None), above, keys));
    }

    /// Return whether the array has a write buffer.
    #[getter]
    fn _has_write_buffer(&self) -> bool {
        self.has_write_buffer()
    }

    /// Return whether the engine encodes, decodes and names chunks without calling Python.
    #[getter]
    fn _is_native(&self) -> bool {
        self.state().array.is_native()
    }

    /// Limit the write buffer to the bounds that are not None, and remove elements of chunks
    /// outside them.
    fn _trim_write_buffer(&self, py: Python<'_>, ends: Vec<Option<u64>>) {
        let state = self.state();
        py.detach(|| self.above.get().map(|above| above.trim(&state.array, &ends)));
    }

    /// Set whether the array is read-only, and whether this class handles basic keys.
    fn _configure(&self, read_only: bool, direct: bool) {
        self.read_only.store(read_only, Ordering::Relaxed);
        self.direct.store(direct, Ordering::Relaxed);
    }

    /// Return the current compiled description.
    #[getter]
    fn _description(&self, py: Python<'_>) -> Py<Description> {
        self.state().description.clone_ref(py)
    }

    /// Replace the description. Operations that already run use the old one.
    fn _replace_description(&self, py: Python<'_>, description: Py<Description>) {
        let array = description.bind(py).get().array.clone();
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(State { description, array });
    }

    fn __getitem__<'py>(slf: &Bound<'py, Self>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let state = this.state();
        let direct = this.direct.load(Ordering::Relaxed);
        let Some(axes) = direct.then(|| basic(key, &state.array.shape)).flatten() else {
            return slf.call_method1(intern!(py, "_getitem"), (key,));
        };
        let description = state.description.bind(py).get();
        let kept = axes.iter().filter(|along| !along.dropped).map(|along| along.count);
        let out = empty(description.dtype.bind(py).clone(), kept)?;
        let requests = box_requests(&axes, &strides(&description.elements, &out));
        let selection = Selection::new(&requests, &state.array.shape).map_err(|error| to_py(py, error))?;
        let memory = Memory::to_read(&description.elements, &out)?;
        let arena = this.run(py, &state, &selection, &memory, false)?;
        memory.deliver(&description.elements, &out, arena)?;
        if axes.iter().all(|along| along.dropped) {
            return scalar(&out);
        }
        Ok(out.into_any())
    }

    fn __setitem__(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        let state = this.state();
        let direct = this.direct.load(Ordering::Relaxed) && !this.read_only.load(Ordering::Relaxed);
        let plain = direct.then(|| plain_value(py, key, value, &state)).flatten();
        let Some((axes, value)) = plain else {
            return slf.call_method1(intern!(py, "_setitem"), (key, value)).map(|_| ());
        };
        let elements = &state.description.bind(py).get().elements;
        let requests = box_requests(&axes, &strides(elements, &value));
        let selection = Selection::new(&requests, &state.array.shape).map_err(|error| to_py(py, error))?;
        this.run(py, &state, &selection, &Memory::to_write(elements, &value)?, true).map(drop)
    }

    /// Read into `out`, whose axis for each of `axes` is in `out_axes`. With `fields`, read only
    /// these bytes of the items.
    #[pyo3(signature = (axes, out_axes, out, fields=None))]
    fn _read(
        slf: &Bound<'_, Self>,
        axes: Vec<AxisArgument<'_>>,
        out_axes: Vec<Option<usize>>,
        out: Bound<'_, PyUntypedArray>,
        fields: Option<Fields>,
    ) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        let state = this.state();
        let selection = check_selection(py, &state, &axes, &out_axes, &out, fields, true)?;
        let elements = &state.description.bind(py).get().elements;
        let memory = Memory::to_read(elements, &out)?;
        let arena = this.run(py, &state, &selection, &memory, false)?;
        memory.deliver(elements, &out, arena)
    }

    /// Write `value`, whose axis for each of `axes` is in `out_axes`. With `fields`, write only
    /// these bytes of the items.
    #[pyo3(signature = (axes, out_axes, value, fields=None))]
    fn _write(
        slf: &Bound<'_, Self>,
        axes: Vec<AxisArgument<'_>>,
        out_axes: Vec<Option<usize>>,
        value: Bound<'_, PyUntypedArray>,
        fields: Option<Fields>,
    ) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        this.check_writable(py)?;
        let state = this.state();
        let selection = check_selection(py, &state, &axes, &out_axes, &value, fields, false)?;
        let elements = &state.description.bind(py).get().elements;
        this.run(py, &state, &selection, &Memory::to_write(elements, &value)?, true).map(drop)
    }

    /// Return whether the store holds no element of a view, and whether it holds all of them.
    /// Return None if the view has positions below the origin. A result that is not requested is
    /// undefined.
    fn _storage_statistics(
        &self,
        py: Python<'_>,
        view: &View,
        not_stored: bool,
        fully_stored: bool,
    ) -> PyResult<Option<(bool, bool)>> {
        self._store_buffered_chunks(py)?;
        self.storage_statistics(py, view, not_stored, fully_stored)
    }

    /// Prepare a read of the current array for `start_reads`; the result is `out`.
    #[pyo3(signature = (axes, out_axes, out, fields=None))]
    fn _prepare_read(
        slf: &Bound<'_, Self>,
        axes: Vec<AxisArgument<'_>>,
        out_axes: Vec<Option<usize>>,
        out: Bound<'_, PyUntypedArray>,
        fields: Option<Fields>,
    ) -> PyResult<PreparedRead> {
        let (state, result) = (slf.get().state(), out.clone().into_any().unbind());
        if out.is_empty() {
            return Ok(PreparedRead::of(None, result));
        }
        let selection = check_selection(slf.py(), &state, &axes, &out_axes, &out, fields, true)?;
        Ok(PreparedRead::of(Some(Self::prepare_part(slf, state, selection, out, false)?), result))
    }

    /// Prepare a read of a view of the current array, for `start_reads` or `PreparedRead.run`. The
    /// result is `out`, or a new array of a data type. With `fields`, read only these bytes of the
    /// elements.
    #[pyo3(signature = (view, dtype, out=None, fields=None))]
    fn _prepare_view_read(
        slf: &Bound<'_, Self>,
        view: &View,
        dtype: &Bound<'_, PyArrayDescr>,
        out: Option<Bound<'_, PyUntypedArray>>,
        fields: Option<Fields>,
    ) -> PyResult<PreparedRead> {
        view_read::prepare_view_read(slf, view.inner(), dtype, out, fields)
    }

    /// Write on a worker thread; `future` receives None at the end. A thread that waits for it may
    /// run the write.
    #[pyo3(signature = (axes, out_axes, value, future, fields=None))]
    fn _write_future(
        slf: &Bound<'_, Self>,
        axes: Vec<AxisArgument<'_>>,
        out_axes: Vec<Option<usize>>,
        value: Bound<'_, PyUntypedArray>,
        future: Py<PyAny>,
        fields: Option<Fields>,
    ) -> PyResult<PendingTransfer> {
        slf.get().check_writable(slf.py())?;
        let state = slf.get().state();
        let selection = check_selection(slf.py(), &state, &axes, &out_axes, &value, fields, false)?;
        let parts = vec![Self::prepare_part(slf, state, selection, value, true)?];
        let future = FutureRef::Strong(future);
        Ok(start_transfers(slf.py(), vec![Transfer { parts, future, result: slf.py().None() }]))
    }
}

/// The first byte in the array's item, the first byte in the buffer's item, and the byte count.
type Fields = Vec<(usize, usize, usize)>;

/// Check the buffer against the array's data type or its fields, and the selection against its
/// shape.
fn check_selection(
    py: Python<'_>,
    state: &State,
    axes: &[AxisArgument<'_>],
    out_axes: &[Option<usize>],
    buffer: &Bound<'_, PyUntypedArray>,
    fields: Option<Fields>,
    writable: bool,
) -> PyResult<Selection> {
    check_items(state, buffer, fields.as_deref())?;
    if writable {
        check_target(buffer)?;
    }
    let strides = strides(&state.description.bind(py).get().elements, buffer);
    let requests = requests(axes, out_axes, buffer.shape(), &strides)?;
    Selection::new(&requests, &state.array.shape)
        .and_then(|selection| selection.with_fields(engine_fields(fields), state.array.item_bytes))
        .map_err(|error| to_py(py, error))
}

/// Check the items of a buffer against the array's data type, or against fields of it.
fn check_items(
    state: &State,
    buffer: &Bound<'_, PyUntypedArray>,
    fields: Option<&[(usize, usize, usize)]>,
) -> PyResult<()> {
    let description = state.description.bind(buffer.py()).get();
    let fits = match fields {
        None => fits(description, buffer),
        Some(fields) => {
            let (dtype, item_bytes) = (buffer.dtype(), buffer.dtype().itemsize());
            let inside = |&(_, caller, bytes): &(usize, usize, usize)| {
                caller.checked_add(bytes).is_some_and(|end| end <= item_bytes)
            };
            let stored = description.elements.is_fixed() && description.array.cast.is_none();
            let plain = stored && !dtype.has_object();
            plain && !fields.is_empty() && fields.iter().all(inside)
        }
    };
    if fits {
        return Ok(());
    }
    let dtype = description.dtype.bind(buffer.py());
    Err(PyTypeError::new_err(format!("the buffer holds {}, the array {dtype}", buffer.dtype())))
}

/// Return the engine's fields; no field stands for the whole item.
fn engine_fields(fields: Option<Fields>) -> Vec<Field> {
    let fields = fields.unwrap_or_default().into_iter();
    fields.map(|(item, caller, bytes)| Field { item, caller, bytes }).collect()
}

/// Return the box and the value of an assignment that needs neither a cast nor a broadcast.
fn plain_value<'py>(
    py: Python<'py>,
    key: &Bound<'py, PyAny>,
    value: &Bound<'py, PyAny>,
    state: &State,
) -> Option<(PerAxis<Along>, Bound<'py, PyUntypedArray>)> {
    let axes = basic(key, &state.array.shape)?;
    // A subclass of ndarray has more than its elements, such as a mask or a unit.
    let value = value.cast_exact::<PyUntypedArray>().ok()?;
    let counts = axes.iter().filter(|along| !along.dropped).map(|along| along.count);
    if !counts.eq(value.shape().iter().copied()) {
        return None;
    }
    fits(state.description.bind(py).get(), value).then(|| (axes, value.clone()))
}

/// Return whether the items of `buffer` have the type of the array's elements.
fn fits(description: &Description, buffer: &Bound<'_, PyUntypedArray>) -> bool {
    let (py, dtype) = (buffer.py(), buffer.dtype());
    if !description.elements.is_fixed() {
        return description.elements.accepts(dtype.kind());
    }
    dtype.is_equiv_to(description.dtype.bind(py))
        && dtype.itemsize() == description.array.delivered_fill().len()
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Description>()?;
    module.add_class::<ArrayBase>()?;
    module.add_class::<PendingTransfer>()?;
    write_buffer::register(module)?;
    convert::register(module)?;
    reduce::register(module)?;
    summary::register(module)?;
    prepared_read::register(module)
}
