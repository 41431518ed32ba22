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

pub use blocks::{BlockSources, Blocks};
pub use dim::{contains, end, is_interval, Dim, Slice, END, INFINITE};
pub use dim_selection::DimSelector;
pub use display::DomainText;
pub use index_array::IndexArray;
pub use numpy_key::{IndexTerm, IndexingMode};
pub use operations::{DimOperation, DimPosition, PerDimOrAll, Translation};
pub use partition::{Grid, GridPartition, Partitioner, ViewPart};
pub use resize_bounds::DimResize;
pub use stack::{LayerStack, StackAxis, VisibleLayer};
pub use strided::{copy_all, CopySide, CopySteps};
pub use to_selection::{AxisSelection, EngineSelection};

use crate::error::{Error, Kind, Result};
use index_array::AxisIndexing;

/// The maximum rank of a transform.
pub const MAX_RANK: usize = 32;

/// One value for each dimension; on the stack for common ranks.
pub type PerDimension<T> = SmallVec<[T; 4]>;

/// An output map: the base index is `offset + stride * source`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputMap {
    /// The constant term.
    pub offset: i64,
    /// The factor of the source; 0 without one.
    pub stride: i64,
    /// The variable part.
    pub source: MapSource,
}

/// The variable part of an output map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapSource {
    /// None: the index is constant.
    Constant,
    /// The position along an input dimension.
    InputDimension(usize),
    /// The items of an index array.
    IndexArray(Arc<BoundedIndexArray>),
}

/// An index array, and the half-open interval that its items must lie in.
///
/// It has an axis for each input dimension, of length 1 if it does not vary there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundedIndexArray {
    /// The items.
    pub indices: IndexArray,
    /// The valid interval.
    pub within: (i64, i64),
}

/// The interval of all indices.
pub const WHOLE: (i64, i64) = (-INFINITE, END);

impl OutputMap {
    /// Return a constant map.
    pub fn constant(offset: i64) -> OutputMap {
        OutputMap { offset, stride: 0, source: MapSource::Constant }
    }

    /// `offset + stride * position[dimension]`.
    pub fn from_dimension(dimension: usize, offset: i64, stride: i64) -> OutputMap {
        OutputMap { offset, stride, source: MapSource::InputDimension(dimension) }
    }

    /// `offset + stride * array[position]`.
    pub fn from_index_array(indices: IndexArray, offset: i64, stride: i64, within: (i64, i64)) -> OutputMap {
        OutputMap {
            offset,
            stride,
            source: MapSource::IndexArray(Arc::new(BoundedIndexArray { indices, within })),
        }
    }

    /// Return the map of `offset + stride * x`, as offset and stride, if they fit into 64 bits.
    fn compose_linear(&self, offset: i64, stride: i64) -> Result<(i64, i64)> {
        if self.stride == 1 && self.offset == 0 {
            return Ok((offset, stride));
        }
        let new_offset = i128::from(self.stride) * i128::from(offset) + i128::from(self.offset);
        let new_stride = i128::from(self.stride) * i128::from(stride);
        match (i64::try_from(new_offset), i64::try_from(new_stride)) {
            (Ok(new_offset), Ok(new_stride)) => Ok((new_offset, new_stride)),
            _ => {
                Err(Error::selection(format!("offset {new_offset} or stride {new_stride} is beyond 64 bits")))
            }
        }
    }

    /// Return the constant value of a map without input dimensions.
    fn constant_value(&self) -> i64 {
        let item = match &self.source {
            MapSource::IndexArray(array) => array.indices.first().unwrap_or(0),
            _ => 0,
        };
        self.offset.wrapping_add(self.stride.wrapping_mul(item))
    }

    /// Check the map against the domain of a transform. Its index array is checked when it is used.
    ///
    /// # Errors
    /// `Kind::Argument` if the input dimension does not exist, or if the index array has another
    /// shape or runs along implicit bounds.
    pub fn validated(self, dims: &[Dim]) -> Result<OutputMap> {
        let wrong = |message: String| Err(Error::argument(message));
        match &self.source {
            MapSource::InputDimension(k) if *k >= dims.len() => {
                wrong(format!("input_dimension {k} is not below {}", dims.len()))
            }
            MapSource::InputDimension(_) if self.stride == 0 => Ok(OutputMap::constant(self.offset)),
            MapSource::Constant | MapSource::InputDimension(_) => Ok(self),
            MapSource::IndexArray(array) => {
                let shape = array.indices.shape();
                if shape.len() != dims.len() {
                    let (axes, rank) = (shape.len(), dims.len());
                    return wrong(format!("an index array of rank {axes}, the view has {rank}"));
                }
                if let Some((_, dim)) =
                    shape.iter().zip(dims).find(|(len, dim)| **len != 1 && **len as i64 != dim.size())
                {
                    return wrong(format!("an index array of shape {shape:?} does not fit {dim}"));
                }
                let is_finite = |dim: &Dim| -INFINITE < dim.lower && dim.upper <= INFINITE;
                if let Some((_, dim)) =
                    shape.iter().zip(dims).find(|(len, dim)| **len != 1 && !is_finite(dim))
                {
                    return wrong(format!("an index array of shape {shape:?} runs along {dim}"));
                }
                check_explicit(&array.indices, dims)
                    .map_err(|error| Error { kind: Kind::Argument, ..error })?;
                Ok(match self.stride {
                    _ if is_always_empty(dims) => OutputMap::constant(0),
                    0 => OutputMap::constant(self.offset),
                    _ => self,
                })
            }
        }
    }

    /// Make the index array constant along those dimensions where it has one item left.
    fn drop_unit_axes(&mut self, dimensions: &[usize]) {
        if let MapSource::IndexArray(array) = &mut self.source {
            if dimensions.iter().any(|&k| array.indices.len(k) == 1 && array.indices.varies(k)) {
                let indices = array.indices.without_unit_axes(dimensions);
                *array = Arc::new(BoundedIndexArray { indices, within: array.within });
            }
        }
    }

    /// Replace an index array with one item, or any map of an empty domain, by a constant.
    fn simplify(&mut self, dims: &[Dim]) -> Result<()> {
        let MapSource::IndexArray(array) = &self.source else {
            return Ok(());
        };
        if is_always_empty(dims) {
            *self = OutputMap::constant(0);
        } else if array.indices.size() == 1 {
            let item = array.indices.first().unwrap_or(0);
            if !contains(array.within, item) {
                return Err(index_error(item, &Dim::new(array.within.0, array.within.1)));
            }
            *self = OutputMap::constant(self.compose_linear(item, 0)?.0);
        }
        Ok(())
    }
}

impl BoundedIndexArray {
    /// Check that all items lie in the valid interval.
    ///
    /// # Errors
    /// `Kind::Selection` if one does not.
    pub fn check(&self) -> Result<()> {
        let (lower, upper) = self.within;
        if self.within == WHOLE || self.indices.all_within(lower, upper) {
            return Ok(());
        }
        match self.indices.min_max() {
            Some((least, most)) if least < lower || most >= upper => {
                let item = if least < lower { least } else { most };
                Err(index_error(item, &Dim::new(lower, upper)))
            }
            _ => Ok(()),
        }
    }
}

/// An index transform: its domain, and one output map for each dimension of the base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexTransform {
    /// The domain.
    pub dims: PerDimension<Dim>,
    /// The output maps, one for each dimension of the base.
    pub maps: PerDimension<OutputMap>,
}

impl IndexTransform {
    /// Return the identity transform.
    pub fn identity(dims: PerDimension<Dim>) -> IndexTransform {
        let maps = (0..dims.len()).map(|k| OutputMap::from_dimension(k, 0, 1)).collect();
        IndexTransform { dims, maps }
    }

    /// Return whether this is the identity transform.
    pub fn is_identity(&self) -> bool {
        let is_same = |(k, map): (usize, &OutputMap)| *map == OutputMap::from_dimension(k, 0, 1);
        self.maps.len() == self.dims.len() && self.maps.iter().enumerate().all(is_same)
    }

    /// Return the input dimension, offset and stride of each output map; the dimension is None for
    /// other maps.
    pub fn linear_maps(&self) -> impl Iterator<Item = (Option<usize>, i64, i64)> + '_ {
        self.maps.iter().map(|map| match map.source {
            MapSource::InputDimension(k) => (Some(k), map.offset, map.stride),
            _ => (None, map.offset, map.stride),
        })
    }

    /// Return the base index of a position inside the domain; None if it is outside, or a map has
    /// an index array.
    pub fn followed(&self, position: &[i64]) -> Option<PerDimension<i64>> {
        let is_inside = |(dim, &at): (&Dim, &i64)| contains((dim.lower, dim.upper), at);
        if position.len() != self.dims.len() || !self.dims.iter().zip(position).all(is_inside) {
            return None;
        }
        let along = |map: &OutputMap| match map.source {
            MapSource::Constant => Some(map.offset),
            MapSource::InputDimension(k) => position.get(k)?.checked_mul(map.stride)?.checked_add(map.offset),
            MapSource::IndexArray(_) => None,
        };
        self.maps.iter().map(along).collect()
    }

    /// Return the number of output maps that depend on an input dimension.
    pub fn count_dependent_maps(&self, dimension: usize) -> usize {
        let follows = |map: &&OutputMap| match &map.source {
            MapSource::Constant => false,
            MapSource::InputDimension(k) => *k == dimension,
            MapSource::IndexArray(array) => array.indices.varies(dimension),
        };
        self.maps.iter().filter(follows).count()
    }

    /// Apply another transform, such as an indexing operation, to this one.
    ///
    /// # Errors
    /// `Kind::Selection` if a number does not fit into 64 bits, a position is outside an index
    /// array, or an index array runs along an implicit bound.
    pub fn compose(&self, other: IndexTransform) -> Result<IndexTransform> {
        self.compose_unsimplified(other)?.simplified()
    }

    /// Replace index arrays with one item by constants.
    ///
    /// # Errors
    /// `Kind::Selection` if an item is outside its valid interval, or does not fit into 64 bits.
    pub fn simplified(mut self) -> Result<IndexTransform> {
        for (k, map) in self.maps.iter_mut().enumerate() {
            map.simplify(&self.dims).map_err(|error| in_dimension(k, None, error))?;
        }
        Ok(self)
    }

    /// Compose, but keep index arrays with one item.
    fn compose_unsimplified(&self, other: IndexTransform) -> Result<IndexTransform> {
        let maps = self.maps.iter().map(|map| compose_map(map, &self.dims, &other)).collect::<Result<_>>()?;
        Ok(IndexTransform { dims: other.dims, maps })
    }
}

fn compose_map(map: &OutputMap, dims: &[Dim], other: &IndexTransform) -> Result<OutputMap> {
    match &map.source {
        MapSource::Constant => Ok(map.clone()),
        MapSource::InputDimension(k) => {
            let inner = &other.maps[*k];
            let (offset, stride) = map.compose_linear(inner.offset, inner.stride)?;
            Ok(OutputMap { offset, stride, source: inner.source.clone() })
        }
        MapSource::IndexArray(array) => {
            if is_always_empty(&other.dims) {
                return Ok(OutputMap::constant(0));
            }
            let indices = index_array_by(&array.indices, dims, other)?;
            check_explicit(&indices, &other.dims)?;
            Ok(OutputMap::from_index_array(indices, map.offset, map.stride, array.within))
        }
    }
}

/// Index an index array by a transform.
fn index_array_by(array: &IndexArray, dims: &[Dim], other: &IndexTransform) -> Result<IndexArray> {
    let mut axes = PerDimension::new();
    for (k, (map, dim)) in other.maps.iter().zip(dims).enumerate() {
        if !array.varies(k) {
            continue;
        }
        let indexing = axis_indexing(map, dim, &other.dims)
            .map_err(|error| in_dimension(k, dim.label.as_deref(), error))?;
        axes.push((k, indexing));
    }
    Ok(array.indexed(&axes, other.dims.len()))
}

/// Return how a map of `transform` indexes one axis of an index array, along a dimension.
fn axis_indexing<'a>(map: &'a OutputMap, dim: &Dim, to: &[Dim]) -> Result<AxisIndexing<'a>> {
    Ok(match &map.source {
        MapSource::Constant => AxisIndexing::Position(position_in(map.offset, dim)?),
        MapSource::InputDimension(number) => {
            let along = &to[*number];
            let count = along.size();
            if count > 0 {
                let first = mapped_position(map, along.lower, dim)?;
                mapped_position(map, along.upper - 1, dim)?;
                AxisIndexing::Strided { to: *number, first, step: map.stride, count: count as usize }
            } else {
                AxisIndexing::Strided { to: *number, first: 0, step: 0, count: 0 }
            }
        }
        MapSource::IndexArray(array) => {
            check_mapped_positions(map, array, dim)?;
            let offset = map.offset.wrapping_sub(dim.lower);
            AxisIndexing::Array { indices: &array.indices, offset, stride: map.stride }
        }
    })
}

/// Check that a map of an index array stays inside a dimension.
fn check_mapped_positions(map: &OutputMap, array: &BoundedIndexArray, dim: &Dim) -> Result<()> {
    if map.stride == 1 {
        // Both intervals in one pass over the items.
        let lower = array.within.0.max(dim.lower.saturating_sub(map.offset));
        let upper = array.within.1.min(dim.upper.saturating_sub(map.offset));
        if lower < upper && array.indices.all_within(lower, upper) {
            return Ok(());
        }
    }
    array.check()?;
    if let Some((least, most)) = array.indices.min_max() {
        mapped_position(map, least, dim)?;
        mapped_position(map, most, dim)?;
    }
    Ok(())
}

/// Return the position in a dimension to which a map takes an index.
fn mapped_position(map: &OutputMap, index: i64, dim: &Dim) -> Result<usize> {
    position_in(map.compose_linear(index, 0)?.0, dim)
}

fn position_in(index: i64, dim: &Dim) -> Result<usize> {
    if !(dim.lower <= index && index < dim.upper) {
        return Err(index_error(index, dim));
    }
    Ok((index - dim.lower) as usize)
}

/// Return whether the domain is empty whatever its implicit bounds become.
fn is_always_empty(dims: &[Dim]) -> bool {
    dims.iter().any(Dim::is_always_empty)
}

/// Reject implicit bounds along an index array (or along its empty axes, if it has no items).
fn check_explicit(indices: &IndexArray, dims: &[Dim]) -> Result<()> {
    let none = indices.size() == 0;
    let runs = |k: usize| if none { indices.len(k) == 0 } else { indices.varies(k) };
    match dims.iter().enumerate().find(|(k, dim)| runs(*k) && dim.implicit != (false, false)) {
        None => Ok(()),
        Some((k, _)) => Err(Error::selection(format!(
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
        return Err(Error::selection(message));
    }
    for (k, dim) in dims.iter().enumerate() {
        if dim.label.is_some() && dims[..k].iter().any(|before| before.label == dim.label) {
            let label = quoted(dim.label.as_deref().unwrap_or_default());
            let message = format!("the label {label} stands for several dimensions");
            return Err(Error::selection(message));
        }
    }
    Ok(())
}

/// Return the error of positions outside their bounds.
fn out_of_bounds_error(message: impl Into<String>) -> Error {
    Error { code: Some("out_of_bounds"), ..Error::selection(message) }
}

/// Return a label for messages, shortened if it is long.
fn quoted(label: &str) -> String {
    const ROOM: usize = 100;
    match label.char_indices().nth(ROOM) {
        Some((end, _)) => format!("'{}…'", &label[..end]),
        None => format!("'{label}'"),
    }
}

fn index_error(index: i64, dim: &Dim) -> Error {
    out_of_bounds_error(format!(
        "index {index} is outside of {}{}",
        dim.bounds(),
        dim.negative_index_hint([index])
    ))
}

/// Return an error with the dimension that it concerns.
fn in_dimension(k: usize, label: Option<&str>, error: Error) -> Error {
    let label = label.map(|label| format!(" ({})", quoted(label))).unwrap_or_default();
    Error { message: format!("dimension {k}{label}: {}", error.message), ..error }
}
