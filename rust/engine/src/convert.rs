//! Numbers in memory, converted to those of another type as C does it.
//!
//! Items are loaded as a number that processors have, and stored from it as the other type: as their own
//! type if processors have that, else as one that has all of their values (`i8` for integers of less bits,
//! `f32` for floats of less bits). What is such a number already, side by side in memory, is neither loaded
//! nor stored by itself; else some items at a time are loaded, which stay near the processor.

mod item;

use std::slice::{from_raw_parts, from_raw_parts_mut};

use crate::copy::{copy, each_row, in_pieces, Axis, Item as Copied, Walk};
use crate::error::{Error, Kind, Result};
use crate::half::{BFloat16, Float16};
use item::{Bit, Complex, Load, Odd, Signed, Store, Told, Unsigned};

/// Items that are loaded at a time.
const BLOCK: usize = 512;

/// Items that are converted by one thread: it takes longer than waking another one.
const TASK: usize = 128 << 10;

/// A type of numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Number<'a> {
    /// As NumPy writes it without the byte order (`b1`, `i4`, `f2`, `c8`), or `bfloat16`, or integers in the
    /// lower bits of bytes (`int2`, `uint4`).
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
            Number::Named("i8" | "u8" | "f8" | "c8") => 8,
            Number::Named("c16") => 16,
            Number::Named(_) => return None,
        })
    }

    /// The type of both parts of a complex number.
    fn part(&self) -> Option<Self> {
        match *self {
            Number::Named("c8") => Some(Number::Named("f4")),
            Number::Named("c16") => Some(Number::Named("f8")),
            _ => None,
        }
    }

    fn is_small_float(&self) -> bool {
        matches!(self, Number::Byte(_) | Number::Named("f2" | "bfloat16"))
    }
}

/// Convert each item that `axes` lead to from `source` to `target`.
///
/// Floats as integers lose their fraction; integers too great for the type lose their upper bits. What is
/// rounded goes to the nearest number, of two to the even one. Of complex numbers the real part is what other
/// numbers are made of.
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
    if from == to {
        let item = Copied { bytes: from.bytes().ok_or_else(unknown)?, swap: 0 };
        let walk = Walk { axes: axes.into(), src: source, dst: target };
        return in_pieces(&[walk], TASK, &|axes, source, target| {
            // SAFETY: the caller's promise; pieces are apart.
            unsafe { copy(source, target, axes, item) };
        });
    }
    if let (Some(from), Some(to)) = (from.part(), to.part()) {
        let (src, dst) = (from.bytes().ok_or_else(unknown)?, to.bytes().ok_or_else(unknown)?);
        let parts = Axis::Strided { count: 2, src: src as isize, dst: dst as isize };
        let axes: Vec<Axis<'_>> = axes.iter().copied().chain([parts]).collect();
        // SAFETY: the caller's promise, as each item is two of these.
        return unsafe { convert(&axes, (source, from), (target, to)) };
    }
    let work = Work { axes, source, from, target, to };
    // SAFETY: the caller's promise.
    unsafe {
        if from.is_small_float() || to.is_small_float() {
            work.by_float()
        } else {
            work.by_number()
        }
    }
}

fn unknown() -> Error {
    Error::new(Kind::Argument, "there is no such conversion")
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
type LoadRow<H> = unsafe fn(&Tables, *const u8, isize, &mut [H]);

/// Stores items so many bytes apart.
///
/// Safety contract: there they are writable.
type StoreRow<H> = unsafe fn(&Tables, *mut u8, isize, &[H]);

/// What is converted: the arguments of [`convert`], whose promise holds for the methods.
struct Work<'a> {
    axes: &'a [Axis<'a>],
    source: *const u8,
    from: Number<'a>,
    target: *mut u8,
    to: Number<'a>,
}

impl Work<'_> {
    /// By `f32`.
    ///
    /// # Safety
    /// The promise of [`Work`].
    unsafe fn by_float(&self) -> Result<()> {
        let load = match self.from {
            Number::Byte(_) => load_row::<_, Told>(),
            Number::Named(name) => match name {
                "f2" => load_row::<_, Float16>(),
                "bfloat16" => load_row::<_, BFloat16>(),
                "b1" => load_row::<_, Bit>(),
                "int2" => load_row::<_, Signed<2>>(),
                "int4" => load_row::<_, Signed<4>>(),
                "uint2" => load_row::<_, Unsigned<2>>(),
                "uint4" => load_row::<_, Unsigned<4>>(),
                "i1" => load_row::<_, i8>(),
                "u1" => load_row::<_, u8>(),
                "i2" => load_row::<_, i16>(),
                "u2" => load_row::<_, u16>(),
                "i4" => load_row::<_, i32>(),
                "u4" => load_row::<_, u32>(),
                "i8" => load_row::<_, i64>(),
                "u8" => load_row::<_, u64>(),
                "f4" => load_row::<_, f32>(),
                "f8" if matches!(self.to, Number::Byte(_)) => load_row::<_, Odd>(),
                "f8" => load_row::<_, f64>(),
                "c8" => load_row::<_, Complex<f32>>(),
                "c16" if matches!(self.to, Number::Byte(_)) => load_row::<_, Complex<Odd>>(),
                "c16" => load_row::<_, Complex<f64>>(),
                _ => return Err(unknown()),
            },
        };
        let store = match self.to {
            Number::Byte(_) => store_row::<_, Told>(),
            Number::Named("f2") => store_row::<_, Float16>(),
            Number::Named("bfloat16") => store_row::<_, BFloat16>(),
            Number::Named(name) => store_named(name)?,
        };
        // SAFETY: the caller's promise; the types are those of the work.
        unsafe { self.run::<f32>("f4", load, store) }
    }

    /// By the type of the source or of its real part, or by `i8` if it has less bits.
    ///
    /// # Safety
    /// The promise of [`Work`].
    unsafe fn by_number(&self) -> Result<()> {
        let (Number::Named(from), Number::Named(to)) = (self.from, self.to) else { return Err(unknown()) };
        // SAFETY: the caller's promise; the types are those of the work.
        unsafe {
            match from {
                "b1" => self.run::<i8>("i1", load_row::<_, Bit>(), store_named(to)?),
                "int2" => self.run::<i8>("i1", load_row::<_, Signed<2>>(), store_named(to)?),
                "int4" => self.run::<i8>("i1", load_row::<_, Signed<4>>(), store_named(to)?),
                "uint2" => self.run::<i8>("i1", load_row::<_, Unsigned<2>>(), store_named(to)?),
                "uint4" => self.run::<i8>("i1", load_row::<_, Unsigned<4>>(), store_named(to)?),
                "i1" => self.run::<i8>(from, load_row::<_, i8>(), store_named(to)?),
                "u1" => self.run::<u8>(from, load_row::<_, u8>(), store_named(to)?),
                "i2" => self.run::<i16>(from, load_row::<_, i16>(), store_named(to)?),
                "u2" => self.run::<u16>(from, load_row::<_, u16>(), store_named(to)?),
                "i4" => self.run::<i32>(from, load_row::<_, i32>(), store_named(to)?),
                "u4" => self.run::<u32>(from, load_row::<_, u32>(), store_named(to)?),
                "i8" => self.run::<i64>(from, load_row::<_, i64>(), store_named(to)?),
                "u8" => self.run::<u64>(from, load_row::<_, u64>(), store_named(to)?),
                "f4" => self.run::<f32>(from, load_row::<_, f32>(), store_named(to)?),
                "f8" => self.run::<f64>(from, load_row::<_, f64>(), store_named(to)?),
                "c8" => self.run::<f32>("f4", load_row::<_, Complex<f32>>(), store_named(to)?),
                "c16" => self.run::<f64>("f8", load_row::<_, Complex<f64>>(), store_named(to)?),
                _ => Err(unknown()),
            }
        }
    }

    /// By `H`, which is also the type of that name.
    ///
    /// # Safety
    /// The promise of [`Work`]; `load` loads items of its one type and `store` stores those of the other.
    unsafe fn run<H: Copy + Default>(&self, name: &str, load: LoadRow<H>, store: StoreRow<H>) -> Result<()> {
        let own = Number::Named(name);
        let (loads, stores) = (self.from != own, self.to != own);
        let (numbers, nearest) = (tables(self.from), tables(self.to));
        let walk = Walk { axes: self.axes.into(), src: self.source, dst: self.target };
        in_pieces(&[walk], TASK, &|axes, source, target| {
            let mut block = [H::default(); BLOCK];
            each_row(axes, &mut |(from, to), count, (step, stride)| {
                let (source, target) = (source.wrapping_offset(from), target.wrapping_offset(to));
                let beside = |at: *const u8, step: isize| {
                    step == size_of::<H>() as isize && at.cast::<H>().is_aligned()
                };
                // SAFETY: the caller's promise: the rows are those of `axes`. What is made a slice has that
                // type, side by side and aligned.
                unsafe {
                    if !loads && beside(source, step) {
                        return store(nearest, target, stride, from_raw_parts(source.cast(), count));
                    }
                    if !stores && beside(target, stride) {
                        return load(numbers, source, step, from_raw_parts_mut(target.cast(), count));
                    }
                    for begin in (0..count).step_by(BLOCK) {
                        let (at, block) = (begin as isize, &mut block[..BLOCK.min(count - begin)]);
                        load(numbers, source.wrapping_offset(at * step), step, block);
                        store(nearest, target.wrapping_offset(at * stride), stride, block);
                    }
                }
            });
        })
    }
}

/// # Errors
/// `Kind::Argument` if no such type can be stored from any number.
fn store_named<H: Copy>(name: &str) -> Result<StoreRow<H>>
where
    Bit: Store<H>,
    Signed<2>: Store<H>,
    Signed<4>: Store<H>,
    Unsigned<2>: Store<H>,
    Unsigned<4>: Store<H>,
    i8: Store<H>,
    u8: Store<H>,
    i16: Store<H>,
    u16: Store<H>,
    i32: Store<H>,
    u32: Store<H>,
    i64: Store<H>,
    u64: Store<H>,
    f32: Store<H>,
    f64: Store<H>,
{
    Ok(match name {
        "b1" => store_row::<_, Bit>(),
        "int2" => store_row::<_, Signed<2>>(),
        "int4" => store_row::<_, Signed<4>>(),
        "uint2" => store_row::<_, Unsigned<2>>(),
        "uint4" => store_row::<_, Unsigned<4>>(),
        "i1" => store_row::<_, i8>(),
        "u1" => store_row::<_, u8>(),
        "i2" => store_row::<_, i16>(),
        "u2" => store_row::<_, u16>(),
        "i4" => store_row::<_, i32>(),
        "u4" => store_row::<_, u32>(),
        "i8" => store_row::<_, i64>(),
        "u8" => store_row::<_, u64>(),
        "f4" => store_row::<_, f32>(),
        "f8" => store_row::<_, f64>(),
        "c8" => store_row::<_, Complex<f32>>(),
        "c16" => store_row::<_, Complex<f64>>(),
        _ => return Err(unknown()),
    })
}

/// The way that this processor does best.
fn load_row<H, I: Load<H>>() -> LoadRow<H> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        return wide::load::<H, I>;
    }
    load::<H, I>
}

/// The way that this processor does best.
fn store_row<H: Copy, I: Store<H>>() -> StoreRow<H> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        return wide::store::<H, I>;
    }
    store::<H, I>
}

/// # Safety
/// The contract of [`LoadRow`].
#[inline(always)]
unsafe fn load<H, I: Load<H>>(tables: &Tables, at: *const u8, step: isize, out: &mut [H]) {
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
/// The contract of [`StoreRow`].
#[inline(always)]
unsafe fn store<H: Copy, I: Store<H>>(tables: &Tables, at: *mut u8, step: isize, items: &[H]) {
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
    use super::{Load, Store, Tables};

    /// # Safety
    /// The contract of [`super::LoadRow`]; the processor has AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn load<H, I: Load<H>>(tables: &Tables, at: *const u8, step: isize, out: &mut [H]) {
        // SAFETY: the caller's promise.
        unsafe { super::load::<H, I>(tables, at, step, out) }
    }

    /// # Safety
    /// The contract of [`super::StoreRow`]; the processor has AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn store<H: Copy, I: Store<H>>(tables: &Tables, at: *mut u8, step: isize, items: &[H]) {
        // SAFETY: the caller's promise.
        unsafe { super::store::<H, I>(tables, at, step, items) }
    }
}

#[cfg(test)]
mod tests;
