//! The data plane of Tessarr: given a compiled array description and a
//! selection it finds the chunks, fetches, decodes and scatters them into the
//! caller's buffer, or gathers, encodes and stores them. No Python here.

pub mod array;
mod arrivals;
pub mod cache;
pub mod codec;
pub mod convert;
pub mod copy;
mod departures;
pub mod error;
pub mod fill;
pub mod grid;
mod half;
pub mod operation;
pub mod overlay;
pub mod pipeline;
pub mod pool;
pub mod presence;
pub mod read;
pub mod reduce;
pub mod scratch;
pub mod selection;
pub mod shard;
pub mod source;
pub mod space;
pub mod store;
pub mod stored;
pub mod vlen;
pub mod warning;
pub mod write;

pub use error::{Error, Kind, Result};
