//! Lengths of chunks that nobody states, by an aspect ratio and a number of elements.
//!
//! Lengths are `ratio * factor`, cut to the extent of the array and rounded where they have to fit
//! another chunk. The factor is searched by halving until a chunk has as many elements as are
//! wanted, or as few below as possible; as TensorStore 0.1.86 halves, since its results depend on
//! where the search ends.

use crate::error::{Error, Kind, Result};
use crate::index_space::Dim;

/// The range of factors is halved by its ratio while its ends are further apart than this.
const APART: f64 = 4.0;

/// So far from a length a divisor is searched for.
const SEARCHED: u64 = 1_000_000;

/// Elements of a chunk, where no number is asked for, whatever their size.
const ELEMENTS: u64 = 1024 * 1024;

/// What an infinite dimension counts as.
const LARGEST: u64 = 1 << 62;

/// Ratios to the largest one are not less: multiples of its inverse are numbers.
const LEAST: f64 = 1e-250;

/// Elements are counted up to this.
const MOST: u64 = i64::MAX as u64;

/// How the length of one chunk fits another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// It is a divisor of the other one.
    Divisor,
    /// It is a multiple of the other one.
    Multiple,
}

impl Fit {
    /// The length nearest to `target` that fits one that is `of`; it may be none but that itself.
    fn nearest(self, of: u64, target: u64) -> u64 {
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
struct Side {
    /// The length; 0 leaves it open.
    length: u64,
    /// How long it is beside others: positive.
    ratio: f64,
    /// How long the array is: at least 1.
    extent: u64,
    /// The length of the other chunk that it has to fit; 0 where there is none.
    other: u64,
}

/// The lengths of a chunk, with those that were open.
///
/// `target` is the number of elements: at least 1.
fn fill(sides: &[Side], target: u64, fit: Fit) -> Vec<u64> {
    if sides.iter().all(|side| side.length > 0) {
        return sides.iter().map(|side| side.length).collect();
    }
    let search = Search { sides: &scaled(sides), target, fit };
    // Of multiples of all others, the others themselves are the only ones that are not too many
    // where twice as many elements are.
    let least = search.product(|side| side.other);
    if fit == Fit::Multiple && least > 0 && least <= target && target < least.saturating_mul(2) {
        return search.lengths(|side| side.other).collect();
    }
    let factor = search.factor();
    search.lengths(|side| search.length(side, factor)).collect()
}

/// The same with 1 as the largest ratio, that no factor is beyond the range of numbers.
fn scaled(sides: &[Side]) -> Vec<Side> {
    let largest = sides.iter().map(|side| side.ratio).fold(0.0, f64::max);
    sides.iter().map(|side| Side { ratio: (side.ratio / largest).max(LEAST), ..*side }).collect()
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
            let middle = if apart { low.sqrt() * high.sqrt() } else { low + (high - low) / 2.0 };
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

/// A wish: a value, and whether it has to be.
pub type Wish<T> = Option<(T, bool)>;

/// What is asked for of one kind of chunk. Rows are empty where nothing is.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The lengths; -1 asks for the whole of a dimension.
    pub lengths: Vec<Wish<i64>>,
    /// How long they are beside each other.
    pub ratios: Vec<Wish<f64>>,
    /// The number of elements.
    pub elements: Wish<u64>,
}

impl Wanted {
    /// The lengths that are asked for, and whether they have to be; 0 leaves one open.
    fn begun(&self, domain: &[Dim], what: &str) -> Result<Vec<(u64, bool)>> {
        let wished = |k: usize| self.lengths.get(k).copied().flatten().unwrap_or((0, false));
        let begun = |(k, dim): (usize, &Dim)| match wished(k) {
            (-1, _) if !dim.is_finite() => {
                let message = format!("{what}: the whole of dimension {k} is wanted, but {dim} is infinite");
                Err(Error::new(Kind::Argument, message))
            }
            (-1, hard) => Ok((length_of(dim), hard)),
            (length, hard) => Ok((length.unsigned_abs(), hard)),
        };
        domain.iter().enumerate().map(begun).collect()
    }

    /// All lengths, where some may be open; they fit `others`.
    fn filled(&self, lengths: &[u64], domain: &[Dim], others: &[u64], fit: Fit) -> Vec<u64> {
        let ratio = |k: usize| self.ratios.get(k).copied().flatten().map_or(1.0, |(ratio, _)| ratio);
        let extent = |dim: &Dim| if dim.is_finite() { length_of(dim) } else { LARGEST };
        let side = |(k, dim)| Side {
            length: lengths[k],
            ratio: ratio(k),
            extent: extent(dim),
            other: others.get(k).copied().unwrap_or(0),
        };
        let sides: Vec<_> = domain.iter().enumerate().map(side).collect();
        let target = self.elements.map_or(ELEMENTS, |(elements, _)| elements.max(1));
        fill(&sides, target, fit)
    }
}

/// The length of a finite dimension, at least 1.
fn length_of(dim: &Dim) -> u64 {
    dim.size().unsigned_abs().max(1)
}

/// The shapes of chunks that are read, and of those that are written, multiples of these.
///
/// # Errors
/// `Kind::Argument` if lengths that have to be are none, or all of an infinite dimension is wanted.
pub fn choose(write: &Wanted, read: &Wanted, domain: &[Dim]) -> Result<(Vec<u64>, Vec<u64>)> {
    let (mut outer, mut inner) = (write.begun(domain, "write_chunk")?, read.begun(domain, "read_chunk")?);
    for (k, (outer, inner)) in outer.iter_mut().zip(&mut inner).enumerate() {
        if outer.0 == 0 || inner.0 == 0 || outer.0 % inner.0 == 0 {
            continue;
        }
        if outer.1 && inner.1 {
            let (long, short) = (outer.0, inner.0);
            let message =
                format!("write_chunk {long} of dimension {k} is not a multiple of read_chunk {short}");
            return Err(Error::new(Kind::Argument, message));
        }
        if inner.1 {
            outer.0 = Fit::Multiple.nearest(inner.0, outer.0);
        } else {
            inner.0 = Fit::Divisor.nearest(outer.0, inner.0);
        }
    }
    let lengths = |of: &[(u64, bool)]| of.iter().map(|side| side.0).collect::<Vec<_>>();
    let (outer, inner) = (lengths(&outer), lengths(&inner));
    let read = read.filled(&inner, domain, &outer, Fit::Divisor);
    let write = write.filled(&outer, domain, &read, Fit::Multiple);
    Ok((read, write))
}

/// The shape of chunks that are read and written alike.
///
/// # Errors
/// `Kind::Argument` if all of an infinite dimension is wanted.
pub fn choose_one(wanted: &Wanted, domain: &[Dim]) -> Result<Vec<u64>> {
    let lengths: Vec<_> = wanted.begun(domain, "chunk")?.iter().map(|side| side.0).collect();
    Ok(wanted.filled(&lengths, domain, &[], Fit::Divisor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index_space::{END, INFINITE};

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
    fn ratios_may_be_of_any_size() {
        for scale in [f64::from_bits(1), 1e-310, 1e-155, 1.0, 1e200, 1.7e308] {
            let square = Side { ratio: scale, ..side(0, 5000, 0) };
            assert_eq!(fill(&[square, square], 10_000, Fit::Divisor), [100, 100], "{scale}");
            let largest = Side { ratio: f64::MAX, ..side(0, 10, 0) };
            assert_eq!(
                fill(&[Side { ratio: scale / 2.0, ..square }, largest], 70, Fit::Divisor),
                [7, 10],
                "{scale}"
            );
        }
    }

    #[test]
    fn read_chunks_are_settled_before_write_chunks() {
        let rows = |lengths: &[i64], hard| lengths.iter().map(|&length| Some((length, hard))).collect();
        let wanted = |lengths, hard| Wanted { lengths: rows(lengths, hard), ..Wanted::default() };
        let (open, square) = (Wanted::default(), [Dim::new(0, 400), Dim::new(0, 400)]);
        let chosen = |write: Wanted, read: Wanted| choose(&write, &read, &square).ok();
        assert_eq!(chosen(open.clone(), wanted(&[64, 64], true)), Some((vec![64, 64], vec![384, 384])));
        assert_eq!(chosen(wanted(&[100, -1], false), open.clone()), Some((vec![100, 400], vec![100, 400])));
        assert_eq!(chosen(wanted(&[9, 9], false), wanted(&[4, 4], true)), Some((vec![4, 4], vec![8, 8])));
        assert_eq!(chosen(wanted(&[9, 9], true), wanted(&[4, 4], false)), Some((vec![3, 3], vec![9, 9])));
        assert!(chosen(wanted(&[9, 9], true), wanted(&[4, 4], true)).is_none());
        assert!(choose_one(&wanted(&[-1], false), &[Dim::new(-INFINITE, END)]).is_err());
        assert_eq!(choose_one(&open, &[Dim::new(-INFINITE, END)]).ok(), Some(vec![ELEMENTS]));
        assert_eq!(choose_one(&open, &[]).ok(), Some(vec![]));
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
