//! `crc32c`: <https://zarr-specs.readthedocs.io/en/latest/v3/codecs/crc32c/index.html>.
//!
//! The bytes as they are, then their CRC-32C (RFC 3720, Castagnoli polynomial)
//! as a little-endian u32.

use super::{BytesCodec, Context};
use crate::error::{Error, Result};
use crate::scratch::reserve;

const CHECKSUM_BYTES: usize = 4;

/// The checksum codec; it has no parameters.
#[derive(Debug, Clone, Copy)]
pub struct Crc32c;

fn checked(input: &[u8]) -> Result<&[u8]> {
    let Some((body, stored)) = input.split_last_chunk::<CHECKSUM_BYTES>() else {
        return Err(Error::size(format!("{} bytes cannot hold a 4-byte checksum", input.len())));
    };
    let (stored, computed) = (u32::from_le_bytes(*stored), crc32c::crc32c(body));
    if stored != computed {
        return Err(Error::checksum(stored, computed));
    }
    Ok(body)
}

impl BytesCodec for Crc32c {
    fn name(&self) -> &str {
        "crc32c"
    }

    fn fixed_size(&self, decoded: usize) -> Option<usize> {
        decoded.checked_add(CHECKSUM_BYTES)
    }

    fn least(&self, decoded: usize) -> usize {
        self.bound(decoded)
    }

    fn bound(&self, decoded: usize) -> usize {
        decoded.saturating_add(CHECKSUM_BYTES)
    }

    fn decode_into(&self, input: &[u8], out: &mut [u8], _context: &mut Context) -> Result<()> {
        let body = checked(input)?;
        super::check_size(body.len(), out.len())?;
        out.copy_from_slice(body);
        Ok(())
    }

    fn decode(&self, input: &[u8], out: &mut Vec<u8>, limit: usize, _context: &mut Context) -> Result<()> {
        out.clear();
        super::check_limit(input.len().saturating_sub(CHECKSUM_BYTES), limit)?;
        let body = checked(input)?;
        reserve(out, body.len())?;
        out.extend_from_slice(body);
        Ok(())
    }

    fn decode_view<'a>(&self, input: &'a [u8]) -> Option<Result<&'a [u8]>> {
        Some(checked(input))
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>, _context: &mut Context) -> Result<()> {
        out.reserve(input.len().saturating_add(CHECKSUM_BYTES));
        out.extend_from_slice(input);
        out.extend_from_slice(&crc32c::crc32c(input).to_le_bytes());
        Ok(())
    }

    fn encode_in_place(&self, data: &mut Vec<u8>) -> bool {
        let checksum = crc32c::crc32c(data);
        data.extend_from_slice(&checksum.to_le_bytes());
        true
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_one_of_rfc_3720() {
        let mut data = vec![0u8; 32];
        assert!(Crc32c.encode_in_place(&mut data));
        assert_eq!(data[32..], [0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(Crc32c.decode_view(&data).unwrap().unwrap(), [0u8; 32]);
    }

    #[test]
    fn a_mismatch_names_both_checksums() {
        let error = Crc32c.decode_view(&[0; 36]).unwrap().unwrap_err();
        assert_eq!(error.message, "checksum mismatch: stored 0x00000000, computed 0x8a9136aa");
        let error = Crc32c.decode_view(&[0; 3]).unwrap().unwrap_err();
        assert_eq!(error.message, "3 bytes cannot hold a 4-byte checksum");
    }
}
