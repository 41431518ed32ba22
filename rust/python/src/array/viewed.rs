//! What a view sees of an array, read to the places of another view in memory.

use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use tessarr_engine::copy::Item;
use tessarr_engine::selection::Selection;
use tessarr_engine::space::{copy_all, PerDimension, Side, Steps, View};

use super::begun::Part;
use super::{data, empty, fits, ArrayBase, Memory};
use crate::error::to_py;

/// Where items that were read to a buffer of their own go.
pub(crate) struct Spread {
    copy: [(Steps, *const u8, *mut u8); 1],
    item: Item,
    /// Kept for as long as it is written to.
    _out: Py<PyUntypedArray>,
}

// SAFETY: buffer and target are kept by the part of a transfer, whose places nobody else writes to.
unsafe impl Send for Spread {}
// SAFETY: as above.
unsafe impl Sync for Spread {}

impl Spread {
    pub(super) fn copy(&self) -> tessarr_engine::Result<()> {
        // SAFETY: the steps were made for both arrays, which are apart, and are kept.
        unsafe { copy_all(&self.copy, self.item) }
    }
}

/// What is to be read of an array: the elements of `view`, to the places that `place` has in `out`, which
/// is an array of the same type that may be read into. They go there at once if each dimension is an axis
/// of what the engine walks, else by a buffer.
pub(crate) fn part(
    base: &Bound<'_, ArrayBase>,
    view: &View,
    place: &View,
    out: &Bound<'_, PyUntypedArray>,
) -> PyResult<Part> {
    let (py, state) = (base.py(), base.get().state());
    let description = state.description.bind(py).get();
    if !description.elements.is_fixed() || !fits(description, out) {
        return Err(PyTypeError::new_err(format!("the elements are not {}", out.dtype())));
    }
    let failed = |error| to_py(py, error);
    let shape: PerDimension<usize> = state.array.shape.iter().map(|&size| size as usize).collect();
    let lowered = view.lowered(&shape).map_err(failed)?;
    let placed = place.strided(out.shape(), out.strides()).map_err(failed)?;
    let straight = placed.and_then(|(start, steps)| Some((start, lowered.strides(&steps)?)));
    let (buffer, start, strides, spread) = match straight {
        Some((start, strides)) => (out.clone(), start, strides, None),
        None => {
            let buffer = empty(out.dtype(), lowered.buffer.iter().copied())?;
            let item = Item { bytes: out.dtype().itemsize(), swap: 0 };
            let target = Side::viewed(place, out.shape(), out.strides()).map_err(failed)?;
            let steps = Steps::between(&lowered.shape, &Side::items(&lowered.steps(item.bytes)), &target);
            let copy = [(steps, data(&buffer).cast_const(), data(out))];
            let strides = buffer.strides().into();
            (buffer, 0, strides, Some(Spread { copy, item, _out: out.clone().unbind() }))
        }
    };
    let selection = Selection::new(&lowered.requests(&strides), &state.array.shape).map_err(failed)?;
    let memory = Memory { address: data(&buffer).wrapping_offset(start), handles: None };
    let (base, buffer) = (base.clone().unbind(), buffer.unbind());
    Ok(Part { base, state, selection, memory, buffer, writes: false, spread })
}
