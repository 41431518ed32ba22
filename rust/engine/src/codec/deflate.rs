//! The codecs `gzip` and `zlib`.
//!
//! Specifications: <https://zarr-specs.readthedocs.io/en/latest/v3/codecs/gzip/index.html> and
//! <https://numcodecs.readthedocs.io/en/stable/compression/zlib.html>.
//!
//! Both wrap the Deflate stream of RFC 1951. gzip (RFC 1952) is one or more members: each has a
//! header of 10 bytes with optional fields, the stream, the CRC-32 and the decoded size modulo 2³².
//! zlib (RFC 1950) is a header of 2 bytes, one stream, and the Adler-32. This module verifies the
//! checksums; bytes after the end are an error.
//!
//! libdeflate decodes whole buffers only. If the decoded size is unknown, the decoder tries a
//! buffer of the size that the trailer suggests, then larger ones.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use libdeflate_sys as sys;

use super::{as_uninit, c_memory, BytesCodec, Config, Context};
use crate::error::{Error, Result};
use crate::scratch::reserve;

/// The maximum compression ratio of Deflate (RFC 1951: 258 bytes from 2 bits).
const MAX_RATIO: usize = 1032;

/// The first guess at an unknown size, as a multiple of the input.
const FIRST_RATIO: usize = 4;

/// A decompressor of libdeflate.
pub(super) struct Inflater(NonNull<sys::libdeflate_decompressor>);

// SAFETY: plain memory, used by one thread at a time.
unsafe impl Send for Inflater {}

/// The end of one Deflate stream.
enum Inflated {
    Done { read: usize, written: usize },
    Full,
    Damaged,
}

impl Inflater {
    pub(super) fn new() -> Option<Self> {
        // SAFETY: no preconditions; null is handled.
        NonNull::new(unsafe { sys::libdeflate_alloc_decompressor() }).map(Inflater)
    }

    /// Decode one stream; the first `written` bytes of `out` are then initialised.
    fn inflate(&mut self, input: &[u8], out: &mut [MaybeUninit<u8>]) -> Inflated {
        let (mut read, mut written) = (0, 0);
        // SAFETY: the pointers are valid for their lengths, and the function stays within them for
        // any input.
        let result = unsafe {
            sys::libdeflate_deflate_decompress_ex(
                self.0.as_ptr(),
                input.as_ptr().cast(),
                input.len(),
                out.as_mut_ptr().cast(),
                out.len(),
                &mut read,
                &mut written,
            )
        };
        match result {
            sys::libdeflate_result_LIBDEFLATE_SUCCESS => Inflated::Done { read, written },
            sys::libdeflate_result_LIBDEFLATE_INSUFFICIENT_SPACE => Inflated::Full,
            _ => Inflated::Damaged,
        }
    }

    /// Decode a zlib stream to exactly `out.len()` bytes, all of which are then initialised.
    pub(super) fn inflate_zlib(&mut self, input: &[u8], out: &mut [MaybeUninit<u8>]) -> Result<()> {
        let mut target = Target::Exact { out, filled: 0 };
        Wrapper::Zlib.decode(self, input, &mut target)
    }
}

impl Drop for Inflater {
    fn drop(&mut self) {
        // SAFETY: created by the matching allocation and dropped once.
        unsafe { sys::libdeflate_free_decompressor(self.0.as_ptr()) };
    }
}

/// A compressor of libdeflate for one level.
pub(super) struct Deflater(NonNull<sys::libdeflate_compressor>);

// SAFETY: plain memory, used by one thread at a time.
unsafe impl Send for Deflater {}

impl Deflater {
    pub(super) fn new(level: u8) -> Option<Self> {
        // libdeflate's level 1 finds few matches: consecutive integers take twice the bytes of
        // zlib's level 1. Its level 2 needs no more bytes than zlib's level 1 and is still faster.
        // Its level 9 needs up to 5 % more bytes than zlib's, and its level 10 fewer.
        let level = match level {
            1 => 2,
            9 => 10,
            level => level,
        };
        let options = sys::libdeflate_options {
            sizeof_options: size_of::<sys::libdeflate_options>(),
            malloc_func: Some(c_memory::allocate),
            free_func: Some(c_memory::free),
        };
        // SAFETY: the options are valid; null (no memory, or an unknown level) is handled.
        NonNull::new(unsafe { sys::libdeflate_alloc_compressor_ex(c_int::from(level), &options) })
            .map(Deflater)
    }

    /// Encode into `out`. Return the number of bytes written, or 0 if `out` is too small.
    pub(super) fn deflate(&mut self, wrapper: Wrapper, input: &[u8], out: &mut [MaybeUninit<u8>]) -> usize {
        let compress = match wrapper {
            Wrapper::Gzip => sys::libdeflate_gzip_compress,
            Wrapper::Zlib => sys::libdeflate_zlib_compress,
        };
        // SAFETY: the pointers are valid for their lengths.
        unsafe {
            compress(self.0.as_ptr(), input.as_ptr().cast(), input.len(), out.as_mut_ptr().cast(), out.len())
        }
    }
}

impl Drop for Deflater {
    fn drop(&mut self) {
        // SAFETY: created by the matching allocation and dropped once.
        unsafe { sys::libdeflate_free_compressor(self.0.as_ptr()) };
    }
}

/// The destination of decoded bytes.
enum Target<'a> {
    /// A buffer of the exact size, filled from its start.
    Exact { out: &'a mut [MaybeUninit<u8>], filled: usize },
    /// A vector that may grow to `limit`.
    Growing { out: &'a mut Vec<u8>, limit: usize },
}

impl Target<'_> {
    /// Decode one stream to the end of the target. Return the number of bytes read and the new
    /// bytes.
    fn decode_stream(
        &mut self,
        inflater: &mut Inflater,
        input: &[u8],
        hint: usize,
    ) -> Result<(usize, &[u8])> {
        match self {
            Target::Exact { out, filled } => match inflater.inflate(input, &mut out[*filled..]) {
                Inflated::Done { read, written } => {
                    let new = &out[*filled..*filled + written];
                    *filled += written;
                    // SAFETY: the stream initialised these bytes.
                    Ok((read, unsafe { &*(std::ptr::from_ref(new) as *const [u8]) }))
                }
                Inflated::Full => Err(super::too_long(out.len())),
                Inflated::Damaged => Err(damaged()),
            },
            Target::Growing { out, limit } => {
                let start = out.len();
                let max = (*limit - start).min(input.len().saturating_mul(MAX_RATIO));
                let mut capacity = hint.min(max);
                loop {
                    reserve(out, capacity)?;
                    match inflater.inflate(input, &mut out.spare_capacity_mut()[..capacity]) {
                        Inflated::Done { read, written } => {
                            // SAFETY: the stream initialised these bytes.
                            unsafe { out.set_len(start + written) };
                            return Ok((read, &out[start..]));
                        }
                        Inflated::Full if capacity < max => {
                            capacity = capacity.saturating_mul(2).clamp(64, max.max(64)).min(max)
                        }
                        Inflated::Full => return Err(super::over_limit(*limit)),
                        Inflated::Damaged => return Err(damaged()),
                    }
                }
            }
        }
    }

    fn finish(&self) -> Result<()> {
        match self {
            Target::Exact { out, filled } => super::check_size(*filled, out.len()),
            Target::Growing { .. } => Ok(()),
        }
    }
}

fn damaged() -> Error {
    Error::data("damaged or truncated Deflate stream")
}

fn truncated() -> Error {
    Error::data("truncated")
}

pub(super) fn crc32(bytes: &[u8]) -> u32 {
    // SAFETY: the pointer is valid for the length.
    unsafe { sys::libdeflate_crc32(0, bytes.as_ptr().cast(), bytes.len()) }
}

pub(super) fn adler32(bytes: &[u8]) -> u32 {
    // SAFETY: the pointer is valid for the length.
    unsafe { sys::libdeflate_adler32(1, bytes.as_ptr().cast(), bytes.len()) }
}

fn check_sum(stored: u32, computed: u32) -> Result<()> {
    if stored == computed {
        return Ok(());
    }
    Err(Error::checksum(stored, computed))
}

/// The format around the Deflate stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrapper {
    Gzip,
    Zlib,
}

impl Wrapper {
    fn bound(self, decoded: usize) -> usize {
        // SAFETY: with a null compressor the bound holds for every level.
        unsafe {
            match self {
                Wrapper::Gzip => sys::libdeflate_gzip_compress_bound(std::ptr::null_mut(), decoded),
                Wrapper::Zlib => sys::libdeflate_zlib_compress_bound(std::ptr::null_mut(), decoded),
            }
        }
    }

    fn decode(self, inflater: &mut Inflater, input: &[u8], target: &mut Target<'_>) -> Result<()> {
        match self {
            Wrapper::Gzip => decode_gzip(inflater, input, target),
            Wrapper::Zlib => decode_zlib(inflater, input, target),
        }?;
        target.finish()
    }
}

fn decode_zlib(inflater: &mut Inflater, input: &[u8], target: &mut Target<'_>) -> Result<()> {
    let (&[method, flags], rest) = input.split_first_chunk::<2>().ok_or_else(truncated)?;
    if method & 0x0f != 8 || method >> 4 > 7 || u16::from_be_bytes([method, flags]) % 31 != 0 {
        return Err(Error::data(format!("invalid zlib header: 0x{method:02x} 0x{flags:02x}")));
    }
    if flags & 0x20 != 0 {
        return Err(Error::data("the stream needs a dictionary, which Zarr does not support"));
    }
    let (read, new) = target.decode_stream(inflater, rest, rest.len().saturating_mul(FIRST_RATIO))?;
    let computed = adler32(new);
    let (stored, after) = rest[read..].split_first_chunk::<4>().ok_or_else(truncated)?;
    check_sum(u32::from_be_bytes(*stored), computed)?;
    check_end(after)
}

fn check_end(after: &[u8]) -> Result<()> {
    if after.is_empty() {
        return Ok(());
    }
    Err(Error::data(format!("{} bytes follow the end of the stream", after.len())))
}

fn decode_gzip(inflater: &mut Inflater, input: &[u8], target: &mut Target<'_>) -> Result<()> {
    let mut rest = input;
    loop {
        let stream = skip_gzip_header(rest)?;
        // The size of the last member, which is nearly always the only one.
        let hint = input.last_chunk::<4>().map_or(0, |size| u32::from_le_bytes(*size) as usize);
        let plausible = hint.min(stream.len().saturating_mul(MAX_RATIO));
        let (read, new) = target.decode_stream(inflater, stream, plausible)?;
        let computed = crc32(new);
        let size = new.len() as u32;
        let (trailer, after) = stream[read..].split_first_chunk::<8>().ok_or_else(truncated)?;
        let [c0, c1, c2, c3, s0, s1, s2, s3] = *trailer;
        check_sum(u32::from_le_bytes([c0, c1, c2, c3]), computed)?;
        let stored = u32::from_le_bytes([s0, s1, s2, s3]);
        if stored != size {
            return Err(Error::size(format!("size mismatch: stored {stored}, decoded {size}")));
        }
        if after.is_empty() {
            return Ok(());
        }
        if !after.starts_with(&[0x1f, 0x8b]) {
            return check_end(after);
        }
        rest = after;
    }
}

/// Return the Deflate stream after a member's header (RFC 1952 §2.3).
fn skip_gzip_header(input: &[u8]) -> Result<&[u8]> {
    const HEADER_CRC: u8 = 2;
    const EXTRA: u8 = 4;
    const NAME: u8 = 8;
    const COMMENT: u8 = 16;
    const RESERVED: u8 = 0xe0;
    if !input.starts_with(&[0x1f, 0x8b]) {
        let start = &input[..input.len().min(2)];
        return Err(Error::data(format!("invalid gzip header: it starts with {start:02x?}, not [1f, 8b]")));
    }
    let (header, mut rest) = input.split_first_chunk::<10>().ok_or_else(truncated)?;
    let (method, flags) = (header[2], header[3]);
    if method != 8 || flags & RESERVED != 0 {
        return Err(Error::data(format!("unknown gzip method {method} or flags 0x{flags:02x}")));
    }
    if flags & EXTRA != 0 {
        let (size, after) = rest.split_first_chunk::<2>().ok_or_else(truncated)?;
        rest = after.get(usize::from(u16::from_le_bytes(*size))..).ok_or_else(truncated)?;
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            let end = rest.iter().position(|&byte| byte == 0).ok_or_else(truncated)?;
            rest = &rest[end + 1..];
        }
    }
    if flags & HEADER_CRC != 0 {
        let covered = &input[..input.len() - rest.len()];
        let (stored, after) = rest.split_first_chunk::<2>().ok_or_else(truncated)?;
        check_sum(u32::from(u16::from_le_bytes(*stored)), crc32(covered) & 0xffff)?;
        rest = after;
    }
    Ok(rest)
}

/// gzip or zlib at one level.
#[derive(Debug, Clone, Copy)]
struct Deflate {
    wrapper: Wrapper,
    level: u8,
}

pub(super) fn compile(config: &Config) -> Result<std::sync::Arc<dyn BytesCodec>> {
    let wrapper = if config.name() == "gzip" { Wrapper::Gzip } else { Wrapper::Zlib };
    Ok(std::sync::Arc::new(Deflate::new(wrapper, config.integer("level")?)?))
}

impl Deflate {
    /// `level` is 0 (stored) to 9; −1 is the default, 6.
    fn new(wrapper: Wrapper, level: i64) -> Result<Self> {
        let checked = match level {
            -1 => Some(6),
            0..=9 => u8::try_from(level).ok(),
            _ => None,
        };
        let this = Deflate { wrapper, level: checked.unwrap_or(6) };
        if checked.is_none() {
            let message = format!("{}: level {level} is not within 0 to 9", this.name());
            return Err(Error::argument(message));
        }
        Ok(this)
    }
}

impl BytesCodec for Deflate {
    fn name(&self) -> &str {
        match self.wrapper {
            Wrapper::Gzip => "gzip",
            Wrapper::Zlib => "zlib",
        }
    }

    fn bound(&self, decoded: usize) -> usize {
        self.wrapper.bound(decoded)
    }

    fn min_encoded(&self, decoded: usize) -> usize {
        decoded / MAX_RATIO
    }

    fn decode_into(&self, input: &[u8], out: &mut [u8], context: &mut Context) -> Result<()> {
        // SAFETY: decoding writes only initialised bytes.
        let mut target = Target::Exact { out: unsafe { as_uninit(out) }, filled: 0 };
        self.wrapper.decode(context.inflater()?, input, &mut target)
    }

    fn decode(&self, input: &[u8], out: &mut Vec<u8>, limit: usize, context: &mut Context) -> Result<()> {
        out.clear();
        self.wrapper.decode(context.inflater()?, input, &mut Target::Growing { out, limit })
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>, context: &mut Context) -> Result<()> {
        let deflater = context.deflater(self.level)?;
        out.reserve(self.bound(input.len()));
        let written = deflater.deflate(self.wrapper, input, out.spare_capacity_mut());
        if written == 0 {
            return Err(Error::internal("libdeflate wrote more than its bound"));
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
    use flate2::{Compression, GzBuilder};
    use std::io::{Read, Write};

    fn decode(codec: Deflate, input: &[u8], limit: usize) -> Result<Vec<u8>> {
        let mut out = vec![1];
        codec.decode(input, &mut out, limit, &mut Context::default()).map(|()| out)
    }

    fn encode(codec: Deflate, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        codec.encode(data, &mut out, &mut Context::default()).unwrap();
        out
    }

    fn gzip() -> Deflate {
        Deflate::new(Wrapper::Gzip, 5).unwrap()
    }

    fn text() -> Vec<u8> {
        (0..50_000u32).flat_map(|i| (i / 7).to_le_bytes()).collect()
    }

    #[test]
    fn zlib_decodes_every_level() {
        for level in -1..=9 {
            let mut back = Vec::new();
            let input = encode(Deflate::new(Wrapper::Gzip, level).unwrap(), &text());
            flate2::read::GzDecoder::new(&input[..]).read_to_end(&mut back).unwrap();
            assert_eq!(back, text());
            back.clear();
            let input = encode(Deflate::new(Wrapper::Zlib, level).unwrap(), &text());
            flate2::read::ZlibDecoder::new(&input[..]).read_to_end(&mut back).unwrap();
            assert_eq!(back, text());
        }
    }

    #[test]
    fn gzip_members_with_optional_fields_decode() {
        let data = text();
        let mut input = Vec::new();
        for part in data.chunks(60_000) {
            let builder = GzBuilder::new().extra(vec![1; 300]).filename("name").comment("a comment");
            let mut writer = builder.write(&mut input, Compression::fast());
            writer.write_all(part).unwrap();
            writer.finish().unwrap();
        }
        assert_eq!(decode(gzip(), &input, data.len()).unwrap(), data);
        let mut out = vec![0; data.len()];
        gzip().decode_into(&input, &mut out, &mut Context::default()).unwrap();
        assert_eq!(out, data);
        input.push(0);
        assert_eq!(
            decode(gzip(), &input, 1 << 20).unwrap_err().message,
            "1 bytes follow the end of the stream"
        );
    }

    #[test]
    fn gzip_header_checksum_is_verified() {
        let plain = encode(gzip(), b"hello");
        let mut input = plain[..10].to_vec();
        input[3] = 2;
        // SAFETY: the pointer is valid for the length.
        let sum = unsafe { sys::libdeflate_crc32(0, input.as_ptr().cast(), 10) };
        input.extend((sum as u16).to_le_bytes());
        input.extend(&plain[10..]);
        assert_eq!(decode(gzip(), &input, 5).unwrap(), b"hello");
        input[10] ^= 1;
        assert!(decode(gzip(), &input, 5).unwrap_err().message.starts_with("checksum mismatch: stored 0x"));
    }

    #[test]
    fn decode_enforces_limit_and_trailer() {
        let zeros = vec![0; 1 << 20];
        for codec in [gzip(), Deflate::new(Wrapper::Zlib, 1).unwrap()] {
            let input = encode(codec, &zeros);
            assert_eq!(decode(codec, &input, 1 << 20).unwrap(), zeros);
            assert!(decode(codec, &input, (1 << 20) - 1).unwrap_err().message.contains("limit of 1048575"));
            let mut bad = input.clone();
            let end = bad.len();
            bad[end - 5] ^= 0x10;
            assert!(decode(codec, &bad, 1 << 20).is_err());
            assert!(decode(codec, &input[..end - 1], 1 << 20).unwrap_err().message.contains("truncated"));
        }
        let mut wrong_size = encode(gzip(), b"12345");
        let end = wrong_size.len();
        wrong_size[end - 4] = 6;
        assert_eq!(
            decode(gzip(), &wrong_size, 10).unwrap_err().message,
            "size mismatch: stored 6, decoded 5"
        );
    }

    #[test]
    fn large_size_in_trailer_allocates_little() {
        let mut input = encode(gzip(), b"12345");
        let end = input.len();
        input[end - 4..].fill(0xff);
        let mut out = Vec::new();
        assert!(gzip().decode(&input, &mut out, usize::MAX, &mut Context::default()).is_err());
        assert!(out.capacity() < 100_000, "{}", out.capacity());
    }

    #[test]
    fn levels_outside_the_range_are_rejected() {
        assert_eq!(
            Deflate::new(Wrapper::Gzip, 10).unwrap_err().message,
            "gzip: level 10 is not within 0 to 9"
        );
        assert_eq!(Deflate::new(Wrapper::Zlib, -2).unwrap_err().kind, Kind::Argument);
    }
}
