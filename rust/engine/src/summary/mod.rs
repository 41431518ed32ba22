//! Summaries of elements: counts, extremes, mean, standard deviation and a histogram, in one pass.
//!
//! Elements are processed in blocks that stay in the processor's first cache: a loop of vector
//! instructions for each property. Summaries of parts of an array merge to the summary of the
//! array. Counts, extremes, histograms and sums of integers do not depend on the parts.

mod element;
mod histogram;
mod moments;
mod number;

use crate::convert::half::{BFloat16, Float16};
use crate::has_avx2;
use element::{fold, Counts, Element, Source, Time};
pub use histogram::{Histogram, MAX_BINS};
use histogram::{Tables, UNCOUNTED};
pub use moments::Moments;
pub use number::Number;

/// The number of elements of a block.
const BLOCK: usize = 4096;

/// The summary of elements with one kind of numbers.
#[derive(Clone, Debug, Default)]
pub struct Totals<N: Number> {
    /// The number of elements that are NaN or NaT.
    pub nan_count: u64,
    /// The number of negative infinities.
    pub negative_infinity_count: u64,
    /// The number of positive infinities.
    pub positive_infinity_count: u64,
    /// The minimum and the maximum of the finite elements.
    pub extremes: Option<(N, N)>,
    /// The count, mean and variance of the finite elements.
    pub moments: Moments<N>,
    /// The histogram of the finite elements.
    pub histogram: Histogram,
    /// The maximum number of bins.
    max_bins: usize,
}

/// A summary of elements.
#[derive(Clone, Debug)]
pub enum Summary {
    /// Of integers.
    Integers(Totals<i128>),
    /// Of real numbers.
    Reals(Totals<f64>),
}

impl Summary {
    /// Return the summary of both; None if their kinds of numbers differ.
    #[must_use]
    pub fn merged(&self, other: &Summary) -> Option<Summary> {
        match (self, other) {
            (Summary::Integers(left), Summary::Integers(right)) => {
                Some(Summary::Integers(left.merged(right)))
            }
            (Summary::Reals(left), Summary::Reals(right)) => Some(Summary::Reals(left.merged(right))),
            _ => None,
        }
    }

    /// Return the summary of `count` repetitions of the elements.
    #[must_use]
    pub fn repeated(&self, count: u64) -> Summary {
        match self {
            Summary::Integers(totals) => Summary::Integers(totals.repeated(count)),
            Summary::Reals(totals) => Summary::Reals(totals.repeated(count)),
        }
    }
}

impl<N: Number> Totals<N> {
    fn merged(&self, other: &Totals<N>) -> Totals<N> {
        let mut merged = self.clone();
        merged.nan_count = self.nan_count.saturating_add(other.nan_count);
        merged.negative_infinity_count =
            self.negative_infinity_count.saturating_add(other.negative_infinity_count);
        merged.positive_infinity_count =
            self.positive_infinity_count.saturating_add(other.positive_infinity_count);
        merged.moments = self.moments.merged(&other.moments);
        merged.max_bins = self.max_bins.max(other.max_bins);
        if let Some((low, high)) = other.extremes {
            merged.include(low, high);
            merged.histogram.add(&other.histogram);
        }
        merged
    }

    fn repeated(&self, count: u64) -> Totals<N> {
        Totals {
            nan_count: self.nan_count.saturating_mul(count),
            negative_infinity_count: self.negative_infinity_count.saturating_mul(count),
            positive_infinity_count: self.positive_infinity_count.saturating_mul(count),
            extremes: self.extremes.filter(|_| count > 0),
            moments: self.moments.repeated(count),
            histogram: if count > 0 { self.histogram.repeated(count) } else { Histogram::default() },
            max_bins: self.max_bins,
        }
    }

    /// Extend the extremes, and the range of the histogram.
    fn include(&mut self, low: N, high: N) {
        let old = self.extremes.unwrap_or((low, high));
        let new = (if low < old.0 { low } else { old.0 }, if high > old.1 { high } else { old.1 });
        if self.extremes != Some(new) || self.histogram.counts.is_empty() {
            self.extremes = Some(new);
            if self.max_bins > 0 {
                self.histogram.fit(new.0, new.1, self.max_bins);
            }
        }
    }
}

/// Summarise `bytes`: elements of `kind` in the byte order of the machine.
///
/// `kind` is `bfloat16`, or NumPy's notation without the byte order (`i4`, `f2`); `M8` are times as
/// integers, of which the least one is NaT. The histogram has at most `max_bins` bins, which is 0
/// (none), or from 2 to [`MAX_BINS`]; other numbers are replaced by the nearest of these.
///
/// None: the kind is unknown, or the bytes are not whole, aligned elements.
#[must_use]
pub fn summarize(kind: &str, bytes: &[u8], max_bins: usize) -> Option<Summary> {
    let bins = if max_bins == 0 { 0 } else { max_bins.clamp(2, MAX_BINS) };
    Some(match kind {
        "i1" => Summary::Integers(fastest::<i8>(bytes, bins)?),
        "u1" => Summary::Integers(fastest::<u8>(bytes, bins)?),
        "i2" => Summary::Integers(fastest::<i16>(bytes, bins)?),
        "u2" => Summary::Integers(fastest::<u16>(bytes, bins)?),
        "i4" => Summary::Integers(fastest::<i32>(bytes, bins)?),
        "u4" => Summary::Integers(fastest::<u32>(bytes, bins)?),
        "i8" => Summary::Integers(fastest::<i64>(bytes, bins)?),
        "u8" => Summary::Integers(fastest::<u64>(bytes, bins)?),
        "M8" => Summary::Integers(fastest::<Time>(bytes, bins)?),
        "f2" => Summary::Reals(fastest::<Float16>(bytes, bins)?),
        "bfloat16" => Summary::Reals(fastest::<BFloat16>(bytes, bins)?),
        "f4" => Summary::Reals(fastest::<f32>(bytes, bins)?),
        "f8" => Summary::Reals(fastest::<f64>(bytes, bins)?),
        _ => return None,
    })
}

/// Summarise elements with the fastest instructions of this processor.
fn fastest<S: Source>(bytes: &[u8], max_bins: usize) -> Option<TotalsOf<S>> {
    // SAFETY: every bit pattern is an element of the types that implement `Source`.
    let (before, elements, after) = unsafe { bytes.align_to::<S>() };
    if !before.is_empty() || !after.is_empty() {
        return None;
    }
    if has_avx2() {
        // SAFETY: the processor has AVX2.
        Some(unsafe { wide(elements, max_bins) })
    } else {
        Some(summarize_elements(elements, max_bins))
    }
}

type TotalsOf<S> = Totals<<<S as Source>::Element as Element>::Number>;

/// The function, compiled with wider vectors.
///
/// # Safety
/// The processor has AVX2.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
unsafe fn wide<S: Source>(elements: &[S], max_bins: usize) -> TotalsOf<S> {
    summarize_elements(elements, max_bins)
}

#[inline(always)]
fn summarize_elements<S: Source>(elements: &[S], max_bins: usize) -> TotalsOf<S> {
    let mut totals = TotalsOf::<S> { max_bins, ..Totals::default() };
    let (mut counts, mut buffer, mut tables) = (Counts::default(), Vec::new(), Tables::default());
    for block in elements.chunks(BLOCK) {
        let finite = S::sift(block, &mut buffer, &mut counts);
        let Some((low, high)) = extremes(finite) else { continue };
        let before = totals.histogram.range();
        let is_full = tables.uncounted > UNCOUNTED;
        let (low, high) = (low.number(), high.number());
        let grows = !totals.extremes.is_some_and(|(least, most)| least <= low && high <= most);
        if grows || is_full {
            tables.empty_into(&mut totals.histogram);
            totals.include(low, high);
        }
        debug_assert!(grows || totals.histogram.range() == before);
        totals.moments = totals.moments.merged(&S::Element::moments(finite, low, high));
        if max_bins > 0 {
            tables.count(finite, low, &totals.histogram);
        }
    }
    tables.empty_into(&mut totals.histogram);
    totals.nan_count = counts.nan;
    totals.negative_infinity_count = counts.negative_infinity;
    totals.positive_infinity_count = counts.positive_infinity;
    totals
}

/// Return the minimum and the maximum of finite elements; None without elements.
#[inline(always)]
fn extremes<E: Element>(block: &[E]) -> Option<(E, E)> {
    let &first = block.first()?;
    let lesser = |left: E, right: E| if right < left { right } else { left };
    let greater = |left: E, right: E| if right > left { right } else { left };
    Some(fold(block, (first, first), (lesser, greater), (lesser, greater)))
}

#[cfg(test)]
mod tests;
