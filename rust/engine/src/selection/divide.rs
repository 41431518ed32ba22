//! The division of a selection's piece among the cells of a grid: which cells are touched, and
//! which part of the piece lies in each.
//!
//! A range may meet more cells than memory could list, so that nothing here is per cell: a
//! [`Division`] counts its tasks and makes each when it is asked for.

use smallvec::SmallVec;

use super::{AxisPart, Hit, Ids, Piece, Points, Selection};
use crate::array::PerAxis;
use crate::error::{Error, Kind, Result};
use crate::grid::{CellRun, DimGrid};

/// More tasks than this are refused: the pool counts past the last one.
const MOST_TASKS: usize = 1 << 62;

/// One axis of a piece, divided among cells.
enum Along<'a> {
    /// Per run of equal cells that is touched.
    Range(SmallVec<[Ranges; 1]>),
    /// Per touched cell: the cell and its hits.
    List(SmallVec<[(u64, &'a [Hit]); 2]>),
    Joint(usize),
}

impl Along<'_> {
    /// How many cells are touched; joint axes are counted together, elsewhere.
    fn cells(&self) -> u64 {
        match self {
            Along::Range(ranges) => ranges.last().map_or(0, |last| last.before + last.cells),
            Along::List(cells) => cells.len() as u64,
            Along::Joint(_) => 1,
        }
    }
}

/// A range over equal cells of one axis. They are computed when asked for: a range
/// may meet more of them than memory could list.
struct Ranges {
    start: i64,
    step: i64,
    count: usize,
    stride: isize,
    /// The run of cells; its start is absolute.
    run: CellRun,
    cells: u64,
    /// Cells that the same range touches in runs before this one.
    before: u64,
    /// Places of the range in runs before this one.
    skipped: u64,
}

/// The places of a range from `start` by `step` that lie in `low..high`.
fn places(start: i64, step: i64, low: u64, high: u64) -> (u64, u64) {
    let apart = step.unsigned_abs();
    if step > 0 {
        let before = |end: u64| end.saturating_sub(start as u64).div_ceil(apart);
        (before(low), before(high))
    } else {
        let before = |end: u64| (start as u64 + 1).saturating_sub(end).div_ceil(apart);
        (before(high), before(low))
    }
}

/// Divide a range among the cells of an axis that is cut from `origin` on.
fn range_cells(
    start: i64,
    step: i64,
    count: usize,
    stride: isize,
    origin: u64,
    dim_grids: &DimGrid,
) -> SmallVec<[Ranges; 1]> {
    let mut ranges: SmallVec<[Ranges; 1]> = SmallVec::new();
    if count == 0 {
        return ranges;
    }
    let last = start + step * (count as i64 - 1);
    let (low, high) = (start.min(last) as u64 - origin, start.max(last) as u64 - origin);
    let mut add = |(run, end): (CellRun, u64)| {
        let run = CellRun { start: origin + run.start, ..run };
        let (from, to) = places(start, step, run.start, origin.saturating_add(end));
        let to = to.min(count as u64);
        if from < to {
            let before = ranges.last().map_or(0, |last| last.before + last.cells);
            let start = start + step * from as i64;
            ranges.push(Ranges::new(start, step, (to - from) as usize, stride, run, before, from));
        }
    };
    let runs = dim_grids.runs_between(low, high);
    if step > 0 {
        runs.for_each(&mut add);
    } else {
        runs.rev().for_each(&mut add);
    }
    ranges
}

impl Ranges {
    fn new(
        start: i64,
        step: i64,
        count: usize,
        stride: isize,
        run: CellRun,
        before: u64,
        skipped: u64,
    ) -> Self {
        let cells = if step.unsigned_abs() > run.size {
            // No two indices are in one cell.
            count as u64
        } else {
            // No cell is stepped over.
            let cell = |index: i64| run.cell_of(index as u64);
            cell(start).abs_diff(cell(start + step * (count as i64 - 1))) + 1
        };
        Ranges { start, step, count, stride, run, cells, before, skipped }
    }

    /// Touched cell `number`: its index, the part inside it, and that part's offset in the buffer.
    fn cell(&self, number: u64) -> (u64, AxisPart<'static>, isize) {
        let Ranges { start, step, count, stride, run, .. } = *self;
        let number = number - self.before;
        let (cell, from, to) = if step.unsigned_abs() > run.size {
            let index = (start + step * number as i64) as u64;
            (run.cell_of(index), number, number + 1)
        } else {
            let first = run.cell_of(start as u64);
            let cell = if step > 0 { first + number } else { first - number };
            let low = run.start_of(cell);
            let (from, to) = places(start, step, low, low.saturating_add(run.size));
            (cell, from, to)
        };
        let (from, to) = (from as usize, count.min(to as usize));
        let part = AxisPart::Range { start: start + step * from as i64, step, count: to - from, stride };
        (cell, part, (self.skipped as usize + from) as isize * stride)
    }

    /// The number of a touched cell; None if it is not touched.
    fn find(&self, cell: u64) -> Option<u64> {
        let Ranges { start, step, count, run, .. } = *self;
        let last = start + step * (count as i64 - 1);
        let (first, last) = (run.cell_of(start as u64), run.cell_of(last as u64));
        if !(first.min(last)..=first.max(last)).contains(&cell) {
            return None;
        }
        if step.unsigned_abs() <= run.size {
            return Some(self.before + first.abs_diff(cell));
        }
        let low = run.start_of(cell);
        let (from, to) = places(start, step, low, low.saturating_add(run.size));
        (from < to).then_some(self.before + from)
    }
}

/// Points inside one cell of the joint axes.
struct Group {
    cell: PerAxis<u64>,
    first: usize,
    last: usize,
}

/// A piece divided among the cells of a grid: a list of tasks, made on demand.
///
/// It holds one entry per axis and per listed index, none per cell.
pub struct Division<'a> {
    axes: PerAxis<Along<'a>>,
    groups: Vec<Group>,
    ids: Vec<u32>,
    selection: &'a Selection,
    offset: isize,
    tasks: usize,
}

/// Divide `piece` among the cells of axes that are cut by `dim_grids` from `origin` on.
///
/// # Errors
/// `Kind::Selection` if there are more tasks than can be counted.
pub fn divide<'a>(piece: &Piece<'a>, origin: &[u64], dim_grids: &[DimGrid]) -> Result<Division<'a>> {
    let axes: PerAxis<Along<'a>> = piece
        .axes
        .iter()
        .zip(origin.iter().zip(dim_grids))
        .map(|(part, (&origin, dim_grids))| match *part {
            AxisPart::Range { start, step, count, stride } => {
                Along::Range(range_cells(start, step, count, stride, origin, dim_grids))
            }
            AxisPart::List(hits) => Along::List(list_cells(hits, origin, dim_grids)),
            AxisPart::Joint(column) => Along::Joint(column),
        })
        .collect();
    let (groups, ids) = match &piece.ids {
        None => (Vec::new(), Vec::new()),
        Some(ids) => group_points(&piece.selection.points, ids, origin, dim_grids),
    };
    let joint = if piece.ids.is_some() { groups.len() as u64 } else { 1 };
    let tasks = axes.iter().map(Along::cells).try_fold(joint, u64::checked_mul);
    let tasks = tasks.and_then(|tasks| usize::try_from(tasks).ok()).filter(|&tasks| tasks <= MOST_TASKS);
    let tasks =
        tasks.ok_or_else(|| Error::new(Kind::Selection, "the selection touches more than 2^62 chunks"))?;
    Ok(Division { axes, groups, ids, selection: piece.selection, offset: piece.offset, tasks })
}

fn list_cells<'a>(hits: &'a [Hit], origin: u64, dim_grids: &DimGrid) -> SmallVec<[(u64, &'a [Hit]); 2]> {
    let mut cells = SmallVec::new();
    let mut rest = hits;
    while let Some(hit) = rest.first() {
        let index = hit.index as u64 - origin;
        let run = dim_grids.at_index(index);
        let cell = run.cell_of(index);
        let end = origin as i128 + run.start_of(cell) as i128 + run.size as i128;
        let (here, after) = rest.split_at(rest.partition_point(|hit| (hit.index as i128) < end));
        cells.push((cell, here));
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
    for (place, &id) in order.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if same(order[group.first] as usize, id as usize) => group.last = place + 1,
            _ => groups.push(Group {
                cell: (0..columns).map(|column| cell_of(column, id as usize)).collect(),
                first: place,
                last: place + 1,
            }),
        }
    }
    (groups, order)
}

/// Strides that number the touched cells in C order; None if that overflows.
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
        let most = ids.iter().map(|id| cell_of(column, id)).max().unwrap_or(0);
        step = step.checked_mul(most.checked_add(1)?)?;
    }
    Some(strides)
}

impl<'a> Division<'a> {
    /// Number of touched cells.
    pub fn tasks(&self) -> usize {
        self.tasks
    }

    /// The task of `cell`; None if it is not touched.
    pub fn find(&self, cell: &[u64]) -> Option<usize> {
        let mut task = 0;
        for (along, &cell) in self.axes.iter().zip(cell) {
            let number = match along {
                Along::Range(ranges) => ranges.iter().find_map(|range| range.find(cell))?,
                Along::List(cells) => cells.binary_search_by_key(&cell, |(index, _)| *index).ok()? as u64,
                Along::Joint(_) => 0,
            };
            task = task * along.cells() as usize + number as usize;
        }
        if self.groups.is_empty() {
            return Some(task);
        }
        let joint = || self.selection.points.axes.iter().map(|&axis| &cell[axis]);
        let group = self.groups.binary_search_by(|group| group.cell.iter().cmp(joint())).ok()?;
        Some(task * self.groups.len() + group)
    }

    /// Task `task` (0-based, C order of axes, then points): its cell is written
    /// to `cell`, the piece inside that cell is returned.
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
        for (axis, along) in self.axes.iter().enumerate().rev() {
            let cells = along.cells() as usize;
            match along {
                Along::Range(ranges) => {
                    let number = (rest % cells) as u64;
                    let run = match ranges.len() {
                        1 => 0,
                        _ => ranges.partition_point(|run| run.before <= number) - 1,
                    };
                    let at;
                    (cell[axis], axes[axis], at) = ranges[run].cell(number);
                    offset += at;
                }
                Along::List(cells) => {
                    let (index, hits) = cells[rest % cells.len()];
                    (cell[axis], axes[axis]) = (index, AxisPart::List(hits));
                }
                Along::Joint(column) => {
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
