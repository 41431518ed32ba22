"""Records of named fields without padding.

In format 2 (Zarr specification 2) a record is a list of fields; a field may be an array and has
its own byte order. Format 3 (Zarr extensions) has ``struct``, in the byte order of the codec
``bytes``, and the older form ``structured``, which Tessarr reads and writes as ``struct``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import numpy as np

from tessarr.dtype import names
from tessarr.dtype.base import MAX_ITEM_BYTES, DataType, from_base64, register, to_base64
from tessarr.errors import ArgumentError
from tessarr.format.validation import (
    Members,
    Problems,
    describe,
    is_integer,
    pointer,
    read_lengths,
)

if TYPE_CHECKING:
    from tessarr.types import JSON, BytesLike, Shape, ZarrFormat

__all__ = ["MAX_FIELDS", "Field", "Struct"]

_MAX_DEPTH: Final = 32
_MAX_AXES: Final = 16
MAX_FIELDS: Final = 65_536
"""The maximum number of fields of a data type, with those of inner records."""
_LEGACY: Final = "structured"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record.

    Parameters
    ----------
    name : str
        Its name.
    data_type : DataType
        Its elements.
    shape : tuple of int
        The shape of the field; empty for a single element.
    """

    name: str
    data_type: DataType
    shape: Shape = ()

    @property
    def item_bytes(self) -> int:
        """Bytes of the field in a record."""
        return self.data_type.item_bytes * math.prod(self.shape)


@register
@dataclass(frozen=True, slots=True)
class Struct(DataType):
    """Records.

    Parameters
    ----------
    numpy : numpy.dtype
        The dtype of results.
    fields : tuple of Field
        The fields, in order.

    Examples
    --------
    >>> single = names.to_data_type("f4")
    >>> point = Struct.of([Field("x", single), Field("y", single)])
    >>> point.numpy, point.unit_bytes
    (dtype([('x', '<f4'), ('y', '<f4')]), 4)
    >>> point.to_json(2)
    [['x', '<f4'], ['y', '<f4']]
    """

    v3_names = ("struct", _LEGACY)

    fields: tuple[Field, ...] = ()

    @classmethod
    def of(cls, fields: list[Field]) -> Self:
        """Return the data type with these fields."""
        dtype = np.dtype([(field.name, field.data_type.numpy, field.shape) for field in fields])
        return cls(dtype, tuple(fields))

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> Self:
        fields: list[Field] = []
        if _count_fields(dtype) > MAX_FIELDS:
            message = f"a data type of more than {MAX_FIELDS} fields cannot be stored"
            raise ArgumentError(message, kind="too_large")
        for name in dtype.names or ():
            field_dtype = dtype[name]
            base, shape = field_dtype.subdtype or (field_dtype, ())
            fields.append(Field(name, names.to_data_type(base), tuple(map(int, shape))))
        return cls.of(fields)

    @property
    def name(self) -> str:
        return "struct"

    @property
    def unit_bytes(self) -> int:
        sizes = {field.data_type.unit_bytes for field in self.fields}
        if len(sizes) == 1:
            size = sizes.pop()
            return 1 if size > 1 and len(self._find_byte_orders()) > 1 else size
        # If fields differ in byte order, no byte order applies to the record.
        return 1 if len(self._find_byte_orders()) > 1 else 0

    @property
    def big_endian(self) -> bool:
        return self._find_byte_orders() == {True}

    @property
    def stray_bits(self) -> bool:
        return any(field.data_type.stray_bits for field in self.fields)

    def _find_byte_orders(self) -> set[bool]:
        """Return the byte orders of the fields: True for big-endian ones, False for others."""
        orders: set[bool] = set()
        for field in self.fields:
            inner = field.data_type
            if isinstance(inner, Struct):
                orders |= inner._find_byte_orders()
            elif inner.unit_bytes != 1:
                orders.add(inner.big_endian)
        return orders

    def ordered(self, order: Literal["native", "little", "big"]) -> Self:
        changed = [replace(f, data_type=f.data_type.ordered(order)) for f in self.fields]
        return self if tuple(changed) == self.fields else self.of(changed)

    def swapped(self, data: BytesLike) -> np.ndarray[Any, np.dtype[np.uint8]]:
        items = np.frombuffer(data, np.uint8).reshape(-1, self.item_bytes)
        result = np.empty_like(items)
        for part, field in self._locate_fields():
            column = np.ascontiguousarray(items[:, part])
            if field.data_type.unit_bytes != 1:
                column = field.data_type.swapped(column).reshape(column.shape)
            result[:, part] = column
        return result.reshape(-1)

    def canonical(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if not self.stray_bits:
            return array
        result = array.copy()
        for field in self.fields:
            if field.data_type.stray_bits:
                result[field.name] = field.data_type.canonical(array[field.name])
        return result

    def _locate_fields(self) -> list[tuple[slice, Field]]:
        """Return the fields, each with the slice of its bytes in an item."""
        ends = np.cumsum([field.item_bytes for field in self.fields]).tolist()
        starts = [0, *ends[:-1]]
        return [(slice(a, b), f) for a, b, f in zip(starts, ends, self.fields, strict=True)]

    def refusal(self, zarr_format: ZarrFormat) -> str | None:
        for field in self.fields:
            if zarr_format == 3 and field.shape:
                return f"format 3 has no fields that are arrays, such as {field.name!r}"
            reason = field.data_type.refusal(zarr_format)
            if reason is not None:
                return f"field {field.name!r}: {reason}"
        return None

    # Documents

    @classmethod
    def from_v3(cls, name: str, configuration: Members) -> Self | None:
        problems = configuration.problems
        before = len(problems)
        value = configuration.require("fields")
        configuration.done()
        if len(problems) > before:
            return None
        loc = configuration.at("fields")
        fields: list[Field] = []
        for item, item_loc in _read_items(value, loc, problems):
            legacy = name == _LEGACY and isinstance(item, list)
            entry = (
                _read_pair(item, item_loc, problems)
                if legacy
                else _read_object(item, item_loc, problems)
            )
            if entry is None:
                continue
            (field_name, name_loc), (type_json, type_loc) = entry
            data_type = names.from_json(type_json, 3, type_loc, problems)
            if data_type is not None and data_type.elements is not None:
                message = f"elements of {data_type.name} have any length, those of fields have one"
                problems.add(type_loc, message)
            if _is_field_name(field_name, name_loc, problems) and data_type is not None:
                fields.append(Field(field_name, data_type))
        return cls._check_fields(fields, loc, problems) if len(problems) == before else None

    @classmethod
    def from_v2(cls, value: list[Any], loc: str, problems: Problems) -> Self | None:
        """Return the data type of a list of fields; if invalid, add problems and return None."""
        before = len(problems)
        fields: list[Field] = []
        for item, item_loc in _read_items(value, loc, problems):
            if not isinstance(item, list) or not 2 <= len(item) <= 3:
                message = f"{describe(item)} is not a field: a name, a type and perhaps a shape"
                problems.add(item_loc, message)
                continue
            named = _is_field_name(item[0], pointer(item_loc, 0), problems)
            data_type = names.from_json(item[1], 2, pointer(item_loc, 1), problems)
            shape = _read_shape(item[2], pointer(item_loc, 2), problems) if len(item) == 3 else ()
            if named and data_type is not None and shape is not None:
                fields.append(Field(item[0], data_type, shape))
        return cls._check_fields(fields, loc, problems) if len(problems) == before else None

    @classmethod
    def _check_fields(cls, fields: list[Field], loc: str, problems: Problems) -> Self | None:
        before = len(problems)
        seen: set[str] = set()
        for i, field in enumerate(fields):
            if field.name in seen:
                problems.add(pointer(loc, i), f"field {describe(field.name)} occurs twice")
            seen.add(field.name)
            if field.data_type.numpy.kind in "OT":
                message = f"field {describe(field.name)} has no fixed number of bytes"
                problems.add(pointer(loc, i), message)
            if _measure_depth(field.data_type) >= _MAX_DEPTH:
                message = f"more than {_MAX_DEPTH} records within each other"
                problems.add(pointer(loc, i), message, "too_large")
                return None
        if sum(field.item_bytes for field in fields) > MAX_ITEM_BYTES:
            problems.add(loc, f"a record has more than {MAX_ITEM_BYTES} bytes", "too_large")
        return None if len(problems) > before else cls.of(fields)

    def to_json(self, zarr_format: ZarrFormat) -> JSON:
        if zarr_format == 2:
            return [
                [f.name, f.data_type.to_json(2), *([list(f.shape)] if f.shape else [])]
                for f in self.fields
            ]
        listed = [{"name": f.name, "data_type": f.data_type.to_json(3)} for f in self.fields]
        return {"name": self.name, "configuration": {"fields": listed}}

    # Fill values

    def fill_from_json(
        self, value: Any, zarr_format: ZarrFormat, loc: str, problems: Problems
    ) -> bytes | None:
        has_one_field = zarr_format == 3 and len(self.fields) == 1
        if has_one_field and not isinstance(value, dict) and not self.is_packed(value):
            problems.tolerate(loc, "the fill value of a struct of one field lacks the field's name")
            return self.fields[0].data_type.fill_from_json(value, 3, loc, problems)
        if isinstance(value, str):
            if zarr_format == 3:
                problems.tolerate(loc, "the fill value of a struct is written as base64")
            return from_base64(value, self.item_bytes, loc, problems)
        if zarr_format == 2 and is_integer(value) and value == 0:
            problems.tolerate(loc, "the fill value of a record is written as 0")
            return self.default_fill()
        if zarr_format == 2 or not isinstance(value, dict):
            expected = "a base64 string" if zarr_format == 2 else "an object with every field"
            problems.add(loc, f"{describe(value)} is not {expected}", "wrong_type")
            return None
        before = len(problems)
        members = Members(value, loc, problems)
        parts: list[bytes | None] = []
        for field in self.fields:
            inner = members.require(field.name)
            if field.name in members:
                item_loc = members.at(field.name)
                parts.append(field.data_type.fill_from_json(inner, 3, item_loc, problems))
        members.done()
        if len(problems) > before:
            return None
        return b"".join(part for part in parts if part is not None)

    def is_packed(self, value: Any) -> bool:
        """Tell whether a fill value is the base64 of a record.

        For a record of one field, TensorStore writes the fill value of the field, which may be
        text such as "NaN".
        """
        if not isinstance(value, str):
            return False
        return (
            len(self.fields) > 1 or from_base64(value, self.item_bytes, "", Problems()) is not None
        )

    def fill_to_json(self, fill: bytes, zarr_format: ZarrFormat) -> JSON:
        if zarr_format == 2:
            return to_base64(fill)
        return {
            f.name: f.data_type.fill_to_json(fill[part], 3) for part, f in self._locate_fields()
        }

    def cast_fill(self, value: Any) -> bytes:
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value[()]
        if isinstance(value, np.void):
            if not value.dtype.names:
                value = value.tobytes()
            elif value.dtype == self.numpy:
                return np.array(value).tobytes()
            else:
                value = {name: value[name] for name in value.dtype.names}
        if isinstance(value, bytes):
            if len(value) != self.item_bytes:
                raise ValueError(f"{len(value)} bytes instead of {self.item_bytes}")
            return value
        if not isinstance(value, Mapping | list | tuple) and value == 0:
            return self.default_fill()
        return b"".join(
            _cast_field_fill(field, inner)
            for field, inner in zip(self.fields, self._split_values(value), strict=True)
        )

    def _split_values(self, value: Any) -> list[Any]:
        """Return one value per field from a user's record."""
        if isinstance(value, Mapping):
            expected = [field.name for field in self.fields]
            if set(value) != set(expected):
                raise ValueError(f"{value!r} does not have the fields {', '.join(expected)}")
            return [value[name] for name in expected]
        if not isinstance(value, list | tuple) or len(value) != len(self.fields):
            raise ValueError(f"{value!r} is not a record of {len(self.fields)} fields")
        return list(value)


def _cast_field_fill(field: Field, value: Any) -> bytes:
    if not field.shape:
        return field.data_type.cast_fill(value)
    values = np.empty(field.shape, dtype=object)
    values[...] = value
    return b"".join(field.data_type.cast_fill(item) for item in values.reshape(-1).tolist())


def _count_fields(dtype: np.dtype[Any]) -> int:
    """Return the number of fields of a record, with those of inner records."""
    names = dtype.base.names or ()
    return len(names) + sum(_count_fields(dtype.base[name]) for name in names)


def _measure_depth(data_type: DataType) -> int:
    if not isinstance(data_type, Struct):
        return 0
    return 1 + max(_measure_depth(field.data_type) for field in data_type.fields)


def _read_items(value: Any, loc: str, problems: Problems) -> list[tuple[Any, str]]:
    """Return the items of a non-empty list of fields, each with its JSON pointer."""
    if not isinstance(value, list):
        problems.add(loc, f"{describe(value)} is not a list of fields", "wrong_type")
        return []
    if not value:
        problems.add(loc, "a record has at least one field")
    if _has_too_many(value):
        problems.add(loc, f"a record has more than {MAX_FIELDS} fields", "too_large")
        return []
    return [(item, pointer(loc, i)) for i, item in enumerate(value)]


def _has_too_many(value: list[Any]) -> bool:
    """Tell whether a list has more than `MAX_FIELDS` fields, with those of inner records."""
    count = 0
    left: list[Any] = [value]
    while left and count <= MAX_FIELDS:
        item = left.pop()
        values = item.values() if isinstance(item, dict) else item
        children = [child for child in values if isinstance(child, list | dict)]
        count += len(children) if isinstance(item, list) else 0
        left += children
    return count > MAX_FIELDS


_Located = tuple[Any, str]


def _read_object(value: Any, loc: str, problems: Problems) -> tuple[_Located, _Located] | None:
    if not isinstance(value, dict):
        message = f"{describe(value)} is not an object with 'name' and 'data_type'"
        problems.add(loc, message, "wrong_type")
        return None
    before = len(problems)
    members = Members(value, loc, problems)
    name, data_type = members.require("name"), members.require("data_type")
    members.done()
    if len(problems) > before:
        return None
    return (name, members.at("name")), (data_type, members.at("data_type"))


def _read_pair(value: list[Any], loc: str, problems: Problems) -> tuple[_Located, _Located] | None:
    if len(value) != 2:
        problems.add(loc, f"{describe(value)} is not a name and a data type")
        return None
    return (value[0], pointer(loc, 0)), (value[1], pointer(loc, 1))


def _is_field_name(value: Any, loc: str, problems: Problems) -> bool:
    if isinstance(value, str) and value:
        return True
    kind = "invalid_value" if isinstance(value, str) else "wrong_type"
    problems.add(loc, f"{describe(value)} is not the name of a field", kind)
    return False


def _read_shape(value: Any, loc: str, problems: Problems) -> Shape | None:
    if is_integer(value):
        value = [value]  # NumPy writes lists, but accepts both
    shape = read_lengths(value, 1, loc, problems)
    if shape is not None and len(shape) > _MAX_AXES:
        problems.add(loc, f"a field has more than {_MAX_AXES} axes", "too_large")
    return shape
