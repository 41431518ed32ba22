//! Views of NumPy's arrays: where their elements are, and copies from and to them.

use std::ffi::c_int;

use numpy::npyffi::{self, npy_intp, NPY_TYPES, PY_ARRAY_API};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use tessarr_engine::copy::{all_steps, Item};
use tessarr_engine::space::{Steps, Way};

use crate::array::{data, flags};
use crate::error::{argument, to_py};
use crate::space::View;

/// Copies of more bytes are made while other threads of Python run.
const LARGE_BYTES: usize = 64 << 10;

type Array<'py> = Bound<'py, PyUntypedArray>;

/// The elements of a view of an array: where they are, or copied if the view has index arrays.
#[pyfunction]
fn look<'py>(py: Python<'py>, array: &Array<'py>, view: &View) -> PyResult<Array<'py>> {
    let found = view.inner().strided(array.shape(), array.strides()).map_err(|error| to_py(py, error))?;
    let Some((start, mut strides)) = found else {
        return take(py, array, view, None);
    };
    let mut shape: Vec<npy_intp> = view.inner().dims.iter().map(|dim| dim.size() as npy_intp).collect();
    // SAFETY: shape and strides have as many entries as said, and lead to elements of the array only; the
    // new array takes over one reference to the dtype, and one to the array, which keeps its memory alive.
    unsafe {
        let made = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, npyffi::NpyTypes::PyArray_Type),
            array.dtype().into_dtype_ptr(),
            shape.len() as c_int,
            shape.as_mut_ptr(),
            strides.as_mut_ptr().cast(),
            data(array).wrapping_offset(start).cast(),
            flags(array) & npyffi::NPY_ARRAY_WRITEABLE,
            std::ptr::null_mut(),
        );
        let made = Bound::from_owned_ptr_or_err(py, made)?.cast_into_unchecked::<PyUntypedArray>();
        let base = array.clone().into_ptr();
        if PY_ARRAY_API.PyArray_SetBaseObject(py, made.as_array_ptr(), base) < 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(made)
    }
}

/// A copy of the elements of a view of an array: a new array, or `out`, which has the same shape and type.
#[pyfunction]
#[pyo3(signature = (array, view, out=None))]
fn take<'py>(
    py: Python<'py>,
    array: &Array<'py>,
    view: &View,
    out: Option<Array<'py>>,
) -> PyResult<Array<'py>> {
    let out = match out {
        Some(out) => out,
        None => empty(py, array.dtype(), view)?,
    };
    copy(py, array, view, &out, Way::Out)?;
    Ok(out)
}

/// Copy items, of the shape of a view and the type of an array, to the elements of the view.
#[pyfunction]
fn put<'py>(py: Python<'py>, array: &Array<'py>, view: &View, items: &Array<'py>) -> PyResult<()> {
    copy(py, array, view, items, Way::In)
}

/// A new array in C order of the shape of a view.
fn empty<'py>(py: Python<'py>, dtype: Bound<'py, PyArrayDescr>, view: &View) -> PyResult<Array<'py>> {
    let mut shape: Vec<npy_intp> = view.inner().dims.iter().map(|dim| dim.size() as npy_intp).collect();
    // SAFETY: the shape has as many entries as said; the new array takes over one reference to the dtype.
    unsafe {
        let (rank, shape) = (shape.len() as c_int, shape.as_mut_ptr());
        let made = PY_ARRAY_API.PyArray_Empty(py, rank, shape, dtype.into_dtype_ptr(), 0);
        Ok(Bound::from_owned_ptr_or_err(py, made)?.cast_into_unchecked())
    }
}

fn copy(py: Python<'_>, array: &Array<'_>, view: &View, items: &Array<'_>, way: Way) -> PyResult<()> {
    let (source, target) = if way == Way::Out { (array, items) } else { (items, array) };
    let dtype = array.dtype();
    if !dtype.is_equiv_to(&items.dtype()) {
        return Err(argument(py, "the arrays have other types"));
    }
    if flags(target) & npyffi::NPY_ARRAY_WRITEABLE == 0 {
        return Err(argument(py, "the array cannot be written"));
    }
    if !view.inner().dims.iter().map(|dim| dim.size() as usize).eq(items.shape().iter().copied()) {
        return Err(argument(py, "the arrays have other shapes"));
    }
    if meet(source, target) {
        let apart = source.call_method0("copy")?.cast_into::<PyUntypedArray>()?;
        let (array, items) = if way == Way::Out { (&apart, items) } else { (array, &apart) };
        return copy(py, array, view, items, way);
    }
    let steps = view.inner().steps(array.shape(), array.strides(), items.strides(), way);
    let steps = steps.map_err(|error| to_py(py, error))?;
    let (from, to) = (data(source).cast_const(), data(target));
    if dtype.has_object() {
        if dtype.num() != NPY_TYPES::NPY_OBJECT as c_int {
            return Err(PyTypeError::new_err("elements that hold objects are not copied"));
        }
        // SAFETY: the steps lead to elements of arrays of objects.
        unsafe { copy_objects(&steps, from, to) };
        return Ok(());
    }
    let item = Item { bytes: dtype.itemsize(), swap: 0 };
    let large = item.bytes.saturating_mul(items.len()) > LARGE_BYTES;
    let run = Shared((steps, from, to));
    let work = move || {
        let Shared((steps, from, to)) = { run };
        // SAFETY: the steps lead to elements of both arrays, which are apart, and which the caller keeps.
        unsafe { steps.run(from, to, item) }
    };
    let done = if large { py.detach(work) } else { work() };
    done.map_err(|error| to_py(py, error))
}

/// What is passed to another thread together with the promise that it may be used there.
struct Shared<T>(T);

// SAFETY: the arrays are kept by the caller, who waits.
unsafe impl<T> Send for Shared<T> {}

/// Copy objects: references are counted.
///
/// # Safety
/// All steps lead from and to objects, or null pointers, of arrays that the caller keeps.
unsafe fn copy_objects(steps: &Steps, from: *const u8, to: *mut u8) {
    let (source, target) = steps.begin(from, to);
    all_steps(&steps.axes(), &mut |from, to| {
        // SAFETY: the caller's promise; elements of arrays of objects may lie anywhere.
        unsafe {
            let (source, target) = (source.byte_offset(from), target.byte_offset(to));
            let object = source.cast::<*mut ffi::PyObject>().read_unaligned();
            ffi::Py_XINCREF(object);
            let target = target.cast::<*mut ffi::PyObject>();
            let before = target.read_unaligned();
            target.write_unaligned(object);
            ffi::Py_XDECREF(before);
        }
        true
    });
}

/// Whether two arrays may have a byte in common.
fn meet(one: &Array<'_>, other: &Array<'_>) -> bool {
    let (one, other) = (extent(one), extent(other));
    one.0 < other.1 && other.0 < one.1
}

/// The addresses between which an array is.
fn extent(array: &Array<'_>) -> (isize, isize) {
    let (mut low, mut high) = (data(array) as isize, data(array) as isize);
    for (&size, &stride) in array.shape().iter().zip(array.strides()) {
        if size == 0 {
            return (0, 0);
        }
        let along = (size as isize - 1) * stride;
        (low, high) = (low + along.min(0), high + along.max(0));
    }
    (low, high + array.dtype().itemsize() as isize)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(look, module)?)?;
    module.add_function(wrap_pyfunction!(take, module)?)?;
    module.add_function(wrap_pyfunction!(put, module)?)
}
