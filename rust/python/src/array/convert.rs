//! Conversion of numbers between NumPy arrays.

use numpy::npyffi::NPY_ARRAY_WRITEABLE;
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use tessarr_engine::convert::{convert as convert_items, Number, Tables};
use tessarr_engine::copy::Axis;

use crate::array::{data, flags, overlaps_itself};
use crate::runtime::error::{argument, to_py};

/// From this number of items on, the conversion releases the GIL.
const LARGE: usize = 64 << 10;

/// The tables of a one-byte float type. They map each byte to its `float32`, and the upper half of
/// a `float32` to the nearest byte. The last bit of that half is set if any lower bit is set.
#[pyclass(frozen, module = "tessarr._engine")]
pub(crate) struct ByteFloats(Tables);

#[pymethods]
impl ByteFloats {
    #[new]
    fn new(py: Python<'_>, numbers: Vec<f32>, nearest: &[u8]) -> PyResult<ByteFloats> {
        let numbers = numbers.iter().map(|number| number.to_bits()).collect::<Vec<u32>>().try_into();
        let (Ok(numbers), Ok(nearest)) = (numbers, nearest.try_into()) else {
            return Err(argument(py, "there are 256 numbers, and 65536 upper halves"));
        };
        Ok(ByteFloats(Tables { numbers, nearest }))
    }
}

/// A value that another thread may use, by the promise of the code that creates it.
struct Shared<T>(T);

// SAFETY: the caller keeps the arrays alive and waits for the thread.
unsafe impl<T> Send for Shared<T> {}

/// A data type: its name, or tables of one-byte floats.
#[derive(FromPyObject)]
enum Kind<'py> {
    Named(String),
    Byte(PyRef<'py, ByteFloats>),
}

impl Kind<'_> {
    fn number(&self) -> Number<'_> {
        match self {
            Kind::Named(name) => Number::Named(name),
            Kind::Byte(tables) => Number::Byte(&tables.0),
        }
    }
}

/// Convert all numbers of `values` to `out`. Both have the same shape and share no memory.
///
/// `source` and `target` are the types of `values` and `out`: NumPy's type string without the byte
/// order, `bfloat16`, `int2`, `int4`, `uint2`, `uint4`, or a `ByteFloats`.
#[pyfunction]
fn convert(
    py: Python<'_>,
    values: &Bound<'_, PyUntypedArray>,
    out: &Bound<'_, PyUntypedArray>,
    source: Kind<'_>,
    target: Kind<'_>,
) -> PyResult<()> {
    let wrong = |what: &str| Err(argument(py, what));
    let (source, target) = (source.number(), target.number());
    for (array, number) in [(values, source), (out, target)] {
        if array.dtype().has_object() || Some(array.dtype().itemsize()) != number.bytes() {
            return wrong("the elements are of another type");
        }
    }
    if values.shape() != out.shape() {
        return wrong("the arrays have other shapes");
    }
    let writable = flags(out) & NPY_ARRAY_WRITEABLE != 0;
    if !writable || overlaps_itself(out.shape(), out.strides(), out.dtype().itemsize()) {
        return wrong("the array is not one to be written to");
    }
    let strides = values.strides().iter().zip(out.strides());
    let axes: Vec<Axis<'_>> = (values.shape().iter().zip(strides))
        .map(|(&count, (&src, &dst))| Axis::Strided { count, src, dst })
        .collect();
    let work = Shared(((data(values).cast_const(), source, 0), (data(out), target)));
    let work = move || {
        let Shared((source, target)) = { work };
        // SAFETY: this function has checked the shapes. The caller passes arrays that share no
        // memory and that no other thread writes to.
        unsafe { convert_items(&axes, source, target) }
    };
    let done = if out.len() > LARGE { py.detach(work) } else { work() };
    done.map_err(|error| to_py(py, error))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ByteFloats>()?;
    module.add_function(wrap_pyfunction!(convert, module)?)
}
