//! `Unit`: what one step along a dimension is, as a value of Python.

use crate::once::intern;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::error::argument;
use crate::safe_repr::safe_repr;
use crate::subclass::{attributes, pickled, set_attributes, Pickled};

/// A physical unit: a multiplier, and the name of a base unit.
///
/// ``Unit("4nm")``, ``Unit(4, "nm")`` or ``Unit(multiplier=4, base_unit="nm")``,
/// ``Unit((4, "nm"))``, ``Unit(4)`` for one without dimension, or ``Unit(json=[4, "nm"])``.
///
/// Raises
/// ------
/// ArgumentError
///     If the JSON is not that of a unit.
///
/// Examples
/// --------
/// >>> Unit("3.5 nm") * 2, str(Unit(4, "nm")), Unit("4nm").to_json()
/// (Unit(7, "nm"), '4 nm', [4.0, 'nm'])
#[pyclass(subclass, weakref, eq, module = "tessarr._engine")]
#[derive(PartialEq)]
pub(crate) struct Unit {
    multiplier: f64,
    base_unit: String,
}

/// What is pickled: the multiplier, the base unit, and what Python keeps in the object.
type State<'py> = (f64, String, Option<Bound<'py, PyDict>>);

/// What was given, None included; nothing where an argument was left out.
#[derive(Default)]
struct Given<'py>(Option<Bound<'py, PyAny>>);

impl<'a, 'py> FromPyObject<'a, 'py> for Given<'py> {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Given(Some(value.to_owned())))
    }
}

#[pymethods]
impl Unit {
    /// The number one: `__init__` says what it is, also for classes that derive from this one and are given
    /// something else.
    #[new]
    #[pyo3(
        signature = (*_arguments, **_keywords),
        text_signature = "(unit=..., base_unit=..., *, multiplier=..., json=...)"
    )]
    fn new(_arguments: &Bound<'_, PyTuple>, _keywords: Option<&Bound<'_, PyDict>>) -> Unit {
        Unit::of(1.0)
    }

    #[pyo3(signature = (unit = Given(None), base_unit = Given(None), *, multiplier = Given(None), json = Given(None)))]
    fn __init__<'py>(
        slf: &Bound<'py, Self>,
        unit: Given<'py>,
        base_unit: Given<'py>,
        multiplier: Given<'py>,
        json: Given<'py>,
    ) -> PyResult<()> {
        let given = match (unit.0, multiplier.0) {
            (Some(_), Some(_)) => return Err(PyTypeError::new_err("give one multiplier")),
            (None, Some(multiplier)) => number(&multiplier).map(|_| Some(multiplier))?,
            (unit, None) => unit,
        };
        let unit = match (json.0, given, base_unit.0) {
            (Some(json), None, None) => stated(&json)?,
            (Some(_), ..) => return Err(PyTypeError::new_err("JSON says all of a unit")),
            (_, None, Some(_)) => {
                return Err(PyTypeError::new_err("a base unit stands after a multiplier, or alone"))
            }
            (_, Some(multiplier), Some(base)) => pair(&multiplier, &base)?,
            (_, Some(given), None) => said(&given)?,
            (_, None, None) => Unit::of(1.0),
        };
        *slf.borrow_mut() = unit; // only now: numbers may have methods, which may look at this object
        Ok(())
    }

    /// What the base unit is multiplied with.
    ///
    /// Examples
    /// --------
    /// >>> Unit("4nm").multiplier
    /// 4.0
    #[getter]
    fn multiplier(&self) -> f64 {
        self.multiplier
    }

    /// The name of the base unit; "" where there is none.
    ///
    /// Examples
    /// --------
    /// >>> Unit("4nm").base_unit
    /// 'nm'
    #[getter]
    fn base_unit(&self) -> &str {
        &self.base_unit
    }

    /// The multiplier and the base unit.
    ///
    /// Examples
    /// --------
    /// >>> Unit("4nm").to_json()
    /// [4.0, 'nm']
    fn to_json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::new(py, [self.multiplier])?;
        list.append(&self.base_unit)?;
        Ok(list)
    }

    fn __mul__(slf: &Bound<'_, Self>, factor: &Bound<'_, PyAny>) -> PyResult<Unit> {
        let factor = number(factor)?; // which may change this object: it is borrowed only now
        let unit = slf.borrow();
        Ok(Unit { multiplier: unit.multiplier * factor, base_unit: unit.base_unit.clone() })
    }

    fn __truediv__(slf: &Bound<'_, Self>, divisor: &Bound<'_, PyAny>) -> PyResult<Unit> {
        let divisor = number(divisor)?;
        let by = if divisor == 0.0 { 0.0 } else { divisor }; // of a zero the sign does not count
        let unit = slf.borrow();
        Ok(Unit { multiplier: unit.multiplier / by, base_unit: unit.base_unit.clone() })
    }

    fn __str__(&self, py: Python<'_>) -> PyResult<String> {
        if self.base_unit.is_empty() {
            return self.digits(py);
        }
        if self.multiplier == 1.0 {
            return Ok(self.base_unit.clone());
        }
        Ok(format!("{} {}", self.digits(py)?, self.base_unit))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let quoted = self.base_unit.replace('\\', "\\\\").replace('"', "\\\"");
        Ok(format!("Unit({}, \"{quoted}\")", self.digits(py)?))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py, State<'py>>> {
        let kept = attributes(slf)?;
        let (multiplier, base_unit) = {
            let unit = slf.borrow();
            (unit.multiplier, unit.base_unit.clone())
        };
        pickled(slf, (multiplier, base_unit, kept))
    }

    fn __setstate__(slf: &Bound<'_, Self>, state: State<'_>) -> PyResult<()> {
        let (multiplier, base_unit, kept) = state;
        *slf.borrow_mut() = Unit { multiplier, base_unit };
        set_attributes(slf, kept.as_ref())
    }
}

impl Unit {
    /// A number, which is a unit without dimension.
    fn of(multiplier: f64) -> Unit {
        Unit { multiplier, base_unit: String::new() }
    }

    /// The multiplier as text, with six digits.
    fn digits(&self, py: Python<'_>) -> PyResult<String> {
        let small = self.multiplier.abs() < 1e6 && self.multiplier.fract() == 0.0;
        if small && !(self.multiplier == 0.0 && self.multiplier.is_sign_negative()) {
            return Ok((self.multiplier as i64).to_string());
        }
        let number = PyFloat::new(py, self.multiplier);
        number.call_method1(intern!(py, "__format__"), (intern!(py, ".6g"),))?.extract()
    }
}

/// The unit that text, a pair or a number says.
fn said(given: &Bound<'_, PyAny>) -> PyResult<Unit> {
    if let Some(text) = text_of(given)? {
        return Ok(parsed(&text));
    }
    if given.is_instance_of::<PyTuple>() || given.is_instance_of::<PyList>() {
        if given.len()? != 2 {
            return Err(PyTypeError::new_err(format!("{} is not a pair", safe_repr(given))));
        }
        return pair(&given.get_item(0)?, &given.get_item(1)?);
    }
    number(given).map(Unit::of)
}

/// The unit that JSON states.
fn stated(json: &Bound<'_, PyAny>) -> PyResult<Unit> {
    let is_number = |value: &Bound<'_, PyAny>| {
        let number = value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>();
        number && !value.is_instance_of::<PyBool>()
    };
    if is_number(json) || json.is_instance_of::<PyString>() {
        return said(json);
    }
    if (json.is_instance_of::<PyTuple>() || json.is_instance_of::<PyList>()) && json.len()? == 2 {
        let (multiplier, base) = (json.get_item(0)?, json.get_item(1)?);
        if is_number(&multiplier) && base.is_instance_of::<PyString>() {
            return pair(&multiplier, &base);
        }
    }
    let message = format!("{} is not a unit: give a string, or [multiplier, base]", safe_repr(json));
    Err(argument(json.py(), message))
}

fn pair(multiplier: &Bound<'_, PyAny>, base: &Bound<'_, PyAny>) -> PyResult<Unit> {
    let Some(base_unit) = text_of(base)? else {
        return Err(PyTypeError::new_err(format!("the base unit {} is not a string", safe_repr(base))));
    };
    Ok(Unit { multiplier: number(multiplier)?, base_unit })
}

/// Text, or bytes of it; None of anything else.
fn text_of(value: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let text = match (value.cast::<PyBytes>(), value.cast::<PyString>()) {
        (Ok(bytes), _) => std::str::from_utf8(bytes.as_bytes()).ok(),
        (_, Ok(text)) => text.to_str().ok(), // there are surrogates without another
        _ => return Ok(None),
    };
    let none = || argument(value.py(), format!("the unit {} is not UTF-8", safe_repr(value)));
    text.map(|text| Some(text.to_owned())).ok_or_else(none)
}

fn number(value: &Bound<'_, PyAny>) -> PyResult<f64> {
    if value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>() {
        return Err(PyTypeError::new_err(format!("{} is not a number", safe_repr(value))));
    }
    value.extract::<f64>().map_err(|error| match error.is_instance_of::<PyOverflowError>(value.py()) {
        true => argument(value.py(), format!("{} is beyond the range of a unit", safe_repr(value))),
        false => error,
    })
}

/// The unit that text says: a number, if it begins with one, and the rest.
fn parsed(text: &str) -> Unit {
    let text = text.trim_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let end = digits(text);
    match text[..end].parse::<f64>() {
        Ok(multiplier) if multiplier.is_finite() => {
            let rest = text[end..].trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
            Unit { multiplier, base_unit: rest.to_owned() }
        }
        _ => Unit { multiplier: 1.0, base_unit: text.to_owned() },
    }
}

/// How long the decimal number is that text begins with; 0 where there is none.
fn digits(text: &str) -> usize {
    let bytes = text.as_bytes();
    let run = |from: usize| {
        let rest = bytes.get(from..).unwrap_or_default();
        from + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let sign = |at: usize| at + usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
    let first = sign(0);
    let mut end = run(first);
    let mut count = end - first;
    if bytes.get(end) == Some(&b'.') {
        let fraction = run(end + 1);
        count += fraction - end - 1;
        end = fraction;
    }
    if count == 0 {
        return 0;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let begin = sign(end + 1);
        let exponent = run(begin);
        if exponent > begin {
            end = exponent;
        }
    }
    end
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Unit>()
}
