//! The binding of Tessarr's engine: extract, release the GIL, call, wrap.

use allocator::Allocator;
use pyo3::prelude::*;

mod allocator;
mod array;
mod blocks;
mod codec;
mod convert;
mod copied_bytes;
mod description;
mod elements;
mod ending;
mod error;
mod fallible;
mod flag;
mod handle;
mod kept;
mod latch;
mod layers;
mod making;
mod memory;
mod once;
mod pool;
mod recall;
mod reduce;
mod safe_repr;
mod selection;
mod show;
mod space;
mod store;
mod strings;
mod subclass;
mod unit;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator::new();

/// The compiled part of Tessarr; `_engine.pyi` describes it.
#[pymodule(gil_used = false)]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    Allocator::begin();
    module.py().get_type::<numpy::PyUntypedArray>(); // finds NumPy's functions, see `once`
    array::register(module)?;
    blocks::register(module)?;
    codec::register(module)?;
    convert::register(module)?;
    flag::register(module)?;
    handle::register(module)?;
    latch::register(module)?;
    layers::register(module)?;
    making::register(module)?;
    memory::register(module)?;
    pool::register(module)?;
    recall::register(module)?;
    reduce::register(module)?;
    show::register(module)?;
    space::register(module)?;
    store::register(module)?;
    unit::register(module)
}
