//! The division of points among the cells of a grid.

use std::cmp::Ordering;
use std::sync::Arc;

use super::mask::{Mask, MaskCells};
use super::points::{bounds, PointRange};
use super::sort::Numbered;
use super::Joint;
use crate::array::PerAxis;
use crate::grid::DimGrid;

/// Points divided among cells: one group for each cell with points.
pub(super) struct Groups {
    /// The axes of the points.
    axes: PerAxis<usize>,
    /// The cells of the groups, ascending: one index for each of `axes`.
    cells: Vec<u64>,
    members: Members,
}

/// The points of all groups.
enum Members {
    Points {
        points: PointRange,
        /// The numbers of the points, group by group; None if the points come in this order.
        order: Option<Vec<u32>>,
        /// The end of each group among the ordered points.
        ends: Vec<u32>,
    },
    Mask(MaskCells),
}

impl Groups {
    /// Divide points among the cells of `dim_grids`, whose first cells begin at `origin`. Points of
    /// one cell keep their order.
    pub(super) fn new(points: &Joint, origin: &[u64], dim_grids: &[DimGrid]) -> Groups {
        match points {
            Joint::Points(points) => group_points(points.clone(), origin, dim_grids),
            Joint::Mask(mask) => {
                group_mask(mask, dim_grids).unwrap_or_else(|| group_points(mask.points(), origin, dim_grids))
            }
        }
    }

    /// Return the number of groups.
    pub(super) fn len(&self) -> usize {
        self.cells.len() / self.axes.len()
    }

    /// Return the cell of a group along the axes of the points.
    pub(super) fn cell(&self, group: usize) -> &[u64] {
        &self.cells[group * self.axes.len()..][..self.axes.len()]
    }

    /// Return the group of `cell`, which has an index for each axis of the array.
    pub(super) fn find(&self, cell: &[u64]) -> Option<usize> {
        let wanted = || self.axes.iter().map(|&axis| &cell[axis]);
        let (mut first, mut last) = (0, self.len());
        while first < last {
            let middle = usize::midpoint(first, last);
            match self.cell(middle).iter().cmp(wanted()) {
                Ordering::Equal => return Some(middle),
                Ordering::Less => first = middle + 1,
                Ordering::Greater => last = middle,
            }
        }
        None
    }

    /// Return the points of a group, in their original order.
    pub(super) fn points(&self, group: usize) -> Joint {
        Joint::Points(match &self.members {
            Members::Mask(cells) => cells.points(self.cell(group)),
            Members::Points { points, order, ends } => {
                let first = if group == 0 { 0 } else { ends[group - 1] as usize };
                let numbers = first..ends[group] as usize;
                match order {
                    None => points.part(numbers),
                    Some(order) => points.gather(&order[numbers]),
                }
            }
        })
    }
}

/// Divide the points of a mask; None if lists of them take less memory.
fn group_mask(mask: &Arc<Mask>, dim_grids: &[DimGrid]) -> Option<Groups> {
    let (cells, members) = MaskCells::new(mask, dim_grids)?;
    Some(Groups { axes: mask.axes(), cells, members: Members::Mask(members) })
}

/// The cells of the grid along one axis of points.
struct Cells<'g> {
    indices: &'g [i64],
    origin: u64,
    dim_grid: &'g DimGrid,
    /// The first cell that contains a point.
    first: u64,
    /// The number of cells up to the last one that contains a point.
    count: u64,
}

impl<'g> Cells<'g> {
    fn new(indices: &'g [i64], origin: u64, dim_grid: &'g DimGrid) -> Cells<'g> {
        let (low, high) = bounds(indices);
        let first = dim_grid.cell_of(low as u64 - origin);
        let count = dim_grid.cell_of(high as u64 - origin) - first + 1;
        Cells { indices, origin, dim_grid, first, count }
    }

    fn cell(&self, point: usize) -> u64 {
        self.dim_grid.cell_of(self.indices[point] as u64 - self.origin)
    }

    /// Add the number of each point's cell, `stride` apart, to `numbered`.
    fn add_to(&self, numbered: &mut Numbered, stride: u64) {
        let indices = self.indices.iter().map(|&index| index as u64 - self.origin);
        match *self.dim_grid {
            _ if self.count == 1 => {}
            DimGrid::Regular(size) => numbered.add(indices.map(|index| (index / size - self.first) * stride)),
            DimGrid::Rectilinear(_) => {
                numbered.add(indices.map(|index| (self.dim_grid.cell_of(index) - self.first) * stride));
            }
        }
    }
}

fn group_points(points: PointRange, origin: &[u64], dim_grids: &[DimGrid]) -> Groups {
    let axes = PerAxis::from_slice(points.axes());
    let (cells, order, ends) = match points.len() {
        0 => Default::default(),
        count => {
            let cells_of_axis = |(column, &axis): (usize, &usize)| {
                Cells::new(points.column(column), origin[axis], &dim_grids[axis])
            };
            let cells: PerAxis<Cells<'_>> = axes.iter().enumerate().map(cells_of_axis).collect();
            let (order, ends) = order_by_cell(&cells, count);
            let firsts = std::iter::once(0).chain(ends[..ends.len() - 1].iter().copied());
            let points = firsts.map(|first| order.as_ref().map_or(first, |order| order[first as usize]));
            let cells_of_point = |point: u32| cells.iter().map(move |cells| cells.cell(point as usize));
            (points.flat_map(cells_of_point).collect(), order, ends)
        }
    };
    Groups { axes, cells, members: Members::Points { points, order, ends } }
}

/// Return the numbers of the points in the order of their cells, None if the points come in this
/// order; and the end of each group of one cell.
fn order_by_cell(axes: &[Cells<'_>], count: usize) -> (Option<Vec<u32>>, Vec<u32>) {
    if axes.iter().all(|axis| axis.count == 1) {
        return (None, vec![count as u32]);
    }
    if let Some(mut numbered) = number_cells(axes, count) {
        let is_reordered = numbered.sort();
        let order = is_reordered.then(|| numbered.iter().map(|(_, point)| point as u32).collect());
        return (order, group_ends(numbered.iter().map(|(number, _)| number)));
    }
    // The cells exceed the points by far.
    let cell = |&point: &u32| axes.iter().map(|axis| axis.cell(point as usize)).collect::<PerAxis<u64>>();
    let mut order: Vec<u32> = (0..count as u32).collect();
    order.sort_by_cached_key(cell);
    let ends = group_ends(order.iter().map(cell));
    (Some(order), ends)
}

/// Return the points with the numbers of their cells in C order; None if the box of these cells has
/// too many for this.
fn number_cells(axes: &[Cells<'_>], count: usize) -> Option<Numbered> {
    let limit = axes.iter().try_fold(1u64, |limit, axis| limit.checked_mul(axis.count))?;
    let mut numbered = Numbered::new(count, limit)?;
    let mut stride = limit;
    for axis in axes {
        stride /= axis.count;
        axis.add_to(&mut numbered, stride);
    }
    Some(numbered)
}

/// Return the end of each run of equal `cells`, of which one or more exist.
fn group_ends<T: PartialEq>(cells: impl Iterator<Item = T>) -> Vec<u32> {
    let (mut ends, mut count, mut last) = (Vec::new(), 0, None);
    for cell in cells {
        if last.as_ref().is_some_and(|last| *last != cell) {
            ends.push(count);
        }
        count += 1;
        last = Some(cell);
    }
    ends.push(count);
    ends
}
