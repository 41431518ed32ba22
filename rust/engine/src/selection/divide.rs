//! The division of a piece of a selection among the cells of a grid.
//!
//! A range may cover more cells than a list could hold in memory. A [`Division`] therefore stores
//! nothing per cell: it counts its tasks and computes each one on demand.

use smallvec::SmallVec;

use super::{AxisPart, Ids, IndexRange, ListEntry, Piece, Points, Selection};
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

/// The points inside one cell of the joint axes.
struct Group {
    cell: PerAxis<u64>,
    first: usize,
    last: usize,
}

/// A piece divided among the cells of a grid: a list of tasks, computed on demand.
///
/// It stores one entry per axis and per listed index, none per cell.
pub struct Division<'a> {
    axes: PerAxis<AxisDivision<'a>>,
    groups: Vec<Group>,
    ids: Vec<u32>,
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
    let (groups, ids) = match &piece.ids {
        None => (Vec::new(), Vec::new()),
        Some(ids) => group_points(&piece.selection.points, ids, origin, dim_grids),
    };
    let joint = if piece.ids.is_some() { groups.len() as u64 } else { 1 };
    let tasks = axes.iter().map(AxisDivision::cells).try_fold(joint, u64::checked_mul);
    let tasks = tasks.and_then(|tasks| usize::try_from(tasks).ok()).filter(|&tasks| tasks <= MAX_TASKS);
    let tasks = tasks.ok_or_else(|| Error::selection("the selection touches more than 2^62 chunks"))?;
    Ok(Division { axes, groups, ids, selection: piece.selection, offset: piece.offset, tasks })
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

/// Group points by cell: (groups, point ids in the order of the groups).
fn group_points(
    points: &Points,
    ids: &Ids<'_>,
    origin: &[u64],
    dim_grids: &[DimGrid],
) -> (Vec<Group>, Vec<u32>) {
    let cell_of = |column: usize, id: usize| {
        let axis = points.axes[column];
        dim_grids[axis].cell_of(points.columns[column][id] as u64 - origin[axis])
    };
    let columns = points.columns.len();
    let same = |a: usize, b: usize| (0..columns).all(|column| cell_of(column, a) == cell_of(column, b));
    let mut order: Vec<u32> = ids.iter().map(|id| id as u32).collect();
    let compare = |a: &u32, b: &u32| {
        let cells =
            |id: &u32| (0..columns).map(|column| cell_of(column, *id as usize)).collect::<PerAxis<u64>>();
        cells(a).cmp(&cells(b)).then(a.cmp(b))
    };
    if let Some(strides) = linear_strides(points, ids, &cell_of) {
        let key =
            |id: u32| (0..columns).map(|column| cell_of(column, id as usize) * strides[column]).sum::<u64>();
        let mut keyed: Vec<(u64, u32)> = order.iter().map(|&id| (key(id), id)).collect();
        if !keyed.is_sorted() {
            keyed.sort_unstable();
            order = keyed.into_iter().map(|(_, id)| id).collect();
        }
    } else {
        order.sort_unstable_by(compare);
    }
    let mut groups: Vec<Group> = Vec::new();
    for (position, &id) in order.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if same(order[group.first] as usize, id as usize) => group.last = position + 1,
            _ => groups.push(Group {
                cell: (0..columns).map(|column| cell_of(column, id as usize)).collect(),
                first: position,
                last: position + 1,
            }),
        }
    }
    (groups, order)
}

/// Strides that number the cells in C order; None if they overflow.
fn linear_strides(
    points: &Points,
    ids: &Ids<'_>,
    cell_of: &impl Fn(usize, usize) -> u64,
) -> Option<PerAxis<u64>> {
    let columns = points.columns.len();
    let mut strides: PerAxis<u64> = SmallVec::from_elem(0, columns);
    let mut step = 1u64;
    for column in (0..columns).rev() {
        strides[column] = step;
        let max_cell = ids.iter().map(|id| cell_of(column, id)).max().unwrap_or(0);
        step = step.checked_mul(max_cell.checked_add(1)?)?;
    }
    Some(strides)
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
        if self.groups.is_empty() {
            return Some(task);
        }
        let joint = || self.selection.points.axes.iter().map(|&axis| &cell[axis]);
        let group = self.groups.binary_search_by(|group| group.cell.iter().cmp(joint())).ok()?;
        Some(task * self.groups.len() + group)
    }

    /// Task `task` (0-based, C order of axes, then points): writes its cell to `cell` and returns
    /// the piece inside that cell.
    pub fn task(&self, task: usize, cell: &mut PerAxis<u64>) -> Piece<'_> {
        let mut rest = task;
        let group = if self.groups.is_empty() {
            None
        } else {
            let group = &self.groups[rest % self.groups.len()];
            rest /= self.groups.len();
            Some(group)
        };
        let rank = self.axes.len();
        cell.clear();
        cell.resize(rank, 0);
        let mut axes: PerAxis<AxisPart<'_>> = SmallVec::with_capacity(rank);
        axes.resize(rank, AxisPart::List(&[]));
        let mut offset = self.offset;
        for (axis, division) in self.axes.iter().enumerate().rev() {
            let cells = division.cells() as usize;
            match division {
                AxisDivision::Range(ranges) => {
                    let number = (rest % cells) as u64;
                    let run = match ranges.len() {
                        1 => 0,
                        _ => ranges.partition_point(|run| run.before <= number) - 1,
                    };
                    let buffer_offset;
                    (cell[axis], axes[axis], buffer_offset) = ranges[run].cell(number);
                    offset += buffer_offset;
                }
                AxisDivision::List(cells) => {
                    let (index, entries) = cells[rest % cells.len()];
                    (cell[axis], axes[axis]) = (index, AxisPart::List(entries));
                }
                AxisDivision::Joint(column) => {
                    axes[axis] = AxisPart::Joint(*column);
                    if let Some(group) = group {
                        cell[axis] = group.cell[*column];
                    }
                }
            }
            rest /= cells;
        }
        let ids = group.map(|group| Ids::Some(&self.ids[group.first..group.last]));
        Piece { axes, selection: self.selection, ids, offset }
    }
}
