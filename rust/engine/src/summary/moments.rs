//! The count, the mean and the variance of numbers.

use super::number::{scale, Compensated, Number};

/// The count, the sum, and the sum of squared differences from the mean.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moments<N: Number> {
    /// The number of numbers.
    pub count: u64,
    /// The sum, divided by 2 to the power of `exponent`.
    pub(super) sum: N::Sum,
    /// The sum of squared differences, divided by 2 to the power of twice `exponent`.
    pub(super) squares: Compensated,
    /// The exponent of the scale: 0, or ±[`EXTREME`] for real numbers whose squares a float cannot
    /// hold.
    pub(super) exponent: i32,
}

/// The exponent of the scale of very large numbers; that of very small ones is its negative.
pub(super) const EXTREME: i32 = 600;

/// Numbers up to 2 to this power, or from its inverse, need no scale.
const ORDINARY: i32 = 400;

/// Return the exponent of the scale for numbers up to `most`.
pub(super) fn scale_exponent(most: f64) -> i32 {
    if most > scale(1.0, ORDINARY) {
        EXTREME
    } else if most < scale(1.0, -ORDINARY) {
        -EXTREME
    } else {
        0
    }
}

impl<N: Number> Moments<N> {
    /// Merge two parts by the formula of Chan, Golub and LeVeque.
    pub(super) fn merged(&self, other: &Moments<N>) -> Moments<N> {
        if other.count == 0 {
            return *self;
        }
        if self.count == 0 {
            return *other;
        }
        let exponent = self.exponent.max(other.exponent);
        let (left, right) = (self.scaled(exponent), other.scaled(exponent));
        let count = left.count.saturating_add(right.count);
        let difference = N::mean_difference((left.sum, left.count), (right.sum, right.count));
        let weight = left.count as f64 * (right.count as f64 / count as f64);
        Moments {
            count,
            sum: N::add(left.sum, right.sum),
            squares: left.squares.plus(right.squares).plus(Compensated::of(difference * difference * weight)),
            exponent,
        }
    }

    pub(super) fn repeated(&self, count: u64) -> Moments<N> {
        if count == 0 {
            return Moments::default();
        }
        Moments {
            count: self.count.saturating_mul(count),
            sum: N::multiply(self.sum, count),
            squares: self.squares.times(count as f64),
            exponent: self.exponent,
        }
    }

    /// Return the moments with a larger scale.
    fn scaled(&self, exponent: i32) -> Moments<N> {
        if exponent == self.exponent {
            return *self;
        }
        let by = self.exponent - exponent;
        Moments {
            sum: N::scale_sum(self.sum, by),
            // Squares of so much smaller numbers do not count.
            squares: self.squares.scaled((2 * by).max(-2000)),
            exponent,
            ..*self
        }
    }

    /// Return the standard deviation: the root of the mean squared difference from the mean. None
    /// without numbers.
    #[must_use]
    pub fn standard_deviation(&self) -> Option<f64> {
        let variance = self.squares.value().max(0.0) / self.count as f64;
        (self.count > 0).then(|| scale(variance.sqrt(), self.exponent))
    }
}

impl Moments<i128> {
    /// Return the exact sum.
    #[must_use]
    pub fn sum(&self) -> i128 {
        self.sum
    }
}

impl Moments<f64> {
    /// Return the sum; it is infinite if it is outside the range of floats.
    #[must_use]
    pub fn sum(&self) -> f64 {
        scale(self.sum.value(), self.exponent)
    }

    /// Return the mean; None without numbers.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| scale(self.sum.value() / self.count as f64, self.exponent))
    }
}
