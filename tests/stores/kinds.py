"""Empty stores of every kind, for the tests of their common behaviour."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED

import fsspec
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from upath import UPath

from tessarr.store import ForeignStore, LocalStore, MemoryStore, Store, open_store
from tessarr.store.adapt import split_store
from tessarr.store.wrappers.instrumented import CountingStore
from tessarr.stores import (
    DictStore,
    DirectoryStore,
    FsspecStore,
    FSStore,
    KVStore,
    LatencyStore,
    LimitedStore,
    Limits,
    LoggingStore,
    LRUStoreCache,
    NestedDirectoryStore,
    PrefixStore,
    RetryingStore,
    SQLiteStore,
    TempStore,
    ZipStore,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Plain:
    """The smallest store in Python that the protocol accepts."""

    def __init__(self) -> None:
        self.items: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.items.get(key)

    def put(self, key: str, data: bytes) -> None:
        self.items[key] = data

    def delete(self, key: str) -> None:
        del self.items[key]

    def list(self, prefix: str) -> list[str]:
        return sorted((key for key in self.items if key.startswith(prefix)), reverse=True)


def create_folder(folder: Path) -> str:
    """Create a folder and return its path."""
    folder.mkdir(exist_ok=True)
    return str(folder)


KINDS: dict[str, Callable[[Path], Store]] = {
    "local": lambda folder: LocalStore(folder / "root"),
    "durable": lambda folder: LocalStore(folder / "root", durable=True),
    "mapped": lambda folder: LocalStore(folder / "root", reading="memmap"),
    "direct": lambda folder: LocalStore(folder / "root", reading="direct"),
    "lock files": lambda folder: LocalStore(folder / "root", locking="lockfile"),
    "unlocked": lambda folder: LocalStore(folder / "root", locking="none"),
    "memory": lambda folder: MemoryStore(),
    "mapping": lambda folder: ForeignStore({}),
    "plain": lambda folder: ForeignStore(Plain()),
    "nested": lambda folder: ForeignStore(LocalStore(folder / "root")),
    "split": lambda folder: split_store(MemoryStore(), LocalStore(folder / "root")),
    "counting": lambda folder: CountingStore(LocalStore(folder / "root")),
    "prefix": lambda folder: PrefixStore(LocalStore(folder / "root"), "below/it"),
    "prefix of mapping": lambda folder: PrefixStore({}, "below"),
    "cache": lambda folder: LRUStoreCache(LocalStore(folder / "root"), None),
    "small cache": lambda folder: LRUStoreCache(Plain(), 300),
    "logging": lambda folder: LoggingStore(MemoryStore()),
    "sqlite": lambda folder: SQLiteStore(folder / "new" / "data.sqlite"),
    "durable sqlite": lambda folder: SQLiteStore(folder / "data.db", durable=True),
    "fsspec memory": lambda folder: FsspecStore(MemoryFileSystem(), f"{folder}/root"),
    "fsspec local": lambda folder: FsspecStore(LocalFileSystem(), f"{folder}/root"),
    "fsspec folder": lambda folder: FsspecStore(DirFileSystem(f"{folder}", MemoryFileSystem())),
    "fsspec map": lambda folder: open_store(fsspec.get_mapper(f"memory:/{folder}/map"))[0],
    "FSStore": lambda folder: FSStore(f"memory:/{folder}/fsstore"),
    "upath": lambda folder: open_store(UPath(f"memory:/{folder}/upath"))[0],
    "directory": lambda folder: DirectoryStore(folder / "root"),
    "nested directory": lambda folder: NestedDirectoryStore(folder / "root"),
    "temporary": lambda folder: TempStore(dir=create_folder(folder)),
    "zip": lambda folder: ZipStore(folder / "data.zip"),
    "deflated zip": lambda folder: ZipStore(folder / "data.zip", ZIP_DEFLATED),
    "dicts": lambda folder: DictStore(),
    "KVStore": lambda folder: KVStore({}),
    "limited": lambda folder: LimitedStore(LocalStore(folder / "root"), Limits(concurrency=1)),
    "retrying": lambda folder: RetryingStore(LocalStore(folder / "root")),
    "latency": lambda folder: LatencyStore(MemoryStore(), write_s=1e-6),
}

SHARED = ("local", "lock files", "prefix", "cache", "sqlite", "fsspec local")
"""Kinds of stores that several processes may change concurrently."""
