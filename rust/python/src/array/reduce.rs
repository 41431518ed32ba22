//! Reduction of blocks of a NumPy array to one element each.

use numpy::npyffi::NPY_ARRAY_WRITEABLE;
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use tessarr_engine::reduce::{item_bytes, reduce as reduce_blocks, AxisBlocks, Method, StridedArray};

use crate::array::{data, flags, overlaps_itself};
use crate::runtime::error::{argument, to_py};

/// What is passed to another thread together with the promise that it may be used there.
struct Shared<T>(T);

// SAFETY: the arrays are kept by the caller, who waits.
unsafe impl<T> Send for Shared<T> {}

/// Give one element of `out` for each block of `values`.
///
/// `cuts` has for each axis the length of a short block at the beginning, that of whole ones and
/// their number, and the length of a short block at the end. `kind` is the type of the elements.
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
        // SAFETY: the shapes were checked; that the two are apart is up to the caller, as it is
        // that nobody else writes to them.
        unsafe { reduce_blocks(kind, method, &cuts, source, target) }
    })
    .map_err(|error| to_py(py, error))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(reduce, module)?)
}
