//! `CountingStore`: request counts of a store.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};
use tessarr_engine::store as engine;

use super::{initializer, Store};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<CountingStore>()?;
    module.add_function(wrap_pyfunction!(count_local_requests, module)?)
}

/// A wrapper that counts requests.
#[pyclass(extends = Store, subclass, frozen, module = "tessarr._engine")]
pub(crate) struct CountingStore {
    counting: Arc<engine::CountingStore>,
    store: Py<Store>,
}

#[pymethods]
impl CountingStore {
    #[new]
    fn new(store: &Bound<'_, Store>) -> PyClassInitializer<Self> {
        let counting = Arc::new(engine::CountingStore::new(store.get().engine()));
        let store = store.clone().unbind();
        initializer(CountingStore { counting: counting.clone(), store }, counting)
    }

    /// The wrapped store.
    #[getter]
    fn store(&self, py: Python<'_>) -> Py<Store> {
        self.store.clone_ref(py)
    }

    fn __getnewargs__(&self, py: Python<'_>) -> (Py<Store>,) {
        (self.store(py),)
    }

    fn __repr__(&self) -> String {
        let counts = self.counting.counts();
        format!("CountingStore(opens={}, updates={}, lists={})", counts.opens, counts.updates, counts.lists)
    }

    /// Return the numbers of requests: opens, reads, read_bytes, updates, looks (opens for a change
    /// of a value) and look_reads, written_bytes, holds, lists, delete_prefixes.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        counts_to_dict(py, self.counting.counts())
    }
}

fn counts_to_dict(py: Python<'_>, counts: engine::Counts) -> PyResult<Bound<'_, PyDict>> {
    let fields = [
        ("opens", counts.opens),
        ("reads", counts.reads),
        ("read_bytes", counts.read_bytes),
        ("updates", counts.updates),
        ("looks", counts.looks),
        ("look_reads", counts.look_reads),
        ("holds", counts.holds),
        ("written_bytes", counts.written_bytes),
        ("lists", counts.lists),
        ("delete_prefixes", counts.delete_prefixes),
    ];
    fields.into_py_dict(py)
}

/// Return the numbers of requests of all local stores of this process, as in
/// `CountingStore.counts`.
#[pyfunction]
fn count_local_requests(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    counts_to_dict(py, engine::local_counts())
}
