"""The index space: domains, transforms and dimension expressions, as TensorStore has them.

Positions are integers of any sign, dimensions may have labels, and everything that is indexed
gives a view, by a value that is composed cheaply. `tessarr.space.lower` makes one call of
the engine of a view.
"""

from __future__ import annotations

from tessarr._engine import Behind, Blocks, Cells, Layers, Seen, View
from tessarr.registry import call_public
from tessarr.space.domain import INFINITE, Box, Dim
from tessarr.space.expression import DimExpression, DimSelection, d
from tessarr.space.index_domain import IndexDomain
from tessarr.space.indexable import Assignable, Bracket, Bracketed, Indexable
from tessarr.space.lower import lower
from tessarr.space.maps import OutputIndexMap, OutputIndexMaps, OutputIndexMethod
from tessarr.space.transform import IndexTransform

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

call_public(
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
