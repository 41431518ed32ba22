"""Chunks of functions that a transaction has written and not committed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr.tensorstore.ndarray_views import assign_elements

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from tessarr.index_space import View
    from tessarr.tensorstore.context.chunk_cache import ChunkCache
    from tessarr.tensorstore.future.future import Future

__all__ = ["StagedChunks"]


@dataclass(frozen=True, slots=True)
class _StagedChunk:
    """A chunk, and a mask of its written elements."""

    box: View
    values: npt.NDArray[Any]
    written: npt.NDArray[np.bool_]

    def copy_onto(self, chunk: npt.NDArray[Any]) -> None:
        """Copy the written elements into a chunk."""
        np.copyto(chunk, self.values, where=self.written)


class StagedChunks:
    """Partly written chunks of a transaction.

    Parameters
    ----------
    new : callable
        Creates an array for a chunk.
    store : callable
        Starts to store a chunk; takes its domain and its elements.
    change : callable
        Changes a chunk; takes its domain and a function of its elements.
    cache
        Caches reads.
    """

    def __init__(
        self,
        new: Callable[[View], npt.NDArray[Any]],
        store: Callable[[View, npt.NDArray[Any]], Future[bool]],
        change: Callable[[View, Callable[[npt.NDArray[Any]], None]], None],
        cache: ChunkCache,
    ) -> None:
        self.cache = cache
        self._new = new
        self._store = store
        self._change = change
        self._chunks: dict[tuple[int, ...], _StagedChunk] = {}
        self._lock = Lock()

    def put(self, box: View, inside: View, items: npt.NDArray[Any]) -> None:
        """Stage items at the positions of a view of a chunk."""
        with self._lock:
            entry = self._chunks.get(box.origin)
            if entry is None:
                entry = _StagedChunk(box, self._new(box), np.zeros(box.shape, bool))
                self._chunks[box.origin] = entry
            assign_elements(entry.values, inside, items)
            assign_elements(entry.written, inside, np.broadcast_to(np.True_, inside.shape))

    def complete_chunk(self, origin: tuple[int, ...]) -> npt.NDArray[Any] | None:
        """Return a completely written chunk, or None."""
        with self._lock:
            entry = self._chunks.get(origin)
            return entry.values.copy() if entry is not None and entry.written.all() else None

    def merge_onto(self, origin: tuple[int, ...], chunk: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a chunk with the written elements."""
        with self._lock:
            entry = self._chunks.get(origin)
            if entry is None:
                return chunk
            merged = chunk.copy()
            entry.copy_onto(merged)
            return merged

    # Commit

    def count_targets(self) -> int:
        """Return the number of chunks."""
        return len(self._chunks)

    def commit(self) -> None:
        """Store all chunks; partly written ones are merged with the current chunks."""
        for entry in self._chunks.values():
            if entry.written.all():
                self._store(entry.box, entry.values).result()
            else:
                self._change(entry.box, partial(_StagedChunk.copy_onto, entry))
