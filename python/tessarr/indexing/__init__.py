"""Selections from NumPy keys, `oindex`, `vindex` and `blocks`, and values that fit them.

`select`, `select_outer`, `select_points`, `select_mask` and `select_blocks` convert a key into a
`Selection`, which the engine reads. `broadcast_value` fits a value to a selection.
"""

from __future__ import annotations

from tessarr.indexing.assigned_values import (
    broadcast_value,
    has_dtype,
    read_target,
    to_objects,
)
from tessarr.indexing.fields import Fields, find_fields, split_fields
from tessarr.indexing.normalize import (
    select,
    select_basic,
    select_blocks,
    select_mask,
    select_outer,
    select_points,
)
from tessarr.indexing.selection import (
    AxisSelection,
    Indexer,
    IndexList,
    Range,
    Selection,
    axis_number,
)

__all__ = [
    "AxisSelection",
    "Fields",
    "IndexList",
    "Indexer",
    "Range",
    "Selection",
    "axis_number",
    "broadcast_value",
    "find_fields",
    "has_dtype",
    "read_target",
    "select",
    "select_basic",
    "select_blocks",
    "select_mask",
    "select_outer",
    "select_points",
    "split_fields",
    "to_objects",
]
