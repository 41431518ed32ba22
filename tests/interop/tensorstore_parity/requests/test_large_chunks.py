"""Parts of large chunks and shards: never more requests than TensorStore's."""

from __future__ import annotations

import operator
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from interop.tensorstore_parity.request_counting import Side, codecs_of, requests
from tessarr.store.wrappers.instrumented import CountingStore
from tessarr.stores import LatencyStore, LocalStore


@pytest.mark.parametrize(
    ("key", "reads"), [((), 1), ((slice(0, 896),), 2), ((slice(0, 1000, 500),), 3)]
)
def test_distant_large_subchunks_are_coalesced(key: Any, reads: int, tmp_path: Path) -> None:
    values = np.random.default_rng(1).integers(0, 99, (1024, 1024), "i4")
    layout = {"write_chunk": {"shape": [1024, 1024]}, "read_chunk": {"shape": [128, 128]}}
    members = {}
    for side in [Side(tmp_path / word, real=word == "theirs") for word in ("ours", "theirs")]:
        if not side.real:
            side.store = CountingStore(LatencyStore(LocalStore(tmp_path / "ours")))
            side.kvstore = {"driver": "tessarr", "store": side.store}
        array = side.open(
            create=True,
            dtype=side.ts.int32,
            shape=[1024, 1024],
            chunk_layout=side.ts.ChunkLayout(layout),
        )
        array.write(values).result()
        with side.counting():
            assert (array[key].read().result() == values[key]).all()
        members[side.real] = side.counts["reads"]
    assert members[False] == reads
    assert members[False] <= members[True]


LARGE: dict[str, Any] = {
    "half": np.s_[:1024],
    "columns": np.s_[:, :512],
    "lines": np.s_[::64],
    "every other line": np.s_[:2048:2],
    "a point": np.s_[5, 5],
    "all but an edge": np.s_[1:, 1:],
}


@pytest.mark.parametrize("pool", [None, "cache_pool#big"])
@pytest.mark.parametrize("stored", ["chunks", "chunks, zstd", "shards", "shards, zstd"])
def test_partial_reads_of_large_file_chunks_do_not_exceed_tensorstore(
    stored: str, pool: str | None, tmp_path: Path
) -> None:
    """A read of an 8 MiB chunk proceeds piece by piece, and no piece is a separate request."""
    values = np.random.default_rng(0).integers(0, 1000, (4096, 2048), "u2")
    grid = {"name": "regular", "configuration": {"chunk_shape": [2048, 2048]}}
    members = {"metadata": {"chunk_grid": grid, "codecs": codecs_of(stored, (64, 128))}}
    results: list[dict[str, Any]] = []
    for side in [Side(tmp_path / word, real=word == "theirs") for word in ("ours", "theirs")]:
        created = side.open(members=members, create=True, dtype=side.ts.uint16, shape=values.shape)
        created.write(values).result()
        time.sleep(0.03)  # until time stamps show changes of files reliably
        counts = {}
        for name, part in LARGE.items():
            side.context = side.ts.Context({"cache_pool#big": {"total_bytes_limit": 10**8}})
            array = side.open(members=members, pool=pool)
            with side.counting():
                assert (array[part].read().result() == values[part]).all()
            counts[name] = requests(side.counts)
        results.append(counts)
    for name, mine in results[0].items():
        assert all(map(operator.le, mine, results[1][name])), (name, results)
