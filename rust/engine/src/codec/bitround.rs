//! The codec `bitround`.
//!
//! <https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/bitround> rounds the
//! mantissas of floating-point numbers to `keepbits` bits, ties to even: an addition to the bits,
//! then a mask. Decoding changes nothing.

use super::element::{Element, Number};
use super::{extend_zeroed, BytesCodec, Config, Context};
use crate::error::{Error, Result};

/// Rounds the mantissas of floating-point numbers.
#[derive(Debug, Clone, Copy)]
struct BitRound {
    item: Element,
    /// The number of mantissa bits that become zero.
    dropped: u32,
}

pub(super) fn compile(config: &Config) -> Result<std::sync::Arc<dyn BytesCodec>> {
    let item = Element::of(config, "dtype")?;
    let mantissa = match (item.number, item.bytes) {
        (Number::Float, 2) => 10,
        (Number::Float, 4) => 23,
        (Number::Float, _) => 52,
        _ => return Err(config.wrong("only floating-point numbers have a mantissa")),
    };
    let keepbits = config.integer("keepbits")?;
    match u32::try_from(keepbits) {
        Ok(keep_bits) if keep_bits <= mantissa => {
            Ok(std::sync::Arc::new(BitRound { item, dropped: mantissa - keep_bits }))
        }
        _ => Err(config.wrong(format!("keepbits {keepbits} is not within 0 to {mantissa}"))),
    }
}

macro_rules! round {
    ($word:ty, $this:expr, $input:expr, $out:expr) => {{
        const BYTES: usize = size_of::<$word>();
        let (dropped, big_endian) = ($this.dropped, $this.item.big_endian);
        for (source, target) in $input.chunks_exact(BYTES).zip($out.chunks_exact_mut(BYTES)) {
            let mut bytes = [0; BYTES];
            bytes.copy_from_slice(source);
            let bits = if big_endian { <$word>::from_be_bytes(bytes) } else { <$word>::from_le_bytes(bytes) };
            // Less than half of the last remaining bit, or half if that bit is set.
            let half = (1 << (dropped - 1)) - 1 + (bits >> dropped & 1);
            let bits = bits.wrapping_add(half) >> dropped << dropped;
            target.copy_from_slice(&if big_endian { bits.to_be_bytes() } else { bits.to_le_bytes() });
        }
    }};
}

impl BytesCodec for BitRound {
    fn name(&self) -> &str {
        "bitround"
    }

    fn fixed_size(&self, decoded: usize) -> Option<usize> {
        Some(decoded)
    }

    fn decode_view<'a>(&self, input: &'a [u8]) -> Option<Result<&'a [u8]>> {
        Some(Ok(input))
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>, _context: &mut Context) -> Result<()> {
        if input.len() % self.item.bytes != 0 {
            let (bytes, item) = (input.len(), self.item.bytes);
            return Err(Error::size(format!("{bytes} bytes are not whole items of {item}")));
        }
        let out = extend_zeroed(out, input.len())?;
        match (self.dropped, self.item.bytes) {
            (0, _) => out.copy_from_slice(input),
            (_, 2) => round!(u16, self, input, out),
            (_, 4) => round!(u32, self, input, out),
            _ => round!(u64, self, input, out),
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn rounded(keepbits: i64, number: f32) -> f32 {
        let config = Config::new("bitround").with("dtype", "<f4").with("keepbits", keepbits);
        let mut out = Vec::new();
        let codec = config.compile().unwrap();
        codec.encode(&number.to_le_bytes(), &mut out, &mut Context::default()).unwrap();
        assert_eq!(codec.decode_view(&out).unwrap().unwrap(), out);
        f32::from_le_bytes(out.try_into().unwrap())
    }

    #[test]
    fn mantissas_are_rounded_to_even() {
        assert_eq!(rounded(1, 1.25), 1.0);
        assert_eq!(rounded(1, 1.75), 2.0);
        assert_eq!(rounded(1, -1.26), -1.5);
        assert_eq!(rounded(23, 1.1), 1.1);
        assert_eq!(rounded(0, 1.4), 1.0);
    }

    #[test]
    fn keepbits_above_mantissa_is_rejected() {
        for (dtype, keepbits) in [("<f4", 24), ("<f2", 11), ("<f8", -1), ("<i4", 3)] {
            assert!(Config::new("bitround")
                .with("dtype", dtype)
                .with("keepbits", keepbits)
                .compile()
                .is_err());
        }
    }
}
