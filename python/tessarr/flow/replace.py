"""Replacement of one document by a function of its old value, in one atomic step.

Either a lock excludes other programs, or the write requires that the old document is unchanged; a
conflict causes a retry. So two programs that change different members of one document lose no
change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from tessarr.errors import StoreError
from tessarr.flow.run import Change, Flow, Get, KnownDocument, Replace

__all__ = ["replace_document"]

T = TypeVar("T")

_TRIES: Final = 1000


def replace_document(
    key: str,
    make: Callable[..., tuple[bytes | None, T]],
    more_requests: tuple[Get, ...] = (),
    seen: KnownDocument | None = None,
) -> Flow[T]:
    """Replace the value of a key by a function of its old value.

    Parameters
    ----------
    key
        The key.
    make
        Receives the current value (None if absent) and the responses to `more_requests`. Returns
        the new value and the result of this flow. A conflict causes another call.
    more_requests
        Requests that follow each read of the key.
    seen
        The last known content of the value; only without `more_requests`.

    Returns
    -------
    object
        The result that `make` returned.

    Raises
    ------
    StoreError
        If every attempt conflicts with another program.
    """
    if not more_requests:
        result: T = yield Change(key, make, seen)
        return result
    for _ in range(_TRIES):
        old = yield Get(key)
        other_values: tuple[Any, ...] = yield more_requests
        new, result = make(old, *other_values)
        if new == old or (yield Replace(key, new, old)):
            return result
    raise StoreError(
        f"cannot change {key!r}: other programs changed it {_TRIES} times meanwhile",
        retryable=True,
        key=key,
    )
