//! The codec `lz4`: <https://numcodecs.readthedocs.io/en/stable/compression/lz4.html>.
//!
//! The framing of numcodecs is the decoded size as a little-endian u32, then one raw LZ4 block (not
//! the LZ4 frame format), see <https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md>. A
//! block has no checksum.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use super::{as_uninit, BytesCodec, Config, Context};
use crate::error::{Error, Result};
use crate::scratch::reserve;

const SIZE_BYTES: usize = 4;

/// The maximum size of an input of LZ4.
const MAX_INPUT: usize = 0x7E00_0000;

/// The maximum compression ratio of an LZ4 block.
const MAX_RATIO: usize = 255;

extern "C" {
    fn LZ4_sizeofStateHC() -> c_int;
    fn LZ4_compress_HC_extStateHC(
        state: *mut c_void,
        source: *const libc::c_char,
        target: *mut libc::c_char,
        source_bytes: c_int,
        target_bytes: c_int,
        level: c_int,
    ) -> c_int;
}

/// Decode one raw block to exactly `out.len()` bytes, all of which are then initialised.
pub(super) fn decode_block(input: &[u8], out: &mut [MaybeUninit<u8>]) -> Result<()> {
    let (Ok(input_bytes), Ok(out_bytes)) = (c_int::try_from(input.len()), c_int::try_from(out.len())) else {
        return Err(Error::data(format!("an LZ4 block of {} bytes is too large", input.len())));
    };
    // SAFETY: both pointers are valid for their lengths; the function reads and writes within them
    // for any input.
    let written = unsafe {
        lz4_sys::LZ4_decompress_safe(input.as_ptr().cast(), out.as_mut_ptr().cast(), input_bytes, out_bytes)
    };
    if written == out_bytes {
        Ok(())
    } else if written >= 0 {
        Err(Error::size(format!("decodes to {written} bytes, expected {out_bytes}")))
    } else {
        Err(Error::data(format!(
            "damaged LZ4 block, or more than {out_bytes} decoded bytes (at byte {} of {input_bytes})",
            -i64::from(written) - 1
        )))
    }
}

/// Encode one raw block into `out`. Return the number of bytes written, or 0 if `out` is too
/// small.
pub(super) fn encode_block(input: &[u8], out: &mut [MaybeUninit<u8>], acceleration: c_int) -> usize {
    let Ok(input_bytes) = c_int::try_from(input.len()) else { return 0 };
    let capacity = c_int::try_from(out.len()).unwrap_or(c_int::MAX);
    // SAFETY: both pointers are valid for their lengths.
    let written = unsafe {
        lz4_sys::LZ4_compress_fast(
            input.as_ptr().cast(),
            out.as_mut_ptr().cast(),
            input_bytes,
            capacity,
            acceleration,
        )
    };
    usize::try_from(written).unwrap_or(0)
}

/// Like [`encode_block`], with the high-compression search of `level`.
pub(super) fn encode_block_hc(
    input: &[u8],
    out: &mut [MaybeUninit<u8>],
    level: c_int,
    context: &mut Context,
) -> usize {
    let Ok(input_bytes) = c_int::try_from(input.len()) else { return 0 };
    let capacity = c_int::try_from(out.len()).unwrap_or(c_int::MAX);
    // SAFETY: the function has no parameters and returns a constant.
    let state_bytes = unsafe { LZ4_sizeofStateHC() };
    let state = context.lz4hc(usize::try_from(state_bytes).unwrap_or(0));
    // SAFETY: `state` has the size that LZ4 requires and 8-byte alignment, and the call initialises
    // it; the other pointers are valid for their lengths.
    let written = unsafe {
        LZ4_compress_HC_extStateHC(
            state.as_mut_ptr().cast(),
            input.as_ptr().cast(),
            out.as_mut_ptr().cast(),
            input_bytes,
            capacity,
            level,
        )
    };
    usize::try_from(written).unwrap_or(0)
}

/// Return the maximum size of a block of `decoded` bytes.
fn block_bound(decoded: usize) -> usize {
    decoded.saturating_add(decoded / 255).saturating_add(16)
}

/// LZ4 in numcodecs' framing.
#[derive(Debug, Clone, Copy)]
struct Lz4 {
    acceleration: c_int,
}

pub(super) fn compile(config: &Config) -> Result<std::sync::Arc<dyn BytesCodec>> {
    Ok(std::sync::Arc::new(Lz4::new(config.integer("acceleration")?)?))
}

impl Lz4 {
    /// `acceleration` trades ratio for speed; below 1 means 1, as in LZ4.
    fn new(acceleration: i64) -> Result<Self> {
        c_int::try_from(acceleration)
            .map(|acceleration| Lz4 { acceleration })
            .map_err(|_| Error::argument(format!("lz4: acceleration {acceleration} is not a 32-bit integer")))
    }
}

/// Return the decoded size in the framing, and the block.
fn split(input: &[u8]) -> Result<(usize, &[u8])> {
    let Some((size, block)) = input.split_first_chunk::<SIZE_BYTES>() else {
        return Err(Error::data(format!("{} bytes cannot hold the 4-byte size", input.len())));
    };
    let size = u32::from_le_bytes(*size) as usize;
    if size > MAX_INPUT || size > block.len().saturating_mul(MAX_RATIO) {
        return Err(Error::data(format!("a block of {} bytes cannot decode to {size}", block.len())));
    }
    Ok((size, block))
}

impl BytesCodec for Lz4 {
    fn name(&self) -> &str {
        "lz4"
    }

    fn bound(&self, decoded: usize) -> usize {
        block_bound(decoded).saturating_add(SIZE_BYTES)
    }

    fn min_encoded(&self, decoded: usize) -> usize {
        decoded / MAX_RATIO
    }

    fn decode_into(&self, input: &[u8], out: &mut [u8], _context: &mut Context) -> Result<()> {
        let (size, block) = split(input)?;
        super::check_size(size, out.len())?;
        // SAFETY: `decode_block` writes only initialised bytes.
        decode_block(block, unsafe { as_uninit(out) })
    }

    fn decode(&self, input: &[u8], out: &mut Vec<u8>, limit: usize, _context: &mut Context) -> Result<()> {
        out.clear();
        let (size, block) = split(input)?;
        super::check_limit(size, limit)?;
        reserve(out, size)?;
        decode_block(block, &mut out.spare_capacity_mut()[..size])?;
        // SAFETY: the block filled all `size` bytes.
        unsafe { out.set_len(size) };
        Ok(())
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>, _context: &mut Context) -> Result<()> {
        if input.len() > MAX_INPUT {
            return Err(Error::argument(format!(
                "lz4 takes at most {MAX_INPUT} bytes at once, got {}",
                input.len()
            )));
        }
        out.reserve(self.bound(input.len()));
        out.extend_from_slice(&(input.len() as u32).to_le_bytes());
        let written = encode_block(input, out.spare_capacity_mut(), self.acceleration);
        if written == 0 {
            return Err(Error::internal("LZ4 wrote more than its bound"));
        }
        // SAFETY: `written` bytes after the old end were just written.
        unsafe { out.set_len(out.len() + written) };
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn impossible_size_is_rejected_before_allocation() {
        let input = [0xff, 0xff, 0xff, 0x7d, 0];
        let mut out = Vec::new();
        let error = Lz4 { acceleration: 1 }
            .decode(&input, &mut out, usize::MAX, &mut Context::default())
            .unwrap_err();
        assert_eq!(error.message, "a block of 1 bytes cannot decode to 2113929215");
        assert_eq!(out.capacity(), 0);
    }

    #[test]
    fn any_32_bit_acceleration_is_accepted() {
        assert!(Lz4::new(-5).is_ok());
        assert_eq!(Lz4::new(1 << 40).unwrap_err().kind, Kind::Argument);
    }
}
