"""Generations: which state the value of a key is in, and changes that depend on it."""

from __future__ import annotations

import time
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Protocol

from tessarr.store import MemoryStore
from tessarr.tensorstore.kvstore.values import MISSING, TimestampedStorageGeneration

if TYPE_CHECKING:
    from tessarr.store import Store

__all__ = ["generation_of", "has", "replace_if", "written"]

_VERSION: Final = b"\x00"
_DIGEST: Final = b"\x01"


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
    return _digest_of(value.read(0, value.size))


def _digest_of(data: bytes) -> bytes:
    return _DIGEST + blake2b(data, digest_size=16).digest()


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

    Only in memory a value has a version at once, and is it looked for: elsewhere it is that of
    the bytes.
    """
    now = time.time()
    if data is None:
        return TimestampedStorageGeneration._of(MISSING, now)
    if isinstance(store, MemoryStore):
        value = store.open_value(key)
        if value is not None and value.size == len(data) and value.read(0, len(data)) == data:
            return TimestampedStorageGeneration._of(generation_of(value), now)
    return TimestampedStorageGeneration._of(_digest_of(data), now)
