"""`ElementAccess`: read and write the elements of a Zarr array."""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr.array.small_reads import FEW_CHUNKS, SmallReads
from tessarr.errors import ArgumentError, SelectionError
from tessarr.index_space import IndexTransform, lower
from tessarr.index_space.output_index_map import evaluate_map
from tessarr.tensorstore.batch import ReadGroup, start_read
from tessarr.tensorstore.future.combine import convert_result
from tessarr.tensorstore.future.future import NOTHING, Future, failed, finished, spawn
from tessarr.tensorstore.future.write_futures import WriteFutures
from tessarr.tensorstore.kvstore.local import is_fast_to_write
from tessarr.tensorstore.schema.propagate import get_extents

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.array import Array
    from tessarr.store import Store
    from tessarr.tensorstore.driver import StorageQuery
    from tessarr.tensorstore.drivers.zarr.array_properties import ArrayProperties
    from tessarr.tensorstore.drivers.zarr.inner_dimensions import InnerDimensions, InnerWrite

__all__ = ["ElementAccess"]


class ElementAccess:
    """Reads and writes elements of an array.

    Parameters
    ----------
    properties
        The properties of the elements; the array itself has the current bounds.
    store
        The store of the array, below caches.
    """

    __slots__ = (
        "_base_store",
        "_small_reads",
        "properties",
    )

    def __init__(self, properties: ArrayProperties, store: Store) -> None:
        self.properties = properties
        self._base_store = store
        self._small_reads = SmallReads(store)

    @property
    def in_memory(self) -> bool:
        """Whether requests need no I/O."""
        return self._small_reads.in_memory

    @property
    def prefers_inline(self) -> bool:
        """Whether a small change is faster than a hand-off to another thread."""
        return is_fast_to_write(self._base_store)

    def storage_statistics(
        self, array: Array, view: IndexTransform, query: StorageQuery
    ) -> tuple[bool, bool]:
        """Return whether no chunk of a view is stored, and whether all are.

        Positions outside the array are not stored.
        """
        try:
            inner = self.properties.inner
            view = view if inner is None else inner.split(view).outer
            result = array._storage_statistics(view._as_view(), *query)
        except SelectionError as error:
            raise _convert_error(error) from error
        if result is not None:
            return result
        # Some positions are below the origin.
        inside = _drop_below_origin(view)
        if inside is None:
            return True, False
        stored = array._storage_statistics(inside._as_view(), query.not_stored, fully_stored=False)
        return stored is None or stored[0], False

    def _is_small(self, view: IndexTransform) -> bool:
        """Return whether a view touches so few chunks that a hand-off takes longer."""
        chunk_shape = self.properties.small_chunk_shape
        return bool(chunk_shape) and view._view.touches_at_most(chunk_shape, FEW_CHUNKS)

    # Reading

    def read(
        self,
        array: Array,
        view: IndexTransform,
        out: npt.NDArray[Any] | None,
        read_group: ReadGroup | None = None,
    ) -> Future[npt.NDArray[Any]]:
        """Start to read a view of an array, into `out` if it is not None."""
        properties, inner = self.properties, self.properties.inner
        try:
            if inner is None and properties.as_stored:
                return self._read_elements(array, view, out, read_group)
            split = None if inner is None else inner.split(view)
            outer = view if split is None else split.outer

            def convert(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
                if inner is None or split is None:
                    values = values.astype(properties.numpy)
                else:
                    values = inner.select(split, self._split_elements(values, inner))
                if out is None:
                    return values
                out[...] = values
                return out

            return convert_result(self._read_elements(array, outer, None, read_group), convert)
        except Exception as error:  # noqa: BLE001 (the future reports it)
            return failed(_convert_error(error))

    def _read_elements(
        self,
        array: Array,
        view: IndexTransform,
        out: npt.NDArray[Any] | None,
        read_group: ReadGroup | None,
    ) -> Future[Any]:
        """Start to read elements in their stored form."""
        properties = self.properties
        read = array._prepare_view_read(view._view, properties.stored, out, properties.parts)
        if read.is_empty:
            return finished(read.run())
        small_reads = self._small_reads
        is_single = read_group is None or (small_reads.in_memory and not read_group.waits)
        is_small = is_single and self._is_small(view)
        if read_group is not None and not is_small:
            return read_group.read(read, array, self._base_store)
        if is_small and small_reads.runs_at_once(array._meta):
            future = finished(read.run())
        else:
            future = start_read(read, soon=is_small)
        small_reads.record(future)
        return future

    def _split_elements(self, values: Any, inner: InnerDimensions) -> npt.NDArray[Any]:
        """Return whole elements with their inner dimensions."""
        properties, elements = self.properties, np.asarray(values)
        shape = elements.shape
        if properties.fields is not None and properties.fields.inner is not None:
            elements = elements[properties.fields.inner]
        if elements.ndim < len(shape) + len(inner.shape):  # bytes are the last of them
            elements = np.ascontiguousarray(elements).reshape(-1).view(properties.numpy)
            elements = elements.reshape(*shape, *inner.shape)
            return elements if properties.places is None else elements[..., properties.places]
        return elements.astype(properties.numpy, copy=False)

    # Writing

    def write(self, array: Array, view: IndexTransform, values: npt.NDArray[Any]) -> WriteFutures:
        """Start to write to a view of an array."""
        try:
            if self.properties.inner is not None:
                return self._write_inner(array, self.properties.inner, view, values)
            stored = values.astype(self.properties.stored, copy=False)
            future = self._store(array, view, stored, self.properties.parts)
        except SelectionError as error:
            future = failed(_convert_error(error))
        return WriteFutures._of(future, future)

    def _store(
        self, array: Array, view: IndexTransform, values: npt.NDArray[Any], parts: Any
    ) -> Future[None]:
        chosen = lower(view, array._meta.shape)
        if not chosen.size:
            return NOTHING
        ready = chosen.buffer(values)
        if self._small_reads.is_local and self._is_small(view):
            write = partial(array._write, chosen.axes, chosen.out_axes, ready, parts)
            return spawn(write, here=self.prefers_inline)
        future: Future[None] = Future._pending()
        future._work = array._write_future(chosen.axes, chosen.out_axes, ready, future, parts).help
        return future

    def _write_inner(
        self, array: Array, inner: InnerDimensions, view: IndexTransform, values: npt.NDArray[Any]
    ) -> WriteFutures:
        """Start to write parts of elements; the other parts stay unchanged."""
        base, element = self._inner_location()
        size, futures = element.itemsize, []
        elements = values.astype(element, copy=False)
        pieces = list(inner.split_writes(inner.split(view), elements))
        places, bits = self.properties.places, self.properties.bits
        if places is not None:
            pieces = [write._replace(places=places[write.places].tolist()) for write in pieces]
        if bits is not None:
            _check_valid_bits(pieces, bits)
        for piece in pieces:
            packed = np.ascontiguousarray(piece.values).view(f"V{size * len(piece.places)}")
            offsets = [
                (base + position * size, caller_index * size)
                for caller_index, position in enumerate(piece.places)
            ]
            ready = packed.reshape(piece.outer.domain.shape)
            futures.append(self._store(array, piece.outer, ready, _merge_runs(offsets, size)))
        several = len(futures) != 1
        done = spawn(lambda: _wait_all(futures), here=not futures) if several else futures[0]
        return WriteFutures._of(done, done)

    def _inner_location(self) -> tuple[int, np.dtype[Any]]:
        """Return the offset and type of the inner array in a stored element."""
        properties, base = self.properties, 0
        stored, number = properties.stored, properties.numpy
        if properties.fields is not None:
            base = properties.fields.parts[0][0]
            if properties.fields.inner is not None:
                stored = stored[properties.fields.inner].base
        # A stored number can have another byte order; bytes have none.
        is_number = number.kind != "V" and stored.itemsize == number.itemsize
        return base, stored if is_number else number


def _drop_below_origin(view: IndexTransform) -> IndexTransform | None:
    """Return the positions of a view that are not below the origin, or None."""
    dims = view.domain._dims
    below = [
        item for item, (lower, _) in zip(view.output, get_extents(view), strict=True) if lower < 0
    ]
    mask = reduce(np.logical_and, (evaluate_map(item, dims) >= 0 for item in below))
    if not mask.any():
        return None
    along = zip(mask.shape, dims, np.nonzero(mask), strict=True)
    return view.vindex[
        tuple(
            slice(None) if item == 1 else dim.inclusive_min + indices
            for item, dim, indices in along
        )
    ]


def _check_valid_bits(pieces: list[InnerWrite], bits: npt.NDArray[np.uint8]) -> None:
    """Raise an error for bytes with invalid bits, which would be stored as other elements.

    Raises
    ------
    ArgumentError
        If such a byte exists.
    """
    for piece in pieces:
        if np.any(np.ascontiguousarray(piece.values).view("u1") & ~bits[piece.places]):
            raise ArgumentError(
                "open_as_void: bytes have bits that elements of the data type do not have",
                kind="cannot_cast",
            )


def _merge_runs(places: list[tuple[int, int]], size: int) -> list[tuple[int, int, int]]:
    """Return fields for pairs of offsets, with adjacent ones merged."""
    runs: list[tuple[int, int, int]] = []
    for item, caller in sorted(places):
        first, caller_start, length = runs[-1] if runs else (item, caller, 0)
        if (first + length, caller_start + length) == (item, caller):
            runs[-1:] = [(first, caller_start, length + size)]
        else:
            runs.append((item, caller, size))
    return runs


def _wait_all(futures: list[Future[None]]) -> None:
    for future in futures:
        future.result()


def _convert_error(error: Exception) -> Exception:
    """Return the error for a view outside the current bounds."""
    if not isinstance(error, SelectionError):
        return error
    result = ArgumentError(f"cannot read or write: {error}", kind="out_of_bounds")
    result.__cause__ = error
    return result
