//! Propagation of chunk constraints through a transform.

use crate::runtime::once_cell::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tessarr_engine::index_space::{self, INFINITE};

use super::argument;

/// The grid origin, and the constraints on chunks.
pub(super) type Grids<'py> = (Bound<'py, PyTuple>, Bound<'py, PyTuple>);

/// The kind of the values of a row of constraints.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    Origin,
    Length,
    Ratio,
}

/// Propagate grid origins and chunk constraints of the base to a view.
///
/// A row has for each dimension None or a constraint: a tuple of a value and whether it is hard. A
/// grid is a tuple of a row of lengths, a row of ratios, and the constraint on the number of
/// elements.
pub(super) fn propagate<'py>(
    view: &index_space::IndexTransform,
    origin: &Bound<'py, PyTuple>,
    grids: &Bound<'py, PyTuple>,
) -> PyResult<Grids<'py>> {
    let grids = grids.iter().map(|grid| {
        let (lengths, ratios): (Bound<'py, PyTuple>, Bound<'py, PyTuple>) =
            (grid.get_item(0)?.cast_into()?, grid.get_item(1)?.cast_into()?);
        if lengths.is_empty() && ratios.is_empty() {
            return Ok(grid);
        }
        let (lengths, ratios) = (row_of(view, &lengths, Of::Length)?, row_of(view, &ratios, Of::Ratio)?);
        same_class_tuple(&grid, (lengths, ratios, grid.get_item(2)?))
    });
    let grids = PyTuple::new(origin.py(), grids.collect::<PyResult<Vec<_>>>()?)?;
    Ok((row_of(view, origin, Of::Origin)?, grids))
}

/// Propagate a row. A constraint follows a map of a single dimension that no other map uses.
fn row_of<'py>(
    view: &index_space::IndexTransform,
    row: &Bound<'py, PyTuple>,
    of: Of,
) -> PyResult<Bound<'py, PyTuple>> {
    let py = row.py();
    if row.iter_borrowed().all(|constraint| constraint.is_none()) {
        return Ok(PyTuple::empty(py));
    }
    let mut found = vec![None; view.dims.len()];
    for (constraint, (dimension, offset, stride)) in row.iter_borrowed().zip(view.linear_maps()) {
        let Some(dimension) = dimension.filter(|_| stride != 0 && !constraint.is_none()) else {
            continue;
        };
        if view.count_dependent_maps(dimension) == 1 {
            found[dimension] = Some(propagate_constraint(&constraint, offset, stride, of)?);
        }
    }
    PyTuple::new(py, found)
}

/// Propagate one constraint along a map.
fn propagate_constraint<'py>(
    constraint: &Bound<'py, PyAny>,
    offset: i64,
    stride: i64,
    of: Of,
) -> PyResult<Bound<'py, PyAny>> {
    let py = constraint.py();
    if stride == 1 && (of != Of::Origin || offset == 0) {
        return Ok(constraint.clone());
    }
    let (value, hard): (Bound<'py, PyAny>, bool) =
        (constraint.get_item(0)?, constraint.get_item(1)?.extract()?);
    let value = match of {
        Of::Origin => origin(py, value.extract()?, offset, stride)?.into_pyobject(py)?.into_any(),
        Of::Length => length(value.extract()?, stride).into_pyobject(py)?.into_any(),
        Of::Ratio => (value.extract::<f64>()? / stride.unsigned_abs() as f64).into_pyobject(py)?.into_any(),
    };
    same_class_tuple(constraint, (value, hard))
}

/// Return a tuple of the class of another one.
fn same_class_tuple<'py>(
    like: &Bound<'py, PyAny>,
    items: impl IntoPyObject<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = like.py();
    py.get_type::<PyTuple>().call_method1(intern!(py, "__new__"), (like.get_type(), items))
}

/// Propagate a grid origin along a map.
fn origin(py: Python<'_>, value: i64, offset: i64, stride: i64) -> PyResult<i64> {
    let at = i128::from(value) - i128::from(offset);
    if at.abs() >= i128::from(INFINITE) {
        return Err(argument(py, format!("grid_origin: {at} is beyond the range of indices")));
    }
    let stride = i128::from(stride);
    let up = |at: i128| -(-at).div_euclid(stride.abs());
    Ok(if stride > 0 { up(at) } else { up(1 - at) } as i64)
}

/// Propagate a chunk length along a map.
fn length(value: i64, stride: i64) -> i64 {
    let (mut one, mut other) = (stride.unsigned_abs(), value.unsigned_abs());
    while other != 0 {
        (one, other) = (other, one % other);
    }
    match i64::try_from(one) {
        Ok(common) if common > 0 => value / common,
        _ => value,
    }
}

/// Propagate a dimension order; dimensions without a base dimension come last.
pub(super) fn order(view: &index_space::IndexTransform, order: &[usize]) -> Vec<usize> {
    let lines: Vec<_> = view.linear_maps().map(|(dimension, ..)| dimension).collect();
    let mut found = Vec::with_capacity(view.dims.len());
    let met = order.iter().filter_map(|&k| lines.get(k).copied().flatten());
    for dimension in met.chain(0..view.dims.len()) {
        if !found.contains(&dimension) {
            found.push(dimension);
        }
    }
    found
}
