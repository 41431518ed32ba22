//! Conversion of numbers in memory between types, with the semantics of C.
//!
//! Items are loaded as a *native* number type and stored from it as the other type. The native type
//! is the item's own type if processors have it; otherwise a type with all of its values (`i8` for
//! integers of fewer bits, `f32` for floats of fewer bits). Native items that are contiguous in
//! memory are neither loaded nor stored separately; other items are loaded in blocks that fit the
//! cache.

pub(crate) mod half;
mod item;

use std::any::TypeId;
use std::mem::MaybeUninit;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use crate::convert::half::{BFloat16, Float16};
use crate::copy::{copy, each_row, in_pieces, Axis, Item as Copied, Walk};
use crate::error::{Error, Result};
use crate::has_avx2;
use item::{Bit, Complex, Load, RoundToOdd, Signed, Store, TableFloat, Unsigned};

/// The number of items that are loaded at a time.
const BLOCK: usize = 512;

/// The number of words of 8 bytes of the largest items, which are complex numbers.
const MAX_ITEM_WORDS: usize = 2;

/// The number of items that one thread converts: that takes longer than waking another thread.
const TASK: usize = 128 << 10;

/// Run `$work` with the types for a type name, if it is known: the item type, and the native type
/// that it is loaded as unless the work specifies another one.
macro_rules! typed {
    ($name:expr, $item:ident as $native:ident => $work:expr) => {
        typed! {
            $name, $item as $native => $work;
            "b1" Bit as i8, "int2" Signed<2> as i8, "int4" Signed<4> as i8,
            "uint2" Unsigned<2> as i8, "uint4" Unsigned<4> as i8,
            "i1" i8 as i8, "i2" i16 as i16, "i4" i32 as i32, "i8" i64 as i64,
            "u1" u8 as u8, "u2" u16 as u16, "u4" u32 as u32, "u8" u64 as u64,
            "f4" f32 as f32, "f8" f64 as f64, "c8" Complex<f32> as f32, "c16" Complex<f64> as f64
        }
    };
    ($name:expr, $item:ident as $native:ident => $work:expr; $($known:literal $type:ty as $number:ty),*) => {
        match $name {
            $($known => {
                type $item = $type;
                type $native = $number;
                Some($work)
            })*
            _ => None,
        }
    };
}

/// A type of numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Number<'a> {
    /// In NumPy's notation without the byte order (`b1`, `i4`, `f2`, `c8`), or `bfloat16`, or
    /// integers in the lower bits of bytes (`int2`, `uint4`).
    Named(&'a str),
    /// Floats of one byte, defined by tables.
    Byte(&'a Tables),
}

/// The tables of a type of one-byte floats.
#[derive(PartialEq, Eq)]
pub struct Tables {
    /// The `f32` bits of each byte.
    pub numbers: [u32; 1 << 8],
    /// The nearest byte for the upper half of an `f32`, whose last bit is set if any lower bit is.
    pub nearest: [u8; 1 << 16],
}

impl Number<'_> {
    /// Return the size of an item; None if the type is unknown.
    #[must_use]
    pub fn bytes(&self) -> Option<usize> {
        match *self {
            Number::Byte(_) => Some(1),
            Number::Named("f2" | "bfloat16") => Some(2),
            Number::Named(name) => typed!(name, Item as _Native => size_of::<Item>()),
        }
    }

    /// Return the type of both parts of a complex number.
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

/// Convert each item of `axes` from `source` to `target`.
///
/// Floats as integers lose their fraction; integers too large for the type lose their upper bits.
/// Rounding is to the nearest number, ties to even. A complex number is converted to another kind
/// of number by its real part. Source items with a `swap` unit above 1 have the bytes of each unit
/// in the other order.
///
/// # Errors
/// `Kind::Argument` if a type is unknown.
///
/// # Safety
/// At each step of `axes`, an item of the source type is readable from `source`
/// and an item of the target type writable at `target`; and the two do not overlap.
pub unsafe fn convert(
    axes: &[Axis<'_>],
    (source, source_type, swap): (*const u8, Number<'_>, usize),
    (target, target_type): (*mut u8, Number<'_>),
) -> Result<()> {
    if source_type == target_type {
        let item = Copied { bytes: source_type.bytes().ok_or_else(unknown)?, swap };
        let walk = Walk { axes: axes.into(), src: source, dst: target };
        return in_pieces(&[walk], TASK, &|axes, source, target| {
            // SAFETY: the caller's promise; pieces do not overlap.
            unsafe { copy(source, target, axes, item) };
        });
    }
    if let (Some(source_type), Some(target_type)) = (source_type.part(), target_type.part()) {
        let (src, dst) = (source_type.bytes().ok_or_else(unknown)?, target_type.bytes().ok_or_else(unknown)?);
        let parts = Axis::Strided { count: 2, src: src as isize, dst: dst as isize };
        let axes: Vec<Axis<'_>> = axes.iter().copied().chain([parts]).collect();
        // SAFETY: the caller's promise, as each item is two of these.
        return unsafe { convert(&axes, (source, source_type, swap), (target, target_type)) };
    }
    let work = Work { axes, source, source_type, swap, target, target_type };
    // SAFETY: the caller's promise.
    unsafe {
        if source_type.is_small_float() || target_type.is_small_float() {
            work.convert_by_float()
        } else {
            work.convert_by_native()
        }
    }
}

fn unknown() -> Error {
    Error::argument("the engine does not support this conversion")
}

fn tables<'a>(number: Number<'a>) -> &'a Tables {
    static NONE: Tables = Tables { numbers: [0; 1 << 8], nearest: [0; 1 << 16] };
    match number {
        Number::Byte(tables) => tables,
        Number::Named(_) => &NONE,
    }
}

/// Loads items with a stride in bytes.
///
/// Safety contract: they are readable.
type LoadRow<H> = unsafe fn(&Tables, *const u8, isize, &mut [H]);

/// Stores items with a stride in bytes.
///
/// Safety contract: they are writable.
type StoreRow<H> = unsafe fn(&Tables, *mut u8, isize, &[H]);

/// A function that loads or stores a row, and whether its items are native.
struct Row<F> {
    function: F,
    is_native: bool,
}

/// The arguments of [`convert`], whose promise holds for the methods.
struct Work<'a> {
    axes: &'a [Axis<'a>],
    source: *const u8,
    source_type: Number<'a>,
    swap: usize,
    target: *mut u8,
    target_type: Number<'a>,
}

impl Work<'_> {
    /// Convert through `f32`.
    ///
    /// # Safety
    /// The promise of [`Work`].
    unsafe fn convert_by_float(&self) -> Result<()> {
        let load = match (self.source_type, self.target_type) {
            (Number::Byte(_), _) => Some(load_row::<_, TableFloat>()),
            (Number::Named("f2"), _) => Some(load_row::<_, Float16>()),
            (Number::Named("bfloat16"), _) => Some(load_row::<_, BFloat16>()),
            (Number::Named("f8"), Number::Byte(_)) => Some(load_row::<_, RoundToOdd>()),
            (Number::Named("c16"), Number::Byte(_)) => Some(load_row::<_, Complex<RoundToOdd>>()),
            (Number::Named(name), _) => typed!(name, Item as _Native => load_row::<f32, Item>()),
        };
        let store = match self.target_type {
            Number::Byte(_) => Some(store_row::<_, TableFloat>()),
            Number::Named("f2") => Some(store_row::<_, Float16>()),
            Number::Named("bfloat16") => Some(store_row::<_, BFloat16>()),
            Number::Named(name) => typed!(name, Item as _Native => store_row::<f32, Item>()),
        };
        // SAFETY: the caller's promise; the types are those of the work.
        unsafe { self.run(load, store) }
    }

    /// Convert through the native type of the source or of its real part.
    ///
    /// # Safety
    /// The promise of [`Work`].
    unsafe fn convert_by_native(&self) -> Result<()> {
        let (Number::Named(source_type), Number::Named(target_type)) = (self.source_type, self.target_type)
        else {
            return Err(unknown());
        };
        let result = typed!(source_type, Item as Native => {
            let store = typed!(target_type, Item as _Native => store_row::<Native, Item>());
            // SAFETY: the caller's promise; the types are those of the work.
            unsafe { self.run(Some(load_row::<Native, Item>()), store) }
        });
        result.unwrap_or_else(|| Err(unknown()))
    }

    /// Convert through `H`.
    ///
    /// # Safety
    /// The promise of [`Work`]; `load` loads items of the source type and `store` stores items of
    /// the target type.
    unsafe fn run<H: Copy + Default>(
        &self,
        load: Option<Row<LoadRow<H>>>,
        store: Option<Row<StoreRow<H>>>,
    ) -> Result<()> {
        let (Some(load), Some(store)) = (load, store) else { return Err(unknown()) };
        let rows = Rows { load, store, numbers: tables(self.source_type), nearest: tables(self.target_type) };
        let item = Copied { bytes: self.source_type.bytes().ok_or_else(unknown)?, swap: self.swap };
        let walk = Walk { axes: self.axes.into(), src: self.source, dst: self.target };
        in_pieces(&[walk], TASK, &|axes, source, target| {
            let mut block = [H::default(); BLOCK];
            each_row(axes, &mut |(src_offset, dst_offset), count, steps| {
                let addresses = (source.wrapping_offset(src_offset), target.wrapping_offset(dst_offset));
                // SAFETY: the caller's promise: the rows are those of `axes`.
                unsafe {
                    match item.swap < 2 {
                        true => rows.convert(addresses, count, steps, &mut block),
                        false => rows.convert_swapped(addresses, count, steps, &mut block, item),
                    }
                }
            });
        })
    }
}

/// The functions and tables that convert rows of items through `H`.
struct Rows<'a, H> {
    load: Row<LoadRow<H>>,
    store: Row<StoreRow<H>>,
    numbers: &'a Tables,
    nearest: &'a Tables,
}

impl<H: Copy + Default> Rows<'_, H> {
    /// Convert a row of `count` items, with these steps between items of the source and the target.
    /// `block` has any content.
    ///
    /// # Safety
    /// The promise of [`Work`], for this row.
    unsafe fn convert(
        &self,
        (source, target): (*const u8, *mut u8),
        count: usize,
        (step, stride): (isize, isize),
        block: &mut [H; BLOCK],
    ) {
        let Rows { load, store, numbers, nearest } = self;
        let is_contiguous = |address: *const u8, step: isize| {
            step == size_of::<H>() as isize && address.cast::<H>().is_aligned()
        };
        // SAFETY: the caller's promise. A slice has that type, and its items are contiguous and
        // aligned.
        unsafe {
            if load.is_native && is_contiguous(source, step) {
                return (store.function)(nearest, target, stride, from_raw_parts(source.cast(), count));
            }
            if store.is_native && is_contiguous(target, stride) {
                return (load.function)(numbers, source, step, from_raw_parts_mut(target.cast(), count));
            }
            for begin in (0..count).step_by(BLOCK) {
                let (index, block) = (begin as isize, &mut block[..BLOCK.min(count - begin)]);
                (load.function)(numbers, source.wrapping_offset(index * step), step, block);
                (store.function)(nearest, target.wrapping_offset(index * stride), stride, block);
            }
        }
    }

    /// Like `convert`, for source items whose bytes are swapped as in `item`: blocks of them are
    /// copied in native order.
    ///
    /// # Safety
    /// As of `convert`.
    unsafe fn convert_swapped(
        &self,
        (source, target): (*const u8, *mut u8),
        count: usize,
        (step, stride): (isize, isize),
        block: &mut [H; BLOCK],
        item: Copied,
    ) {
        let mut native = MaybeUninit::<[[u64; MAX_ITEM_WORDS]; BLOCK]>::uninit();
        let (native, native_step) = (native.as_mut_ptr().cast::<u8>(), item.bytes as isize);
        for begin in (0..count).step_by(BLOCK) {
            let (index, count) = (begin as isize, BLOCK.min(count - begin));
            let axes = [Axis::Strided { count, src: step, dst: native_step }];
            // SAFETY: the caller's promise; a block of the largest items fits into `native`.
            unsafe {
                copy(source.wrapping_offset(index * step), native, &axes, item);
                let target = target.wrapping_offset(index * stride);
                self.convert((native, target), count, (native_step, stride), block);
            }
        }
    }
}

/// Return the fastest function of this processor.
fn load_row<H: 'static, I: Load<H> + 'static>() -> Row<LoadRow<H>> {
    let function: LoadRow<H> = if has_avx2() { load_wide::<H, I> } else { load::<H, I> };
    Row { function, is_native: TypeId::of::<H>() == TypeId::of::<I>() }
}

/// Return the fastest function of this processor.
fn store_row<H: Copy + 'static, I: Store<H> + 'static>() -> Row<StoreRow<H>> {
    let function: StoreRow<H> = if has_avx2() { store_wide::<H, I> } else { store::<H, I> };
    Row { function, is_native: TypeId::of::<H>() == TypeId::of::<I>() }
}

/// # Safety
/// The contract of [`LoadRow`].
#[inline(always)]
unsafe fn load<H, I: Load<H>>(tables: &Tables, address: *const u8, step: isize, out: &mut [H]) {
    // A separate branch, so that the loop over contiguous items is vectorised.
    if step == size_of::<I>() as isize {
        for (k, item) in out.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            *item = unsafe { address.cast::<I>().wrapping_add(k).read_unaligned() }.load(tables);
        }
    } else {
        for (k, item) in out.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            *item = unsafe { address.wrapping_offset(k as isize * step).cast::<I>().read_unaligned() }
                .load(tables);
        }
    }
}

/// # Safety
/// The contract of [`StoreRow`].
#[inline(always)]
unsafe fn store<H: Copy, I: Store<H>>(tables: &Tables, address: *mut u8, step: isize, items: &[H]) {
    if step == size_of::<I>() as isize {
        for (k, &item) in items.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { address.cast::<I>().wrapping_add(k).write_unaligned(I::store(item, tables)) };
        }
    } else {
        for (k, &item) in items.iter().enumerate() {
            let address = address.wrapping_offset(k as isize * step).cast::<I>();
            // SAFETY: the caller's promise.
            unsafe { address.write_unaligned(I::store(item, tables)) };
        }
    }
}

/// The same function, compiled with wider vectors.
///
/// # Safety
/// The contract of [`LoadRow`]; the processor has AVX2.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
unsafe fn load_wide<H, I: Load<H>>(tables: &Tables, address: *const u8, step: isize, out: &mut [H]) {
    // SAFETY: the caller's promise.
    unsafe { load::<H, I>(tables, address, step, out) }
}

/// The same function, compiled with wider vectors.
///
/// # Safety
/// The contract of [`StoreRow`]; the processor has AVX2.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
unsafe fn store_wide<H: Copy, I: Store<H>>(tables: &Tables, address: *mut u8, step: isize, items: &[H]) {
    // SAFETY: the caller's promise.
    unsafe { store::<H, I>(tables, address, step, items) }
}

#[cfg(test)]
mod tests;
