"""Where indices may be: intervals of the integers, with labels, and boxes made of them.

The words, the rules and the forms in JSON are TensorStore's (index space). An index is an integer
of any sign: there is no counting from the end. A bound is *explicit*, and then indexing beyond it
is an error at once, or *implicit*: what holds now, but not a promise, such as the length of an
array that may be resized.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from tessarr._engine import Dim

__all__ = ["INFINITE", "MAX_RANK", "Box", "Dim"]

INFINITE: Final = 2**62 - 1
"""Stands for no bound: the least index is `-INFINITE`, the greatest `INFINITE`."""

MAX_RANK: Final = 32

Box: TypeAlias = tuple[Dim, ...]
"""One interval per dimension."""
