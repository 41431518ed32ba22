"""Promises: the writing end of a future."""

from __future__ import annotations

from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError
from tessarr.format.registry import set_public_module
from tessarr.tensorstore.future.future import DONE, FAILED, PENDING, Future, T

__all__ = ["Promise"]


class Promise(Generic[T]):
    """The writing end of a future; it sets the result or the error once.

    If Python deletes the promise before that, the future ends with an error.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> promise, future = ts.Promise.new()
    >>> future.done()
    False
    >>> promise.set_result(5)
    >>> future.result()
    5
    """

    __slots__ = ("__weakref__", "_future")

    if not TYPE_CHECKING:
        __class_getitem__ = classmethod(GenericAlias)

    _future: Future[T]

    def __init__(self) -> None:
        raise TypeError("a promise is made together with its future, by Promise.new()")

    @staticmethod
    def new() -> tuple[Promise[Any], Future[Any]]:
        """Return a promise and its future.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> promise, future = ts.Promise.new()
        >>> future
        <Future pending>
        """
        future: Future[Any] = Future._pending()
        promise: Promise[Any] = object.__new__(Promise)
        promise._future = future
        return promise, future

    def set_result(self, result: T) -> None:
        """Set the result; without effect if the future is done.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> promise, future = ts.Promise.new()
        >>> promise.set_result(1)
        >>> promise.set_result(2)
        >>> future.result()
        1
        """
        self._future._finish(DONE, result)

    def set_exception(self, exception: Any) -> None:
        """Set an error instead of a result; without effect if the future is done.

        Raises
        ------
        TypeError
            If `exception` is no exception.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> promise, future = ts.Promise.new()
        >>> promise.set_exception(ValueError("nothing came"))
        >>> future.exception()
        ValueError('nothing came')
        """
        if not isinstance(exception, BaseException):
            raise TypeError(f"an error has to be an exception, not {safe_repr(exception)}")
        self._future._finish(FAILED, exception)

    def __del__(self) -> None:
        future = getattr(self, "_future", None)
        if future is not None and future._state == PENDING:
            future._finish(FAILED, ArgumentError("nobody can say what the result is any more"))


set_public_module("tessarr.tensorstore", Promise)
