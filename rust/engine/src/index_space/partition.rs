//! Partitions of a view: by boxes of its base, or by the cells of a grid.
//!
//! The positions of a view are a box. Those whose base indices lie in another box are a box again,
//! unless a map has an index array: each map of an input dimension bounds it. The dimensions of
//! index arrays are flattened into a list of *points*. So a part is a list of points (or all) times
//! a box of the other dimensions, and the difference of two parts consists of few parts.

use std::collections::HashMap;
use std::sync::Arc;

use super::dim::floor_div;
use super::to_selection::input_dimensions;
use super::{Dim, IndexArray, IndexTransform, MapSource, OutputMap, PerDimension, WHOLE};
use crate::error::{Error, Result};

/// A half-open interval.
type Interval = (i64, i64);

/// A part of a view: two transforms from the domain of the part.
pub struct ViewPart {
    /// To the base.
    pub view: IndexTransform,
    /// To an array with the shape of the whole view.
    pub target: IndexTransform,
}

/// The positions of a part.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Region {
    /// The interval of each dimension; complete for joint ones.
    bounds: PerDimension<Interval>,
    /// The selected joint positions, ascending; None: all.
    points: Option<Arc<Vec<u32>>>,
}

/// A finite, non-empty view to divide.
pub struct Partitioner {
    view: IndexTransform,
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

impl Partitioner {
    /// Prepare the division of a view; None if it is empty.
    ///
    /// # Errors
    /// `Kind::Argument` if it is not finite, `Kind::Selection` if base indices do not fit into 64
    /// bits or are invalid.
    pub fn new(view: &IndexTransform) -> Result<Option<Partitioner>> {
        if let Some(dim) = view.dims.iter().find(|dim| !dim.is_finite()) {
            return Err(Error::argument(format!("the dimension {dim} is not finite")));
        }
        if view.dims.iter().any(Dim::is_empty) {
            return Ok(None);
        }
        let reach = view.maps.iter().map(|map| view.output_range(map)).collect::<Result<_>>()?;
        let mut view = view.clone();
        for map in &mut view.maps {
            if map.stride == 0 || input_dimensions(map) == 0 {
                *map = OutputMap::constant(map.constant_value());
            }
        }
        let lists = view.maps.iter().filter(|map| matches!(map.source, MapSource::IndexArray(_)));
        let varied: u64 = lists.fold(0, |dims, map| dims | input_dimensions(map));
        let size: PerDimension<usize> = view.dims.iter().map(|dim| dim.size() as usize).collect();
        let (joint, plain): (PerDimension<usize>, PerDimension<usize>) =
            (0..size.len()).partition(|&k| varied >> k & 1 == 1);
        let points = joint.iter().map(|&k| size[k]).try_fold(1, usize::checked_mul);
        let Some(points) = points.filter(|&points| points <= u32::MAX as usize) else {
            return Err(Error::selection("more than 2^32 points in one selection"));
        };
        let (flat, following): (PerDimension<usize>, PerDimension<usize>) = (0..view.maps.len())
            .partition(|&map_number| input_dimensions(&view.maps[map_number]) & varied != 0);
        let flat = flat
            .into_iter()
            .map(|map_number| (map_number, view.flattened_indices(&view.maps[map_number], &joint, &size)))
            .collect();
        Ok(Some(Partitioner { view, joint, plain, points, flat, following, reach }))
    }

    /// Return all positions.
    fn all_positions(&self) -> Region {
        Region { bounds: self.view.dims.iter().map(|dim| (dim.lower, dim.upper)).collect(), points: None }
    }

    /// Return the parts of the view in each box, the last box first: a position belongs to the last
    /// box that contains it.
    ///
    /// # Errors
    /// `Kind::Argument` if a position is in no box.
    pub fn by_boxes(&self, boxes: &[PerDimension<Interval>]) -> Result<Vec<(usize, ViewPart)>> {
        let touched = (0..boxes.len()).rev().filter(|&n| {
            boxes[n].iter().zip(&self.reach).all(|((lower, upper), (min, max))| lower <= max && min < upper)
        });
        let touched: Vec<usize> = touched.collect();
        let regions = match self.flat.is_empty() {
            true => self.divide(self.all_positions(), &touched, boxes, 0)?,
            false => self.divide_points(&touched, boxes)?,
        };
        regions.into_iter().map(|(n, region)| Ok((n, self.part(&region)?))).collect()
    }

    /// Divide a region whose points are inside all these boxes.
    fn divide(
        &self,
        region: Region,
        numbers: &[usize],
        boxes: &[PerDimension<Interval>],
        point: usize,
    ) -> Result<Vec<(usize, Region)>> {
        let mut remaining = vec![region];
        let mut parts = Vec::new();
        for &n in numbers {
            let mut rest = Vec::new();
            for region in remaining {
                match self.intersection(&region, &boxes[n]) {
                    None => rest.push(region),
                    Some(inner) => {
                        self.difference(&region, &inner, &mut rest);
                        parts.push((n, inner));
                    }
                }
            }
            remaining = rest;
            if remaining.is_empty() {
                return Ok(parts);
            }
        }
        let mut index: Vec<i64> = vec![0; self.view.maps.len()];
        for &map_number in &self.following {
            index[map_number] = match (&self.view.maps[map_number], remaining.first()) {
                (OutputMap { offset, stride, source: MapSource::InputDimension(k) }, Some(region)) => {
                    offset + stride * region.bounds[*k].0
                }
                (map, _) => map.offset,
            };
        }
        for (map_number, items) in &self.flat {
            index[*map_number] = items[point];
        }
        let comma = if index.len() == 1 { "," } else { "" };
        let index = index.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        Err(Error::argument(format!("no layer has position ({index}{comma})")))
    }

    /// Divide all positions, if the view has points.
    fn divide_points(
        &self,
        touched: &[usize],
        boxes: &[PerDimension<Interval>],
    ) -> Result<Vec<(usize, Region)>> {
        // Points between the same bounds are in the same boxes.
        let bounds = |map_number: usize| {
            let mut bounds: Vec<i64> =
                touched.iter().flat_map(|&n| [boxes[n][map_number].0, boxes[n][map_number].1]).collect();
            bounds.sort_unstable();
            bounds.dedup();
            bounds
        };
        let bounds: PerDimension<Vec<i64>> =
            self.flat.iter().map(|(map_number, _)| bounds(*map_number)).collect();
        let cell = |target: usize, index: i64| bounds[target].partition_point(|&bound| bound <= index) as i64;
        let (groups, firsts) = self.group_points(cell);
        // Regions of one box with the same intervals are one part.
        let mut regions: Vec<(usize, Region, Vec<u32>)> = Vec::new();
        let mut part_numbers: HashMap<(usize, Region), usize> = HashMap::new();
        let mut of_group: Vec<Vec<usize>> = Vec::with_capacity(firsts.len());
        let mut inside = Vec::new();
        for &first in &firsts {
            inside.clear();
            inside.extend(touched.iter().copied().filter(|&n| {
                self.flat.iter().all(|(map_number, items)| {
                    let (lower, upper) = boxes[n][*map_number];
                    (lower..upper).contains(&items[first as usize])
                })
            }));
            let mut numbers = Vec::new();
            for (n, region) in self.divide(self.all_positions(), &inside, boxes, first as usize)? {
                numbers.push(*part_numbers.entry((n, region)).or_insert_with_key(|(n, region)| {
                    regions.push((*n, region.clone(), Vec::new()));
                    regions.len() - 1
                }));
            }
            of_group.push(numbers);
        }
        for (point, &group) in groups.iter().enumerate() {
            for &number in &of_group[group as usize] {
                regions[number].2.push(point as u32);
            }
        }
        let all = self.points;
        let regions_with_points = regions.into_iter().map(|(n, region, points)| {
            let points = (points.len() < all).then(|| Arc::new(points));
            (n, Region { points, ..region })
        });
        Ok(regions_with_points.collect())
    }

    /// Return the group of each point, by cell, and the first point of each group. `cell` gets the
    /// number of the map and the base index.
    fn group_points(&self, cell: impl Fn(usize, i64) -> i64) -> (Vec<u32>, Vec<u32>) {
        let mut groups = vec![0u32; self.points];
        let mut firsts = vec![0u32];
        for (target, (map_number, items)) in self.flat.iter().enumerate() {
            let (min, max) = self.reach[*map_number];
            let min = cell(target, min);
            let span = (cell(target, max) - min) as usize + 1;
            if span == 1 {
                continue;
            }
            let mut next: Vec<u32> = Vec::new();
            let mut number = |slot: &mut u32, point: usize| {
                if *slot == u32::MAX {
                    *slot = next.len() as u32;
                    next.push(point as u32);
                }
                *slot
            };
            let slot_of = |group: u32, item: i64| (group as usize, (cell(target, item) - min) as usize);
            let pairs = groups.iter_mut().zip(items).enumerate();
            match firsts.len().checked_mul(span).filter(|&size| size <= 4 * self.points + 4096) {
                Some(size) => {
                    let mut table = vec![u32::MAX; size];
                    for (point, (group, &item)) in pairs {
                        let (row, column) = slot_of(*group, item);
                        *group = number(&mut table[row * span + column], point);
                    }
                }
                None => {
                    let mut table: HashMap<(usize, usize), u32> = HashMap::new();
                    for (point, (group, &item)) in pairs {
                        *group = number(table.entry(slot_of(*group, item)).or_insert(u32::MAX), point);
                    }
                }
            }
            firsts = next;
        }
        (groups, firsts)
    }

    /// Return the positions of a region inside a box, by the maps of plain dimensions; None if the
    /// box contains none.
    fn intersection(&self, region: &Region, bounds: &[Interval]) -> Option<Region> {
        let mut inner = region.clone();
        for &map_number in &self.following {
            let map = &self.view.maps[map_number];
            let (lower, upper) = bounds[map_number];
            let MapSource::InputDimension(k) = map.source else {
                if !(lower <= map.offset && map.offset < upper) {
                    return None;
                }
                continue;
            };
            let (low, high) = preimage(map, lower, upper);
            let bound = &mut inner.bounds[k];
            *bound = (bound.0.max(low), bound.1.min(high));
            if bound.0 >= bound.1 {
                return None;
            }
        }
        Some(inner)
    }

    /// Append the difference of a region and a region inside it.
    fn difference(&self, region: &Region, inner: &Region, rest: &mut Vec<Region>) {
        let mut remaining = region.clone();
        for &k in &self.plain {
            let ((low, high), (from, to)) = (remaining.bounds[k], inner.bounds[k]);
            for side in [(low, from), (to, high)] {
                if side.0 < side.1 {
                    let mut rest_region = remaining.clone();
                    rest_region.bounds[k] = side;
                    rest.push(rest_region);
                }
            }
            remaining.bounds[k] = (from, to);
        }
    }

    /// Return the transforms of a region: selected points come first, then the other dimensions.
    fn part(&self, region: &Region) -> Result<ViewPart> {
        let origin = |k: usize| self.view.dims[k].lower;
        let dim = |k: usize| Dim::new(region.bounds[k].0, region.bounds[k].1);
        let Some(points) = &region.points else {
            let dims: PerDimension<Dim> = (0..region.bounds.len()).map(dim).collect();
            let position_maps = (0..dims.len()).map(|k| OutputMap::from_dimension(k, -origin(k), 1));
            let target = IndexTransform { maps: position_maps.collect(), dims: dims.clone() };
            return Ok(ViewPart { view: IndexTransform { dims, maps: self.view.maps.clone() }, target });
        };
        let mut dims = PerDimension::from_iter([Dim::new(0, points.len() as i64)]);
        dims.extend(self.plain.iter().map(|&k| dim(k)));
        let mut shape: PerDimension<usize> = dims.iter().map(|_| 1).collect();
        shape[0] = points.len();
        let listed = |items: Vec<i64>| match items[..] {
            [item] => Ok(OutputMap::constant(item)),
            _ => match IndexArray::new(items, &shape) {
                Some(indices) => Ok(OutputMap::from_index_array(indices, 0, 1, WHOLE)),
                None => Err(Error::internal("an index list of another length")),
            },
        };
        let number = |k: usize| 1 + self.plain.iter().position(|&plain| plain == k).unwrap_or(0);
        let mut maps = PerDimension::new();
        for (map_number, map) in self.view.maps.iter().enumerate() {
            maps.push(match (self.flat.iter().find(|(flat, _)| *flat == map_number), &map.source) {
                (Some((_, items)), _) => listed(points.iter().map(|&point| items[point as usize]).collect())?,
                (None, MapSource::InputDimension(k)) => {
                    OutputMap::from_dimension(number(*k), map.offset, map.stride)
                }
                (None, _) => map.clone(),
            });
        }
        let mut position_maps: PerDimension<OutputMap> =
            (0..self.view.dims.len()).map(|k| OutputMap::from_dimension(number(k), -origin(k), 1)).collect();
        let mut step = 1;
        for &k in self.joint.iter().rev() {
            let size = self.view.dims[k].size() as u32;
            position_maps[k] = listed(points.iter().map(|point| i64::from(point / step % size)).collect())?;
            step *= size;
        }
        Ok(ViewPart {
            view: IndexTransform { dims: dims.clone(), maps },
            target: IndexTransform { dims, maps: position_maps },
        })
    }
}

/// Return the positions of an input dimension that a map takes into an interval.
fn preimage(map: &OutputMap, lower: i64, upper: i64) -> Interval {
    let (offset, by) = (i128::from(map.offset), i128::from(map.stride));
    let (low, high) = (i128::from(lower) - offset, i128::from(upper) - offset);
    match by > 0 {
        true => (clamp_to_i64(-floor_div(-low, by)), clamp_to_i64(-floor_div(-high, by))),
        // low <= by * k < high
        false => (clamp_to_i64(-floor_div(high - 1, -by)), clamp_to_i64(floor_div(-low, -by) + 1)),
    }
}

fn clamp_to_i64(value: i128) -> i64 {
    value.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

impl IndexTransform {
    /// Return the range of base indices of a map; the domain is finite and not empty.
    pub(super) fn output_range(&self, map: &OutputMap) -> Result<Interval> {
        let ends = match &map.source {
            MapSource::Constant => (0, 0),
            MapSource::InputDimension(k) => (self.dims[*k].lower, self.dims[*k].upper - 1),
            MapSource::IndexArray(listed) => {
                listed.check()?;
                listed.indices.min_max().unwrap_or((0, 0))
            }
        };
        let (one, other) = (map.compose_linear(ends.0, 0)?.0, map.compose_linear(ends.1, 0)?.0);
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
    /// Return the cell of an index along a dimension.
    fn cell(&self, map_number: usize, index: i64) -> i64 {
        let from_origin = i128::from(index) - i128::from(self.origin[map_number]);
        clamp_to_i64(floor_div(from_origin, self.shape[map_number].into()))
    }

    /// Return the interval of a cell along a dimension.
    fn interval(&self, map_number: usize, cell: i64) -> Interval {
        let size = i128::from(self.shape[map_number]);
        let low = i128::from(self.origin[map_number]) + i128::from(cell) * size;
        (clamp_to_i64(low), clamp_to_i64(low + size))
    }
}

/// Cells, and the positions of the view in them: along one dimension, or as points.
struct CellRange {
    cells: PerDimension<i64>,
    of: RangePositions,
}

enum RangePositions {
    Nothing,
    Along(usize, Interval),
    Points(Option<Arc<Vec<u32>>>),
}

/// The parts of a view in the cells of a grid, which are numbered.
pub struct GridPartition {
    cutter: Partitioner,
    grid: Grid,
    /// The maps of each list of choices.
    maps: Vec<PerDimension<usize>>,
    cell_ranges: Vec<Vec<CellRange>>,
    count: usize,
}

impl Partitioner {
    /// Return the parts in the cells of a grid.
    ///
    /// # Errors
    /// `Kind::Selection` if a base index is outside the grid, or the grid has too many cells.
    pub fn by_cells(self, grid: Grid) -> Result<GridPartition> {
        for (k, (dim, (min, max))) in grid.dims.iter().zip(&self.reach).enumerate() {
            if *min < dim.lower || *max >= dim.upper {
                return Err(Error::selection(format!(
                    "dimension {k}: positions from {min} to {max} are not all in {dim}"
                )));
            }
        }
        let (mut maps, mut cell_ranges) = (Vec::new(), Vec::new());
        let mut fixed = PerDimension::new();
        for k in &self.plain {
            let along = |&map_number: &usize| matches!(self.view.maps[map_number].source, MapSource::InputDimension(j) if j == *k);
            let maps_of_dim: PerDimension<usize> = self.following.iter().copied().filter(along).collect();
            if !maps_of_dim.is_empty() {
                cell_ranges.push(self.cells_along(*k, &maps_of_dim, &grid));
                maps.push(maps_of_dim);
            }
        }
        fixed.extend(
            self.following
                .iter()
                .copied()
                .filter(|&map_number| matches!(self.view.maps[map_number].source, MapSource::Constant)),
        );
        let cells = fixed
            .iter()
            .map(|&map_number| grid.cell(map_number, self.view.maps[map_number].offset))
            .collect();
        cell_ranges.push(vec![CellRange { cells, of: RangePositions::Nothing }]);
        maps.push(fixed);
        if !self.flat.is_empty() {
            let (groups, firsts) = self.group_points(|target, index| grid.cell(self.flat[target].0, index));
            let mut points: Vec<Vec<u32>> = firsts.iter().map(|_| Vec::new()).collect();
            groups.iter().enumerate().for_each(|(point, &group)| points[group as usize].push(point as u32));
            let all = firsts.len() == 1;
            let cell_range = |(first, points): (&u32, Vec<u32>)| CellRange {
                cells: self
                    .flat
                    .iter()
                    .map(|(map_number, items)| grid.cell(*map_number, items[*first as usize]))
                    .collect(),
                of: RangePositions::Points((!all).then(|| Arc::new(points))),
            };
            cell_ranges.push(firsts.iter().zip(points).map(cell_range).collect());
            maps.push(self.flat.iter().map(|(map_number, _)| *map_number).collect());
        }
        let count = cell_ranges.iter().map(Vec::len).try_fold(1, usize::checked_mul);
        let count =
            count.ok_or_else(|| Error::selection("the selection touches more chunks than can be counted"))?;
        Ok(GridPartition { cutter: self, grid, maps, cell_ranges, count })
    }

    /// Return the cells along a dimension, with the interval of the dimension in each.
    fn cells_along(&self, k: usize, maps: &[usize], grid: &Grid) -> Vec<CellRange> {
        let (mut position, end) = (self.view.dims[k].lower, self.view.dims[k].upper);
        let mut runs = Vec::new();
        while position < end {
            let mut end_of_cell = end;
            let mut cells = PerDimension::new();
            for &number in maps {
                let map = &self.view.maps[number];
                let cell = grid.cell(number, map.offset.wrapping_add(map.stride.wrapping_mul(position)));
                let (low, high) = grid.interval(number, cell);
                end_of_cell = end_of_cell.min(preimage(map, low, high).1);
                cells.push(cell);
            }
            runs.push(CellRange { cells, of: RangePositions::Along(k, (position, end_of_cell)) });
            position = end_of_cell;
        }
        runs
    }
}

impl GridPartition {
    /// Return the number of cells.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Return the choices of a cell, with their maps.
    fn cell_ranges_of(&self, mut number: usize) -> impl Iterator<Item = (&PerDimension<usize>, &CellRange)> {
        self.maps.iter().zip(&self.cell_ranges).rev().map(move |(maps, cell_ranges)| {
            let cell_range = &cell_ranges[number % cell_ranges.len()];
            number /= cell_ranges.len();
            (maps, cell_range)
        })
    }

    /// Return the domain of a cell.
    pub fn domain(&self, number: usize) -> impl ExactSizeIterator<Item = Dim> + '_ {
        let mut cells: PerDimension<i64> = self.grid.dims.iter().map(|_| 0).collect();
        for (maps, cell_range) in self.cell_ranges_of(number) {
            maps.iter().zip(&cell_range.cells).for_each(|(&map_number, &cell)| cells[map_number] = cell);
        }
        cells.into_iter().enumerate().map(|(map_number, cell)| {
            let (dim, (low, high)) = (&self.grid.dims[map_number], self.grid.interval(map_number, cell));
            dim.with_bounds(low.max(dim.lower), high.min(dim.upper), (false, false))
        })
    }

    /// Return the part of the view in a cell; base indices count from the origin of the cell.
    ///
    /// # Errors
    /// None, unless this module has a fault.
    pub fn part(&self, number: usize) -> Result<ViewPart> {
        let mut region = self.cutter.all_positions();
        for (_, cell_range) in self.cell_ranges_of(number) {
            match &cell_range.of {
                RangePositions::Nothing => {}
                RangePositions::Along(k, bounds) => region.bounds[*k] = *bounds,
                RangePositions::Points(points) => region.points = points.clone(),
            }
        }
        let mut part = self.cutter.part(&region)?;
        for (map, dim) in part.view.maps.iter_mut().zip(self.domain(number)) {
            map.offset = map.offset.wrapping_sub(dim.lower);
        }
        Ok(part)
    }
}
