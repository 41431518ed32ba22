"""Rows of `bench.loops`: one module for each kind of loop.

Each module has a function ``make_rows(folder)`` that prepares its data below a folder and returns
its rows. A module imports peers where it needs them, so that each can be absent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["LoopRow"]


@dataclass(frozen=True)
class LoopRow:
    """A loop, written for several libraries.

    Parameters
    ----------
    name
        The title of the row.
    calls
        The loop of each library by name, Tessarr's first. All return the same value, or None.
    limits
        The largest ratio of Tessarr's time to that of a library by name.
    """

    name: str
    calls: dict[str, Callable[[], object]]
    limits: dict[str, float]
