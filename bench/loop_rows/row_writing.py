"""Rows written one by one to stored chunks: Tessarr in a block of buffered writes.

h5py has its default cache, and flushes its file at the end of the loop, where Tessarr's block
stores its chunks. TensorStore writes in a transaction. Compressed chunks have Blosc with LZ4 and
shuffle, in HDF5 its own LZF and shuffle.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import tensorstore

import tessarr
from bench.loop_rows import LoopRow

__all__ = ["make_rows"]

COUNT = 300
SHAPE = (1000, 1000)

BLOSC = tessarr.Blosc("lz4", clevel=5, shuffle=1)


def make_rows(folder: Path) -> list[LoopRow]:
    """Return rows for chunks of 10, 100 and 1000 rows, compressed and not."""
    rng = np.random.default_rng(0)
    values = np.cumsum(rng.integers(-9, 10, SHAPE), axis=1).astype("f4")
    rows = []
    for is_compressed in (True, False):
        for height in (10, 100, 1000):
            name = f"{height}-{is_compressed}"
            (folder / name).mkdir()
            rows.append(_make_row(folder / name, values, height, is_compressed))
    return rows


def _make_row(
    folder: Path, values: np.ndarray[Any, Any], height: int, is_compressed: bool
) -> LoopRow:
    chunks = (height, SHAPE[1])
    ours = tessarr.create_array(
        folder / "a.zarr",
        data=values,
        chunks=chunks,
        compressors=BLOSC if is_compressed else None,
    )
    theirs = _open_tensorstore(folder / "b.zarr", chunks, is_compressed)
    theirs[:] = values
    file = h5py.File(folder / "c.h5", "w")
    options = {"compression": "lzf", "shuffle": True} if is_compressed else {}
    dataset = file.create_dataset("a", data=values, chunks=chunks, **options)

    def write_buffered() -> None:
        with ours.buffered():
            for i in range(COUNT):
                ours[i] = values[-1 - i]

    def write_dataset() -> None:
        for i in range(COUNT):
            dataset[i] = values[-1 - i]
        file.flush()

    def write_transaction() -> None:
        with tensorstore.Transaction() as transaction:
            inside = theirs.with_transaction(transaction)
            for i in range(COUNT):
                inside[i] = values[-1 - i]

    kind = "compressed" if is_compressed else "uncompressed"
    return LoopRow(
        f"write {COUNT} rows one by one, {kind} chunks of {height} rows",
        {"tessarr": write_buffered, "h5py": write_dataset, "tensorstore": write_transaction},
        {"h5py": 1.0},
    )


def _open_tensorstore(path: Path, chunks: tuple[int, int], is_compressed: bool) -> Any:
    codecs: list[dict[str, Any]] = [{"name": "bytes", "configuration": {"endian": "little"}}]
    if is_compressed:
        blosc = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4}
        codecs.append({"name": "blosc", "configuration": blosc})
    return tensorstore.open(
        {
            "driver": "zarr3",
            "kvstore": {"driver": "file", "path": f"{path}/"},
            "metadata": {
                "shape": SHAPE,
                "data_type": "float32",
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
                "codecs": codecs,
            },
        },
        create=True,
    ).result()
