"""Which errors of stores may have passed when somebody asks again."""

from __future__ import annotations

import errno
from typing import Final

from tessarr.errors import StoreError

__all__ = ["may_pass", "status_of"]

_BUSY: Final = frozenset({408, 429, 500, 502, 503, 504})
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
        "FSTimeoutError",  # fsspec
        "ProxyError",  # requests
        "ChunkedEncodingError",
    }
)


def status_of(error: BaseException) -> int:
    """Return the status with which a server has answered; 0 where the error does not say."""
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
    while error is not None:
        if isinstance(error, StoreError):
            return error.retryable
        if isinstance(error, (ConnectionError, TimeoutError)):
            return True
        if status_of(error) in _BUSY:
            return True
        if isinstance(error, OSError) and error.errno in _PASSING:
            return True
        if any(kind.__name__ in _CONNECTIONS for kind in type(error).__mro__):
            return True
        error = error.__cause__
    return False
