//! Bytes-to-bytes codecs, one file per codec, which describes the format.

use std::fmt::Debug;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::scratch::{as_uninit, reserve};

mod bitround;
mod blosc;
mod c_memory;
pub mod chain;
mod checksum;
mod config;
mod context;
mod deflate;
mod delta;
mod element;
mod foreign;
mod lz4;
mod shuffle;
mod zstd;

pub use config::{Config, Value};
pub use context::Context;
pub use foreign::{Foreign, ForeignCodec, Sink};

/// A compiled bytes-to-bytes codec: checked configuration without state.
///
/// Contexts, hash tables and scratch memory are in the [`Context`] of each worker thread, so
/// encoding and decoding allocate nothing per chunk.
pub trait BytesCodec: Send + Sync + Debug {
    /// Return the name in the metadata, for messages.
    fn name(&self) -> &str;

    /// Return whether the codec is the engine's own and never calls Python.
    fn is_native(&self) -> bool {
        true
    }

    /// Return the size of the encoding of `decoded` bytes, if it does not depend on the data.
    fn fixed_size(&self, _decoded: usize) -> Option<usize> {
        None
    }

    /// Return the maximum size of the engine's encoding of `decoded` bytes; an estimate for foreign
    /// codecs. Encodings of other writers may be larger.
    fn bound(&self, decoded: usize) -> usize {
        self.fixed_size(decoded).unwrap_or(usize::MAX)
    }

    /// Return the minimum size of an encoding of `decoded` bytes; 0 if unknown.
    fn min_encoded(&self, decoded: usize) -> usize {
        self.fixed_size(decoded).unwrap_or(0)
    }

    /// Decode `input` to exactly `out.len()` bytes. More, fewer or damaged bytes are a `Kind::Data`
    /// error; the content of `out` is then undefined. The default is for codecs with a
    /// `decode_view`.
    fn decode_into(&self, input: &[u8], out: &mut [u8], _context: &mut Context) -> Result<()> {
        let decoded = decoded_view(self, input)?;
        check_size(decoded.len(), out.len())?;
        out.copy_from_slice(decoded);
        Ok(())
    }

    /// Decode `input` of unknown decoded size into `out` (cleared first), at most `limit` bytes.
    /// More bytes are a `Kind::Data` error, raised before allocating them.
    fn decode(&self, input: &[u8], out: &mut Vec<u8>, limit: usize, _context: &mut Context) -> Result<()> {
        out.clear();
        let decoded = decoded_view(self, input)?;
        check_limit(decoded.len(), limit)?;
        reserve(out, decoded.len())?;
        out.extend_from_slice(decoded);
        Ok(())
    }

    /// Return the decoded bytes as a slice of `input` (checksums), otherwise None.
    fn decode_view<'a>(&self, _input: &'a [u8]) -> Option<Result<&'a [u8]>> {
        None
    }

    /// Return whether [`BytesCodec::decode_part`] decodes a part of some inputs.
    fn decodes_parts(&self) -> bool {
        false
    }

    /// Decode only bytes `start..start + out.len()` of `total` decoded bytes if the format allows
    /// it at a lower cost than decoding all; otherwise None.
    fn decode_part(
        &self,
        _input: &[u8],
        _total: usize,
        _start: usize,
        _out: &mut [u8],
        _context: &mut Context,
    ) -> Option<Result<()>> {
        None
    }

    /// Encode `input` and append the result to `out`.
    fn encode(&self, input: &[u8], out: &mut Vec<u8>, context: &mut Context) -> Result<()>;

    /// Encode `data` by appending only (checksums); false, with `data` unchanged, if the codec
    /// cannot.
    fn encode_in_place(&self, _data: &mut Vec<u8>) -> bool {
        false
    }
}

/// Compiles a codec from its parameters.
type Compile = fn(&Config) -> Result<Arc<dyn BytesCodec>>;

/// All codecs: one line for each name and the file that implements it.
const CODECS: &[(&str, Compile)] = &[
    ("adler32", checksum::compile),
    ("bitround", bitround::compile),
    ("blosc", blosc::compile),
    ("crc32", checksum::compile),
    ("crc32c", checksum::compile),
    ("delta", delta::compile),
    ("fletcher32", checksum::compile),
    ("gzip", deflate::compile),
    ("jenkins_lookup3", checksum::compile),
    ("lz4", lz4::compile),
    ("shuffle", shuffle::compile),
    ("zlib", deflate::compile),
    ("zstd", zstd::compile),
];

/// Return the decoded bytes of a codec that only checks or removes bytes.
fn decoded_view<'a, C: BytesCodec + ?Sized>(codec: &C, input: &'a [u8]) -> Result<&'a [u8]> {
    let missing = || Err(Error::internal(format!("codec '{}' has no decoder", codec.name())));
    codec.decode_view(input).unwrap_or_else(missing)
}

fn check_size(decoded: usize, expected: usize) -> Result<()> {
    if decoded == expected {
        return Ok(());
    }
    Err(Error::size(format!("decodes to {decoded} bytes, expected {expected}")))
}

fn check_limit(decoded: usize, limit: usize) -> Result<()> {
    if decoded <= limit {
        return Ok(());
    }
    Err(Error::size(format!("decodes to {decoded} bytes, over the limit of {limit}")))
}

fn over_limit(limit: usize) -> Error {
    Error::size(format!("decodes to more than the limit of {limit} bytes"))
}

fn too_long(expected: usize) -> Error {
    Error::size(format!("decodes to more than the expected {expected} bytes"))
}

/// Extend `out` by `size` bytes and return them.
fn extend_zeroed(out: &mut Vec<u8>, size: usize) -> Result<&mut [u8]> {
    reserve(out, size)?;
    let start = out.len();
    out.resize(start + size, 0);
    Ok(&mut out[start..])
}
