//! Elements of views of NumPy arrays: strided views of them, and copies.

use std::collections::HashMap;
use std::ffi::c_int;

use numpy::npyffi::{self, npy_intp, NPY_TYPES, PY_ARRAY_API};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use tessarr_engine::copy::{all_steps, Item, Walk};
use tessarr_engine::index_space::{self, copy_all, CopySide, CopySteps, PerDimension};

use crate::array::{data, empty, empty_in, flags, overlaps_itself, Order};
use crate::index_space::View;
use crate::runtime::error::{argument, to_py};

/// The size from which a copy releases the GIL.
const LARGE_BYTES: usize = 64 << 10;

type Array<'py> = Bound<'py, PyUntypedArray>;

/// Return the elements of a view of an array: a NumPy view, or a copy if the view has index arrays.
#[pyfunction]
fn apply_view<'py>(py: Python<'py>, array: &Array<'py>, view: &View) -> PyResult<Array<'py>> {
    let layout =
        view.inner().strided_layout(array.shape(), array.strides()).map_err(|error| to_py(py, error))?;
    let Some((start, mut strides)) = layout else {
        return take(py, array, view, None);
    };
    let mut shape: Vec<npy_intp> = view.inner().dims.iter().map(|dim| dim.size() as npy_intp).collect();
    // SAFETY: shape and strides have as many entries as the rank, and address elements of the array
    // only. The new array takes over one reference to the dtype, and one to the array, which keeps
    // its memory alive.
    unsafe {
        let view_of_array = PY_ARRAY_API.PyArray_NewFromDescr(
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
        let view_of_array =
            Bound::from_owned_ptr_or_err(py, view_of_array)?.cast_into_unchecked::<PyUntypedArray>();
        let base = array.clone().into_ptr();
        if PY_ARRAY_API.PyArray_SetBaseObject(py, view_of_array.as_array_ptr(), base) < 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(view_of_array)
    }
}

/// Return a new array in C or Fortran order. Its items are uninitialised unless they are objects.
#[pyfunction]
#[pyo3(name = "empty", signature = (shape, dtype, order = 'C'))]
fn new_array<'py>(shape: Vec<usize>, dtype: Bound<'py, PyArrayDescr>, order: char) -> PyResult<Array<'py>> {
    let order = if order == 'F' { Order::Fortran } else { Order::C };
    empty_in(order, dtype, shape.into_iter())
}

/// Copy the elements of a view of an array to a new array, or to `out`, which has the same shape
/// and type.
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
    let mut copies = Copies::to([&out]);
    copies.add(view, (array, Some(view)), (&out, None))?;
    copies.run(py)?;
    Ok(out)
}

/// Copy items, with the shape of a view and the type of an array, to the elements of the view.
#[pyfunction]
fn put<'py>(py: Python<'py>, array: &Array<'py>, view: &View, items: &Array<'py>) -> PyResult<()> {
    let view = view.inner();
    let mut copies = Copies::to([array]);
    copies.add(view, (items, None), (array, Some(view)))?;
    copies.run(py)
}

/// Return whether two elements of an array may share bytes.
#[pyfunction]
#[pyo3(name = "overlaps_itself")]
fn overlapping(array: &Array<'_>) -> bool {
    overlaps_itself(array.shape(), array.strides(), array.dtype().itemsize())
}

/// An array and a view of it; None selects all elements.
type Seen<'a, 'py> = (&'a Array<'py>, Option<&'a index_space::IndexTransform>);

/// Copies from arrays to arrays. All copies are collected before the first one runs.
pub(crate) struct Copies<'py> {
    /// The memory of the target arrays. If target arrays overlap, the last copy wins.
    written: Extents,
    /// The type of all arrays, set by the first one.
    dtype: Option<Bound<'py, PyArrayDescr>>,
    /// Source arrays that overlap the targets, with the copies that replace them. The references to
    /// these arrays keep their addresses unique.
    copied: HashMap<*mut ffi::PyObject, (Array<'py>, Array<'py>)>,
    /// References to all other arrays.
    kept: Vec<Array<'py>>,
    copies: Vec<(CopySteps, *const u8, *mut u8)>,
    items: usize,
}

impl<'py> Copies<'py> {
    /// Return an empty list of copies to some arrays.
    pub(crate) fn to<'a>(arrays: impl IntoIterator<Item = &'a Array<'py>>) -> Copies<'py>
    where
        'py: 'a,
    {
        Copies {
            written: Extents::of(arrays.into_iter().map(extent)),
            dtype: None,
            copied: HashMap::new(),
            kept: Vec::new(),
            copies: Vec::new(),
            items: 0,
        }
    }

    /// Add a copy to one of the arrays. The source has the shape of the view.
    pub(crate) fn add(
        &mut self,
        view: &index_space::IndexTransform,
        from: Seen<'_, 'py>,
        to: Seen<'_, 'py>,
    ) -> PyResult<()> {
        let py = to.0.py();
        let size: PerDimension<usize> = view.dims.iter().map(|dim| dim.size() as usize).collect();
        let dtype = &*self.dtype.get_or_insert_with(|| from.0.dtype());
        if ![from.0, to.0].iter().all(|array| dtype.is_equiv_to(&array.dtype())) {
            return Err(argument(py, "the arrays have other types"));
        }
        if flags(to.0) & npyffi::NPY_ARRAY_WRITEABLE == 0 {
            return Err(argument(py, "the array cannot be written"));
        }
        let fits = |(array, view): Seen<'_, '_>| view.is_some() || *size == *array.shape();
        if !(fits(from) && fits(to)) {
            return Err(argument(py, "the arrays have other shapes"));
        }
        let array = match self.written.meet(extent(from.0)) {
            true => self.copy_once(from.0)?,
            false => from.0.clone(),
        };
        let from = (&array, from.1);
        let steps = side(from).and_then(|from| Ok(CopySteps::between(&size, &from, &side(to)?)));
        let steps = steps.map_err(|error| to_py(py, error))?;
        self.copies.push((steps, data(from.0).cast_const(), data(to.0)));
        self.items = self.items.saturating_add(size.iter().product());
        self.kept.extend([array, to.0.clone()]);
        Ok(())
    }

    /// Return the copy of an array; the first call creates it.
    fn copy_once(&mut self, array: &Array<'py>) -> PyResult<Array<'py>> {
        if let Some((_, copy)) = self.copied.get(&array.as_ptr()) {
            return Ok(copy.clone());
        }
        let copy = array.call_method0("copy")?.cast_into::<PyUntypedArray>()?;
        self.copied.insert(array.as_ptr(), (array.clone(), copy.clone()));
        Ok(copy)
    }

    /// Run the copies.
    pub(crate) fn run(self, py: Python<'py>) -> PyResult<()> {
        let Some(dtype) = &self.dtype else { return Ok(()) };
        if dtype.has_object() {
            if dtype.num() != NPY_TYPES::NPY_OBJECT as c_int {
                return Err(PyTypeError::new_err("elements that hold objects are not copied"));
            }
            // SAFETY: the steps address elements of arrays of objects.
            self.copies.iter().for_each(|(steps, from, to)| unsafe { copy_objects(steps, *from, *to) });
            return Ok(());
        }
        let item = Item { bytes: dtype.itemsize(), swap: 0 };
        let large = item.bytes.saturating_mul(self.items) > LARGE_BYTES;
        let together = if self.written.apart { self.copies.len() } else { 1 };
        let run = Shared(&self.copies);
        let work = move || {
            let Shared(copies) = { run };
            // SAFETY: the steps address elements of both arrays, which share no memory and stay
            // alive.
            copies.chunks(together).try_for_each(|some| unsafe { copy_all(some, item) })
        };
        let done = if large { py.detach(work) } else { work() };
        done.map_err(|error| to_py(py, error))
    }
}

fn side<'b>((array, view): Seen<'b, '_>) -> tessarr_engine::Result<CopySide<'b>> {
    match view {
        Some(view) => CopySide::of_view(view, array.shape(), array.strides()),
        None => Ok(CopySide::items(array.strides())),
    }
}

/// A value that another thread may use, by the promise of the code that creates it.
struct Shared<T>(T);

// SAFETY: the caller keeps the arrays alive and waits for the thread.
unsafe impl<T> Send for Shared<T> {}

/// Copy objects and count their references.
///
/// # Safety
/// All steps address objects, or null pointers, of arrays that the caller keeps alive.
pub(crate) unsafe fn copy_objects(steps: &CopySteps, from: *const u8, to: *mut u8) {
    let Walk { axes, src: source, dst: target } = steps.walk(from, to);
    all_steps(&axes, &mut |from, to| {
        // SAFETY: the caller guarantees that the steps are valid. Elements of arrays of objects may
        // be unaligned.
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

/// Disjoint intervals of addresses, in order.
struct Extents {
    intervals: Vec<(isize, isize)>,
    /// Whether the intervals were disjoint before this type merged overlapping ones.
    apart: bool,
}

impl Extents {
    fn of(extents: impl Iterator<Item = (isize, isize)>) -> Extents {
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

/// Return the interval of addresses that an array occupies.
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
    module.add_function(wrap_pyfunction!(apply_view, module)?)?;
    module.add_function(wrap_pyfunction!(new_array, module)?)?;
    module.add_function(wrap_pyfunction!(take, module)?)?;
    module.add_function(wrap_pyfunction!(overlapping, module)?)?;
    module.add_function(wrap_pyfunction!(put, module)?)
}
