"""The index space: domains, transforms and dimension expressions, as TensorStore has them.

Positions are integers of any sign, and dimensions can have labels. Indexing returns a view; views
compose cheaply. `lower` turns a view into one call of the engine.
"""

from __future__ import annotations

from tessarr._engine import Blocks, BlockSource, GridPartition, LayerStack, View, VisibleLayers
from tessarr.format.registry import set_public_module
from tessarr.index_space.dim_expression import DimExpression, DimSelection, d
from tessarr.index_space.index_domain import IndexDomain
from tessarr.index_space.index_transform import IndexTransform, lower
from tessarr.index_space.indexable import Assignable, Bounded, Indexable, Indexer
from tessarr.index_space.intervals import INFINITE, Box, Dim
from tessarr.index_space.output_index_map import (
    OutputIndexMap,
    OutputIndexMaps,
    OutputIndexMethod,
)

__all__ = [
    "INFINITE",
    "Assignable",
    "BlockSource",
    "Blocks",
    "Bounded",
    "Box",
    "Dim",
    "DimExpression",
    "DimSelection",
    "GridPartition",
    "IndexDomain",
    "IndexTransform",
    "Indexable",
    "Indexer",
    "LayerStack",
    "OutputIndexMap",
    "OutputIndexMaps",
    "OutputIndexMethod",
    "View",
    "VisibleLayers",
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
