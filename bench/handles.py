"""Times of calls of a handle, beside TensorStore: ``python -m bench.handles [folder]``.

Both libraries open the same array (uncompressed chunks of 100², 20 kB each) and run the same calls.
Their rounds alternate in one process, and the least time of a round counts, because other work on
the machine only adds to it. Pass a folder in memory to leave out the disk.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

ROUNDS = 30


def make_calls(ts: Any, url: str) -> dict[str, tuple[int, Callable[[], object]]]:
    """Return, for each call, its repetitions in a round and the function that runs it."""
    folder = {"driver": "zarr3", "kvstore": url}
    memory = ts.open("memory://|zarr3:", create=True, dtype="uint16", shape=[1000, 1000],
                     chunk_layout=ts.ChunkLayout(chunk_shape=[100, 100])).result()  # fmt: skip
    values = np.arange(10**6, dtype="u2").reshape(1000, 1000)
    memory.write(values).result()
    store, spec = ts.open(folder).result(), ts.Spec(folder)
    element, out = store[5, 5], np.empty_like(values)
    cached = make_cached_reads(ts, url)

    def commit(*, array: Any = None) -> None:
        with ts.Transaction() as transaction:
            if array is not None:
                array.with_transaction(transaction)[5, 5] = 3

    def read_batch() -> None:
        with ts.Batch() as batch:
            futures = [memory[5, k].read(batch=batch) for k in range(10)]
        for future in futures:
            future.result()

    return {
        "open by JSON": (100, lambda: ts.open(folder).result()),
        "open by a spec": (100, lambda: ts.open(spec).result()),
        "index": (500, lambda: store[5, 5]),
        "read an element of a view": (100, lambda: element.read().result()),
        "index and read an element": (100, lambda: store[5, 5].read().result()),
        "index and read a chunk": (50, lambda: store[100:200, 100:200].read().result()),
        "read all": (2, lambda: store.read().result()),
        "copy all to memory": (2, lambda: ts.array(out).write(store).result()),
        "copy all from memory": (2, lambda: store.write(ts.array(values)).result()),
        "write an element": (20, lambda: store[5, 5].write(3).result()),
        "write all": (2, lambda: store.write(values).result()),
        "memory: index and read an element": (100, lambda: memory[5, 5].read().result()),
        "memory: read all": (2, lambda: memory.read().result()),
        "memory: write an element": (100, lambda: memory[5, 5].write(3).result()),
        "memory: read 10 elements in a batch": (20, read_batch),
        "memory: resolve": (100, lambda: memory.resolve().result()),
        "memory: storage statistics": (
            5,
            lambda: memory.storage_statistics(query_fully_stored=True).result(),
        ),
        "commit nothing": (100, commit),
        "commit an element": (20, lambda: commit(array=store)),
        "memory: commit an element": (20, lambda: commit(array=memory)),
        **cached,
        **make_key_calls(ts, "folder", f"{url}{ts.__name__}/"),
        **make_key_calls(ts, "memory", "memory://"),
    }


def _read(store: Any, part: Any) -> object:
    return store[part].read().result()


def make_cached_reads(ts: Any, url: str) -> dict[str, tuple[int, Callable[[], object]]]:
    """Return the calls for compressed chunks that a cache pool holds."""
    calls: dict[str, tuple[int, Callable[[], object]]] = {}
    context = ts.Context({"cache_pool": {"total_bytes_limit": 10**8}})
    values = np.random.default_rng(0).integers(0, 4096, (1000, 1000), "u2")
    for name, layout in (
        ("chunks", {"chunk": {"shape": [250, 250]}}),
        ("shards", {"read_chunk": {"shape": [50, 50]}, "write_chunk": {"shape": [500, 500]}}),
    ):
        zstd = {"name": "zstd", "configuration": {"level": 1}}
        store = ts.open(
            {"driver": "zarr3", "kvstore": f"{url}{ts.__name__}-{name}/"},
            context=context, create=True, dtype="uint16", shape=[1000, 1000],
            chunk_layout=ts.ChunkLayout(layout),
            codec=ts.CodecSpec({"driver": "zarr3", "codecs": [zstd]}) if name == "chunks" else None,
            recheck_cached_data="open",
        ).result()  # fmt: skip
        store.write(values).result()
        store.read().result()
        calls |= {
            f"cache: read an element of {name}": (100, partial(_read, store, (5, 5))),
            f"cache: read a crop of {name}": (100, partial(_read, store, np.s_[30:94, 30:94])),
            f"cache: read all {name}": (5, partial(_read, store, ...)),
        }
    return calls


def make_key_calls(ts: Any, name: str, url: str) -> dict[str, tuple[int, Callable[[], object]]]:
    """Return the calls for keys and values of a key-value store."""
    store = ts.KvStore.open(url).result()
    for number in range(100):
        store[f"key{number:03d}"] = bytes(100)
    some = ts.KvStore.KeyRange("key010", "key020")
    none = ts.KvStore.KeyRange("l", "m")

    def commit() -> None:
        with ts.Transaction() as transaction:
            store.with_transaction(transaction)["key005"] = bytes(100)

    return {
        f"{name}: open": (100, lambda: ts.KvStore.open(url).result()),
        f"{name}: below": (100, lambda: store / "sub"),
        f"{name}: remove an empty range": (20, lambda: store.delete_range(none).result()),
        f"{name}: read a key": (100, lambda: store.read("key005").result().value),
        f"{name}: get a key": (100, lambda: store["key005"]),
        f"{name}: write a key": (50, lambda: store.write("key005", bytes(100)).result()),
        f"{name}: set a key": (50, lambda: store.__setitem__("key005", bytes(100))),
        f"{name}: commit a key": (20, commit),
        f"{name}: list 100 keys": (5, lambda: store.list().result()),
        f"{name}: list 10 of 100 keys": (5, lambda: store.list(some).result()),
    }


def main() -> None:
    """Print the table."""
    import tensorstore

    import tessarr.tensorstore

    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        url = f"file://{folder}/"
        layout = tensorstore.ChunkLayout(chunk_shape=[100, 100])
        options: dict[str, Any] = {"create": True, "dtype": "uint16", "shape": [1000, 1000]}
        array = tensorstore.open(
            {"driver": "zarr3", "kvstore": url}, chunk_layout=layout, **options
        ).result()
        array.write(np.arange(10**6, dtype="u2").reshape(1000, 1000)).result()
        theirs, ours = make_calls(tensorstore, url), make_calls(tessarr.tensorstore, url)
        print("| | TensorStore | Tessarr | ratio |\n|---|---|---|---|")
        for name in theirs:
            least = [float("inf"), float("inf")]
            for _ in range(ROUNDS):
                for k, (count, act) in enumerate((theirs[name], ours[name])):
                    start = time.perf_counter()
                    for _ in range(count):
                        act()
                    least[k] = min(least[k], (time.perf_counter() - start) / count)
            other, ours_us = (1e6 * seconds for seconds in least)
            print(f"| {name} | {other:.1f} µs | {ours_us:.1f} µs | {other / ours_us:.2f} |")


if __name__ == "__main__":
    main()
