//! The codec `blosc`: <https://zarr-specs.readthedocs.io/en/latest/v3/codecs/blosc/index.html>.
//!
//! This module reads and writes the Blosc-1 container of
//! <https://github.com/Blosc/c-blosc/blob/main/README_CHUNK_FORMAT.rst> without c-blosc. A buffer
//! is a [header], then either the stored bytes or independent blocks. Each block is
//! [shuffled](shuffle) and compressed as one [stream], or as one stream per byte of an item. Blocks
//! make it cheap to decode a part of a buffer.
//!
//! The writer chooses blocks and splits exactly as c-blosc 1.21, so its output with BloscLZ, LZ4
//! and Zstandard is identical. The format has no checksum.

use std::mem::{take, MaybeUninit};
use std::ops::Range;

mod blosclz;
mod header;
pub(super) mod shuffle;
mod stream;

use self::header::{Filter, Header, HEADER_BYTES};
use self::shuffle::{Kernel, Planes, MAX_SEPARATE_PLANES};
use self::stream::Compressor;
use super::{zstd, BytesCodec, Config, Context};
use crate::error::{Error, Result};
use crate::scratch::reserve;

/// The maximum item size in a header.
const MAX_TYPESIZE: i64 = 255;

/// The Blosc codec. Decoding uses the buffer only, not these parameters.
#[derive(Debug, Clone, Copy)]
struct Blosc {
    compressor: Compressor,
    level: u8,
    filter: Filter,
    typesize: u8,
    blocksize: usize,
}

/// Return the parameters: `cname`; `clevel`, 0 (stored) to 9; `shuffle`, 0 none, 1 bytes, 2 bits,
/// −1 bytes, or bits if items are one byte; `typesize`, the item size in bytes, where above 255
/// counts as 1; `blocksize`, where 0 chooses.
pub(super) fn compile(config: &Config) -> Result<std::sync::Arc<dyn BytesCodec>> {
    Ok(std::sync::Arc::new(Blosc::new(config)?))
}

impl Blosc {
    fn new(config: &Config) -> Result<Self> {
        let invalid = |what: String| config.wrong(what);
        let cname = config.text("cname")?;
        let (clevel, shuffle) = (config.integer("clevel")?, config.integer("shuffle")?);
        let (typesize, blocksize) = (config.integer("typesize")?, config.integer("blocksize")?);
        let compressor = Compressor::of_name(cname).ok_or_else(|| {
            invalid(format!("cname '{cname}' is not one of blosclz, lz4, lz4hc, snappy, zlib, zstd"))
        })?;
        let level = u8::try_from(clevel).ok().filter(|level| *level <= 9);
        let level = level.ok_or_else(|| invalid(format!("clevel {clevel} is not within 0 to 9")))?;
        if typesize < 1 {
            return Err(invalid(format!("typesize {typesize} is not positive")));
        }
        let typesize = if typesize > MAX_TYPESIZE { 1 } else { typesize as u8 };
        let filter = match shuffle {
            0 => Filter::Nothing,
            1 => Filter::Bytes,
            2 => Filter::Bits,
            -1 if typesize == 1 => Filter::Bits,
            -1 => Filter::Bytes,
            _ => return Err(invalid(format!("shuffle {shuffle} is not one of -1, 0, 1, 2"))),
        };
        let blocksize = usize::try_from(blocksize)
            .map_err(|_| invalid(format!("blocksize {blocksize} is negative")))?
            .min(header::MAX_BLOCK);
        Ok(Blosc { compressor, level, filter, typesize, blocksize })
    }
}

impl BytesCodec for Blosc {
    fn name(&self) -> &str {
        "blosc"
    }

    fn bound(&self, decoded: usize) -> usize {
        decoded.saturating_add(HEADER_BYTES)
    }

    fn min_encoded(&self, decoded: usize) -> usize {
        // No other compressor in the container has a higher ratio.
        decoded / zstd::MAX_RATIO
    }

    fn decode_into(&self, input: &[u8], out: &mut [u8], context: &mut Context) -> Result<()> {
        let header = Header::parse(input)?;
        super::check_size(header.decoded_bytes, out.len())?;
        decode_all(&header, input, out, context)
    }

    fn decode(&self, input: &[u8], out: &mut Vec<u8>, limit: usize, context: &mut Context) -> Result<()> {
        out.clear();
        let header = Header::parse(input)?;
        super::check_limit(header.decoded_bytes, limit)?;
        reserve(out, header.decoded_bytes)?;
        out.resize(header.decoded_bytes, 0);
        decode_all(&header, input, out, context)
    }

    fn decodes_parts(&self) -> bool {
        true
    }

    fn decode_part(
        &self,
        input: &[u8],
        total: usize,
        start: usize,
        out: &mut [u8],
        context: &mut Context,
    ) -> Option<Result<()>> {
        let header = match Header::parse(input) {
            Ok(header) => header,
            Err(error) => return Some(Err(error)),
        };
        if let Err(error) = super::check_size(header.decoded_bytes, total) {
            return Some(Err(error));
        }
        let range = start..start.checked_add(out.len()).filter(|end| *end <= total)?;
        if !header.stored && header.block_count() < 2 {
            return None;
        }
        let decoded = decode_range(&header, input, range, out, context);
        context.trim();
        Some(decoded)
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>, context: &mut Context) -> Result<()> {
        if input.len() > header::MAX_INPUT {
            let (max_bytes, bytes) = (header::MAX_INPUT, input.len());
            return Err(Error::argument(format!("blosc takes at most {max_bytes} bytes, got {bytes}")));
        }
        let mut plan = Header::plan(
            self.compressor,
            self.level,
            self.filter,
            usize::from(self.typesize),
            self.blocksize,
            input.len(),
        );
        let max_bytes = HEADER_BYTES + input.len();
        out.reserve(max_bytes);
        let end = out.len();
        let output = &mut out.spare_capacity_mut()[..max_bytes];
        let mut whole =
            if plan.stored { 0 } else { encode_blocks(&plan, self.level, input, output, context)? };
        context.trim();
        if whole == 0 {
            plan.stored = true;
            whole = max_bytes;
            write_at(output, HEADER_BYTES, input);
        }
        write_at(output, 0, &plan.to_bytes(whole));
        // SAFETY: the header and everything up to `whole` is written.
        unsafe { out.set_len(end + whole) };
        Ok(())
    }
}

fn decode_all(header: &Header, input: &[u8], out: &mut [u8], context: &mut Context) -> Result<()> {
    let decoded = decode_range(header, input, 0..header.decoded_bytes, out, context);
    context.trim();
    decoded
}

/// Decode the bytes of `range` from the blocks that contain them.
fn decode_range(
    header: &Header,
    input: &[u8],
    range: Range<usize>,
    out: &mut [u8],
    context: &mut Context,
) -> Result<()> {
    if header.stored {
        out.copy_from_slice(&input[HEADER_BYTES..][range]);
        return Ok(());
    }
    if range.is_empty() {
        return Ok(());
    }
    let kernel = Kernel::detect();
    for index in range.start / header.block_bytes..range.end.div_ceil(header.block_bytes) {
        let block = header.block(index);
        let decoded_range = block.start.max(range.start)..block.end.min(range.end);
        let target = &mut out[decoded_range.start - range.start..decoded_range.end - range.start];
        if decoded_range == block {
            decode_block(header, kernel, input, index, target, context)?;
            continue;
        }
        let mut whole = take(&mut context.scratch.whole);
        let bytes = whole.bytes(block.len());
        let decoded = decode_block(header, kernel, input, index, bytes, context);
        if decoded.is_ok() {
            target
                .copy_from_slice(&bytes[decoded_range.start - block.start..decoded_range.end - block.start]);
        }
        context.scratch.whole = whole;
        decoded?;
    }
    Ok(())
}

fn decode_block(
    header: &Header,
    kernel: Kernel,
    input: &[u8],
    index: usize,
    out: &mut [u8],
    context: &mut Context,
) -> Result<()> {
    let mut reader = StreamReader::new(header, input, index)?;
    let streams = header.streams(out.len());
    if out.len() % streams != 0 {
        return Err(reader.damaged(&format!("{} bytes in {streams} streams", out.len())));
    }
    let stream_bytes = out.len() / streams;
    let filter = header.block_filter(out.len());
    if filter == Filter::Nothing {
        for part in out.chunks_exact_mut(stream_bytes) {
            let stream = reader.next()?;
            if stream.len() == part.len() {
                part.copy_from_slice(stream);
            } else {
                reader.decode(stream, part, context)?;
            }
        }
        return Ok(());
    }
    let mut block = take(&mut context.scratch.block);
    let decoded = (|| {
        // Stored streams are not copied.
        let mut parts: [&[u8]; MAX_SEPARATE_PLANES] = [&[]; MAX_SEPARATE_PLANES];
        for (plane, part) in parts.iter_mut().zip(block.bytes(out.len()).chunks_exact_mut(stream_bytes)) {
            let stream = reader.next()?;
            *plane = stream;
            if stream.len() != part.len() {
                reader.decode(stream, part, context)?;
                *plane = part;
            }
        }
        let planes =
            if streams == 1 { Planes::Contiguous(parts[0]) } else { Planes::Separate(&parts[..streams]) };
        match filter {
            Filter::Bits => kernel.bitunshuffle(header.typesize, planes, out, &mut context.scratch.tile),
            _ => kernel.unshuffle(header.typesize, planes, out),
        }
        Ok(())
    })();
    context.scratch.block = block;
    decoded
}

/// The consecutive streams of one block.
struct StreamReader<'a> {
    compressor: Compressor,
    input: &'a [u8],
    index: usize,
    offset: usize,
}

impl<'a> StreamReader<'a> {
    fn new(header: &Header, input: &'a [u8], index: usize) -> Result<Self> {
        let mut this = StreamReader { compressor: header.compressor, input, index, offset: 0 };
        let start = size_at(input, HEADER_BYTES + 4 * index);
        this.offset = start
            .filter(|start| *start >= header.blocks_start())
            .ok_or_else(|| this.damaged("its position is outside the buffer"))?;
        Ok(this)
    }

    fn damaged(&self, why: &str) -> Error {
        Error::data(format!("damaged block {}: {why}", self.index))
    }

    fn next(&mut self) -> Result<&'a [u8]> {
        let size = size_at(self.input, self.offset)
            .ok_or_else(|| self.damaged("a stream starts outside the buffer"))?;
        let start = self.offset + 4;
        let stream = self.input.get(start..start.saturating_add(size));
        self.offset = start.saturating_add(size);
        stream.ok_or_else(|| self.damaged(&format!("a stream of {size} bytes exceeds the buffer")))
    }

    fn decode(&self, stream: &[u8], part: &mut [u8], context: &mut Context) -> Result<()> {
        let decoded = self.compressor.decode(stream, part, context);
        decoded.map_err(|error| Error { message: self.damaged(&error.message).message, ..error })
    }
}

/// Return the number at `offset`, unless `offset` is outside `input`.
fn size_at(input: &[u8], offset: usize) -> Option<usize> {
    let bytes = input.get(offset..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*bytes) as usize)
}

/// Encode all blocks. Return the size of the buffer, or 0 if it is not smaller than a stored one.
fn encode_blocks(
    plan: &Header,
    level: u8,
    input: &[u8],
    output: &mut [MaybeUninit<u8>],
    context: &mut Context,
) -> Result<usize> {
    let kernel = Kernel::detect();
    let mut offset = plan.blocks_start();
    for index in 0..plan.block_count() {
        if offset > output.len() {
            return Ok(0);
        }
        write_at(output, HEADER_BYTES + 4 * index, &(offset as u32).to_le_bytes());
        let source = &input[plan.block(index)];
        let mut block = take(&mut context.scratch.block);
        let filtered = match plan.block_filter(source.len()) {
            Filter::Nothing => source,
            Filter::Bytes => {
                let target = block.bytes(source.len());
                kernel.shuffle(plan.typesize, source, target);
                target
            }
            Filter::Bits => {
                let target = block.bytes(source.len());
                kernel.bitshuffle(plan.typesize, source, target, &mut context.scratch.tile);
                target
            }
        };
        let encoded = encode_streams(plan, level, filtered, output, offset, context);
        context.scratch.block = block;
        offset = encoded?;
        if offset == 0 {
            return Ok(0);
        }
    }
    Ok(offset)
}

/// Encode the streams of one block from `offset` on. Return their end, or 0 if they do not fit.
fn encode_streams(
    plan: &Header,
    level: u8,
    filtered: &[u8],
    output: &mut [MaybeUninit<u8>],
    mut offset: usize,
    context: &mut Context,
) -> Result<usize> {
    for stream in filtered.chunks_exact(filtered.len() / plan.streams(filtered.len())) {
        let start = offset + 4;
        if start >= output.len() {
            return Ok(0);
        }
        let end = output.len().min(start + stream.len());
        let mut size = plan.compressor.encode(level, plan.split, stream, &mut output[start..end], context)?;
        if size == 0 || size == stream.len() {
            size = stream.len();
            if start + size > output.len() {
                return Ok(0);
            }
            write_at(output, start, stream);
        }
        write_at(output, offset, &(size as u32).to_le_bytes());
        offset = start + size;
    }
    Ok(offset)
}

/// Write `bytes` at `offset`; the caller checks that they fit `out`.
fn write_at(output: &mut [MaybeUninit<u8>], offset: usize, bytes: &[u8]) {
    let target = &mut output[offset..offset + bytes.len()];
    // SAFETY: equal lengths, and a fresh buffer overlaps nothing.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target.as_mut_ptr().cast(), bytes.len()) };
}
