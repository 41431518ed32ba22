//! Domains by the lists of their bounds, and views as JSON.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyList, PyString, PyTuple};
use tessarr_engine::space::{self, Dim, Indices, Map, PerDimension, Source, END, INFINITE, MAX_RANK, WHOLE};

use super::{argument, told};

type Given<'py> = Option<Vec<Bound<'py, PyAny>>>;

/// What is stated of a domain: one list for each kind of bound.
#[derive(Default)]
pub(super) struct Stated<'py> {
    rank: Option<usize>,
    inclusive_min: Given<'py>,
    exclusive_max: Given<'py>,
    inclusive_max: Given<'py>,
    shape: Given<'py>,
    labels: Given<'py>,
    output: Option<Bound<'py, PyAny>>,
    prefix: &'static str,
}

/// A bound, and whether it is implicit.
type End = (i64, bool);

impl<'py> Stated<'py> {
    /// The members of JSON, or keywords; None means nothing.
    pub(super) fn read(members: &Bound<'py, PyAny>, prefix: &'static str) -> PyResult<Stated<'py>> {
        let py = members.py();
        let Ok(members) = members.cast::<PyDict>() else {
            return Err(argument(py, format!("{} is not an object", members.repr()?)));
        };
        let mut found = Stated { prefix, ..Stated::default() };
        let mut rank = None;
        for (key, value) in members {
            let name = key.str()?;
            let name = name.to_cow()?;
            let column = match name.strip_prefix(prefix) {
                Some("rank") => {
                    rank = Some(value).filter(|rank| !rank.is_none());
                    continue;
                }
                Some("inclusive_min") => &mut found.inclusive_min,
                Some("exclusive_max") => &mut found.exclusive_max,
                Some("inclusive_max") => &mut found.inclusive_max,
                Some("shape") => &mut found.shape,
                Some("labels") => &mut found.labels,
                _ if &*name == "output" && !prefix.is_empty() => {
                    found.output = Some(value).filter(|output| !output.is_none());
                    continue;
                }
                _ => return Err(argument(py, format!("unknown members [{}]", key.repr()?))),
            };
            if !value.is_none() {
                *column = Some(listed(&value, &name)?);
            }
        }
        found.rank = rank.map(|rank| rank_of(&rank, prefix)).transpose()?;
        Ok(found)
    }

    /// The dimensions; None where nothing is said of their number.
    pub(super) fn dims(&self, py: Python<'py>) -> PyResult<Option<PerDimension<Dim>>> {
        let Some(rank) = self.length(py)? else {
            return Ok(None);
        };
        let lowers = match &self.inclusive_min {
            Some(given) => self.bounds(given, "inclusive_min", -INFINITE)?,
            None if self.shape.is_some() => vec![(0, false); rank],
            None => vec![(-INFINITE, true); rank],
        };
        let uppers = self.uppers(py, &lowers)?;
        let mut dims = PerDimension::new();
        for (k, ((lower, first), (upper, last))) in lowers.into_iter().zip(uppers).enumerate() {
            if !(-INFINITE..=upper).contains(&lower) || upper > END {
                let what = format!("[{lower}, {upper}) is not an interval of indices");
                return Err(argument(py, format!("dimension {k}: {what}")));
            }
            dims.push(Dim { implicit: (first, last), ..Dim::new(lower, upper) });
        }
        for (dim, label) in dims.iter_mut().zip(self.labels.iter().flatten()) {
            let Ok(text) = label.cast::<PyString>() else {
                let what = format!("{}labels: {} is not a string", self.prefix, label.repr()?);
                return Err(argument(py, what));
            };
            let text = text.to_cow()?;
            dim.label = (!text.is_empty()).then(|| (&*text).into());
        }
        told(py, space::checked_labels(dims)).map(Some)
    }

    /// The length of all lists.
    fn length(&self, py: Python<'py>) -> PyResult<Option<usize>> {
        let mut rank = self.rank;
        for (name, given) in [
            ("inclusive_min", &self.inclusive_min),
            ("exclusive_max", &self.exclusive_max),
            ("inclusive_max", &self.inclusive_max),
            ("shape", &self.shape),
            ("labels", &self.labels),
        ] {
            let Some(given) = given else {
                continue;
            };
            if let Some(rank) = rank.filter(|&rank| rank != given.len()) {
                let what = format!("{}{name}: {} items, the rank is {rank}", self.prefix, given.len());
                return Err(argument(py, what));
            }
            rank = Some(given.len());
        }
        match rank {
            Some(rank) if rank > MAX_RANK => {
                Err(argument(py, format!("{}rank: {rank} is more than {MAX_RANK}", self.prefix)))
            }
            rank => Ok(rank),
        }
    }

    /// The exclusive upper bounds, in whichever way they are given.
    fn uppers(&self, py: Python<'py>, lowers: &[End]) -> PyResult<Vec<End>> {
        let (name, given) = match (&self.exclusive_max, &self.inclusive_max, &self.shape) {
            (None, None, None) => return Ok(vec![(END, true); lowers.len()]),
            (Some(given), None, None) => ("exclusive_max", given),
            (None, Some(given), None) => ("inclusive_max", given),
            (None, None, Some(given)) => ("shape", given),
            _ => {
                let prefix = self.prefix;
                let names = format!("{prefix}exclusive_max, {prefix}inclusive_max and {prefix}shape");
                return Err(argument(py, format!("give one of {names}")));
            }
        };
        let mut found = self.bounds(given, name, END)?;
        for ((bound, _), (lower, _)) in found.iter_mut().zip(lowers).filter(|((bound, _), _)| *bound != END) {
            *bound = match name {
                "exclusive_max" => *bound,
                "inclusive_max" => bound.saturating_add(1),
                _ => bound.saturating_add(*lower),
            };
        }
        Ok(found)
    }

    /// Bounds: `[bound]` is an implicit one, and a string stands for the infinite one.
    fn bounds(&self, given: &[Bound<'py, PyAny>], name: &str, infinite: i64) -> PyResult<Vec<End>> {
        let word = if infinite < 0 { "-inf" } else { "+inf" };
        let mut found = Vec::with_capacity(given.len());
        for (k, value) in given.iter().enumerate() {
            let inner = single(value)?;
            let bound = inner.as_ref().unwrap_or(value);
            let read = match bound.cast::<PyString>() {
                Ok(text) => (text.to_cow()? == word).then_some(infinite),
                Err(_) => integral(bound),
            };
            let Some(read) = read else {
                let what = format!("{}{name}[{k}]: {} is not an index", self.prefix, value.repr()?);
                return Err(argument(value.py(), what));
            };
            found.push((read, inner.is_some()));
        }
        Ok(found)
    }

    /// The maps of a view with these dimensions.
    pub(super) fn maps(&self, py: Python<'py>, dims: &[Dim]) -> PyResult<PerDimension<Map>> {
        let Some(output) = &self.output else {
            return Ok((0..dims.len()).map(|k| Map::along(k, 0, 1)).collect());
        };
        let Ok(output) = output.cast::<PyList>() else {
            return Err(argument(py, format!("output: {} is not a list", output.repr()?)));
        };
        if output.len() > MAX_RANK {
            let what = format!("{} maps, at most {MAX_RANK} are possible", output.len());
            return Err(argument(py, what));
        }
        output.iter().enumerate().map(|(k, map)| map_of(&map, dims, &format!("output[{k}]"))).collect()
    }
}

/// The items of a list: of anything that has some, but for text and objects.
fn listed<'py>(value: &Bound<'py, PyAny>, name: &str) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if let Ok(list) = value.cast::<PyList>() {
        return Ok(list.iter().collect());
    }
    let plain = value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>();
    match value.try_iter() {
        Ok(items) if !plain && !value.is_instance_of::<PyDict>() => items.collect(),
        _ => Err(argument(value.py(), format!("{name}: {} is not a list", value.repr()?))),
    }
}

/// What is in a list of one item; None of anything else.
fn single<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let is_list = value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>();
    if !is_list || value.len()? != 1 {
        return Ok(None);
    }
    value.get_item(0).map(Some)
}

/// The integer of 64 bits that JSON states; 1.0 is one.
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
        None => Err(argument(value.py(), format!("{place}: {} is not an integer of 64 bits", value.repr()?))),
    }
}

fn rank_of(value: &Bound<'_, PyAny>, prefix: &str) -> PyResult<usize> {
    match integral(value).and_then(|rank| usize::try_from(rank).ok()).filter(|&rank| rank <= MAX_RANK) {
        Some(rank) => Ok(rank),
        None => {
            let what = format!("{prefix}rank: {} is not an integer from 0 to {MAX_RANK}", value.repr()?);
            Err(argument(value.py(), what))
        }
    }
}

/// The map that JSON states.
fn map_of(value: &Bound<'_, PyAny>, dims: &[Dim], place: &str) -> PyResult<Map> {
    let py = value.py();
    let Ok(members) = value.cast::<PyDict>() else {
        return Err(argument(py, format!("{place}: {} is not an object", value.repr()?)));
    };
    let (mut offset, mut stride, mut dimension, mut array, mut within) = (0, None, None, None, WHOLE);
    for (key, value) in members {
        let name = key.str()?;
        let name = name.to_cow()?;
        let inner = format!("{place}.{name}");
        match &*name {
            "offset" => offset = number(&value, &inner)?,
            "stride" => stride = Some(number(&value, &inner)?),
            "input_dimension" => dimension = Some(number(&value, &inner)?),
            "index_array" => array = Some(array_of(&value, &inner)?),
            "index_array_bounds" => within = bounds_of(&value, &inner)?,
            _ => return Err(argument(py, format!("{place}: unknown members [{}]", key.repr()?))),
        }
    }
    let map = match (dimension, array) {
        (Some(_), Some(_)) => {
            return Err(argument(py, format!("{place}: give input_dimension or index_array")))
        }
        (Some(dimension), None) => match usize::try_from(dimension) {
            Ok(dimension) => Map::along(dimension, offset, stride.unwrap_or(1)),
            Err(_) => {
                let what = format!("{place}: input_dimension {dimension} is not below {}", dims.len());
                return Err(argument(py, what));
            }
        },
        (None, Some(array)) => Map::by_array(array, offset, stride.unwrap_or(1), within),
        (None, None) if stride.is_some() => {
            let what = format!("{place}: stride without input_dimension or index_array");
            return Err(argument(py, what));
        }
        (None, None) => Map::constant(offset),
    };
    told(py, map.fitted(dims))
}

fn array_of(value: &Bound<'_, PyAny>, place: &str) -> PyResult<Indices> {
    let mut items = Vec::new();
    let shape = flattened(value, place, 0, &mut items)?;
    match Indices::new(items, &shape) {
        Some(array) => Ok(array),
        None => Err(argument(value.py(), format!("{place}: too large"))),
    }
}

/// Add all items, and return the shape.
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

/// A pair of indices, of which the second is the last one.
fn bounds_of(value: &Bound<'_, PyAny>, place: &str) -> PyResult<(i64, i64)> {
    let py = value.py();
    let pair = match value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        true => listed(value, place)?,
        false => Vec::new(),
    };
    let [lower, last] = &pair[..] else {
        return Err(argument(py, format!("{place}: {} is not a pair of indices", value.repr()?)));
    };
    let is = |value: &Bound<'_, PyAny>, word: &str| value.eq(word);
    let lower = if is(lower, "-inf")? { -INFINITE } else { number(lower, place)? };
    let upper = if is(last, "+inf")? { END } else { number(last, place)?.saturating_add(1) };
    if !(-INFINITE..=upper).contains(&lower) || upper > END {
        return Err(argument(py, format!("{place}: [{lower}, {upper}) is not an interval of indices")));
    }
    Ok((lower, upper))
}

/// The JSON of a view, or of a domain where there is no prefix.
pub(super) fn members<'py>(
    py: Python<'py>,
    view: &space::View,
    prefix: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let found = PyDict::new(py);
    let dims = &view.dims;
    if dims.iter().any(|dim| dim.upper <= INFINITE || !dim.implicit.1) {
        let column = dims.iter().map(|dim| stated_bound(py, dim.upper, dim.implicit.1));
        found.set_item(format!("{prefix}exclusive_max"), column.collect::<PyResult<Vec<_>>>()?)?;
    }
    if dims.iter().any(|dim| dim.lower != -INFINITE || !dim.implicit.0) {
        let column = dims.iter().map(|dim| stated_bound(py, dim.lower, dim.implicit.0));
        found.set_item(format!("{prefix}inclusive_min"), column.collect::<PyResult<Vec<_>>>()?)?;
    }
    if dims.iter().any(|dim| dim.label.is_some()) {
        let column: Vec<&str> = dims.iter().map(|dim| dim.label.as_deref().unwrap_or("")).collect();
        found.set_item(format!("{prefix}labels"), column)?;
    }
    if found.is_empty() {
        found.set_item(format!("{prefix}rank"), dims.len())?;
    }
    if !prefix.is_empty() && !view.is_identity() {
        let maps = view.maps.iter().map(|map| stated_map(py, map));
        found.set_item("output", maps.collect::<PyResult<Vec<_>>>()?)?;
    }
    Ok(found)
}

/// A bound as JSON has it.
fn stated_bound(py: Python<'_>, bound: i64, implicit: bool) -> PyResult<Bound<'_, PyAny>> {
    let value = match bound {
        _ if bound == -INFINITE => PyString::new(py, "-inf").into_any(),
        END => PyString::new(py, "+inf").into_any(),
        _ => bound.into_pyobject(py)?.into_any(),
    };
    Ok(if implicit { PyList::new(py, [value])?.into_any() } else { value })
}

fn stated_map<'py>(py: Python<'py>, map: &Map) -> PyResult<Bound<'py, PyDict>> {
    let found = PyDict::new(py);
    match &map.source {
        Source::Nothing => {}
        Source::Dimension(k) => found.set_item("input_dimension", k)?,
        Source::Array(listed) => {
            found.set_item("index_array", nested(py, &listed.indices.to_vec(), &listed.indices.shape())?)?;
            let (lower, upper) = listed.within;
            if listed.indices.ends().is_some_and(|(least, most)| least < lower || most >= upper) {
                let last = if upper == END { END } else { upper - 1 };
                let ends = [stated_bound(py, lower, false)?, stated_bound(py, last, false)?];
                found.set_item("index_array_bounds", PyList::new(py, ends)?)?;
            }
        }
    }
    if map.offset != 0 {
        found.set_item("offset", map.offset)?;
    }
    if map.stride != 1 && map.source != Source::Nothing {
        found.set_item("stride", map.stride)?;
    }
    Ok(found)
}

/// Items in C order as lists within lists.
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
