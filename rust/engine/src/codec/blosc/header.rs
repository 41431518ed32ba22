//! The header of a Blosc-1 buffer, and the choice of blocks of c-blosc 1.21.
//!
//! | bytes | meaning |
//! |---|---|
//! | 0 | version of the container: 2 |
//! | 1 | version of the compressor's format: 1 |
//! | 2 | flags: 1 byte shuffle, 2 stored, 4 bit shuffle, 16 unsplit; upper three bits: format |
//! | 3 | item size |
//! | 4–7 | decoded size (all numbers are little-endian u32, and positive as i32) |
//! | 8–11 | decoded size of a block |
//! | 12–15 | size of the whole buffer |
//!
//! In a stored buffer the decoded bytes follow. In any other buffer the position of each block in
//! the buffer follows, a u32 each.

use super::shuffle::MAX_SEPARATE_PLANES;
use super::stream::Compressor;
use crate::error::{Error, Result};

/// The size of the header.
pub(super) const HEADER_BYTES: usize = 16;

const VERSION: u8 = 2;
const FORMAT_VERSION: u8 = 1;

const BYTE_SHUFFLED: u8 = 1;
const STORED: u8 = 2;
const BIT_SHUFFLED: u8 = 4;
const RESERVED: u8 = 8;
const UNSPLIT: u8 = 16;

/// The maximum decoded size of a buffer.
pub(super) const MAX_INPUT: usize = i32::MAX as usize - HEADER_BYTES;
/// Shorter inputs and streams are not compressed.
const MIN_INPUT: usize = 128;
pub(super) const MAX_BLOCK: usize = (i32::MAX as usize - 255 * 4) / 3;

/// The filter that is applied to a block before compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filter {
    Nothing,
    Bytes,
    Bits,
}

/// A checked header; also the plan of an encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) compressor: Compressor,
    pub(super) filter: Filter,
    pub(super) stored: bool,
    /// Whole blocks may consist of one stream per byte of an item.
    pub(super) split: bool,
    pub(super) typesize: usize,
    pub(super) decoded_bytes: usize,
    pub(super) block_bytes: usize,
}

impl Header {
    /// Return the plan for `decoded` bytes; `block_bytes` 0 chooses a block size.
    pub(super) fn plan(
        compressor: Compressor,
        level: u8,
        filter: Filter,
        typesize: usize,
        block_bytes: usize,
        decoded: usize,
    ) -> Self {
        let block_bytes = choose_block(compressor, level, typesize, block_bytes, decoded);
        let split = splits(compressor, typesize, block_bytes);
        let stored = level == 0 || decoded < MIN_INPUT;
        Header { compressor, filter, stored, split, typesize, decoded_bytes: decoded, block_bytes }
    }

    /// Parse and check the header of `input`, a whole buffer.
    pub(super) fn parse(input: &[u8]) -> Result<Self> {
        let Some(header) = input.first_chunk::<HEADER_BYTES>() else {
            return Err(Error::data(format!("{} bytes cannot hold a Blosc header", input.len())));
        };
        let [version, format_version, flags, typesize, n0, n1, n2, n3, b0, b1, b2, b3, c0, c1, c2, c3] =
            *header;
        if version != VERSION {
            return Err(Error::data(format!("container version {version}, expected {VERSION} (Blosc 1)")));
        }
        let whole = number([c0, c1, c2, c3])?;
        if whole != input.len() {
            let actual = input.len();
            return Err(Error::data(format!("the header says {whole} bytes, but the buffer has {actual}")));
        }
        if flags & RESERVED != 0 {
            return Err(Error::data(format!("unknown flags 0x{flags:02x}")));
        }
        let this = Header {
            compressor: Compressor::of_format(flags >> 5)?,
            filter: match (flags & BYTE_SHUFFLED, flags & BIT_SHUFFLED) {
                (0, 0) => Filter::Nothing,
                // A shuffle of single bytes changes nothing, so the other flag counts.
                (0, _) => Filter::Bits,
                (_, 0) => Filter::Bytes,
                _ if typesize == 1 => Filter::Bits,
                _ => Filter::Bytes,
            },
            stored: flags & STORED != 0,
            split: flags & UNSPLIT == 0,
            typesize: usize::from(typesize),
            decoded_bytes: number([n0, n1, n2, n3])?,
            block_bytes: number([b0, b1, b2, b3])?,
        };
        this.check(format_version, whole)?;
        Ok(this)
    }

    fn check(&self, format_version: u8, whole: usize) -> Result<()> {
        let Header { decoded_bytes: decoded, block_bytes, .. } = *self;
        if self.typesize == 0 {
            return Err(Error::data("items of 0 bytes"));
        }
        if decoded > 0 && (block_bytes == 0 || block_bytes > decoded) {
            return Err(Error::data(format!("blocks of {block_bytes} bytes in {decoded} bytes")));
        }
        if block_bytes > MAX_BLOCK && !self.stored {
            return Err(Error::data(format!("blocks of {block_bytes} bytes are too large")));
        }
        if self.stored && whole != HEADER_BYTES + decoded {
            return Err(Error::data(format!("{decoded} stored bytes in a buffer of {whole}")));
        }
        if !self.stored && decoded > 0 && format_version != FORMAT_VERSION {
            return Err(Error::data(format!("unknown version {format_version} of the compressor's format")));
        }
        if !self.stored && self.blocks_start() > whole {
            return Err(Error::data(format!("{} blocks do not fit {whole} bytes", self.block_count())));
        }
        Ok(())
    }

    /// Return the bytes of the header, for a buffer of `whole` bytes.
    pub(super) fn to_bytes(self, whole: usize) -> [u8; HEADER_BYTES] {
        let mut flags = self.compressor.format() << 5;
        flags |= match self.filter {
            Filter::Nothing => 0,
            Filter::Bytes => BYTE_SHUFFLED,
            Filter::Bits => BIT_SHUFFLED,
        };
        flags |= if self.stored { STORED } else { 0 };
        flags |= if self.split { 0 } else { UNSPLIT };
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&[VERSION, FORMAT_VERSION, flags, self.typesize as u8]);
        bytes[4..8].copy_from_slice(&(self.decoded_bytes as u32).to_le_bytes());
        bytes[8..12].copy_from_slice(&(self.block_bytes as u32).to_le_bytes());
        bytes[12..].copy_from_slice(&(whole as u32).to_le_bytes());
        bytes
    }

    pub(super) fn block_count(&self) -> usize {
        self.decoded_bytes.div_ceil(self.block_bytes.max(1))
    }

    /// Return the minimum offset of the first block: after the header and the positions of the
    /// blocks.
    pub(super) fn blocks_start(&self) -> usize {
        HEADER_BYTES + 4 * self.block_count()
    }

    /// Return the range of block `index` in the decoded bytes.
    pub(super) fn block(&self, index: usize) -> std::ops::Range<usize> {
        let start = index * self.block_bytes;
        start..self.decoded_bytes.min(start + self.block_bytes)
    }

    /// Return the number of streams of a block of `bytes`; a shorter last block is never split.
    pub(super) fn streams(&self, bytes: usize) -> usize {
        let can_split = self.typesize <= MAX_SEPARATE_PLANES && self.block_bytes / self.typesize >= MIN_INPUT;
        if self.split && can_split && bytes == self.block_bytes {
            self.typesize
        } else {
            1
        }
    }

    /// Return the filter of a block of `bytes`.
    pub(super) fn block_filter(&self, bytes: usize) -> Filter {
        match self.filter {
            Filter::Bytes if self.typesize > 1 => Filter::Bytes,
            Filter::Bits if bytes >= self.typesize => Filter::Bits,
            _ => Filter::Nothing,
        }
    }
}

fn number(bytes: [u8; 4]) -> Result<usize> {
    let number = i32::from_le_bytes(bytes);
    usize::try_from(number).map_err(|_| Error::data(format!("negative size {number} in the header")))
}

/// Return whether c-blosc (in its default, forward compatible mode) splits whole blocks.
fn splits(compressor: Compressor, typesize: usize, block_bytes: usize) -> bool {
    compressor != Compressor::Zstd && typesize <= MAX_SEPARATE_PLANES && block_bytes / typesize >= MIN_INPUT
}

/// Return the block size: about a first-level cache, larger for higher levels and better
/// compressors, and large enough for the streams of a block.
fn choose_block(
    compressor: Compressor,
    level: u8,
    typesize: usize,
    requested: usize,
    decoded: usize,
) -> usize {
    const FIRST_LEVEL_CACHE: usize = 32 << 10;
    if decoded < typesize {
        return 1;
    }
    let mut block = decoded;
    if requested > 0 {
        block = requested.clamp(MIN_INPUT, MAX_BLOCK);
    } else if decoded >= FIRST_LEVEL_CACHE {
        let strong = matches!(compressor, Compressor::Lz4Hc | Compressor::Zlib | Compressor::Zstd);
        block = if strong { 2 * FIRST_LEVEL_CACHE } else { FIRST_LEVEL_CACHE };
        block = match level {
            0 => block / 4,
            1 => block / 2,
            2 => block,
            3 => block * 2,
            4 | 5 => block * 4,
            9 if strong => block * 16,
            _ => block * 8,
        };
    }
    if level > 0 && splits(compressor, typesize, block) {
        block = (block.min(256 << 10) * typesize).clamp(64 << 10, 1 << 20);
    }
    block = block.min(decoded);
    if block > typesize {
        block -= block % typesize;
    }
    block
}
