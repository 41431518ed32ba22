"""Classification of store errors: transient or final, applied or not."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

from tessarr.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "GATEWAY_STATUSES",
    "classify_error",
    "get_status",
    "is_transient",
    "is_unapplied",
    "iterate_causes",
]

GATEWAY_STATUSES: Final = frozenset({500, 502, 504})
"""Statuses that do not show whether the server applied the request."""

_BUSY_STATUSES: Final = frozenset({408, 429, 503})
"""Statuses of a busy server, which did not apply the request."""
_TRANSIENT_ERRNOS: Final = frozenset(
    getattr(errno, name)
    for name in (
        "EAGAIN",
        "EBUSY",
        "ECONNABORTED",
        "ECONNREFUSED",
        "ECONNRESET",
        "EHOSTUNREACH",
        "EINTR",
        "ENETUNREACH",
        "EPIPE",
        "EREMOTEIO",
        "ESTALE",
        "ETIMEDOUT",
    )
    if hasattr(errno, name)
)
_CONNECTION_ERRORS: Final = frozenset(
    {
        "ClientConnectionError",  # aiohttp
        "ClientPayloadError",
        "HTTPClientError",  # botocore
        "ConnectTimeoutError",
        "EndpointConnectionError",
        "FSTimeoutError",  # fsspec
        "ProxyError",  # requests
        "ChunkedEncodingError",
    }
)

_UNSENT_ERRORS: Final = frozenset(
    {"ClientConnectorError", "ConnectTimeoutError", "EndpointConnectionError"}
)


def iterate_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    while error is not None:
        yield error
        error = error.__cause__


def get_status(error: BaseException) -> int:
    """Return the HTTP status of an error; 0 if it has none."""
    answer = getattr(error, "response", None)  # of botocore
    if isinstance(answer, dict):
        return int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    name = "status" if hasattr(error, "status") else "code"  # some libraries deprecate `code`
    status = getattr(error, name, None)
    return int(status) if isinstance(status, (int, str)) and str(status).isdigit() else 0


def is_transient(error: BaseException | None) -> bool:
    """Return whether the same request can succeed after this error.

    Examples
    --------
    >>> is_transient(ConnectionResetError()), is_transient(FileNotFoundError())
    (True, False)
    """
    for cause in iterate_causes(error):
        if isinstance(cause, StoreError):
            return cause.retryable
        if isinstance(cause, (ConnectionError, TimeoutError)):
            return True
        if get_status(cause) in _BUSY_STATUSES | GATEWAY_STATUSES:
            return True
        if isinstance(cause, OSError) and cause.errno in _TRANSIENT_ERRNOS:
            return True
        if _has_class_name(cause, _CONNECTION_ERRORS):
            return True
    return False


def is_unapplied(error: BaseException) -> bool | None:
    """Return whether an error proves that the store applied no change.

    True for a busy server, False if the response was lost, None for other errors.

    Examples
    --------
    >>> is_unapplied(ConnectionResetError()), is_unapplied(OSError("no"))
    (False, None)
    """
    for cause in iterate_causes(error):
        if isinstance(cause, ConnectionRefusedError) or _has_class_name(cause, _UNSENT_ERRORS):
            return None
        if isinstance(cause, (ConnectionError, TimeoutError)) or _has_class_name(
            cause, _CONNECTION_ERRORS
        ):
            return False
        if get_status(cause) in _BUSY_STATUSES | GATEWAY_STATUSES:
            return get_status(cause) in _BUSY_STATUSES
    return None


def classify_error(error: BaseException) -> tuple[BaseException, bool, bool | None]:
    """Return an error of a store with the results of `is_transient` and `is_unapplied`."""
    return error, is_transient(error), is_unapplied(error)


def _has_class_name(error: BaseException, names: frozenset[str]) -> bool:
    return any(kind.__name__ in names for kind in type(error).__mro__)
