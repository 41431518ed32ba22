//! Index arrays: integers in shared memory, with arbitrary strides.

use std::cmp::Ordering;
use std::sync::Arc;

use super::PerDimension;

/// An array of indices. Parts share its memory.
#[derive(Clone, Debug)]
pub struct IndexArray {
    items: Arc<Vec<i64>>,
    start: usize,
    axes: PerDimension<Axis>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Axis {
    pub(super) len: usize,
    pub(super) stride: isize,
}

const UNIT_AXIS: Axis = Axis { len: 1, stride: 0 };

/// Adds `offset + stride * indices`, times the stride `by` of an axis, to positions.
struct List<'a> {
    indices: &'a IndexArray,
    offset: i64,
    stride: i64,
    by: isize,
}

/// How one axis of an index array is indexed; all positions are valid.
pub(super) enum AxisIndexing<'a> {
    /// By one position.
    Position(usize),
    /// By a range with a step, along the axis `to` of the result.
    Strided { to: usize, first: usize, step: i64, count: usize },
    /// By the positions `offset + stride * indices`, which have the axes of the result.
    Array { indices: &'a IndexArray, offset: i64, stride: i64 },
}

impl IndexArray {
    /// Create an array from items in C order; None if their number does not match the shape.
    pub fn new(items: Vec<i64>, shape: &[usize]) -> Option<IndexArray> {
        let mut axes: PerDimension<Axis> = shape.iter().map(|&len| Axis { len, stride: 0 }).collect();
        let mut size = 1usize;
        for axis in axes.iter_mut().rev().filter(|axis| axis.len != 1) {
            axis.stride = size as isize;
            size = size.checked_mul(axis.len)?;
        }
        (size == items.len()).then(|| IndexArray { items: Arc::new(items), start: 0, axes })
    }

    /// Return the positions where a mask is true, in C order: one array per axis. None if the shape
    /// does not match.
    pub fn from_mask(mask: &[bool], shape: &[usize]) -> Option<Vec<IndexArray>> {
        if shape.iter().product::<usize>() != mask.len() {
            return None;
        }
        // Branch-free, because branches would be mispredicted: every position is written, and the
        // next one overwrites it where the mask is false.
        let count = mask.iter().filter(|&&is_set| is_set).count();
        let mut item_indices = vec![0; count + 1];
        let mut count_set = 0;
        for (item_index, &is_set) in mask.iter().enumerate() {
            item_indices[count_set] = item_index as i64;
            count_set += usize::from(is_set);
        }
        item_indices.truncate(count);
        if let [_] = shape {
            return IndexArray::new(item_indices, &[count]).map(|list| vec![list]);
        }
        let mut lists = Vec::with_capacity(shape.len());
        for &len in shape.iter().rev() {
            lists.push(IndexArray::new(
                item_indices.iter().map(|item_index| item_index % len as i64).collect(),
                &[count],
            )?);
            item_indices.iter_mut().for_each(|item_index| *item_index /= len as i64);
        }
        lists.reverse();
        Some(lists)
    }

    /// Return the number of axes.
    pub fn rank(&self) -> usize {
        self.axes.len()
    }

    /// Return the length of an axis.
    pub fn len(&self, axis: usize) -> usize {
        self.axes[axis].len
    }

    /// Return whether the array runs along an axis. A part with one item left still does, and
    /// repeats it, as in TensorStore.
    pub fn varies(&self, axis: usize) -> bool {
        self.axes[axis] != UNIT_AXIS
    }

    /// Return the length of each axis.
    pub fn shape(&self) -> PerDimension<usize> {
        self.axes.iter().map(|axis| axis.len).collect()
    }

    /// Return the absolute stride of each axis in items; 0 for length 1.
    pub fn item_strides(&self) -> PerDimension<usize> {
        self.axes.iter().map(|axis| if axis.len == 1 { 0 } else { axis.stride.unsigned_abs() }).collect()
    }

    /// Return the number of items.
    pub fn size(&self) -> usize {
        self.axes.iter().map(|axis| axis.len).product()
    }

    /// Return the first item, if any.
    pub fn first(&self) -> Option<i64> {
        if self.size() == 0 {
            return None;
        }
        self.items.get(self.start).copied()
    }

    /// Return the least and the greatest item, if any.
    pub fn min_max(&self) -> Option<(i64, i64)> {
        let first = self.first()?;
        let (mut min, mut max) = (first, first);
        self.for_each(&self.axes, |item| (min, max) = (min.min(item), max.max(item)));
        Some((min, max))
    }

    /// Return whether all items are in `[lower, upper)`, an interval of indices.
    pub(super) fn all_within(&self, lower: i64, upper: i64) -> bool {
        // An item outside sets the sign of one of the differences, even if it wraps. Without
        // branches the loop is vectorised.
        let mut outside = 0;
        let mut check_item = |item: i64| outside |= item.wrapping_sub(lower) | (upper - 1).wrapping_sub(item);
        match self.as_contiguous(&self.shape()) {
            Some(row) => row.iter().for_each(|&item| check_item(item)),
            None => self.for_each(&self.axes, check_item),
        }
        outside >= 0
    }

    /// Return one axis.
    pub(super) fn axis(&self, axis: usize) -> Axis {
        self.axes[axis]
    }

    /// Return the items in C order.
    pub fn to_vec(&self) -> Vec<i64> {
        let mut items = Vec::with_capacity(self.size());
        self.for_each(&self.axes, |item| items.push(item));
        items
    }

    /// Return the same items in an array of `rank` axes, with the axes at `positions` and others of
    /// length 1.
    pub(super) fn with_axes_at(&self, positions: &[usize], rank: usize) -> IndexArray {
        let mut axes: PerDimension<Axis> = (0..rank).map(|_| UNIT_AXIS).collect();
        // A broadcast array may have fewer axes than `positions`: they match from the end.
        for (&position, axis) in positions.iter().rev().zip(self.axes.iter().rev()) {
            axes[position] = *axis;
        }
        IndexArray { items: self.items.clone(), start: self.start, axes }
    }

    /// Return the same items with reordered axes.
    pub(super) fn transposed(&self, order: impl Iterator<Item = usize>) -> IndexArray {
        let axes = order.map(|axis| self.axes[axis]).collect();
        IndexArray { items: self.items.clone(), start: self.start, axes }
    }

    /// Return the same items, constant along those axes that have length 1.
    pub(super) fn without_unit_axes(&self, along: &[usize]) -> IndexArray {
        let mut axes = self.axes.clone();
        for &k in along.iter().filter(|&&k| self.axes[k].len == 1) {
            axes[k] = UNIT_AXIS;
        }
        IndexArray { items: self.items.clone(), start: self.start, axes }
    }

    /// Index some axes; the others have length 1.
    pub(super) fn indexed(&self, axes_indexing: &[(usize, AxisIndexing<'_>)], rank: usize) -> IndexArray {
        let mut start = self.start as isize;
        let mut axes: PerDimension<Axis> = (0..rank).map(|_| UNIT_AXIS).collect();
        let mut lists = PerDimension::new();
        for (k, indexing) in axes_indexing {
            let stride = self.axes[*k].stride;
            match indexing {
                AxisIndexing::Position(item_index) => start += *item_index as isize * stride,
                AxisIndexing::Strided { to, first, step, count } => {
                    start += *first as isize * stride;
                    // Two axes along one of the result are a diagonal: both strides add up.
                    axes[*to].len = *count;
                    axes[*to].stride += *step as isize * stride;
                }
                AxisIndexing::Array { indices, offset, stride: by } => {
                    lists.push(List { indices, offset: *offset, stride: *by, by: stride });
                }
            }
        }
        match lists.is_empty() {
            true => IndexArray { items: self.items.clone(), start: start as usize, axes },
            false => self.gather(start, &axes, &lists),
        }
    }

    /// Return the items at strided positions, moved by lists.
    fn gather(&self, start: isize, axes: &[Axis], lists: &[List<'_>]) -> IndexArray {
        let mut shape: PerDimension<usize> = axes.iter().map(|axis| axis.len).collect();
        for list in lists {
            for (len, axis) in shape.iter_mut().zip(&list.indices.axes) {
                *len = if *len == 1 { axis.len } else { *len };
            }
        }
        let order = axes_slowest_first(axes, lists);
        let reordered = |axes: &[Axis]| -> PerDimension<Axis> {
            let repeated = broadcast(axes, &shape);
            order.iter().map(|&k| repeated[k]).collect()
        };
        let mut items = Vec::with_capacity(shape.iter().product());
        if let ([list], true) = (lists, axes.iter().all(|axis| axis.stride == 0)) {
            let (from, by) = (&self.items[..], list.by as i64);
            let (first, by) =
                (list.offset.wrapping_mul(by).wrapping_add(start as i64), list.stride.wrapping_mul(by));
            let item = |index: i64| from[first.wrapping_add(by.wrapping_mul(index)) as usize];
            match list.indices.as_contiguous(&shape) {
                Some(row) => items.extend(row.iter().map(|&index| item(index))),
                None => {
                    list.indices.for_each(&reordered(&list.indices.axes), |index| items.push(item(index)))
                }
            }
        } else {
            // The positions of all items: strided axes first, then the contribution of each list.
            let mut item_indices = Vec::with_capacity(shape.iter().product());
            for_each_row(&reordered(axes), 0, &mut |position, stride, count| {
                item_indices.extend((0..count as isize).map(|step| start + position + step * stride));
            });
            for list in lists {
                let mut item_index = item_indices.iter_mut();
                let by = list.by as i64;
                let (offset, by) = (list.offset.wrapping_mul(by), list.stride.wrapping_mul(by));
                list.indices.for_each(&reordered(&list.indices.axes), |index| {
                    if let Some(item_index) = item_index.next() {
                        *item_index += offset.wrapping_add(by.wrapping_mul(index)) as isize;
                    }
                });
            }
            items.extend(item_indices.into_iter().map(|item_index: isize| self.items[item_index as usize]));
        }
        self.with_axis_order(items, &shape, &order)
    }

    /// Return the items as a slice, if they are contiguous in C order of `shape`.
    fn as_contiguous(&self, shape: &[usize]) -> Option<&[i64]> {
        let mut next = 1;
        for (axis, &len) in self.axes.iter().zip(shape).rev().filter(|(_, &len)| len != 1) {
            if *axis != (Axis { len, stride: next }) {
                return None;
            }
            next *= len as isize;
        }
        self.items.get(self.start..self.start + next as usize)
    }

    /// Return an array with `items`, whose axes are in the order `order`.
    fn with_axis_order(&self, items: Vec<i64>, shape: &[usize], order: &[usize]) -> IndexArray {
        let lengths: PerDimension<usize> = order.iter().map(|&k| shape[k]).collect();
        let Some(reordered) = IndexArray::new(items, &lengths) else {
            return self.clone();
        };
        let mut axes: PerDimension<Axis> = reordered.axes.clone();
        for (&k, axis) in order.iter().zip(&reordered.axes) {
            axes[k] = *axis;
        }
        IndexArray { axes, ..reordered }
    }

    /// Call `take` with the items at `axes` in C order.
    pub(super) fn for_each(&self, axes: &[Axis], mut take: impl FnMut(i64)) {
        for_each_row(axes, self.start as isize, &mut |position, stride, count| {
            if stride == 1 {
                self.items[position as usize..position as usize + count].iter().for_each(|&item| take(item));
            } else {
                for step in 0..count as isize {
                    take(self.items[(position + step * stride) as usize]);
                }
            }
        });
    }
}

/// Return the axes of the result, slowest first, in TensorStore's order, which specs of arrays in
/// memory show: axes of lists (the first list first), then by stride.
fn axes_slowest_first(axes: &[Axis], lists: &[List<'_>]) -> PerDimension<usize> {
    let by_stride =
        |axes: &[Axis], a: usize, b: usize| axes[b].stride.unsigned_abs().cmp(&axes[a].stride.unsigned_abs());
    let gather = |k: usize| lists.iter().any(|list| list.indices.axes[k].stride != 0);
    let mut order: PerDimension<usize> = (0..axes.len()).collect();
    order.sort_by(|&a, &b| {
        let by_lists = lists.iter().map(|list| by_stride(&list.indices.axes, a, b));
        gather(b)
            .cmp(&gather(a))
            .then_with(|| by_lists.fold(Ordering::Equal, Ordering::then))
            .then_with(|| by_stride(axes, a, b))
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
pub(super) fn for_each_row(axes: &[Axis], start: isize, row: &mut impl FnMut(isize, isize, usize)) {
    // Axes of length 1 are skipped: rows are as long as possible.
    match axes.iter().rposition(|axis| axis.len != 1) {
        None => row(start, 1, 1),
        Some(0) => row(start, axes[0].stride, axes[0].len),
        Some(last) => {
            let first = axes.iter().position(|axis| axis.len != 1).unwrap_or(last);
            if first == last {
                return row(start, axes[last].stride, axes[last].len);
            }
            for item_index in 0..axes[first].len as isize {
                for_each_row(&axes[first + 1..=last], start + item_index * axes[first].stride, row);
            }
        }
    }
}

impl PartialEq for IndexArray {
    fn eq(&self, other: &Self) -> bool {
        self.shape() == other.shape() && self.to_vec() == other.to_vec()
    }
}

impl Eq for IndexArray {}
