//! The data plane of Tessarr, without Python.
//!
//! The engine takes a compiled array description and a selection. It finds the chunks, fetches and
//! decodes them, and copies their elements to the caller's buffer; or it gathers, encodes and
//! stores them.

pub mod array;
pub mod chunk_shape;
pub mod codec;
pub mod convert;
pub mod copy;
pub mod error;
pub mod grid;
pub mod index_space;
pub mod json_text;
pub mod pipeline;
pub mod pool;
pub mod read;
pub mod reduce;
pub mod scratch;
pub mod selection;
pub mod shard_index;
pub mod statistics;
pub mod store;
pub mod summary;
pub mod vlen;
pub mod warning;
pub mod write;
pub mod write_buffer;

pub use error::{Error, Kind, Result};

/// Return whether the processor has AVX2, for which the kernels are compiled a second time.
pub(crate) fn has_avx2() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    false
}
