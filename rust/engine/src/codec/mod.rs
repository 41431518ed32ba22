//! Codecs from bytes to bytes. One file per codec; see each for its format.

use std::fmt::Debug;
use std::mem::MaybeUninit;
use std::sync::Arc;

use crate::error::{Error, Result};

mod blosc;
mod context;
mod crc32c;
mod deflate;
mod foreign;
mod lz4;
mod zstd;

pub use blosc::Blosc;
pub use context::Context;
pub use crc32c::Crc32c;
pub use deflate::Deflate;
pub use foreign::{Foreign, ForeignCodec, Take};
pub use lz4::Lz4;
pub use zstd::Zstd;

/// A codec from bytes to bytes, compiled: configuration checked, no state.
///
/// Contexts, hash tables and scratch live in the [`Context`] that each worker
/// thread owns, so that encoding and decoding allocate nothing per chunk.
pub trait BytesCodec: Send + Sync + Debug {
    /// The name in the metadata, for messages.
    fn name(&self) -> &str;

    /// The size of the encoding of `decoded` bytes, where it depends on nothing else.
    fn fixed_size(&self, _decoded: usize) -> Option<usize> {
        None
    }

    /// The most bytes that our encoder makes of `decoded` bytes; a guess for
    /// foreign codecs. Other writers may have made more.
    fn bound(&self, decoded: usize) -> usize;

    /// The fewest bytes that can decode to `decoded` bytes; 0 where nobody knows.
    fn least(&self, _decoded: usize) -> usize {
        0
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

/// A codec as its metadata describes it, values not checked yet.
#[derive(Clone, Debug)]
pub enum CodecSpec {
    /// Zstandard: level −131072 to 22, and whether frames end in a checksum.
    Zstd {
        /// 0 means Zstandard's default, 3.
        level: i64,
        /// Adds 4 bytes to the frame.
        checksum: bool,
    },
    /// A Blosc-1 buffer.
    Blosc {
        /// `blosclz`, `lz4`, `lz4hc`, `snappy`, `zlib` or `zstd`.
        cname: String,
        /// 0 (stored) to 9.
        clevel: i64,
        /// 0 none, 1 bytes, 2 bits; −1 bytes, or bits where items are one byte.
        shuffle: i64,
        /// Bytes of one item; above 255 it counts as 1.
        typesize: i64,
        /// Bytes of one block; 0 chooses.
        blocksize: i64,
    },
    /// gzip: level 0 to 9, −1 for the default.
    Gzip {
        /// 0 stores.
        level: i64,
    },
    /// zlib: level 0 to 9, −1 for the default.
    Zlib {
        /// 0 stores.
        level: i64,
    },
    /// LZ4 in numcodecs' framing.
    Lz4 {
        /// Below 1 means 1.
        acceleration: i64,
    },
    /// The checksum CRC-32C.
    Crc32c,
    /// A codec written elsewhere.
    Foreign(Arc<dyn ForeignCodec>),
}

impl CodecSpec {
    /// The codec, or a `Kind::Argument` error that names the wrong parameter.
    pub fn compile(self) -> Result<Arc<dyn BytesCodec>> {
        Ok(match self {
            CodecSpec::Zstd { level, checksum } => Arc::new(Zstd::new(level, checksum)?),
            CodecSpec::Blosc { cname, clevel, shuffle, typesize, blocksize } => {
                Arc::new(Blosc::new(&cname, clevel, shuffle, typesize, blocksize)?)
            }
            CodecSpec::Gzip { level } => Arc::new(Deflate::gzip(level)?),
            CodecSpec::Zlib { level } => Arc::new(Deflate::zlib(level)?),
            CodecSpec::Lz4 { acceleration } => Arc::new(Lz4::new(acceleration)?),
            CodecSpec::Crc32c => Arc::new(Crc32c),
            CodecSpec::Foreign(codec) => Arc::new(Foreign::new(codec)),
        })
    }
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

/// `out` as a buffer that a decoder fills.
///
/// # Safety
/// Only initialised bytes may be written through the result.
unsafe fn as_uninit(out: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    // SAFETY: the layouts are equal; the caller keeps the bytes initialised.
    unsafe { &mut *(std::ptr::from_mut(out) as *mut [MaybeUninit<u8>]) }
}
