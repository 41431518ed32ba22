"""Rows of repeated reads of parts of chunks: rows, maps and points.

Each loop opens its array and starts with an empty cache. The arrays of h5py are uncompressed, or
compressed with LZF, which is closest to the default codec of Tessarr.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tessarr
from bench.loop_rows import LoopRow

__all__ = ["make_rows"]

_CACHE_BYTES = 64 << 20


def make_rows(folder: Path) -> Iterator[LoopRow]:
    """Yield the rows."""
    rows = (1000, 1000)
    for height, limit in {10: 1.0, 100: 1.0, 1000: 1.5}.items():
        yield _make_row(
            f"read 300 rows one by one, chunks of {height} rows",
            folder / f"rows {height}",
            (rows, (height, 1000)),
            range(300),
            {"h5py lzf": limit},
        )
    maps = ((48, 181, 360), (24, 181, 360))
    yield _make_row(
        "read 48 maps one by one, chunks of 24 maps",
        folder / "maps",
        maps,
        range(48),
        {"tensorstore cache": 1.5},
    )
    yield _make_row(
        "read series of 24 at 200 neighbouring points",
        folder / "points",
        maps,
        [(slice(24), 50, index) for index in range(200)],
        {"h5py lzf": 3.0},
    )


def _make_row(
    name: str,
    folder: Path,
    layout: tuple[tuple[int, ...], tuple[int, ...]],
    keys: Sequence[Any],
    limits: dict[str, float],
) -> LoopRow:
    """Store an array of a shape and a chunk shape, and return the row that reads `keys`."""
    shape, chunks = layout
    _store(_make_values(shape), chunks, folder)
    openers = {
        "tessarr": _open_tessarr,
        "h5py lzf": lambda folder: _open_h5py(folder, "lzf"),
        "h5py uncompressed": lambda folder: _open_h5py(folder, "uncompressed"),
        "tensorstore": lambda folder: _open_tensorstore(folder, 0),
        "tensorstore cache": lambda folder: _open_tensorstore(folder, _CACHE_BYTES),
        "zarr": _open_zarr,
        "zarrista": _open_zarrista,
    }

    def make_call(opener: Callable[[Path], Callable[[Any], Any]]) -> Callable[[], object]:
        def call() -> float:
            read = opener(folder)
            parts = [read(key) for key in keys]
            return float(np.sum([part.sum(dtype="f8") for part in parts]))

        return call

    calls = {library: make_call(opener) for library, opener in openers.items()}
    return LoopRow(name, calls, limits)


def _make_values(shape: tuple[int, ...]) -> Any:
    """Return a smooth field with noise in its last bits."""
    axes = np.meshgrid(*(np.linspace(0, 9, length) for length in shape), indexing="ij")
    values = sum(np.sin(axis * (number + 1)) for number, axis in enumerate(axes))
    return (values + np.random.default_rng(0).normal(scale=1e-4, size=shape)).astype("f4")


def _store(values: Any, chunks: tuple[int, ...], folder: Path) -> None:
    """Store the values for all libraries."""
    import h5py

    folder.mkdir()
    tessarr.create_array(folder / "zarr", data=values, chunks=chunks)
    with h5py.File(folder / "h5", "w") as file:
        file.create_dataset("lzf", data=values, chunks=chunks, compression="lzf", shuffle=True)
        file.create_dataset("uncompressed", data=values, chunks=chunks)


def _open_tessarr(folder: Path) -> Callable[[Any], Any]:
    with tessarr.options(chunk_cache_bytes=0):
        pass  # this empties the cache
    return tessarr.open_array(folder / "zarr", mode="r").__getitem__


def _open_h5py(folder: Path, name: str) -> Callable[[Any], Any]:
    import h5py

    dataset: Any = h5py.File(folder / "h5", "r")[name]
    return lambda key: dataset[key]


def _open_tensorstore(folder: Path, cache_bytes: int) -> Callable[[Any], Any]:
    import tensorstore as ts

    spec: Any = {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": f"{folder / 'zarr'}/"},
        "context": {"cache_pool": {"total_bytes_limit": cache_bytes}},
    }
    array = ts.open(spec, read=True).result()
    return lambda key: array[key].read().result()


def _open_zarr(folder: Path) -> Callable[[Any], Any]:
    import zarr

    array: Any = zarr.open_array(folder / "zarr", mode="r")
    return lambda key: array[key]


def _open_zarrista(folder: Path) -> Callable[[Any], Any]:
    from bench.engines import load_engine

    engine = load_engine("zarrista")
    array = engine.open(folder / "zarr", "r")

    def read(key: Any) -> Any:
        terms = key if isinstance(key, tuple) else (key,)
        box = [slice(term, term + 1) if isinstance(term, int) else term for term in terms]
        return engine.read(array, tuple(box))

    return read
