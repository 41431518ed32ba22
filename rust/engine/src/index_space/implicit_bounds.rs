//! Implicit bounds of a transform, which follow from the domain of its base.

use std::sync::Arc;

use super::dim::floor_div;
use super::{
    along, beyond, nowhere, outside, selection, Dim, Listed, Map, PerDimension, Source, View, END, INFINITE,
    WHOLE,
};
use crate::error::Result;

impl View {
    /// Compose with `by`, whose implicit bounds follow from this domain.
    ///
    /// # Errors
    /// `Kind::Selection` if it does not fit.
    pub fn viewed(&self, by: &View) -> Result<View> {
        self.after(by.settled(&self.dims)?)
    }

    /// Resolve the implicit bounds from the domain of the base: a bound becomes explicit if the
    /// base's is.
    ///
    /// # Errors
    /// `Kind::Selection` if an explicit bound, or a constant map, is outside the base.
    pub fn settled(&self, target: &[Dim]) -> Result<View> {
        if target.len() != self.maps.len() {
            let (maps, rank) = (self.maps.len(), target.len());
            return Err(selection(format!("a transform to rank {maps} for a domain of rank {rank}")));
        }
        let empty = nowhere(&self.dims);
        let mut found: PerDimension<Option<Dim>> = self.dims.iter().map(|_| None).collect();
        for (k, (goal, map)) in target.iter().zip(&self.maps).enumerate() {
            match map.source {
                Source::Array(_) => {}
                Source::Dimension(along) if map.stride != 0 => {
                    let bounds = backwards(goal, map.offset, map.stride)?;
                    found[along] = Some(match &found[along] {
                        None => bounds,
                        Some(before) => both(&bounds, before),
                    });
                }
                _ => {
                    let (lower, upper) = goal.reach();
                    if !(empty || lower <= map.offset && map.offset < upper) {
                        return Err(along(k, goal.label.as_deref(), outside(map.offset, goal)));
                    }
                }
            }
        }
        let mut dims = PerDimension::new();
        for (k, (dim, found)) in self.dims.iter().zip(found).enumerate() {
            dims.push(match found {
                None => dim.clone(),
                Some(inferred) => combined(k, dim, &inferred, empty)?,
            });
        }
        let empty = nowhere(&dims);
        let pairs = target.iter().zip(&self.maps);
        let maps = pairs.map(|(goal, map)| narrowed(map, goal, empty)).collect::<Result<_>>()?;
        Ok(View { dims, maps })
    }
}

/// The interval that `offset + stride * index` maps into `goal`.
pub(super) fn backwards(goal: &Dim, offset: i64, stride: i64) -> Result<Dim> {
    let (mut below, mut above) = (goal.lower == -INFINITE, goal.upper > INFINITE);
    let (offset, mut stride) = (i128::from(offset), i128::from(stride));
    let (mut lower, mut upper) = (i128::from(goal.lower) - offset, i128::from(goal.upper) - 1 - offset);
    let mut implicit = goal.implicit;
    if stride < 0 {
        if goal.is_empty() {
            upper = lower; // an empty interval keeps its position
        }
        (lower, upper, stride) = (-upper, -lower, -stride);
        (below, above, implicit) = (above, below, (implicit.1, implicit.0));
    }
    let first = if below { i128::from(-INFINITE) } else { -floor_div(-lower, stride) };
    let end = match (above, goal.is_empty()) {
        (true, _) => i128::from(END),
        (false, true) => first,
        (false, false) => floor_div(upper, stride) + 1,
    };
    let end = end.max(first);
    if first < i128::from(-INFINITE) || end > i128::from(END) {
        return Err(selection(format!("{goal}, moved by {}, is beyond the range of indices", -offset)));
    }
    Ok(Dim { implicit, ..Dim::new(first as i64, end as i64) })
}

/// The intersection of two intervals; explicit bounds win over implicit ones.
fn both(one: &Dim, other: &Dim) -> Dim {
    let lower = match (one.implicit.0, other.implicit.0) {
        (false, true) => one.lower,
        (true, false) => other.lower,
        _ => one.lower.max(other.lower),
    };
    let upper = match (one.implicit.1, other.implicit.1) {
        (false, true) => one.upper,
        (true, false) => other.upper,
        _ => one.upper.min(other.upper),
    };
    let implicit = (one.implicit.0 && other.implicit.0, one.implicit.1 && other.implicit.1);
    Dim { implicit, ..Dim::new(lower, upper.max(lower)) }
}

/// A dimension with inferred bounds in place of implicit ones.
pub(super) fn combined(k: usize, dim: &Dim, inferred: &Dim, empty: bool) -> Result<Dim> {
    let lower = if dim.implicit.0 { inferred.lower } else { dim.lower };
    let upper = if dim.implicit.1 { inferred.upper } else { dim.upper }.max(lower);
    let reach = inferred.reach();
    if !empty && lower < upper && !(reach.0 <= lower && upper <= reach.1) {
        let bounds = Dim::new(lower, upper);
        return Err(beyond(format!("dimension {k}: {bounds} is outside of {inferred}")));
    }
    let implicit = (dim.implicit.0 && inferred.implicit.0, dim.implicit.1 && inferred.implicit.1);
    Ok(dim.with(lower, upper, implicit))
}

/// Restrict the items of an index array to the domain of the base.
fn narrowed(map: &Map, goal: &Dim, empty: bool) -> Result<Map> {
    let Source::Array(listed) = &map.source else {
        return Ok(map.clone());
    };
    if empty {
        return Ok(Map::constant(0));
    }
    let reach = goal.reach();
    if reach == WHOLE || map.stride == 0 {
        return Ok(map.clone());
    }
    let allowed = backwards(&Dim::new(reach.0, reach.1), map.offset, map.stride)?;
    let lower = listed.within.0.max(allowed.lower);
    let upper = listed.within.1.min(allowed.upper).max(lower);
    let listed = Listed { indices: listed.indices.clone(), within: (lower, upper) };
    Ok(Map { source: Source::Array(Arc::new(listed)), ..*map })
}
