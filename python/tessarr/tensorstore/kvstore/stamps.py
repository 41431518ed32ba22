"""Generations: which state the value of a key is in, and changes that depend on it."""

from __future__ import annotations

import os
import time
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Protocol

from tessarr.tensorstore.kvstore.values import MISSING, TimestampedStorageGeneration

if TYPE_CHECKING:
    from tessarr.store import Store

__all__ = ["generation_of", "has", "replace_if", "written"]

_VERSION: Final = b"\x00"
_DIGEST: Final = b"\x01"
_NEVER: Final = b"\x03"


class _Opened(Protocol):
    """What a store opens."""

    @property
    def size(self) -> int: ...

    @property
    def version(self) -> bytes | None: ...

    def read(self, offset: int, count: int) -> bytes: ...


def generation_of(value: _Opened | None) -> bytes:
    """Return the generation of a value.

    Where the store cannot tell states apart, or not yet, it is a digest of the bytes.
    """
    if value is None:
        return MISSING
    version = value.version
    return _digest(value) if version is None else _VERSION + version


def _digest(value: _Opened) -> bytes:
    return _DIGEST + blake2b(value.read(0, value.size), digest_size=16).digest()


def has(value: _Opened | None, generation: bytes) -> bool:
    """Return whether a value is in the state that a generation means."""
    if value is not None and generation.startswith(_DIGEST):
        return _digest(value) == generation
    return generation_of(value) == generation


def replace_if(store: Store, key: str, data: bytes | None, generation: bytes) -> bool:
    """Change a key where its value has a generation; False: it has another one."""
    while True:
        value = store.open_value(key)
        if not has(value, generation):
            return False
        expected = None if value is None else value.read(0, value.size)
        if store.replace(key, data, expected):
            return True


def written(store: Store, key: str, data: bytes | None) -> TimestampedStorageGeneration:
    """Return the generation of what was just written.

    Where others have written since, it is one that no value will ever have.
    """
    now = time.time()
    if data is None:
        return TimestampedStorageGeneration(MISSING, now)
    value = store.open_value(key)
    if value is None or value.size != len(data) or value.read(0, value.size) != data:
        return TimestampedStorageGeneration(_NEVER + os.urandom(16), now)
    return TimestampedStorageGeneration(generation_of(value), now)
