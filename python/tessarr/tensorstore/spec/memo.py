"""Memo of parsed specs, by their JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tessarr._engine import make_cache_key

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["Memo", "has_store", "make_cache_key", "parsed_specs"]

_SIZE: Final = 256


class Memo:
    """A bounded cache of values that nothing modifies; it stores no value for the key None.

    Examples
    --------
    >>> memo = Memo()
    >>> memo.put(make_cache_key({"a": 1}), "parsed")
    >>> memo.get(make_cache_key({"a": 1})), memo.get(make_cache_key({"a": 1.0})), memo.get(None)
    ('parsed', None, None)
    """

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}

    def get(self, key: Hashable) -> Any:
        """Return the value of a key, or None."""
        return None if key is None else self._values.get(key)

    def put(self, key: Hashable, value: Any) -> None:
        """Add a value; a full memo first drops all others."""
        if key is None:
            return
        if len(self._values) >= _SIZE:
            self._values.clear()
        self._values[key] = value


parsed_specs: Final = Memo()
"""Parsed specs by their JSON; callers share them, so copy a spec before you change it."""


def has_store(json: Any, key: Hashable) -> bool:
    """Return whether JSON contains a store; equal stores are different stores."""
    if type(key) is bytes and b"tessarr" not in key:
        return False
    if isinstance(json, dict):
        if json.get("driver") == "tessarr":
            return True
        json = list(json.values())
    return isinstance(json, list) and any(has_store(item, None) for item in json)
