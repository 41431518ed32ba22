//! Blocks of a base (for downsampling): which base elements belong to the positions of a view.
//!
//! Position `p` of a dimension with factor `f` is the block of base indices in `[p·f, (p + 1)·f)`,
//! as far as the base contains them. A view selects a set of positions of each dimension; the
//! product of these sets needs a product of base indices.

use std::ops::Range;

use super::{Dim, IndexArray, IndexTransform, MapSource, OutputMap, PerDimension, WHOLE};
use crate::error::{Error, Result};
use crate::reduce::AxisBlocks;

/// A base that is divided into blocks.
#[derive(Debug)]
pub struct Blocks {
    /// The base, as a transform of the array.
    pub base: IndexTransform,
    /// The domain of the blocks.
    pub domain: PerDimension<Dim>,
    /// The length of a block along each dimension.
    pub factors: PerDimension<i64>,
}

/// The blocks that a view needs.
pub struct BlockSources {
    positions: PerDimension<Positions>,
    /// The positions of the view in the product of blocks.
    pub order: IndexTransform,
}

/// Positions along one dimension, ascending.
enum Positions {
    Every { first: i64, step: i64, count: usize },
    Listed(Vec<i64>),
}

impl Positions {
    fn count(&self) -> usize {
        match self {
            Positions::Every { count, .. } => *count,
            Positions::Listed(all) => all.len(),
        }
    }

    fn number(&self, index: usize) -> i64 {
        match self {
            Positions::Every { first, step, .. } => first + step * index as i64,
            Positions::Listed(all) => all[index],
        }
    }
}

impl Blocks {
    /// Return the blocks that a transform needs; None for an empty domain.
    ///
    /// # Errors
    /// `Kind::Selection` if the domain is not finite, or a position has no block.
    pub fn sources(&self, view: &IndexTransform) -> Result<Option<BlockSources>> {
        if let Some(dim) = view.dims.iter().find(|dim| !dim.is_finite()) {
            return Err(Error::selection(format!("the dimension {dim} is not finite")));
        }
        if view.dims.iter().any(Dim::is_empty) {
            return Ok(None);
        }
        let mut order = IndexTransform { dims: view.dims.clone(), maps: PerDimension::new() };
        let mut positions = PerDimension::new();
        for (number, (map, dim)) in view.maps.iter().zip(&self.domain).enumerate() {
            let (min, max) = view.output_range(map)?;
            // Beyond implicit bounds, the base itself checks single elements.
            let is_single_element = self.factors[number] == 1;
            let is_below = min < dim.lower && !(is_single_element && dim.implicit.0);
            let is_above = max >= dim.upper && !(is_single_element && dim.implicit.1);
            if is_below || is_above {
                let message =
                    format!("dimension {number}: positions from {min} to {max} are not all in {dim}");
                return Err(Error::selection(message));
            }
            let (positions_along, index) = match &map.source {
                MapSource::IndexArray(listed) if map.stride != 0 => {
                    let items = listed.indices.to_vec().into_iter();
                    let all: Vec<i64> = items.map(|item| map.offset + map.stride * item).collect();
                    let mut positions_along = all.clone();
                    positions_along.sort_unstable();
                    positions_along.dedup();
                    let numbers = all
                        .iter()
                        .map(|position| positions_along.partition_point(|known| known < position) as i64);
                    let numbers = IndexArray::new(numbers.collect(), &listed.indices.shape());
                    let numbers =
                        numbers.ok_or_else(|| Error::selection("an index list of another length"))?;
                    let mut order_map = OutputMap::from_index_array(numbers, 0, 1, WHOLE);
                    order_map.simplify(&view.dims)?;
                    (Positions::Listed(positions_along), order_map)
                }
                MapSource::InputDimension(k) if map.stride != 0 => {
                    let (dim, step) = (&view.dims[*k], map.stride.abs());
                    let count = dim.size() as usize;
                    let index = match map.stride > 0 {
                        true => OutputMap::from_dimension(*k, -dim.lower, 1),
                        false => OutputMap::from_dimension(*k, dim.upper - 1, -1),
                    };
                    (Positions::Every { first: min, step, count }, index)
                }
                _ => (Positions::Every { first: min, step: 1, count: 1 }, OutputMap::constant(0)),
            };
            positions.push(positions_along);
            order.maps.push(index);
        }
        Ok(Some(BlockSources { positions, order }))
    }

    /// Return the base elements of the blocks in some rows along the first dimension: as a
    /// transform of the array, with the division into blocks.
    ///
    /// # Errors
    /// `Kind::Selection` if it does not fit the base.
    pub fn part(
        &self,
        sources: &BlockSources,
        rows: Range<usize>,
    ) -> Result<(IndexTransform, Vec<AxisBlocks>)> {
        let rank = sources.positions.len();
        let mut part = IndexTransform { dims: PerDimension::new(), maps: PerDimension::new() };
        let mut axis_blocks = Vec::with_capacity(rank);
        for (k, positions) in sources.positions.iter().enumerate() {
            let numbers = if k == 0 { rows.clone() } else { 0..positions.count() };
            let range = self.range_along(k, positions, numbers)?;
            part.dims.push(Dim::new(0, range.size));
            part.maps.push(match range.items {
                None => OutputMap::from_dimension(k, range.first, 1),
                Some(items) => {
                    let mut shape: PerDimension<usize> = (0..rank).map(|_| 1).collect();
                    shape[k] = items.len();
                    let items = IndexArray::new(items, &shape);
                    let items = items.ok_or_else(|| Error::selection("an index list of another length"))?;
                    OutputMap::from_index_array(items, 0, 1, WHOLE)
                }
            });
            axis_blocks.push(range.blocks);
        }
        Ok((self.base.compose_resolving(&part)?, axis_blocks))
    }

    fn range_along(&self, k: usize, positions: &Positions, numbers: Range<usize>) -> Result<BlockRange> {
        let count = numbers.len();
        let (Some(first), Some(last)) = (numbers.clone().next(), numbers.clone().next_back()) else {
            return Err(Error::selection("no positions"));
        };
        let (begin, end) =
            (self.base_interval(k, positions.number(first)), self.base_interval(k, positions.number(last)));
        let blocks = divide(begin.1 - begin.0, end.1 - end.0, self.factors[k], count);
        let total = end.1 - begin.0;
        // All omitted blocks between the first and the last are complete.
        let omitted = (count as i64 - 2).max(0).saturating_mul(self.factors[k]);
        let size = if count == 1 { total } else { (begin.1 - begin.0) + omitted + (end.1 - end.0) };
        let items = (size != total).then(|| {
            numbers.flat_map(|index| {
                let (low, high) = self.base_interval(k, positions.number(index));
                low..high
            })
        });
        Ok(BlockRange { first: begin.0, size, items: items.map(Iterator::collect), blocks })
    }

    /// Return the base interval of a position.
    fn base_interval(&self, k: usize, position: i64) -> (i64, i64) {
        let (dim, factor) = (&self.base.dims[k], i128::from(self.factors[k]));
        if factor == 1 {
            return (position, position + 1);
        }
        let low = (i128::from(position) * factor).max(i128::from(dim.lower));
        let high = ((i128::from(position) + 1) * factor).min(i128::from(dim.upper));
        (low as i64, high as i64)
    }
}

/// The base indices of positions along one dimension.
struct BlockRange {
    /// The first index.
    first: i64,
    /// The number of indices.
    size: i64,
    /// The indices, unless they are an interval.
    items: Option<Vec<i64>>,
    blocks: AxisBlocks,
}

/// Return the division of an axis whose blocks are complete except the first and the last.
fn divide(first: i64, last: i64, factor: i64, count: usize) -> AxisBlocks {
    let first = if first == factor { 0 } else { first as usize };
    let lead = usize::from(first > 0);
    let last = if last == factor || count == lead { 0 } else { last as usize };
    AxisBlocks { first, whole: factor as usize, wholes: count - lead - usize::from(last > 0), last }
}

impl BlockSources {
    /// Return the number of positions of each dimension.
    pub fn counts(&self) -> impl Iterator<Item = usize> + '_ {
        self.positions.iter().map(Positions::count)
    }

    /// Return whether the positions of the view are in the order of the product.
    #[must_use]
    pub fn is_in_order(&self) -> bool {
        let (dims, maps) = (&self.order.dims, &self.order.maps);
        let straight = |(k, dim): (usize, &Dim)| maps[k] == OutputMap::from_dimension(k, -dim.lower, 1);
        dims.len() == maps.len() && dims.iter().enumerate().all(straight)
    }
}
