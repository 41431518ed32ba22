//! Codecs from bytes to bytes. One file per codec; see each for its format.

use std::fmt::Debug;
use std::mem::MaybeUninit;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::scratch::reserve;

mod bitround;
mod blosc;
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
pub use foreign::{Foreign, ForeignCodec, Take};

/// A codec from bytes to bytes, compiled: configuration checked, no state.
///
/// Contexts, hash tables and scratch live in the [`Context`] that each worker
/// thread owns, so that encoding and decoding allocate nothing per chunk.
pub trait BytesCodec: Send + Sync + Debug {
    /// The name in the metadata, for messages.
    fn name(&self) -> &str;

    /// Whether it is the engine's own, and asks nobody.
    fn is_native(&self) -> bool {
        true
    }

    /// The size of the encoding of `decoded` bytes, where it depends on nothing else.
    fn fixed_size(&self, _decoded: usize) -> Option<usize> {
        None
    }

    /// The most bytes that our encoder makes of `decoded` bytes; a guess for
    /// foreign codecs. Other writers may have made more.
    fn bound(&self, decoded: usize) -> usize;

    /// The fewest bytes that can decode to `decoded` bytes; 0 where nobody knows.
    fn least(&self, decoded: usize) -> usize {
        self.fixed_size(decoded).unwrap_or(0)
    }

    /// Decode `input` to exactly `out.len()` bytes. More, fewer or damaged
    /// bytes are a `Kind::Data` error; `out` then holds anything.
    fn decode_into(&self, input: &[u8], out: &mut [u8], context: &mut Context) -> Result<()>;

    /// Decode `input` of unknown decoded size into `out` (cleared first), at
    /// most `limit` bytes; more is a `Kind::Data` error, found before allocating.
    fn decode(&self, input: &[u8], out: &mut Vec<u8>, limit: usize, context: &mut Context) -> Result<()>;

    /// The decoded bytes where they stand inside `input` (checksums), else None.
    fn decode_view<'a>(&self, _input: &'a [u8]) -> Option<Result<&'a [u8]>> {
        None
    }

    /// Decode only bytes `start..start + out.len()` of `total` decoded bytes
    /// where the format allows it more cheaply than decoding all; None where not.
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

    /// Turn `data` into its encoding by appending only (checksums); false if
    /// this codec cannot, and `data` is untouched.
    fn encode_in_place(&self, _data: &mut Vec<u8>) -> bool {
        false
    }
}

/// Makes a codec of its parameters.
type Compile = fn(&Config) -> Result<Arc<dyn BytesCodec>>;

/// All codecs: one line for each name, beside the file that it names.
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

/// The last `size` bytes of `out` after it has grown by as many.
fn grown(out: &mut Vec<u8>, size: usize) -> Result<&mut [u8]> {
    reserve(out, size)?;
    let start = out.len();
    out.resize(start + size, 0);
    Ok(&mut out[start..])
}

/// `out` as a buffer that a decoder fills.
///
/// # Safety
/// Only initialised bytes may be written through the result.
unsafe fn as_uninit(out: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    // SAFETY: the layouts are equal; the caller keeps the bytes initialised.
    unsafe { &mut *(std::ptr::from_mut(out) as *mut [MaybeUninit<u8>]) }
}
