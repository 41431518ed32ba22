"""Engine with the TensorStore interface, of TensorStore or Tessarr, with or without fsync."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any


class TensorStore:
    """The everyday interface: default context, no cache pool."""

    def __init__(self, package: str, *, sync: bool) -> None:
        self.ts = import_module(package)
        self.context = {} if sync else {"file_io_sync": False}

    def open(self, path: Path, mode: str) -> Any:
        spec = {
            "driver": "zarr3" if (path / "zarr.json").exists() else "zarr2",
            "kvstore": {"driver": "file", "path": str(path)},
            "context": self.context,
        }
        return self.ts.open(spec, open=True, read=True, write=mode != "r").result()

    def read(self, array: Any, key: tuple[Any, ...]) -> Any:
        return array[key].read().result()

    def write(self, array: Any, key: tuple[Any, ...], value: Any) -> None:
        array[key].write(value).result()

    def outer(self, array: Any, lists: tuple[Any, ...]) -> Any:
        return array.oindex[lists].read().result()

    def points(self, array: Any, columns: tuple[Any, ...]) -> Any:
        return array.vindex[columns].read().result()

    def append(self, array: Any, rows: Any) -> Any:
        end = array.shape[0]
        array = array.resize(exclusive_max=[end + len(rows), *array.shape[1:]]).result()
        array[end : end + len(rows)].write(rows).result()
        return array


def make_engine(variant: str) -> TensorStore:
    """Return the engine; ``nosync`` omits fsync, ``tessarr`` selects Tessarr's package."""
    names = variant.split("-") if variant else []
    package = "tessarr.tensorstore" if "tessarr" in names else "tensorstore"
    return TensorStore(package, sync="nosync" not in names)
