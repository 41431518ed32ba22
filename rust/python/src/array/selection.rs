//! Conversion of Python's indices to the engine's selections.

use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyEllipsis, PyInt, PySlice, PyTuple};
use tessarr_engine::array::PerAxis;
use tessarr_engine::selection::Request;

/// A range along one axis, from a basic index of NumPy.
#[derive(Clone, Copy)]
pub(crate) struct Along {
    pub(crate) start: i64,
    pub(crate) step: i64,
    pub(crate) count: usize,
    /// Whether an integer index drops the axis.
    pub(crate) dropped: bool,
}

/// Return the box of a basic index: integers, slices of integers and at most one ellipsis. Return
/// None for every other index and for out-of-bounds integers, so that `tessarr.indexing` parses it
/// and raises its errors. Return None also for integers with an ellipsis: NumPy returns an array
/// for these, not a scalar.
pub(crate) fn basic(key: &Bound<'_, PyAny>, shape: &[u64]) -> Option<PerAxis<Along>> {
    let mut axes = PerAxis::new();
    let mut ellipsis = key.is(PyEllipsis::get(key.py()));
    if let Ok(tuple) = key.cast_exact::<PyTuple>() {
        let given = tuple.len();
        for (place, entry) in tuple.iter_borrowed().enumerate() {
            if entry.is(PyEllipsis::get(key.py())) {
                if std::mem::replace(&mut ellipsis, true) {
                    return None;
                }
                let rest = given - place - 1;
                while axes.len() + rest < shape.len() {
                    axes.push(whole(shape[axes.len()]));
                }
            } else {
                let size = *shape.get(axes.len())?;
                axes.push(along(&entry, size)?);
            }
        }
    } else if !ellipsis {
        axes.push(along(key, *shape.first()?)?);
    }
    while axes.len() < shape.len() {
        axes.push(whole(shape[axes.len()]));
    }
    let scalar = axes.iter().all(|along| along.dropped);
    (axes.len() == shape.len() && !(scalar && ellipsis)).then_some(axes)
}

fn whole(size: u64) -> Along {
    Along { start: 0, step: 1, count: size as usize, dropped: false }
}

fn along(entry: &Bound<'_, PyAny>, size: u64) -> Option<Along> {
    let size = i64::try_from(size).ok()?;
    if let Ok(integer) = entry.cast_exact::<PyInt>() {
        let index: i64 = integer.extract().ok()?;
        let start = if index < 0 { index.checked_add(size)? } else { index };
        return (start >= 0 && start < size).then_some(Along { start, step: 1, count: 1, dropped: true });
    }
    let slice = entry.cast_exact::<PySlice>().ok()?;
    let indices = slice.indices(isize::try_from(size).ok()?).ok()?;
    Some(Along {
        start: indices.start as i64,
        step: indices.step as i64,
        count: indices.slicelength,
        dropped: false,
    })
}

/// One axis of a `tessarr.indexing.Selection`.
pub(crate) enum AxisArgument<'py> {
    Range(i64, i64, usize),
    List(PyReadonlyArray1<'py, i64>),
    Joint(PyReadonlyArray1<'py, i64>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for AxisArgument<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let Ok(tuple) = object.cast::<PyTuple>() else {
            return Ok(AxisArgument::List(object.extract()?));
        };
        if tuple.len() == 1 {
            return Ok(AxisArgument::Joint(tuple.get_item(0)?.extract()?));
        }
        let (start, step, count) = tuple.extract()?;
        Ok(AxisArgument::Range(start, step, count))
    }
}

/// Return the engine's requests for `axes`, which are the axes `out_axes` of a buffer of `shape`.
pub(crate) fn requests<'a>(
    axes: &'a [AxisArgument<'_>],
    out_axes: &[Option<usize>],
    shape: &[usize],
    strides: &[isize],
) -> PyResult<Vec<Request<'a>>> {
    if axes.len() != out_axes.len() {
        return Err(PyTypeError::new_err("axes and out_axes differ in length"));
    }
    // For each axis of the buffer: None, Some(false) for one axis, or Some(true) for joint axes.
    let mut used = vec![None; shape.len()];
    let mut along = Vec::with_capacity(axes.len());
    for (axis, out_axis) in axes.iter().zip(out_axes) {
        let count = match axis {
            AxisArgument::Range(_, _, count) => *count,
            AxisArgument::List(indices) | AxisArgument::Joint(indices) => indices.as_slice()?.len(),
        };
        along.push(match *out_axis {
            None if count == 1 => 0,
            Some(out_axis) if shape.get(out_axis) == Some(&count) => {
                let joint = matches!(axis, AxisArgument::Joint(_));
                // Two axes of the selection along one axis of the buffer would exceed the buffer.
                if used[out_axis].replace(joint).is_some_and(|before| !(before && joint)) {
                    return Err(PyTypeError::new_err("two axes of the selection name one of the buffer"));
                }
                strides[out_axis]
            }
            _ => return Err(PyTypeError::new_err("the buffer's shape does not fit the selection")),
        });
    }
    if used.iter().zip(shape).any(|(used, &size)| used.is_none() && size != 1) {
        return Err(PyTypeError::new_err("the buffer has an axis that the selection does not name"));
    }
    selected(axes, &along)
}

/// Return the engine's requests for `axes` with one stride each.
fn selected<'a>(axes: &'a [AxisArgument<'_>], strides: &[isize]) -> PyResult<Vec<Request<'a>>> {
    let request = |(axis, &stride): (&'a AxisArgument<'_>, &isize)| {
        Ok(match axis {
            AxisArgument::Range(start, step, count) => {
                Request::Range { start: *start, step: *step, count: *count, stride }
            }
            AxisArgument::List(indices) => Request::List { indices: indices.as_slice()?, stride },
            AxisArgument::Joint(indices) => Request::Joint { indices: indices.as_slice()?, stride },
        })
    };
    axes.iter().zip(strides).map(request).collect()
}
