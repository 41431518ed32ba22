//! The elements of arrays, and the loops over blocks of them.

use crate::convert::half::{BFloat16, Float16};

use super::moments::{scale_exponent, Moments};
use super::number::{scale, Compensated, Number};
use super::BLOCK;

/// The numbers of elements without a finite number.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) nan: u64,
    pub(super) negative_infinity: u64,
    pub(super) positive_infinity: u64,
}

/// An element in memory.
pub(super) trait Source: Copy {
    /// The type that loops work with.
    type Element: Element;

    /// Return the finite elements of a block, in the block or in `buffer`, and count the others.
    fn sift<'b>(
        block: &'b [Self],
        buffer: &'b mut Vec<Self::Element>,
        counts: &mut Counts,
    ) -> &'b [Self::Element];
}

/// A finite number of a type with loops.
pub(super) trait Element: Copy + PartialOrd {
    /// The kind of numbers of the summary.
    type Number: Number;

    /// Return the same number.
    fn number(self) -> Self::Number;

    /// Return the moments of a block with this minimum and maximum.
    fn moments(block: &[Self], low: Self::Number, high: Self::Number) -> Moments<Self::Number>;

    /// Write the bin of each element, from 0 to `last`, relative to the bin `first`, to the lowest
    /// bits of `out`; `low` is the minimum.
    fn bins(block: &[Self], low: Self::Number, exponent: i32, first: i128, last: u32, out: &mut [u32]);
}

/// The length of a row.
const ROW: usize = 128;

/// Fold a block to two results: `add` each element to those of its column, and `merge` columns. A
/// loop over the columns of a row uses vector instructions, whatever the order of additions.
#[inline(always)]
pub(super) fn fold<E: Copy, L: Copy, R: Copy>(
    block: &[E],
    start: (L, R),
    add: (impl Fn(L, E) -> L, impl Fn(R, E) -> R),
    merge: (impl Fn(L, L) -> L, impl Fn(R, R) -> R),
) -> (L, R) {
    let (mut left, mut right) = ([start.0; ROW], [start.1; ROW]);
    for row in block.chunks(ROW) {
        for ((left, right), &element) in left.iter_mut().zip(&mut right).zip(row) {
            (*left, *right) = (add.0(*left, element), add.1(*right, element));
        }
    }
    let mut width = ROW / 2;
    while width > 0 {
        for column in 0..width {
            left[column] = merge.0(left[column], left[column + width]);
            right[column] = merge.1(right[column], right[column + width]);
        }
        width /= 2;
    }
    (left[0], right[0])
}

/// Return the sum of the values of a block.
#[inline(always)]
fn sum<E: Copy>(block: &[E], value: impl Fn(E) -> f64) -> f64 {
    let add = (|sum, element| sum + value(element), |nothing: (), _| nothing);
    fold(block, (0.0, ()), add, (|left, right| left + right, |nothing, ()| nothing)).0
}

/// Return the sum of squared differences from the mean; `difference` is from a number near it.
#[inline(always)]
fn squares<E: Copy>(block: &[E], difference: impl Fn(E) -> f64) -> f64 {
    let square = |sum, element| {
        let difference = difference(element);
        sum + difference * difference
    };
    let add = |left: f64, right: f64| left + right;
    let (squares, rest) =
        fold(block, (0.0, 0.0), (square, |rest, element| rest + difference(element)), (add, add));
    squares - rest * rest / block.len() as f64
}

macro_rules! integers {
    ($($number:ty, $unsigned:ty, $moments:ident;)*) => {$(
        impl Source for $number {
            type Element = Self;

            #[inline(always)]
            fn sift<'b>(block: &'b [Self], _: &'b mut Vec<Self>, _: &mut Counts) -> &'b [Self] {
                block
            }
        }

        impl Element for $number {
            type Number = i128;

            #[inline(always)]
            fn number(self) -> i128 {
                i128::from(self)
            }

            #[inline(always)]
            fn moments(block: &[Self], low: i128, high: i128) -> Moments<i128> {
                $moments!(block, $number, low, high)
            }

            #[inline(always)]
            fn bins(block: &[Self], _: i128, exponent: i32, first: i128, last: u32, out: &mut [u32]) {
                let low = (first << exponent) as $number;
                for (&element, bin) in block.iter().zip(out) {
                    // The range of the histogram has two bins or more if the shift is the largest.
                    let distance = element.wrapping_sub(low) as $unsigned;
                    *bin = ((distance >> exponent) as u32).min(last);
                }
            }
        }
    )*};
}

/// The moments of numbers whose squares have exact sums in a block.
macro_rules! exact {
    ($square:ty, $block:ident, $number:ty, $low:ident, $high:ident) => {{
        let _ = ($low, $high);
        let count = $block.len() as i128;
        let square = |sum: $square, element: $number| {
            let magnitude = u32::from(element.abs_diff(0));
            sum + <$square>::from(magnitude * magnitude)
        };
        let add = (|sum: i32, element| sum + i32::from(element), square);
        let merge = (|left: i32, right| left + right, |left: $square, right| left + right);
        let (sum, square) = fold($block, (0, 0), add, merge);
        let (sum, square) = (i128::from(sum), i128::from(square));
        let squares = Compensated::of((square * count - sum * sum) as f64 / count as f64);
        Moments { count: $block.len() as u64, sum, squares, exponent: 0 }
    }};
}

macro_rules! exact_bytes {
    ($($block:tt)*) => { exact!(u32, $($block)*) };
}
macro_rules! exact_words {
    ($($block:tt)*) => { exact!(u64, $($block)*) };
}

/// The moments of numbers that are floats without rounding.
macro_rules! rounded {
    ($block:ident, $number:ty, $low:ident, $high:ident) => {{
        let _ = ($low, $high);
        // Sums of a block have less than 53 bits.
        let sum = sum($block, |element| f64::from(element));
        let mean = sum / $block.len() as f64;
        let squares = Compensated::of(squares($block, |element| f64::from(element) - mean));
        Moments { count: $block.len() as u64, sum: sum as i128, squares, exponent: 0 }
    }};
}

/// The moments of numbers with more digits than floats.
macro_rules! long {
    ($block:ident, $number:ty, $low:ident, $high:ident) => {{
        let count = $block.len();
        let (sum, squares) = if $high - $low < i128::from(NARROW) {
            // Distances from the minimum, and their sum, are floats without rounding.
            let least = $low as $number;
            let distance = |element: $number| small_float(element.wrapping_sub(least) as u64);
            let sum = sum($block, distance);
            let mean = sum / count as f64;
            ($low * count as i128 + sum as i128, squares($block, |element| distance(element) - mean))
        } else {
            let sum: i128 = $block.iter().map(|&element| i128::from(element)).sum();
            let center = sum.div_euclid(count as i128) as $number as f64;
            (sum, squares($block, |element| element as f64 - center))
        };
        Moments { count: count as u64, sum, squares: Compensated::of(squares), exponent: 0 }
    }};
}

/// The sum of a block of numbers below this limit has at most 52 bits.
const NARROW: u64 = (1 << 52) / BLOCK as u64;

/// Return a number below 2⁵² as a float, by instructions that vectors have.
#[inline(always)]
fn small_float(number: u64) -> f64 {
    const BASE: f64 = 4_503_599_627_370_496.0;
    f64::from_bits(BASE.to_bits() | number) - BASE
}

integers! {
    i8, u8, exact_bytes;
    u8, u8, exact_bytes;
    i16, u16, exact_words;
    u16, u16, exact_words;
    i32, u32, rounded;
    u32, u32, rounded;
    i64, u64, long;
    u64, u64, long;
}

/// A time as an integer; the least one is NaT.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Time(i64);

impl Source for Time {
    type Element = i64;

    #[inline(always)]
    fn sift<'b>(block: &'b [Self], buffer: &'b mut Vec<i64>, counts: &mut Counts) -> &'b [i64] {
        buffer.clear();
        buffer.extend(block.iter().map(|time| time.0).filter(|&time| time != i64::MIN));
        counts.nan += (block.len() - buffer.len()) as u64;
        buffer
    }
}

macro_rules! reals {
    ($($number:ty, $bits:ty, $digits:literal, $exponents:literal;)*) => {$(
        impl Source for $number {
            type Element = Self;

            #[inline(always)]
            fn sift<'b>(block: &'b [Self], buffer: &'b mut Vec<Self>, counts: &mut Counts) -> &'b [Self] {
                // Infinities and NaN have the greatest exponent. A loop over integers uses vectors.
                let special = <$number>::INFINITY.to_bits();
                let count = |count, element: &$number| {
                    count + <$bits>::from(element.to_bits() & special == special)
                };
                if block.iter().fold(0, count) == 0 {
                    return block;
                }
                buffer.clear();
                buffer.extend(block.iter().filter(|element| element.is_finite()));
                for element in block {
                    counts.nan += u64::from(element.is_nan());
                    counts.negative_infinity += u64::from(*element == <$number>::NEG_INFINITY);
                    counts.positive_infinity += u64::from(*element == <$number>::INFINITY);
                }
                buffer
            }
        }

        impl Element for $number {
            type Number = f64;

            #[inline(always)]
            fn number(self) -> f64 {
                f64::from(self)
            }

            #[inline(always)]
            fn moments(block: &[Self], low: f64, high: f64) -> Moments<f64> {
                let exponent = scale_exponent(low.abs().max(high.abs()));
                if exponent == 0 {
                    return real_moments(block, 0);
                }
                let mut scaled = [0.0; BLOCK];
                let scaled = &mut scaled[..block.len()];
                scaled.iter_mut().zip(block).for_each(|(to, &from)| *to = scale(f64::from(from), -exponent));
                real_moments(scaled, exponent)
            }

            #[inline(always)]
            fn bins(block: &[Self], low: f64, exponent: i32, first: i128, last: u32, out: &mut [u32]) {
                // Numbers of bins below this limit are exact, and so is the product with the factor,
                // unless it is so small that it is rounded to 0.
                let is_simple = exponent.abs() <= $exponents && first.abs() < 1 << ($digits - 1);
                if !is_simple {
                    for (&element, bin) in block.iter().zip(out) {
                        let position = f64::from(element).bin(exponent) - first;
                        *bin = position.clamp(0, i128::from(last)) as u32;
                    }
                    return;
                }
                let factor = scale(1.0, -exponent) as $number;
                // The lowest bits of the sum with this number are an integer.
                let base = ((1i64 << $digits) - first as i64) as $number;
                if low < 0.0 {
                    for (&element, bin) in block.iter().zip(out) {
                        let quotient = element * factor;
                        let below = if (quotient == 0.0) & (element < 0.0) { 1.0 } else { 0.0 };
                        *bin = (quotient.floor() - below + base).to_bits() as u32;
                    }
                } else {
                    for (&element, bin) in block.iter().zip(out) {
                        *bin = ((element * factor).floor() + base).to_bits() as u32;
                    }
                }
            }
        }
    )*};
}
reals! { f32, u32, 23, 100; f64, u64, 52, 1000; }

#[inline(always)]
fn real_moments<E: Copy + Into<f64>>(block: &[E], exponent: i32) -> Moments<f64> {
    let sum = sum(block, Into::into);
    let mean = sum / block.len() as f64;
    let squares = squares(block, |element| element.into() - mean);
    Moments {
        count: block.len() as u64,
        sum: Compensated::of(sum),
        squares: Compensated::of(squares),
        exponent,
    }
}

macro_rules! halves {
    ($($half:ty)*) => {$(
        impl Source for $half {
            type Element = f32;

            #[inline(always)]
            fn sift<'b>(block: &'b [Self], buffer: &'b mut Vec<f32>, counts: &mut Counts) -> &'b [f32] {
                buffer.clear();
                buffer.extend(block.iter().map(|element| element.widen()));
                let mut others = Vec::new();
                if f32::sift(buffer, &mut others, counts).len() < block.len() {
                    *buffer = others;
                }
                buffer
            }
        }
    )*};
}
halves!(BFloat16 Float16);
