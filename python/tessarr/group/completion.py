"""Completion of paths of members in IPython and notebooks: ``g["a/b/<TAB>``."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Final

from tessarr.errors import TessarrError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["complete_paths"]

_TYPED_KEY: Final = re.compile(r"""\[\s*(["'])((?:(?!\1).)*)$""")
"""A bracket and an open string at the end of the line."""


def complete_paths(list_names: Callable[[str], list[str]]) -> list[str]:
    """Return the names of members, and the paths of those of the group that the user has typed.

    Parameters
    ----------
    list_names
        Returns the names of the members of a group by path; "" is the group itself.

    Notes
    -----
    IPython does not pass the text before the cursor, so the function reads it from the shell. A
    group that cannot be listed has no completions.
    """
    group = _find_typed_group()
    below = _try_listing(list_names, group) if group else []
    return _try_listing(list_names, "") + [f"{group}/{name}" for name in below]


def _try_listing(list_names: Callable[[str], list[str]], group: str) -> list[str]:
    try:
        return list_names(group)
    except (TessarrError, OSError, ValueError):
        return []


def _find_typed_group() -> str:
    """Return the path of the group in an unfinished key: "a/b" for ``g["a/b/c``."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    text = getattr(getattr(shell, "Completer", None), "text_until_cursor", "")
    typed = _TYPED_KEY.search(text)
    return typed[2].rpartition("/")[0] if typed else ""
