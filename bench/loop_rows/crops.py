"""Batches of crops and samples in one call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tessarr
from bench.loop_rows import LoopRow

COUNT = 1000


def make_rows(folder: Path) -> list[LoopRow]:
    """Return batches of random crops and of shuffled samples."""
    random = np.random.default_rng(0)
    volume = np.cumsum(random.integers(-2, 3, (384, 384, 384)), axis=-1).astype("u2")
    samples = random.integers(0, 9, (4000, 64, 64)).astype("u1")
    arrays = {
        "volume": ((64, 64, 64), None, volume),
        "shards of a volume": ((32, 32, 32), (128, 128, 128), volume),
        "samples": ((1, 64, 64), (1000, 64, 64), samples),
    }
    for name, (chunks, shards, data) in arrays.items():
        tessarr.create_array(folder / name, data=data, chunks=chunks, shards=shards)
    starts = random.integers(0, 384 - 32, (COUNT, 3)).tolist()
    crops = [tuple(slice(start, start + 32) for start in corner) for corner in starts]
    indices = random.permutation(4000)[:COUNT].tolist()
    return [
        _make_row(f"{COUNT} crops of 32³ from chunks of 64³", folder / "volume", crops),
        _make_row(f"{COUNT} crops of 32³ from shards of 32³", folder / "shards of a volume", crops),
        _make_row(f"{COUNT} shuffled samples of (64, 64)", folder / "samples", indices),
    ]


def _make_row(title: str, path: Path, keys: list[Any]) -> LoopRow:
    array = tessarr.open_array(path, mode="r")
    calls: dict[str, Callable[[], Any]] = {
        "tessarr": lambda: array.read_many(keys, stack=True),
        "TensorStore's batch": _tensorstore_batch(path, keys),
        "one by one": lambda: np.stack([array[key] for key in keys]),
    }
    calls |= _optional_calls(path, keys)
    return LoopRow(title, calls, {"TensorStore's batch": 1 / 1.5})


def _tensorstore_batch(path: Path, keys: list[Any]) -> Callable[[], Any]:
    import tensorstore

    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/"}}
    handle = tensorstore.open(spec).result()

    def read() -> Any:
        with tensorstore.Batch() as batch:
            futures = [handle[key].read(batch=batch) for key in keys]
        return np.stack([future.result() for future in futures])

    return read


def _optional_calls(path: Path, keys: list[Any]) -> dict[str, Callable[[], Any]]:
    import zarr

    array: Any = zarr.open_array(path, mode="r")
    return {"zarr-python": lambda: np.stack([array[key] for key in keys])}
