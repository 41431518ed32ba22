//! What metadata of a new array need: lengths of chunks, and text of documents.

use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyInt, PyList, PyString, PyTuple};
use tessarr_engine::fill::{self, Fit, Side};

use crate::error::argument;

/// As deeply as anything may be nested.
const DEEPEST: usize = 500;

/// The lengths of a chunk: those that are 0 by ratio and number of elements.
///
/// Where there are lengths of another chunk, those that are found are their multiples, or divisors.
#[pyfunction]
fn filled(
    py: Python<'_>,
    lengths: Vec<u64>,
    ratios: Vec<f64>,
    extents: Vec<u64>,
    others: Vec<u64>,
    elements: u64,
    multiples: bool,
) -> PyResult<Py<PyTuple>> {
    let rank = lengths.len();
    let sound = ratios.iter().all(|ratio| *ratio > 0.0) && extents.iter().all(|extent| *extent > 0);
    if [ratios.len(), extents.len(), others.len()] != [rank; 3] || !sound || elements == 0 {
        return Err(argument(py, "there is one positive ratio, extent and other length for each"));
    }
    let sides: Vec<_> = (0..rank)
        .map(|k| Side { length: lengths[k], ratio: ratios[k], extent: extents[k], other: others[k] })
        .collect();
    let fit = if multiples { Fit::Multiple } else { Fit::Divisor };
    let found = py.detach(|| fill::fill(&sides, elements, fit));
    Ok(PyTuple::new(py, found)?.unbind())
}

/// The length nearest to another one that is its divisor, or multiple.
#[pyfunction]
fn nearest(of: u64, target: u64, multiple: bool) -> u64 {
    let fit = if multiple { Fit::Multiple } else { Fit::Divisor };
    fit.nearest(of.max(1), target.max(1))
}

/// Writes JSON as `json.dumps` does, in lines.
struct Text<'a, 'py> {
    text: String,
    indent: usize,
    sorted: bool,
    /// Says what a value is that is not written here.
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
        self.told(value)
    }

    fn told(&mut self, value: &Bound<'py, PyAny>) -> PyResult<()> {
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
            _ => self.told(text),
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

/// JSON as ASCII text in lines; ``other`` says what of it is no string, list, object and so on.
#[pyfunction]
fn json_text<'py>(
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
    module.add_function(wrap_pyfunction!(filled, module)?)?;
    module.add_function(wrap_pyfunction!(nearest, module)?)?;
    module.add_function(wrap_pyfunction!(json_text, module)?)
}
