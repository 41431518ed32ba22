//! Codecs: compiled from dictionaries, or written in Python.

use std::sync::Arc;

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyInt, PyMemoryView};
use tessarr_engine::codec::{BytesCodec, Config, Foreign, ForeignCodec, Sink, Value};
use tessarr_engine::scratch::Scratch;
use tessarr_engine::{Error, Kind, Result};

use crate::runtime::bytes::copy_to_bytes;
use crate::runtime::error::{argument, foreign, to_py};

/// A codec that a Python object implements.
struct PythonCodec {
    name: String,
    codec: Py<PyAny>,
}

impl ForeignCodec for PythonCodec {
    fn name(&self) -> &str {
        &self.name
    }

    fn encode(&self, input: &[u8], take: Sink<'_>) -> Result<()> {
        self.call(input, take, |py, view| self.codec.call_method1(py, "encode", (view,)))
    }

    fn decode(&self, input: &[u8], most: usize, take: Sink<'_>) -> Result<()> {
        self.call(input, take, |py, view| self.codec.call_method1(py, "decode", (view, most)))
    }
}

impl PythonCodec {
    fn call<'a>(
        &self,
        input: &[u8],
        take: Sink<'_>,
        call: impl Fn(Python<'_>, &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> + 'a,
    ) -> Result<()> {
        let called = crate::runtime::atexit::attached(|py| {
            let done = (|| {
                // A codec may keep a reference to its input, so this passes a copy.
                let view = PyMemoryView::from(copy_to_bytes(py, input)?.as_any())?;
                let result = call(py, view.as_any())?;
                contiguous(result.bind(py))
            })();
            let buffer = done.map_err(|error| foreign(py, error))?;
            // SAFETY: the thread holds the GIL, and `buffer` keeps the memory alive. If another
            // thread changes the codec's result, only these bytes are wrong.
            take(unsafe { bytes_of(&buffer) })
        });
        called.unwrap_or_else(|| {
            Err(Error::internal("a codec written in Python was called while Python shuts down"))
        })
    }
}

/// Return any C-contiguous buffer as bytes.
pub(crate) fn contiguous<'py>(object: &Bound<'py, PyAny>) -> PyResult<Buffer> {
    let py = object.py();
    let flat = PyMemoryView::from(object)?.call_method1("cast", ("B",));
    // Rank 0 and NumPy's own types do not cast to bytes directly.
    let flat = match flat {
        Ok(flat) => flat,
        Err(_) => object.call_method0("tobytes")?,
    };
    let buffer = PyBuffer::<u8>::get(&flat)?;
    if buffer.is_c_contiguous() {
        Ok(Buffer(buffer))
    } else {
        Err(argument(py, "the buffer is not contiguous"))
    }
}

/// A contiguous buffer of bytes with its reference.
pub(crate) struct Buffer(PyBuffer<u8>);

/// Return the bytes of `buffer`.
///
/// # Safety
/// No thread changes the bytes while the result lives.
pub(crate) unsafe fn bytes_of(buffer: &Buffer) -> &[u8] {
    let size = buffer.0.len_bytes();
    if size == 0 {
        return &[];
    }
    // SAFETY: a C-contiguous buffer has `len_bytes` bytes at its pointer.
    unsafe { std::slice::from_raw_parts(buffer.0.buf_ptr().cast(), size) }
}

/// Return the array-to-bytes codec that `codec` implements.
pub(crate) fn array_codec(name: String, codec: Bound<'_, PyAny>) -> Foreign {
    Foreign::new(Arc::new(PythonCodec { name, codec: codec.unbind() }))
}

/// Return the bytes-to-bytes codec that `dict` describes.
pub(crate) fn bytes_codec(dict: &Bound<'_, PyDict>) -> PyResult<Arc<dyn BytesCodec>> {
    let py = dict.py();
    let name: String = field(dict, "name")?;
    if let Some(codec) = dict.get_item("codec")? {
        let codec = PythonCodec { name, codec: codec.unbind() };
        return Ok(Arc::new(Foreign::new(Arc::new(codec))));
    }
    let mut config = Config::new(name);
    for (name, value) in dict.iter() {
        let name: String = name.extract()?;
        if name != "name" {
            config = config.with(name, parameter(&value)?);
        }
    }
    config.compile().map_err(|error| to_py(py, error))
}

fn parameter(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if value.is_instance_of::<PyBool>() {
        return Ok(Value::Boolean(value.extract()?));
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(Value::Integer(value.extract()?));
    }
    Ok(Value::Text(value.extract()?))
}

fn field<'py, T: FromPyObjectOwned<'py>>(dict: &Bound<'py, PyDict>, name: &str) -> PyResult<T> {
    let value = dict.get_item(name)?;
    let value = value.ok_or_else(|| argument(dict.py(), format!("the codec has no {name:?}")))?;
    value.extract().map_err(Into::into)
}

/// Encode `data` with the bytes-to-bytes codec that `codec` describes.
#[pyfunction]
fn encode<'py>(codec: &Bound<'py, PyDict>, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let py = codec.py();
    let codec = bytes_codec(codec)?;
    let buffer = contiguous(data)?;
    // SAFETY: the caller does not change the buffer during the call; otherwise the result is
    // undefined data, as in other functions that read buffers.
    let input = unsafe { bytes_of(&buffer) };
    let mut out = Vec::with_capacity(codec.bound(input.len()).min(input.len() + (input.len() >> 3) + 4096));
    let done = py.detach(|| Scratch::with(|scratch| codec.encode(input, &mut out, &mut scratch.context)));
    done.map_err(|error| to_py(py, error.in_codec(codec.name())))?;
    copy_to_bytes(py, &out)
}

/// Decode `data` with the bytes-to-bytes codec that `codec` describes.
///
/// The result has `decoded_bytes` bytes. If that is None, it has any length up to `limit`.
#[pyfunction]
#[pyo3(signature = (codec, data, decoded_bytes=None, limit=None))]
fn decode<'py>(
    codec: &Bound<'py, PyDict>,
    data: &Bound<'py, PyAny>,
    decoded_bytes: Option<usize>,
    limit: Option<usize>,
) -> PyResult<Bound<'py, PyBytes>> {
    let py = codec.py();
    let codec = bytes_codec(codec)?;
    let buffer = contiguous(data)?;
    // SAFETY: as in `encode`.
    let input = unsafe { bytes_of(&buffer) };
    let mut out = Vec::new();
    let done = py.detach(|| {
        Scratch::with(|scratch| match decoded_bytes {
            Some(size) => {
                out.try_reserve_exact(size)
                    .map_err(|_| Error::new(Kind::Argument, format!("no memory for {size} decoded bytes")))?;
                out.resize(size, 0);
                codec.decode_into(input, &mut out, &mut scratch.context)
            }
            None => codec.decode(input, &mut out, limit.unwrap_or(isize::MAX as usize), &mut scratch.context),
        })
    });
    done.map_err(|error| to_py(py, error.in_codec(codec.name())))?;
    copy_to_bytes(py, &out)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(encode, module)?)?;
    module.add_function(wrap_pyfunction!(decode, module)?)
}
