"""Rows of stores: Zip files, new arrays, counts of stored chunks, encoders and the import."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Literal

import numpy as np

import tessarr
from bench.loop_rows import LoopRow

__all__ = ["make_rows"]


def make_rows(folder: Path) -> Iterator[LoopRow]:
    """Yield the rows."""
    yield from _make_zip_rows(folder)
    yield _make_creation_row(folder, 3)
    yield _make_creation_row(folder, 2)
    yield _make_count_row(folder)
    yield from _make_codec_rows()
    yield _make_import_row()


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


def _make_creation_row(folder: Path, zarr_format: Literal[2, 3]) -> LoopRow:
    """Return the row of 200 scalar arrays of a format."""
    import h5py
    import zarr

    numbers = count()

    def create(library: Any) -> None:
        path = str(folder / f"new{zarr_format}.{next(numbers)}")
        group = library.create_group(path, zarr_format=zarr_format)
        for index in range(200):
            group.create_array(f"a{index}", shape=(), dtype="f8")

    def create_h5py() -> None:
        with h5py.File(folder / f"new{zarr_format}.{next(numbers)}.h5", "w") as file:
            for index in range(200):
                file.create_dataset(f"a{index}", shape=(), dtype="f8")

    return LoopRow(
        f"create 200 scalar arrays, format {zarr_format}",
        {"tessarr": lambda: create(tessarr), "h5py": create_h5py, "zarr": lambda: create(zarr)},
        {"h5py": 1.5},
    )


def _make_count_row(folder: Path) -> LoopRow:
    """Return the row of the number of 100 000 stored chunks."""
    array = tessarr.create_array(
        folder / "chunks", shape=(100, 1000), chunks=1, dtype="u1", compressors=None
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


def _make_codec_rows() -> Iterator[LoopRow]:
    """Yield the rows of encoders: Zstandard 1.5.7 of another package, and zlib at level 9."""
    import zstandard

    rng = np.random.default_rng(0)
    noise = rng.standard_normal(500_000).tobytes()
    waves = 280 + 20 * np.sin(np.arange(1000) / 100)[:, None]
    degrees = (waves + rng.standard_normal((1000, 500))).round(1).tobytes()
    encode, encoder = tessarr.codecs.Zstd(3).encode, zstandard.ZstdCompressor(3)
    yield LoopRow(
        "zstd level 3, noisy float64",
        {"tessarr": lambda: len(encode(noise)), "zstandard": lambda: len(encoder.compress(noise))},
        {"zstandard": 1.1},
    )
    gzip = tessarr.codecs.GZip(9)
    ratio = len(gzip.encode(degrees)) / len(zlib.compress(degrees, 9))
    yield LoopRow(
        f"gzip level 9, rounded float64; {ratio:.2f} of zlib's bytes",
        {
            "tessarr": lambda: gzip.encode(degrees) and None,
            "zlib": lambda: zlib.compress(degrees, 9) and None,
        },
        {"zlib": 1},
    )


def _make_import_row() -> LoopRow:
    """Return the row of the import of the TensorStore interface in a new process."""

    def run(module: str) -> None:
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True)

    return LoopRow(
        "import",
        {
            "tessarr": lambda: run("tessarr.tensorstore"),
            "tensorstore": lambda: run("tensorstore"),
            "numpy": lambda: run("numpy"),
        },
        {"tensorstore": 1.2},
    )
