"""Recalling what was made of plain values, such as JSON; and whether JSON fits 64 bits."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Concatenate, Final, Generic, TypeVar

from tessarr._engine import key_of, too_large_in
from tessarr._safe_repr import cut, safe_repr
from tessarr.errors import TooLargeError

__all__ = ["Recall", "RecallSame", "check_integers", "key_of"]

T = TypeVar("T")
U = TypeVar("U")

_KEPT: Final = 256


def check_integers(json: Any) -> None:
    """Refuse JSON that has integers of more than 64 bits, anywhere.

    Raises
    ------
    TooLargeError
        If it has one.
    """
    found = too_large_in(json)
    if found is not None:
        where = _where(json, found)
        message = f"Expected integers of at most 64 bits, but received: {safe_repr(found)}"
        raise TooLargeError(f"{where}: {message}" if where else message)


def _where(json: Any, found: Any) -> str:
    """Return where a value, which is in JSON, stands in it: ``/shape/0``; nothing if it is all."""
    left: list[tuple[Any, Any]] = [(json, None)]  # values, each with its name and those above it
    while left:
        value, way = left.pop()
        if value is found:
            names: list[str] = []
            while way is not None:
                name, way = way
                names.append(str(name))
            return cut("".join(f"/{name}" for name in reversed(names)))
        if isinstance(value, dict):
            left += [(item, (name, way)) for name, item in value.items()]
        elif isinstance(value, list | tuple):
            left += [(item, (k, way)) for k, item in enumerate(value)]
    return ""


class Recall(Generic[T]):
    """What was made of values, by their keys: some that must not be modified.

    Parameters
    ----------
    room
        How many.

    Examples
    --------
    >>> recall = Recall()
    >>> recall.keep(key_of({"a": 1}), "one")
    >>> recall.find(key_of({"a": 1})), recall.find(key_of({"a": 1.0})), recall.find(None)
    ('one', None, None)
    """

    __slots__ = ("_asked", "_kept", "_room")

    def __init__(self, room: int = _KEPT) -> None:
        self._kept: dict[Hashable, T] = {}
        self._asked: set[int] = set()  # of what is kept only when it is made again
        self._room = room

    def made(self, value: Any, make: Callable[[Any], T]) -> T:
        """Return what a value makes, or recall it."""
        key = key_of(value)
        found = self.find(key)
        if found is None:
            found = make(value)
            self.keep(key, found)
        return found

    def find(self, key: Hashable) -> T | None:
        """Return what was made of a value, or None."""
        return None if key is None else self._kept.get(key)

    def keep(self, key: Hashable, made: T, *, seldom: bool = False) -> None:
        """Remember what was made of a value; of one that is seldom met again, the second time."""
        if key is None or (seldom and not self._again(key)):
            return
        if len(self._kept) >= self._room:
            self._kept.clear()
        self._kept[key] = made

    def _again(self, key: Hashable) -> bool:
        number = hash(key)
        if number in self._asked:
            return True
        if len(self._asked) >= self._room:
            self._asked.clear()
        self._asked.add(number)
        return False


class RecallSame(Generic[T, U]):
    """What was made of objects that never change, while they are the very same.

    Parameters
    ----------
    make
        Makes it of an object, and of what else it depends on.

    Examples
    --------
    >>> recall = RecallSame(list)
    >>> word = "abc"
    >>> recall.of(word) is recall.of(word), recall.of("b")
    (True, ['b'])
    """

    __slots__ = ("_kept", "_make")

    def __init__(self, make: Callable[Concatenate[T, ...], U]) -> None:
        self._make = make
        self._kept: dict[Hashable, tuple[T, U]] = {}

    def of(self, value: T, *more: Hashable) -> U:
        """Return what was made of an object, and of values beside it, or make it."""
        key = (id(value), *more)
        found = self._kept.get(key)
        if found is not None and found[0] is value:
            return found[1]
        made = self._make(value, *more)
        if len(self._kept) >= _KEPT:
            self._kept.clear()
        self._kept[key] = value, made
        return made
