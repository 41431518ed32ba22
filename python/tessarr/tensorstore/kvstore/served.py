"""Stores of servers, whose failures are errors of Tessarr, of whatever client library they are."""

from __future__ import annotations

import errno
from typing import Final

from tessarr.errors import StoreError
from tessarr.store.passing import causes, is_undone, may_pass, status_of
from tessarr.store.requests import RetryingStore

__all__ = ["ServedStore"]

_DENIED: Final = frozenset({401, 403})


class ServedStore(RetryingStore):
    """A store of a server; programs catch what fails there as a `ValueError`, as all else."""

    @staticmethod
    def _judge(error: BaseException) -> tuple[BaseException, bool, bool | None]:
        passes, undone = may_pass(error), is_undone(error)
        if not isinstance(error, Exception) or isinstance(error, (ValueError, NotImplementedError)):
            return error, passes, undone
        text = str(error) or type(error).__name__
        number = errno.EACCES if _is_denied(error) else getattr(error, "errno", None)
        told = StoreError(text, retryable=passes, errno=number)
        told.__cause__ = error
        return told, passes, undone


def _is_denied(error: Exception) -> bool:
    if isinstance(error, PermissionError) or str(error).startswith("Forbidden"):  # of gcsfs
        return True
    return any(status_of(cause) in _DENIED for cause in causes(error))
