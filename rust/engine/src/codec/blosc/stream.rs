//! The streams of a Blosc block: one compressed sequence of bytes each.
//!
//! The size of a stream comes before it (u32, little-endian); a stream as long as its decoded bytes
//! is stored. The header of the buffer names the compressor: `lz4` and `lz4hc` produce the same raw
//! blocks, `snappy` the raw Snappy format, `zlib` and `zstd` whole streams with headers of their
//! own.

use std::mem::MaybeUninit;

use super::super::context::Context;
use super::super::{as_uninit, check_size, deflate, lz4, zstd};
use super::blosclz;
use crate::error::{Error, Result};

/// The compressor of the streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compressor {
    BloscLz,
    Lz4,
    Lz4Hc,
    Snappy,
    Zlib,
    Zstd,
}

/// The names in metadata, and the format numbers in headers.
const COMPRESSORS: [(&str, Compressor, u8); 6] = [
    ("blosclz", Compressor::BloscLz, 0),
    ("lz4", Compressor::Lz4, 1),
    ("lz4hc", Compressor::Lz4Hc, 1),
    ("snappy", Compressor::Snappy, 2),
    ("zlib", Compressor::Zlib, 3),
    ("zstd", Compressor::Zstd, 4),
];

impl Compressor {
    pub(super) fn of_name(name: &str) -> Option<Self> {
        COMPRESSORS.iter().find(|row| row.0 == name).map(|row| row.1)
    }

    /// Return the decoder of a header's format number.
    pub(super) fn of_format(format: u8) -> Result<Self> {
        let row = COMPRESSORS.iter().find(|row| row.2 == format);
        row.map(|row| row.1).ok_or_else(|| Error::data(format!("unknown compressor format {format}")))
    }

    pub(super) fn format(self) -> u8 {
        COMPRESSORS.iter().find(|row| row.1 == self).map_or(0, |row| row.2)
    }

    /// Decode a stream to exactly `out.len()` bytes.
    pub(super) fn decode(self, input: &[u8], out: &mut [u8], context: &mut Context) -> Result<()> {
        match self {
            Compressor::BloscLz => blosclz::decode(input, out),
            // SAFETY: the decoder writes only initialised bytes.
            Compressor::Lz4 | Compressor::Lz4Hc => lz4::decode_block(input, unsafe { as_uninit(out) }),
            Compressor::Snappy => decode_snappy(input, out),
            // SAFETY: the decoder writes only initialised bytes.
            Compressor::Zlib => context.inflater()?.inflate_zlib(input, unsafe { as_uninit(out) }),
            Compressor::Zstd => {
                let written = context.zstd_decoder()?.decompress(out, input).map_err(zstd::failure)?;
                check_size(written, out.len())
            }
        }
    }

    /// Encode a stream into `out`. `split` is true for one of several streams of a block. Returns
    /// the number of bytes written, or 0 if they do not fit or compression does not pay.
    pub(super) fn encode(
        self,
        level: u8,
        split: bool,
        input: &[u8],
        out: &mut [MaybeUninit<u8>],
        context: &mut Context,
    ) -> Result<usize> {
        let small = i32::from(level);
        Ok(match self {
            Compressor::BloscLz => blosclz::encode(level, split, input, out, &mut context.scratch),
            Compressor::Lz4 => lz4::encode_block(input, out, 10 - small),
            Compressor::Lz4Hc => lz4::encode_block_hc(input, out, small, context),
            Compressor::Snappy => encode_snappy(input, out, context)?,
            // libdeflate's lowest level looks at one candidate only; zlib's does better.
            Compressor::Zlib => context.deflater(level.max(2))?.deflate(deflate::Wrapper::Zlib, input, out),
            Compressor::Zstd => {
                let encoder = context.zstd_encoder()?;
                zstd::configure(encoder, zstd_level(level), false)?;
                encoder.compress2(&mut zstd::UninitBuffer(out), input).unwrap_or(0)
            }
        })
    }
}

/// Return the level that c-blosc passes to Zstandard.
fn zstd_level(level: u8) -> i32 {
    match level {
        0..=8 => i32::from(level) * 2 - 1,
        _ => 22,
    }
}

fn decode_snappy(input: &[u8], out: &mut [u8]) -> Result<()> {
    let damaged = |error: snap::Error| Error::data(format!("damaged Snappy stream: {error}"));
    check_size(snap::raw::decompress_len(input).map_err(damaged)?, out.len())?;
    let written = snap::raw::Decoder::new().decompress(input, out).map_err(damaged)?;
    check_size(written, out.len())
}

fn encode_snappy(input: &[u8], out: &mut [MaybeUninit<u8>], context: &mut Context) -> Result<usize> {
    // The encoder needs capacity for the worst case.
    let (encoder, target) = context.snappy(input.len());
    let written = encoder
        .compress(input, target)
        .map_err(|error| Error::internal(format!("Snappy cannot encode: {error}")))?;
    let Some(output) = out.get_mut(..written) else { return Ok(0) };
    for (to, byte) in output.iter_mut().zip(&target[..written]) {
        *to = MaybeUninit::new(*byte);
    }
    Ok(written)
}
