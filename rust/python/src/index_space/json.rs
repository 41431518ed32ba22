//! JSON of domains and transforms.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyList, PyString, PyTuple};
use tessarr_engine::index_space::{
    self, Dim, IndexArray, MapSource, OutputMap, PerDimension, END, INFINITE, MAX_RANK, WHOLE,
};

use super::bounds::{DomainParts, End};
use super::indexing_terms::label_of;
use super::{argument, to_py_result};
use crate::runtime::error::refused;
use crate::runtime::safe_repr::safe_repr;

/// Return the view of a JSON value.
pub(super) fn view_of(
    json: &Bound<'_, PyAny>,
    prefix: &'static str,
) -> PyResult<index_space::IndexTransform> {
    let (stated, output) = read(json, prefix)?;
    let dims = stated.dims(json.py())?;
    Ok(match output {
        Some(output) => index_space::IndexTransform { maps: maps_of(&output, &dims)?, dims },
        None => index_space::IndexTransform::identity(dims),
    })
}

/// Return the dimensions of a JSON value.
pub(super) fn dims_of(json: &Bound<'_, PyAny>) -> PyResult<PerDimension<Dim>> {
    read(json, "")?.0.dims(json.py())
}

/// Parse the members for dimensions and output index maps.
fn read<'py>(
    members: &Bound<'py, PyAny>,
    prefix: &'static str,
) -> PyResult<(DomainParts, Option<Bound<'py, PyAny>>)> {
    let py = members.py();
    let Ok(members) = members.cast::<PyDict>() else {
        return Err(refused(members, format!("{} is not an object", safe_repr(members))));
    };
    let (mut parts, mut output) = (DomainParts { prefix, ..DomainParts::default() }, None);
    for (key, value) in members {
        let name = text_of(&key);
        match name.strip_prefix(prefix) {
            Some("rank") => parts.rank = Some(rank_of(&value, prefix)?),
            Some("inclusive_min") => parts.inclusive_min = Some(bounds(&value, name, -INFINITE)?),
            Some("exclusive_max") => parts.exclusive_max = Some(bounds(&value, name, END)?),
            Some("inclusive_max") => parts.inclusive_max = Some(bounds(&value, name, INFINITE)?),
            Some("shape") => parts.shape = Some(bounds(&value, name, i64::MAX)?),
            Some("labels") => parts.labels = Some(labels(&value, name)?),
            _ if name == "output" && !prefix.is_empty() => output = Some(value),
            _ => return Err(argument(py, format!("unknown members [{}]", safe_repr(&key)))),
        }
    }
    Ok((parts, output))
}

/// Return text, such as the name of a member; "" for other values and for text that UTF-8 cannot
/// encode.
fn text_of<'a>(value: &'a Bound<'_, PyAny>) -> &'a str {
    value.cast::<PyString>().ok().and_then(|text| text.to_str().ok()).unwrap_or_default()
}

/// Parse bounds: `[bound]` is an implicit bound, and a string is an infinite one.
fn bounds(items: &Bound<'_, PyAny>, name: &str, infinite: i64) -> PyResult<Vec<End>> {
    let word = if infinite < 0 { "-inf" } else { "+inf" };
    let bound = |(k, value): (usize, &Bound<'_, PyAny>)| {
        let inner = single(value)?;
        let bound = inner.as_ref().unwrap_or(value);
        let read = match bound.cast::<PyString>() {
            Ok(text) => text.to_str().is_ok_and(|text| text == word).then_some(infinite),
            Err(_) => integral(bound),
        };
        match read {
            Some(read) => Ok((read, inner.is_some())),
            None => Err(refused(value, format!("{name}[{k}]: {} is not an index", safe_repr(value)))),
        }
    };
    listed(items, name)?.iter().enumerate().map(bound).collect()
}

fn labels(items: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<Option<Arc<str>>>> {
    let label = |label: &Bound<'_, PyAny>| match label.is_instance_of::<PyString>() {
        true => label_of(label),
        false => Err(refused(label, format!("{name}: {} is not a string", safe_repr(label)))),
    };
    listed(items, name)?.iter().map(label).collect()
}

/// Return the output index maps of a JSON value for a view with these dimensions.
fn maps_of(output: &Bound<'_, PyAny>, dims: &[Dim]) -> PyResult<PerDimension<OutputMap>> {
    let Ok(output) = output.cast::<PyList>() else {
        return Err(refused(output, format!("output: {} is not a list", safe_repr(output))));
    };
    if output.len() > MAX_RANK {
        let what = format!("{} maps, at most {MAX_RANK} are possible", output.len());
        return Err(argument(output.py(), what));
    }
    output.iter().enumerate().map(|(k, map)| map_of(&map, dims, &format!("output[{k}]"))).collect()
}

/// Return the items of a list or of another iterable, except text and objects.
pub(super) fn listed<'py>(value: &Bound<'py, PyAny>, name: &str) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if let Ok(list) = value.cast::<PyList>() {
        return Ok(list.iter().collect());
    }
    let plain = value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>();
    match value.try_iter() {
        Ok(items) if !plain && !value.is_instance_of::<PyDict>() => items.collect(),
        _ => Err(refused(value, format!("{name}: {} is not a list", safe_repr(value)))),
    }
}

/// Return the item of a list with one item; None for every other value.
fn single<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let is_list = value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>();
    if !is_list || value.len()? != 1 {
        return Ok(None);
    }
    value.get_item(0).map(Some)
}

/// Return the 64-bit integer of a JSON number; 1.0 is one.
fn integral(value: &Bound<'_, PyAny>) -> Option<i64> {
    if value.is_instance_of::<PyBool>() {
        return None;
    }
    let Ok(float) = value.cast::<PyFloat>() else {
        return value.extract().ok();
    };
    let float = float.value();
    let fits = float.fract() == 0.0 && (i64::MIN as f64..-(i64::MIN as f64)).contains(&float);
    fits.then_some(float as i64)
}

fn number(value: &Bound<'_, PyAny>, place: &str) -> PyResult<i64> {
    match integral(value) {
        Some(number) => Ok(number),
        None => Err(refused(value, format!("{place}: {} is not an integer of 64 bits", safe_repr(value)))),
    }
}

fn rank_of(value: &Bound<'_, PyAny>, prefix: &str) -> PyResult<i64> {
    match integral(value).filter(|rank| (0..=MAX_RANK as i64).contains(rank)) {
        Some(rank) => Ok(rank),
        None => {
            let what = format!("{prefix}rank: {} is not an integer from 0 to {MAX_RANK}", safe_repr(value));
            Err(refused(value, what))
        }
    }
}

/// Return the output index map of a JSON value.
fn map_of(value: &Bound<'_, PyAny>, dims: &[Dim], place: &str) -> PyResult<OutputMap> {
    let py = value.py();
    let Ok(members) = value.cast::<PyDict>() else {
        return Err(refused(value, format!("{place}: {} is not an object", safe_repr(value))));
    };
    let (mut offset, mut stride, mut dimension, mut array, mut within) = (0, None, None, None, WHOLE);
    for (key, value) in members {
        let name = text_of(&key);
        let inner = format!("{place}.{name}");
        match name {
            "offset" => offset = number(&value, &inner)?,
            "stride" => stride = Some(number(&value, &inner)?),
            "input_dimension" => dimension = Some(number(&value, &inner)?),
            "index_array" => array = Some(array_of(&value, &inner)?),
            "index_array_bounds" => within = bounds_of(&value, &inner)?,
            _ => return Err(argument(py, format!("{place}: unknown members [{}]", safe_repr(&key)))),
        }
    }
    let map = match (dimension, array) {
        (Some(_), Some(_)) => {
            return Err(argument(py, format!("{place}: give input_dimension or index_array")))
        }
        (Some(dimension), None) => match usize::try_from(dimension) {
            Ok(dimension) => OutputMap::from_dimension(dimension, offset, stride.unwrap_or(1)),
            Err(_) => {
                let what = format!("{place}: input_dimension {dimension} is not below {}", dims.len());
                return Err(argument(py, what));
            }
        },
        (None, Some(array)) => OutputMap::from_index_array(array, offset, stride.unwrap_or(1), within),
        (None, None) if stride.is_some() => {
            let what = format!("{place}: stride without input_dimension or index_array");
            return Err(argument(py, what));
        }
        (None, None) => OutputMap::constant(offset),
    };
    to_py_result(py, map.validated(dims))
}

fn array_of(value: &Bound<'_, PyAny>, place: &str) -> PyResult<IndexArray> {
    let mut items = Vec::new();
    let shape = flattened(value, place, 0, &mut items)?;
    match IndexArray::new(items, &shape) {
        Some(array) => Ok(array),
        None => Err(argument(value.py(), format!("{place}: too large"))),
    }
}

/// Append all items of nested lists, and return the shape.
fn flattened(
    value: &Bound<'_, PyAny>,
    place: &str,
    depth: usize,
    items: &mut Vec<i64>,
) -> PyResult<PerDimension<usize>> {
    if !value.is_instance_of::<PyList>() && !value.is_instance_of::<PyTuple>() {
        items.push(number(value, place)?);
        return Ok(PerDimension::new());
    }
    if depth == MAX_RANK {
        return Err(argument(value.py(), format!("{place}: more than {MAX_RANK} dimensions")));
    }
    let mut inner = None;
    for item in value.try_iter()? {
        let shape = flattened(&item?, place, depth + 1, items)?;
        if inner.as_ref().is_some_and(|before| *before != shape) {
            return Err(argument(value.py(), format!("{place}: rows of different lengths")));
        }
        inner = Some(shape);
    }
    let mut shape = PerDimension::from_slice(&[value.len()?]);
    shape.extend(inner.into_iter().flatten());
    Ok(shape)
}

/// Return a pair of indices with an inclusive upper bound.
fn bounds_of(value: &Bound<'_, PyAny>, place: &str) -> PyResult<(i64, i64)> {
    let py = value.py();
    let pair = match value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        true => listed(value, place)?,
        false => Vec::new(),
    };
    let [lower, last] = &pair[..] else {
        return Err(argument(py, format!("{place}: {} is not a pair of indices", safe_repr(value))));
    };
    let lower = if text_of(lower) == "-inf" { -INFINITE } else { number(lower, place)? };
    let upper = if text_of(last) == "+inf" { END } else { number(last, place)?.saturating_add(1) };
    if !index_space::is_interval(lower, upper) {
        return Err(argument(py, format!("{place}: [{lower}, {upper}) is not an interval of indices")));
    }
    Ok((lower, upper))
}

/// Return the JSON of a view, or of a domain if `prefix` is empty.
pub(super) fn members<'py>(
    py: Python<'py>,
    view: &index_space::IndexTransform,
    prefix: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let json = PyDict::new(py);
    let dims = &view.dims;
    if dims.iter().any(|dim| dim.upper <= INFINITE || !dim.implicit.1) {
        let column = dims.iter().map(|dim| bound_to_json(py, dim.upper, dim.implicit.1));
        json.set_item(format!("{prefix}exclusive_max"), column.collect::<PyResult<Vec<_>>>()?)?;
    }
    if dims.iter().any(|dim| dim.lower != -INFINITE || !dim.implicit.0) {
        let column = dims.iter().map(|dim| bound_to_json(py, dim.lower, dim.implicit.0));
        json.set_item(format!("{prefix}inclusive_min"), column.collect::<PyResult<Vec<_>>>()?)?;
    }
    if dims.iter().any(|dim| dim.label.is_some()) {
        let column: Vec<&str> = dims.iter().map(|dim| dim.label.as_deref().unwrap_or("")).collect();
        json.set_item(format!("{prefix}labels"), column)?;
    }
    if json.is_empty() {
        json.set_item(format!("{prefix}rank"), dims.len())?;
    }
    if !prefix.is_empty() && !view.is_identity() {
        let maps = view.maps.iter().map(|map| map_to_json(py, map));
        json.set_item("output", maps.collect::<PyResult<Vec<_>>>()?)?;
    }
    Ok(json)
}

/// Return a bound as JSON.
fn bound_to_json(py: Python<'_>, bound: i64, implicit: bool) -> PyResult<Bound<'_, PyAny>> {
    let value = match bound {
        _ if bound == -INFINITE => PyString::new(py, "-inf").into_any(),
        END => PyString::new(py, "+inf").into_any(),
        _ => bound.into_pyobject(py)?.into_any(),
    };
    Ok(if implicit { PyList::new(py, [value])?.into_any() } else { value })
}

fn map_to_json<'py>(py: Python<'py>, map: &OutputMap) -> PyResult<Bound<'py, PyDict>> {
    let json = PyDict::new(py);
    match &map.source {
        MapSource::Constant => {}
        MapSource::InputDimension(k) => json.set_item("input_dimension", k)?,
        MapSource::IndexArray(listed) => {
            json.set_item("index_array", nested(py, &listed.indices.to_vec(), &listed.indices.shape())?)?;
            let (lower, upper) = listed.within;
            if listed.indices.min_max().is_some_and(|(least, most)| least < lower || most >= upper) {
                let last = if upper == END { END } else { upper - 1 };
                let ends = [bound_to_json(py, lower, false)?, bound_to_json(py, last, false)?];
                json.set_item("index_array_bounds", PyList::new(py, ends)?)?;
            }
        }
    }
    if map.offset != 0 {
        json.set_item("offset", map.offset)?;
    }
    if map.stride != 1 && map.source != MapSource::Constant {
        json.set_item("stride", map.stride)?;
    }
    Ok(json)
}

/// Return items in C order as nested lists.
fn nested<'py>(py: Python<'py>, items: &[i64], shape: &[usize]) -> PyResult<Bound<'py, PyAny>> {
    match shape {
        [] => Ok(items.first().into_pyobject(py)?),
        [_] => Ok(PyList::new(py, items)?.into_any()),
        [len, inner @ ..] => {
            let each: usize = inner.iter().product();
            let rows = (0..*len).map(|k| nested(py, &items[k * each..(k + 1) * each], inner));
            Ok(PyList::new(py, rows.collect::<PyResult<Vec<_>>>()?)?.into_any())
        }
    }
}
