//! JSON documents: decoding, and edits as text.

use pyo3::prelude::*;

mod decode;
mod edit;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(decode::decode_json, module)?)?;
    module.add_class::<edit::JsonText>()
}
