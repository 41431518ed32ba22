//! `View`: index transforms as Python objects.

use numpy::{PyArray1, PyArrayDyn, PyArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use pyo3::IntoPyObjectExt;

use crate::runtime::once_cell::intern;
use tessarr_engine::index_space::{
    self, AxisSelection, DimOperation, DimSelector, IndexArray, IndexTerm, IndexingMode, MapSource,
    OutputMap, PerDimension, MAX_RANK,
};
use tessarr_engine::{Error, Kind};

mod blocks;
mod bounds;
pub(crate) mod copy_elements;
mod indexing_terms;
mod json;
mod layer_stack;

use crate::runtime::error::to_py;
use bounds::DomainParts;
use indexing_terms::{copy_index_array, index, integer, mode_of, name_of, parse_operation, terms};

/// A dimension: its bounds, its label, and whether the bounds are implicit.
type PlainDim = (i64, i64, Option<String>, (bool, bool));

/// An output index map: offset, stride, dimension or index array, and the bounds of the array.
type PlainMap<'py> = (i64, i64, Option<Bound<'py, PyAny>>, Option<(i64, i64)>);

/// The prefix of the JSON members of a transform's domain.
const INPUT: &str = "input_";

/// An index transform: dimensions, and an output index map for each dimension of the base.
#[pyclass(frozen, eq, module = "tessarr._engine")]
#[derive(PartialEq)]
pub(crate) struct View(pub(crate) index_space::IndexTransform);

#[pymethods]
impl View {
    /// Create a view of dimensions and maps; without maps it is a domain. Labels must be unique.
    #[new]
    #[pyo3(signature = (dims, maps = None))]
    fn new(py: Python<'_>, dims: Vec<PlainDim>, maps: Option<Vec<PlainMap<'_>>>) -> PyResult<View> {
        let dims = dims.into_iter().map(|(lower, upper, label, implicit)| index_space::Dim {
            implicit,
            label: label.map(Into::into),
            ..index_space::Dim::new(lower, upper)
        });
        let dims = to_py_result(py, index_space::checked_labels(dims.collect()))?;
        View::of_dims(dims).with_maps(py, Some(maps.unwrap_or_default()))
    }

    /// Return the identity view of an array. Upper bounds are implicit except those of the `inner`
    /// dimensions; labels are optional.
    #[staticmethod]
    fn for_array(shape: Vec<u64>, labels: Option<Vec<Option<String>>>, inner: Vec<u64>) -> View {
        let upper = |length: u64| i64::try_from(length).unwrap_or(index_space::END).min(index_space::END);
        let label = |k: usize| labels.as_ref()?.get(k)?.as_deref().filter(|label| !label.is_empty());
        let outer = shape.iter().enumerate().map(|(k, &length)| index_space::Dim {
            implicit: (false, true),
            label: label(k).map(Into::into),
            ..index_space::Dim::new(0, upper(length))
        });
        let inner = inner.iter().map(|&length| index_space::Dim::new(0, upper(length)));
        View(index_space::IndexTransform::identity(outer.chain(inner).collect()))
    }

    /// Return the domain of TensorStore's arguments.
    #[staticmethod]
    #[allow(clippy::too_many_arguments)] // TensorStore defines these arguments
    fn from_bounds<'py>(
        py: Python<'py>,
        rank: Option<&Bound<'py, PyAny>>,
        inclusive_min: Option<&Bound<'py, PyAny>>,
        exclusive_max: Option<&Bound<'py, PyAny>>,
        inclusive_max: Option<&Bound<'py, PyAny>>,
        shape: Option<&Bound<'py, PyAny>>,
        labels: Option<&Bound<'py, PyAny>>,
        implicit_lower: Option<&Bound<'py, PyAny>>,
        implicit_upper: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<View> {
        let bounds = [inclusive_min, exclusive_max, inclusive_max, shape];
        DomainParts::from_arguments(rank, bounds, labels, [implicit_lower, implicit_upper])?
            .dims(py)
            .map(View::of_dims)
    }

    /// Return the domain of a JSON object.
    #[staticmethod]
    fn domain_from_json(json: &Bound<'_, PyAny>) -> PyResult<View> {
        json::dims_of(json).map(View::of_dims)
    }

    /// Return the transform of a JSON object.
    #[staticmethod]
    fn from_json(json: &Bound<'_, PyAny>) -> PyResult<View> {
        json::view_of(json, INPUT).map(View)
    }

    /// Return the JSON of the transform, or of its domain.
    fn to_json<'py>(&self, py: Python<'py>, domain_only: bool) -> PyResult<Bound<'py, PyDict>> {
        json::members(py, &self.0, if domain_only { "" } else { INPUT })
    }

    /// Return a view with the same dimensions and with `maps`; None: with the identity.
    #[pyo3(signature = (maps=None))]
    fn with_maps(&self, py: Python<'_>, maps: Option<Vec<PlainMap<'_>>>) -> PyResult<View> {
        let dims = self.0.dims.clone();
        let Some(maps) = maps else {
            return Ok(View(index_space::IndexTransform::identity(dims)));
        };
        if maps.len() > MAX_RANK {
            return Err(argument(py, format!("{} maps, at most {MAX_RANK} are possible", maps.len())));
        }
        let maps = maps.into_iter().map(|map| to_py_result(py, map_of(py, map)?.validated(&dims)));
        let maps: PerDimension<OutputMap> = maps.collect::<PyResult<_>>()?;
        Ok(View(index_space::IndexTransform { dims, maps }))
    }

    /// The number of dimensions.
    #[getter]
    fn rank(&self) -> usize {
        self.0.dims.len()
    }

    /// The number of maps.
    #[getter]
    fn output_rank(&self) -> usize {
        self.0.maps.len()
    }

    /// The size of each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.dims.iter().map(index_space::Dim::size))
    }

    /// The least index of each dimension.
    #[getter]
    fn origin<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.dims.iter().map(|dim| dim.lower))
    }

    /// One more than the greatest index of each dimension.
    #[getter]
    fn exclusive_max<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.dims.iter().map(|dim| dim.upper))
    }

    /// The greatest index of each dimension.
    #[getter]
    fn inclusive_max<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.dims.iter().map(|dim| dim.upper - 1))
    }

    /// The label of each dimension; "" without one.
    #[getter]
    fn labels<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.dims.iter().map(|dim| dim.label.as_deref().unwrap_or("")))
    }

    /// Whether the lower bound of each dimension is implicit.
    #[getter]
    fn implicit_lower<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.dims.iter().map(|dim| dim.implicit.0))
    }

    /// Whether the upper bound of each dimension is implicit.
    #[getter]
    fn implicit_upper<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.dims.iter().map(|dim| dim.implicit.1))
    }

    /// The number of positions.
    #[getter]
    fn size<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let one = 1.into_bound_py_any(py)?;
        self.0.dims.iter().try_fold(one, |size, dim| size.mul(dim.size()))
    }

    /// Return the smallest domain that contains both.
    fn hull(&self, py: Python<'_>, other: &View) -> PyResult<View> {
        self.joined(py, other, index_space::Dim::hull)
    }

    /// Return the positions of both domains.
    fn intersect(&self, py: Python<'_>, other: &View) -> PyResult<View> {
        self.joined(py, other, index_space::Dim::intersect)
    }

    /// Return the domain that meets the constraints of both.
    fn merge(&self, py: Python<'_>, other: &View) -> PyResult<View> {
        let View(made) = self.joined(py, other, index_space::Dim::merge)?;
        to_py_result(py, index_space::checked_labels(made.dims)).map(View::of_dims)
    }

    /// Return the base index of a position.
    fn position<'py>(&self, py: Python<'py>, indices: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
        let indices: PerDimension<i64> = match indices.cast::<PyList>() {
            Ok(list) => list.iter().map(|item| index(&item)).collect::<PyResult<_>>()?,
            Err(_) => indices.try_iter()?.map(|item| index(&item?)).collect::<PyResult<_>>()?,
        };
        if let Some(position) = self.0.followed(&indices) {
            return PyTuple::new(py, position);
        }
        if indices.len() != self.0.dims.len() {
            let what = format!("{} indices for {} dimensions", indices.len(), self.0.dims.len());
            return Err(argument(py, what));
        }
        let terms = indices.into_iter().map(IndexTerm::Index).collect();
        let at = self.0.apply_operations(
            None,
            [DimOperation::Index { terms, single: false, mode: IndexingMode::Default }],
        );
        let at = to_py_result(py, at.map_err(|error| Error { kind: Kind::Argument, ..error }))?;
        PyTuple::new(py, at.maps.iter().map(|map| map.offset))
    }

    /// Return the view as text.
    fn __str__(&self) -> String {
        self.0.to_string()
    }

    /// Return the view's dimensions as text.
    fn dims_text(&self) -> String {
        index_space::DomainText(&self.0.dims).to_string()
    }

    /// Return the domain.
    fn domain(&self) -> View {
        View::of_dims(self.0.dims.clone())
    }

    /// Return the dimensions, as the constructor takes them.
    fn dims<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let dims = self.0.dims.iter();
        PyTuple::new(py, dims.map(|dim| (dim.lower, dim.upper, dim.label.as_deref(), dim.implicit)))
    }

    /// Return the maps, as the constructor takes them.
    fn maps<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let maps = self.0.maps.iter().map(|map| {
            let source = match &map.source {
                MapSource::Constant => (py.None().into_bound(py), None),
                MapSource::InputDimension(k) => (k.into_bound_py_any(py)?, None),
                MapSource::IndexArray(listed) => (array(py, &listed.indices)?, Some(listed.within)),
            };
            (map.offset, map.stride, source.0, source.1).into_bound_py_any(py)
        });
        PyTuple::new(py, maps.collect::<PyResult<Vec<_>>>()?)
    }

    /// Whether the transform is the identity.
    #[getter]
    fn is_identity(&self) -> bool {
        self.0.is_identity()
    }

    /// Return for each map its input dimension or -1, its offset and its stride. With `exclusive`,
    /// the dimension is -1 if another map uses it, too.
    fn linear_maps<'py>(&self, py: Python<'py>, exclusive: bool) -> PyResult<Bound<'py, PyList>> {
        let maps = self.0.linear_maps().map(|(dimension, offset, stride)| {
            let counts = |k: &usize| !exclusive || stride != 0 && self.0.count_dependent_maps(*k) == 1;
            let dimension = dimension.filter(counts).map_or(-1, |k| k as i64);
            (dimension, offset, stride).into_bound_py_any(py)
        });
        PyList::new(py, maps.collect::<PyResult<Vec<_>>>()?)
    }

    /// Return the item strides of the index array of each map that has one.
    fn index_array_strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let strides = self.0.maps.iter().map(|map| match &map.source {
            index_space::MapSource::IndexArray(listed) => Some(listed.indices.item_strides().to_vec()),
            _ => None,
        });
        PyList::new(py, strides.collect::<Vec<_>>())
    }

    /// Return the view of an indexing key; None if Python has to parse the key.
    fn select(&self, py: Python<'_>, key: &Bound<'_, PyAny>, mode: &str) -> PyResult<Option<View>> {
        let Some(terms) = terms(key)? else {
            return Ok(None);
        };
        self.apply(py, None, [DimOperation::Index { terms, single: false, mode: mode_of(mode)? }]).map(Some)
    }

    /// Return the view after operations, each a name and its argument. The first one applies to the
    /// named dimensions, or to all.
    fn apply_operations(
        &self,
        py: Python<'_>,
        names: Option<&Bound<'_, PyTuple>>,
        acts: &Bound<'_, PyTuple>,
    ) -> PyResult<View> {
        let names = names.map(|names| names.iter_borrowed().map(|name| name_of(&name)).collect());
        let names: Option<Vec<DimSelector>> = names.transpose()?;
        let act = |act: Borrowed<'_, '_, PyAny>| {
            let (name, value): (Bound<'_, PyString>, Bound<'_, PyAny>) = act.extract()?;
            parse_operation(name.to_str()?, &value)
        };
        let acts: Vec<DimOperation> = acts.iter_borrowed().map(act).collect::<PyResult<_>>()?;
        self.apply(py, names.as_deref(), acts)
    }

    /// Return the view with its dimensions in another order.
    fn transpose(&self, py: Python<'_>, order: Vec<usize>) -> PyResult<View> {
        to_py_result(py, self.0.transposed(&order)).map(View)
    }

    /// Return the view with its dimensions in reverse order.
    fn reverse(&self) -> View {
        View(self.0.reversed())
    }

    /// Return the view with constants in place of index arrays of one item.
    fn simplify(&self, py: Python<'_>) -> PyResult<View> {
        to_py_result(py, self.0.clone().simplified()).map(View)
    }

    /// Return the part of the view inside a domain.
    fn restrict(&self, py: Python<'_>, to: &View) -> PyResult<View> {
        self.0.restrict(&to.0.dims).map(View).map_err(|error| to_py(py, error))
    }

    /// Compose this view with a view of it.
    fn compose(&self, py: Python<'_>, by: &View) -> PyResult<View> {
        self.0.compose_resolving(&by.0).map(View).map_err(|error| to_py(py, error))
    }

    /// Whether any bound is implicit.
    #[getter]
    fn has_implicit_bounds(&self) -> bool {
        self.0.dims.iter().any(|dim| dim.implicit.0 || dim.implicit.1)
    }

    /// Return whether the view surely covers every element of an array with a domain's shape.
    fn covers(&self, domain: &View) -> bool {
        let shape: PerDimension<i64> = domain.0.dims.iter().map(index_space::Dim::size).collect();
        self.0.covers(&shape)
    }

    /// Return whether the view has index arrays.
    #[getter]
    fn has_index_arrays(&self) -> bool {
        self.0.maps.iter().any(|map| matches!(map.source, MapSource::IndexArray(_)))
    }

    /// Return the view with its implicit bounds resolved against the bounds of the base.
    fn resolve_bounds(&self, py: Python<'_>, target: &View) -> PyResult<View> {
        self.0.resolve_bounds(&target.0.dims).map(View).map_err(|error| to_py(py, error))
    }

    /// Return the new bounds of the base for new bounds of the view (None keeps a bound): lower
    /// bounds, upper bounds, and the intervals that the resize must not exceed.
    fn base_resizes<'py>(
        &self,
        py: Python<'py>,
        lower: &Bound<'py, PyAny>,
        upper: &Bound<'py, PyAny>,
        tied: bool,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let (lower, upper) = (bounds_of(lower)?, bounds_of(upper)?);
        let resizes = to_py_result(py, self.0.base_resizes(lower.as_deref(), upper.as_deref(), tied))?;
        let lower = PyTuple::new(py, resizes.iter().map(|resize| resize.lower))?;
        let upper = PyTuple::new(py, resizes.iter().map(|resize| resize.upper))?;
        let within = PyTuple::new(py, resizes.iter().map(|resize| resize.within))?;
        (lower, upper, within).into_pyobject(py)
    }

    /// Return the numbers of named dimensions.
    fn select_dims(&self, py: Python<'_>, names: &Bound<'_, PyTuple>) -> PyResult<Vec<usize>> {
        let names = names.iter_borrowed().map(|name| name_of(&name)).collect::<PyResult<Vec<_>>>()?;
        self.0.select_dims(&names).map_err(|error| to_py(py, error))
    }

    /// Return whether the view has no index arrays and touches at most `max_cells` cells.
    fn touches_at_most(&self, cell_shape: Vec<u64>, max_cells: u64) -> bool {
        self.0.touches_at_most(&cell_shape, max_cells)
    }

    /// Return the arguments of `tessarr.indexing.Selection` for a view of an array of a shape.
    fn to_selection<'py>(&self, py: Python<'py>, shape: Vec<usize>) -> PyResult<Bound<'py, PyTuple>> {
        let selection = self.0.to_selection(&shape).map_err(|error| to_py(py, error))?;
        let axes = selection.axes.into_iter().map(|axis| match axis {
            AxisSelection::Range(start, step, count) => (start, step, count).into_bound_py_any(py),
            AxisSelection::List(indices) => Ok(PyArray1::from_vec(py, indices).into_any()),
            AxisSelection::Joint(indices) => (PyArray1::from_vec(py, indices),).into_bound_py_any(py),
        });
        let axes = PyTuple::new(py, axes.collect::<PyResult<Vec<_>>>()?)?;
        let out_axes = PyTuple::new(py, selection.out_axes)?;
        let shapes = (PyTuple::new(py, selection.shape)?, PyTuple::new(py, selection.buffer)?);
        let order = selection.order.map(|order| PyTuple::new(py, order)).transpose()?;
        (axes, out_axes, shapes.0, shapes.1, false, order).into_pyobject(py)
    }
}

impl From<index_space::IndexTransform> for View {
    fn from(view: index_space::IndexTransform) -> View {
        View(view)
    }
}

impl View {
    pub(crate) fn inner(&self) -> &index_space::IndexTransform {
        &self.0
    }

    /// Return the domain of dimensions as a view without output index maps.
    fn of_dims(dims: PerDimension<index_space::Dim>) -> View {
        View(index_space::IndexTransform { dims, maps: PerDimension::new() })
    }

    fn apply(
        &self,
        py: Python<'_>,
        names: Option<&[DimSelector]>,
        acts: impl IntoIterator<Item = DimOperation>,
    ) -> PyResult<View> {
        self.0.apply_operations(names, acts).map(View).map_err(|error| to_py(py, error))
    }

    fn joined(
        &self,
        py: Python<'_>,
        other: &View,
        join: fn(&index_space::Dim, &index_space::Dim) -> tessarr_engine::Result<index_space::Dim>,
    ) -> PyResult<View> {
        let (rank, another) = (self.0.dims.len(), other.0.dims.len());
        if rank != another {
            return Err(argument(py, format!("domains of rank {rank} and {another}")));
        }
        let mut dims = self.0.dims.clone();
        let pairs = dims.iter_mut().zip(&other.0.dims).enumerate();
        let of = |k, error: Error| Error { message: format!("dimension {k}: {}", error.message), ..error };
        for (k, (dim, other)) in pairs {
            *dim = to_py_result(py, join(dim, other).map_err(|error| of(k, error)))?;
        }
        Ok(View::of_dims(dims))
    }
}

/// Return a NumPy array with a copy of the items.
fn array<'py>(py: Python<'py>, indices: &IndexArray) -> PyResult<Bound<'py, PyAny>> {
    let flat = PyArray1::from_vec(py, indices.to_vec());
    let shaped = flat.reshape(indices.shape().to_vec())?;
    shaped.try_readwrite()?.make_nonwriteable();
    Ok(shaped.into_any())
}

/// Return the map of the engine.
fn map_of(py: Python<'_>, (offset, stride, source, within): PlainMap<'_>) -> PyResult<OutputMap> {
    Ok(match (source, within) {
        (None, _) => OutputMap::constant(offset),
        (Some(dimension), None) => {
            let number = dimension.extract();
            let number = number.map_err(|_| argument(py, format!("there is no dimension {dimension}")))?;
            OutputMap::from_dimension(number, offset, stride)
        }
        (Some(array), Some(within)) => {
            OutputMap::from_index_array(indices_of(array.cast()?)?, offset, stride, within)
        }
    })
}

/// Return a copy of an index array.
fn indices_of(array: &Bound<'_, PyArrayDyn<i64>>) -> PyResult<IndexArray> {
    let indices = match copy_index_array(array)? {
        Some(indices) => Some(indices),
        None => {
            let ordered = array.call_method1(intern!(array.py(), "copy"), ("C",))?;
            copy_index_array(ordered.cast::<PyArrayDyn<i64>>()?)?
        }
    };
    indices.ok_or_else(|| PyTypeError::new_err("an index array that is not in C order"))
}

/// Return optional new bounds. A bound beyond 64 bits becomes the greatest number.
fn bounds_of(bounds: &Bound<'_, PyAny>) -> PyResult<Option<PerDimension<Option<i64>>>> {
    if bounds.is_none() {
        return Ok(None);
    }
    bounds.try_iter()?.map(|bound| integer(&bound?)).collect::<PyResult<_>>().map(Some)
}

/// Return the result of the engine, or its error as an exception.
pub(crate) fn to_py_result<T>(py: Python<'_>, result: tessarr_engine::Result<T>) -> PyResult<T> {
    result.map_err(|error| to_py(py, error))
}

/// Return the exception for a wrong argument.
fn argument(py: Python<'_>, message: String) -> PyErr {
    to_py(py, Error::new(Kind::Argument, message))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<View>()?;
    blocks::register(module)?;
    copy_elements::register(module)?;
    layer_stack::register(module)
}
