"""The codes by which TensorStore's texts tell errors apart.

All of its errors are a `ValueError` with a code in the text, so that is where programs look for it.
"""

from __future__ import annotations

import errno
from typing import Final

from tessarr.errors import DataError, MetadataError, StoreError, TessarrError, UnsupportedError

__all__ = ["coded"]

_OF_KINDS: Final = {
    "not_found": "NOT_FOUND",
    "array_not_found": "NOT_FOUND",
    "exists": "ALREADY_EXISTS",
    "node_exists": "ALREADY_EXISTS",
    "out_of_bounds": "OUT_OF_RANGE",
    "checksum_mismatch": "DATA_LOSS",
    "conflict": "ABORTED",
    "mismatch": "FAILED_PRECONDITION",
    "node_not_found": "FAILED_PRECONDITION",  # no format is found
}
_CODES: Final = frozenset((*_OF_KINDS.values(), "PERMISSION_DENIED"))
_DENIED: Final = (errno.EACCES, errno.EPERM)


def coded(error: BaseException) -> BaseException:
    """Return an error, whose text now begins with its code, if TensorStore has one for it."""
    if isinstance(error, TessarrError):
        code = _code(error)
        if code is not None and error.message.partition(":")[0] not in _CODES:
            error.message = f"{code}: {error.message}"
            error.args = (error.message,)
    return error


def _code(error: TessarrError) -> str | None:
    """Return the code of an error; None: its class tells as much."""
    if isinstance(error, StoreError) and error.errno in _DENIED:
        return "PERMISSION_DENIED"
    if isinstance(error, StoreError) and error.retryable:
        return "ABORTED"  # it was tried again, and in vain
    if isinstance(error, (MetadataError, UnsupportedError)):
        # What was found in a store; of what was given, the class tells enough.
        return None if error.key is None else "FAILED_PRECONDITION"
    found = _OF_KINDS.get(error.kind)
    if found is None and isinstance(error, (DataError, StoreError)):
        return "FAILED_PRECONDITION"
    return found
