//! Indexing operations, each of which is a transform of the dimensions before it.
//!
//! Every operation applies to some dimensions and returns the resulting ones, to which the next
//! operation of a dimension expression applies.

use std::sync::Arc;

use super::dim::Line;
use super::dim_selection::{chosen, numbered, place, place_of as labelled_place, ranged};
use super::numpy_key::{for_all, for_some};
use super::{
    along, beyond, check_explicit, check_labels, nowhere, selection, Dim, Listed, Map, Mode, Name,
    PerDimension, Slice, Source, Term, View, END, INFINITE,
};
use crate::error::Result;

/// A value for each dimension, or one for all.
#[derive(Clone, Debug)]
pub enum PerDim<T> {
    /// One value for all.
    One(T),
    /// One value for each.
    Each(PerDimension<T>),
}

impl<T> PerDim<T> {
    fn check(&self, count: usize, what: &str) -> Result<()> {
        match self {
            PerDim::Each(values) if values.len() != count => {
                Err(selection(format!("{} {what} for {count} dimensions", values.len())))
            }
            _ => Ok(()),
        }
    }

    fn at(&self, place: usize) -> &T {
        match self {
            PerDim::One(value) => value,
            PerDim::Each(values) => &values[place],
        }
    }
}

/// The kind of a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shift {
    /// To a new origin.
    To,
    /// By an offset.
    By,
    /// By a negated offset.
    BackwardBy,
}

/// The target of dimensions in a transposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A number, counted from the end if negative.
    Number(i64),
    /// All numbers of a slice.
    Range(Slice),
}

/// An indexing operation.
#[derive(Clone, Debug)]
pub enum Act {
    /// Indexing by a key; a single term applies to all selected dimensions.
    Brackets {
        /// The terms of the key.
        terms: Vec<Term>,
        /// Whether the key is a term, not a tuple.
        single: bool,
        /// How index arrays combine.
        mode: Mode,
    },
    /// Translates the domain.
    Translate(Shift, PerDim<Option<i64>>),
    /// Sets labels; None removes one.
    Label(PerDimension<Option<Arc<str>>>),
    /// Keeps the multiples of a stride, divided by it.
    Stride(PerDim<Option<i64>>),
    /// Marks bounds as implicit or explicit; None leaves them.
    MarkBoundsImplicit(Option<bool>, Option<bool>),
    /// Moves dimensions: to consecutive positions, or each to its own.
    Transpose(Box<PerDim<Place>>),
    /// Replaces the dimensions by their diagonal, which becomes the first dimension.
    Diagonal,
}

impl View {
    /// Apply operations, the first of them to the selected dimensions (None: all).
    ///
    /// # Errors
    /// `Kind::Selection` or `Kind::Argument` if an operation does not fit.
    pub fn acted(&self, names: Option<&[Name]>, acts: impl IntoIterator<Item = Act>) -> Result<View> {
        let mut acts = acts.into_iter();
        let Some(first) = acts.next() else {
            return Ok(self.clone());
        };
        let mut selected: PerDimension<usize> = match (names, &first) {
            (None, Act::Brackets { .. }) => PerDimension::new(),
            (None, _) => (0..self.dims.len()).collect(),
            (Some(names), Act::Brackets { terms, single, .. }) if any_new(terms) => {
                numbered(names, terms, *single, &self.dims)?.into()
            }
            (Some(names), _) => chosen(names, &self.dims)?.into(),
        };
        let mut view = match first {
            Act::Brackets { terms, mode, .. } if names.is_none() => {
                self.after(for_all(&self.dims, terms, mode)?)?
            }
            act => act.of(self, &mut selected)?,
        };
        for act in acts {
            if matches!(&act, Act::Brackets { terms, .. } if any_new(terms)) {
                return Err(selection("newaxis is not possible after another act of the expression"));
            }
            view = act.of(&view, &mut selected)?;
        }
        Ok(view)
    }

    /// Change the selected dimensions without moving positions.
    fn told(&self, selected: &[usize], mut say: impl FnMut(usize, &mut Dim)) -> Result<View> {
        let mut view = self.clone();
        for (at, &k) in selected.iter().enumerate() {
            say(at, &mut view.dims[k]);
        }
        check_labels(&view.dims)?;
        if !nowhere(&view.dims) {
            for map in &view.maps {
                if let Source::Array(listed) = &map.source {
                    check_explicit(&listed.indices, &view.dims)?;
                }
            }
        }
        Ok(view)
    }

    /// Translate one dimension.
    fn shift(&mut self, k: usize, by: i128) -> Result<()> {
        self.dims[k] = self.dims[k].shifted(by)?;
        let back = i64::try_from(-by).map_err(|_| selection("an offset beyond 64 bits"))?;
        for map in self.maps.iter_mut().filter(|map| map.source == Source::Dimension(k)) {
            map.offset = map.applied(back, 1)?.0;
        }
        Ok(())
    }

    /// Reorder the dimensions.
    ///
    /// # Errors
    /// `Kind::Selection` if `order` is not a permutation.
    pub fn permuted(&self, order: &[usize]) -> Result<View> {
        let places = places_of(order, self.dims.len())?;
        Ok(self.turned(order.iter().copied(), |k| places[k]))
    }

    /// Reverse the order of the dimensions.
    pub fn reversed(&self) -> View {
        let rank = self.dims.len();
        self.turned((0..rank).rev(), |k| rank - 1 - k)
    }

    /// Reorder the dimensions, given the order and its inverse.
    fn turned(&self, order: impl Iterator<Item = usize> + Clone, place: impl Fn(usize) -> usize) -> View {
        let mut turned = View { dims: PerDimension::new(), maps: PerDimension::new() };
        turned.dims.extend(order.clone().map(|k| self.dims[k].clone()));
        turned.maps.extend(self.maps.iter().map(|map| {
            let source = match &map.source {
                Source::Nothing => Source::Nothing,
                Source::Dimension(k) => Source::Dimension(place(*k)),
                Source::Array(listed) => {
                    let indices = listed.indices.permuted(order.clone());
                    Source::Array(Arc::new(Listed { indices, within: listed.within }))
                }
            };
            Map { source, ..*map }
        }));
        turned
    }

    /// Restrict the transform to a domain, with explicit bounds. Labels select dimensions,
    /// unlabelled ones follow in order. A transform without labels gets those of the domain.
    ///
    /// # Errors
    /// `Kind::Selection` if the domain has other dimensions, or exceeds that of the transform.
    pub fn restricted(&self, to: &[Dim]) -> Result<View> {
        let labelled = |dims: &[Dim]| dims.iter().any(|dim| dim.label.is_some());
        let by_label = labelled(&self.dims) && labelled(to);
        if to.len() != self.dims.len() && !(by_label && to.iter().all(|dim| dim.label.is_some())) {
            let (rank, ours) = (to.len(), self.dims.len());
            return Err(selection(format!(
                "a domain of rank {rank} for one of rank {ours}: without labels they have to agree"
            )));
        }
        let mut free = self.dims.iter().enumerate().filter(|(_, dim)| dim.label.is_none());
        let mut selected: PerDimension<usize> = PerDimension::new();
        for (k, wanted) in to.iter().enumerate() {
            selected.push(match &wanted.label {
                Some(label) if by_label => labelled_place(label, &self.dims)?,
                None if by_label => free
                    .next()
                    .map(|(k, _)| k)
                    .ok_or_else(|| selection("the domain has more dimensions without label than the view"))?,
                _ => k,
            });
        }
        let keep = labelled(&self.dims);
        let step = each(&self.dims, &selected, |at, dim| {
            let wanted = &to[at];
            let (lower, upper) = dim.reach();
            if !(wanted.is_empty() || lower <= wanted.lower && wanted.upper <= upper) {
                let message = format!("{} is outside of {}", wanted.bounds(), dim.bounds());
                return Err(along(selected[at], dim.label.as_deref(), beyond(message)));
            }
            let named = if keep { dim } else { wanted };
            Ok((named.with(wanted.lower, wanted.upper, (false, false)), Line::SAME))
        })?;
        self.after(step)
    }
}

fn any_new(terms: &[Term]) -> bool {
    terms.iter().any(Term::is_new)
}

impl Act {
    /// Apply the operation to the `selected` dimensions, which become the resulting ones.
    fn of(self, view: &View, selected: &mut PerDimension<usize>) -> Result<View> {
        let dims = &view.dims;
        match self {
            Act::Translate(shift, by) => {
                by.check(selected.len(), "indices")?;
                let mut view = view.clone();
                for (at, &k) in selected.iter().enumerate() {
                    let by = by.at(at).map_or(Ok(0), |by| shift.of(&dims[k], by))?;
                    // The new origin is a position, the offset is not.
                    let to = matches!(shift, Shift::To);
                    view.shift(k, by).map_err(|error| if to { beyond(error.message) } else { error })?;
                }
                Ok(view)
            }
            Act::Label(mut labels) => {
                if labels.len() != selected.len() {
                    let count = selected.len();
                    return Err(selection(format!("{} labels for {count} dimensions", labels.len())));
                }
                view.told(selected, |at, dim| dim.label = labels[at].take())
            }
            Act::Stride(by) => {
                by.check(selected.len(), "strides")?;
                let step = each(dims, selected, |at, dim| match by.at(at) {
                    None => Err(selection("a stride has to be given for each dimension")),
                    Some(0) => Err(selection("a stride of 0")),
                    Some(by) => Ok((dim.divided(*by), Line { offset: 0, stride: *by })),
                })?;
                let mut made = view.after(step)?;
                made.maps.iter_mut().for_each(|map| map.stay(selected));
                Ok(made)
            }
            Act::MarkBoundsImplicit(lower, upper) => view.told(selected, |_, dim| {
                dim.implicit = (lower.unwrap_or(dim.implicit.0), upper.unwrap_or(dim.implicit.1));
            }),
            Act::Transpose(target) => {
                let places = targets(&target, dims.len(), selected.len())?;
                let order = moved(dims.len(), selected, &places)?;
                *selected = places;
                view.permuted(&order)
            }
            Act::Diagonal => {
                let step = diagonal(dims, selected)?;
                *selected = PerDimension::from_iter([0]);
                view.composed(step)
            }
            Act::Brackets { terms, single, mode } => {
                let (step, next) = for_some(dims, terms, single, selected, mode)?;
                *selected = next;
                view.after(step)
            }
        }
    }
}

impl Shift {
    fn of(self, dim: &Dim, by: i64) -> Result<i128> {
        match self {
            Shift::By => Ok(i128::from(by)),
            Shift::BackwardBy => Ok(-i128::from(by)),
            Shift::To if dim.lower == -INFINITE => {
                Err(selection(format!("{dim} has no lower bound that could be moved to {by}")))
            }
            Shift::To if !(-INFINITE < by && by <= INFINITE) => {
                Err(beyond(format!("the origin {by} is beyond the range of indices")))
            }
            Shift::To => Ok(i128::from(by) - i128::from(dim.lower)),
        }
    }
}

/// Change the selected dimensions one by one; `change` gets their index in the selection.
fn each(
    dims: &[Dim],
    selected: &[usize],
    mut change: impl FnMut(usize, &Dim) -> Result<(Dim, Line)>,
) -> Result<View> {
    let mut step = View::identity(dims.into());
    for (at, &k) in selected.iter().enumerate() {
        let (dim, line) = change(at, &dims[k])?;
        step.dims[k] = dim;
        step.maps[k] = Map::along(k, line.offset, line.stride);
    }
    check_labels(&step.dims)?;
    Ok(step)
}

fn diagonal(dims: &[Dim], selected: &[usize]) -> Result<View> {
    let chosen = || selected.iter().map(|&k| &dims[k]);
    let lower = chosen().map(|dim| dim.lower).max().unwrap_or(-INFINITE);
    let upper = chosen().map(|dim| dim.upper).min().unwrap_or(END).max(lower);
    let implicit = (chosen().all(|dim| dim.implicit.0), chosen().all(|dim| dim.implicit.1));
    let mut new = PerDimension::from_iter([Dim { implicit, ..Dim::new(lower, upper) }]);
    let mut maps = PerDimension::new();
    for (k, dim) in dims.iter().enumerate() {
        if selected.contains(&k) {
            maps.push(Map::along(0, 0, 1));
        } else {
            maps.push(Map::along(new.len(), 0, 1));
            new.push(dim.clone());
        }
    }
    check_labels(&new)?;
    Ok(View { dims: new, maps })
}

/// The order of dimensions after moving the selected ones; the others keep theirs.
fn moved(rank: usize, selected: &[usize], places: &[usize]) -> Result<PerDimension<usize>> {
    if places.len() != selected.len() {
        return Err(selection(format!("{} places for {} dimensions", places.len(), selected.len())));
    }
    if let Some(twice) = places.iter().enumerate().find(|(at, place)| places[..*at].contains(place)) {
        return Err(selection(format!("the place {} occurs twice", twice.1)));
    }
    let mut rest = (0..rank).filter(|k| !selected.contains(k));
    let order = (0..rank).filter_map(|goal| match places.iter().position(|&place| place == goal) {
        Some(at) => Some(selected[at]),
        None => rest.next(),
    });
    Ok(order.collect())
}

fn targets(target: &PerDim<Place>, rank: usize, count: usize) -> Result<PerDimension<usize>> {
    match target {
        PerDim::One(Place::Number(_)) if count == 0 => Ok(PerDimension::new()),
        PerDim::One(Place::Number(number)) => {
            let first = place(*number, rank)? as i64 + if *number < 0 { 1 - count as i64 } else { 0 };
            if first < 0 || first + count as i64 > rank as i64 {
                return Err(selection(format!("{count} dimensions do not fit at {number}")));
            }
            Ok((first as usize..first as usize + count).collect())
        }
        PerDim::One(Place::Range(slice)) => Ok(ranged(*slice, rank)?.into()),
        PerDim::Each(items) => {
            let mut found = PerDimension::new();
            for item in items {
                match item {
                    Place::Number(number) => found.push(place(*number, rank)?),
                    Place::Range(slice) => found.extend(ranged(*slice, rank)?),
                }
            }
            Ok(found)
        }
    }
}

/// The inverse of a permutation.
fn places_of(order: &[usize], rank: usize) -> Result<PerDimension<usize>> {
    let mut places: PerDimension<usize> = (0..rank).map(|_| rank).collect();
    for (new, &old) in order.iter().enumerate().take(rank) {
        if let Some(place) = places.get_mut(old) {
            *place = new;
        }
    }
    if order.len() != rank || places.contains(&rank) {
        return Err(selection(format!("{order:?} is not a permutation of {rank} dimensions")));
    }
    Ok(places)
}
