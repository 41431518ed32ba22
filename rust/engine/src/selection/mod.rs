//! Selections of array elements, and their division among the cells of a grid.
//!
//! For each axis a selection maps array indices to positions of the caller's buffer. An axis has
//! one of three forms, in any combination: a *range* (start, step, count), a *list* (one axis of an
//! outer selection), or *joint* (points, whose joint axes are iterated together). The points are
//! lists of indices, or the true elements of a mask, which become lists cell by cell. Indices stay
//! absolute at every level of sharding; only the pieces get shorter, so the same [`divide`] serves
//! the grid of the array and the grid inside a shard.
//!
//! Lists are sorted by index once, so every cell at every level owns one contiguous slice of them.
//! The sort is stable: the last of repeated indices stays last, and wins when written.

use std::sync::Arc;

use mask::Mask;
use points::{bounds, PointRange, Points};
use smallvec::SmallVec;
use sort::Numbered;

use crate::array::PerAxis;
use crate::copy::Axis as CopyAxis;
use crate::error::{Error, Result};
use crate::grid;

mod divide;
mod groups;
mod mask;
mod points;
mod sort;

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
    /// The true elements of a mask over this axis and the following [`Request::Masked`] axes, in C
    /// order.
    Mask {
        /// A byte for each element of these axes, in C order; true if it is not zero.
        values: &'a [u8],
        /// The number of true elements.
        count: usize,
        /// The byte stride between true elements in the caller's buffer.
        stride: isize,
    },
    /// An axis that the mask of an axis before covers.
    Masked,
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
    /// The points of the joint axes, if any.
    points: Option<Joint>,
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
    /// The column of the points.
    Joint(usize),
}

/// The points of joint axes.
#[derive(Clone)]
enum Joint {
    Points(PointRange),
    Mask(Arc<Mask>),
}

impl Joint {
    fn len(&self) -> usize {
        match self {
            Joint::Points(points) => points.len(),
            Joint::Mask(mask) => mask.len(),
        }
    }

    /// Return bounds of the indices in a column.
    fn bounds(&self, column: usize) -> (i64, i64) {
        match self {
            Joint::Points(points) => bounds(points.column(column)),
            Joint::Mask(mask) => mask.bounds(column),
        }
    }

    /// Return the points as lists.
    fn points(&self) -> PointRange {
        match self {
            Joint::Points(points) => points.clone(),
            Joint::Mask(mask) => mask.points(),
        }
    }
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
        let mut mask: Option<(usize, Mask)> = None;
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
                    let indices = indices.to_vec();
                    check_indices(&indices, size, axis)?;
                    AxisForm::List(sorted_entries(&indices, stride))
                }
                Request::Joint { indices, stride } => {
                    let column = indices.to_vec();
                    check_indices(&column, size, axis)?;
                    points.push(axis, column, stride)?;
                    AxisForm::Joint(points.axes.len() - 1)
                }
                Request::Mask { values, count, stride } => {
                    let is_masked = |request: &&Request<'_>| matches!(request, Request::Masked);
                    let covered = 1 + requests[axis + 1..].iter().take_while(is_masked).count();
                    let sizes = &shape[axis..axis + covered];
                    if mask.replace((axis, Mask::new(axis, sizes, values, count, stride)?)).is_some() {
                        return Err(Error::selection("two masks in one selection"));
                    }
                    AxisForm::Joint(0)
                }
                Request::Masked => match &mask {
                    Some((first, mask)) if axis < first + mask.axes().len() => AxisForm::Joint(axis - first),
                    _ => return Err(Error::selection(format!("no mask covers axis {axis}"))),
                },
            });
        }
        let points = match (mask, points.axes.is_empty()) {
            (None, true) => None,
            (None, false) => Some(Joint::Points(PointRange::all(Arc::new(points)))),
            (Some((_, mask)), true) => Some(Joint::Mask(Arc::new(mask))),
            (Some(_), false) => return Err(Error::selection("a mask and other joint axes")),
        };
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

    /// Return whether it has no index lists and touches at most `limit` cells of a grid.
    pub fn touches_at_most(&self, cell: &[u64], limit: u64) -> bool {
        let ends = |form: &AxisForm| match form {
            AxisForm::Range(range) => Some(if range.count > 0 { range.bounds() } else { (0, 0) }),
            _ => None,
        };
        grid::touches_at_most(self.axes.iter().map(ends), cell, limit)
    }

    /// Return the whole selection as one piece.
    pub fn piece(&self) -> Piece<'_> {
        let axes = self.axes.iter().map(|form| match form {
            AxisForm::Range(range) => AxisPart::Range(*range),
            AxisForm::List(entries) => AxisPart::List(entries),
            AxisForm::Joint(column) => AxisPart::Joint(*column),
        });
        Piece { axes: axes.collect(), selection: self, points: self.points.clone(), offset: 0 }
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

fn check_indices(indices: &[i64], size: u64, axis: usize) -> Result<()> {
    let is_outside = |index: i64| index < 0 || index as u64 >= size;
    let (low, high) = bounds(indices);
    if indices.is_empty() || !(is_outside(low) || is_outside(high)) {
        return Ok(());
    }
    let index = indices.iter().copied().find(|&index| is_outside(index)).unwrap_or(low);
    Err(Error::selection(format!("index {index} is out of bounds for axis {axis} with size {size}")))
}

/// Return indices in ascending order, with their offsets; repeated ones in their own order.
fn sorted_entries(indices: &[i64], stride: isize) -> Vec<ListEntry> {
    let entry = |(position, &index): (usize, &i64)| ListEntry { index, offset: position as isize * stride };
    let (low, high) = bounds(indices);
    if indices.is_sorted() {
        return indices.iter().enumerate().map(entry).collect();
    }
    if let Some(mut numbered) = Numbered::new(indices.len(), high.abs_diff(low) + 1) {
        numbered.add(indices.iter().map(|&index| index.abs_diff(low)));
        numbered.sort();
        let index = |number: u64| low + number as i64;
        return numbered.iter().map(|(number, position)| entry((position, &index(number)))).collect();
    }
    let mut entries: Vec<ListEntry> = indices.iter().enumerate().map(entry).collect();
    entries.sort_by_key(|entry| entry.index);
    entries
}

/// One axis of a piece; indices are absolute.
#[derive(Clone, Copy)]
enum AxisPart<'a> {
    Range(IndexRange),
    List(&'a [ListEntry]),
    Joint(usize),
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
    points: Option<Joint>,
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
        }) || self.points.as_ref().is_some_and(|points| points.len() == 0)
    }

    /// Return the number of selected items.
    pub fn items(&self) -> usize {
        let count = |part: &AxisPart<'_>| match part {
            AxisPart::Range(range) => range.count,
            AxisPart::List(entries) => entries.len(),
            AxisPart::Joint(_) => 1,
        };
        let points = self.points.as_ref().map_or(1, Joint::len);
        self.axes.iter().map(count).fold(points, usize::saturating_mul)
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
            && self.points.as_ref().is_none_or(|points| points.points().cover(origin, inside))
    }

    /// Return whether it has several elements of a list, or several points, which are no run of
    /// contiguous bytes.
    pub fn is_scattered(&self) -> bool {
        let is_scattered = |axis| !matches!(self.axes[axis], AxisPart::Range(_)) && self.positions(axis) > 1;
        (0..self.axes.len()).any(is_scattered)
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

    /// Return the minimum and the maximum index along `axis`; for a mask, of all its elements.
    pub fn index_range(&self, axis: usize) -> (i64, i64) {
        match self.axes[axis] {
            AxisPart::Range(range) => range.bounds(),
            AxisPart::List(entries) => (entries[0].index, entries[entries.len() - 1].index),
            AxisPart::Joint(column) => {
                self.points.as_ref().map_or((i64::MAX, i64::MIN), |points| points.bounds(column))
            }
        }
    }

    /// Return the number of positions along `axis` for [`Piece::narrow`]; for joint axes, points.
    pub fn positions(&self, axis: usize) -> usize {
        match &self.axes[axis] {
            AxisPart::Range(range) => range.count,
            AxisPart::List(entries) => entries.len(),
            AxisPart::Joint(_) => self.points.as_ref().map_or(0, Joint::len),
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
            points: self.points.clone(),
            offset: self.offset,
        };
        match &mut piece.axes[axis] {
            AxisPart::Range(range) => {
                piece.offset += positions.start as isize * range.stride;
                *range = range.part(positions);
            }
            AxisPart::List(entries) => *entries = &entries[positions],
            AxisPart::Joint(_) => {
                piece.points = piece.points.map(|points| Joint::Points(points.points().part(positions)));
            }
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
        if let Some(points) = &self.points {
            lists.push(points.points().offsets(direction, origin, strides));
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
}
