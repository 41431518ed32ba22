//! `OnceCell`: a value that is computed once, with the GIL held and safe across forks.

use std::convert::Infallible;
use std::sync::OnceLock;

use pyo3::prelude::*;

/// A value that is computed once, with the GIL held. If several threads compute it at the same
/// time, one result stays.
///
/// `PyOnceLock` makes the other threads wait for the first one, which may release the GIL. If the
/// process forks then, that thread does not exist in the child, and the wait never ends.
pub(crate) struct OnceCell<T>(OnceLock<T>);

impl<T> OnceCell<T> {
    pub(crate) const fn new() -> Self {
        OnceCell(OnceLock::new())
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
        // This computes the value before it locks the cell, and it holds the GIL while the cell is
        // locked.
        let made = make()?;
        Ok(self.0.get_or_init(|| made))
    }
}

/// An interned Python string, like PyO3's macro of this name.
macro_rules! intern {
    ($py:expr, $text:expr) => {{
        static TEXT: $crate::runtime::once_cell::OnceCell<pyo3::Py<pyo3::types::PyString>> =
            $crate::runtime::once_cell::OnceCell::new();
        TEXT.get_or_init($py, || pyo3::types::PyString::intern($py, $text).unbind()).bind($py)
    }};
}
pub(crate) use intern;
