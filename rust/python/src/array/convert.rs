//! Conversion of numbers between NumPy arrays.

use numpy::npyffi::NPY_ARRAY_WRITEABLE;
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use tessarr_engine::convert::{convert as convert_items, Number, Tables};
use tessarr_engine::copy::Axis;

use crate::array::{data, flags, overlaps_itself};
use crate::runtime::error::{argument, to_py};

/// From this number of items on the conversion releases the GIL.
const LARGE: usize = 64 << 10;

/// Floats of a byte: the `float32` that each is, and the nearest byte by the upper half of a
/// `float32`, whose last bit tells whether anything is below it.
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

/// What is passed to another thread together with the promise that it may be used there.
struct Shared<T>(T);

// SAFETY: the arrays are kept by the caller, who waits.
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

/// Convert all numbers of `values` to `out`, which has the same shape and is apart from it.
///
/// `source` and `target` are their types: as NumPy writes them without the byte order, `bfloat16`,
/// or `int2`, `int4`, `uint2`, `uint4`; or what tells floats of a byte.
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
    let work = Shared(((data(values).cast_const(), source), (data(out), target)));
    let work = move || {
        let Shared((source, target)) = { work };
        // SAFETY: the shapes were checked; that the two are apart is up to the caller, as it is
        // that nobody else writes to them.
        unsafe { convert_items(&axes, source, target) }
    };
    let done = if out.len() > LARGE { py.detach(work) } else { work() };
    done.map_err(|error| to_py(py, error))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ByteFloats>()?;
    module.add_function(wrap_pyfunction!(convert, module)?)
}
