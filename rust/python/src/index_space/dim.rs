//! `Dim`: an interval with a label.

use std::hash::{DefaultHasher, Hash, Hasher};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyRange, PyString, PyTuple};
use tessarr_engine::index_space::{self, END, INFINITE};

use super::indexing_terms::label_of;
use super::{argument, to_py_result};
use crate::runtime::bool_arg::as_bool;
use crate::runtime::safe_repr::safe_repr;
use crate::runtime::subclass::{attributes, copy_instance, pickle_parts, set_attributes, PickleParts};

/// An interval of indices along one dimension, and the label of the dimension.
///
/// ``Dim(size)``, ``Dim(inclusive_min, exclusive_max)``, ``Dim(label)`` for one without bounds,
/// or keywords.
///
/// Parameters
/// ----------
/// inclusive_min, exclusive_max, inclusive_max, size : int, optional
///     The bounds. Without any the dimension is unbounded and both bounds are implicit by
///     default; with ``size=None`` it begins at 0 and has no end.
/// label : str, optional
///     The label; by default none.
/// implicit_lower, implicit_upper : bool, optional
///     Whether the bound may change with the bounds of the base. By default only omitted
///     infinite bounds are implicit.
///
/// Raises
/// ------
/// ArgumentError
///     If the bounds are not an interval.
///
/// Notes
/// -----
/// TensorStore's ``Dim`` (index space, dimension).
///
/// Examples
/// --------
/// >>> Dim(5, label="x"), Dim(3, 9).size, list(Dim(inclusive_min=-1, size=3))
/// (Dim(inclusive_min=0, exclusive_max=5, label="x"), 6, [-1, 0, 1])
#[pyclass(subclass, weakref, eq, module = "tessarr._engine")]
#[derive(PartialEq)]
pub(crate) struct Dim(pub(super) index_space::Dim);

/// The pickled state: the bounds, whether they are implicit, the label, and the `__dict__` of the
/// object.
type State<'py> = (i64, i64, (bool, bool), Option<String>, Option<Bound<'py, PyDict>>);

/// An argument: omitted, None, or a value.
#[derive(Default)]
enum DimArgument<'py> {
    #[default]
    Nothing,
    Open,
    Is(Bound<'py, PyAny>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for DimArgument<'py> {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(if value.is_none() { DimArgument::Open } else { DimArgument::Is(value.to_owned()) })
    }
}

impl<'py> DimArgument<'py> {
    fn nothing(&self) -> bool {
        matches!(self, DimArgument::Nothing)
    }

    /// Return the integer of the argument, or None.
    fn integer(&self) -> PyResult<Option<i64>> {
        let DimArgument::Is(value) = self else {
            return Ok(None);
        };
        let found = value.extract().map(Some);
        found.map_err(|_| PyTypeError::new_err(format!("{} is not an integer of 64 bits", safe_repr(value))))
    }

    /// Set a positional argument. Raise an error if a keyword sets it, too.
    fn fill(&mut self, value: &Bound<'py, PyAny>, name: &str) -> PyResult<()> {
        if !self.nothing() {
            return Err(PyTypeError::new_err(format!("Dim got two values for {name}")));
        }
        *self = value.extract()?;
        Ok(())
    }
}

/// Return a boolean argument, or its default.
fn flag_or(value: &DimArgument<'_>, otherwise: bool) -> PyResult<bool> {
    match value {
        DimArgument::Is(value) => as_bool(value, "implicit"),
        _ => Ok(otherwise),
    }
}

/// Return whether an argument can be a label.
fn is_label(value: &Bound<'_, PyAny>) -> bool {
    value.is_none() || value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>()
}

#[pymethods]
impl Dim {
    /// Create a dimension without bounds, which `__init__` changes. Subclasses may have other
    /// arguments.
    #[new]
    #[pyo3(
        signature = (*_arguments, **_keywords),
        text_signature = "(*bounds, inclusive_min=..., exclusive_max=..., inclusive_max=..., size=..., label=..., implicit_lower=..., implicit_upper=...)"
    )]
    fn new(_arguments: &Bound<'_, PyTuple>, _keywords: Option<&Bound<'_, PyDict>>) -> Dim {
        Dim(index_space::Dim { implicit: (true, true), ..index_space::Dim::new(-INFINITE, END) })
    }

    #[pyo3(signature = (
        *bounds,
        inclusive_min = DimArgument::Nothing,
        exclusive_max = DimArgument::Nothing,
        inclusive_max = DimArgument::Nothing,
        size = DimArgument::Nothing,
        label = DimArgument::Nothing,
        implicit_lower = DimArgument::Nothing,
        implicit_upper = DimArgument::Nothing,
    ))]
    #[allow(clippy::too_many_arguments)] // TensorStore defines these arguments
    fn __init__<'py>(
        slf: &Bound<'py, Self>,
        py: Python<'py>,
        bounds: &Bound<'py, PyTuple>,
        mut inclusive_min: DimArgument<'py>,
        mut exclusive_max: DimArgument<'py>,
        inclusive_max: DimArgument<'py>,
        mut size: DimArgument<'py>,
        mut label: DimArgument<'py>,
        implicit_lower: DimArgument<'py>,
        implicit_upper: DimArgument<'py>,
    ) -> PyResult<()> {
        let given: Vec<Bound<'py, PyAny>> = bounds.iter().collect();
        let said = [&inclusive_min, &exclusive_max, &inclusive_max, &label, &size];
        let nothing = said.iter().all(|said| said.nothing());
        match &given[..] {
            [] => {}
            [one] if one.is_none() && nothing => {}
            [name] if name.is_instance_of::<PyString>() || name.is_instance_of::<PyBytes>() => {
                let bounds = [&inclusive_min, &exclusive_max, &inclusive_max, &size];
                if bounds.iter().any(|said| !said.nothing()) {
                    return Err(PyTypeError::new_err("Dim takes bounds first, and then a label"));
                }
                label.fill(name, "label")?;
            }
            [lower] if !exclusive_max.nothing() => inclusive_min.fill(lower, "inclusive_min")?,
            [one] => size.fill(one, "size")?,
            [one, name] if is_label(name) && (!name.is_none() || label.nothing()) => {
                size.fill(one, "size")?;
                label.fill(name, "label")?;
            }
            [lower, upper] => {
                inclusive_min.fill(lower, "inclusive_min")?;
                exclusive_max.fill(upper, "exclusive_max")?;
            }
            _ => return Err(PyTypeError::new_err("Dim takes a size, or inclusive_min and exclusive_max")),
        }
        let ends = [&exclusive_max, &inclusive_max, &size];
        if ends.into_iter().filter(|end| !end.nothing()).count() > 1 {
            return Err(PyTypeError::new_err("give one of exclusive_max, inclusive_max and size"));
        }
        let label = match label {
            DimArgument::Is(label) => label_of(&label)?,
            _ => None,
        };
        let least = inclusive_min.integer()?;
        let least = if size.nothing() { least } else { least.or(Some(0)) };
        let lower = least.unwrap_or(-INFINITE);
        let end = match (size.integer()?, exclusive_max.integer()?, inclusive_max.integer()?) {
            (Some(size), ..) => Some(index_space::end(lower, size)),
            (_, Some(end), _) => Some(end),
            (.., last) => last.map(|last| last.saturating_add(1)),
        };
        let upper = end.unwrap_or(END);
        let implicit = (flag_or(&implicit_lower, least.is_none())?, flag_or(&implicit_upper, end.is_none())?);
        if !index_space::is_interval(lower, upper) {
            return Err(argument(py, format!("[{lower}, {upper}) is not an interval of indices")));
        }
        // The borrow starts here, because methods of the arguments may access this object.
        slf.borrow_mut().0 = index_space::Dim { implicit, label, ..index_space::Dim::new(lower, upper) };
        Ok(())
    }

    /// Return ``[lower, upper)``, which must be an interval.
    #[staticmethod]
    #[pyo3(signature = (lower, upper, label = None, implicit = (false, false)))]
    fn _of(
        lower: i64,
        upper: i64,
        label: Option<&Bound<'_, PyAny>>,
        implicit: (bool, bool),
    ) -> PyResult<Dim> {
        let label = label.map_or(Ok(None), label_of)?;
        Ok(Dim(index_space::Dim { implicit, label, ..index_space::Dim::new(lower, upper) }))
    }

    /// The least index.
    ///
    /// Examples
    /// --------
    /// >>> Dim(3, 9).inclusive_min
    /// 3
    #[getter]
    fn inclusive_min(&self) -> i64 {
        self.0.lower
    }

    /// One more than the greatest index.
    ///
    /// Examples
    /// --------
    /// >>> Dim(3, 9).exclusive_max
    /// 9
    #[getter]
    fn exclusive_max(&self) -> i64 {
        self.0.upper
    }

    /// The greatest index.
    ///
    /// Examples
    /// --------
    /// >>> Dim(3, 9).inclusive_max
    /// 8
    #[getter]
    fn inclusive_max(&self) -> i64 {
        self.0.upper - 1
    }

    /// One less than the least index.
    ///
    /// Examples
    /// --------
    /// >>> Dim(3, 9).exclusive_min
    /// 2
    #[getter]
    fn exclusive_min(&self) -> i64 {
        self.0.lower - 1
    }

    /// The label; "" without one.
    ///
    /// Examples
    /// --------
    /// >>> dim = Dim(9, label="x")
    /// >>> dim.label = "y"
    /// >>> dim
    /// Dim(inclusive_min=0, exclusive_max=9, label="y")
    #[getter]
    fn label(&self) -> &str {
        self.0.label.as_deref().unwrap_or("")
    }

    #[setter]
    fn set_label(slf: &Bound<'_, Self>, label: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let label = label.map_or(Ok(None), label_of)?;
        slf.borrow_mut().0.label = label;
        Ok(())
    }

    /// Whether the lower bound may change with the bounds of the base.
    ///
    /// Examples
    /// --------
    /// >>> Dim(3, 9).implicit_lower, Dim().implicit_lower
    /// (False, True)
    #[getter]
    fn implicit_lower(&self) -> bool {
        self.0.implicit.0
    }

    #[setter]
    fn set_implicit_lower(slf: &Bound<'_, Self>, implicit: &Bound<'_, PyAny>) -> PyResult<()> {
        let implicit = as_bool(implicit, "implicit_lower")?;
        slf.borrow_mut().0.implicit.0 = implicit;
        Ok(())
    }

    /// Whether the upper bound may change with the bounds of the base.
    ///
    /// Examples
    /// --------
    /// >>> dim = Dim(9)
    /// >>> dim.implicit_upper = True
    /// >>> print(dim)
    /// [0, 9*)
    #[getter]
    fn implicit_upper(&self) -> bool {
        self.0.implicit.1
    }

    #[setter]
    fn set_implicit_upper(slf: &Bound<'_, Self>, implicit: &Bound<'_, PyAny>) -> PyResult<()> {
        let implicit = as_bool(implicit, "implicit_upper")?;
        slf.borrow_mut().0.implicit.1 = implicit;
        Ok(())
    }

    /// Whether the lower and the upper bound are implicit.
    #[getter]
    fn _implicit(&self) -> (bool, bool) {
        self.0.implicit
    }

    /// The number of indices.
    ///
    /// Examples
    /// --------
    /// >>> Dim(3, 9).size
    /// 6
    #[getter]
    fn size(&self) -> i64 {
        self.0.size()
    }

    /// Whether the interval is empty.
    ///
    /// Examples
    /// --------
    /// >>> Dim(3, 3).empty, Dim(1).empty
    /// (True, False)
    #[getter]
    fn empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether both bounds are finite.
    ///
    /// Examples
    /// --------
    /// >>> Dim(3).finite, Dim(inclusive_min=3).finite
    /// (True, False)
    #[getter]
    fn finite(&self) -> bool {
        self.0.is_finite()
    }

    /// Return the smallest interval that contains both; labels have to agree.
    ///
    /// Examples
    /// --------
    /// >>> Dim(3).hull(Dim(7, 9, label="x"))
    /// Dim(inclusive_min=0, exclusive_max=9, label="x")
    fn hull(slf: &Bound<'_, Self>, other: &Bound<'_, Dim>) -> PyResult<Dim> {
        let found = slf.borrow().0.hull(&other.borrow().0);
        to_py_result(slf.py(), found).map(Dim)
    }

    /// Return the indices of both; labels have to agree.
    ///
    /// Examples
    /// --------
    /// >>> Dim(3, 9).intersect(Dim(5))
    /// Dim(inclusive_min=3, exclusive_max=5)
    fn intersect(slf: &Bound<'_, Self>, other: &Bound<'_, Dim>) -> PyResult<Dim> {
        let found = slf.borrow().0.intersect(&other.borrow().0);
        to_py_result(slf.py(), found).map(Dim)
    }

    fn __contains__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        let index_space::Dim { lower, upper, .. } = slf.borrow().0; // conversion below calls Python
        if let Ok(other) = other.cast::<Dim>() {
            let other = &other.borrow().0;
            return Ok(other.is_empty() || lower <= other.lower && other.upper <= upper);
        }
        match other.extract::<i64>() {
            Ok(index) => Ok(index_space::contains((lower, upper), index)),
            Err(_) => Err(PyTypeError::new_err(format!("{} is not an integer of 64 bits", safe_repr(other)))),
        }
    }

    fn __len__(&self) -> usize {
        self.0.size() as usize
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if !self.finite() {
            return Err(argument(py, format!("{} has no end: it cannot be walked", self.0)));
        }
        let range = PyRange::new(py, self.0.lower as isize, self.0.upper as isize)?;
        Ok(range.try_iter()?.into_any())
    }

    fn __hash__(&self) -> u64 {
        let mut state = DefaultHasher::new();
        let index_space::Dim { lower, upper, implicit, label } = &self.0;
        (lower, upper, implicit, label).hash(&mut state);
        state.finish()
    }

    fn __copy__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let dim = Dim(slf.borrow().0.clone());
        copy_instance(slf, dim, None)
    }

    fn __deepcopy__<'py>(slf: &Bound<'py, Self>, memo: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        let dim = Dim(slf.borrow().0.clone());
        copy_instance(slf, dim, Some(memo))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<PickleParts<'py, State<'py>>> {
        let index_space::Dim { lower, upper, implicit, label } = slf.borrow().0.clone();
        let label = label.map(|label| label.to_string());
        pickle_parts(slf, (lower, upper, implicit, label, attributes(slf)?))
    }

    fn __setstate__(slf: &Bound<'_, Self>, state: State<'_>) -> PyResult<()> {
        let (lower, upper, implicit, label, kept) = state;
        let label = label.map(Into::into);
        slf.borrow_mut().0 = index_space::Dim { implicit, label, ..index_space::Dim::new(lower, upper) };
        set_attributes(slf, kept.as_ref())
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        let index_space::Dim { lower, upper, implicit, label } = &self.0;
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
