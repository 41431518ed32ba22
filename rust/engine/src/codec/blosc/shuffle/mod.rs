//! The filters of Blosc: byte shuffle and bit shuffle of one block, and their inverses.
//!
//! **Byte shuffle** views the block as `count` items of `width` bytes and transposes it: first byte
//! 0 of every item, then byte 1, and so on. Bytes after the last whole item are copied.
//!
//! **Bit shuffle** transposes bits: row `8·p + k` of the result holds bit `k` of byte `p` of every
//! item, 8 items to a byte, the first in the lowest bit. Blosc 1 applies it only if the number of
//! items is a multiple of 8; otherwise the whole block is copied.
//!
//! Both use one primitive, [`Kernel::split`], and its inverse, [`Kernel::join`]: items to planes
//! that are `stride` bytes apart. The bit shuffle of a plane is 8×8 bit transpositions (within the
//! u64 of 8 bytes of the plane), then a split with items of 8 bytes. It works in tiles that stay in
//! the first-level cache, so the block itself is read once.

#[cfg(target_arch = "x86_64")]
mod x86;

use crate::codec::context::ReusableBuffer;

/// The size of a bit-shuffle tile: half of a first-level cache.
const TILE_BYTES: usize = 16 << 10;

/// The number of items of a tile is a multiple of this: 32 bytes in each bit row.
const TILE_ITEMS: usize = 256;

/// The instructions of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::codec) enum Kernel {
    /// Portable instructions; the reference for the other kernels.
    #[cfg_attr(all(target_arch = "x86_64", not(test)), allow(dead_code))]
    Portable,
    /// The baseline of x86-64.
    #[cfg(target_arch = "x86_64")]
    Sse2,
    /// Registers of 32 bytes; detected at run time.
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

/// The layout of the items of a split or join.
#[derive(Clone, Copy)]
struct Layout {
    /// The size of an item, and the number of planes.
    width: usize,
    /// The number of items, and the size of a plane.
    count: usize,
    /// The distance between planes.
    stride: usize,
    /// Whether the bits of each item of 8 bytes are also transposed.
    bits: bool,
}

impl Layout {
    fn item_bytes(self) -> usize {
        self.count * self.width
    }

    /// Return the number of bytes from the start of the first plane to the end of the last one.
    fn plane_bytes(self) -> usize {
        if self.count == 0 {
            return 0;
        }
        (self.width - 1) * self.stride + self.count
    }
}

/// The planes of a shuffled block: contiguous or separate.
#[derive(Clone, Copy)]
pub(in crate::codec) enum Planes<'a> {
    /// The whole block, with the bytes after the last item.
    Contiguous(&'a [u8]),
    /// One slice for each plane, at most 16; no bytes follow.
    Separate(&'a [&'a [u8]]),
}

impl<'a> Planes<'a> {
    fn plane(self, index: usize, count: usize) -> &'a [u8] {
        match self {
            Planes::Contiguous(block) => &block[index * count..][..count],
            Planes::Separate(planes) => &planes[index][..count],
        }
    }

    /// Return the bytes after the planes, which have `bytes` bytes.
    fn rest(self, bytes: usize) -> &'a [u8] {
        match self {
            Planes::Contiguous(block) => &block[bytes..],
            Planes::Separate(_) => &[],
        }
    }
}

/// The maximum number of separate planes: Blosc does not split larger items.
pub(super) const MAX_SEPARATE_PLANES: usize = 16;

impl Kernel {
    /// Return the fastest kernel of this processor.
    pub(in crate::codec) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx2") {
                Kernel::Avx2
            } else {
                Kernel::Sse2
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        Kernel::Portable
    }

    /// `planes[p·stride + i] = items[i·width + p]`.
    fn split(self, layout: Layout, items: &[u8], planes: &mut [u8]) {
        let items = &items[..layout.item_bytes()];
        let planes = &mut planes[..layout.plane_bytes()];
        let items_done = match self {
            Kernel::Portable => 0,
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the slices have the sizes of the layout, SSE2 is the baseline.
            Kernel::Sse2 => unsafe { x86::split_sse2(layout, items.as_ptr(), planes.as_mut_ptr()) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the slices have the sizes of the layout, AVX2 was detected.
            Kernel::Avx2 => unsafe { x86::split_avx2(layout, items.as_ptr(), planes.as_mut_ptr()) },
        };
        split_rest(layout, items_done, items, planes);
    }

    /// `items[i·width + p] = planes[p·stride + i]`; separate planes have no stride.
    fn join(self, layout: Layout, planes: Planes<'_>, items: &mut [u8]) {
        let items = &mut items[..layout.item_bytes()];
        match planes {
            Planes::Contiguous(block) => {
                let block = &block[..layout.plane_bytes()];
                let start = |p| block.as_ptr().wrapping_add(p * layout.stride);
                // SAFETY: the slices have the sizes of the layout.
                let items_done = unsafe { self.join_at(layout, start, items) };
                join_rest(layout, items_done, |p| &block[p * layout.stride..], items);
            }
            Planes::Separate(planes) => {
                let mut starts = [std::ptr::null(); MAX_SEPARATE_PLANES];
                for (start, plane) in starts.iter_mut().zip(&planes[..layout.width]) {
                    *start = plane[..layout.count].as_ptr();
                }
                // SAFETY: as above.
                let items_done = unsafe { self.join_at(layout, |p| starts[p], items) };
                join_rest(layout, items_done, |p| planes[p], items);
            }
        }
    }

    /// Join planes that begin at `start`. Return the number of joined items.
    ///
    /// # Safety
    /// The first `layout.width` planes are valid for `layout.count` bytes; `items` has the size of
    /// all items.
    unsafe fn join_at(self, layout: Layout, start: impl Fn(usize) -> *const u8, items: &mut [u8]) -> usize {
        match self {
            Kernel::Portable => 0,
            #[cfg(target_arch = "x86_64")]
            // SAFETY: guaranteed by the caller, SSE2 is the baseline.
            Kernel::Sse2 => unsafe { x86::join_sse2(layout, start, items.as_mut_ptr()) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: guaranteed by the caller, AVX2 was detected.
            Kernel::Avx2 => unsafe { x86::join_avx2(layout, start, items.as_mut_ptr()) },
        }
    }

    /// Byte shuffle of `source` into `target` of the same length.
    pub(in crate::codec) fn shuffle(self, width: usize, source: &[u8], target: &mut [u8]) {
        let count = source.len() / width;
        let layout = Layout { width, count, stride: count, bits: false };
        self.split(layout, source, target);
        let whole = layout.item_bytes();
        target[whole..].copy_from_slice(&source[whole..]);
    }

    /// The inverse of [`Kernel::shuffle`].
    pub(in crate::codec) fn unshuffle(self, width: usize, source: Planes<'_>, target: &mut [u8]) {
        let count = target.len() / width;
        let layout = Layout { width, count, stride: count, bits: false };
        self.join(layout, source, target);
        let whole = layout.item_bytes();
        target[whole..].copy_from_slice(source.rest(whole));
    }

    /// Bit shuffle of `source` into `target` of the same length.
    pub(super) fn bitshuffle(
        self,
        width: usize,
        source: &[u8],
        target: &mut [u8],
        tile: &mut ReusableBuffer,
    ) {
        let Some(count) = bitshuffled_items(width, source.len()) else {
            return target.copy_from_slice(source);
        };
        let step = tile_items(width);
        for first in (0..count).step_by(step) {
            let items = step.min(count - first);
            let source = &source[first * width..];
            let layout = Layout { width: 8, count: items / 8, stride: count / 8, bits: true };
            if width == 1 {
                self.split(layout, source, &mut target[first / 8..]);
                continue;
            }
            let tile = tile.bytes(items * width);
            self.split(Layout { width, count: items, stride: items, bits: false }, source, tile);
            for (plane, bytes) in tile.chunks_exact(items).enumerate() {
                self.split(layout, bytes, &mut target[plane * count + first / 8..]);
            }
        }
        let whole = count * width;
        target[whole..].copy_from_slice(&source[whole..]);
    }

    /// The inverse of [`Kernel::bitshuffle`].
    pub(super) fn bitunshuffle(
        self,
        width: usize,
        source: Planes<'_>,
        target: &mut [u8],
        tile: &mut ReusableBuffer,
    ) {
        let Some(count) = bitshuffled_items(width, target.len()) else {
            return copy_planes(source, target);
        };
        let step = tile_items(width);
        for first in (0..count).step_by(step) {
            let items = step.min(count - first);
            let target = &mut target[first * width..];
            let layout = Layout { width: 8, count: items / 8, stride: count / 8, bits: true };
            if width == 1 {
                self.join(layout, Planes::Contiguous(&source.plane(0, count)[first / 8..]), target);
                continue;
            }
            let tile = tile.bytes(items * width);
            for (plane, bytes) in tile.chunks_exact_mut(items).enumerate() {
                let bits = &source.plane(plane, count)[first / 8..];
                self.join(layout, Planes::Contiguous(bits), bytes);
            }
            let layout = Layout { width, count: items, stride: items, bits: false };
            self.join(layout, Planes::Contiguous(tile), target);
        }
        let whole = count * width;
        target[whole..].copy_from_slice(source.rest(whole));
    }
}

/// Copy a block without a filter.
fn copy_planes(source: Planes<'_>, target: &mut [u8]) {
    match source {
        Planes::Contiguous(block) => target.copy_from_slice(block),
        Planes::Separate(planes) => {
            for (plane, part) in planes.iter().zip(target.chunks_exact_mut(planes[0].len())) {
                part.copy_from_slice(plane);
            }
        }
    }
}

/// Return the number of items, if the bit shuffle applies to a block of this size.
fn bitshuffled_items(width: usize, bytes: usize) -> Option<usize> {
    let count = bytes / width;
    (count % 8 == 0).then_some(count)
}

fn tile_items(width: usize) -> usize {
    (TILE_BYTES / width / TILE_ITEMS).max(1) * TILE_ITEMS
}

/// Return the bits of an 8×8 matrix, transposed: bit `k` of byte `j` to bit `j` of byte `k`.
fn transpose_bits(matrix: u64) -> u64 {
    let mut x = matrix;
    for (distance, mask) in [(7, 0x00aa_00aa_00aa_00aa), (14, 0x0000_cccc_0000_cccc), (28, 0xf0f0_f0f0)] {
        let swapped = (x ^ (x >> distance)) & mask;
        x ^= swapped ^ (swapped << distance);
    }
    x
}

/// Split the items from `first` on, with portable code.
fn split_rest(layout: Layout, first: usize, items: &[u8], planes: &mut [u8]) {
    let Layout { width, count, stride, bits } = layout;
    if first == count {
        return;
    }
    if bits {
        for (i, item) in items.chunks_exact(8).enumerate().skip(first) {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(item);
            let rows = transpose_bits(u64::from_le_bytes(bytes)).to_le_bytes();
            for (p, row) in rows.into_iter().enumerate() {
                planes[p * stride + i] = row;
            }
        }
        return;
    }
    for (p, plane) in planes.chunks_mut(stride).enumerate() {
        let bytes = items[first * width + p..].iter().step_by(width);
        for (byte, target) in bytes.zip(&mut plane[first..count]) {
            *target = *byte;
        }
    }
}

/// Join the items from `first` on, with portable code.
fn join_rest<'a>(layout: Layout, first: usize, plane: impl Fn(usize) -> &'a [u8], items: &mut [u8]) {
    let Layout { width, count, bits, .. } = layout;
    if first == count {
        return;
    }
    if bits {
        for (i, item) in items.chunks_exact_mut(8).enumerate().skip(first) {
            let rows: [u8; 8] = std::array::from_fn(|p| plane(p)[i]);
            item.copy_from_slice(&transpose_bits(u64::from_le_bytes(rows)).to_le_bytes());
        }
        return;
    }
    for p in 0..width {
        let bytes = items[first * width + p..].iter_mut().step_by(width);
        for (target, byte) in bytes.zip(&plane(p)[first..count]) {
            *target = *byte;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernels() -> Vec<Kernel> {
        #[cfg(target_arch = "x86_64")]
        {
            let mut kernels = vec![Kernel::Portable, Kernel::Sse2];
            if Kernel::detect() == Kernel::Avx2 {
                kernels.push(Kernel::Avx2);
            }
            kernels
        }
        #[cfg(not(target_arch = "x86_64"))]
        vec![Kernel::Portable]
    }

    fn noise(bytes: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_u32;
        (0..bytes)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect()
    }

    /// The definition of the byte shuffle.
    fn shuffled(width: usize, source: &[u8]) -> Vec<u8> {
        let count = source.len() / width;
        let mut target = source.to_vec();
        for i in 0..count {
            for p in 0..width {
                target[p * count + i] = source[i * width + p];
            }
        }
        target
    }

    /// The definition of the bit shuffle.
    fn bitshuffled(width: usize, source: &[u8]) -> Vec<u8> {
        let count = source.len() / width;
        let mut target = source.to_vec();
        if count % 8 != 0 {
            return target;
        }
        target[..count * width].fill(0);
        for i in 0..count {
            for bit in 0..8 * width {
                let set = source[i * width + bit / 8] >> (bit % 8) & 1;
                target[bit * (count / 8) + i / 8] |= set << (i % 8);
            }
        }
        target
    }

    #[test]
    fn every_kernel_equals_the_definition_for_every_width_and_size() {
        let mut tile = ReusableBuffer::default();
        let widths = (1..=34).chain([48, 63, 64, 65, 100, 127, 128, 200, 255]);
        for width in widths {
            for count in [0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 72, 100, 256, 264, 1000, 1032] {
                for extra in [0, width / 2] {
                    let source = noise(count * width + extra);
                    for kernel in kernels() {
                        let mut there = vec![0; source.len()];
                        let mut back = vec![0; source.len()];
                        kernel.shuffle(width, &source, &mut there);
                        assert_eq!(there, shuffled(width, &source), "{kernel:?} {width} {count}");
                        kernel.unshuffle(width, Planes::Contiguous(&there), &mut back);
                        assert_eq!(back, source, "{kernel:?} {width} {count}");
                        kernel.bitshuffle(width, &source, &mut there, &mut tile);
                        assert_eq!(there, bitshuffled(width, &source), "{kernel:?} bits {width} {count}");
                        back.fill(0);
                        kernel.bitunshuffle(width, Planes::Contiguous(&there), &mut back, &mut tile);
                        assert_eq!(back, source, "{kernel:?} bits {width} {count}");
                    }
                }
            }
        }
    }

    #[test]
    fn bit_shuffle_of_several_tiles_round_trips() {
        let mut tile = ReusableBuffer::default();
        for (width, count) in [(1, 40_000), (4, 9000), (16, 3008), (3, 20_008)] {
            let source = noise(width * count);
            for kernel in kernels() {
                let mut there = vec![0; source.len()];
                let mut back = vec![0; source.len()];
                kernel.bitshuffle(width, &source, &mut there, &mut tile);
                assert_eq!(there, bitshuffled(width, &source), "{kernel:?} {width}");
                kernel.bitunshuffle(width, Planes::Contiguous(&there), &mut back, &mut tile);
                assert_eq!(back, source, "{kernel:?} {width}");
            }
        }
    }

    #[test]
    fn separate_planes_join_like_contiguous_planes() {
        let mut tile = ReusableBuffer::default();
        for (width, count) in [(2, 1000), (3, 1001), (4, 5000), (8, 1003), (15, 200), (16, 2000), (2, 4096)] {
            let source = noise(width * count);
            let planes: Vec<&[u8]> = source.chunks_exact(count).collect();
            for kernel in kernels() {
                let (mut contiguous, mut separate) = (vec![0; source.len()], vec![0; source.len()]);
                kernel.unshuffle(width, Planes::Contiguous(&source), &mut contiguous);
                kernel.unshuffle(width, Planes::Separate(&planes), &mut separate);
                assert_eq!(contiguous, separate, "{kernel:?} {width}");
                kernel.bitunshuffle(width, Planes::Contiguous(&source), &mut contiguous, &mut tile);
                kernel.bitunshuffle(width, Planes::Separate(&planes), &mut separate, &mut tile);
                assert_eq!(contiguous, separate, "{kernel:?} bits {width}");
            }
        }
    }
}
