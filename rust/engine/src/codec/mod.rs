//! Codecs from bytes to bytes. One file per codec; see each for its format.

use std::fmt::Debug;

use crate::error::Result;

mod context;

pub use context::Context;

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

    /// The most bytes that our encoder makes of `decoded` bytes.
    fn bound(&self, decoded: usize) -> usize;

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
