"""Rows of stores: Zip files, creation of small arrays, and counts of stored chunks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np

import tessarr
from bench.loop_rows import LoopRow

__all__ = ["make_rows"]


def make_rows(folder: Path) -> Iterator[LoopRow]:
    """Yield the rows."""
    yield from _make_zip_rows(folder)
    yield _make_creation_row(folder)
    yield _make_count_row(folder)


def _make_zip_rows(folder: Path) -> Iterator[LoopRow]:
    """Yield rows of a Zip file with 10 000 chunks."""
    import tensorstore as ts
    import zarr

    data = np.random.default_rng(0).integers(0, 1 << 16, (1000, 1000)).astype("u2")
    path, changed = folder / "a.zip", folder / "changed.zip"
    with tessarr.stores.ZipStore(path, mode="w") as store:
        tessarr.create_array(store, data=data, chunks=(10, 10), compressors=None)

    def read_zarr() -> object:
        store = zarr.storage.ZipStore(path, mode="r")
        values = zarr.open_array(store, mode="r")[3:8, 3:8]
        store.close()
        return values

    spec = {"driver": "zarr3", "kvstore": f"file://{path}|zip:"}
    yield LoopRow(
        "Zip, 10 000 chunks: open, read one",
        {
            "tessarr": lambda: tessarr.open_array(path, "r")[3:8, 3:8],
            "tensorstore": lambda: ts.open(spec).result()[3:8, 3:8].read().result(),
            "zarr": read_zarr,
        },
        {"tensorstore": 2},
    )

    def write_tessarr() -> None:
        shutil.copy(path, changed)
        with tessarr.open_array(changed, "r+") as array:
            array[3:8, 3:8] = 1

    def write_zarr() -> None:
        shutil.copy(path, changed)
        store = zarr.storage.ZipStore(changed, mode="a")
        zarr.open_array(store, mode="r+")[3:8, 3:8] = 1
        store.close()

    yield LoopRow(
        "Zip, 10 000 chunks: change one",
        {"tessarr": write_tessarr, "zarr": write_zarr},
        {"zarr": 1},
    )


def _make_creation_row(folder: Path) -> LoopRow:
    """Return the row of 200 scalar arrays."""
    import h5py
    import zarr

    numbers = count()

    def create_tessarr() -> None:
        group = tessarr.create_group(folder / f"t{next(numbers)}", zarr_format=2)
        for index in range(200):
            group.create_array(f"a{index}", shape=(), dtype="f8")

    def create_zarr() -> None:
        group = zarr.create_group(folder / f"z{next(numbers)}", zarr_format=2)
        for index in range(200):
            group.create_array(f"a{index}", shape=(), dtype="f8")

    def create_h5py() -> None:
        with h5py.File(folder / f"h{next(numbers)}.h5", "w") as file:
            for index in range(200):
                file.create_dataset(f"a{index}", shape=(), dtype="f8")

    return LoopRow(
        "create 200 scalar arrays",
        {"tessarr": create_tessarr, "h5py": create_h5py, "zarr": create_zarr},
        {"h5py": 1.5},
    )


def _make_count_row(folder: Path) -> LoopRow:
    """Return the row of the number of 100 000 stored chunks."""
    array = tessarr.create_array(
        folder / "chunks", shape=(1000, 100, 10), chunks=(1, 1, 10), dtype="u1", compressors=None
    )
    array[...] = 1

    def walk() -> int:
        number, folders = 0, [os.fspath(folder / "chunks" / "c")]
        while folders:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir():
                        folders.append(entry.path)
                    else:
                        number += 1
        return number

    return LoopRow(
        "count 100 000 stored chunks",
        {"tessarr": lambda: array.nchunks_initialized, "scandir": walk},
        {"scandir": 3},
    )
