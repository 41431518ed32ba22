//! `TransformBase`: the base class of `IndexDomain` and `IndexTransform`, and `Indexer`.

use std::sync::OnceLock;

use crate::runtime::once_cell::OnceCell;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};
use pyo3::{IntoPyObjectExt, PyTraverseError, PyVisit};

use crate::runtime::once_cell::intern;

use super::View;
use crate::runtime::subclass::{copy_instance, new_instance, new_like};

/// Return the Python class of domains.
fn domains(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: OnceCell<Py<PyType>> = OnceCell::new();
    CLASS.import(py, "tessarr.index_space.index_domain", "IndexDomain")
}

/// Return the Python class of transforms.
pub(crate) fn transforms(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: OnceCell<Py<PyType>> = OnceCell::new();
    CLASS.import(py, "tessarr.index_space.index_transform", "IndexTransform")
}

/// Base of `IndexDomain` and `IndexTransform`: a view and the values derived from it.
///
/// The first access to a derived value computes and caches it. The view never changes: a second
/// call of `__init__` has no effect.
#[pyclass(subclass, weakref, frozen, module = "tessarr._engine")]
pub(crate) struct TransformBase {
    view: OnceLock<Py<View>>,
    domain: OnceCell<Py<TransformBase>>,
    dims: OnceCell<Py<PyTuple>>,
    output: OnceCell<Py<PyAny>>,
}

impl From<Py<View>> for TransformBase {
    fn from(view: Py<View>) -> Self {
        TransformBase { view: view.into(), ..TransformBase::empty() }
    }
}

impl TransformBase {
    fn empty() -> Self {
        let (domain, dims, output) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        TransformBase { view: OnceLock::new(), domain, dims, output }
    }

    fn view<'a>(&'a self, py: Python<'a>) -> PyResult<&'a View> {
        Ok(self._as_view(py)?.get())
    }

    /// Return a new instance of the same kind: a domain or a transform.
    fn of_same_kind<'py>(slf: &Bound<'py, Self>, view: Py<View>) -> PyResult<Bound<'py, Self>> {
        let py = slf.py();
        let class = slf.get_type();
        if class.is(transforms(py)?) || class.is(domains(py)?) {
            return new_like(slf, TransformBase::from(view));
        }
        // The constructor of a user's subclass may differ, so this uses the base class.
        let class = if slf.is_instance(domains(py)?)? { domains(py)? } else { transforms(py)? };
        new_instance(class, TransformBase::from(view))
    }
}

#[pymethods]
impl TransformBase {
    /// An instance without a view, which `__init__` sets; subclasses may have other arguments.
    #[new]
    #[pyo3(signature = (*_arguments, **_keywords))]
    fn new(_arguments: &Bound<'_, PyTuple>, _keywords: Option<&Bound<'_, PyDict>>) -> Self {
        TransformBase::empty()
    }

    fn __init__(&self, view: Py<View>) {
        let _ = self.view.set(view);
    }

    /// Create an instance of a subclass. This is a static method, because binding a class method
    /// takes as long as the call.
    #[staticmethod]
    fn _create<'py>(class: &Bound<'py, PyType>, view: Py<View>) -> PyResult<Bound<'py, Self>> {
        new_instance(class, TransformBase::from(view))
    }

    fn __copy__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let view = slf.get()._as_view(slf.py())?.clone().unbind();
        copy_instance(slf, TransformBase::from(view), None)
    }

    fn __deepcopy__<'py>(slf: &Bound<'py, Self>, memo: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        let view = slf.get()._as_view(slf.py())?.clone().unbind();
        copy_instance(slf, TransformBase::from(view), Some(memo))
    }

    /// Return the view that index operations apply to.
    pub(crate) fn _as_view<'a>(&'a self, py: Python<'a>) -> PyResult<&'a Bound<'a, View>> {
        let view = self.view.get().map(|view| view.bind(py));
        view.ok_or_else(|| PyTypeError::new_err("super().__init__() has to be called first"))
    }

    /// The view.
    #[getter]
    fn _view<'a>(&'a self, py: Python<'a>) -> PyResult<&'a Bound<'a, View>> {
        self._as_view(py)
    }

    /// Return the same kind of object with another view.
    fn _with_view<'py>(slf: &Bound<'py, Self>, view: Py<View>) -> PyResult<Bound<'py, Self>> {
        TransformBase::of_same_kind(slf, view)
    }

    /// The positions.
    ///
    /// Examples
    /// --------
    /// >>> import tessarr.tensorstore as ts
    /// >>> ts.IndexTransform(input_shape=[8])[2:5].domain
    /// { [2, 5) }
    #[getter]
    fn _domain<'a>(&'a self, py: Python<'a>) -> PyResult<&'a Bound<'a, TransformBase>> {
        let domain = self.domain.get_or_try_init(py, || {
            let view = Bound::new(py, self.view(py)?.domain())?;
            new_instance(domains(py)?, TransformBase::from(view.unbind())).map(Bound::unbind)
        })?;
        Ok(domain.bind(py))
    }

    /// The dimensions; not to be modified.
    #[getter]
    fn _dims<'a>(&'a self, py: Python<'a>) -> PyResult<&'a Bound<'a, PyTuple>> {
        let view = self.view(py)?;
        let dims = self.dims.get_or_try_init(py, || view.dims(py).map(Bound::unbind))?;
        Ok(dims.bind(py))
    }

    /// The output index map of each dimension of the base.
    ///
    /// Examples
    /// --------
    /// >>> import tessarr.tensorstore as ts
    /// >>> ts.IndexTransform(2)[5, 0::3].output
    /// [OutputIndexMap(offset=5), OutputIndexMap(offset=0, stride=3, input_dimension=0)]
    #[getter]
    fn _output<'a>(&'a self, py: Python<'a>) -> PyResult<&'a Bound<'a, PyAny>> {
        static MAPS: OnceCell<Py<PyType>> = OnceCell::new();
        let output = self.output.get_or_try_init(py, || {
            let class = MAPS.import(py, "tessarr.index_space.output_index_map", "OutputIndexMaps")?;
            class.call1((self.view(py)?.maps(py)?,)).map(Bound::unbind)
        })?;
        Ok(output.bind(py))
    }

    /// The view with its dimensions in reverse order.
    ///
    /// Examples
    /// --------
    /// >>> import tessarr.tensorstore as ts
    /// >>> ts.IndexDomain(shape=[3, 4], labels=["x", "y"]).T
    /// { "y": [0, 4), "x": [0, 3) }
    #[getter(T)]
    fn turned<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let view = Bound::new(slf.py(), slf.get().view(slf.py())?.reverse())?;
        TransformBase::of_same_kind(slf, view.unbind())
    }

    /// The number of dimensions.
    ///
    /// Examples
    /// --------
    /// >>> import tessarr.tensorstore as ts
    /// >>> ts.IndexDomain(shape=[3, 4]).rank, ts.IndexTransform(3).input_rank
    /// (2, 3)
    #[getter]
    fn rank(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.view(py)?.rank())
    }

    /// The least index of each dimension.
    ///
    /// Examples
    /// --------
    /// >>> import tessarr.tensorstore as ts
    /// >>> domain = ts.IndexDomain(inclusive_min=[5, 6], shape=[3, 4])
    /// >>> domain.origin, ts.IndexTransform(domain).input_inclusive_min
    /// ((5, 6), (5, 6))
    #[getter]
    fn origin<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.view(py)?.origin(py)
    }

    /// The number of indices of each dimension.
    ///
    /// Examples
    /// --------
    /// >>> import tessarr.tensorstore as ts
    /// >>> ts.IndexDomain(inclusive_min=[5, 6], exclusive_max=[8, 10]).shape
    /// (3, 4)
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.view(py)?.shape(py)
    }

    /// The shape if bounds are finite, explicit and start at 0, without labels; else None.
    #[getter]
    fn _plain_shape<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.view(py)?.plain_shape(py)
    }

    /// The number of positions.
    ///
    /// Examples
    /// --------
    /// >>> import tessarr.tensorstore as ts
    /// >>> ts.IndexDomain(shape=[3, 4]).size
    /// 12
    #[getter]
    fn size<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.view(py)?.size(py)
    }

    /// Whether the lower bound of each dimension is implicit.
    ///
    /// Examples
    /// --------
    /// >>> import tessarr.tensorstore as ts
    /// >>> ts.IndexDomain(exclusive_max=[3]).implicit_lower_bounds
    /// (True,)
    #[getter]
    fn implicit_lower_bounds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.view(py)?.implicit_lower(py)
    }

    /// Whether the upper bound of each dimension is implicit.
    ///
    /// Examples
    /// --------
    /// >>> import tessarr.tensorstore as ts
    /// >>> ts.IndexDomain(shape=[3], implicit_upper_bounds=[True]).implicit_upper_bounds
    /// (True,)
    #[getter]
    fn implicit_upper_bounds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.view(py)?.implicit_upper(py)
    }

    /// The greatest index of each dimension.
    ///
    /// Examples
    /// --------
    /// >>> import tessarr.tensorstore as ts
    /// >>> ts.IndexDomain(inclusive_min=[5], shape=[3]).inclusive_max
    /// (7,)
    #[getter]
    fn _inclusive_max<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.view(py)?.inclusive_max(py)
    }

    /// One more than the greatest index of each dimension.
    ///
    /// Examples
    /// --------
    /// >>> import tessarr.tensorstore as ts
    /// >>> ts.IndexDomain(inclusive_min=[5], shape=[3]).exclusive_max
    /// (8,)
    #[getter]
    fn _exclusive_max<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.view(py)?.exclusive_max(py)
    }

    /// The label of each dimension; "" without one.
    ///
    /// Examples
    /// --------
    /// >>> import tessarr.tensorstore as ts
    /// >>> ts.IndexDomain(shape=[3, 4], labels=["x", None]).labels
    /// ('x', '')
    #[getter]
    fn _labels<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.view(py)?.labels(py)
    }
}

/// Applies an operation to an indexing key: ``view.translate_to[1, 2]``. This class handles
/// operations on transforms whose argument needs no parsing; the owner's `_apply_operation` handles
/// all others and reports errors.
#[pyclass(subclass, frozen, generic, module = "tessarr._engine")]
pub(super) struct Indexer {
    owner: Py<PyAny>,
    name: Py<PyString>,
}

#[pymethods]
impl Indexer {
    #[new]
    fn new(owner: Py<PyAny>, name: Py<PyString>) -> Self {
        Indexer { owner, name }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = key.py();
        let (owner, name) = (self.owner.bind(py), self.name.bind(py));
        if let Ok(placed) = owner.cast::<TransformBase>() {
            let view = placed.get().view(py)?;
            let found = match name.to_str()? {
                mode @ ("oindex" | "vindex") => view.select(py, key, mode),
                name => view.apply_operation(py, name, key),
            };
            if let Ok(Some(view)) = found {
                return TransformBase::of_same_kind(placed, Bound::new(py, view)?.unbind())?
                    .into_bound_py_any(py);
            }
        }
        owner.call_method1(intern!(py, "_apply_operation"), (name, key))
    }

    #[classattr]
    fn __iter__() -> Option<()> {
        None
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("{}.{}", self.owner.bind(py).repr()?, self.name.bind(py)))
    }
}
