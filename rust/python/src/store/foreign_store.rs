//! `ForeignStore`: a store that a Python object implements.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tessarr_engine::store as engine;

use super::foreign::PyForeign;
use super::{initializer, Store};

/// A store that a Python object implements.
#[pyclass(extends = Store, subclass, frozen, module = "tessarr._engine")]
pub(crate) struct ForeignStore(Arc<engine::ForeignStore<PyForeign>>);

#[pymethods]
impl ForeignStore {
    #[new]
    #[pyo3(signature = (object, *, read_only = false, any_keys = false))]
    fn new(object: &Bound<'_, PyAny>, read_only: bool, any_keys: bool) -> PyResult<PyClassInitializer<Self>> {
        let (foreign, changeable) = PyForeign::new(object, read_only)?;
        let identity = object.as_ptr() as usize;
        let keys = if any_keys { engine::KeySyntax::Texts } else { engine::KeySyntax::Paths };
        let store = engine::ForeignStore::new(foreign, read_only || !changeable, identity).of(keys);
        let store = Arc::new(store);
        Ok(initializer(ForeignStore(store.clone()), store))
    }

    /// The Python object.
    #[getter]
    fn object(&self, py: Python<'_>) -> Py<PyAny> {
        self.0.foreign().object().clone_ref(py)
    }

    /// Whether any text is a key.
    #[getter]
    fn any_keys(&self) -> bool {
        engine::Store::keys(&*self.0) == engine::KeySyntax::Texts
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = other.py();
        let Ok(other) = other.cast::<ForeignStore>() else { return Ok(false) };
        let (here, there) = (&self.0, &other.get().0);
        if engine::Store::read_only(&**here) != engine::Store::read_only(&**there) {
            return Ok(false);
        }
        let (mine, theirs) = (here.foreign().object(), there.foreign().object());
        // `==` compares the contents of mappings; this compares their identity.
        let by_identity = here.foreign().is_mapping() || there.foreign().is_mapping();
        if mine.is(theirs) || by_identity {
            return Ok(mine.is(theirs));
        }
        mine.bind(py).eq(theirs)
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        let foreign = self.0.foreign();
        if foreign.is_mapping() {
            return Ok((foreign.object().as_ptr() as isize) >> 4);
        }
        foreign.object().bind(py).hash()
    }

    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<((Py<PyAny>,), Bound<'py, PyDict>)> {
        let options = PyDict::new(py);
        options.set_item("read_only", engine::Store::read_only(&*self.0))?;
        options.set_item("any_keys", self.any_keys())?;
        Ok(((self.object(py),), options))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        // The repr of the object may be long: a dict shows every chunk.
        let class = self.0.foreign().object().bind(py).get_type();
        let read_only = if engine::Store::read_only(&*self.0) { ", read_only=True" } else { "" };
        Ok(format!("ForeignStore(<{}>{read_only})", class.fully_qualified_name()?))
    }
}
