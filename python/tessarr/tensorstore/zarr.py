"""The drivers ``zarr3`` and ``zarr2``: arrays of Tessarr."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr.errors import ArgumentError, SelectionError
from tessarr.space import Dim, IndexDomain, lower
from tessarr.tensorstore.data_type import of_stored
from tessarr.tensorstore.driver import Driver
from tessarr.tensorstore.future import Promise, WriteFutures, converted, failed

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.array import Array
    from tessarr.indexing import Selection
    from tessarr.metadata.node import ArrayMeta
    from tessarr.space import IndexTransform
    from tessarr.tensorstore.data_type import dtype as DataType  # noqa: N812
    from tessarr.tensorstore.driver import Using
    from tessarr.tensorstore.future import Future
    from tessarr.types import Shape

__all__ = ["ZarrDriver", "domain_of"]


def domain_of(meta: ArrayMeta) -> IndexDomain:
    """Return the domain of an array: it begins at 0, and the upper bounds may be resized."""
    labels = [name or "" for name in meta.dimension_names or ("",) * meta.rank]
    return IndexDomain.of(
        tuple(
            Dim.of(0, size, label, (False, True))
            for size, label in zip(meta.shape, labels, strict=True)
        )
    )


class ZarrDriver(Driver):
    """An array.

    Parameters
    ----------
    array
        The array.
    """

    __slots__ = ("_array", "_dtype", "_numpy")

    def __init__(self, array: Array) -> None:
        self._array = array
        self._dtype = of_stored(array.metadata.data_type)
        self._numpy = self._dtype.dtype

    @property
    def array(self) -> Array:
        """The array."""
        return self._array

    @property
    def name(self) -> str:  # type: ignore[override]
        """What specs call it."""
        return "zarr3" if self._array.metadata.zarr_format == 3 else "zarr"

    @property
    def dtype(self) -> DataType:
        """The data type of the elements."""
        return self._dtype

    @property
    def domain(self) -> IndexDomain:
        """Where there are elements."""
        return domain_of(self._array.metadata)

    def storages(self) -> frozenset[Any]:
        """Tell where elements are."""
        return frozenset([(self._array._store, self._array._path)])

    @property
    def write_chunk(self) -> Shape:
        """How long chunks are, or shards."""
        return tuple(cut.longest for cut in self._array.metadata.chunk_grid.cuts)

    def read(
        self, view: IndexTransform, out: npt.NDArray[Any] | None, using: Using
    ) -> Future[npt.NDArray[Any]]:
        """Start to read."""
        array = self._array
        try:
            chosen = lower(view, array.shape)
        except SelectionError as error:
            return failed(outside(error))
        if out is None:
            buffer = np.empty(chosen.buffer_shape, array.dtype)
            out = chosen.result(buffer)
        else:
            found = _within(out, chosen) if array.dtype == self._numpy else None
            if found is None:
                return _filled(self.read(view, None, using), out)
            buffer = found
        promise, future = Promise.new()
        if chosen.size:
            array._read_future(chosen.axes, chosen.out_axes, buffer, promise, out, None)
        else:
            promise.set_result(out)
        if chosen.size > buffer.size:  # something repeats: `out` was made before it was filled
            future = converted(future, lambda _: chosen.result(buffer))
        if array.dtype == self._numpy:
            return future
        return converted(future, lambda values: values.astype(self._numpy))

    def write(self, view: IndexTransform, values: npt.NDArray[Any], using: Using) -> WriteFutures:
        """Start to write."""
        array = self._array
        try:
            chosen = lower(view, array.shape)
        except SelectionError as error:
            future: Future[None] = failed(outside(error))
            return WriteFutures._of(future, future)
        promise, future = Promise.new()
        if chosen.size:
            ready = chosen.buffer(values.astype(array.dtype, copy=False))
            array._write_future(chosen.axes, chosen.out_axes, ready, promise, None)
        else:
            promise.set_result(None)
        return WriteFutures._of(future, future)


def outside(error: SelectionError) -> ArgumentError:
    """Return the error for a view that is outside of what is there when it is read."""
    found = ArgumentError(f"cannot read or write: {error}", kind="out_of_bounds")
    found.__cause__ = error
    return found


def _within(out: npt.NDArray[Any], chosen: Selection) -> npt.NDArray[Any] | None:
    """Return what the engine fills in order to fill `out`, if it can."""
    buffer = chosen.buffer(out)
    same = buffer.size == out.size and (not out.size or np.may_share_memory(buffer, out))
    return buffer if same else None


def _filled(source: Future[Any], out: npt.NDArray[Any]) -> Future[Any]:
    """Return the future of `out`, filled with what is read."""

    def fill(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        out[...] = values
        return out

    return converted(source, fill)
