//! Codec state that a worker thread reuses between chunks.
//!
//! Every codec library has state that is expensive to create (tables, workspaces) and cheap to
//! reuse. A [`Context`] belongs to one thread at a time, so it needs no lock; each part is created
//! on first use.

use zstd_safe::{CCtx, DCtx};

use super::deflate::{Deflater, Inflater};
use crate::error::{Error, Result};

/// The maximum size of a scratch buffer between chunks; a larger one is freed after use.
const MAX_SPARE_BYTES: usize = 32 << 20;

/// The first level whose Deflate encoder takes much memory: about 9 MB instead of at most 1 MB.
const FIRST_LARGE_LEVEL: u8 = 9;

/// Codec contexts and scratch memory of one thread; each part is created on first use.
#[derive(Default)]
pub struct Context {
    zstd_decoder: Option<DCtx<'static>>,
    zstd_encoder: Option<CCtx<'static>>,
    inflater: Option<Inflater>,
    /// The last used Deflate encoder, and its level.
    deflater: Option<(u8, Deflater)>,
    lz4hc: Vec<u64>,
    snappy: Option<Box<snap::raw::Encoder>>,
    pub(super) scratch: Scratch,
}

/// Scratch memory of the Blosc codec, never cleared.
#[derive(Default)]
pub(super) struct Scratch {
    /// One block between its filter and its compressor.
    pub(super) block: ReusableBuffer,
    /// One whole block of a partial read; the output of Snappy.
    pub(super) whole: ReusableBuffer,
    /// A tile of the bit shuffle, which fits the first-level cache.
    pub(super) tile: ReusableBuffer,
    /// The position at which BloscLZ last saw each hash.
    pub(super) positions: Vec<u32>,
}

impl Context {
    pub(super) fn zstd_decoder(&mut self) -> Result<&mut DCtx<'static>> {
        get_or_create(&mut self.zstd_decoder, DCtx::try_create, "a Zstandard decoder")
    }

    pub(super) fn zstd_encoder(&mut self) -> Result<&mut CCtx<'static>> {
        get_or_create(&mut self.zstd_encoder, CCtx::try_create, "a Zstandard encoder")
    }

    pub(super) fn inflater(&mut self) -> Result<&mut Inflater> {
        get_or_create(&mut self.inflater, Inflater::new, "a Deflate decoder")
    }

    /// Return the compressor of `level`, 0 to 9.
    pub(super) fn deflater(&mut self, level: u8) -> Result<&mut Deflater> {
        self.deflater.take_if(|(other, _)| *other != level);
        let create = || Some((level, Deflater::new(level)?));
        get_or_create(&mut self.deflater, create, "a Deflate encoder").map(|(_, deflater)| deflater)
    }

    /// Return the state of LZ4's high-compression encoder, aligned to 8 bytes.
    pub(super) fn lz4hc(&mut self, bytes: usize) -> &mut [u64] {
        let words = bytes.div_ceil(8);
        if self.lz4hc.len() < words {
            self.lz4hc.resize(words, 0);
        }
        &mut self.lz4hc
    }

    /// Snappy's encoder, and a buffer for its output for `bytes` bytes.
    pub(super) fn snappy(&mut self, bytes: usize) -> (&mut snap::raw::Encoder, &mut [u8]) {
        let encoder = self.snappy.get_or_insert_with(|| Box::new(snap::raw::Encoder::new()));
        (encoder, self.scratch.whole.bytes(snap::raw::max_compress_len(bytes)))
    }

    /// Free large memory: a large Deflate encoder, which takes longer to use than to create, and
    /// scratch memory that a single unusual chunk made large.
    pub(crate) fn trim(&mut self) {
        self.deflater.take_if(|(level, _)| *level >= FIRST_LARGE_LEVEL);
        for buffer in [&mut self.scratch.block, &mut self.scratch.whole] {
            if buffer.capacity() > MAX_SPARE_BYTES {
                *buffer = ReusableBuffer::default();
            }
        }
    }
}

/// Reusable bytes with undefined content, aligned to a cache line: vector stores across lines cost
/// the shuffle a tenth of its speed.
#[derive(Default)]
pub(super) struct ReusableBuffer(Vec<Line>);

#[derive(Clone)]
#[repr(C, align(64))]
struct Line([u8; LINE_BYTES]);

const LINE_BYTES: usize = 64;

impl ReusableBuffer {
    /// Return the first `bytes` bytes. Allocate more if necessary.
    pub(super) fn bytes(&mut self, bytes: usize) -> &mut [u8] {
        let lines = bytes.div_ceil(LINE_BYTES);
        if self.0.len() < lines {
            // The old content need not be copied.
            self.0 = Vec::new();
            self.0.resize(lines, Line([0; LINE_BYTES]));
        }
        // SAFETY: this number of lines of plain bytes is initialised.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), bytes) }
    }

    fn capacity(&self) -> usize {
        self.0.len() * LINE_BYTES
    }
}

fn get_or_create<'a, T>(
    slot: &'a mut Option<T>,
    create: impl FnOnce() -> Option<T>,
    what: &str,
) -> Result<&'a mut T> {
    if slot.is_none() {
        *slot = create();
    }
    slot.as_mut().ok_or_else(|| Error::internal(format!("no memory for {what}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_moves_to_another_thread() {
        fn moves<T: Send>(_: &T) {}
        moves(&Context::default());
    }

    #[test]
    fn context_has_one_deflate_encoder_and_trim_frees_a_large_one() {
        let mut context = Context::default();
        let level = |context: &Context| context.deflater.as_ref().map(|(level, _)| *level);
        for small in [1, 6] {
            assert!(context.deflater(small).is_ok());
            context.trim();
            assert_eq!(level(&context), Some(small));
        }
        assert!(context.deflater(9).is_ok());
        assert_eq!(level(&context), Some(9));
        context.trim();
        assert_eq!(level(&context), None);
    }

    #[test]
    fn trim_frees_only_large_buffers() {
        let mut context = Context::default();
        context.scratch.block.bytes(MAX_SPARE_BYTES + 1);
        context.scratch.whole.bytes(10);
        context.trim();
        let Scratch { block, whole, .. } = &context.scratch;
        assert_eq!((block.capacity(), whole.capacity()), (0, LINE_BYTES));
    }
}
