"""The context manager of `Array.buffered` and `tessarr.buffered`."""

from __future__ import annotations

import gc
from _thread import get_ident, start_new_thread
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

from tessarr.errors import ArgumentError
from tessarr.format.user_warnings import warn_user
from tessarr.store import at_exit

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr._engine import BufferScope

__all__ = ["BufferedWrites"]

N = TypeVar("N")

_collecting_threads: set[int] = set()  # those that collect garbage now


def _note_collection(phase: str, _: dict[str, int]) -> None:
    change = _collecting_threads.add if phase == "start" else _collecting_threads.discard
    change(get_ident())


gc.callbacks.append(_note_collection)


def _end(scope: BufferScope) -> None:
    """End a block, in another thread if this one collects garbage.

    A garbage collection may start while its thread holds a lock that the store needs.
    """
    if get_ident() in _collecting_threads:
        with suppress(RuntimeError):  # no new thread at the exit of the interpreter
            start_new_thread(scope.end, ())
            return
    scope.end()


class BufferedWrites(Generic[N]):
    """A block that collects writes to parts of chunks in memory: see `Array.buffered`.

    A block that is never left is stored when its object is deleted, which emits a
    `ResourceWarning`, or when the interpreter exits. If the garbage collector deletes the object,
    another thread stores the block.

    Parameters
    ----------
    node
        The result of the ``with`` statement.
    start
        Starts a block with a memory limit in bytes.
    max_bytes
        The memory limit.
    """

    __slots__ = ("_ended", "_max_bytes", "_node", "_opened", "_start")

    def __init__(self, node: N, start: Callable[[int], BufferScope], max_bytes: int) -> None:
        self._opened: list[BufferScope] = []
        self._ended: list[BufferScope] = []  # those with chunks that could not be stored
        if type(max_bytes) is not int or max_bytes < 0:
            raise ArgumentError(f"max_bytes must be an integer of at least 0, not {max_bytes!r}")
        self._node = node
        self._start = start
        self._max_bytes = max_bytes

    def __enter__(self) -> N:
        at_exit.prepare()
        self._opened.append(self._start(self._max_bytes))
        return self._node

    def __exit__(self, *_: object) -> None:
        scope = self._opened.pop()
        self._ended.append(scope)
        try:
            _end(scope)  # the garbage collector may close a generator
        finally:
            self._forget_stored()

    def __del__(self) -> None:
        # `_ended` has open blocks if the thread that ends them has not started yet.
        opened = [scope for scope in self._scopes if scope.is_open]
        try:
            if any(scope.is_open for scope in self._opened):
                warn_user(
                    f"a block of buffered writes of {self._node!r} was never left, and is stored "
                    "now: use a with statement",
                    ResourceWarning,
                )
        finally:  # the warning may be an error
            for scope in opened:
                _end(scope)

    @property
    def nbytes(self) -> int:
        """The number of bytes in memory."""
        return sum(scope.nbytes for scope in self._scopes)

    def flush(self) -> None:
        """Store all chunks in memory now, and continue.

        After the block, the method tries again to store the chunks that could not be stored.

        Raises
        ------
        StoreError
            If the store fails. Chunks that are not stored stay in memory. A note names other chunks
            that could not be stored.
        """
        try:
            for scope in self._scopes:
                scope.store()
        finally:
            self._forget_stored()

    def discard(self) -> None:
        """Discard all chunks in memory, such as those that could not be stored.

        Examples
        --------
        >>> import tessarr
        >>> a = tessarr.create_array(None, shape=4, chunks=2, dtype="i4")
        >>> with (block := a.buffered()):
        ...     a[0] = 1
        ...     block.discard()
        >>> a[0]
        np.int32(0)
        """
        try:
            for scope in self._scopes:
                scope.discard()
        finally:
            self._forget_stored()

    @property
    def _scopes(self) -> list[BufferScope]:
        return [*self._opened, *self._ended]

    def _forget_stored(self) -> None:
        for scope in self._ended.copy():
            if not (scope.is_open or scope.nbytes):
                with suppress(ValueError):  # another thread has removed it
                    self._ended.remove(scope)
