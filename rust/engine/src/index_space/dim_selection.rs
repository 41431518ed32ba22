//! Selection of dimensions by number, by label, or by a range of numbers.

use std::sync::Arc;

use super::numpy_key::expand_ellipsis;
use super::{quoted, Dim, IndexTerm, IndexTransform, Slice};
use crate::error::{Error, Result};

/// Selects dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DimSelector {
    /// A number, counted from the end if negative.
    Number(i64),
    /// A label.
    Label(Arc<str>),
    /// A range of numbers, each counted from the end if negative.
    Range(Slice),
}

impl IndexTransform {
    /// Return the numbers of the selected dimensions.
    ///
    /// # Errors
    /// `Kind::Selection` if a dimension does not exist, or is selected twice.
    pub fn select_dims(&self, names: &[DimSelector]) -> Result<Vec<usize>> {
        select_dims(names, &self.dims)
    }
}

pub(super) fn select_dims(names: &[DimSelector], dims: &[Dim]) -> Result<Vec<usize>> {
    let mut numbers = Vec::with_capacity(names.len());
    for name in names {
        match name {
            DimSelector::Number(number) => numbers.push(resolve_number(*number, dims.len())?),
            DimSelector::Label(label) => numbers.push(find_label(label, dims)?),
            DimSelector::Range(range) => numbers.extend(resolve_range(*range, dims.len())?),
        }
    }
    check_unique(numbers)
}

fn check_unique(numbers: Vec<usize>) -> Result<Vec<usize>> {
    match numbers.iter().enumerate().find(|(number, k)| numbers[..*number].contains(k)) {
        None => Ok(numbers),
        Some((_, k)) => Err(Error::selection(format!("dimension {k} is selected more than once"))),
    }
}

/// Resolve a number that may count from the end.
pub(super) fn resolve_number(number: i64, rank: usize) -> Result<usize> {
    let size = rank as i64;
    if !(-size..size).contains(&number) {
        return Err(Error::selection(format!("dimension {number} is outside of [{}, {size})", -size)));
    }
    Ok(number.rem_euclid(size) as usize)
}

/// Return the number of the dimension with a label.
pub(super) fn find_label(label: &str, dims: &[Dim]) -> Result<usize> {
    let numbers = dims.iter().position(|dim| dim.label.as_deref() == Some(label));
    numbers.ok_or_else(|| {
        let known: Vec<String> =
            dims.iter().map(|dim| quoted(dim.label.as_deref().unwrap_or_default())).collect();
        Error::selection(format!(
            "no dimension has the label {}; the labels are {}",
            quoted(label),
            known.join(", ")
        ))
    })
}

/// Return the numbers of a range of dimensions.
pub(super) fn resolve_range(range: Slice, rank: usize) -> Result<Vec<usize>> {
    let by = range.step.unwrap_or(1);
    if by == 0 {
        return Err(Error::selection("a step of 0"));
    }
    let size = rank as i64;
    let start = match range.start {
        Some(number) => resolve_number(number, rank)? as i64,
        None if by > 0 => 0,
        None => size - 1,
    };
    let stop = match range.stop {
        Some(stop) if !(-size - 1..=size).contains(&stop) => {
            return Err(Error::selection(format!("dimensions {range} of {size}")));
        }
        Some(stop) if stop < 0 => stop + size,
        Some(stop) => stop,
        None if by > 0 => size,
        None => -1,
    };
    if (stop - start).signum() == -by.signum() {
        return Err(Error::selection(format!("dimensions {range} of {size}: it ends before it begins")));
    }
    Ok(range_numbers(start, stop, by).map(|k| k as usize).collect())
}

fn range_numbers(start: i64, stop: i64, by: i64) -> impl Iterator<Item = i64> {
    let mut number = start;
    std::iter::from_fn(move || {
        let now = number;
        number = number.saturating_add(by);
        (if by > 0 { now < stop } else { now > stop }).then_some(now)
    })
}

/// Return the numbers, in the result, of a selection to which terms add new dimensions.
///
/// # Errors
/// `Kind::Selection` if the terms do not fit the selection, or a label selects a new dimension.
pub(super) fn numbers_with_new_dims(
    names: &[DimSelector],
    terms: &[IndexTerm],
    single: bool,
    dims: &[Dim],
) -> Result<Vec<usize>> {
    let new_dims = match single {
        true => names.iter().map(count_dims).sum::<Result<usize>>()?, // each one is new
        false => terms.iter().filter(|term| term.is_new()).count(),
    };
    let rank = dims.len() + new_dims;
    let mut items: Vec<(Option<usize>, &DimSelector)> = Vec::new();
    for name in names {
        match name {
            DimSelector::Number(number) => items.push((Some(resolve_number(*number, rank)?), name)),
            DimSelector::Range(range) => {
                items.extend(resolve_range(*range, rank)?.into_iter().map(|k| (Some(k), name)))
            }
            DimSelector::Label(_) => items.push((None, name)),
        }
    }
    let are_new = if single { vec![true; items.len()] } else { new_flags(terms, items.len())? };
    if items.iter().zip(&are_new).any(|((dim_number, _), &new)| new && dim_number.is_none()) {
        return Err(Error::selection("a new dimension is named by its number: it has no label yet"));
    }
    let is_new =
        |k: &usize| items.iter().zip(&are_new).any(|((dim_number, _), &new)| new && *dim_number == Some(*k));
    let old: Vec<usize> = (0..rank).filter(|k| !is_new(k)).collect();
    let mut numbers = Vec::with_capacity(items.len());
    for (dim_number, name) in items {
        numbers.push(match (dim_number, name) {
            (Some(dim_number), _) => dim_number,
            (None, DimSelector::Label(label)) => old[find_label(label, dims)?],
            (None, _) => return Err(Error::internal("a name without a number")),
        });
    }
    check_unique(numbers)
}

/// Return the number of selected dimensions while the final rank is unknown: both ends of a range
/// must count from the same side.
fn count_dims(name: &DimSelector) -> Result<usize> {
    let DimSelector::Range(range) = name else {
        return Ok(1);
    };
    let by = range.step.unwrap_or(1);
    let edge = if by > 0 { 0 } else { -1 };
    let ends = match (range.start, range.stop) {
        (None, Some(stop)) if (edge < 0) == (stop < 0) => Some((edge, stop)),
        (Some(start), None) if (start < 0) == (by > 0) => Some((start, edge)),
        (Some(start), Some(stop)) if (start < 0) == (stop < 0) => Some((start, stop)),
        _ => None,
    };
    let known = |(start, stop): &(i64, i64)| {
        by != 0 && start.abs_diff(*stop) <= 64 && (stop - start).signum() != -by.signum()
    };
    let Some((start, stop)) = ends.filter(known) else {
        return Err(Error::selection(format!("{range} does not define the number of new dimensions")));
    };
    Ok(range_numbers(start, stop, by).count())
}

/// Return whether each selected dimension is new.
fn new_flags(terms: &[IndexTerm], count_dims: usize) -> Result<Vec<bool>> {
    let terms = expand_ellipsis(terms.to_vec(), count_dims, IndexTerm::selected_dims, false)?;
    Ok(terms.iter().filter(|term| !term.indexes_nothing()).map(IndexTerm::is_new).collect())
}
