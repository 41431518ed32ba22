"""Type aliases that signatures use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import EllipsisType
    from typing import SupportsIndex

    import numpy as np
    import numpy.typing as npt

__all__ = [
    "JSON",
    "ArrayKey",
    "ArrayLike",
    "BytesLike",
    "ChunkLengths",
    "DTypeLike",
    "FieldsLike",
    "JSONObject",
    "MemberKey",
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
"""For each axis, the length that all chunks share, or a tuple of the lengths of all chunks."""

ShapeLike: TypeAlias = "int | Sequence[int]"
"""A shape that a user passes; an integer is a shape of one axis."""

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
"""A JSON value. Parsed documents hold `list` and `dict`."""

JSONObject: TypeAlias = "dict[str, Any]"
"""A parsed JSON object."""

ZarrFormat: TypeAlias = Literal[2, 3]
"""The format of a node."""

Missing: TypeAlias = Literal["fill", "refuse_chunks", "refuse"]
"""How reads treat missing chunks: see `tessarr.create_array`."""

Present: TypeAlias = Literal["document", "folder"]
"""What must exist in a folder for an open array to be valid: its document or the folder."""

MemoryOrder: TypeAlias = Literal["C", "F"]
"""The memory order of the elements of a chunk."""

DTypeLike: TypeAlias = "npt.DTypeLike"
"""A value that NumPy accepts as a data type."""

ArrayLike: TypeAlias = "npt.ArrayLike"
"""A value that NumPy accepts as an array."""

BytesLike: TypeAlias = "bytes | bytearray | memoryview | np.ndarray[Any, Any]"
"""An object with a contiguous buffer."""

FieldsLike: TypeAlias = "str | Sequence[str]"
"""The name of a field, or the names of several fields, which select a smaller record."""

SelectionLike: TypeAlias = (
    "int | slice | str | EllipsisType | npt.ArrayLike | tuple[SelectionLike, ...] | None"
)
"""A key of indexing."""

_ArrayTerm: TypeAlias = "slice | EllipsisType | npt.NDArray[Any] | list[Any] | None"

ArrayKey: TypeAlias = (
    "_ArrayTerm | tuple[_ArrayTerm, *tuple[Any, ...]] | tuple[*tuple[Any, ...], _ArrayTerm]"
)
"""A key of indexing whose result is an array, for any number of axes, and never a scalar."""

MemberKey: TypeAlias = "_ArrayTerm | tuple[Any, ...] | SupportsIndex"
"""A key of an array, in overloads of groups."""
