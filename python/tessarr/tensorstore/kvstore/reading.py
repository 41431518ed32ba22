"""Reading the value of a key: all of it or some bytes, and only if it is another one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tessarr.errors import ArgumentError, StoreError
from tessarr.tensorstore.kvstore.stamps import digest_of, generation_of, has, of_version
from tessarr.tensorstore.kvstore.values import MISSING, ReadResult

if TYPE_CHECKING:
    from tessarr.store import Store

__all__ = ["Span", "read", "span_of"]

_ATTEMPTS: Final = 100

Span: TypeAlias = "tuple[int, int | None]"
"""The first byte, from the end if negative, and the one behind the last; None: to the end."""


def span_of(chosen: Any) -> Span:
    """Return which bytes a slice means.

    Raises
    ------
    TypeError, ArgumentError
        If it is none, or has no meaning.
    """
    if not isinstance(chosen, slice) or chosen.step not in {None, 1}:
        raise TypeError(f"byte_range is a slice without a step, not {chosen!r}")
    first = 0 if chosen.start is None else int(chosen.start)
    last = None if chosen.stop is None else int(chosen.stop)
    if last is not None and (first < 0 or last < first):
        raise ArgumentError(f"Unsupported byte_range slice: {first}:{last}")
    return first, last


def read(store: Store, key: str, known: bytes | None, span: Span | None) -> ReadResult:
    """Return the value of a key.

    Parameters
    ----------
    store, key
        Where it is.
    known
        The generation of a value that need not be read.
    span
        Which bytes; None: all.
    """
    if span is None and not known:
        now = time.time()
        found = store.get_version(key)
        if found is None:
            return ReadResult._of("missing", b"", MISSING, now)
        data, version = found
        generation = digest_of(data) if version is None else of_version(version)
        return ReadResult._of("value", data, generation, now)
    for _ in range(_ATTEMPTS):
        try:
            return _read_some(store, key, known, span)
        except StoreError as error:
            if error.kind != "value_replaced":
                raise
    return _read_some(store, key, known, span)


def _read_some(store: Store, key: str, known: bytes | None, span: Span | None) -> ReadResult:
    now = time.time()
    value = store.open_value(key)
    if value is None:
        return ReadResult._of("missing", b"", MISSING, now)
    if known and has(value, known):
        return ReadResult._of("unspecified", b"", known, now)
    size = value.size
    begin, end = (0, size) if span is None else _within(span, size, key)
    return ReadResult._of("value", value.read(begin, end - begin), generation_of(value), now)


def _within(span: Span, size: int, key: str) -> tuple[int, int]:
    first, last = span
    begin = size + first if first < 0 else first
    end = size if last is None else last
    if not 0 <= begin <= end <= size:
        shown_last = "?" if last is None else last
        raise ArgumentError(
            f"OUT_OF_RANGE: Requested byte range [{first}, {shown_last}) is not valid for "
            f"value of size {size}",
            key=key,
        )
    return begin, end
