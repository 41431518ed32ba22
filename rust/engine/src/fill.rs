//! Lengths of chunks that nobody states, by an aspect ratio and a number of elements.
//!
//! Lengths are `ratio * factor`, cut to the extent of the array and rounded where they have to fit
//! another chunk. The factor is searched by halving until a chunk has as many elements as are
//! wanted, or as few below as possible; as TensorStore 0.1.86 halves, since its results depend on
//! where the search ends.

/// The range of factors is halved by its ratio while its ends are further apart than this.
const APART: f64 = 4.0;

/// So far from a length a divisor is searched for.
const SEARCHED: u64 = 1_000_000;

/// Elements are counted up to this.
const MOST: u64 = i64::MAX as u64;

/// How the length of one chunk fits another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// It is a divisor of the other one.
    Divisor,
    /// It is a multiple of the other one.
    Multiple,
}

impl Fit {
    /// The length nearest to `target` that fits one that is `of`; it may be none but that itself.
    pub fn nearest(self, of: u64, target: u64) -> u64 {
        match self {
            Fit::Divisor => nearest_divisor(of, target),
            Fit::Multiple => nearest_multiple(of, target),
        }
    }
}

fn nearest_multiple(of: u64, target: u64) -> u64 {
    if target <= of {
        return of;
    }
    let below = target / of * of;
    let more = target - below;
    if more > of / 2 && 2 * more > of {
        below + of
    } else {
        below
    }
}

fn nearest_divisor(of: u64, target: u64) -> u64 {
    if target >= of {
        return of;
    }
    let near = (0..SEARCHED).find_map(|offset| {
        let below = target.saturating_sub(offset);
        let above = target + offset;
        if below > 0 && of % below == 0 {
            Some(below)
        } else {
            (of % above == 0).then_some(above)
        }
    });
    near.unwrap_or(of)
}

/// What is known of a chunk along one dimension.
#[derive(Debug, Clone, Copy)]
pub struct Side {
    /// The length; 0 leaves it open.
    pub length: u64,
    /// How long it is beside others: positive.
    pub ratio: f64,
    /// How long the array is: at least 1.
    pub extent: u64,
    /// The length of the other chunk that it has to fit; 0 where there is none.
    pub other: u64,
}

/// The lengths of a chunk, with those that were open.
///
/// `target` is the number of elements: at least 1.
pub fn fill(sides: &[Side], target: u64, fit: Fit) -> Vec<u64> {
    if sides.iter().all(|side| side.length > 0) {
        return sides.iter().map(|side| side.length).collect();
    }
    let search = Search { sides, target, fit };
    // Of multiples of all others, the others themselves are the only ones that are not too many
    // where twice as many elements are.
    let least = search.product(|side| side.other);
    if fit == Fit::Multiple && least > 0 && least <= target && target < least.saturating_mul(2) {
        return search.lengths(|side| side.other).collect();
    }
    let factor = search.factor();
    search.lengths(|side| search.length(side, factor)).collect()
}

struct Search<'a> {
    sides: &'a [Side],
    target: u64,
    fit: Fit,
}

impl Search<'_> {
    fn lengths<'a>(&'a self, open: impl Fn(&Side) -> u64 + 'a) -> impl Iterator<Item = u64> + 'a {
        self.sides.iter().map(move |side| if side.length > 0 { side.length } else { open(side) })
    }

    fn product(&self, open: impl Fn(&Side) -> u64) -> u64 {
        self.lengths(open).fold(1, u64::saturating_mul)
    }

    fn longest(&self, side: &Side) -> u64 {
        self.target.min(side.extent)
    }

    fn length(&self, side: &Side, factor: f64) -> u64 {
        let (wanted, longest) = (side.ratio * factor, self.longest(side) as f64);
        let length = if wanted < longest { (wanted as u64).max(1) } else { longest as u64 };
        if side.other > 0 {
            self.fit.nearest(side.other, length)
        } else {
            length
        }
    }

    fn count(&self, factor: f64) -> u64 {
        self.product(|side| self.length(side, factor)).min(MOST)
    }

    fn factor(&self) -> f64 {
        let open = || self.sides.iter().filter(|side| side.length == 0);
        let step = open().map(|side| 1.0 / side.ratio).fold(f64::INFINITY, f64::min) / 2.0;
        let most = open().map(|side| self.longest(side) as f64 / side.ratio);
        let mut high = 2.0 * most.fold(0.0, f64::max);
        let (mut low, mut found) = (step, self.count(high));
        if found <= self.target {
            return high; // all of each axis is not too much: halving would end there, too
        }
        while low + step < high {
            let apart = high > APART * low;
            let middle = if apart { (low * high).sqrt() } else { low + (high - low) / 2.0 };
            if !(low < middle && middle < high) {
                break; // there is no number between the two
            }
            let total = self.count(middle);
            if total >= self.target {
                (high, found) = (middle, total);
            }
            if total <= self.target {
                low = middle;
            }
        }
        if found == self.target {
            high
        } else {
            low
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(length: u64, extent: u64, other: u64) -> Side {
        Side { length, ratio: 1.0, extent, other }
    }

    #[test]
    fn open_lengths_have_the_ratio_and_the_elements() {
        let flat = Side { ratio: 2.0, ..side(0, 1000, 0) };
        assert_eq!(fill(&[flat, side(0, 1000, 0)], 200, Fit::Divisor), [20, 10]);
        assert_eq!(fill(&[side(7, 1000, 0), side(0, 1000, 0)], 70, Fit::Divisor), [7, 10]);
        assert_eq!(fill(&[side(0, 5, 0), side(0, 1000, 0)], 50, Fit::Divisor), [5, 10]);
        assert_eq!(fill(&[side(0, 5, 0), side(0, 6, 0)], 50, Fit::Divisor), [5, 6]);
        assert!(fill(&[], 5, Fit::Divisor).is_empty());
    }

    #[test]
    fn lengths_fit_other_chunks() {
        assert_eq!(fill(&[side(0, 1000, 64), side(0, 1000, 64)], 1 << 16, Fit::Multiple), [256, 256]);
        assert_eq!(fill(&[side(0, 1000, 60), side(8, 1000, 8)], 56, Fit::Divisor), [6, 8]);
        assert_eq!(fill(&[side(0, 1000, 64), side(0, 1000, 3)], 192, Fit::Multiple), [64, 3]);
    }

    #[test]
    fn the_nearest_fits() {
        assert_eq!(nearest_multiple(64, 400), 384);
        assert_eq!(nearest_multiple(64, 10), 64);
        assert_eq!(nearest_multiple(4, 6), 4);
        assert_eq!(nearest_divisor(60, 7), 6);
        assert_eq!(nearest_divisor(60, 61), 60);
        assert_eq!(nearest_divisor((1 << 61) - 1, 1 << 40), (1 << 61) - 1); // a prime
    }

    #[test]
    fn what_is_too_many_to_count_is_too_many() {
        let huge = [side(0, 1 << 62, 0); 3];
        assert_eq!(fill(&huge, 1000, Fit::Multiple), [10, 10, 10]);
        assert_eq!(fill(&[side(i64::MAX as u64, 1, 0), side(0, 9, 0)], 1, Fit::Divisor)[1], 1);
    }
}
