//! Reduction of blocks of a NumPy array to one element each.

use numpy::npyffi::NPY_ARRAY_WRITEABLE;
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use tessarr_engine::reduce::{item_bytes, reduce as reduce_blocks, AxisBlocks, Method, StridedArray};

use crate::array::{data, flags, overlaps_itself};
use crate::runtime::error::{argument, to_py};

/// A value that another thread may use, by the promise of the code that creates it.
struct Shared<T>(T);

// SAFETY: the caller keeps the arrays alive and waits for the thread.
unsafe impl<T> Send for Shared<T> {}

/// Reduce each block of `values` to one element of `out`.
///
/// For each axis, `cuts` contains the length of a short first block, the length and number of full
/// blocks, and the length of a short last block. `kind` is the type of the elements.
#[pyfunction]
fn reduce(
    py: Python<'_>,
    values: &Bound<'_, PyUntypedArray>,
    out: &Bound<'_, PyUntypedArray>,
    cuts: Vec<(usize, usize, usize, usize)>,
    method: &str,
    kind: &str,
) -> PyResult<()> {
    let wrong = |what: &str| Err(argument(py, what));
    let Some(method) = Method::from_name(method) else { return wrong("there is no such method") };
    let to_blocks = |(first, whole, wholes, last)| AxisBlocks { first, whole, wholes, last };
    let cuts: Vec<AxisBlocks> = cuts.into_iter().map(to_blocks).collect();
    let bytes = item_bytes(kind);
    if [values, out].iter().any(|array| Some(array.dtype().itemsize()) != bytes) {
        return wrong("the elements are of another kind");
    }
    if !cuts.iter().map(AxisBlocks::items).eq(values.shape().iter().map(|&size| Some(size)))
        || !cuts.iter().map(AxisBlocks::blocks).eq(out.shape().iter().copied())
    {
        return wrong("the arrays have other shapes");
    }
    let writable = flags(out) & NPY_ARRAY_WRITEABLE != 0;
    if !writable || overlaps_itself(out.shape(), out.strides(), bytes.unwrap_or(0)) {
        return wrong("the array is not one to be written to");
    }
    let work = Shared((
        StridedArray { address: data(values), strides: values.strides() },
        StridedArray { address: data(out), strides: out.strides() },
    ));
    py.detach(move || {
        let Shared((source, target)) = { work };
        // SAFETY: this function has checked the shapes. The caller passes arrays that share no
        // memory and that no other thread writes to.
        unsafe { reduce_blocks(kind, method, &cuts, source, target) }
    })
    .map_err(|error| to_py(py, error))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(reduce, module)?)
}
