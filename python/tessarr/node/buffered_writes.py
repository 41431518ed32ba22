"""The context manager of `Array.buffered` and `tessarr.buffered`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from tessarr.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr._engine import BufferScope

__all__ = ["BufferedWrites"]

N = TypeVar("N")


class BufferedWrites(Generic[N]):
    """A block that collects writes to parts of chunks in memory: see `Array.buffered`.

    Parameters
    ----------
    node
        The result of the ``with`` statement.
    start
        Starts a block with a memory limit in bytes.
    max_bytes
        The memory limit.
    """

    __slots__ = ("_max_bytes", "_node", "_scopes", "_start")

    def __init__(self, node: N, start: Callable[[int], BufferScope], max_bytes: int) -> None:
        if type(max_bytes) is not int or max_bytes < 0:
            raise ArgumentError(f"max_bytes must be an integer of at least 0, not {max_bytes!r}")
        self._node = node
        self._start = start
        self._max_bytes = max_bytes
        self._scopes: list[BufferScope] = []

    def __enter__(self) -> N:
        self._scopes.append(self._start(self._max_bytes))
        return self._node

    def __exit__(self, *_: object) -> None:
        self._scopes.pop().end()

    @property
    def nbytes(self) -> int:
        """The number of bytes in memory."""
        return sum(scope.nbytes for scope in self._scopes)

    def flush(self) -> None:
        """Store all chunks in memory now, and continue.

        Raises
        ------
        StoreError
            If the store fails. Chunks that are not stored stay in memory.
        """
        for scope in self._scopes:
            scope.store()
