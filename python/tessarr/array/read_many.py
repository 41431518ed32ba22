"""Reads of many selections in one call of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from tessarr._engine import empty, prepare_basic_read, run_reads
from tessarr.errors import ArgumentError
from tessarr.indexing import select
from tessarr.indexing.assigned_values import to_writable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from tessarr._engine import PreparedRead
    from tessarr.indexing import Fields, Selection
    from tessarr.metadata.node import ArrayMeta
    from tessarr.types import Shape

__all__ = ["read_pairs"]

_Plan: TypeAlias = "tuple[PreparedRead, Callable[[Any], Any] | None]"
"""A read, and a function from its result to the value."""


class _Readable(Protocol):
    """The members of an array that its reads use."""

    _cache_metadata: bool
    _meta: ArrayMeta

    def refresh(self) -> None:
        """Read the metadata again."""

    def _select_key(self, normalize: Any, key: Any) -> tuple[Selection, Fields | None]: ...

    def _plan_read(self, normalize: Any, key: Any, out: Any) -> _Plan: ...


def read_pairs(pairs: Sequence[tuple[_Readable, Any]], out: Any, *, stack: bool) -> Any:
    """Read selections of arrays in one call of the engine: see `tessarr.read_many`."""
    for array in {id(array): array for array, _ in pairs}.values():
        if not array._cache_metadata:
            array.refresh()
    if out is None and not stack:
        planned = [array._plan_read(select, key, None) for array, key in pairs]
    else:
        stacked = _new_stack(pairs) if out is None else None
        out = stacked if out is None else out
        planned = _plan_reads_into(pairs, out, stacked)
    results = run_reads([read for read, _ in planned])
    values = [
        result if finish is None else finish(result)
        for result, (_, finish) in zip(results, planned, strict=True)
    ]
    return values if out is None or isinstance(out, list) else out


def _new_stack(pairs: Sequence[tuple[_Readable, Any]]) -> npt.NDArray[Any]:
    """Return an array for stacked values like the first one."""
    if not pairs:
        raise ArgumentError("no selections to stack: pass stack=False for a list")
    array, key = pairs[0]
    shape, dtype = _value_type(array, key)
    return empty((len(pairs), *shape), dtype)


def _value_type(array: _Readable, key: Any) -> tuple[Shape, np.dtype[Any]]:
    """Return the shape and data type of a value; a data type can add axes."""
    selection, fields = array._select_key(select, key)
    if fields is None:
        return selection.shape, array._meta.data_type.numpy
    dtype = fields.dtype if fields.inner is None else fields.dtype[fields.inner]
    base, shape = dtype.subdtype or (dtype, ())
    return selection.shape + shape, base


def _plan_reads_into(
    pairs: Sequence[tuple[_Readable, Any]], out: Any, stacked: npt.NDArray[Any] | None
) -> list[_Plan]:
    """Return reads into `out`: a list of destinations, an array of values, or the new `stacked`."""
    targets = _check_targets(out, len(pairs))
    planned: list[_Plan] = []
    for number, (array, key) in enumerate(pairs):
        read = prepare_basic_read(array, key, targets, number)
        if read is not None:
            planned.append((read, None))
            continue
        if stacked is not None:
            _check_stackable(stacked, *_value_type(array, key))
        # With an ellipsis, NumPy returns a view also of a single element.
        target = targets[number] if isinstance(targets, list) else targets[number, ...]
        planned.append(array._plan_read(select, key, target))
    return planned


def _check_targets(out: Any, count: int) -> Any:
    """Return `out` as a list or an array, with an entry for each of `count` selections."""
    targets = out if isinstance(out, list) else to_writable(out)
    if not isinstance(targets, (list, np.ndarray)):
        raise ArgumentError(f"out is neither a list nor in memory, but a {type(out).__name__}")
    entries = len(targets) if isinstance(targets, list) else next(iter(targets.shape), 0)
    if entries != count:
        raise ArgumentError(
            f"out has not one entry for each of {count} selections", kind="shape_mismatch"
        )
    return targets


def _check_stackable(stack: npt.NDArray[Any], shape: Shape, dtype: np.dtype[Any]) -> None:
    """Raise an error unless a new stack has values of this shape and data type."""
    if stack.shape[1:] != shape or stack.dtype != dtype:
        raise ArgumentError(
            f"only values of one shape and data type can be stacked, not {stack.shape[1:]} of "
            f"{stack.dtype} and {shape} of {dtype}: pass stack=False for a list",
            kind="shape_mismatch",
        )
