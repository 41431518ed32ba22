//! Conversion of a transform to a selection of the engine: ranges, lists, and one group of joint
//! lists.
//!
//! A constant map, or one of a single input dimension, is a range. An index array along one
//! dimension that no other map uses is a list. All other maps (arrays of several dimensions, and
//! maps that share a dimension: a diagonal) are joint lists, whose dimensions are flattened.
//!
//! The buffer has an axis for the joint dimensions, followed by the others in order. A dimension
//! without a map repeats the elements.

use super::index_array::{broadcast, walk, Axis};
use super::{along, nowhere, outside, selection, Dim, Map, PerDimension, Source, View};
use crate::error::Result;
use crate::selection::Request;

/// The selection of a view, and the layout of its buffer.
pub struct Lowered {
    /// One for each axis of the array.
    pub axes: PerDimension<Along>,
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
pub enum Along {
    /// First index, step and count.
    Range(i64, i64, usize),
    /// Independent indices.
    List(Vec<i64>),
    /// Indices, one for each joint position.
    Joint(Vec<i64>),
}

impl Lowered {
    /// The order of the dimensions in the buffer.
    fn ordered(&self) -> PerDimension<usize> {
        self.order.clone().unwrap_or_else(|| (0..self.shape.len()).collect())
    }

    /// The strides of a buffer whose neighbours along each dimension of the view are `steps` apart.
    /// None if flattened dimensions have no common stride, or elements repeat.
    #[must_use]
    pub fn strides(&self, steps: &[isize]) -> Option<PerDimension<isize>> {
        let order = self.ordered();
        let once = self.shape.iter().enumerate().all(|(k, &size)| size == 1 || order.contains(&k));
        let Some(alone) = self.buffer.len().checked_sub(1) else { return once.then(PerDimension::new) };
        // The first buffer axis stands for the flattened dimensions.
        let (flat, alone) = order.split_at(order.len() - alone);
        let mut stride = None;
        for &k in flat.iter().rev().filter(|&&k| self.shape[k] != 1) {
            let (step, length) = (steps[k], self.shape[k] as isize);
            match stride {
                None => stride = Some((step, step.wrapping_mul(length))),
                Some((least, next)) if next == step => stride = Some((least, step.wrapping_mul(length))),
                Some(_) => return None,
            }
        }
        let first = stride.map_or(0, |(least, _)| least);
        once.then(|| std::iter::once(first).chain(alone.iter().map(|&k| steps[k])).collect())
    }

    /// The strides of each dimension of the view in a buffer in C order.
    #[must_use]
    pub fn steps(&self, item_bytes: usize) -> PerDimension<isize> {
        let mut steps: PerDimension<isize> = self.shape.iter().map(|_| 0).collect();
        let mut step = item_bytes as isize;
        for k in self.ordered().into_iter().rev() {
            steps[k] = step;
            step *= self.shape[k] as isize;
        }
        steps
    }

    /// The engine requests for a buffer with these strides.
    #[must_use]
    pub fn requests(&self, strides: &[isize]) -> PerDimension<Request<'_>> {
        let strides = self.out_axes.iter().map(|out| out.map_or(0, |out| strides[out]));
        let requests = self.axes.iter().zip(strides).map(|(along, stride)| match along {
            &Along::Range(start, step, count) => Request::Range { start, step, count, stride },
            Along::List(indices) => Request::List { indices, stride },
            Along::Joint(indices) => Request::Joint { indices, stride },
        });
        requests.collect()
    }
}

impl View {
    /// Convert the transform to a selection of an array.
    ///
    /// # Errors
    /// `Kind::Selection` if a position is outside the array, or the domain is infinite.
    pub fn lowered(&self, shape: &[usize]) -> Result<Lowered> {
        let size = self.checked(shape)?;
        if size.contains(&0) {
            let (axes, out_axes, buffer) = (PerDimension::new(), PerDimension::new(), size.clone());
            return Ok(Lowered { axes, out_axes, shape: size, buffer, order: None });
        }
        let follows: PerDimension<u64> = self.maps.iter().map(followed).collect();
        let shares =
            |at: usize| follows.iter().enumerate().any(|(k, dims)| k != at && dims & follows[at] != 0);
        let joins = |at: usize| follows[at].count_ones() > 1 || shares(at);
        let together: u64 = (0..follows.len()).filter(|&at| joins(at)).fold(0, |dims, at| dims | follows[at]);
        let any: u64 = follows.iter().fold(0, |dims, one| dims | one);
        let joint: PerDimension<usize> = (0..size.len()).filter(|k| together >> k & 1 == 1).collect();
        let mut order = joint.clone();
        order.extend((0..size.len()).filter(|k| (any & !together) >> k & 1 == 1));
        let mut buffer: PerDimension<usize> = PerDimension::new();
        if !joint.is_empty() {
            buffer.push(joint.iter().map(|&k| size[k]).product());
        }
        buffer.extend(order[joint.len()..].iter().map(|&k| size[k]));
        let mut axes = PerDimension::new();
        let mut out_axes = PerDimension::new();
        for (at, map) in self.maps.iter().enumerate() {
            if joins(at) {
                axes.push(Along::Joint(self.flat(map, &joint, &size)));
                out_axes.push(Some(0));
                continue;
            }
            axes.push(self.alone(map));
            let dim = (follows[at] != 0).then(|| follows[at].trailing_zeros() as usize);
            let place = dim.and_then(|k| order[joint.len()..].iter().position(|&one| one == k));
            out_axes.push(place.map(|place| place + usize::from(!joint.is_empty())));
        }
        let same = order.len() == size.len() && order.is_sorted();
        Ok(Lowered { axes, out_axes, shape: size, buffer, order: (!same).then_some(order) })
    }

    /// Whether it has no index arrays and certainly touches at most `most` cells of this shape.
    pub fn meets_few(&self, cell: &[i64], most: u64) -> bool {
        let cells = |(map, &length): (&Map, &i64)| {
            let (least, greatest) = match map.source {
                Source::Nothing => return Some(1),
                Source::Dimension(k) => (self.dims[k].lower, self.dims[k].upper - 1),
                Source::Array(_) => return None,
            };
            let number = |at: i64| map.applied(at, 0).ok()?.0.checked_div_euclid(length);
            number(least)?.abs_diff(number(greatest)?).checked_add(1)
        };
        let met = self.maps.iter().zip(cell).map(cells).try_fold(1u64, |all, one| all.checked_mul(one?));
        cell.len() == self.maps.len() && met.is_some_and(|met| met <= most)
    }

    /// The size of each dimension, if all positions are inside the array.
    pub(super) fn checked(&self, shape: &[usize]) -> Result<PerDimension<usize>> {
        if shape.len() != self.maps.len() {
            let (maps, axes) = (self.maps.len(), shape.len());
            return Err(selection(format!("a view of {maps} axes, the array has {axes}")));
        }
        self.check_finite()?;
        let size: PerDimension<usize> = self.dims.iter().map(|dim| dim.size() as usize).collect();
        // Implicit bounds may be different later: out-of-bounds positions are errors even if the
        // domain is empty now.
        if !nowhere(&self.dims) {
            for (k, (map, &len)) in self.maps.iter().zip(shape).enumerate() {
                self.check_inside(k, map, len)?;
            }
        }
        Ok(size)
    }

    fn check_finite(&self) -> Result<()> {
        match self.dims.iter().find(|dim| !dim.is_finite()) {
            Some(dim) => Err(selection(format!("the dimension {dim} is not finite"))),
            None => Ok(()),
        }
    }

    /// The shape of the smallest array that contains all positions and is at least `shape`; None if
    /// a position is negative. The domain is not empty.
    ///
    /// # Errors
    /// `Kind::Selection` if the domain is infinite, or an item of an index array is invalid.
    pub fn around(&self, shape: &[u64]) -> Result<Option<PerDimension<usize>>> {
        self.check_finite()?;
        let mut around = PerDimension::new();
        for (map, &len) in self.maps.iter().zip(shape) {
            let (least, most) = self.reached(map)?;
            if least < 0 {
                return Ok(None);
            }
            around.push((len as usize).max(most as usize + 1));
        }
        Ok(Some(around))
    }

    fn check_inside(&self, k: usize, map: &Map, len: usize) -> Result<()> {
        let ends = match &map.source {
            Source::Nothing => Some((0, 0)),
            Source::Dimension(along) if self.dims[*along].is_empty() => None,
            Source::Array(_) if self.dims.iter().any(Dim::is_empty) => None,
            Source::Dimension(along) => Some((self.dims[*along].lower, self.dims[*along].upper - 1)),
            Source::Array(listed) => {
                listed.check().map_err(|error| along(k, None, error))?;
                listed.indices.ends()
            }
        };
        let Some((least, most)) = ends else {
            return Ok(());
        };
        let array = Dim::new(0, i64::try_from(len).unwrap_or(i64::MAX));
        for end in [least, most] {
            let (index, _) = map.applied(end, 0)?;
            if !(0 <= index && index < array.upper) {
                return Err(along(k, None, outside(index, &array)));
            }
        }
        Ok(())
    }

    /// The selection of a map that shares no dimension.
    fn alone(&self, map: &Map) -> Along {
        match &map.source {
            Source::Nothing => Along::Range(map.offset, 1, 1),
            Source::Dimension(k) => {
                let Dim { lower, upper, .. } = self.dims[*k];
                let count = (upper - lower) as usize;
                let step = if count > 1 { map.stride } else { 1 };
                Along::Range(map.offset + map.stride * lower, step, count)
            }
            Source::Array(listed) => Along::List(
                listed.indices.to_vec().into_iter().map(|item| map.offset + map.stride * item).collect(),
            ),
        }
    }

    /// The indices of a map at all joint positions.
    pub(super) fn flat(&self, map: &Map, joint: &[usize], size: &[usize]) -> Vec<i64> {
        let shape: PerDimension<usize> = joint.iter().map(|&k| size[k]).collect();
        let mut found = Vec::with_capacity(shape.iter().product());
        match &map.source {
            Source::Nothing => found.resize(shape.iter().product(), map.offset),
            Source::Dimension(along) => {
                let axis = |&k: &usize| Axis { len: size[k], stride: isize::from(k == *along) };
                let axes: PerDimension<Axis> = joint.iter().map(axis).collect();
                let first = map.offset + map.stride * self.dims[*along].lower;
                walk(&axes, 0, &mut |at, stride, count| {
                    found.extend(
                        (0..count as isize).map(|step| first + map.stride * (at + step * stride) as i64),
                    );
                });
            }
            Source::Array(listed) => {
                let axes: PerDimension<Axis> = joint.iter().map(|&k| listed.indices.axis(k)).collect();
                let axes = broadcast(&axes, &shape);
                listed.indices.gathered(&axes, |item| found.push(map.offset + map.stride * item));
            }
        }
        found
    }
}

/// The input dimensions of a map, as a bit set.
pub(super) fn followed(map: &Map) -> u64 {
    match &map.source {
        Source::Nothing => 0,
        Source::Dimension(k) => 1 << k,
        Source::Array(listed) => {
            let varies = |k: &usize| listed.indices.len(*k) != 1;
            (0..listed.indices.rank()).filter(varies).fold(0, |dims, k| dims | 1 << k)
        }
    }
}
