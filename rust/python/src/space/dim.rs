//! `Dim`: an interval with a label, as a value of Python.

use std::hash::{DefaultHasher, Hash, Hasher};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyRange, PyString, PyTuple};
use tessarr_engine::space::{self, END, INFINITE};

use super::keys::label_of;
use super::{argument, told};

/// An interval of indices along one dimension, and what the dimension is called.
///
/// ``Dim(size)``, ``Dim(inclusive_min, exclusive_max)``, ``Dim(label)`` for one without bounds,
/// or keywords.
///
/// Parameters
/// ----------
/// inclusive_min, exclusive_max, inclusive_max, size : int, optional
///     The bounds. Where both are left out the dimension is unbounded, and both are implicit
///     unless said otherwise; with ``size=None`` it begins at 0 and has no end.
/// label : str, optional
///     The name; by default none.
/// implicit_lower, implicit_upper : bool, optional
///     Whether the bound is what holds now rather than a promise. By default only where it is
///     not given and infinite.
///
/// Raises
/// ------
/// ArgumentError
///     If the bounds are no interval.
///
/// Notes
/// -----
/// TensorStore's ``Dim`` (index space, dimension).
///
/// Examples
/// --------
/// >>> Dim(5, label="x"), Dim(3, 9).size, list(Dim(inclusive_min=-1, size=3))
/// (Dim(inclusive_min=0, exclusive_max=5, label="x"), 6, [-1, 0, 1])
#[pyclass(eq, module = "tessarr._engine")]
#[derive(PartialEq)]
pub(crate) struct Dim(pub(super) space::Dim);

/// What stands for a size: nothing, None, or the size.
enum Size<'py> {
    Unsaid,
    Open,
    Is(Bound<'py, PyAny>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Size<'py> {
    type Error = PyErr;

    fn extract(size: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(if size.is_none() { Size::Open } else { Size::Is(size.to_owned()) })
    }
}

fn integer(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    value.extract().map_err(|error: PyErr| match error.is_instance_of::<PyTypeError>(value.py()) {
        true => PyTypeError::new_err(format!("{value} is not an integer")),
        false => argument(value.py(), format!("{value} is beyond the range of indices")),
    })
}

/// Whether something is true, or what holds where nothing is said.
fn flag(value: Option<Bound<'_, PyAny>>, otherwise: bool) -> PyResult<bool> {
    value.map_or(Ok(otherwise), |value| value.is_truthy())
}

#[pymethods]
impl Dim {
    #[new]
    #[pyo3(signature = (
        *bounds,
        inclusive_min = None,
        exclusive_max = None,
        inclusive_max = None,
        size = Size::Unsaid,
        label = None,
        implicit_lower = None,
        implicit_upper = None,
    ))]
    #[allow(clippy::too_many_arguments)] // they are TensorStore's
    fn new<'py>(
        py: Python<'py>,
        bounds: &Bound<'py, PyTuple>,
        mut inclusive_min: Option<Bound<'py, PyAny>>,
        mut exclusive_max: Option<Bound<'py, PyAny>>,
        inclusive_max: Option<Bound<'py, PyAny>>,
        mut size: Size<'py>,
        mut label: Option<Bound<'py, PyAny>>,
        implicit_lower: Option<Bound<'py, PyAny>>,
        implicit_upper: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Dim> {
        let given: Vec<Bound<'py, PyAny>> = bounds.iter().collect();
        match &given[..] {
            [] => {}
            [name] if name.is_instance_of::<PyString>() => label = Some(name.clone()),
            [one] if one.is_none() => {}
            [one] => size = Size::Is(one.clone()),
            [one, name] if name.is_none() || name.is_instance_of::<PyString>() => {
                size = if one.is_none() { Size::Open } else { Size::Is(one.clone()) };
                label = Some(name.clone());
            }
            [lower, upper] => {
                inclusive_min = Some(lower.clone()).filter(|lower| !lower.is_none());
                exclusive_max = Some(upper.clone());
            }
            _ => return Err(PyTypeError::new_err("Dim takes a size, or inclusive_min and exclusive_max")),
        }
        let sized = !matches!(size, Size::Unsaid);
        if usize::from(exclusive_max.is_some()) + usize::from(inclusive_max.is_some()) + usize::from(sized)
            > 1
        {
            return Err(PyTypeError::new_err("give one of exclusive_max, inclusive_max and size"));
        }
        let least = inclusive_min.as_ref().map(integer).transpose()?;
        let least = if sized { least.or(Some(0)) } else { least };
        let lower = least.unwrap_or(-INFINITE);
        let end = match (size, exclusive_max, inclusive_max) {
            (Size::Is(size), ..) => Some(lower.saturating_add(integer(&size)?)),
            (_, Some(end), _) => Some(integer(&end)?),
            (_, _, Some(last)) => Some(integer(&last)?.saturating_add(1)),
            _ => None,
        };
        let upper = end.unwrap_or(END);
        if !(-INFINITE..=INFINITE).contains(&lower) || !(lower..=END).contains(&upper) {
            return Err(argument(py, format!("[{lower}, {upper}) is not an interval of indices")));
        }
        let label = label.filter(|label| !label.is_none());
        Ok(Dim(space::Dim {
            implicit: (flag(implicit_lower, least.is_none())?, flag(implicit_upper, end.is_none())?),
            label: label.map_or(Ok(None), |label| label_of(&label))?,
            ..space::Dim::new(lower, upper)
        }))
    }

    /// ``[lower, upper)``, known to be an interval.
    #[staticmethod]
    #[pyo3(signature = (lower, upper, label = None, implicit = (false, false)))]
    fn of(lower: i64, upper: i64, label: Option<&Bound<'_, PyAny>>, implicit: (bool, bool)) -> PyResult<Dim> {
        let label = label.map_or(Ok(None), label_of)?;
        Ok(Dim(space::Dim { implicit, label, ..space::Dim::new(lower, upper) }))
    }

    /// The least index.
    #[getter]
    fn inclusive_min(&self) -> i64 {
        self.0.lower
    }

    /// One more than the greatest index.
    #[getter]
    fn exclusive_max(&self) -> i64 {
        self.0.upper
    }

    /// The greatest index.
    #[getter]
    fn inclusive_max(&self) -> i64 {
        self.0.upper - 1
    }

    /// One less than the least index.
    #[getter]
    fn exclusive_min(&self) -> i64 {
        self.0.lower - 1
    }

    /// The name; "" where there is none.
    #[getter]
    fn label(&self) -> &str {
        self.0.label.as_deref().unwrap_or("")
    }

    #[setter]
    fn set_label(&mut self, label: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.0.label = label.map_or(Ok(None), label_of)?;
        Ok(())
    }

    /// Whether the lower bound is what holds now rather than a promise.
    #[getter]
    fn implicit_lower(&self) -> bool {
        self.0.implicit.0
    }

    #[setter]
    fn set_implicit_lower(&mut self, implicit: bool) {
        self.0.implicit.0 = implicit;
    }

    /// Whether the upper bound is what holds now rather than a promise.
    #[getter]
    fn implicit_upper(&self) -> bool {
        self.0.implicit.1
    }

    #[setter]
    fn set_implicit_upper(&mut self, implicit: bool) {
        self.0.implicit.1 = implicit;
    }

    /// Whether the lower and the upper bound are implicit.
    #[getter]
    fn implicit(&self) -> (bool, bool) {
        self.0.implicit
    }

    /// The number of indices.
    #[getter]
    fn size(&self) -> i64 {
        self.0.size()
    }

    /// Whether there is no index.
    #[getter]
    fn empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there is no index, and no implicit bound that could change that.
    #[getter]
    fn surely_empty(&self) -> bool {
        self.0.surely_empty()
    }

    /// Whether both bounds are finite.
    #[getter]
    fn finite(&self) -> bool {
        self.0.is_finite()
    }

    /// The half-open interval that indexing may use: implicit bounds do not count.
    #[getter]
    fn reach(&self) -> (i64, i64) {
        self.0.reach()
    }

    /// A copy.
    fn copy(&self) -> Dim {
        Dim(self.0.clone())
    }

    fn __copy__(&self) -> Dim {
        self.copy()
    }

    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Dim {
        self.copy()
    }

    /// The same with another label.
    fn labelled(&self, label: &Bound<'_, PyAny>) -> PyResult<Dim> {
        Ok(Dim(space::Dim { label: label_of(label)?, ..self.0.clone() }))
    }

    /// The interval moved; infinite bounds stay.
    fn shifted(&self, py: Python<'_>, by: i64) -> PyResult<Dim> {
        told(py, self.0.shifted(by.into())).map(Dim)
    }

    /// The smallest interval that contains both; labels have to agree.
    fn hull(&self, py: Python<'_>, other: &Dim) -> PyResult<Dim> {
        told(py, self.0.hull(&other.0)).map(Dim)
    }

    /// The indices of both; labels have to agree.
    fn intersect(&self, py: Python<'_>, other: &Dim) -> PyResult<Dim> {
        told(py, self.0.intersect(&other.0)).map(Dim)
    }

    fn __contains__(&self, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (lower, upper) = (self.0.lower, self.0.upper);
        if let Ok(other) = other.cast::<Dim>() {
            let other = &other.borrow().0;
            return Ok(other.is_empty() || lower <= other.lower && other.upper <= upper);
        }
        other.extract().map(|index: i64| lower <= index && index < upper)
    }

    fn __len__(&self) -> usize {
        self.0.size() as usize
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let range = PyRange::new(py, self.0.lower as isize, self.0.upper as isize)?;
        Ok(range.try_iter()?.into_any())
    }

    fn __hash__(&self) -> u64 {
        let mut state = DefaultHasher::new();
        let space::Dim { lower, upper, implicit, label } = &self.0;
        (lower, upper, implicit, label).hash(&mut state);
        state.finish()
    }

    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<((i64, i64), Bound<'py, PyDict>)> {
        let keywords = PyDict::new(py);
        keywords.set_item("label", self.label())?;
        keywords.set_item("implicit_lower", self.0.implicit.0)?;
        keywords.set_item("implicit_upper", self.0.implicit.1)?;
        Ok(((self.0.lower, self.0.upper), keywords))
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        let space::Dim { lower, upper, implicit, label } = &self.0;
        let (endless, open) = (*lower == -INFINITE, *upper > INFINITE);
        let truth = |value| if value { "True" } else { "False" };
        let parts = [
            (!endless).then(|| format!("inclusive_min={lower}")),
            (implicit.0 != endless).then(|| format!("implicit_lower={}", truth(implicit.0))),
            (!open).then(|| format!("exclusive_max={upper}")),
            (implicit.1 != open).then(|| format!("implicit_upper={}", truth(implicit.1))),
            label.as_ref().map(|label| format!("label=\"{label}\"")),
        ];
        format!("Dim({})", parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}
