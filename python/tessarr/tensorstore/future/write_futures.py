"""The futures of a write: one for the copy, one for the commit."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from tessarr.format.registry import set_public_module
from tessarr.tensorstore.future.future import Future

__all__ = ["WriteFutures"]


class WriteFutures:
    """The two futures of a write; the methods are those of `commit`.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> spec = {"driver": "zarr3", "kvstore": "memory://"}
    >>> store = ts.open(spec, create=True, dtype=ts.int32, shape=[4]).result()
    >>> writing = store.write(7)
    >>> writing.copy.result(), writing.result(), store[1].read().result()
    (None, None, array(7, dtype=int32))
    """

    __slots__ = ("__weakref__", "_commit", "_copy")

    _copy: Future[None]
    _commit: Future[None]

    def __init__(self) -> None:
        raise TypeError("write futures are made by writing")

    @staticmethod
    def _of(copy: Future[None], commit: Future[None]) -> WriteFutures:
        future: WriteFutures = object.__new__(WriteFutures)
        future._copy = copy
        future._commit = commit
        return future

    @property
    def copy(self) -> Future[None]:
        """Done when the write no longer needs the source values.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> import numpy as np
        >>> store, values = ts.array(np.zeros(3, int)), np.ones(3, int)
        >>> writing = store.write(values)
        >>> writing.copy.result()
        >>> values[:] = 7  # what is written stays as it was
        """
        return self._copy

    @property
    def commit(self) -> Future[None]:
        """Done when the values are stored, or staged in the transaction.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> store = ts.array([1, 2, 3])
        >>> store[1:].write(5).commit.result()
        >>> store.read().result()
        array([1, 5, 5])
        """
        return self._commit

    def result(self, timeout: float | None = None, deadline: float | None = None) -> None:
        """Wait until the write is done; see `Future.result`.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.array([1, 2, 3]).write(5).result(timeout=5)
        """
        return self._commit.result(timeout, deadline)

    def exception(
        self, timeout: float | None = None, deadline: float | None = None
    ) -> BaseException | None:
        """Wait until the write is done and return its error; see `Future.exception`.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.array([1, 2, 3]).write(5).exception() is None
        True
        """
        return self._commit.exception(timeout, deadline)

    def done(self) -> bool:
        """Return whether the write is done; see `Future.done`.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.array([1, 2, 3]).write(5).done()
        True
        """
        return self._commit.done()

    def cancel(self) -> bool:
        """Cancel the wait for the write; see `Future.cancel`.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.array([1, 2, 3]).write(5).cancel()  # it is done already
        False
        """
        return self._commit.cancel()

    def cancelled(self) -> bool:
        """Return whether the wait was cancelled; see `Future.cancelled`.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.array([1, 2, 3]).write(5).cancelled()
        False
        """
        return self._commit.cancelled()

    def add_done_callback(self, callback: Callable[[Future[None]], object]) -> None:
        """Call `callback` when the write is done; see `Future.add_done_callback`.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> writing = ts.array([1, 2, 3]).write(5)
        >>> writing.add_done_callback(lambda done: print(done.exception()))
        None
        """
        self._commit.add_done_callback(callback)

    def remove_done_callback(self, callback: Callable[[Future[None]], object]) -> int:
        """Remove `callback`; see `Future.remove_done_callback`.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> writing = ts.array([1, 2, 3]).write(5)
        >>> writing.remove_done_callback(print)
        0
        """
        return self._commit.remove_done_callback(callback)

    def __await__(self) -> Generator[Any, None, None]:
        return self._commit.__await__()


set_public_module("tessarr.tensorstore", WriteFutures)
