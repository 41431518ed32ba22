"""Stores: keys to byte strings, in a folder, in memory, or wherever Python reaches.

What the stores do for chunks is done in the engine, without Python; `mapping` adds the
interface of a mapping. `url.open_store` finds the store that a user means;
`protocol.StoreProtocol` is what a store written in Python has to offer.
"""

from __future__ import annotations

from tessarr._engine import Store
from tessarr.store.mapping import (
    CountingStore,
    ForeignStore,
    LocalStore,
    MemoryStore,
    StoreMapping,
)
from tessarr.store.protocol import OpenedValue, StoreProtocol
from tessarr.store.url import StoreLike, open_store, register_store

__all__ = [
    "CountingStore",
    "ForeignStore",
    "LocalStore",
    "MemoryStore",
    "OpenedValue",
    "Store",
    "StoreLike",
    "StoreMapping",
    "StoreProtocol",
    "open_store",
    "register_store",
]
