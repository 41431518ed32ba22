//! Bounded, safe representations of Python objects for messages.

use crate::runtime::once_cell::intern;
use crate::runtime::once_cell::OnceCell;
use pyo3::prelude::*;

/// Return the representation of a value by `tessarr._safe_repr`. Python's `repr` may be long, or
/// raise an exception in place of the error to report.
pub(crate) fn safe_repr(value: &Bound<'_, PyAny>) -> String {
    static MODULE: OnceCell<Py<PyModule>> = OnceCell::new();
    let py = value.py();
    let told = || {
        let module = MODULE.get_or_try_init(py, || py.import("tessarr._safe_repr").map(Bound::unbind))?;
        module.bind(py).call_method1(intern!(py, "safe_repr"), (value,))?.extract::<String>()
    };
    // `safe_repr` fails only if memory is exhausted or the program ends.
    told().unwrap_or_else(|_| "a value".to_owned())
}
