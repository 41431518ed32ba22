"""Propagation of per-dimension values through index transforms, in both directions.

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
from tessarr.types import Shape

__all__ = [
    "drop_broadcast",
    "is_broadcastable",
    "merge_domains",
    "propagate_array",
    "propagate_array_back",
    "propagate_domain_back",
    "propagate_order_back",
    "propagate_values",
    "propagate_values_back",
]

T = TypeVar("T")
_LAST: Final = 1 << 20
_LARGEST: Final = 1 << 28
_UNLIMITED: Final = Dim()


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
            raise ArgumentError(f"{what}: dimension {dim} is none of what is viewed")
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
    dims = []
    for dim, offset, stride in maps:
        if dim < 0 or [one[0] for one in maps].count(dim) > 1:
            raise ArgumentError("domain: what is viewed is not determined by the view")
        given = domain._dims[dim]
        free = (given.inclusive_min, given.exclusive_max) == (-INFINITE, INFINITE + 1)
        if abs(stride) != 1 and not free:
            raise ArgumentError("domain: what is viewed is not determined by a strided view")
        ends = [given.inclusive_min, given.inclusive_max]
        ends = [end if abs(end) == INFINITE else offset + stride * end for end in ends]
        if stride < 0:
            ends = [-end if abs(end) == INFINITE else end for end in reversed(ends)]
        marks = given._implicit
        implicit = marks if stride > 0 else (marks[1], marks[0])
        dims.append(Dim._of(ends[0], ends[1] + 1, given.label, implicit))
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
    extra = 0
    while extra < values.ndim and values.shape[extra] == 1:
        extra += 1
    return values.reshape(values.shape[extra:])


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
    rank = transform.input_rank
    if not values.ndim or not transform.output_rank:
        return values if not values.ndim else values.reshape(())
    first = transform.output_rank - values.ndim
    taken: list[Any] = []
    for axis, size in enumerate(values.shape):
        one = transform.output[first + axis]
        if size == 1:
            taken.append(np.zeros((1,) * rank, np.intp))
            continue
        begin = 0 if domain is None else domain._dims[first + axis].inclusive_min
        if one.index_array is not None:
            if domain is None:
                raise ArgumentError("fill_value: its axis is indexed, but the domain is not known")
            taken.append(one.offset + one._factor * one.index_array - begin)
        elif one.input_dimension is not None:
            taken.append(_positions(transform, first + axis, size, domain))
        else:
            if domain is None:
                raise ArgumentError("fill_value: its axis is indexed, but the domain is not known")
            taken.append(np.full((1,) * rank, one.offset - begin, np.intp))
    shape = np.broadcast_shapes(*(index.shape for index in taken))
    if prod(shape) > _LARGEST:
        raise ArgumentError(f"fill_value: a view of it would have {prod(shape)} elements")
    if any(np.any((i < 0) | (i >= n)) for i, n in zip(taken, values.shape, strict=True)):
        raise SelectionError("fill_value: the view is outside of it", kind="out_of_bounds")
    return drop_broadcast(values[(..., *taken)])  # the ellipsis keeps a 0-d result an array


def _positions(
    transform: IndexTransform, k: int, size: int, domain: IndexDomain | None
) -> npt.NDArray[np.intp]:
    one = transform.output[k]
    dim = one.input_dimension
    assert dim is not None
    along = [1] * transform.input_rank
    given = transform.domain._dims[dim]
    if domain is None:
        whole = (given.inclusive_min, given.exclusive_max) == (-INFINITE, INFINITE + 1)
        if not whole or not given.implicit_lower or not given.implicit_upper:
            indices = np.arange(given.inclusive_min, given.exclusive_max) if given.finite else None
            fits = indices is not None and len(indices) == size and abs(one._factor) == 1
            if not fits:
                raise ArgumentError("fill_value: its axis is indexed, but the domain is not known")
        if abs(one._factor) != 1:
            raise ArgumentError("fill_value: its axis is strided, but the domain is not known")
        result = np.arange(size)[:: one._factor]
    else:
        if not given.finite:
            raise ArgumentError("fill_value: it is taken along an infinite dimension")
        if given.size > _LARGEST:
            raise ArgumentError(f"fill_value: a view of it would have {given.size} elements")
        begin = domain._dims[k].inclusive_min
        steps = np.arange(given.size, dtype=np.intp)
        result = one.offset + one._factor * given.inclusive_min - begin + one._factor * steps
    along[dim] = len(result)
    return result.reshape(along)


def propagate_array_back(values: npt.NDArray[Any], transform: IndexTransform) -> npt.NDArray[Any]:
    """Propagate an array that broadcasts to a view back to the base.

    Raises
    ------
    ArgumentError
        If the view does not determine the array.
    """
    maps = transform._linear_maps()
    first = transform.input_rank - values.ndim
    order = []
    flipped: list[Any] = []
    for dim, _, stride in maps:
        if dim < 0 or [one[0] for one in maps].count(dim) > 1 or abs(stride) != 1:
            raise ArgumentError("fill_value: what is viewed is not determined by the view")
        if dim >= first:
            order.append(dim - first)
        flipped.append(slice(None, None, stride if dim >= first else None))
    unused = set(range(values.ndim)) - set(order)
    if any(values.shape[axis] != 1 for axis in unused):
        raise ArgumentError("fill_value: an axis of it is none of what is viewed")
    kept = np.squeeze(values, tuple(unused))
    ranks = {axis: place for place, axis in enumerate(sorted(order))}
    kept = kept.transpose([ranks[axis] for axis in order])
    index = [slice(None) if dim >= first else np.newaxis for dim, _, _ in maps]
    return drop_broadcast(kept[(..., *index)][(..., *flipped)])
