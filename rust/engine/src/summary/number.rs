//! The numbers of summaries: integers, whose sums are exact, and reals.

use std::fmt::Debug;

/// A kind of numbers to which elements are widened without loss.
pub trait Number: Copy + PartialOrd + Debug + Default {
    /// The sum of numbers.
    type Sum: Copy + Debug + Default;

    /// Return the sum of two sums.
    fn add(left: Self::Sum, right: Self::Sum) -> Self::Sum;

    /// Return `count` times a sum.
    fn multiply(sum: Self::Sum, count: u64) -> Self::Sum;

    /// Return a sum times 2 to the power of `exponent`, which is 0 for integers.
    fn scale_sum(sum: Self::Sum, exponent: i32) -> Self::Sum;

    /// Return the difference of two means, each a sum and a count.
    fn mean_difference(left: (Self::Sum, u64), right: (Self::Sum, u64)) -> f64;

    /// Return the number divided by 2 to the power of `exponent`, rounded down. For reals, the
    /// exponent is at least the `finest_exponent` of a range with the number.
    fn bin(self, exponent: i32) -> i128;

    /// Return the exponent of the finest bins whose numbers are exact in a range.
    fn finest_exponent(low: Self, high: Self) -> i32;
}

impl Number for i128 {
    type Sum = i128;

    fn add(left: i128, right: i128) -> i128 {
        left.saturating_add(right)
    }

    fn multiply(sum: i128, count: u64) -> i128 {
        sum.saturating_mul(i128::from(count))
    }

    fn scale_sum(sum: i128, _: i32) -> i128 {
        sum
    }

    fn mean_difference(left: (i128, u64), right: (i128, u64)) -> f64 {
        // The fractions keep their digits if the means are large.
        let parts = |(sum, count): (i128, u64)| {
            let count = i128::from(count.max(1));
            (sum.div_euclid(count), sum.rem_euclid(count) as f64 / count as f64)
        };
        let ((left, left_fraction), (right, right_fraction)) = (parts(left), parts(right));
        (left - right) as f64 + (left_fraction - right_fraction)
    }

    fn bin(self, exponent: i32) -> i128 {
        self >> exponent
    }

    fn finest_exponent(_: i128, _: i128) -> i32 {
        0
    }
}

/// A sum of two numbers, the second of which is the rounding error of the first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compensated {
    high: f64,
    low: f64,
}

impl Compensated {
    pub(super) fn of(number: f64) -> Compensated {
        Compensated { high: number, low: 0.0 }
    }

    pub(super) fn plus(self, other: Compensated) -> Compensated {
        // Knuth's two-sum.
        let high = self.high + other.high;
        let part = high - self.high;
        let error = (self.high - (high - part)) + (other.high - part);
        Compensated { high, low: self.low + other.low + error }
    }

    pub(super) fn times(self, factor: f64) -> Compensated {
        Compensated { high: self.high * factor, low: self.low * factor }
    }

    pub(super) fn scaled(self, exponent: i32) -> Compensated {
        Compensated { high: scale(self.high, exponent), low: scale(self.low, exponent) }
    }

    /// Return the rounded sum.
    #[must_use]
    pub fn value(self) -> f64 {
        self.high + self.low
    }
}

impl Number for f64 {
    type Sum = Compensated;

    fn add(left: Compensated, right: Compensated) -> Compensated {
        left.plus(right)
    }

    fn multiply(sum: Compensated, count: u64) -> Compensated {
        sum.times(count as f64)
    }

    fn scale_sum(sum: Compensated, exponent: i32) -> Compensated {
        sum.scaled(exponent)
    }

    fn mean_difference(left: (Compensated, u64), right: (Compensated, u64)) -> f64 {
        left.0.value() / left.1.max(1) as f64 - right.0.value() / right.1.max(1) as f64
    }

    fn bin(self, exponent: i32) -> i128 {
        let quotient = scale(self, -exponent);
        // A quotient below all numbers other than 0 is rounded to 0.
        let below = i128::from(quotient == 0.0 && self < 0.0);
        quotient.floor() as i128 - below
    }

    fn finest_exponent(low: f64, high: f64) -> i32 {
        let most = low.abs().max(high.abs());
        // Bits of a subnormal number have the exponent of the least normal one.
        ((most.to_bits() >> 52 & 0x7ff) as i32).max(1) - 1075
    }
}

/// Return 2 to a power from -1022 to 1023.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// Return a number times 2 to a power from -2044 to 2046.
pub(super) fn scale(number: f64, exponent: i32) -> f64 {
    let half = exponent / 2;
    number * power_of_two(half) * power_of_two(exponent - half)
}
