"""Replace one document by what is made of it, in one atomic step.

Nobody else changes the document meanwhile, or the new one is stored only if it is still
the one that was read; else it begins again. So two programs that change different
members of one document lose nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from tessarr.errors import StoreError
from tessarr.flow.run import Change, Flow, Get, Replace, Seen

__all__ = ["replace"]

T = TypeVar("T")

_TRIES: Final = 1000


def replace(
    key: str,
    make: Callable[..., tuple[bytes | None, T]],
    beside: tuple[Get, ...] = (),
    seen: Seen | None = None,
) -> Flow[T]:
    """Replace the value of a key by what `make` makes of it.

    Parameters
    ----------
    key
        The key.
    make
        Given the current value (None if absent) and the answers to `beside`; returns the
        new value and what this flow returns. It may be called again, if somebody else
        was faster.
    beside
        What else is asked for, each time after the key.
    seen
        What is known of the value, where nothing is asked for beside it.

    Returns
    -------
    object
        What `make` returned.

    Raises
    ------
    StoreError
        If somebody else is faster all the time.
    """
    if not beside:
        made: T = yield Change(key, make, seen)
        return made
    for _ in range(_TRIES):
        old = yield Get(key)
        others: tuple[Any, ...] = yield beside
        new, result = make(old, *others)
        if new == old or (yield Replace(key, new, old)):
            return result
    raise StoreError(
        f"cannot change {key!r}: somebody else changed it {_TRIES} times in the meantime",
        retryable=True,
        key=key,
    )
