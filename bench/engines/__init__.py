"""Adapters of the engines; a process imports only the adapter that it runs."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

DURABILITY = {
    "tessarr": "atomic replacement, no fsync",
    "tensorstore": "atomic replacement, fsync",
    "tensorstore-nosync": "atomic replacement, no fsync",
    "tensorstore-tessarr": "atomic replacement, fsync",
    "tensorstore-tessarr-nosync": "atomic replacement, no fsync",
    "zarr": "atomic replacement, no fsync",
    "zarr-fused": "atomic replacement, no fsync",
    "zarr-tessarr": "atomic replacement, no fsync",
    "zarr-zarrs": "truncates and writes in place",
    "zarrista": "truncates and writes in place",
}
"""How durable the writes of each engine are; ``tensorstore-tessarr`` is `tessarr.tensorstore`."""


class Engine(Protocol):
    """Interface of an engine; `NotImplementedError` leaves the cell empty."""

    def open(self, path: Path, mode: str) -> Any:
        """Open the array."""

    def read(self, array: Any, key: tuple[Any, ...]) -> Any:
        """Read a box as a NumPy array."""

    def write(self, array: Any, key: tuple[Any, ...], value: Any) -> None:
        """Write a box."""

    def outer(self, array: Any, lists: tuple[Any, ...]) -> Any:
        """Read the outer product of index lists."""

    def points(self, array: Any, columns: tuple[Any, ...]) -> Any:
        """Read points."""

    def append(self, array: Any, rows: Any) -> Any:
        """Append rows and return the resized array."""


class Indexed:
    """Base of engines with NumPy-like arrays; subclasses add `open`."""

    def read(self, array: Any, key: tuple[Any, ...]) -> Any:
        return array[key]

    def write(self, array: Any, key: tuple[Any, ...], value: Any) -> None:
        array[key] = value

    def outer(self, array: Any, lists: tuple[Any, ...]) -> Any:
        return array.oindex[lists]

    def points(self, array: Any, columns: tuple[Any, ...]) -> Any:
        return array.vindex[columns]

    def append(self, array: Any, rows: Any) -> Any:
        array.append(rows)
        return array


def load_engine(name: str) -> Engine:
    """Return the engine called `name`."""
    module, _, variant = name.partition("-")
    engine: Engine = import_module(f"bench.engines.{module}_engine").make_engine(variant)
    return engine
