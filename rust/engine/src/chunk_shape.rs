//! Chunk shapes from constraints: lengths, an aspect ratio and a number of elements.
//!
//! A length is `ratio * factor`, limited to the extent of the array and rounded to fit another
//! chunk. A bisection finds the factor with which a chunk has the target number of elements, or as
//! few less as possible. The bisection has the steps of TensorStore 0.1.86, because the result
//! depends on where it ends.

use crate::error::{Error, Result};
use crate::index_space::Dim;

/// The bisection is geometric while the ratio of its ends exceeds this.
const GEOMETRIC_RATIO: f64 = 4.0;

/// The maximum distance between a target length and a divisor.
const MAX_DIVISOR_DISTANCE: u64 = 1_000_000;

/// The default number of elements of a chunk, whatever their size.
const DEFAULT_ELEMENTS: u64 = 1024 * 1024;

/// The extent that stands for an infinite dimension.
const INFINITE_EXTENT: u64 = 1 << 62;

/// The minimum of a ratio relative to the largest, so that its inverse stays finite.
const MIN_RATIO: f64 = 1e-250;

/// The maximum of a count of elements.
const MAX_ELEMENTS: u64 = i64::MAX as u64;

/// The relation of a chunk's length to that of another chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// The length is a divisor of the other one.
    Divisor,
    /// The length is a multiple of the other one.
    Multiple,
}

impl Fit {
    /// Return the length nearest to `target` that fits the other length `of`, possibly `of` itself.
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
    let remainder = target - below;
    if remainder > of / 2 && 2 * remainder > of {
        below + of
    } else {
        below
    }
}

fn nearest_divisor(of: u64, target: u64) -> u64 {
    if target >= of {
        return of;
    }
    let divisor = (0..MAX_DIVISOR_DISTANCE).find_map(|offset| {
        let below = target.saturating_sub(offset);
        let above = target + offset;
        if below > 0 && of % below == 0 {
            Some(below)
        } else {
            (of % above == 0).then_some(above)
        }
    });
    divisor.unwrap_or(of)
}

/// The constraints of a chunk along one dimension.
#[derive(Debug, Clone, Copy)]
struct Side {
    /// The length; 0 if it is not fixed.
    length: u64,
    /// The aspect ratio: positive.
    ratio: f64,
    /// The extent of the array: at least 1.
    extent: u64,
    /// The length of the other chunk that this one has to fit; 0 without such a chunk.
    other: u64,
}

/// Return all lengths of a chunk.
///
/// `target` is the number of elements: at least 1.
fn complete_lengths(sides: &[Side], target: u64, fit: Fit) -> Vec<u64> {
    if sides.iter().all(|side| side.length > 0) {
        return sides.iter().map(|side| side.length).collect();
    }
    let search = Search { sides: &scaled(sides), target, fit };
    // The lengths of the other chunk are the only multiples that fit the target if twice as many
    // elements exceed it.
    let minimum = search.product(|side| side.other);
    if fit == Fit::Multiple && minimum > 0 && minimum <= target && target < minimum.saturating_mul(2) {
        return search.lengths(|side| side.other).collect();
    }
    let factor = search.factor();
    search.lengths(|side| search.length(side, factor)).collect()
}

/// Return the same sides with 1 as the largest ratio, so that every factor is a finite number.
fn scaled(sides: &[Side]) -> Vec<Side> {
    let largest = sides.iter().map(|side| side.ratio).fold(0.0, f64::max);
    sides.iter().map(|side| Side { ratio: (side.ratio / largest).max(MIN_RATIO), ..*side }).collect()
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
        let (proportional, longest) = (side.ratio * factor, self.longest(side) as f64);
        let length = if proportional < longest { (proportional as u64).max(1) } else { longest as u64 };
        if side.other > 0 {
            self.fit.nearest(side.other, length)
        } else {
            length
        }
    }

    fn count(&self, factor: f64) -> u64 {
        self.product(|side| self.length(side, factor)).min(MAX_ELEMENTS)
    }

    fn factor(&self) -> f64 {
        let open = || self.sides.iter().filter(|side| side.length == 0);
        let step = open().map(|side| 1.0 / side.ratio).fold(f64::INFINITY, f64::min) / 2.0;
        let maxima = open().map(|side| self.longest(side) as f64 / side.ratio);
        let mut high = 2.0 * maxima.fold(0.0, f64::max);
        let (mut low, mut high_count) = (step, self.count(high));
        if high_count <= self.target {
            return high; // the full extents fit the target: the bisection would end there, too
        }
        while low + step < high {
            let is_wide = high > GEOMETRIC_RATIO * low;
            let middle = if is_wide { low.sqrt() * high.sqrt() } else { low + (high - low) / 2.0 };
            if !(low < middle && middle < high) {
                break; // no number lies between the two
            }
            let total = self.count(middle);
            if total >= self.target {
                (high, high_count) = (middle, total);
            }
            if total <= self.target {
                low = middle;
            }
        }
        if high_count == self.target {
            high
        } else {
            low
        }
    }
}

/// A constraint: a value, and whether it is hard.
pub type Constraint<T> = Option<(T, bool)>;

/// The constraints of one kind of chunk. Empty lists constrain nothing.
#[derive(Debug, Clone, Default)]
pub struct ChunkConstraints {
    /// The lengths; -1 is the full extent of a dimension.
    pub lengths: Vec<Constraint<i64>>,
    /// The aspect ratio.
    pub ratios: Vec<Constraint<f64>>,
    /// The number of elements.
    pub elements: Constraint<u64>,
}

impl ChunkConstraints {
    /// Return the constrained lengths, and whether each is hard; 0 for a length without constraint.
    fn constrained_lengths(&self, domain: &[Dim], what: &str) -> Result<Vec<(u64, bool)>> {
        let constraint = |k: usize| self.lengths.get(k).copied().flatten().unwrap_or((0, false));
        let constrained_lengths = |(k, dim): (usize, &Dim)| match constraint(k) {
            (-1, _) if !dim.is_finite() => {
                let message =
                    format!("{what}: the length is the full extent of dimension {k}, but {dim} is infinite");
                Err(Error::argument(message))
            }
            (-1, hard) => Ok((length_of(dim), hard)),
            (length, hard) => Ok((length.unsigned_abs(), hard)),
        };
        domain.iter().enumerate().map(constrained_lengths).collect()
    }

    /// Return all lengths, with the missing ones chosen to fit `others`.
    fn complete(&self, lengths: &[u64], domain: &[Dim], others: &[u64], fit: Fit) -> Vec<u64> {
        let ratio = |k: usize| self.ratios.get(k).copied().flatten().map_or(1.0, |(ratio, _)| ratio);
        let extent = |dim: &Dim| if dim.is_finite() { length_of(dim) } else { INFINITE_EXTENT };
        let side = |(k, dim)| Side {
            length: lengths[k],
            ratio: ratio(k),
            extent: extent(dim),
            other: others.get(k).copied().unwrap_or(0),
        };
        let sides: Vec<_> = domain.iter().enumerate().map(side).collect();
        let target = self.elements.map_or(DEFAULT_ELEMENTS, |(elements, _)| elements.max(1));
        complete_lengths(&sides, target, fit)
    }
}

/// Return the length of a finite dimension, at least 1.
fn length_of(dim: &Dim) -> u64 {
    dim.size().unsigned_abs().max(1)
}

/// Return the shapes of read chunks and of write chunks, which are multiples of read chunks.
///
/// # Errors
/// `Kind::Argument` if hard write lengths are no multiples of hard read lengths, or a length is the
/// full extent of an infinite dimension.
pub fn choose(
    write: &ChunkConstraints,
    read: &ChunkConstraints,
    domain: &[Dim],
) -> Result<(Vec<u64>, Vec<u64>)> {
    let (mut outer, mut inner) =
        (write.constrained_lengths(domain, "write_chunk")?, read.constrained_lengths(domain, "read_chunk")?);
    for (k, (outer, inner)) in outer.iter_mut().zip(&mut inner).enumerate() {
        if outer.0 == 0 || inner.0 == 0 || outer.0 % inner.0 == 0 {
            continue;
        }
        if outer.1 && inner.1 {
            let (long, short) = (outer.0, inner.0);
            let message =
                format!("write_chunk {long} of dimension {k} is not a multiple of read_chunk {short}");
            return Err(Error::argument(message));
        }
        if inner.1 {
            outer.0 = Fit::Multiple.nearest(inner.0, outer.0);
        } else {
            inner.0 = Fit::Divisor.nearest(outer.0, inner.0);
        }
    }
    let lengths = |of: &[(u64, bool)]| of.iter().map(|side| side.0).collect::<Vec<_>>();
    let (outer, inner) = (lengths(&outer), lengths(&inner));
    let read = read.complete(&inner, domain, &outer, Fit::Divisor);
    let write = write.complete(&outer, domain, &read, Fit::Multiple);
    Ok((read, write))
}

/// Return the shape of chunks that are read and written as a whole.
///
/// # Errors
/// `Kind::Argument` if a length is the full extent of an infinite dimension.
pub fn choose_one(constraints: &ChunkConstraints, domain: &[Dim]) -> Result<Vec<u64>> {
    let lengths: Vec<_> =
        constraints.constrained_lengths(domain, "chunk")?.iter().map(|side| side.0).collect();
    Ok(constraints.complete(&lengths, domain, &[], Fit::Divisor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index_space::{END, INFINITE};

    fn side(length: u64, extent: u64, other: u64) -> Side {
        Side { length, ratio: 1.0, extent, other }
    }

    #[test]
    fn unconstrained_lengths_have_the_ratio_and_the_elements() {
        let flat = Side { ratio: 2.0, ..side(0, 1000, 0) };
        assert_eq!(complete_lengths(&[flat, side(0, 1000, 0)], 200, Fit::Divisor), [20, 10]);
        assert_eq!(complete_lengths(&[side(7, 1000, 0), side(0, 1000, 0)], 70, Fit::Divisor), [7, 10]);
        assert_eq!(complete_lengths(&[side(0, 5, 0), side(0, 1000, 0)], 50, Fit::Divisor), [5, 10]);
        assert_eq!(complete_lengths(&[side(0, 5, 0), side(0, 6, 0)], 50, Fit::Divisor), [5, 6]);
        assert!(complete_lengths(&[], 5, Fit::Divisor).is_empty());
    }

    #[test]
    fn ratios_of_any_magnitude_are_scaled() {
        for scale in [f64::from_bits(1), 1e-310, 1e-155, 1.0, 1e200, 1.7e308] {
            let square = Side { ratio: scale, ..side(0, 5000, 0) };
            assert_eq!(complete_lengths(&[square, square], 10_000, Fit::Divisor), [100, 100], "{scale}");
            let largest = Side { ratio: f64::MAX, ..side(0, 10, 0) };
            assert_eq!(
                complete_lengths(&[Side { ratio: scale / 2.0, ..square }, largest], 70, Fit::Divisor),
                [7, 10],
                "{scale}"
            );
        }
    }

    #[test]
    fn read_chunks_are_chosen_before_write_chunks() {
        let rows = |lengths: &[i64], hard| lengths.iter().map(|&length| Some((length, hard))).collect();
        let constraints =
            |lengths, hard| ChunkConstraints { lengths: rows(lengths, hard), ..ChunkConstraints::default() };
        let (open, square) = (ChunkConstraints::default(), [Dim::new(0, 400), Dim::new(0, 400)]);
        let shapes = |write: ChunkConstraints, read: ChunkConstraints| choose(&write, &read, &square).ok();
        assert_eq!(shapes(open.clone(), constraints(&[64, 64], true)), Some((vec![64, 64], vec![384, 384])));
        assert_eq!(
            shapes(constraints(&[100, -1], false), open.clone()),
            Some((vec![100, 400], vec![100, 400]))
        );
        assert_eq!(
            shapes(constraints(&[9, 9], false), constraints(&[4, 4], true)),
            Some((vec![4, 4], vec![8, 8]))
        );
        assert_eq!(
            shapes(constraints(&[9, 9], true), constraints(&[4, 4], false)),
            Some((vec![3, 3], vec![9, 9]))
        );
        assert!(shapes(constraints(&[9, 9], true), constraints(&[4, 4], true)).is_none());
        assert!(choose_one(&constraints(&[-1], false), &[Dim::new(-INFINITE, END)]).is_err());
        assert_eq!(choose_one(&open, &[Dim::new(-INFINITE, END)]).ok(), Some(vec![DEFAULT_ELEMENTS]));
        assert_eq!(choose_one(&open, &[]).ok(), Some(vec![]));
    }

    #[test]
    fn lengths_fit_other_chunks() {
        assert_eq!(
            complete_lengths(&[side(0, 1000, 64), side(0, 1000, 64)], 1 << 16, Fit::Multiple),
            [256, 256]
        );
        assert_eq!(complete_lengths(&[side(0, 1000, 60), side(8, 1000, 8)], 56, Fit::Divisor), [6, 8]);
        assert_eq!(complete_lengths(&[side(0, 1000, 64), side(0, 1000, 3)], 192, Fit::Multiple), [64, 3]);
    }

    #[test]
    fn nearest_finds_multiple_or_divisor() {
        assert_eq!(nearest_multiple(64, 400), 384);
        assert_eq!(nearest_multiple(64, 10), 64);
        assert_eq!(nearest_multiple(4, 6), 4);
        assert_eq!(nearest_divisor(60, 7), 6);
        assert_eq!(nearest_divisor(60, 61), 60);
        assert_eq!(nearest_divisor((1 << 61) - 1, 1 << 40), (1 << 61) - 1); // a prime
    }

    #[test]
    fn saturated_counts_exceed_the_target() {
        let huge = [side(0, 1 << 62, 0); 3];
        assert_eq!(complete_lengths(&huge, 1000, Fit::Multiple), [10, 10, 10]);
        assert_eq!(complete_lengths(&[side(i64::MAX as u64, 1, 0), side(0, 9, 0)], 1, Fit::Divisor)[1], 1);
    }
}
