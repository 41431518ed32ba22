//! What an array is compiled from.

use std::sync::Arc;

use crate::codec::Foreign;
use crate::error::Result;
use crate::grid::Cuts;
use crate::pipeline::Pipeline;
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
        cuts: Vec<Cuts>,
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
