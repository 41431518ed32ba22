"""Suggestions for misspelt names in messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["did_you_mean"]


def did_you_mean(word: object, names: Iterable[str], *, count: int = 1, prefix: str = "") -> str:
    """Return the end of a message that suggests names like a misspelt one, or "".

    Parameters
    ----------
    word : object
        The misspelt name; a value that is not text has no suggestions.
    names : iterable of str
        The known names. Upper and lower case do not matter.
    count : int, default 1
        The maximum number of suggestions.
    prefix : str, default ""
        The text before each suggested name.

    Examples
    --------
    >>> did_you_mean("zstdd", ["zlib", "zstd"]), did_you_mean("unheard-of", ["zstd"])
    ("; did you mean 'zstd'?", '')
    >>> did_you_mean("tmp", ["temp", "Tmp"], count=2, prefix="data.zarr/")
    "; did you mean 'data.zarr/Tmp' or 'data.zarr/temp'?"
    """
    from difflib import get_close_matches

    if not isinstance(word, str):
        return ""
    known: dict[str, list[str]] = {}
    for name in names:
        known.setdefault(name.lower(), []).append(name)
    matches = get_close_matches(word.lower()[:60], known, count)
    suggested = [name for lower in matches for name in known[lower]][:count]
    return (
        f"; did you mean {' or '.join(repr(prefix + name) for name in suggested)}?"
        if suggested
        else ""
    )
