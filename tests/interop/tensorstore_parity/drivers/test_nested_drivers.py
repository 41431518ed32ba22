"""Nested views, as JSON: all operations of handles match TensorStore's.

Omitted, because TensorStore is wrong: index arrays into downsampled views, whose blocks at the
edges TensorStore reduces like complete blocks.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ts
from interop.tensorstore_parity.random_views import outcome

theirs = pytest.importorskip("tensorstore", reason="the package tensorstore is absent")

LEAVES = ["zarr3", "zarr", "array", "url"]
KINDS = ["cast", "small", "text", "max", "mean", "stride", "part", "stack"]
CHAINS = [
    *((kind,) for kind in KINDS),
    *itertools.product(KINDS, KINDS),
    *(("cast", "max", "stack"), ("stack", "cast", "max"), ("max", "cast", "small")),
]
OPTIONS: list[dict[str, Any]] = [
    *({}, {"read": True}, {"write": True}, {"read": True, "write": True}),
    *({"dtype": "float64"}, {"dtype": "int32"}, {"rank": 2}, {"rank": 3}, {"shape": [4, 6]}),
    *({"open": True}, {"create": True}, {"create": True, "open": True}, {"fill_value": 0}),
    *({"assume_metadata": True, "open": True}, {"recheck_cached": False}),
    {"dimension_units": ["m", "m"]},
]


def leaf(package: Any, kind: str, folder: Path) -> Any:
    values = np.arange(24).reshape(4, 6)
    if kind == "array":
        return {"driver": "array", "array": values.tolist(), "dtype": "int32"}
    driver = "zarr3" if kind == "url" else kind
    location = (folder / f"{package.__name__}_{kind}").as_uri() + "/"
    spec = {"driver": driver, "kvstore": location}
    layout = package.ChunkLayout(chunk_shape=[2, 3])
    fast = package.Context({"file_io_sync": False})
    new = {"create": True, "delete_existing": True, "dtype": "int32", "shape": [4, 6]}
    store = package.open(spec, context=fast, chunk_layout=layout, **new).result()
    store.write(values.astype("i4")).result()
    return f"{location}|zarr3:" if kind == "url" else spec


def box(lower: list[int], upper: list[int], first: int, offset: int) -> Any:
    output = [{"input_dimension": first}, {"input_dimension": first + 1, "offset": offset}]
    return {"input_inclusive_min": lower, "input_exclusive_max": upper, "output": output}


def over(base: Any, kind: str) -> Any:
    types = {"cast": "float64", "small": "uint8", "text": "ustring"}
    factors = {"max": [2, 2], "mean": [1, 4], "stride": [3, 1]}
    if kind in types:
        return {"driver": "cast", "base": base, "dtype": types[kind]}
    if kind in factors:
        method = {"downsample_factors": factors[kind], "downsample_method": kind}
        return {"driver": "downsample", "base": base, **method}
    if not isinstance(base, dict):
        base = {"driver": "auto", "kvstore": base}
    if kind == "part":
        return {**base, "transform": box([1, 0], [3, 4], 0, 1)}
    if "transform" in base:
        return {"driver": "stack", "layers": [base]}
    layers = [{**base, "transform": box([k, 0, 0], [k + 1, 2, 2], 1, 0)} for k in range(2)]
    return {"driver": "stack", "layers": layers}


def values(array: Any) -> Any:
    return None if array is None else (str(array.dtype), array.shape, array.tolist())


def read(store: Any) -> Any:
    return values(store.read().result()) if store.readable else None


def five(store: Any) -> Any:
    return "5" if store.dtype.name == "ustring" else np.asarray(5).astype(store.dtype.numpy_dtype)


def written(package: Any, store: Any) -> Any:
    store.write(five(store)).result()
    return read(store)


def copied(package: Any, store: Any) -> Any:
    kind = store.dtype
    target = package.array(np.zeros(store.shape, kind.numpy_dtype), dtype=kind)
    target.write(store).result()
    return read(target)


def in_transaction(package: Any, store: Any) -> Any:
    transaction = package.Transaction()
    store.with_transaction(transaction).write(five(store)).result()
    result = [read(store.with_transaction(transaction)), read(store)]
    transaction.commit_sync()
    return [*result, read(store)]


def in_batch(package: Any, store: Any) -> Any:
    batch = package.Batch()
    future = store.read(batch=batch)
    batch.submit()
    return values(future.result())


def statistics(package: Any, store: Any) -> Any:
    requested = {"query_not_stored": True, "query_fully_stored": True}
    result = store.storage_statistics(**requested).result()
    return result.not_stored, result.fully_stored


def longer(package: Any, store: Any) -> Any:
    new = store.resize(exclusive_max=[end + 2 for end in store.domain.exclusive_max]).result()
    return str(new.domain), read(new)


def shorter(package: Any, store: Any) -> Any:
    ends = [None] * (store.rank - 1) + [store.domain.exclusive_max[-1] - 1]
    return str(store.resize(exclusive_max=ends).result().domain)


def fixed(package: Any, store: Any) -> Any:
    return str(store.resolve(fix_resizable_bounds=True).result().domain)


def bases(package: Any, store: Any) -> Any:
    result = []
    while store.base is not None:
        store = store.base
        result.append((str(store.domain), store.dtype.name, read(store)))
    return result


ACTS: dict[str, Callable[[Any, Any], Any]] = {
    "mode": lambda _, store: (store.mode, str(store.domain), store.dtype.name),
    "read": lambda _, store: read(store),
    "order": lambda _, store: values(store.read(order="F").result()),
    "slice": lambda _, store: read(store[..., 1:3]),
    "transposed": lambda _, store: read(store.T),
    "labelled": lambda package, store: str(store[package.d[0].label["x"]].domain),
    "write": written,
    "copy": copied,
    "resolve": lambda _, store: str(store.resolve().result().domain),
    "fix": fixed,
    "longer": longer,
    "shorter": shorter,
    "transaction": in_transaction,
    "batch": in_batch,
    "spec": lambda package, store: read(package.open(store.spec()).result()),
    "minimal": lambda package, store: read(package.open(store.spec(minimal_spec=True)).result()),
    "pickle": lambda _, store: (read(pickle.loads(pickle.dumps(store))), store.mode),
    "fill": lambda _, store: values(store.fill_value),
    "units": lambda _, store: list(map(str, store.dimension_units)),
    "schema": lambda _, store: store.schema.to_json(),
    "url": lambda package, store: store.url.replace(package.__name__, ""),
    "bases": bases,
    "statistics": statistics,
}

BEYOND = {("max", "part"), ("mean", "part"), ("stride", "part")}
"""Drivers whose bounds differ from their views'; TensorStore checks them earlier or later."""


CHANGES = {"write", "transaction", "longer", "shorter"}


class Nested:
    """Opener of nested views in a folder."""

    def __init__(self, package: Any, kind: str, chain: tuple[str, ...], folder: Path) -> None:
        self.package = package
        self._arguments = package, kind, folder
        self._chain = chain
        self.renew()

    def renew(self) -> None:
        self._json = leaf(*self._arguments)
        for view in self._chain:
            self._json = over(self._json, view)

    def opened(self, options: dict[str, Any]) -> Any:
        return self.package.open(self._json, **options).result()

    def evaluate(self, name: str, options: dict[str, Any]) -> Any:
        result = outcome(lambda: ACTS[name](self.package, self.opened(options)))
        if name in CHANGES or options.get("create"):
            self.renew()
        return result


@pytest.mark.parametrize("chain", CHAINS, ids="-".join)
def test_nested_drivers_match_tensorstore(chain: tuple[str, ...], tmp_path: Path) -> None:
    if chain[-2:] in BEYOND:
        return
    for kind in LEAVES if len(chain) == 1 else LEAVES[:1]:
        actual, expected = (Nested(package, kind, chain, tmp_path) for package in (ts, theirs))
        for options in OPTIONS if len(chain) == 1 else OPTIONS[:3]:
            assert actual.evaluate("mode", options) == expected.evaluate("mode", options), options
        if isinstance(expected.evaluate("mode", {}), type):
            continue
        for name in ACTS:
            item, other = actual.evaluate(name, {}), expected.evaluate(name, {})
            if other is NotImplementedError and name == "transaction":
                assert isinstance(item, type)
            else:
                assert item == other, name
