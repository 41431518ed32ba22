"""Key ranges and results of reads and writes."""

from __future__ import annotations

from typing import Any, Self

from tessarr._engine import (
    KvStoreBase,
    ReadResult,
    StoreLocation,
    TimestampedStorageGeneration,
    as_bytes,
    as_text,
    join_path,
)
from tessarr.tensorstore.json.pickling import copy_attributes, reduce_object, restore_object

__all__ = [
    "KeyRange",
    "KvStoreBase",
    "ReadResult",
    "StoreLocation",
    "TimestampedStorageGeneration",
    "as_bytes",
    "as_text",
    "join_path",
]


class KeyRange:
    """All keys from `inclusive_min` to before `exclusive_max`, in the order of their bytes.

    Parameters
    ----------
    inclusive_min : str or bytes
        The first key.
    exclusive_max : str or bytes
        The first key after the range; an empty key means no end.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> ts.KvStore.KeyRange("x", "y"), ts.KvStore.KeyRange("y", "x").empty
    (KvStore.KeyRange(b'x', b'y'), True)
    """

    __slots__ = ("__weakref__", "_max", "_min")
    __hash__ = None  # type: ignore[assignment]  # a range is mutable

    def __init__(self, inclusive_min: str | bytes = "", exclusive_max: str | bytes = "") -> None:
        self._min = as_bytes(inclusive_min, "a key")
        self._max = as_bytes(exclusive_max, "a key")

    @property
    def inclusive_min(self) -> bytes:
        """The first key.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.KvStore.KeyRange("x", "y").inclusive_min
        b'x'
        """
        return self._min

    @inclusive_min.setter
    def inclusive_min(self, key: str | bytes) -> None:
        self._min = as_bytes(key, "a key")

    @property
    def exclusive_max(self) -> bytes:
        """The first key after the range; an empty key means no end.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.KvStore.KeyRange("x").exclusive_max
        b''
        """
        return self._max

    @exclusive_max.setter
    def exclusive_max(self, key: str | bytes) -> None:
        self._max = as_bytes(key, "a key")

    @property
    def empty(self) -> bool:
        """Whether the range contains no key.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.KvStore.KeyRange("x", "x").empty, ts.KvStore.KeyRange().empty
        (True, False)
        """
        return bool(self._max) and self._min >= self._max

    def copy(self) -> Self:
        """Return an equal copy.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> chosen = ts.KvStore.KeyRange("x", "y")
        >>> chosen.copy() == chosen, chosen.copy() is chosen
        (True, False)
        """
        new = object.__new__(type(self))
        new._min, new._max = self._min, self._max
        return new

    def __copy__(self) -> Self:
        return copy_attributes(self.copy(), self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copy_attributes(self.copy(), self, memo)

    def __reduce__(self) -> tuple[Any, ...]:
        return reduce_object(self, KeyRange, self._min, self._max)

    def __setstate__(self, state: Any) -> None:
        restore_object(self, KeyRange, state)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KeyRange):
            return NotImplemented
        return self._min == other._min and self._max == other._max

    @classmethod
    def _below(cls, start: str, chosen: KeyRange | None = None) -> KeyRange:
        """Return the range of keys with the prefix `start`; `chosen` limits the keys after it."""
        first = start.encode()
        if chosen is not None and chosen._max:
            return cls(first + chosen._min, first + chosen._max)
        after = first[:-1] + bytes([first[-1] + 1]) if first else b""  # no text ends in 255
        return cls(first if chosen is None else first + chosen._min, after)

    def _contains(self, key: bytes) -> bool:
        return self._min <= key and (not self._max or key < self._max)

    def __repr__(self) -> str:
        return f"KvStore.KeyRange({self._min!r}, {self._max!r})"
