//! `View`: the index space's views, as values of Python.

use std::sync::Arc;

use numpy::{npyffi, PyArray1, PyArrayDyn, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyEllipsis, PyInt, PyList, PySlice, PyString, PyTuple};
use pyo3::{intern, IntoPyObjectExt};
use tessarr_engine::space::{
    self, Act, Along, Dim, Indices, Map, Mode, Name, PerDim, PerDimension, Place, Shift, Slice, Source, Term,
};
use tessarr_engine::{Error, Kind};

use crate::array::flags;
use crate::error::to_py;

/// Dimensions, and a map for each dimension of what is viewed: what `tessarr.space` composes.
#[pyclass(frozen, eq, module = "tessarr._engine")]
#[derive(PartialEq)]
pub(crate) struct View(space::View);

#[pymethods]
impl View {
    /// The view of objects with the attributes of `Dim` and `OutputIndexMap`; without maps
    /// positions stay as they are.
    #[new]
    #[pyo3(signature = (dims, maps=None))]
    fn new(dims: &Bound<'_, PyAny>, maps: Option<&Bound<'_, PyAny>>) -> PyResult<View> {
        let dims = dims_of(dims)?;
        let Some(maps) = maps else {
            return Ok(View(space::View::identity(dims)));
        };
        let maps = maps.try_iter()?.map(|map| map_of(&map?)).collect::<PyResult<_>>()?;
        Ok(View(space::View { dims, maps }))
    }

    /// The view of all of an array, whose upper bounds can be changed but for those of the last,
    /// `inner` dimensions; labels may be left out.
    #[staticmethod]
    fn of_array(shape: Vec<u64>, labels: Option<Vec<Option<String>>>, inner: Vec<u64>) -> View {
        let upper = |length: u64| i64::try_from(length).unwrap_or(space::END).min(space::END);
        let label = |k: usize| labels.as_ref()?.get(k)?.as_deref().filter(|label| !label.is_empty());
        let outer = shape.iter().enumerate().map(|(k, &length)| Dim {
            implicit: (false, true),
            label: label(k).map(Into::into),
            ..Dim::new(0, upper(length))
        });
        let inner = inner.iter().map(|&length| Dim::new(0, upper(length)));
        View(space::View::identity(outer.chain(inner).collect()))
    }

    /// The number of dimensions.
    #[getter]
    fn rank(&self) -> usize {
        self.0.dims.len()
    }

    /// The size of each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.dims.iter().map(Dim::size))
    }

    /// The least index of each dimension.
    #[getter]
    fn origin<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.dims.iter().map(|dim| dim.lower))
    }

    /// The view's dimensions alone, as a view of nothing.
    fn domain(&self) -> View {
        View(space::View { dims: self.0.dims.clone(), maps: PerDimension::new() })
    }

    /// Of each dimension the bounds, the label, and which bounds are implicit.
    fn dims<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let told = self.0.dims.iter().map(|dim| {
            (dim.lower, dim.upper, dim.label.as_deref().unwrap_or(""), dim.implicit).into_bound_py_any(py)
        });
        PyList::new(py, told.collect::<PyResult<Vec<_>>>()?)
    }

    /// Of each map the offset, the stride, the dimension or the index array, and its bounds.
    fn maps<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let told = self.0.maps.iter().map(|map| {
            let source = match &map.source {
                Source::Nothing => (py.None().into_bound(py), None),
                Source::Dimension(k) => (k.into_bound_py_any(py)?, None),
                Source::Array(listed) => (array(py, &listed.indices)?, Some(listed.within)),
            };
            (map.offset, map.stride, source.0, source.1).into_bound_py_any(py)
        });
        PyList::new(py, told.collect::<PyResult<Vec<_>>>()?)
    }

    /// The view by what stands in brackets; None where something has to be parsed first.
    fn at(&self, py: Python<'_>, key: &Bound<'_, PyAny>, mode: &str) -> PyResult<Option<View>> {
        let Some(terms) = terms(key)? else {
            return Ok(None);
        };
        self.acted(py, None, vec![Act::Brackets { terms, single: false, mode: mode_of(mode)? }]).map(Some)
    }

    /// The view after acts, each a name and what stood in its brackets; the first is for the dimensions
    /// that are named, or for all.
    fn after(
        &self,
        py: Python<'_>,
        names: Option<&Bound<'_, PyTuple>>,
        acts: &Bound<'_, PyTuple>,
    ) -> PyResult<View> {
        let names = names.map(|names| names.iter_borrowed().map(|name| name_of(&name)).collect());
        let names: Option<Vec<Name>> = names.transpose()?;
        let acts = acts.iter_borrowed().map(|act| act_of(&act)).collect::<PyResult<_>>()?;
        self.acted(py, names.as_deref(), acts)
    }

    /// The view with its dimensions in another order, by default the reverse one.
    #[pyo3(signature = (order=None))]
    fn permuted(&self, py: Python<'_>, order: Option<Vec<usize>>) -> PyResult<View> {
        let order = order.unwrap_or_else(|| (0..self.0.dims.len()).rev().collect());
        self.0.permuted(&order).map(View).map_err(|error| to_py(py, error))
    }

    /// The part of the view that is in the domain of dimensions.
    fn restricted(&self, py: Python<'_>, to: &Bound<'_, PyAny>) -> PyResult<View> {
        self.0.restricted(&dims_of(to)?).map(View).map_err(|error| to_py(py, error))
    }

    /// A view of this one.
    fn viewed(&self, py: Python<'_>, by: &View) -> PyResult<View> {
        self.0.viewed(&by.0).map(View).map_err(|error| to_py(py, error))
    }

    /// Whether a bound is implicit, and so follows what is viewed.
    #[getter]
    fn follows(&self) -> bool {
        self.0.dims.iter().any(|dim| dim.implicit.0 || dim.implicit.1)
    }

    /// Whether each element of an array of the shape of a domain surely has a position.
    fn covers(&self, domain: &View) -> bool {
        let shape: PerDimension<i64> = domain.0.dims.iter().map(Dim::size).collect();
        self.0.covers(&shape)
    }

    /// Whether there are index arrays.
    #[getter]
    fn lists(&self) -> bool {
        self.0.maps.iter().any(|map| matches!(map.source, Source::Array(_)))
    }

    /// The view with implicit bounds that follow from the dimensions of the one that it views.
    fn settled(&self, py: Python<'_>, target: &View) -> PyResult<View> {
        self.0.settled(&target.0.dims).map(View).map_err(|error| to_py(py, error))
    }

    /// What new bounds of the view (None leaves one, or all) ask for of what is viewed: lower bounds,
    /// upper bounds, and the intervals beyond which nothing may be affected.
    fn moved<'py>(
        &self,
        py: Python<'py>,
        lower: &Bound<'py, PyAny>,
        upper: &Bound<'py, PyAny>,
        tied: bool,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let (lower, upper) = (bounds_of(lower)?, bounds_of(upper)?);
        let found = self.0.moved(lower.as_deref(), upper.as_deref(), tied);
        let found = found.map_err(|error| to_py(py, error))?;
        let lower = PyTuple::new(py, found.iter().map(|moved| moved.lower))?;
        let upper = PyTuple::new(py, found.iter().map(|moved| moved.upper))?;
        let within = PyTuple::new(py, found.iter().map(|moved| moved.within))?;
        (lower, upper, within).into_pyobject(py)
    }

    /// The numbers of the dimensions that are named.
    fn chosen(&self, py: Python<'_>, names: &Bound<'_, PyTuple>) -> PyResult<Vec<usize>> {
        let names = names.iter_borrowed().map(|name| name_of(&name)).collect::<PyResult<Vec<_>>>()?;
        self.0.chosen(&names).map_err(|error| to_py(py, error))
    }

    /// What the engine is to do for the view of an array of a shape: the arguments of
    /// `tessarr.indexing.Selection`.
    fn lowered<'py>(&self, py: Python<'py>, shape: Vec<usize>) -> PyResult<Bound<'py, PyTuple>> {
        let found = self.0.lowered(&shape).map_err(|error| to_py(py, error))?;
        let axes = found.axes.into_iter().map(|axis| match axis {
            Along::Range(start, step, count) => (start, step, count).into_bound_py_any(py),
            Along::List(indices) => Ok(PyArray1::from_vec(py, indices).into_any()),
            Along::Joint(indices) => (PyArray1::from_vec(py, indices),).into_bound_py_any(py),
        });
        let axes = PyTuple::new(py, axes.collect::<PyResult<Vec<_>>>()?)?;
        let out_axes = PyTuple::new(py, found.out_axes)?;
        let shapes = (PyTuple::new(py, found.shape)?, PyTuple::new(py, found.buffer)?);
        let order = found.order.map(|order| PyTuple::new(py, order)).transpose()?;
        (axes, out_axes, shapes.0, shapes.1, false, order).into_pyobject(py)
    }
}

impl From<space::View> for View {
    fn from(view: space::View) -> View {
        View(view)
    }
}

impl View {
    pub(crate) fn inner(&self) -> &space::View {
        &self.0
    }

    fn acted(&self, py: Python<'_>, names: Option<&[Name]>, acts: Vec<Act>) -> PyResult<View> {
        self.0.acted(names, acts).map(View).map_err(|error| to_py(py, error))
    }
}

fn mode_of(name: &str) -> PyResult<Mode> {
    match name {
        "default" | "" => Ok(Mode::Default),
        "oindex" => Ok(Mode::Outer),
        "vindex" => Ok(Mode::Joint),
        _ => Err(PyTypeError::new_err(format!("{name:?} is no way of indexing"))),
    }
}

/// The terms of what stood in brackets, if Python needs not parse them.
fn terms(key: &Bound<'_, PyAny>) -> PyResult<Option<Vec<Term>>> {
    let mut terms = Vec::with_capacity(4);
    let Ok(tuple) = key.cast_exact::<PyTuple>() else {
        return Ok(push_terms(&mut terms, key)?.then_some(terms));
    };
    let mut ellipses = 0;
    for term in tuple.iter_borrowed() {
        if !push_terms(&mut terms, &term)? {
            return Ok(None);
        }
        ellipses += usize::from(matches!(terms.last(), Some(Term::Ellipsis)));
    }
    Ok((ellipses < 2).then_some(terms))
}

/// The class of what `tessarr.space.brackets` makes of other index arrays.
static PARSED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

fn parsed_class(py: Python<'_>) -> PyResult<Py<PyAny>> {
    py.import("tessarr.space.brackets")?.getattr("IndexArray").map(Bound::unbind)
}

/// Add what a term is; false if Python has to parse it.
fn push_terms(terms: &mut Vec<Term>, term: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = term.py();
    if term.is_exact_instance_of::<PyInt>() {
        let index = term.extract().ok();
        terms.extend(index.map(Term::Index));
        return Ok(index.is_some());
    }
    if let Ok(slice) = term.cast_exact::<PySlice>() {
        let slice = slice_of(slice)?;
        terms.extend(slice.map(Term::Slice));
        return Ok(slice.is_some());
    }
    if term.is_none() {
        terms.push(Term::New);
    } else if term.is(PyEllipsis::get(py)) {
        terms.push(Term::Ellipsis);
    } else if let Ok(array) = term.cast::<PyArrayDyn<i64>>() {
        let indices = copied(array)?;
        let found = indices.is_some();
        terms.extend(indices.map(|indices| Term::Array { indices, used: true, goes_on: false }));
        return Ok(found);
    } else if let Ok(mask) = term.cast::<PyArrayDyn<bool>>() {
        let Some(found) = places_of(mask)? else {
            return Ok(false);
        };
        for (k, indices) in found.into_iter().enumerate() {
            terms.push(Term::Array { indices, used: true, goes_on: k > 0 });
        }
    } else if PARSED.get_or_try_init(py, || parsed_class(py))?.bind(py).is(term.get_type()) {
        let values = term.getattr(intern!(py, "values"))?;
        if let Ok(mask) = values.cast::<PyArrayDyn<bool>>() {
            if mask.ndim() > 0 {
                return push_terms(terms, &values);
            }
            // True stands for one position along a dimension of its own, False for none.
            let count = usize::from(values.is_truthy()?);
            terms.extend(Indices::new(vec![0; count], &[count]).map(|indices| Term::Array {
                indices,
                used: false,
                goes_on: false,
            }));
            return Ok(true);
        }
        return push_terms(terms, &values);
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// What a slice has, if it is made of integers; out of range of any index there are none.
fn slice_of(slice: &Bound<'_, PyAny>) -> PyResult<Option<Slice>> {
    let py = slice.py();
    let mut parts = [None; 3];
    for (part, name) in parts.iter_mut().zip([intern!(py, "start"), intern!(py, "stop"), intern!(py, "step")])
    {
        let value = slice.getattr(name)?;
        if value.is_exact_instance_of::<PyInt>() {
            let Ok(value) = value.extract() else {
                return Ok(None);
            };
            *part = Some(value);
        } else if !value.is_none() {
            return Ok(None);
        }
    }
    let [start, stop, step] = parts;
    Ok(Some(Slice { start, stop, step }))
}

/// A copy of the items of an array; None if it is not in C order.
fn copied(array: &Bound<'_, PyArrayDyn<i64>>) -> PyResult<Option<Indices>> {
    if !is_plain(array.as_untyped()) {
        return Ok(None);
    }
    let borrowed = array.try_readonly()?;
    Ok(Indices::new(borrowed.as_slice()?.to_vec(), array.shape()))
}

/// The places where a mask is true, a list for each axis; None if it has no axis, or is not in C order.
fn places_of(mask: &Bound<'_, PyArrayDyn<bool>>) -> PyResult<Option<Vec<Indices>>> {
    if !is_plain(mask.as_untyped()) || mask.ndim() == 0 {
        return Ok(None);
    }
    let borrowed = mask.try_readonly()?;
    Ok(Indices::places(borrowed.as_slice()?, mask.shape()))
}

fn is_plain(array: &Bound<'_, PyUntypedArray>) -> bool {
    let plain = npyffi::NPY_ARRAY_C_CONTIGUOUS | npyffi::NPY_ARRAY_ALIGNED;
    flags(array) & plain == plain
}

/// An array of Python's with a copy of the items.
fn array<'py>(py: Python<'py>, indices: &Indices) -> PyResult<Bound<'py, PyAny>> {
    let flat = PyArray1::from_vec(py, indices.to_vec());
    let shaped = flat.reshape(indices.shape().to_vec())?;
    shaped.try_readwrite()?.make_nonwriteable();
    Ok(shaped.into_any())
}

/// New bounds, of which each may be left out; one that is beyond all is the greatest number.
fn bounds_of(bounds: &Bound<'_, PyAny>) -> PyResult<Option<PerDimension<Option<i64>>>> {
    if bounds.is_none() {
        return Ok(None);
    }
    let bound = |bound: PyResult<Bound<'_, PyAny>>| match bound?.extract::<Option<i64>>() {
        Err(error) if error.is_instance_of::<PyOverflowError>(bounds.py()) => Ok(Some(i64::MAX)),
        found => found,
    };
    bounds.try_iter()?.map(bound).collect::<PyResult<_>>().map(Some)
}

/// The dimensions of a sequence of objects with the attributes of `Dim`.
fn dims_of(dims: &Bound<'_, PyAny>) -> PyResult<PerDimension<Dim>> {
    let mut found = PerDimension::new();
    for dim in dims.try_iter()? {
        let dim = dim?;
        let py = dim.py();
        let flag = |name| -> PyResult<bool> { dim.getattr(name)?.extract() };
        found.push(Dim {
            lower: dim.getattr(intern!(py, "inclusive_min"))?.extract()?,
            upper: dim.getattr(intern!(py, "exclusive_max"))?.extract()?,
            implicit: (flag(intern!(py, "implicit_lower"))?, flag(intern!(py, "implicit_upper"))?),
            label: label_of(&dim.getattr(intern!(py, "label"))?)?,
        });
    }
    Ok(found)
}

fn label_of(label: &Bound<'_, PyAny>) -> PyResult<Option<Arc<str>>> {
    let label = label.cast::<PyString>()?.to_str()?;
    Ok((!label.is_empty()).then(|| label.into()))
}

fn map_of(map: &Bound<'_, PyAny>) -> PyResult<Map> {
    let py = map.py();
    let offset = map.getattr(intern!(py, "offset"))?.extract()?;
    let stride = map.getattr(intern!(py, "factor"))?.extract()?;
    let dimension: Option<usize> = map.getattr(intern!(py, "input_dimension"))?.extract()?;
    if let Some(dimension) = dimension {
        return Ok(Map::along(dimension, offset, stride));
    }
    let array = map.getattr(intern!(py, "index_array"))?;
    if array.is_none() {
        return Ok(Map::constant(offset));
    }
    let array = match copied(array.cast::<PyArrayDyn<i64>>()?)? {
        Some(array) => Some(array),
        None => copied(array.call_method1(intern!(py, "copy"), ("C",))?.cast::<PyArrayDyn<i64>>()?)?,
    };
    let array = array.ok_or_else(|| PyTypeError::new_err("an index array that is not in C order"))?;
    let within = map.getattr(intern!(py, "within"))?.extract()?;
    Ok(Map::by_array(array, offset, stride, within))
}

fn name_of(name: &Bound<'_, PyAny>) -> PyResult<Name> {
    if let Ok(slice) = name.cast_exact::<PySlice>() {
        return match slice_of(slice)? {
            Some(slice) => Ok(Name::Range(slice)),
            None => {
                Err(PyTypeError::new_err(format!("a range of dimensions is made of numbers, not {slice}")))
            }
        };
    }
    if name.is_exact_instance_of::<PyInt>() {
        return name.extract().map(Name::Number);
    }
    label_of(name).map(|label| Name::Label(label.unwrap_or_else(|| "".into())))
}

fn act_of(act: &Bound<'_, PyAny>) -> PyResult<Act> {
    let (name, value): (Bound<'_, PyString>, Bound<'_, PyAny>) = act.extract()?;
    Ok(match name.to_str()? {
        "translate_to" => Act::Translate(Shift::To, per_dim(&value, integer)?),
        "translate_by" => Act::Translate(Shift::By, per_dim(&value, integer)?),
        "translate_backward_by" => Act::Translate(Shift::BackwardBy, per_dim(&value, integer)?),
        "stride" => Act::Stride(per_dim(&value, integer)?),
        "label" => Act::Label(match per_dim(&value, label_of)? {
            PerDim::One(label) => vec![label],
            PerDim::Each(labels) => labels,
        }),
        "transpose" => Act::Transpose(per_dim(&value, place_of)?),
        "mark_bounds_implicit" => {
            let (lower, upper) = match value.cast_exact::<PySlice>() {
                Ok(slice) => {
                    (slice.getattr(intern!(act.py(), "start"))?, slice.getattr(intern!(act.py(), "stop"))?)
                }
                Err(_) => (value.clone(), value.clone()),
            };
            Act::MarkBoundsImplicit(lower.extract()?, upper.extract()?)
        }
        "diagonal" => Act::Diagonal,
        mode => {
            let (parsed, single): (Bound<'_, PyAny>, bool) = value.extract()?;
            let found = terms(&parsed)?.ok_or_else(|| {
                let error = Error::new(Kind::Selection, "an index is beyond the range of indices");
                to_py(value.py(), error)
            })?;
            Act::Brackets { terms: found, single, mode: mode_of(mode)? }
        }
    })
}

/// A value for each dimension of a tuple, or one for all.
fn per_dim<T>(value: &Bound<'_, PyAny>, read: fn(&Bound<'_, PyAny>) -> PyResult<T>) -> PyResult<PerDim<T>> {
    match value.cast_exact::<PyTuple>() {
        Ok(items) => items.iter_borrowed().map(|item| read(&item)).collect::<PyResult<_>>().map(PerDim::Each),
        Err(_) => read(value).map(PerDim::One),
    }
}

fn integer(value: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    value.extract()
}

fn place_of(value: &Bound<'_, PyAny>) -> PyResult<Place> {
    if let Ok(slice) = value.cast_exact::<PySlice>() {
        let slice = slice_of(slice)?;
        return slice
            .map(Place::Range)
            .ok_or_else(|| PyTypeError::new_err("a range of places is made of numbers"));
    }
    if value.is_instance_of::<PyString>() {
        let error = Error::new(Kind::Selection, "the places of a transposition are numbers, not labels");
        return Err(to_py(value.py(), error));
    }
    value.extract().map(Place::Number)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<View>()
}
