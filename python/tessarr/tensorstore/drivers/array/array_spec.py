"""Specs of the driver ``array``: elements as JSON."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.index_space import Dim, IndexDomain, IndexTransform, OutputIndexMap
from tessarr.tensorstore.context.context import Context
from tessarr.tensorstore.context.references import Naming, References
from tessarr.tensorstore.drivers.array.array_driver import (
    MemoryDriver,
    elements_to_json,
    memory_layout,
)
from tessarr.tensorstore.drivers.cast.conversion import find_conversion
from tessarr.tensorstore.future.future import Future, spawn
from tessarr.tensorstore.json.parse import to_plain_json
from tessarr.tensorstore.ndarray_views import select_elements
from tessarr.tensorstore.schema.data_type import dtype
from tessarr.tensorstore.schema.schema import Schema
from tessarr.tensorstore.schema.units import propagate_units
from tessarr.tensorstore.spec.driver_spec import OpenRequest, OpenResult
from tessarr.tensorstore.spec.open_mode import OpenMode
from tessarr.tensorstore.spec.resource_spec import COPY_RESOURCES, ResourceSpec

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.tensorstore.driver import Driver
    from tessarr.types import JSONObject

__all__ = ["MemorySpec"]

_MAX_RANK: Final = 32


class MemorySpec(ResourceSpec):
    """The spec of an array in memory, with its elements."""

    name = "array"

    _values: npt.NDArray[Any]

    @classmethod
    def parse(cls, members: dict[str, Any], schema: Schema) -> Self:
        """Return the spec of JSON members."""
        data_type = schema.dtype
        if data_type is None:
            raise ArgumentError('an "array" needs a "dtype"')
        if "array" not in members:
            raise ArgumentError('"array" is missing: the spec needs the elements')
        items = members.pop("array")
        if _has_data_type(items, data_type):
            values = items.copy()
        else:
            values = parse_elements(to_plain_json(items), data_type, schema.rank)
        spec = cls(Schema(dtype=data_type, rank=values.ndim)._merge_with(schema))
        spec._values = values
        spec._references = References.parse(COPY_RESOURCES, members)
        return spec

    def _check(self) -> None:
        """Raise an error if the elements do not meet the constraints."""
        if self.schema.codec is not None:
            raise ArgumentError('an "array" has no codec')
        if self.schema.fill_value is not None:
            raise ArgumentError('an "array" has no fill value')
        layout = self.schema.chunk_layout.to_json()
        if any(isinstance(part, dict) and "shape" in part for part in layout.values()):
            raise ArgumentError('an "array" has no chunks')
        self.effective()._merge_with(self.schema)

    @classmethod
    def of(
        cls, driver: Driver, view: IndexTransform, *, minimal: bool
    ) -> tuple[Self, IndexTransform]:
        """Return a spec with the elements of a view, and a view of them."""
        assert isinstance(driver, MemoryDriver)
        spec = cls(Schema(dtype=driver.dtype))
        context = driver.context
        if not isinstance(context, References):
            context = References(COPY_RESOURCES, {}).bind(context or _default_context())
        spec._references = context
        order = _storage_order(driver.values, view)
        values = np.asarray(
            select_elements(driver.values, _collapse_dimensions(view, order)._as_view())
        )
        spec._values, shown = _spec_elements(values, view, order)
        units = propagate_units(driver.dimension_units, view)
        if any(unit is not None for unit in units):
            along = [index_map.input_dimension for index_map in shown.output]
            spec.schema.update(dimension_units=[None if k is None else units[k] for k in along])
        return spec, shown

    def members(self, naming: Naming, *, include_defaults: bool) -> JSONObject:
        """Return the members of its JSON."""
        assert self.schema.dtype is not None
        json: JSONObject = {"array": self._values}
        try:
            json["array"] = elements_to_json(self._values, self.schema.dtype)
        except UnsupportedError:
            if not naming.brief:
                raise
        json.update(self._references.json(naming, include_defaults=include_defaults))
        return json

    def effective(self) -> Schema:
        """Return the complete schema."""
        return Schema(
            dtype=self.schema.dtype,
            domain=IndexDomain(shape=self._values.shape),
            chunk_layout=memory_layout(self._values),
            dimension_units=self.schema.dimension_units,
        )

    @property
    def open_mode(self) -> OpenMode:
        """The open mode: the spec has the elements."""
        return OpenMode()

    def open(self, view: IndexTransform | None, opening: OpenRequest) -> Future[OpenResult]:
        """Return a copy of the elements."""

        def opened() -> OpenResult:
            assert self.schema.dtype is not None
            if opening.transaction is not None:
                raise UnsupportedError('driver "array" cannot take part in transactions')
            self._check()
            driver = MemoryDriver(
                _drop_unit_strides(self._values.copy()),
                self.schema.dtype,
                self._references,
                self.schema.dimension_units,
            )
            return OpenResult(driver, view)

        return spawn(opened, here=True)


def _drop_unit_strides(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the array with stride 0 for axes of length 1, which count as outermost."""
    axes = (np.newaxis if size == 1 else slice(None) for size in values.shape)
    return values.squeeze()[(..., *axes)]


@cache
def _default_context() -> Context:
    """Return the context of arrays without one."""
    return Context()


def _storage_order(values: npt.NDArray[Any], view: IndexTransform) -> list[int]:
    """Return the dimensions of a view in the order of the spec's array, slowest first.

    Dimensions along which elements repeat are omitted. The order is TensorStore's: dimensions of
    index arrays come first, in the order of the arrays, then dimensions by descending stride.
    Negative strides count as less than 0 if the view has no index arrays.
    """
    steps = [0] * view.input_rank
    lists: list[list[int]] = []
    index_steps = view._as_view().index_array_strides()
    for stride, line, listed in zip(values.strides, view._linear_maps(), index_steps, strict=True):
        if listed is not None and stride:
            lists.append(listed)
        elif line[0] >= 0:
            steps[line[0]] += stride * line[2]
    along = [[listed[k] for listed in lists] for k in range(len(steps))]
    distances = [*map(abs, steps)] if lists else steps
    moved = [k for k in range(len(steps)) if steps[k] or any(along[k])]

    def sort_key(k: int) -> tuple[Any, ...]:
        return not any(along[k]), [-index_steps for index_steps in along[k]], -distances[k]

    return sorted((k for k in moved if view.domain._dims[k].size != 1), key=sort_key)


def _collapse_dimensions(view: IndexTransform, selected: list[int]) -> IndexTransform:
    """Return a view with one position of all other dimensions, which may be infinite."""
    dims = [
        dim if k in selected or not dim.size else _single_position(dim)
        for k, dim in enumerate(view.domain._dims)
    ]
    return view[IndexDomain(dims)]


def _single_position(dim: Dim) -> Dim:
    index = min(max(0, dim.inclusive_min), dim.inclusive_max)
    return Dim(inclusive_min=index, size=1, label=dim.label)


def _spec_elements(
    values: npt.NDArray[Any], view: IndexTransform, order: list[int]
) -> tuple[npt.NDArray[Any], IndexTransform]:
    """Return elements along the dimensions of `order`, and the transform that repeats them."""
    if values.size == 0:
        return np.empty(0, values.dtype), IndexTransform._of(
            view.domain, (OutputIndexMap._constant(0),)
        )
    dims = view.domain._dims
    selected = sorted(order)
    key: Any = tuple(slice(None) if k in selected else 0 for k in range(len(dims)))
    axes = [selected.index(k) for k in order]
    laid = values[(*key, ...)].transpose(axes).copy().transpose(np.argsort(axes))
    maps = tuple(OutputIndexMap._along(k, -dims[k].inclusive_min) for k in selected)
    return laid, IndexTransform._of(view.domain, maps)


def parse_elements(items: Any, data_type: dtype, rank: int | None) -> npt.NDArray[Any]:
    """Return the array that nested JSON lists describe.

    Parameters
    ----------
    items
        Nested lists; complex numbers are pairs of numbers.
    data_type
        The data type of the elements.
    rank
        The number of axes; by default the depth of the lists.

    Raises
    ------
    ArgumentError
        If lists have different lengths, or different depths for an open rank, or an element is
        invalid.
    """
    pairs = data_type.name.startswith("complex")
    lists = pairs or rank is not None  # whether elements can be lists
    if rank is None:
        rank = max(0, _list_depth(items) - pairs)
    if rank > _MAX_RANK:
        raise ArgumentError(f'"array": {rank} axes are too many: at most {_MAX_RANK} are possible')
    shape: list[int] = []
    inner = items
    for _ in range(rank):
        if not isinstance(inner, list):
            raise ArgumentError(
                f'"array": {safe_repr(inner)} is not a list, but the rank is {rank}'
            )
        shape.append(len(inner))
        if not inner:
            break
        inner = inner[0]
    if len(shape) < rank:
        raise ArgumentError(f'"array": lists of rank {len(shape)}, but the rank is {rank}')
    flat: list[Any] = []
    _flatten(items, shape, flat, lists=lists)
    values = np.empty(len(flat), "O")
    for k, item in enumerate(flat):
        values[k] = _read_complex(item) if pairs else item
    if pairs:
        return values.astype(data_type.dtype).reshape(shape)
    convert = find_conversion(dtype("json"), data_type)
    if convert is None:
        raise ArgumentError(f'"array": JSON cannot represent elements of {data_type.name}')
    try:
        return convert(values).reshape(shape)
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(f'"array": {error}') from error


def _has_data_type(value: Any, data_type: dtype) -> bool:
    """Return whether the value is a pickled array of such elements, which JSON cannot represent."""
    if not isinstance(value, np.ndarray) or value.dtype != data_type.dtype:
        return False
    if value.dtype.kind != "O":
        return True
    return data_type.name == "string" and all(type(item) is bytes for item in value.flat)


def _list_depth(items: Any) -> int:
    depth = 0
    while isinstance(items, list):
        depth += 1
        if not items:
            break
        items = items[0]
    return depth


def _flatten(items: Any, shape: list[int], into: list[Any], *, lists: bool) -> None:
    if not shape:
        if isinstance(items, list) and not lists:
            raise ArgumentError(
                f'"array": {safe_repr(items)} is a list where an element is expected'
            )
        into.append(items)
        return
    if not isinstance(items, list) or len(items) != shape[0]:
        raise ArgumentError(f'"array": {safe_repr(items)} is not a list of {shape[0]} items')
    for item in items:
        _flatten(item, shape[1:], into, lists=lists)


def _read_complex(item: Any) -> complex:
    if not isinstance(item, list) or len(item) != 2:
        raise ArgumentError(
            f'"array": {safe_repr(item)} is not a pair of numbers, as complex ones are'
        )
    real, imaginary = parse_elements(item, dtype("float64"), 1).tolist()
    return complex(real, imaginary)
