//! The codec `delta`: <https://numcodecs.readthedocs.io/en/stable/filter/delta.html>.
//!
//! The encoding is the first item, then the difference of each item to the previous one, in the
//! item's own type with wraparound. The differences may be stored in another type. Decoding sums
//! them in the item's own type.

use super::element::{Element, Number};
use super::{extend_zeroed, BytesCodec, Config, Context};
use crate::error::{Error, Result};

/// Differences of consecutive items.
#[derive(Debug, Clone, Copy)]
struct Delta {
    item: Element,
    stored: Element,
}

pub(super) fn compile(config: &Config) -> Result<std::sync::Arc<dyn BytesCodec>> {
    let (item, stored) = (Element::of(config, "dtype")?, Element::of(config, "astype")?);
    let float = |element: Element| element.number == Number::Float;
    if (float(item) || float(stored)) && (item != stored || item.bytes == 2) {
        return Err(config.wrong("floating-point dtype and astype must be equal and have 4 or 8 bytes"));
    }
    Ok(std::sync::Arc::new(Delta { item, stored }))
}

/// An item, with the arithmetic of its type.
trait Word<const BYTES: usize>: Copy {
    fn of(bytes: [u8; BYTES]) -> Self;
    fn bytes(self) -> [u8; BYTES];
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
}

macro_rules! word {
    ($type:ty, $bytes:literal, $plus:expr, $minus:expr) => {
        impl Word<$bytes> for $type {
            fn of(bytes: [u8; $bytes]) -> Self {
                <$type>::from_le_bytes(bytes)
            }
            fn bytes(self) -> [u8; $bytes] {
                self.to_le_bytes()
            }
            fn plus(self, other: Self) -> Self {
                $plus(self, other)
            }
            fn minus(self, other: Self) -> Self {
                $minus(self, other)
            }
        }
    };
}

// Signed and unsigned integers with wraparound have the same bits.
word!(u8, 1, u8::wrapping_add, u8::wrapping_sub);
word!(u16, 2, u16::wrapping_add, u16::wrapping_sub);
word!(u32, 4, u32::wrapping_add, u32::wrapping_sub);
word!(u64, 8, u64::wrapping_add, u64::wrapping_sub);
word!(f32, 4, std::ops::Add::add, std::ops::Sub::sub);
word!(f64, 8, std::ops::Add::add, std::ops::Sub::sub);

fn ordered<const BYTES: usize, const BIG: bool>(bytes: &[u8]) -> [u8; BYTES] {
    let mut word = [0; BYTES];
    word.copy_from_slice(bytes);
    if BIG {
        word.reverse();
    }
    word
}

fn differences<W: Word<BYTES>, const BYTES: usize, const BIG: bool>(input: &[u8], out: &mut [u8]) {
    let Some(first) = input.first_chunk::<BYTES>() else { return };
    out[..BYTES].copy_from_slice(first);
    let pairs = input[BYTES..].chunks_exact(BYTES).zip(input.chunks_exact(BYTES));
    for ((item, previous), target) in pairs.zip(out[BYTES..].chunks_exact_mut(BYTES)) {
        let previous = W::of(ordered::<BYTES, BIG>(previous));
        let difference = W::of(ordered::<BYTES, BIG>(item)).minus(previous);
        target.copy_from_slice(&ordered::<BYTES, BIG>(&difference.bytes()));
    }
}

fn sums<W: Word<BYTES>, const BYTES: usize, const BIG: bool>(input: &[u8], out: &mut [u8]) {
    let Some(first) = input.first_chunk::<BYTES>() else { return };
    out[..BYTES].copy_from_slice(first);
    let mut sum = W::of(ordered::<BYTES, BIG>(first));
    let targets = out[BYTES..].chunks_exact_mut(BYTES);
    for (difference, target) in input[BYTES..].chunks_exact(BYTES).zip(targets) {
        sum = sum.plus(W::of(ordered::<BYTES, BIG>(difference)));
        target.copy_from_slice(&ordered::<BYTES, BIG>(&sum.bytes()));
    }
}

/// The instance of [`differences`] or [`sums`] for a type of items.
macro_rules! of_items {
    ($work:ident, $item:expr) => {
        match ($item.number, $item.bytes, $item.big_endian) {
            (Number::Float, 4, false) => $work::<f32, 4, false>,
            (Number::Float, 4, true) => $work::<f32, 4, true>,
            (Number::Float, _, false) => $work::<f64, 8, false>,
            (Number::Float, _, true) => $work::<f64, 8, true>,
            (_, 1, _) => $work::<u8, 1, false>,
            (_, 2, false) => $work::<u16, 2, false>,
            (_, 2, true) => $work::<u16, 2, true>,
            (_, 4, false) => $work::<u32, 4, false>,
            (_, 4, true) => $work::<u32, 4, true>,
            (_, _, false) => $work::<u64, 8, false>,
            (_, _, true) => $work::<u64, 8, true>,
        }
    };
}

impl Delta {
    /// Return the size of the encoding of `decoded` bytes, or an error.
    fn stored_bytes(self, decoded: usize) -> Result<usize> {
        whole(decoded, self.item.bytes).and_then(|items| times(items, self.stored.bytes))
    }

    fn decoded_bytes(self, stored: usize) -> Result<usize> {
        whole(stored, self.stored.bytes).and_then(|items| times(items, self.item.bytes))
    }

    fn encode_all(self, input: &[u8], out: &mut [u8]) {
        let Delta { item, stored } = self;
        if item != stored {
            let mut last = 0i64;
            let targets = out.chunks_exact_mut(stored.bytes);
            for (source, target) in input.chunks_exact(item.bytes).zip(targets) {
                let value = item.load(source);
                stored.store(item.wrap(value.wrapping_sub(last)), target);
                last = value;
            }
            return;
        }
        of_items!(differences, item)(input, out);
    }

    fn decode_all(self, input: &[u8], out: &mut [u8]) {
        let Delta { item, stored } = self;
        if item != stored {
            let mut sum = 0i64;
            let targets = out.chunks_exact_mut(item.bytes);
            for (source, target) in input.chunks_exact(stored.bytes).zip(targets) {
                sum = sum.wrapping_add(stored.load(source));
                item.store(sum, target);
            }
            return;
        }
        of_items!(sums, item)(input, out);
    }
}

fn whole(bytes: usize, item_bytes: usize) -> Result<usize> {
    if bytes % item_bytes == 0 {
        return Ok(bytes / item_bytes);
    }
    Err(Error::size(format!("{bytes} bytes are not whole items of {item_bytes}")))
}

fn times(items: usize, item_bytes: usize) -> Result<usize> {
    items
        .checked_mul(item_bytes)
        .ok_or_else(|| Error::size(format!("{items} items are too large for memory")))
}

impl BytesCodec for Delta {
    fn name(&self) -> &str {
        "delta"
    }

    fn fixed_size(&self, decoded: usize) -> Option<usize> {
        self.stored_bytes(decoded).ok()
    }

    fn bound(&self, decoded: usize) -> usize {
        (decoded / self.item.bytes).saturating_mul(self.stored.bytes)
    }

    fn decode_into(&self, input: &[u8], out: &mut [u8], _context: &mut Context) -> Result<()> {
        super::check_size(self.decoded_bytes(input.len())?, out.len())?;
        self.decode_all(input, out);
        Ok(())
    }

    fn decode(&self, input: &[u8], out: &mut Vec<u8>, limit: usize, _context: &mut Context) -> Result<()> {
        let size = self.decoded_bytes(input.len())?;
        super::check_limit(size, limit)?;
        out.clear();
        self.decode_all(input, extend_zeroed(out, size)?);
        Ok(())
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>, _context: &mut Context) -> Result<()> {
        let size = self.stored_bytes(input.len())?;
        self.encode_all(input, extend_zeroed(out, size)?);
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn run(dtype: &str, astype: &str, input: &[u8]) -> Vec<u8> {
        let codec = Config::new("delta").with("dtype", dtype).with("astype", astype).compile().unwrap();
        let (mut out, context) = (Vec::new(), &mut Context::default());
        codec.encode(input, &mut out, context).unwrap();
        let mut back = vec![0; input.len()];
        codec.decode_into(&out, &mut back, context).unwrap();
        assert_eq!(back, input);
        out
    }

    #[test]
    fn differences_wrap_and_narrow() {
        assert_eq!(run("|u1", "|u1", &[5, 3, 255, 0]), [5, 254, 252, 1]);
        assert_eq!(run(">i2", ">i2", &[1, 0, 1, 2, 0, 255]), [1, 0, 0, 2, 255, 253]);
        assert_eq!(run("<i2", "|i1", &[100, 0, 102, 0, 99, 0]), [100, 2, 253]);
        assert_eq!(run("|u1", ">i2", &[5, 3]), [0, 5, 0, 254]);
        assert_eq!(run("|i1", "<i2", &[5, 3]), [5, 0, 254, 255]);
        assert_eq!(run("<f4", "<f4", &[0, 0, 128, 63, 0, 0, 0, 64])[4..], [0, 0, 128, 63]);
        assert!(run("<f8", "<f8", &[]).is_empty());
    }

    #[test]
    fn partial_items_and_mixed_types_are_rejected() {
        let config =
            |dtype: &str, astype: &str| Config::new("delta").with("dtype", dtype).with("astype", astype);
        assert!(config("<f4", "<f8").compile().is_err());
        assert!(config("<f2", "<f2").compile().is_err());
        let codec = config("<i4", "<i2").compile().unwrap();
        let context = &mut Context::default();
        assert!(codec.encode(&[0; 5], &mut Vec::new(), context).is_err());
        assert!(codec.decode(&[0; 5], &mut Vec::new(), 100, context).is_err());
        assert!(codec.decode(&[0; 6], &mut Vec::new(), 11, context).is_err());
    }
}
