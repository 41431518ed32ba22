//! What is had from Python once.

use std::convert::Infallible;
use std::sync::OnceLock;

use pyo3::prelude::*;
use pyo3::PyTypeCheck;

/// What is made once, with the GIL held; of what several threads make at the same time one stays.
///
/// `PyOnceLock` has all others wait for who makes it, who lets the GIL go meanwhile: in a child that is forked
/// then, that thread does not exist, and whoever needs the value waits for ever.
pub(crate) struct OnceCell<T>(OnceLock<T>);

impl<T> OnceCell<T> {
    pub(crate) const fn new() -> Self {
        OnceCell(OnceLock::new())
    }

    pub(crate) fn get(&self, _: Python<'_>) -> Option<&T> {
        self.0.get()
    }

    pub(crate) fn get_or_init(&self, py: Python<'_>, make: impl FnOnce() -> T) -> &T {
        match self.get_or_try_init(py, || Ok::<_, Infallible>(make())) {
            Ok(value) => value,
            Err(never) => match never {},
        }
    }

    pub(crate) fn get_or_try_init<E>(
        &self,
        _: Python<'_>,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<&T, E> {
        if let Some(value) = self.0.get() {
            return Ok(value);
        }
        // It is made before the cell is locked, and the GIL is held while that is.
        let made = make()?;
        Ok(self.0.get_or_init(|| made))
    }
}

impl<T: PyTypeCheck> OnceCell<Py<T>> {
    /// What a module has by this name.
    pub(crate) fn import<'py>(&self, py: Python<'py>, module: &str, name: &str) -> PyResult<&Bound<'py, T>> {
        let found = || Ok::<_, PyErr>(py.import(module)?.getattr(name)?.cast_into()?.unbind());
        self.get_or_try_init(py, found).map(|found| found.bind(py))
    }
}

/// As the macro of PyO3: a string of Python that is made once.
macro_rules! intern {
    ($py:expr, $text:expr) => {{
        static TEXT: $crate::runtime::once_cell::OnceCell<pyo3::Py<pyo3::types::PyString>> =
            $crate::runtime::once_cell::OnceCell::new();
        TEXT.get_or_init($py, || pyo3::types::PyString::intern($py, $text).unbind()).bind($py)
    }};
}
pub(crate) use intern;
