"""Generations: which state the value of a key is in, and changes that depend on it."""

from __future__ import annotations

import time
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Protocol

from tessarr.tensorstore.kvstore.values import MISSING, TimestampedStorageGeneration

if TYPE_CHECKING:
    from tessarr.store import Store

__all__ = ["digest_of", "generation_of", "has", "of_version", "write"]

_VERSION: Final = b"\x00"
_DIGEST: Final = b"\x01"


class _Opened(Protocol):
    """What a store opens."""

    @property
    def size(self) -> int: ...

    @property
    def state(self) -> bytes | None: ...

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
    return _digest(value) if version is None else of_version(version)


def of_version(version: bytes) -> bytes:
    """Return the generation of a value whose store tells a version."""
    return _VERSION + version


def _digest(value: _Opened) -> bytes:
    return digest_of(value.read(0, value.size))


def digest_of(data: bytes) -> bytes:
    """Return the generation of a value whose store cannot tell states apart."""
    return _DIGEST + blake2b(data, digest_size=16).digest()


def has(value: _Opened | None, generation: bytes) -> bool:
    """Return whether a value is in the state that a generation means."""
    if value is None:
        return generation == MISSING
    if generation.startswith(_DIGEST):
        return _digest(value) == generation
    state = value.state
    return state is not None and generation == _VERSION + state


def write(
    store: Store, key: str, data: bytes | None, expected: bytes | None
) -> TimestampedStorageGeneration | None:
    """Change a key, if something is expected only where its value has that generation.

    Returns
    -------
    TimestampedStorageGeneration, optional
        What the value is now; None: it had another generation, and stays.
    """
    if expected is not None and expected.startswith(_DIGEST):
        done, version = _replace(store, key, data, expected), None
    else:
        done, version = store.write(key, data, _state(expected))
    if not done:
        return None
    new = MISSING if version is None else _VERSION + version
    if data is not None and version is None:
        new = digest_of(data)
    return TimestampedStorageGeneration._of(new, time.time())


def _state(generation: bytes | None) -> bytes | None:
    """Return the version that a generation means, empty if it means that there is no value."""
    if generation is None:
        return None
    return b"" if generation == MISSING else generation[len(_VERSION) :] or generation


def _replace(store: Store, key: str, data: bytes | None, generation: bytes) -> bool:
    """Change a key where the bytes of its value have a digest."""
    while True:
        value = store.open_value(key)
        if value is None or _digest(value) != generation:
            return False
        if store.replace(key, data, value.read(0, value.size)):
            return True
