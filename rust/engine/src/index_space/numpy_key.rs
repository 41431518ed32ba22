//! Indexing keys of NumPy: integers, slices, index arrays, new axes and ellipses.

use super::dim::LinearMap;
use super::implicit_bounds::{preimage_interval, resolve_dim};
use super::{
    check_labels, contains, in_dimension, index_error, is_always_empty, Dim, IndexArray, IndexTransform,
    OutputMap, PerDimension, Slice,
};
use crate::error::{Error, Result};

/// How index arrays combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexingMode {
    /// Index arrays broadcast. Dimensions of adjacent arrays take their position; otherwise they
    /// come first.
    Default,
    /// Each array indexes alone (`oindex`).
    Outer,
    /// They broadcast, and their dimensions come first (`vindex`).
    Joint,
}

/// One term of an indexing key.
#[derive(Clone, Debug)]
pub enum IndexTerm {
    /// An integer, which removes the dimension.
    Index(i64),
    /// A slice.
    Slice(Slice),
    /// A new dimension.
    New,
    /// Full slices for all other dimensions.
    Ellipsis,
    /// An index array.
    Array {
        /// The indices.
        indices: IndexArray,
        /// Whether it indexes a dimension, unlike the array of a zero-dimensional boolean.
        used: bool,
        /// Whether it comes from the same mask as the array before, and shares its dimensions.
        continues_mask: bool,
    },
}

impl IndexTerm {
    /// Return whether it is an index array that indexes no dimension.
    pub(super) fn indexes_nothing(&self) -> bool {
        matches!(self, IndexTerm::Array { used: false, .. })
    }

    /// Return how many selected dimensions it uses, counting new ones.
    pub(super) fn selected_dims(&self) -> usize {
        usize::from(!matches!(self, IndexTerm::Ellipsis) && !self.indexes_nothing())
    }

    /// Return whether it is a new dimension.
    pub(super) fn is_new(&self) -> bool {
        matches!(self, IndexTerm::New)
    }

    /// Return how many existing dimensions it uses.
    fn used(&self) -> usize {
        match self {
            IndexTerm::New | IndexTerm::Ellipsis => 0,
            IndexTerm::Array { used, .. } => usize::from(*used),
            IndexTerm::Index(_) | IndexTerm::Slice(_) => 1,
        }
    }
}

/// One entry of a plan: an existing dimension, if any, and its term.
struct PlanEntry {
    old: Option<usize>,
    term: IndexTerm,
}

/// Return the transform of terms that index all dimensions; the remaining ones stay.
pub(super) fn index_all(dims: &[Dim], terms: Vec<IndexTerm>, mode: IndexingMode) -> Result<IndexTransform> {
    let mode = adjacency_mode(mode, &terms);
    let terms = expand_ellipsis(terms, dims.len(), IndexTerm::used, true)?;
    let mut numbers = 0..dims.len();
    let entries: Vec<PlanEntry> = terms
        .into_iter()
        .map(|term| PlanEntry { old: if term.used() > 0 { numbers.next() } else { None }, term })
        .collect();
    let order: PerDimension<usize> = (0..entries.len()).collect();
    IndexPlan::new(dims, entries, order, mode)?.view()
}

/// Return the transform of terms that index selected dimensions, and the resulting dimensions, in
/// their order.
///
/// A new dimension is selected by its number in the result.
pub(super) fn index_selected(
    dims: &[Dim],
    mut terms: Vec<IndexTerm>,
    single: bool,
    selected: &[usize],
    mode: IndexingMode,
) -> Result<(IndexTransform, PerDimension<usize>)> {
    if single && !matches!(terms[..], [IndexTerm::Ellipsis]) {
        terms = vec![terms[0].clone(); selected.len()];
    }
    // Zero-dimensional booleans use no selected dimension; their dimensions come first.
    let first = terms.iter().filter(|term| term.indexes_nothing()).count();
    let mode = match mode {
        IndexingMode::Outer if first > 0 => {
            return Err(Error::selection(
                "a boolean without dimensions is not possible in oindex of selected dimensions",
            ))
        }
        IndexingMode::Default if first > 0 => IndexingMode::Joint,
        mode => adjacency_mode(mode, &terms),
    };
    let terms = expand_ellipsis(terms, selected.len(), IndexTerm::selected_dims, false)?;
    let mut positions = selected.iter().map(|position| position + first);
    let mut unused = 0..first;
    let order: PerDimension<usize> = terms
        .iter()
        .filter_map(|term| if term.indexes_nothing() { unused.next() } else { positions.next() })
        .collect();
    let is_new =
        |position: &usize| order.iter().zip(&terms).any(|(number, term)| number == position && term.is_new());
    let added = terms.iter().filter(|term| term.is_new()).count();
    let mut numbers = 0..dims.len();
    let mut entries: Vec<PlanEntry> = (0..first + dims.len() + added)
        .map(|position| PlanEntry {
            old: if position < first || is_new(&position) { None } else { numbers.next() },
            term: IndexTerm::Slice(Slice::ALL),
        })
        .collect();
    for (term, &position) in terms.into_iter().zip(&order) {
        entries[position].term = term;
    }
    let mut plan = IndexPlan::new(dims, entries, order, mode)?;
    Ok((plan.view()?, plan.selected()))
}

/// NumPy's adjacency rule: the dimensions of index arrays come first, as in `vindex`, if another
/// term stands between them, even an empty ellipsis.
fn adjacency_mode(mode: IndexingMode, terms: &[IndexTerm]) -> IndexingMode {
    let is_array = |term: &IndexTerm| array(term).is_some();
    let between = match (terms.iter().position(is_array), terms.iter().rposition(is_array)) {
        (Some(first), Some(last)) => &terms[first..last],
        _ => &[],
    };
    let is_separated =
        between.iter().any(|term| matches!(term, IndexTerm::New | IndexTerm::Slice(_) | IndexTerm::Ellipsis));
    match mode {
        IndexingMode::Default if is_separated => IndexingMode::Joint,
        mode => mode,
    }
}

/// Replace an ellipsis by full slices. If `open`, a missing ellipsis stands at the end.
pub(super) fn expand_ellipsis(
    mut terms: Vec<IndexTerm>,
    count: usize,
    used: fn(&IndexTerm) -> usize,
    open: bool,
) -> Result<Vec<IndexTerm>> {
    let used_dims: usize = terms.iter().map(used).sum();
    let number = terms.iter().position(|term| matches!(term, IndexTerm::Ellipsis));
    let (Some(missing), true) =
        (count.checked_sub(used_dims), open || number.is_some() || used_dims == count)
    else {
        let which = if open || number.is_some() { "there are" } else { "the selection has" };
        return Err(Error::selection(format!("the index has {used_dims} terms, {which} {count} dimensions")));
    };
    let whole = std::iter::repeat_n(IndexTerm::Slice(Slice::ALL), missing);
    match number {
        Some(number) => drop(terms.splice(number..=number, whole)),
        None => terms.extend(whole),
    }
    Ok(terms)
}

/// The origin of result dimensions: one term, or all broadcast index arrays.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    Joint,
    Of(usize),
}

/// The plan that turns terms into a transform.
struct IndexPlan<'a> {
    dims: &'a [Dim],
    entries: Vec<PlanEntry>,
    /// The entries with terms, in the order of the terms.
    order: PerDimension<usize>,
    mode: IndexingMode,
    joint_shape: PerDimension<usize>,
    new: PerDimension<Dim>,
    /// The result dimensions of each group.
    positions: PerDimension<(Group, PerDimension<usize>)>,
}

impl<'a> IndexPlan<'a> {
    fn new(
        dims: &'a [Dim],
        entries: Vec<PlanEntry>,
        order: PerDimension<usize>,
        mode: IndexingMode,
    ) -> Result<IndexPlan<'a>> {
        let joint_shape = match mode {
            IndexingMode::Outer => PerDimension::new(),
            _ => broadcast_shape(order.iter().filter_map(|&number| array(&entries[number].term)))?,
        };
        let (new, positions) = (PerDimension::new(), PerDimension::new());
        Ok(IndexPlan { dims, entries, order, mode, joint_shape, new, positions })
    }

    /// Return the transform of the plan.
    fn view(&mut self) -> Result<IndexTransform> {
        let first_array =
            self.order.iter().copied().find(|&number| array(&self.entries[number].term).is_some());
        if self.mode == IndexingMode::Joint {
            self.add(Group::Joint, self.joint_shape.clone());
        }
        let mut linear_maps: PerDimension<LinearMap> = PerDimension::new();
        for number in 0..self.entries.len() {
            let PlanEntry { old, term } = &self.entries[number];
            let mut linear_map = LinearMap::SAME;
            match term {
                IndexTerm::Array { indices, .. } => match self.group(number) {
                    Group::Of(group) if group == number => self.add(Group::Of(number), indices.shape()),
                    Group::Joint if first_array == Some(number) && self.mode == IndexingMode::Default => {
                        self.add(Group::Joint, self.joint_shape.clone());
                    }
                    _ => {}
                },
                IndexTerm::Index(index) => linear_map = LinearMap { offset: *index, stride: 0 },
                IndexTerm::Slice(_) | IndexTerm::New | IndexTerm::Ellipsis => {
                    let dim = match (old, term) {
                        (Some(k), IndexTerm::Slice(slice)) => {
                            let whole = &self.dims[*k];
                            let in_dim = |error| in_dimension(*k, whole.label.as_deref(), error);
                            let (dim, sliced) = whole.sliced(*slice).map_err(in_dim)?;
                            linear_map = sliced;
                            if whole.is_empty() && linear_map.stride < 0 {
                                // A reversed dimension would grow at the other end.
                                resolve_dim(
                                    *k,
                                    &dim,
                                    &preimage_interval(whole, linear_map.offset, linear_map.stride)?,
                                    false,
                                )?
                            } else {
                                dim
                            }
                        }
                        _ => Dim::new_axis(),
                    };
                    let position = std::iter::once(self.new.len()).collect();
                    self.positions.push((Group::Of(number), position));
                    self.new.push(dim);
                }
            }
            linear_maps.push(linear_map);
        }
        check_labels(&self.new)?;
        if !is_always_empty(&self.new) {
            self.check_integers()?;
        }
        let maps = self.maps(&linear_maps)?;
        Ok(IndexTransform { dims: std::mem::take(&mut self.new), maps })
    }

    /// Return the group of an entry's dimensions.
    fn group(&self, number: usize) -> Group {
        let IndexTerm::Array { .. } = &self.entries[number].term else {
            return Group::Of(number);
        };
        if self.mode != IndexingMode::Outer {
            return Group::Joint;
        }
        let position = self.order.iter().position(|&entry| entry == number).unwrap_or(0);
        let starts_group = |&&entry: &&usize| {
            matches!(self.entries[entry].term, IndexTerm::Array { continues_mask: false, .. })
        };
        Group::Of(self.order[..=position].iter().rev().find(starts_group).copied().unwrap_or(number))
    }

    fn add(&mut self, group: Group, shape: PerDimension<usize>) {
        let first = self.new.len();
        self.new.extend(shape.iter().map(|&len| Dim::new(0, len as i64)));
        self.positions.push((group, (first..self.new.len()).collect()));
    }

    fn positions_of(&self, group: Group) -> &[usize] {
        self.positions.iter().find(|(entry, _)| *entry == group).map_or(&[], |(_, positions)| positions)
    }

    fn check_integers(&self) -> Result<()> {
        for PlanEntry { old, term } in &self.entries {
            if let (Some(k), IndexTerm::Index(index)) = (*old, term) {
                if !contains(self.dims[k].valid_range(), *index) {
                    let dim = &self.dims[k];
                    return Err(in_dimension(k, dim.label.as_deref(), index_error(*index, dim)));
                }
            }
        }
        Ok(())
    }

    fn maps(&self, linear_maps: &[LinearMap]) -> Result<PerDimension<OutputMap>> {
        let mut maps = PerDimension::new();
        for (number, PlanEntry { old, term }) in self.entries.iter().enumerate() {
            let Some(k) = *old else {
                continue;
            };
            let positions = self.positions_of(self.group(number));
            maps.push(match (term, positions) {
                (IndexTerm::Array { .. }, _) if is_always_empty(&self.new) => OutputMap::constant(0),
                // Items outside the bounds raise an error when they are used.
                (IndexTerm::Array { indices, .. }, _) => {
                    let placed = indices.with_axes_at(positions, self.new.len());
                    OutputMap::from_index_array(placed, 0, 1, self.dims[k].valid_range())
                }
                (_, [position, ..]) => OutputMap::from_dimension(
                    *position,
                    linear_maps[number].offset,
                    linear_maps[number].stride,
                ),
                (_, []) => OutputMap::constant(linear_maps[number].offset),
            });
        }
        Ok(maps)
    }

    /// Return the result dimensions, in the order of the terms.
    fn selected(&self) -> PerDimension<usize> {
        let mut groups: Vec<Group> =
            if self.mode == IndexingMode::Joint { vec![Group::Joint] } else { Vec::new() };
        for &number in &self.order {
            let group = self.group(number);
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        groups.into_iter().flat_map(|group| self.positions_of(group)).copied().collect()
    }
}

fn array(term: &IndexTerm) -> Option<&IndexArray> {
    match term {
        IndexTerm::Array { indices, .. } => Some(indices),
        _ => None,
    }
}

/// Return the broadcast shape of index arrays.
fn broadcast_shape<'a>(arrays: impl Iterator<Item = &'a IndexArray> + Clone) -> Result<PerDimension<usize>> {
    let rank = arrays.clone().map(IndexArray::rank).max().unwrap_or(0);
    let mut shape: PerDimension<usize> = (0..rank).map(|_| 1).collect();
    for array in arrays.clone() {
        for (len, other) in shape.iter_mut().rev().zip(array.shape().into_iter().rev()) {
            if *len != other && *len != 1 && other != 1 {
                let shapes: Vec<String> = arrays.map(|entry| format!("{:?}", entry.shape())).collect();
                let message = format!("index arrays of shapes {} do not meet", shapes.join(", "));
                return Err(Error::selection(message));
            }
            *len = if *len == 1 { other } else { *len };
        }
    }
    Ok(shape)
}
