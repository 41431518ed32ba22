"""What only equal specs have: keys by which specs with keywords are recalled."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr.index_space import IndexDomain
from tessarr.tensorstore.json.memo import RecallSame, key_of
from tessarr.tensorstore.schema.chunk_layout import ChunkLayout
from tessarr.tensorstore.schema.codec_spec import CodecSpec
from tessarr.tensorstore.schema.data_type import dtype as DataType  # noqa: N812
from tessarr.tensorstore.schema.schema import Schema
from tessarr.tensorstore.spec.open_mode import OpenMode

if TYPE_CHECKING:
    from tessarr.tensorstore.spec.driver_spec import SpecKeywords

__all__ = ["holds_store", "key_with"]


def key_with(made_of: Hashable, keywords: SpecKeywords) -> Hashable:
    """Return what only equal specs with equal keywords have, or None."""
    key = key_of((made_of, keywords))
    if key is not None:
        return key
    told = [key_of(value) or _told(name, value) for name, value in keywords.items()]
    return None if None in told else (made_of, *keywords, *told)


def _told(name: str, value: Any) -> Hashable:
    """Return what only keywords have that are equal, but for plain values, or None."""
    if isinstance(value, type | np.dtype) and name == "dtype":
        value = DataType(value)
    if isinstance(value, ChunkLayout):
        key = value._constraints.values()
    elif isinstance(value, Schema | OpenMode):
        key = value._values()
    elif isinstance(value, DataType | IndexDomain):
        key = value
    else:
        key = _codecs.of(value) if isinstance(value, CodecSpec) else None
    return None if key is None else (type(value), key)


def _key_of_codec(codec: CodecSpec) -> bytes | None:
    return key_of(codec.to_json())


_codecs: Final = RecallSame(_key_of_codec)


def holds_store(json: Any, key: Hashable) -> bool:
    """Whether a store stands in JSON with a key: it is meant itself, even if another is equal."""
    if type(key) is bytes and b"tessarr" not in key:
        return False
    if isinstance(json, dict):
        if json.get("driver") == "tessarr":
            return True
        json = list(json.values())
    return isinstance(json, list) and any(holds_store(one, None) for one in json)
