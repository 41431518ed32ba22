"""Memo of parsed specs, by their JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["get_or_parse", "make_cache_key"]

_SIZE: Final = 256
_KEY_LENGTH: Final = 1 << 13  # of the longest key
_SCALARS: Final = frozenset({str, int, float, bool, bytes, type(None)})
_parsed: Final[dict[str, Any]] = {}


def get_or_parse(json: Any, parse: Callable[[Any], Any]) -> Any:
    """Return the parsed spec of JSON; callers with equal JSON share it and must not change it."""
    key = make_cache_key(json)
    spec = None if key is None else _parsed.get(key)
    if spec is None:
        spec = parse(json)
        if key is not None and not _has_store(json):
            if len(_parsed) >= _SIZE:
                _parsed.clear()
            _parsed[key] = spec
    return spec


def make_cache_key(value: Any) -> str | None:
    """Return text that is equal only for equal values of equal types.

    Return None for large values and for objects other than those of JSON, tuples and bytes.
    """
    try:
        key = repr(value) if _is_plain(value) else None
    except (RecursionError, ValueError):  # Python refuses to write integers of many digits
        return None
    return None if key is None or len(key) > _KEY_LENGTH else key


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind is dict:
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    return kind in _SCALARS or ((kind is list or kind is tuple) and all(map(_is_plain, value)))


def _has_store(json: Any) -> bool:
    """Return whether JSON contains a store; equal stores are different stores."""
    if isinstance(json, dict):
        return json.get("driver") == "tessarr" or any(map(_has_store, json.values()))
    return isinstance(json, list) and any(map(_has_store, json))
