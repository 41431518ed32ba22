//! Arrays of NumPy's `StringDType`, whose items only NumPy's functions read and write.
//!
//! NumPy 2 provides these functions in the table of its C interface. An array of this type exists
//! only with NumPy 2.

use std::ffi::{c_char, c_int, c_void};

use crate::runtime::once_cell::OnceCell;
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::array::elements::cannot_store;

// Indices into the table (NumPy's `__multiarray_api.h`).
const LOAD: usize = 313;
const PACK: usize = 314;
const ACQUIRE: usize = 316;
const RELEASE: usize = 318;

/// `npy_static_string`.
#[repr(C)]
struct Unpacked {
    size: usize,
    buf: *const c_char,
}

type Load = unsafe extern "C" fn(*mut c_void, *const c_void, *mut Unpacked) -> c_int;
type Pack = unsafe extern "C" fn(*mut c_void, *mut c_void, *const c_char, usize) -> c_int;
type Acquire = unsafe extern "C" fn(*const c_void) -> *mut c_void;
type Release = unsafe extern "C" fn(*mut c_void);

#[derive(Clone, Copy)]
struct Functions {
    load: Load,
    pack: Pack,
    acquire: Acquire,
    release: Release,
}

static FUNCTIONS: OnceCell<Functions> = OnceCell::new();

impl Functions {
    fn find(py: Python<'_>) -> PyResult<Functions> {
        FUNCTIONS
            .get_or_try_init(py, || {
                let module = py.import("numpy._core.multiarray")?;
                let capsule = module.getattr("_ARRAY_API")?.cast_into::<PyCapsule>()?;
                let table = capsule.pointer_checked(None)?.cast::<*const c_void>();
                // NumPy and its table stay loaded until the process ends.
                std::mem::forget(capsule);
                // SAFETY: the table of NumPy 2 has functions of these types at these indices.
                Ok(unsafe {
                    Functions {
                        load: std::mem::transmute::<*const c_void, Load>(table.add(LOAD).read()),
                        pack: std::mem::transmute::<*const c_void, Pack>(table.add(PACK).read()),
                        acquire: std::mem::transmute::<*const c_void, Acquire>(table.add(ACQUIRE).read()),
                        release: std::mem::transmute::<*const c_void, Release>(table.add(RELEASE).read()),
                    }
                })
            })
            .copied()
    }
}

/// The strings of one array. This value holds their lock while it lives.
pub(crate) struct Strings<'py> {
    py: Python<'py>,
    functions: Functions,
    allocator: *mut c_void,
}

impl<'py> Strings<'py> {
    /// Return the strings of `array`; None if it has another data type.
    pub(crate) fn of(array: &Bound<'py, PyUntypedArray>) -> PyResult<Option<Self>> {
        let dtype = array.dtype();
        if dtype.kind() != b'T' {
            return Ok(None);
        }
        let functions = Functions::find(array.py())?;
        // SAFETY: the data type of an array of kind T is a `PyArray_StringDTypeObject`. It lives as
        // long as the array, which outlives this value.
        let allocator = unsafe { (functions.acquire)(dtype.as_ptr().cast()) };
        Ok(Some(Strings { py: array.py(), functions, allocator }))
    }

    /// Append the bytes of the item at `at` to `out`.
    ///
    /// # Safety
    /// `at` is an item of the array.
    pub(crate) unsafe fn load(&self, at: *const u8, out: &mut Vec<u8>) -> PyResult<()> {
        let mut found = Unpacked { size: 0, buf: std::ptr::null() };
        // SAFETY: the caller guarantees that `at` is an item, and this value holds the lock.
        match unsafe { (self.functions.load)(self.allocator, at.cast(), &mut found) } {
            0 if found.size == 0 => Ok(()),
            0 => {
                // SAFETY: NumPy returns this number of bytes, which stay valid while this value
                // holds the lock.
                let bytes = unsafe { std::slice::from_raw_parts(found.buf.cast::<u8>(), found.size) };
                std::str::from_utf8(bytes)
                    .map_err(|error| cannot_store(self.py, format!("text that is not UTF-8: {error}")))?;
                out.extend_from_slice(bytes);
                Ok(())
            }
            1 => Err(cannot_store(self.py, "a missing value as text")),
            _ => Err(PyMemoryError::new_err("NumPy cannot unpack a string")),
        }
    }

    /// Set the item at `at` to `bytes`.
    ///
    /// # Safety
    /// `at` is an item of the array, which is writable.
    pub(crate) unsafe fn pack(&self, at: *mut u8, bytes: &[u8]) -> PyResult<()> {
        // SAFETY: the caller guarantees that `at` is an item, and this value holds the lock.
        let done =
            unsafe { (self.functions.pack)(self.allocator, at.cast(), bytes.as_ptr().cast(), bytes.len()) };
        if done == 0 {
            return Ok(());
        }
        Err(PyMemoryError::new_err("NumPy has no memory for a string"))
    }
}

impl Drop for Strings<'_> {
    fn drop(&mut self) {
        // SAFETY: `of` acquired the lock.
        unsafe { (self.functions.release)(self.allocator) }
    }
}
