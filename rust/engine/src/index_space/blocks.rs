//! Blocks of a base (for downsampling): which base elements belong to the positions of a view.
//!
//! Position `p` of a dimension with factor `f` is the block of base indices from `p * f` to `(p +
//! 1) * f`, as far as the base contains them. A view selects a set of positions of each dimension;
//! the product of these sets needs a product of base indices.

use std::ops::Range;

use super::{selection, Dim, Indices, Map, PerDimension, Source, View, WHOLE};
use crate::error::Result;
use crate::reduce::Cut;

/// A base that is divided into blocks.
#[derive(Debug)]
pub struct Blocks {
    /// The base, as a transform of the array.
    pub base: View,
    /// The domain of the blocks.
    pub domain: PerDimension<Dim>,
    /// The length of a block along each dimension.
    pub factors: PerDimension<i64>,
}

/// The blocks that a view needs.
pub struct Behind {
    positions: PerDimension<Positions>,
    /// The positions of the view in the product of blocks.
    pub order: View,
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

    fn at(&self, place: usize) -> i64 {
        match self {
            Positions::Every { first, step, .. } => first + step * place as i64,
            Positions::Listed(all) => all[place],
        }
    }
}

impl Blocks {
    /// The blocks that a transform needs; None for an empty domain.
    ///
    /// # Errors
    /// `Kind::Selection` if the domain is not finite, or a position has no block.
    pub fn behind(&self, view: &View) -> Result<Option<Behind>> {
        if let Some(dim) = view.dims.iter().find(|dim| !dim.is_finite()) {
            return Err(selection(format!("the dimension {dim} is not finite")));
        }
        if view.dims.iter().any(Dim::is_empty) {
            return Ok(None);
        }
        let mut order = View { dims: view.dims.clone(), maps: PerDimension::new() };
        let mut positions = PerDimension::new();
        for (at, (map, dim)) in view.maps.iter().zip(&self.domain).enumerate() {
            let (least, most) = view.reached(map)?;
            // Beyond implicit bounds, the base itself checks single elements.
            let single = self.factors[at] == 1;
            let before = least < dim.lower && !(single && dim.implicit.0);
            let beyond = most >= dim.upper && !(single && dim.implicit.1);
            if before || beyond {
                let message =
                    format!("dimension {at}: positions from {least} to {most} are not all in {dim}");
                return Err(selection(message));
            }
            let (some, place) = match &map.source {
                Source::Array(listed) if map.stride != 0 => {
                    let items = listed.indices.to_vec().into_iter();
                    let all: Vec<i64> = items.map(|item| map.offset + map.stride * item).collect();
                    let mut some = all.clone();
                    some.sort_unstable();
                    some.dedup();
                    let places = all.iter().map(|one| some.partition_point(|other| other < one) as i64);
                    let places = Indices::new(places.collect(), &listed.indices.shape());
                    let places = places.ok_or_else(|| selection("a list of another length"))?;
                    let mut placed = Map::by_array(places, 0, 1, WHOLE);
                    placed.simplify(&view.dims)?;
                    (Positions::Listed(some), placed)
                }
                Source::Dimension(k) if map.stride != 0 => {
                    let (dim, step) = (&view.dims[*k], map.stride.abs());
                    let count = dim.size() as usize;
                    let place = match map.stride > 0 {
                        true => Map::along(*k, -dim.lower, 1),
                        false => Map::along(*k, dim.upper - 1, -1),
                    };
                    (Positions::Every { first: least, step, count }, place)
                }
                _ => (Positions::Every { first: least, step: 1, count: 1 }, Map::constant(0)),
            };
            positions.push(some);
            order.maps.push(place);
        }
        Ok(Some(Behind { positions, order }))
    }

    /// The base elements of the blocks in some rows along the first dimension: as a transform of
    /// the array, with the division into blocks.
    ///
    /// # Errors
    /// `Kind::Selection` if it does not fit the base.
    pub fn part(&self, behind: &Behind, rows: Range<usize>) -> Result<(View, Vec<Cut>)> {
        let rank = behind.positions.len();
        let mut part = View { dims: PerDimension::new(), maps: PerDimension::new() };
        let mut cuts = Vec::with_capacity(rank);
        for (k, positions) in behind.positions.iter().enumerate() {
            let places = if k == 0 { rows.clone() } else { 0..positions.count() };
            let found = self.along(k, positions, places)?;
            part.dims.push(Dim::new(0, found.size));
            part.maps.push(match found.items {
                None => Map::along(k, found.first, 1),
                Some(items) => {
                    let mut shape: PerDimension<usize> = (0..rank).map(|_| 1).collect();
                    shape[k] = items.len();
                    let items = Indices::new(items, &shape);
                    let items = items.ok_or_else(|| selection("a list of another length"))?;
                    Map::by_array(items, 0, 1, WHOLE)
                }
            });
            cuts.push(found.cut);
        }
        Ok((self.base.viewed(&part)?, cuts))
    }

    fn along(&self, k: usize, positions: &Positions, places: Range<usize>) -> Result<Along> {
        let count = places.len();
        let (Some(first), Some(last)) = (places.clone().next(), places.clone().next_back()) else {
            return Err(selection("no positions"));
        };
        let (begin, end) = (self.interval(k, positions.at(first)), self.interval(k, positions.at(last)));
        let cut = cut(begin.1 - begin.0, end.1 - end.0, self.factors[k], count);
        let whole = end.1 - begin.0;
        // All omitted blocks between the first and the last are complete.
        let inside = (count as i64 - 2).max(0).saturating_mul(self.factors[k]);
        let size = if count == 1 { whole } else { (begin.1 - begin.0) + inside + (end.1 - end.0) };
        let items = (size != whole).then(|| {
            places.flat_map(|place| {
                let (low, high) = self.interval(k, positions.at(place));
                low..high
            })
        });
        Ok(Along { first: begin.0, size, items: items.map(Iterator::collect), cut })
    }

    /// The base interval of a position.
    fn interval(&self, k: usize, position: i64) -> (i64, i64) {
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
struct Along {
    /// The first index.
    first: i64,
    /// The number of indices.
    size: i64,
    /// The indices, unless they are an interval.
    items: Option<Vec<i64>>,
    cut: Cut,
}

/// The division of an axis whose blocks are complete except the first and the last.
fn cut(first: i64, last: i64, factor: i64, count: usize) -> Cut {
    let first = if first == factor { 0 } else { first as usize };
    let lead = usize::from(first > 0);
    let last = if last == factor || count == lead { 0 } else { last as usize };
    Cut { first, whole: factor as usize, wholes: count - lead - usize::from(last > 0), last }
}

impl Behind {
    /// The number of positions of each dimension.
    pub fn counts(&self) -> impl Iterator<Item = usize> + '_ {
        self.positions.iter().map(Positions::count)
    }

    /// Whether the positions of the view are in the order of the product.
    #[must_use]
    pub fn is_straight(&self) -> bool {
        let (dims, maps) = (&self.order.dims, &self.order.maps);
        let straight = |(k, dim): (usize, &Dim)| maps[k] == Map::along(k, -dim.lower, 1);
        dims.len() == maps.len() && dims.iter().enumerate().all(straight)
    }
}
