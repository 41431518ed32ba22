//! Conversion of a transform to a selection of the engine: ranges, lists, and one group of joint
//! lists.
//!
//! A constant map, or one of a single input dimension, is a range. An index array along one
//! dimension that no other map uses is a list. All other maps (arrays of several dimensions, and
//! maps that share a dimension: a diagonal) are joint lists, whose dimensions are flattened.
//!
//! The buffer has an axis for the joint dimensions, followed by the others in order. A dimension
//! without a map repeats the elements.

use super::index_array::{broadcast, for_each_row, Axis};
use super::{
    in_dimension, index_error, is_always_empty, Dim, IndexTransform, MapSource, OutputMap, PerDimension,
};
use crate::error::{Error, Result};
use crate::grid;
use crate::selection::Request;

/// The selection of a view, and the layout of its buffer.
pub struct EngineSelection {
    /// One for each axis of the array.
    pub axes: PerDimension<AxisSelection>,
    /// The buffer axis of each array axis; None if it is dropped.
    pub out_axes: PerDimension<Option<usize>>,
    /// The shape of the view.
    pub shape: PerDimension<usize>,
    /// The shape of the buffer.
    pub buffer: PerDimension<usize>,
    /// The order of the dimensions in the buffer, if it differs.
    pub order: Option<PerDimension<usize>>,
}

/// The selection along one axis of the array.
pub enum AxisSelection {
    /// First index, step and count.
    Range(i64, i64, usize),
    /// Independent indices.
    List(Vec<i64>),
    /// Indices, one for each joint position.
    Joint(Vec<i64>),
}

impl EngineSelection {
    /// Return the order of the dimensions in the buffer.
    fn buffer_order(&self) -> PerDimension<usize> {
        self.order.clone().unwrap_or_else(|| (0..self.shape.len()).collect())
    }

    /// Return the strides of a buffer in which neighbours along each dimension of the view are
    /// `steps` from each other. None if flattened dimensions have no common stride, or
    /// elements repeat.
    #[must_use]
    pub fn strides(&self, steps: &[isize]) -> Option<PerDimension<isize>> {
        let order = self.buffer_order();
        let all_used = self.shape.iter().enumerate().all(|(k, &size)| size == 1 || order.contains(&k));
        let Some(separate) = self.buffer.len().checked_sub(1) else {
            return all_used.then(PerDimension::new);
        };
        // The first buffer axis stands for the flattened dimensions.
        let (flat, separate) = order.split_at(order.len() - separate);
        let mut stride = None;
        for &k in flat.iter().rev().filter(|&&k| self.shape[k] != 1) {
            let (step, length) = (steps[k], self.shape[k] as isize);
            match stride {
                None => stride = Some((step, step.wrapping_mul(length))),
                Some((min, next)) if next == step => stride = Some((min, step.wrapping_mul(length))),
                Some(_) => return None,
            }
        }
        let first = stride.map_or(0, |(min, _)| min);
        all_used.then(|| std::iter::once(first).chain(separate.iter().map(|&k| steps[k])).collect())
    }

    /// Return the strides of each dimension of the view in a buffer in C order.
    #[must_use]
    pub fn steps(&self, item_bytes: usize) -> PerDimension<isize> {
        let mut steps: PerDimension<isize> = self.shape.iter().map(|_| 0).collect();
        let mut step = item_bytes as isize;
        for k in self.buffer_order().into_iter().rev() {
            steps[k] = step;
            step *= self.shape[k] as isize;
        }
        steps
    }

    /// Return the engine requests for a buffer with these strides.
    #[must_use]
    pub fn requests(&self, strides: &[isize]) -> PerDimension<Request<'_>> {
        let strides = self.out_axes.iter().map(|out| out.map_or(0, |out| strides[out]));
        let requests = self.axes.iter().zip(strides).map(|(along, stride)| match along {
            &AxisSelection::Range(start, step, count) => Request::Range { start, step, count, stride },
            AxisSelection::List(indices) => Request::List { indices, stride },
            AxisSelection::Joint(indices) => Request::Joint { indices, stride },
        });
        requests.collect()
    }
}

impl IndexTransform {
    /// Convert the transform to a selection of an array.
    ///
    /// # Errors
    /// `Kind::Selection` if a position is outside the array, or the domain is infinite.
    pub fn to_selection(&self, shape: &[usize]) -> Result<EngineSelection> {
        let size = self.checked_sizes(shape)?;
        if size.contains(&0) {
            let (axes, out_axes, buffer) = (PerDimension::new(), PerDimension::new(), size.clone());
            return Ok(EngineSelection { axes, out_axes, shape: size, buffer, order: None });
        }
        let dims_of: PerDimension<u64> = self.maps.iter().map(input_dimensions).collect();
        let shares_dims = |map_number: usize| {
            dims_of.iter().enumerate().any(|(k, dims)| k != map_number && dims & dims_of[map_number] != 0)
        };
        let is_joint = |map_number: usize| dims_of[map_number].count_ones() > 1 || shares_dims(map_number);
        let joint_dims: u64 = (0..dims_of.len())
            .filter(|&map_number| is_joint(map_number))
            .fold(0, |dims, map_number| dims | dims_of[map_number]);
        let all_dims: u64 = dims_of.iter().fold(0, |dims, map_dims| dims | map_dims);
        let joint: PerDimension<usize> = (0..size.len()).filter(|k| joint_dims >> k & 1 == 1).collect();
        let mut order = joint.clone();
        order.extend((0..size.len()).filter(|k| (all_dims & !joint_dims) >> k & 1 == 1));
        let mut buffer: PerDimension<usize> = PerDimension::new();
        if !joint.is_empty() {
            buffer.push(joint.iter().map(|&k| size[k]).product());
        }
        buffer.extend(order[joint.len()..].iter().map(|&k| size[k]));
        let mut axes = PerDimension::new();
        let mut out_axes = PerDimension::new();
        for (map_number, map) in self.maps.iter().enumerate() {
            if is_joint(map_number) {
                axes.push(AxisSelection::Joint(self.flattened_indices(map, &joint, &size)));
                out_axes.push(Some(0));
                continue;
            }
            axes.push(self.independent_axis(map));
            let dim = (dims_of[map_number] != 0).then(|| dims_of[map_number].trailing_zeros() as usize);
            let out_axis = dim.and_then(|k| order[joint.len()..].iter().position(|&map_dims| map_dims == k));
            out_axes.push(out_axis.map(|out_axis| out_axis + usize::from(!joint.is_empty())));
        }
        let is_in_order = order.len() == size.len() && order.is_sorted();
        Ok(EngineSelection { axes, out_axes, shape: size, buffer, order: (!is_in_order).then_some(order) })
    }

    /// Return whether it has no index arrays and certainly touches at most `limit` cells of this
    /// shape.
    pub fn touches_at_most(&self, cell: &[u64], limit: u64) -> bool {
        let ends = |map: &OutputMap| {
            let position = |index: i64| Some(map.compose_linear(index, 0).ok()?.0);
            match map.source {
                MapSource::Constant => Some((0, 0)),
                MapSource::InputDimension(k) => {
                    Some((position(self.dims[k].lower)?, position(self.dims[k].upper - 1)?))
                }
                MapSource::IndexArray(_) => None,
            }
        };
        grid::touches_at_most(self.maps.iter().map(ends), cell, limit)
    }

    /// Return the size of each dimension, if all positions are inside the array.
    pub(super) fn checked_sizes(&self, shape: &[usize]) -> Result<PerDimension<usize>> {
        if shape.len() != self.maps.len() {
            let (maps, axes) = (self.maps.len(), shape.len());
            return Err(Error::selection(format!("a view of {maps} axes, the array has {axes}")));
        }
        self.check_finite()?;
        let size: PerDimension<usize> = self.dims.iter().map(|dim| dim.size() as usize).collect();
        // Implicit bounds may be different later: out-of-bounds positions are errors even if the
        // domain is empty now.
        if !is_always_empty(&self.dims) {
            for (k, (map, &len)) in self.maps.iter().zip(shape).enumerate() {
                self.check_inside(k, map, len)?;
            }
        }
        Ok(size)
    }

    fn check_finite(&self) -> Result<()> {
        match self.dims.iter().find(|dim| !dim.is_finite()) {
            Some(dim) => Err(Error::selection(format!("the dimension {dim} is not finite"))),
            None => Ok(()),
        }
    }

    /// Return the shape of the smallest array that contains all positions and is at least `shape`;
    /// None if a position is negative. The domain is not empty.
    ///
    /// # Errors
    /// `Kind::Selection` if the domain is infinite, or an item of an index array is invalid.
    pub fn enclosing_shape(&self, shape: &[u64]) -> Result<Option<PerDimension<usize>>> {
        self.check_finite()?;
        let mut enclosing_shape = PerDimension::new();
        for (map, &len) in self.maps.iter().zip(shape) {
            let (min, limit) = self.output_range(map)?;
            if min < 0 {
                return Ok(None);
            }
            enclosing_shape.push((len as usize).max(limit as usize + 1));
        }
        Ok(Some(enclosing_shape))
    }

    fn check_inside(&self, k: usize, map: &OutputMap, len: usize) -> Result<()> {
        let range = match &map.source {
            MapSource::Constant => Some((0, 0)),
            MapSource::InputDimension(along) if self.dims[*along].is_empty() => None,
            MapSource::IndexArray(_) if self.dims.iter().any(Dim::is_empty) => None,
            MapSource::InputDimension(along) => Some((self.dims[*along].lower, self.dims[*along].upper - 1)),
            MapSource::IndexArray(array) => {
                array.check().map_err(|error| in_dimension(k, None, error))?;
                array.indices.min_max()
            }
        };
        let Some((min, limit)) = range else {
            return Ok(());
        };
        let array = Dim::new(0, i64::try_from(len).unwrap_or(i64::MAX));
        for end in [min, limit] {
            let (index, _) = map.compose_linear(end, 0)?;
            if !(0 <= index && index < array.upper) {
                return Err(in_dimension(k, None, index_error(index, &array)));
            }
        }
        Ok(())
    }

    /// Return the selection of a map that shares no dimension.
    fn independent_axis(&self, map: &OutputMap) -> AxisSelection {
        match &map.source {
            MapSource::Constant => AxisSelection::Range(map.offset, 1, 1),
            MapSource::InputDimension(k) => {
                let Dim { lower, upper, .. } = self.dims[*k];
                let count = (upper - lower) as usize;
                let step = if count > 1 { map.stride } else { 1 };
                AxisSelection::Range(map.offset + map.stride * lower, step, count)
            }
            MapSource::IndexArray(array) => AxisSelection::List(
                array.indices.to_vec().into_iter().map(|item| map.offset + map.stride * item).collect(),
            ),
        }
    }

    /// Return the indices of a map at all joint positions.
    pub(super) fn flattened_indices(&self, map: &OutputMap, joint: &[usize], size: &[usize]) -> Vec<i64> {
        let shape: PerDimension<usize> = joint.iter().map(|&k| size[k]).collect();
        let mut indices = Vec::with_capacity(shape.iter().product());
        match &map.source {
            MapSource::Constant => indices.resize(shape.iter().product(), map.offset),
            MapSource::InputDimension(along) => {
                let axis = |&k: &usize| Axis { len: size[k], stride: isize::from(k == *along) };
                let axes: PerDimension<Axis> = joint.iter().map(axis).collect();
                let first = map.offset + map.stride * self.dims[*along].lower;
                for_each_row(&axes, 0, &mut |start, stride, count| {
                    indices.extend(
                        (0..count as isize).map(|step| first + map.stride * (start + step * stride) as i64),
                    );
                });
            }
            MapSource::IndexArray(array) => {
                let axes: PerDimension<Axis> = joint.iter().map(|&k| array.indices.axis(k)).collect();
                let axes = broadcast(&axes, &shape);
                array.indices.for_each(&axes, |item| indices.push(map.offset + map.stride * item));
            }
        }
        indices
    }
}

/// Return the input dimensions of a map, as a bit set.
pub(super) fn input_dimensions(map: &OutputMap) -> u64 {
    match &map.source {
        MapSource::Constant => 0,
        MapSource::InputDimension(k) => 1 << k,
        MapSource::IndexArray(array) => {
            let varies = |k: &usize| array.indices.len(*k) != 1;
            (0..array.indices.rank()).filter(varies).fold(0, |dims, k| dims | 1 << k)
        }
    }
}
