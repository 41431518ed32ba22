"""Stores: keys to byte strings, in a folder, in memory, or wherever Python reaches.

The stores are classes of the engine, so that reading and writing chunks needs
no Python. `url.open_store` finds the store that a user means;
`protocol.StoreProtocol` is what a store written in Python has to offer.
"""

from __future__ import annotations

from tessarr._engine import CountingStore, ForeignStore, LocalStore, MemoryStore, Store
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
    "StoreProtocol",
    "open_store",
    "register_store",
]
