//! Variable-length elements (text, bytes): handles in memory, one layout in the store.
//!
//! In memory an element is a [`Handle`]: the address and the length of bytes stored elsewhere.
//! Handles are items of one size, so all code that moves items (selections, edges, transposes,
//! shards, partial writes) moves them like any other item. Only three functions look behind a
//! handle: decoding a chunk creates handles that point into its decoded bytes, encoding reads the
//! bytes, and the comparison with the fill value compares the bytes.
//!
//! A stored chunk is a count (u32), then a length (u32) and the bytes of each element, all numbers
//! little-endian. This is the layout of numcodecs' `vlen-utf8`, `vlen-bytes` and `vlen-array`, and
//! of the codecs `vlen-utf8` and `vlen-bytes` of format 3.

use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::scratch::reserve;

/// The size of a handle.
pub const HANDLE_BYTES: usize = size_of::<Handle>();

/// The size of a count or length in the layout.
const WORD: usize = 4;

/// The maximum count and length that the layout can represent.
const MAX_COUNT: usize = u32::MAX as usize;

/// A condition that elements satisfy.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Elements are UTF-8.
    pub is_text: bool,
    /// The size of an element is a multiple of this number.
    pub unit_bytes: usize,
}

/// The address and the length of the bytes of one element.
///
/// A handle does not own its bytes: its creator keeps them alive. The address is an exposed
/// pointer, because handles are moved as plain bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Handle {
    address: usize,
    length: usize,
}

impl Handle {
    /// Return the handle of `bytes`.
    pub fn of(bytes: &[u8]) -> Handle {
        Handle { address: bytes.as_ptr().expose_provenance(), length: bytes.len() }
    }

    /// Return the number of bytes.
    pub fn length(self) -> usize {
        self.length
    }

    /// Return the bytes.
    ///
    /// # Safety
    /// The bytes are alive at the address of the handle and do not change during `'a`.
    pub unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: the caller's promise; `of` exposed the address of a live slice.
        unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(self.address), self.length) }
    }

    /// Return the handle as an item.
    pub fn to_item(self) -> [u8; HANDLE_BYTES] {
        let mut item = [0; HANDLE_BYTES];
        let (address, length) = item.split_at_mut(HANDLE_BYTES / 2);
        address.copy_from_slice(&self.address.to_ne_bytes());
        length.copy_from_slice(&self.length.to_ne_bytes());
        item
    }

    /// Return the handle at `address`.
    ///
    /// # Safety
    /// `HANDLE_BYTES` bytes are readable at `address`. They need to be a valid handle only when its
    /// bytes are read.
    unsafe fn read(address: *const u8) -> Handle {
        // SAFETY: the caller's promise; any bytes are two integers.
        unsafe { address.cast::<Handle>().read_unaligned() }
    }
}

/// Return the consecutive handles in `items`.
pub fn handles(items: &[u8]) -> impl ExactSizeIterator<Item = Handle> + '_ {
    // SAFETY: each item has the size of a handle.
    items.chunks_exact(HANDLE_BYTES).map(|item| unsafe { Handle::read(item.as_ptr()) })
}

/// The bytes of the handles that a read returns. The arena owns them.
#[derive(Default)]
pub struct Arena {
    buffers: Mutex<Vec<Vec<u8>>>,
}

impl Arena {
    /// Add `bytes`; their address does not change.
    pub fn add(&self, bytes: Vec<u8>) {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
    }

    /// Move all buffers to a new arena.
    pub fn take(&self) -> Arena {
        let buffers = std::mem::take(&mut *self.buffers.lock().unwrap_or_else(PoisonError::into_inner));
        Arena { buffers: Mutex::new(buffers) }
    }
}

/// Return the maximum size of the layout of `items` elements.
///
/// The metadata does not limit the length of elements, but a few stored bytes must not expand
/// without bound: the limit is 64 bytes per element on average, plus 1 GiB.
pub fn max_bytes(items: usize) -> usize {
    items.saturating_mul(64).saturating_add(1 << 30)
}

/// Return whether the layout can count `items` elements.
pub fn can_count(items: u64) -> bool {
    items <= MAX_COUNT as u64
}

/// Write handles of all elements of `layout` to `out`. The handles point into `layout`.
pub fn decode(layout: &[u8], out: &mut [u8], kind: Kind) -> Result<()> {
    let items = out.len() / HANDLE_BYTES;
    let (count, mut rest) = word(layout)
        .ok_or_else(|| Error::size(format!("{} bytes cannot hold the element count", layout.len())))?;
    if count != items {
        return Err(Error::size(format!("has {count} elements, the chunk has {items}")));
    }
    for (number, item) in out.chunks_exact_mut(HANDLE_BYTES).enumerate() {
        let element = word(rest).and_then(|(length, after)| after.split_at_checked(length));
        let Some((element, after)) = element else {
            return Err(Error::size(format!("element {number} of {items} reaches past the end")));
        };
        if element.len() % kind.unit_bytes.max(1) != 0 {
            let (bytes, unit) = (element.len(), kind.unit_bytes);
            return Err(Error::size(format!(
                "element {number} of {items} has {bytes} bytes, no multiple of {unit}"
            )));
        }
        if kind.is_text {
            if let Err(error) = std::str::from_utf8(element) {
                return Err(Error::data(format!("element {number} of {items} is not UTF-8: {error}")));
            }
        }
        item.copy_from_slice(&Handle::of(element).to_item());
        rest = after;
    }
    if rest.is_empty() {
        return Ok(());
    }
    Err(Error::size(format!("{} bytes follow the last element", rest.len())))
}

fn word(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (word, rest) = bytes.split_first_chunk::<WORD>()?;
    Some((u32::from_le_bytes(*word) as usize, rest))
}

/// Append the layout of the elements of `items` to `out`.
///
/// # Safety
/// The bytes of all handles are alive and do not change until this returns.
pub unsafe fn encode(items: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let sum = handles(items).try_fold(WORD, |sum, handle| sum.checked_add(WORD)?.checked_add(handle.length));
    reserve(out, sum.unwrap_or(usize::MAX))?;
    out.extend_from_slice(&length_word(items.len() / HANDLE_BYTES)?);
    for handle in handles(items) {
        out.extend_from_slice(&length_word(handle.length)?);
        // SAFETY: the caller's promise.
        out.extend_from_slice(unsafe { handle.bytes() });
    }
    Ok(())
}

fn length_word(length: usize) -> Result<[u8; WORD]> {
    match u32::try_from(length) {
        Ok(length) => Ok(length.to_le_bytes()),
        Err(_) => {
            Err(Error::argument(format!("an element has {length} bytes, more than the maximum of 2^32 - 1")))
        }
    }
}

/// Return whether every element of `items` equals `fill`.
///
/// # Safety
/// As for [`encode`].
pub unsafe fn is_filled(items: &[u8], fill: &[u8]) -> bool {
    // SAFETY: the caller's promise. Handles of one length may still differ in bytes.
    handles(items).all(|handle| handle.length == fill.len() && unsafe { handle.bytes() } == fill)
}

/// Copy the elements of some items of a chunk to new memory, and point their handles to the copies.
///
/// # Safety
/// `offsets` are offsets of items in `items`; the bytes of their handles are alive.
pub unsafe fn gather<I: Iterator<Item = usize>>(
    items: &mut [u8],
    offsets: impl Fn() -> I,
) -> Result<Vec<u8>> {
    let handle_at = |items: &[u8], offset: usize| handles(&items[offset..offset + HANDLE_BYTES]).next();
    let length = |offset| handle_at(items, offset).map_or(0, Handle::length);
    let sum = offsets().try_fold(0usize, |sum, offset| sum.checked_add(length(offset)));
    let mut copies: Vec<u8> = Vec::new();
    reserve(&mut copies, sum.unwrap_or(usize::MAX))?;
    for offset in offsets() {
        let Some(handle) = handle_at(items, offset) else { continue };
        let start = copies.len();
        // SAFETY: the caller's promise; for a repeated offset, a handle into `copies`, whose
        // capacity suffices for all, so it does not move.
        let (src, dst) = unsafe { (handle.bytes().as_ptr(), copies.as_mut_ptr().add(start)) };
        // SAFETY: the reserved, unwritten memory begins at `dst`.
        unsafe {
            std::ptr::copy_nonoverlapping(src, dst, handle.length);
            copies.set_len(start + handle.length);
        }
        items[offset..offset + HANDLE_BYTES].copy_from_slice(&Handle::of(&copies[start..]).to_item());
    }
    Ok(copies)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn items(elements: &[&[u8]]) -> Vec<u8> {
        elements.iter().flat_map(|element| Handle::of(element).to_item()).collect()
    }

    fn decoded(layout: &[u8], count: usize, is_text: bool) -> Result<Vec<Vec<u8>>> {
        let mut out = vec![0; count * HANDLE_BYTES];
        decode(layout, &mut out, Kind { is_text, unit_bytes: 1 })?;
        // SAFETY: `layout` is alive.
        Ok(handles(&out).map(|handle| unsafe { handle.bytes() }.to_vec()).collect())
    }

    #[test]
    fn layout_is_numcodecs() {
        let mut out = b"before".to_vec();
        // SAFETY: the elements are static.
        unsafe { encode(&items(&[b"foo", b"", b"\xc3\xa9"]), &mut out).unwrap() };
        assert_eq!(&out[6..], b"\x03\0\0\0\x03\0\0\0foo\0\0\0\0\x02\0\0\0\xc3\xa9");
        assert_eq!(decoded(&out[6..], 3, true).unwrap(), [&b"foo"[..], b"", b"\xc3\xa9"]);
    }

    #[test]
    fn decode_rejects_damaged_layouts() {
        let good = b"\x02\0\0\0\x01\0\0\0a\x01\0\0\0b";
        assert_eq!(decoded(good, 2, true).unwrap(), [b"a", b"b"]);
        let refused = |layout: &[u8], count, why: &str| {
            let error = decoded(layout, count, true).unwrap_err();
            assert_eq!(error.kind, crate::Kind::Data);
            assert!(error.message.contains(why), "{}", error.message);
        };
        refused(b"\x02\0\0", 2, "cannot hold the element count");
        refused(good, 3, "has 2 elements, the chunk has 3");
        refused(&good[..13], 2, "element 1 of 2 reaches past the end");
        refused(&good[..11], 2, "element 1 of 2 reaches past the end");
        refused(b"\x01\0\0\0\xff\xff\xff\xffabc", 1, "reaches past the end");
        refused(&[good, &b"!"[..]].concat(), 2, "1 bytes follow");
        refused(b"\x01\0\0\0\x01\0\0\0\xc3", 1, "not UTF-8");
        assert_eq!(decoded(b"\x01\0\0\0\x01\0\0\0\xc3", 1, false).unwrap(), [b"\xc3"]);
    }

    #[test]
    fn is_filled_compares_elements() {
        // SAFETY: the elements are static.
        unsafe {
            assert!(is_filled(&items(&[b"ab", b"ab"]), b"ab"));
            assert!(!is_filled(&items(&[b"aba", b"b"]), b"ab"));
            assert!(!is_filled(&items(&[b"ab", b"ac"]), b"ab"));
            assert!(is_filled(&items(&[b"", b""]), b""));
        }
    }

    #[test]
    fn gather_copies_elements() {
        let source = b"onetwothree".to_vec();
        let mut chunk = items(&[&source[..3], &source[3..6], &source[6..]]);
        let offsets = [32usize, 0, 32];
        // SAFETY: `source` is alive.
        let copies = unsafe { gather(&mut chunk, || offsets.iter().copied()).unwrap() };
        assert_eq!(copies, b"threeonethree");
        drop(source);
        // SAFETY: these two point to `copies` now.
        let gathered: Vec<&[u8]> =
            handles(&chunk).step_by(2).map(|handle| unsafe { handle.bytes() }).collect();
        assert_eq!(gathered, [&b"one"[..], b"three"]);
    }
}
