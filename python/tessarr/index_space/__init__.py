"""The index space: domains, transforms and dimension expressions, as TensorStore has them.

Positions are integers of any sign, and dimensions can have labels. Indexing returns a view; views
compose cheaply. `tessarr.index_space.lower` turns a view into one call of the engine.
"""

from __future__ import annotations

from tessarr._engine import Behind, Blocks, Cells, Layers, Seen, View
from tessarr.format.registry import set_public_module
from tessarr.index_space.dim_expression import DimExpression, DimSelection, d
from tessarr.index_space.index_domain import IndexDomain
from tessarr.index_space.index_transform import IndexTransform
from tessarr.index_space.indexable import Assignable, Bracket, Bracketed, Indexable
from tessarr.index_space.intervals import INFINITE, Box, Dim
from tessarr.index_space.lower import lower
from tessarr.index_space.output_index_map import (
    OutputIndexMap,
    OutputIndexMaps,
    OutputIndexMethod,
)

__all__ = [
    "INFINITE",
    "Assignable",
    "Behind",
    "Blocks",
    "Box",
    "Bracket",
    "Bracketed",
    "Cells",
    "Dim",
    "DimExpression",
    "DimSelection",
    "IndexDomain",
    "IndexTransform",
    "Indexable",
    "Layers",
    "OutputIndexMap",
    "OutputIndexMaps",
    "OutputIndexMethod",
    "Seen",
    "View",
    "d",
    "lower",
]

set_public_module(
    "tessarr.tensorstore",
    Dim,
    DimExpression,
    DimSelection,
    Indexable,
    IndexDomain,
    IndexTransform,
    OutputIndexMap,
    OutputIndexMaps,
    OutputIndexMethod,
    type(d),
)
