//! `LocalStore`: values in files.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::PyUnicodeEncodeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tessarr_engine::store as engine;

use super::wrappers::duration;
use super::{initializer, Store};
use crate::runtime::error::{argument, to_py};
use crate::runtime::safe_repr::safe_repr;

/// A store in a folder: the file ``path/key`` holds the value of ``key``.
#[pyclass(extends = Store, subclass, frozen, eq, hash, module = "tessarr._engine")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct LocalStore(Arc<engine::LocalStore>);

#[pymethods]
impl LocalStore {
    #[new]
    #[pyo3(signature = (
        path, *, read_only = false, durable = false, reading = "default", locking = "os", lock_timeout_s = 60.0
    ))]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = folder)] path: PathBuf,
        read_only: bool,
        durable: bool,
        reading: &str,
        locking: &str,
        lock_timeout_s: f64,
    ) -> PyResult<PyClassInitializer<Self>> {
        let settings = engine::Settings {
            read_only,
            durable,
            read_mode: named(py, "reading", &READINGS, reading)?,
            locking: named(py, "locking", &LOCKINGS, locking)?,
            timeout: duration(py, "lock_timeout_s", lock_timeout_s)?,
        };
        let store = engine::LocalStore::new(&path, settings);
        let store = Arc::new(store.map_err(|error| to_py(py, error))?);
        Ok(initializer(LocalStore(store.clone()), store))
    }

    /// The absolute path of the folder.
    #[getter]
    fn path(&self) -> &std::ffi::OsStr {
        self.0.root().as_os_str()
    }

    /// Whether changes are synchronised with the disk.
    #[getter]
    fn durable(&self) -> bool {
        self.0.settings().durable
    }

    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<((&std::ffi::OsStr,), Bound<'py, PyDict>)> {
        Ok(((self.path(),), options(py, self.0.settings())?))
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let (py, this) = (slf.py(), slf.get());
        let mut text = format!("{}({}", slf.get_type().name()?, this.path().into_pyobject(py)?.repr()?);
        for (name, value) in options(py, this.0.settings())? {
            text.push_str(&format!(", {name}={}", value.repr()?));
        }
        Ok(text + ")")
    }
}

/// Return a path that the file system can encode.
fn folder(object: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    let py = object.py();
    object.extract().map_err(|error: PyErr| match error.is_instance_of::<PyUnicodeEncodeError>(py) {
        true => argument(py, format!("{} is not a path: it cannot be encoded", safe_repr(object))),
        false => error,
    })
}

/// Return the keywords of `settings` that differ from the defaults.
fn options<'py>(py: Python<'py>, settings: &engine::Settings) -> PyResult<Bound<'py, PyDict>> {
    let (options, plain) = (PyDict::new(py), engine::Settings::default());
    if settings.read_only != plain.read_only {
        options.set_item("read_only", settings.read_only)?;
    }
    if settings.durable != plain.durable {
        options.set_item("durable", settings.durable)?;
    }
    if settings.read_mode != plain.read_mode {
        options.set_item("reading", name_of(&READINGS, settings.read_mode))?;
    }
    if settings.locking != plain.locking {
        options.set_item("locking", name_of(&LOCKINGS, settings.locking))?;
    }
    if settings.timeout != plain.timeout {
        let endless = settings.timeout == Duration::MAX;
        let patience_s = if endless { f64::INFINITY } else { settings.timeout.as_secs_f64() };
        options.set_item("lock_timeout_s", patience_s)?;
    }
    Ok(options)
}

/// The names of the options, as in TensorStore.
const READINGS: [(&str, engine::ReadMode); 3] = [
    ("default", engine::ReadMode::Plain),
    ("memmap", engine::ReadMode::Mapped),
    ("direct", engine::ReadMode::Direct),
];
const LOCKINGS: [(&str, engine::Locking); 4] = [
    ("os", engine::Locking::System),
    ("lockfile", engine::Locking::File),
    ("none", engine::Locking::Nothing),
    ("non_atomic", engine::Locking::InPlace),
];

/// Return the option with the name `word`.
fn named<T: Copy>(py: Python<'_>, what: &str, words: &[(&str, T)], word: &str) -> PyResult<T> {
    let found = words.iter().find(|(name, _)| *name == word);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<String> = words.iter().map(|(name, _)| format!("{name:?}")).collect();
        argument(py, format!("{what} must be one of {}, not {word:?}", names.join(", ")))
    })
}

/// Return the name of an option.
fn name_of<T: PartialEq>(words: &[(&'static str, T)], value: T) -> &'static str {
    words.iter().find(|(_, other)| *other == value).map_or("", |(name, _)| name)
}
