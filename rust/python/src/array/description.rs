//! `Description`: the compiled form of the dictionary of `ArrayMeta.description`.

use std::sync::Arc;

use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use tessarr_engine::array::{
    Array, ArrayBytes, Cast, Chain, ChainProvider, ForeignKeys, Grid, KeyEncoding, Missing, Plan,
};
use tessarr_engine::codec::chain::BytesCodecs;
use tessarr_engine::grid::DimGrid;
use tessarr_engine::vlen;
use tessarr_engine::{Error, Result};

use crate::array::elements::Elements;
use crate::codec::{array_codec, bytes_codec};
use crate::runtime::error::{argument, foreign, to_py};

/// A compiled array description: independent of store and path, immutable, shareable.
#[pyclass(frozen, module = "tessarr._engine")]
pub(crate) struct Description {
    pub(crate) array: Arc<Array>,
    pub(crate) dtype: Py<PyArrayDescr>,
    pub(crate) elements: Arc<Elements>,
    /// `array.shape` as NumPy expects it.
    pub(crate) shape: Vec<usize>,
}

#[pymethods]
impl Description {
    #[new]
    fn new(py: Python<'_>, description: &Bound<'_, PyDict>) -> PyResult<Self> {
        let dtype: Bound<'_, PyArrayDescr> = get(description, "dtype")?.cast_into()?;
        let elements = Elements::extract(&get(description, "elements")?)?;
        let plan = Plan {
            shape: get(description, "shape")?.extract()?,
            grid: grid(description)?,
            item_bytes: get(description, "item_bytes")?.extract()?,
            is_bool: get(description, "is_bool")?.extract()?,
            is_vlen: !elements.is_fixed(),
            fill: get(description, "fill")?.extract()?,
            keys: keys(&get(description, "keys")?)?,
            store_fill: get(description, "store_fill")?.extract()?,
            missing: missing(description)?,
            cast: cast(description)?,
        };
        let item_bytes = plan.cast.as_ref().map_or(plan.item_bytes, |cast| cast.fill.len());
        let fits = match elements {
            Elements::Fixed => dtype.itemsize() == item_bytes && !dtype.has_object(),
            _ => elements.accepts(dtype.kind()),
        };
        if !fits {
            return Err(argument(py, format!("items of {dtype} are not {item_bytes} plain bytes")));
        }
        let array = Array::compile(plan).map_err(|error| to_py(py, error))?;
        Ok(Description::of(array, dtype.unbind(), Arc::new(elements)))
    }

    /// Return the description with another shape. The grid stays the same.
    fn with_shape(&self, py: Python<'_>, shape: Vec<u64>) -> PyResult<Self> {
        let array = self.array.with_shape(&shape).map_err(|error| to_py(py, error))?;
        Ok(Description::of(array, self.dtype.clone_ref(py), self.elements.clone()))
    }

    /// Return whether the engine encodes, decodes and names chunks without calling Python.
    #[getter]
    fn is_native(&self) -> bool {
        self.array.is_native()
    }

    /// Shape of the array.
    #[getter]
    fn shape(&self) -> Vec<usize> {
        self.shape.clone()
    }
}

impl Description {
    fn of(array: Array, dtype: Py<PyArrayDescr>, elements: Arc<Elements>) -> Self {
        let shape = array.shape.iter().map(|&size| size as usize).collect();
        Description { array: Arc::new(array), dtype, elements, shape }
    }
}

fn get<'py>(dict: &Bound<'py, PyDict>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    dict.get_item(name)?.ok_or_else(|| argument(dict.py(), format!("the description has no {name:?}")))
}

/// Return the value of elements that no stored chunk holds; by default the fill value.
fn missing(description: &Bound<'_, PyDict>) -> PyResult<Missing> {
    let Some(name) = description.get_item("missing")? else { return Ok(Missing::Fill) };
    match name.extract()? {
        "fill" => Ok(Missing::Fill),
        "refuse_chunks" => Ok(Missing::RefuseChunks),
        "refuse" => Ok(Missing::Refuse),
        other => {
            Err(argument(description.py(), format!("{other:?} is nothing to do where nothing is stored")))
        }
    }
}

/// Return the conversion that reads perform, if any.
fn cast(description: &Bound<'_, PyDict>) -> PyResult<Option<Cast>> {
    let Some(cast) = description.get_item("cast")? else { return Ok(None) };
    let (source, target, fill) = cast.extract()?;
    Ok(Some(Cast { source, target, fill }))
}

/// Return the chunk grid: chunks of one shape with their codec chain, or cuts with a function that
/// returns the codec chain of a chunk shape.
fn grid(description: &Bound<'_, PyDict>) -> PyResult<Grid> {
    let (lengths, codecs) = (get(description, "grid")?, get(description, "chain")?);
    if let Ok(dict) = codecs.cast::<PyDict>() {
        return Ok(Grid::Regular { chunk_shape: lengths.extract()?, chain: chain(dict)? });
    }
    let lengths: Vec<Vec<(u64, u64)>> = lengths.extract()?;
    let dim_grids = lengths.iter().map(|lengths| DimGrid::new(lengths)).collect::<Result<_>>();
    let dim_grids = dim_grids.map_err(|error| to_py(description.py(), error))?;
    Ok(Grid::Rectilinear { dim_grids, chains: Arc::new(PythonChains(codecs.unbind())) })
}

/// Codec chains that a Python function returns.
struct PythonChains(Py<PyAny>);

impl ChainProvider for PythonChains {
    fn chain(&self, shape: &[u64]) -> Result<Chain> {
        attached(|py| {
            let made = self.0.bind(py).call1((PyTuple::new(py, shape)?,))?;
            chain(made.cast()?)
        })
    }
}

fn keys(keys: &Bound<'_, PyAny>) -> PyResult<KeyEncoding> {
    if keys.is_callable() {
        return Ok(KeyEncoding::Foreign(Arc::new(PythonKeys(keys.clone().unbind()))));
    }
    let kind: String = keys.get_item("kind")?.extract()?;
    let separator: char = keys.get_item("separator")?.extract()?;
    if !matches!(kind.as_str(), "default" | "v2") || !matches!(separator, '/' | '.') {
        let message = format!("unknown key encoding {kind:?} with separator {separator:?}");
        return Err(argument(keys.py(), message));
    }
    Ok(KeyEncoding::Numbers { with_c: kind == "default", separator })
}

/// Chunk keys that a Python function returns.
struct PythonKeys(Py<PyAny>);

impl ForeignKeys for PythonKeys {
    fn push_key(&self, cell: &[u64], key: &mut String) -> Result<()> {
        attached(|py| {
            let made = self.0.bind(py).call1((PyTuple::new(py, cell)?,))?;
            key.push_str(&made.extract::<String>()?);
            Ok(())
        })
    }
}

/// Call `call` with the GIL held and convert its exception to an error of the engine.
fn attached<T>(call: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T> {
    crate::runtime::atexit::attached(|py| call(py).map_err(|error| foreign(py, error))).unwrap_or_else(|| {
        Err(Error::internal("an extension written in Python was called while Python shuts down"))
    })
}

fn chain(dict: &Bound<'_, PyDict>) -> PyResult<Chain> {
    let codecs = get(dict, "bytes_bytes")?;
    let codecs = codecs.cast::<PyList>()?.iter().map(|codec| bytes_codec(codec.cast()?));
    Ok(Chain {
        order: get(dict, "order")?.extract()?,
        array_bytes: array_bytes(get(dict, "array_bytes")?.cast()?)?,
        bytes_codecs: BytesCodecs::new(codecs.collect::<PyResult<_>>()?),
    })
}

fn array_bytes(dict: &Bound<'_, PyDict>) -> PyResult<ArrayBytes> {
    let kind: String = get(dict, "kind")?.extract()?;
    match kind.as_str() {
        "bytes" => {
            let swap: bool = get(dict, "swap")?.extract()?;
            Ok(ArrayBytes::Bytes { swap: if swap { get(dict, "unit_bytes")?.extract()? } else { 0 } })
        }
        "sharding" => {
            let location: String = get(dict, "index_location")?.extract()?;
            Ok(ArrayBytes::Sharding {
                subchunk_shape: get(dict, "subchunk_shape")?.extract()?,
                chain: Box::new(chain(get(dict, "chain")?.cast()?)?),
                index_chain: Box::new(chain(get(dict, "index_chain")?.cast()?)?),
                index_at_start: location == "start",
            })
        }
        "vlen" => Ok(ArrayBytes::Vlen(vlen::Kind {
            is_text: get(dict, "is_text")?.extract()?,
            unit_bytes: get(dict, "unit_bytes")?.extract()?,
        })),
        "foreign" => Ok(ArrayBytes::Foreign(array_codec(get(dict, "name")?.extract()?, get(dict, "codec")?))),
        other => Err(argument(dict.py(), format!("unknown array-to-bytes codec {other:?}"))),
    }
}
