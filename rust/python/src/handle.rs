//! `HandleBase`: the base class of TensorStore's handles.

use std::sync::OnceLock;

use crate::runtime::once_cell::intern;
use pyo3::prelude::*;
use pyo3::types::PyType;
use pyo3::{PyTraverseError, PyVisit};

use crate::index_space::{transforms, TransformBase, View};
use crate::kvstore::{KvStoreBase, KvStoreCopier};
use crate::runtime::subclass::new_instance;

/// Base of `TensorStore`: the array, the view of it and the access mode.
///
/// The method `_kvstore` of the subclass returns the key-value store of the array, or None.
#[pyclass(subclass, weakref, frozen, module = "tessarr._engine")]
pub(crate) struct HandleBase {
    #[pyo3(get, name = "_driver")]
    driver: Py<PyAny>,
    seen: Py<View>,
    /// The transform of the view, created on first access, because many handles are only indexed
    /// further.
    view: OnceLock<Py<TransformBase>>,
    #[pyo3(get, name = "_mode")]
    mode: Py<PyAny>,
    #[pyo3(get, name = "_transaction")]
    transaction: Py<PyAny>,
    kvstore: OnceLock<KvStoreCopier>,
}

#[pymethods]
impl HandleBase {
    /// Return a new instance of a subclass; `view` is a `View` or a transform.
    #[staticmethod]
    fn _create<'py>(
        class: &Bound<'py, PyType>,
        driver: Py<PyAny>,
        view: &Bound<'py, PyAny>,
        mode: Py<PyAny>,
        transaction: Py<PyAny>,
    ) -> PyResult<Bound<'py, Self>> {
        let (seen, view) = match view.cast::<View>() {
            Ok(seen) => (seen.clone().unbind(), OnceLock::new()),
            Err(_) => {
                let placed = view.cast::<TransformBase>()?;
                let seen = placed.get()._as_view(class.py())?.clone().unbind();
                (seen, OnceLock::from(placed.clone().unbind()))
            }
        };
        let kvstore = OnceLock::new();
        new_instance(class, HandleBase { driver, seen, view, mode, transaction, kvstore })
    }

    /// Return the view that index operations apply to.
    fn _as_view<'a>(&'a self, py: Python<'a>) -> &'a Bound<'a, View> {
        self.seen.bind(py)
    }

    /// The view, as a transform.
    #[getter]
    fn _view<'a>(&'a self, py: Python<'a>) -> PyResult<&'a Bound<'a, TransformBase>> {
        if let Some(view) = self.view.get() {
            return Ok(view.bind(py));
        }
        let made = new_instance(transforms(py)?, TransformBase::from(self.seen.clone_ref(py)))?;
        Ok(self.view.get_or_init(|| made.unbind()).bind(py))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        for one in [&self.driver, &self.transaction] {
            visit.call(one)?;
        }
        if let Some(view) = self.view.get() {
            visit.call(view)?;
        }
        self.kvstore.get().map_or(Ok(()), |master| master.traverse(&visit))
    }

    /// The key-value store of the array, or None.
    ///
    /// Examples
    /// --------
    /// >>> import tessarr.tensorstore as ts
    /// >>> spec = {"driver": "zarr3", "kvstore": "memory://a/"}
    /// >>> store = ts.open(spec, create=True, dtype=ts.int8, shape=[4]).result()
    /// >>> store.kvstore.url, store.kvstore.list().result()
    /// ('memory://a/', [b'zarr.json'])
    #[getter]
    fn kvstore<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, KvStoreBase>>> {
        let (py, kept) = (slf.py(), &slf.get().kvstore);
        if let Some(master) = kept.get() {
            return master.copy(py).map(Some);
        }
        let found = slf.call_method0(intern!(py, "_kvstore"))?;
        if found.is_none() {
            return Ok(None);
        }
        let master = KvStoreCopier::of(found.cast()?);
        kept.get_or_init(|| master).copy(py).map(Some)
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<HandleBase>()
}
