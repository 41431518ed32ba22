//! Histograms whose bins have a power of two as their width, and multiples of it as their edges.
//!
//! Two neighbouring bins merge to one bin of twice the width. So the range can grow while elements
//! are counted, every count is exact, and parts merge to the histogram of the whole in any order.

use super::element::Element;
use super::number::Number;
use super::BLOCK;

/// The maximum number of bins.
pub const MAX_BINS: usize = 1024;

/// The number of elements after which tables of `u32` are emptied.
pub(super) const UNCOUNTED: u32 = 1 << 31;

/// The number of tables: equal elements in a row then increment different memory.
const TABLES: usize = 8;

/// The length of a table. The processor takes addresses with equal lowest bits for the same.
const TABLE: usize = MAX_BINS + 16;

/// The counts of numbers in bins of equal width.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// The width of a bin is 2 to this power.
    pub exponent: i32,
    /// The lower edge of the first bin, in widths.
    pub first: i128,
    /// The number of elements of each bin: from the lower edge up to, but without, the upper one.
    pub counts: Vec<u64>,
}

impl Histogram {
    /// Change the range to numbers from `low` to `high`, which contains the old range.
    pub(super) fn fit<N: Number>(&mut self, low: N, high: N, max_bins: usize) {
        let mut exponent = N::finest_exponent(low, high);
        if !self.counts.is_empty() {
            exponent = exponent.max(self.exponent);
        }
        let (mut first, mut last) = (low.bin(exponent), high.bin(exponent));
        while last - first >= max_bins as i128 {
            (exponent, first, last) = (exponent + 1, first >> 1, last >> 1);
        }
        let counts = vec![0; (last - first + 1) as usize];
        let old = std::mem::replace(self, Histogram { exponent, first, counts });
        self.add(&old);
    }

    /// Add the counts of a histogram with bins that are not wider, inside the range.
    pub(super) fn add(&mut self, other: &Histogram) {
        let shift = self.exponent.saturating_sub(other.exponent).clamp(0, 127);
        for (bin, &count) in (other.first..).zip(&other.counts) {
            let bin = (bin >> shift) - self.first;
            if let Some(total) = usize::try_from(bin).ok().and_then(|bin| self.counts.get_mut(bin)) {
                *total = total.saturating_add(count);
            }
        }
    }

    pub(super) fn repeated(&self, count: u64) -> Histogram {
        let counts = self.counts.iter().map(|old| old.saturating_mul(count)).collect();
        Histogram { counts, ..*self }
    }

    pub(super) fn range(&self) -> (i32, i128, usize) {
        (self.exponent, self.first, self.counts.len())
    }
}

/// Counts of elements that a histogram does not contain yet.
pub(super) struct Tables {
    counts: [[u32; TABLE]; TABLES],
    /// The number of elements.
    pub(super) uncounted: u32,
    bins: [u32; BLOCK],
}

impl Default for Tables {
    fn default() -> Self {
        Tables { counts: [[0; TABLE]; TABLES], uncounted: 0, bins: [0; BLOCK] }
    }
}

impl Tables {
    /// Count the elements of a block, with the minimum `low`, in the range of `histogram`.
    #[inline(always)]
    pub(super) fn count<E: Element>(&mut self, block: &[E], low: E::Number, histogram: &Histogram) {
        let last = histogram.counts.len().clamp(1, MAX_BINS) - 1;
        let bins = &mut self.bins[..block.len()];
        E::bins(block, low, histogram.exponent, histogram.first, last as u32, bins);
        let mut parts = bins.chunks_exact(TABLES);
        for part in parts.by_ref() {
            for (table, &bin) in self.counts.iter_mut().zip(part) {
                table[bin as usize % MAX_BINS] += 1;
            }
        }
        for &bin in parts.remainder() {
            self.counts[0][bin as usize % MAX_BINS] += 1;
        }
        self.uncounted += block.len() as u32;
    }

    /// Move the counts to the histogram.
    pub(super) fn empty_into(&mut self, histogram: &mut Histogram) {
        if self.uncounted == 0 {
            return;
        }
        self.uncounted = 0;
        for table in &mut self.counts {
            for (total, count) in histogram.counts.iter_mut().zip(table) {
                *total = total.saturating_add(u64::from(std::mem::take(count)));
            }
        }
    }
}
