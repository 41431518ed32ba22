"""Handles and specs in a transaction have its staged metadata, as in TensorStore."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import tessarr.tensorstore as ours
from interop.tensorstore_parity.random_views import plain_outcome

theirs = pytest.importorskip("tensorstore", reason="the package tensorstore is absent")

_DOCUMENTS = {"zarr3": "zarr.json", "zarr": ".zarray"}


def _metadata(driver: str, shape: list[int]) -> dict[str, Any]:
    if driver == "zarr":
        return {"shape": shape, "chunks": [2] * len(shape), "dtype": "<i2"}
    grid = {"name": "regular", "configuration": {"chunk_shape": [2] * len(shape)}}
    return {"shape": shape, "data_type": "int16", "chunk_grid": grid}


def _open_handle(
    ts: Any, driver: str, context: Any, shape: list[int] | None = None, **options: Any
) -> Any:
    spec: dict[str, Any] = {"driver": driver, "kvstore": "memory://"}
    if shape is not None:
        spec["metadata"], options["create"] = _metadata(driver, shape), True
    return ts.open(spec, context=context, **options).result()


def _views(ts: Any, of: Any) -> Iterator[Any]:
    yield of
    yield of[1:3]
    yield of[:, ::2].T
    yield of[0:2, 0:2]
    yield ts.cast(of, ts.float32)[1:]
    yield ts.downsample(of, [2, 1], "mean")
    yield ts.stack([of, of])


def _specs(of: Any) -> list[Any]:
    result = [of.spec, lambda: of.spec(minimal_spec=True)]
    return [plain_outcome(lambda f=f: json.dumps(f().to_json(), sort_keys=True)) for f in result]


def _grow(ts: Any, handle: Any) -> None:
    handle.resize(exclusive_max=[8, 7]).result()


def _grow_twice(ts: Any, handle: Any) -> None:
    handle.resize(exclusive_max=[8, 7]).result().resize(exclusive_max=[9, None]).result()


def _nothing(ts: Any, handle: Any) -> None:
    pass


def _create(ts: Any, handle: Any) -> None:
    driver = handle.spec().to_json()["driver"]
    options = {"delete_existing": True, "transaction": handle.transaction}
    ts.open(
        {"driver": driver, "kvstore": handle.kvstore, "metadata": _metadata(driver, [5, 5])},
        create=True,
        **options,
    ).result()


def _remove(ts: Any, handle: Any) -> None:
    handle.kvstore.delete_range(ts.KvStore.KeyRange()).result()


@pytest.mark.parametrize("change", [_nothing, _grow, _grow_twice, _remove])
@pytest.mark.parametrize("driver", ["zarr3", "zarr"])
@pytest.mark.parametrize("taken", ["before", "within"])
def test_specs_have_staged_metadata(driver: str, taken: str, change: Any) -> None:
    """All handles in the transaction have them, with any view, and no handle outside."""

    def describe(ts: Any) -> list[Any]:
        outside = _open_handle(ts, driver, ts.Context(), [4, 6])
        transaction = ts.Transaction()
        within = outside.with_transaction(transaction)
        if taken == "before":
            views = [view.with_transaction(transaction) for view in _views(ts, outside)]
        else:
            views = list(_views(ts, within))
        change(ts, within)
        result = [_specs(view) for view in views]
        result.append(_specs(outside))
        transaction.abort()
        if ts is ours:  # TensorStore refuses it as well, a moment later
            assert _specs(within) == [ValueError, ValueError]
        return result

    assert describe(ours) == describe(theirs)


def _replace(document: dict[str, Any], driver: str, method: str) -> bytes:
    if "longer" in method:
        document["shape"] = [6]
    if method == "of other elements":
        document["dtype" if driver == "zarr" else "data_type"] = (
            "<i4" if driver == "zarr" else "int32"
        )
    return b"{" if method == "damaged" else json.dumps(document).encode()


@pytest.mark.parametrize("first", ["read", "nothing"])
@pytest.mark.parametrize(
    "method",
    ["removed", "removed in a range", "the same", "longer", "of other elements", "damaged",
     "removed, then the same", "removed, then longer"],
)  # fmt: skip
@pytest.mark.parametrize("driver", ["zarr3", "zarr"])
def test_metadata_replaced_as_keys(driver: str, method: str, first: str) -> None:
    """Handles in the transaction have them, or raise an error if another array replaced theirs."""
    key = _DOCUMENTS[driver]

    def describe(ts: Any) -> list[Any]:
        context = ts.Context()
        outside = _open_handle(ts, driver, context, [4])
        outside[...] = [1, 2, 3, 4]
        transaction = ts.Transaction()
        within = outside.with_transaction(transaction)
        if first == "read":
            within.read().result()
        new = _replace(json.loads(outside.kvstore[key]), driver, method)
        if method == "removed in a range":
            within.kvstore.delete_range(ts.KvStore.KeyRange()).result()
        elif "removed" in method:
            within.kvstore[key] = None
        if method not in {"removed", "removed in a range"}:
            within.kvstore[key] = new
        opened = {"driver": driver, "kvstore": "memory://"}
        acts = [
            lambda: within.read().result(),
            lambda: within.spec().domain,
            lambda: within.resolve().result().domain,
            lambda: within[:2].write(3).result(),
            lambda: within.read().result(),
            lambda: within.resize(exclusive_max=[7]).result().domain,
            lambda: ts.open(opened, context=context, transaction=transaction).result().domain,
            lambda: transaction.commit_async().result() and None,
            lambda: outside.read().result(),
            lambda: outside[:1].write(5).result(),
        ]
        if method == "removed in a range":  # TensorStore keeps the metadata, like other reads
            acts = acts[:7]
        result = [plain_outcome(act) for act in acts]
        if len(acts) == 7:
            return result
        stored = outside.kvstore.read(key).result()
        shape = json.loads(stored.value)["shape"] if method != "damaged" and stored.value else None
        return [*result, shape, outside.kvstore.list().result()]

    assert describe(ours) == describe(theirs)
