"""Keys into selections: NumPy's indexing, outer, pointwise and by blocks.

`default`, `outer`, `points`, `mask` and `block` turn what stands between the brackets into a
`Selection`, which the engine walks; `broadcast_value` fits a value to one.
"""

from __future__ import annotations

from tessarr.indexing.assigned_values import (
    broadcast_value,
    has_dtype,
    objects,
    read_target,
)
from tessarr.indexing.axis import axis_number
from tessarr.indexing.fields import Fields, fields_of, split_fields
from tessarr.indexing.normalize import basic, block, default, mask, outer, points
from tessarr.indexing.selection import AxisSelection, Indexer, IndexList, Range, Selection

__all__ = [
    "AxisSelection",
    "Fields",
    "IndexList",
    "Indexer",
    "Range",
    "Selection",
    "axis_number",
    "basic",
    "block",
    "broadcast_value",
    "default",
    "fields_of",
    "has_dtype",
    "mask",
    "objects",
    "outer",
    "points",
    "read_target",
    "split_fields",
]
