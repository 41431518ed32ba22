//! Conversion of Python's indices to the engine's selections.

use numpy::{PyArrayDyn, PyArrayMethods, PyReadonlyArray1, PyUntypedArrayMethods};
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

/// Return the requests for a box. `strides` has one entry for each axis that the result keeps.
pub(crate) fn box_requests<'a>(axes: &[Along], strides: &[isize]) -> PerAxis<Request<'a>> {
    let mut strides = strides.iter().copied();
    let request = |along: &Along| {
        let stride = if along.dropped { 0 } else { strides.next().unwrap_or(0) };
        Request::Range { start: along.start, step: along.step, count: along.count, stride }
    };
    axes.iter().map(request).collect()
}

/// One axis of a `tessarr.indexing.Selection`.
pub(crate) enum AxisArgument<'py> {
    Range(i64, i64, usize),
    List(PyReadonlyArray1<'py, i64>),
    Joint(PyReadonlyArray1<'py, i64>),
    /// A mask of several axes, and the number of this axis among them.
    Mask(Bound<'py, PyArrayDyn<bool>>, usize),
}

impl<'a, 'py> FromPyObject<'a, 'py> for AxisArgument<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let Ok(tuple) = object.cast::<PyTuple>() else {
            return Ok(AxisArgument::List(object.extract()?));
        };
        match tuple.len() {
            1 => return Ok(AxisArgument::Joint(tuple.get_item(0)?.extract()?)),
            2 => {
                let (mask, number) = tuple.extract::<(Bound<'_, PyArrayDyn<bool>>, usize)>()?;
                return Ok(AxisArgument::Mask(mask, number));
            }
            _ => {}
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
    let mut requests = Vec::with_capacity(axes.len());
    for (axis, out_axis) in axes.iter().zip(out_axes) {
        let count = match axis {
            AxisArgument::Range(_, _, count) => *count,
            AxisArgument::List(indices) | AxisArgument::Joint(indices) => indices.as_slice()?.len(),
            // The engine compares the length of the buffer with the mask.
            AxisArgument::Mask(..) => out_axis.and_then(|axis| shape.get(axis)).copied().unwrap_or_default(),
        };
        let stride = match *out_axis {
            None if count == 1 => 0,
            Some(out_axis) if shape.get(out_axis) == Some(&count) => {
                let joint = matches!(axis, AxisArgument::Joint(_) | AxisArgument::Mask(..));
                // Two axes of the selection along one axis of the buffer would exceed the buffer.
                if used[out_axis].replace(joint).is_some_and(|before| !(before && joint)) {
                    return Err(PyTypeError::new_err("two axes of the selection name one of the buffer"));
                }
                strides[out_axis]
            }
            _ => return Err(PyTypeError::new_err("the buffer's shape does not fit the selection")),
        };
        requests.push(axis.request(count, stride)?);
    }
    if used.iter().zip(shape).any(|(used, &size)| used.is_none() && size != 1) {
        return Err(PyTypeError::new_err("the buffer has an axis that the selection does not name"));
    }
    Ok(requests)
}

impl AxisArgument<'_> {
    /// Return the engine's request for `count` elements, `stride` bytes from each other in a buffer.
    fn request(&self, count: usize, stride: isize) -> PyResult<Request<'_>> {
        Ok(match self {
            AxisArgument::Range(start, step, count) => {
                Request::Range { start: *start, step: *step, count: *count, stride }
            }
            AxisArgument::List(indices) => Request::List { indices: indices.as_slice()?, stride },
            AxisArgument::Joint(indices) => Request::Joint { indices: indices.as_slice()?, stride },
            AxisArgument::Mask(mask, 0) => Request::Mask { values: bytes_of(mask)?, count, stride },
            AxisArgument::Mask(..) => Request::Masked,
        })
    }
}

/// Return the bytes of a mask in C order. A boolean of NumPy may have any byte.
fn bytes_of<'a>(mask: &'a Bound<'_, PyArrayDyn<bool>>) -> PyResult<&'a [u8]> {
    if !mask.is_c_contiguous() {
        return Err(PyTypeError::new_err("a mask has to be contiguous"));
    }
    if mask.len() == 0 {
        return Ok(&[]);
    }
    // SAFETY: the array is contiguous and has this many bytes, as long as `mask` refers to it. The
    // selection does not share it with the user, so nothing changes it.
    Ok(unsafe { std::slice::from_raw_parts(mask.data().cast::<u8>(), mask.len()) })
}
