"""Elements of any length: the codecs ``vlen-utf8``, ``vlen-bytes`` and ``vlen-array``.

The first two are codecs of both formats (Zarr extensions; numcodecs), the last one of format 2.
Their layout is a count, then a length and the bytes of each element; all numbers are u32 and
little-endian. The engine has its own implementation; this one is for codecs in Python.
"""

from __future__ import annotations

import itertools
import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr.codec.base import ArrayBytesCodec, deliver, register_codec
from tessarr.codec.parameters import number_type
from tessarr.dtype.base import OBJECT
from tessarr.dtype.objects import Ragged
from tessarr.dtype.variable import Text, VariableBytes
from tessarr.errors import ArgumentError, DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tessarr.codec.base import ArraySpec
    from tessarr.dtype import DataType
    from tessarr.format.validation import Problems
    from tessarr.types import BytesLike, Shape, ZarrFormat

__all__ = [
    "ElementsCodec",
    "VLenArray",
    "VLenBytes",
    "VLenUTF8",
    "from_document",
    "from_objects",
    "join_elements",
    "split_elements",
    "to_document",
    "to_object_array",
    "to_objects",
]


def join_elements(elements: Iterable[bytes]) -> bytes:
    """Return the layout of elements.

    Examples
    --------
    >>> join_elements([b"ab", b""]).hex(" ", -4)
    '02000000 02000000 61620000 0000'
    """
    listed = list(elements)
    parts = [struct.pack("<I", len(listed))]
    for element in listed:
        parts += (struct.pack("<I", len(element)), element)
    return b"".join(parts)


def split_elements(data: BytesLike, count: int | None = None) -> list[bytes]:
    """Return the elements of a layout, `count` of them.

    Raises
    ------
    DataError
        ``wrong_size``, if the count differs, or if bytes are missing or left over.
    """
    view = np.frombuffer(data, np.uint8).data
    stated_count = _read_word(view, 0)
    if count is not None and stated_count != count:
        raise DataError(f"{stated_count} elements instead of {count}", kind="wrong_size")
    elements, position = [], 4
    for _ in range(stated_count):
        start = position + 4
        position = start + _read_word(view, position)
        if position > view.nbytes:
            raise DataError(f"an element reaches past the end, {view.nbytes}", kind="wrong_size")
        elements.append(bytes(view[start:position]))
    if position != view.nbytes:
        message = f"{view.nbytes - position} bytes follow the last element"
        raise DataError(message, kind="wrong_size")
    return elements


def _read_word(view: memoryview, position: int) -> int:
    if position + 4 > view.nbytes:
        raise DataError(f"a number reaches past the end, {view.nbytes}", kind="wrong_size")
    number: int = struct.unpack_from("<I", view, position)[0]
    return number


def from_objects(array: np.ndarray[Any, Any], data_type: DataType) -> bytes:
    """Return the layout of an array of objects, in C order.

    Raises
    ------
    ArgumentError
        ``cannot_cast``, if an object is not an element of `data_type`.
    """
    try:
        return join_elements(data_type.element(value) for value in array.reshape(-1))
    except ValueError as error:
        raise ArgumentError(f"cannot store the elements: {error}", kind="cannot_cast") from error


def to_objects(
    data: BytesLike, data_type: DataType, shape: Shape | None = None
) -> np.ndarray[Any, Any]:
    """Return the array of objects of a layout, by default of one axis.

    Raises
    ------
    DataError
        If the layout is damaged, or if an element does not fit `data_type`.
    """
    elements = split_elements(data, None if shape is None else math.prod(shape))
    try:
        return to_object_array([data_type.scalar(element) for element in elements], shape)
    except ValueError as error:
        raise DataError(str(error)) from error


def to_object_array(values: Sequence[Any], shape: Shape | None = None) -> np.ndarray[Any, Any]:
    """Return an array of objects of any class; by default with one axis."""
    array = np.fromiter(values, OBJECT, len(values))
    return array if shape is None else array.reshape(shape)


def to_document(array: np.ndarray[Any, Any]) -> list[Any]:
    """Return numcodecs' document of an array of objects: items, type and shape.

    Examples
    --------
    >>> to_document(np.array([["a"], ["b"]], object))
    [['a'], ['b'], '|O', (2, 1)]
    """
    items: list[Any] = array.tolist() if array.ndim else [array[()]]
    return [*items, "|O", array.shape]


def from_document(document: Any, shape: Shape | None = None) -> np.ndarray[Any, Any]:
    """Return the array of objects in a document of numcodecs.

    Raises
    ------
    DataError
        If the document is invalid, or if its number of items does not fit `shape`.
    """
    stated_shape = (
        document[-1] if isinstance(document, list | tuple) and len(document) >= 2 else None
    )
    if not isinstance(stated_shape, list | tuple) or not all(type(n) is int for n in stated_shape):
        raise DataError("the document is not a list of items, their type and shape")
    items = list(document[:-2])
    # Objects may be lists, so the stated shape determines the depth of the array.
    for axis, length in enumerate(stated_shape):
        if axis:
            if not all(isinstance(row, list | tuple) and len(row) == length for row in items):
                raise DataError(
                    f"the items do not have the shape {stated_shape} that the document states"
                )
            items = list(itertools.chain.from_iterable(items))
    shape = tuple(stated_shape) if shape is None else shape
    if len(items) != math.prod(shape) or (stated_shape and math.prod(stated_shape) != len(items)):
        message = f"{len(items)} items of shape {stated_shape} instead of {shape}"
        raise DataError(message, kind="wrong_size")
    return to_object_array(items, shape)


class ElementsCodec(ArrayBytesCodec):
    """The base class of codecs whose encoding is the layout."""

    __slots__ = ()
    takes_any_length = True

    def object_type(self) -> DataType:
        raise NotImplementedError

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        expected = self.object_type()
        if spec.data_type.elements != expected.elements:
            message = f"codec {self.name!r} takes {expected.name}, not {spec.data_type.name}"
            problems.add(loc, message, "mismatch")

    def engine_array(self, spec: ArraySpec, zarr_format: ZarrFormat) -> dict[str, object] | None:
        return {"kind": "vlen", "is_text": spec.data_type.elements == "text", "unit_bytes": 1}

    def encode(self, array: np.ndarray[Any, Any], /) -> bytes:
        return from_objects(np.asarray(array, object), self.object_type())

    def decode(
        self, data: BytesLike, spec: ArraySpec | None = None, /, out: Any = None
    ) -> np.ndarray[Any, Any]:
        """Decode to elements in the shape of `spec`; without `spec`, to one axis or into `out`."""
        objects = to_objects(data, self.object_type(), spec.shape if spec else None)
        return np.asarray(deliver(objects, out))


@register_codec
@dataclass(frozen=True, slots=True)
class VLenUTF8(ElementsCodec):
    """Text, as UTF-8.

    Examples
    --------
    >>> import numpy as np
    >>> VLenUTF8().encode(np.array(["é"], object)).hex(" ", -4)
    '01000000 02000000 c3a9'
    """

    name = "vlen-utf8"

    def object_type(self) -> DataType:
        return Text()


@register_codec
@dataclass(frozen=True, slots=True)
class VLenBytes(ElementsCodec):
    r"""Bytes of any length.

    Examples
    --------
    >>> import numpy as np
    >>> VLenBytes().decode(bytes.fromhex("01000000 02000000 c3a9"))
    array([b'\xc3\xa9'], dtype=object)
    """

    name = "vlen-bytes"

    def object_type(self) -> DataType:
        return VariableBytes()


@register_codec
@dataclass(frozen=True, slots=True)
class VLenArray(ElementsCodec):
    """One-dimensional arrays of any length with items of one type. Format 2 only.

    Parameters
    ----------
    dtype : str
        The NumPy type of the items.

    Examples
    --------
    >>> VLenArray("<i2").decode(bytes.fromhex("01000000 04000000 01000200"))[0]
    array([1, 2], dtype=int16)
    """

    name = "vlen-array"
    dtype: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", number_type("dtype", self.dtype, "biufcmMSU").str)

    def object_type(self) -> DataType:
        return Ragged(item=np.dtype(self.dtype))

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        if spec.data_type != self.object_type():
            message = f"codec {self.name!r} makes arrays of {self.dtype}, not {spec.data_type.name}"
            problems.add(loc, message, "mismatch")

    def engine_array(self, spec: ArraySpec, zarr_format: ZarrFormat) -> dict[str, object]:
        unit_bytes = np.dtype(self.dtype).itemsize
        return {"kind": "vlen", "is_text": False, "unit_bytes": unit_bytes}
