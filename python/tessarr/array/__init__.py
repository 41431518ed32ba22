"""Arrays: what stands between the user's brackets and the engine.

Each module adds to the class of the one before: `facts` is what an array says of itself,
`selecting` how it is read and written, `values` what Python and NumPy take it for, and
`array` the class itself, what changes it, and `bind`.
"""

from __future__ import annotations

from tessarr.array.array import Array, bind

__all__ = ["Array", "bind"]
