//! How a view walks an array in memory: where its positions are, in bytes.
//!
//! Without index arrays the positions are a strided array again. Dimensions along which index arrays
//! vary together are a list of places; all others stay axes with a stride.

use super::indices::{self, broadcast, walk};
use super::lower::followed;
use super::{PerDimension, Source, View};
use crate::copy::{self, Axis, Item};
use crate::error::Result;

/// Which way items go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the array that is viewed.
    Out,
    /// Into it.
    In,
}

/// The steps of a copy between an array that is viewed and items of the view's shape.
pub struct Steps {
    /// Where the first place is in the array, in bytes.
    start: isize,
    way: Way,
    axes: PerDimension<Step>,
}

enum Step {
    Strided(usize, isize, isize),
    List(Vec<(isize, isize)>),
}

/// Bytes that are copied by one thread: it takes longer than waking another one.
const TASK_BYTES: usize = 1 << 20;

impl Steps {
    /// The axes of the copy, which may be none.
    pub fn axes(&self) -> PerDimension<Axis<'_>> {
        self.axes.iter().map(Step::axis).collect()
    }

    /// Where the copy begins in both arrays.
    pub fn begin(&self, from: *const u8, to: *mut u8) -> (*const u8, *mut u8) {
        match self.way {
            Way::Out => (from.wrapping_offset(self.start), to),
            Way::In => (from, to.wrapping_offset(self.start)),
        }
    }

    /// Copy items from one array to the other.
    ///
    /// # Errors
    /// `Kind::Internal` if a thread fails.
    ///
    /// # Safety
    /// The arrays are those that the steps were made for; the items of one are readable, those of the other
    /// writable, and the two are apart.
    pub unsafe fn run(&self, from: *const u8, to: *mut u8, item: Item) -> Result<()> {
        let (from, to) = self.begin(from, to);
        let axes = self.axes();
        let count = |axis: &Axis<'_>| match axis {
            Axis::Strided { count, .. } => *count,
            Axis::List { offsets } => offsets.len(),
        };
        let bytes = axes.iter().map(count).product::<usize>().saturating_mul(item.bytes);
        copy::in_pieces(&axes, (from, to), bytes / TASK_BYTES, &|axes, from, to| {
            // SAFETY: the caller's promise; pieces are apart.
            unsafe { copy::copy(from, to, axes, item) };
        })
    }
}

impl Step {
    fn axis(&self) -> Axis<'_> {
        match self {
            Step::Strided(count, src, dst) => Axis::Strided { count: *count, src: *src, dst: *dst },
            Step::List(offsets) => Axis::List { offsets },
        }
    }
}

impl View {
    /// Where the view of an array begins, and its strides; None if it has index arrays.
    ///
    /// # Errors
    /// `Kind::Selection` if a position is outside of the array, or a bound of the view is infinite.
    pub fn strided(
        &self,
        shape: &[usize],
        strides: &[isize],
    ) -> Result<Option<(isize, PerDimension<isize>)>> {
        if self.maps.iter().any(|map| matches!(map.source, Source::Array(_))) {
            return Ok(None);
        }
        let size = self.checked(shape)?;
        if size.contains(&0) {
            return Ok(Some((0, size.iter().map(|_| 0).collect())));
        }
        Ok(Some(self.walked(strides)))
    }

    /// Whether each element of an array of a shape surely has a position.
    pub fn covers(&self, shape: &[i64]) -> bool {
        let mut seen: PerDimension<usize> = PerDimension::new();
        self.maps.len() == shape.len()
            && self.maps.iter().zip(shape).all(|(map, &len)| match map.source {
                _ if len == 1 => true,
                Source::Dimension(k) => {
                    let again = seen.contains(&k);
                    seen.push(k);
                    !again && map.stride.abs() == 1 && self.dims[k].size() == len
                }
                _ => false,
            })
    }

    /// Where the position at the origin is, as far as index arrays do not say so, and how far apart its
    /// neighbours are.
    fn walked(&self, strides: &[isize]) -> (isize, PerDimension<isize>) {
        let mut start = 0;
        let mut steps: PerDimension<isize> = self.dims.iter().map(|_| 0).collect();
        for (map, stride) in self.maps.iter().zip(strides) {
            let mut first = if followed(map) == 0 { map.fixed() } else { map.offset };
            if let Source::Dimension(k) = map.source {
                first += map.stride * self.dims[k].lower;
                steps[k] += map.stride as isize * stride;
            }
            start += first as isize * stride;
        }
        (start, steps)
    }

    /// The steps of a copy between an array and items, both of which have strides.
    ///
    /// # Errors
    /// `Kind::Selection` if a position is outside of the array, or a bound of the view is infinite.
    pub fn steps(&self, shape: &[usize], strides: &[isize], items: &[isize], way: Way) -> Result<Steps> {
        let size = self.checked(shape)?;
        if size.contains(&0) {
            return Ok(Steps { start: 0, way, axes: PerDimension::from_iter([Step::Strided(0, 0, 0)]) });
        }
        let (start, steps) = self.walked(strides);
        let groups = self.groups();
        let mut axes = PerDimension::new();
        for (k, &count) in size.iter().enumerate() {
            match groups.iter().find(|&&group| group >> k & 1 == 1) {
                None => axes.push(match way {
                    Way::Out => Step::Strided(count, steps[k], items[k]),
                    Way::In => Step::Strided(count, items[k], steps[k]),
                }),
                Some(group) if group.trailing_zeros() as usize == k => {
                    let mut places = self.places(*group, &size, &steps, strides, items);
                    if way == Way::In {
                        places.iter_mut().for_each(|place| *place = (place.1, place.0));
                    }
                    axes.push(Step::List(places));
                }
                Some(_) => {}
            }
        }
        Ok(Steps { start, way, axes })
    }

    /// The dimensions along which index arrays vary, those together that belong together: a bit for each.
    fn groups(&self) -> PerDimension<u64> {
        let mut groups: PerDimension<u64> = PerDimension::new();
        for map in self.maps.iter().filter(|map| matches!(map.source, Source::Array(_))) {
            let mut group = followed(map);
            groups.retain(|other| {
                let apart = *other & group == 0;
                group |= if apart { 0 } else { *other };
                apart
            });
            if group != 0 {
                groups.push(group);
            }
        }
        groups
    }

    /// The places of a group of dimensions in the array and in the items, in C order.
    fn places(
        &self,
        group: u64,
        size: &[usize],
        steps: &[isize],
        strides: &[isize],
        items: &[isize],
    ) -> Vec<(isize, isize)> {
        let dims: PerDimension<usize> = (0..size.len()).filter(|k| group >> k & 1 == 1).collect();
        let shape: PerDimension<usize> = dims.iter().map(|&k| size[k]).collect();
        let along = |strides: &[isize]| -> PerDimension<indices::Axis> {
            dims.iter().map(|&k| indices::Axis { len: size[k], stride: strides[k] }).collect()
        };
        let mut places = Vec::with_capacity(shape.iter().product());
        walk(&along(items), 0, &mut |at, stride, count| {
            places.extend((0..count as isize).map(|step| (0, at + step * stride)));
        });
        if dims.iter().any(|&k| steps[k] != 0) {
            let mut place = places.iter_mut();
            walk(&along(steps), 0, &mut |at, stride, count| {
                for (step, place) in (0..count as isize).zip(&mut place) {
                    place.0 += at + step * stride;
                }
            });
        }
        for (map, &stride) in self.maps.iter().zip(strides) {
            let Source::Array(listed) = &map.source else { continue };
            if followed(map) & group == 0 {
                continue;
            }
            let axes: PerDimension<indices::Axis> = dims.iter().map(|&k| listed.indices.axis(k)).collect();
            let by = map.stride as isize * stride;
            let mut place = places.iter_mut();
            listed.indices.gathered(&broadcast(&axes, &shape), |item| {
                if let Some(place) = place.next() {
                    place.0 += item as isize * by;
                }
            });
        }
        places
    }
}
