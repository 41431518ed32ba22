"""Stores: mappings of keys to byte strings.

The engine performs the requests for chunks without Python. `mapping` adds the mapping interface,
`resolve` finds the store that a user means, and `protocol.StoreProtocol` describes a store that is
written in Python.
"""

from __future__ import annotations

from tessarr._engine import Store
from tessarr.store.adapt import ForeignStore
from tessarr.store.local import LocalStore
from tessarr.store.mapping import StoreMapping
from tessarr.store.memory import MemoryStore
from tessarr.store.resolve import StoreLike, open_store, register_store

__all__ = [
    "ForeignStore",
    "LocalStore",
    "MemoryStore",
    "Store",
    "StoreLike",
    "StoreMapping",
    "open_store",
    "register_store",
]
