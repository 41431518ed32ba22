//! Numbers in memory, converted to those of another type as C does it.
//!
//! Items are loaded as a number that processors have, and stored from it as the other type: as their own
//! type if processors have that, else as one that has all of their values (`i8` for integers of less bits,
//! `f32` for floats of less bits). What is such a number already, side by side in memory, is neither loaded
//! nor stored by itself; else some items at a time are loaded, which stay near the processor.

pub(crate) mod half;
mod item;

use std::any::TypeId;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use crate::convert::half::{BFloat16, Float16};
use crate::copy::{copy, each_row, in_pieces, Axis, Item as Copied, Walk};
use crate::error::{Error, Kind, Result};
use item::{Bit, Completion, Complex, Load, Odd, Signed, Store, Unsigned};

/// Items that are loaded at a time.
const BLOCK: usize = 512;

/// Items that are converted by one thread: it takes longer than waking another one.
const TASK: usize = 128 << 10;

/// Do some work with the types of a name, if there are such ones: what an item is, and the number that it is
/// loaded as unless another one is asked for.
macro_rules! typed {
    ($name:expr, $item:ident as $held:ident => $work:expr) => {
        typed! {
            $name, $item as $held => $work;
            "b1" Bit as i8, "int2" Signed<2> as i8, "int4" Signed<4> as i8,
            "uint2" Unsigned<2> as i8, "uint4" Unsigned<4> as i8,
            "i1" i8 as i8, "i2" i16 as i16, "i4" i32 as i32, "i8" i64 as i64,
            "u1" u8 as u8, "u2" u16 as u16, "u4" u32 as u32, "u8" u64 as u64,
            "f4" f32 as f32, "f8" f64 as f64, "c8" Complex<f32> as f32, "c16" Complex<f64> as f64
        }
    };
    ($name:expr, $item:ident as $held:ident => $work:expr; $($known:literal $type:ty as $number:ty),*) => {
        match $name {
            $($known => {
                type $item = $type;
                type $held = $number;
                Some($work)
            })*
            _ => None,
        }
    };
}

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
        match *self {
            Number::Byte(_) => Some(1),
            Number::Named("f2" | "bfloat16") => Some(2),
            Number::Named(name) => typed!(name, Item as _Held => size_of::<Item>()),
        }
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

/// How a row is loaded or stored, and whether its items are such numbers already.
struct Row<F> {
    by: F,
    same: bool,
}

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
        let load = match (self.from, self.to) {
            (Number::Byte(_), _) => Some(load_row::<_, Completion>()),
            (Number::Named("f2"), _) => Some(load_row::<_, Float16>()),
            (Number::Named("bfloat16"), _) => Some(load_row::<_, BFloat16>()),
            (Number::Named("f8"), Number::Byte(_)) => Some(load_row::<_, Odd>()),
            (Number::Named("c16"), Number::Byte(_)) => Some(load_row::<_, Complex<Odd>>()),
            (Number::Named(name), _) => typed!(name, Item as _Held => load_row::<f32, Item>()),
        };
        let store = match self.to {
            Number::Byte(_) => Some(store_row::<_, Completion>()),
            Number::Named("f2") => Some(store_row::<_, Float16>()),
            Number::Named("bfloat16") => Some(store_row::<_, BFloat16>()),
            Number::Named(name) => typed!(name, Item as _Held => store_row::<f32, Item>()),
        };
        // SAFETY: the caller's promise; the types are those of the work.
        unsafe { self.run(load, store) }
    }

    /// By the type of the source or of its real part, or by `i8` if it has less bits.
    ///
    /// # Safety
    /// The promise of [`Work`].
    unsafe fn by_number(&self) -> Result<()> {
        let (Number::Named(from), Number::Named(to)) = (self.from, self.to) else { return Err(unknown()) };
        let done = typed!(from, Item as Held => {
            let store = typed!(to, Item as _Held => store_row::<Held, Item>());
            // SAFETY: the caller's promise; the types are those of the work.
            unsafe { self.run(Some(load_row::<Held, Item>()), store) }
        });
        done.unwrap_or_else(|| Err(unknown()))
    }

    /// By `H`.
    ///
    /// # Safety
    /// The promise of [`Work`]; `load` loads items of its one type and `store` stores those of the other.
    unsafe fn run<H: Copy + Default>(
        &self,
        load: Option<Row<LoadRow<H>>>,
        store: Option<Row<StoreRow<H>>>,
    ) -> Result<()> {
        let (Some(load), Some(store)) = (load, store) else { return Err(unknown()) };
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
                    if load.same && beside(source, step) {
                        return (store.by)(nearest, target, stride, from_raw_parts(source.cast(), count));
                    }
                    if store.same && beside(target, stride) {
                        return (load.by)(numbers, source, step, from_raw_parts_mut(target.cast(), count));
                    }
                    for begin in (0..count).step_by(BLOCK) {
                        let (at, block) = (begin as isize, &mut block[..BLOCK.min(count - begin)]);
                        (load.by)(numbers, source.wrapping_offset(at * step), step, block);
                        (store.by)(nearest, target.wrapping_offset(at * stride), stride, block);
                    }
                }
            });
        })
    }
}

/// The way that this processor does best.
fn load_row<H: 'static, I: Load<H> + 'static>() -> Row<LoadRow<H>> {
    let same = TypeId::of::<H>() == TypeId::of::<I>();
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        return Row { by: wide::load::<H, I>, same };
    }
    Row { by: load::<H, I>, same }
}

/// The way that this processor does best.
fn store_row<H: Copy + 'static, I: Store<H> + 'static>() -> Row<StoreRow<H>> {
    let same = TypeId::of::<H>() == TypeId::of::<I>();
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        return Row { by: wide::store::<H, I>, same };
    }
    Row { by: store::<H, I>, same }
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
