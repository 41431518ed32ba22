//! Item types: how one item is loaded as a native number and stored from one.

use super::Tables;
use crate::convert::half::{BFloat16, Float16};

/// Items that are loaded as `H`.
pub(super) trait Load<H>: Copy {
    fn load(self, tables: &Tables) -> H;
}

/// Items that are stored from an `H`.
pub(super) trait Store<H>: Copy {
    fn store(native: H, tables: &Tables) -> Self;
}

/// A byte that is zero or not.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Bit(u8);

/// An integer in the lower bits of a byte.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Signed<const BITS: u32>(i8);

/// A nonnegative integer in the lower bits of a byte.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Unsigned<const BITS: u32>(u8);

/// A number whose second part is imaginary.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Complex<T>(T, T);

/// A one-byte float, defined by tables.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct TableFloat(u8);

/// An `f64` that rounds to an odd `f32` if it is not exact. A second rounding then has the result
/// of a single one.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct RoundToOdd(f64);

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
    fn store(native: H, tables: &Tables) -> Self {
        Complex(T::store(native, tables), T::default())
    }
}

impl Load<f32> for TableFloat {
    #[inline(always)]
    fn load(self, tables: &Tables) -> f32 {
        f32::from_bits(tables.numbers[usize::from(self.0)])
    }
}

impl Store<f32> for TableFloat {
    #[inline(always)]
    fn store(native: f32, tables: &Tables) -> Self {
        let bits = native.to_bits();
        let below = u16::from(bits as u16 != 0);
        TableFloat(tables.nearest[usize::from((bits >> 16) as u16 | below)])
    }
}

impl Load<f32> for RoundToOdd {
    #[inline(always)]
    fn load(self, _: &Tables) -> f32 {
        let nearest = self.0 as f32;
        let (magnitude, rounded) = (self.0.abs(), f64::from(nearest.abs()));
        // Truncated instead of rounded.
        let bits = nearest.to_bits() - u32::from(rounded > magnitude);
        f32::from_bits(bits | u32::from(rounded != magnitude && !nearest.is_nan()))
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
            fn store(native: f32, _: &Tables) -> Self {
                Self::narrow(native)
            }
        }
    )*};
}
halves!(BFloat16 Float16);

macro_rules! loaded_as {
    ($native:ty: $($number:ty)*) => {$(
        impl Load<$native> for $number {
            #[inline(always)]
            fn load(self, _: &Tables) -> $native {
                self as $native
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
    ($native:ty, $convert:expr => $($number:ty)*) => {$(
        impl Store<$native> for $number {
            #[inline(always)]
            fn store(native: $native, _: &Tables) -> Self {
                $convert(native) as $number
            }
        }
    )*};
}

/// The items that are stored from a number: by `i32`, `i64` and `u64`.
macro_rules! stored_from {
    ($($native:ty: $whole:expr, $long:expr, $positive:expr;)*) => {$(
        stored!($native, $whole => i8 u8 i16 u16 i32);
        stored!($native, $long => u32 i64);
        stored!($native, $positive => u64);
        stored!($native, identity => f32 f64);

        impl Store<$native> for Bit {
            #[inline(always)]
            fn store(native: $native, _: &Tables) -> Self {
                Bit(u8::from(native != 0 as $native))
            }
        }

        impl<const BITS: u32> Store<$native> for Signed<BITS> {
            #[inline(always)]
            fn store(native: $native, _: &Tables) -> Self {
                Signed($whole(native) as i8 & ((1 << BITS) - 1))
            }
        }

        impl<const BITS: u32> Store<$native> for Unsigned<BITS> {
            #[inline(always)]
            fn store(native: $native, _: &Tables) -> Self {
                Unsigned($whole(native) as u8 & ((1 << BITS) - 1))
            }
        }
    )*};
}
stored_from! {
    i8: identity, identity, identity; i16: identity, identity, identity; i32: identity, identity, identity; i64: identity, identity, identity;
    u8: identity, identity, identity; u16: identity, identity, identity; u32: identity, identity, identity; u64: identity, identity, identity;
    f32: f32::whole, f32::long, f32::positive; f64: f64::whole, f64::long, f64::positive;
}

#[inline(always)]
fn identity<T>(number: T) -> T {
    number
}

/// Floats without their fractions; the minimum if no such integer exists, as on x86-64.
trait Truncate {
    fn whole(self) -> i32;
    fn long(self) -> i64;
    fn positive(self) -> u64;
}

macro_rules! truncate {
    ($($float:ty)*) => {$(
        impl Truncate for $float {
            #[inline(always)]
            fn whole(self) -> i32 {
                if self.abs() < (1u32 << 31) as $float {
                    // SAFETY: the integer exists.
                    unsafe { self.to_int_unchecked() }
                } else {
                    i32::MIN
                }
            }

            #[inline(always)]
            fn long(self) -> i64 {
                if self.abs() < (1u64 << 63) as $float {
                    // SAFETY: the integer exists.
                    unsafe { self.to_int_unchecked() }
                } else {
                    i64::MIN
                }
            }

            #[inline(always)]
            fn positive(self) -> u64 {
                const HALF_RANGE: $float = (1u64 << 63) as $float;
                if self >= HALF_RANGE {
                    (self - HALF_RANGE).long() as u64 ^ 1 << 63
                } else {
                    self.long() as u64
                }
            }
        }
    )*};
}
truncate!(f32 f64);
