//! Elements of variable length: between the engine's handles and Python's objects.
//!
//! The engine never accesses an object, and Python never accesses a handle. For a read, the engine
//! fills a buffer of handles, and one pass creates objects from them in the caller's array. For a
//! write, one pass over the caller's array creates handles of the objects' contents. References to
//! these objects live until the operation ends.

use std::fmt;

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString};
use tessarr_engine::array::PerAxis;
use tessarr_engine::vlen::{self, Handle, HANDLE_BYTES};
use tessarr_engine::{Error, Kind};

use crate::array::data;
use crate::array::string_dtype::Strings;
use crate::runtime::bytes::copy_to_bytes;
use crate::runtime::error::to_py;
use crate::runtime::gil_value::GilValue;

/// How Python represents the elements of an array.
pub(crate) enum Elements {
    /// NumPy items of one size.
    Fixed,
    /// `str`.
    Text,
    /// `bytes`.
    Bytes,
    /// Objects that two callables convert to and from bytes.
    Objects { encode: Py<PyAny>, decode: Py<PyAny> },
}

impl Elements {
    /// Parse the member "elements" of the description: None, "text", "bytes" or two callables.
    pub(crate) fn extract(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        if value.is_none() {
            return Ok(Elements::Fixed);
        }
        if let Ok((encode, decode)) = value.extract() {
            return Ok(Elements::Objects { encode, decode });
        }
        match value.extract::<&str>()? {
            "text" => Ok(Elements::Text),
            "bytes" => Ok(Elements::Bytes),
            other => Err(PyTypeError::new_err(format!("unknown elements {other:?}"))),
        }
    }

    pub(crate) fn is_fixed(&self) -> bool {
        matches!(self, Elements::Fixed)
    }

    /// Return whether arrays of a NumPy kind can hold such elements.
    pub(crate) fn accepts(&self, kind: u8) -> bool {
        kind == b'O' || (kind == b'T' && matches!(self, Elements::Text))
    }

    /// Return the object of one element.
    fn decode<'py>(&self, py: Python<'py>, element: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Elements::Text => PyString::from_bytes(py, element).map(Bound::into_any),
            Elements::Objects { decode, .. } => decode.bind(py).call1((copy_to_bytes(py, element)?,)),
            Elements::Bytes | Elements::Fixed => copy_to_bytes(py, element).map(Bound::into_any),
        }
    }

    /// Return the object whose bytes the store holds for `object`; None is an empty element.
    fn encode<'py>(&self, object: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Elements::Objects { encode, .. } => encode.bind(object.py()).call1((object,)),
            _ if object.is_none() => Ok(PyBytes::new(object.py(), b"").into_any()),
            Elements::Text if object.is_instance_of::<PyString>() => Ok(object),
            Elements::Text => Err(cannot_cast(&object, "str")),
            _ if object.is_instance_of::<PyBytes>() => Ok(object),
            // A mutable buffer may change or move, so this copies it.
            _ if object.is_instance_of::<PyByteArray>() || object.is_instance_of::<PyMemoryView>() => {
                PyMemoryView::from(&object)?.call_method0("tobytes")
            }
            _ => Err(cannot_cast(&object, "bytes")),
        }
    }
}

fn cannot_cast(object: &Bound<'_, PyAny>, wanted: &str) -> PyErr {
    let found = object.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string());
    cannot_store(object.py(), format!("an element of type {found}: it is not {wanted}"))
}

/// Return the error for a value that is not an element of the array.
pub(crate) fn cannot_store(py: Python<'_>, what: impl fmt::Display) -> PyErr {
    let message = format!("cannot store {what}");
    to_py(py, Error { code: Some("cannot_cast"), ..Error::new(Kind::Argument, message) })
}

/// A handle for every item of an array, in C order, with the memory that the handles point to.
pub(crate) struct Handles {
    items: Vec<u8>,
    /// The owners of the elements to write.
    _objects: GilValue<Vec<Py<PyAny>>>,
    _copies: Vec<u8>,
}

impl Handles {
    pub(crate) fn address(&self) -> *mut u8 {
        self.items.as_ptr().cast_mut()
    }

    /// Return empty handles for a read.
    pub(crate) fn empty(array: &Bound<'_, PyUntypedArray>) -> PyResult<Handles> {
        Ok(Handles {
            items: buffer(array.py(), array.len())?,
            _objects: GilValue::new(Vec::new()),
            _copies: Vec::new(),
        })
    }

    /// Return the handles of the items of `array`.
    pub(crate) fn of(elements: &Elements, array: &Bound<'_, PyUntypedArray>) -> PyResult<Handles> {
        let py = array.py();
        let mut items = buffer(py, array.len())?;
        if let Some(strings) = Strings::of(array)? {
            let (mut copies, mut lengths) = (Vec::new(), Vec::with_capacity(array.len()));
            each_item(array, |_, at| {
                let before = copies.len();
                // SAFETY: `at` is an item of the array of `strings`.
                unsafe { strings.load(at, &mut copies) }?;
                lengths.push(copies.len() - before);
                Ok(())
            })?;
            let mut rest = &copies[..];
            for (item, length) in items.chunks_exact_mut(HANDLE_BYTES).zip(lengths) {
                let (element, after) = rest.split_at(length);
                item.copy_from_slice(&Handle::of(element).to_item());
                rest = after;
            }
            return Ok(Handles { items, _objects: GilValue::new(Vec::new()), _copies: copies });
        }
        let mut objects = Vec::with_capacity(array.len());
        each_item(array, |number, at| {
            // SAFETY: items of an array of objects are pointers to objects, or null before the
            // first assignment.
            let object =
                unsafe { Bound::from_borrowed_ptr_or_opt(py, at.cast::<*mut pyo3::ffi::PyObject>().read()) };
            let object = elements.encode(object.unwrap_or_else(|| py.None().into_bound(py)))?;
            let item = &mut items[number * HANDLE_BYTES..(number + 1) * HANDLE_BYTES];
            item.copy_from_slice(&Handle::of(bytes_of(&object)?).to_item());
            objects.push(object.unbind());
            Ok(())
        })?;
        Ok(Handles { items, _objects: GilValue::new(objects), _copies: Vec::new() })
    }

    /// Store the objects of the handles in `array`.
    ///
    /// # Safety
    /// A read has filled the handles, and the memory that they point to is alive.
    pub(crate) unsafe fn deliver(
        &self,
        elements: &Elements,
        array: &Bound<'_, PyUntypedArray>,
    ) -> PyResult<()> {
        let py = array.py();
        let mut handles = vlen::handles(&self.items);
        let strings = Strings::of(array)?;
        each_item(array, |_, at| {
            let Some(handle) = handles.next() else { return Ok(()) };
            // SAFETY: the caller guarantees that the handles are valid.
            let element = unsafe { handle.bytes() };
            if let Some(strings) = &strings {
                // SAFETY: `at` is an item of the array of `strings`.
                return unsafe { strings.pack(at, element) };
            }
            let object = elements.decode(py, element)?.into_ptr();
            // SAFETY: an item of an array of objects owns its reference. This replaces the
            // reference and then drops the old one.
            unsafe {
                let old = at.cast::<*mut pyo3::ffi::PyObject>().replace(object);
                drop(Bound::from_owned_ptr_or_opt(py, old));
            }
            Ok(())
        })
    }
}

/// Return the bytes of a `str` (as UTF-8) or `bytes`, which live as long as the object.
fn bytes_of<'a>(object: &'a Bound<'_, PyAny>) -> PyResult<&'a [u8]> {
    if let Ok(text) = object.cast::<PyString>() {
        let text = text.to_str().map(str::as_bytes);
        return text.map_err(|error| cannot_store(object.py(), format!("text that is not Unicode: {error}")));
    }
    object.cast::<PyBytes>().map(|bytes| bytes.as_bytes()).map_err(|_| cannot_cast(object, "bytes"))
}

fn buffer(py: Python<'_>, items: usize) -> PyResult<Vec<u8>> {
    let bytes = items.saturating_mul(HANDLE_BYTES);
    let mut buffer = Vec::new();
    tessarr_engine::scratch::sized(&mut buffer, bytes).map_err(|error| to_py(py, error))?;
    Ok(buffer)
}

/// Return the strides of handles in C order for an array of `shape`.
pub(crate) fn strides(shape: &[usize]) -> PerAxis<isize> {
    let mut stride = HANDLE_BYTES as isize;
    let mut strides: PerAxis<isize> = shape
        .iter()
        .rev()
        .map(|&size| {
            let here = stride;
            stride = stride.wrapping_mul(size as isize);
            here
        })
        .collect();
    strides.reverse();
    strides
}

/// Call `work` with the number and the address of every item of `array`, in C order.
fn each_item(
    array: &Bound<'_, PyUntypedArray>,
    mut work: impl FnMut(usize, *mut u8) -> PyResult<()>,
) -> PyResult<()> {
    let (shape, strides, base) = (array.shape(), array.strides(), data(array));
    let Some((&row, outer)) = shape.split_last() else {
        return work(0, base);
    };
    let step = strides[outer.len()];
    let rows: usize = outer.iter().product();
    if row == 0 {
        return Ok(());
    }
    let mut index = vec![0usize; outer.len()];
    for number in 0..rows {
        let offset: isize = index.iter().zip(strides).map(|(&at, &stride)| at as isize * stride).sum();
        let mut at = base.wrapping_offset(offset);
        for column in 0..row {
            work(number * row + column, at)?;
            at = at.wrapping_offset(step);
        }
        for (at, &size) in index.iter_mut().zip(outer).rev() {
            *at += 1;
            if *at < size {
                break;
            }
            *at = 0;
        }
    }
    Ok(())
}
