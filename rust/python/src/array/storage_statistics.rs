//! Statistics of the stored chunks of a view.

use pyo3::prelude::*;
use tessarr_engine::array::PerAxis;
use tessarr_engine::index_space::Dim;
use tessarr_engine::pipeline::operation::Interrupt;
use tessarr_engine::selection::Selection;
use tessarr_engine::statistics;

use crate::array::{run_interruptibly, ArrayBase};
use crate::index_space::View;
use crate::runtime::error::to_py;

impl ArrayBase {
    /// Return whether the store holds no element of a view, and whether it holds all of them; see
    /// `_storage_statistics`.
    pub(super) fn storage_statistics(
        &self,
        py: Python<'_>,
        view: &View,
        not_stored: bool,
        fully_stored: bool,
    ) -> PyResult<Option<(bool, bool)>> {
        let (state, view) = (self.state(), view.inner());
        if view.dims.iter().any(Dim::is_empty) {
            return Ok(Some((true, true)));
        }
        let failed = |error| to_py(py, error);
        let Some(around) = view.enclosing_shape(&state.array.shape).map_err(failed)? else { return Ok(None) };
        let lowered = view.to_selection(&around).map_err(failed)?;
        let shape: PerAxis<u64> = around.iter().map(|&size| size as u64).collect();
        let requests = lowered.requests(&vec![0; lowered.buffer.len()]);
        let selection = Selection::new(&requests, &shape).map_err(failed)?;
        let asked = statistics::Statistics { not_stored, fully_stored };
        let find = |interrupt: Interrupt<'_>| {
            statistics::storage_statistics(
                self.operation(&state, &*self.store, Some(interrupt)),
                &selection,
                asked,
            )
        };
        let found = py.detach(|| run_interruptibly(find)).and_then(|found| found);
        let found = found.map_err(failed)?;
        Ok(Some((found.not_stored, found.fully_stored)))
    }
}
