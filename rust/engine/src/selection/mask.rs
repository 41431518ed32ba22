//! Masks: points that are expanded one cell at a time.

use std::ops::Range;
use std::sync::Arc;

use super::points::{check_count, PointRange, Points};
use crate::array::PerAxis;
use crate::error::{Error, Result};
use crate::grid::DimGrid;

/// The mean length of the parts of rows in cells from which [`MaskCells`] are smaller than the mask.
const MIN_MEAN_LENGTH: usize = 8;

/// A mask over consecutive axes of an array. Its points are the true elements in C order.
pub(super) struct Mask {
    /// The first axis.
    axis: usize,
    shape: PerAxis<usize>,
    /// One or zero for each element, in C order.
    values: Vec<u8>,
    /// The number of ones.
    count: usize,
    /// The byte stride between points in the caller's buffer.
    stride: isize,
}

impl Mask {
    /// Copy a mask over the axes from `axis`, of `shape`, with `count` elements that are not zero.
    pub(super) fn new(
        axis: usize,
        shape: &[u64],
        values: &[u8],
        count: usize,
        stride: isize,
    ) -> Result<Mask> {
        let elements = shape.iter().try_fold(1, |elements: u64, &size| elements.checked_mul(size));
        if elements != Some(values.len() as u64) {
            return Err(Error::selection(format!(
                "a mask of {} elements for axes of {shape:?}",
                values.len()
            )));
        }
        let values: Vec<u8> = values.iter().map(|&value| u8::from(value != 0)).collect();
        let ones = count_ones(&values);
        if ones != count {
            return Err(Error::selection(format!("a mask of {ones} true elements for {count} points")));
        }
        check_count(count)?;
        Ok(Mask { axis, shape: shape.iter().map(|&size| size as usize).collect(), values, count, stride })
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Return the axes of the array that the mask covers.
    pub(super) fn axes(&self) -> PerAxis<usize> {
        (self.axis..self.axis + self.shape.len()).collect()
    }

    /// Return the first and the last index along one of the axes.
    pub(super) fn bounds(&self, column: usize) -> (i64, i64) {
        (0, self.shape[column] as i64 - 1)
    }

    /// Return all points.
    pub(super) fn points(&self) -> PointRange {
        let sides: PerAxis<Range<usize>> = self.shape.iter().map(|&size| 0..size).collect();
        self.points_in(&sides, |_, before| before)
    }

    /// Return the points in the box `sides`. `position` returns the position in the caller's buffer
    /// of the first point of a row, for the number of the row in the mask and the number of points
    /// in earlier rows of the box.
    fn points_in(&self, sides: &[Range<usize>], position: impl Fn(usize, usize) -> usize) -> PointRange {
        let last = sides.len() - 1;
        let mut columns: PerAxis<Vec<i64>> = sides.iter().map(|_| Vec::new()).collect();
        let mut positions = Vec::new();
        each_index(&sides[..last], &self.shape, |row, index| {
            let before = positions.len();
            let values = &self.values[row * self.shape[last]..][sides[last].clone()];
            each_one(values, |number| columns[last].push((sides[last].start + number) as i64));
            let (first, end) = (position(row, before), columns[last].len());
            positions.extend(first..first + end - before);
            for (column, &index) in columns.iter_mut().zip(index) {
                column.resize(end, index as i64);
            }
        });
        let points = Points { axes: self.axes(), columns, positions: Some(positions), stride: self.stride };
        PointRange::all(Arc::new(points))
    }
}

/// The cells of a grid that contain points of a mask.
pub(super) struct MaskCells {
    mask: Arc<Mask>,
    /// For each axis of the mask the starts of all cells, and the end of the last one.
    cuts: PerAxis<Vec<usize>>,
    /// The number of points before each part of a row in one cell, in C order.
    before: Vec<usize>,
}

impl MaskCells {
    /// Divide a mask among the cells of `dim_grids`, and return the cells with points, ascending.
    /// None if lists of the points take less memory.
    pub(super) fn new(mask: &Arc<Mask>, dim_grids: &[DimGrid]) -> Option<(Vec<u64>, MaskCells)> {
        let Mask { axis, ref shape, ref values, count, .. } = **mask;
        let last = shape.len() - 1;
        let parts = dim_grids[axis + last].cell_of((shape[last] as u64).checked_sub(1)?) as usize + 1;
        let rows: usize = shape[..last].iter().product();
        if count == 0 || rows.saturating_mul(parts).saturating_mul(MIN_MEAN_LENGTH) > values.len() {
            return None;
        }
        let cuts: PerAxis<Vec<usize>> =
            shape.iter().zip(&dim_grids[axis..]).map(|(&size, dim_grid)| cuts_of(dim_grid, size)).collect();
        let grid_shape: PerAxis<usize> = cuts.iter().map(|cuts| cuts.len() - 1).collect();
        let mut points_of_cells = vec![0usize; grid_shape.iter().product()];
        let (mut before, mut total) = (Vec::with_capacity(rows * parts), 0);
        let outer_sides: PerAxis<Range<usize>> = shape[..last].iter().map(|&size| 0..size).collect();
        each_index(&outer_sides, shape, |row, index| {
            let cell = |axis: usize| cuts[axis].partition_point(|&start| start <= index[axis]) - 1;
            let outer_cell = (0..last).fold(0, |number, axis| number * grid_shape[axis] + cell(axis));
            let values = &values[row * shape[last]..][..shape[last]];
            for (part, ends) in cuts[last].windows(2).enumerate() {
                let ones = count_ones(&values[ends[0]..ends[1]]);
                points_of_cells[outer_cell * parts + part] += ones;
                before.push(total);
                total += ones;
            }
        });
        let mut cells = Vec::new();
        let all_cells: PerAxis<Range<usize>> = grid_shape.iter().map(|&count| 0..count).collect();
        each_index(&all_cells, &grid_shape, |number, cell| {
            if points_of_cells[number] > 0 {
                cells.extend(cell.iter().map(|&index| index as u64));
            }
        });
        Some((cells, MaskCells { mask: mask.clone(), cuts, before }))
    }

    /// Return the points in `cell`.
    pub(super) fn points(&self, cell: &[u64]) -> PointRange {
        let side = |(cuts, &cell): (&Vec<usize>, &u64)| cuts[cell as usize]..cuts[cell as usize + 1];
        let sides: PerAxis<Range<usize>> = self.cuts.iter().zip(cell).map(side).collect();
        let (parts, part) = (self.cuts[cell.len() - 1].len() - 1, cell[cell.len() - 1] as usize);
        self.mask.points_in(&sides, |row, _| self.before[row * parts + part])
    }
}

/// Return the starts of the cells of an axis of `size` elements, and its end.
fn cuts_of(dim_grid: &DimGrid, size: usize) -> Vec<usize> {
    let mut cuts = vec![0];
    while let Some(&start) = cuts.last().filter(|&&start| start < size) {
        let run = dim_grid.at_index(start as u64);
        let end = run.start_of(run.cell_of(start as u64)).saturating_add(run.size);
        cuts.push(size.min(end as usize));
    }
    cuts
}

/// Call `visit` for each index of the box `sides`, in C order, with its number in an array whose
/// first axes have the lengths `shape`.
fn each_index(sides: &[Range<usize>], shape: &[usize], mut visit: impl FnMut(usize, &[usize])) {
    if sides.iter().any(Range::is_empty) {
        return;
    }
    let mut index: PerAxis<usize> = sides.iter().map(|side| side.start).collect();
    loop {
        visit(index.iter().zip(shape).fold(0, |number, (&index, &size)| number * size + index), &index);
        let advances = |axis: usize| {
            let next = index[axis] + 1;
            let is_inside = next < sides[axis].end;
            index[axis] = if is_inside { next } else { sides[axis].start };
            is_inside
        };
        if !(0..sides.len()).rev().any(advances) {
            return;
        }
    }
}

/// Return the number of ones among ones and zeros.
fn count_ones(values: &[u8]) -> usize {
    // Sums of bytes are fast; 255 ones fit into one.
    let sum = |values: &[u8]| usize::from(values.iter().fold(0u8, |sum, &value| sum.wrapping_add(value)));
    values.chunks(255).map(sum).sum()
}

/// Call `visit` with the number of each one among ones and zeros, in order.
fn each_one(values: &[u8], mut visit: impl FnMut(usize)) {
    let words = values.chunks_exact(8);
    let rest = words.remainder();
    for (number, bytes) in words.enumerate() {
        let mut word = bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        while word != 0 {
            visit(8 * number + word.trailing_zeros() as usize / 8);
            word &= word - 1;
        }
    }
    for (number, _) in rest.iter().enumerate().filter(|(_, &value)| value != 0) {
        visit(values.len() - rest.len() + number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ones_are_counted_and_visited() {
        for length in [0, 1, 7, 8, 9, 255, 256, 1000] {
            for modulus in [1, 2, 3, 7, 300] {
                let values: Vec<u8> = (0..length).map(|number| u8::from(number % modulus == 0)).collect();
                let expected: Vec<usize> = (0..length).step_by(modulus).collect();
                let mut visited = Vec::new();
                each_one(&values, |number| visited.push(number));
                assert_eq!((count_ones(&values), visited), (expected.len(), expected));
            }
        }
    }

    #[test]
    fn each_index_visits_a_box_in_c_order() {
        let mut visited = Vec::new();
        each_index(&[1..3, 0..1, 2..4], &[3, 2, 5], |number, index| visited.push((number, index.to_vec())));
        let expected = [(12, [1, 0, 2]), (13, [1, 0, 3]), (22, [2, 0, 2]), (23, [2, 0, 3])];
        assert!(visited
            .iter()
            .map(|(number, index)| (*number, &index[..]))
            .eq(expected.iter().map(|(number, index)| (*number, &index[..]))));
        each_index(&[0..2, 1..1], &[2, 2], |_, _| visited.clear());
        assert_eq!(visited.len(), 4, "an empty box has no index");
    }
}
