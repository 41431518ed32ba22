//! What the user asked for, and its division among the cells of a grid.
//!
//! A selection says per axis which array indices meet which places of the
//! caller's buffer. There are three forms, freely mixed: a *range* (start,
//! step, count), a *list* (one axis of an outer selection), and *joint* axes,
//! which are walked together (points). Indices stay absolute at every level of
//! sharding; only the pieces get shorter, so that the same [`divide`] serves
//! the grid of the array and the grid inside a shard.
//!
//! Lists are sorted by index once, so that every cell at every level owns one
//! contiguous piece of them. The sort is stable: of repeated indices the last
//! stays last, and wins when written.

use smallvec::SmallVec;

use crate::array::PerAxis;
use crate::copy::Axis as CopyAxis;
use crate::error::{Error, Kind, Result};
use crate::grid::{Cuts, Run};

/// More tasks than this are refused: the pool counts past the last one.
const MOST_TASKS: usize = 1 << 62;

/// One array index and the byte offset in the caller's buffer that it meets.
#[derive(Clone, Copy, Debug)]
pub struct Hit {
    /// Index along the array's axis.
    pub index: i64,
    /// Byte offset in the caller's buffer.
    pub offset: isize,
}

/// One axis of a selection as the caller gives it.
pub enum Request<'a> {
    /// `count` indices from `start`, every `step`; `stride` bytes apart in the buffer.
    Range {
        /// First index.
        start: i64,
        /// Distance of indices; negative walks back.
        step: i64,
        /// How many.
        count: usize,
        /// Byte stride in the caller's buffer.
        stride: isize,
    },
    /// Any indices, `stride` bytes apart in the buffer.
    List {
        /// The indices.
        indices: &'a [i64],
        /// Byte stride in the caller's buffer.
        stride: isize,
    },
    /// Indices walked together with those of the other joint axes.
    Joint {
        /// The indices.
        indices: &'a [i64],
        /// Byte stride in the caller's buffer, the same for all joint axes.
        stride: isize,
    },
}

/// Bytes of every selected item, and where they are in an item of the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// First byte in the array's item.
    pub item: usize,
    /// First byte in the caller's item.
    pub caller: usize,
    /// How many bytes.
    pub bytes: usize,
}

/// A selection, checked against the array's shape.
pub struct Selection {
    axes: PerAxis<AxisForm>,
    points: Points,
    fields: Vec<Field>,
    whole_items: bool,
}

enum AxisForm {
    Range { start: i64, step: i64, count: usize, stride: isize },
    List(Vec<Hit>),
    Joint(usize),
}

#[derive(Default)]
struct Points {
    /// Per joint axis, one index per point.
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
            return Err(Error::new(
                Kind::Selection,
                format!("{} axes are selected, the array has {}", requests.len(), shape.len()),
            ));
        }
        // Indices are copied first and checked then: another thread may change the caller's.
        let mut axes = PerAxis::new();
        let mut points = Points::default();
        for (axis, (request, &size)) in requests.iter().zip(shape).enumerate() {
            axes.push(match *request {
                Request::Range { start, step, count, stride } => {
                    check_range(start, step, count, size, axis)?;
                    // A step that is never taken may be any number; its products would overflow.
                    AxisForm::Range { start, step: if count > 1 { step } else { 1 }, count, stride }
                }
                Request::List { indices, stride } => {
                    let hits = indices.iter().enumerate();
                    let mut hits: Vec<Hit> =
                        hits.map(|(place, &index)| Hit { index, offset: place as isize * stride }).collect();
                    check_indices(hits.iter().map(|hit| hit.index), size, axis)?;
                    if !hits.is_sorted_by_key(|hit| hit.index) {
                        hits.sort_by_key(|hit| hit.index);
                    }
                    AxisForm::List(hits)
                }
                Request::Joint { indices, stride } => {
                    let column = indices.to_vec();
                    check_indices(column.iter().copied(), size, axis)?;
                    if !points.columns.is_empty() && points.count != indices.len() {
                        return Err(Error::new(
                            Kind::Selection,
                            format!("joint axes have {} and {} indices", points.count, indices.len()),
                        ));
                    }
                    if !points.columns.is_empty() && points.stride != stride {
                        return Err(Error::new(Kind::Selection, "joint axes have different strides"));
                    }
                    if indices.len() > u32::MAX as usize {
                        return Err(Error::new(Kind::Selection, "more than 2^32 points in one selection"));
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

    /// Select only `fields` of every item of `item_bytes` bytes; none means all of it.
    ///
    /// # Errors
    /// `Kind::Selection` if one of them leaves the item or meets another.
    pub fn with_fields(mut self, mut fields: Vec<Field>, item_bytes: usize) -> Result<Selection> {
        fields.sort_unstable_by_key(|field| field.item);
        let mut end = 0;
        for field in &fields {
            if field.item < end {
                return Err(Error::new(Kind::Selection, format!("two fields have byte {}", field.item)));
            }
            end = field.item.saturating_add(field.bytes);
        }
        if end > item_bytes {
            return Err(Error::new(
                Kind::Selection,
                format!("a field ends past an item of {item_bytes} bytes"),
            ));
        }
        self.whole_items =
            fields.is_empty() || fields.iter().map(|field| field.bytes).sum::<usize>() == item_bytes;
        self.fields = fields;
        Ok(self)
    }

    /// The whole selection as one piece.
    pub fn piece(&self) -> Piece<'_> {
        let axes = self.axes.iter().map(|form| match form {
            AxisForm::Range { start, step, count, stride } => {
                Part::Range { start: *start, step: *step, count: *count, stride: *stride }
            }
            AxisForm::List(hits) => Part::List(hits),
            AxisForm::Joint(column) => Part::Joint(*column),
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
    Err(Error::new(Kind::Selection, format!("{range} is out of bounds for axis {axis} with size {size}")))
}

fn check_indices(mut indices: impl Iterator<Item = i64>, size: u64, axis: usize) -> Result<()> {
    match indices.find(|&index| index < 0 || index as u64 >= size) {
        None => Ok(()),
        Some(index) => Err(Error::new(
            Kind::Selection,
            format!("index {index} is out of bounds for axis {axis} with size {size}"),
        )),
    }
}

/// One axis of a piece; indices are absolute.
#[derive(Clone, Copy)]
enum Part<'a> {
    Range { start: i64, step: i64, count: usize, stride: isize },
    List(&'a [Hit]),
    Joint(usize),
}

/// Which points belong to a piece.
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

/// Which way a copy goes.
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

/// The part of a selection that falls into one cell (or into the whole array).
pub struct Piece<'a> {
    axes: PerAxis<Part<'a>>,
    selection: &'a Selection,
    ids: Option<Ids<'a>>,
    /// Byte offset in the caller's buffer of the ranges' first items.
    offset: isize,
}

impl<'a> Piece<'a> {
    /// Nothing is selected.
    pub fn is_empty(&self) -> bool {
        self.axes.iter().any(|part| match part {
            Part::Range { count, .. } => *count == 0,
            Part::List(hits) => hits.is_empty(),
            Part::Joint(_) => false,
        }) || self.ids.as_ref().is_some_and(|ids| ids.len() == 0)
    }

    /// Every index of the cell at `origin` with `shape` that lies inside the
    /// array is selected, each axis by itself, with all its bytes.
    pub fn covers(&self, origin: &[u64], shape: &[u64], bounds: &[u64]) -> bool {
        self.selection.whole_items
            && self.axes.iter().enumerate().all(|(axis, part)| {
                let inside = shape[axis].min(bounds[axis].saturating_sub(origin[axis]));
                match part {
                    Part::Range { step, count, .. } => {
                        *count as u64 == inside && (step.unsigned_abs() == 1 || inside <= 1)
                    }
                    Part::List(hits) => {
                        1 + hits.windows(2).filter(|pair| pair[0].index != pair[1].index).count() as u64
                            == inside
                    }
                    Part::Joint(_) => false,
                }
            })
    }

    /// How many places there are along `axis` for [`Piece::slab`]; for joint axes: points.
    pub fn places(&self, axis: usize) -> usize {
        match (&self.axes[axis], &self.ids) {
            (Part::Range { count, .. }, _) => *count,
            (Part::List(hits), _) => hits.len(),
            (Part::Joint(_), Some(Ids::Some(ids))) => ids.len(),
            (Part::Joint(_), _) => 1,
        }
    }

    /// Whether `axis` is walked together with others.
    pub fn is_joint(&self, axis: usize) -> bool {
        matches!(self.axes[axis], Part::Joint(_))
    }

    /// The piece with only `places` along `axis`.
    #[must_use]
    pub fn slab(&self, axis: usize, places: std::ops::Range<usize>) -> Piece<'a> {
        let mut piece = Piece {
            axes: self.axes.clone(),
            selection: self.selection,
            ids: self.ids.clone(),
            offset: self.offset,
        };
        match (&mut piece.axes[axis], &mut piece.ids) {
            (Part::Range { start, step, count, stride }, _) => {
                *start += *step * places.start as i64;
                *count = places.len();
                piece.offset += places.start as isize * *stride;
            }
            (Part::List(hits), _) => *hits = &hits[places],
            (Part::Joint(_), Some(Ids::Some(ids))) => *ids = &ids[places],
            (Part::Joint(_), _) => {}
        }
        piece
    }

    /// What is selected of every item, of which all has `item_bytes` bytes.
    pub fn fields(&self, item_bytes: usize) -> SmallVec<[Field; 1]> {
        if self.selection.fields.is_empty() {
            return SmallVec::from_buf([Field { item: 0, caller: 0, bytes: item_bytes }]);
        }
        SmallVec::from_slice(&self.selection.fields)
    }

    /// First and last byte (exclusive) of the decoded cell that the piece touches.
    pub fn span(&self, origin: &[u64], strides: &[isize], item_bytes: usize) -> (usize, usize) {
        let fields = &self.selection.fields;
        let mut low = fields.first().map_or(0, |field| field.item);
        let mut high = fields.last().map_or(item_bytes, |field| field.item + field.bytes);
        for (axis, part) in self.axes.iter().enumerate() {
            let (first, last) = match *part {
                Part::Range { start, step, count, .. } => {
                    let end = start + step * (count as i64 - 1);
                    (start.min(end), start.max(end))
                }
                Part::List(hits) => (hits[0].index, hits[hits.len() - 1].index),
                Part::Joint(column) => {
                    let column = &self.selection.points.columns[column];
                    let ids = self.ids.as_ref().map(Ids::iter);
                    let indices = ids.into_iter().flatten().map(|id| column[id]);
                    indices.fold((i64::MAX, i64::MIN), |(low, high), index| (low.min(index), high.max(index)))
                }
            };
            low += (first as u64 - origin[axis]) as usize * strides[axis] as usize;
            high += (last as u64 - origin[axis]) as usize * strides[axis] as usize;
        }
        (low, high)
    }

    /// Call `copy` with the copy between the decoded cell at `origin` and the
    /// caller's buffer: byte offsets of the first items in the cell and in the
    /// buffer, and the axes in the given direction.
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
                Part::Range { start, .. } => cell += (start as u64 - origin[axis]) as isize * strides[axis],
                Part::List(hits) => {
                    let cell = |hit: &Hit| (hit.index as u64 - origin[axis]) as isize * strides[axis];
                    lists.push(hits.iter().map(|hit| direction.pair(cell(hit), hit.offset)).collect());
                }
                Part::Joint(_) => {}
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
            if let Part::Range { step, count, stride, .. } = *part {
                // Of one place no step is taken, and its product could overflow.
                let along = if count > 1 { step as isize * strides[axis] } else { 0 };
                let (src, dst) = direction.pair(along, stride);
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
    run: Run,
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
    cuts: &Cuts,
) -> SmallVec<[Ranges; 1]> {
    let mut ranges: SmallVec<[Ranges; 1]> = SmallVec::new();
    if count == 0 {
        return ranges;
    }
    let last = start + step * (count as i64 - 1);
    let (low, high) = (start.min(last) as u64 - origin, start.max(last) as u64 - origin);
    let mut add = |(run, end): (Run, u64)| {
        let run = Run { start: origin + run.start, ..run };
        let (from, to) = places(start, step, run.start, origin.saturating_add(end));
        let to = to.min(count as u64);
        if from < to {
            let before = ranges.last().map_or(0, |last| last.before + last.cells);
            let start = start + step * from as i64;
            ranges.push(Ranges::new(start, step, (to - from) as usize, stride, run, before, from));
        }
    };
    let runs = cuts.between(low, high);
    if step > 0 {
        runs.for_each(&mut add);
    } else {
        runs.rev().for_each(&mut add);
    }
    ranges
}

impl Ranges {
    fn new(start: i64, step: i64, count: usize, stride: isize, run: Run, before: u64, skipped: u64) -> Self {
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
    fn cell(&self, number: u64) -> (u64, Part<'static>, isize) {
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
        let part = Part::Range { start: start + step * from as i64, step, count: to - from, stride };
        (cell, part, (self.skipped as usize + from) as isize * stride)
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

/// Divide `piece` among the cells of axes that are cut by `cuts` from `origin` on.
///
/// # Errors
/// `Kind::Selection` if there are more tasks than can be counted.
pub fn divide<'a>(piece: &Piece<'a>, origin: &[u64], cuts: &[Cuts]) -> Result<Division<'a>> {
    let axes: PerAxis<Along<'a>> = piece
        .axes
        .iter()
        .zip(origin.iter().zip(cuts))
        .map(|(part, (&origin, cuts))| match *part {
            Part::Range { start, step, count, stride } => {
                Along::Range(range_cells(start, step, count, stride, origin, cuts))
            }
            Part::List(hits) => Along::List(list_cells(hits, origin, cuts)),
            Part::Joint(column) => Along::Joint(column),
        })
        .collect();
    let (groups, ids) = match &piece.ids {
        None => (Vec::new(), Vec::new()),
        Some(ids) => group_points(&piece.selection.points, ids, origin, cuts),
    };
    let joint = if piece.ids.is_some() { groups.len() as u64 } else { 1 };
    let tasks = axes.iter().map(Along::cells).try_fold(joint, u64::checked_mul);
    let tasks = tasks.and_then(|tasks| usize::try_from(tasks).ok()).filter(|&tasks| tasks <= MOST_TASKS);
    let tasks =
        tasks.ok_or_else(|| Error::new(Kind::Selection, "the selection touches more than 2^62 chunks"))?;
    Ok(Division { axes, groups, ids, selection: piece.selection, offset: piece.offset, tasks })
}

fn list_cells<'a>(hits: &'a [Hit], origin: u64, cuts: &Cuts) -> SmallVec<[(u64, &'a [Hit]); 2]> {
    let mut cells = SmallVec::new();
    let mut rest = hits;
    while let Some(hit) = rest.first() {
        let index = hit.index as u64 - origin;
        let run = cuts.at_index(index);
        let cell = run.cell_of(index);
        let end = origin as i128 + run.start_of(cell) as i128 + run.size as i128;
        let (here, after) = rest.split_at(rest.partition_point(|hit| (hit.index as i128) < end));
        cells.push((cell, here));
        rest = after;
    }
    cells
}

/// Group points by cell: (groups, point ids in the order of the groups).
fn group_points(points: &Points, ids: &Ids<'_>, origin: &[u64], cuts: &[Cuts]) -> (Vec<Group>, Vec<u32>) {
    let cell_of = |column: usize, id: usize| {
        let axis = points.axes[column];
        cuts[axis].cell_of(points.columns[column][id] as u64 - origin[axis])
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
        let mut axes: PerAxis<Part<'_>> = SmallVec::with_capacity(rank);
        axes.resize(rank, Part::List(&[]));
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
                    (cell[axis], axes[axis]) = (index, Part::List(hits));
                }
                Along::Joint(column) => {
                    axes[axis] = Part::Joint(*column);
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
