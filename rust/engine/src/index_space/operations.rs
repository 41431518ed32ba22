//! Indexing operations, each of which is a transform of the dimensions before it.
//!
//! Every operation applies to some dimensions and returns the resulting ones, to which the next
//! operation of a dimension expression applies.

use std::sync::Arc;

use super::dim::LinearMap;
use super::dim_selection::{find_label, numbers_with_new_dims, resolve_number, resolve_range, select_dims};
use super::numpy_key::{index_all, index_selected};
use super::{
    check_explicit, check_labels, in_dimension, is_always_empty, out_of_bounds_error, BoundedIndexArray, Dim,
    DimSelector, IndexTerm, IndexTransform, IndexingMode, MapSource, OutputMap, PerDimension, Slice, END,
    INFINITE,
};
use crate::error::{Error, Result};

/// A value for each dimension, or one for all.
#[derive(Clone, Debug)]
pub enum PerDimOrAll<T> {
    /// One value for all.
    One(T),
    /// One value for each.
    Each(PerDimension<T>),
}

impl<T> PerDimOrAll<T> {
    fn check(&self, count: usize, what: &str) -> Result<()> {
        match self {
            PerDimOrAll::Each(values) if values.len() != count => {
                Err(Error::selection(format!("{} {what} for {count} dimensions", values.len())))
            }
            _ => Ok(()),
        }
    }

    fn number(&self, position: usize) -> &T {
        match self {
            PerDimOrAll::One(value) => value,
            PerDimOrAll::Each(values) => &values[position],
        }
    }
}

/// The kind of a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translation {
    /// To a new origin.
    To,
    /// By an offset.
    By,
    /// By a negated offset.
    BackwardBy,
}

/// The target of dimensions in a transposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DimPosition {
    /// A number, counted from the end if negative.
    Number(i64),
    /// All numbers of a slice.
    Range(Slice),
}

/// An indexing operation.
#[derive(Clone, Debug)]
pub enum DimOperation {
    /// Indexing by a key; a single term applies to all selected dimensions.
    Index {
        /// The terms of the key.
        terms: Vec<IndexTerm>,
        /// Whether the key is a term, not a tuple.
        single: bool,
        /// How index arrays combine.
        mode: IndexingMode,
    },
    /// Translates the domain.
    Translate(Translation, PerDimOrAll<Option<i64>>),
    /// Sets labels; None removes one.
    Label(PerDimension<Option<Arc<str>>>),
    /// Select the multiples of a stride, divided by it.
    Stride(PerDimOrAll<Option<i64>>),
    /// Marks bounds as implicit or explicit; None leaves them.
    MarkBoundsImplicit(Option<bool>, Option<bool>),
    /// Moves dimensions: to consecutive positions, or each to its own.
    Transpose(Box<PerDimOrAll<DimPosition>>),
    /// Replaces the dimensions by their diagonal, which becomes the first dimension.
    Diagonal,
}

impl IndexTransform {
    /// Apply operations, the first of them to the selected dimensions (None: all).
    ///
    /// # Errors
    /// `Kind::Selection` or `Kind::Argument` if an operation does not fit.
    pub fn apply_operations(
        &self,
        names: Option<&[DimSelector]>,
        operations: impl IntoIterator<Item = DimOperation>,
    ) -> Result<IndexTransform> {
        let mut operations = operations.into_iter();
        let Some(first) = operations.next() else {
            return Ok(self.clone());
        };
        let mut selected: PerDimension<usize> = match (names, &first) {
            (None, DimOperation::Index { .. }) => PerDimension::new(),
            (None, _) => (0..self.dims.len()).collect(),
            (Some(names), DimOperation::Index { terms, single, .. }) if adds_dims(terms) => {
                numbers_with_new_dims(names, terms, *single, &self.dims)?.into()
            }
            (Some(names), _) => select_dims(names, &self.dims)?.into(),
        };
        let mut view = match first {
            DimOperation::Index { terms, mode, .. } if names.is_none() => {
                self.compose(index_all(&self.dims, terms, mode)?)?
            }
            operation => operation.of(self, &mut selected)?,
        };
        for operation in operations {
            if matches!(&operation, DimOperation::Index { terms, .. } if adds_dims(terms)) {
                return Err(Error::selection(
                    "newaxis is not possible after another operation of the expression",
                ));
            }
            view = operation.of(&view, &mut selected)?;
        }
        Ok(view)
    }

    /// Change the selected dimensions without moving positions.
    fn update_dims(
        &self,
        selected: &[usize],
        mut change: impl FnMut(usize, &mut Dim),
    ) -> Result<IndexTransform> {
        let mut view = self.clone();
        for (number, &k) in selected.iter().enumerate() {
            change(number, &mut view.dims[k]);
        }
        check_labels(&view.dims)?;
        if !is_always_empty(&view.dims) {
            for map in &view.maps {
                if let MapSource::IndexArray(listed) = &map.source {
                    check_explicit(&listed.indices, &view.dims)?;
                }
            }
        }
        Ok(view)
    }

    /// Translate one dimension.
    fn shift(&mut self, k: usize, by: i128) -> Result<()> {
        self.dims[k] = self.dims[k].translated(by)?;
        let back = i64::try_from(-by).map_err(|_| Error::selection("an offset beyond 64 bits"))?;
        for map in self.maps.iter_mut().filter(|map| map.source == MapSource::InputDimension(k)) {
            map.offset = map.compose_linear(back, 1)?.0;
        }
        Ok(())
    }

    /// Reorder the dimensions.
    ///
    /// # Errors
    /// `Kind::Selection` if `order` is not a permutation.
    pub fn transposed(&self, order: &[usize]) -> Result<IndexTransform> {
        let positions = inverse_permutation(order, self.dims.len())?;
        Ok(self.reordered(order.iter().copied(), |k| positions[k]))
    }

    /// Reverse the order of the dimensions.
    pub fn reversed(&self) -> IndexTransform {
        let rank = self.dims.len();
        self.reordered((0..rank).rev(), |k| rank - 1 - k)
    }

    /// Reorder the dimensions by an order and its inverse.
    fn reordered(
        &self,
        order: impl Iterator<Item = usize> + Clone,
        position: impl Fn(usize) -> usize,
    ) -> IndexTransform {
        let mut result = IndexTransform { dims: PerDimension::new(), maps: PerDimension::new() };
        result.dims.extend(order.clone().map(|k| self.dims[k].clone()));
        result.maps.extend(self.maps.iter().map(|map| {
            let source = match &map.source {
                MapSource::Constant => MapSource::Constant,
                MapSource::InputDimension(k) => MapSource::InputDimension(position(*k)),
                MapSource::IndexArray(listed) => {
                    let indices = listed.indices.transposed(order.clone());
                    MapSource::IndexArray(Arc::new(BoundedIndexArray { indices, within: listed.within }))
                }
            };
            OutputMap { source, ..*map }
        }));
        result
    }

    /// Restrict the transform to a domain, with explicit bounds. Labels select dimensions,
    /// unlabelled ones follow in order. A transform without labels gets those of the domain.
    ///
    /// # Errors
    /// `Kind::Selection` if the domain has other dimensions, or exceeds that of the transform.
    pub fn restrict(&self, to: &[Dim]) -> Result<IndexTransform> {
        let labelled = |dims: &[Dim]| dims.iter().any(|dim| dim.label.is_some());
        let by_label = labelled(&self.dims) && labelled(to);
        if to.len() != self.dims.len() && !(by_label && to.iter().all(|dim| dim.label.is_some())) {
            let (rank, rank_here) = (to.len(), self.dims.len());
            return Err(Error::selection(format!(
                "a domain of rank {rank} for one of rank {rank_here}: without labels they have to agree"
            )));
        }
        let mut free = self.dims.iter().enumerate().filter(|(_, dim)| dim.label.is_none());
        let mut selected: PerDimension<usize> = PerDimension::new();
        for (k, target) in to.iter().enumerate() {
            selected.push(match &target.label {
                Some(label) if by_label => find_label(label, &self.dims)?,
                None if by_label => free.next().map(|(k, _)| k).ok_or_else(|| {
                    Error::selection("the domain has more dimensions without label than the view")
                })?,
                _ => k,
            });
        }
        let keep = labelled(&self.dims);
        let step = each(&self.dims, &selected, |number, dim| {
            let target = &to[number];
            let (lower, upper) = dim.valid_range();
            if !(target.is_empty() || lower <= target.lower && target.upper <= upper) {
                let message = format!("{} is outside of {}", target.bounds(), dim.bounds());
                return Err(in_dimension(
                    selected[number],
                    dim.label.as_deref(),
                    out_of_bounds_error(message),
                ));
            }
            let named = if keep { dim } else { target };
            Ok((named.with_bounds(target.lower, target.upper, (false, false)), LinearMap::SAME))
        })?;
        self.compose(step)
    }
}

fn adds_dims(terms: &[IndexTerm]) -> bool {
    terms.iter().any(IndexTerm::is_new)
}

impl DimOperation {
    /// Apply the operation to the `selected` dimensions, which become the resulting ones.
    fn of(self, view: &IndexTransform, selected: &mut PerDimension<usize>) -> Result<IndexTransform> {
        let dims = &view.dims;
        match self {
            DimOperation::Translate(shift, by) => {
                by.check(selected.len(), "indices")?;
                let mut view = view.clone();
                for (number, &k) in selected.iter().enumerate() {
                    let by = by.number(number).map_or(Ok(0), |by| shift.of(&dims[k], by))?;
                    // The new origin is a position, the offset is not.
                    let to = matches!(shift, Translation::To);
                    view.shift(k, by)
                        .map_err(|error| if to { out_of_bounds_error(error.message) } else { error })?;
                }
                Ok(view)
            }
            DimOperation::Label(mut labels) => {
                if labels.len() != selected.len() {
                    let count = selected.len();
                    return Err(Error::selection(format!("{} labels for {count} dimensions", labels.len())));
                }
                view.update_dims(selected, |number, dim| dim.label = labels[number].take())
            }
            DimOperation::Stride(by) => {
                by.check(selected.len(), "strides")?;
                let step = each(dims, selected, |number, dim| match by.number(number) {
                    None => Err(Error::selection("each dimension needs a stride")),
                    Some(0) => Err(Error::selection("a stride of 0")),
                    Some(by) => Ok((dim.strided(*by), LinearMap { offset: 0, stride: *by })),
                })?;
                let mut result = view.compose(step)?;
                result.maps.iter_mut().for_each(|map| map.drop_unit_axes(selected));
                Ok(result)
            }
            DimOperation::MarkBoundsImplicit(lower, upper) => view.update_dims(selected, |_, dim| {
                dim.implicit = (lower.unwrap_or(dim.implicit.0), upper.unwrap_or(dim.implicit.1));
            }),
            DimOperation::Transpose(target) => {
                let positions = target_positions(&target, dims.len(), selected.len())?;
                let order = transposed_order(dims.len(), selected, &positions)?;
                *selected = positions;
                view.transposed(&order)
            }
            DimOperation::Diagonal => {
                let step = diagonal(dims, selected)?;
                *selected = PerDimension::from_iter([0]);
                view.compose_unsimplified(step)
            }
            DimOperation::Index { terms, single, mode } => {
                let (step, next) = index_selected(dims, terms, single, selected, mode)?;
                *selected = next;
                view.compose(step)
            }
        }
    }
}

impl Translation {
    fn of(self, dim: &Dim, by: i64) -> Result<i128> {
        match self {
            Translation::By => Ok(i128::from(by)),
            Translation::BackwardBy => Ok(-i128::from(by)),
            Translation::To if dim.lower == -INFINITE => {
                Err(Error::selection(format!("{dim} has no lower bound that could be moved to {by}")))
            }
            Translation::To if !(-INFINITE < by && by <= INFINITE) => {
                Err(out_of_bounds_error(format!("the origin {by} is beyond the range of indices")))
            }
            Translation::To => Ok(i128::from(by) - i128::from(dim.lower)),
        }
    }
}

/// Change the selected dimensions one by one; `change` gets their index in the selection.
fn each(
    dims: &[Dim],
    selected: &[usize],
    mut change: impl FnMut(usize, &Dim) -> Result<(Dim, LinearMap)>,
) -> Result<IndexTransform> {
    let mut step = IndexTransform::identity(dims.into());
    for (number, &k) in selected.iter().enumerate() {
        let (dim, line) = change(number, &dims[k])?;
        step.dims[k] = dim;
        step.maps[k] = OutputMap::from_dimension(k, line.offset, line.stride);
    }
    check_labels(&step.dims)?;
    Ok(step)
}

fn diagonal(dims: &[Dim], selected: &[usize]) -> Result<IndexTransform> {
    let selected_dims = || selected.iter().map(|&k| &dims[k]);
    let lower = selected_dims().map(|dim| dim.lower).max().unwrap_or(-INFINITE);
    let upper = selected_dims().map(|dim| dim.upper).min().unwrap_or(END).max(lower);
    let implicit = (selected_dims().all(|dim| dim.implicit.0), selected_dims().all(|dim| dim.implicit.1));
    let mut new = PerDimension::from_iter([Dim { implicit, ..Dim::new(lower, upper) }]);
    let mut maps = PerDimension::new();
    for (k, dim) in dims.iter().enumerate() {
        if selected.contains(&k) {
            maps.push(OutputMap::from_dimension(0, 0, 1));
        } else {
            maps.push(OutputMap::from_dimension(new.len(), 0, 1));
            new.push(dim.clone());
        }
    }
    check_labels(&new)?;
    Ok(IndexTransform { dims: new, maps })
}

/// Return the order of dimensions after moving the selected ones; the others stay in order.
fn transposed_order(rank: usize, selected: &[usize], positions: &[usize]) -> Result<PerDimension<usize>> {
    if positions.len() != selected.len() {
        return Err(Error::selection(format!(
            "{} positions for {} dimensions",
            positions.len(),
            selected.len()
        )));
    }
    if let Some(repeated) =
        positions.iter().enumerate().find(|(number, position)| positions[..*number].contains(position))
    {
        return Err(Error::selection(format!("position {} occurs twice", repeated.1)));
    }
    let mut rest = (0..rank).filter(|k| !selected.contains(k));
    let order = (0..rank).filter_map(|target_position| {
        match positions.iter().position(|&position| position == target_position) {
            Some(number) => Some(selected[number]),
            None => rest.next(),
        }
    });
    Ok(order.collect())
}

fn target_positions(
    target: &PerDimOrAll<DimPosition>,
    rank: usize,
    count: usize,
) -> Result<PerDimension<usize>> {
    match target {
        PerDimOrAll::One(DimPosition::Number(_)) if count == 0 => Ok(PerDimension::new()),
        PerDimOrAll::One(DimPosition::Number(number)) => {
            let first =
                resolve_number(*number, rank)? as i64 + if *number < 0 { 1 - count as i64 } else { 0 };
            if first < 0 || first + count as i64 > rank as i64 {
                return Err(Error::selection(format!("{count} dimensions do not fit at {number}")));
            }
            Ok((first as usize..first as usize + count).collect())
        }
        PerDimOrAll::One(DimPosition::Range(slice)) => Ok(resolve_range(*slice, rank)?.into()),
        PerDimOrAll::Each(items) => {
            let mut positions = PerDimension::new();
            for item in items {
                match item {
                    DimPosition::Number(number) => positions.push(resolve_number(*number, rank)?),
                    DimPosition::Range(slice) => positions.extend(resolve_range(*slice, rank)?),
                }
            }
            Ok(positions)
        }
    }
}

/// Return the inverse of a permutation.
fn inverse_permutation(order: &[usize], rank: usize) -> Result<PerDimension<usize>> {
    let mut positions: PerDimension<usize> = (0..rank).map(|_| rank).collect();
    for (new, &old) in order.iter().enumerate().take(rank) {
        if let Some(position) = positions.get_mut(old) {
            *position = new;
        }
    }
    if order.len() != rank || positions.contains(&rank) {
        return Err(Error::selection(format!("{order:?} is not a permutation of {rank} dimensions")));
    }
    Ok(positions)
}
