//! Checksum codecs: 4 bytes before or after the data, as a little-endian u32.
//!
//! - `crc32c`: <https://zarr-specs.readthedocs.io/en/latest/v3/codecs/crc32c/index.html>
//! - `crc32`, `adler32`, `fletcher32`, `jenkins_lookup3`:
//!   <https://numcodecs.readthedocs.io/en/stable/checksum32.html>
//!
//! The last two are the variants of HDF5: Fletcher's checksum over big-endian words of 16 bits, and
//! Bob Jenkins' lookup3 in its little-endian form.

use super::deflate::{adler32, crc32};
use super::{BytesCodec, Config, Context};
use crate::error::{Error, Result};

const CHECKSUM_BYTES: usize = 4;

#[derive(Debug, Clone, Copy)]
enum Algorithm {
    Crc32c,
    Crc32,
    Adler32,
    Fletcher32,
    Lookup3 { initial: u32 },
}

/// A checksum codec.
#[derive(Debug, Clone, Copy)]
struct Checksum {
    algorithm: Algorithm,
    /// The checksum is at the start, otherwise at the end.
    at_start: bool,
}

pub(super) fn compile(config: &Config) -> Result<std::sync::Arc<dyn BytesCodec>> {
    let algorithm = match config.name() {
        "crc32c" => Algorithm::Crc32c,
        "crc32" => Algorithm::Crc32,
        "adler32" => Algorithm::Adler32,
        "fletcher32" => Algorithm::Fletcher32,
        _ => {
            let initial = config.integer("initval")?;
            let initial = u32::try_from(initial)
                .map_err(|_| config.wrong(format!("initval {initial} is not within 0 to 2^32 - 1")))?;
            Algorithm::Lookup3 { initial }
        }
    };
    Ok(std::sync::Arc::new(Checksum { algorithm, at_start: config.boolean("at_start")? }))
}

impl Checksum {
    fn compute(self, data: &[u8]) -> u32 {
        match self.algorithm {
            Algorithm::Crc32c => crc32c::crc32c(data),
            Algorithm::Crc32 => crc32(data),
            Algorithm::Adler32 => adler32(data),
            Algorithm::Fletcher32 => fletcher32(data),
            Algorithm::Lookup3 { initial } => lookup3(data, initial),
        }
    }

    /// Return the bytes without their checksum, after verifying it.
    fn verify(self, input: &[u8]) -> Result<&[u8]> {
        let parts = if self.at_start {
            input.split_first_chunk::<CHECKSUM_BYTES>().map(|(stored, body)| (body, stored))
        } else {
            input.split_last_chunk::<CHECKSUM_BYTES>()
        };
        let Some((body, stored)) = parts else {
            return Err(Error::size(format!("{} bytes cannot hold a 4-byte checksum", input.len())));
        };
        let (stored, computed) = (u32::from_le_bytes(*stored), self.compute(body));
        if stored != computed {
            return Err(Error::checksum(stored, computed));
        }
        Ok(body)
    }
}

impl BytesCodec for Checksum {
    fn name(&self) -> &str {
        match self.algorithm {
            Algorithm::Crc32c => "crc32c",
            Algorithm::Crc32 => "crc32",
            Algorithm::Adler32 => "adler32",
            Algorithm::Fletcher32 => "fletcher32",
            Algorithm::Lookup3 { .. } => "jenkins_lookup3",
        }
    }

    fn fixed_size(&self, decoded: usize) -> Option<usize> {
        decoded.checked_add(CHECKSUM_BYTES)
    }

    fn decode_view<'a>(&self, input: &'a [u8]) -> Option<Result<&'a [u8]>> {
        Some(self.verify(input))
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>, _context: &mut Context) -> Result<()> {
        out.reserve(input.len().saturating_add(CHECKSUM_BYTES));
        let checksum = self.compute(input).to_le_bytes();
        if self.at_start {
            out.extend_from_slice(&checksum);
        }
        out.extend_from_slice(input);
        if !self.at_start {
            out.extend_from_slice(&checksum);
        }
        Ok(())
    }

    fn encode_in_place(&self, data: &mut Vec<u8>) -> bool {
        if !self.at_start {
            let checksum = self.compute(data);
            data.extend_from_slice(&checksum.to_le_bytes());
        }
        !self.at_start
    }
}

/// Fletcher's checksum as HDF5 computes it: an odd last byte is the upper half of a word.
fn fletcher32(data: &[u8]) -> u32 {
    /// The number of words until the second sum may overflow 32 bits.
    const WORDS_PER_FOLD: usize = 360;
    let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
    let (mut first, mut second) = (0u32, 0u32);
    for block in data.chunks(2 * WORDS_PER_FOLD) {
        let words = block.chunks_exact(2);
        let last = words.remainder();
        for word in words {
            first += u32::from(u16::from_be_bytes([word[0], word[1]]));
            second += first;
        }
        if let [half] = last {
            first += u32::from(*half) << 8;
            second += first;
        }
        (first, second) = (fold(first), fold(second));
    }
    (first, second) = (fold(first), fold(second));
    second << 16 | first
}

/// `hashlittle` of <https://burtleburtle.net/bob/c/lookup3.c>.
fn lookup3(data: &[u8], initial: u32) -> u32 {
    /// Three words; missing bytes are zero.
    fn words(bytes: &[u8]) -> [u32; 3] {
        let mut block = [0; 12];
        block[..bytes.len()].copy_from_slice(bytes);
        [0, 4, 8].map(|index| {
            u32::from_le_bytes([block[index], block[index + 1], block[index + 2], block[index + 3]])
        })
    }
    /// Return the result of one step of both mixing functions.
    fn step(x: u32, y: u32, bits: u32) -> u32 {
        (x ^ y).wrapping_sub(y.rotate_left(bits))
    }
    let start = 0xdead_beef_u32.wrapping_add(data.len() as u32).wrapping_add(initial);
    let mut state = [start; 3];
    let add = |state: &mut [u32; 3], bytes: &[u8]| {
        for (sum, word) in state.iter_mut().zip(words(bytes)) {
            *sum = sum.wrapping_add(word);
        }
    };
    // The last block, of up to 12 bytes, has another mixing function; empty data has no block.
    let Some(last) = data.len().checked_sub(1).map(|end| end / 12 * 12) else { return start };
    for block in data[..last].chunks_exact(12) {
        for (sum, word) in state.iter_mut().zip(block.chunks_exact(4)) {
            *sum = sum.wrapping_add(u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        }
        let [mut a, mut b, mut c] = state;
        for (one, two, three) in [(4, 6, 8), (16, 19, 4)] {
            a = a.wrapping_sub(c) ^ c.rotate_left(one);
            c = c.wrapping_add(b);
            b = b.wrapping_sub(a) ^ a.rotate_left(two);
            a = a.wrapping_add(c);
            c = c.wrapping_sub(b) ^ b.rotate_left(three);
            b = b.wrapping_add(a);
        }
        state = [a, b, c];
    }
    add(&mut state, &data[last..]);
    let [mut a, mut b, mut c] = state;
    c = step(c, b, 14);
    a = step(a, c, 11);
    b = step(b, a, 25);
    c = step(c, b, 16);
    a = step(a, c, 4);
    b = step(b, a, 14);
    step(c, b, 24)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn codec(algorithm: Algorithm, at_start: bool) -> Checksum {
        Checksum { algorithm, at_start }
    }

    #[test]
    fn checksums_match_published_values() {
        let digits = b"123456789";
        assert_eq!(codec(Algorithm::Crc32c, false).compute(digits), 0xe306_9283);
        assert_eq!(codec(Algorithm::Crc32, false).compute(digits), 0xcbf4_3926);
        assert_eq!(codec(Algorithm::Adler32, false).compute(b"Wikipedia"), 0x11e6_0398);
        let score = b"Four score and seven years ago";
        assert_eq!(lookup3(score, 0), 0x1777_0551);
        assert_eq!(lookup3(score, 1), 0xcd62_8161);
        assert_eq!(lookup3(b"", 0), 0xdead_beef);
        // The sums of the words 0x6162, 0x6364 and 0x6500, folded.
        assert_eq!(fletcher32(b"abcde"), 0x4ff0_29c7);
    }

    #[test]
    fn mismatch_error_names_both_checksums() {
        let crc32c = codec(Algorithm::Crc32c, false);
        let error = crc32c.decode_view(&[0; 36]).unwrap().unwrap_err();
        assert_eq!(error.message, "checksum mismatch: stored 0x00000000, computed 0x8a9136aa");
        let error = crc32c.decode_view(&[0; 3]).unwrap().unwrap_err();
        assert_eq!(error.message, "3 bytes cannot hold a 4-byte checksum");
    }

    #[test]
    fn checksum_is_at_configured_end() {
        for at_start in [false, true] {
            let codec = codec(Algorithm::Crc32, at_start);
            let mut out = Vec::new();
            codec.encode(b"abc", &mut out, &mut Context::default()).unwrap();
            assert_eq!(out.starts_with(b"abc"), !at_start);
            assert_eq!(codec.decode_view(&out).unwrap().unwrap(), b"abc");
        }
    }
}
