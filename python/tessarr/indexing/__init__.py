"""Keys into selections: NumPy's indexing, outer, pointwise and by blocks.

`default`, `outer`, `points`, `mask` and `block` turn what stands between the brackets into a
`Selection`, which the engine walks; `broadcast_value` fits a value to one.
"""

from __future__ import annotations

from tessarr.indexing.assign import broadcast_value
from tessarr.indexing.indexer import Indexer
from tessarr.indexing.normalize import basic, block, default, mask, outer, points
from tessarr.indexing.selection import AxisSelection, IndexList, Range, Selection
from tessarr.indexing.target import read_target

__all__ = [
    "AxisSelection",
    "IndexList",
    "Indexer",
    "Range",
    "Selection",
    "basic",
    "block",
    "broadcast_value",
    "default",
    "mask",
    "outer",
    "points",
    "read_target",
]
