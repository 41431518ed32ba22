"""Chunk grids: how an array is cut into chunks. An extension point of format 3."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tessarr.problems import INT64_MAX, Members, pointer
from tessarr.registry import Registry

if TYPE_CHECKING:
    from tessarr.problems import Problems
    from tessarr.types import JSONObject, Shape

__all__ = ["ChunkGrid", "RegularGrid", "find_grid", "register"]


@dataclass(frozen=True, slots=True)
class ChunkGrid(ABC):
    """How an array is cut into chunks."""

    name: ClassVar[str] = ""

    @classmethod
    @abstractmethod
    def from_json(cls, configuration: Members) -> ChunkGrid | None:
        """Return the grid of a ``configuration``, or None and problems."""

    @abstractmethod
    def to_json(self) -> JSONObject:
        """Return the grid as metadata of format 3 states it."""

    @abstractmethod
    def fit(self, shape: Shape, loc: str, problems: Problems) -> ChunkGrid | None:
        """Return the grid for an array of `shape`, or None and problems where it does not fit."""

    @abstractmethod
    def grid_shape(self, shape: Shape) -> Shape:
        """Return the number of chunks along each axis of an array of `shape`."""


@dataclass(frozen=True, slots=True)
class RegularGrid(ChunkGrid):
    """Chunks of one shape; those at the upper edges reach over the edge (Zarr core 3.1).

    Parameters
    ----------
    chunk_shape : tuple of int
        Lengths of a chunk, at least 1 each.

    Examples
    --------
    >>> RegularGrid((4, 4)).grid_shape((10, 8))
    (3, 2)
    """

    name = "regular"
    chunk_shape: Shape

    @classmethod
    def from_json(cls, configuration: Members) -> RegularGrid | None:
        chunk_shape = configuration.lengths("chunk_shape", 0)
        configuration.done()
        return None if chunk_shape is None else cls(chunk_shape)

    def to_json(self) -> JSONObject:
        return {"name": self.name, "configuration": {"chunk_shape": list(self.chunk_shape)}}

    def fit(self, shape: Shape, loc: str, problems: Problems) -> RegularGrid | None:
        rank = len(shape)
        if len(self.chunk_shape) != rank:
            what = f"{len(self.chunk_shape)} chunk lengths for an array of {rank} dimensions"
            problems.add(loc, what, "mismatch")
            return None
        lengths = list(self.chunk_shape)
        for axis, (length, chunk) in enumerate(zip(shape, self.chunk_shape, strict=True)):
            if chunk == 0 and length == 0:
                problems.tolerate(pointer(loc, axis), "a chunk length of 0")
                lengths[axis] = 1
            elif chunk == 0:
                problems.add(pointer(loc, axis), "0 is less than 1")
                return None
        grid = RegularGrid(tuple(lengths))
        if math.prod(grid.grid_shape(shape)) > INT64_MAX:
            problems.add(loc, "more than 2**63 - 1 chunks", "too_large")
            return None
        return grid

    def grid_shape(self, shape: Shape) -> Shape:
        return tuple(
            -(-length // chunk) for length, chunk in zip(shape, self.chunk_shape, strict=True)
        )


_grids: Registry[type[ChunkGrid]] = Registry("chunk grid", "tessarr.chunk_grids")


def register(grid: type[ChunkGrid]) -> type[ChunkGrid]:
    """Register a chunk grid by its name; a class decorator."""
    _grids.add(grid.name, grid)
    return grid


def find_grid(name: str) -> type[ChunkGrid] | None:
    """Return the chunk grid called `name`, or None."""
    return _grids.find(name)


register(RegularGrid)
