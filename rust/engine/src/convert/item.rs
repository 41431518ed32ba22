//! How one item is loaded as a number that processors have, and stored from such a one.

use super::Tables;
use crate::convert::half::{BFloat16, Float16};

/// Items that are loaded as `H`.
pub(super) trait Load<H>: Copy {
    fn load(self, tables: &Tables) -> H;
}

/// Items that are stored from an `H`.
pub(super) trait Store<H>: Copy {
    fn store(held: H, tables: &Tables) -> Self;
}

/// A byte that is zero or not.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Bit(u8);

/// An integer in the lower bits of a byte.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Signed<const BITS: u32>(i8);

/// An integer in the lower bits of a byte, never negative.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Unsigned<const BITS: u32>(u8);

/// A number of which the second part is imaginary.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Complex<T>(T, T);

/// What tables tell.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Completion(u8);

/// An `f64` that is not rounded to an even number if it is no `f32`, but to an odd one: what is rounded again
/// is then as if it had been rounded once.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Odd(f64);

impl<H: From<i8>> Load<H> for Bit {
    #[inline(always)]
    fn load(self, _: &Tables) -> H {
        H::from(i8::from(self.0 != 0))
    }
}

impl<H: From<i8>, const BITS: u32> Load<H> for Signed<BITS> {
    #[inline(always)]
    fn load(self, _: &Tables) -> H {
        H::from(self.0 << (8 - BITS) >> (8 - BITS))
    }
}

impl<H: From<i8>, const BITS: u32> Load<H> for Unsigned<BITS> {
    #[inline(always)]
    fn load(self, _: &Tables) -> H {
        H::from((self.0 & ((1 << BITS) - 1)) as i8)
    }
}

impl<H, T: Load<H>> Load<H> for Complex<T> {
    #[inline(always)]
    fn load(self, tables: &Tables) -> H {
        self.0.load(tables)
    }
}

impl<H, T: Store<H> + Default> Store<H> for Complex<T> {
    #[inline(always)]
    fn store(held: H, tables: &Tables) -> Self {
        Complex(T::store(held, tables), T::default())
    }
}

impl Load<f32> for Completion {
    #[inline(always)]
    fn load(self, tables: &Tables) -> f32 {
        f32::from_bits(tables.numbers[usize::from(self.0)])
    }
}

impl Store<f32> for Completion {
    #[inline(always)]
    fn store(held: f32, tables: &Tables) -> Self {
        let bits = held.to_bits();
        let below = u16::from(bits as u16 != 0);
        Completion(tables.nearest[usize::from((bits >> 16) as u16 | below)])
    }
}

impl Load<f32> for Odd {
    #[inline(always)]
    fn load(self, _: &Tables) -> f32 {
        let near = self.0 as f32;
        let (magnitude, back) = (self.0.abs(), f64::from(near.abs()));
        // Cut off instead of rounded.
        let bits = near.to_bits() - u32::from(back > magnitude);
        f32::from_bits(bits | u32::from(back != magnitude && !near.is_nan()))
    }
}

macro_rules! halves {
    ($($half:ty)*) => {$(
        impl Load<f32> for $half {
            #[inline(always)]
            fn load(self, _: &Tables) -> f32 {
                self.widen()
            }
        }

        impl Store<f32> for $half {
            #[inline(always)]
            fn store(held: f32, _: &Tables) -> Self {
                Self::narrow(held)
            }
        }
    )*};
}
halves!(BFloat16 Float16);

macro_rules! loaded_as {
    ($held:ty: $($number:ty)*) => {$(
        impl Load<$held> for $number {
            #[inline(always)]
            fn load(self, _: &Tables) -> $held {
                self as $held
            }
        }
    )*};
}
loaded_as!(f32: i8 u8 i16 u16 i32 u32 i64 u64 f32 f64);
loaded_as!(i8: i8);
loaded_as!(u8: u8);
loaded_as!(i16: i16);
loaded_as!(u16: u16);
loaded_as!(i32: i32);
loaded_as!(u32: u32);
loaded_as!(i64: i64);
loaded_as!(u64: u64);
loaded_as!(f64: f64);

macro_rules! stored {
    ($held:ty, $how:expr => $($number:ty)*) => {$(
        impl Store<$held> for $number {
            #[inline(always)]
            fn store(held: $held, _: &Tables) -> Self {
                $how(held) as $number
            }
        }
    )*};
}

/// What is stored from a number: by `i32`, `i64` and `u64`.
macro_rules! stored_from {
    ($($held:ty: $whole:expr, $long:expr, $positive:expr;)*) => {$(
        stored!($held, $whole => i8 u8 i16 u16 i32);
        stored!($held, $long => u32 i64);
        stored!($held, $positive => u64);
        stored!($held, same => f32 f64);

        impl Store<$held> for Bit {
            #[inline(always)]
            fn store(held: $held, _: &Tables) -> Self {
                Bit(u8::from(held != 0 as $held))
            }
        }

        impl<const BITS: u32> Store<$held> for Signed<BITS> {
            #[inline(always)]
            fn store(held: $held, _: &Tables) -> Self {
                Signed($whole(held) as i8 & ((1 << BITS) - 1))
            }
        }

        impl<const BITS: u32> Store<$held> for Unsigned<BITS> {
            #[inline(always)]
            fn store(held: $held, _: &Tables) -> Self {
                Unsigned($whole(held) as u8 & ((1 << BITS) - 1))
            }
        }
    )*};
}
stored_from! {
    i8: same, same, same; i16: same, same, same; i32: same, same, same; i64: same, same, same;
    u8: same, same, same; u16: same, same, same; u32: same, same, same; u64: same, same, same;
    f32: f32::whole, f32::long, f32::positive; f64: f64::whole, f64::long, f64::positive;
}

#[inline(always)]
fn same<T>(number: T) -> T {
    number
}

/// Floats without their fractions; the least number where there is no such one, as processors have it.
trait Cut {
    fn whole(self) -> i32;
    fn long(self) -> i64;
    fn positive(self) -> u64;
}

macro_rules! cut {
    ($($float:ty)*) => {$(
        impl Cut for $float {
            #[inline(always)]
            fn whole(self) -> i32 {
                if self.abs() < (1u32 << 31) as $float {
                    // SAFETY: there is such an integer.
                    unsafe { self.to_int_unchecked() }
                } else {
                    i32::MIN
                }
            }

            #[inline(always)]
            fn long(self) -> i64 {
                if self.abs() < (1u64 << 63) as $float {
                    // SAFETY: there is such an integer.
                    unsafe { self.to_int_unchecked() }
                } else {
                    i64::MIN
                }
            }

            #[inline(always)]
            fn positive(self) -> u64 {
                const FAR: $float = (1u64 << 63) as $float;
                if self >= FAR {
                    (self - FAR).long() as u64 ^ 1 << 63
                } else {
                    self.long() as u64
                }
            }
        }
    )*};
}
cut!(f32 f64);
