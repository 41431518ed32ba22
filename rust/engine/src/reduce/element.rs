//! The element types of reductions, and the numbers that they are computed with.

use crate::convert::half::{BFloat16, Float16};

/// An element in memory.
pub(super) trait Element: Copy {
    /// The type that kernels compute with.
    type Wide: Number;
    /// Whether the two types are the same.
    const SAME: bool = false;

    fn widen(self) -> Self::Wide;
    fn narrow(wide: Self::Wide) -> Self;
}

/// A number with an order. NaN is greater than all others.
pub(super) trait Number: Copy + Default + PartialEq {
    fn less(self, other: Self) -> bool;

    /// Return the smaller one; NaN only if both are.
    #[inline(always)]
    fn min_ignoring_nan(self, other: Self) -> Self {
        if other.less(self) {
            other
        } else {
            self
        }
    }

    /// Return the larger one; NaN only if both are. Floats, which have NaN, replace this.
    #[inline(always)]
    fn max_ignoring_nan(self, other: Self) -> Self {
        if self.less(other) {
            other
        } else {
            self
        }
    }
}

/// A number with exact sums.
pub(super) trait Integer: Number {
    /// The sum of at most `MAX_COUNT` numbers.
    type Sum: Total<Self>;
    const MAX_COUNT: usize;
}

/// A sum of numbers.
pub(super) trait Total<N>: Copy + Default {
    fn of(number: N) -> Self;
    fn with(self, other: Self) -> Self;
    /// Return the quotient, rounded to the nearest number, ties to even.
    fn mean(self, count: usize) -> N;
    /// Return whether the sum is more than half of `count`.
    fn is_most_of(self, count: usize) -> bool;
}

/// A number with rounded sums.
pub(super) trait Real: Number {
    /// The neutral element of the sum.
    const ZERO: Self;

    fn plus(self, other: Self) -> Self;
    fn over(self, count: usize) -> Self;
}

macro_rules! same {
    ($($number:ty)*) => {$(
        impl Element for $number {
            type Wide = Self;
            const SAME: bool = true;

            #[inline(always)]
            fn widen(self) -> Self {
                self
            }

            #[inline(always)]
            fn narrow(wide: Self) -> Self {
                wide
            }
        }
    )*};
}
same!(i8 u8 i16 u16 i32 u32 i64 u64 f32 f64 Complex<f32> Complex<f64>);

/// 2⁵² + 2⁵¹: adding it to a number leaves the nearest integer in the lowest bits.
const ROUND: f64 = 6_755_399_441_055_744.0;

macro_rules! integers {
    ($($number:ty, $sum:ty, $max_count:expr;)*) => {$(
        impl Number for $number {
            #[inline(always)]
            fn less(self, other: Self) -> bool {
                self < other
            }
        }

        impl Integer for $number {
            type Sum = $sum;
            const MAX_COUNT: usize = $max_count;
        }

        impl Total<$number> for i128 {
            #[inline(always)]
            fn of(number: $number) -> Self {
                Self::from(number)
            }

            #[inline(always)]
            fn with(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn mean(self, count: usize) -> $number {
                rounded(self, count) as $number
            }

            #[inline(always)]
            fn is_most_of(self, count: usize) -> bool {
                2 * self > count as i128
            }
        }
    )*};
}
// With so few numbers, sums have less than 53 bits, and quotients other than halves differ from
// them by more than their last bit.
integers! {
    i8, i32, 1 << 15;
    u8, i32, 1 << 15;
    i16, i32, 1 << 15;
    u16, i32, 1 << 14;
    i32, i64, 1 << 20;
    u32, i64, 1 << 20;
    i64, i128, usize::MAX;
    u64, i128, usize::MAX;
}

macro_rules! small_sums {
    ($($number:ty, $sum:ty;)*) => {$(
        impl Total<$number> for $sum {
            #[inline(always)]
            fn of(number: $number) -> Self {
                Self::from(number)
            }

            #[inline(always)]
            fn with(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn mean(self, count: usize) -> $number {
                (self as f64 / count as f64 + ROUND).to_bits() as $number
            }

            #[inline(always)]
            fn is_most_of(self, count: usize) -> bool {
                2 * i64::from(self) > count as i64
            }
        }
    )*};
}
small_sums! { i8, i32; u8, i32; i16, i32; u16, i32; i32, i64; u32, i64; }

/// Return the quotient, rounded to the nearest integer, ties to even.
#[inline(always)]
fn rounded(sum: i128, count: usize) -> i128 {
    let by = count as i128;
    let (quotient, rest) = if count.is_power_of_two() {
        (sum >> count.trailing_zeros(), sum & (by - 1))
    } else if let (Ok(sum), Ok(by)) = (i64::try_from(sum), i64::try_from(count)) {
        (i128::from(sum.div_euclid(by)), i128::from(sum.rem_euclid(by)))
    } else {
        (sum.div_euclid(by), sum.rem_euclid(by))
    };
    let up = 2 * rest > by || (2 * rest == by && quotient & 1 == 1);
    quotient + i128::from(up)
}

macro_rules! reals {
    ($($number:ty)*) => {$(
        impl Number for $number {
            #[inline(always)]
            fn less(self, other: Self) -> bool {
                (self < other) | (other.is_nan() & !self.is_nan())
            }

            #[inline(always)]
            fn min_ignoring_nan(self, other: Self) -> Self {
                self.min(other)
            }

            #[inline(always)]
            fn max_ignoring_nan(self, other: Self) -> Self {
                self.max(other)
            }
        }

        impl Real for $number {
            const ZERO: Self = -0.0;

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn over(self, count: usize) -> Self {
                self / count as $number
            }
        }
    )*};
}
reals!(f32 f64);

/// A complex number, ordered by its real part, then by its imaginary part.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[repr(C)]
pub(super) struct Complex<F> {
    pub(super) real: F,
    pub(super) imaginary: F,
}

impl<F: Real> Number for Complex<F> {
    #[inline(always)]
    fn less(self, other: Self) -> bool {
        self.real.less(other.real) | (!other.real.less(self.real) & self.imaginary.less(other.imaginary))
    }
}

impl<F: Real> Real for Complex<F> {
    const ZERO: Self = Complex { real: F::ZERO, imaginary: F::ZERO };

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Complex { real: self.real.plus(other.real), imaginary: self.imaginary.plus(other.imaginary) }
    }

    #[inline(always)]
    fn over(self, count: usize) -> Self {
        Complex { real: self.real.over(count), imaginary: self.imaginary.over(count) }
    }
}

/// A byte that is zero or not, computed as 0 or 1.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Bit(u8);

impl Element for Bit {
    type Wide = u8;

    #[inline(always)]
    fn widen(self) -> u8 {
        u8::from(self.0 != 0)
    }

    #[inline(always)]
    fn narrow(wide: u8) -> Self {
        Bit(wide)
    }
}

macro_rules! halves {
    ($($half:ty)*) => {$(
        impl Element for $half {
            type Wide = f32;

            #[inline(always)]
            fn widen(self) -> f32 {
                <$half>::widen(self)
            }

            #[inline(always)]
            fn narrow(wide: f32) -> Self {
                <$half>::narrow(wide)
            }
        }
    )*};
}
halves!(BFloat16 Float16);
