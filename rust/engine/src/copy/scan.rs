//! Scans over one contiguous buffer.

/// Return whether every item of `data` equals `item` bit by bit. False if the size of `data` is no
/// multiple of the item size. An empty buffer is filled.
#[must_use]
pub fn is_filled(data: &[u8], item: &[u8]) -> bool {
    if item.is_empty() || data.len() % item.len() != 0 {
        return data.is_empty();
    }
    // The first item matches and each item equals the previous one: one comparison of the buffer
    // with itself, shifted, at memcmp's speed.
    match data.get(..item.len()) {
        Some(first) => first == item && data[item.len()..] == data[..data.len() - item.len()],
        None => true,
    }
}

/// Return whether every byte is 0 or 1.
#[must_use]
pub fn are_valid_bools(data: &[u8]) -> bool {
    // Blocks, so that the inner loop has no exit and is vectorised.
    data.chunks(4096).all(|block| block.iter().fold(0, |seen, &byte| seen | byte) & 0xfe == 0)
}

/// Replace every byte other than 0 by 1. NumPy treats any nonzero byte as true (a mask may be a
/// view of bytes), but stored bytes other than 0 and 1 would be invalid.
pub fn normalize_bools(data: &mut [u8]) {
    for byte in data {
        *byte = u8::from(*byte != 0);
    }
}

/// Reverse the bytes of each group of `unit`; a shorter rest stays unchanged.
pub fn swap_in_place(data: &mut [u8], unit: usize) {
    match unit {
        0 | 1 => {}
        2 => swap_units::<2>(data, |group| u16::from_ne_bytes(group).swap_bytes().to_ne_bytes()),
        4 => swap_units::<4>(data, |group| u32::from_ne_bytes(group).swap_bytes().to_ne_bytes()),
        8 => swap_units::<8>(data, |group| u64::from_ne_bytes(group).swap_bytes().to_ne_bytes()),
        _ => data.chunks_exact_mut(unit).for_each(<[u8]>::reverse),
    }
}

#[inline(always)]
fn swap_units<const N: usize>(data: &mut [u8], swap: impl Fn([u8; N]) -> [u8; N]) {
    for group in data.chunks_exact_mut(N) {
        if let Ok(group) = <&mut [u8; N]>::try_from(group) {
            *group = swap(*group);
        }
    }
}
