"""`ElementAccess`: read and write the elements of a Zarr array."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

import numpy as np

from tessarr.errors import ArgumentError, SelectionError
from tessarr.index_space import lower
from tessarr.store import LocalStore, MemoryStore
from tessarr.tensorstore.batch.read_group import start_read
from tessarr.tensorstore.drivers.zarr.statistics import find_statistics
from tessarr.tensorstore.future.combine import convert_result
from tessarr.tensorstore.future.future import NOTHING, Future, failed, finished
from tessarr.tensorstore.future.spawn import spawn
from tessarr.tensorstore.future.write_futures import WriteFutures
from tessarr.tensorstore.kvstore.local import is_fast_to_write

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from tessarr.array import Array
    from tessarr.index_space import IndexTransform
    from tessarr.store import Store
    from tessarr.tensorstore.batch.read_group import ReadGroup
    from tessarr.tensorstore.drivers.zarr.array_properties import ArrayProperties
    from tessarr.tensorstore.drivers.zarr.inner_dimensions import InnerDimensions, InnerWrite
    from tessarr.types import Shape

__all__ = ["ElementAccess"]

_FEW_CHUNKS: Final = 4


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
        "_as_stored",
        "_base_store",
        "_byte_order",
        "_fields",
        "_inner",
        "_is_local",
        "_last_read",
        "_numpy",
        "_parts",
        "_previous_read",
        "_small_chunk_shape",
        "_stored",
        "_valid_bits",
        "in_memory",
        "plain",
    )

    def __init__(self, properties: ArrayProperties, store: Store) -> None:
        self._numpy, self._stored = properties.numpy, properties.stored
        self._fields, self._inner = properties.fields, properties.inner
        self._as_stored, self._parts = properties.as_stored, properties.parts
        self._valid_bits, self._byte_order = properties.bits, properties.places
        self.plain = properties.plain
        """Whether the engine reads the elements without conversion."""
        self._base_store = store
        self.in_memory = isinstance(store, MemoryStore)
        """Whether requests need no I/O."""
        self._is_local = self.in_memory or isinstance(store, LocalStore)
        self._small_chunk_shape: Shape = properties.small_chunk_shape
        # The futures of the last two reads. If the caller holds both, it starts many reads before
        # it waits, and threads read. If it waits for each read, this thread reads.
        self._previous_read: Callable[[], Future[Any] | None] = _no_future
        self._last_read: Callable[[], Future[Any] | None] = _no_future

    @property
    def prefers_inline(self) -> bool:
        """Whether a small change is faster than a hand-off to another thread."""
        return is_fast_to_write(self._base_store)

    def outer(self, view: IndexTransform) -> IndexTransform:
        """Return the view of the array, without the dimensions inside its elements."""
        return view if self._inner is None else self._inner.split(view).outer

    def storage_statistics(
        self, array: Array, view: IndexTransform, *, not_stored: bool, fully_stored: bool
    ) -> tuple[bool | None, bool | None]:
        """Return whether no chunk of a view is stored, and whether all are."""
        try:
            return find_statistics(
                array, self.outer(view), not_stored=not_stored, fully_stored=fully_stored
            )
        except SelectionError as error:
            raise _convert_error(error) from error

    def _is_small(self, view: IndexTransform) -> bool:
        """Return whether a view touches so few chunks that a hand-off takes longer."""
        return bool(self._small_chunk_shape) and view._view.touches_at_most(
            self._small_chunk_shape, _FEW_CHUNKS
        )

    # Reading

    def read(
        self,
        array: Array,
        view: IndexTransform,
        out: npt.NDArray[Any] | None,
        read_group: ReadGroup | None = None,
    ) -> Future[npt.NDArray[Any]]:
        """Start to read a view of an array, into `out` if it is not None."""
        try:
            if self._inner is not None:
                return self._read_inner(array, self._inner, view, out, read_group)
            if self._as_stored:
                return self._read_elements(array, view, out, read_group)
            future = convert_result(
                self._read_elements(array, view, None, read_group), self._to_native
            )
        except Exception as error:  # noqa: BLE001 (the future reports it)
            return failed(_convert_error(error))
        return future if out is None else _fill_out(future, out)

    def _read_elements(
        self,
        array: Array,
        view: IndexTransform,
        out: npt.NDArray[Any] | None,
        read_group: ReadGroup | None,
    ) -> Future[Any]:
        """Start to read elements in their stored form."""
        read = array._prepare_view_read(view._view, self._stored, out, self._parts)
        if read.is_empty:
            return finished(read.run())
        is_single = read_group is None or (self.in_memory and not read_group.waits)
        swift = is_single and self._is_small(view)
        if read_group is not None and not swift:
            return read_group.read(read, array, self._base_store)
        if swift and (self.in_memory or (self._is_local and self._previous_read() is None)):
            future = finished(read.run())
        else:
            future = start_read(read, soon=swift)
        if not self.in_memory:
            self._previous_read, self._last_read = self._last_read, ref(future)
        return future

    def _to_native(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return values.astype(self._numpy)

    def _read_inner(
        self,
        array: Array,
        inner: InnerDimensions,
        view: IndexTransform,
        out: npt.NDArray[Any] | None,
        read_group: ReadGroup | None,
    ) -> Future[npt.NDArray[Any]]:
        split = inner.split(view)
        future = convert_result(
            self._read_elements(array, split.outer, None, read_group),
            lambda values: inner.select(split, self._split_elements(values, inner)),
        )
        return future if out is None else _fill_out(future, out)

    def _split_elements(self, values: Any, inner: InnerDimensions) -> npt.NDArray[Any]:
        """Return whole elements with their inner dimensions."""
        elements = np.asarray(values)
        shape = elements.shape
        if self._fields is not None and self._fields.inner is not None:
            elements = elements[self._fields.inner]
        if elements.ndim < len(shape) + len(inner.shape):  # bytes are the last of them
            elements = np.ascontiguousarray(elements).reshape(-1).view(self._numpy)
            elements = elements.reshape(*shape, *inner.shape)
            return elements if self._byte_order is None else elements[..., self._byte_order]
        return elements.astype(self._numpy, copy=False)

    # Writing

    def write(self, array: Array, view: IndexTransform, values: npt.NDArray[Any]) -> WriteFutures:
        """Start to write to a view of an array."""
        try:
            if self._inner is not None:
                return self._write_inner(array, self._inner, view, values)
            stored = values.astype(self._stored, copy=False)
            future = self._store(array, view, stored, self._parts)
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
        if self._is_local and self._is_small(view):
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
        if self._byte_order is not None:
            turned = self._byte_order
            pieces = [write._replace(places=turned[write.places].tolist()) for write in pieces]
        if self._valid_bits is not None:
            _check_valid_bits(pieces, self._valid_bits)
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
        base, stored = 0, self._stored
        if self._fields is not None:
            base = self._fields.parts[0][0]
            if self._fields.inner is not None:
                stored = stored[self._fields.inner].base
        # A stored number can have another byte order; bytes have none.
        number = self._numpy.kind != "V" and stored.itemsize == self._numpy.itemsize
        return base, stored if number else self._numpy


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


def _fill_out(source: Future[Any], out: npt.NDArray[Any]) -> Future[Any]:
    """Return the future of `out`, filled with the read elements."""

    def fill(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        out[...] = values
        return out

    return convert_result(source, fill)


def _no_future() -> None:
    """Return None in the position of a weak reference to a future."""
