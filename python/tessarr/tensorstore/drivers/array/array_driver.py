"""The driver ``array``: elements in memory."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.format.registry import set_public_module
from tessarr.index_space import IndexDomain, IndexTransform
from tessarr.indexing import has_dtype, to_objects
from tessarr.tensorstore.context.context import Context
from tessarr.tensorstore.driver import Driver, OperationScope, StorageQuery
from tessarr.tensorstore.future.future import NOTHING, Future, failed, finished
from tessarr.tensorstore.future.write_futures import WriteFutures
from tessarr.tensorstore.handle.handle import TensorStore, build_handle
from tessarr.tensorstore.handle.source_values import as_array
from tessarr.tensorstore.json.parse import as_bool, check_class
from tessarr.tensorstore.ndarray_views import allocation_error, assign_elements, take_elements
from tessarr.tensorstore.schema.chunk_layout import ChunkLayout
from tessarr.tensorstore.schema.data_type import DTypeLike, dtype, elements, json_value

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.tensorstore.context.references import References

__all__ = ["MemoryDriver", "array"]

DataType = dtype


def array(
    array: npt.ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    context: Context | None = None,
    copy: bool | None = None,
    write: bool | None = None,
) -> TensorStore:
    """Return a handle of an array in memory.

    Parameters
    ----------
    array
        Any value that NumPy converts to an array.
    dtype
        The data type. Arrays convert only if NumPy calls the cast safe.
    context
        Provides the resources of the handle's spec.
    copy
        True copies; False raises an error if a copy is needed. By default, the handle shares
        arrays and buffers, and copies other values.
    write
        Whether the handle can write; True raises an error for a read-only array. By default, a
        handle of a writable array can write.

    Raises
    ------
    ArgumentError
        If elements have no data type, or `copy=False` and a copy is needed.
    TypeError
        If NumPy does not cast the array's type safely.

    Examples
    --------
    >>> import numpy as np, tessarr.tensorstore as ts
    >>> values = np.arange(6).reshape(2, 3)
    >>> store = ts.array(values)
    >>> store[1, 1:] = 9
    >>> values.tolist(), store.T.shape
    ([[0, 1, 2], [3, 9, 9]], (3, 2))
    """
    data_type = None if dtype is None else DataType(dtype)
    copy, write = _optional_flag(copy, "copy"), _optional_flag(write, "write")
    values, data_type = _as_elements(array, data_type, copy)
    if write and not values.flags.writeable:
        if copy is False:
            raise ArgumentError("the array cannot be written, and copy=False")
        values = values.copy()
    driver = MemoryDriver(values, data_type, check_class(context, Context, "context"))
    return build_handle(driver, None, "r" if write is False or not values.flags.writeable else "rw")


def _as_elements(
    source: Any, data_type: DataType | None, copy: bool | None
) -> tuple[npt.NDArray[Any], DataType]:
    if data_type is not None and data_type.numpy_dtype.kind == "O":
        return _object_elements(source, data_type, copy), data_type
    values = as_array(source, None)
    if data_type is None:
        if values.dtype.kind == "O":
            data_type = infer_object_dtype(values)
            return _object_elements(source, data_type, copy), data_type
        if values.dtype.kind in "UT":
            data_type = dtype("ustring")
            return _object_elements(values, data_type, copy), data_type
        data_type = _cached_dtype(values.dtype)
    target_type = data_type.dtype
    if values.dtype != target_type:
        size = values.dtype.itemsize
        if values.dtype.kind in "SV" and size != 1:
            raise ArgumentError(f"elements of {values.dtype} are {size} bytes, not one")
        safe = has_dtype(source)
        values = (
            values.astype(target_type, casting="safe") if safe else as_array(source, target_type)
        )
        _refuse_copy(copy)
    elif copy:
        values = values.copy("K")
    elif copy is False and not _is_shared(source, values):
        _refuse_copy(copy)
    return values, data_type


def _optional_flag(value: Any, name: str) -> bool | None:
    return None if value is None else as_bool(value, name)


def _is_shared(source: Any, values: npt.NDArray[Any]) -> bool:
    """Return whether the array shares the source's memory."""
    return values.size == 0 or np.may_share_memory(values, as_array(source, None))


_cached_dtype = cache(dtype)


def infer_object_dtype(values: npt.NDArray[Any]) -> DataType:
    """Return the data type of an array of Python objects; JSON if it can represent them."""
    for value in values.flat:
        json_value(value)
    return dtype("json")


def _object_elements(source: Any, data_type: DataType, copy: bool | None) -> npt.NDArray[Any]:
    if isinstance(source, np.ndarray) and source.dtype.kind == "O" and not copy:
        elements(source, data_type)
        return source
    _refuse_copy(copy)
    values = np.asarray(source) if has_dtype(source) else to_objects(source, 32)
    return elements(values.astype("O", copy=False), data_type)


def _refuse_copy(copy: bool | None) -> None:
    if copy is False:
        raise ArgumentError("the elements cannot be used without a copy, and copy=False")


class MemoryDriver(Driver):
    """The elements of a NumPy array.

    Parameters
    ----------
    values
        The array, without a copy.
    data_type
        The data type of its elements.
    context
        Provides the resources: a context, or the resources themselves.
    units
        The unit of each dimension.
    """

    __slots__ = ("_domain", "_units", "context", "values")

    name = "array"

    def __init__(
        self,
        values: npt.NDArray[Any],
        data_type: DataType,
        context: Context | References | None = None,
        units: tuple[Any, ...] | None = None,
    ) -> None:
        self.values = values
        self.context = context
        self._units = (None,) * values.ndim if units is None else units
        self.dtype = data_type
        self._domain = IndexDomain(shape=values.shape)

    @property
    def domain(self) -> IndexDomain:
        """The domain of the array, which starts at 0."""
        return self._domain

    @property
    def writable(self) -> bool:
        """Whether the array can be written."""
        return bool(self.values.flags.writeable)

    def storage_statistics(
        self, view: IndexTransform, query: StorageQuery, scope: OperationScope
    ) -> Future[tuple[bool, bool]]:
        """Return that every element is stored."""
        return finished((False, True))

    def _check(self, scope: OperationScope) -> None:
        if scope.transaction is not None:
            self._raise_unsupported("take part in transactions")

    def resolve(self, scope: OperationScope) -> Future[Driver]:
        """Return this driver: the bounds of an array do not change."""
        try:
            self._check(scope)
            return finished(self)
        except UnsupportedError as error:
            return failed(error)

    def read(
        self, view: IndexTransform, out: npt.NDArray[Any] | None, scope: OperationScope
    ) -> Future[npt.NDArray[Any]]:
        """Copy elements."""
        try:
            self._check(scope)
            return finished(take_elements(self.values, view._as_view(), out))
        except Exception as error:  # noqa: BLE001 (the future reports it)
            return failed(allocation_error(error, view))

    @property
    def memory(self) -> npt.NDArray[Any]:
        """The array."""
        return self.values

    def write(
        self, view: IndexTransform, values: npt.NDArray[Any], scope: OperationScope
    ) -> WriteFutures:
        """Store elements."""
        done: Future[None]
        try:
            self._check(scope)
            objects = self.values.dtype.kind == "O"
            items = elements(values, self.dtype) if objects else values
            assign_elements(self.values, view._as_view(), items)
            done = NOTHING
        except Exception as error:  # noqa: BLE001 (the futures report it)
            done = failed(error)
        return WriteFutures._of(done, done)

    @property
    def dimension_units(self) -> tuple[Any, ...]:
        """The units from the spec."""
        return self._units

    @property
    def chunk_layout(self) -> ChunkLayout:
        """The order of the axes in memory; an array has no chunks."""
        return memory_layout(self.values)

    def storage_ids(self) -> frozenset[Any]:
        """Return the identity of the array that owns the memory."""
        owner: Any = self.values
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        return frozenset([("memory", id(owner))])


def memory_layout(values: npt.NDArray[Any]) -> ChunkLayout:
    """Return the order of the axes in memory."""
    strides = [abs(stride) for stride in values.strides]
    order = sorted(range(values.ndim), key=lambda axis: -strides[axis])
    return ChunkLayout(inner_order=order, grid_origin=[0] * len(order))


def elements_to_json(values: npt.NDArray[Any], data_type: DataType) -> Any:
    """Return elements as nested lists of JSON.

    Raises
    ------
    UnsupportedError
        If JSON cannot represent the elements.
    """
    if values.ndim:
        return [elements_to_json(values[k, ...], data_type) for k in range(len(values))]
    return element_to_json(values[()], data_type)


def element_to_json(value: Any, data_type: DataType) -> Any:
    """Return one element as JSON, with numbers that are not finite as text."""
    kind = data_type.name
    if kind == "json":
        return json_value(value)
    if kind == "ustring":
        return str(value)
    if kind == "string":
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise UnsupportedError(
                f"{safe_repr(value)} is not UTF-8, which JSON requires"
            ) from None
    if kind == "bool":
        return bool(value)
    if kind.startswith(("int", "uint")):
        return int(value)
    if kind.startswith("complex"):
        return [_float_to_json(float(value.real)), _float_to_json(float(value.imag))]
    if kind.startswith(("float", "bfloat")):
        return _float_to_json(float(value))
    raise UnsupportedError(f"JSON cannot represent elements of {kind}", extension=kind)


def _float_to_json(value: float) -> Any:
    if np.isfinite(value):
        return value
    return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"


set_public_module("tessarr.tensorstore", array)
