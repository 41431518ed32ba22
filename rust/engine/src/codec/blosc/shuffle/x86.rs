//! The vector kernels of the shuffle, for SSE2 and AVX2.
//!
//! All kernels rest on one fact. Take 2ⁿ registers of 16 bytes as one sequence and *weave* it:
//! interleave its first half with its second, byte by byte (two unpack instructions per pair of
//! registers). A byte at index `x` moves to `x` rotated left by one bit. With `width` = 2ʷ planes
//! in one register each, the index is (plane: w bits, item: 4 bits); `w` weaves change it to (item,
//! plane), which is the join. The split continues the rotation: 4 weaves change (item: 4 bits,
//! byte: w bits), because 16 items fill `width` registers, to (byte, item).
//!
//! AVX2 registers are two independent lanes of 16 bytes. The low lane holds items 0 to 15, the high
//! lane items 16 to 31, so that planes are whole 32-byte loads and stores.
//!
//! Any other width is processed as columns of 16 bytes: 16 items by 16 bytes are a square whose
//! transposition is 4 weaves. The last column overlaps the previous one; a width below 16 has one
//! column that extends into the next item.

use std::arch::x86_64::*;

use super::Layout;

/// One register of 16 or 32 bytes. The provided methods are those of one lane.
trait Vector: Copy {
    /// Items per register: one per byte.
    const ITEMS: usize;

    /// Load the whole register, unaligned.
    unsafe fn load(from: *const u8) -> Self;
    /// Store the whole register, unaligned.
    unsafe fn store(self, to: *mut u8);
    /// Interleave the bytes of each lane.
    unsafe fn weave(a: Self, b: Self) -> (Self, Self);
    /// Transpose the 8×8 bits of each u64.
    unsafe fn transpose_bits(self) -> Self;

    /// Low lane from `low`, high lane (if any) from `high`.
    #[inline(always)]
    unsafe fn load_lanes(low: *const u8, _high: *const u8) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::load(low) }
    }

    /// Store both lanes: the inverse of `load_lanes`.
    #[inline(always)]
    unsafe fn store_lanes(self, low: *mut u8, _high: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { self.store(low) }
    }

    /// Store the low lanes of both registers, one after the other.
    #[inline(always)]
    unsafe fn store_low(a: Self, b: Self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            a.store(to);
            b.store(to.add(16));
        }
    }

    /// Store the high lanes of both registers, if they have any.
    #[inline(always)]
    unsafe fn store_high(_a: Self, _b: Self, _to: *mut u8) {}

    /// Split 2 registers with items of 2 bytes.
    #[inline(always)]
    unsafe fn split2(rows: [Self; 2]) -> [Self; 2] {
        // SAFETY: registers only.
        unsafe { weave_all(weave_all(weave_all(weave_all(rows)))) }
    }

    /// Split 4 registers with items of 4 bytes.
    #[inline(always)]
    unsafe fn split4(rows: [Self; 4]) -> [Self; 4] {
        // SAFETY: registers only.
        unsafe { weave_all(weave_all(weave_all(weave_all(rows)))) }
    }
}

/// The methods that only differ in their instructions.
macro_rules! instructions {
    ($load:ident $store:ident $low:ident $high:ident $set:ident $and:ident $xor:ident $right:ident $left:ident) => {
        #[inline(always)]
        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: the caller's promise.
            unsafe { $load(from.cast()) }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut u8) {
            // SAFETY: the caller's promise.
            unsafe { $store(to.cast(), self) }
        }

        #[inline(always)]
        unsafe fn weave(a: Self, b: Self) -> (Self, Self) {
            // SAFETY: registers only; called only where the instructions are enabled.
            unsafe { ($low(a, b), $high(a, b)) }
        }

        #[inline(always)]
        unsafe fn transpose_bits(self) -> Self {
            // SAFETY: as above; the same three swaps as the portable kernel.
            unsafe {
                let mut x = self;
                let swapped = $and($xor(x, $right(x, 7)), $set(0x00aa_00aa_00aa_00aa));
                x = $xor(x, $xor(swapped, $left(swapped, 7)));
                let swapped = $and($xor(x, $right(x, 14)), $set(0x0000_cccc_0000_cccc));
                x = $xor(x, $xor(swapped, $left(swapped, 14)));
                let swapped = $and($xor(x, $right(x, 28)), $set(0xf0f0_f0f0));
                $xor(x, $xor(swapped, $left(swapped, 28)))
            }
        }
    };
}

impl Vector for __m128i {
    const ITEMS: usize = 16;

    instructions!(
        _mm_loadu_si128 _mm_storeu_si128 _mm_unpacklo_epi8 _mm_unpackhi_epi8
        _mm_set1_epi64x _mm_and_si128 _mm_xor_si128 _mm_srli_epi64 _mm_slli_epi64
    );
}

impl Vector for __m256i {
    const ITEMS: usize = 32;

    instructions!(
        _mm256_loadu_si256 _mm256_storeu_si256 _mm256_unpacklo_epi8 _mm256_unpackhi_epi8
        _mm256_set1_epi64x _mm256_and_si256 _mm256_xor_si256 _mm256_srli_epi64 _mm256_slli_epi64
    );

    #[inline(always)]
    unsafe fn load_lanes(low: *const u8, high: *const u8) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let low = _mm256_castsi128_si256(_mm_loadu_si128(low.cast()));
            _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(high.cast()))
        }
    }

    #[inline(always)]
    unsafe fn store_lanes(self, low: *mut u8, high: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            _mm_storeu_si128(low.cast(), _mm256_castsi256_si128(self));
            _mm_storeu_si128(high.cast(), _mm256_extracti128_si256::<1>(self));
        }
    }

    #[inline(always)]
    unsafe fn store_low(a: Self, b: Self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_si256(to.cast(), _mm256_permute2x128_si256::<0x20>(a, b)) }
    }

    #[inline(always)]
    unsafe fn store_high(a: Self, b: Self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_si256(to.cast(), _mm256_permute2x128_si256::<0x31>(a, b)) }
    }

    #[inline(always)]
    unsafe fn split2(rows: [Self; 2]) -> [Self; 2] {
        // SAFETY: only called where AVX2 is enabled. Bytes are grouped, then halves exchanged.
        unsafe {
            let order = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
            let order = _mm256_broadcastsi128_si256(order);
            // Not `rows.map`: its closure lacks AVX2, so that each shuffle would be a call.
            let [a, b] = rows;
            let (a, b) = (_mm256_shuffle_epi8(a, order), _mm256_shuffle_epi8(b, order));
            [_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)]
        }
    }

    #[inline(always)]
    unsafe fn split4(rows: [Self; 4]) -> [Self; 4] {
        // SAFETY: only called where AVX2 is enabled; bytes are grouped, then a 4×4 transposition.
        unsafe {
            let order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            let order = _mm256_broadcastsi128_si256(order);
            let [a, b, c, d] = rows;
            let (a, b) = (_mm256_shuffle_epi8(a, order), _mm256_shuffle_epi8(b, order));
            let (c, d) = (_mm256_shuffle_epi8(c, order), _mm256_shuffle_epi8(d, order));
            let (ab, ab_high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
            let (cd, cd_high) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
            [
                _mm256_unpacklo_epi64(ab, cd),
                _mm256_unpackhi_epi64(ab, cd),
                _mm256_unpacklo_epi64(ab_high, cd_high),
                _mm256_unpackhi_epi64(ab_high, cd_high),
            ]
        }
    }
}

/// Interleave the first half of the rows with the second.
#[inline(always)]
unsafe fn weave_all<V: Vector, const N: usize>(rows: [V; N]) -> [V; N] {
    let mut woven = rows;
    for i in 0..N / 2 {
        // SAFETY: registers only.
        let (low, high) = unsafe { V::weave(rows[i], rows[i + N / 2]) };
        woven[2 * i] = low;
        woven[2 * i + 1] = high;
    }
    woven
}

/// Convert rows of items to planes.
#[inline(always)]
unsafe fn split_rows<V: Vector, const N: usize>(rows: [V; N]) -> [V; N] {
    // SAFETY: registers only. The slices have the length of the pattern.
    unsafe {
        match *rows.as_slice() {
            [a, b] => fill(rows, &V::split2([a, b])),
            [a, b, c, d] => fill(rows, &V::split4([a, b, c, d])),
            _ => weave_all(weave_all(weave_all(weave_all(rows)))),
        }
    }
}

#[inline(always)]
fn fill<V: Copy, const N: usize>(mut rows: [V; N], with: &[V]) -> [V; N] {
    rows.copy_from_slice(with);
    rows
}

/// Split items of a width `N` of 2, 4, 8 or 16. Return the number of split items: all but fewer
/// than `V::ITEMS`.
#[inline(always)]
unsafe fn split_power<V: Vector, const N: usize, const BITS: bool>(
    layout: Layout,
    items: *const u8,
    planes: *mut u8,
) -> usize {
    let mut first = 0;
    while first + V::ITEMS <= layout.count {
        // SAFETY: items `first` to `first + V::ITEMS` are within both buffers.
        unsafe {
            let from = items.add(first * N);
            let mut rows = [V::load(from); N];
            for (k, row) in rows.iter_mut().enumerate() {
                *row = V::load_lanes(from.add(16 * k), from.wrapping_add(16 * (N + k)));
                if BITS {
                    *row = row.transpose_bits();
                }
            }
            for (p, plane) in split_rows(rows).iter().enumerate() {
                plane.store(planes.add(p * layout.stride + first));
            }
        }
        first += V::ITEMS;
    }
    first
}

/// Join items of a width `N` of 2, 4, 8 or 16. Return the number of joined items: all but fewer
/// than `V::ITEMS`.
#[inline(always)]
unsafe fn join_power<V: Vector, const N: usize, const BITS: bool>(
    layout: Layout,
    plane: impl Fn(usize) -> *const u8,
    items: *mut u8,
) -> usize {
    let mut first = 0;
    while first + V::ITEMS <= layout.count {
        // SAFETY: items `first` to `first + V::ITEMS` are within both buffers.
        unsafe {
            let mut rows = [V::load(plane(0).add(first)); N];
            for (p, row) in rows.iter_mut().enumerate().skip(1) {
                *row = V::load(plane(p).add(first));
            }
            let mut weaves = N;
            while weaves > 1 {
                rows = weave_all(rows);
                weaves /= 2;
            }
            if BITS {
                for row in &mut rows {
                    *row = row.transpose_bits();
                }
            }
            let to = items.add(first * N);
            // In the order of addresses.
            for k in (0..N).step_by(2) {
                V::store_low(rows[k], rows[k + 1], to.add(16 * k));
            }
            for k in (0..N).step_by(2) {
                V::store_high(rows[k], rows[k + 1], to.wrapping_add(16 * (N + k)));
            }
        }
        first += V::ITEMS;
    }
    first
}

/// Return whether the columns of the items from `first` on stay within the items' bytes.
#[inline(always)]
fn columns_fit<V: Vector>(layout: Layout, first: usize) -> bool {
    let after = first + V::ITEMS;
    after <= layout.count && (after - 1) * layout.width + layout.width.max(16) <= layout.item_bytes()
}

/// Return the start of the column after `column`, if any.
#[inline(always)]
fn next_column(width: usize, column: usize) -> Option<usize> {
    (column + 16 < width).then(|| (column + 16).min(width - 16))
}

/// Split items of any width, `NARROW` below 16. Return the number of split items.
#[inline(always)]
unsafe fn split_any<V: Vector, const NARROW: bool>(
    layout: Layout,
    items: *const u8,
    planes: *mut u8,
) -> usize {
    let width = layout.width;
    let mut first = 0;
    while columns_fit::<V>(layout, first) {
        let mut column = Some(0);
        while let Some(start) = column {
            // SAFETY: `columns_fit` checks that 16 bytes from every item's column are within
            // `items`; only planes below `width` are stored.
            unsafe {
                let from = items.add(first * width + start);
                let mut rows = [V::load_lanes(from, from.wrapping_add(16 * width)); 16];
                for (i, row) in rows.iter_mut().enumerate().skip(1) {
                    *row = V::load_lanes(from.add(i * width), from.wrapping_add((16 + i) * width));
                }
                rows = weave_all(weave_all(weave_all(weave_all(rows))));
                let to = planes.add(start * layout.stride + first);
                for (p, row) in rows.iter().enumerate() {
                    if !NARROW || p < width {
                        row.store(to.add(p * layout.stride));
                    }
                }
            }
            column = next_column(width, start);
        }
        first += V::ITEMS;
    }
    first
}

/// Join items of any width, `NARROW` below 16. Return the number of joined items.
#[inline(always)]
unsafe fn join_any<V: Vector, const NARROW: bool>(
    layout: Layout,
    plane: impl Fn(usize) -> *const u8,
    items: *mut u8,
) -> usize {
    let width = layout.width;
    let mut first = 0;
    while columns_fit::<V>(layout, first) {
        let mut column = Some(0);
        while let Some(start) = column {
            // SAFETY: as for the split. A narrow item's column may write beyond the item; the next
            // item, written later, overwrites those bytes.
            unsafe {
                let mut rows = [V::load(plane(start).add(first)); 16];
                for (p, row) in rows.iter_mut().enumerate().skip(1) {
                    if !NARROW || p < width {
                        *row = V::load(plane(start + p).add(first));
                    }
                }
                rows = weave_all(weave_all(weave_all(weave_all(rows))));
                let to = items.add(first * width + start);
                if NARROW {
                    store_in_order(rows, to, width);
                } else {
                    for (i, row) in rows.iter().enumerate() {
                        row.store_lanes(to.add(i * width), to.wrapping_add((16 + i) * width));
                    }
                }
            }
            column = next_column(width, start);
        }
        first += V::ITEMS;
    }
    first
}

/// The low lanes of the rows at every `width`, then the high lanes after them.
#[inline(always)]
unsafe fn store_in_order<V: Vector>(rows: [V; 16], to: *mut u8, width: usize) {
    let mut lanes = [0u8; 512];
    for (i, row) in rows.iter().enumerate() {
        // SAFETY: the array has 32 rows of 16 bytes.
        unsafe { row.store_lanes(lanes.as_mut_ptr().add(16 * i), lanes.as_mut_ptr().add(256 + 16 * i)) };
    }
    for i in 0..V::ITEMS {
        // SAFETY: the caller's promise: 16 bytes from each of `V::ITEMS` items on are within the
        // buffer.
        unsafe { std::ptr::copy_nonoverlapping(lanes.as_ptr().add(16 * i), to.add(i * width), 16) };
    }
}

#[inline(always)]
unsafe fn split<V: Vector>(layout: Layout, items: *const u8, planes: *mut u8) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        match (layout.width, layout.bits) {
            (8, true) => split_power::<V, 8, true>(layout, items, planes),
            (2, _) => split_power::<V, 2, false>(layout, items, planes),
            (4, _) => split_power::<V, 4, false>(layout, items, planes),
            (8, _) => split_power::<V, 8, false>(layout, items, planes),
            (16, _) => split_power::<V, 16, false>(layout, items, planes),
            (1..16, _) => split_any::<V, true>(layout, items, planes),
            _ => split_any::<V, false>(layout, items, planes),
        }
    }
}

#[inline(always)]
unsafe fn join<V: Vector>(layout: Layout, plane: impl Fn(usize) -> *const u8, items: *mut u8) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        match (layout.width, layout.bits) {
            (8, true) => join_power::<V, 8, true>(layout, plane, items),
            (2, _) => join_power::<V, 2, false>(layout, plane, items),
            (4, _) => join_power::<V, 4, false>(layout, plane, items),
            (8, _) => join_power::<V, 8, false>(layout, plane, items),
            (16, _) => join_power::<V, 16, false>(layout, plane, items),
            (1..16, _) => join_any::<V, true>(layout, plane, items),
            _ => join_any::<V, false>(layout, plane, items),
        }
    }
}

/// # Safety
/// `items` and `planes` are valid for the layout's bytes.
pub(super) unsafe fn split_sse2(layout: Layout, items: *const u8, planes: *mut u8) -> usize {
    // SAFETY: the caller's promise; SSE2 is the baseline.
    unsafe { split::<__m128i>(layout, items, planes) }
}

/// # Safety
/// `items` and `planes` are valid for the layout's bytes; the processor has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn split_avx2(layout: Layout, items: *const u8, planes: *mut u8) -> usize {
    // SAFETY: the caller's promise.
    unsafe { split::<__m256i>(layout, items, planes) }
}

/// # Safety
/// The first `layout.width` planes are valid for `layout.count` bytes, `items` for all of them.
pub(super) unsafe fn join_sse2(layout: Layout, plane: impl Fn(usize) -> *const u8, items: *mut u8) -> usize {
    // SAFETY: the caller's promise; SSE2 is the baseline.
    unsafe { join::<__m128i>(layout, plane, items) }
}

/// # Safety
/// As for `join_sse2`; the processor has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn join_avx2(layout: Layout, plane: impl Fn(usize) -> *const u8, items: *mut u8) -> usize {
    // SAFETY: the caller's promise.
    unsafe { join::<__m256i>(layout, plane, items) }
}
