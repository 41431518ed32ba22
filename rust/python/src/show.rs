//! JSON as TensorStore shows it: in Python's words, on one line where that is short enough.

use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

const WIDTH: usize = 80;

/// As deeply as anything may be nested.
const DEEPEST: usize = 500;

/// What is shown, and how many characters it has on one line.
struct Shown {
    length: usize,
    form: Form,
}

enum Form {
    Plain(String),
    /// What stands before each item, and the item; the brackets.
    Many(Vec<(String, Shown)>, [char; 2]),
}

/// An object, list or tuple of JSON; the members of an object come in the order of their names.
enum Nested<'py> {
    Object(Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>),
    List(Vec<Bound<'py, PyAny>>),
}

impl<'py> Nested<'py> {
    /// What is nested in a value, and how much deeper it may be; None if there is nothing.
    fn of(value: &Bound<'py, PyAny>, depth: usize) -> PyResult<Option<(Nested<'py>, usize)>> {
        let nested = if let Ok(object) = value.cast::<PyDict>() {
            let mut named = Vec::with_capacity(object.len());
            for (key, value) in object {
                named.push((key.str()?.to_string_lossy().into_owned(), key, value));
            }
            named.sort_by(|one, other| one.0.cmp(&other.0));
            Nested::Object(named.into_iter().map(|(_, key, value)| (key, value)).collect())
        } else if let Ok(list) = value.cast::<PyList>() {
            Nested::List(list.iter().collect())
        } else if let Ok(tuple) = value.cast::<PyTuple>() {
            Nested::List(tuple.iter().collect())
        } else {
            return Ok(None);
        };
        match depth.checked_sub(1) {
            Some(depth) => Ok(Some((nested, depth))),
            None => Err(PyRecursionError::new_err("JSON that is nested too deeply")),
        }
    }
}

impl Shown {
    fn of(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Shown> {
        let Some((nested, depth)) = Nested::of(value, depth)? else {
            let text = value.repr()?.to_cow()?.into_owned();
            return Ok(Shown { length: count(&text), form: Form::Plain(text) });
        };
        let mut items = Vec::new();
        let brackets = match nested {
            Nested::Object(members) => {
                for (key, value) in members {
                    items.push((format!("{}: ", key.repr()?.to_cow()?), Shown::of(&value, depth)?));
                }
                ['{', '}']
            }
            Nested::List(values) => {
                for value in values {
                    items.push((String::new(), Shown::of(&value, depth)?));
                }
                ['[', ']']
            }
        };
        let within: usize = items.iter().map(|(before, item)| count(before) + item.length).sum();
        let length = within + 2 * items.len().max(1); // commas, or both brackets
        Ok(Shown { length, form: Form::Many(items, brackets) })
    }

    /// Add the text, which stands behind `taken` characters of its line.
    fn write(&self, text: &mut String, indent: usize, taken: usize) {
        match &self.form {
            Form::Plain(plain) => text.push_str(plain),
            Form::Many(items, [open, close]) => {
                text.push(*open);
                // There is room to be left for the commas of all levels.
                if items.is_empty() || self.length + indent / 2 + taken <= WIDTH {
                    for (k, (before, item)) in items.iter().enumerate() {
                        text.push_str(if k > 0 { ", " } else { "" });
                        text.push_str(before);
                        item.write(text, 0, 0);
                    }
                } else {
                    let inner = indent + 2;
                    for (before, item) in items {
                        text.push('\n');
                        text.extend(std::iter::repeat_n(' ', inner));
                        text.push_str(before);
                        item.write(text, inner, inner + count(before));
                        text.push(',');
                    }
                    text.push('\n');
                    text.extend(std::iter::repeat_n(' ', indent));
                }
                text.push(*close);
            }
        }
    }
}

fn count(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.chars().count()
    }
}

/// How an object is shown that is what its JSON says.
#[pyfunction]
fn shown(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    let mut text = format!("{name}(");
    Shown::of(value, DEEPEST)?.write(&mut text, 0, 0);
    text.push(')');
    Ok(text)
}

/// A copy of JSON with the members of all objects in the order of their names.
#[pyfunction]
fn ordered<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    copied(value, DEEPEST)
}

fn copied<'py>(value: &Bound<'py, PyAny>, depth: usize) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    match Nested::of(value, depth)? {
        None => Ok(value.clone()),
        Some((Nested::Object(members), depth)) => {
            let made = PyDict::new(py);
            for (key, value) in members {
                made.set_item(key, copied(&value, depth)?)?;
            }
            Ok(made.into_any())
        }
        Some((Nested::List(values), depth)) => {
            let made: PyResult<Vec<_>> = values.iter().map(|value| copied(value, depth)).collect();
            Ok(PyList::new(py, made?)?.into_any())
        }
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(shown, module)?)?;
    module.add_function(wrap_pyfunction!(ordered, module)?)
}
