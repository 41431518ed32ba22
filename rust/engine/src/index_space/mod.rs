//! The index space: views of arrays as values, which are composed.
//!
//! A view has dimensions, each an interval of the integers, perhaps with a
//! label, and one *map* for each dimension of what it views. A map tells the
//! index that belongs to a position of the view: always the same one, one that
//! follows a dimension, or one from an index array.
//!
//! Every act of indexing is a view itself, of the dimensions before it. So all
//! acts are applied by one function, [`View::after`]: both forms of maps are closed
//! under it, and a piece of an index array shares the memory of the whole.

use std::sync::Arc;

use smallvec::SmallVec;

mod blocks;
mod dim;
mod dim_selection;
mod display;
mod implicit_bounds;
mod index_array;
mod numpy_key;
mod operations;
mod partition;
mod resize_bounds;
mod stack;
mod strided;
#[cfg(test)]
mod tests;
mod to_selection;

pub use blocks::{Behind, Blocks};
pub use dim::{contains, end, is_interval, Dim, Slice, END, INFINITE};
pub use dim_selection::Name;
pub use display::DomainText;
pub use index_array::Indices;
pub use numpy_key::{Mode, Term};
pub use operations::{Act, PerDim, Place, Shift};
pub use partition::{Cells, Cutter, Grid, Part};
pub use resize_bounds::Moved;
pub use stack::{Axis, Layers, Seen};
pub use strided::{copy_all, Side, Steps};
pub use to_selection::{Along, Lowered};

use crate::error::{Error, Kind, Result};
use index_array::Walk;

/// As many dimensions as a view can have.
pub const MAX_RANK: usize = 32;

/// One value for each dimension; on the stack for every rank that people use.
pub type PerDimension<T> = SmallVec<[T; 4]>;

/// How one index of what is viewed follows from a position: `offset + stride * source`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// What is added.
    pub offset: i64,
    /// What the source is multiplied with; 0 where there is none.
    pub stride: i64,
    /// What varies.
    pub source: Source,
}

/// What varies in a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nothing: the index is always the same.
    Nothing,
    /// The position along a dimension of the view.
    Dimension(usize),
    /// The items of an index array.
    Array(Arc<Listed>),
}

/// An index array, and the half-open interval in which its items have to be.
///
/// It has an axis for each dimension of the view, of length 1 where it does not vary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The items.
    pub indices: Indices,
    /// Where they have to be.
    pub within: (i64, i64),
}

/// All indices, as a half-open interval.
pub const WHOLE: (i64, i64) = (-INFINITE, END);

impl Map {
    /// Always the same index.
    pub fn constant(offset: i64) -> Map {
        Map { offset, stride: 0, source: Source::Nothing }
    }

    /// `offset + stride * position[dimension]`.
    pub fn along(dimension: usize, offset: i64, stride: i64) -> Map {
        Map { offset, stride, source: Source::Dimension(dimension) }
    }

    /// `offset + stride * array[position]`.
    pub fn by_array(indices: Indices, offset: i64, stride: i64, within: (i64, i64)) -> Map {
        Map { offset, stride, source: Source::Array(Arc::new(Listed { indices, within })) }
    }

    /// `offset + stride` times an index, if that fits into 64 bits.
    fn applied(&self, offset: i64, stride: i64) -> Result<(i64, i64)> {
        if self.stride == 1 && self.offset == 0 {
            return Ok((offset, stride));
        }
        let moved = i128::from(self.stride) * i128::from(offset) + i128::from(self.offset);
        let scaled = i128::from(self.stride) * i128::from(stride);
        match (i64::try_from(moved), i64::try_from(scaled)) {
            (Ok(moved), Ok(scaled)) => Ok((moved, scaled)),
            _ => Err(selection(format!("offset {moved} or stride {scaled} is beyond 64 bits"))),
        }
    }

    /// The index that the map always gives, if it follows nothing.
    fn fixed(&self) -> i64 {
        let item = match &self.source {
            Source::Array(listed) => listed.indices.first().unwrap_or(0),
            _ => 0,
        };
        self.offset.wrapping_add(self.stride.wrapping_mul(item))
    }

    /// The map as it is of a view with dimensions. Items of its index array that are not where they have
    /// to be are told to who uses them.
    ///
    /// # Errors
    /// `Kind::Argument` if it follows a dimension that is not there, or if its index array has another
    /// shape, or runs along implicit bounds.
    pub fn fitted(self, dims: &[Dim]) -> Result<Map> {
        let wrong = |message: String| Err(Error::new(Kind::Argument, message));
        match &self.source {
            Source::Dimension(k) if *k >= dims.len() => {
                wrong(format!("input_dimension {k} is not below {}", dims.len()))
            }
            Source::Dimension(_) if self.stride == 0 => Ok(Map::constant(self.offset)),
            Source::Nothing | Source::Dimension(_) => Ok(self),
            Source::Array(listed) => {
                let shape = listed.indices.shape();
                if shape.len() != dims.len() {
                    let (axes, rank) = (shape.len(), dims.len());
                    return wrong(format!("an index array of rank {axes}, the view has {rank}"));
                }
                if let Some((_, dim)) =
                    shape.iter().zip(dims).find(|(len, dim)| **len != 1 && **len as i64 != dim.size())
                {
                    return wrong(format!("an index array of shape {shape:?} does not fit {dim}"));
                }
                let finite = |dim: &Dim| -INFINITE < dim.lower && dim.upper <= INFINITE;
                if let Some((_, dim)) = shape.iter().zip(dims).find(|(len, dim)| **len != 1 && !finite(dim)) {
                    return wrong(format!("an index array of shape {shape:?} runs along {dim}"));
                }
                check_explicit(&listed.indices, dims)
                    .map_err(|error| Error { kind: Kind::Argument, ..error })?;
                Ok(match self.stride {
                    _ if nowhere(dims) => Map::constant(0),
                    0 => Map::constant(self.offset),
                    _ => self,
                })
            }
        }
    }

    /// Vary along none of some dimensions where the index array has one item left.
    fn stay(&mut self, dimensions: &[usize]) {
        if let Source::Array(listed) = &mut self.source {
            if dimensions.iter().any(|&k| listed.indices.len(k) == 1 && listed.indices.varies(k)) {
                let indices = listed.indices.staying(dimensions);
                *listed = Arc::new(Listed { indices, within: listed.within });
            }
        }
    }

    /// A constant in place of an index array of one item, and where there is no position.
    fn simplify(&mut self, dims: &[Dim]) -> Result<()> {
        let Source::Array(listed) = &self.source else {
            return Ok(());
        };
        if nowhere(dims) {
            *self = Map::constant(0);
        } else if listed.indices.size() == 1 {
            let item = listed.indices.first().unwrap_or(0);
            if !contains(listed.within, item) {
                return Err(outside(item, &Dim::new(listed.within.0, listed.within.1)));
            }
            *self = Map::constant(self.applied(item, 0)?.0);
        }
        Ok(())
    }
}

impl Listed {
    /// Check that all items are where they have to be.
    ///
    /// # Errors
    /// `Kind::Selection` if one is not.
    pub fn check(&self) -> Result<()> {
        let (lower, upper) = self.within;
        if self.within == WHOLE || self.indices.all_within(lower, upper) {
            return Ok(());
        }
        match self.indices.ends() {
            Some((least, most)) if least < lower || most >= upper => {
                let bad = if least < lower { least } else { most };
                Err(outside(bad, &Dim::new(lower, upper)))
            }
            _ => Ok(()),
        }
    }
}

/// A view: its dimensions, and a map for each dimension of what is viewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The dimensions of the view.
    pub dims: PerDimension<Dim>,
    /// One for each dimension of what is viewed.
    pub maps: PerDimension<Map>,
}

impl AsRef<View> for View {
    fn as_ref(&self) -> &View {
        self
    }
}

impl View {
    /// The view that leaves positions as they are.
    pub fn identity(dims: PerDimension<Dim>) -> View {
        let maps = (0..dims.len()).map(|k| Map::along(k, 0, 1)).collect();
        View { dims, maps }
    }

    /// Whether positions stay as they are.
    pub fn is_identity(&self) -> bool {
        let same = |(k, map): (usize, &Map)| *map == Map::along(k, 0, 1);
        self.maps.len() == self.dims.len() && self.maps.iter().enumerate().all(same)
    }

    /// Of each map the dimension that it follows, if it is one, its offset and its stride.
    pub fn lines(&self) -> impl Iterator<Item = (Option<usize>, i64, i64)> + '_ {
        self.maps.iter().map(|map| match map.source {
            Source::Dimension(k) => (Some(k), map.offset, map.stride),
            _ => (None, map.offset, map.stride),
        })
    }

    /// The position in what is viewed of one that is surely inside; None where that is not so, or index
    /// arrays have to be looked into.
    pub fn followed(&self, position: &[i64]) -> Option<PerDimension<i64>> {
        let inside = |(dim, &at): (&Dim, &i64)| contains((dim.lower, dim.upper), at);
        if position.len() != self.dims.len() || !self.dims.iter().zip(position).all(inside) {
            return None;
        }
        let along = |map: &Map| match map.source {
            Source::Nothing => Some(map.offset),
            Source::Dimension(k) => position.get(k)?.checked_mul(map.stride)?.checked_add(map.offset),
            Source::Array(_) => None,
        };
        self.maps.iter().map(along).collect()
    }

    /// How many maps follow a dimension, or vary along it.
    pub fn followers(&self, dimension: usize) -> usize {
        let follows = |map: &&Map| match &map.source {
            Source::Nothing => false,
            Source::Dimension(k) => *k == dimension,
            Source::Array(listed) => listed.indices.varies(dimension),
        };
        self.maps.iter().filter(follows).count()
    }

    /// The view of this view that an act of indexing gives.
    ///
    /// # Errors
    /// `Kind::Selection` if a number would not fit into 64 bits, a position is outside of an index array,
    /// or one of its bounds is implicit.
    pub fn after(&self, act: View) -> Result<View> {
        self.composed(act)?.simplified()
    }

    /// The same with constants in place of index arrays of one item.
    ///
    /// # Errors
    /// `Kind::Selection` if such an item is not where it has to be, or does not fit into 64 bits.
    pub fn simplified(mut self) -> Result<View> {
        for (k, map) in self.maps.iter_mut().enumerate() {
            map.simplify(&self.dims).map_err(|error| along(k, None, error))?;
        }
        Ok(self)
    }

    /// The same, with index arrays of one item that stay what they are.
    fn composed(&self, act: View) -> Result<View> {
        let maps = self.maps.iter().map(|map| composed(map, &self.dims, &act)).collect::<Result<_>>()?;
        Ok(View { dims: act.dims, maps })
    }
}

fn composed(map: &Map, dims: &[Dim], act: &View) -> Result<Map> {
    match &map.source {
        Source::Nothing => Ok(map.clone()),
        Source::Dimension(k) => {
            let inner = &act.maps[*k];
            let (offset, stride) = map.applied(inner.offset, inner.stride)?;
            Ok(Map { offset, stride, source: inner.source.clone() })
        }
        Source::Array(listed) => {
            if nowhere(&act.dims) {
                return Ok(Map::constant(0));
            }
            let indices = taken(&listed.indices, dims, act)?;
            check_explicit(&indices, &act.dims)?;
            Ok(Map::by_array(indices, map.offset, map.stride, listed.within))
        }
    }
}

/// An index array, itself indexed by an act.
fn taken(array: &Indices, dims: &[Dim], act: &View) -> Result<Indices> {
    let mut walks = PerDimension::new();
    for (k, (map, dim)) in act.maps.iter().zip(dims).enumerate() {
        if !array.varies(k) {
            continue;
        }
        let walk = way(map, dim, &act.dims).map_err(|error| along(k, dim.label.as_deref(), error))?;
        walks.push((k, walk));
    }
    Ok(array.walked(&walks, act.dims.len()))
}

/// How a map of an act, whose dimensions are `to`, walks through a dimension.
fn way<'a>(map: &'a Map, dim: &Dim, to: &[Dim]) -> Result<Walk<'a>> {
    Ok(match &map.source {
        Source::Nothing => Walk::At(place(map.offset, dim)?),
        Source::Dimension(number) => {
            let along = &to[*number];
            let count = along.size();
            if count > 0 {
                let first = place_of(map, along.lower, dim)?;
                place_of(map, along.upper - 1, dim)?;
                Walk::Along { to: *number, first, step: map.stride, count: count as usize }
            } else {
                Walk::Along { to: *number, first: 0, step: 0, count: 0 }
            }
        }
        Source::Array(listed) => {
            check_places(map, listed, dim)?;
            let offset = map.offset.wrapping_sub(dim.lower);
            Walk::Listed { indices: &listed.indices, offset, stride: map.stride }
        }
    })
}

/// Check that all that a map makes of the items of an index array is inside of a dimension.
fn check_places(map: &Map, listed: &Listed, dim: &Dim) -> Result<()> {
    if map.stride == 1 {
        // Of both intervals, so that the items are looked at once.
        let lower = listed.within.0.max(dim.lower.saturating_sub(map.offset));
        let upper = listed.within.1.min(dim.upper.saturating_sub(map.offset));
        if lower < upper && listed.indices.all_within(lower, upper) {
            return Ok(());
        }
    }
    listed.check()?;
    if let Some((least, most)) = listed.indices.ends() {
        place_of(map, least, dim)?;
        place_of(map, most, dim)?;
    }
    Ok(())
}

/// The place in an index array of what a map makes of an index.
fn place_of(map: &Map, index: i64, dim: &Dim) -> Result<usize> {
    place(map.applied(index, 0)?.0, dim)
}

fn place(index: i64, dim: &Dim) -> Result<usize> {
    if !(dim.lower <= index && index < dim.upper) {
        return Err(outside(index, dim));
    }
    Ok((index - dim.lower) as usize)
}

/// Whether there is no position, and no implicit bound that could change that.
fn nowhere(dims: &[Dim]) -> bool {
    dims.iter().any(Dim::surely_empty)
}

/// Refuse implicit bounds of what an index array runs along: without items that is only what is empty.
fn check_explicit(indices: &Indices, dims: &[Dim]) -> Result<()> {
    let none = indices.size() == 0;
    let runs = |k: usize| if none { indices.len(k) == 0 } else { indices.varies(k) };
    match dims.iter().enumerate().find(|(k, dim)| runs(*k) && dim.implicit != (false, false)) {
        None => Ok(()),
        Some((k, _)) => Err(selection(format!(
            "dimension {k} runs along an index array, whose bounds cannot be implicit"
        ))),
    }
}

/// The dimensions, if there are not too many, and no two have one label.
///
/// # Errors
/// `Kind::Argument` otherwise.
pub fn checked_labels(dims: PerDimension<Dim>) -> Result<PerDimension<Dim>> {
    match check_labels(&dims) {
        Ok(()) => Ok(dims),
        Err(error) => Err(Error { kind: Kind::Argument, ..error }),
    }
}

/// Check that there are not too many dimensions, and no two of one label.
fn check_labels(dims: &[Dim]) -> Result<()> {
    if dims.len() > MAX_RANK {
        let message = format!("{} dimensions, at most {MAX_RANK} are possible", dims.len());
        return Err(selection(message));
    }
    for (k, dim) in dims.iter().enumerate() {
        if dim.label.is_some() && dims[..k].iter().any(|before| before.label == dim.label) {
            let label = quoted(dim.label.as_deref().unwrap_or_default());
            let message = format!("the label {label} stands for several dimensions");
            return Err(selection(message));
        }
    }
    Ok(())
}

fn selection(message: impl Into<String>) -> Error {
    Error::new(Kind::Selection, message)
}

/// The error of positions that are outside of what there is.
fn beyond(message: impl Into<String>) -> Error {
    Error { code: Some("out_of_bounds"), ..selection(message) }
}

/// A label as messages show it: cut where it is long.
fn quoted(label: &str) -> String {
    const ROOM: usize = 100;
    match label.char_indices().nth(ROOM) {
        Some((end, _)) => format!("'{}…'", &label[..end]),
        None => format!("'{label}'"),
    }
}

fn outside(index: i64, dim: &Dim) -> Error {
    beyond(format!("index {index} is outside of {}{}", dim.bounds(), dim.counted_back([index])))
}

/// An error that tells of which dimension it is.
fn along(k: usize, label: Option<&str>, error: Error) -> Error {
    let label = label.map(|label| format!(" ({})", quoted(label))).unwrap_or_default();
    Error { message: format!("dimension {k}{label}: {}", error.message), ..error }
}
