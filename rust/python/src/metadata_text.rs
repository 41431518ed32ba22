//! Chunk shapes and metadata documents of new arrays.

use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use tessarr_engine::chunk_shape::{self, ChunkConstraints};

use crate::index_space::{to_py_result, View};
use crate::runtime::error::argument;

/// The maximum depth of JSON.
const DEEPEST: usize = 500;

/// The constraints on one kind of chunk: lengths, ratios and number of elements.
struct ConstraintsArgument(ChunkConstraints);

impl<'a, 'py> FromPyObject<'a, 'py> for ConstraintsArgument {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<ConstraintsArgument> {
        let (lengths, ratios, elements) = value.extract()?;
        Ok(ConstraintsArgument(ChunkConstraints { lengths, ratios, elements }))
    }
}

/// Choose chunk shapes for reads and for writes of the first dimensions of a domain.
///
/// Without `read` both shapes are the same.
#[pyfunction]
fn choose_chunk_shapes<'py>(
    py: Python<'py>,
    write: ConstraintsArgument,
    read: Option<ConstraintsArgument>,
    domain: &View,
    rank: usize,
) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyTuple>)> {
    let dims = domain.0.dims.get(..rank).ok_or_else(|| argument(py, "so many dimensions there are not"))?;
    let Some(read) = read else {
        let one = PyTuple::new(py, to_py_result(py, py.detach(|| chunk_shape::choose_one(&write.0, dims)))?)?;
        return Ok((one.clone(), one));
    };
    let (read, write) = to_py_result(py, py.detach(|| chunk_shape::choose(&write.0, &read.0, dims)))?;
    Ok((PyTuple::new(py, read)?, PyTuple::new(py, write)?))
}

/// A writer of JSON with one item per line, like `json.dumps` with an indent.
struct Text<'a, 'py> {
    text: String,
    indent: usize,
    sorted: bool,
    /// The Python function that encodes all other values.
    other: &'a Bound<'py, PyAny>,
}

impl<'py> Text<'_, 'py> {
    fn value(&mut self, value: &Bound<'py, PyAny>, level: usize) -> PyResult<()> {
        if level > DEEPEST {
            return Err(PyRecursionError::new_err("JSON that is nested too deeply"));
        }
        if let Ok(text) = value.cast::<PyString>() {
            return self.string(text);
        }
        if value.is_exact_instance_of::<PyInt>() {
            if let Ok(number) = value.extract::<i64>() {
                self.text.push_str(&number.to_string());
                return Ok(());
            }
        } else if value.cast_exact::<PyFloat>().is_ok_and(|number| number.value().is_finite()) {
            self.text.push_str(value.repr()?.to_str()?); // the format of `json.dumps`
            return Ok(());
        } else if let Ok(flag) = value.cast::<PyBool>() {
            self.text.push_str(if flag.is_true() { "true" } else { "false" });
            return Ok(());
        } else if let Ok(members) = value.cast::<PyDict>() {
            return self.object(members, level);
        } else if let Ok(list) = value.cast::<PyList>() {
            return self.list(list.iter().collect(), level);
        } else if let Ok(tuple) = value.cast::<PyTuple>() {
            return self.list(tuple.iter().collect(), level);
        }
        self.write_other(value)
    }

    fn write_other(&mut self, value: &Bound<'py, PyAny>) -> PyResult<()> {
        let told = self.other.call1((value,))?;
        self.text.push_str(told.cast::<PyString>()?.to_str()?);
        Ok(())
    }

    fn string(&mut self, text: &Bound<'py, PyString>) -> PyResult<()> {
        match text.to_str() {
            Ok(plain)
                if plain.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\') =>
            {
                self.text.push('"');
                self.text.push_str(plain);
                self.text.push('"');
                Ok(())
            }
            _ => self.write_other(text),
        }
    }

    fn object(&mut self, members: &Bound<'py, PyDict>, level: usize) -> PyResult<()> {
        let names = members.keys();
        if self.sorted {
            names.sort()?;
        }
        let mut items = Vec::with_capacity(names.len());
        for name in names {
            let value = members.as_any().get_item(&name)?;
            items.push((Some(name.cast_into::<PyString>()?), value));
        }
        self.many(items, ['{', '}'], level)
    }

    fn list(&mut self, values: Vec<Bound<'py, PyAny>>, level: usize) -> PyResult<()> {
        self.many(values.into_iter().map(|value| (None, value)).collect(), ['[', ']'], level)
    }

    fn many(
        &mut self,
        items: Vec<(Option<Bound<'py, PyString>>, Bound<'py, PyAny>)>,
        [open, close]: [char; 2],
        level: usize,
    ) -> PyResult<()> {
        self.text.push(open);
        let any = !items.is_empty();
        for (k, (name, value)) in items.into_iter().enumerate() {
            if k > 0 {
                self.text.push(',');
            }
            self.line(level + 1);
            if let Some(name) = name {
                self.string(&name)?;
                self.text.push_str(": ");
            }
            self.value(&value, level + 1)?;
        }
        if any {
            self.line(level);
        }
        self.text.push(close);
        Ok(())
    }

    fn line(&mut self, level: usize) {
        self.text.push('\n');
        self.text.extend(std::iter::repeat_n(' ', self.indent * level));
    }
}

/// JSON as ASCII text with one item per line; ``other`` encodes values that are not plain.
#[pyfunction]
fn encode_json<'py>(
    value: &Bound<'py, PyAny>,
    indent: usize,
    sorted: bool,
    other: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut text = Text { text: String::new(), indent, sorted, other };
    text.value(value, 0)?;
    Ok(PyBytes::new(value.py(), text.text.as_bytes()))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(choose_chunk_shapes, module)?)?;
    module.add_function(wrap_pyfunction!(encode_json, module)?)
}
