"""Chunk grids: how an array is cut into chunks. An extension point of format 3."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tessarr.problems import INT64_MAX, Members
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
    def check(self, shape: Shape, loc: str, problems: Problems) -> None:
        """Note where the grid does not fit an array of `shape`."""

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
        chunk_shape = configuration.lengths("chunk_shape", 1)
        configuration.done()
        return None if chunk_shape is None else cls(chunk_shape)

    def to_json(self) -> JSONObject:
        return {"name": self.name, "configuration": {"chunk_shape": list(self.chunk_shape)}}

    def check(self, shape: Shape, loc: str, problems: Problems) -> None:
        if len(self.chunk_shape) != len(shape):
            problems.add(
                loc,
                f"{len(self.chunk_shape)} chunk lengths for an array of {len(shape)} dimensions",
                "mismatch",
            )
            return
        cells = 1
        for count in self.grid_shape(shape):
            cells *= count
        if cells > INT64_MAX:
            problems.add(loc, "more than 2**63 - 1 chunks", "too_large")

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
