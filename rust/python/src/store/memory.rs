//! `MemoryStore`: values in memory.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMapping, PyTuple, PyType};
use tessarr_engine::store as engine;
use tessarr_engine::{Error, Kind};

use super::{bytes_of, initializer, Store};
use crate::runtime::error::to_py;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<MemoryStore>()?;
    module.add_function(wrap_pyfunction!(unpickle_memory_store, module)?)
}

/// A store in memory.
#[pyclass(extends = Store, subclass, frozen, module = "tessarr._engine")]
pub(crate) struct MemoryStore {
    store: Arc<engine::MemoryStore>,
    name: Option<String>,
}

#[pymethods]
impl MemoryStore {
    #[new]
    #[pyo3(signature = (items = None, *, name = None, any_keys = false))]
    fn new(
        py: Python<'_>,
        items: Option<&Bound<'_, PyAny>>,
        name: Option<String>,
        any_keys: bool,
    ) -> PyResult<PyClassInitializer<Self>> {
        let keys = if any_keys { engine::KeySyntax::Texts } else { engine::KeySyntax::Paths };
        let store = match &name {
            None => Arc::new(engine::MemoryStore::of(keys)),
            Some(name) => py.detach(|| engine::MemoryStore::named(name)),
        };
        let had = (&*store as &dyn engine::Store).keys();
        if had != keys {
            let message = "any_keys: what is shared by a name has the keys that every store has";
            return Err(to_py(py, Error::new(Kind::Argument, message)));
        }
        if let Some(items) = items {
            for item in items.cast::<PyMapping>()?.items()?.iter() {
                let (key, data) = item.extract::<(String, Bound<'_, PyAny>)>()?;
                let data = bytes_of(&data)?;
                let put = py.detach(|| (&*store as &dyn engine::Store).put(&key, &data));
                put.map_err(|error| to_py(py, error))?;
            }
        }
        Ok(initializer(MemoryStore { store: store.clone(), name }, store))
    }

    /// The name under which the process shares the store; None without a name.
    #[getter]
    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether any text is a key.
    #[getter]
    fn any_keys(&self) -> bool {
        (&*self.store as &dyn engine::Store).keys() == engine::KeySyntax::Texts
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<MemoryStore>().is_ok_and(|other| Arc::ptr_eq(&self.store, &other.get().store))
    }

    fn __hash__(&self) -> usize {
        Arc::as_ptr(&self.store) as usize >> 4
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let py = slf.py();
        let this = slf.get();
        let class = slf.get_type();
        if let Some(name) = &this.name {
            let rebuild = py.import("tessarr._engine")?.getattr("unpickle_memory_store")?;
            return Ok((rebuild, (class, name, std::process::id()).into_pyobject(py)?));
        }
        let items = PyDict::new(py);
        let store: &dyn engine::Store = &*this.store;
        for key in py.detach(|| store.list("")).map_err(|error| to_py(py, error))? {
            let opened = store.open(&key, engine::ReadHint::Whole).map_err(|error| to_py(py, error))?;
            if let Some(object) = opened {
                items.set_item(&key, PyBytes::new(py, object.bytes().unwrap_or_default()))?;
            }
        }
        if !this.any_keys() {
            return Ok((class.into_any(), (items,).into_pyobject(py)?));
        }
        let keywords = PyDict::new(py);
        keywords.set_item("any_keys", true)?;
        let rebuild = py.import("functools")?.getattr("partial")?.call((class,), Some(&keywords))?;
        Ok((rebuild, (items,).into_pyobject(py)?))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(match &self.name {
            None if self.any_keys() => "MemoryStore(any_keys=True)".to_owned(),
            None => "MemoryStore()".to_owned(),
            Some(name) => format!("MemoryStore(name={})", name.into_pyobject(py)?.repr()?),
        })
    }
}

/// Return the memory store `name` of `class`, or an error if the current process is not `process`.
#[pyfunction]
#[pyo3(signature = (class, name, process, /))]
fn unpickle_memory_store<'py>(
    class: &Bound<'py, PyType>,
    name: &str,
    process: u32,
) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    let here = std::process::id();
    if process != here {
        let message = format!(
            "the memory store {name:?} lives in process {process}, this is process {here}; \
             use a folder, or a memory store without a name, whose pickle holds its contents"
        );
        return Err(to_py(py, Error::store(false, message)));
    }
    let options = PyDict::new(py);
    options.set_item("name", name)?;
    class.call((), Some(&options))
}
