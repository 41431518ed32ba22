"""Propagation of domains and per-dimension values through index transforms, in both directions.

A value propagates only through an output index map with a single input dimension. No other map
may use the same dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from tessarr.errors import ArgumentError, SelectionError
from tessarr.index_space import INFINITE, Dim, IndexDomain, IndexTransform
from tessarr.index_space.output_index_map import check_within_bounds, evaluate_map, map_extent
from tessarr.types import Shape

__all__ = [
    "check_fits",
    "drop_broadcast",
    "get_extents",
    "is_broadcastable",
    "mark_explicit",
    "merge_domains",
    "propagate_array",
    "propagate_array_back",
    "propagate_bounds",
    "propagate_domain_back",
    "propagate_order_back",
    "propagate_values",
    "propagate_values_back",
]

T = TypeVar("T")
_LAST: Final = 1 << 20
_LARGEST: Final = 1 << 28


def propagate_values(
    values: Sequence[T | None],
    lines: Sequence[tuple[int, int, int]],
    rank: int,
    change: Callable[[T, int, int], T],
) -> tuple[T | None, ...]:
    """Propagate values from the dimensions of a base to the dimensions of its view.

    Parameters
    ----------
    values
        The values of the dimensions of the base; None if a dimension has no value.
    lines, rank
        The view: `IndexTransform.lines` of dimensions that a single map uses, and the rank.
    change
        Returns the new value from a value, an offset and a stride.
    """
    items: list[T | None] = [None] * rank
    for value, (dim, offset, stride) in zip(values, lines, strict=True):
        if value is not None and dim >= 0:
            items[dim] = change(value, offset, stride)
    return tuple(items)


def propagate_values_back(
    values: Sequence[T | None],
    transform: IndexTransform,
    change: Callable[[T, int, int], T],
    needed: Callable[[T], bool],
    what: str,
) -> tuple[T | None, ...]:
    """Propagate values from the dimensions of a view to the dimensions of its base.

    Raises
    ------
    ArgumentError
        If a dimension that the base lacks has a value for which `needed` returns True.
    """
    items: list[T | None] = [None] * transform.output_rank
    seen = set()
    for k, (dim, offset, stride) in enumerate(transform._linear_maps()):
        if dim >= 0 and stride:
            seen.add(dim)
            value = values[dim]
            items[k] = None if value is None else change(value, offset, stride)
    for dim, value in enumerate(values):
        if dim not in seen and value is not None and needed(value):
            raise ArgumentError(f"{what}: dimension {dim} is not a dimension of the base")
    return tuple(items)


def propagate_order_back(order: Sequence[int], transform: IndexTransform) -> tuple[int, ...]:
    """Convert an order of the dimensions of a view to an order of the base's dimensions."""
    places = {dim: place for place, dim in enumerate(order)}
    maps = transform._linear_maps()
    return tuple(sorted(range(len(maps)), key=lambda k: (places.get(maps[k][0], _LAST), k)))


def merge_domains(old: IndexDomain, new: IndexDomain) -> IndexDomain:
    """Merge two domains; infinite implicit bounds match any bound.

    Raises
    ------
    ArgumentError
        If the ranks, bounds or labels differ.
    """
    return IndexDomain._of_view(old._as_view().merge(new._as_view()))


def propagate_domain_back(domain: IndexDomain, transform: IndexTransform) -> IndexDomain:
    """Return the domain of the base from the domain of the view.

    Raises
    ------
    ArgumentError
        If the view does not determine the domain.
    """
    maps = transform._linear_maps()
    _check_determined(maps, "domain")
    dims = []
    for k, offset, stride in maps:
        dim = domain._dims[k]
        is_free = (dim.inclusive_min, dim.exclusive_max) == (-INFINITE, INFINITE + 1)
        if abs(stride) != 1 and not is_free:
            raise ArgumentError("domain: a strided view does not determine that of the base")
        ends = [dim.inclusive_min, dim.inclusive_max]
        ends = [end if abs(end) == INFINITE else offset + stride * end for end in ends]
        if stride < 0:
            ends = [-end if abs(end) == INFINITE else end for end in reversed(ends)]
        lower, upper = dim._implicit
        implicit = (lower, upper) if stride > 0 else (upper, lower)
        dims.append(Dim._of(ends[0], ends[1] + 1, dim.label, implicit))
    return IndexDomain(dims)


def drop_broadcast(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array without leading axes of length 1 and without repetition by zero strides."""
    if not values.ndim:
        return values
    index = tuple(
        slice(0, 1) if stride == 0 and size else slice(None)
        for size, stride in zip(values.shape, values.strides, strict=True)
    )
    values = values[index]
    leading = next((k for k, size in enumerate(values.shape) if size != 1), values.ndim)
    return values.reshape(values.shape[leading:])


def is_broadcastable(shape: Shape, domain: IndexDomain) -> bool:
    """Return whether an array broadcasts to a domain, with aligned last axes."""
    if not shape:
        return True
    if len(shape) > domain.rank:
        extra = len(shape) - domain.rank
        return all(size == 1 for size in shape[:extra]) and is_broadcastable(shape[extra:], domain)
    last = domain.shape[domain.rank - len(shape) :]
    return all(size in {1, length} for size, length in zip(shape, last, strict=True))


def propagate_array(
    values: npt.NDArray[Any], transform: IndexTransform, domain: IndexDomain | None
) -> npt.NDArray[Any]:
    """Propagate an array that broadcasts to the base through a view.

    Parameters
    ----------
    values
        The array; its last axis is the last dimension of the base.
    transform
        The index transform of the view.
    domain
        The domain of the base, or None if it is unknown.

    Raises
    ------
    ArgumentError
        If the view indexes an axis that is not constant and the domain is unknown.
    """
    if not values.ndim or not transform.output_rank:
        return values if not values.ndim else values.reshape(())
    indices: list[Any] = []
    for k, size in enumerate(values.shape, transform.output_rank - values.ndim):
        if size == 1:
            indices.append(np.zeros((1,) * transform.input_rank, np.intp))
        elif domain is None:
            indices.append(_indices_without_domain(transform, k, size))
        else:
            indices.append(_indices(transform, k) - domain._dims[k].inclusive_min)
    shape = np.broadcast_shapes(*(index.shape for index in indices))
    if prod(shape) > _LARGEST:
        raise ArgumentError(f"fill_value: a view of it would have {prod(shape)} elements")
    if any(np.any((i < 0) | (i >= n)) for i, n in zip(indices, values.shape, strict=True)):
        raise SelectionError("fill_value: the view is outside of it", kind="out_of_bounds")
    return drop_broadcast(values[(..., *indices)])  # the ellipsis keeps a 0-d result an array


def _indices(transform: IndexTransform, k: int) -> npt.NDArray[np.intp]:
    """Return the indices of the base's dimension `k` at all positions of a view."""
    index_map, dims = transform.output[k], transform.domain._dims
    if index_map.input_dimension is not None:
        dim = dims[index_map.input_dimension]
        if not dim.finite:
            raise ArgumentError("fill_value: it is taken along an infinite dimension")
        if dim.size > _LARGEST:
            raise ArgumentError(f"fill_value: a view of it would have {dim.size} elements")
    return evaluate_map(index_map, dims)


def _indices_without_domain(transform: IndexTransform, k: int, size: int) -> npt.NDArray[np.intp]:
    """Return the indices of an axis of length `size` if the view selects all of the dimension."""
    index_map = transform.output[k]
    if index_map.input_dimension is None:
        raise ArgumentError("fill_value: its axis is indexed, but the domain is not known")
    dim, is_unit = transform.domain._dims[index_map.input_dimension], abs(index_map._factor) == 1
    interval = (dim.inclusive_min, dim.exclusive_max)
    is_whole = interval == (-INFINITE, INFINITE + 1) and dim.implicit_lower and dim.implicit_upper
    if not is_whole and not (dim.finite and dim.size == size and is_unit):
        raise ArgumentError("fill_value: its axis is indexed, but the domain is not known")
    if not is_unit:
        raise ArgumentError("fill_value: its axis is strided, but the domain is not known")
    shape = [1] * transform.input_rank
    shape[index_map.input_dimension] = size
    return np.arange(size)[:: index_map._factor].reshape(shape)


def propagate_array_back(values: npt.NDArray[Any], transform: IndexTransform) -> npt.NDArray[Any]:
    """Propagate an array that broadcasts to a view back to the base.

    Raises
    ------
    ArgumentError
        If the view does not determine the array.
    """
    maps = transform._linear_maps()
    _check_determined(maps, "fill_value")
    if any(abs(stride) != 1 for _, _, stride in maps):
        raise ArgumentError("fill_value: a strided view does not determine that of the base")
    first = transform.input_rank - values.ndim
    order = [dim - first for dim, _, _ in maps if dim >= first]
    unused = set(range(values.ndim)) - set(order)
    if any(values.shape[axis] != 1 for axis in unused):
        raise ArgumentError("fill_value: an axis of it is not a dimension of the base")
    ranks = {axis: position for position, axis in enumerate(sorted(order))}
    values = np.squeeze(values, tuple(unused)).transpose([ranks[axis] for axis in order])
    index = [slice(None) if dim >= first else np.newaxis for dim, _, _ in maps]
    flipped = [slice(None, None, stride if dim >= first else None) for dim, _, stride in maps]
    return drop_broadcast(values[(..., *index)][(..., *flipped)])


def _check_determined(maps: Sequence[tuple[int, int, int]], what: str) -> None:
    """Raise an error unless each dimension of the base has its own dimension of the view."""
    dims = [dim for dim, _, _ in maps]
    if -1 in dims or len(set(dims)) < len(dims):
        raise ArgumentError(f"{what}: the view does not determine that of the base")


def propagate_bounds(view: IndexTransform, domain: IndexDomain) -> IndexTransform:
    """Return the view with implicit bounds from the domain of its base.

    Return the same object if the bounds do not change.

    Raises
    ------
    ArgumentError
        If an explicit bound of the view exceeds an explicit bound of the base.

    Examples
    --------
    >>> view = IndexTransform(IndexDomain(2))[5:, ::-1]
    >>> propagate_bounds(view, IndexDomain(shape=[8, 9])).domain
    { [5, 8), [-8, 1) }
    """
    try:
        result = view._with_base_bounds(domain)
    except SelectionError as error:
        raise ArgumentError(f"the view does not fit: {error}", kind="out_of_bounds") from error
    return view if result == view else result


def mark_explicit(view: IndexTransform, domain: IndexDomain) -> IndexTransform:
    """Return the view with explicit bounds for all dimensions that depend on the base.

    Raises
    ------
    ArgumentError
        If the view exceeds the base; this check ignores index arrays.
    """
    check_fits(view, domain)
    followed = {one.input_dimension for one in view.output}
    fixed = tuple(
        Dim._of(dim.inclusive_min, dim.exclusive_max, dim.label) if k in followed else dim
        for k, dim in enumerate(view.domain._dims)
    )
    return IndexTransform._of(IndexDomain._of(fixed), view.output)


def check_fits(view: IndexTransform, domain: IndexDomain) -> None:
    """Raise an error if the view exceeds its base; the check ignores index arrays.

    Raises
    ------
    ArgumentError
        If the view exceeds its base (``out_of_bounds``).
    """
    try:
        check_within_bounds(view.output, view.domain._dims, domain._dims, arrays=False)
    except SelectionError as error:
        raise ArgumentError(f"the view does not fit: {error}", kind="out_of_bounds") from None


def get_extents(view: IndexTransform) -> list[tuple[int, int]]:
    """Return the smallest interval that contains all indices of each map."""
    dims = view.domain._dims
    return [map_extent(one, dims) for one in view.output]
