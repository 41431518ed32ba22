"""Intervals of integers with labels, and boxes of them.

Terms, rules and JSON forms are TensorStore's (index space). An index is an integer of any sign;
negative integers do not count from the end. An index beyond an *explicit* bound raises an error
immediately. An *implicit* bound can change, such as the length of a resizable array.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from tessarr._engine import Dim

__all__ = ["INFINITE", "MAX_RANK", "Box", "Dim"]

INFINITE: Final = 2**62 - 1
"""The infinite bound: the least index is `-INFINITE`, the greatest `INFINITE`."""

MAX_RANK: Final = 32

Box: TypeAlias = tuple[Dim, ...]
"""One interval per dimension."""
