"""Suggestions for misspelt names in messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["did_you_mean"]


def did_you_mean(word: object, names: Iterable[str]) -> str:
    """Return the end of a message that suggests the name like a misspelt one, or "".

    Examples
    --------
    >>> did_you_mean("zstdd", ["zlib", "zstd"]), did_you_mean("unheard-of", ["zstd"])
    ("; did you mean 'zstd'?", '')
    """
    from difflib import get_close_matches

    if not isinstance(word, str):
        return ""
    known = {name.lower(): name for name in names}
    found = get_close_matches(word.lower()[:60], known, 1)
    return f"; did you mean {known[found[0]]!r}?" if found else ""
