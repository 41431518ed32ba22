//! The memory of NumPy arrays, which the engine reads into and writes from.

use std::ffi::c_int;

use numpy::npyffi::{self, npy_intp, PY_ARRAY_API};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tessarr_engine::array::PerAxis;
use tessarr_engine::vlen::Arena;

use crate::array::elements::{self, Elements, Handles};
use crate::runtime::error::{named, out_of_memory};
use crate::runtime::fallible::Reserve;

/// Up to this number of elements, a read delivers its result without a memory reserve.
const FEW: usize = 1000;

/// The memory that the engine reads into or writes from: a NumPy array and a reference to its
/// owner, or a buffer of handles.
pub(crate) struct Memory {
    pub(super) address: *mut u8,
    handles: Option<Handles>,
}

impl Memory {
    pub(super) fn to_read(elements: &Elements, array: &Bound<'_, PyUntypedArray>) -> PyResult<Memory> {
        Memory::new(elements, array, || Handles::empty(array))
    }

    pub(super) fn to_write(elements: &Elements, array: &Bound<'_, PyUntypedArray>) -> PyResult<Memory> {
        Memory::new(elements, array, || Handles::of(elements, array))
    }

    fn new(
        elements: &Elements,
        array: &Bound<'_, PyUntypedArray>,
        handles: impl FnOnce() -> PyResult<Handles>,
    ) -> PyResult<Memory> {
        if elements.is_fixed() {
            return Ok(Memory { address: data(array), handles: None });
        }
        let handles = handles()?;
        Ok(Memory { address: handles.address(), handles: Some(handles) })
    }

    /// Return the same memory with its start moved by `start` bytes.
    pub(super) fn from(self, start: isize) -> Memory {
        Memory { address: self.address.wrapping_offset(start), ..self }
    }

    /// Copy the elements that were read into `array`, unless the engine read into it directly.
    pub(super) fn deliver(
        &self,
        elements: &Elements,
        array: &Bound<'_, PyUntypedArray>,
        arena: Arena,
    ) -> PyResult<()> {
        let Some(handles) = &self.handles else { return Ok(()) };
        // A few elements leave enough memory for the operations that follow.
        let reserve = if array.len() > FEW { Reserve::new(array.py()).map(Some) } else { Ok(None) };
        let delivered = reserve.and_then(|_reserve| {
            // SAFETY: the read that returned the arena filled the handles. The caller keeps the
            // array, which contains the fill value, alive.
            unsafe { handles.deliver(elements, array) }
        });
        drop(arena);
        delivered.map_err(|error| out_of_memory(array.py(), error, "the elements that were read"))
    }
}

// SAFETY: the operation owns a reference to the array. The engine's rules decide which thread
// accesses which bytes.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// Raise an error if the engine cannot read into a buffer.
pub(crate) fn check_target(buffer: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
    if flags(buffer) & npyffi::NPY_ARRAY_WRITEABLE == 0 {
        return Err(PyValueError::new_err("the buffer to read into is read-only"));
    }
    if overlaps_itself(buffer.shape(), buffer.strides(), buffer.dtype().itemsize()) {
        return Err(PyValueError::new_err("places of the buffer to read into share memory"));
    }
    Ok(())
}

/// Return the strides of the memory that the engine uses for `array`.
pub(super) fn strides(elements: &Elements, array: &Bound<'_, PyUntypedArray>) -> PerAxis<isize> {
    if elements.is_fixed() {
        PerAxis::from_slice(array.strides())
    } else {
        elements::strides(array.shape())
    }
}

/// Return whether two items may share bytes. The result is also true for a few interleaved layouts
/// without shared bytes, which only `as_strided` creates.
pub(crate) fn overlaps_itself(shape: &[usize], strides: &[isize], item_bytes: usize) -> bool {
    let axes = shape.iter().zip(strides).filter(|(&size, _)| size > 1);
    let mut axes: PerAxis<(usize, usize)> =
        axes.map(|(&size, stride)| (stride.unsigned_abs(), size)).collect();
    axes.sort_unstable();
    let mut extent = Some(item_bytes);
    let overlap = axes.into_iter().any(|(stride, size)| {
        let apart = extent.is_some_and(|extent| stride >= extent);
        extent = stride.checked_mul(size - 1).and_then(|reach| extent?.checked_add(reach));
        !apart
    });
    overlap && !shape.contains(&0)
}

/// Return a new array in C order. Its items are uninitialised unless they are objects.
///
/// Raise `OutOfMemoryError` if the memory is too small for the array.
pub(crate) fn empty(
    dtype: Bound<'_, PyArrayDescr>,
    shape: impl Iterator<Item = usize>,
) -> PyResult<Bound<'_, PyUntypedArray>> {
    empty_in(Order::C, dtype, shape)
}

/// The memory order of a new array.
#[derive(Clone, Copy)]
pub(crate) enum Order {
    C,
    Fortran,
}

/// Return a new array in a memory order.
pub(crate) fn empty_in<'py>(
    order: Order,
    dtype: Bound<'py, PyArrayDescr>,
    shape: impl Iterator<Item = usize>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let (py, mut shape) = (dtype.py(), shape.map(|size| size as npy_intp).collect::<PerAxis<npy_intp>>());
    let asked = dtype.clone();
    // SAFETY: `shape` has as many entries as the rank. PyArray_Empty takes over the reference to
    // the dtype from `into_dtype_ptr` and returns a new array, or null with an exception set.
    let made = unsafe {
        let array = PY_ARRAY_API.PyArray_Empty(
            py,
            shape.len() as c_int,
            shape.as_mut_ptr(),
            dtype.into_dtype_ptr(),
            c_int::from(matches!(order, Order::Fortran)),
        );
        Bound::from_owned_ptr_or_err(py, array).map(|array| array.cast_into_unchecked::<PyUntypedArray>())
    };
    made.map_err(|error| no_memory(error, &asked, &shape))
}

/// Return the exception for an array that NumPy cannot allocate, with NumPy's error as its cause.
fn no_memory(error: PyErr, dtype: &Bound<'_, PyArrayDescr>, shape: &[npy_intp]) -> PyErr {
    let py = dtype.py();
    if !(error.is_instance_of::<PyMemoryError>(py) || error.is_instance_of::<PyValueError>(py)) {
        return error;
    }
    let told =
        || named(py, "OutOfMemoryError")?.call_method1("_for_array", (PyTuple::new(py, shape)?, dtype));
    told().map_or_else(
        |failure| failure,
        |told| {
            let told = PyErr::from_value(told);
            told.set_cause(py, Some(error));
            told
        },
    )
}

/// Return the NumPy scalar of a rank-0 array.
pub(super) fn scalar<'py>(array: &Bound<'py, PyUntypedArray>) -> PyResult<Bound<'py, PyAny>> {
    let py = array.py();
    array.as_any().get_item(PyTuple::empty(py))
}

pub(crate) fn data(array: &Bound<'_, PyUntypedArray>) -> *mut u8 {
    // SAFETY: a live array object has a data pointer.
    unsafe { (*array.as_array_ptr()).data.cast() }
}

pub(crate) fn flags(array: &Bound<'_, PyUntypedArray>) -> c_int {
    // SAFETY: a live array object has flags.
    unsafe { (*array.as_array_ptr()).flags }
}
