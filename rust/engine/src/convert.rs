//! Numbers in memory, converted to those of another type as C does it.
//!
//! Types that processors do not have are converted by one that they have, and that has all of their
//! values: integers of less than 8 bits by `i8`, floats of less than 32 bits by `f32`. Some items are
//! loaded as that, which stay near the processor, and stored as the other type from there.

use crate::copy::{copy, each_row, in_pieces, Axis, Item as Copied, Walk};
use crate::error::{Error, Kind, Result};
use crate::half::{BFloat16, Float16};

/// Items that are loaded at a time.
const BLOCK: usize = 512;

/// Items that are converted by one thread: it takes longer than waking another one.
const TASK: usize = 128 << 10;

/// A type of numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Number<'a> {
    /// As NumPy writes it without the byte order (`b1`, `i4`, `f2`), or `bfloat16`, or integers in the lower
    /// bits of bytes (`int2`, `uint4`).
    Named(&'a str),
    /// Floats of a byte, told by tables.
    Byte(&'a Tables),
}

/// Floats that are bytes.
#[derive(PartialEq, Eq)]
pub struct Tables {
    /// The bits of the `f32` that each byte is.
    pub numbers: [u32; 1 << 8],
    /// The nearest byte, by the upper half of an `f32`, whose last bit tells whether anything is below it.
    pub nearest: [u8; 1 << 16],
}

impl Number<'_> {
    /// How many bytes an item has; None if there is no such type.
    #[must_use]
    pub fn bytes(&self) -> Option<usize> {
        Some(match *self {
            Number::Named("b1" | "i1" | "u1" | "int2" | "int4" | "uint2" | "uint4") | Number::Byte(_) => 1,
            Number::Named("i2" | "u2" | "f2" | "bfloat16") => 2,
            Number::Named("i4" | "u4" | "f4") => 4,
            Number::Named("i8" | "u8" | "f8") => 8,
            Number::Named(_) => return None,
        })
    }

    fn is_small_float(&self) -> bool {
        matches!(self, Number::Byte(_) | Number::Named("f2" | "bfloat16"))
    }
}

/// Convert each item that `axes` lead to from `source` to `target`.
///
/// Floats as integers lose their fraction; integers too great for the type lose their upper bits. What is
/// rounded goes to the nearest number, of two to the even one.
///
/// # Errors
/// `Kind::Argument` if there is no such type.
///
/// # Safety
/// At each step of `axes`, which are strided, an item of the one type is readable from `source` and one of the
/// other writable at `target`; and the two are apart.
pub unsafe fn convert(
    axes: &[Axis<'_>],
    (source, from): (*const u8, Number<'_>),
    (target, to): (*mut u8, Number<'_>),
) -> Result<()> {
    let unknown = || Error::new(Kind::Argument, "there is no such conversion");
    if from == to {
        let item = Copied { bytes: from.bytes().ok_or_else(unknown)?, swap: 0 };
        let walk = Walk { axes: axes.into(), src: source, dst: target };
        return in_pieces(&[walk], TASK, &|axes, source, target| {
            // SAFETY: the caller's promise; pieces are apart.
            unsafe { copy(source, target, axes, item) };
        });
    }
    let own = |name| (from == Number::Named(name), to == Number::Named(name));
    if from.is_small_float() || to.is_small_float() {
        let load = if from == Number::Named("f8") && matches!(to, Number::Byte(_)) {
            best::<f32, Odd>().0
        } else {
            by_float(from).ok_or_else(unknown)?.0
        };
        let store = by_float(to).ok_or_else(unknown)?.1;
        // SAFETY: the caller's promise.
        unsafe { run(axes, (source, load, tables(from)), (target, store, tables(to)), own("f4")) }
    } else {
        let (load, store) = (by_byte(from).ok_or_else(unknown)?.0, by_byte(to).ok_or_else(unknown)?.1);
        // SAFETY: the caller's promise.
        unsafe { run(axes, (source, load, tables(from)), (target, store, tables(to)), own("i1")) }
    }
}

fn tables<'a>(number: Number<'a>) -> &'a Tables {
    static NONE: Tables = Tables { numbers: [0; 1 << 8], nearest: [0; 1 << 16] };
    match number {
        Number::Byte(tables) => tables,
        Number::Named(_) => &NONE,
    }
}

/// Loads items that are so many bytes apart.
///
/// Safety contract: they are readable.
type Load<H> = unsafe fn(&Tables, *const u8, isize, &mut [H]);

/// Stores items so many bytes apart.
///
/// Safety contract: there they are writable.
type Store<H> = unsafe fn(&Tables, *mut u8, isize, &[H]);

/// # Safety
/// As for [`convert`]; `own` says of source and target whether items there are of type `H`.
unsafe fn run<H: Copy + Default>(
    axes: &[Axis<'_>],
    (source, load, numbers): (*const u8, Load<H>, &Tables),
    (target, store, nearest): (*mut u8, Store<H>, &Tables),
    own: (bool, bool),
) -> Result<()> {
    let walk = Walk { axes: axes.into(), src: source, dst: target };
    in_pieces(&[walk], TASK, &|axes, source, target| {
        let mut block = [H::default(); BLOCK];
        each_row(axes, &mut |(from, to), count, (step, stride)| {
            let (source, target) = (source.wrapping_offset(from), target.wrapping_offset(to));
            let beside =
                |at: *const u8, step: isize| step == size_of::<H>() as isize && at.cast::<H>().is_aligned();
            let (given, wanted) = (own.0 && beside(source, step), own.1 && beside(target, stride));
            for begin in (0..count).step_by(BLOCK) {
                let (at, some) = (begin as isize, BLOCK.min(count - begin));
                let (source, target) =
                    (source.wrapping_offset(at * step), target.wrapping_offset(at * stride));
                // SAFETY: the caller's promise: the rows are those of `axes`. What is `given` or `wanted` as `H`
                // is that, side by side and aligned.
                unsafe {
                    if given {
                        let items = std::slice::from_raw_parts(source.cast(), some);
                        store(nearest, target, stride, items);
                    } else if wanted {
                        let items = std::slice::from_raw_parts_mut(target.cast(), some);
                        load(numbers, source, step, items);
                    } else {
                        load(numbers, source, step, &mut block[..some]);
                        store(nearest, target, stride, &block[..some]);
                    }
                }
            }
        });
    })
}

/// How items are loaded as `H`, and stored.
trait Item<H>: Copy {
    fn load(self, tables: &Tables) -> H;
    fn store(wide: H, tables: &Tables) -> Self;
}

/// By `f32`.
fn by_float(number: Number<'_>) -> Option<(Load<f32>, Store<f32>)> {
    Some(match number {
        Number::Byte(_) => best::<f32, Told>(),
        Number::Named("f2") => best::<f32, Float16>(),
        Number::Named("bfloat16") => best::<f32, BFloat16>(),
        Number::Named(name) => of_name(name)?,
    })
}

/// By `i8`.
fn by_byte(number: Number<'_>) -> Option<(Load<i8>, Store<i8>)> {
    match number {
        Number::Named(name) => of_name(name),
        Number::Byte(_) => None,
    }
}

/// Numbers that are converted both ways.
fn of_name<H: Copy>(name: &str) -> Option<(Load<H>, Store<H>)>
where
    Bit: Item<H>,
    Signed<2>: Item<H>,
    Signed<4>: Item<H>,
    Unsigned<2>: Item<H>,
    Unsigned<4>: Item<H>,
    i8: Item<H>,
    u8: Item<H>,
    i16: Item<H>,
    u16: Item<H>,
    i32: Item<H>,
    u32: Item<H>,
    i64: Item<H>,
    u64: Item<H>,
    f32: Item<H>,
    f64: Item<H>,
{
    Some(match name {
        "b1" => best::<H, Bit>(),
        "int2" => best::<H, Signed<2>>(),
        "int4" => best::<H, Signed<4>>(),
        "uint2" => best::<H, Unsigned<2>>(),
        "uint4" => best::<H, Unsigned<4>>(),
        "i1" => best::<H, i8>(),
        "u1" => best::<H, u8>(),
        "i2" => best::<H, i16>(),
        "u2" => best::<H, u16>(),
        "i4" => best::<H, i32>(),
        "u4" => best::<H, u32>(),
        "i8" => best::<H, i64>(),
        "u8" => best::<H, u64>(),
        "f4" => best::<H, f32>(),
        "f8" => best::<H, f64>(),
        _ => return None,
    })
}

/// The ways that this processor does best.
fn best<H: Copy, I: Item<H>>() -> (Load<H>, Store<H>) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        return (wide::load::<H, I>, wide::store::<H, I>);
    }
    (load::<H, I>, store::<H, I>)
}

/// # Safety
/// The contract of [`Load`].
#[inline(always)]
unsafe fn load<H, I: Item<H>>(tables: &Tables, at: *const u8, step: isize, out: &mut [H]) {
    // Told apart so that what is side by side becomes a loop of vectors.
    if step == size_of::<I>() as isize {
        for (k, item) in out.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            *item = unsafe { at.cast::<I>().wrapping_add(k).read_unaligned() }.load(tables);
        }
    } else {
        for (k, item) in out.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            *item =
                unsafe { at.wrapping_offset(k as isize * step).cast::<I>().read_unaligned() }.load(tables);
        }
    }
}

/// # Safety
/// The contract of [`Store`].
#[inline(always)]
unsafe fn store<H: Copy, I: Item<H>>(tables: &Tables, at: *mut u8, step: isize, items: &[H]) {
    if step == size_of::<I>() as isize {
        for (k, &item) in items.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { at.cast::<I>().wrapping_add(k).write_unaligned(I::store(item, tables)) };
        }
    } else {
        for (k, &item) in items.iter().enumerate() {
            let at = at.wrapping_offset(k as isize * step).cast::<I>();
            // SAFETY: the caller's promise.
            unsafe { at.write_unaligned(I::store(item, tables)) };
        }
    }
}

/// The same, compiled with wider vectors.
#[cfg(target_arch = "x86_64")]
mod wide {
    use super::{Item, Tables};

    /// # Safety
    /// The contract of [`super::Load`]; the processor has AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn load<H, I: Item<H>>(tables: &Tables, at: *const u8, step: isize, out: &mut [H]) {
        // SAFETY: the caller's promise.
        unsafe { super::load::<H, I>(tables, at, step, out) }
    }

    /// # Safety
    /// The contract of [`super::Store`]; the processor has AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn store<H: Copy, I: Item<H>>(tables: &Tables, at: *mut u8, step: isize, items: &[H]) {
        // SAFETY: the caller's promise.
        unsafe { super::store::<H, I>(tables, at, step, items) }
    }
}

/// A byte that is zero or not.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Bit(u8);

impl Item<f32> for Bit {
    #[inline(always)]
    fn load(self, _: &Tables) -> f32 {
        f32::from(u8::from(self.0 != 0))
    }

    #[inline(always)]
    fn store(wide: f32, _: &Tables) -> Self {
        Bit(u8::from(wide != 0.0))
    }
}

impl Item<i8> for Bit {
    #[inline(always)]
    fn load(self, _: &Tables) -> i8 {
        i8::from(self.0 != 0)
    }

    #[inline(always)]
    fn store(wide: i8, _: &Tables) -> Self {
        Bit(u8::from(wide != 0))
    }
}

/// An integer in the lower bits of a byte.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Signed<const BITS: u32>(i8);

/// An integer in the lower bits of a byte, never negative.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Unsigned<const BITS: u32>(u8);

impl<const BITS: u32> Item<i8> for Signed<BITS> {
    #[inline(always)]
    fn load(self, _: &Tables) -> i8 {
        self.0 << (8 - BITS) >> (8 - BITS)
    }

    #[inline(always)]
    fn store(wide: i8, _: &Tables) -> Self {
        Signed(wide & ((1 << BITS) - 1))
    }
}

impl<const BITS: u32> Item<i8> for Unsigned<BITS> {
    #[inline(always)]
    fn load(self, _: &Tables) -> i8 {
        (self.0 & ((1 << BITS) - 1)) as i8
    }

    #[inline(always)]
    fn store(wide: i8, _: &Tables) -> Self {
        Unsigned(wide as u8 & ((1 << BITS) - 1))
    }
}

macro_rules! small {
    ($($small:ident)*) => {$(
        impl<const BITS: u32> Item<f32> for $small<BITS> {
            #[inline(always)]
            fn load(self, tables: &Tables) -> f32 {
                f32::from(Item::<i8>::load(self, tables))
            }

            #[inline(always)]
            fn store(wide: f32, tables: &Tables) -> Self {
                Item::<i8>::store(whole(wide) as i8, tables)
            }
        }
    )*};
}
small!(Signed Unsigned);

macro_rules! numbers {
    ($($number:ty, $from_float:expr, $to_byte:expr;)*) => {$(
        impl Item<f32> for $number {
            #[inline(always)]
            fn load(self, _: &Tables) -> f32 {
                self as f32
            }

            #[inline(always)]
            fn store(wide: f32, _: &Tables) -> Self {
                $from_float(wide) as $number
            }
        }

        impl Item<i8> for $number {
            #[inline(always)]
            fn load(self, _: &Tables) -> i8 {
                $to_byte(self) as i8
            }

            #[inline(always)]
            fn store(wide: i8, _: &Tables) -> Self {
                wide as $number
            }
        }
    )*};
}
numbers! {
    i8, whole, same; u8, whole, same; i16, whole, same; u16, whole, same; i32, whole, same;
    u32, long, same; i64, long, same; u64, positive, same; f32, same, whole; f64, same, long_of;
}

/// The first number that is no `i64`.
const FAR: f32 = (1u64 << 63) as f32;

#[inline(always)]
fn same<T>(number: T) -> T {
    number
}

/// Without the fraction; the least number where there is no such one, as processors have it.
#[inline(always)]
fn whole(number: f32) -> i32 {
    if number.abs() < (1u32 << 31) as f32 {
        // SAFETY: there is such an integer.
        unsafe { number.to_int_unchecked() }
    } else {
        i32::MIN
    }
}

#[inline(always)]
fn long(number: f32) -> i64 {
    long_of(f64::from(number))
}

#[inline(always)]
fn long_of(number: f64) -> i64 {
    if number.abs() < f64::from(FAR) {
        // SAFETY: there is such an integer.
        unsafe { number.to_int_unchecked() }
    } else {
        i64::MIN
    }
}

#[inline(always)]
fn positive(number: f32) -> u64 {
    if number >= FAR {
        long(number - FAR) as u64 ^ 1 << 63
    } else {
        long(number) as u64
    }
}

macro_rules! halves {
    ($($half:ty)*) => {$(
        impl Item<f32> for $half {
            #[inline(always)]
            fn load(self, _: &Tables) -> f32 {
                self.widen()
            }

            #[inline(always)]
            fn store(wide: f32, _: &Tables) -> Self {
                Self::narrow(wide)
            }
        }
    )*};
}
halves!(BFloat16 Float16);

/// What tables tell.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Told(u8);

impl Item<f32> for Told {
    #[inline(always)]
    fn load(self, tables: &Tables) -> f32 {
        f32::from_bits(tables.numbers[usize::from(self.0)])
    }

    #[inline(always)]
    fn store(wide: f32, tables: &Tables) -> Self {
        let bits = wide.to_bits();
        let below = u16::from(bits as u16 != 0);
        Told(tables.nearest[usize::from((bits >> 16) as u16 | below)])
    }
}

/// An `f64` that is not rounded to an even number if it is no `f32`, but to an odd one: what is rounded again
/// is then as if it had been rounded once.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Odd(f64);

impl Item<f32> for Odd {
    #[inline(always)]
    fn load(self, _: &Tables) -> f32 {
        let near = self.0 as f32;
        let (magnitude, back) = (self.0.abs(), f64::from(near.abs()));
        // Cut off instead of rounded.
        let bits = near.to_bits() - u32::from(back > magnitude);
        f32::from_bits(bits | u32::from(back != magnitude && !near.is_nan()))
    }

    #[inline(always)]
    fn store(wide: f32, _: &Tables) -> Self {
        Odd(f64::from(wide))
    }
}

#[cfg(test)]
mod tests;
