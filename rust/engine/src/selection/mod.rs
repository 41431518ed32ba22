//! Selections of array elements, and their division among the cells of a grid.
//!
//! For each axis a selection maps array indices to positions of the caller's buffer. An axis has
//! one of three forms, in any combination: a *range* (start, step, count), a *list* (one axis of an
//! outer selection), or *joint* (points, whose joint axes are iterated together). Indices stay
//! absolute at every level of sharding; only the pieces get shorter, so the same [`divide`] serves
//! the grid of the array and the grid inside a shard.
//!
//! Lists are sorted by index once, so every cell at every level owns one contiguous slice of them.
//! The sort is stable: the last of repeated indices stays last, and wins when written.

use smallvec::SmallVec;

use crate::array::PerAxis;
use crate::copy::Axis as CopyAxis;
use crate::error::{Error, Result};

mod divide;

pub use divide::{divide, Division};

/// One array index and its byte offset in the caller's buffer.
#[derive(Clone, Copy, Debug)]
pub struct ListEntry {
    /// The index along the array's axis.
    pub index: i64,
    /// The byte offset in the caller's buffer.
    pub offset: isize,
}

/// One axis of a selection, as the caller passes it.
pub enum Request<'a> {
    /// `count` indices from `start`, every `step`; `stride` bytes from each other in the buffer.
    Range {
        /// The first index.
        start: i64,
        /// The distance between indices; it may be negative.
        step: i64,
        /// The number of indices.
        count: usize,
        /// The byte stride in the caller's buffer.
        stride: isize,
    },
    /// Any indices, `stride` bytes from each other in the buffer.
    List {
        /// The indices.
        indices: &'a [i64],
        /// The byte stride in the caller's buffer.
        stride: isize,
    },
    /// Indices that are iterated together with those of the other joint axes.
    Joint {
        /// The indices.
        indices: &'a [i64],
        /// The byte stride in the caller's buffer, the same for all joint axes.
        stride: isize,
    },
}

/// A range of bytes of every selected item, and its position in an item of the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The first byte in the array's item.
    pub item: usize,
    /// The first byte in the caller's item.
    pub caller: usize,
    /// The number of bytes.
    pub bytes: usize,
}

/// A selection, checked against the shape of the array.
pub struct Selection {
    axes: PerAxis<AxisForm>,
    points: Points,
    fields: Vec<Field>,
    whole_items: bool,
}

/// Indices at equal distances, and the byte stride between them in the caller's buffer.
#[derive(Clone, Copy)]
struct IndexRange {
    start: i64,
    step: i64,
    count: usize,
    stride: isize,
}

impl IndexRange {
    /// Return the last index of a range that is not empty.
    fn last(&self) -> i64 {
        self.start + self.step * (self.count as i64 - 1)
    }

    /// Return the least and the greatest index of a range that is not empty.
    fn bounds(&self) -> (i64, i64) {
        (self.start.min(self.last()), self.start.max(self.last()))
    }

    /// Return the range of some positions.
    fn part(self, positions: std::ops::Range<usize>) -> IndexRange {
        IndexRange { start: self.start + self.step * positions.start as i64, count: positions.len(), ..self }
    }
}

enum AxisForm {
    Range(IndexRange),
    List(Vec<ListEntry>),
    Joint(usize),
}

#[derive(Default)]
struct Points {
    /// One index per point for each joint axis.
    columns: Vec<Vec<i64>>,
    /// The array axis of each column.
    axes: Vec<usize>,
    count: usize,
    stride: isize,
}

impl Selection {
    /// Check `requests` against `shape`.
    ///
    /// # Errors
    /// `Kind::Selection` if an index is out of bounds or joint lists differ in length.
    pub fn new(requests: &[Request<'_>], shape: &[u64]) -> Result<Selection> {
        if requests.len() != shape.len() {
            return Err(Error::selection(format!(
                "{} axes are selected, the array has {}",
                requests.len(),
                shape.len()
            )));
        }
        // Copy the indices first and check the copy: another thread may change the caller's.
        let mut axes = PerAxis::new();
        let mut points = Points::default();
        for (axis, (request, &size)) in requests.iter().zip(shape).enumerate() {
            axes.push(match *request {
                Request::Range { start, step, count, stride } => {
                    check_range(start, step, count, size, axis)?;
                    // Without a second index the step may be any number, and its products would
                    // overflow.
                    let step = if count > 1 { step } else { 1 };
                    AxisForm::Range(IndexRange { start, step, count, stride })
                }
                Request::List { indices, stride } => {
                    let entries = indices.iter().enumerate();
                    let mut entries: Vec<ListEntry> = entries
                        .map(|(position, &index)| ListEntry { index, offset: position as isize * stride })
                        .collect();
                    check_indices(entries.iter().map(|entry| entry.index), size, axis)?;
                    if !entries.is_sorted_by_key(|entry| entry.index) {
                        entries.sort_by_key(|entry| entry.index);
                    }
                    AxisForm::List(entries)
                }
                Request::Joint { indices, stride } => {
                    let column = indices.to_vec();
                    check_indices(column.iter().copied(), size, axis)?;
                    if !points.columns.is_empty() && points.count != indices.len() {
                        return Err(Error::selection(format!(
                            "joint axes have {} and {} indices",
                            points.count,
                            indices.len()
                        )));
                    }
                    if !points.columns.is_empty() && points.stride != stride {
                        return Err(Error::selection("joint axes have different strides"));
                    }
                    if indices.len() > u32::MAX as usize {
                        return Err(Error::selection("more than 2^32 points in one selection"));
                    }
                    points.count = indices.len();
                    points.stride = stride;
                    points.axes.push(axis);
                    points.columns.push(column);
                    AxisForm::Joint(points.columns.len() - 1)
                }
            });
        }
        Ok(Selection { axes, points, fields: Vec::new(), whole_items: true })
    }

    /// Select only `fields` of every item of `item_bytes` bytes; an empty list selects all bytes.
    ///
    /// # Errors
    /// `Kind::Selection` if a field exceeds the item or overlaps another.
    pub fn with_fields(mut self, mut fields: Vec<Field>, item_bytes: usize) -> Result<Selection> {
        fields.sort_unstable_by_key(|field| field.item);
        let mut end = 0;
        for field in &fields {
            if field.item < end {
                return Err(Error::selection(format!("two fields have byte {}", field.item)));
            }
            end = field.item.saturating_add(field.bytes);
        }
        if end > item_bytes {
            return Err(Error::selection(format!("a field ends past an item of {item_bytes} bytes")));
        }
        self.whole_items =
            fields.is_empty() || fields.iter().map(|field| field.bytes).sum::<usize>() == item_bytes;
        self.fields = fields;
        Ok(self)
    }

    /// Return the whole selection as one piece.
    pub fn piece(&self) -> Piece<'_> {
        let axes = self.axes.iter().map(|form| match form {
            AxisForm::Range(range) => AxisPart::Range(*range),
            AxisForm::List(entries) => AxisPart::List(entries),
            AxisForm::Joint(column) => AxisPart::Joint(*column),
        });
        let ids = (!self.points.columns.is_empty()).then_some(Ids::All(self.points.count));
        Piece { axes: axes.collect(), selection: self, ids, offset: 0 }
    }
}

fn check_range(start: i64, step: i64, count: usize, size: u64, axis: usize) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    let last =
        i64::try_from(count - 1).ok().and_then(|n| n.checked_mul(step)).and_then(|n| n.checked_add(start));
    let inside = |index: i64| index >= 0 && (index as u64) < size;
    if inside(start) && last.is_some_and(inside) && (step != 0 || count == 1) {
        return Ok(());
    }
    let range = format!("range of {count} from {start} by {step}");
    Err(Error::selection(format!("{range} is out of bounds for axis {axis} with size {size}")))
}

fn check_indices(mut indices: impl Iterator<Item = i64>, size: u64, axis: usize) -> Result<()> {
    match indices.find(|&index| index < 0 || index as u64 >= size) {
        None => Ok(()),
        Some(index) => {
            Err(Error::selection(format!("index {index} is out of bounds for axis {axis} with size {size}")))
        }
    }
}

/// One axis of a piece; indices are absolute.
#[derive(Clone, Copy)]
enum AxisPart<'a> {
    Range(IndexRange),
    List(&'a [ListEntry]),
    Joint(usize),
}

/// The points of a piece.
#[derive(Clone)]
enum Ids<'a> {
    All(usize),
    Some(&'a [u32]),
}

impl Ids<'_> {
    fn len(&self) -> usize {
        match self {
            Ids::All(count) => *count,
            Ids::Some(ids) => ids.len(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let (all, some): (usize, &[u32]) = match self {
            Ids::All(count) => (*count, &[]),
            Ids::Some(ids) => (0, ids),
        };
        (0..all).chain(some.iter().map(|&id| id as usize))
    }
}

/// The direction of a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the decoded cell to the caller's buffer: reading.
    FromCell,
    /// From the caller's buffer to the decoded cell: writing.
    ToCell,
}

impl Direction {
    /// (source, destination) of a pair (cell, caller).
    fn pair(self, cell: isize, caller: isize) -> (isize, isize) {
        match self {
            Direction::FromCell => (cell, caller),
            Direction::ToCell => (caller, cell),
        }
    }
}

/// The part of a selection inside one cell (or inside the whole array).
pub struct Piece<'a> {
    axes: PerAxis<AxisPart<'a>>,
    selection: &'a Selection,
    ids: Option<Ids<'a>>,
    /// The byte offset in the caller's buffer of the first items of the ranges.
    offset: isize,
}

impl<'a> Piece<'a> {
    /// Return whether the piece selects nothing.
    pub fn is_empty(&self) -> bool {
        self.axes.iter().any(|part| match part {
            AxisPart::Range(range) => range.count == 0,
            AxisPart::List(entries) => entries.is_empty(),
            AxisPart::Joint(_) => false,
        }) || self.ids.as_ref().is_some_and(|ids| ids.len() == 0)
    }

    /// Return whether the piece selects all bytes of every index of the cell at `origin` with
    /// `shape`, inside the `bounds` if present.
    pub fn covers(&self, origin: &[u64], shape: &[u64], bounds: Option<&[u64]>) -> bool {
        let inside = |axis: usize| {
            let limit = bounds.map_or(u64::MAX, |bounds| bounds[axis].saturating_sub(origin[axis]));
            shape[axis].min(limit)
        };
        self.selection.whole_items
            && self.axes.iter().enumerate().all(|(axis, part)| match part {
                AxisPart::Range(IndexRange { step, count, .. }) => {
                    *count as u64 == inside(axis) && (step.unsigned_abs() == 1 || inside(axis) <= 1)
                }
                AxisPart::List(entries) => {
                    1 + entries.windows(2).filter(|pair| pair[0].index != pair[1].index).count() as u64
                        == inside(axis)
                }
                AxisPart::Joint(_) => true,
            })
            && self.ids.as_ref().is_none_or(|ids| self.points_cover(ids, origin, inside))
    }

    /// Return whether the points cover each combination of indices along the joint axes.
    fn points_cover(&self, ids: &Ids<'_>, origin: &[u64], inside: impl Fn(usize) -> u64) -> bool {
        let Points { columns, axes, .. } = &self.selection.points;
        let sides: PerAxis<u64> = axes.iter().map(|&axis| inside(axis)).collect();
        let positions = sides.iter().try_fold(1, |positions: u64, &side| positions.checked_mul(side));
        let Some(mut uncovered) =
            positions.map(|positions| positions as usize).filter(|&positions| positions <= ids.len())
        else {
            return false;
        };
        let mut is_uncovered = vec![true; uncovered];
        for id in ids.iter() {
            let coordinates =
                columns.iter().zip(axes).map(|(column, &axis)| column[id] as u64 - origin[axis]);
            let position = coordinates
                .zip(&sides)
                .try_fold(0, |position, (index, &side)| (index < side).then_some(position * side + index));
            uncovered -= usize::from(
                position.is_some_and(|position| std::mem::take(&mut is_uncovered[position as usize])),
            );
        }
        uncovered == 0
    }

    /// Return whether all bytes of the items are selected.
    pub fn has_whole_items(&self) -> bool {
        self.selection.whole_items
    }

    /// Return the box of positions in the cell at `origin`, if the piece selects exactly a box of
    /// whole items.
    pub fn as_box(&self, origin: &[u64]) -> Option<PerAxis<std::ops::Range<u64>>> {
        let is_box = self.selection.whole_items
            && self.axes.iter().all(|part| match part {
                AxisPart::Range(range) => range.step.unsigned_abs() == 1 || range.count == 1,
                AxisPart::List(entries) => entries.len() == 1,
                AxisPart::Joint(_) => false,
            });
        let positions = |axis: usize| {
            let (first, last) = self.index_range(axis);
            first as u64 - origin[axis]..last as u64 - origin[axis] + 1
        };
        is_box.then(|| (0..origin.len()).map(positions).collect())
    }

    /// Return the minimum and the maximum index along `axis`.
    pub fn index_range(&self, axis: usize) -> (i64, i64) {
        match self.axes[axis] {
            AxisPart::Range(range) => range.bounds(),
            AxisPart::List(entries) => (entries[0].index, entries[entries.len() - 1].index),
            AxisPart::Joint(column) => {
                let column = &self.selection.points.columns[column];
                let ids = self.ids.as_ref().map(Ids::iter);
                let indices = ids.into_iter().flatten().map(|id| column[id]);
                indices.fold((i64::MAX, i64::MIN), |(low, high), index| (low.min(index), high.max(index)))
            }
        }
    }

    /// Return the number of positions along `axis` for [`Piece::narrow`]; for joint axes, points.
    pub fn positions(&self, axis: usize) -> usize {
        match (&self.axes[axis], &self.ids) {
            (AxisPart::Range(range), _) => range.count,
            (AxisPart::List(entries), _) => entries.len(),
            (AxisPart::Joint(_), Some(Ids::Some(ids))) => ids.len(),
            (AxisPart::Joint(_), _) => 1,
        }
    }

    /// Return whether `axis` is a joint axis.
    pub fn is_joint(&self, axis: usize) -> bool {
        matches!(self.axes[axis], AxisPart::Joint(_))
    }

    /// Return the piece with only `positions` along `axis`.
    #[must_use]
    pub fn narrow(&self, axis: usize, positions: std::ops::Range<usize>) -> Piece<'a> {
        let mut piece = Piece {
            axes: self.axes.clone(),
            selection: self.selection,
            ids: self.ids.clone(),
            offset: self.offset,
        };
        match (&mut piece.axes[axis], &mut piece.ids) {
            (AxisPart::Range(range), _) => {
                piece.offset += positions.start as isize * range.stride;
                *range = range.part(positions);
            }
            (AxisPart::List(entries), _) => *entries = &entries[positions],
            (AxisPart::Joint(_), Some(Ids::Some(ids))) => *ids = &ids[positions],
            (AxisPart::Joint(_), _) => {}
        }
        piece
    }

    /// Return the selected fields of every item of `item_bytes` bytes.
    pub fn fields(&self, item_bytes: usize) -> SmallVec<[Field; 1]> {
        if self.selection.fields.is_empty() {
            return SmallVec::from_buf([Field { item: 0, caller: 0, bytes: item_bytes }]);
        }
        SmallVec::from_slice(&self.selection.fields)
    }

    /// Return the first and the last byte (exclusive) of the decoded cell that the piece contains.
    pub fn span(&self, origin: &[u64], strides: &[isize], item_bytes: usize) -> (usize, usize) {
        let fields = &self.selection.fields;
        let mut low = fields.first().map_or(0, |field| field.item);
        let mut high = fields.last().map_or(item_bytes, |field| field.item + field.bytes);
        for axis in 0..self.axes.len() {
            let (first, last) = self.index_range(axis);
            low += (first as u64 - origin[axis]) as usize * strides[axis] as usize;
            high += (last as u64 - origin[axis]) as usize * strides[axis] as usize;
        }
        (low, high)
    }

    /// Call `copy` with the copy between the decoded cell at `origin` and the caller's buffer: byte
    /// offsets of the first items in the cell and in the buffer, and the axes in the direction of
    /// the copy.
    pub fn with_copy<R>(
        &self,
        direction: Direction,
        origin: &[u64],
        strides: &[isize],
        copy: impl FnOnce(isize, isize, &[CopyAxis<'_>]) -> R,
    ) -> R {
        let mut cell = 0isize;
        let mut lists: SmallVec<[Vec<(isize, isize)>; 2]> = SmallVec::new();
        for (axis, part) in self.axes.iter().enumerate() {
            match *part {
                AxisPart::Range(range) => {
                    cell += (range.start as u64 - origin[axis]) as isize * strides[axis]
                }
                AxisPart::List(entries) => {
                    let cell =
                        |entry: &ListEntry| (entry.index as u64 - origin[axis]) as isize * strides[axis];
                    lists.push(
                        entries.iter().map(|entry| direction.pair(cell(entry), entry.offset)).collect(),
                    );
                }
                AxisPart::Joint(_) => {}
            }
        }
        if let Some(ids) = &self.ids {
            let mut offsets = self.joint_offsets(ids, origin, strides);
            if direction == Direction::ToCell {
                offsets.iter_mut().for_each(|pair| *pair = (pair.1, pair.0));
            }
            lists.push(offsets);
        }
        let mut axes: PerAxis<CopyAxis<'_>> =
            lists.iter().map(|offsets| CopyAxis::List { offsets }).collect();
        for (axis, part) in self.axes.iter().enumerate() {
            if let AxisPart::Range(IndexRange { step, count, stride, .. }) = *part {
                // With one index the stride is unused, and its product could overflow.
                let cell_stride = if count > 1 { step as isize * strides[axis] } else { 0 };
                let (src, dst) = direction.pair(cell_stride, stride);
                axes.push(CopyAxis::Strided { count, src, dst });
            }
        }
        copy(cell, self.offset, &axes)
    }

    fn joint_offsets(&self, ids: &Ids<'_>, origin: &[u64], strides: &[isize]) -> Vec<(isize, isize)> {
        let mut offsets: Vec<(isize, isize)> =
            ids.iter().map(|id| (0, id as isize * self.selection.points.stride)).collect();
        for (column, &axis) in self.selection.points.columns.iter().zip(&self.selection.points.axes) {
            for (offset, id) in offsets.iter_mut().zip(ids.iter()) {
                offset.0 += (column[id] as u64 - origin[axis]) as isize * strides[axis];
            }
        }
        offsets
    }
}
