//! The data plane of Tessarr: given a compiled array description and a
//! selection it finds the chunks, fetches, decodes and scatters them into the
//! caller's buffer, or gathers, encodes and stores them. No Python here.

pub mod array;
pub mod chunk_shape;
pub mod codec;
pub mod convert;
pub mod copy;
pub mod error;
pub mod grid;
pub mod index_space;
pub mod pipeline;
pub mod pool;
pub mod read;
pub mod reduce;
pub mod scratch;
pub mod selection;
pub mod shard_index;
pub mod statistics;
pub mod store;
pub mod vlen;
pub mod warning;
pub mod write;
pub mod write_buffer;

pub use error::{Error, Kind, Result};
