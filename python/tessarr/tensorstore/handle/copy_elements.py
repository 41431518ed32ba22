"""Copies of elements from one handle to another, part by part."""

from __future__ import annotations

from collections import deque
from functools import cache
from importlib import import_module
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from tessarr.errors import ArgumentError
from tessarr.index_space import Dim, IndexDomain, IndexTransform
from tessarr.tensorstore.future.combine import convert_result
from tessarr.tensorstore.future.future import Future, spawn
from tessarr.tensorstore.future.promise import Promise
from tessarr.tensorstore.future.write_futures import WriteFutures
from tessarr.tensorstore.handle.align import align_domain
from tessarr.tensorstore.ndarray_views import find_memory, select_elements, start_view
from tessarr.tensorstore.schema.propagate import get_extents

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from tessarr.tensorstore.schema.data_type import dtype as DataType  # noqa: N812

TensorStore: TypeAlias = Any
"""A `TensorStore`; its module imports this one."""

__all__ = ["check_conversion", "start_copy"]

_PART_BYTES: Final = 64 << 20
_MAX_PENDING_WRITES: Final = 2


def check_conversion(source: DataType, target: DataType) -> None:
    """Raise an error unless `target` can represent every value of `source`.

    Raises
    ------
    ArgumentError
        If the conversion can lose a value; the message explains how to convert.
    """
    if source.name != target.name and not _is_lossless(source, target):
        raise ArgumentError(
            f"{source.name} is not converted to {target.name} by itself: use cast",
            kind="cannot_cast",
        )


@cache
def _is_lossless(source: DataType, target: DataType) -> bool:
    """Return whether `target` can represent every value of `source`."""
    source_format, target_format = _number_format(source), _number_format(target)
    if source_format is None or (source.name, target.name) in _EQUIVALENT:
        return (source.name, target.name) in _EQUIVALENT
    if target_format is None:
        return target.name == "json"
    if "int" in source.name and "int" in target.name:
        return np.can_cast(source.dtype, target.dtype, "safe")
    (kind, digits, least, most), (wider, more, lower, higher) = source_format, target_format
    return kind <= wider and digits <= more and least >= lower and most <= higher


def _number_format(data_type: DataType) -> tuple[int, int, int, int] | None:
    """Return the number kind, significant digits and exponent range of a data type.

    The result is None for data types other than numbers.
    """
    if data_type.name == "bool":
        return 0, 0, 0, 0
    is_small = data_type.dtype.isbuiltin == 2  # a type of ml_dtypes
    tables: Any = import_module("ml_dtypes") if is_small else np
    if "int" in data_type.name:
        digits = int(tables.iinfo(data_type.dtype).max).bit_length()
        return 1, digits, 0, digits
    if "float" in data_type.name or "complex" in data_type.name:
        info = tables.finfo(data_type.dtype)
        kind = 3 if "complex" in data_type.name else 2
        power = info.nmant == 0  # other types have its least value as a subnormal
        return kind, info.nmant + 1, int(info.minexp) + power, int(info.maxexp)
    return None


_EQUIVALENT: Final = {
    ("ustring", "string"),
    ("ustring", "json"),
    ("byte", "char"),
    ("char", "byte"),
}
"""Data types with the same values, or with the same stored form."""


def start_copy(source: TensorStore, target: TensorStore) -> WriteFutures:
    """Start to copy all elements; see `TensorStore.write`."""
    check_conversion(source.dtype, target.dtype)
    if not source.readable:
        raise ArgumentError("the source was opened for writing only: it cannot read")
    view = source[align_domain(source.domain, target.domain)]
    if source.dtype != target.dtype:
        view = view.astype(target.dtype)
    shared = source._driver.storage_ids() & target._driver.storage_ids()
    have_same_storage = shared == source._driver.storage_ids() == target._driver.storage_ids()
    whole = bool(shared) and not (have_same_storage and _are_disjoint(source._view, target._view))
    out = None if whole or source.dtype != target.dtype else _writable_elements(target)
    if out is not None:
        done = convert_result(view.read(out=out), lambda _: None)
        return WriteFutures._of(done, done)
    promise, copied = Promise.new()

    def work() -> None:
        try:
            _copy_parts(view, target, promise, whole=whole)
        except BaseException as error:
            promise.set_exception(error)
            raise

    committed = spawn(work)
    return WriteFutures._of(copied, committed)


def _copy_parts(
    view: TensorStore, target: TensorStore, read: Promise[None], *, whole: bool
) -> None:
    parts = [target.domain] if whole else _split_domain(target)
    reads: deque[tuple[IndexDomain, Future[Any]]] = deque()
    writes: deque[WriteFutures] = deque()

    def write() -> None:
        part, future = reads.popleft()
        values = future.result()
        writes.append(target[part].write(values))
        if len(writes) > _MAX_PENDING_WRITES:
            writes.popleft().result()

    for part in parts:
        source = view[part]
        # The elements of a whole copy may overlap the target in memory.
        scope = source._scope(None)
        values = source.read() if whole else start_view(source._driver, source._view, scope)
        reads.append((part, values))
        if len(reads) > 1:
            write()
    while reads:
        write()
    for pending in writes:
        pending.copy.result()
    read.set_result(None)
    for pending in writes:
        pending.result()


def _writable_elements(target: TensorStore) -> npt.NDArray[Any] | None:
    """Return the writable elements of a handle in memory.

    The result is None if the elements are not in memory, use index arrays, or overlap.
    """
    values = find_memory(target._driver, target._scope(None), write=True)
    if values is None:
        return None
    view = target._view
    if any(index_map.index_array is not None for index_map in view.output):
        return None
    elements = select_elements(values, view._as_view())
    repeated = any(
        step == 0 and size > 1 for step, size in zip(elements.strides, elements.shape, strict=True)
    )
    return None if repeated or elements.dtype != target.dtype.dtype else elements


def _are_disjoint(first: IndexTransform, second: IndexTransform) -> bool:
    """Return whether two views of the same dimensions cannot share an element."""
    return first.output_rank == second.output_rank and any(
        a[1] <= b[0] or b[1] <= a[0]
        for a, b in zip(get_extents(first), get_extents(second), strict=True)
    )


def _split_domain(target: TensorStore) -> Iterator[IndexDomain]:
    """Yield boxes that cover the domain, of whole chunks if possible."""
    dims = target.domain._dims
    steps = [
        max(1, min(step, dim.size)) for step, dim in zip(_chunk_lengths(target), dims, strict=True)
    ]
    item = target.dtype.dtype.itemsize
    for k in reversed(range(len(steps))):
        room = _PART_BYTES // (item * prod(steps))
        if room > 1:
            steps[k] = max(1, min(steps[k] * room, dims[k].size))
    cuts = [_split_dimension(dim, step) for dim, step in zip(dims, steps, strict=True)]
    for chosen in product(*cuts):
        yield IndexDomain._of(chosen)


def _split_dimension(dim: Dim, step: int) -> list[Dim]:
    parts = []
    start = dim.inclusive_min
    while start < dim.exclusive_max:
        end = min((start // step + 1) * step, dim.exclusive_max)
        parts.append(Dim._of(start, end, dim.label))
        start = end
    return parts


def _chunk_lengths(target: TensorStore) -> list[int]:
    """Return the length of write chunks along each dimension of a view."""
    lengths = [1] * target.rank
    for index_map, length in zip(
        target._view.output, target._driver.write_chunk_shape, strict=True
    ):
        if index_map.input_dimension is not None and index_map._factor:
            lengths[index_map.input_dimension] = max(1, length // abs(index_map._factor))
    return lengths
