//! The description from which an array is compiled.

use std::fmt::{self, Display, Formatter, Write};
use std::sync::Arc;

use super::PerAxis;
use crate::codec::chain::BytesCodecs;
use crate::codec::Foreign;
use crate::convert::Number;
use crate::error::{Error, Result};
use crate::grid::DimGrid;
use crate::vlen;

/// A codec chain from the metadata, not yet bound to a shape.
pub struct Chain {
    /// All leading transposes composed: encoded axis i is decoded axis `order[i]`.
    pub order: Option<Vec<usize>>,
    /// The array-to-bytes codec.
    pub array_bytes: ArrayBytes,
    /// The bytes-to-bytes codecs, in encoding order.
    pub bytes_codecs: BytesCodecs,
}

/// The array-to-bytes codec.
pub enum ArrayBytes {
    /// Elements in C order of the encoded axes.
    Bytes {
        /// The byte-swap unit; 0 if stored and native byte order are the same.
        swap: usize,
    },
    /// Subchunks and an index of their positions.
    Sharding {
        /// The shape of a subchunk, in the order of the encoded axes.
        subchunk_shape: Vec<u64>,
        /// The codecs of a subchunk.
        chain: Box<Chain>,
        /// The codecs of the index, an array of u64.
        index_chain: Box<Chain>,
        /// The index is at the start of the shard, otherwise at the end.
        index_at_start: bool,
    },
    /// Variable-length elements.
    Vlen(vlen::Kind),
    /// A codec outside the engine.
    Foreign(Foreign),
}

/// The chunk key encoding: the key of a chunk from its grid position.
#[derive(Clone)]
pub enum KeyEncoding {
    /// The joined chunk numbers.
    Numbers {
        /// "c" and a separator come first (`default`), otherwise only the numbers (`v2`).
        with_c: bool,
        /// '/' or '.'.
        separator: char,
    },
    /// An encoding outside the engine.
    Foreign(Arc<dyn ForeignKeys>),
}

impl KeyEncoding {
    /// Return the encodings by chunk numbers, each with both separators.
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

    /// Return the chunk of an array of `rank` axes with `key`; None if no chunk has it, or keys do
    /// not consist of numbers.
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

    /// Return whether chunk keys of an array of `rank` axes may be in `folder`, which ends in "/".
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

/// Return the value of `text` in decimal notation, without leading zeros.
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

/// A chunk key encoding outside the engine.
pub trait ForeignKeys: Send + Sync {
    /// Append the key of chunk `cell` to `key`.
    fn push_key(&self, cell: &[u64], key: &mut String) -> Result<()>;
}

/// The chunk grid and the codecs of the chunks.
pub enum Grid {
    /// Chunks of one shape.
    Regular {
        /// The chunk shape.
        chunk_shape: Vec<u64>,
        /// The codecs.
        chain: Chain,
    },
    /// Chunks of several shapes.
    Rectilinear {
        /// The division of each axis.
        dim_grids: Vec<DimGrid>,
        /// The codecs.
        chains: Arc<dyn ChainProvider>,
    },
}

/// The codecs of an array with several chunk shapes.
pub trait ChainProvider: Send + Sync {
    /// Return the codecs of a chunk of `shape`.
    fn chain(&self, shape: &[u64]) -> Result<Chain>;
}

/// The result of reading a missing chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The fill value.
    Fill,
    /// An error for a missing chunk or shard; the fill value for a missing subchunk of a shard.
    RefuseChunks,
    /// An error.
    Refuse,
}

/// A conversion of elements that reads perform: the array delivers elements of another type.
#[derive(Clone)]
pub struct Cast {
    /// The name of the stored type: see [`crate::convert::Number`].
    pub source: String,
    /// The name of the delivered type.
    pub target: String,
    /// The fill value as an item of the delivered type.
    pub fill: Vec<u8>,
}

impl Cast {
    /// Return the stored type and the delivered type.
    pub fn numbers(&self) -> (Number<'_>, Number<'_>) {
        (Number::Named(&self.source), Number::Named(&self.target))
    }

    /// Return an error if items of `item_bytes` bytes cannot be cast.
    pub(super) fn check(&self, item_bytes: usize) -> Result<()> {
        let (source, target) = self.numbers();
        if source.bytes() == Some(item_bytes) && target.bytes() == Some(self.fill.len()) {
            return Ok(());
        }
        Err(Error::argument(format!("cannot cast {} to {}", self.source, self.target)))
    }
}

/// The array description that the binding extracts from Python.
pub struct Plan {
    /// The shape of the array.
    pub shape: Vec<u64>,
    /// The chunk grid.
    pub grid: Grid,
    /// The size of one item in bytes.
    pub item_bytes: usize,
    /// The engine rejects bytes other than 0 and 1.
    pub is_bool: bool,
    /// Elements have variable length: items are handles (see [`crate::vlen`]).
    pub is_vlen: bool,
    /// One item, in the byte order of the caller's buffers; if items are handles, one element.
    pub fill: Vec<u8>,
    /// The chunk key encoding.
    pub keys: KeyEncoding,
    /// Chunks that equal the fill value are stored.
    pub store_fill: bool,
    /// The result of reading a missing chunk.
    pub missing: Missing,
    /// The conversion that reads perform; None: they deliver stored elements.
    pub cast: Option<Cast>,
}
