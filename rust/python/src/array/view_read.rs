//! Reads of a view of an array, into an array of its shape or a view in memory.

use std::sync::Arc;

use numpy::npyffi::NPY_TYPES;
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use tessarr_engine::copy::Item;
use tessarr_engine::index_space::{
    copy_all, CopySide, CopySteps, EngineSelection, IndexTransform, PerDimension,
};
use tessarr_engine::selection::Selection;

use super::pending_transfer::Part;
use super::{
    check_items, check_target, data, empty, engine_fields, strides, ArrayBase, Fields, Memory, PreparedRead,
    State,
};
use crate::index_space::copy_elements::copy_objects;
use crate::runtime::error::to_py;

/// A copy of elements from a temporary buffer to their destination.
pub(crate) struct Spread {
    copy: [(CopySteps, *const u8, *mut u8); 1],
    item: Item,
    /// Whether the elements are Python objects, whose copy needs the GIL.
    objects: bool,
    /// The destination, which must outlive the copy.
    out: Py<PyUntypedArray>,
}

// SAFETY: the part of a transfer keeps the buffer and the target alive. No other code writes to
// their elements.
unsafe impl Send for Spread {}
// SAFETY: as above.
unsafe impl Sync for Spread {}

impl Spread {
    /// Copy elements that are not Python objects.
    pub(super) fn copy(&self) -> tessarr_engine::Result<()> {
        match self.objects {
            true => Ok(()),
            // SAFETY: the steps belong to both arrays, which share no memory and stay alive.
            false => unsafe { copy_all(&self.copy, self.item) },
        }
    }

    /// Copy Python objects.
    pub(super) fn deliver(&self, _: Python<'_>) {
        if self.objects {
            // SAFETY: as above; both are arrays of objects.
            self.copy.iter().for_each(|(steps, from, to)| unsafe { copy_objects(steps, *from, *to) });
        }
    }

    pub(super) fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.out)
    }
}

/// Return the part that reads the elements of `view` into the positions that `place` has in `out`.
/// None: the view has no positions.
pub(crate) fn part(
    base: &Bound<'_, ArrayBase>,
    view: &IndexTransform,
    place: &IndexTransform,
    out: &Bound<'_, PyUntypedArray>,
) -> PyResult<Option<Part>> {
    let (state, lowered) = lower_view(base, view)?;
    place_part(base, state, &lowered, out, Some(place), None)
}

/// Prepare a read of the elements of `view`, or of `fields` of them, into `out`, or into a new
/// array of a data type.
pub(super) fn prepare_view_read(
    base: &Bound<'_, ArrayBase>,
    view: &IndexTransform,
    dtype: &Bound<'_, PyArrayDescr>,
    out: Option<Bound<'_, PyUntypedArray>>,
    fields: Option<Fields>,
) -> PyResult<PreparedRead> {
    let (state, lowered) = lower_view(base, view)?;
    let out = match out {
        None => empty(dtype.clone(), lowered.shape.iter().copied())?,
        Some(out) if *lowered.shape == *out.shape() => check_target(&out).map(|()| out)?,
        Some(_) => return Err(PyTypeError::new_err("the array to read into has not the shape of the view")),
    };
    let part = place_part(base, state, &lowered, &out, None, fields)?;
    Ok(PreparedRead::of(part, out.into_any().unbind()))
}

/// Return the selection of a view of the current array.
fn lower_view(base: &Bound<'_, ArrayBase>, view: &IndexTransform) -> PyResult<(Arc<State>, EngineSelection)> {
    let state = base.get().state();
    let lowered = view.to_selection(&state.description.bind(base.py()).get().shape);
    Ok((state, lowered.map_err(|error| to_py(base.py(), error))?))
}

/// Return the part that reads a selection into `out`, or into the positions of a view of `out`. It
/// reads in place if each dimension is an axis of the selection, otherwise through a buffer.
fn place_part(
    base: &Bound<'_, ArrayBase>,
    state: Arc<State>,
    lowered: &EngineSelection,
    out: &Bound<'_, PyUntypedArray>,
    place: Option<&IndexTransform>,
    fields: Option<Fields>,
) -> PyResult<Option<Part>> {
    let py = base.py();
    let elements = &state.description.bind(py).get().elements;
    let failed = |error| to_py(py, error);
    check_items(&state, out, fields.as_deref())?;
    if lowered.shape.contains(&0) {
        return Ok(None);
    }
    // The delivery of objects needs a whole array.
    let placed = match place {
        None => Some((0, strides(elements, out))),
        Some(_) if !elements.is_fixed() => None,
        Some(place) => {
            let placed = place.strided_layout(out.shape(), out.strides()).map_err(failed)?;
            placed.map(|(start, steps)| (start, steps.iter().copied().collect()))
        }
    };
    let straight = placed.and_then(|(start, steps)| Some((start, lowered.strides(&steps)?)));
    let (buffer, start, strides, spread) = match straight {
        Some((start, strides)) => (out.clone(), start, strides, None),
        None => {
            let dtype = out.dtype();
            let objects = dtype.has_object();
            if objects && dtype.num() != NPY_TYPES::NPY_OBJECT as i32 {
                return Err(PyTypeError::new_err("elements that hold objects are not copied"));
            }
            let item = Item { bytes: dtype.itemsize(), swap: 0 };
            let buffer = empty(dtype, lowered.buffer.iter().copied())?;
            let target = match place {
                Some(place) => CopySide::of_view(place, out.shape(), out.strides()).map_err(failed)?,
                None => CopySide::items(out.strides()),
            };
            let steps =
                CopySteps::between(&lowered.shape, &CopySide::items(&lowered.steps(item.bytes)), &target);
            let copy = [(steps, data(&buffer).cast_const(), data(out))];
            let strides: PerDimension<isize> = strides(elements, &buffer).iter().copied().collect();
            (buffer, 0, strides, Some(Spread { copy, item, objects, out: out.clone().unbind() }))
        }
    };
    let selection = Selection::new(&lowered.requests(&strides), &state.array.shape)
        .and_then(|selection| selection.with_fields(engine_fields(fields), state.array.item_bytes))
        .map_err(failed)?;
    let memory = Memory::to_read(elements, &buffer)?.from(start);
    let (base, store, buffer) = (base.clone().unbind(), base.get().store.clone(), buffer.unbind());
    Ok(Some(Part { base, state, store, selection, memory, buffer, writes: false, spread }))
}
