//! `LayerStack`: several views as one; `GridPartition`: a view split by a grid.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use numpy::PyUntypedArray;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use tessarr_engine::index_space::{self, Dim, Grid, Partitioner, PerDimension, StackAxis, ViewPart};

use crate::array::{check_target, part, start_transfers, ArrayBase, FutureRef, PendingTransfer, Transfer};
use crate::index_space::copy_elements::Copies;
use crate::index_space::View;
use crate::runtime::error::to_py;

/// Views at their positions in a common domain, from the lowest to the topmost.
#[pyclass(frozen, module = "tessarr._engine")]
pub(crate) struct LayerStack {
    layers: index_space::LayerStack,
    /// A view of the domain that contains all layers.
    #[pyo3(get)]
    domain: Py<View>,
}

#[pymethods]
impl LayerStack {
    /// Combine views at their own positions (`overlay`), one after another along an axis
    /// (`concat`), or side by side along a new axis (`stack`). A rank, bounds and labels override
    /// those of the common domain.
    ///
    /// This is a function because a constructor call takes as long as the whole operation on two
    /// views.
    #[staticmethod]
    #[pyo3(signature = (views, how="overlay", axis=None, rank=None, bounds=None))]
    fn build(
        py: Python<'_>,
        views: &Bound<'_, PyList>,
        how: &str,
        axis: Option<&Bound<'_, PyAny>>,
        rank: Option<usize>,
        bounds: Option<&View>,
    ) -> PyResult<LayerStack> {
        let views = views.iter().map(|view| Ok(view.cast_into::<View>()?.get().inner().clone()));
        let views = views.collect::<PyResult<Vec<_>>>()?;
        let label = axis.and_then(|axis| axis.cast::<PyString>().ok());
        let number = || axis.map_or(Ok(0), |axis| axis.extract());
        let stack = match (how, label) {
            ("overlay", _) => index_space::LayerStack::new(views),
            ("concat", Some(label)) => {
                index_space::LayerStack::concatenated(views, &StackAxis::Label(label.to_str()?))
            }
            ("concat", None) => index_space::LayerStack::concatenated(views, &StackAxis::Number(number()?)),
            ("stack", _) => index_space::LayerStack::stacked(views, number()?),
            _ => return Err(PyTypeError::new_err(format!("{how:?} is no way of putting layers together"))),
        };
        let layers = stack.map_err(|error| to_py(py, error))?;
        let dims = layers.domain(rank, bounds.map(|bounds| &bounds.inner().dims[..]));
        // A spec could not represent duplicate labels, because layers may order their labels
        // differently.
        let dims = dims.and_then(index_space::checked_labels).map_err(|error| to_py(py, error))?;
        let domain = Py::new(py, View::from(index_space::IndexTransform::identity(dims)))?;
        Ok(LayerStack { layers, domain })
    }

    /// Return the views.
    fn views(&self) -> Vec<View> {
        self.layers.layers().iter().cloned().map(View::from).collect()
    }

    /// Split a view into its visible parts of each layer.
    ///
    /// `find` receives layer numbers, possibly with repetitions. It returns for each a NumPy array,
    /// an array whose chunks are read, or None.
    fn visible(&self, py: Python<'_>, view: &View, find: &Bound<'_, PyAny>) -> PyResult<VisibleLayers> {
        let parts = self.layers.visible_layers(view.inner()).map_err(|error| to_py(py, error))?;
        let numbers: Vec<usize> = parts.iter().map(|part| part.layer).collect();
        let arrays: Vec<Option<Bound<'_, PyAny>>> = find.call1((numbers,))?.extract()?;
        if arrays.len() != parts.len() {
            return Err(PyTypeError::new_err("there is not one answer for each layer"));
        }
        let mut visible = VisibleLayers { in_memory: Vec::new(), stored: Vec::new(), remote: Vec::new() };
        for (index_space::VisibleLayer { layer, view, target }, arrays) in parts.into_iter().zip(arrays) {
            let Some(arrays) = arrays else {
                visible.remote.push((layer, view, target));
                continue;
            };
            match arrays.cast_into::<PyUntypedArray>() {
                Ok(array) => visible.in_memory.push((array.unbind(), view, target)),
                Err(other) => {
                    visible.stored.push((
                        other.into_inner().cast_into::<ArrayBase>()?.unbind(),
                        view,
                        target,
                    ));
                }
            }
        }
        Ok(visible)
    }
}

/// The visible parts of layers in a view, and their positions in an array of the view's shape.
#[pyclass(frozen, module = "tessarr._engine")]
pub(crate) struct VisibleLayers {
    /// Parts in memory.
    in_memory: Vec<(Py<PyUntypedArray>, index_space::IndexTransform, index_space::IndexTransform)>,
    /// Parts of chunked arrays.
    stored: Vec<(Py<ArrayBase>, index_space::IndexTransform, index_space::IndexTransform)>,
    /// Other parts, with their layer numbers.
    remote: Vec<(usize, index_space::IndexTransform, index_space::IndexTransform)>,
}

#[pymethods]
impl VisibleLayers {
    /// Return for each other part its layer number, the view of the layer and the positions in the
    /// result.
    fn remote(&self) -> Vec<(usize, View, View)> {
        self.remote.iter().map(|(n, view, target)| (*n, view.clone().into(), target.clone().into())).collect()
    }

    /// Return whether the view lies in one layer whose array is unknown.
    #[getter]
    fn is_single_remote(&self) -> bool {
        self.in_memory.is_empty() && self.stored.is_empty() && self.remote.len() == 1
    }

    /// Return whether any part belongs to a chunked array.
    #[getter]
    fn has_stored(&self) -> bool {
        !self.stored.is_empty()
    }

    /// Read the parts of chunked arrays concurrently into `out`, an array of the view's shape,
    /// which `future` receives at the end. A thread that waits for it may run the reads.
    fn read(
        &self,
        py: Python<'_>,
        out: &Bound<'_, PyUntypedArray>,
        future: Py<PyAny>,
    ) -> PyResult<PendingTransfer> {
        check_target(out)?;
        let stored = self.stored.iter();
        let parts = stored.map(|(array, view, target)| part(array.bind(py), view, target, out));
        let parts = parts.filter_map(Result::transpose).collect::<PyResult<Vec<_>>>()?;
        let result = out.clone().into_any().unbind();
        let future = FutureRef::Strong(future);
        Ok(start_transfers(py, vec![Transfer { parts, future, result }]))
    }

    /// Copy the parts in memory to an array of the view's shape.
    fn take(&self, py: Python<'_>, out: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
        let mut copies = Copies::to([out]);
        for (array, view, target) in &self.in_memory {
            copies.add(view, (array.bind(py), Some(view)), (out, Some(target)))?;
        }
        copies.run(py)
    }

    /// Copy an array of the view's shape to the parts in memory.
    fn put(&self, py: Python<'_>, items: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
        let mut copies = Copies::to(self.in_memory.iter().map(|(array, ..)| array.bind(py)));
        for (array, view, target) in &self.in_memory {
            copies.add(view, (items, Some(target)), (array.bind(py), Some(view)))?;
        }
        copies.run(py)
    }
}

/// The cells of a grid in which a view has positions.
#[pyclass(frozen, module = "tessarr._engine")]
pub(crate) struct GridPartition {
    /// None: the view has no positions.
    cells: Option<index_space::GridPartition>,
    /// The number of the next cell.
    next: AtomicUsize,
}

#[pymethods]
impl GridPartition {
    /// Split a view by a grid over a domain with an origin and a cell shape.
    #[new]
    fn new(
        py: Python<'_>,
        view: &View,
        domain: &View,
        origin: Vec<i64>,
        shape: Vec<i64>,
    ) -> PyResult<GridPartition> {
        let dims: PerDimension<Dim> = domain.inner().dims.clone();
        let counts = [view.inner().maps.len(), origin.len(), shape.len()];
        if counts.iter().any(|&count| count != dims.len()) || shape.iter().any(|&size| size < 1) {
            return Err(PyTypeError::new_err("the grid does not fit the view"));
        }
        let grid = Grid { dims, origin: origin.into(), shape: shape.into() };
        let cells = Partitioner::new(view.inner()).and_then(|cutter| match cutter {
            Some(cutter) => cutter.by_cells(grid).map(Some),
            None => Ok(None),
        });
        let cells = cells.map_err(|error| to_py(py, error))?;
        Ok(GridPartition { cells, next: AtomicUsize::new(0) })
    }

    fn __iter__(cells: Bound<'_, Self>) -> Bound<'_, Self> {
        cells
    }

    /// Return the domain of a cell, the part of the view in the cell, and the positions of that
    /// part in an array of the view's shape. The part is relative to the cell's origin.
    fn __next__(&self, py: Python<'_>) -> PyResult<Option<(View, View, View)>> {
        let Some((cells, numbers)) = self.take(1) else { return Ok(None) };
        let ViewPart { view, target } = cells.part(numbers.start).map_err(|error| to_py(py, error))?;
        Ok(Some((domain(cells, numbers.start), view.into(), target.into())))
    }

    /// Copy the known cells among the next ones to `out`, an array of the view's shape, and return
    /// the others; None after the last cell.
    ///
    /// `find` receives the origins of cells and returns for each an array of its elements or None.
    fn copy_known<'py>(
        &self,
        py: Python<'py>,
        find: &Bound<'py, PyAny>,
        out: &Bound<'py, PyUntypedArray>,
    ) -> PyResult<Option<Vec<(View, View, View)>>> {
        let Some((cells, numbers)) = self.take(TOGETHER) else { return Ok(None) };
        let begin = |number| PyTuple::new(py, cells.domain(number).map(|dim| dim.lower));
        let begins = numbers.clone().map(begin).collect::<PyResult<Vec<_>>>()?;
        let arrays: Vec<Option<Bound<'py, PyUntypedArray>>> = find.call1((begins,))?.extract()?;
        if arrays.len() != numbers.len() {
            return Err(PyTypeError::new_err("there is not one answer for each cell"));
        }
        let (mut copies, mut unknown) = (Copies::to([out]), Vec::new());
        for (number, array) in numbers.zip(arrays) {
            let ViewPart { view, target } = cells.part(number).map_err(|error| to_py(py, error))?;
            match array {
                Some(array) => copies.add(&view, (&array, Some(&view)), (out, Some(&target)))?,
                None => unknown.push((domain(cells, number), view.into(), target.into())),
            }
        }
        copies.run(py)?;
        Ok(Some(unknown))
    }
}

/// The number of cells per call of `find`.
const TOGETHER: usize = 1024;

impl GridPartition {
    /// Return the cells and the numbers of at most `most` next ones; None after the last cell.
    fn take(&self, most: usize) -> Option<(&index_space::GridPartition, Range<usize>)> {
        let cells = self.cells.as_ref()?;
        let after = |at: usize| at.saturating_add(most).min(cells.count());
        let take = |at| (at < cells.count()).then(|| after(at));
        let at = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        Some((cells, at..after(at)))
    }
}

/// Return the domain of a cell.
fn domain(cells: &index_space::GridPartition, number: usize) -> View {
    index_space::IndexTransform { dims: cells.domain(number).collect(), maps: PerDimension::new() }.into()
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<LayerStack>()?;
    module.add_class::<VisibleLayers>()?;
    module.add_class::<GridPartition>()
}
