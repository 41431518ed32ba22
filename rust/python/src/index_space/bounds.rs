//! Domains from lists of bounds, from arguments or JSON.

use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use tessarr_engine::index_space::{self, Dim, PerDimension, END, INFINITE, MAX_RANK};

use super::indexing_terms::label_of;
use super::json::listed;
use super::{argument, to_py_result};
use crate::runtime::bool_arg::as_bool;
use crate::runtime::safe_repr::safe_repr;

/// A bound, and whether it is implicit.
pub(super) type End = (i64, bool);

/// The parts of a domain that a user passes: one list per kind of bound.
#[derive(Default)]
pub(super) struct DomainParts {
    pub(super) rank: Option<i64>,
    pub(super) inclusive_min: Option<Vec<End>>,
    pub(super) exclusive_max: Option<Vec<End>>,
    pub(super) inclusive_max: Option<Vec<End>>,
    pub(super) shape: Option<Vec<End>>,
    pub(super) labels: Option<Vec<Option<Arc<str>>>>,
    pub(super) implicit_lower: Option<Vec<bool>>,
    pub(super) implicit_upper: Option<Vec<bool>>,
    /// The prefix of all names in errors.
    pub(super) prefix: &'static str,
}

/// An optional argument of Python.
type Argument<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

impl DomainParts {
    /// Parse the arguments of a domain: the rank, `inclusive_min`, `exclusive_max`,
    /// `inclusive_max`, `shape`, the labels and the implicit bounds. Raise a TypeError for
    /// arguments of other types.
    pub(super) fn from_arguments(
        rank: Argument<'_, '_>,
        [lower, upper, last, shape]: [Argument<'_, '_>; 4],
        labels: Argument<'_, '_>,
        [implicit_lower, implicit_upper]: [Argument<'_, '_>; 2],
    ) -> PyResult<DomainParts> {
        let bounds =
            |items, name| column(items, name, "an integer of 64 bits", |bound| Ok((bound.extract()?, false)));
        let flags = |items, name| column(items, name, "a boolean", |item| as_bool(item, name));
        Ok(DomainParts {
            rank: rank.map(|rank| rank.extract().map_err(|_| no(rank, "rank", "an integer"))).transpose()?,
            inclusive_min: bounds(lower, "inclusive_min")?,
            exclusive_max: bounds(upper, "exclusive_max")?,
            inclusive_max: bounds(last, "inclusive_max")?,
            shape: bounds(shape, "shape")?,
            labels: column(labels, "labels", "a string", |label| match label {
                label if label.is_none() => Ok(None),
                label => label_of(label),
            })?,
            implicit_lower: flags(implicit_lower, "implicit_lower_bounds")?,
            implicit_upper: flags(implicit_upper, "implicit_upper_bounds")?,
            prefix: "",
        })
    }

    /// Return the dimensions.
    pub(super) fn dims(&self, py: Python<'_>) -> PyResult<PerDimension<Dim>> {
        let rank = self.length(py)?;
        let mut dims: PerDimension<Dim> = match &self.inclusive_min {
            Some(bounds) => bounds.iter().map(|&(lower, implicit)| unbounded_dim(lower, implicit)).collect(),
            None if self.shape.is_some() => (0..rank).map(|_| unbounded_dim(0, false)).collect(),
            None => (0..rank).map(|_| unbounded_dim(-INFINITE, true)).collect(),
        };
        self.end(py, &mut dims)?;
        for (k, Dim { lower, upper, .. }) in dims.iter().enumerate() {
            if !index_space::is_interval(*lower, *upper) {
                let what = format!("[{lower}, {upper}) is not an interval of indices");
                return Err(argument(py, format!("dimension {k}: {what}")));
            }
        }
        for (dim, label) in dims.iter_mut().zip(self.labels.iter().flatten()) {
            dim.label.clone_from(label);
        }
        for (dim, &implicit) in dims.iter_mut().zip(self.implicit_lower.iter().flatten()) {
            dim.implicit.0 = implicit;
        }
        for (dim, &implicit) in dims.iter_mut().zip(self.implicit_upper.iter().flatten()) {
            dim.implicit.1 = implicit;
        }
        to_py_result(py, index_space::checked_labels(dims))
    }

    /// Return the common length of the lists.
    fn length(&self, py: Python<'_>) -> PyResult<usize> {
        let prefix = self.prefix;
        let too_many = |rank| argument(py, format!("{prefix}rank: {rank} is not from 0 to {MAX_RANK}"));
        let mut rank = match self.rank {
            Some(rank) => Some(usize::try_from(rank).map_err(|_| too_many(rank))?),
            None => None,
        };
        for (name, count) in [
            ("inclusive_min", self.inclusive_min.as_ref().map(Vec::len)),
            ("exclusive_max", self.exclusive_max.as_ref().map(Vec::len)),
            ("inclusive_max", self.inclusive_max.as_ref().map(Vec::len)),
            ("shape", self.shape.as_ref().map(Vec::len)),
            ("labels", self.labels.as_ref().map(Vec::len)),
            ("implicit_lower_bounds", self.implicit_lower.as_ref().map(Vec::len)),
            ("implicit_upper_bounds", self.implicit_upper.as_ref().map(Vec::len)),
        ] {
            let Some(length) = count else {
                continue;
            };
            if let Some(rank) = rank.filter(|&rank| rank != length) {
                return Err(argument(py, format!("{prefix}{name}: {length} items, the rank is {rank}")));
            }
            rank = count;
        }
        match rank {
            Some(rank) if rank > MAX_RANK => Err(too_many(rank as i64)),
            Some(rank) => Ok(rank),
            None => Err(argument(py, format!("the number of dimensions, {prefix}rank, is not given"))),
        }
    }

    /// Set the upper bounds of dimensions.
    fn end(&self, py: Python<'_>, dims: &mut [Dim]) -> PyResult<()> {
        let ends = [&self.exclusive_max, &self.inclusive_max, &self.shape];
        let mut ends = ends.into_iter().enumerate().filter_map(|(k, end)| Some((k, end.as_ref()?)));
        let Some((kind, end)) = ends.next() else {
            return Ok(());
        };
        if ends.next().is_some() {
            let prefix = self.prefix;
            let names = format!("{prefix}exclusive_max, {prefix}inclusive_max and {prefix}shape");
            return Err(argument(py, format!("give one of {names}")));
        }
        for (dim, &(bound, implicit)) in dims.iter_mut().zip(end) {
            dim.implicit.1 = implicit;
            dim.upper = match kind {
                0 => bound,
                1 => bound.saturating_add(1),
                _ => index_space::end(dim.lower, bound),
            };
        }
        Ok(())
    }
}

/// Return a dimension without an upper bound.
fn unbounded_dim(lower: i64, implicit: bool) -> Dim {
    Dim { implicit: (implicit, true), ..Dim::new(lower, END) }
}

/// Return the items of a list argument.
pub(super) fn column<T>(
    value: Argument<'_, '_>,
    name: &str,
    kind: &str,
    read: impl Fn(&Bound<'_, PyAny>) -> PyResult<T>,
) -> PyResult<Option<Vec<T>>> {
    let Some(value) = value else {
        return Ok(None);
    };
    let items = listed(value, name).map_err(|_| no(value, name, "a list"))?;
    let items = items.iter().map(|item| read(item).map_err(|_| no(item, name, kind)));
    items.collect::<PyResult<_>>().map(Some)
}

/// Return the exception for an argument of a wrong type.
fn no(value: &Bound<'_, PyAny>, name: &str, what: &str) -> PyErr {
    PyTypeError::new_err(format!("{name}: {} is not {what}", safe_repr(value)))
}
