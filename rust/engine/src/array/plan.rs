//! What an array is compiled from.

use std::fmt::{self, Display, Formatter, Write};
use std::sync::Arc;

use super::PerAxis;
use crate::codec::chain::Pipeline;
use crate::codec::Foreign;
use crate::error::Result;
use crate::grid::DimGrid;
use crate::vlen;

/// A chain of codecs as the metadata gives it, not yet bound to a shape.
pub struct Chain {
    /// All leading transposes composed: encoded axis i is decoded axis `order[i]`.
    pub order: Option<Vec<usize>>,
    /// The codec from an array to bytes.
    pub array_bytes: ArrayBytes,
    /// The codecs from bytes to bytes, in encoding order.
    pub pipeline: Pipeline,
}

/// The codec that turns an array into bytes.
pub enum ArrayBytes {
    /// Elements one after another in C order of the encoded axes.
    Bytes {
        /// Byte-swap unit, 0 where stored and wanted byte order agree.
        swap: usize,
    },
    /// Subchunks and an index of where they are.
    Sharding {
        /// Shape of a subchunk, in the order of the encoded axes.
        subchunk_shape: Vec<u64>,
        /// How a subchunk is encoded.
        chain: Box<Chain>,
        /// How the index, an array of u64, is encoded.
        index_chain: Box<Chain>,
        /// The index comes first, else last.
        index_at_start: bool,
    },
    /// Elements of any length.
    Vlen(vlen::Kind),
    /// A codec outside the engine.
    Foreign(Foreign),
}

/// How the key of a chunk is made from its grid position.
#[derive(Clone)]
pub enum KeyEncoding {
    /// The numbers, joined.
    Numbers {
        /// "c" and a separator first (`default`), else the bare numbers (`v2`).
        with_c: bool,
        /// '/' or '.'.
        separator: char,
    },
    /// An encoding outside the engine.
    Foreign(Arc<dyn ForeignKeys>),
}

impl KeyEncoding {
    /// The encodings that make keys of numbers, each with both separators.
    pub fn numbered() -> [KeyEncoding; 4] {
        [(true, '/'), (true, '.'), (false, '/'), (false, '.')]
            .map(|(with_c, separator)| KeyEncoding::Numbers { with_c, separator })
    }

    /// Append the key of chunk `cell` to `key`.
    pub fn push_key(&self, cell: &[u64], key: &mut String) -> Result<()> {
        let (with_c, separator) = match self {
            KeyEncoding::Numbers { with_c, separator } => (*with_c, *separator),
            KeyEncoding::Foreign(keys) => return keys.push_key(cell, key),
        };
        if with_c {
            key.push('c');
        } else if cell.is_empty() {
            key.push('0');
        }
        for (axis, index) in cell.iter().enumerate() {
            if with_c || axis > 0 {
                key.push(separator);
            }
            push_decimal(key, *index);
        }
        Ok(())
    }

    /// The chunk of an array of `rank` axes that has `key`; None if none has, or keys are not made of
    /// numbers.
    pub fn cell_of_key(&self, key: &str, rank: usize) -> Option<PerAxis<u64>> {
        let KeyEncoding::Numbers { with_c, separator } = *self else { return None };
        let numbers = match (with_c, rank) {
            (true, 0) => return (key == "c").then(PerAxis::new),
            (false, 0) => return (key == "0").then(PerAxis::new),
            (true, _) => key.strip_prefix('c')?.strip_prefix(separator)?,
            (false, _) => key,
        };
        let numbers = numbers.as_bytes().split(|&byte| char::from(byte) == separator);
        let cell: PerAxis<u64> = numbers.map(decimal).collect::<Option<_>>()?;
        (cell.len() == rank).then_some(cell)
    }

    /// Whether keys of chunks of an array of `rank` axes can lie in `folder`, which ends in "/".
    pub fn has_folder(&self, folder: &str, rank: usize) -> bool {
        let KeyEncoding::Numbers { with_c, separator: '/' } = *self else { return false };
        let Some(folder) = folder.strip_suffix('/') else { return false };
        let mut names = folder.split('/');
        let depth = names.clone().count();
        depth < rank + usize::from(with_c)
            && (!with_c || names.next() == Some("c"))
            && names.all(|name| decimal(name.as_bytes()).is_some())
    }
}

impl Display for KeyEncoding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            KeyEncoding::Numbers { with_c, separator } => {
                let name = if *with_c { "default" } else { "v2" };
                write!(f, "the encoding {name:?} with the separator {separator:?}")
            }
            KeyEncoding::Foreign(_) => f.write_str("an encoding outside the engine"),
        }
    }
}

/// The number that `text` is in decimal notation, without leading zeros.
fn decimal(text: &[u8]) -> Option<u64> {
    let append = |number: u64, digit: &u8| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    };
    match text {
        [] | [b'0', _, ..] => None,
        digits => digits.iter().try_fold(0, append),
    }
}

/// Append `number`; most chunk indices are short, and `write!` costs more than the digits.
fn push_decimal(text: &mut String, number: u64) {
    if number < 10 {
        text.push((b'0' + number as u8) as char);
    } else {
        // Writing to a String does not fail.
        let _ = write!(text, "{number}");
    }
}

/// A key encoding that lives outside of the engine.
pub trait ForeignKeys: Send + Sync {
    /// Append the key of chunk `cell` to `key`.
    fn push_key(&self, cell: &[u64], key: &mut String) -> Result<()>;
}

/// How the array is cut into chunks, and how these are encoded.
pub enum Grid {
    /// Chunks of one shape.
    Regular {
        /// The shape of a chunk.
        chunk_shape: Vec<u64>,
        /// The codecs.
        chain: Chain,
    },
    /// Chunks of several shapes.
    Varying {
        /// How each axis is cut.
        dim_grids: Vec<DimGrid>,
        /// The codecs.
        chains: Arc<dyn Chains>,
    },
}

/// The codecs of an array whose chunks have several shapes.
pub trait Chains: Send + Sync {
    /// The codecs of a chunk of `shape`.
    fn chain(&self, shape: &[u64]) -> Result<Chain>;
}

/// What is read where nothing is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The fill value.
    Fill,
    /// An error where a chunk or shard is missing; the fill value where a shard lacks a subchunk.
    RefuseChunks,
    /// An error.
    Refuse,
}

/// What the binding extracts from Python.
pub struct Plan {
    /// The array's shape.
    pub shape: Vec<u64>,
    /// Its chunks.
    pub grid: Grid,
    /// Bytes of one item.
    pub item_bytes: usize,
    /// Bytes other than 0 and 1 are refused.
    pub is_bool: bool,
    /// Elements have any length: items are handles (see [`crate::vlen`]).
    pub is_vlen: bool,
    /// One item, in the byte order of the caller's buffers; where items are handles, one element.
    pub fill: Vec<u8>,
    /// Chunk keys.
    pub keys: KeyEncoding,
    /// Store chunks that are all fill.
    pub store_fill: bool,
    /// What is read where nothing is stored.
    pub missing: Missing,
}
