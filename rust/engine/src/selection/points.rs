//! Points: elements of joint axes.

use std::ops::Range;
use std::sync::Arc;

use super::Direction;
use crate::array::PerAxis;
use crate::error::{Error, Result};

/// Points: the indices along some axes, iterated together.
#[derive(Default)]
pub(super) struct Points {
    /// The array axis of each column.
    pub(super) axes: PerAxis<usize>,
    /// One index per point, for each of `axes`.
    pub(super) columns: PerAxis<Vec<i64>>,
    /// The position of each point in the caller's buffer; None: its number.
    pub(super) positions: Option<Vec<usize>>,
    /// The byte stride between positions in the caller's buffer.
    pub(super) stride: isize,
}

impl Points {
    /// Add an axis of the array: its index for each point.
    pub(super) fn push(&mut self, axis: usize, column: Vec<i64>, stride: isize) -> Result<()> {
        if let Some(first) = self.columns.first() {
            if first.len() != column.len() {
                let (count, other) = (first.len(), column.len());
                return Err(Error::selection(format!("joint axes have {count} and {other} indices")));
            }
            if self.stride != stride {
                return Err(Error::selection("joint axes have different strides"));
            }
        }
        check_count(column.len())?;
        self.stride = stride;
        self.axes.push(axis);
        self.columns.push(column);
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.columns.first().map_or(0, Vec::len)
    }
}

/// Check the number of points of a selection.
pub(super) fn check_count(count: usize) -> Result<()> {
    match u32::try_from(count) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::selection("more than 2^32 points in one selection")),
    }
}

/// Consecutive points.
#[derive(Clone)]
pub(super) struct PointRange {
    points: Arc<Points>,
    range: Range<usize>,
}

impl PointRange {
    /// Return all of `points`.
    pub(super) fn all(points: Arc<Points>) -> PointRange {
        let range = 0..points.len();
        PointRange { points, range }
    }

    pub(super) fn len(&self) -> usize {
        self.range.len()
    }

    /// Return the array axis of each column.
    pub(super) fn axes(&self) -> &[usize] {
        &self.points.axes
    }

    /// Return the indices along one of the axes.
    pub(super) fn column(&self, column: usize) -> &[i64] {
        &self.points.columns[column][self.range.clone()]
    }

    /// Return the points with these numbers.
    pub(super) fn part(&self, numbers: Range<usize>) -> PointRange {
        let start = self.range.start;
        PointRange { points: self.points.clone(), range: start + numbers.start..start + numbers.end }
    }

    /// Return the points with these numbers, copied.
    pub(super) fn gather(&self, numbers: &[u32]) -> PointRange {
        let Points { axes, columns, positions, stride } = &*self.points;
        let start = self.range.start;
        let numbers = || numbers.iter().map(|&number| start + number as usize);
        let gathered = Points {
            axes: axes.clone(),
            columns: columns.iter().map(|column| numbers().map(|number| column[number]).collect()).collect(),
            positions: Some(match positions {
                Some(positions) => numbers().map(|number| positions[number]).collect(),
                None => numbers().collect(),
            }),
            stride: *stride,
        };
        PointRange::all(Arc::new(gathered))
    }

    /// Return the byte offsets of each point in the cell at `origin` and in the caller's buffer, in
    /// the direction of a copy.
    pub(super) fn offsets(
        &self,
        direction: Direction,
        origin: &[u64],
        strides: &[isize],
    ) -> Vec<(isize, isize)> {
        let stride = self.points.stride;
        let mut offsets: Vec<(isize, isize)> = match &self.points.positions {
            Some(positions) => positions[self.range.clone()]
                .iter()
                .map(|&position| (0, position as isize * stride))
                .collect(),
            None => self.range.clone().map(|position| (0, position as isize * stride)).collect(),
        };
        for (column, &axis) in self.axes().iter().enumerate() {
            for (offset, &index) in offsets.iter_mut().zip(self.column(column)) {
                offset.0 += (index as u64 - origin[axis]) as isize * strides[axis];
            }
        }
        if direction == Direction::ToCell {
            offsets.iter_mut().for_each(|pair| *pair = (pair.1, pair.0));
        }
        offsets
    }

    /// Return whether the points contain every combination of indices along their axes, in the cell
    /// at `origin`; `side` returns its size along an axis.
    pub(super) fn cover(&self, origin: &[u64], side: impl Fn(usize) -> u64) -> bool {
        let sides: PerAxis<u64> = self.axes().iter().map(|&axis| side(axis)).collect();
        let positions = sides.iter().try_fold(1, |positions: u64, &side| positions.checked_mul(side));
        let Some(mut uncovered) =
            positions.map(|positions| positions as usize).filter(|&positions| positions <= self.len())
        else {
            return false;
        };
        let mut is_uncovered = vec![true; uncovered];
        let columns: PerAxis<(&[i64], u64)> =
            self.axes().iter().enumerate().map(|(k, &axis)| (self.column(k), origin[axis])).collect();
        for point in 0..self.len() {
            let coordinates = columns.iter().map(|(column, start)| column[point] as u64 - start);
            let position = coordinates
                .zip(&sides)
                .try_fold(0, |position, (index, &side)| (index < side).then_some(position * side + index));
            uncovered -= usize::from(
                position.is_some_and(|position| std::mem::take(&mut is_uncovered[position as usize])),
            );
        }
        uncovered == 0
    }
}

/// Return the least and the greatest of `indices`; (`i64::MAX`, `i64::MIN`) if there are none.
pub(super) fn bounds(indices: &[i64]) -> (i64, i64) {
    indices.iter().fold((i64::MAX, i64::MIN), |(low, high), &index| (low.min(index), high.max(index)))
}
