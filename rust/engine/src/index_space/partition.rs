//! Partitions of a view: by boxes of its base, or by the cells of a grid.
//!
//! The positions of a view are a box. Those whose base indices lie in another box are a box again,
//! unless a map has an index array: each map of an input dimension bounds it. The dimensions of
//! index arrays are flattened into a list of *points*. So a part is a list of points (or all) times
//! a box of the other dimensions, and the difference of two parts consists of few parts.

use std::collections::HashMap;
use std::sync::Arc;

use super::dim::floor_div;
use super::to_selection::followed;
use super::{selection, Dim, Indices, Map, PerDimension, Source, View, WHOLE};
use crate::error::{Error, Kind, Result};

/// A half-open interval.
type Interval = (i64, i64);

/// A part of a view: two transforms from the domain of the part.
pub struct Part {
    /// To the base.
    pub view: View,
    /// To an array with the shape of the whole view.
    pub place: View,
}

/// The positions of a part.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Piece {
    /// The interval of each dimension; complete for joint ones.
    bounds: PerDimension<Interval>,
    /// The selected joint positions, ascending; None: all.
    points: Option<Arc<Vec<u32>>>,
}

/// A finite, non-empty view to divide.
pub struct Cutter {
    view: View,
    /// The dimensions of index arrays, and the others.
    joint: PerDimension<usize>,
    plain: PerDimension<usize>,
    /// The number of joint positions.
    points: usize,
    /// The maps of joint dimensions, with the base index of each joint position.
    flat: PerDimension<(usize, Vec<i64>)>,
    /// The numbers of the other maps.
    following: PerDimension<usize>,
    /// The range of base indices of each map.
    reach: PerDimension<Interval>,
}

impl Cutter {
    /// Prepare the division of a view; None if it is empty.
    ///
    /// # Errors
    /// `Kind::Argument` if it is not finite, `Kind::Selection` if base indices do not fit into 64
    /// bits or are invalid.
    pub fn new(view: &View) -> Result<Option<Cutter>> {
        if let Some(dim) = view.dims.iter().find(|dim| !dim.is_finite()) {
            return Err(Error::new(Kind::Argument, format!("the dimension {dim} is not finite")));
        }
        if view.dims.iter().any(Dim::is_empty) {
            return Ok(None);
        }
        let reach = view.maps.iter().map(|map| view.reached(map)).collect::<Result<_>>()?;
        let mut view = view.clone();
        for map in &mut view.maps {
            if map.stride == 0 || followed(map) == 0 {
                *map = Map::constant(map.fixed());
            }
        }
        let lists = view.maps.iter().filter(|map| matches!(map.source, Source::Array(_)));
        let varied: u64 = lists.fold(0, |dims, map| dims | followed(map));
        let size: PerDimension<usize> = view.dims.iter().map(|dim| dim.size() as usize).collect();
        let (joint, plain): (PerDimension<usize>, PerDimension<usize>) =
            (0..size.len()).partition(|&k| varied >> k & 1 == 1);
        let points = joint.iter().map(|&k| size[k]).try_fold(1, usize::checked_mul);
        let Some(points) = points.filter(|&points| points <= u32::MAX as usize) else {
            return Err(selection("more than 2^32 points in one selection"));
        };
        let (flat, following): (PerDimension<usize>, PerDimension<usize>) =
            (0..view.maps.len()).partition(|&at| followed(&view.maps[at]) & varied != 0);
        let flat = flat.into_iter().map(|at| (at, view.flat(&view.maps[at], &joint, &size))).collect();
        Ok(Some(Cutter { view, joint, plain, points, flat, following, reach }))
    }

    /// All positions.
    fn whole(&self) -> Piece {
        Piece { bounds: self.view.dims.iter().map(|dim| (dim.lower, dim.upper)).collect(), points: None }
    }

    /// The parts of the view in each box, the last box first: a position belongs to the last box
    /// that contains it.
    ///
    /// # Errors
    /// `Kind::Argument` if a position is in no box.
    pub fn by_boxes(&self, boxes: &[PerDimension<Interval>]) -> Result<Vec<(usize, Part)>> {
        let touched = (0..boxes.len()).rev().filter(|&n| {
            boxes[n]
                .iter()
                .zip(&self.reach)
                .all(|((lower, upper), (least, most))| lower <= most && least < upper)
        });
        let touched: Vec<usize> = touched.collect();
        let pieces = match self.flat.is_empty() {
            true => self.split(self.whole(), &touched, boxes, 0)?,
            false => self.split_points(&touched, boxes)?,
        };
        pieces.into_iter().map(|(n, piece)| Ok((n, self.part(&piece)?))).collect()
    }

    /// Divide a region whose points are inside all these boxes.
    fn split(
        &self,
        piece: Piece,
        numbers: &[usize],
        boxes: &[PerDimension<Interval>],
        point: usize,
    ) -> Result<Vec<(usize, Piece)>> {
        let mut left = vec![piece];
        let mut found = Vec::new();
        for &n in numbers {
            let mut rest = Vec::new();
            for piece in left {
                match self.inside(&piece, &boxes[n]) {
                    None => rest.push(piece),
                    Some(inner) => {
                        self.around(&piece, &inner, &mut rest);
                        found.push((n, inner));
                    }
                }
            }
            left = rest;
            if left.is_empty() {
                return Ok(found);
            }
        }
        let mut index: Vec<i64> = vec![0; self.view.maps.len()];
        for &at in &self.following {
            index[at] = match (&self.view.maps[at], left.first()) {
                (Map { offset, stride, source: Source::Dimension(k) }, Some(piece)) => {
                    offset + stride * piece.bounds[*k].0
                }
                (map, _) => map.offset,
            };
        }
        for (at, items) in &self.flat {
            index[*at] = items[point];
        }
        let comma = if index.len() == 1 { "," } else { "" };
        let index = index.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        Err(Error::new(Kind::Argument, format!("no layer has position ({index}{comma})")))
    }

    /// Divide all positions, if there are points.
    fn split_points(
        &self,
        touched: &[usize],
        boxes: &[PerDimension<Interval>],
    ) -> Result<Vec<(usize, Piece)>> {
        // Points between the same bounds are in the same boxes.
        let bounds = |at: usize| {
            let mut bounds: Vec<i64> =
                touched.iter().flat_map(|&n| [boxes[n][at].0, boxes[n][at].1]).collect();
            bounds.sort_unstable();
            bounds.dedup();
            bounds
        };
        let bounds: PerDimension<Vec<i64>> = self.flat.iter().map(|(at, _)| bounds(*at)).collect();
        let cell = |place: usize, index: i64| bounds[place].partition_point(|&bound| bound <= index) as i64;
        let (groups, firsts) = self.grouped(cell);
        // Regions of one box with the same intervals are one part.
        let mut pieces: Vec<(usize, Piece, Vec<u32>)> = Vec::new();
        let mut known: HashMap<(usize, Piece), usize> = HashMap::new();
        let mut of_group: Vec<Vec<usize>> = Vec::with_capacity(firsts.len());
        let mut inside = Vec::new();
        for &first in &firsts {
            inside.clear();
            inside.extend(touched.iter().copied().filter(|&n| {
                let within = |at: usize, index: i64| boxes[n][at].0 <= index && index < boxes[n][at].1;
                self.flat.iter().all(|(at, items)| within(*at, items[first as usize]))
            }));
            let mut numbers = Vec::new();
            for (n, piece) in self.split(self.whole(), &inside, boxes, first as usize)? {
                numbers.push(*known.entry((n, piece)).or_insert_with_key(|(n, piece)| {
                    pieces.push((*n, piece.clone(), Vec::new()));
                    pieces.len() - 1
                }));
            }
            of_group.push(numbers);
        }
        for (point, &group) in groups.iter().enumerate() {
            for &number in &of_group[group as usize] {
                pieces[number].2.push(point as u32);
            }
        }
        let all = self.points;
        let made = pieces.into_iter().map(|(n, piece, points)| {
            let points = (points.len() < all).then(|| Arc::new(points));
            (n, Piece { points, ..piece })
        });
        Ok(made.collect())
    }

    /// The group of each point, by cell, and the first point of each group. `cell` gets the number
    /// of the map and the base index.
    fn grouped(&self, cell: impl Fn(usize, i64) -> i64) -> (Vec<u32>, Vec<u32>) {
        let mut groups = vec![0u32; self.points];
        let mut firsts = vec![0u32];
        for (place, (at, items)) in self.flat.iter().enumerate() {
            let (least, most) = self.reach[*at];
            let least = cell(place, least);
            let span = (cell(place, most) - least) as usize + 1;
            if span == 1 {
                continue;
            }
            let mut next: Vec<u32> = Vec::new();
            let mut number = |known: &mut u32, point: usize| {
                if *known == u32::MAX {
                    *known = next.len() as u32;
                    next.push(point as u32);
                }
                *known
            };
            let place_of = |group: u32, item: i64| (group as usize, (cell(place, item) - least) as usize);
            let pairs = groups.iter_mut().zip(items).enumerate();
            match firsts.len().checked_mul(span).filter(|&size| size <= 4 * self.points + 4096) {
                Some(size) => {
                    let mut table = vec![u32::MAX; size];
                    for (point, (group, &item)) in pairs {
                        let (before, along) = place_of(*group, item);
                        *group = number(&mut table[before * span + along], point);
                    }
                }
                None => {
                    let mut table: HashMap<(usize, usize), u32> = HashMap::new();
                    for (point, (group, &item)) in pairs {
                        *group = number(table.entry(place_of(*group, item)).or_insert(u32::MAX), point);
                    }
                }
            }
            firsts = next;
        }
        (groups, firsts)
    }

    /// The positions of a region inside a box, by the maps of plain dimensions; None if there are
    /// none.
    fn inside(&self, piece: &Piece, bounds: &[Interval]) -> Option<Piece> {
        let mut inner = piece.clone();
        for &at in &self.following {
            let map = &self.view.maps[at];
            let (lower, upper) = bounds[at];
            let Source::Dimension(k) = map.source else {
                if !(lower <= map.offset && map.offset < upper) {
                    return None;
                }
                continue;
            };
            let (low, high) = before(map, lower, upper);
            let bound = &mut inner.bounds[k];
            *bound = (bound.0.max(low), bound.1.min(high));
            if bound.0 >= bound.1 {
                return None;
            }
        }
        Some(inner)
    }

    /// Append the difference of a region and a region inside it.
    fn around(&self, piece: &Piece, inner: &Piece, rest: &mut Vec<Piece>) {
        let mut left = piece.clone();
        for &k in &self.plain {
            let ((low, high), (from, to)) = (left.bounds[k], inner.bounds[k]);
            for side in [(low, from), (to, high)] {
                if side.0 < side.1 {
                    let mut beside = left.clone();
                    beside.bounds[k] = side;
                    rest.push(beside);
                }
            }
            left.bounds[k] = (from, to);
        }
    }

    /// The transforms of a region: selected points come first, then the other dimensions.
    fn part(&self, piece: &Piece) -> Result<Part> {
        let origin = |k: usize| self.view.dims[k].lower;
        let dim = |k: usize| Dim::new(piece.bounds[k].0, piece.bounds[k].1);
        let Some(points) = &piece.points else {
            let dims: PerDimension<Dim> = (0..piece.bounds.len()).map(dim).collect();
            let places = (0..dims.len()).map(|k| Map::along(k, -origin(k), 1));
            let place = View { maps: places.collect(), dims: dims.clone() };
            return Ok(Part { view: View { dims, maps: self.view.maps.clone() }, place });
        };
        let mut dims = PerDimension::from_iter([Dim::new(0, points.len() as i64)]);
        dims.extend(self.plain.iter().map(|&k| dim(k)));
        let mut shape: PerDimension<usize> = dims.iter().map(|_| 1).collect();
        shape[0] = points.len();
        let listed = |items: Vec<i64>| match items[..] {
            [item] => Ok(Map::constant(item)),
            _ => match Indices::new(items, &shape) {
                Some(indices) => Ok(Map::by_array(indices, 0, 1, WHOLE)),
                None => Err(Error::new(Kind::Internal, "a list of another length")),
            },
        };
        let number = |k: usize| 1 + self.plain.iter().position(|&plain| plain == k).unwrap_or(0);
        let mut maps = PerDimension::new();
        for (at, map) in self.view.maps.iter().enumerate() {
            maps.push(match (self.flat.iter().find(|(flat, _)| *flat == at), &map.source) {
                (Some((_, items)), _) => listed(points.iter().map(|&point| items[point as usize]).collect())?,
                (None, Source::Dimension(k)) => Map::along(number(*k), map.offset, map.stride),
                (None, _) => map.clone(),
            });
        }
        let mut places: PerDimension<Map> =
            (0..self.view.dims.len()).map(|k| Map::along(number(k), -origin(k), 1)).collect();
        let mut step = 1;
        for &k in self.joint.iter().rev() {
            let size = self.view.dims[k].size() as u32;
            places[k] = listed(points.iter().map(|point| i64::from(point / step % size)).collect())?;
            step *= size;
        }
        Ok(Part { view: View { dims: dims.clone(), maps }, place: View { dims, maps: places } })
    }
}

/// The positions of an input dimension that a map takes into an interval.
fn before(map: &Map, lower: i64, upper: i64) -> Interval {
    let (offset, by) = (i128::from(map.offset), i128::from(map.stride));
    let (low, high) = (i128::from(lower) - offset, i128::from(upper) - offset);
    match by > 0 {
        true => (within(-floor_div(-low, by)), within(-floor_div(-high, by))),
        // low <= by * k < high
        false => (within(-floor_div(high - 1, -by)), within(floor_div(-low, -by) + 1)),
    }
}

fn within(value: i128) -> i64 {
    value.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

impl View {
    /// The range of base indices of a map; the domain is finite and not empty.
    pub(super) fn reached(&self, map: &Map) -> Result<Interval> {
        let ends = match &map.source {
            Source::Nothing => (0, 0),
            Source::Dimension(k) => (self.dims[*k].lower, self.dims[*k].upper - 1),
            Source::Array(listed) => {
                listed.check()?;
                listed.indices.ends().unwrap_or((0, 0))
            }
        };
        let (one, other) = (map.applied(ends.0, 0)?.0, map.applied(ends.1, 0)?.0);
        Ok((one.min(other), one.max(other)))
    }
}

/// A grid of cells; those at the bounds of the domain are cut off.
pub struct Grid {
    /// The domain.
    pub dims: PerDimension<Dim>,
    /// The origin of cell 0.
    pub origin: PerDimension<i64>,
    /// The lengths of cells.
    pub shape: PerDimension<i64>,
}

impl Grid {
    /// The cell of an index along a dimension.
    fn cell(&self, at: usize, index: i64) -> i64 {
        let from_origin = i128::from(index) - i128::from(self.origin[at]);
        within(floor_div(from_origin, self.shape[at].into()))
    }

    /// The interval of a cell along a dimension.
    fn interval(&self, at: usize, cell: i64) -> Interval {
        let size = i128::from(self.shape[at]);
        let low = i128::from(self.origin[at]) + i128::from(cell) * size;
        (within(low), within(low + size))
    }
}

/// Cells, and the positions of the view in them: along one dimension, or as points.
struct Choice {
    cells: PerDimension<i64>,
    of: Chosen,
}

enum Chosen {
    Nothing,
    Along(usize, Interval),
    Points(Option<Arc<Vec<u32>>>),
}

/// The parts of a view in the cells of a grid, which are numbered.
pub struct Cells {
    cutter: Cutter,
    grid: Grid,
    /// The maps of each list of choices.
    maps: Vec<PerDimension<usize>>,
    choices: Vec<Vec<Choice>>,
    count: usize,
}

impl Cutter {
    /// The parts in the cells of a grid.
    ///
    /// # Errors
    /// `Kind::Selection` if a base index is outside the grid, or there are too many cells.
    pub fn by_cells(self, grid: Grid) -> Result<Cells> {
        for (k, (dim, (least, most))) in grid.dims.iter().zip(&self.reach).enumerate() {
            if *least < dim.lower || *most >= dim.upper {
                return Err(selection(format!(
                    "dimension {k}: positions from {least} to {most} are not all in {dim}"
                )));
            }
        }
        let (mut maps, mut choices) = (Vec::new(), Vec::new());
        let mut fixed = PerDimension::new();
        for k in &self.plain {
            let along = |&at: &usize| matches!(self.view.maps[at].source, Source::Dimension(j) if j == *k);
            let those: PerDimension<usize> = self.following.iter().copied().filter(along).collect();
            if !those.is_empty() {
                choices.push(self.runs(*k, &those, &grid));
                maps.push(those);
            }
        }
        fixed.extend(
            self.following.iter().copied().filter(|&at| matches!(self.view.maps[at].source, Source::Nothing)),
        );
        let cells = fixed.iter().map(|&at| grid.cell(at, self.view.maps[at].offset)).collect();
        choices.push(vec![Choice { cells, of: Chosen::Nothing }]);
        maps.push(fixed);
        if !self.flat.is_empty() {
            let (groups, firsts) = self.grouped(|place, index| grid.cell(self.flat[place].0, index));
            let mut points: Vec<Vec<u32>> = firsts.iter().map(|_| Vec::new()).collect();
            groups.iter().enumerate().for_each(|(point, &group)| points[group as usize].push(point as u32));
            let all = firsts.len() == 1;
            let choice = |(first, points): (&u32, Vec<u32>)| Choice {
                cells: self.flat.iter().map(|(at, items)| grid.cell(*at, items[*first as usize])).collect(),
                of: Chosen::Points((!all).then(|| Arc::new(points))),
            };
            choices.push(firsts.iter().zip(points).map(choice).collect());
            maps.push(self.flat.iter().map(|(at, _)| *at).collect());
        }
        let count = choices.iter().map(Vec::len).try_fold(1, usize::checked_mul);
        let count =
            count.ok_or_else(|| selection("the selection touches more chunks than can be counted"))?;
        Ok(Cells { cutter: self, grid, maps, choices, count })
    }

    /// The cells along a dimension, with the interval of the dimension in each.
    fn runs(&self, k: usize, maps: &[usize], grid: &Grid) -> Vec<Choice> {
        let (mut at, end) = (self.view.dims[k].lower, self.view.dims[k].upper);
        let mut runs = Vec::new();
        while at < end {
            let mut until = end;
            let mut cells = PerDimension::new();
            for &number in maps {
                let map = &self.view.maps[number];
                let cell = grid.cell(number, map.offset.wrapping_add(map.stride.wrapping_mul(at)));
                let (low, high) = grid.interval(number, cell);
                until = until.min(before(map, low, high).1);
                cells.push(cell);
            }
            runs.push(Choice { cells, of: Chosen::Along(k, (at, until)) });
            at = until;
        }
        runs
    }
}

impl Cells {
    /// The number of cells.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The choices of a cell, with their maps.
    fn chosen(&self, mut number: usize) -> impl Iterator<Item = (&PerDimension<usize>, &Choice)> {
        self.maps.iter().zip(&self.choices).rev().map(move |(maps, choices)| {
            let choice = &choices[number % choices.len()];
            number /= choices.len();
            (maps, choice)
        })
    }

    /// The domain of a cell.
    pub fn domain(&self, number: usize) -> impl ExactSizeIterator<Item = Dim> + '_ {
        let mut cells: PerDimension<i64> = self.grid.dims.iter().map(|_| 0).collect();
        for (maps, choice) in self.chosen(number) {
            maps.iter().zip(&choice.cells).for_each(|(&at, &cell)| cells[at] = cell);
        }
        cells.into_iter().enumerate().map(|(at, cell)| {
            let (dim, (low, high)) = (&self.grid.dims[at], self.grid.interval(at, cell));
            dim.with(low.max(dim.lower), high.min(dim.upper), (false, false))
        })
    }

    /// The part of the view in a cell; base indices count from the origin of the cell.
    ///
    /// # Errors
    /// None, unless this module has a fault.
    pub fn part(&self, number: usize) -> Result<Part> {
        let mut piece = self.cutter.whole();
        for (_, choice) in self.chosen(number) {
            match &choice.of {
                Chosen::Nothing => {}
                Chosen::Along(k, bounds) => piece.bounds[*k] = *bounds,
                Chosen::Points(points) => piece.points = points.clone(),
            }
        }
        let mut part = self.cutter.part(&piece)?;
        for (map, dim) in part.view.maps.iter_mut().zip(self.domain(number)) {
            map.offset = map.offset.wrapping_sub(dim.lower);
        }
        Ok(part)
    }
}
