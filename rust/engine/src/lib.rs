//! The data plane of Tessarr: given a compiled array description and a
//! selection it finds the chunks, fetches, decodes and scatters them into the
//! caller's buffer, or gathers, encodes and stores them. No Python here.

pub mod codec;
pub mod copy;
pub mod error;
pub mod pool;
pub mod store;

pub use error::{Error, Kind, Result};
