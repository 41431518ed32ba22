"""Which errors of stores may have passed when somebody asks again."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

from tessarr.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["BROKEN", "NOT_IMPLEMENTED", "causes", "is_undone", "judged", "may_pass", "status_of"]

NOT_IMPLEMENTED: Final = 501
"""The status with which a server says that it knows no such request."""

BROKEN: Final = frozenset({500, 502, 504})
"""With these a server, or who stands before it, says no more than that there is no answer."""

_BUSY: Final = frozenset({408, 429, 503})
"""With these it says that it has done nothing."""
_PASSING: Final = frozenset(
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
_CONNECTIONS: Final = frozenset(
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

_NEVER_SENT: Final = frozenset(
    {"ClientConnectorError", "ConnectTimeoutError", "EndpointConnectionError"}
)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Return an error, and what it was caused by."""
    while error is not None:
        yield error
        error = error.__cause__


def status_of(error: BaseException) -> int:
    """Return the status with which a server has answered; 0 where the error does not say."""
    answer = getattr(error, "response", None)  # of botocore
    if isinstance(answer, dict):
        return int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    name = "status" if hasattr(error, "status") else "code"  # which may warn that it is old
    status = getattr(error, name, None)
    return int(status) if isinstance(status, (int, str)) and str(status).isdigit() else 0


def may_pass(error: BaseException | None) -> bool:
    """Return whether an error of a store may be gone when it is asked again.

    Examples
    --------
    >>> may_pass(ConnectionResetError()), may_pass(FileNotFoundError())
    (True, False)
    """
    for cause in causes(error):
        if isinstance(cause, StoreError):
            return cause.retryable
        if isinstance(cause, (ConnectionError, TimeoutError)):
            return True
        if status_of(cause) in _BUSY | BROKEN:
            return True
        if isinstance(cause, OSError) and cause.errno in _PASSING:
            return True
        if _is_named(cause, _CONNECTIONS):
            return True
    return False


def is_undone(error: BaseException) -> bool | None:
    """Return whether an error says that nothing was changed, as servers do that are busy.

    False where there was no answer: then nobody knows. None where something else failed.

    Examples
    --------
    >>> is_undone(ConnectionResetError()), is_undone(OSError("no"))
    (False, None)
    """
    for cause in causes(error):
        if isinstance(cause, ConnectionRefusedError) or _is_named(cause, _NEVER_SENT):
            return None
        if isinstance(cause, (ConnectionError, TimeoutError)) or _is_named(cause, _CONNECTIONS):
            return False
        if status_of(cause) in _BUSY | BROKEN:
            return status_of(cause) in _BUSY
    return None


def judged(error: BaseException) -> tuple[BaseException, bool, bool | None]:
    """Return an error of a store, as it is told, `may_pass` and `is_undone`."""
    return error, may_pass(error), is_undone(error)


def _is_named(error: BaseException, names: frozenset[str]) -> bool:
    return any(kind.__name__ in names for kind in type(error).__mro__)
