"""Arrays: opening, indexing, changing and creating them."""

from __future__ import annotations

from tessarr.array.array import Array, bind_array

__all__ = ["Array", "bind_array"]
