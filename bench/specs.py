"""Times of opening, creating and describing arrays: ``python -m bench.specs --help``.

The script runs the same calls with Tessarr and TensorStore, for both formats. One array is in a
folder (pass one in memory), the other in memory. Their rounds alternate in one process, and the
least time of a round counts, because other work on the machine only adds to it.
"""

from __future__ import annotations

import argparse
import itertools
import pickle
import tempfile
import time
from collections.abc import Callable
from typing import Any

ROUNDS = 150
REPEATED = 8

Calls = dict[str, Callable[[], object]]
KIND: dict[str, Any] = {"dtype": "uint16", "shape": [1000, 1000]}


def make_openings(ts: Any, driver: str, url: str) -> Calls:
    """Return calls that open the array at a URL."""
    spec = {"driver": driver, "kvstore": url}
    parsed, context, store = ts.Spec(spec), ts.Context(), ts.open(spec).result()
    limit = {"cache_pool": {"total_bytes_limit": 10**7}}
    pool, kvs = ts.Context(limit), ts.KvStore.open(url).result()
    layout, schema = ts.ChunkLayout(chunk_shape=[100, 100]), ts.Schema(**KIND)
    view = store[10:20, 5:].spec().transform.to_json()
    metadata = store.spec().to_json()["metadata"]
    mode = ts.OpenMode(open=True, create=True)

    def in_batch() -> object:
        with ts.Batch() as batch:
            opened = ts.open(spec, batch=batch)
        return opened.result()

    def open_with(target: Any, **keywords: Any) -> Callable[[], object]:
        return lambda: ts.open(target, **keywords).result()

    return {
        "open by JSON": open_with(spec),
        "open by a spec": open_with(parsed),
        "open by a URL": open_with(f"{url}|{driver}:"),
        "open, format detected": open_with(url),
        "open in a context": open_with(spec, context=context),
        "open in a context with a pool": open_with(spec, context=pool),
        "open with a context in JSON": open_with({**spec, "context": limit}),
        "open with constraints": open_with(spec, **KIND),
        "open with a layout": open_with(spec, chunk_layout=layout),
        "open with a schema": open_with(spec, schema=schema),
        "open with metadata": open_with({**spec, "metadata": metadata}),
        "open a view": open_with({**spec, "transform": view}),
        "open or create": open_with(spec, open=True, create=True, **KIND),
        "open by a mode": open_with(spec, open_mode=mode, **KIND),
        "open for reading": open_with(spec, read=True),
        "open, kvstore as keyword": open_with({"driver": driver}, kvstore=kvs),
        "open, kvstore as a spec": open_with({"driver": driver}, kvstore=ts.KvStore.Spec(url)),
        "open in a batch": in_batch,
        "open in a transaction": lambda: ts.open(spec, transaction=ts.Transaction()).result(),
        "open without recheck": open_with(spec, recheck_cached=False),
        "open with recheck": open_with(spec, recheck_cached=True),
        "open, metadata assumed": open_with(spec, open=True, assume_metadata=True, **KIND),
    }


def make_memory_calls(ts: Any, driver: str, _: str) -> Calls:
    """Return calls that open and create an array in memory."""
    spec, context = {"driver": driver, "kvstore": "memory://a/"}, ts.Context()
    new = {"create": True, "delete_existing": True, **KIND}
    opened = ts.open(spec, context=context, **new).result()
    with_pool = ts.Context({"cache_pool": {"total_bytes_limit": 10**7}}, context)
    parsed, kvs = ts.Spec(spec), opened.kvstore
    whole = {**opened.spec().to_json(), "kvstore": "memory://b/"}

    def open_with(target: Any, **keywords: Any) -> Callable[[], object]:
        return lambda: ts.open(target, **keywords).result()

    return {
        "memory: open by JSON": open_with(spec, context=context),
        "memory: open by a spec": open_with(parsed, context=context),
        "memory: open by a URL": open_with(f"memory://a/|{driver}:", context=context),
        "memory: open with constraints": open_with(spec, context=context, **KIND),
        "memory: open, format detected": open_with("memory://a/", context=context),
        "memory: open in a context with a pool": open_with(spec, context=with_pool),
        "memory: open, kvstore as keyword": open_with({"driver": driver}, kvstore=kvs),
        "memory: create by keywords": open_with(spec, **new),
        "memory: create by JSON": open_with(whole, create=True),
    }


def make_creations(ts: Any, driver: str, url: str) -> Calls:
    """Return calls that create arrays, each time with another shape."""
    lengths = itertools.count(1000)
    layout = ts.ChunkLayout(chunk_shape=[100, 100])
    context = ts.Context()
    sharded = ts.ChunkLayout(read_chunk_shape=[10, 10], write_chunk_shape=[100, 100])
    units: dict[str, Any] = {"dimension_units": ["4nm", "4nm"]} if driver == "zarr3" else {}
    name = {"zarr3": "gzip", "zarr2": "zlib"}[driver]
    compressed = ts.CodecSpec(
        {"driver": driver, "compressor": {"id": name, "level": 5}}
        if driver == "zarr2"
        else {"driver": driver, "codecs": [{"name": name, "configuration": {"level": 5}}]}
    )

    def create(kvstore: str = "memory://c/", **more: Any) -> object:
        shape = [next(lengths), 1000]
        parts = {"create": True, "delete_existing": True, "dtype": "uint16", "shape": shape}
        spec = {"driver": driver, "kvstore": kvstore}
        return ts.open(spec, context=context, **{**parts, **more}).result()

    def create_by_json() -> object:
        length = next(lengths)
        metadata = {"shape": [length, 1000]}
        spec = {"driver": driver, "kvstore": "memory://d/", "metadata": metadata}
        mode = {"create": True, "delete_existing": True}
        return ts.open({**spec, **mode, "dtype": "float32"}).result()

    calls: Calls = {
        "create": create,
        "create with a layout": lambda: create(chunk_layout=layout),
        "create, compressed": lambda: create(codec=compressed),
        "create, other data": lambda: create(dtype="float32", fill_value=next(lengths)),
        "create with units": lambda: create(**units),
        "create by JSON": create_by_json,
        "create at a new location": lambda: create(
            f"memory://{next(lengths)}/", open=True, delete_existing=False
        ),
        "create in a folder": lambda: create(f"{url}created/"),
    }
    if driver == "zarr3":
        calls["create with shards"] = lambda: create(chunk_layout=sharded)
    return {f"{name}, new shape": call for name, call in calls.items()}


def make_descriptions(ts: Any, driver: str, url: str) -> Calls:
    """Return calls that describe an open array."""
    store = ts.open({"driver": driver, "kvstore": url}).result()
    view = store[10:500:3, 20:]
    return {
        "spec()": store.spec,
        "spec().to_json()": lambda: store.spec().to_json(),
        "schema": lambda: store.schema,
        "schema of a strided view": lambda: view.schema,
        "repr": lambda: repr(store),
        "pickle": lambda: pickle.dumps(store),
    }


def print_row(both: list[Calls], name: str) -> None:
    """Print a row of the table."""
    least = [float("inf"), float("inf")]
    for _ in range(ROUNDS):
        for k, actions in enumerate(both):
            start = time.perf_counter()
            for _ in range(REPEATED):
                actions[name]()
            least[k] = min(least[k], (time.perf_counter() - start) / REPEATED)
    other, ours = (1e6 * seconds for seconds in least)
    print(f"| {name} | {other:.1f} µs | {ours:.1f} µs | {other / ours:.2f} |", flush=True)


def main() -> None:
    """Print a table for each format."""
    import tensorstore

    import tessarr.tensorstore

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scratch", nargs="?", help="the parent of the folder")
    parser.add_argument(
        "--rows", default="", help="names of rows contain one of these, separated by ;"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        for driver in ("zarr3", "zarr2"):
            url = f"file://{folder}/{driver}/"
            layout = tensorstore.ChunkLayout(chunk_shape=[100, 100])
            spec = {"driver": driver, "kvstore": url}
            tensorstore.open(spec, chunk_layout=layout, create=True, **KIND).result()
            print(f"| {driver} | TensorStore | Tessarr | ratio |\n|---|---|---|---|")
            for group in (make_openings, make_memory_calls, make_creations, make_descriptions):
                both = [group(ts, driver, url) for ts in (tensorstore, tessarr.tensorstore)]
                for name in both[0]:
                    if any(part in name for part in options.rows.split(";")):
                        print_row(both, name)


if __name__ == "__main__":
    main()
