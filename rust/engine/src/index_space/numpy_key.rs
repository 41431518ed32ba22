//! Indexing keys of NumPy: integers, slices, index arrays, new axes and ellipses.

use super::dim::Line;
use super::implicit_bounds::{backwards, combined};
use super::{
    along, check_labels, contains, nowhere, outside, selection, Dim, Indices, Map, PerDimension, Slice, View,
};
use crate::error::Result;

/// How index arrays combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They broadcast; adjacent arrays put their dimensions in their place, others come first.
    Default,
    /// Each array indexes alone (`oindex`).
    Outer,
    /// They broadcast, and their dimensions come first (`vindex`).
    Joint,
}

/// One term of an indexing key.
#[derive(Clone, Debug)]
pub enum Term {
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
        indices: Indices,
        /// Whether it indexes a dimension, unlike the array of a zero-dimensional boolean.
        used: bool,
        /// Whether it comes from the same mask as the array before, and shares its dimensions.
        goes_on: bool,
    },
}

impl Term {
    /// Whether it is an index array that indexes no dimension.
    pub(super) fn is_unused(&self) -> bool {
        matches!(self, Term::Array { used: false, .. })
    }

    /// How many selected dimensions it uses, counting new ones.
    pub(super) fn selects(&self) -> usize {
        usize::from(!matches!(self, Term::Ellipsis) && !self.is_unused())
    }

    /// Whether it is a new dimension.
    pub(super) fn is_new(&self) -> bool {
        matches!(self, Term::New)
    }

    /// How many existing dimensions it uses.
    fn used(&self) -> usize {
        match self {
            Term::New | Term::Ellipsis => 0,
            Term::Array { used, .. } => usize::from(*used),
            Term::Index(_) | Term::Slice(_) => 1,
        }
    }
}

/// One entry of a plan: an existing dimension, if any, and its term.
struct Entry {
    old: Option<usize>,
    term: Term,
}

/// The transform of terms that index all dimensions; the remaining ones stay.
pub(super) fn for_all(dims: &[Dim], terms: Vec<Term>, mode: Mode) -> Result<View> {
    let mode = first_if_apart(mode, &terms);
    let terms = filled(terms, dims.len(), Term::used, true)?;
    let mut numbers = 0..dims.len();
    let entries: Vec<Entry> = terms
        .into_iter()
        .map(|term| Entry { old: if term.used() > 0 { numbers.next() } else { None }, term })
        .collect();
    let order: PerDimension<usize> = (0..entries.len()).collect();
    Plan::new(dims, entries, order, mode)?.view()
}

/// The transform of terms that index selected dimensions, and the resulting dimensions, in their
/// order.
///
/// A new dimension is selected by its number in the result.
pub(super) fn for_some(
    dims: &[Dim],
    mut terms: Vec<Term>,
    single: bool,
    selected: &[usize],
    mode: Mode,
) -> Result<(View, PerDimension<usize>)> {
    if single && !matches!(terms[..], [Term::Ellipsis]) {
        terms = vec![terms[0].clone(); selected.len()];
    }
    // Zero-dimensional booleans use no selected dimension; their dimensions come first.
    let first = terms.iter().filter(|term| term.is_unused()).count();
    let mode = match mode {
        Mode::Outer if first > 0 => {
            return Err(selection(
                "a boolean without dimensions is not possible in oindex of selected dimensions",
            ))
        }
        Mode::Default if first > 0 => Mode::Joint,
        mode => first_if_apart(mode, &terms),
    };
    let terms = filled(terms, selected.len(), Term::selects, false)?;
    let mut places = selected.iter().map(|place| place + first);
    let mut unused = 0..first;
    let order: PerDimension<usize> = terms
        .iter()
        .filter_map(|term| if term.is_unused() { unused.next() } else { places.next() })
        .collect();
    let is_new = |place: &usize| order.iter().zip(&terms).any(|(at, term)| at == place && term.is_new());
    let added = terms.iter().filter(|term| term.is_new()).count();
    let mut numbers = 0..dims.len();
    let mut entries: Vec<Entry> = (0..first + dims.len() + added)
        .map(|place| Entry {
            old: if place < first || is_new(&place) { None } else { numbers.next() },
            term: Term::Slice(Slice::ALL),
        })
        .collect();
    for (term, &place) in terms.into_iter().zip(&order) {
        entries[place].term = term;
    }
    let mut plan = Plan::new(dims, entries, order, mode)?;
    Ok((plan.view()?, plan.selected()))
}

/// NumPy's adjacency rule: the dimensions of index arrays come first, as in `vindex`, if another
/// term stands between them, even an empty ellipsis.
fn first_if_apart(mode: Mode, terms: &[Term]) -> Mode {
    let is_array = |term: &Term| array(term).is_some();
    let between = match (terms.iter().position(is_array), terms.iter().rposition(is_array)) {
        (Some(first), Some(last)) => &terms[first..last],
        _ => &[],
    };
    let apart = between.iter().any(|term| matches!(term, Term::New | Term::Slice(_) | Term::Ellipsis));
    match mode {
        Mode::Default if apart => Mode::Joint,
        mode => mode,
    }
}

/// Replace an ellipsis by full slices. If `open`, a missing ellipsis stands at the end.
pub(super) fn filled(
    mut terms: Vec<Term>,
    count: usize,
    used: fn(&Term) -> usize,
    open: bool,
) -> Result<Vec<Term>> {
    let given: usize = terms.iter().map(used).sum();
    let at = terms.iter().position(|term| matches!(term, Term::Ellipsis));
    let (Some(missing), true) = (count.checked_sub(given), open || at.is_some() || given == count) else {
        let what = if open || at.is_some() { "there are" } else { "the selection has" };
        return Err(selection(format!("the index has {given} terms, {what} {count} dimensions")));
    };
    let whole = std::iter::repeat_n(Term::Slice(Slice::ALL), missing);
    match at {
        Some(at) => drop(terms.splice(at..=at, whole)),
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
struct Plan<'a> {
    dims: &'a [Dim],
    entries: Vec<Entry>,
    /// The entries with terms, in the order of the terms.
    order: PerDimension<usize>,
    mode: Mode,
    joint_shape: PerDimension<usize>,
    new: PerDimension<Dim>,
    /// The result dimensions of each group.
    places: PerDimension<(Group, PerDimension<usize>)>,
}

impl<'a> Plan<'a> {
    fn new(dims: &'a [Dim], entries: Vec<Entry>, order: PerDimension<usize>, mode: Mode) -> Result<Plan<'a>> {
        let joint_shape = match mode {
            Mode::Outer => PerDimension::new(),
            _ => met(order.iter().filter_map(|&at| array(&entries[at].term)))?,
        };
        let (new, places) = (PerDimension::new(), PerDimension::new());
        Ok(Plan { dims, entries, order, mode, joint_shape, new, places })
    }

    /// The transform of the plan.
    fn view(&mut self) -> Result<View> {
        let first_array = self.order.iter().copied().find(|&at| array(&self.entries[at].term).is_some());
        if self.mode == Mode::Joint {
            self.add(Group::Joint, self.joint_shape.clone());
        }
        let mut lines: PerDimension<Line> = PerDimension::new();
        for at in 0..self.entries.len() {
            let Entry { old, term } = &self.entries[at];
            let mut line = Line::SAME;
            match term {
                Term::Array { indices, .. } => match self.group(at) {
                    Group::Of(group) if group == at => self.add(Group::Of(at), indices.shape()),
                    Group::Joint if first_array == Some(at) && self.mode == Mode::Default => {
                        self.add(Group::Joint, self.joint_shape.clone());
                    }
                    _ => {}
                },
                Term::Index(index) => line = Line { offset: *index, stride: 0 },
                Term::Slice(_) | Term::New | Term::Ellipsis => {
                    let dim = match (old, term) {
                        (Some(k), Term::Slice(slice)) => {
                            let whole = &self.dims[*k];
                            let told = |error| along(*k, whole.label.as_deref(), error);
                            let (dim, sliced) = whole.sliced(*slice).map_err(told)?;
                            line = sliced;
                            if whole.is_empty() && line.stride < 0 {
                                // A reversed dimension would grow at the other end.
                                combined(*k, &dim, &backwards(whole, line.offset, line.stride)?, false)?
                            } else {
                                dim
                            }
                        }
                        _ => Dim::added(),
                    };
                    let place = std::iter::once(self.new.len()).collect();
                    self.places.push((Group::Of(at), place));
                    self.new.push(dim);
                }
            }
            lines.push(line);
        }
        check_labels(&self.new)?;
        if !nowhere(&self.new) {
            self.check_integers()?;
        }
        let maps = self.maps(&lines)?;
        Ok(View { dims: std::mem::take(&mut self.new), maps })
    }

    /// The group of an entry's dimensions.
    fn group(&self, at: usize) -> Group {
        let Term::Array { .. } = &self.entries[at].term else {
            return Group::Of(at);
        };
        if self.mode != Mode::Outer {
            return Group::Joint;
        }
        let place = self.order.iter().position(|&one| one == at).unwrap_or(0);
        let begins = |&&one: &&usize| matches!(self.entries[one].term, Term::Array { goes_on: false, .. });
        Group::Of(self.order[..=place].iter().rev().find(begins).copied().unwrap_or(at))
    }

    fn add(&mut self, group: Group, shape: PerDimension<usize>) {
        let first = self.new.len();
        self.new.extend(shape.iter().map(|&len| Dim::new(0, len as i64)));
        self.places.push((group, (first..self.new.len()).collect()));
    }

    fn places(&self, group: Group) -> &[usize] {
        self.places.iter().find(|(one, _)| *one == group).map_or(&[], |(_, places)| places)
    }

    fn check_integers(&self) -> Result<()> {
        for Entry { old, term } in &self.entries {
            if let (Some(k), Term::Index(index)) = (*old, term) {
                if !contains(self.dims[k].reach(), *index) {
                    let dim = &self.dims[k];
                    return Err(along(k, dim.label.as_deref(), outside(*index, dim)));
                }
            }
        }
        Ok(())
    }

    fn maps(&self, lines: &[Line]) -> Result<PerDimension<Map>> {
        let mut maps = PerDimension::new();
        for (at, Entry { old, term }) in self.entries.iter().enumerate() {
            let Some(k) = *old else {
                continue;
            };
            let places = self.places(self.group(at));
            maps.push(match (term, places) {
                (Term::Array { .. }, _) if nowhere(&self.new) => Map::constant(0),
                // Items outside the bounds raise an error when they are used.
                (Term::Array { indices, .. }, _) => {
                    let placed = indices.placed(places, self.new.len());
                    Map::by_array(placed, 0, 1, self.dims[k].reach())
                }
                (_, [place, ..]) => Map::along(*place, lines[at].offset, lines[at].stride),
                (_, []) => Map::constant(lines[at].offset),
            });
        }
        Ok(maps)
    }

    /// The result dimensions, in the order of the terms.
    fn selected(&self) -> PerDimension<usize> {
        let mut groups: Vec<Group> = if self.mode == Mode::Joint { vec![Group::Joint] } else { Vec::new() };
        for &at in &self.order {
            let group = self.group(at);
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        groups.into_iter().flat_map(|group| self.places(group)).copied().collect()
    }
}

fn array(term: &Term) -> Option<&Indices> {
    match term {
        Term::Array { indices, .. } => Some(indices),
        _ => None,
    }
}

/// The broadcast shape of index arrays.
fn met<'a>(arrays: impl Iterator<Item = &'a Indices> + Clone) -> Result<PerDimension<usize>> {
    let rank = arrays.clone().map(Indices::rank).max().unwrap_or(0);
    let mut shape: PerDimension<usize> = (0..rank).map(|_| 1).collect();
    for array in arrays.clone() {
        for (len, other) in shape.iter_mut().rev().zip(array.shape().into_iter().rev()) {
            if *len != other && *len != 1 && other != 1 {
                let shapes: Vec<String> = arrays.map(|one| format!("{:?}", one.shape())).collect();
                let message = format!("index arrays of shapes {} do not meet", shapes.join(", "));
                return Err(selection(message));
            }
            *len = if *len == 1 { other } else { *len };
        }
    }
    Ok(shape)
}
