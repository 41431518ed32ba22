//! `TransactionBase`: the state of a transaction, and the stores that stage its changes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::runtime::once_cell::intern;
use crate::runtime::once_cell::OnceCell;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyType};
use pyo3::{PyTraverseError, PyVisit};
use tessarr_engine::{pool, store as engine};

use crate::runtime::bool_arg::as_bool;
use crate::runtime::error::{argument, to_py};
use crate::runtime::safe_repr::safe_repr;
use crate::store::memory::MemoryStore;
use crate::store::StagedStore;
use crate::store::Store;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<TransactionBase>()?;
    module.add_function(wrap_pyfunction!(replace_transaction, module)?)
}

/// Return `new` as the replacement of a transaction; None stands for no transaction. Raise an error
/// if the old one is not committed, because its staged changes would be missing.
#[pyfunction]
pub(crate) fn replace_transaction<'py>(
    old: Option<Py<TransactionBase>>,
    new: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, TransactionBase>>> {
    let py = new.py();
    let new = match new.cast::<TransactionBase>() {
        Ok(transaction) => Some(transaction.clone()),
        Err(_) if new.is_none() => None,
        Err(_) => {
            return Err(PyTypeError::new_err(format!("transaction: {} is no Transaction", safe_repr(new))))
        }
    };
    if old.is_some_and(|old| old.get().progress().committed != Some(true)) {
        let message = "it takes part in a transaction that is not committed yet";
        return Err(argument(py, message));
    }
    Ok(new)
}

#[derive(Default)]
struct Progress {
    committed: Option<bool>,
    sealed: bool,
    ended: bool,
    mixed: bool,
}

/// Base of `Transaction`: its state and the stores that stage its changes.
///
/// This class stages and commits keys in memory, as long as nothing else takes part and no thread
/// waits for the end. Otherwise this class or the subclass holds `_lock`, and the subclass does the
/// work. Its methods `commit_sync` and `abort` end the transaction, `_end` completes an end, and
/// `_set_result` completes the future.
#[pyclass(subclass, frozen, module = "tessarr._engine")]
pub(crate) struct TransactionBase {
    #[pyo3(get, name = "_atomic")]
    atomic: bool,
    #[pyo3(get, name = "_repeatable")]
    repeatable: bool,
    /// The staging stores, by the stores that they change.
    #[pyo3(get, name = "_stages")]
    stages: Py<PyDict>,
    lock: OnceCell<Py<PyAny>>,
    progress: Mutex<Progress>,
}

impl TransactionBase {
    /// Return the state. No Python code runs while it is locked.
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Return the store that stages changes of `store`; None: the subclass decides.
    pub(crate) fn stage<'py>(
        slf: &Bound<'py, Self>,
        store: &Bound<'py, Store>,
    ) -> PyResult<Option<Bound<'py, Store>>> {
        let (py, this) = (slf.py(), slf.get());
        let is_open = || {
            let progress = this.progress();
            progress.committed.is_none() && !progress.mixed
        };
        if !is_open() {
            return Ok(None);
        }
        let stages = this.stages.bind(py);
        let known = if stages.is_empty() { None } else { stages.get_item(store)? };
        let stage = match known {
            Some(stage) => stage,
            None if store.is_instance_of::<MemoryStore>() => {
                static CLASS: OnceCell<Py<PyType>> = OnceCell::new();
                let class = CLASS.import(py, "tessarr.store.wrappers.staged", "StagedStore")?;
                let made = class.call1((store, this.repeatable, slf))?;
                stages.call_method1(intern!(py, "setdefault"), (store, made))?
            }
            None => return Ok(None),
        };
        // A thread that ends the transaction after this check also ends the new stage.
        Ok(if is_open() { Some(stage.cast_into()?) } else { None })
    }

    /// Commit staging stores, one after another. Return false if a store rejects its changes.
    fn commit_stages(&self, stages: &Bound<'_, PyList>) -> PyResult<bool> {
        for stage in stages {
            let staged = stage.cast::<StagedStore>()?.get();
            let done = || pool::guarded(|| staged.engine().commit(self.atomic, &|_, _| Ok(None)));
            match stage.py().detach(done) {
                Ok(engine::CommitOutcome::Done) => {}
                Ok(_) => return Ok(false),
                Err(error) => return Err(to_py(stage.py(), error)),
            }
        }
        Ok(true)
    }
}

#[pymethods]
impl TransactionBase {
    #[new]
    #[pyo3(
        signature = (atomic = None, repeatable_read = None),
        text_signature = "(atomic=False, repeatable_read=False)"
    )]
    fn new(
        py: Python<'_>,
        atomic: Option<&Bound<'_, PyAny>>,
        repeatable_read: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let is_set =
            |flag: Option<&Bound<'_, PyAny>>, name| flag.map_or(Ok(false), |flag| as_bool(flag, name));
        Ok(TransactionBase {
            atomic: is_set(atomic, "atomic")?,
            repeatable: is_set(repeatable_read, "repeatable_read")?,
            stages: PyDict::new(py).unbind(),
            lock: OnceCell::new(),
            progress: Mutex::default(),
        })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.stages)
    }

    /// The lock for a check of the state and a change that depends on it.
    #[getter]
    fn _lock<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyAny>> {
        static CLASS: OnceCell<Py<PyType>> = OnceCell::new();
        let new = || Ok::<_, PyErr>(CLASS.import(py, "_thread", "RLock")?.call0()?.unbind());
        Ok(self.lock.get_or_try_init(py, new)?.bind(py))
    }

    /// Whether the transaction is committed or aborted; None: it is open.
    #[getter]
    fn _committed(&self) -> Option<bool> {
        self.progress().committed
    }

    /// Close the transaction as committed or aborted. Return false if it was not open.
    fn _close(&self, committed: bool) -> bool {
        let mut progress = self.progress();
        let open = progress.committed.is_none();
        if open {
            progress.committed = Some(committed);
        }
        open
    }

    /// Whether no more stores can take part.
    #[getter]
    fn _sealed(&self) -> bool {
        self.progress().sealed
    }

    /// Whether the commit or the abort is complete.
    #[getter]
    fn _ended(&self) -> bool {
        self.progress().ended
    }

    /// Whether arrays take part, or a commit changes keys again.
    #[getter]
    fn _mixed(&self) -> bool {
        self.progress().mixed
    }

    #[setter(_sealed)]
    fn set_sealed(&self, sealed: bool) {
        self.progress().sealed = sealed;
    }

    #[setter(_ended)]
    fn set_ended(&self, ended: bool) {
        self.progress().ended = ended;
    }

    #[setter(_mixed)]
    fn set_mixed(&self, mixed: bool) {
        self.progress().mixed = mixed;
    }

    /// Commit if only keys in memory are staged and no thread waits for the end. Return false if
    /// the subclass has to commit, or to report the error.
    fn _commit_in_memory(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let (py, this) = (slf.py(), slf.get());
        let stages = this.stages.bind(py).values();
        if this.lock.get(py).is_some() || (this.atomic && stages.len() > 1) || !this._close(true) {
            return Ok(false);
        }
        this.set_sealed(true);
        let done = this.commit_stages(&stages);
        if matches!(done, Ok(true)) && this.lock.get(py).is_none() {
            this.set_ended(true);
            this.stages.bind(py).clear();
            return Ok(true);
        }
        // Another thread may have started to wait for the end since the check.
        if let Err(interrupted) = done.and_then(|_| slf.call_method0("_end")) {
            slf.call_method0("_resume")?;
            return Err(interrupted);
        }
        Ok(false)
    }

    fn __enter__<'py>(slf: Bound<'py, Self>) -> Bound<'py, Self> {
        slf
    }

    /// Commit the transaction, or abort it after an error.
    fn __exit__(
        slf: &Bound<'_, Self>,
        kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _where: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if !kind.is_none() {
            slf.call_method0("abort")?;
        } else if !TransactionBase::_commit_in_memory(slf)? {
            slf.call_method0("commit_sync")?;
        }
        Ok(())
    }
}
