"""Small reads run at once in the calling thread, if the caller waits for each of them."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from calls import record_calls
from tessarr.codecs import ShardingIndexed
from tessarr.errors import DataError
from tessarr.stores import LocalStore

DATA = np.arange(4000, dtype="i4").reshape(40, 100)


@pytest.fixture(params=["plain", "sharded"])
def array(request: pytest.FixtureRequest, tmp_path: Path) -> tessarr.Array:
    shards = {"plain": None, "sharded": (20, 100)}[request.param]
    return tessarr.create_array(tmp_path, data=DATA, chunks=(10, 100), shards=shards)


def engine_calls(function: Any) -> Counter[str]:
    """Return how many reads of this thread ran at once, and how many went to the workers."""
    names = Counter(record_calls(function).native)
    return Counter({name: names[name] for name in ("PreparedRead.run", "start_reads")})


def test_read_that_is_awaited_runs_at_once(array: tessarr.Array) -> None:
    def loop() -> None:
        for row in range(40):
            future = array.read(row)
            assert future.done()
            np.testing.assert_array_equal(future.result(), DATA[row])

    assert engine_calls(loop) == {"PreparedRead.run": 40, "start_reads": 0}


def test_awaited_reads_of_a_coroutine_run_at_once(array: tessarr.Array) -> None:
    async def loop() -> None:
        for row in range(40):
            np.testing.assert_array_equal(await array.read(row), DATA[row])

    assert engine_calls(lambda: asyncio.run(loop())) == {"PreparedRead.run": 40, "start_reads": 0}


def test_reads_whose_futures_are_held_go_to_workers(array: tessarr.Array) -> None:
    futures: list[Any] = []

    def start() -> None:
        futures.extend(array.read(row) for row in range(40))

    assert engine_calls(start) == {"PreparedRead.run": 2, "start_reads": 38}
    np.testing.assert_array_equal([future.result() for future in futures], DATA)


def test_gathered_reads(array: tessarr.Array) -> None:
    async def gather() -> Any:
        return await asyncio.gather(*(array.read(row) for row in range(40)))

    np.testing.assert_array_equal(asyncio.run(gather()), DATA)


def test_large_reads_go_to_workers(tmp_path: Path) -> None:
    """A read of many chunks, of a large chunk, or of an index list is not small."""
    small = tessarr.create_array(tmp_path / "a", data=DATA, chunks=(2, 100))
    large = tessarr.create_array(tmp_path / "b", data=np.zeros(20_000), chunks=20_000)
    for array, key in ((small, slice(12)), (small, [1, 5, 2]), (large, slice(3))):
        calls = engine_calls(lambda array=array, key=key: array.read(key).result())
        assert calls == {"PreparedRead.run": 0, "start_reads": 1}


@pytest.mark.parametrize(
    ("dtype", "settings"),
    [
        ("string", {"chunks": 4}),
        ("bytes", {"chunks": 4}),
        ("string", {"chunks": 4, "shards": 8}),
        ("u1", {"codecs": [ShardingIndexed([10], ["zstd"]), "zstd"], "chunks": 100_000}),
        ("u1", {"codecs": [ShardingIndexed([10], ["zstd"]), "crc32c"], "chunks": 100_000}),
        ("u1", {"chunks": 1, "shards": 100_000}),
        ("u1", {"codecs": [ShardingIndexed([50_000], [ShardingIndexed([1])])], "chunks": 100_000}),
    ],
)
def test_read_with_hidden_work_is_not_small(
    dtype: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    """Elements may have any length, codecs may enclose a shard, and an index may be long."""
    array = tessarr.create_array(tmp_path, shape=100_000, dtype=dtype, **settings)
    array[1] = {"string": "1", "bytes": b"1"}.get(dtype, 1)
    calls = engine_calls(lambda: array.read(1).result())
    assert calls == {"PreparedRead.run": 0, "start_reads": 1}


def test_read_of_small_shard_with_outer_codecs_is_small(tmp_path: Path) -> None:
    codecs = [ShardingIndexed([10], ["zstd"]), "crc32c"]
    array = tessarr.create_array(tmp_path, shape=1000, dtype="u1", codecs=codecs, chunks=100)
    calls = engine_calls(lambda: array.read(slice(0, 40)).result())
    assert calls == {"PreparedRead.run": 1, "start_reads": 0}
    calls = engine_calls(lambda: array.read(slice(0, 50)).result())
    assert calls == {"PreparedRead.run": 0, "start_reads": 1}


def test_read_of_a_store_that_may_wait_does_not_block() -> None:
    """The caller may be an event loop."""
    gate = threading.Event()

    class Slow(dict[str, bytes]):
        def __getitem__(self, key: str) -> bytes:
            assert key == "zarr.json" or gate.wait(60)
            return super().__getitem__(key)

    store = Slow()
    gate.set()
    array = tessarr.create_array(store, data=DATA[0], chunks=10)
    gate.clear()
    future = array.read(3)
    assert not future.done()
    gate.set()
    assert future.result() == 3


def test_small_read_into_memory(array: tessarr.Array) -> None:
    out = np.zeros(100, "f8")
    future = array.read(3, out=out)
    assert future.done()
    assert future.result() is out
    np.testing.assert_array_equal(out, DATA[3])


def test_error_of_a_small_read_is_in_its_future(tmp_path: Path) -> None:
    array = tessarr.create_array(tmp_path, data=DATA, chunks=(10, 100))
    (tmp_path / "c/0/0").write_bytes(b"damaged")
    future = array.read(0)
    assert isinstance(future.exception(), DataError)
    with pytest.raises(DataError):
        future.result()

    async def read() -> Any:
        return await array.read(0)

    with pytest.raises(DataError):
        asyncio.run(read())


def test_callbacks_of_a_small_read_are_called(array: tessarr.Array) -> None:
    called: list[Any] = []
    future = array.read(1)
    future.add_done_callback(called.append)
    assert called == [future]
    assert not future.cancel()


def test_other_handles_of_an_array_decide_for_themselves(tmp_path: Path) -> None:
    array = tessarr.create_array(LocalStore(tmp_path), data=DATA, chunks=(10, 100))
    other = tessarr.open_array(tmp_path)
    held = [array.read(row) for row in range(3)]
    assert engine_calls(lambda: other.read(0)) == {"PreparedRead.run": 1, "start_reads": 0}
    assert [future.result()[0] for future in held] == [0, 100, 200]
