//! Views of NumPy's arrays: where their elements are, and copies from and to them.

use std::collections::HashMap;
use std::ffi::c_int;

use numpy::npyffi::{self, npy_intp, NPY_TYPES, PY_ARRAY_API};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use tessarr_engine::copy::{all_steps, Item, Walk};
use tessarr_engine::space::{self, copy_all, PerDimension, Side, Steps};

use crate::array::{data, empty, flags};
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
        None => empty(array.dtype(), view.inner().dims.iter().map(|dim| dim.size() as usize))?,
    };
    let view = view.inner();
    copy(py, vec![Pair::new(view, (array.clone(), Some(view)), (out.clone(), None))], true)?;
    Ok(out)
}

/// Copy items, of the shape of a view and the type of an array, to the elements of the view.
#[pyfunction]
fn put<'py>(py: Python<'py>, array: &Array<'py>, view: &View, items: &Array<'py>) -> PyResult<()> {
    let view = view.inner();
    copy(py, vec![Pair::new(view, (items.clone(), None), (array.clone(), Some(view)))], true)
}

/// An array, and the view of it whose positions are meant; all of them without one.
type Seen<'a, 'py> = (Array<'py>, Option<&'a space::View>);

/// What is copied: how many items along each dimension, from where, and to where.
pub(crate) struct Pair<'a, 'py> {
    size: PerDimension<usize>,
    from: Seen<'a, 'py>,
    to: Seen<'a, 'py>,
}

impl<'a, 'py> Pair<'a, 'py> {
    pub(crate) fn new(view: &space::View, from: Seen<'a, 'py>, to: Seen<'a, 'py>) -> Pair<'a, 'py> {
        Pair { size: view.dims.iter().map(|dim| dim.size() as usize).collect(), from, to }
    }

    fn check(&self, dtype: &Bound<'py, PyArrayDescr>) -> PyResult<()> {
        let py = dtype.py();
        if ![&self.from, &self.to].iter().all(|(array, _)| dtype.is_equiv_to(&array.dtype())) {
            return Err(argument(py, "the arrays have other types"));
        }
        if flags(&self.to.0) & npyffi::NPY_ARRAY_WRITEABLE == 0 {
            return Err(argument(py, "the array cannot be written"));
        }
        let fits = |(array, view): &Seen<'_, '_>| view.is_some() || *self.size == *array.shape();
        match fits(&self.from) && fits(&self.to) {
            true => Ok(()),
            false => Err(argument(py, "the arrays have other shapes")),
        }
    }

    fn steps(&self) -> tessarr_engine::Result<Steps> {
        Ok(Steps::between(&self.size, &side(&self.from)?, &side(&self.to)?))
    }
}

fn side<'b>((array, view): &'b Seen<'b, '_>) -> tessarr_engine::Result<Side<'b>> {
    match view {
        Some(view) => Side::viewed(view, array.shape(), array.strides()),
        None => Ok(Side::items(array.strides())),
    }
}

/// Copy items; `apart` says that no two pairs lead to the same place. Else the last one counts.
pub(crate) fn copy(py: Python<'_>, mut pairs: Vec<Pair<'_, '_>>, apart: bool) -> PyResult<()> {
    let Some(dtype) = pairs.first().map(|pair| pair.from.0.dtype()) else { return Ok(()) };
    pairs.iter().try_for_each(|pair| pair.check(&dtype))?;
    let written = Extents::of(pairs.iter().map(|pair| extent(&pair.to.0)));
    // Many pairs may be from one array, which is kept so that no other is where it is.
    let mut copied: HashMap<*mut ffi::PyObject, (Array<'_>, Array<'_>)> = HashMap::new();
    for pair in &mut pairs {
        let array = &mut pair.from.0;
        if let Some((_, made)) = copied.get(&array.as_ptr()) {
            *array = made.clone();
        } else if written.meet(extent(array)) {
            let made = array.call_method0("copy")?.cast_into::<PyUntypedArray>()?;
            copied.insert(array.as_ptr(), (std::mem::replace(array, made.clone()), made));
        }
    }
    let mut copies = Vec::with_capacity(pairs.len());
    for pair in &pairs {
        let steps = pair.steps().map_err(|error| to_py(py, error))?;
        copies.push((steps, data(&pair.from.0).cast_const(), data(&pair.to.0)));
    }
    if dtype.has_object() {
        if dtype.num() != NPY_TYPES::NPY_OBJECT as c_int {
            return Err(PyTypeError::new_err("elements that hold objects are not copied"));
        }
        // SAFETY: the steps lead to elements of arrays of objects.
        copies.iter().for_each(|(steps, from, to)| unsafe { copy_objects(steps, *from, *to) });
        return Ok(());
    }
    let item = Item { bytes: dtype.itemsize(), swap: 0 };
    let items = pairs.iter().map(|pair| pair.size.iter().product::<usize>()).fold(0, usize::saturating_add);
    let run = Shared(copies);
    let work = move || {
        let Shared(copies) = { run };
        let together = if apart { copies.len() } else { 1 };
        // SAFETY: the steps lead to elements of both arrays, which are apart, and which the caller keeps.
        copies.chunks(together).try_for_each(|some| unsafe { copy_all(some, item) })
    };
    let large = item.bytes.saturating_mul(items) > LARGE_BYTES;
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
    let Walk { axes, src: source, dst: target } = steps.walk(from, to);
    all_steps(&axes, &mut |from, to| {
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

/// Addresses: intervals that are apart, in order.
pub(crate) struct Extents {
    intervals: Vec<(isize, isize)>,
    /// Whether they were apart before those that meet were taken as one.
    pub(crate) apart: bool,
}

impl Extents {
    pub(crate) fn of(extents: impl Iterator<Item = (isize, isize)>) -> Extents {
        let mut all: Vec<(isize, isize)> = extents.filter(|(low, high)| low < high).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup_by(|next, before| {
            let meets = next.0 < before.1;
            before.1 = if meets { before.1.max(next.1) } else { before.1 };
            meets
        });
        Extents { apart: all.len() == count, intervals: all }
    }

    fn meet(&self, (low, high): (isize, isize)) -> bool {
        let after = self.intervals.partition_point(|interval| interval.1 <= low);
        self.intervals.get(after).is_some_and(|interval| interval.0 < high && low < high)
    }
}

/// The addresses between which an array is.
pub(crate) fn extent(array: &Array<'_>) -> (isize, isize) {
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
