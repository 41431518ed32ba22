"""The extension point for data types: `DataType`, and the registry of their names.

A data type is a value that knows its stored names in both formats, its NumPy
dtype, and how one item becomes bytes and JSON, which is what fill values need.
One file per family; a family adds itself with `register`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tessarr.registry import Registry

if TYPE_CHECKING:
    from tessarr.problems import Members, Problems
    from tessarr.types import JSON, ZarrFormat

__all__ = ["DataType", "find_family", "find_kind", "register"]


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
    def item_bytes(self) -> int:
        """Bytes of one element."""
        return self.numpy.itemsize

    @property
    def unit_bytes(self) -> int:
        """Bytes of the unit that byte order applies to; 1 where it does not."""
        return self.numpy.itemsize

    @property
    def big_endian(self) -> bool:
        """Whether `numpy` has the big-endian byte order."""
        return self.unit_bytes > 1 and self.numpy == self.numpy.newbyteorder("big")

    def native(self) -> DataType:
        """Return the same data type in native byte order."""
        return self if self.numpy.isnative else type(self)(self.numpy.newbyteorder("="))

    @classmethod
    @abstractmethod
    def from_v3(cls, name: str, configuration: Members) -> DataType | None:
        """Return the data type of format 3 called `name`, or None and a problem."""

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> DataType:
        """Return the data type of a NumPy dtype of one of the family's kinds."""
        return cls(dtype)

    def to_json(self, zarr_format: ZarrFormat) -> JSON:
        """Return the data type as metadata states it."""
        return self.numpy.str if zarr_format == 2 else self.name

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

    def storable_fill(self, fill: bytes, zarr_format: ZarrFormat) -> bytes:
        """Return the fill value that comes back when `fill` is written in `zarr_format`."""
        return fill

    def default_fill(self) -> bytes:
        """Return the fill value of arrays for which none is asked for: zero."""
        return bytes(self.item_bytes)

    def scalar(self, fill: bytes) -> np.generic:
        """Return the bytes of one item as a NumPy scalar."""
        item: np.generic = np.frombuffer(fill, dtype=self.numpy)[0]
        return item


_families: Registry[type[DataType]] = Registry("data type", "tessarr.data_types")
_kinds: dict[str, type[DataType]] = {}


def register(family: type[DataType]) -> type[DataType]:
    """Register a family of data types by its names; a class decorator."""
    for name in family.v3_names:
        _families.add(name, family)
    for kind in family.v2_kinds:
        _kinds[kind] = family
    return family


def find_family(name: str) -> type[DataType] | None:
    """Return the family that has the name `name` in format 3, or None."""
    return _families.find(name)


def find_kind(kind: str) -> type[DataType] | None:
    """Return the family of a NumPy kind, or None."""
    return _kinds.get(kind)
