"""Byte ranges and preconditions of requests for values (RFC 9110, sections 13 and 14)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Range", "Selection", "ValueRequest"]

Range: TypeAlias = tuple[int, int | None]
"""The first byte, counted from the end if negative, and the byte after the last one."""

_RANGE: Final = re.compile(
    r"bytes[ \t]*=[ \t]*(\d*)[ \t]*-[ \t]*(\d*)[ \t]*", re.IGNORECASE | re.ASCII
)
_UNIT: Final = re.compile(r"bytes[ \t]*=", re.IGNORECASE)
_TAG: Final = re.compile(r'(?:W/)?"[^"]*"')
_MAX_OFFSET: Final = 1 << 62
_NO_BYTES: Final = (0, 0)
"""A range that no value can satisfy."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What a response sends: the status, and the bytes from `start` to before `stop`."""

    status: int
    start: int = 0
    stop: int = 0


@dataclass(frozen=True, slots=True)
class ValueRequest:
    """The part of a value that a request asks for, and its preconditions.

    Parameters
    ----------
    range
        The range; None: the whole value.
    if_match, if_none_match, if_range
        The values of these headers.
    sends_body
        Whether the response has a body: not for HEAD.
    """

    range: Range | None = None
    if_match: str | None = None
    if_none_match: str | None = None
    if_range: str | None = None
    sends_body: bool = True

    @classmethod
    def parse(cls, method: str, headers: Mapping[str, str]) -> ValueRequest:
        """Return the request with a method and headers (names in lower case).

        HEAD ignores ranges, as RFC 9110 requires.
        """
        is_get = method == "GET"
        return cls(
            range=_parse_range(headers.get("range", "")) if is_get else None,
            if_match=headers.get("if-match"),
            if_none_match=headers.get("if-none-match"),
            if_range=headers.get("if-range"),
            sends_body=is_get,
        )

    def choose_first_range(self, max_bytes: int) -> Range:
        """Return the range that the first request to the store fetches, besides the size.

        It has at most `max_bytes` bytes. If a precondition may make the bytes unnecessary, it has
        one byte.
        """
        first, end = self.range or (0, None)
        if not self.sends_body or self.if_match or self.if_none_match or end == 0:
            return 0, 1
        if first < 0:
            return (first, None) if -first <= max_bytes else (0, 1)
        last = first + max_bytes
        return first, last if end is None else min(end, last)

    def select(self, size: int, tag: str | None) -> Selection:
        """Return what the response sends of a value of `size` bytes with an entity tag.

        Examples
        --------
        >>> ValueRequest.parse("GET", {"range": "bytes=-4"}).select(10, None)
        Selection(status=206, start=6, stop=10)
        >>> ValueRequest.parse("GET", {"if-none-match": '"a"'}).select(10, '"a"').status
        304
        """
        if self.if_match is not None and not _matches(self.if_match, tag):
            return Selection(412)
        if self.if_none_match is not None and _matches(self.if_none_match, tag, is_weak=True):
            return Selection(304)
        if self.range is None or (self.if_range is not None and self.if_range != tag):
            return Selection(200, 0, size)
        first, end = self.range
        start = max(size + first, 0) if first < 0 else first
        stop = size if end is None else min(end, size)
        return Selection(206, start, stop) if start < stop else Selection(416)


def _parse_range(header: str) -> Range | None:
    """Return the range of a header; None: the response sends the whole value.

    A server may ignore several ranges and must ignore unknown units. Malformed ranges match no
    value.
    """
    if _UNIT.match(header) is None or "," in header:
        return None
    match = _RANGE.fullmatch(header)
    if match is None:
        return _NO_BYTES
    first, last = match.groups()
    if first:
        return _to_offset(first), _to_offset(last) + 1 if last else None
    return (-_to_offset(last), None) if _to_offset(last) else _NO_BYTES


def _to_offset(digits: str) -> int:
    """Return the number, or another that also exceeds the size of every value."""
    return min(int(digits.lstrip("0")[:19] or 0), _MAX_OFFSET)


def _matches(header: str, tag: str | None, *, is_weak: bool = False) -> bool:
    """Return whether a list of entity tags contains a strong tag."""
    if header.strip() == "*":
        return True
    tags = _TAG.findall(header)
    return tag is not None and (tag in tags or (is_weak and f"W/{tag}" in tags))
