//! Selection of dimensions by number, by label, or by a range of numbers.

use std::sync::Arc;

use super::numpy_key::filled;
use super::{quoted, selection, Dim, Slice, Term, View};
use crate::error::{Error, Kind, Result};

/// Selects dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// A number, counted from the end if negative.
    Number(i64),
    /// A label.
    Label(Arc<str>),
    /// A range of numbers, each counted from the end if negative.
    Range(Slice),
}

impl View {
    /// The numbers of the selected dimensions.
    ///
    /// # Errors
    /// `Kind::Selection` if a dimension does not exist, or is selected twice.
    pub fn chosen(&self, names: &[Name]) -> Result<Vec<usize>> {
        chosen(names, &self.dims)
    }
}

pub(super) fn chosen(names: &[Name], dims: &[Dim]) -> Result<Vec<usize>> {
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        match name {
            Name::Number(number) => found.push(place(*number, dims.len())?),
            Name::Label(label) => found.push(place_of(label, dims)?),
            Name::Range(range) => found.extend(ranged(*range, dims.len())?),
        }
    }
    once(found)
}

fn once(found: Vec<usize>) -> Result<Vec<usize>> {
    match found.iter().enumerate().find(|(at, k)| found[..*at].contains(k)) {
        None => Ok(found),
        Some((_, k)) => Err(selection(format!("dimension {k} is named more than once"))),
    }
}

/// Resolve a number that may count from the end.
pub(super) fn place(number: i64, rank: usize) -> Result<usize> {
    let size = rank as i64;
    if !(-size..size).contains(&number) {
        return Err(selection(format!("dimension {number} is outside of [{}, {size})", -size)));
    }
    Ok(number.rem_euclid(size) as usize)
}

/// The number of the dimension with a label.
pub(super) fn place_of(label: &str, dims: &[Dim]) -> Result<usize> {
    let found = dims.iter().position(|dim| dim.label.as_deref() == Some(label));
    found.ok_or_else(|| {
        let known: Vec<String> =
            dims.iter().map(|dim| quoted(dim.label.as_deref().unwrap_or_default())).collect();
        selection(format!("no dimension has the label {}; there are {}", quoted(label), known.join(", ")))
    })
}

/// The numbers of a range of dimensions.
pub(super) fn ranged(range: Slice, rank: usize) -> Result<Vec<usize>> {
    let by = range.step.unwrap_or(1);
    if by == 0 {
        return Err(selection("a step of 0"));
    }
    let size = rank as i64;
    let start = match range.start {
        Some(number) => place(number, rank)? as i64,
        None if by > 0 => 0,
        None => size - 1,
    };
    let stop = match range.stop {
        Some(stop) if !(-size - 1..=size).contains(&stop) => {
            return Err(selection(format!("dimensions {range} of {size}")));
        }
        Some(stop) if stop < 0 => stop + size,
        Some(stop) => stop,
        None if by > 0 => size,
        None => -1,
    };
    if (stop - start).signum() == -by.signum() {
        return Err(selection(format!("dimensions {range} of {size}: it ends before it begins")));
    }
    Ok(walked(start, stop, by).map(|k| k as usize).collect())
}

fn walked(start: i64, stop: i64, by: i64) -> impl Iterator<Item = i64> {
    let mut at = start;
    std::iter::from_fn(move || {
        let now = at;
        at = at.saturating_add(by);
        (if by > 0 { now < stop } else { now > stop }).then_some(now)
    })
}

/// The numbers, in the result, of a selection to which terms add new dimensions.
///
/// # Errors
/// `Kind::Selection` if the terms do not fit the selection, or a label selects a new dimension.
pub(super) fn numbered(names: &[Name], terms: &[Term], single: bool, dims: &[Dim]) -> Result<Vec<usize>> {
    let added = match single {
        true => names.iter().map(count).sum::<Result<usize>>()?, // each one is new
        false => terms.iter().filter(|term| term.is_new()).count(),
    };
    let rank = dims.len() + added;
    let mut items: Vec<(Option<usize>, &Name)> = Vec::new();
    for name in names {
        match name {
            Name::Number(number) => items.push((Some(place(*number, rank)?), name)),
            Name::Range(range) => items.extend(ranged(*range, rank)?.into_iter().map(|k| (Some(k), name))),
            Name::Label(_) => items.push((None, name)),
        }
    }
    let news = if single { vec![true; items.len()] } else { new_ones(terms, items.len())? };
    if items.iter().zip(&news).any(|((place, _), &new)| new && place.is_none()) {
        return Err(selection("a new dimension is named by its number: it has no label yet"));
    }
    let is_new = |k: &usize| items.iter().zip(&news).any(|((place, _), &new)| new && *place == Some(*k));
    let old: Vec<usize> = (0..rank).filter(|k| !is_new(k)).collect();
    let mut found = Vec::with_capacity(items.len());
    for (place, name) in items {
        found.push(match (place, name) {
            (Some(place), _) => place,
            (None, Name::Label(label)) => old[place_of(label, dims)?],
            (None, _) => return Err(Error::new(Kind::Internal, "a name without a number")),
        });
    }
    once(found)
}

/// The number of selected dimensions while the final rank is unknown: both ends of a range must
/// count from the same side.
fn count(name: &Name) -> Result<usize> {
    let Name::Range(range) = name else {
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
        return Err(selection(format!("{range} does not tell how many new dimensions there are")));
    };
    Ok(walked(start, stop, by).count())
}

/// Whether each selected dimension is new.
fn new_ones(terms: &[Term], count: usize) -> Result<Vec<bool>> {
    let terms = filled(terms.to_vec(), count, Term::selects, false)?;
    Ok(terms.iter().filter(|term| !term.is_unused()).map(Term::is_new).collect())
}
