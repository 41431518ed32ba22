//! The binding of Tessarr's engine: it extracts arguments, releases the GIL, calls and wraps.

use pyo3::prelude::*;
use runtime::allocator::Allocator;

mod array;
mod codec;
mod index_space;
mod json;
mod metadata_text;
mod runtime;
mod store;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator::new();

/// The compiled part of Tessarr; `_engine.pyi` describes it.
#[pymodule(gil_used = false)]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    Allocator::configure();
    module.py().get_type::<numpy::PyUntypedArray>(); // loads NumPy's C interface before any lock
    array::register(module)?;
    codec::register(module)?;
    index_space::register(module)?;
    json::register(module)?;
    metadata_text::register(module)?;
    runtime::register(module)?;
    store::register(module)
}
