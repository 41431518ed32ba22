"""What opening, creating and telling of handles costs: ``python -m bench.specs [folder]``.

The same calls here and with TensorStore, for both formats, on one array in a folder (best one in
memory) and one in memory. Rounds of the two alternate in one process, and the least time of a
round counts, as other work on the machine only adds to it.
"""

from __future__ import annotations

import itertools
import pickle
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

ROUNDS = 25
REPEATED = 50


def calls(ts: Any, driver: str, url: str) -> dict[str, Callable[[], object]]:
    """Return what is done with an array that exists at a URL."""
    spec = {"driver": driver, "kvstore": url}
    parsed, context = ts.Spec(spec), ts.Context()
    pool = ts.Context({"cache_pool": {"total_bytes_limit": 10**7}})
    memory = {"driver": driver, "kvstore": "memory://a/"}
    kind: dict[str, Any] = {"dtype": "uint16", "shape": [1000, 1000]}
    new = {"create": True, "delete_existing": True, **kind}
    ts.open(memory, context=context, **new).result()
    near = ts.Context({"cache_pool": {"total_bytes_limit": 10**7}}, context)
    within, store = ts.Spec(memory), ts.open(spec).result()
    layout, schema = ts.ChunkLayout(chunk_shape=[100, 100]), ts.Schema(**kind)
    lengths = itertools.count(1000)

    def create(**more: Any) -> object:
        parts = {**new, "shape": [next(lengths), 1000], **more}
        return ts.open({"driver": driver, "kvstore": "memory://c/"}, **parts).result()

    view, told = store[10:500:3, 20:], store.spec()
    whole = {**told.to_json(), "kvstore": "memory://b/"}
    return {
        "open by JSON": lambda: ts.open(spec).result(),
        "open by a spec": lambda: ts.open(parsed).result(),
        "open by a URL": lambda: ts.open(f"{url}|{driver}:").result(),
        "open, format found out": lambda: ts.open(url).result(),
        "open in a context": lambda: ts.open(spec, context=context).result(),
        "open in a context with a pool": lambda: ts.open(spec, context=pool).result(),
        "open with constraints": lambda: ts.open(spec, **kind).result(),
        "open with a layout": lambda: ts.open(spec, chunk_layout=layout).result(),
        "open with a schema": lambda: ts.open(spec, schema=schema).result(),
        "open or create": lambda: ts.open(spec, open=True, create=True, **kind).result(),
        "open for reading": lambda: ts.open(spec, read=True).result(),
        "memory: open by JSON": lambda: ts.open(memory, context=context).result(),
        "memory: open by a spec": lambda: ts.open(within, context=context).result(),
        "memory: open by a URL": lambda: ts.open(
            f"memory://a/|{driver}:", context=context
        ).result(),
        "memory: open with constraints": lambda: ts.open(memory, context=context, **kind).result(),
        "memory: open, format found out": lambda: ts.open("memory://a/", context=context).result(),
        "memory: open in a context with a pool": lambda: ts.open(memory, context=near).result(),
        "memory: create by keywords": lambda: ts.open(memory, **new).result(),
        "memory: create, always another shape": create,
        "memory: the same with a layout": lambda: create(chunk_layout=layout),
        "memory: create by JSON": lambda: ts.open(whole, create=True).result(),
        "spec()": store.spec,
        "spec().to_json()": lambda: store.spec().to_json(),
        "schema": lambda: store.schema,
        "schema of a strided view": lambda: view.schema,
        "repr": lambda: repr(store),
        "pickle": lambda: pickle.dumps(store),
    }


def main() -> None:
    """Print a table for each format."""
    import tensorstore
    import tessarr.tensorstore

    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        for driver in ("zarr3", "zarr2"):
            url = f"file://{folder}/{driver}/"
            layout = tensorstore.ChunkLayout(chunk_shape=[100, 100])
            options: dict[str, Any] = {"create": True, "dtype": "uint16", "shape": [1000, 1000]}
            spec = {"driver": driver, "kvstore": url}
            tensorstore.open(spec, chunk_layout=layout, **options).result()
            both = [calls(ts, driver, url) for ts in (tensorstore, tessarr.tensorstore)]
            print(f"| {driver} | TensorStore | here | ratio |\n|---|---|---|---|")
            for name in both[0]:
                least = [float("inf"), float("inf")]
                for _ in range(ROUNDS):
                    for k, actions in enumerate(both):
                        begun = time.perf_counter()
                        for _ in range(REPEATED):
                            actions[name]()
                        least[k] = min(least[k], (time.perf_counter() - begun) / REPEATED)
                one, other = (1e6 * seconds for seconds in least)
                print(f"| {name} | {one:.1f} µs | {other:.1f} µs | {one / other:.2f} |")


if __name__ == "__main__":
    main()
