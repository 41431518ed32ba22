//! The codec `zstd`: <https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/zstd>.
//!
//! The encoding is one or more consecutive frames of RFC 8878. A frame may have its decoded size in
//! its header (the engine's frames do), may end in a checksum (a mismatch is an error), and may be
//! skippable (it decodes to nothing). Frames are decoded in one pass, never streamed: the output
//! itself is the window, so a header that requests a huge window costs nothing.

use std::io::Cursor;
use std::mem::MaybeUninit;

use zstd_safe::zstd_sys::{self, ZSTD_ErrorCode};
use zstd_safe::{CCtx, CParameter, ResetDirective, WriteBuf};

use super::{BytesCodec, Config, Context};
use crate::error::{Error, Result};
use crate::scratch::reserve;

/// The levels of Zstandard; 0 is its default, 3.
const LEVELS: std::ops::RangeInclusive<i64> = -131_072..=22;

/// A block has at least 4 bytes and decodes to at most 128 KiB (RFC 8878 §3.1.1.2).
pub(super) const MAX_RATIO: usize = (128 << 10) / 4;

/// The first guess at the decoded size of frames without one.
const FIRST_GUESS: usize = 64 << 10;

/// A Zstandard codec.
#[derive(Debug, Clone, Copy)]
struct Zstd {
    level: i32,
    checksum: bool,
}

pub(super) fn compile(config: &Config) -> Result<std::sync::Arc<dyn BytesCodec>> {
    Ok(std::sync::Arc::new(Zstd::new(config.integer("level")?, config.boolean("checksum")?)?))
}

impl Zstd {
    /// `level` is −131072 to 22; `checksum` adds 4 bytes to each frame.
    fn new(level: i64, checksum: bool) -> Result<Self> {
        match i32::try_from(level) {
            Ok(small) if LEVELS.contains(&level) => Ok(Zstd { level: small, checksum }),
            _ => Err(Error::argument(format!(
                "zstd: level {level} is not within {} to {}",
                LEVELS.start(),
                LEVELS.end()
            ))),
        }
    }
}

/// Configure a reused context; everything else keeps its default.
pub(super) fn configure(encoder: &mut CCtx<'_>, level: i32, checksum: bool) -> Result<()> {
    let internal = |code| Error::internal(zstd_safe::get_error_name(code));
    // A frame that did not fit leaves the session open.
    encoder.reset(ResetDirective::SessionOnly).map_err(internal)?;
    for parameter in [CParameter::CompressionLevel(level), CParameter::ChecksumFlag(checksum)] {
        encoder.set_parameter(parameter).map_err(internal)?;
    }
    Ok(())
}

/// An uninitialised buffer as a target of Zstandard.
pub(super) struct UninitBuffer<'a>(pub(super) &'a mut [MaybeUninit<u8>]);

// SAFETY: pointer and capacity are those of the slice; nothing is read back.
unsafe impl WriteBuf for UninitBuffer<'_> {
    fn as_slice(&self) -> &[u8] {
        &[]
    }

    fn capacity(&self) -> usize {
        self.0.len()
    }

    fn as_mut_ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }

    unsafe fn filled_until(&mut self, _written: usize) {}
}

fn is_too_small(code: usize) -> bool {
    // SAFETY: a pure function of the number.
    unsafe { zstd_sys::ZSTD_getErrorCode(code) == ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall }
}

/// Return the error of a failed decoding, with a clear message where Zstandard's is obscure.
pub(super) fn failure(code: usize) -> Error {
    // SAFETY: a pure function of the number.
    let error_code = unsafe { zstd_sys::ZSTD_getErrorCode(code) };
    let message = match error_code {
        ZSTD_ErrorCode::ZSTD_error_prefix_unknown => "unknown frame descriptor".to_owned(),
        ZSTD_ErrorCode::ZSTD_error_srcSize_wrong => "truncated frame, or bytes after the last one".to_owned(),
        ZSTD_ErrorCode::ZSTD_error_checksum_wrong => "checksum mismatch, or truncated frame".to_owned(),
        ZSTD_ErrorCode::ZSTD_error_corruption_detected => "damaged frame".to_owned(),
        ZSTD_ErrorCode::ZSTD_error_dictionary_wrong => {
            "the frame needs a dictionary, which Zarr does not support".to_owned()
        }
        _ => zstd_safe::get_error_name(code).to_lowercase(),
    };
    let code = (error_code == ZSTD_ErrorCode::ZSTD_error_checksum_wrong).then_some("checksum_mismatch");
    Error { code, ..Error::data(message) }
}

fn check_present(input: &[u8]) -> Result<()> {
    if input.is_empty() {
        return Err(Error::data("the input is empty: it contains no frame"));
    }
    Ok(())
}

impl BytesCodec for Zstd {
    fn name(&self) -> &str {
        "zstd"
    }

    fn bound(&self, decoded: usize) -> usize {
        zstd_safe::compress_bound(decoded).saturating_add(4)
    }

    fn min_encoded(&self, decoded: usize) -> usize {
        decoded / MAX_RATIO
    }

    fn decode_into(&self, input: &[u8], out: &mut [u8], context: &mut Context) -> Result<()> {
        check_present(input)?;
        match context.zstd_decoder()?.decompress(out, input) {
            Ok(written) => super::check_size(written, out.len()),
            Err(code) if is_too_small(code) => Err(super::too_long(out.len())),
            Err(code) => Err(failure(code)),
        }
    }

    fn decode(&self, input: &[u8], out: &mut Vec<u8>, limit: usize, context: &mut Context) -> Result<()> {
        out.clear();
        check_present(input)?;
        let decoder = context.zstd_decoder()?;
        let mut capacity = match zstd_safe::find_decompressed_size(input) {
            Ok(Some(size)) => {
                let size = usize::try_from(size).unwrap_or(usize::MAX);
                super::check_limit(size, limit)?;
                if size / MAX_RATIO > input.len() {
                    return Err(Error::data(format!("{} bytes cannot decode to {size}", input.len())));
                }
                size
            }
            // For damaged headers, too: decoding reports the damage.
            Ok(None) | Err(_) => FIRST_GUESS.max(input.len().saturating_mul(4)).min(limit),
        };
        // A damaged frame may request any size; so few bytes cannot hold more than this.
        let max = limit.min(input.len().saturating_mul(MAX_RATIO));
        loop {
            reserve(out, capacity)?;
            match decoder.decompress(out, input) {
                Ok(written) => {
                    let checked = super::check_limit(written, limit);
                    if checked.is_err() {
                        out.clear();
                    }
                    return checked;
                }
                Err(code) if is_too_small(code) && capacity < max => {
                    out.clear();
                    capacity = capacity.saturating_mul(2).min(max);
                }
                Err(code) => {
                    out.clear();
                    return Err(if is_too_small(code) { super::over_limit(limit) } else { failure(code) });
                }
            }
        }
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>, context: &mut Context) -> Result<()> {
        let encoder = context.zstd_encoder()?;
        configure(encoder, self.level, self.checksum)?;
        let end = out.len();
        out.reserve(self.bound(input.len()));
        let mut target = Cursor::new(out);
        target.set_position(end as u64);
        encoder
            .compress2(&mut target, input)
            .map_err(|code| Error::internal(zstd_safe::get_error_name(code)))?;
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Kind;
    use zstd_safe::{InBuffer, OutBuffer};

    fn codec() -> Zstd {
        Zstd::new(3, true).unwrap()
    }

    fn encoded(data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        codec().encode(data, &mut out, &mut Context::default()).unwrap();
        out
    }

    /// A frame from a streaming writer, without the decoded size.
    fn streamed(data: &[u8]) -> Vec<u8> {
        let mut encoder = CCtx::create();
        let mut out = vec![0; zstd_safe::compress_bound(data.len()) + 64];
        let written = {
            let mut target = OutBuffer::around(&mut out[..]);
            encoder.compress_stream(&mut target, &mut InBuffer::around(data)).unwrap();
            assert_eq!(encoder.end_stream(&mut target).unwrap(), 0);
            target.pos()
        };
        out.truncate(written);
        out
    }

    fn decode(input: &[u8], limit: usize) -> Result<Vec<u8>> {
        let mut out = vec![9; 3];
        codec().decode(input, &mut out, limit, &mut Context::default()).map(|()| out)
    }

    #[test]
    fn frame_header_has_decoded_size() {
        let size = zstd_safe::get_frame_content_size(&encoded(&[7; 1000])).ok().flatten();
        assert_eq!(size, Some(1000));
    }

    #[test]
    fn concatenated_frames_decode_as_one() {
        let data: Vec<u8> = (0..200_000u32).map(|i| (i / 100) as u8).collect();
        let mut input = encoded(&data[..1000]);
        input.extend([0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);
        let unknown = streamed(&data[1000..]);
        assert!(matches!(zstd_safe::get_frame_content_size(&unknown), Ok(None)));
        input.extend(unknown);
        assert_eq!(decode(&input, usize::MAX).unwrap(), data);
        let mut out = vec![0; data.len()];
        codec().decode_into(&input, &mut out, &mut Context::default()).unwrap();
        assert_eq!(out, data);
    }

    #[test]
    fn limit_applies_with_and_without_decoded_size() {
        for input in [encoded(&[0; 1 << 20]), streamed(&[0; 1 << 20])] {
            assert_eq!(decode(&input, 1 << 20).unwrap(), vec![0; 1 << 20]);
            assert!(decode(&input, (1 << 20) - 1).unwrap_err().message.contains("limit of 1048575"));
        }
    }

    #[test]
    fn large_size_in_header_allocates_nothing() {
        let mut input = encoded(&[0; 1 << 20]);
        input.truncate(12);
        input[5..9].copy_from_slice(&[0xff; 4]);
        let mut out = Vec::new();
        let error = codec().decode(&input, &mut out, 1 << 16, &mut Context::default()).unwrap_err();
        assert_eq!((error.kind, out.capacity() <= 1 << 16), (Kind::Data, true));
    }

    #[test]
    fn impossible_frame_size_allocates_nothing() {
        let mut input = encoded(&[0; 1 << 20]);
        input[5..9].copy_from_slice(&[0xff; 4]);
        let mut out = Vec::new();
        let error = codec().decode(&input, &mut out, usize::MAX, &mut Context::default()).unwrap_err();
        assert_eq!((error.kind, out.capacity()), (Kind::Data, 0));
        assert!(error.message.ends_with("bytes cannot decode to 4294967295"), "{}", error.message);
    }

    #[test]
    fn error_names_the_damage() {
        let good = encoded(&[5; 100]);
        let why = |input: &[u8]| decode(input, 1 << 20).unwrap_err().message;
        assert_eq!(why(b"not zstd at all"), "unknown frame descriptor");
        assert_eq!(why(b""), "the input is empty: it contains no frame");
        assert_eq!(why(&good[..good.len() / 2]), "truncated frame, or bytes after the last one");
        assert_eq!(why(&good[..good.len() - 1]), "checksum mismatch, or truncated frame");
        let mut bad = good.clone();
        *bad.last_mut().unwrap() ^= 1;
        assert_eq!(why(&bad), "checksum mismatch, or truncated frame");
        let mut long = good;
        long.extend(b"garbage");
        assert!(decode(&long, 1 << 20).is_err());
    }

    #[test]
    fn levels_outside_the_range_are_rejected() {
        assert!(Zstd::new(-131_072, false).is_ok());
        assert!(Zstd::new(-131_073, false).is_err());
        assert_eq!(Zstd::new(23, false).unwrap_err().kind, Kind::Argument);
    }
}
