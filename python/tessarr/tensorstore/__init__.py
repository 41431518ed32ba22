"""TensorStore's interface on Tessarr's engine: ``import tessarr.tensorstore as ts``.

Names, signatures, JSON and index conventions are those of the package `tensorstore`, for
its drivers of Zarr arrays. Nothing here is loaded by ``import tessarr``.
"""

from __future__ import annotations

from typing import Final

from tessarr.space import (
    INFINITE,
    Dim,
    DimExpression,
    DimSelection,
    Indexable,
    IndexDomain,
    IndexTransform,
    OutputIndexMap,
    OutputIndexMethod,
    d,
)

__all__ = [
    "Dim",
    "DimExpression",
    "DimSelection",
    "IndexDomain",
    "IndexTransform",
    "Indexable",
    "OutputIndexMap",
    "OutputIndexMethod",
    "d",
    "inf",
    "newaxis",
]

inf: Final = INFINITE
"""Stands for no bound: ``-inf`` below, ``inf`` above."""

newaxis: Final = None
"""Adds a dimension of size 1, whose bounds are implicit, where it stands in an index."""
