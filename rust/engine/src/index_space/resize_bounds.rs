//! Resizing of a view: which bounds of its base must change.

use super::{Dim, Map, PerDimension, Source, View, END, INFINITE, WHOLE};
use crate::error::{Error, Kind, Result};

/// The change of one dimension of the base.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// The new lower bound; None: unchanged.
    pub lower: Option<i64>,
    /// The new upper bound; None: unchanged.
    pub upper: Option<i64>,
    /// The interval outside which no element may change.
    pub within: Option<(i64, i64)>,
}

/// New bounds of a view, one for each dimension; None leaves one, or all.
type Bounds<'b> = Option<&'b [Option<i64>]>;

impl View {
    /// The changes of the base that give the view new bounds; `tied`: elements outside the view may
    /// change.
    ///
    /// # Errors
    /// `Kind::Argument` if a bound is explicit, or a map has a stride or a diagonal.
    pub fn moved(&self, lower: Bounds<'_>, upper: Bounds<'_>, tied: bool) -> Result<PerDimension<Moved>> {
        let asked = asked(&self.dims, lower, upper)?;
        let still = |along: usize| asked[along] == (None, None);
        // A dimension without a map has no bounds in the base.
        let moves = |map: &Map| matches!(map.source, Source::Dimension(along) if !still(along));
        let anything = self.maps.iter().any(moves);
        let mut used: PerDimension<bool> = asked.iter().map(|_| false).collect();
        let mut found = PerDimension::new();
        for map in &self.maps {
            if !tied && anything && matches!(map.source, Source::Array(_)) {
                return Err(argument(
                    "only some elements are in the view: give resize_tied_bounds to affect others".into(),
                ));
            }
            let within = if tied { None } else { kept(&self.dims, map) };
            found.push(Moved { within, ..Moved::default() });
            let Source::Dimension(along) = map.source else { continue };
            if map.stride.abs() != 1 && anything && !(still(along) && tied) {
                return Err(argument(format!(
                    "dimension {along} has the stride {} in what it views: it cannot be resized, and \
                     what is between would be affected by resizing others",
                    map.stride
                )));
            }
            if still(along) {
                continue;
            }
            if std::mem::replace(&mut used[along], true) && !tied {
                return Err(argument(format!(
                    "dimension {along} is a diagonal: give resize_tied_bounds to resize all of its \
                     dimensions"
                )));
            }
            let (lower, upper) = through(map, along, asked[along])?;
            found.last_mut().into_iter().for_each(|last| *last = Moved { lower, upper, ..*last });
        }
        Ok(found)
    }
}

/// The base bounds to which a map takes new bounds.
fn through(
    map: &Map,
    along: usize,
    (lower, upper): (Option<i64>, Option<i64>),
) -> Result<(Option<i64>, Option<i64>)> {
    let backwards = map.stride < 0;
    let at = |bound: Option<i64>| {
        let index =
            |bound| map.offset.checked_add(map.stride.checked_mul(bound)?)?.checked_add(backwards.into());
        let beyond = || argument(format!("dimension {along}: the bound is beyond the range of indices"));
        bound.map(|bound| index(bound).ok_or_else(beyond)).transpose()
    };
    match backwards {
        false => Ok((at(lower)?, at(upper)?)),
        true => Ok((at(upper)?, at(lower)?)),
    }
}

/// The interval outside which no element may change along a map. It is limited by explicit bounds.
fn kept(dims: &[Dim], map: &Map) -> Option<(i64, i64)> {
    let (low, high, implicit) = match &map.source {
        Source::Nothing => (0, 0, (false, false)),
        Source::Array(_) => return None,
        Source::Dimension(along) => {
            let dim = &dims[*along];
            (dim.lower, dim.upper - 1, dim.implicit)
        }
    };
    let at = |end| i128::from(map.offset) + i128::from(map.stride) * i128::from(end);
    let (first, last, implicit) = match map.stride < 0 {
        false => (at(low), at(high), implicit),
        // An empty interval, wherever it is.
        true if low > high => (at(low), at(low) - 1, (implicit.1, implicit.0)),
        true => (at(high), at(low), (implicit.1, implicit.0)),
    };
    let index = |at: i128| at.clamp(WHOLE.0.into(), END.into()) as i64;
    let found =
        (if implicit.0 { WHOLE.0 } else { index(first) }, if implicit.1 { END } else { index(last + 1) });
    (implicit != (true, true)).then_some(found)
}

fn asked(
    dims: &[Dim],
    lower: Bounds<'_>,
    upper: Bounds<'_>,
) -> Result<PerDimension<(Option<i64>, Option<i64>)>> {
    for (name, bounds) in [("inclusive_min", lower), ("exclusive_max", upper)] {
        let count = bounds.map_or(dims.len(), <[_]>::len);
        if count != dims.len() {
            return Err(argument(format!("{name}: {count} bounds for {} dimensions", dims.len())));
        }
    }
    let bound = |bounds: Bounds<'_>, k: usize| bounds.and_then(|bounds| bounds[k]);
    dims.iter().enumerate().map(|(k, dim)| checked(k, dim, bound(lower, k), bound(upper, k))).collect()
}

fn checked(
    k: usize,
    dim: &Dim,
    lower: Option<i64>,
    upper: Option<i64>,
) -> Result<(Option<i64>, Option<i64>)> {
    for (name, implicit, bound) in [("lower", dim.implicit.0, lower), ("upper", dim.implicit.1, upper)] {
        let Some(bound) = bound else { continue };
        if !implicit {
            return Err(argument(format!(
                "dimension {k}: the {name} bound of {dim} is explicit and cannot be changed"
            )));
        }
        if bound <= -INFINITE || bound > INFINITE {
            return Err(argument(format!("dimension {k}: {bound} is no bound")));
        }
    }
    let low = lower.unwrap_or(dim.lower);
    match upper {
        Some(end) if end < low => Err(argument(format!("dimension {k}: [{low}, {end}) is not an interval"))),
        _ => Ok((lower, upper)),
    }
}

fn argument(message: String) -> Error {
    Error::new(Kind::Argument, message)
}
