//! Non-blocking reads from stores written in Python, which complete each request.

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::runtime::once_cell::intern;
use pyo3::prelude::*;
use tessarr_engine::pool::guarded;
use tessarr_engine::store::{AsyncGet, AsyncPut, Completion, OpenResult, ReadHint, Version};

use super::foreign::{Opening, PyForeign};
use crate::runtime::error::foreign;

thread_local! {
    /// The store that completes a request in this thread; it receives the next requests afterwards.
    static COMPLETING: Cell<*const PyForeign> = const { Cell::new(std::ptr::null()) };
}

/// Non-blocking reads from a store written in Python.
pub(crate) struct PythonGet(pub(crate) Arc<PyForeign>);

impl AsyncGet for PythonGet {
    fn get(&self, key: &str, want: ReadHint, told: Completion) {
        if let Some((key, told)) = self.0.start_get(key.to_owned(), want, told) {
            queue_open(&self.0, key, want, told);
        }
    }
}

/// Non-blocking writes to the server of a store written in Python.
pub(crate) struct PythonPut(pub(crate) Arc<PyForeign>);

impl AsyncPut for PythonPut {
    fn put(&self, key: &str, value: &Arc<Vec<u8>>, told: Completion<Option<Version>>) {
        self.0.start_put(key, value, told);
    }
}

/// Queue a request for Python to open a value.
pub(crate) fn queue_open(store: &Arc<PyForeign>, key: String, want: ReadHint, told: Completion) {
    let opening = store.opening(want);
    let asked = OpenRequest { store: store.clone(), key, opening, told: Mutex::new(Some(told)) };
    if !store.asked.add(asked) || COMPLETING.get() == Arc::as_ptr(store) {
        return; // another thread takes this request with its own
    }
    let taker = RequestQueue { store: store.clone() };
    let call = || {
        store.call(|object| object.call_method1(intern!(object.py(), "_serve_requests"), (taker,)).map(drop))
    };
    if let Err(error) = guarded(call) {
        store.asked.take().iter().for_each(|asked| asked.finish(Err(error.clone())));
    }
}

/// The queued requests of a store. A call takes them.
#[pyclass(frozen, module = "tessarr._engine")]
struct RequestQueue {
    store: Arc<PyForeign>,
}

#[pymethods]
impl RequestQueue {
    /// Take all queued requests.
    fn __call__(&self) -> Vec<OpenRequest> {
        self.store.wanted()
    }
}

/// A request to open a value, which the store completes.
#[pyclass(frozen, module = "tessarr._engine")]
pub(crate) struct OpenRequest {
    store: Arc<PyForeign>,
    #[pyo3(get)]
    key: String,
    opening: Opening,
    told: Mutex<Option<Completion>>,
}

impl OpenRequest {
    fn lock(&self) -> MutexGuard<'_, Option<Completion>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_active(&self) -> bool {
        self.lock().as_ref().is_some_and(Completion::is_active)
    }

    fn finish(&self, opened: OpenResult) {
        let told = self.lock().take();
        if let Some(told) = told {
            told.complete(opened);
        }
    }

    /// Complete the request. Return the next requests, which no other thread takes.
    fn complete_by_store(&self, opened: OpenResult) -> Vec<OpenRequest> {
        let before = COMPLETING.replace(Arc::as_ptr(&self.store));
        let told = || {
            self.finish(opened);
            Ok(())
        };
        let _ = guarded(told); // the panic hook reports a panic
        COMPLETING.set(before);
        self.store.wanted()
    }
}

#[pymethods]
impl OpenRequest {
    /// The method of the store that opens the value.
    #[getter]
    fn method(&self) -> &'static str {
        self.opening.method
    }

    /// The offset of the bytes to read at once, for methods with an offset.
    #[getter]
    fn offset(&self) -> Option<u64> {
        self.opening.from
    }

    /// The number of bytes to read at once; None: all, or the store's choice.
    #[getter]
    fn count(&self) -> Option<u64> {
        self.opening.count
    }

    /// Complete the request with an open value, or None for a missing key. Return the next
    /// requests.
    fn complete(&self, value: &Bound<'_, PyAny>) -> Vec<OpenRequest> {
        let open = || {
            let opened = self.store.opened(&self.key, value, &self.opening);
            opened.map_err(|raised| foreign(value.py(), raised))
        };
        self.complete_by_store(guarded(open))
    }

    /// Fail the request with an exception. Return the next requests.
    fn fail(&self, error: Bound<'_, PyAny>) -> Vec<OpenRequest> {
        let py = error.py();
        self.complete_by_store(Err(foreign(py, PyErr::from_value(error))))
    }
}
