"""What opening, creating and telling of handles costs: ``python -m bench.specs --help``.

The same calls here and with TensorStore, for both formats, on one array in a folder (best one in
memory) and one in memory. Rounds of the two alternate in one process, and the least time of a
round counts, as other work on the machine only adds to it.
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


def openings(ts: Any, driver: str, url: str) -> Calls:
    """Return the ways to open an array that exists at a URL."""
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

    def opens(given: Any, **keywords: Any) -> Callable[[], object]:
        return lambda: ts.open(given, **keywords).result()

    return {
        "open by JSON": opens(spec),
        "open by a spec": opens(parsed),
        "open by a URL": opens(f"{url}|{driver}:"),
        "open, format found out": opens(url),
        "open in a context": opens(spec, context=context),
        "open in a context with a pool": opens(spec, context=pool),
        "open with a context in JSON": opens({**spec, "context": limit}),
        "open with constraints": opens(spec, **KIND),
        "open with a layout": opens(spec, chunk_layout=layout),
        "open with a schema": opens(spec, schema=schema),
        "open with metadata": opens({**spec, "metadata": metadata}),
        "open a view": opens({**spec, "transform": view}),
        "open or create": opens(spec, open=True, create=True, **KIND),
        "open by a mode": opens(spec, open_mode=mode, **KIND),
        "open for reading": opens(spec, read=True),
        "open, kvstore as keyword": opens({"driver": driver}, kvstore=kvs),
        "open, kvstore as a spec": opens({"driver": driver}, kvstore=ts.KvStore.Spec(url)),
        "open in a batch": in_batch,
        "open in a transaction": lambda: ts.open(spec, transaction=ts.Transaction()).result(),
        "open, nothing looked at": opens(spec, recheck_cached=False),
        "open, looked at always": opens(spec, recheck_cached=True),
        "open, metadata assumed": opens(spec, open=True, assume_metadata=True, **KIND),
    }


def in_memory(ts: Any, driver: str, _: str) -> Calls:
    """Return the ways to open and create an array in memory."""
    spec, context = {"driver": driver, "kvstore": "memory://a/"}, ts.Context()
    new = {"create": True, "delete_existing": True, **KIND}
    opened = ts.open(spec, context=context, **new).result()
    near = ts.Context({"cache_pool": {"total_bytes_limit": 10**7}}, context)
    within, kvs = ts.Spec(spec), opened.kvstore
    whole = {**opened.spec().to_json(), "kvstore": "memory://b/"}

    def opens(given: Any, **keywords: Any) -> Callable[[], object]:
        return lambda: ts.open(given, **keywords).result()

    return {
        "memory: open by JSON": opens(spec, context=context),
        "memory: open by a spec": opens(within, context=context),
        "memory: open by a URL": opens(f"memory://a/|{driver}:", context=context),
        "memory: open with constraints": opens(spec, context=context, **KIND),
        "memory: open, format found out": opens("memory://a/", context=context),
        "memory: open in a context with a pool": opens(spec, context=near),
        "memory: open, kvstore as keyword": opens({"driver": driver}, kvstore=kvs),
        "memory: create by keywords": opens(spec, **new),
        "memory: create by JSON": opens(whole, create=True),
    }


def creations(ts: Any, driver: str, url: str) -> Calls:
    """Return the ways to create arrays, each time another."""
    lengths = itertools.count(1000)
    layout = ts.ChunkLayout(chunk_shape=[100, 100])
    context = ts.Context()
    sharded = ts.ChunkLayout(read_chunk_shape=[10, 10], write_chunk_shape=[100, 100])
    units: dict[str, Any] = {"dimension_units": ["4nm", "4nm"]} if driver == "zarr3" else {}
    name = {"zarr3": "gzip", "zarr2": "zlib"}[driver]
    packed = ts.CodecSpec(
        {"driver": driver, "compressor": {"id": name, "level": 5}}
        if driver == "zarr2"
        else {"driver": driver, "codecs": [{"name": name, "configuration": {"level": 5}}]}
    )

    def create(at: str = "memory://c/", **more: Any) -> object:
        shape = [next(lengths), 1000]
        parts = {"create": True, "delete_existing": True, "dtype": "uint16", "shape": shape}
        spec = {"driver": driver, "kvstore": at}
        return ts.open(spec, context=context, **{**parts, **more}).result()

    def whole() -> object:
        length = next(lengths)
        metadata = {"shape": [length, 1000]}
        spec = {"driver": driver, "kvstore": "memory://d/", "metadata": metadata}
        mode = {"create": True, "delete_existing": True}
        return ts.open({**spec, **mode, "dtype": "float32"}).result()

    found: Calls = {
        "create": create,
        "create with a layout": lambda: create(chunk_layout=layout),
        "create, compressed": lambda: create(codec=packed),
        "create, other data": lambda: create(dtype="float32", fill_value=next(lengths)),
        "create with units": lambda: create(**units),
        "create by JSON": whole,
        "create where nothing is": lambda: create(
            f"memory://{next(lengths)}/", open=True, delete_existing=False
        ),
        "create in a folder": lambda: create(f"{url}made/"),
    }
    if driver == "zarr3":
        found["create with shards"] = lambda: create(chunk_layout=sharded)
    return {f"{what}, never seen before": make for what, make in found.items()}


def tellings(ts: Any, driver: str, url: str) -> Calls:
    """Return what an open array tells of itself."""
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


def compare(both: list[Calls], name: str) -> None:
    """Print a row of the table."""
    least = [float("inf"), float("inf")]
    for _ in range(ROUNDS):
        for k, actions in enumerate(both):
            begun = time.perf_counter()
            for _ in range(REPEATED):
                actions[name]()
            least[k] = min(least[k], (time.perf_counter() - begun) / REPEATED)
    one, other = (1e6 * seconds for seconds in least)
    print(f"| {name} | {one:.1f} µs | {other:.1f} µs | {one / other:.2f} |", flush=True)


def main() -> None:
    """Print a table for each format."""
    import tensorstore

    import tessarr.tensorstore

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scratch", nargs="?", help="where the folder is made")
    parser.add_argument(
        "--rows", default="", help="only those that contain one of these; ; between"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        for driver in ("zarr3", "zarr2"):
            url = f"file://{folder}/{driver}/"
            layout = tensorstore.ChunkLayout(chunk_shape=[100, 100])
            spec = {"driver": driver, "kvstore": url}
            tensorstore.open(spec, chunk_layout=layout, create=True, **KIND).result()
            print(f"| {driver} | TensorStore | here | ratio |\n|---|---|---|---|")
            for group in (openings, in_memory, creations, tellings):
                both = [group(ts, driver, url) for ts in (tensorstore, tessarr.tensorstore)]
                for name in both[0]:
                    if any(part in name for part in options.rows.split(";")):
                        compare(both, name)


if __name__ == "__main__":
    main()
