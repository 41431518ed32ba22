//! `Blocks`: the source elements of views of a downsampled array.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tessarr_engine::index_space;

use crate::index_space::View;
use crate::runtime::error::to_py;

/// A downsampled array: the base, the domain of its blocks and the block shape.
#[pyclass(frozen, module = "tessarr._engine")]
pub(crate) struct Blocks(index_space::Blocks);

/// The source of a view of blocks: a product of positions of each dimension.
#[pyclass(frozen, module = "tessarr._engine")]
pub(crate) struct BlockSource {
    blocks: Py<Blocks>,
    sources: index_space::BlockSources,
}

/// The blocks of one axis: the length of the first block, the length and number of full blocks, and
/// the length of the last block.
type AxisBlocks = (usize, usize, usize, usize);

#[pymethods]
impl Blocks {
    #[new]
    fn new(base: &View, domain: &View, factors: Vec<i64>) -> PyResult<Blocks> {
        let (base, domain) = (base.inner().clone(), domain.inner().dims.clone());
        let fits = base.dims.len() == domain.len() && domain.len() == factors.len();
        if !fits || factors.iter().any(|&factor| factor < 1) {
            return Err(PyTypeError::new_err("the factors do not fit"));
        }
        Ok(Blocks(index_space::Blocks { base, domain, factors: factors.into() }))
    }

    /// Return the source of a view of the domain; None if the view has no position.
    fn source(slf: &Bound<'_, Self>, view: &View) -> PyResult<Option<BlockSource>> {
        let blocks = &slf.get().0;
        if view.inner().maps.len() != blocks.domain.len() {
            return Err(PyTypeError::new_err("the view does not fit"));
        }
        let sources = blocks.sources(view.inner()).map_err(|error| to_py(slf.py(), error))?;
        Ok(sources.map(|sources| BlockSource { blocks: slf.clone().unbind(), sources }))
    }
}

#[pymethods]
impl BlockSource {
    /// The number of positions of each dimension.
    #[getter]
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.sources.counts().collect::<Vec<_>>())
    }

    /// The positions of the view in the product; None: in the same order.
    #[getter]
    fn order(&self) -> Option<View> {
        (!self.sources.is_in_order()).then(|| self.sources.order.clone().into())
    }

    /// Return the source of a range of positions of the first dimension, and its blocks.
    fn part(&self, py: Python<'_>, first: usize, last: usize) -> PyResult<(View, Vec<AxisBlocks>)> {
        if first >= last || self.sources.counts().next().is_some_and(|count| last > count) {
            return Err(PyTypeError::new_err("there are no such positions"));
        }
        let part = self.blocks.get().0.part(&self.sources, first..last);
        let (view, axis_blocks) = part.map_err(|error| to_py(py, error))?;
        Ok((
            view.into(),
            axis_blocks
                .iter()
                .map(|blocks| (blocks.first, blocks.whole, blocks.wholes, blocks.last))
                .collect(),
        ))
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Blocks>()?;
    module.add_class::<BlockSource>()
}
