"""Random points, masks and lists of indices that touch all chunks of an array."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import tessarr
from bench.loop_rows import LoopRow

FORMS: dict[str, Callable[[Any], Any]] = {
    "points": lambda array: array.vindex,
    "mask": lambda array: array,
    "list": lambda array: array.oindex,
}


def make_rows(folder: Path) -> Iterator[LoopRow]:
    """Store arrays of 100 chunks, and yield the rows."""
    rng = np.random.default_rng(0)
    points = tuple(rng.integers(0, 1000, 1_000_000) for _ in range(2))
    mask = rng.random((1000, 10_000)) < 0.1
    indices = rng.integers(0, 4_000_000, 1_000_000)
    cases: list[tuple[str, str, tuple[int, ...], Any, dict[str, float]]] = [
        ("points", "1e6 random points", (1000, 1000), points, {"tensorstore": 1}),
        ("mask", "mask of 1e7, 10 % true", (1000, 10_000), mask, {"tensorstore": 1}),
        ("mask", "mask of 1e7 in one axis", (10_000_000,), mask.ravel(), {"tensorstore": 1}),
        ("list", "1e6 of 4e6 indices", (4_000_000,), indices, {"all, then NumPy": 2}),
    ]
    for form, title, shape, key, limits in cases:
        path = folder / title.replace(" ", "-")
        pieces = 100 if len(shape) == 1 else 10
        chunks = tuple(size // pieces for size in shape)
        ours = tessarr.create_array(path, shape=shape, chunks=chunks, dtype="f4")
        ours[...] = rng.random(shape, dtype="f4")
        peers = open_peers(path)
        reads: dict[str, Callable[[], object]] = {
            "tessarr": partial(lambda a, key: a[key], FORMS[form](ours), key),
            "all, then NumPy": partial(lambda a, key: a[...][key], ours, key),
        }
        writes: dict[str, Callable[[], object]] = {
            "tessarr": partial(lambda a, key: a.__setitem__(key, 1), FORMS[form](ours), key)
        }
        for name, peer in peers.items():
            reads[name] = partial(read_peer, name, FORMS[form](peer), key)
            writes[name] = partial(write_peer, name, FORMS[form](peer), key)
        present = {name: limit for name, limit in limits.items() if name in reads}
        yield LoopRow(f"read {title}", reads, present)
        yield LoopRow(f"write {title}", writes, {})


def open_peers(path: Path) -> dict[str, Any]:
    """Open an array in every other library that is installed."""
    peers: dict[str, Any] = {}
    try:
        import tensorstore
    except ImportError:
        pass
    else:
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}}
        peers["tensorstore"] = tensorstore.open(spec).result()
    try:
        import zarr
    except ImportError:
        pass
    else:
        peers["zarr-python"] = zarr.open_array(path)
    return peers


def read_peer(name: str, indexer: Any, key: Any) -> Any:
    """Read a key with another library."""
    return indexer[key].read().result() if name == "tensorstore" else indexer[key]


def write_peer(name: str, indexer: Any, key: Any) -> None:
    """Write ones to a key with another library."""
    if name == "tensorstore":
        indexer[key].write(np.float32(1)).result()
    else:
        indexer[key] = 1
