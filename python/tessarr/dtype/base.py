"""The base class of data types, and the registry of their names: an extension point.

A data type has its names in both formats, its NumPy dtype, and conversions of fill values to bytes
and JSON. Each family has its own module and calls `register`. The modules of rare families are
imported when a document or a user names one of their types.
"""

from __future__ import annotations

import binascii
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self, TypeAlias, TypeVar

import numpy as np

from tessarr.format.registry import Registry
from tessarr.format.validation import describe

if TYPE_CHECKING:
    from tessarr.format.validation import Members, Problems
    from tessarr.types import JSON, BytesLike, ZarrFormat

__all__ = [
    "MAX_ITEM_BYTES",
    "OBJECT",
    "DataType",
    "Elements",
    "find_family",
    "find_kind",
    "find_numpy_family",
    "from_base64",
    "is_known",
    "list_type_names",
    "register",
    "to_base64",
]

MAX_ITEM_BYTES: Final = 2**24
"""The largest item in bytes. It limits the memory that a metadata document can request."""

_MODULES: Final = {
    "complex": "complex.*",
    "optional": r"zarrs\.optional",
    "raw": "raw_bytes",
    "small": "bfloat16|float[0-9]_.*|u?int[24]",
    "struct": "struct(ured)?",
    "temporal": r"numpy\..*",
    "text": "fixed_length_utf32|null_terminated_bytes",
    "variable": "string|(variable_length_)?bytes",
}
"""The modules that are imported on demand, with patterns of the names of their types."""

_KINDS: Final = {
    "c": "complex",
    "V": "raw",
    "U": "text",
    "S": "text",
    "M": "temporal",
    "m": "temporal",
    "T": "variable",
    "O": "objects",
}
"""The modules that are imported on demand, by NumPy kind."""

_ML_DTYPES: Final = {"bcomplex32": "complex_bfloat16", "complex32": "complex_float16"}
"""Names of types of the package ml_dtypes with their names in format 3, if these differ."""

OBJECT: Final = np.dtype(object)

Elements: TypeAlias = (
    Literal["text", "bytes"] | tuple[Callable[[Any], bytes], Callable[[bytes], Any]]
)
"""Elements of any length: text, bytes, or objects that two functions encode and decode."""

_HANDLE_BYTES: Final = 16
"""The size of the engine's handle for an element of any length."""


@dataclass(frozen=True, slots=True)
class DataType(ABC):
    """The base class of data types.

    Parameters
    ----------
    numpy : numpy.dtype
        The dtype of results. Its byte order is native, unless an array of format 2 stores the
        other order.
    """

    v3_names: ClassVar[tuple[str, ...]] = ()
    """The names of the family in format 3."""
    v2_names: ClassVar[tuple[str, ...]] = ()
    """The names of format 3 that format 2 uses in place of typestrings."""
    v2_kinds: ClassVar[str] = ""
    """The NumPy kinds of the family, such as ``"iu"``, which format 2 uses."""
    elements: ClassVar[Elements | None] = None
    """The form of elements of any length; None if all elements have the same length."""
    has_missing: ClassVar[bool] = False
    """Whether elements may be missing, so that masked elements need no fill value."""
    serializer: ClassVar[str] = ""
    """The name of the only codec from arrays to bytes for such elements, or ""."""

    numpy: np.dtype[Any]

    def __str__(self) -> str:
        return self.name

    @property
    @abstractmethod
    def name(self) -> str:
        """The name in format 3."""

    @property
    def item_bytes(self) -> int:
        """The size of an element in bytes; for elements of any length, of the engine's handle."""
        return self.numpy.itemsize if self.elements is None else _HANDLE_BYTES

    @property
    def unit_bytes(self) -> int:
        """The size in bytes of the unit to which the byte order applies.

        1 if the byte order does not matter, and 0 if an item has units of several sizes.
        """
        return self.numpy.itemsize if self.elements is None else 1

    @property
    def big_endian(self) -> bool:
        """Whether `numpy` has the big-endian byte order."""
        return self.unit_bytes != 1 and self.numpy == self.numpy.newbyteorder("big")

    @property
    def stray_bits(self) -> bool:
        """Whether stored items may contain meaningless bits, which `canonical` clears."""
        return False

    def ordered(self, order: Literal["native", "little", "big"]) -> Self:
        """Return the same data type in another byte order."""
        dtype = self.numpy.newbyteorder(order)
        return self if dtype == self.numpy else replace(self, numpy=dtype)

    def swapped(self, data: BytesLike) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return items with the bytes of each unit in reverse order."""
        units = np.frombuffer(data, np.uint8).reshape(-1, self.unit_bytes)
        return np.ascontiguousarray(units[:, ::-1]).reshape(-1)

    def to_numpy_input(self, value: object) -> object:
        """Return a user's elements in a form that NumPy converts to `numpy`."""
        return value

    def canonical(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return elements with meaningless bits cleared."""
        return array

    def refusal(self, zarr_format: ZarrFormat) -> str | None:
        """Return the reason why `zarr_format` lacks the type, or None if it has the type."""
        return None

    def in_format(self, zarr_format: ZarrFormat) -> Self:
        """Return the data type with the NumPy dtype for arrays of a format."""
        return self

    def of_kind(self, kind: str) -> Self:
        """Return the data type with another NumPy dtype, if there is a choice."""
        return self

    @classmethod
    @abstractmethod
    def from_v3(cls, name: str, configuration: Members) -> DataType | None:
        """Return the data type called `name` in format 3; add a problem if invalid."""

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> DataType:
        """Return the data type of a NumPy dtype of one of the family's kinds."""
        return cls(dtype)

    @classmethod
    def from_v2(cls, value: Any, loc: str, problems: Problems) -> DataType | None:
        """Return the data type of a valid typestring; add a problem if unsupported."""
        return cls.from_numpy(np.dtype(value))

    def to_json(self, zarr_format: ZarrFormat) -> JSON:
        """Return the JSON of the data type."""
        if zarr_format == 3:
            return self.name
        return self.numpy.str if self.elements is None else "|O"

    def is_packed(self, value: Any) -> bool:
        """Tell whether a fill value in metadata consists of bytes in the codec's byte order."""
        return False

    @abstractmethod
    def fill_from_json(
        self, value: Any, zarr_format: ZarrFormat, loc: str, problems: Problems
    ) -> bytes | None:
        """Return a fill value in metadata as the bytes of one item in the byte order of `numpy`.

        If `value` is not a fill value of this type, add a problem at `loc` and return None.
        """

    @abstractmethod
    def fill_to_json(self, fill: bytes, zarr_format: ZarrFormat) -> JSON:
        """Return the JSON of a fill value, which `fill` has as bytes of one item."""

    @abstractmethod
    def cast_fill(self, value: Any) -> bytes:
        """Return a user's fill value as the bytes of one item.

        Raises
        ------
        ValueError
            If this type cannot represent the value exactly.
        """

    def element(self, value: Any) -> bytes:
        """Return the bytes of a value that is written as an element, in the form of `cast_fill`."""
        return self.cast_fill(value)

    def storable_fill(self, fill: bytes, zarr_format: ZarrFormat) -> bytes:
        """Return the fill value that a reader gets after `fill` was written in `zarr_format`."""
        return fill

    def default_fill(self) -> bytes:
        """Return the default fill value: zero, or an empty element."""
        return bytes(self.item_bytes) if self.elements is None else b""

    def scalar(self, fill: bytes) -> Any:
        """Return the bytes of one item as the result of indexing, such as a NumPy scalar."""
        return np.frombuffer(fill, dtype=self.numpy)[0]

    def single(self, fill: bytes) -> np.ndarray[Any, Any]:
        """Return the bytes of one item as an array of rank 0."""
        if self.elements is None:
            return np.frombuffer(fill, self.numpy)[0:1].reshape(())
        # An element may be an array; assignment by an integer index treats it as one object.
        single = np.empty(1, self.numpy)
        single[0] = self.scalar(fill)
        return single.reshape(())


F = TypeVar("F", bound=type[DataType])

_families: Registry[type[DataType]] = Registry("data type", "tessarr.data_types")
_kinds: dict[str, type[DataType]] = {}


def register(family: F) -> F:
    """Register a family of data types by its names; a class decorator."""
    for name in family.v3_names:
        _families[name] = family
    for kind in family.v2_kinds:
        _kinds[kind] = family
    return family


def list_type_names() -> list[str]:
    """Import all modules and return the names of all data types in format 3, for messages."""
    for module in _MODULES:
        import_module(f"tessarr.dtype.{module}")
    return list(_families.names())


def is_known(name: str) -> bool:
    """Tell whether `name` is a registered name or one of Tessarr's own names in format 3.

    The function imports the module of one of Tessarr's own names.
    """
    if name not in _families:
        for module, pattern in _MODULES.items():
            if re.fullmatch(pattern, name):
                import_module(f"tessarr.dtype.{module}")
    return name in _families


def find_family(name: str) -> type[DataType] | None:
    """Return the family with a name in format 3, or None."""
    return _families[name] if is_known(name) else _families.find(name)


def find_numpy_family(dtype: np.dtype[Any]) -> type[DataType] | None:
    """Return the family of a NumPy dtype, or None."""
    if dtype.subdtype is not None:
        return None
    if dtype.names is not None:
        return find_family("struct")
    if dtype.isbuiltin == 2:  # a type of another package, whose kind has no meaning
        name = dtype.type.__name__
        return find_family(_ML_DTYPES.get(name, name))
    return find_kind(dtype.kind)


def find_kind(kind: str) -> type[DataType] | None:
    """Return the family of a NumPy kind, or None."""
    if kind not in _kinds and kind in _KINDS:
        import_module(f"tessarr.dtype.{_KINDS[kind]}")
    return _kinds.get(kind)


def from_base64(
    value: str, item_bytes: int, loc: str, problems: Problems, *, pad: bool = False
) -> bytes | None:
    r"""Return the bytes of one item; if invalid, add a problem and return None.

    Parameters
    ----------
    value : str
        The text.
    item_bytes : int
        The bytes of one item.
    loc : str
        The JSON pointer of `value`.
    problems : Problems
        Collects the faults.
    pad : bool
        Whether zeros complete an item that is too short, which is a fault otherwise.

    Examples
    --------
    >>> from tessarr.format.validation import Problems
    >>> from_base64("YWI=", 3, "", Problems(), pad=True)
    b'ab\x00'
    """
    try:
        item = binascii.a2b_base64(value, strict_mode=True)
    except (binascii.Error, ValueError):
        problems.add(loc, f"{describe(value)} is not base64")
        return None
    if len(item) == item_bytes or (pad and len(item) < item_bytes):
        return item.ljust(item_bytes, b"\0")
    problems.add(loc, f"{len(item)} bytes instead of {item_bytes}")
    return None


def to_base64(item: bytes) -> str:
    """Return the base64 of one item.

    Examples
    --------
    >>> to_base64(b"ab")
    'YWI='
    """
    return binascii.b2a_base64(item, newline=False).decode("ascii")
