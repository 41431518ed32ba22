"""Element types: a data type and the inner dimensions of an element.

A spec selects one field of a struct. Raw bytes and fixed-length byte strings add a last dimension
for their bytes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tessarr import dtype as data_types
from tessarr._safe_repr import safe_repr, truncate
from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.tensorstore.schema.data_type import byte, char, of_stored
from tessarr.tensorstore.schema.data_type import dtype as DataType  # noqa: N812
from tessarr.types import Shape

__all__ = ["WHOLE", "Element", "Field", "element_of", "is_raw", "stored_type"]


class Field(NamedTuple):
    """The part of each element that a spec selects.

    Parameters
    ----------
    name : str, optional
        A field of a struct.
    as_void : bool
        Whether to select the bytes of the whole element.
    """

    name: str | None = None
    as_void: bool = False

    @classmethod
    def of(cls, name: str | None, *, as_void: bool) -> Field:
        """Return the selection of a field or of bytes.

        Raises
        ------
        ArgumentError
            If the arguments select both a field and bytes.
        """
        if name is not None and as_void:
            raise ArgumentError("field and open_as_void exclude each other")
        return cls(name, as_void)


WHOLE = Field()
"""The whole element."""


class Element(NamedTuple):
    """A data type and the inner shape of an element."""

    dtype: DataType
    inner: Shape


def element_of(stored: data_types.DataType, field: Field = WHOLE) -> Element:
    """Return the type of the selected part of an element.

    Raises
    ------
    ArgumentError
        If the struct needs a field name or lacks the field, or if elements of variable length are
        selected as bytes.
    """
    if field.as_void:
        if stored.elements is not None:
            raise ArgumentError(f"open_as_void: {stored} has elements of any length")
        return Element(byte, (stored.item_bytes,))
    names = stored.numpy.names if stored.elements is None else None
    if not names:
        if field.name is not None:
            raise ArgumentError(f"field {safe_repr(field.name)}: {stored} has no fields")
        return _whole_element(stored)
    name: Any = names[0] if field.name is None and len(names) == 1 else field.name
    if name not in names:
        raise ArgumentError(
            f"field {safe_repr(name)}: give one of "
            f"{truncate(', '.join(map(safe_repr, names)))} of the data type"
        )
    assert stored.numpy.fields is not None
    result = stored.numpy.fields[name][0]
    return _of_numpy(result.base, tuple(result.shape))


def _whole_element(stored: data_types.DataType) -> Element:
    if stored.elements is not None:
        return Element(of_stored(stored), ())
    if is_raw(stored):
        return Element(byte, (stored.item_bytes,))
    return _of_numpy(stored.numpy, ())


def _of_numpy(numpy_dtype: np.dtype[Any], shape: Shape) -> Element:
    if numpy_dtype.isbuiltin != 2 and numpy_dtype.kind in "VS":
        return Element(char if numpy_dtype.kind == "S" else byte, (*shape, numpy_dtype.itemsize))
    return Element(DataType(numpy_dtype), shape)


def is_raw(stored: data_types.DataType) -> bool:
    """Return whether the elements are raw bytes."""
    numpy_dtype = stored.numpy
    return numpy_dtype.kind == "V" and not numpy_dtype.names and numpy_dtype.isbuiltin != 2


def stored_type(dtype: DataType) -> data_types.DataType:
    """Return the stored data type of a new array with elements of `dtype`.

    Raises
    ------
    UnsupportedError
        If new arrays cannot store such elements, or only with an inner dimension.
    """
    objects = {"ustring": "string", "string": "bytes"}
    if dtype.name in {"json", "byte", "char"}:
        raise UnsupportedError(
            f"dtype {dtype.name!r}: no new array has it; give the data type in metadata",
            kind="unsupported_data_type",
            extension=dtype.name,
        )
    if dtype.name in objects:
        return data_types.to_data_type(objects[dtype.name])
    return data_types.to_data_type(dtype.dtype)
