"""What reading and writing of keys gives and takes: ranges of keys, states, values."""

from __future__ import annotations

from typing import Any, ClassVar, Final, Literal, TypeAlias

__all__ = ["MISSING", "KeyRange", "ReadResult", "State", "TimestampedStorageGeneration", "as_bytes"]

MISSING: Final = b"\x02"
"""The generation of a key that is absent."""

State: TypeAlias = Literal["unspecified", "missing", "value"]

_STATES: Final = ("unspecified", "missing", "value")


def as_bytes(value: Any, what: str) -> bytes:
    """Return text in UTF-8, or bytes as they are."""
    if type(value) is bytes:
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"{what} is text or bytes, not {value!r}")


class _Value:
    """Base of values with members that can be set."""

    __slots__ = ()
    _members: ClassVar[tuple[str, ...]]
    __hash__ = None  # type: ignore[assignment]  # they can be changed

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._members)

    def __copy__(self) -> Any:
        return type(self)(*(getattr(self, name) for name in self._members))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, name) for name in self._members)


class KeyRange(_Value):
    """All keys from one, to before another, in the order of their bytes.

    Parameters
    ----------
    inclusive_min : str or bytes
        The first key.
    exclusive_max : str or bytes
        The first key beyond; nothing means that there is no end.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> ts.KvStore.KeyRange("x", "y"), ts.KvStore.KeyRange("y", "x").empty
    (KvStore.KeyRange(b'x', b'y'), True)
    """

    __slots__ = ("_max", "_min")
    _members = ("inclusive_min", "exclusive_max")

    def __init__(self, inclusive_min: str | bytes = "", exclusive_max: str | bytes = "") -> None:
        self._min = as_bytes(inclusive_min, "a key")
        self._max = as_bytes(exclusive_max, "a key")

    @property
    def inclusive_min(self) -> bytes:
        """The first key."""
        return self._min

    @inclusive_min.setter
    def inclusive_min(self, key: str | bytes) -> None:
        self._min = as_bytes(key, "a key")

    @property
    def exclusive_max(self) -> bytes:
        """The first key beyond; empty: there is no end."""
        return self._max

    @exclusive_max.setter
    def exclusive_max(self, key: str | bytes) -> None:
        self._max = as_bytes(key, "a key")

    @property
    def empty(self) -> bool:
        """Whether there is no key in it."""
        return bool(self._max) and self._min >= self._max

    def copy(self) -> KeyRange:
        """Return another one that is equal."""
        return KeyRange(self._min, self._max)

    @classmethod
    def _of(cls, key: str) -> KeyRange:
        """Return the range of one key."""
        return cls(key, key.encode() + b"\0")

    @classmethod
    def _below(cls, start: str, chosen: KeyRange | None = None) -> KeyRange:
        """Return the range of the keys that begin with a text, or behind it as is chosen."""
        first = start.encode()
        if chosen is not None and chosen._max:
            return cls(first + chosen._min, first + chosen._max)
        after = first[:-1] + bytes([first[-1] + 1]) if first else b""  # no text ends in 255
        return cls(first if chosen is None else first + chosen._min, after)

    def _holds(self, key: bytes) -> bool:
        return self._min <= key and (not self._max or key < self._max)

    def __repr__(self) -> str:
        return f"KvStore.KeyRange({self._min!r}, {self._max!r})"


class TimestampedStorageGeneration(_Value):
    """Which state a key was in, and when.

    Parameters
    ----------
    generation : str or bytes
        Equal ones mean equal values; empty: not known.
    time : float
        When that was so, in seconds since 1970.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> ts.KvStore.TimestampedStorageGeneration("x", 5)
    KvStore.TimestampedStorageGeneration(b'x', 5.000000)
    """

    __slots__ = ("_generation", "_time")
    _members = ("generation", "time")

    def __init__(self, generation: str | bytes = "", time: float = float("-inf")) -> None:
        self._generation = as_bytes(generation, "a generation")
        self._time = float(time)

    @classmethod
    def _of(cls, generation: bytes, time: float) -> TimestampedStorageGeneration:
        made = object.__new__(cls)
        made._generation = generation
        made._time = time
        return made

    @property
    def generation(self) -> bytes:
        """Equal ones mean equal values; empty: not known."""
        return self._generation

    @generation.setter
    def generation(self, generation: str | bytes) -> None:
        self._generation = as_bytes(generation, "a generation")

    @property
    def time(self) -> float:
        """When that was so, in seconds since 1970."""
        return self._time

    @time.setter
    def time(self, time: float) -> None:
        self._time = float(time)

    def __repr__(self) -> str:
        return f"KvStore.TimestampedStorageGeneration({self._generation!r}, {self._time:.6f})"


class ReadResult(_Value):
    """What reading a key gave.

    Parameters
    ----------
    state : {"unspecified", "missing", "value"}
        Whether there is a value. Unspecified: it is what the reader has already.
    value : str or bytes
        The value.
    stamp : TimestampedStorageGeneration
        Which state that is.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> ts.KvStore.ReadResult("value", "x").value
    b'x'
    """

    __slots__ = ("_stamp", "_state", "_value")
    _members = ("state", "value", "stamp")

    _stamp: TimestampedStorageGeneration | tuple[bytes, float]  # one that nobody asked for yet

    def __init__(
        self,
        state: State = "unspecified",
        value: str | bytes = "",
        stamp: TimestampedStorageGeneration | None = None,
    ) -> None:
        self._state: State
        self.state = state
        self._value = as_bytes(value, "a value")
        self._stamp = TimestampedStorageGeneration() if stamp is None else stamp

    @classmethod
    def _of(cls, state: State, value: bytes, generation: bytes, time: float) -> ReadResult:
        made = object.__new__(cls)
        made._state = state
        made._value = value
        made._stamp = generation, time
        return made

    @property
    def stamp(self) -> TimestampedStorageGeneration:
        """Which state that is."""
        found = self._stamp
        if isinstance(found, tuple):
            found = self._stamp = TimestampedStorageGeneration._of(*found)
        return found

    @stamp.setter
    def stamp(self, stamp: TimestampedStorageGeneration) -> None:
        self._stamp = stamp

    @property
    def state(self) -> State:
        """Whether there is a value."""
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        if state not in _STATES:
            raise TypeError(f"a state is one of {', '.join(_STATES)}, not {state!r}")
        self._state = state

    @property
    def value(self) -> bytes:
        """The value."""
        return self._value

    @value.setter
    def value(self, value: str | bytes) -> None:
        self._value = as_bytes(value, "a value")

    def __repr__(self) -> str:
        return (
            f"KvStore.ReadResult(state={self._state!r}, value={self._value!r}, "
            f"stamp={self.stamp!r})"
        )
