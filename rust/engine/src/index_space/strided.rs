//! Copies between views of arrays in memory, by byte offsets and strides.
//!
//! Without index arrays, a view is a strided array. The joint dimensions of index arrays become a
//! list of offsets; the others stay strided axes.

use super::index_array::{self, broadcast, for_each_row};
use super::to_selection::input_dimensions;
use super::{IndexTransform, MapSource, OutputMap, PerDimension};
use crate::copy::{self, Axis, Item, Walk};
use crate::error::Result;

/// One side of a copy: the byte positions of a view in an array.
pub struct CopySide<'a> {
    /// The offset of the origin, without index arrays.
    start: isize,
    /// The stride of each dimension, without index arrays.
    steps: PerDimension<isize>,
    /// The transform, and the strides of the array.
    transform_and_strides: Option<(&'a IndexTransform, &'a [isize])>,
}

/// The axes of a copy between two arrays.
pub struct CopySteps {
    /// The first offset in each array, in bytes.
    start: (isize, isize),
    axes: PerDimension<CopyAxis>,
}

enum CopyAxis {
    Strided(usize, isize, isize),
    List(Vec<(isize, isize)>),
}

/// The bytes that one task copies: waking another thread costs less.
const TASK_BYTES: usize = 1 << 20;

impl<'a> CopySide<'a> {
    /// Return an array with the shape of the view.
    #[must_use]
    pub fn items(strides: &[isize]) -> CopySide<'a> {
        CopySide { start: 0, steps: strides.into(), transform_and_strides: None }
    }

    /// Return a viewed array.
    ///
    /// # Errors
    /// `Kind::Selection` if a position is outside the array, or the domain is infinite.
    pub fn of_view(view: &'a IndexTransform, shape: &[usize], strides: &'a [isize]) -> Result<CopySide<'a>> {
        let size = view.checked_sizes(shape)?;
        if size.contains(&0) {
            return Ok(CopySide {
                start: 0,
                steps: size.iter().map(|_| 0).collect(),
                transform_and_strides: None,
            });
        }
        let (start, steps) = view.origin_and_strides(strides);
        Ok(CopySide { start, steps, transform_and_strides: Some((view, strides)) })
    }

    /// Maps with index arrays, and the strides of their axes.
    fn maps_with_arrays(&self) -> impl Iterator<Item = (&'a OutputMap, isize)> {
        let maps =
            self.transform_and_strides.into_iter().flat_map(|(view, strides)| view.maps.iter().zip(strides));
        maps.filter(|(map, _)| matches!(map.source, MapSource::IndexArray(_)))
            .map(|(map, &stride)| (map, stride))
    }

    /// Add the offsets of the positions along some dimensions, in C order.
    fn add<P>(&self, group: u64, size: &[usize], offsets: &mut [P], side: impl Fn(&mut P) -> &mut isize) {
        let dims: PerDimension<usize> = members(group, size.len()).collect();
        let shape: PerDimension<usize> = dims.iter().map(|&k| size[k]).collect();
        if dims.iter().any(|&k| self.steps[k] != 0) {
            let axis = |&k: &usize| index_array::Axis { len: size[k], stride: self.steps[k] };
            let axes: PerDimension<index_array::Axis> = dims.iter().map(axis).collect();
            let mut offset = offsets.iter_mut();
            for_each_row(&axes, 0, &mut |row_start, stride, count| {
                for (step, offset) in (0..count as isize).zip(&mut offset) {
                    *side(offset) += row_start + step * stride;
                }
            });
        }
        for (map, stride) in self.maps_with_arrays() {
            let MapSource::IndexArray(maps_with_arrays) = &map.source else { continue };
            if input_dimensions(map) & group == 0 {
                continue;
            }
            let axes: PerDimension<index_array::Axis> =
                dims.iter().map(|&k| maps_with_arrays.indices.axis(k)).collect();
            let by = map.stride as isize * stride;
            let mut offset = offsets.iter_mut();
            maps_with_arrays.indices.for_each(&broadcast(&axes, &shape), |item| {
                if let Some(offset) = offset.next() {
                    *side(offset) += item as isize * by;
                }
            });
        }
    }
}

/// Return the dimensions in a bit set.
fn members(group: u64, rank: usize) -> impl Iterator<Item = usize> {
    (0..rank).filter(move |k| group >> k & 1 == 1)
}

impl CopySteps {
    /// Return the axes of a copy of this many items along each dimension.
    #[must_use]
    pub fn between(size: &[usize], from: &CopySide<'_>, to: &CopySide<'_>) -> CopySteps {
        if size.contains(&0) {
            return CopySteps { start: (0, 0), axes: PerDimension::from_iter([CopyAxis::Strided(0, 0, 0)]) };
        }
        let groups = groups(from.maps_with_arrays().chain(to.maps_with_arrays()).map(|(map, _)| map));
        let mut axes = PerDimension::new();
        for (k, &count) in size.iter().enumerate() {
            match groups.iter().find(|&&group| group >> k & 1 == 1) {
                None => axes.push(CopyAxis::Strided(count, from.steps[k], to.steps[k])),
                Some(&group) if group.trailing_zeros() as usize == k => {
                    let count = members(group, size.len()).map(|k| size[k]).product();
                    let mut offsets = vec![(0, 0); count];
                    from.add(group, size, &mut offsets, |offset| &mut offset.0);
                    to.add(group, size, &mut offsets, |offset| &mut offset.1);
                    axes.push(CopyAxis::List(offsets));
                }
                Some(_) => {}
            }
        }
        CopySteps { start: (from.start, to.start), axes }
    }

    /// Return the copy between these arrays.
    #[must_use]
    pub fn walk(&self, from: *const u8, to: *mut u8) -> Walk<'_> {
        Walk {
            axes: self.axes.iter().map(CopyAxis::axis).collect(),
            src: from.wrapping_offset(self.start.0),
            dst: to.wrapping_offset(self.start.1),
        }
    }
}

/// Perform several copies, each between the first bytes of two arrays.
///
/// # Errors
/// `Kind::Internal` if a thread fails.
///
/// # Safety
/// The arrays are those of the steps; sources are readable, targets are writable, and no byte is
/// both or is written twice.
pub unsafe fn copy_all(copies: &[(CopySteps, *const u8, *mut u8)], item: Item) -> Result<()> {
    let walks: Vec<Walk<'_>> = copies.iter().map(|(steps, from, to)| steps.walk(*from, *to)).collect();
    copy::in_pieces(&walks, TASK_BYTES / item.bytes.max(1), &|axes, from, to| {
        // SAFETY: guaranteed by the caller; pieces are disjoint.
        unsafe { copy::copy(from, to, axes, item) };
    })
}

impl CopyAxis {
    fn axis(&self) -> Axis<'_> {
        match self {
            CopyAxis::Strided(count, src, dst) => Axis::Strided { count: *count, src: *src, dst: *dst },
            CopyAxis::List(offsets) => Axis::List { offsets },
        }
    }
}

impl IndexTransform {
    /// Return the offset and the strides of a view; None if it has index arrays.
    ///
    /// # Errors
    /// `Kind::Selection` if a position is outside the array, or the domain is infinite.
    pub fn strided_layout(
        &self,
        shape: &[usize],
        strides: &[isize],
    ) -> Result<Option<(isize, PerDimension<isize>)>> {
        if self.maps.iter().any(|map| matches!(map.source, MapSource::IndexArray(_))) {
            return Ok(None);
        }
        let size = self.checked_sizes(shape)?;
        if size.contains(&0) {
            return Ok(Some((0, size.iter().map(|_| 0).collect())));
        }
        Ok(Some(self.origin_and_strides(strides)))
    }

    /// Return whether each element of an array certainly has a position.
    pub fn covers(&self, shape: &[i64]) -> bool {
        let mut used_dims: PerDimension<usize> = PerDimension::new();
        self.maps.len() == shape.len()
            && self.maps.iter().zip(shape).all(|(map, &len)| match map.source {
                _ if len == 1 => true,
                MapSource::InputDimension(k) => {
                    let is_repeated = used_dims.contains(&k);
                    used_dims.push(k);
                    !is_repeated && map.stride.abs() == 1 && self.dims[k].size() == len
                }
                _ => false,
            })
    }

    /// Return the offset of the origin and the strides, without index arrays.
    fn origin_and_strides(&self, strides: &[isize]) -> (isize, PerDimension<isize>) {
        let mut start = 0;
        let mut steps: PerDimension<isize> = self.dims.iter().map(|_| 0).collect();
        for (map, stride) in self.maps.iter().zip(strides) {
            let mut first = if input_dimensions(map) == 0 { map.constant_value() } else { map.offset };
            if let MapSource::InputDimension(k) = map.source {
                first += map.stride * self.dims[k].lower;
                steps[k] += map.stride as isize * stride;
            }
            start += first as isize * stride;
        }
        (start, steps)
    }
}

/// Return the dimensions of index arrays, grouped if arrays share one: a bit set for each group.
fn groups<'a>(maps: impl Iterator<Item = &'a OutputMap>) -> PerDimension<u64> {
    let mut groups: PerDimension<u64> = PerDimension::new();
    for map in maps {
        let mut group = input_dimensions(map);
        groups.retain(|other| {
            let is_disjoint = *other & group == 0;
            group |= if is_disjoint { 0 } else { *other };
            is_disjoint
        });
        if group != 0 {
            groups.push(group);
        }
    }
    groups
}
