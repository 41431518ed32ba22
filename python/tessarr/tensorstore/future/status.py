"""Status codes in the text of errors, as TensorStore writes them.

TensorStore raises each error as a `ValueError` with the code in its text; programs read it there.
"""

from __future__ import annotations

import errno
from typing import Any, Final, TypeVar

from tessarr.errors import DataError, MetadataError, StoreError, TessarrError, UnsupportedError

__all__ = ["add_status_code"]

_CODES_BY_KIND: Final = {
    "not_found": "NOT_FOUND",
    "array_not_found": "NOT_FOUND",
    "exists": "ALREADY_EXISTS",
    "node_exists": "ALREADY_EXISTS",
    "out_of_bounds": "OUT_OF_RANGE",
    "conflict": "ABORTED",
    "mismatch": "FAILED_PRECONDITION",
    "node_not_found": "FAILED_PRECONDITION",  # no metadata of any format
}
_CODES: Final = frozenset((*_CODES_BY_KIND.values(), "DATA_LOSS", "PERMISSION_DENIED"))
_DENIED: Final = (errno.EACCES, errno.EPERM)
_STREAMS: Final = frozenset({"gzip", "zlib"})
"""Codecs whose checksum errors do not mean data loss."""

E = TypeVar("E", bound=TessarrError)


def add_status_code(error: BaseException) -> BaseException:
    """Return a copy of an error whose text starts with its status code, if it has one.

    The copy has the same class and the same fields; the original error does not change.
    """
    if isinstance(error, TessarrError):
        code = _code(error)
        if code is not None and error.message.partition(":")[0] not in _CODES:
            return _copy_error(error, f"{code}: {error.message}")
    return error


def _copy_error(error: E, message: str) -> E:
    """Return a copy of an error with another message."""
    original: Any = error
    try:
        # The constructor may have other parameters; only OSError itself makes its subclasses.
        base = OSError if isinstance(original, OSError) else type(error)
        new: E = base.__new__(type(error), message)
    except Exception:  # noqa: BLE001 (a user's class that cannot be copied)
        return error
    new.__dict__.update(error.__dict__)
    new.message, new.args = message, (message,)
    for name in ("errno", "filename"):  # members of OSError, which `__dict__` lacks
        value = getattr(error, name, None)
        if value is not None:
            setattr(new, name, value)
    if "__notes__" in new.__dict__:
        new.__notes__ = [*error.__notes__]
    new.__cause__, new.__context__ = error.__cause__, error.__context__
    new.__suppress_context__ = error.__suppress_context__
    return new.with_traceback(error.__traceback__)


def _code(error: TessarrError) -> str | None:
    """Return the status code of an error, or None if its class is sufficient."""
    if isinstance(error, StoreError) and error.errno in _DENIED:
        return "PERMISSION_DENIED"
    if isinstance(error, StoreError) and error.retryable:
        return "ABORTED"  # all retries failed
    if isinstance(error, (MetadataError, UnsupportedError)):
        # Stored metadata has a key; for an invalid argument, the class is sufficient.
        if error.key is None:
            return None
        return "DATA_LOSS" if _is_invalid_json(error) else "FAILED_PRECONDITION"
    result = _CODES_BY_KIND.get(error.kind)
    if isinstance(error, DataError):
        return "DATA_LOSS" if _is_data_loss(error) else "FAILED_PRECONDITION"
    if result is None and isinstance(error, StoreError):
        return "FAILED_PRECONDITION"
    return result


def _is_invalid_json(error: MetadataError | UnsupportedError) -> bool:
    """Return whether a metadata document of format 3 is invalid JSON."""
    problems = error.problems if isinstance(error, MetadataError) else ()
    ends = (error.key or "").endswith("zarr.json")
    return ends and any(one.kind == "invalid_json" for one in problems)


def _is_data_loss(error: DataError) -> bool:
    """Return whether an error means data loss: a wrong checksum, or a shard without an index."""
    if error.kind == "checksum_mismatch":
        return error.codec not in _STREAMS
    return error.kind == "wrong_size" and error.codec == "sharding_indexed"
