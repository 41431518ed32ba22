"""Handles see or refuse a transaction's change of their array as in TensorStore."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tessarr.tensorstore as ours
from interop.tensorstore_parity.random_views import plain_outcome

theirs = pytest.importorskip("tensorstore", reason="the package tensorstore is absent")

_SPEC = {"driver": "zarr3", "kvstore": "memory://"}


def _created(
    ts: Any, context: Any, shape: int, data_type: str, chunk: int, fill: int, **options: Any
) -> Any:
    grid = {"name": "regular", "configuration": {"chunk_shape": [chunk]}}
    metadata = {"shape": [shape], "data_type": data_type, "fill_value": fill, "chunk_grid": grid}
    spec = {**_SPEC, "metadata": metadata}
    return ts.open(spec, create=True, context=context, **options).result()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "built",
    [(4, "uint8", 2, 0), (6, "uint8", 2, 0), (2, "uint8", 2, 0), (4, "uint8", 4, 0),
     (4, "int16", 2, 0), (4, "uint8", 2, 7)],
    ids=str,
)  # fmt: skip
def test_array_replaced_in_transaction(built: Any, when: str) -> None:
    """An old handle has the new bounds, or raises an error if the chunk grid differs."""

    def describe(ts: Any) -> list[Any]:
        context = ts.Context()
        outside = _created(ts, context, 4, "uint8", 2, 0)
        outside.write([1, 2, 3, 4]).result()
        transaction = ts.Transaction()
        old = outside.with_transaction(transaction)
        result = [plain_outcome(lambda: old.read().result())] if when == "before" else []
        replacement = {"delete_existing": True, "transaction": transaction}
        new = _created(ts, context, *built, **replacement)
        handles = (old, new, outside)
        result += [plain_outcome(lambda h=h: h.read().result()) for h in handles]
        result += [plain_outcome(lambda: old[:2].write([8, 9]).result())]
        result += [plain_outcome(lambda h=h: h.read().result()) for h in handles]
        new[1:2].write([5]).result()
        result += [plain_outcome(lambda h=h: h.read().result()) for h in (old, new)]
        transaction.commit_async().result()
        result += [plain_outcome(lambda: outside.read().result())]
        result += [plain_outcome(lambda: ts.open(_SPEC, context=context).result().read().result())]
        return result

    assert describe(ours) == describe(theirs)


@pytest.mark.parametrize("recheck", [False, True, "open"])
@pytest.mark.parametrize("grows", [False, True])
@pytest.mark.parametrize(
    "built",
    [(4, "uint8", 2, 0), (6, "uint8", 2, 0), (4, "uint8", 4, 0), (4, "int16", 2, 0)],
    ids=str,
)
def test_array_replaced_before_commit(built: Any, grows: bool, recheck: Any) -> None:
    """Handles outside have the new bounds, or still the old bounds."""

    def describe(ts: Any) -> list[Any]:
        context = ts.Context()
        outside = _created(ts, context, 4, "uint8", 2, 0, recheck_cached_metadata=recheck)
        with ts.Transaction() as transaction:
            new = _created(ts, context, *built, delete_existing=True, transaction=transaction)
            if grows:
                new.resize(exclusive_max=[9]).result()
        opened = ts.open(_SPEC, context=context, recheck_cached_metadata=recheck).result()
        acts: list[Callable[[], Any]] = [
            lambda: json.dumps(outside.spec().to_json(), sort_keys=True),
            lambda: json.dumps(outside[1:3].spec(minimal_spec=True).to_json(), sort_keys=True),
            lambda: pickle.loads(pickle.dumps(outside)).domain,
            lambda: copy.deepcopy(outside).domain,
            lambda: ts.cast(outside, ts.float32).spec() and None,
            lambda: ts.stack([outside, outside]).spec() and None,
            lambda: outside.url,
            lambda: repr(outside) == "TensorStore(...)",
            lambda: outside.domain,
            lambda: outside.storage_statistics(query_not_stored=True).result().not_stored,
            lambda: outside.resolve().result().domain,
            lambda: opened.domain,
            lambda: opened.read().result(),
        ]
        return [plain_outcome(act) for act in acts]

    assert describe(ours) == describe(theirs)


@pytest.mark.parametrize("recheck", [False, True, "open"])
@pytest.mark.parametrize("who", ["itself", "another"])
@pytest.mark.parametrize("opened", ["before", "in"])
@pytest.mark.parametrize("read_first", [False, True])
def test_handles_in_transaction_have_resized_bounds(
    recheck: Any, who: str, opened: str, read_first: bool
) -> None:
    """All handles in the transaction have its bounds, with any staleness bound."""

    def describe(ts: Any) -> list[Any]:
        context = ts.Context()
        outside = _created(ts, context, 4, "uint8", 2, 0)
        outside.write([1, 2, 3, 4]).result()
        transaction = ts.Transaction()
        options = {"context": context, "recheck_cached_metadata": recheck}
        apart = ts.open(_SPEC, **options).result()
        within = apart.with_transaction(transaction)
        if opened == "in":
            within = ts.open(_SPEC, **options, transaction=transaction).result()
        result = [plain_outcome(lambda: within.read().result())] if read_first else []
        item = within if who == "itself" else outside.with_transaction(transaction)
        item.resize(exclusive_max=[6]).result()
        result += [
            plain_outcome(lambda h=h: h.read().result()) for h in (within, item, apart, outside)
        ]
        for handle in (within, apart.with_transaction(transaction), apart):
            result.append(plain_outcome(lambda h=handle: h.resolve().result().domain))
        transaction.commit_async().result()
        return [*result, *(plain_outcome(lambda h=h: h.read().result()) for h in (apart, outside))]

    assert describe(ours) == describe(theirs)


@pytest.mark.parametrize("driver", ["zarr3", "zarr"])
@pytest.mark.parametrize("before", [False, True])
def test_transaction_uses_concurrent_resize(driver: str, before: bool, tmp_path: Path) -> None:
    """A dimension that the transaction resized keeps its staged length."""

    def seen(ts: Any) -> list[Any]:
        spec = {"driver": driver, "kvstore": (tmp_path / ts.__name__).as_uri()}
        context = ts.Context()
        new = {"create": True, "dtype": "int8", "shape": [4, 4], "fill_value": 0}
        mine = ts.open(spec, context=context, **new).result()
        other = ts.open(spec, context=context).result()
        transaction = ts.Transaction()
        staged = mine.with_transaction(transaction)
        if before:
            other.resize(exclusive_max=[None, 8]).result()
        first = staged.resize(exclusive_max=[6, None]).result()
        if not before:
            other.resize(exclusive_max=[None, 8]).result()
        first[5, 7] = 3
        second = staged.resize(exclusive_max=[7, None]).result()
        result = [first, first.resolve().result(), second, second.resolve().result(), mine]
        shapes = [item.shape for item in result]
        transaction.commit_sync()
        return [*shapes, ts.open(spec).result().read().result().tolist()]

    assert seen(ours) == seen(theirs)


@pytest.mark.parametrize("driver", ["zarr3", "zarr"])
@pytest.mark.parametrize("others", ["before", "after", "never"])
def test_resized_document_replaced_as_key(driver: str, others: str) -> None:
    """Later changes by other writers do not conflict, and do not count as the resize."""

    def describe(ts: Any) -> list[Any]:
        spec, context = {"driver": driver, "kvstore": "memory://"}, ts.Context()
        new = {"create": True, "dtype": "int8", "shape": [4], "fill_value": 0}
        built = ts.open(spec, context=context, **new).result()
        key = "zarr.json" if driver == "zarr3" else ".zarray"
        document = {**json.loads(built.kvstore[key]), "shape": [20]}
        with ts.Transaction() as transaction:
            inside = built.with_transaction(transaction)
            inside.resize(exclusive_max=[6]).result()
            if others == "before":
                built.resize(exclusive_max=[30]).result()
            inside.kvstore[key] = json.dumps(document)
            if others == "after":
                built.resize(exclusive_max=[30]).result()
        known = built.read().result().shape
        return [known, json.loads(built.kvstore[key])["shape"]]

    assert describe(ours) == describe(theirs)


@pytest.mark.parametrize("ending", ["commit_sync", "abort"])
def test_handle_properties_after_transaction(ending: str) -> None:
    """A spec would be outdated; the known properties of the array remain."""

    def describe(ts: Any) -> list[Any]:
        transaction = ts.Transaction()
        handle = _created(ts, ts.Context(), 4, "uint8", 2, 0, transaction=transaction)
        getattr(transaction, ending)()
        requested = (
            lambda: handle.spec().to_json(),
            lambda: handle[1:].spec(minimal_spec=True).to_json(),
            lambda: handle.url,
            lambda: handle.schema.to_json() == handle.spec().to_json(),
            lambda: handle.chunk_layout.read_chunk.shape,
            lambda: handle.domain.shape,
        )
        return [plain_outcome(ask) for ask in requested]

    assert describe(ours) == describe(theirs)


@pytest.mark.parametrize("ending", ["commit_sync", "abort"])
def test_repr_of_handle_after_transaction(ending: str) -> None:
    transaction = ours.Transaction()
    handle = _created(ours, ours.Context(), 4, "uint8", 2, 0, transaction=transaction)
    getattr(transaction, ending)()
    assert "uint8" in repr(handle)
