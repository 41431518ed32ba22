"""Store locations, key ranges, and results of reads and writes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias

from tessarr._engine import UnreadValue, digest_generation
from tessarr._safe_repr import safe_repr
from tessarr.format.utf8 import as_bytes
from tessarr.tensorstore.json.parse import as_float, check_class
from tessarr.tensorstore.json.pickling import Picklable

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.store import Store

__all__ = [
    "KeyRange",
    "ReadResult",
    "StoreLocation",
    "TimestampedStorageGeneration",
    "join_path",
    "read_versioned",
    "start_read",
]

_State: TypeAlias = Literal["unspecified", "missing", "value"]

_Parts: TypeAlias = tuple[_State, bytes, bytes | int | None, float]
"""The state, the value, the source of the generation, and the time of a read."""

_Span: TypeAlias = tuple[int, int | None]
"""The first byte, and the byte after the last one."""

_STATES: Final = ("unspecified", "missing", "value")
_REPLACED: Final = b"\1"
"""The generation of a value that another write replaced: no value has it."""


def join_path(path: str, component: str) -> str:
    """Join a path and a component with one slash.

    Examples
    --------
    >>> join_path("a/", "b"), join_path("a", "b"), join_path("", "b")
    ('a/b', 'a/b', 'b')
    """
    if not path or not component:
        return path or component
    slash = "" if path.endswith("/") or component.startswith("/") else "/"
    return f"{path}{slash}{component}"


@dataclass(frozen=True, slots=True, eq=False)
class StoreLocation:
    """The location of the keys of a key-value store.

    Parameters
    ----------
    store
        The store that contains the keys.
    prefix
        The prefix of the keys in the store.
    strip_slash
        Whether to remove a slash at the beginning of the key with its path.
    read_only
        Whether the location rejects listings and changes.
    """

    store: Store
    prefix: str = ""
    strip_slash: bool = False
    read_only: bool = False

    def with_prefix(self, path: str) -> StoreLocation:
        """Return the location of keys that begin with a path."""
        return replace(self, prefix=self.prefix + path)

    def key(self, path: str) -> str:
        """Return the key in the store."""
        key = self.prefix + path
        return key[1:] if self.strip_slash and key.startswith("/") else key


class TimestampedStorageGeneration(Picklable):
    """The generation of a key at a time.

    Parameters
    ----------
    generation : str or bytes
        Equal generations mean equal values; empty: unknown.
    time : float
        The time at which the key had the generation, in seconds since 1970.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> ts.KvStore.TimestampedStorageGeneration("x", 5)
    KvStore.TimestampedStorageGeneration(b'x', 5.000000)
    """

    __slots__ = ("__weakref__", "_generation", "_time")
    __hash__ = None  # type: ignore[assignment]  # a stamp is mutable

    def __init__(self, generation: str | bytes = "", time: float = -inf) -> None:
        self._generation, self._time = as_bytes(generation, "a generation"), as_float(time, "time")

    @property
    def generation(self) -> bytes:
        """Equal generations mean equal values; empty: unknown.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.KvStore.TimestampedStorageGeneration("x", 5).generation
        b'x'
        """
        return self._generation

    @generation.setter
    def generation(self, generation: str | bytes) -> None:
        self._generation = as_bytes(generation, "a generation")

    @property
    def time(self) -> float:
        """The time at which the key had the generation, in seconds since 1970.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.KvStore.TimestampedStorageGeneration("x", 5).time
        5.0
        """
        return self._time

    @time.setter
    def time(self, time: float) -> None:
        self._time = as_float(time, "time")

    def _arguments(self) -> tuple[bytes, float]:
        return self._generation, self._time

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TimestampedStorageGeneration):
            return NotImplemented
        return self._time == other._time and self._generation == other._generation

    def __repr__(self) -> str:
        return f"KvStore.TimestampedStorageGeneration({self._generation!r}, {self._time:.6f})"


class ReadResult(Picklable):
    """The result of a read.

    Parameters
    ----------
    state : {"unspecified", "missing", "value"}
        Whether the key has a value. Unspecified: it equals the value that the reader has.
    value : str or bytes
        The value.
    stamp : TimestampedStorageGeneration
        The generation of the value.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> ts.KvStore.ReadResult("value", "x").value
    b'x'
    """

    __slots__ = ("__weakref__", "_stamp", "_state", "_value")

    def __init__(
        self,
        state: _State = "unspecified",
        value: str | bytes = "",
        stamp: TimestampedStorageGeneration | None = None,
    ) -> None:
        self._state: _State = _check_state(state)
        self._value = as_bytes(value, "a value")
        self._stamp: TimestampedStorageGeneration | Callable[[], TimestampedStorageGeneration] = (
            check_class(stamp, TimestampedStorageGeneration, "stamp")
            or TimestampedStorageGeneration()
        )

    @property
    def state(self) -> _State:
        """Whether the key has a value.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.KvStore.open("memory://").result().read("a").result().state
        'missing'
        """
        return self._state

    @state.setter
    def state(self, state: _State) -> None:
        self._state = _check_state(state)

    @property
    def value(self) -> bytes:
        """The value.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> store = ts.KvStore.open("memory://").result()
        >>> store["a"] = b"abc"
        >>> store.read("a", byte_range=slice(1, None)).result().value
        b'bc'
        """
        return self._value

    @value.setter
    def value(self, value: str | bytes) -> None:
        self._value = as_bytes(value, "a value")

    @property
    def stamp(self) -> TimestampedStorageGeneration:
        """The generation of the value.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> store = ts.KvStore.open("memory://").result()
        >>> written = store.write("a", b"abc").result()
        >>> store.read("a").result().stamp.generation == written.generation
        True
        """
        stamp = self._stamp
        if not isinstance(stamp, TimestampedStorageGeneration):
            stamp = self._stamp = stamp()
        return stamp

    @stamp.setter
    def stamp(self, stamp: TimestampedStorageGeneration) -> None:
        if not isinstance(stamp, TimestampedStorageGeneration):
            raise TypeError(f"stamp: {safe_repr(stamp)} is no TimestampedStorageGeneration")
        self._stamp = stamp

    def _arguments(self) -> tuple[str, bytes, TimestampedStorageGeneration]:
        return self._state, self._value, self.stamp

    def __repr__(self) -> str:
        state, value, stamp = self._state, self._value, self.stamp
        return f"KvStore.ReadResult(state={state!r}, value={value!r}, stamp={stamp!r})"


def _check_state(state: object) -> Any:
    if isinstance(state, str) and state in _STATES:
        return state
    raise TypeError(f"a state is one of {', '.join(_STATES)}, not {safe_repr(state)}")


def read_versioned(
    store: Store, key: str, known: bytes | None = None, byte_range: _Span | None = None
) -> ReadResult:
    """Read a key of a store with its generation."""
    return _build_result(store, key, store.read_versioned(key, known, byte_range))


def start_read(
    store: Store, key: str, known: bytes | None, byte_range: _Span | None, max_bytes: int | None
) -> ReadResult | Callable[[], ReadResult]:
    """Read a key like `read_versioned`, or return a function that reads more than `max_bytes`."""
    parts = store.read_versioned(key, known, byte_range, max_bytes)
    if isinstance(parts, UnreadValue):
        return lambda: _build_result(store, key, parts.read())
    return _build_result(store, key, parts)


def _build_result(store: Store, key: str, parts: _Parts) -> ReadResult:
    """Return a result that computes the digest of a value on first access."""
    state, value, source, time = parts
    result: ReadResult = object.__new__(ReadResult)
    result._state, result._value = state, value
    if isinstance(source, bytes):
        result._stamp = TimestampedStorageGeneration(source, time)
    elif source is None:
        result._stamp = lambda: TimestampedStorageGeneration(digest_generation(value), time)
    else:
        result._stamp = partial(_digest_whole, store, key, value, source)
    return result


def _digest_whole(store: Store, key: str, part: bytes, offset: int) -> TimestampedStorageGeneration:
    """Return the stamp of the value that contains a part at an offset."""
    state, whole, _, time = store.read_versioned(key)
    is_same = state == "value" and whole.startswith(part, offset)
    return TimestampedStorageGeneration(digest_generation(whole) if is_same else _REPLACED, time)


class KeyRange(Picklable):
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

    def _arguments(self) -> tuple[bytes, bytes]:
        return self._min, self._max

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
