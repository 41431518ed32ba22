"""Chunk grids, shards and subchunks of new arrays from user input."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.format import chunk_grid, chunk_shape, hints
from tessarr.format.chunk_grid import ChunkGrid, RectilinearGrid, RegularGrid
from tessarr.format.validation import Members, Problems

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.types import Shape

__all__ = ["choose_grid", "choose_subchunk_shape", "is_divided_by", "round_up_grid", "to_extension"]


def choose_grid(chunks: Any, shape: Shape, item_bytes: int) -> ChunkGrid:
    """Return the chunk grid of user input: a grid, its JSON, or chunk lengths.

    Examples
    --------
    >>> choose_grid((2, None), (10, 10), 4)
    RegularGrid(chunk_shape=(2, 10))
    """
    if isinstance(chunks, ChunkGrid):
        return chunks
    if isinstance(chunks, Mapping):
        grid: ChunkGrid = to_extension(chunks, chunk_grid.find_grid, "chunk grid")
        return grid
    return chunk_grid.grid_from_lengths(chunk_shape.chunk_lengths(chunks, shape, item_bytes))


def choose_subchunk_shape(chunks: Any, shape: Shape, shards: ChunkGrid, item_bytes: int) -> Shape:
    """Return the subchunk shape from user input; by default one that divides the shards."""
    if not chunk_shape.is_unspecified(chunks):
        return chunk_shape.chunk_shape(chunks, shape, item_bytes)
    guess = chunk_shape.guess_chunk_shape(next(shards.shapes()), item_bytes)
    return tuple(
        next(part for part in range(limit, 0, -1) if math.gcd(*cuts.distinct) % part == 0)
        for cuts, limit in zip(shards.cuts, guess, strict=True)
    )


def round_up_grid(grid: ChunkGrid, shards: Any, parts: Shape) -> ChunkGrid:
    """Round up the shard lengths along axes that a single shard covers to whole subchunks."""
    whole = _find_whole_axes(shards, len(parts))

    def round_up(axis: int, length: Any) -> Any:
        part = parts[axis]
        return -(-length // part) * part if axis in whole and isinstance(length, int) else length

    if isinstance(grid, RegularGrid):
        return RegularGrid(tuple(round_up(*pair) for pair in enumerate(grid.chunk_shape)))
    if isinstance(grid, RectilinearGrid):
        return RectilinearGrid(tuple(round_up(*pair) for pair in enumerate(grid.chunk_shapes)))
    return grid


def is_divided_by(parts: Shape, grid: ChunkGrid) -> bool:
    """Tell whether the shape `parts` divides every chunk of a grid."""
    pairs = zip(grid.cuts, parts, strict=True)
    return not any(length % part for cuts, part in pairs for length in cuts.distinct)


def to_extension(value: Any, find: Callable[[str], Any], what: str) -> Any:
    """Convert a user's name or JSON to an extension.

    Parameters
    ----------
    value
        The name, or an object with the members ``name`` and ``configuration``.
    find
        Returns the class of a name, or None.
    what
        The extension point, for messages.
    """
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        raise ArgumentError(f"{value!r} is not a {what}")
    name = value["name"]
    configuration = dict(value.get("configuration", {}))
    if "separator" in value:  # zarr-python's short form
        configuration["separator"] = value["separator"]
    extension = find(name)
    if extension is None:
        kind = f"unsupported_{what.replace(' ', '_')}"
        message = f"{name!r} is not supported{hints.extension_hint(name)}"
        raise UnsupportedError(message, kind=kind, extension=name)
    problems = Problems(strict=True)
    read = extension.from_json(Members(configuration, "", problems))
    if read is None or len(problems):
        raise ArgumentError(problems.join_messages("; "))
    return read


def _find_whole_axes(shards: Any, rank: int) -> set[int]:
    """Return the axes along which the user requested shards as long as the array."""
    if not isinstance(shards, Iterable):
        return set(range(rank)) if shards == -1 else set()
    entries = [*shards, *[None] * rank][:rank]
    return {axis for axis, entry in enumerate(entries) if entry is None or entry == -1}
