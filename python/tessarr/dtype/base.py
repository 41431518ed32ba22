"""The extension point for data types: `DataType`, and the registry of their names.

A data type is a value that knows its stored names in both formats, its NumPy
dtype, and how one item becomes bytes and JSON, which is what fill values need.
One file per family; a family adds itself with `register`. The modules of families that
few arrays need are imported when one of their names turns up.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self, TypeAlias, TypeVar

import numpy as np

from tessarr.format.registry import Registry

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
    "is_known",
    "list_type_names",
    "register",
]

MAX_ITEM_BYTES: Final = 2**24
"""The most bytes of one item. A few words of metadata could ask for gigabytes else."""

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
"""The modules of this package that are imported by need, and what their names are like."""

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
"""The modules that are imported by need, by NumPy's kinds."""

OBJECT: Final = np.dtype(object)

Elements: TypeAlias = (
    Literal["text", "bytes"] | tuple[Callable[[Any], bytes], Callable[[bytes], Any]]
)
"""What elements of any length are: text, bytes, or what two functions make bytes of and back."""

_HANDLE_BYTES: Final = 16
"""Where elements have any length, the engine's items say where they are."""


@dataclass(frozen=True, slots=True)
class DataType(ABC):
    """What the elements of an array are.

    Parameters
    ----------
    numpy : numpy.dtype
        The dtype of results. Its byte order is the native one, except in arrays
        of format 2 that store the other one.
    """

    v3_names: ClassVar[tuple[str, ...]] = ()
    v2_names: ClassVar[tuple[str, ...]] = ()  # those of them that format 2 has for typestrings
    """The names of the family in format 3."""
    v2_kinds: ClassVar[str] = ""
    """The NumPy kinds of the family, which format 2 uses: ``"iu"``."""

    numpy: np.dtype[Any]

    def __str__(self) -> str:
        return self.name

    @property
    @abstractmethod
    def name(self) -> str:
        """The name in format 3."""

    @property
    def elements(self) -> Elements | None:
        """What elements are that have any length; None where all have the same."""
        return None

    @property
    def item_bytes(self) -> int:
        """Bytes of one item of the engine: of one element, unless these have any length."""
        return self.numpy.itemsize if self.elements is None else _HANDLE_BYTES

    @property
    def unit_bytes(self) -> int:
        """Bytes of the unit that byte order applies to.

        1 where it does not apply, and 0 where an item has units of several sizes.
        """
        return self.numpy.itemsize if self.elements is None else 1

    @property
    def big_endian(self) -> bool:
        """Whether `numpy` has the big-endian byte order."""
        return self.unit_bytes != 1 and self.numpy == self.numpy.newbyteorder("big")

    @property
    def stray_bits(self) -> bool:
        """Whether stored items may hold bits that mean nothing, which `canonical` settles."""
        return False

    @property
    def has_missing(self) -> bool:
        """Whether elements may be missing, so that masked elements need no fill value."""
        return False

    @property
    def serializer(self) -> str:
        """The name of the codec from arrays to bytes that alone takes such elements, or ""."""
        return ""

    def ordered(self, order: Literal["native", "little", "big"]) -> Self:
        """Return the same data type in another byte order."""
        dtype = self.numpy.newbyteorder(order)
        return self if dtype == self.numpy else replace(self, numpy=dtype)

    def swapped(self, data: BytesLike) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return whole items with the bytes of every unit in reverse order."""
        units = np.frombuffer(data, np.uint8).reshape(-1, self.unit_bytes)
        return np.ascontiguousarray(units[:, ::-1]).reshape(-1)

    def to_numpy_input(self, value: object) -> object:
        """Return what a user gives for elements as something that NumPy makes `numpy` of."""
        return value

    def canonical(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return elements with the bits that mean nothing as NumPy wants them."""
        return array

    def refusal(self, zarr_format: ZarrFormat) -> str | None:
        """Return why `zarr_format` has no such type, or None where it has."""
        return None

    def in_format(self, zarr_format: ZarrFormat) -> Self:
        """Return the same data type with the NumPy dtype that arrays of a format have."""
        return self

    def of_kind(self, kind: str) -> Self:
        """Return the same data type with another NumPy dtype, if there is a choice."""
        return self

    @classmethod
    @abstractmethod
    def from_v3(cls, name: str, configuration: Members) -> DataType | None:
        """Return the data type of format 3 called `name`, or None and a problem."""

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> DataType:
        """Return the data type of a NumPy dtype of one of the family's kinds."""
        return cls(dtype)

    @classmethod
    def from_v2(cls, value: Any, loc: str, problems: Problems) -> DataType | None:
        """Return the data type of a valid typestring of format 2, or None and a problem."""
        return cls.from_numpy(np.dtype(value))

    def to_json(self, zarr_format: ZarrFormat) -> JSON:
        """Return the data type as metadata states it."""
        return self.numpy.str if zarr_format == 2 else self.name

    def is_packed(self, value: Any) -> bool:
        """Tell whether a fill value of metadata is bytes in the byte order of the codec."""
        return False

    @abstractmethod
    def fill_from_json(
        self, value: Any, zarr_format: ZarrFormat, loc: str, problems: Problems
    ) -> bytes | None:
        """Return a fill value of metadata as the bytes of one item in the order of `numpy`.

        None, and a problem at `loc`, where `value` is not a fill value of this type.
        """

    @abstractmethod
    def fill_to_json(self, fill: bytes, zarr_format: ZarrFormat) -> JSON:
        """Return the bytes of one item as metadata states a fill value."""

    @abstractmethod
    def cast_fill(self, value: Any) -> bytes:
        """Return a user's fill value as the bytes of one item.

        Raises
        ------
        ValueError
            Where the value is not exactly one of this type.
        """

    def element(self, value: Any) -> bytes:
        """Return the bytes of a value, as `cast_fill`, but of what is written as an element."""
        return self.cast_fill(value)

    def storable_fill(self, fill: bytes, zarr_format: ZarrFormat) -> bytes:
        """Return the fill value that comes back when `fill` is written in `zarr_format`."""
        return fill

    def default_fill(self) -> bytes:
        """Return the fill value of arrays for which none is asked for: zero."""
        return bytes(self.item_bytes)

    def scalar(self, fill: bytes) -> Any:
        """Return the bytes of one item as what indexing gives for it, such as a NumPy scalar."""
        return np.frombuffer(fill, dtype=self.numpy)[0]

    def single(self, fill: bytes) -> np.ndarray[Any, Any]:
        """Return the bytes of one item as an array of rank 0."""
        if self.elements is None:
            return np.frombuffer(fill, self.numpy)[0:1].reshape(())
        # An element may be an array itself, which only an integer index takes for one.
        single = np.empty(1, self.numpy)
        single[0] = self.scalar(fill)
        return single.reshape(())


F = TypeVar("F", bound=type[DataType])

_families: Registry[type[DataType]] = Registry("data type", "tessarr.data_types")
_kinds: dict[str, type[DataType]] = {}


def register(family: F) -> F:
    """Register a family of data types by its names; a class decorator."""
    for name in family.v3_names:
        _families.add(name, family)
    for kind in family.v2_kinds:
        _kinds[kind] = family
    return family


def list_type_names() -> list[str]:
    """Return the names of all data types in format 3; their modules are imported, for messages."""
    for module in _MODULES:
        import_module(f"tessarr.dtype.{module}")
    return list(_families.names())


def is_known(name: str) -> bool:
    """Tell whether `name` is one of Tessarr's own names in format 3, or registered."""
    _import_family(name)
    return name in _families


def find_family(name: str) -> type[DataType] | None:
    """Return the family that has the name `name` in format 3, or None."""
    _import_family(name)
    return _families.find(name)


def find_kind(kind: str) -> type[DataType] | None:
    """Return the family of a NumPy kind, or None."""
    if kind not in _kinds and kind in _KINDS:
        import_module(f"tessarr.dtype.{_KINDS[kind]}")
    return _kinds.get(kind)


def _import_family(name: str) -> None:
    if name not in _families:
        for module, pattern in _MODULES.items():
            if re.fullmatch(pattern, name):
                import_module(f"tessarr.dtype.{module}")
