//! Index arrays: integers in shared memory, with arbitrary strides.

use std::cmp::Ordering;
use std::sync::Arc;

use super::PerDimension;

/// An array of indices. Parts share its memory.
#[derive(Clone, Debug)]
pub struct Indices {
    items: Arc<Vec<i64>>,
    start: usize,
    axes: PerDimension<Axis>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Axis {
    pub(super) len: usize,
    pub(super) stride: isize,
}

const ONE: Axis = Axis { len: 1, stride: 0 };

/// Adds `offset + stride * indices`, times the stride `by` of an axis, to positions.
struct List<'a> {
    indices: &'a Indices,
    offset: i64,
    stride: i64,
    by: isize,
}

/// How one axis of an index array is indexed; all positions are valid.
pub(super) enum Walk<'a> {
    /// By one position.
    At(usize),
    /// By a range with a step, along the axis `to` of the result.
    Along { to: usize, first: usize, step: i64, count: usize },
    /// By the positions `offset + stride * indices`, which have the axes of the result.
    Listed { indices: &'a Indices, offset: i64, stride: i64 },
}

impl Indices {
    /// Create an array from items in C order; None if their number does not match the shape.
    pub fn new(items: Vec<i64>, shape: &[usize]) -> Option<Indices> {
        let mut axes: PerDimension<Axis> = shape.iter().map(|&len| Axis { len, stride: 0 }).collect();
        let mut size = 1usize;
        for axis in axes.iter_mut().rev().filter(|axis| axis.len != 1) {
            axis.stride = size as isize;
            size = size.checked_mul(axis.len)?;
        }
        (size == items.len()).then(|| Indices { items: Arc::new(items), start: 0, axes })
    }

    /// The positions where a mask is true, in C order: one array per axis. None if the shape does
    /// not match.
    pub fn places(mask: &[bool], shape: &[usize]) -> Option<Vec<Indices>> {
        if shape.iter().product::<usize>() != mask.len() {
            return None;
        }
        // Branch-free, because branches would be mispredicted: every position is written, and the
        // next one overwrites it where the mask is false.
        let count = mask.iter().filter(|&&is| is).count();
        let mut places = vec![0; count + 1];
        let mut found = 0;
        for (place, &is) in mask.iter().enumerate() {
            places[found] = place as i64;
            found += usize::from(is);
        }
        places.truncate(count);
        if let [_] = shape {
            return Indices::new(places, &[count]).map(|list| vec![list]);
        }
        let mut lists = Vec::with_capacity(shape.len());
        for &len in shape.iter().rev() {
            lists.push(Indices::new(places.iter().map(|place| place % len as i64).collect(), &[count])?);
            places.iter_mut().for_each(|place| *place /= len as i64);
        }
        lists.reverse();
        Some(lists)
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.axes.len()
    }

    /// The length of an axis.
    pub fn len(&self, axis: usize) -> usize {
        self.axes[axis].len
    }

    /// Whether the array runs along an axis. A part with one item left still does, and repeats it,
    /// as in TensorStore.
    pub fn varies(&self, axis: usize) -> bool {
        self.axes[axis] != ONE
    }

    /// The length of each axis.
    pub fn shape(&self) -> PerDimension<usize> {
        self.axes.iter().map(|axis| axis.len).collect()
    }

    /// The absolute stride of each axis in items; 0 for length 1.
    pub fn apart(&self) -> PerDimension<usize> {
        self.axes.iter().map(|axis| if axis.len == 1 { 0 } else { axis.stride.unsigned_abs() }).collect()
    }

    /// The number of items.
    pub fn size(&self) -> usize {
        self.axes.iter().map(|axis| axis.len).product()
    }

    /// The first item, if any.
    pub fn first(&self) -> Option<i64> {
        if self.size() == 0 {
            return None;
        }
        self.items.get(self.start).copied()
    }

    /// The least and the greatest item, if any.
    pub fn ends(&self) -> Option<(i64, i64)> {
        let first = self.first()?;
        let (mut least, mut most) = (first, first);
        self.gathered(&self.axes, |item| (least, most) = (least.min(item), most.max(item)));
        Some((least, most))
    }

    /// Whether all items are in `[lower, upper)`, an interval of indices.
    pub(super) fn all_within(&self, lower: i64, upper: i64) -> bool {
        // An item outside sets the sign of one of the differences, even if it wraps. Without
        // branches the loop is vectorised.
        let mut outside = 0;
        let mut look = |item: i64| outside |= item.wrapping_sub(lower) | (upper - 1).wrapping_sub(item);
        match self.row(&self.shape()) {
            Some(row) => row.iter().for_each(|&item| look(item)),
            None => self.gathered(&self.axes, look),
        }
        outside >= 0
    }

    /// One axis.
    pub(super) fn axis(&self, axis: usize) -> Axis {
        self.axes[axis]
    }

    /// The items in C order.
    pub fn to_vec(&self) -> Vec<i64> {
        let mut found = Vec::with_capacity(self.size());
        self.gathered(&self.axes, |item| found.push(item));
        found
    }

    /// The same items in an array of `rank` axes, with the axes at `places` and others of length 1.
    pub(super) fn placed(&self, places: &[usize], rank: usize) -> Indices {
        let mut axes: PerDimension<Axis> = (0..rank).map(|_| ONE).collect();
        // A broadcast array may have fewer axes than places: they match from the end.
        for (&place, axis) in places.iter().rev().zip(self.axes.iter().rev()) {
            axes[place] = *axis;
        }
        Indices { items: self.items.clone(), start: self.start, axes }
    }

    /// The same items with reordered axes.
    pub(super) fn permuted(&self, order: impl Iterator<Item = usize>) -> Indices {
        let axes = order.map(|axis| self.axes[axis]).collect();
        Indices { items: self.items.clone(), start: self.start, axes }
    }

    /// The same items, constant along those axes that have length 1.
    pub(super) fn staying(&self, along: &[usize]) -> Indices {
        let mut axes = self.axes.clone();
        for &k in along.iter().filter(|&&k| self.axes[k].len == 1) {
            axes[k] = ONE;
        }
        Indices { items: self.items.clone(), start: self.start, axes }
    }

    /// Index some axes; the others have length 1.
    pub(super) fn walked(&self, walks: &[(usize, Walk<'_>)], rank: usize) -> Indices {
        let mut start = self.start as isize;
        let mut axes: PerDimension<Axis> = (0..rank).map(|_| ONE).collect();
        let mut lists = PerDimension::new();
        for (k, walk) in walks {
            let stride = self.axes[*k].stride;
            match walk {
                Walk::At(place) => start += *place as isize * stride,
                Walk::Along { to, first, step, count } => {
                    start += *first as isize * stride;
                    // Two axes along one of the result are a diagonal: both strides add up.
                    axes[*to].len = *count;
                    axes[*to].stride += *step as isize * stride;
                }
                Walk::Listed { indices, offset, stride: by } => {
                    lists.push(List { indices, offset: *offset, stride: *by, by: stride });
                }
            }
        }
        match lists.is_empty() {
            true => Indices { items: self.items.clone(), start: start as usize, axes },
            false => self.listed(start, &axes, &lists),
        }
    }

    /// The items at strided positions, moved by lists.
    fn listed(&self, start: isize, axes: &[Axis], lists: &[List<'_>]) -> Indices {
        let mut shape: PerDimension<usize> = axes.iter().map(|axis| axis.len).collect();
        for list in lists {
            for (len, axis) in shape.iter_mut().zip(&list.indices.axes) {
                *len = if *len == 1 { axis.len } else { *len };
            }
        }
        let order = slowest_first(axes, lists);
        let laid = |axes: &[Axis]| -> PerDimension<Axis> {
            let repeated = broadcast(axes, &shape);
            order.iter().map(|&k| repeated[k]).collect()
        };
        let mut items = Vec::with_capacity(shape.iter().product());
        if let ([list], true) = (lists, axes.iter().all(|axis| axis.stride == 0)) {
            let (from, by) = (&self.items[..], list.by as i64);
            let (first, by) =
                (list.offset.wrapping_mul(by).wrapping_add(start as i64), list.stride.wrapping_mul(by));
            let item = |index: i64| from[first.wrapping_add(by.wrapping_mul(index)) as usize];
            match list.indices.row(&shape) {
                Some(row) => items.extend(row.iter().map(|&index| item(index))),
                None => list.indices.gathered(&laid(&list.indices.axes), |index| items.push(item(index))),
            }
        } else {
            // The positions of all items: strided axes first, then the contribution of each list.
            let mut places = Vec::with_capacity(shape.iter().product());
            walk(&laid(axes), 0, &mut |at, stride, count| {
                places.extend((0..count as isize).map(|step| start + at + step * stride));
            });
            for list in lists {
                let mut place = places.iter_mut();
                let by = list.by as i64;
                let (offset, by) = (list.offset.wrapping_mul(by), list.stride.wrapping_mul(by));
                list.indices.gathered(&laid(&list.indices.axes), |index| {
                    if let Some(place) = place.next() {
                        *place += offset.wrapping_add(by.wrapping_mul(index)) as isize;
                    }
                });
            }
            items.extend(places.into_iter().map(|place: isize| self.items[place as usize]));
        }
        self.made(items, &shape, &order)
    }

    /// The items as a slice, if they are contiguous in C order of `shape`.
    fn row(&self, shape: &[usize]) -> Option<&[i64]> {
        let mut next = 1;
        for (axis, &len) in self.axes.iter().zip(shape).rev().filter(|(_, &len)| len != 1) {
            if *axis != (Axis { len, stride: next }) {
                return None;
            }
            next *= len as isize;
        }
        self.items.get(self.start..self.start + next as usize)
    }

    /// An array from the right number of items, which are in the given order of axes.
    fn made(&self, items: Vec<i64>, shape: &[usize], order: &[usize]) -> Indices {
        let lengths: PerDimension<usize> = order.iter().map(|&k| shape[k]).collect();
        let Some(laid) = Indices::new(items, &lengths) else {
            return self.clone();
        };
        let mut axes: PerDimension<Axis> = laid.axes.clone();
        for (&k, axis) in order.iter().zip(&laid.axes) {
            axes[k] = *axis;
        }
        Indices { axes, ..laid }
    }

    /// Call `take` with the items at `axes` in C order.
    pub(super) fn gathered(&self, axes: &[Axis], mut take: impl FnMut(i64)) {
        walk(axes, self.start as isize, &mut |at, stride, count| {
            if stride == 1 {
                self.items[at as usize..at as usize + count].iter().for_each(|&item| take(item));
            } else {
                for step in 0..count as isize {
                    take(self.items[(at + step * stride) as usize]);
                }
            }
        });
    }
}

/// The axes of the result, slowest first, in TensorStore's order, which specs of arrays in memory
/// show: axes of lists (the first list first), then by stride.
fn slowest_first(axes: &[Axis], lists: &[List<'_>]) -> PerDimension<usize> {
    let farther =
        |axes: &[Axis], a: usize, b: usize| axes[b].stride.unsigned_abs().cmp(&axes[a].stride.unsigned_abs());
    let listed = |k: usize| lists.iter().any(|list| list.indices.axes[k].stride != 0);
    let mut order: PerDimension<usize> = (0..axes.len()).collect();
    order.sort_by(|&a, &b| {
        let among = lists.iter().map(|list| farther(&list.indices.axes, a, b));
        listed(b)
            .cmp(&listed(a))
            .then_with(|| among.fold(Ordering::Equal, Ordering::then))
            .then_with(|| farther(axes, a, b))
    });
    order
}

/// Broadcast axes to a shape.
pub(super) fn broadcast(axes: &[Axis], shape: &[usize]) -> PerDimension<Axis> {
    let repeated = |(axis, &len): (&Axis, &usize)| match axis.len == len {
        true => *axis,
        false => Axis { len, stride: 0 },
    };
    axes.iter().zip(shape).map(repeated).collect()
}

/// Call `row` with the start, the stride and the length of each row.
pub(super) fn walk(axes: &[Axis], start: isize, row: &mut impl FnMut(isize, isize, usize)) {
    // Axes of length 1 are skipped: rows are as long as possible.
    match axes.iter().rposition(|axis| axis.len != 1) {
        None => row(start, 1, 1),
        Some(0) => row(start, axes[0].stride, axes[0].len),
        Some(last) => {
            let first = axes.iter().position(|axis| axis.len != 1).unwrap_or(last);
            if first == last {
                return row(start, axes[last].stride, axes[last].len);
            }
            for place in 0..axes[first].len as isize {
                walk(&axes[first + 1..=last], start + place * axes[first].stride, row);
            }
        }
    }
}

impl PartialEq for Indices {
    fn eq(&self, other: &Self) -> bool {
        self.shape() == other.shape() && self.to_vec() == other.to_vec()
    }
}

impl Eq for Indices {}
