//! Resizing of a view: which bounds of its base must change.

use super::{Dim, IndexTransform, MapSource, OutputMap, PerDimension, END, INFINITE, WHOLE};
use crate::error::{Error, Result};

/// The change of one dimension of the base.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DimResize {
    /// The new lower bound; None: unchanged.
    pub lower: Option<i64>,
    /// The new upper bound; None: unchanged.
    pub upper: Option<i64>,
    /// The interval outside which no element may change.
    pub within: Option<(i64, i64)>,
}

/// New bounds of a view, one for each dimension; None leaves one, or all.
type Bounds<'b> = Option<&'b [Option<i64>]>;

impl IndexTransform {
    /// Return the changes of the base that set new bounds of the view. With `tied`, elements
    /// outside the view may change.
    ///
    /// # Errors
    /// `Kind::Argument` if a bound is explicit, or a map has a stride or a diagonal.
    pub fn base_resizes(
        &self,
        lower: Bounds<'_>,
        upper: Bounds<'_>,
        tied: bool,
    ) -> Result<PerDimension<DimResize>> {
        let requested = requested(&self.dims, lower, upper)?;
        let is_unchanged = |dim_number: usize| requested[dim_number] == (None, None);
        // A dimension without a map has no bounds in the base.
        let changes = |map: &OutputMap| matches!(map.source, MapSource::InputDimension(dim_number) if !is_unchanged(dim_number));
        let any_change = self.maps.iter().any(changes);
        let mut used: PerDimension<bool> = requested.iter().map(|_| false).collect();
        let mut resizes = PerDimension::new();
        for map in &self.maps {
            if !tied && any_change && matches!(map.source, MapSource::IndexArray(_)) {
                return Err(Error::argument(
                    "only some elements are in the view: give resize_tied_bounds to affect others",
                ));
            }
            let within = if tied { None } else { affected_interval(&self.dims, map) };
            resizes.push(DimResize { within, ..DimResize::default() });
            let MapSource::InputDimension(dim_number) = map.source else { continue };
            if map.stride.abs() != 1 && any_change && !(is_unchanged(dim_number) && tied) {
                return Err(Error::argument(format!(
                    "dimension {dim_number} has the stride {} in what it views: it cannot be resized, and \
                     what is between would be affected by resizing others",
                    map.stride
                )));
            }
            if is_unchanged(dim_number) {
                continue;
            }
            if std::mem::replace(&mut used[dim_number], true) && !tied {
                return Err(Error::argument(format!(
                    "dimension {dim_number} is a diagonal: give resize_tied_bounds to resize all of its \
                     dimensions"
                )));
            }
            let (lower, upper) = map_bounds(map, dim_number, requested[dim_number])?;
            resizes.last_mut().into_iter().for_each(|last| *last = DimResize { lower, upper, ..*last });
        }
        Ok(resizes)
    }
}

/// Return the base bounds to which a map takes new bounds.
fn map_bounds(
    map: &OutputMap,
    dim_number: usize,
    (lower, upper): (Option<i64>, Option<i64>),
) -> Result<(Option<i64>, Option<i64>)> {
    let is_reversed = map.stride < 0;
    let map_index = |bound: Option<i64>| {
        let index =
            |bound| map.offset.checked_add(map.stride.checked_mul(bound)?)?.checked_add(is_reversed.into());
        let beyond =
            || Error::argument(format!("dimension {dim_number}: the bound is beyond the range of indices"));
        bound.map(|bound| index(bound).ok_or_else(beyond)).transpose()
    };
    match is_reversed {
        false => Ok((map_index(lower)?, map_index(upper)?)),
        true => Ok((map_index(upper)?, map_index(lower)?)),
    }
}

/// Return the interval outside which no element may change along a map. It is limited by explicit
/// bounds.
fn affected_interval(dims: &[Dim], map: &OutputMap) -> Option<(i64, i64)> {
    let (low, high, implicit) = match &map.source {
        MapSource::Constant => (0, 0, (false, false)),
        MapSource::IndexArray(_) => return None,
        MapSource::InputDimension(dim_number) => {
            let dim = &dims[*dim_number];
            (dim.lower, dim.upper - 1, dim.implicit)
        }
    };
    let map_index = |end| i128::from(map.offset) + i128::from(map.stride) * i128::from(end);
    let (first, last, implicit) = match map.stride < 0 {
        false => (map_index(low), map_index(high), implicit),
        // An empty interval, wherever it is.
        true if low > high => (map_index(low), map_index(low) - 1, (implicit.1, implicit.0)),
        true => (map_index(high), map_index(low), (implicit.1, implicit.0)),
    };
    let index = |map_index: i128| map_index.clamp(WHOLE.0.into(), END.into()) as i64;
    let resizes =
        (if implicit.0 { WHOLE.0 } else { index(first) }, if implicit.1 { END } else { index(last + 1) });
    (implicit != (true, true)).then_some(resizes)
}

fn requested(
    dims: &[Dim],
    lower: Bounds<'_>,
    upper: Bounds<'_>,
) -> Result<PerDimension<(Option<i64>, Option<i64>)>> {
    for (name, bounds) in [("inclusive_min", lower), ("exclusive_max", upper)] {
        let count = bounds.map_or(dims.len(), <[_]>::len);
        if count != dims.len() {
            return Err(Error::argument(format!("{name}: {count} bounds for {} dimensions", dims.len())));
        }
    }
    let bound = |bounds: Bounds<'_>, k: usize| bounds.and_then(|bounds| bounds[k]);
    dims.iter().enumerate().map(|(k, dim)| check_bounds(k, dim, bound(lower, k), bound(upper, k))).collect()
}

fn check_bounds(
    k: usize,
    dim: &Dim,
    lower: Option<i64>,
    upper: Option<i64>,
) -> Result<(Option<i64>, Option<i64>)> {
    for (name, implicit, bound) in [("lower", dim.implicit.0, lower), ("upper", dim.implicit.1, upper)] {
        let Some(bound) = bound else { continue };
        if !implicit {
            return Err(Error::argument(format!(
                "dimension {k}: the {name} bound of {dim} is explicit and cannot be changed"
            )));
        }
        if bound <= -INFINITE || bound > INFINITE {
            return Err(Error::argument(format!("dimension {k}: {bound} is no bound")));
        }
    }
    let low = lower.unwrap_or(dim.lower);
    match upper {
        Some(end) if end < low => {
            Err(Error::argument(format!("dimension {k}: [{low}, {end}) is not an interval")))
        }
        _ => Ok((lower, upper)),
    }
}
