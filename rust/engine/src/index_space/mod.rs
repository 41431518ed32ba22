//! Index transforms: views of arrays as values that compose.
//!
//! A transform has a domain (one interval per dimension, perhaps labelled) and one *output map* for
//! each dimension of its base. A map gives the base index of a position: a constant, a linear
//! function of one input dimension, or an item of an index array.
//!
//! Every indexing operation is itself a transform of the dimensions before it, so that one
//! function, [`IndexTransform::compose`], applies them all. The forms of maps are closed under
//! composition, and a part of an index array shares its memory.

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

/// The maximum rank of a transform.
pub const MAX_RANK: usize = 32;

/// One value for each dimension; on the stack for common ranks.
pub type PerDimension<T> = SmallVec<[T; 4]>;

/// An output map: the base index is `offset + stride * source`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// The constant term.
    pub offset: i64,
    /// The factor of the source; 0 without one.
    pub stride: i64,
    /// The variable part.
    pub source: Source,
}

/// The variable part of an output map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// None: the index is constant.
    Nothing,
    /// The position along an input dimension.
    Dimension(usize),
    /// The items of an index array.
    Array(Arc<Listed>),
}

/// An index array, and the half-open interval that its items must lie in.
///
/// It has an axis for each input dimension, of length 1 if it does not vary there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The items.
    pub indices: Indices,
    /// The valid interval.
    pub within: (i64, i64),
}

/// The interval of all indices.
pub const WHOLE: (i64, i64) = (-INFINITE, END);

impl Map {
    /// A constant map.
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

    /// The map of `offset + stride * x`, as offset and stride, if they fit into 64 bits.
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

    /// The constant value of a map without input dimensions.
    fn fixed(&self) -> i64 {
        let item = match &self.source {
            Source::Array(listed) => listed.indices.first().unwrap_or(0),
            _ => 0,
        };
        self.offset.wrapping_add(self.stride.wrapping_mul(item))
    }

    /// Check the map against the domain of a transform. Its index array is checked when it is used.
    ///
    /// # Errors
    /// `Kind::Argument` if the input dimension does not exist, or if the index array has another
    /// shape or runs along implicit bounds.
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

    /// Make the index array constant along those dimensions where it has one item left.
    fn stay(&mut self, dimensions: &[usize]) {
        if let Source::Array(listed) = &mut self.source {
            if dimensions.iter().any(|&k| listed.indices.len(k) == 1 && listed.indices.varies(k)) {
                let indices = listed.indices.staying(dimensions);
                *listed = Arc::new(Listed { indices, within: listed.within });
            }
        }
    }

    /// Replace an index array with one item, or any map of an empty domain, by a constant.
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
    /// Check that all items lie in the valid interval.
    ///
    /// # Errors
    /// `Kind::Selection` if one does not.
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

/// An index transform: its domain, and one output map for each dimension of the base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The domain.
    pub dims: PerDimension<Dim>,
    /// The output maps, one for each dimension of the base.
    pub maps: PerDimension<Map>,
}

impl AsRef<View> for View {
    fn as_ref(&self) -> &View {
        self
    }
}

impl View {
    /// The identity transform.
    pub fn identity(dims: PerDimension<Dim>) -> View {
        let maps = (0..dims.len()).map(|k| Map::along(k, 0, 1)).collect();
        View { dims, maps }
    }

    /// Whether this is the identity transform.
    pub fn is_identity(&self) -> bool {
        let same = |(k, map): (usize, &Map)| *map == Map::along(k, 0, 1);
        self.maps.len() == self.dims.len() && self.maps.iter().enumerate().all(same)
    }

    /// The input dimension, offset and stride of each output map; the dimension is None for other
    /// maps.
    pub fn lines(&self) -> impl Iterator<Item = (Option<usize>, i64, i64)> + '_ {
        self.maps.iter().map(|map| match map.source {
            Source::Dimension(k) => (Some(k), map.offset, map.stride),
            _ => (None, map.offset, map.stride),
        })
    }

    /// The base index of a position inside the domain; None if it is outside, or a map has an index
    /// array.
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

    /// The number of output maps that depend on an input dimension.
    pub fn followers(&self, dimension: usize) -> usize {
        let follows = |map: &&Map| match &map.source {
            Source::Nothing => false,
            Source::Dimension(k) => *k == dimension,
            Source::Array(listed) => listed.indices.varies(dimension),
        };
        self.maps.iter().filter(follows).count()
    }

    /// Apply another transform, such as an indexing operation, to this one.
    ///
    /// # Errors
    /// `Kind::Selection` if a number does not fit into 64 bits, a position is outside an index
    /// array, or an index array runs along an implicit bound.
    pub fn after(&self, act: View) -> Result<View> {
        self.composed(act)?.simplified()
    }

    /// Replace index arrays with one item by constants.
    ///
    /// # Errors
    /// `Kind::Selection` if an item is outside its valid interval, or does not fit into 64 bits.
    pub fn simplified(mut self) -> Result<View> {
        for (k, map) in self.maps.iter_mut().enumerate() {
            map.simplify(&self.dims).map_err(|error| along(k, None, error))?;
        }
        Ok(self)
    }

    /// Compose, but keep index arrays with one item.
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

/// Index an index array by a transform.
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

/// How a map of `transform` indexes one axis of an index array, along a dimension.
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

/// Check that a map of an index array stays inside a dimension.
fn check_places(map: &Map, listed: &Listed, dim: &Dim) -> Result<()> {
    if map.stride == 1 {
        // Both intervals in one pass over the items.
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

/// The position in a dimension to which a map takes an index.
fn place_of(map: &Map, index: i64, dim: &Dim) -> Result<usize> {
    place(map.applied(index, 0)?.0, dim)
}

fn place(index: i64, dim: &Dim) -> Result<usize> {
    if !(dim.lower <= index && index < dim.upper) {
        return Err(outside(index, dim));
    }
    Ok((index - dim.lower) as usize)
}

/// Whether the domain is empty whatever its implicit bounds become.
fn nowhere(dims: &[Dim]) -> bool {
    dims.iter().any(Dim::surely_empty)
}

/// Refuse implicit bounds along an index array (or along its empty axes, if it has no items).
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

/// Check the rank, and that labels are unique.
///
/// # Errors
/// `Kind::Argument` otherwise.
pub fn checked_labels(dims: PerDimension<Dim>) -> Result<PerDimension<Dim>> {
    match check_labels(&dims) {
        Ok(()) => Ok(dims),
        Err(error) => Err(Error { kind: Kind::Argument, ..error }),
    }
}

/// Check the rank, and that labels are unique.
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

/// The error of positions outside their bounds.
fn beyond(message: impl Into<String>) -> Error {
    Error { code: Some("out_of_bounds"), ..selection(message) }
}

/// A label for messages, shortened if it is long.
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

/// An error with the dimension that it concerns.
fn along(k: usize, label: Option<&str>, error: Error) -> Error {
    let label = label.map(|label| format!(" ({})", quoted(label))).unwrap_or_default();
    Error { message: format!("dimension {k}{label}: {}", error.message), ..error }
}
