"""Objects of format 2 other than text and bytes: ``|O`` with other filters.

The filter defines the elements: `Ragged` arrays of numbers, or values of JSON, MessagePack or
pickle (`Objects`).
"""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tessarr._safe_repr import safe_repr
from tessarr.dtype.base import OBJECT, DataType, register
from tessarr.errors import ArgumentError, CastError
from tessarr.format.hints import import_package
from tessarr.format.validation import describe, is_integer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.dtype.base import Elements
    from tessarr.format.validation import Members, Problems
    from tessarr.types import JSON, ZarrFormat

__all__ = ["Form", "Objects", "Ragged", "cannot_store", "import_msgpack", "plain_item"]

_FLOAT: Final = np.dtype("<f8")

_ONLY_2: Final = "format 3 has no type for such objects"

Form = Literal["json", "msgpack", "pickle"]


@dataclass(frozen=True, slots=True)
class Ragged(DataType):
    r"""One-dimensional arrays of any length with items of one type.

    Parameters
    ----------
    item : numpy.dtype
        The type of the items.

    Examples
    --------
    >>> Ragged(item=np.dtype("<i2")).cast_fill([1, 2])
    b'\x01\x00\x02\x00'
    """

    numpy: np.dtype[Any] = OBJECT
    item: np.dtype[Any] = _FLOAT

    @property
    def name(self) -> str:
        return f"array:{self.item.str}"

    @property
    def elements(self) -> Elements:  # type: ignore[override]
        return self.element, self.scalar

    @classmethod
    def from_v3(cls, name: str, configuration: Members) -> None:
        return None  # format 3 has no such name

    def refusal(self, zarr_format: ZarrFormat) -> str | None:
        return _ONLY_2 if zarr_format == 3 else None

    def fill_from_json(
        self, value: Any, zarr_format: ZarrFormat, loc: str, problems: Problems
    ) -> bytes | None:
        if value in ("", []) or (is_integer(value) and value == 0):
            return b""
        problems.add(loc, f"{describe(value)} is not an empty array: '', [] or 0")
        return None

    def fill_to_json(self, fill: bytes, zarr_format: ZarrFormat) -> JSON:
        if fill:
            raise ValueError("the fill value of arrays of arrays has to be empty")
        return ""

    def cast_fill(self, value: Any) -> bytes:
        return b"" if is_integer(value) and value == 0 else self.element(value)

    def element(self, value: Any) -> bytes:
        try:
            array = np.asarray(() if value is None else value, self.item)
        except (ValueError, TypeError, OverflowError) as error:
            raise cannot_store(f"an array of {self.item}", error) from error
        if array.ndim != 1:
            message = f"an element has {array.ndim} axes, where it has to have one"
            raise ArgumentError(message, kind="shape_mismatch")
        return array.tobytes()

    def scalar(self, fill: bytes) -> np.ndarray[Any, Any]:
        return np.frombuffer(fill, self.item).copy()


@register
@dataclass(frozen=True, slots=True)
class Objects(DataType):
    """Objects that a filter of format 2 stores as one document for each chunk.

    Parameters
    ----------
    form : {"json", "msgpack", "pickle"}
        The form of the document.

    Examples
    --------
    >>> Objects(form="json").cast_fill({"a": [1, None]})
    b'{"a":[1,null]}'
    """

    v2_kinds = "O"

    numpy: np.dtype[Any] = OBJECT
    form: Form = "json"

    @property
    def name(self) -> str:
        return "object"

    @property
    def elements(self) -> Elements:  # type: ignore[override]
        return _PACK[self.form], _UNPACK[self.form]

    @classmethod
    def from_v3(cls, name: str, configuration: Members) -> None:
        return None

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> DataType:
        raise ArgumentError(
            "objects can be stored in more than one way: give dtype str or bytes, or the codec "
            "of the objects as object_codec"
        )

    @classmethod
    def from_v2(cls, value: Any, loc: str, problems: Problems) -> None:
        problems.add(loc, "no filter makes bytes of the objects", "missing_member")

    def refusal(self, zarr_format: ZarrFormat) -> str | None:
        return _ONLY_2 if zarr_format == 3 else None

    def fill_from_json(
        self, value: Any, zarr_format: ZarrFormat, loc: str, problems: Problems
    ) -> bytes | None:
        try:
            return _PACK[self.form](value)
        except ArgumentError as error:
            problems.add(loc, str(error))
            return None

    def fill_to_json(self, fill: bytes, zarr_format: ZarrFormat) -> JSON:
        value = _UNPACK[self.form](fill)
        try:
            json.dumps(value)
        except TypeError as error:
            raise ValueError(f"fill value {value!r} cannot be stored: {error}") from error
        return value  # type: ignore[no-any-return]

    def cast_fill(self, value: Any) -> bytes:
        try:
            packed = _PACK[self.form](value)
        except ArgumentError as error:
            raise ValueError(f"{safe_repr(value)} cannot be stored: {error}") from error
        self.fill_to_json(packed, 2)
        return packed

    def element(self, value: Any) -> bytes:
        return _PACK[self.form](value)

    def default_fill(self) -> bytes:
        return self.element(None)

    def scalar(self, fill: bytes) -> Any:
        return _UNPACK[self.form](fill)


def cannot_store(form: str, error: Exception) -> ArgumentError:
    """Return the error for an object that a library cannot encode."""
    error_type = CastError if isinstance(error, TypeError) else ArgumentError
    return error_type(f"an element cannot be stored as {form}: {error}", kind="cannot_cast")


def _pack_json(value: Any) -> bytes:
    """Return an object as JSON."""
    try:
        return json.dumps(value, separators=(",", ":"), default=plain_item).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise cannot_store("JSON", error) from error


def plain_item(value: Any) -> Any:
    """Convert a NumPy scalar or array to plain Python values."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, int):  # MessagePack has integers of at most 64 bits
        raise TypeError(f"it has an integer of {value.bit_length()} bits")
    raise TypeError(f"it has an object of type {type(value).__name__}")


import_msgpack: Final = partial(import_package, "msgpack", codec="msgpack2")
"""Return the package msgpack."""


def _pack_msgpack(value: Any) -> bytes:
    msgpack = import_msgpack()
    try:
        packed: bytes = msgpack.packb(value, use_bin_type=True, default=plain_item)
    except (TypeError, ValueError, OverflowError) as error:
        raise cannot_store("MessagePack", error) from error
    return packed


def _pickle(value: Any) -> bytes:
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except pickle.PicklingError as error:
        raise cannot_store("a pickle", error) from error


def _unpack_msgpack(data: bytes) -> Any:
    return import_msgpack().unpackb(data, raw=False, strict_map_key=False)


# These functions unpickle only data that this process pickled; the codec unpickles stored bytes.
_PACK: Final[dict[Form, Callable[[Any], bytes]]] = {
    "json": _pack_json,
    "msgpack": _pack_msgpack,
    "pickle": _pickle,
}
_UNPACK: Final[dict[Form, Callable[[bytes], Any]]] = {
    "json": json.loads,
    "msgpack": _unpack_msgpack,
    "pickle": pickle.loads,
}
