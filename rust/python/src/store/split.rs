//! `SplitStore`: metadata documents in one store, chunks in another.

use std::sync::Arc;

use pyo3::prelude::*;
use tessarr_engine::store as engine;

use super::{initializer, Store};

/// A store that keeps metadata documents in one store, and all other values in another.
#[pyclass(extends = Store, subclass, frozen, module = "tessarr._engine")]
pub(crate) struct SplitStore {
    metadata: Py<Store>,
    chunks: Py<Store>,
    single_node: bool,
}

#[pymethods]
impl SplitStore {
    #[new]
    #[pyo3(signature = (metadata, chunks, single_node=false))]
    fn new(
        metadata: &Bound<'_, Store>,
        chunks: &Bound<'_, Store>,
        single_node: bool,
    ) -> PyClassInitializer<Self> {
        let split = engine::SplitStore::new(metadata.get().engine(), chunks.get().engine(), single_node);
        let (metadata, chunks) = (metadata.clone().unbind(), chunks.clone().unbind());
        initializer(SplitStore { metadata, chunks, single_node }, Arc::new(split))
    }

    /// The store of metadata documents.
    #[getter]
    fn metadata(&self, py: Python<'_>) -> Py<Store> {
        self.metadata.clone_ref(py)
    }

    /// The store of chunks.
    #[getter]
    fn chunks(&self, py: Python<'_>) -> Py<Store> {
        self.chunks.clone_ref(py)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = other.py();
        let Ok(other) = other.cast::<SplitStore>() else { return Ok(false) };
        let same = |here: &Py<Store>, there: &Py<Store>| here.bind(py).eq(there);
        Ok(same(&self.metadata, &other.get().metadata)? && same(&self.chunks, &other.get().chunks)?)
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        (self.metadata(py), self.chunks(py)).into_pyobject(py)?.hash()
    }

    fn __getnewargs__(&self, py: Python<'_>) -> (Py<Store>, Py<Store>, bool) {
        (self.metadata(py), self.chunks(py), self.single_node)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("SplitStore({}, {})", self.metadata.bind(py).repr()?, self.chunks.bind(py).repr()?))
    }
}
