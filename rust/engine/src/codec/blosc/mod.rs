//! `blosc`: <https://zarr-specs.readthedocs.io/en/latest/v3/codecs/blosc/index.html>.
//!
//! The Blosc-1 container of <https://github.com/Blosc/c-blosc/blob/main/README_CHUNK_FORMAT.rst>,
//! read and written here without c-blosc. A buffer is a [header], then either
//! the bytes as they are, or blocks that are independent of each other: each
//! is [shuffled](shuffle) and compressed as one [stream], or as one stream per
//! byte of an item. Blocks make it cheap to decode a part of a buffer.
//!
//! The writer chooses blocks and splits exactly as c-blosc 1.21 does, so that
//! for BloscLZ, LZ4 and Zstandard the same bytes come out. There is no checksum.

use std::mem::{take, MaybeUninit};
use std::ops::Range;

mod blosclz;
mod header;
pub(super) mod shuffle;
mod stream;

use self::header::{Filter, Header, HEADER_BYTES};
use self::shuffle::{Kernel, Planes, MOST_APART};
use self::stream::Compressor;
use super::{zstd, BytesCodec, Config, Context};
use crate::error::{Error, Kind, Result};
use crate::scratch::reserve;

/// The largest size of an item that a header can hold.
const LARGEST_TYPESIZE: i64 = 255;

/// The Blosc codec. Decoding looks at the buffer only, not at these parameters.
#[derive(Debug, Clone, Copy)]
struct Blosc {
    compressor: Compressor,
    level: u8,
    filter: Filter,
    typesize: u8,
    blocksize: usize,
}

/// The parameters: `cname`; `clevel`, 0 (stored) to 9; `shuffle`, 0 none, 1 bytes, 2 bits, −1 bytes,
/// or bits where items are one byte; `typesize`, bytes of an item, above 255 it counts as 1;
/// `blocksize`, 0 chooses.
pub(super) fn compile(config: &Config) -> Result<std::sync::Arc<dyn BytesCodec>> {
    Ok(std::sync::Arc::new(Blosc::new(config)?))
}

impl Blosc {
    fn new(config: &Config) -> Result<Self> {
        let wrong = |what: String| config.wrong(what);
        let cname = config.text("cname")?;
        let (clevel, shuffle) = (config.integer("clevel")?, config.integer("shuffle")?);
        let (typesize, blocksize) = (config.integer("typesize")?, config.integer("blocksize")?);
        let compressor = Compressor::of_name(cname).ok_or_else(|| {
            wrong(format!("cname '{cname}' is not one of blosclz, lz4, lz4hc, snappy, zlib, zstd"))
        })?;
        let level = u8::try_from(clevel).ok().filter(|level| *level <= 9);
        let level = level.ok_or_else(|| wrong(format!("clevel {clevel} is not within 0 to 9")))?;
        if typesize < 1 {
            return Err(wrong(format!("typesize {typesize} is not positive")));
        }
        let typesize = if typesize > LARGEST_TYPESIZE { 1 } else { typesize as u8 };
        let filter = match shuffle {
            0 => Filter::Nothing,
            1 => Filter::Bytes,
            2 => Filter::Bits,
            -1 if typesize == 1 => Filter::Bits,
            -1 => Filter::Bytes,
            _ => return Err(wrong(format!("shuffle {shuffle} is not one of -1, 0, 1, 2"))),
        };
        let blocksize = usize::try_from(blocksize)
            .map_err(|_| wrong(format!("blocksize {blocksize} is negative")))?
            .min(header::LARGEST_BLOCK);
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
        // No compressor inside does better.
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
        if input.len() > header::LARGEST_INPUT {
            let (most, given) = (header::LARGEST_INPUT, input.len());
            return Err(Error::new(Kind::Argument, format!("blosc takes at most {most} bytes, got {given}")));
        }
        let mut plan = Header::plan(
            self.compressor,
            self.level,
            self.filter,
            usize::from(self.typesize),
            self.blocksize,
            input.len(),
        );
        let most = HEADER_BYTES + input.len();
        out.reserve(most);
        let end = out.len();
        let room = &mut out.spare_capacity_mut()[..most];
        let mut whole = if plan.stored { 0 } else { encode_blocks(&plan, self.level, input, room, context)? };
        context.trim();
        if whole == 0 {
            plan.stored = true;
            whole = most;
            put(room, HEADER_BYTES, input);
        }
        put(room, 0, &plan.to_bytes(whole));
        // SAFETY: the header and everything up to `whole` has been written.
        unsafe { out.set_len(end + whole) };
        Ok(())
    }
}

fn decode_all(header: &Header, input: &[u8], out: &mut [u8], context: &mut Context) -> Result<()> {
    let decoded = decode_range(header, input, 0..header.decoded_bytes, out, context);
    context.trim();
    decoded
}

/// Decode the bytes of `range`, touching only the blocks that hold them.
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
        let wanted = block.start.max(range.start)..block.end.min(range.end);
        let target = &mut out[wanted.start - range.start..wanted.end - range.start];
        if wanted == block {
            decode_block(header, kernel, input, index, target, context)?;
            continue;
        }
        let mut whole = take(&mut context.scratch.whole);
        let bytes = whole.bytes(block.len());
        let decoded = decode_block(header, kernel, input, index, bytes, context);
        if decoded.is_ok() {
            target.copy_from_slice(&bytes[wanted.start - block.start..wanted.end - block.start]);
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
        // Stored streams are read where they are.
        let mut parts: [&[u8]; MOST_APART] = [&[]; MOST_APART];
        for (place, part) in parts.iter_mut().zip(block.bytes(out.len()).chunks_exact_mut(stream_bytes)) {
            let stream = reader.next()?;
            *place = stream;
            if stream.len() != part.len() {
                reader.decode(stream, part, context)?;
                *place = part;
            }
        }
        let planes = if streams == 1 { Planes::Together(parts[0]) } else { Planes::Apart(&parts[..streams]) };
        match filter {
            Filter::Bits => kernel.bitunshuffle(header.typesize, planes, out, &mut context.scratch.tile),
            _ => kernel.unshuffle(header.typesize, planes, out),
        }
        Ok(())
    })();
    context.scratch.block = block;
    decoded
}

/// The streams of one block, one after the other.
struct StreamReader<'a> {
    compressor: Compressor,
    input: &'a [u8],
    index: usize,
    at: usize,
}

impl<'a> StreamReader<'a> {
    fn new(header: &Header, input: &'a [u8], index: usize) -> Result<Self> {
        let mut this = StreamReader { compressor: header.compressor, input, index, at: 0 };
        let start = size_at(input, HEADER_BYTES + 4 * index);
        this.at = start
            .filter(|start| *start >= header.blocks_start())
            .ok_or_else(|| this.damaged("its position is outside of the buffer"))?;
        Ok(this)
    }

    fn damaged(&self, why: &str) -> Error {
        Error::data(format!("damaged block {}: {why}", self.index))
    }

    fn next(&mut self) -> Result<&'a [u8]> {
        let size = size_at(self.input, self.at)
            .ok_or_else(|| self.damaged("a stream starts outside of the buffer"))?;
        let start = self.at + 4;
        let stream = self.input.get(start..start.saturating_add(size));
        self.at = start.saturating_add(size);
        stream.ok_or_else(|| self.damaged(&format!("a stream of {size} bytes leaves the buffer")))
    }

    fn decode(&self, stream: &[u8], part: &mut [u8], context: &mut Context) -> Result<()> {
        let decoded = self.compressor.decode(stream, part, context);
        decoded.map_err(|error| Error { message: self.damaged(&error.message).message, ..error })
    }
}

/// The number at `at`, unless that is outside of `input`.
fn size_at(input: &[u8], at: usize) -> Option<usize> {
    let bytes = input.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*bytes) as usize)
}

/// Encode all blocks; the size of the buffer, or 0 where it is not smaller than storing.
fn encode_blocks(
    plan: &Header,
    level: u8,
    input: &[u8],
    room: &mut [MaybeUninit<u8>],
    context: &mut Context,
) -> Result<usize> {
    let kernel = Kernel::detect();
    let mut at = plan.blocks_start();
    for index in 0..plan.block_count() {
        if at > room.len() {
            return Ok(0);
        }
        put(room, HEADER_BYTES + 4 * index, &(at as u32).to_le_bytes());
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
        let encoded = encode_streams(plan, level, filtered, room, at, context);
        context.scratch.block = block;
        at = encoded?;
        if at == 0 {
            return Ok(0);
        }
    }
    Ok(at)
}

/// Encode the streams of one block from `at` on; where they end, or 0 if they do not fit.
fn encode_streams(
    plan: &Header,
    level: u8,
    filtered: &[u8],
    room: &mut [MaybeUninit<u8>],
    mut at: usize,
    context: &mut Context,
) -> Result<usize> {
    for stream in filtered.chunks_exact(filtered.len() / plan.streams(filtered.len())) {
        let start = at + 4;
        if start >= room.len() {
            return Ok(0);
        }
        let end = room.len().min(start + stream.len());
        let mut size = plan.compressor.encode(level, plan.split, stream, &mut room[start..end], context)?;
        if size == 0 || size == stream.len() {
            size = stream.len();
            if start + size > room.len() {
                return Ok(0);
            }
            put(room, start, stream);
        }
        put(room, at, &(size as u32).to_le_bytes());
        at = start + size;
    }
    Ok(at)
}

/// Writes `bytes` at `at`, which the caller made sure to be within `room`.
fn put(room: &mut [MaybeUninit<u8>], at: usize, bytes: &[u8]) {
    let target = &mut room[at..at + bytes.len()];
    // SAFETY: equal lengths, and a fresh buffer overlaps nothing.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target.as_mut_ptr().cast(), bytes.len()) };
}
