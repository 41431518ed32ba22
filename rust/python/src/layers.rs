//! `Layers`: several views as one; `cells`: a view cut by a grid.

use std::sync::Mutex;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use tessarr_engine::space::{self, Axis, Cutter, Dim, Grid, PerDimension};

use crate::error::to_py;
use crate::space::View;

/// Views whose domains are where they belong in that of all, from the lowest to the topmost.
#[pyclass(frozen, module = "tessarr._engine")]
pub(crate) struct Layers(space::Layers);

#[pymethods]
impl Layers {
    /// Views as they are (`overlay`), one after the other along an axis (`concat`), or side by side
    /// along a new one (`stack`).
    #[new]
    #[pyo3(signature = (views, how="overlay", axis=None))]
    fn new(
        py: Python<'_>,
        views: Vec<PyRef<'_, View>>,
        how: &str,
        axis: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Layers> {
        let views: Vec<space::View> = views.iter().map(|view| view.inner().clone()).collect();
        let label = axis.and_then(|axis| axis.cast::<PyString>().ok());
        let number = || axis.map_or(Ok(0), |axis| axis.extract());
        let made = match (how, label) {
            ("overlay", _) => space::Layers::new(views),
            ("concat", Some(label)) => space::Layers::concatenated(&views, &Axis::Label(label.to_str()?)),
            ("concat", None) => space::Layers::concatenated(&views, &Axis::Number(number()?)),
            ("stack", _) => space::Layers::stacked(&views, number()?),
            _ => return Err(PyTypeError::new_err(format!("{how:?} is no way of putting layers together"))),
        };
        made.map(Layers).map_err(|error| to_py(py, error))
    }

    /// The views.
    fn views(&self) -> Vec<View> {
        self.0.views().iter().cloned().map(View::from).collect()
    }

    /// The domain that contains all, as a view of nothing; bounds and labels that are given count.
    #[pyo3(signature = (rank=None, given=None))]
    fn domain(&self, py: Python<'_>, rank: Option<usize>, given: Option<&View>) -> PyResult<View> {
        let dims = self.0.domain(rank, given.map(|given| &given.inner().dims[..]));
        let dims = dims.map_err(|error| to_py(py, error))?;
        Ok(View::from(space::View { dims, maps: PerDimension::new() }))
    }

    /// What a view sees of each layer: its number, the view of it, and where that is in an array of the
    /// shape of the whole.
    fn seen(&self, py: Python<'_>, view: &View) -> PyResult<Vec<(usize, View, View)>> {
        let found = self.0.seen(view.inner()).map_err(|error| to_py(py, error))?;
        Ok(found.into_iter().map(|one| (one.layer, one.view.into(), one.place.into())).collect())
    }
}

/// The cells of a grid in which a view has positions.
#[pyclass(frozen, module = "tessarr._engine")]
pub(crate) struct Cells(Option<Mutex<space::Cells>>);

#[pymethods]
impl Cells {
    /// Cut a view by a grid over the dimensions of a domain: where cell 0 begins, and how long cells are.
    #[new]
    fn new(py: Python<'_>, view: &View, domain: &View, origin: Vec<i64>, shape: Vec<i64>) -> PyResult<Cells> {
        let dims: PerDimension<Dim> = domain.inner().dims.clone();
        let counts = [view.inner().maps.len(), origin.len(), shape.len()];
        if counts.iter().any(|&count| count != dims.len()) || shape.iter().any(|&size| size < 1) {
            return Err(PyTypeError::new_err("the grid does not fit the view"));
        }
        let grid = Grid { dims, origin: origin.into(), shape: shape.into() };
        let cells = Cutter::new(view.inner()).and_then(|cutter| match cutter {
            Some(cutter) => cutter.by_cells(grid).map(|cells| Some(Mutex::new(cells))),
            None => Ok(None),
        });
        cells.map(Cells).map_err(|error| to_py(py, error))
    }

    fn __iter__(cells: Bound<'_, Self>) -> Bound<'_, Self> {
        cells
    }

    /// The domain of a cell, as a view of nothing, the part of the view in it, counted from where it begins,
    /// and where that is in an array of the shape of the whole.
    fn __next__(&self, py: Python<'_>) -> PyResult<Option<(View, View, View)>> {
        let Some(cells) = &self.0 else { return Ok(None) };
        let next = cells.lock().ok().and_then(|mut cells| cells.next_part());
        let Some((dims, mut part)) = next.transpose().map_err(|error| to_py(py, error))? else {
            return Ok(None);
        };
        for (map, dim) in part.view.maps.iter_mut().zip(&dims) {
            map.offset -= dim.lower;
        }
        let cell = space::View { dims, maps: PerDimension::new() };
        Ok(Some((cell.into(), part.view.into(), part.place.into())))
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Layers>()?;
    module.add_class::<Cells>()
}
