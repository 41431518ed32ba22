"""Reads in a batch, and concurrent reads: each has the same result as a separate read."""

from __future__ import annotations

import gc
import os
import random
import threading
import time
import weakref
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
import tessarr.tensorstore as ts
from calls import record_calls
from tessarr.errors import ArgumentError, DataError, NotFoundError
from tessarr.store.wrappers.instrumented import CountingStore
from tessarr.stores import ForeignStore, LocalStore

SHAPE = (40, 50)
NUMBERS = np.arange(2000).reshape(SHAPE)
LAYOUTS: dict[str, dict[str, Any]] = {
    "raw": {"chunks": (8, 8), "compressors": None},
    "zstd": {"chunks": (8, 8)},
    "crc32c": {"chunks": (8, 8), "compressors": [{"name": "crc32c"}]},
    "shards": {"chunks": (4, 4), "shards": (16, 16)},
    "large shards": {"chunks": (40, 10), "shards": (40, 50), "compressors": None},
}
BATCHED = pytest.mark.parametrize("way", [ts.Batch, nullcontext], ids=["batch", "futures"])
TYPES = {"numbers": NUMBERS.astype("i4"), "booleans": NUMBERS % 3 == 0, "text": NUMBERS.astype("T")}


def opened(folder: Path) -> Any:
    return ts.open(f"file://{folder}/|zarr3:").result()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@BATCHED
def test_batch_reads_have_own_values(way: Any, tmp_path: Path, layout: str, dtype: str) -> None:
    chance, values = random.Random(layout + dtype), TYPES[dtype]
    tessarr.create_array(tmp_path, data=values, **LAYOUTS[layout])
    array = opened(tmp_path)
    keys: list[Any] = [(slice(0, 0), 3), (slice(None), slice(None, None, -3)), (7, 7)]
    for _ in range(60):
        starts = [chance.randrange(size - 1) for size in SHAPE]
        ends = [
            chance.randint(start + 1, min(size, start + 12))
            for start, size in zip(starts, SHAPE, strict=True)
        ]
        keys.append(tuple(map(slice, starts, ends, chance.choices([1, 2, 3], k=2))))
    points = [[chance.randrange(size) for _ in range(30)] for size in SHAPE]
    with way() as batch:
        futures = [array[key].read(batch=batch) for key in keys]
        picked = array.vindex[points[0], points[1]].read(batch=batch)
        assert batch is None or not any(future.done() for future in futures[1:])
    for key, future in zip(keys, futures, strict=True):
        np.testing.assert_array_equal(future.result(), values[key])
    np.testing.assert_array_equal(picked.result(), values[points[0], points[1]])


@BATCHED
def test_batch_reads_of_intact_chunks_succeed(way: Any, tmp_path: Path) -> None:
    tessarr.create_array(tmp_path, data=NUMBERS, chunks=(8, 8))
    (tmp_path / "c" / "1" / "1").write_bytes(b"damaged")
    array = opened(tmp_path)
    keys = [
        np.s_[0:8, 0:9],
        np.s_[9, 7],
        np.s_[0:9, 0:9],
        np.s_[0:8, 0:9],
        np.s_[9, 9],
        np.s_[9, 7],
    ]
    with way() as batch:
        futures = [array[key].read(batch=batch) for key in keys]
    for number in (2, 4):
        with pytest.raises(DataError) as caught:
            futures[number].result()
        assert caught.value.chunk == (1, 1)
    for number in (0, 1, 3, 5):
        np.testing.assert_array_equal(futures[number].result(), NUMBERS[keys[number]])


@pytest.mark.parametrize("layout", ["zstd", "shards"])
def test_batch_reads_damaged_chunk_once(layout: str, tmp_path: Path) -> None:
    """Reads of other parts of a shard share the request, too."""
    tessarr.create_array(tmp_path, data=NUMBERS, fill_value=-1, **LAYOUTS[layout])
    damaged = next(path for path in (tmp_path / "c" / "0").iterdir() if path.name == "0")
    content = bytearray(damaged.read_bytes())
    content[:8] = b"damaged!"  # in a shard, of its first subchunk
    damaged.write_bytes(content)
    store = CountingStore(LocalStore(tmp_path))
    array = ts.open({"driver": "zarr3", "kvstore": {"driver": "tessarr", "store": store}}).result()
    before = store.counts()
    with ts.Batch() as batch:
        bad = [array[index, 0:3].read(batch=batch) for index in (0, 1)]
        good = array[7, 7:12].read(batch=batch)
    for future in bad:
        with pytest.raises(DataError) as caught:
            future.result()
        assert caught.value.chunk == (0, 0)
        assert caught.value.key == "c/0/0"
    if layout == "shards":
        assert "subchunk (0, 0)" in str(caught.value)
        np.testing.assert_array_equal(good.result(), NUMBERS[7, 7:12])
    after = store.counts()
    assert after["opens"] - before["opens"] == {"zstd": 2, "shards": 1}[layout]


def test_batch_read_with_invalid_data_fails_alone(tmp_path: Path) -> None:
    """Only the read that contains an invalid boolean raises an error."""
    tessarr.create_array(tmp_path, data=NUMBERS % 2 == 0, chunks=(40, 50), compressors=None)
    chunk = tmp_path / "c" / "0" / "0"
    chunk.write_bytes(b"\x07" + chunk.read_bytes()[1:])
    array = opened(tmp_path)
    with ts.Batch() as batch:
        good, bad = array[1:3].read(batch=batch), array[0].read(batch=batch)
    np.testing.assert_array_equal(good.result(), (NUMBERS % 2 == 0)[1:3])
    with pytest.raises(DataError, match="neither 0 nor 1"):
        bad.result()


def test_cancelled_batch_read_sends_no_request(tmp_path: Path) -> None:
    tessarr.create_array(tmp_path, data=NUMBERS, chunks=(8, 8))
    array, out = opened(tmp_path), np.zeros(SHAPE, NUMBERS.dtype)
    with ts.Batch() as batch:
        gone = array.read(out=out, batch=batch)
        second = array[3, 4].read(batch=batch)
        assert gone.cancel()
    assert second.result() == NUMBERS[3, 4]
    assert not out.any()


class DelayedStore:
    """A slow store; one of its values arrives after the others."""

    concurrency = 16

    def __init__(self, values: dict[str, bytes], late: str) -> None:
        self.values, self.late, self.goes_on = values, late, threading.Event()

    def get(self, key: str) -> bytes | None:
        if key == self.late:
            self.goes_on.wait(60)
        return self.values.get(key)

    def list(self, prefix: str) -> list[str]:
        return [key for key in self.values if key.startswith(prefix)]


def open_late(store: DelayedStore) -> Any:
    foreign = ForeignStore(store, read_only=True)
    return ts.open({"driver": "zarr3", "kvstore": {"driver": "tessarr", "store": foreign}}).result()


@BATCHED
def test_batch_reads_complete_one_by_one(way: Any) -> None:
    values: dict[str, bytes] = {}
    tessarr.create_array(values, data=TYPES["numbers"], **LAYOUTS["zstd"])
    store = DelayedStore(values, "c/1/0")
    array = open_late(store)
    with way() as batch:
        parts = [array[8 * row : 8 * row + 8].read(batch=batch) for row in range(3)]
    for row in (0, 2):
        np.testing.assert_array_equal(parts[row].result(30), NUMBERS[8 * row : 8 * row + 8])
    assert not parts[1].done()
    store.goes_on.set()
    np.testing.assert_array_equal(parts[1].result(30), NUMBERS[8:16])


def test_batch_read_of_layers_completes_with_last_layer() -> None:
    values: dict[str, bytes] = {}
    tessarr.create_array(values, data=TYPES["numbers"], **LAYOUTS["zstd"])
    store = DelayedStore(values, "c/1/0")
    late, other = open_late(store), open_late(DelayedStore(values, ""))
    both = ts.stack([late, other]).read()
    np.testing.assert_array_equal(other.read().result(30), NUMBERS)
    assert not both.done()
    store.goes_on.set()
    np.testing.assert_array_equal(both.result(30), np.stack([NUMBERS, NUMBERS]))


def test_reopened_array_shares_chunks_in_batch(tmp_path: Path) -> None:
    tessarr.create_array(tmp_path, data=NUMBERS, **LAYOUTS["zstd"])
    store = CountingStore(LocalStore(tmp_path))
    spec = {"driver": "zarr3", "kvstore": {"driver": "tessarr", "store": store}}
    arrays = [ts.open(spec).result() for _ in range(3)]
    before = store.counts()["opens"]
    with ts.Batch() as batch:
        futures = [array[3:20, :7].read(batch=batch) for array in arrays]
    for future in futures:
        np.testing.assert_array_equal(future.result(), NUMBERS[3:20, :7])
    assert store.counts()["opens"] - before == 3


def test_submitted_batch_refuses_reads(tmp_path: Path) -> None:
    tessarr.create_array(tmp_path, data=NUMBERS, chunks=(8, 8))
    array, batch = opened(tmp_path), ts.Batch()
    batch.submit()
    with pytest.raises(ArgumentError, match="already submitted"):
        array.read(batch=batch)


def test_many_batch_reads_use_threads(tmp_path: Path) -> None:
    """A thread that waits for each read runs it inline, as well as the first two of many reads."""
    tessarr.create_array(tmp_path, data=NUMBERS, chunks=(8, 8))
    array = opened(tmp_path)

    def waited() -> None:
        for number in range(10):
            assert array[number, number].read().result() == NUMBERS[number, number]

    def start_batch() -> None:
        futures = [array[number, number].read() for number in range(10)]
        for number, future in enumerate(futures):
            assert future.result() == NUMBERS[number, number]

    waited()
    assert record_calls(waited).native.count("start_reads") == 0
    assert record_calls(start_batch).native.count("start_reads") == 8
    assert record_calls(waited).native.count("start_reads") == 0


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # about forks with threads
def test_forked_child_starts_own_batch_reads(tmp_path: Path) -> None:
    """Pending reads of the parent stay in the parent."""
    tessarr.create_array(tmp_path, data=NUMBERS, chunks=(8, 8))
    array = opened(tmp_path)
    futures = [array[3, number].read() for number in range(50)]
    child = os.fork()
    if child == 0:
        mine = [array[4, number].read() for number in range(50)]
        right = [future.result() for future in mine] == NUMBERS[4].tolist()
        os._exit(0 if right else 1)
    assert [future.result() for future in futures] == NUMBERS[3].tolist()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_batch_read_uses_bounds_of_its_start(tmp_path: Path) -> None:
    """The read uses the bounds from before the resize, with fill values for deleted chunks."""
    tessarr.create_array(tmp_path, data=np.arange(1, 21), chunks=(4,))
    array = opened(tmp_path)
    with ts.Batch() as batch:
        whole, part = array.read(batch=batch), array[2:5].read(batch=batch)
        array.resize(exclusive_max=[10]).result()
    np.testing.assert_array_equal(whole.result(), [*range(1, 13), *[0] * 8])
    np.testing.assert_array_equal(part.result(), [3, 4, 5])


def test_virtual_chunk_reads_in_batch_start(tmp_path: Path) -> None:
    """The batch starts the read even if the only waiter is the function of the chunk."""
    tessarr.create_array(tmp_path, data=NUMBERS, chunks=(8, 8))
    array = opened(tmp_path)

    def read(domain: Any, chunk: Any, parameters: Any) -> Any:
        promise, future = ts.Promise.new()

        def copied(done: Any) -> None:
            chunk[...] = done.result()
            promise.set_result(None)

        array[domain].read(batch=parameters.batch).add_done_callback(copied)
        return future

    layout = ts.ChunkLayout(read_chunk_shape=[8, 8])
    chunks = ts.virtual_chunked(read, dtype=NUMBERS.dtype, shape=SHAPE, chunk_layout=layout)
    with ts.Batch() as batch:
        future = chunks.read(batch=batch)
    np.testing.assert_array_equal(future.result(timeout=10), NUMBERS)


def test_unreferenced_batch_is_collected(tmp_path: Path) -> None:
    """The garbage collector can traverse the references of a pending read."""
    tessarr.create_array(tmp_path, data=NUMBERS, chunks=(8, 8))
    array = opened(tmp_path)

    def run_batch() -> weakref.ref[ts.Batch]:
        batch = ts.Batch()
        array.read(batch=batch).add_done_callback(lambda done: (done, batch))
        return weakref.ref(batch)

    reference = run_batch()
    for _ in range(200):  # it may have started: a thread of the engine drops its reference
        gc.collect()
        if reference() is None:
            return
        time.sleep(0.01)
    raise AssertionError("the batch is kept")


def _function(domain: Any, chunk: Any, parameters: Any) -> None:
    chunk[...] = 5


WAITING: dict[str, Any] = {
    "read": lambda array, batch: array.read(batch=batch),
    "resolve": lambda array, batch: array.resolve(batch=batch),
    "cast": lambda array, batch: ts.cast(array, ts.float64).resolve(batch=batch),
    "opened": lambda array, batch: ts.open(array.spec(), batch=batch),
    "key": lambda array, batch: array.kvstore.read("zarr.json", batch=batch),
    "in a transaction": lambda array, batch: array.with_transaction(ts.Transaction()).read(
        batch=batch
    ),
    "function": lambda _, batch: ts.virtual_chunked(_function, dtype="int8", shape=[4]).read(
        batch=batch
    ),
    "document": lambda array, batch: (
        ts.open(
            {
                "driver": "json",
                "kvstore": array.kvstore.url + "zarr.json",
                "json_pointer": "/shape/0",
            }
        )
        .result()
        .read(batch=batch)
    ),
}


@pytest.mark.parametrize("name", WAITING)
def test_waiting_futures_do_not_keep_batch_alive(name: str, tmp_path: Path) -> None:
    """A batch without references is submitted at once, without a garbage collection."""
    tessarr.create_array(tmp_path, data=NUMBERS, chunks=(8, 8))
    array = ts.open(f"file://{tmp_path}/|zarr3:", recheck_cached_metadata=True).result()
    gc.disable()
    try:
        batch = ts.Batch()
        future, reference = WAITING[name](array, batch), weakref.ref(batch)
        del batch
        assert reference() is None
    finally:
        gc.enable()
    future.result(timeout=30)


@pytest.mark.parametrize("spans", [[None] * 10, [slice(k, k + 5) for k in range(0, 50, 5)]])
def test_batch_requests_repeated_key_once(tmp_path: Path, spans: Any) -> None:
    files = CountingStore(LocalStore(tmp_path))
    store = ts.KvStore.open(files).result()
    store["a"] = value = bytes(range(100))
    before = files.counts()
    with ts.Batch() as batch:
        reads = [store.read("a", byte_range=span, batch=batch) for span in spans]
    assert [read.result().value for read in reads] == [value[span or slice(None)] for span in spans]
    after = files.counts()
    assert [after[operation] - before[operation] for operation in ("opens", "reads")] == [1, 1]


def test_opens_in_batch_read_metadata_once(tmp_path: Path) -> None:
    """An open outside the batch requests them again after the first one starts."""
    tessarr.create_array(tmp_path / "a", data=NUMBERS, chunks=(8, 8))
    store = CountingStore(LocalStore(tmp_path))

    def open_and_read(name: str, batch: ts.Batch) -> Any:
        spec = {"driver": "zarr3", "kvstore": {"driver": "tessarr", "store": store, "path": name}}
        return ts.open(spec, context=context, batch=batch)

    context, before = ts.Context(), store.counts()["opens"]
    with ts.Batch() as batch:
        futures = [open_and_read(name, batch) for name in ("a/", "a/", "none/", "none/")]
    assert [future.result().shape for future in futures[:2]] == [SHAPE, SHAPE]
    for future in futures[2:]:
        with pytest.raises(NotFoundError):
            future.result()
    assert store.counts()["opens"] - before == 2
    with ts.Batch() as batch:
        assert open_and_read("a/", batch).result().shape == SHAPE
        futures[0].result().resize(exclusive_max=[50, 50]).result()
        assert open_and_read("a/", batch).result().shape == (50, 50)


def test_refused_batch_is_dropped_silently() -> None:
    with pytest.raises(TypeError):
        ts.Batch(None)  # type: ignore[call-arg]


def test_later_batch_does_not_share_earlier_reads(tmp_path: Path) -> None:
    """The later batch sees writes in between, even with reads from before them."""
    tessarr.create_array(tmp_path, data=NUMBERS, chunks=(8, 8))
    array, writer = opened(tmp_path), opened(tmp_path)
    keys, context = writer.kvstore, ts.Context()
    keys["k"] = b"before"
    spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/", "recheck_cached_metadata": True}
    looking = ts.open(spec, context=context).result()
    batch = ts.Batch()
    reads = [keys.read("k", batch=batch) for _ in range(2)]
    arrays = [array[0, 0].read(batch=batch) for _ in range(2)]
    opens = [ts.open(spec, context=context, batch=batch) for _ in range(2)]
    bounds = [looking.resolve(batch=batch) for _ in range(2)]
    wholes = [looking.read(batch=batch) for _ in range(2)]
    assert (reads[0].result().value, arrays[0].result()) == (b"before", 0)
    assert opens[0].result().shape == bounds[0].result().shape == SHAPE
    assert wholes[0].result().shape == SHAPE
    keys["k"] = b"after"
    writer[0, 0] = 7
    writer.resize(exclusive_max=[50, 50]).result()
    reads.append(keys.read("k", batch=batch))
    batch.submit()
    assert [read.result().value for read in reads[1:]] == [b"after", b"after"]
    assert arrays[1].result() == 7
    assert opens[1].result().shape == bounds[1].result().shape == (50, 50)
    assert wholes[1].result().shape == (50, 50)


@pytest.mark.parametrize("limit", [0, 10**6])
def test_batch_of_keys_and_arrays_returns_each_value(tmp_path: Path, limit: int) -> None:
    tessarr.create_array(tmp_path, data=NUMBERS, chunks=(4, 4), shards=(16, 16))
    files = CountingStore(LocalStore(tmp_path))
    spec = {"driver": "zarr3", "kvstore": {"driver": "tessarr", "store": files}}
    context = ts.Context({"cache_pool": {"total_bytes_limit": limit}})
    ways = [{}, {"recheck_cached_data": False}, {"recheck_cached_data": "open"}]
    arrays = [ts.open({**spec, **way}, context=context).result() for way in ways]
    keys, value = arrays[0].kvstore, (tmp_path / "c" / "0" / "1").read_bytes()
    spans, before = [slice(0, 9), slice(3, None), slice(-5, None), None], files.counts()["opens"]
    for _ in range(2):
        with ts.Batch() as batch:
            reads = [keys.read("c/0/1", byte_range=span, batch=batch) for span in spans]
            parts = [array[2:9, 14:30].read(batch=batch) for array in arrays]
        assert [read.result().value for read in reads] == [
            value[span or slice(None)] for span in spans
        ]
        for part in parts:
            np.testing.assert_array_equal(part.result(), NUMBERS[2:9, 14:30])
    assert files.counts()["opens"] - before <= 2 * 2  # two shards each time


def test_batch_read_does_not_replace_written_value_in_cache(tmp_path: Path) -> None:
    """The cache keeps the newer value if a write precedes the read."""
    tessarr.create_array(tmp_path, data=NUMBERS, chunks=(8, 8))
    context = ts.Context({"cache_pool": {"total_bytes_limit": 10**6}})
    spec = {
        "driver": "zarr3",
        "kvstore": f"file://{tmp_path}/",
        "recheck_cached_data": False,
        "recheck_cached_metadata": False,
    }
    array = ts.open(spec, context=context).result()

    written = threading.Event()

    def write(_: Any) -> None:
        array[0, 0] = 7
        written.set()

    with ts.Batch() as batch:
        array.kvstore.read("c/0/0", batch=batch).add_done_callback(write)
        parts = [array[:4].read(batch=batch), array[0].read(batch=batch)]
    for part in parts:
        part.result()
    assert written.wait(30)
    assert array[0, 0].read().result() == 7


def test_bounds_are_requested_at_batch_submit(tmp_path: Path) -> None:
    """If the handle rechecks bounds, one request serves all operations of the batch."""
    tessarr.create_array(tmp_path, data=NUMBERS, chunks=(8, 8))
    files = CountingStore(LocalStore(tmp_path))
    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "tessarr", "store": files},
        "recheck_cached_metadata": True,
    }
    array, other = ts.open(spec).result(), opened(tmp_path)
    before = files.counts()["opens"]
    with ts.Batch() as batch:
        whole, part = array.read(batch=batch), array[:8, :8].read(batch=batch)
        twice = ts.stack([array[:8, :8], array[:8, :8]]).read(batch=batch)
        doubled = ts.cast(array, ts.float64).read(batch=batch)
        small = ts.downsample(array, [4, 5], "mean").read(batch=batch)
        wrong = array.read(batch=batch, out=np.zeros(SHAPE, "i8"))
        other.resize(exclusive_max=[8, 10]).result()
    np.testing.assert_array_equal(whole.result(), NUMBERS[:8, :10])
    np.testing.assert_array_equal(part.result(), NUMBERS[:8, :8])
    np.testing.assert_array_equal(twice.result()[1], NUMBERS[:8, :8])
    np.testing.assert_array_equal(doubled.result(), NUMBERS[:8, :10])
    assert small.result().shape == (2, 2)
    with pytest.raises(ArgumentError, match="shape"):
        wrong.result()
    assert files.counts()["opens"] - before == 3  # the metadata, and two chunks
