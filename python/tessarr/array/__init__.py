"""Arrays: what stands between the user's brackets and the engine.

`facts` is what an array says of itself, `selecting` how it is read and written, `array` the
class that both make, and `bind`.
"""

from __future__ import annotations

from tessarr.array.array import Array, bind

__all__ = ["Array", "bind"]
