//! Blocks of a base, each of which is one position of a view: what stands behind some of these.
//!
//! The position `p` of a dimension with factor `f` stands for those of the base at `p * f` up to `(p + 1) * f`,
//! as far as the base has them. A view of blocks asks for a set of positions of each dimension; behind the
//! product of these sets stands a product of indices of the base.

use std::ops::Range;

use super::{selection, Dim, Indices, Map, PerDimension, Source, View, WHOLE};
use crate::error::Result;
use crate::reduce::Cut;

/// A base that is cut into blocks.
#[derive(Debug)]
pub struct Blocks {
    /// The base, as a view of what is read.
    pub base: View,
    /// Where there are blocks.
    pub domain: PerDimension<Dim>,
    /// How long blocks are.
    pub factors: PerDimension<i64>,
}

/// What stands behind a view of blocks.
pub struct Behind {
    positions: PerDimension<Positions>,
    /// Where the positions of the view are in the product.
    pub order: View,
}

/// Those of one dimension, ascending.
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
    /// What stands behind a view; None if that has no position.
    ///
    /// # Errors
    /// `Kind::Selection` if the view is not finite, or there is no block at a position.
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
            // Beyond implicit bounds, it is the base that knows of single elements.
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

    /// What stands behind those positions whose places along the first dimension are in a range: as a view
    /// of what is read, and how it is cut into blocks.
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
        // What is left out is inside of blocks that are there in full.
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

    /// Which interval of the base stands behind a position.
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

/// What stands behind positions of one dimension.
struct Along {
    /// The first index of the base.
    first: i64,
    /// How many there are.
    size: i64,
    /// Which, unless they are an interval.
    items: Option<Vec<i64>>,
    cut: Cut,
}

/// How an axis is cut, whose blocks are whole but for the first and the last one.
fn cut(first: i64, last: i64, factor: i64, count: usize) -> Cut {
    let first = if first == factor { 0 } else { first as usize };
    let lead = usize::from(first > 0);
    let last = if last == factor || count == lead { 0 } else { last as usize };
    Cut { first, whole: factor as usize, wholes: count - lead - usize::from(last > 0), last }
}

impl Behind {
    /// How many positions of each dimension there are.
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
