//! Conversion of keys and of dimension expressions to index terms of the engine.

use std::sync::Arc;

use crate::runtime::once_cell::intern;
use crate::runtime::once_cell::OnceCell;
use numpy::{npyffi, PyArrayDyn, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyEllipsis, PyInt, PySlice, PyString, PyTuple};
use tessarr_engine::index_space::{
    DimOperation, DimPosition, DimSelector, IndexArray, IndexTerm, IndexingMode, PerDimOrAll, PerDimension,
    Slice, Translation,
};
use tessarr_engine::{Error, Kind};

use crate::array::flags;
use crate::runtime::error::{argument, to_py};
use crate::runtime::safe_repr::safe_repr;

pub(super) fn mode_of(name: &str) -> PyResult<IndexingMode> {
    match name {
        "default" | "" => Ok(IndexingMode::Default),
        "oindex" => Ok(IndexingMode::Outer),
        "vindex" => Ok(IndexingMode::Joint),
        _ => Err(PyTypeError::new_err(format!("{name:?} is no way of indexing"))),
    }
}

/// Return the terms of an indexing key; None if Python has to parse it.
pub(super) fn terms(key: &Bound<'_, PyAny>) -> PyResult<Option<Vec<IndexTerm>>> {
    let mut terms = Vec::with_capacity(4);
    let Ok(tuple) = key.cast_exact::<PyTuple>() else {
        return Ok(push_terms(&mut terms, key)?.then_some(terms));
    };
    let mut ellipses = 0;
    for term in tuple.iter_borrowed() {
        if !push_terms(&mut terms, &term)? {
            return Ok(None);
        }
        ellipses += usize::from(matches!(terms.last(), Some(IndexTerm::Ellipsis)));
    }
    Ok((ellipses < 2).then_some(terms))
}

/// The class of parsed index arrays, `tessarr.index_space.indexing_terms.IndexArray`.
static PARSED: OnceCell<Py<PyAny>> = OnceCell::new();

fn parsed_class(py: Python<'_>) -> PyResult<Py<PyAny>> {
    py.import("tessarr.index_space.indexing_terms")?.getattr("IndexArray").map(Bound::unbind)
}

/// Append a term; return false if Python has to parse it.
fn push_terms(terms: &mut Vec<IndexTerm>, term: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = term.py();
    if term.is_exact_instance_of::<PyInt>() {
        let index = term.extract().ok();
        terms.extend(index.map(IndexTerm::Index));
        return Ok(index.is_some());
    }
    if let Ok(slice) = term.cast_exact::<PySlice>() {
        let slice = slice_of(slice)?;
        terms.extend(slice.map(IndexTerm::Slice));
        return Ok(slice.is_some());
    }
    if term.is_none() {
        terms.push(IndexTerm::New);
    } else if term.is(PyEllipsis::get(py)) {
        terms.push(IndexTerm::Ellipsis);
    } else if let Ok(array) = term.cast::<PyArrayDyn<i64>>() {
        let indices = copy_index_array(array)?;
        let is_valid = indices.is_some();
        terms.extend(indices.map(|indices| IndexTerm::Array { indices, used: true, continues_mask: false }));
        return Ok(is_valid);
    } else if let Ok(mask) = term.cast::<PyArrayDyn<bool>>() {
        let Some(positions) = mask_positions(mask)? else {
            return Ok(false);
        };
        for (k, indices) in positions.into_iter().enumerate() {
            terms.push(IndexTerm::Array { indices, used: true, continues_mask: k > 0 });
        }
    } else if PARSED.get_or_try_init(py, || parsed_class(py))?.bind(py).is(term.get_type()) {
        let values = term.getattr(intern!(py, "values"))?;
        if let Ok(mask) = values.cast::<PyArrayDyn<bool>>() {
            if mask.ndim() > 0 {
                return push_terms(terms, &values);
            }
            // True adds a dimension with one position, and False a dimension with none.
            let count = usize::from(values.is_truthy()?);
            terms.extend(IndexArray::new(vec![0; count], &[count]).map(|indices| IndexTerm::Array {
                indices,
                used: false,
                continues_mask: false,
            }));
            return Ok(true);
        }
        return push_terms(terms, &values);
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// Return the integers of a slice; None if it has other items or indices out of range.
fn slice_of(slice: &Bound<'_, PyAny>) -> PyResult<Option<Slice>> {
    let py = slice.py();
    let mut parts = [None; 3];
    for (part, name) in parts.iter_mut().zip([intern!(py, "start"), intern!(py, "stop"), intern!(py, "step")])
    {
        let value = slice.getattr(name)?;
        if value.is_exact_instance_of::<PyInt>() {
            let Ok(value) = value.extract() else {
                return Ok(None);
            };
            *part = Some(value);
        } else if !value.is_none() {
            return Ok(None);
        }
    }
    let [start, stop, step] = parts;
    Ok(Some(Slice { start, stop, step }))
}

/// Return a copy of the items of an array; None if it is not in C order.
pub(super) fn copy_index_array(array: &Bound<'_, PyArrayDyn<i64>>) -> PyResult<Option<IndexArray>> {
    if !is_plain(array.as_untyped()) {
        return Ok(None);
    }
    let borrowed = array.try_readonly()?;
    Ok(IndexArray::new(borrowed.as_slice()?.to_vec(), array.shape()))
}

/// Return the positions where a mask is true, as a list for each axis. Return None if the mask has
/// no axis or is not in C order.
fn mask_positions(mask: &Bound<'_, PyArrayDyn<bool>>) -> PyResult<Option<Vec<IndexArray>>> {
    if !is_plain(mask.as_untyped()) || mask.ndim() == 0 {
        return Ok(None);
    }
    let borrowed = mask.try_readonly()?;
    Ok(IndexArray::from_mask(borrowed.as_slice()?, mask.shape()))
}

fn is_plain(array: &Bound<'_, PyUntypedArray>) -> bool {
    let plain = npyffi::NPY_ARRAY_C_CONTIGUOUS | npyffi::NPY_ARRAY_ALIGNED;
    flags(array) & plain == plain
}

/// Return the label of a string or its UTF-8 bytes; None if it is empty.
pub(super) fn label_of(label: &Bound<'_, PyAny>) -> PyResult<Option<Arc<str>>> {
    let text = match label.cast::<PyBytes>() {
        Ok(bytes) => std::str::from_utf8(bytes.as_bytes()).ok(),
        Err(_) => label.cast::<PyString>()?.to_str().ok(), // unpaired surrogates in the label
    };
    let none = || argument(label.py(), format!("label: {} is not UTF-8", safe_repr(label)));
    let text = text.ok_or_else(none)?;
    Ok((!text.is_empty()).then(|| text.into()))
}

pub(super) fn name_of(name: &Bound<'_, PyAny>) -> PyResult<DimSelector> {
    if let Ok(slice) = name.cast_exact::<PySlice>() {
        return match slice_of(slice)? {
            Some(slice) => Ok(DimSelector::Range(slice)),
            None => {
                let what = format!("a range of dimensions is made of numbers, not {}", safe_repr(slice));
                Err(PyTypeError::new_err(what))
            }
        };
    }
    if name.is_exact_instance_of::<PyInt>() {
        return index(name).map(DimSelector::Number);
    }
    label_of(name).map(|label| DimSelector::Label(label.unwrap_or_else(|| "".into())))
}

/// Return an integer of 64 bits; raise a TypeError for every other value.
pub(super) fn index(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    value
        .extract()
        .map_err(|_| PyTypeError::new_err(format!("{} is not an integer of 64 bits", safe_repr(value))))
}

/// Return an operation by its name and argument.
pub(super) fn parse_operation(name: &str, value: &Bound<'_, PyAny>) -> PyResult<DimOperation> {
    Ok(match name {
        "translate_to" => DimOperation::Translate(Translation::To, per_dim(value, integer)?),
        "translate_by" => DimOperation::Translate(Translation::By, per_dim(value, integer)?),
        "translate_backward_by" => DimOperation::Translate(Translation::BackwardBy, per_dim(value, integer)?),
        "stride" => DimOperation::Stride(per_dim(value, integer)?),
        "label" => DimOperation::Label(match per_dim(value, label_of)? {
            PerDimOrAll::One(label) => PerDimension::from_iter([label]),
            PerDimOrAll::Each(labels) => labels,
        }),
        "transpose" => DimOperation::Transpose(Box::new(per_dim(value, place_of)?)),
        "mark_bounds_implicit" => {
            let (lower, upper) = match value.cast_exact::<PySlice>() {
                Ok(slice) => (
                    slice.getattr(intern!(value.py(), "start"))?,
                    slice.getattr(intern!(value.py(), "stop"))?,
                ),
                Err(_) => (value.clone(), value.clone()),
            };
            DimOperation::MarkBoundsImplicit(lower.extract()?, upper.extract()?)
        }
        "diagonal" => DimOperation::Diagonal,
        mode => {
            let (parsed, single): (Bound<'_, PyAny>, bool) = value.extract()?;
            let found = terms(&parsed)?.ok_or_else(|| {
                let error = Error::new(Kind::Selection, "an index is beyond the range of indices");
                to_py(value.py(), error)
            })?;
            DimOperation::Index { terms: found, single, mode: mode_of(mode)? }
        }
    })
}

/// Return a value for each dimension of a tuple, or one for all.
fn per_dim<T>(
    value: &Bound<'_, PyAny>,
    read: fn(&Bound<'_, PyAny>) -> PyResult<T>,
) -> PyResult<PerDimOrAll<T>> {
    match value.cast_exact::<PyTuple>() {
        Ok(items) => {
            items.iter_borrowed().map(|item| read(&item)).collect::<PyResult<_>>().map(PerDimOrAll::Each)
        }
        Err(_) => read(value).map(PerDimOrAll::One),
    }
}

/// Return an integer of 64 bits, or None.
pub(super) fn integer(value: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    (!value.is_none()).then(|| index(value)).transpose()
}

fn place_of(value: &Bound<'_, PyAny>) -> PyResult<DimPosition> {
    if let Ok(slice) = value.cast_exact::<PySlice>() {
        let slice = slice_of(slice)?;
        return slice
            .map(DimPosition::Range)
            .ok_or_else(|| PyTypeError::new_err("a range of places is made of numbers"));
    }
    if value.is_instance_of::<PyString>() {
        let error = Error::new(Kind::Selection, "the places of a transposition are numbers, not labels");
        return Err(to_py(value.py(), error));
    }
    index(value).map(DimPosition::Number)
}
