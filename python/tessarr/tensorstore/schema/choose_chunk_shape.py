"""The choice of read and write chunk shapes, by TensorStore's rules.

The engine (``chunk_shape.rs``) chooses read chunks first, so that write chunks are multiples of
read chunks. It derives open lengths from an aspect ratio and a number of elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tessarr import _engine
from tessarr.errors import ArgumentError

if TYPE_CHECKING:
    from tessarr.index_space import View
    from tessarr.tensorstore.schema.layout_constraints import GridConstraints, LayoutConstraints
    from tessarr.types import Shape

__all__ = ["check_codec_chunk", "choose_chunk_shapes", "unified_chunks"]

ChunkConstraints: TypeAlias = "tuple[GridConstraints, GridConstraints | None]"
"""Constraints on write chunks and on read chunks; None: read chunks equal write chunks."""


def check_codec_chunk(layout: LayoutConstraints) -> None:
    """Raise an error for a hard constraint on the codec chunk shape.

    Raises
    ------
    ArgumentError
        If the layout has such a constraint.
    """
    _, _, codec = layout.grids
    if any(constraint is not None and constraint.hard for constraint in codec.lengths):
        raise ArgumentError("codec_chunk: a constraint on its shape is not supported")


def unified_chunks(layout: LayoutConstraints, *, read_first: bool = True) -> ChunkConstraints:
    """Return the constraints on chunks that are equal for reading and writing.

    Parameters
    ----------
    layout
        The constraints on write and read chunks.
    read_first
        Whether soft constraints on read chunks override soft constraints on write chunks.

    Raises
    ------
    ArgumentError
        If constraints on read chunks and on write chunks contradict each other.
    """
    write, read, _ = layout.grids
    result = read.merge(write, "write_chunk") if read_first else write.merge(read, "read_chunk")
    return result, None


def choose_chunk_shapes(
    constraints: ChunkConstraints, extent: View, rank: int
) -> tuple[Shape, Shape]:
    """Return the shapes of read chunks and of write chunks.

    Parameters
    ----------
    constraints
        The constraints on the chunks.
    extent
        The view of the whole array, which may be infinite.
    rank
        The number of dimensions of chunks: the first dimensions of `extent`.

    Raises
    ------
    ArgumentError
        If a hard write chunk is not a multiple of a hard read chunk, or if a chunk must span an
        infinite extent.

    Notes
    -----
    By default, a chunk has 1024 * 1024 elements, whatever their size in bytes.

    Examples
    --------
    >>> from tessarr.index_space import View
    >>> from tessarr.tensorstore.schema.chunk_layout import ChunkLayout
    >>> layout = ChunkLayout(read_chunk_shape=[64, 64])._constraints
    >>> choose_chunk_shapes(layout.grids[:2], View.for_array((400, 400), None, ()), 2)
    ((64, 64), (384, 384))
    """
    return _engine.choose_chunk_shapes(*constraints, extent, rank)
