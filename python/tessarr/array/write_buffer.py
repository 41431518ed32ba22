"""Arrays whose writes stay in a write buffer until it is flushed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tessarr._engine import WriteBuffer
from tessarr.array.array import bind_array

if TYPE_CHECKING:
    from tessarr.array.array import Array
    from tessarr.store import Store

__all__ = ["WriteBuffer", "buffer_writes"]


def buffer_writes(array: Array, store: Store, overlay: WriteBuffer) -> Array:
    """Return the array on another store, with a write buffer.

    Parameters
    ----------
    array
        The array.
    store
        The store to read from, and to which ``_store_write_buffer`` writes the buffer.
    overlay
        The write buffer. Arrays with the same chunks may share one.

    Examples
    --------
    >>> import tessarr
    >>> array = tessarr.create_array({}, shape=(4,), chunks=(2,), dtype="u1")
    >>> kept = buffer_writes(array, array._store, WriteBuffer())
    >>> kept[1:3] = 5
    >>> kept[...].tolist(), array[...].tolist()
    ([0, 5, 5, 0], [0, 0, 0, 0])
    >>> kept._store_write_buffer()
    >>> array[...].tolist()
    [0, 5, 5, 0]
    """
    buffered = bind_array(
        array._meta,
        store,
        array._path,
        read_only=False,
        write_empty_chunks=array._write_empty_chunks,
        missing=array._missing,
        chunk_cache_bytes=array._chunk_cache_bytes,
    )
    buffered._set_write_buffer(overlay)
    return buffered
