"""The choice of read and write chunk shapes, by TensorStore's rules.

Read chunks are settled first. What is open of a shape is filled by an aspect ratio and a number of
elements, in the engine (``chunk_shape.rs``), so that write chunks are multiples of read chunks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tessarr import _engine
from tessarr.errors import ArgumentError

if TYPE_CHECKING:
    from tessarr.index_space import View
    from tessarr.tensorstore.schema.chunk_grid import GridConstraints
    from tessarr.tensorstore.schema.layout_constraints import LayoutConstraints
    from tessarr.types import Shape

__all__ = [
    "ChunkConstraints",
    "check_codec_chunk",
    "choose_chunk_shapes",
    "separate_chunks",
    "unified_chunks",
]

ChunkConstraints: TypeAlias = "tuple[GridConstraints, GridConstraints | None]"
"""What is asked of chunks that are written, and of those that are read; None: they are the same."""


def check_codec_chunk(layout: LayoutConstraints) -> None:
    """Refuse a hard constraint on the shape of the parts that a codec encodes together.

    Raises
    ------
    ArgumentError
        If there is one.
    """
    _, _, codec = layout.grids
    if any(wish is not None and wish.hard for wish in codec.lengths):
        raise ArgumentError("codec_chunk: a constraint on its shape is not supported")


def separate_chunks(layout: LayoutConstraints) -> ChunkConstraints:
    """Return what is asked of chunks of which those that are read may be parts of those written."""
    write, read, _ = layout.grids
    return write, read


def unified_chunks(layout: LayoutConstraints, *, read_first: bool = True) -> ChunkConstraints:
    """Return what is asked of chunks that are read and written alike.

    Parameters
    ----------
    layout
        What is asked of either.
    read_first
        Whether soft constraints on read chunks hold where there are others on write chunks.

    Raises
    ------
    ArgumentError
        If constraints on read and on write chunks contradict each other.
    """
    write, read, _ = layout.grids
    result = read.merged(write, "write_chunk") if read_first else write.merged(read, "read_chunk")
    return result, None


def choose_chunk_shapes(asked: ChunkConstraints, extent: View, rank: int) -> tuple[Shape, Shape]:
    """Return the shapes of read and of write chunks.

    Parameters
    ----------
    asked
        What is asked of them.
    extent
        The view of the whole array, which may be infinite.
    rank
        The number of dimensions of chunks, which are the first of the extent.

    Raises
    ------
    ArgumentError
        If a hard write chunk is no multiple of a hard read chunk, or a whole extent is asked
        for that is infinite.

    Notes
    -----
    The number of elements is by default 1024 * 1024, whatever their size.

    Examples
    --------
    >>> from tessarr.index_space import View
    >>> from tessarr.tensorstore.schema.chunk_layout import ChunkLayout
    >>> layout = ChunkLayout(read_chunk_shape=[64, 64])._constraints
    >>> choose_chunk_shapes(separate_chunks(layout), View.for_array((400, 400), None, ()), 2)
    ((64, 64), (384, 384))
    """
    write, read = asked
    return _engine.choose_chunk_shapes(write, read, extent, rank)
