//! Dimensions: labelled intervals of indices.

use std::fmt;
use std::sync::Arc;

use super::{out_of_bounds_error, WHOLE};
use crate::error::{Error, Result};

/// The greatest index; its negative is the least index, and means "no lower bound".
pub const INFINITE: i64 = (1 << 62) - 1;

/// The upper bound of a dimension without one.
pub const END: i64 = INFINITE + 1;

/// Return whether `[lower, upper)` is a valid interval of indices.
pub fn is_interval(lower: i64, upper: i64) -> bool {
    (-INFINITE..INFINITE).contains(&lower) && (lower..=END).contains(&upper) && upper > 1 - INFINITE
}

/// Return the end of an interval of `size` indices; infinite for the maximum size.
pub fn end(lower: i64, size: i64) -> i64 {
    if size == i64::MAX {
        END
    } else {
        lower.saturating_add(size)
    }
}

/// Return whether a finite index is in a half-open interval.
pub fn contains((lower, upper): (i64, i64), index: i64) -> bool {
    (lower.max(1 - INFINITE)..upper.min(INFINITE)).contains(&index)
}

/// The half-open interval `[lower, upper)`. Each bound is explicit or *implicit*: an implicit bound
/// may change, so that indexing beyond it is no error yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dim {
    /// The least index.
    pub lower: i64,
    /// One more than the greatest index.
    pub upper: i64,
    /// Whether the lower and the upper bound are implicit.
    pub implicit: (bool, bool),
    /// The label, if any.
    pub label: Option<Arc<str>>,
}

/// A slice of an indexing key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// The first index; default: the lower bound, or the last index for a negative step.
    pub start: Option<i64>,
    /// The exclusive end.
    pub stop: Option<i64>,
    /// The step; default 1.
    pub step: Option<i64>,
}

impl Slice {
    /// The full slice.
    pub const ALL: Slice = Slice { start: None, stop: None, step: None };
}

impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |end: Option<i64>| end.map_or(String::new(), |end| end.to_string());
        write!(f, "{}:{}", text(self.start), text(self.stop))?;
        self.step.map_or(Ok(()), |step| write!(f, ":{step}"))
    }
}

/// A linear map from the new indices to the old ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinearMap {
    pub(super) offset: i64,
    pub(super) stride: i64,
}

impl LinearMap {
    pub(super) const SAME: LinearMap = LinearMap { offset: 0, stride: 1 };
}

impl Dim {
    /// Return the interval `[lower, upper)` with explicit bounds and without a label.
    pub fn new(lower: i64, upper: i64) -> Dim {
        Dim { lower, upper, implicit: (false, false), label: None }
    }

    /// Return a new axis: `[0*, 1*)`.
    pub(super) fn new_axis() -> Dim {
        Dim { implicit: (true, true), ..Dim::new(0, 1) }
    }

    /// Other bounds with the same label.
    pub(super) fn with_bounds(&self, lower: i64, upper: i64, implicit: (bool, bool)) -> Dim {
        Dim { lower, upper, implicit, label: self.label.clone() }
    }

    /// Return the number of indices.
    pub fn size(&self) -> i64 {
        self.upper - self.lower
    }

    /// Return whether the interval is empty.
    pub fn is_empty(&self) -> bool {
        self.upper == self.lower
    }

    /// Return whether the interval is empty and both bounds are explicit.
    pub fn is_always_empty(&self) -> bool {
        self.is_empty() && self.implicit == (false, false)
    }

    /// Return whether both bounds are finite.
    pub fn is_finite(&self) -> bool {
        self.lower > -INFINITE && self.upper <= INFINITE
    }

    /// Return the interval as text, without the label.
    pub fn bounds(&self) -> Bounds<'_> {
        Bounds(self)
    }

    /// Return the interval of valid indices; implicit bounds do not limit it.
    pub fn valid_range(&self) -> (i64, i64) {
        let lower = if self.implicit.0 { -INFINITE } else { self.lower };
        (lower, if self.implicit.1 { END } else { self.upper })
    }

    /// Return a hint for negative indices that were meant from the end; "" for others.
    pub(super) fn negative_index_hint(&self, indices: impl IntoIterator<Item = i64>) -> String {
        if self.lower < 0 || indices.into_iter().all(|index| index >= 0) {
            return String::new();
        }
        let last = match self.is_finite() && !self.is_empty() {
            true => format!(": the last one is {}", self.upper - 1),
            false => String::new(),
        };
        format!("; positions do not count from the end{last}")
    }

    /// Translate the interval; infinite bounds stay.
    ///
    /// # Errors
    /// `Kind::Selection` if a bound leaves the range of indices.
    pub fn translated(&self, by: i128) -> Result<Dim> {
        let moved = |bound: i64, none: i64, last: i64| {
            if bound == none {
                return Some(bound);
            }
            let moved = i64::try_from(i128::from(bound) + by).ok()?;
            contains(WHOLE, moved.saturating_sub(last)).then_some(moved)
        };
        match (moved(self.lower, -INFINITE, 0), moved(self.upper, END, 1)) {
            (Some(lower), Some(upper)) => Ok(self.with_bounds(lower, upper, self.implicit)),
            _ => Err(Error::selection(format!("{self} moved by {by} is beyond the range of indices"))),
        }
    }

    /// Return the smallest interval that contains both. Of equal bounds the explicit one wins.
    ///
    /// # Errors
    /// `Kind::Argument` for different labels.
    pub fn hull(&self, other: &Dim) -> Result<Dim> {
        let label = self.common_label(other)?;
        let (lower, upper) = match (self.is_empty(), other.is_empty()) {
            (true, _) => (other.lower, other.upper),
            (_, true) => (self.lower, self.upper),
            _ => (self.lower.min(other.lower), self.upper.max(other.upper)),
        };
        let open = |dim: &Dim| (dim.implicit.0 || dim.lower != lower, dim.implicit.1 || dim.upper != upper);
        let (left, right) = (open(self), open(other));
        Ok(Dim { lower, upper, implicit: (left.0 && right.0, left.1 && right.1), label })
    }

    /// Return the intersection. Of equal bounds the explicit one wins.
    ///
    /// # Errors
    /// `Kind::Argument` for different labels.
    pub fn intersect(&self, other: &Dim) -> Result<Dim> {
        let lower = (self.lower, !self.implicit.0).max((other.lower, !other.implicit.0));
        let upper = (self.upper, self.implicit.1).min((other.upper, other.implicit.1));
        let label = self.common_label(other)?;
        Ok(Dim { lower: lower.0, upper: upper.0.max(lower.0), implicit: (!lower.1, upper.1), label })
    }

    /// Combine two constraints: infinite implicit bounds constrain nothing.
    ///
    /// # Errors
    /// `Kind::Argument` for different labels or bounds.
    pub fn merge(&self, other: &Dim) -> Result<Dim> {
        let label = self.common_label(other)?;
        let merged = |left: (i64, bool), right: (i64, bool), unbounded: i64| match (left, right) {
            _ if left.0 == right.0 => Some((left.0, left.1 && right.1)),
            _ if left == (unbounded, true) => Some(right),
            _ => (right == (unbounded, true)).then_some(left),
        };
        let lower = merged((self.lower, self.implicit.0), (other.lower, other.implicit.0), -INFINITE);
        let upper = merged((self.upper, self.implicit.1), (other.upper, other.implicit.1), END);
        match (lower, upper) {
            (Some(lower), Some(upper)) if lower.0 <= upper.0 => {
                Ok(Dim { lower: lower.0, upper: upper.0, implicit: (lower.1, upper.1), label })
            }
            _ => Err(Error::argument(format!("the domain {other} does not match {self}"))),
        }
    }

    /// Return the common label of two dimensions; a missing label agrees with any.
    fn common_label(&self, other: &Dim) -> Result<Option<Arc<str>>> {
        match (&self.label, &other.label) {
            (Some(left), Some(right)) if left != right => {
                let message = format!("dimensions labelled '{left}' and '{right}' do not match");
                Err(Error::argument(message))
            }
            (left, right) => Ok(left.as_ref().or(right.as_ref()).cloned()),
        }
    }

    /// Return the multiples of `by`, divided by it.
    pub(super) fn strided(&self, by: i64) -> Dim {
        let ceil = |value: i64, by: i64| -floor_div(-i128::from(value), i128::from(by)) as i64;
        let implicit = if by > 0 { self.implicit } else { (self.implicit.1, self.implicit.0) };
        if self.is_empty() {
            let bound = ceil(self.lower, by);
            return self.with_bounds(bound, bound, implicit);
        }
        let (mut lower, mut upper) = (self.lower, self.upper);
        let (mut below, mut above) = (lower == -INFINITE, upper > INFINITE);
        if by < 0 {
            (lower, upper) = (1 - upper, 1 - lower);
            (below, above) = (above, below);
        }
        let by = i128::from(by).abs();
        let last = floor_div(i128::from(upper) - 1, by) as i64;
        let first = -floor_div(-i128::from(lower), by) as i64;
        let first = if below { -INFINITE } else { first };
        let end = if above { END } else { last + 1 };
        self.with_bounds(first, end.max(first), implicit)
    }

    /// Slice the interval, with the map from new to old indices. With step 1 indices stay;
    /// otherwise the first index is the start of the slice divided by the step.
    pub(super) fn sliced(&self, key: Slice) -> Result<(Dim, LinearMap)> {
        let step = key.step.unwrap_or(1);
        if step == 0 {
            return Err(Error::selection(format!("{key}: a step of 0")));
        }
        if (key.start, key.stop, step) == (None, None, 1) {
            return Ok((self.clone(), LinearMap::SAME));
        }
        let (first, end) = if step > 0 { (self.lower, self.upper) } else { (self.upper - 1, self.lower - 1) };
        let first = key.start.unwrap_or(first);
        // An infinite stop means no end.
        let end = match key.stop {
            None => end,
            Some(stop) if step > 0 => stop.saturating_add((stop >= INFINITE).into()),
            Some(stop) => stop.saturating_sub((stop <= -INFINITE).into()),
        };
        self.check_slice(key, first, end, step)?;
        let (starts, stops) = (key.start.is_some(), key.stop.is_some());
        let implicit = match step > 0 {
            true => (self.implicit.0 && !starts, self.implicit.1 && !stops),
            // A bound in the slice stays explicit.
            false => (self.implicit.1 && !starts && !stops, self.implicit.0 && !starts && !stops),
        };
        if step == 1 {
            return Ok((self.with_bounds(first, end, implicit), LinearMap::SAME));
        }
        let origin = first / step;
        let count = -floor_div(i128::from(first) - i128::from(end), i128::from(step)) as i64;
        let endless = if step > 0 { end > INFINITE } else { end < -INFINITE };
        let upper = if endless { END } else { origin + count };
        let line = LinearMap { offset: first % step, stride: step };
        Ok((self.with_bounds(origin, upper, implicit), line))
    }

    fn check_slice(&self, key: Slice, first: i64, end: i64, step: i64) -> Result<()> {
        if if step > 0 { end < first } else { first < end } {
            let hint = self.negative_index_hint([key.start, key.stop].into_iter().flatten());
            return Err(Error::selection(format!("the slice {key} ends before it begins{hint}")));
        }
        if step.abs() != 1 && !(-INFINITE < first && first < INFINITE) {
            let bounds = self.bounds();
            return Err(Error::selection(format!(
                "the slice {key} begins nowhere: {bounds} has no such bound"
            )));
        }
        let (low, high) =
            if step > 0 { (first, end) } else { (end.saturating_add(1), first.saturating_add(1)) };
        // An empty slice is always inside, unless it is beyond all indices.
        let reach = if low < high { self.valid_range() } else { WHOLE };
        if !is_interval(low, high) || low < reach.0 || high > reach.1 {
            let hint = self.negative_index_hint([key.start, key.stop].into_iter().flatten());
            return Err(out_of_bounds_error(format!(
                "the slice {key} is outside of {}{hint}",
                self.bounds()
            )));
        }
        Ok(())
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(label) = &self.label {
            write!(f, "\"{label}\": ")?;
        }
        write!(f, "{}", self.bounds())
    }
}

/// A dimension's interval as text.
pub struct Bounds<'a>(&'a Dim);

impl fmt::Display for Bounds<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Dim { lower, upper, implicit, .. } = self.0;
        let mark = |implicit| if implicit { "*" } else { "" };
        match *lower == -INFINITE {
            true => write!(f, "(-inf{}, ", mark(implicit.0))?,
            false => write!(f, "[{lower}{}, ", mark(implicit.0))?,
        }
        match *upper > INFINITE {
            true => write!(f, "+inf{})", mark(implicit.1)),
            false => write!(f, "{upper}{})", mark(implicit.1)),
        }
    }
}

/// Return the quotient, rounded down.
pub(super) fn floor_div(value: i128, by: i128) -> i128 {
    let quotient = value / by;
    quotient - i128::from(value % by != 0 && (value < 0) != (by < 0))
}
