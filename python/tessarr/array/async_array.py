"""Arrays with methods to ``await``, named as in zarr-python 3.

Reads and writes block no thread: the engine completes a future. Only small reads of local files and
memory run at once, in the calling thread. Methods with a sequence of requests run in a thread of
the event loop's executor.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tessarr.format.registry import set_public_module

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from tessarr.array.numpy_protocol import NumPyProtocol
    from tessarr.types import ArrayLike, FieldsLike, SelectionLike, Shape

__all__ = ["AsyncArray", "AsyncIndexer"]


class AsyncIndexer:
    """An indexer with a method to ``await``: ``await a.oindex.getitem(key)``.

    Parameters
    ----------
    read
        The method that reads the selection of a key.
    """

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[Any], Any]) -> None:
        self._read = read

    async def getitem(self, selection: SelectionLike) -> Any:
        """Read the selection of a key."""
        return await asyncio.to_thread(self._read, selection)


class AsyncArray:
    """An array with asynchronous methods.

    Properties from metadata, such as `shape`, are the same as those of `Array`.

    Parameters
    ----------
    array
        The array.

    Examples
    --------
    >>> import asyncio, tessarr
    >>> a = tessarr.zeros(4, dtype="i4").async_array
    >>> async def work():
    ...     await a.setitem(slice(2), 5)
    ...     return await a.getitem(...)
    >>> asyncio.run(work())
    array([5, 5, 0, 0], dtype=int32)
    """

    __slots__ = ("_array",)

    def __init__(self, array: NumPyProtocol) -> None:
        self._array: Any = array

    def __getattr__(self, name: str) -> Any:
        if name in _PROPERTIES:
            return getattr(self._array, name)
        raise AttributeError(f"an AsyncArray has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *_PROPERTIES})

    def __repr__(self) -> str:
        return f"Async{self._array!r}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AsyncArray) and bool(self._array == other._array)

    def __hash__(self) -> int:
        return hash(self._array)

    async def getitem(self, selection: SelectionLike) -> Any:
        """Read the selection of a key."""
        return await self._array.read(selection)

    async def setitem(self, selection: SelectionLike, value: ArrayLike) -> None:
        """Write to the selection of a key."""
        await self._array.write(selection, value)

    @property
    def oindex(self) -> AsyncIndexer:
        """Outer indexing."""
        return AsyncIndexer(self._array.oindex.__getitem__)

    @property
    def vindex(self) -> AsyncIndexer:
        """Indexing by points."""
        return AsyncIndexer(self._array.vindex.__getitem__)

    def get_basic_selection(
        self, selection: SelectionLike = ..., *, out: Any = None, fields: FieldsLike | None = None
    ) -> Awaitable[Any]:
        """Read as `Array.get_basic_selection` does."""
        return asyncio.to_thread(self._array.get_basic_selection, selection, out=out, fields=fields)

    def get_orthogonal_selection(
        self, selection: SelectionLike, *, out: Any = None, fields: FieldsLike | None = None
    ) -> Awaitable[Any]:
        """Read as `Array.get_orthogonal_selection` does."""
        return asyncio.to_thread(
            self._array.get_orthogonal_selection, selection, out=out, fields=fields
        )

    def get_coordinate_selection(
        self, selection: SelectionLike, *, out: Any = None, fields: FieldsLike | None = None
    ) -> Awaitable[Any]:
        """Read as `Array.get_coordinate_selection` does."""
        return asyncio.to_thread(
            self._array.get_coordinate_selection, selection, out=out, fields=fields
        )

    def get_mask_selection(
        self, mask: ArrayLike, *, out: Any = None, fields: FieldsLike | None = None
    ) -> Awaitable[Any]:
        """Read as `Array.get_mask_selection` does."""
        return asyncio.to_thread(self._array.get_mask_selection, mask, out=out, fields=fields)

    def get_block_selection(
        self, selection: SelectionLike, *, out: Any = None, fields: FieldsLike | None = None
    ) -> Awaitable[Any]:
        """Read as `Array.get_block_selection` does."""
        return asyncio.to_thread(self._array.get_block_selection, selection, out=out, fields=fields)

    async def resize(self, new_shape: Any, **settings: Any) -> None:
        """Change the shape, as `Array.resize` does."""
        await asyncio.to_thread(self._array.resize, new_shape, **settings)

    async def append(self, data: ArrayLike, axis: int = 0) -> Shape:
        """Add data at the end of an axis, as `Array.append` does."""
        shape: Shape = await asyncio.to_thread(self._array.append, data, axis)
        return shape

    async def update_attributes(self, new_attributes: Mapping[str, Any]) -> AsyncArray:
        """Set attributes and return the array."""
        await asyncio.to_thread(self._array.update_attributes, new_attributes)
        return self

    async def nchunks_initialized(self) -> int:
        """Return the number of stored chunks."""
        count: int = await asyncio.to_thread(lambda: self._array.nchunks_initialized)
        return count

    async def nbytes_stored(self) -> int:
        """Return the number of stored bytes, including metadata."""
        size: int = await asyncio.to_thread(lambda: self._array.nbytes_stored)
        return size

    async def info_complete(self) -> Any:
        """Return `Array.info`."""
        return await asyncio.to_thread(lambda: self._array.info)


_PROPERTIES = frozenset(
    {
        *("attrs", "basename", "cdata_shape", "chunks", "codecs", "compressor", "compressors"),
        *("config", "dimension_names", "dtype", "fill_value", "filters", "itemsize", "metadata"),
        *("name", "nbytes", "nchunks", "ndim", "order", "path", "read_chunk_sizes", "read_only"),
        *("serializer", "shape", "shards", "size", "store", "write_chunk_sizes", "zarr_format"),
    }
)
"""The properties, which need no ``await``."""


set_public_module("tessarr", AsyncArray)
# `tessarr` imports the class lazily: this lets doctest find the examples.
__test__ = {"AsyncArray": AsyncArray}
