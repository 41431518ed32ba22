//! `OutputIndexMap`: how an index of the base depends on a position.

use crate::runtime::once_cell::intern;
use numpy::{PyArrayDyn, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use tessarr_engine::index_space::{self, MapSource, OutputMap, END, INFINITE};

use super::dim::Dim;
use super::{array, indices_of};
use crate::runtime::safe_repr::safe_repr;
use crate::runtime::subclass::{attributes, pickle_parts, set_attributes, PickleParts};

/// All indices, as a half-open interval.
const WHOLE: (i64, i64) = (-INFINITE, END);

/// The arguments of each form of map.
const CONSTANT: [&str; 1] = ["offset"];
const ALONG: [&str; 3] = ["input_dimension", "offset", "stride"];
const BY_ARRAY: [&str; 4] = ["index_array", "offset", "stride", "index_range"];

/// The map from positions of a view to the indices of one dimension of the base.
///
/// ``OutputIndexMap(offset)`` is a constant index, ``OutputIndexMap(input_dimension, offset,
/// stride)`` follows one dimension of the view, ``OutputIndexMap(index_array, offset, stride,
/// index_range)`` takes the index from an array.
///
/// Parameters
/// ----------
/// offset : int, optional
///     The offset; by default 0.
/// stride : int, optional
///     The factor of the index of the input dimension, or of the index array; by default 1.
/// input_dimension : int, optional
///     The dimension of the view that the index follows.
/// index_array : array of int, optional
///     The indices that positions get: one axis per dimension of the view, of length 1 where
///     the index does not vary.
/// index_range : Dim, optional
///     The interval that must contain the items of the index array; by default any.
///
/// Raises
/// ------
/// TypeError
///     If the arguments are not those of one of the forms.
///
/// Examples
/// --------
/// >>> OutputIndexMap(input_dimension=0, offset=2, stride=3)
/// OutputIndexMap(offset=2, stride=3, input_dimension=0)
/// >>> OutputIndexMap([4, 8], index_range=Dim(10))
/// OutputIndexMap(offset=0, stride=1, index_array={4, 8}, index_range=[0, 10))
#[pyclass(subclass, weakref, module = "tessarr._engine")]
pub(crate) struct OutputIndexMap {
    offset: i64,
    factor: i64,
    follows: Follows,
}

/// The pickled state: the offset, the stride, the dimension or the index array, the interval of its
/// items, and the `__dict__` of the object.
type State<'py> =
    (i64, i64, Option<i64>, Option<Py<PyArrayDyn<i64>>>, (i64, i64), Option<Bound<'py, PyDict>>);

/// The source of an index.
enum Follows {
    Nothing,
    Dimension(i64),
    /// An index array, and the half-open interval that must contain its items.
    Array(Py<PyArrayDyn<i64>>, (i64, i64)),
}

#[pymethods]
impl OutputIndexMap {
    /// Create the map to 0, which `__init__` changes. Subclasses may have other arguments.
    #[new]
    #[pyo3(
        signature = (*_arguments, **_keywords),
        text_signature = "(*arguments, offset=..., stride=..., input_dimension=..., index_array=..., index_range=...)"
    )]
    fn new(_arguments: &Bound<'_, PyTuple>, _keywords: Option<&Bound<'_, PyDict>>) -> OutputIndexMap {
        OutputIndexMap::_constant(0)
    }

    #[pyo3(signature = (*arguments, **keywords))]
    fn __init__<'py>(
        slf: &Bound<'py, Self>,
        arguments: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<()> {
        let names = form(arguments, keywords)?;
        let given = |name: &str| -> PyResult<Option<Bound<'py, PyAny>>> {
            let place = names.iter().position(|other| *other == name);
            match place.filter(|&place| place < arguments.len()) {
                Some(place) => arguments.get_item(place).map(Some),
                None => keywords.map_or(Ok(None), |keywords| keywords.get_item(name)),
            }
        };
        check(names, arguments, keywords)?;
        let number = |name, otherwise| given(name)?.map_or(Ok(otherwise), |value| index(&value));
        let follows = match (given("input_dimension")?, given("index_array")?) {
            (Some(dimension), _) => Follows::Dimension(index(&dimension)?),
            (_, Some(items)) => {
                let within = given("index_range")?.map_or(Ok(WHOLE), |bounds| interval(&bounds))?;
                Follows::Array(items_of(&items)?, within)
            }
            _ => Follows::Nothing,
        };
        let factor = if matches!(follows, Follows::Nothing) { 0 } else { number("stride", 1)? };
        let map = OutputIndexMap { offset: number("offset", 0)?, factor, follows };
        // The borrow starts here and ends before the old map drops, because Python code that either
        // runs may access this object.
        let _old = std::mem::replace(&mut *slf.borrow_mut(), map);
        Ok(())
    }

    /// Return the map to one index.
    #[staticmethod]
    fn _constant(offset: i64) -> OutputIndexMap {
        OutputIndexMap { offset, factor: 0, follows: Follows::Nothing }
    }

    /// Return the map that follows a dimension of the view.
    #[staticmethod]
    #[pyo3(signature = (dimension, offset = 0, stride = 1))]
    fn _along(dimension: i64, offset: i64, stride: i64) -> OutputIndexMap {
        OutputIndexMap { offset, factor: stride, follows: Follows::Dimension(dimension) }
    }

    /// Return the map by an index array, which must be valid.
    #[staticmethod]
    #[pyo3(signature = (array, offset = 0, stride = 1, within = WHOLE))]
    fn _by_array(array: Py<PyArrayDyn<i64>>, offset: i64, stride: i64, within: (i64, i64)) -> OutputIndexMap {
        OutputIndexMap { offset, factor: stride, follows: Follows::Array(array, within) }
    }

    /// The offset.
    ///
    /// Examples
    /// --------
    /// >>> OutputIndexMap(5).offset
    /// 5
    #[getter]
    fn offset(&self) -> i64 {
        self.offset
    }

    /// The stride; 0 of a constant.
    #[getter]
    fn _factor(&self) -> i64 {
        self.factor
    }

    /// The factor of the index; None of a constant.
    ///
    /// Examples
    /// --------
    /// >>> OutputIndexMap(input_dimension=0, stride=2).stride, OutputIndexMap(5).stride
    /// (2, None)
    #[getter]
    fn stride(&self) -> Option<i64> {
        (!matches!(self.follows, Follows::Nothing)).then_some(self.factor)
    }

    /// The dimension of the view that the index follows.
    ///
    /// Examples
    /// --------
    /// >>> OutputIndexMap(input_dimension=1).input_dimension
    /// 1
    #[getter]
    fn input_dimension(&self) -> Option<i64> {
        match self.follows {
            Follows::Dimension(dimension) => Some(dimension),
            _ => None,
        }
    }

    /// The indices that positions get.
    ///
    /// Examples
    /// --------
    /// >>> OutputIndexMap([4, 8]).index_array
    /// array([4, 8])
    #[getter]
    fn index_array(&self, py: Python<'_>) -> Option<Py<PyArrayDyn<i64>>> {
        match &self.follows {
            Follows::Array(items, _) => Some(items.clone_ref(py)),
            _ => None,
        }
    }

    /// The half-open interval that must contain the items of the index array.
    #[getter]
    fn _within(&self) -> (i64, i64) {
        match self.follows {
            Follows::Array(_, within) => within,
            _ => WHOLE,
        }
    }

    /// The interval that must contain the items of the index array; None without an array.
    ///
    /// Examples
    /// --------
    /// >>> OutputIndexMap([4, 8], index_range=Dim(10)).index_range
    /// Dim(inclusive_min=0, exclusive_max=10)
    #[getter]
    fn index_range(&self) -> Option<Dim> {
        match self.follows {
            Follows::Array(_, (lower, upper)) => Some(Dim(index_space::Dim::new(lower, upper))),
            _ => None,
        }
    }

    /// The form.
    ///
    /// Examples
    /// --------
    /// >>> OutputIndexMap([4, 8]).method
    /// <OutputIndexMethod.array: 2>
    #[getter]
    fn method<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let methods = py.import(intern!(py, "tessarr.index_space.output_index_map"))?;
        let form = match slf.borrow().follows {
            Follows::Nothing => 0,
            Follows::Dimension(_) => 1,
            Follows::Array(..) => 2,
        };
        methods.getattr(intern!(py, "OutputIndexMethod"))?.call1((form,))
    }

    fn __eq__(&self, py: Python<'_>, other: &OutputIndexMap) -> bool {
        let same = match (&self.follows, &other.follows) {
            (Follows::Nothing, Follows::Nothing) => true,
            (Follows::Dimension(one), Follows::Dimension(other)) => one == other,
            (Follows::Array(one, within), Follows::Array(other, another)) => {
                let (one, other) = (one.bind(py).readonly(), other.bind(py).readonly());
                within == another && one.as_array() == other.as_array()
            }
            _ => false,
        };
        same && (self.offset, self.factor) == (other.offset, other.factor)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<PickleParts<'py, State<'py>>> {
        let kept = attributes(slf)?;
        let state = {
            let map = slf.borrow();
            let items = map.index_array(slf.py());
            (map.offset, map.factor, map.input_dimension(), items, map._within(), kept)
        };
        pickle_parts(slf, state)
    }

    fn __setstate__(slf: &Bound<'_, Self>, state: State<'_>) -> PyResult<()> {
        let (offset, factor, dimension, items, within, kept) = state;
        let follows = match (dimension, items) {
            (Some(dimension), _) => Follows::Dimension(dimension),
            (None, Some(items)) => {
                items.bind(slf.py()).call_method1(intern!(slf.py(), "setflags"), (false,))?;
                Follows::Array(items, within)
            }
            (None, None) => Follows::Nothing,
        };
        let _old = std::mem::replace(&mut *slf.borrow_mut(), OutputIndexMap { offset, factor, follows });
        set_attributes(slf, kept.as_ref())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let OutputIndexMap { offset, factor, follows } = self;
        Ok(match follows {
            Follows::Nothing => format!("OutputIndexMap(offset={offset})"),
            Follows::Dimension(dimension) => {
                format!("OutputIndexMap(offset={offset}, stride={factor}, input_dimension={dimension})")
            }
            Follows::Array(items, (lower, upper)) => {
                let items = items.bind(py).call_method0("tolist")?.str()?.to_string();
                let items = items.replace('[', "{").replace(']', "}");
                let within = index_space::Dim::new(*lower, *upper);
                format!(
                    "OutputIndexMap(offset={offset}, stride={factor}, index_array={items}, \
                     index_range={within})"
                )
            }
        })
    }
}

impl OutputIndexMap {
    /// Return the Python object of a map of the engine.
    pub(super) fn of(py: Python<'_>, map: &OutputMap) -> PyResult<OutputIndexMap> {
        let follows = match &map.source {
            MapSource::Constant => Follows::Nothing,
            MapSource::InputDimension(dimension) => Follows::Dimension(*dimension as i64),
            MapSource::IndexArray(listed) => {
                Follows::Array(array(py, &listed.indices)?.cast_into()?.unbind(), listed.within)
            }
        };
        Ok(OutputIndexMap { offset: map.offset, factor: map.stride, follows })
    }

    /// Return the map of the engine.
    pub(super) fn inner(&self, py: Python<'_>) -> PyResult<OutputMap> {
        Ok(match &self.follows {
            Follows::Nothing => OutputMap::constant(self.offset),
            Follows::Dimension(dimension) => {
                let number = usize::try_from(*dimension);
                let none = |_| super::argument(py, format!("there is no dimension {dimension}"));
                OutputMap::from_dimension(number.map_err(none)?, self.offset, self.factor)
            }
            Follows::Array(items, within) => {
                OutputMap::from_index_array(indices_of(items.bind(py))?, self.offset, self.factor, *within)
            }
        })
    }
}

/// Return the names of the arguments of the form that the arguments select.
fn form(
    arguments: &Bound<'_, PyTuple>,
    keywords: Option<&Bound<'_, PyDict>>,
) -> PyResult<&'static [&'static str]> {
    for names in [&ALONG[..], &BY_ARRAY[..]] {
        if keywords.map_or(Ok(false), |keywords| keywords.contains(names[0]))? {
            return Ok(names);
        }
    }
    let Ok(first) = arguments.get_borrowed_item(0) else {
        return Ok(&CONSTANT);
    };
    let shaped = first.cast::<PyUntypedArray>().is_ok_and(|items| items.ndim() > 0);
    if shaped || !first.hasattr(intern!(first.py(), "__index__"))? {
        return Ok(&BY_ARRAY);
    }
    let more = arguments.len() > 1 || keywords.is_some_and(|keywords| !keywords.is_empty());
    Ok(if more { &ALONG } else { &CONSTANT })
}

/// Raise an error for excess, unknown and duplicate arguments.
fn check(
    names: &[&str],
    arguments: &Bound<'_, PyTuple>,
    keywords: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    let mut said: Vec<String> = Vec::new();
    for name in keywords.map(|keywords| keywords.keys()).iter().flatten() {
        said.push(name.extract()?);
    }
    let left = names.get(arguments.len()..);
    if left.is_some_and(|left| said.iter().all(|name| left.contains(&name.as_str()))) {
        return Ok(());
    }
    said.sort();
    Err(PyTypeError::new_err(format!(
        "OutputIndexMap takes (offset), (input_dimension, offset, stride), or (index_array, offset, stride, \
         index_range): not {} arguments and {said:?}",
        arguments.len()
    )))
}

/// Return an integer of 64 bits; raise a TypeError forevery other value.
pub(super) fn index(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    match value.extract() {
        Ok(index) => Ok(index),
        Err(_) => Err(PyTypeError::new_err(format!("{} is not an integer of 64 bits", safe_repr(value)))),
    }
}

/// Return a read-only copy of an index array or of nested lists.
fn items_of(values: &Bound<'_, PyAny>) -> PyResult<Py<PyArrayDyn<i64>>> {
    let py = values.py();
    let (numpy, integers) = (py.import(intern!(py, "numpy"))?, intern!(py, "int64"));
    if let Ok(items) = values.cast::<PyUntypedArray>() {
        let kind = items.dtype();
        if !numpy.call_method1(intern!(py, "can_cast"), (&kind, integers))?.is_truthy()? {
            return Err(PyTypeError::new_err(format!("index_array: {kind} does not safely become int64")));
        }
    }
    let made = numpy.call_method1(intern!(py, "array"), (values, integers));
    let made = made.map_err(|error| PyTypeError::new_err(format!("index_array: {}", error.value(py))))?;
    let items = made.cast_into::<PyArrayDyn<i64>>()?;
    items.try_readwrite()?.make_nonwriteable();
    Ok(items.unbind())
}

fn interval(bounds: &Bound<'_, PyAny>) -> PyResult<(i64, i64)> {
    match bounds.cast::<Dim>() {
        Ok(dim) => Ok((dim.borrow().0.lower, dim.borrow().0.upper)),
        Err(_) => Err(PyTypeError::new_err(format!("index_range: {} is not a Dim", safe_repr(bounds)))),
    }
}
