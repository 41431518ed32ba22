"""Conversion of errors of fsspec and its client libraries to `StoreError`."""

from __future__ import annotations

import errno
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, cast

from tessarr.errors import StoreError, TessarrError, UnsupportedError
from tessarr.store.transient import get_status, is_transient, iterate_causes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

P = ParamSpec("P")
T = TypeVar("T")

__all__ = ["build_store_error", "describe_error", "find_hidden_failure", "raises_store_errors"]

_DENIED_STATUSES: Final = frozenset({401, 403, 407})
_UNCHANGED_ERRORS: Final = (
    TessarrError,
    MemoryError,
    Warning,
    # Programming errors, such as an option of the wrong type.
    TypeError,
    AttributeError,
    NameError,
)
"""Classes of errors that reach the user unchanged."""


def build_store_error(
    error: Exception, action: str, location: str, *, key: str | None = None, reason: str = ""
) -> Exception:
    """Return the error to raise after a failure of a file system.

    Parameters
    ----------
    error : Exception
        The error of the file system.
    action : str
        The verb of the operation: "read".
    location : str
        The URL or the path that the operation concerns.
    key : str, optional
        The key in the store that the operation concerns.
    reason : str, optional
        The cause and the remedy; by default the text of `error`.

    Returns
    -------
    Exception
        A `StoreError` with `error` as its cause, or an `UnsupportedError` if the file system does
        not implement the operation. The function returns errors of Tessarr, memory errors,
        warnings, and Python's classes for programming errors unchanged.

    Examples
    --------
    >>> error = build_store_error(ConnectionRefusedError(111, "refused"), "read", "http://host/a")
    >>> str(error), error.errno, error.retryable
    ('cannot read http://host/a: [Errno 111] refused', 111, True)
    """
    if isinstance(error, _UNCHANGED_ERRORS):
        return error
    message = f"cannot {action} {location}: {reason or describe_error(error)}"
    if isinstance(error, NotImplementedError):
        raised: Exception = UnsupportedError(message)
    else:
        number = errno.EACCES if _is_denied(error) else _get_errno(error)
        raised = StoreError(message, retryable=is_transient(error), errno=number, key=key)
    raised.__cause__ = error
    return raised


def raises_store_errors(
    action: str, *unchanged: type[Exception]
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a method to convert its errors to `StoreError`, except some classes.

    The object has a method ``_error(action, error, *arguments)``, which returns the error to raise.
    """

    def decorate(method: Callable[P, T]) -> Callable[P, T]:
        @wraps(method)
        def call(self: Any, *arguments: Any) -> T:
            try:
                return cast("Callable[..., T]", method)(self, *arguments)
            except unchanged:
                raise
            except Exception as error:
                raised: Exception = self._error(action, error, *arguments)
                if raised is error:
                    raise
                raise raised from error

        return cast("Callable[P, T]", call)

    return decorate


def find_hidden_failure(
    error: BaseException, absent: Collection[int] = (404,)
) -> BaseException | None:
    """Return the failure behind an error that reports an absent file, or None.

    The web file system of fsspec raises `FileNotFoundError` for an unreachable server.

    Parameters
    ----------
    error : BaseException
        The error of the file system.
    absent : collection of int, default (404,)
        The statuses that mean an absent file.
    """
    if isinstance(error, FileNotFoundError):
        for cause in iterate_causes(error.__cause__):
            if is_transient(cause) or get_status(cause) not in {0, *absent}:
                return cause
    return None


def describe_error(error: Exception) -> str:
    """Return the text of an error, or a description of an error without a text.

    Examples
    --------
    >>> describe_error(TimeoutError()), describe_error(OSError("disk is full"))
    ('the server did not answer in time', 'disk is full')
    """
    if text := str(error):
        return text
    if isinstance(error, TimeoutError):
        return "the server did not answer in time"
    if isinstance(error, NotImplementedError):
        return "the file system does not support it"
    return type(error).__name__


def _get_errno(error: Exception) -> int | None:
    """Return the system's error number, except those of name resolution."""
    for cause in iterate_causes(error):
        number = getattr(cause, "errno", None)
        if isinstance(cause, OSError) and isinstance(number, int) and number > 0:
            return number
    is_late = any(isinstance(cause, TimeoutError) for cause in iterate_causes(error))
    return errno.ETIMEDOUT if is_late else None


def _is_denied(error: Exception) -> bool:
    if isinstance(error, PermissionError) or str(error).startswith("Forbidden"):  # in gcsfs
        return True
    return any(get_status(cause) in _DENIED_STATUSES for cause in iterate_causes(error))
