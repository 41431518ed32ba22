//! Boolean arguments.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::runtime::safe_repr::safe_repr;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(as_bool, module)?)
}

/// Return the truth value of None, a boolean, a number or a NumPy scalar. Strings and sequences
/// raise a TypeError, which names the argument.
#[pyfunction]
pub(crate) fn as_bool(value: &Bound<'_, PyAny>, name: &str) -> PyResult<bool> {
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(value.is_true());
    }
    if value.is_none() {
        return Ok(false); // the most common argument
    }
    if value.get_type().hasattr("__bool__")? {
        if let Ok(found) = value.is_truthy() {
            return Ok(found); // arrays of several items raise an error
        }
    }
    Err(PyTypeError::new_err(format!("{name}: {} is not a boolean", safe_repr(value))))
}
