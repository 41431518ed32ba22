"""The keys that requests name.

Each segment of a path is decoded by itself, so that no spelling leads out of the root: a decoded
segment that is empty, "." or "..", or that contains a slash, a backslash or NUL, is refused. Stores
check keys once more.
"""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from tessarr.errors import ArgumentError

__all__ = ["parse_key"]

_FORBIDDEN = frozenset("/\\\0")


def parse_key(path: bytes, skip: int) -> str:
    """Return the key, or the prefix ("" or ending in "/"), that the path of a request names.

    Parameters
    ----------
    path
        The percent-encoded path.
    skip
        The number of segments before the key.

    Raises
    ------
    ArgumentError
        If the path is no key.

    Examples
    --------
    >>> parse_key(b"/token/a/c/0/0", 1), parse_key(b"/token/my%20data/", 1), parse_key(b"/", 0)
    ('a/c/0/0', 'my data/', '')
    >>> parse_key(b"/token/%2e%2e/secret", 1)
    Traceback (most recent call last):
    tessarr.errors.ArgumentError: the path has a segment '..'
    """
    segments = [_decode_segment(segment) for segment in path.split(b"/")[1 + skip :]]
    for number, segment in enumerate(segments, 1):
        is_end = number == len(segments)
        if segment in {".", ".."} or (not segment and not is_end):
            raise ArgumentError(f"the path has a segment {segment!r}")
    return "/".join(segments)


def _decode_segment(segment: bytes) -> str:
    try:
        text = unquote_to_bytes(segment).decode()
    except UnicodeDecodeError as error:
        raise ArgumentError("the path is not UTF-8") from error
    if not _FORBIDDEN.isdisjoint(text):
        raise ArgumentError("a segment of the path contains a slash, a backslash or NUL")
    return text
