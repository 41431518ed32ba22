//! BloscLZ, the compressor included in Blosc: a byte-oriented LZ77 similar to FastLZ.
//!
//! A stream is a sequence of instructions. The first byte `c` of each selects:
//!
//! - `c < 32`: `c + 1` literal bytes follow. The first instruction is always of this kind; the
//!   upper three bits of the very first byte are a marker.
//! - Otherwise a match. Its length is `(c >> 5) + 2`; if `c >> 5` is 7, bytes follow that are added
//!   to the length, up to and including the first that is not 255. Then a byte `d` follows: the
//!   match starts `((c & 31) << 8 | d) + 1` bytes back. If those 13 bits are all set, two more
//!   bytes (big-endian) are the distance beyond 8192.
//!
//! The format has no end mark and no checksum. Other readers expect an instruction after the last
//! match, so the writer ends streams with literals.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::super::check_size;
use super::super::context::Scratch;
use crate::error::{Error, Result};

const MAX_LITERALS: usize = 32;
/// The marker of c-blosc in the first byte.
const MARKER: u8 = 32;
/// Shorter distances take two bytes together with the length.
const MIN_FAR_DISTANCE: usize = 8192;
/// The maximum distance of a match.
const MAX_DISTANCE: usize = MIN_FAR_DISTANCE + 65_532;
const SHORTEST_MATCH: usize = 4;
/// Matches neither start within the last 12 bytes nor contain the last one.
const TAIL: usize = 12;
const SMALLEST_INPUT: usize = 16;
const SMALLEST_OUTPUT: usize = 66;
/// The size of the sample that is compressed first.
const PROBE_BYTES: usize = 4096;

const TRUNCATED: &str = "truncated";
const TOO_LONG: &str = "more bytes than expected";

/// Decode `input` to exactly `out.len()` bytes.
pub(super) fn decode(input: &[u8], out: &mut [u8]) -> Result<()> {
    let damaged = |why| Error::data(format!("damaged BloscLZ stream: {why}"));
    check_size(decode_instructions(input, out).map_err(damaged)?, out.len())
}

/// Return the decoded size, or the error.
fn decode_instructions(input: &[u8], out: &mut [u8]) -> std::result::Result<usize, &'static str> {
    let mut reader = Reader { input, position: 0 };
    let mut filled = 0;
    let mut control = reader.byte()? & 31;
    loop {
        if control < 32 {
            let count = usize::from(control) + 1;
            reader.literals(count, &mut out[filled..])?;
            filled += count;
        } else {
            let (distance, length) = reader.matched(control)?;
            if distance > filled {
                return Err("a match starts before the block");
            }
            if length > out.len() - filled {
                return Err(TOO_LONG);
            }
            repeat(out, filled, distance, length);
            filled += length;
        }
        if reader.position >= input.len() {
            return Ok(filled);
        }
        control = reader.byte()?;
    }
}

struct Reader<'a> {
    input: &'a [u8],
    position: usize,
}

impl Reader<'_> {
    #[inline(always)]
    fn byte(&mut self) -> std::result::Result<u8, &'static str> {
        let byte = *self.input.get(self.position).ok_or(TRUNCATED)?;
        self.position += 1;
        Ok(byte)
    }

    /// Return the distance and the length of a match.
    #[inline(always)]
    fn matched(&mut self, control: u8) -> std::result::Result<(usize, usize), &'static str> {
        let mut length = usize::from(control >> 5) + 2;
        if control >> 5 == 7 {
            loop {
                let more = self.byte()?;
                length += usize::from(more);
                if more != 255 {
                    break;
                }
            }
        }
        let offset = usize::from(control & 31) << 8 | usize::from(self.byte()?);
        if offset < MIN_FAR_DISTANCE - 1 {
            return Ok((offset + 1, length));
        }
        let beyond = usize::from(self.byte()?) << 8 | usize::from(self.byte()?);
        Ok((MIN_FAR_DISTANCE + beyond, length))
    }

    #[inline(always)]
    fn literals(&mut self, count: usize, target: &mut [u8]) -> std::result::Result<(), &'static str> {
        let source = &self.input[self.position..];
        if let (Some(source), Some(target)) =
            (source.first_chunk::<MAX_LITERALS>(), target.first_chunk_mut::<MAX_LITERALS>())
        {
            // Bytes after `count` are overwritten later; a copy of fixed size is one or two moves.
            *target = *source;
        } else {
            let source = source.get(..count).ok_or(TRUNCATED)?;
            target.get_mut(..count).ok_or(TOO_LONG)?.copy_from_slice(source);
        }
        self.position += count;
        Ok(())
    }
}

/// Fill `length` bytes at `filled` with the bytes `distance` before; they may overlap.
///
/// The caller has checked that both are within `out`.
#[inline(always)]
fn repeat(out: &mut [u8], filled: usize, distance: usize, length: usize) {
    let start = filled - distance;
    if distance == 1 {
        let byte = out[start];
        out[filled..filled + length].fill(byte);
        return;
    }
    if out.len() - filled < length + WIDE {
        // The pattern doubles with each copy.
        let mut copied = 0;
        while copied < length {
            let count = (distance + copied).min(length - copied);
            out.copy_within(start..start + count, filled + copied);
            copied += count;
        }
        return;
    }
    // SAFETY: `filled + length + WIDE` is within `out`, and so is everything
    // before `filled`; 16 bytes at a distance of at least 16 do not overlap.
    unsafe {
        let from = out.as_ptr().add(start);
        let to = out.as_mut_ptr().add(filled);
        let mut copied = 0;
        if distance >= WIDE {
            while copied < length {
                std::ptr::copy_nonoverlapping(from.add(copied), to.add(copied), WIDE);
                copied += WIDE;
            }
            return;
        }
        // Store whole repetitions of the pattern, so that no load waits for a store.
        let mut pattern = [0u8; WIDE];
        let mut phase = 0;
        for byte in &mut pattern {
            *byte = *from.add(phase);
            phase = if phase + 1 == distance { 0 } else { phase + 1 };
        }
        let step = WIDE - phase;
        while copied < length {
            std::ptr::copy_nonoverlapping(pattern.as_ptr(), to.add(copied), WIDE);
            copied += step;
        }
    }
}

/// The size of a copy where `out` has space.
const WIDE: usize = 16;

/// Encode `input` into `out`. Return the number of bytes written, or 0 if compression does not
/// pay.
///
/// `level` 1 to 9 sets how well a sample must compress; `split` is true for one of several streams
/// of a block. Both decisions and the match search are those of c-blosc, so the output is
/// identical.
pub(super) fn encode(
    level: u8,
    split: bool,
    input: &[u8],
    out: &mut [MaybeUninit<u8>],
    scratch: &mut Scratch,
) -> usize {
    if input.len() < SMALLEST_INPUT || out.len() < SMALLEST_OUTPUT {
        return 0;
    }
    let positions = &mut scratch.positions;
    let sample = &input[input.len() - input.len() / 4..];
    let ratio = guess_ratio(&sample[..sample.len().min(PROBE_BYTES)], positions);
    if ratio < least_ratio(level) {
        return 0;
    }
    let is_compressible = split && ratio >= 4.0;
    let search = Search {
        hash_bits: match level {
            1 => 12,
            2 => 13,
            _ => 14,
        },
        trim: if is_compressible { 2 } else { 1 },
        shortest: if is_compressible { 6 } else { 5 },
        shortest_far: 8,
        two_hashes: level == 9,
    };
    compress(&search, input, out, positions).unwrap_or(0)
}

/// Below this ratio compression is not worth the time.
fn least_ratio(level: u8) -> f64 {
    match level {
        0 | 1 => 2.0,
        2 => 1.5,
        3..=6 => 1.2,
        7 => 1.15,
        8 => 1.1,
        _ => 1.0,
    }
}

/// Return the estimated ratio of `sample`; 0 if it is too short.
fn guess_ratio(sample: &[u8], positions: &mut Vec<u32>) -> f64 {
    let search = Search { hash_bits: 12, trim: 1, shortest: 5, shortest_far: 5, two_hashes: false };
    // The estimate starts after four literals that do not count as input.
    let (mut size, mut literals) = (5, 4);
    let literal = |size: &mut usize, literals: &mut usize, count: usize| {
        *size += count + (*literals + count) / MAX_LITERALS;
        *literals = (*literals + count) % MAX_LITERALS;
    };
    let read = search.each_match(sample, 0, positions, |new, distance, length| {
        literal(&mut size, &mut literals, new.len());
        size -= usize::from(literals == 0);
        literals = 0;
        size += if length >= 9 { (length - 9) / 255 + 1 } else { 0 };
        size += if distance < MIN_FAR_DISTANCE { 3 } else { 5 };
        Some(())
    });
    let Some((anchor, position)) = read else { return 0.0 };
    literal(&mut size, &mut literals, position - anchor);
    position as f64 / size as f64
}

/// The parameters of the match search.
struct Search {
    hash_bits: u32,
    /// The number of bytes by which matches end early. At a boundary of two runs, the end of the
    /// first and the start of the second often begin a long match.
    trim: usize,
    shortest: usize,
    shortest_far: usize,
    /// The second position before the end of a match is also hashed.
    two_hashes: bool,
}

impl Search {
    /// Call `on_match` with the literals before each match, its distance and its length. Returns
    /// the end of the last match and the end of the search.
    #[inline(always)]
    fn each_match(
        &self,
        input: &[u8],
        start: usize,
        positions: &mut Vec<u32>,
        mut on_match: impl FnMut(Range<usize>, usize, usize) -> Option<()>,
    ) -> Option<(usize, usize)> {
        positions.clear();
        positions.resize(1 << self.hash_bits, 0);
        let hash = |word: u32| (word.wrapping_mul(2_654_435_761) >> (32 - self.hash_bits)) as usize;
        let last_start = input.len().saturating_sub(TAIL);
        let (mut anchor, mut position) = (0, start);
        while position < last_start {
            let word = word(input, position);
            let slot = &mut positions[hash(word)];
            let candidate = *slot as usize;
            *slot = position as u32;
            let distance = position - candidate;
            if distance == 0 || distance > MAX_DISTANCE || self::word(input, candidate) != word {
                position += 1;
                continue;
            }
            let equal = SHORTEST_MATCH + common(input, candidate + SHORTEST_MATCH, position + SHORTEST_MATCH);
            // At the end of the input a match ends one more byte early; the last byte is never
            // matched.
            let length = (equal + 1).min(input.len() - 1 - position) - self.trim;
            let shortest = if distance < MIN_FAR_DISTANCE { self.shortest } else { self.shortest_far };
            if length < shortest {
                position += 1;
                continue;
            }
            on_match(anchor..position, distance, length)?;
            position += length;
            let boundary = self::word(input, position - 2);
            positions[hash(boundary)] = position as u32 - 2;
            if self.two_hashes {
                positions[hash(boundary >> 8)] = position as u32 - 1;
            }
            anchor = position;
        }
        Some((anchor, position))
    }
}

/// Return the number of bytes written; None if they do not fit.
fn compress(
    search: &Search,
    input: &[u8],
    out: &mut [MaybeUninit<u8>],
    positions: &mut Vec<u32>,
) -> Option<usize> {
    let mut writer = Writer { out, position: 0 };
    let (anchor, _) = search.each_match(input, SHORTEST_MATCH, positions, |literals, distance, length| {
        writer.literals(&input[literals])?;
        writer.matched(distance, length)?;
        // The literals that follow need space for their number.
        (writer.position < writer.out.len()).then_some(())
    })?;
    writer.literals(&input[anchor..])?;
    // SAFETY: the first call of `literals` wrote it.
    let first = unsafe { writer.out[0].assume_init() };
    writer.out[0] = MaybeUninit::new(first | MARKER);
    Some(writer.position)
}

#[inline(always)]
fn word(input: &[u8], position: usize) -> u32 {
    input[position..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Return the number of equal bytes from `a` and from `b` on, without the last byte of the input.
#[inline(always)]
fn common(input: &[u8], a: usize, b: usize) -> usize {
    let later = &input[b..input.len() - 1];
    let earlier = &input[a..a + later.len()];
    let mut count = 0;
    for (x, y) in earlier.chunks_exact(8).zip(later.chunks_exact(8)) {
        let (mut p, mut q) = ([0; 8], [0; 8]);
        p.copy_from_slice(x);
        q.copy_from_slice(y);
        let differing = u64::from_le_bytes(p) ^ u64::from_le_bytes(q);
        if differing != 0 {
            return count + (differing.trailing_zeros() / 8) as usize;
        }
        count += 8;
    }
    count + earlier[count..].iter().zip(&later[count..]).take_while(|(x, y)| x == y).count()
}

/// Writes instructions; None if they do not fit.
struct Writer<'a> {
    out: &'a mut [MaybeUninit<u8>],
    position: usize,
}

impl Writer<'_> {
    #[inline(always)]
    fn space(&mut self, bytes: usize) -> Option<&mut [MaybeUninit<u8>]> {
        let space = self.out.get_mut(self.position..self.position + bytes)?;
        self.position += bytes;
        Some(space)
    }

    #[inline(always)]
    fn bytes<const N: usize>(&mut self, bytes: [u8; N]) -> Option<()> {
        self.space(N)?.copy_from_slice(&bytes.map(MaybeUninit::new));
        Some(())
    }

    #[inline(always)]
    fn literals(&mut self, literals: &[u8]) -> Option<()> {
        for run in literals.chunks(MAX_LITERALS) {
            let space = self.space(1 + run.len())?;
            space[0] = MaybeUninit::new(run.len() as u8 - 1);
            for (target, byte) in space[1..].iter_mut().zip(run) {
                *target = MaybeUninit::new(*byte);
            }
        }
        // One byte stays free after literals, as in c-blosc.
        (literals.is_empty() || self.position < self.out.len()).then_some(())
    }

    #[inline(always)]
    fn matched(&mut self, distance: usize, length: usize) -> Option<()> {
        let (offset, beyond) = if distance < MIN_FAR_DISTANCE {
            (distance - 1, None)
        } else {
            (MIN_FAR_DISTANCE - 1, Some((distance - MIN_FAR_DISTANCE) as u16))
        };
        let (high, low) = ((offset >> 8) as u8, offset as u8);
        let code = length - 2;
        if code < 7 {
            self.bytes([(code as u8) << 5 | high])?;
        } else {
            self.bytes([7 << 5 | high])?;
            let mut rest = code - 7;
            while rest >= 255 {
                self.bytes([255])?;
                rest -= 255;
            }
            self.bytes([rest as u8])?;
        }
        self.bytes([low])?;
        match beyond {
            Some(beyond) => self.bytes(beyond.to_be_bytes()),
            None => Some(()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn round(level: u8, data: &[u8]) -> Option<usize> {
        let mut out = vec![MaybeUninit::uninit(); data.len()];
        let size = encode(level, false, data, &mut out, &mut Scratch::default());
        if size == 0 {
            return None;
        }
        // SAFETY: the first `size` bytes were written.
        let input: Vec<u8> = out[..size].iter().map(|byte| unsafe { byte.assume_init() }).collect();
        let mut back = vec![0; data.len()];
        decode(&input, &mut back).unwrap();
        assert_eq!(back, data);
        for cut in (0..size).step_by(1 + size / 50) {
            assert!(decode(&input[..cut], &mut back).is_err());
        }
        assert!(decode(&input, &mut back[1..]).is_err());
        Some(size)
    }

    #[test]
    fn matches_of_all_distances_and_lengths_round_trip() {
        let mut data = Vec::new();
        let mut state = 1u32;
        for length in (4..400).chain([1000, 5000, 70_000]) {
            for _ in 0..40 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                data.push((state >> 24) as u8);
            }
            let distance = 1 + (state >> 12) as usize % data.len().min(MAX_DISTANCE + 100);
            for _ in 0..length {
                data.push(data[data.len() - distance]);
            }
        }
        for level in 3..=9 {
            assert!(round(level, &data).unwrap() < data.len() * 2 / 3);
        }
    }

    #[test]
    fn runs_compress_and_noise_does_not() {
        for level in 1..=9 {
            assert!(round(level, &[3; 100_000]).unwrap() < 450);
        }
        let noise: Vec<u8> =
            (0..20_000u32).map(|i| (i.wrapping_mul(i).wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        assert_eq!(round(5, &noise), None);
        assert_eq!(round(5, &[1; 15]), None);
    }

    #[test]
    fn match_before_start_is_rejected() {
        let error = decode(&[0, 7, 1 << 5, 1, 0, 0], &mut [0; 8]).unwrap_err();
        assert_eq!(error.message, "damaged BloscLZ stream: a match starts before the block");
    }
}
