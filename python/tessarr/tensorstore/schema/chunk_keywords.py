"""The keywords of `ChunkLayout`, in the order of their evaluation.

The first of several soft constraints wins. This module evaluates its annotations, so that
signatures show full types instead of aliases.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, TypedDict

from tessarr.tensorstore.schema.chunk_grid import Grid

__all__ = ["LayoutKeywords", "LayoutMembers"]

_Shape: TypeAlias = Iterable[int | None] | None
_Ratios: TypeAlias = Iterable[float | None] | None
_Grid: TypeAlias = Grid | Mapping[str, Any] | None


class LayoutMembers(TypedDict, total=False):
    """The JSON members of a chunk layout."""

    rank: int | None
    inner_order: Iterable[int] | None
    inner_order_soft_constraint: Iterable[int] | None
    grid_origin: _Shape
    grid_origin_soft_constraint: _Shape
    chunk: _Grid
    write_chunk: _Grid
    read_chunk: _Grid
    codec_chunk: _Grid


class LayoutKeywords(LayoutMembers, total=False):
    """The keywords of a chunk layout."""

    chunk_shape: _Shape
    chunk_shape_soft_constraint: _Shape
    write_chunk_shape: _Shape
    write_chunk_shape_soft_constraint: _Shape
    read_chunk_shape: _Shape
    read_chunk_shape_soft_constraint: _Shape
    codec_chunk_shape: _Shape
    codec_chunk_shape_soft_constraint: _Shape
    chunk_aspect_ratio: _Ratios
    chunk_aspect_ratio_soft_constraint: _Ratios
    write_chunk_aspect_ratio: _Ratios
    write_chunk_aspect_ratio_soft_constraint: _Ratios
    read_chunk_aspect_ratio: _Ratios
    read_chunk_aspect_ratio_soft_constraint: _Ratios
    codec_chunk_aspect_ratio: _Ratios
    codec_chunk_aspect_ratio_soft_constraint: _Ratios
    chunk_elements: int | None
    chunk_elements_soft_constraint: int | None
    write_chunk_elements: int | None
    write_chunk_elements_soft_constraint: int | None
    read_chunk_elements: int | None
    read_chunk_elements_soft_constraint: int | None
    codec_chunk_elements: int | None
    codec_chunk_elements_soft_constraint: int | None
