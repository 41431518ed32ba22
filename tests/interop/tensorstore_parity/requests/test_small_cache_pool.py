"""With a small cache, Tessarr makes no more requests to a server than TensorStore."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ours
from interop.tensorstore_parity.request_counting import codecs_of, theirs
from stores import servers

SIDES = (ours, theirs)


def _store(folder: Path, stored: str, chunk: list[int], inside: list[int], values: Any) -> Any:
    """Store values; return the array for later changes."""
    grid = {"name": "regular", "configuration": {"chunk_shape": chunk}}
    metadata = {"chunk_grid": grid, "codecs": codecs_of(stored, tuple(inside))}
    spec = {"driver": "zarr3", "kvstore": folder.as_uri(), "metadata": metadata}
    options: dict[str, Any] = {
        "create": True,
        "dtype": ours.dtype(values.dtype.name),
        "shape": values.shape,
    }
    array = ours.open(spec, **options).result()
    array.write(values).result()
    return array


def _open(ts: Any, proxy: servers.Proxy, limit: int, recheck: Any = False, **context: Any) -> Any:
    spec = {"driver": "zarr3", "kvstore": f"{proxy.url}/", "recheck_cached_data": recheck}
    pool = {"cache_pool": {"total_bytes_limit": limit}}
    return ts.open(spec, context=ts.Context(pool | context)).result()


def _count_requests(array: Any, proxy: servers.Proxy, parts: Any, values: Any) -> list[int]:
    """Return the number of requests of each of some reads."""
    counts = []
    for part in parts:
        proxy.reset_counts()
        assert np.array_equal(array[part].read().result(), values[part])
        counts.append(len(proxy.requests))
    return counts


@pytest.mark.parametrize("stored", ["chunks", "chunks, zstd"])
def test_cached_chunks_are_used_before_eviction(stored: str, tmp_path: Path) -> None:
    """The cache has room for three chunks; the first three of the six reads use other chunks."""
    values = np.random.default_rng(0).integers(0, 1 << 16, 6 << 16, "u2")
    _store(tmp_path, stored, [1 << 16], [1 << 16], values)
    one_at_a_time = {"http_request_concurrency": {"limit": 1}}
    requests = []
    with servers.file_server(tmp_path) as proxy:
        for ts in SIDES:
            array = _open(ts, proxy, 500_000, **one_at_a_time)
            requests.append(_count_requests(array, proxy, (np.s_[3 << 16 :], np.s_[:]), values))
    assert requests[0] == [3, 3]
    assert (np.cumsum(requests[0]) <= np.cumsum(requests[1])).all(), requests


@pytest.mark.parametrize("stored", ["chunks", "chunks, zstd", "shards", "shards, zstd"])
def test_small_cached_chunks_have_no_overhead(stored: str, tmp_path: Path) -> None:
    """The cache's record of a chunk uses no room, even for tiny chunks."""
    values = np.random.default_rng(0).integers(0, 1 << 16, 30 * 64, "u2")
    _store(tmp_path, stored, [64 * 30 if "shards" in stored else 64], [64], values)
    there = []
    with servers.file_server(tmp_path) as proxy:
        for ts in SIDES:
            array = _open(ts, proxy, 4_000)
            for start in range(0, len(values), 64):
                assert array[start].read().result() == values[start]
            proxy.reset_counts()
            starts = iter(range(len(values) - 64, -1, -64))
            there.append(0)
            while array[next(starts)].read().result() is not None and not proxy.requests:
                there[-1] += 1
    assert there[0] >= there[1] > 0


@pytest.mark.parametrize("stored", ["shards", "shards, zstd"])
def test_shard_read_as_whole_keeps_index(stored: str, tmp_path: Path) -> None:
    """The shard has no room, but its index has: a part needs one more request.

    TensorStore's cache holds the last parts, in any order.
    """
    values = np.random.default_rng(0).integers(0, 1 << 30, (512, 1024), "i4")
    _store(tmp_path, stored, [512, 1024], [8, 1024], values)
    requests: list[list[int]] = []
    with servers.file_server(tmp_path) as proxy:
        for ts in (SIDES[0], *[SIDES[1]] * 5):
            array = _open(ts, proxy, 1_000_000)
            parts = (np.s_[:], np.s_[0, 0], np.s_[9, 5])
            requests.append(_count_requests(array, proxy, parts, values))
    assert requests[0] == [1, 1, 1]
    assert sum(requests[0]) <= max(map(sum, requests[1:])), requests


def test_shard_index_outlives_evicted_subchunks(tmp_path: Path) -> None:
    """Each part evicts the previous part, but the index needs no further request."""
    values = np.random.default_rng(0).integers(0, 1 << 16, (2, 4 << 15), "u2")
    _store(tmp_path, "shards, zstd", [1, 4 << 15], [1, 1 << 15], values)
    requests = []
    with servers.file_server(tmp_path) as proxy:
        for ts in SIDES:
            array = _open(ts, proxy, 100_000)
            parts = (np.s_[0, 0], np.s_[1, 0], np.s_[0, 0], np.s_[1, 1 << 15], np.s_[0, 1 << 15])
            requests.append(_count_requests(array, proxy, parts, values))
    assert requests[0] == [2, 2, 1, 1, 1]
    assert (np.cumsum(requests[0]) <= np.cumsum(requests[1])).all(), requests


PARTS = (np.s_[3, 5], np.s_[10, 5], np.s_[3, 5], np.s_[:], np.s_[:, 7], np.s_[20, 3])


class Silent(servers.Files):
    """A store without generations."""

    validators = ()


@pytest.mark.parametrize("recheck", [False, "open"])
@pytest.mark.parametrize("stored", ["chunks, zstd", "shards", "shards, zstd"])
def test_small_shard_without_generation_is_read_whole(
    stored: str, recheck: Any, tmp_path: Path
) -> None:
    """A later partial read might come from another version of the shard."""
    values = np.random.default_rng(0).integers(0, 1 << 16, (128, 64), "u2")
    _store(tmp_path, stored, [64, 64], [8, 64], values)
    requests = []
    with servers.file_server(tmp_path, Silent) as proxy:
        for ts in SIDES:
            array = _open(ts, proxy, 10**8, recheck)
            requests.append(_count_requests(array, proxy, PARTS, values))
    assert (np.cumsum(requests[0]) <= np.cumsum(requests[1])).all(), requests


def test_value_without_generation_is_read_again_after_recheck(
    tmp_path: Path,
) -> None:
    """TensorStore returns the old value."""
    values = np.full((64, 64), 5, "u2")
    writer = _store(tmp_path, "shards", [64, 64], [8, 64], values)
    results = []
    with servers.file_server(tmp_path, Silent) as proxy:
        for ts in SIDES:
            writer.write(5).result()
            array = _open(ts, proxy, 10**8, recheck=True)
            before = int(array[3, 5].read().result())
            writer.write(6).result()
            results.append((before, int(array[3, 5].read().result())))
    assert results == [(5, 6), (5, 5)]


def test_data_copy_limit_keeps_decoded_chunks(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 1 << 16, (64, 64), "u2")
    _store(tmp_path, "shards", [64, 64], [8, 64], values)
    requests = []
    with servers.file_server(tmp_path) as proxy:
        for ts in SIDES:
            array = _open(ts, proxy, 10**8, data_copy_concurrency={"limit": 1})
            parts = (np.s_[3, 5], np.s_[3, 6], np.s_[:8], np.s_[9, 1:3], np.s_[15, 4])
            requests.append(_count_requests(array, proxy, parts, values))
    assert requests[0] == [2, 0, 0, 1, 0]
    assert (np.cumsum(requests[0]) <= np.cumsum(requests[1])).all(), requests


def test_range_of_key_on_server_is_one_request(tmp_path: Path) -> None:
    """The range may start anywhere, and the value may have any size."""
    value = bytes(range(256)) * 1000
    (tmp_path / "key").write_bytes(value)
    spans = (slice(5, 9), slice(70_000, 70_009), slice(100, None), slice(-7, None), slice(0, None))
    requests = []
    with servers.file_server(tmp_path) as proxy:
        for ts in SIDES:
            keys = ts.KvStore.open(f"{proxy.url}/").result()
            for span in spans:
                proxy.reset_counts()
                assert keys.read("key", byte_range=span).result().value == value[span]
                requests.append(len(proxy.requests))
    assert requests == [1] * 10
