"""With caches, no read makes more requests than TensorStore's after any earlier reads."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ours
from interop.tensorstore_parity.request_counting import Side, codecs_of, requests, theirs
from stores import servers

SHAPE, CHUNK, INSIDE = (2048, 1024), (1024, 1024), (64, 128)  # 2 MiB: too large for one read
VALUES = np.random.default_rng(0).integers(0, 1000, SHAPE, "u2")


def _part(draw: random.Random) -> tuple[slice, slice]:
    """Return a part that is likely to overlap others or to lie inside them."""

    def along(length: int, inside: int) -> slice:
        starts = [0, inside, inside // 2, 3 * inside, length // 2, draw.randrange(length)]
        start = draw.choice(starts)
        count = draw.choice([1, inside // 2, inside, 3 * inside, length])
        return slice(start, min(length, start + count))

    return along(SHAPE[0], INSIDE[0]), along(SHAPE[1], INSIDE[1])


def _read(side: Side, array: Any, operation: str, parts: list[tuple[slice, slice]]) -> list[Any]:
    if operation == "read":
        return [array[parts[0]].read().result()]
    if operation == "points":
        rows, columns = ([index.start, index.stop - 1] for index in parts[0])
        return [array.vindex[rows, columns].read().result()]
    with side.ts.Batch() as batch:
        futures = [array[part].read(batch=batch) for part in parts]
    return [future.result() for future in futures]


@pytest.mark.parametrize("seed", [*range(6), 1_700_011, 3_100_003])
@pytest.mark.parametrize("recheck", [False, "open"])
@pytest.mark.parametrize("stored", ["chunks", "chunks, zstd", "shards", "shards, zstd"])
def test_cached_read_requests_do_not_exceed_tensorstore(
    stored: str, recheck: Any, seed: int, tmp_path: Path
) -> None:
    counts, log = [], []
    grid = {"name": "regular", "configuration": {"chunk_shape": list(CHUNK)}}
    for word in ("ours", "theirs"):
        draw = random.Random(seed)
        side = Side(tmp_path / word, real=word == "theirs")
        members = {
            "metadata": {"chunk_grid": grid, "codecs": codecs_of(stored, INSIDE)},
            "recheck_cached_data": recheck,
        }
        options = {"create": True, "dtype": side.ts.uint16, "shape": SHAPE}
        side.open("a/", members=members, **options).write(VALUES).result()
        time.sleep(0.03)  # until time stamps show changes of files reliably
        array = side.open("a/", members=members, pool="cache_pool#big")
        request_counts, results = [], []
        for _ in range(10):
            operation = draw.choice(["read", "read", "points", "batch"])
            parts = [_part(draw) for _ in range(3)]
            with side.counting():
                results += _read(side, array, operation, parts)
            request_counts.append((operation, parts, requests(side.counts)))
        counts.append(request_counts)
        log.append(results)
    assert all(map(np.array_equal, *log))
    for mine, real in zip(*counts, strict=True):
        assert (np.asarray(mine[2]) <= real[2]).all(), (mine, real, counts)
    assert sum(request_counts[0] for *_, request_counts in counts[0]) > 0


@pytest.mark.parametrize("stored", ["chunks", "shards", "shards, zstd"])
def test_cached_server_read_requests_do_not_exceed_tensorstore(stored: str, tmp_path: Path) -> None:
    """Each part that the cache lacks is one request."""
    grid = {"name": "regular", "configuration": {"chunk_shape": list(CHUNK)}}
    metadata = {"chunk_grid": grid, "codecs": codecs_of(stored, INSIDE)}
    created_spec = {"driver": "zarr3", "kvstore": tmp_path.as_uri(), "metadata": metadata}
    ours.open(created_spec, create=True, dtype=ours.uint16, shape=SHAPE).result().write(
        VALUES
    ).result()
    request_counts, log = [], []
    with servers.file_server(tmp_path) as proxy:
        for ts in (ours, theirs):
            context = ts.Context({"cache_pool": {"total_bytes_limit": 10**8}})
            spec = {"driver": "zarr3", "kvstore": f"{proxy.url}/", "recheck_cached_data": False}
            array = ts.open(spec, context=context).result()
            counts, results = [], []
            for part in (np.s_[:1, :1], np.s_[:1, :1], np.s_[:64, :200], np.s_[70:80, :300],
                         np.s_[:80, 100:400], np.s_[900:1000], np.s_[950:1100, 5:700]):  # fmt: skip
                proxy.reset_counts()
                results.append(array[part].read().result())
                counts.append(len(proxy.requests))
            request_counts.append(counts)
            log.append(results)
    assert all(map(np.array_equal, *log))
    assert (np.array(request_counts[0]) <= request_counts[1]).all(), request_counts
    assert request_counts[0][1] == 0


@pytest.mark.parametrize("dtype", ["u1", "i4"])
@pytest.mark.parametrize("stored", ["chunks", "chunks, zstd", "shards", "shards, zstd"])
def test_uncached_server_read_requests_do_not_exceed_tensorstore(
    stored: str, dtype: str, tmp_path: Path
) -> None:
    """A part of an uncompressed chunk is one request, even if its rows are far from each other."""
    values = np.random.default_rng(0).integers(0, 99, SHAPE, dtype)
    grid = {"name": "regular", "configuration": {"chunk_shape": list(CHUNK)}}
    metadata = {"chunk_grid": grid, "codecs": codecs_of(stored, INSIDE)}
    spec = {"driver": "zarr3", "kvstore": tmp_path.as_uri(), "metadata": metadata}
    options = {"create": True, "dtype": ours.dtype(np.dtype(dtype).name), "shape": SHAPE}
    ours.open(spec, **options).result().write(values).result()
    requests: list[list[int]] = []
    with servers.file_server(tmp_path) as proxy:
        for ts in (ours, theirs):
            array = ts.open({"driver": "zarr3", "kvstore": f"{proxy.url}/"}).result()
            counts = []
            for part in (np.s_[5, 5], np.s_[500:900, 1000], np.s_[1:1023, 1:], np.s_[::8, ::700]):
                proxy.reset_counts()
                assert np.array_equal(array[part].read().result(), values[part])
                counts.append(len(proxy.requests))
            proxy.reset_counts()
            with ts.Batch() as batch:
                futures = [array[row, 3].read(batch=batch) for row in (0, 9, 1000, 2000)]
            assert [future.result() for future in futures] == values[[0, 9, 1000, 2000], 3].tolist()
            requests.append([*counts, len(proxy.requests)])
    assert (np.array(requests[0]) <= requests[1]).all(), requests
    if stored == "chunks":
        assert requests[0] == [1, 1, 1, 2, 2]


def test_cached_shard_index_is_not_requested_again(tmp_path: Path) -> None:
    """The server sends no generations: the cache holds the decoded index and its location."""
    grid = {"name": "regular", "configuration": {"chunk_shape": [64, 64]}}
    metadata = {"chunk_grid": grid, "codecs": codecs_of("shards, zstd", (8, 64))}
    created_spec = {"driver": "zarr3", "kvstore": tmp_path.as_uri(), "metadata": metadata}
    values = VALUES[:64, :64]
    options = {"create": True, "dtype": ours.uint16, "shape": [64, 64]}
    ours.open(created_spec, **options).result().write(values).result()
    requests: list[list[int]] = []
    with servers.file_server(tmp_path) as proxy:
        for ts in (ours, theirs):
            context = ts.Context({"cache_pool": {"total_bytes_limit": 10**8}})
            spec = {"driver": "zarr3", "kvstore": f"{proxy.url}/", "recheck_cached_data": False}
            array = ts.open(spec, context=context).result()
            counts = []
            for part in (np.s_[3, 5], np.s_[:], np.s_[:, 7]):
                proxy.reset_counts()
                assert np.array_equal(array[part].read().result(), values[part])
                counts.append(len(proxy.requests))
            requests.append(counts)
    assert (np.array(requests[0]) <= requests[1]).all(), requests
    assert requests[0][2] == 0


def test_unmodified_value_is_not_requested_again(tmp_path: Path) -> None:
    """Parts of a shard with an unchanged tag cost one request."""
    grid = {"name": "regular", "configuration": {"chunk_shape": list(CHUNK)}}
    metadata = {"chunk_grid": grid, "codecs": codecs_of("shards", INSIDE)}
    created_spec = {"driver": "zarr3", "kvstore": tmp_path.as_uri(), "metadata": metadata}
    ours.open(created_spec, create=True, dtype=ours.uint16, shape=SHAPE).result().write(
        VALUES
    ).result()
    requests: list[list[int]] = []
    with servers.file_server(tmp_path) as proxy:
        for ts in (ours, theirs):
            context = ts.Context({"cache_pool": {"total_bytes_limit": 10**8}})
            spec = {"driver": "zarr3", "kvstore": f"{proxy.url}/", "recheck_cached_data": True}
            array = ts.open(spec, context=context).result()
            counts = []
            for part in (np.s_[3, 5], np.s_[3, 5], np.s_[600, :300], np.s_[600, :300], np.s_[3, 5]):
                proxy.reset_counts()
                assert np.array_equal(array[part].read().result(), VALUES[part])
                counts.append(len(proxy.requests))
            requests.append(counts)
    assert (np.array(requests[0]) <= requests[1]).all(), requests
    assert requests[0] == [2, 1, 1, 1, 1]


@pytest.mark.parametrize("recheck", [True, False])
@pytest.mark.parametrize("stored", ["chunks", "chunks, zstd"])
def test_chunk_larger_than_cache_is_one_request(stored: str, recheck: bool, tmp_path: Path) -> None:
    """The cache compares no evicted values; other values arrive with the read."""
    grid = {"name": "regular", "configuration": {"chunk_shape": list(CHUNK)}}
    metadata = {"chunk_grid": grid, "codecs": codecs_of(stored, INSIDE)}
    created_spec = {"driver": "zarr3", "kvstore": tmp_path.as_uri(), "metadata": metadata}
    ours.open(created_spec, create=True, dtype=ours.uint16, shape=SHAPE).result().write(
        VALUES
    ).result()
    with servers.file_server(tmp_path) as proxy:
        context = ours.Context({"cache_pool": {"total_bytes_limit": 500_000}})
        spec = {"driver": "zarr3", "kvstore": f"{proxy.url}/", "recheck_cached_data": recheck}
        array = ours.open(spec, context=context).result()
        for part in (np.s_[3, 5], np.s_[900, 7:9], np.s_[:1000, 3], np.s_[:1000, 3:]):
            proxy.reset_counts()
            assert np.array_equal(array[part].read().result(), VALUES[part])
            assert len(proxy.requests) == 1


@pytest.mark.parametrize("limit", [600_000, 1_000_000])
@pytest.mark.parametrize("inside", [None, (64, 64), (256, 256)])
@pytest.mark.parametrize("encoded", [False, True])
def test_chunk_as_large_as_cache_sends_no_more_requests(
    encoded: bool, inside: tuple[int, int] | None, limit: int, tmp_path: Path
) -> None:
    """The chunk has 512 kB or a little less when stored: cached values do not evict it."""
    codecs: list[Any] = [{"name": "bytes", "configuration": {"endian": "little"}}]
    if encoded:
        codecs.append({"name": "gzip", "configuration": {"level": 1}})
    if inside is not None:
        settings = {"chunk_shape": list(inside), "codecs": codecs}
        codecs = [{"name": "sharding_indexed", "configuration": settings}]
    grid = {"name": "regular", "configuration": {"chunk_shape": [256, 512]}}
    created_spec = {
        "driver": "zarr3",
        "kvstore": tmp_path.as_uri(),
        "metadata": {"chunk_grid": grid, "codecs": codecs},
    }
    values = np.random.default_rng(0).integers(0, 1 << 30, (512, 512), "i4")
    ours.open(created_spec, create=True, dtype=ours.int32, shape=[512, 512]).result().write(
        values
    ).result()
    requests = []
    with servers.file_server(tmp_path) as proxy:
        for ts in (ours, theirs):
            context = ts.Context({"cache_pool": {"total_bytes_limit": limit}})
            spec = {"driver": "zarr3", "kvstore": f"{proxy.url}/", "recheck_cached_data": False}
            array = ts.open(spec, context=context).result()
            proxy.reset_counts()
            for part in (np.s_[:256], np.s_[3, 5], np.s_[:40, :40]):
                for _ in range(2):
                    assert np.array_equal(array[part].read().result(), values[part])
            requests.append(len(proxy.requests))
    assert requests[0] <= requests[1]
