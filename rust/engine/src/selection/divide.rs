//! The division of a piece of a selection among the cells of a grid.
//!
//! A range may cover more cells than a list could hold in memory. A [`Division`] therefore stores
//! nothing per cell: it counts its tasks and computes each one on demand.

use smallvec::SmallVec;

use super::groups::Groups;
use super::{AxisPart, IndexRange, ListEntry, Piece, Selection};
use crate::array::PerAxis;
use crate::error::{Error, Result};
use crate::grid::{CellRun, DimGrid};

/// The maximum number of tasks: the pool counts past the last one.
const MAX_TASKS: usize = 1 << 62;

/// One axis of a piece, divided among cells.
enum AxisDivision<'a> {
    /// One entry per run of equal cells that the piece covers.
    Range(SmallVec<[Ranges; 1]>),
    /// One entry per cell: the cell number and the list entries in the cell.
    List(SmallVec<[(u64, &'a [ListEntry]); 2]>),
    Joint(usize),
}

impl AxisDivision<'_> {
    /// Return the number of cells. Joint axes are counted together by another function.
    fn cells(&self) -> u64 {
        match self {
            AxisDivision::Range(ranges) => ranges.last().map_or(0, |last| last.before + last.cells),
            AxisDivision::List(cells) => cells.len() as u64,
            AxisDivision::Joint(_) => 1,
        }
    }
}

/// A range over equal cells of one axis. Cells are computed on demand, because a range may cover
/// more cells than a list could hold in memory.
struct Ranges {
    range: IndexRange,
    /// The run of cells; its start is absolute.
    run: CellRun,
    cells: u64,
    /// The number of cells that the same range covers in earlier runs.
    before: u64,
    /// The number of positions of the range in earlier runs.
    skipped: u64,
}

impl IndexRange {
    /// Return the positions of the indices inside `low..high`, perhaps beyond the count.
    fn positions_in(&self, low: u64, high: u64) -> (u64, u64) {
        let (start, distance) = (self.start as u64, self.step.unsigned_abs());
        if self.step > 0 {
            let before = |end: u64| end.saturating_sub(start).div_ceil(distance);
            (before(low), before(high))
        } else {
            let before = |end: u64| (start + 1).saturating_sub(end).div_ceil(distance);
            (before(high), before(low))
        }
    }
}

/// Divide a range among the cells of an axis whose first cell begins at `origin`.
fn range_cells(range: IndexRange, origin: u64, dim_grids: &DimGrid) -> SmallVec<[Ranges; 1]> {
    let mut ranges: SmallVec<[Ranges; 1]> = SmallVec::new();
    if range.count == 0 {
        return ranges;
    }
    let (low, high) = range.bounds();
    let (low, high) = (low as u64 - origin, high as u64 - origin);
    let mut add = |(run, end): (CellRun, u64)| {
        let run = CellRun { start: origin + run.start, ..run };
        let (from, to) = range.positions_in(run.start, origin.saturating_add(end));
        let to = to.min(range.count as u64);
        if from < to {
            let before = ranges.last().map_or(0, |last| last.before + last.cells);
            ranges.push(Ranges::new(range.part(from as usize..to as usize), run, before, from));
        }
    };
    let runs = dim_grids.runs_between(low, high);
    if range.step > 0 {
        runs.for_each(&mut add);
    } else {
        runs.rev().for_each(&mut add);
    }
    ranges
}

impl Ranges {
    fn new(range: IndexRange, run: CellRun, before: u64, skipped: u64) -> Self {
        let cells = if range.step.unsigned_abs() > run.size {
            // Each index is in a separate cell.
            range.count as u64
        } else {
            // The range skips no cell.
            run.cell_of(range.start as u64).abs_diff(run.cell_of(range.last() as u64)) + 1
        };
        Ranges { range, run, cells, before, skipped }
    }

    /// Cell `number` of the range: its index, the part inside it, and that part's offset in the
    /// buffer.
    fn cell(&self, number: u64) -> (u64, AxisPart<'static>, isize) {
        let Ranges { range, run, .. } = *self;
        let number = number - self.before;
        let (cell, from, to) = if range.step.unsigned_abs() > run.size {
            let index = (range.start + range.step * number as i64) as u64;
            (run.cell_of(index), number, number + 1)
        } else {
            let first = run.cell_of(range.start as u64);
            let cell = if range.step > 0 { first + number } else { first - number };
            let low = run.start_of(cell);
            let (from, to) = range.positions_in(low, low.saturating_add(run.size));
            (cell, from, to)
        };
        let (from, to) = (from as usize, range.count.min(to as usize));
        let offset = (self.skipped as usize + from) as isize * range.stride;
        (cell, AxisPart::Range(range.part(from..to)), offset)
    }

    /// Return the number of `cell` in the range; None if the range skips it.
    fn find(&self, cell: u64) -> Option<u64> {
        let Ranges { range, run, .. } = *self;
        let (first, last) = (run.cell_of(range.start as u64), run.cell_of(range.last() as u64));
        if !(first.min(last)..=first.max(last)).contains(&cell) {
            return None;
        }
        if range.step.unsigned_abs() <= run.size {
            return Some(self.before + first.abs_diff(cell));
        }
        let low = run.start_of(cell);
        let (from, to) = range.positions_in(low, low.saturating_add(run.size));
        (from < to).then_some(self.before + from)
    }
}

/// A piece divided among the cells of a grid: a list of tasks, computed on demand.
///
/// It stores one entry per axis and per listed index, none per cell.
pub struct Division<'a> {
    axes: PerAxis<AxisDivision<'a>>,
    points: Option<Groups>,
    selection: &'a Selection,
    offset: isize,
    tasks: usize,
}

/// Divide `piece` among the cells of `dim_grids`, whose first cells begin at `origin`.
///
/// # Errors
/// `Kind::Selection` if the number of tasks exceeds the maximum.
pub fn divide<'a>(piece: &Piece<'a>, origin: &[u64], dim_grids: &[DimGrid]) -> Result<Division<'a>> {
    let axes: PerAxis<AxisDivision<'a>> = piece
        .axes
        .iter()
        .zip(origin.iter().zip(dim_grids))
        .map(|(part, (&origin, dim_grids))| match *part {
            AxisPart::Range(range) => AxisDivision::Range(range_cells(range, origin, dim_grids)),
            AxisPart::List(entries) => AxisDivision::List(list_cells(entries, origin, dim_grids)),
            AxisPart::Joint(column) => AxisDivision::Joint(column),
        })
        .collect();
    let points = piece.points.as_ref().map(|points| Groups::new(points, origin, dim_grids));
    let joint = points.as_ref().map_or(1, |groups| groups.len() as u64);
    let tasks = axes.iter().map(AxisDivision::cells).try_fold(joint, u64::checked_mul);
    let tasks = tasks.and_then(|tasks| usize::try_from(tasks).ok()).filter(|&tasks| tasks <= MAX_TASKS);
    let tasks = tasks.ok_or_else(|| Error::selection("the selection touches more than 2^62 chunks"))?;
    Ok(Division { axes, points, selection: piece.selection, offset: piece.offset, tasks })
}

fn list_cells<'a>(
    entries: &'a [ListEntry],
    origin: u64,
    dim_grids: &DimGrid,
) -> SmallVec<[(u64, &'a [ListEntry]); 2]> {
    let mut cells = SmallVec::new();
    let mut rest = entries;
    while let Some(entry) = rest.first() {
        let index = entry.index as u64 - origin;
        let run = dim_grids.at_index(index);
        let cell = run.cell_of(index);
        let end = origin as i128 + run.start_of(cell) as i128 + run.size as i128;
        let (inside, after) = rest.split_at(rest.partition_point(|entry| (entry.index as i128) < end));
        cells.push((cell, inside));
        rest = after;
    }
    cells
}

impl<'a> Division<'a> {
    /// Return the number of cells, each a task.
    pub fn tasks(&self) -> usize {
        self.tasks
    }

    /// Return the task of `cell`; None if the piece has no element in it.
    pub fn find(&self, cell: &[u64]) -> Option<usize> {
        let mut task = 0;
        for (division, &cell) in self.axes.iter().zip(cell) {
            let number = match division {
                AxisDivision::Range(ranges) => ranges.iter().find_map(|range| range.find(cell))?,
                AxisDivision::List(cells) => {
                    cells.binary_search_by_key(&cell, |(index, _)| *index).ok()? as u64
                }
                AxisDivision::Joint(_) => 0,
            };
            task = task * division.cells() as usize + number as usize;
        }
        match &self.points {
            None => Some(task),
            Some(groups) => Some(task * groups.len() + groups.find(cell)?),
        }
    }

    /// Task `task` (0-based, C order of axes, then points): writes its cell to `cell` and returns
    /// the piece inside that cell.
    pub fn task(&self, task: usize, cell: &mut PerAxis<u64>) -> Piece<'a> {
        let rank = self.axes.len();
        let mut axes: PerAxis<AxisPart<'a>> = SmallVec::with_capacity(rank);
        axes.resize(rank, AxisPart::List(&[]));
        let mut offset = self.offset;
        let group = self.locate(task, cell, |axis, part, buffer_offset| {
            axes[axis] = part;
            offset += buffer_offset;
        });
        let points = self.points.as_ref().map(|groups| groups.points(group));
        Piece { axes, selection: self.selection, points, offset }
    }

    /// Write the cell of `task` to `cell`.
    pub fn find_cell(&self, task: usize, cell: &mut PerAxis<u64>) {
        self.locate(task, cell, |_, _, _| ());
    }

    /// Write the cell of `task` to `cell` and return its group of points. `visit` receives each
    /// axis, the part of the piece in the cell, and its offset in the buffer.
    fn locate(
        &self,
        task: usize,
        cell: &mut PerAxis<u64>,
        mut visit: impl FnMut(usize, AxisPart<'a>, isize),
    ) -> usize {
        let (mut rest, mut group) = (task, 0);
        if let Some(groups) = &self.points {
            (rest, group) = (rest / groups.len(), rest % groups.len());
        }
        cell.clear();
        cell.resize(self.axes.len(), 0);
        for (axis, division) in self.axes.iter().enumerate().rev() {
            let cells = division.cells() as usize;
            match division {
                AxisDivision::Range(ranges) => {
                    let number = (rest % cells) as u64;
                    let run = match ranges.len() {
                        1 => 0,
                        _ => ranges.partition_point(|run| run.before <= number) - 1,
                    };
                    let (index, part, buffer_offset) = ranges[run].cell(number);
                    cell[axis] = index;
                    visit(axis, part, buffer_offset);
                }
                AxisDivision::List(cells) => {
                    let (index, entries) = cells[rest % cells.len()];
                    cell[axis] = index;
                    visit(axis, AxisPart::List(entries), 0);
                }
                AxisDivision::Joint(column) => {
                    cell[axis] = self.points.as_ref().map_or(0, |groups| groups.cell(group)[*column]);
                    visit(axis, AxisPart::Joint(*column), 0);
                }
            }
            rest /= cells;
        }
        group
    }
}
