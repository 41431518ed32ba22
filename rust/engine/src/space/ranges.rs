//! Views that are boxes of an array: what most reads and writes are.

use super::{Dim, PerDimension, Source, View};

/// A box: per axis of the array a range, and the dimension of the view that it is.
pub struct Ranges {
    /// `(start, step, count)` of each axis.
    pub axes: PerDimension<(i64, i64, usize)>,
    /// Of each axis the dimension, or None.
    pub dims: PerDimension<Option<usize>>,
    /// The size of each dimension.
    pub shape: PerDimension<usize>,
}

impl View {
    /// The box of an array that the view is, if its maps are constant, or follow its dimensions in
    /// order, and all of it is inside.
    pub fn ranges(&self, shape: &[u64]) -> Option<Ranges> {
        let mut found =
            Ranges { axes: PerDimension::new(), dims: PerDimension::new(), shape: PerDimension::new() };
        if shape.len() != self.maps.len() {
            return None;
        }
        for (map, &len) in self.maps.iter().zip(shape) {
            let inside = |index: i64| 0 <= index && (index as u64) < len;
            match map.source {
                Source::Nothing if inside(map.offset) => {
                    found.axes.push((map.offset, 1, 1));
                    found.dims.push(None);
                }
                Source::Dimension(k) if k == found.shape.len() && map.stride != 0 => {
                    let Dim { lower, upper, .. } = self.dims[k];
                    let at = |place: i64| map.stride.checked_mul(place)?.checked_add(map.offset);
                    let (first, last) = (at(lower)?, at(upper - 1)?);
                    let count = usize::try_from(upper - lower).ok().filter(|count| *count > 0)?;
                    if !(inside(first) && inside(last)) {
                        return None;
                    }
                    found.axes.push((first, if count > 1 { map.stride } else { 1 }, count));
                    found.dims.push(Some(k));
                    found.shape.push(count);
                }
                _ => return None,
            }
        }
        (found.shape.len() == self.dims.len()).then_some(found)
    }
}
