//! Implicit bounds of a transform, which follow from the domain of its base.

use std::sync::Arc;

use super::dim::floor_div;
use super::{
    in_dimension, index_error, is_always_empty, out_of_bounds_error, BoundedIndexArray, Dim, IndexTransform,
    MapSource, OutputMap, PerDimension, END, INFINITE, WHOLE,
};
use crate::error::{Error, Result};

impl IndexTransform {
    /// Compose with `by`, whose implicit bounds follow from this domain.
    ///
    /// # Errors
    /// `Kind::Selection` if it does not fit.
    pub fn compose_resolving(&self, by: &IndexTransform) -> Result<IndexTransform> {
        self.compose(by.resolve_bounds(&self.dims)?)
    }

    /// Resolve the implicit bounds from the domain of the base: a bound becomes explicit if the
    /// base's is.
    ///
    /// # Errors
    /// `Kind::Selection` if an explicit bound, or a constant map, is outside the base.
    pub fn resolve_bounds(&self, base: &[Dim]) -> Result<IndexTransform> {
        if base.len() != self.maps.len() {
            let (maps, rank) = (self.maps.len(), base.len());
            return Err(Error::selection(format!("a transform to rank {maps} for a domain of rank {rank}")));
        }
        let empty = is_always_empty(&self.dims);
        let mut inferred_dims: PerDimension<Option<Dim>> = self.dims.iter().map(|_| None).collect();
        for (k, (base_dim, map)) in base.iter().zip(&self.maps).enumerate() {
            match map.source {
                MapSource::IndexArray(_) => {}
                MapSource::InputDimension(along) if map.stride != 0 => {
                    let bounds = preimage_interval(base_dim, map.offset, map.stride)?;
                    inferred_dims[along] = Some(match &inferred_dims[along] {
                        None => bounds,
                        Some(before) => merge_bounds(&bounds, before),
                    });
                }
                _ => {
                    let (lower, upper) = base_dim.valid_range();
                    if !(empty || lower <= map.offset && map.offset < upper) {
                        return Err(in_dimension(
                            k,
                            base_dim.label.as_deref(),
                            index_error(map.offset, base_dim),
                        ));
                    }
                }
            }
        }
        let mut dims = PerDimension::new();
        for (k, (dim, inferred_dims)) in self.dims.iter().zip(inferred_dims).enumerate() {
            dims.push(match inferred_dims {
                None => dim.clone(),
                Some(inferred) => resolve_dim(k, dim, &inferred, empty)?,
            });
        }
        let empty = is_always_empty(&dims);
        let pairs = base.iter().zip(&self.maps);
        let maps = pairs.map(|(base_dim, map)| restrict_map(map, base_dim, empty)).collect::<Result<_>>()?;
        Ok(IndexTransform { dims, maps })
    }
}

/// Return the interval that `offset + stride * index` maps into `base_dim`.
pub(super) fn preimage_interval(base_dim: &Dim, offset: i64, stride: i64) -> Result<Dim> {
    let (mut below, mut above) = (base_dim.lower == -INFINITE, base_dim.upper > INFINITE);
    let (offset, mut stride) = (i128::from(offset), i128::from(stride));
    let (mut lower, mut upper) =
        (i128::from(base_dim.lower) - offset, i128::from(base_dim.upper) - 1 - offset);
    let mut implicit = base_dim.implicit;
    if stride < 0 {
        if base_dim.is_empty() {
            upper = lower; // an empty interval keeps its position
        }
        (lower, upper, stride) = (-upper, -lower, -stride);
        (below, above, implicit) = (above, below, (implicit.1, implicit.0));
    }
    let first = if below { i128::from(-INFINITE) } else { -floor_div(-lower, stride) };
    let end = match (above, base_dim.is_empty()) {
        (true, _) => i128::from(END),
        (false, true) => first,
        (false, false) => floor_div(upper, stride) + 1,
    };
    let end = end.max(first);
    if first < i128::from(-INFINITE) || end > i128::from(END) {
        return Err(Error::selection(format!(
            "{base_dim}, moved by {}, is beyond the range of indices",
            -offset
        )));
    }
    Ok(Dim { implicit, ..Dim::new(first as i64, end as i64) })
}

/// Return the intersection of two intervals; explicit bounds win over implicit ones.
fn merge_bounds(left: &Dim, right: &Dim) -> Dim {
    let lower = match (left.implicit.0, right.implicit.0) {
        (false, true) => left.lower,
        (true, false) => right.lower,
        _ => left.lower.max(right.lower),
    };
    let upper = match (left.implicit.1, right.implicit.1) {
        (false, true) => left.upper,
        (true, false) => right.upper,
        _ => left.upper.min(right.upper),
    };
    let implicit = (left.implicit.0 && right.implicit.0, left.implicit.1 && right.implicit.1);
    Dim { implicit, ..Dim::new(lower, upper.max(lower)) }
}

/// Return a dimension with inferred bounds in place of implicit ones.
pub(super) fn resolve_dim(k: usize, dim: &Dim, inferred: &Dim, empty: bool) -> Result<Dim> {
    let lower = if dim.implicit.0 { inferred.lower } else { dim.lower };
    let upper = if dim.implicit.1 { inferred.upper } else { dim.upper }.max(lower);
    let valid_range = inferred.valid_range();
    if !empty && lower < upper && !(valid_range.0 <= lower && upper <= valid_range.1) {
        let bounds = Dim::new(lower, upper);
        return Err(out_of_bounds_error(format!("dimension {k}: {bounds} is outside of {inferred}")));
    }
    let implicit = (dim.implicit.0 && inferred.implicit.0, dim.implicit.1 && inferred.implicit.1);
    Ok(dim.with_bounds(lower, upper, implicit))
}

/// Restrict the items of an index array to the domain of the base.
fn restrict_map(map: &OutputMap, base_dim: &Dim, empty: bool) -> Result<OutputMap> {
    let MapSource::IndexArray(array) = &map.source else {
        return Ok(map.clone());
    };
    if empty {
        return Ok(OutputMap::constant(0));
    }
    let valid_range = base_dim.valid_range();
    if valid_range == WHOLE || map.stride == 0 {
        return Ok(map.clone());
    }
    let allowed = preimage_interval(&Dim::new(valid_range.0, valid_range.1), map.offset, map.stride)?;
    let lower = array.within.0.max(allowed.lower);
    let upper = array.within.1.min(allowed.upper).max(lower);
    let array = BoundedIndexArray { indices: array.indices.clone(), within: (lower, upper) };
    Ok(OutputMap { source: MapSource::IndexArray(Arc::new(array)), ..*map })
}
