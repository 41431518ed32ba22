"""The types that signatures name, and nothing that runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import EllipsisType

    import numpy as np
    import numpy.typing as npt

__all__ = [
    "JSON",
    "ArrayLike",
    "BytesLike",
    "ChunkLengths",
    "DTypeLike",
    "FieldsLike",
    "JSONObject",
    "MemoryOrder",
    "Missing",
    "Present",
    "SelectionLike",
    "Shape",
    "ShapeLike",
    "ZarrFormat",
]

Shape: TypeAlias = tuple[int, ...]
"""Lengths of the axes, axis 0 first."""

ChunkLengths: TypeAlias = tuple[Any, ...]
"""Per axis the one length of all chunks, or a tuple of the lengths of all where they differ."""

ShapeLike: TypeAlias = "int | Sequence[int]"
"""A shape as users give it; an integer is a shape of one axis."""

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
"""A JSON value. Parsed documents hold `list` and `dict`."""

JSONObject: TypeAlias = "dict[str, Any]"
"""A parsed JSON object."""

ZarrFormat: TypeAlias = Literal[2, 3]
"""The format of a node."""

Missing: TypeAlias = Literal["fill", "refuse_chunks", "refuse"]
"""What is read where nothing is stored: see `tessarr.create_array`."""

Present: TypeAlias = Literal["document", "folder"]
"""What has to be in a folder as long as an opened array is there."""

MemoryOrder: TypeAlias = Literal["C", "F"]
"""How the elements of a chunk are laid out."""

DTypeLike: TypeAlias = "npt.DTypeLike"
"""What NumPy takes for a data type."""

ArrayLike: TypeAlias = "npt.ArrayLike"
"""What NumPy takes for an array."""

BytesLike: TypeAlias = "bytes | bytearray | memoryview | np.ndarray[Any, Any]"
"""An object with a contiguous buffer."""

FieldsLike: TypeAlias = "str | Sequence[str]"
"""Names of fields of records: one, or several, which make a record again."""

SelectionLike: TypeAlias = (
    "int | slice | str | EllipsisType | npt.ArrayLike | tuple[SelectionLike, ...] | None"
)
"""What may stand between the brackets of an array."""
