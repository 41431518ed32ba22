"""Memo of the metadata of new arrays, for programs that create many similar ones."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr.format.validation import Problems
from tessarr.metadata.attributes import read_user_attributes
from tessarr.metadata.build import build_array_meta, is_auto

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tessarr.metadata.node import ArrayMeta

__all__ = ["build_known_meta"]

_MAX_ENTRIES: Final = 128
_PLAIN: Final = frozenset((type(None), bool, int, str))
_DATA_TYPES: Final[dict[Any, str]] = {
    like: data_type.str
    for data_type in map(np.dtype, "?bBhHiIqQefdFD")
    for like in (data_type.name, data_type.str, data_type.str[1:], data_type.type)
} | {like: np.dtype(like).str for like in (bool, int, float, complex)}
_EXTENSIBLE: Final = frozenset(
    {
        *("codecs", "compressors", "filters", "serializer", "object_codec"),
        *("chunk_key_encoding", "storage_transformers"),
    }
)
"""Settings with names that a program can register: the memo accepts only their defaults."""

_UNKNOWN: Final = object()

_built: dict[Hashable, ArrayMeta] = {}


def build_known_meta(settings: Mapping[str, Any]) -> ArrayMeta:
    """Return the metadata for the keywords of `build_array_meta`, from a memo if possible.

    The memo accepts plain settings: numbers, names of NumPy's data types, and sequences of these.
    Arrays with equal settings share their metadata, and what the engine derives from them.

    Examples
    --------
    >>> build_known_meta({"shape": 3}) is build_known_meta({"shape": 3})
    True
    >>> build_known_meta({"shape": 3, "attributes": {"a": 1}}).attributes
    {'a': 1}
    """
    key = _find_key(settings)
    if key is None:
        return build_array_meta(**settings)
    attributes = settings.get("attributes")
    meta = _built.get(key)
    if meta is None:
        meta = build_array_meta(**settings)
        if len(_built) >= _MAX_ENTRIES:
            _built.clear()
        _built[key] = meta.with_attributes({}) if attributes else meta
        return meta
    if not attributes:
        return meta
    problems = Problems()
    json = read_user_attributes(attributes, problems)
    problems.check_arguments("create an array")
    return meta.with_attributes(json)


def _find_key(settings: Mapping[str, Any]) -> Hashable | None:
    """Return a key that settings with another meaning do not have; None if some are not plain."""
    key: list[Hashable] = []
    for name, value in settings.items():
        if name == "attributes":
            continue
        if name == "dtype":
            part = _freeze_data_type(value)
        elif name in _EXTENSIBLE:
            is_default = value is None or is_auto(value)
            part = value if is_default else _UNKNOWN
        else:
            part = _freeze(value)
        if part is _UNKNOWN:
            return None
        key.append((name, part))
    return tuple(key)


def _freeze_data_type(value: Any) -> Hashable:
    if isinstance(value, np.dtype):
        return value.str if value.metadata is None and value.str in _DATA_TYPES else _UNKNOWN
    return _DATA_TYPES.get(value, _UNKNOWN) if isinstance(value, str | type) else _UNKNOWN


def _freeze(value: Any) -> Hashable:
    """Return a plain value with its types, since 1, 1.0 and True are equal; or `_UNKNOWN`."""
    kind = type(value)
    if kind in _PLAIN:
        return kind, value
    if kind is float:
        return kind, value.hex()  # 0.0 and -0.0 are equal, and NaN is not
    if kind is tuple or kind is list:
        parts = tuple([_freeze(part) for part in value])
        return _UNKNOWN if _UNKNOWN in parts else (kind, parts)
    return _UNKNOWN
