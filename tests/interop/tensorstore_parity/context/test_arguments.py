"""Contexts, transactions and batches as arguments: Tessarr accepts TensorStore's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from time import sleep
from typing import Any

import pytest

import tessarr.tensorstore as ours
from interop.tensorstore_parity.random_views import outcome

theirs = pytest.importorskip("tensorstore", reason="compared with TensorStore's own")

SPEC = {"driver": "zarr3", "kvstore": "memory://"}

both = pytest.mark.parametrize("ts", [ours, theirs], ids=["ours", "theirs"])

NO_SUCH: dict[str, Callable[[Any], Any]] = {
    "open, a context": lambda ts: ts.open(SPEC, context=5),
    "open, a transaction": lambda ts: ts.open(SPEC, transaction=5),
    "open, a batch": lambda ts: ts.open(SPEC, batch=5),
    "keys, a context": lambda ts: ts.KvStore.open("memory://", context=5),
    "keys, a transaction": lambda ts: ts.KvStore.open("memory://", transaction=5),
    "keys with a transaction": lambda ts: _keys(ts).with_transaction(5),
    "keys get a transaction": lambda ts: setattr(_keys(ts), "transaction", 5),
    "keys, a batch": lambda ts: _keys(ts).read("a", batch=5),
    "an array, a context": lambda ts: ts.array([1], context=5),
    "layers, a context": lambda ts: ts.overlay([ts.array([1])], context=5),
    "layers, a transaction": lambda ts: ts.overlay([ts.array([1])], transaction=5),
    "functions, a context": lambda ts: _virtual(ts, context=5),
    "functions, a transaction": lambda ts: _virtual(ts, transaction=5),
    "a spec, a context": lambda ts: ts.Spec(SPEC).update(context=5),
    "a place, a context": lambda ts: ts.KvStore.Spec("memory://").update(context=5),
    "a handle with a transaction": lambda ts: ts.array([1]).with_transaction(5),
    "a read, a batch": lambda ts: ts.array([1]).read(batch=5),
}


def _keys(ts: Any) -> Any:
    return ts.KvStore.open("memory://").result()


def _virtual(ts: Any, **options: Any) -> Any:
    return ts.virtual_chunked(lambda *_: None, dtype=ts.int8, shape=[3], **options)


@both
@pytest.mark.parametrize("name", NO_SUCH)
def test_arguments_of_other_types_are_refused(ts: Any, name: str) -> None:
    with pytest.raises(TypeError):
        NO_SUCH[name](ts)


@both
def test_kvstore_transaction_applies_to_array(ts: Any) -> None:
    """A kvstore with a transaction opens an array that writes in the transaction."""
    keys = _keys(ts)
    whole = ts.open({"driver": "zarr3"}, kvstore=keys, create=True, dtype="int16", shape=[2])
    outside = whole.result()
    transaction = ts.Transaction()
    store = ts.open({"driver": "zarr3"}, kvstore=keys.with_transaction(transaction)).result()
    assert store.transaction == transaction
    assert store.kvstore.transaction == transaction

    store[...] = 7
    assert outside.read().result().tolist() == [0, 0]
    transaction.commit_sync()
    assert outside.read().result().tolist() == [7, 7]


@both
def test_kvstore_in_other_transaction_is_refused(ts: Any) -> None:
    keys = _keys(ts).with_transaction(ts.Transaction())
    with pytest.raises(ValueError, match="transaction"):
        ts.open({"driver": "zarr3"}, kvstore=keys, transaction=ts.Transaction()).result()


@both
def test_stripped_resource_is_bound_again(ts: Any) -> None:
    first, other = ts.Context(), ts.Context()
    ts.KvStore.open("memory://", context=first).result()["a"] = b"1"
    spec = ts.KvStore.Spec("memory://")
    spec.update(context=other)
    spec.update(context=first)  # is bound already
    assert "a" not in ts.KvStore.open(spec).result()
    spec.update(strip_context=True, context=first)
    assert "a" in ts.KvStore.open(spec).result()


@both
def test_write_in_transaction_completes_future(ts: Any) -> None:
    """The generation is empty only if the condition fails."""
    transaction = ts.Transaction()
    keys = _keys(ts).with_transaction(transaction)
    assert keys.write("a", b"1").result().generation
    read = keys.read("a").result()
    assert keys.write("a", b"2", if_equal=read.stamp.generation).result().generation
    assert keys["a"] == b"2"
    transaction.commit_sync()


@both
@pytest.mark.parametrize("url", ["file://", "file:", "memory:abc", "memory://abc?query"])
def test_urls_of_no_store(ts: Any, url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        ts.KvStore.Spec(url)


def _layers(ts: Any) -> tuple[Any, Any]:
    """Return an array of five elements, and a spec that opens it as a layer."""
    context = ts.Context()
    schema = {"dtype": "int32", "domain": {"shape": [5]}}
    base = ts.open({**SPEC, "schema": schema}, create=True, context=context).result()
    base.write([1, 2, 3, 4, 5]).result()
    return base, base.spec(retain_context=True).translate_by[5]


@both
def test_layers_are_in_one_transaction(ts: Any) -> None:
    base, behind = _layers(ts)
    first, other = ts.Transaction(), ts.Transaction()
    inside = base.with_transaction(first)
    both_inside = [inside, inside.translate_by[5]]

    assert ts.overlay(both_inside).transaction == first
    assert ts.overlay(both_inside, transaction=first).transaction == first
    assert ts.overlay([inside, behind], transaction=first).transaction == first
    assert ts.overlay([base, base.translate_by[5]], transaction=first).transaction == first

    for layers, transaction in (
        ([inside, base.translate_by[5]], None),
        ([base, inside.translate_by[5]], None),
        ([inside, behind], None),
        ([base, behind], first),
        ([inside, base.with_transaction(other)], None),
        (both_inside, other),
    ):
        with pytest.raises(ValueError, match="ransaction"):
            ts.overlay(layers, transaction=transaction)


@both
def test_layers_are_written_in_transaction(ts: Any) -> None:
    base, _ = _layers(ts)
    with ts.Transaction() as transaction:
        inside = base.with_transaction(transaction)
        whole = ts.overlay([inside, inside.translate_by[5]])
        whole[3:7] = 9
        assert whole[3:7].read().result().tolist() == [9] * 4
        assert base.read().result().tolist() == [1, 2, 3, 4, 5]
    assert base.read().result().tolist() == [9, 9, 3, 9, 9]


@both
def test_stack_mode_is_union_of_layer_modes(ts: Any) -> None:
    base, behind = _layers(ts)
    spec = base.spec(retain_context=True)
    read = ts.open(spec, read=True).result()
    write = ts.open(spec, write=True).result().translate_by[5]

    assert ts.overlay([read, read.translate_by[5]]).mode == "r"
    assert ts.overlay([write, write.translate_by[5]]).mode == "w"
    assert ts.overlay([read, write]).mode == "rw"
    assert ts.overlay([read, behind]).mode == "rw"
    assert ts.overlay([read, behind], read=True).mode == "r"
    with pytest.raises(ValueError, match=r"."):
        ts.overlay([read, read.translate_by[5]], write=True)
    with pytest.raises(ValueError, match=r"."):
        ts.overlay([write], read=True, write=True)


MODES: list[dict[str, bool]] = [
    {},
    {"open": True, "create": True},
    {"create": True, "delete_existing": True},
]


@pytest.mark.parametrize("first", MODES, ids=str)
@pytest.mark.parametrize("second", MODES, ids=str)
@pytest.mark.parametrize("units", [["4nm", "4nm"], ["4nm", "8nm"], ["4nm", None]], ids=str)
def test_spec_of_stack_has_common_members_of_layers(
    first: dict[str, bool], second: dict[str, bool], units: list[str | None]
) -> None:
    def describe(ts: Any) -> Any:
        schema = {"dtype": "int8", "domain": {"shape": [5]}}
        layers = [
            {**SPEC, **mode, "schema": {**schema, "dimension_units": [unit]}}
            for mode, unit in zip((first, second), units, strict=True)
        ]
        spec = ts.Spec({"driver": "stack", "layers": layers})
        return repr(spec.open_mode), list(map(str, spec.dimension_units))

    assert describe(ours) == describe(theirs)


@both
def test_operation_without_requests_ignores_batch(ts: Any) -> None:
    """Operations without requests start at once; both packages refuse a submitted batch."""
    keys = _keys(ts)
    keys["a"] = b"1"
    batch = ts.Batch()
    futures = [keys.read("a", batch=batch), keys.read("b", batch=batch)]
    assert [future.result(timeout=60).state for future in futures] == ["value", "missing"]
    whole = ts.open(SPEC, create=True, dtype="int16", shape=[2], batch=batch)
    for future in (
        whole,
        whole.result(timeout=60).resolve(batch=batch),
        ts.array([1]).resolve(batch=batch),
        ts.open({"driver": "json", "kvstore": "memory://"}, batch=batch),
    ):
        future.result(timeout=60)
    batch.submit()
    for again in (
        lambda: keys.read("a", batch=batch),
        lambda: whole.result().read(batch=batch),
        lambda: ts.array([1]).read(batch=batch),
        lambda: ts.array([1]).resolve(batch=batch),
    ):
        with pytest.raises(ValueError, match="submitted"):
            again().result()
    ts.open(SPEC, create=True, dtype="int16", shape=[2], batch=batch).result(timeout=60)


@both
def test_operation_with_requests_waits_for_batch(ts: Any, tmp_path: Path) -> None:
    kvstore = {"driver": "file", "path": f"{tmp_path}/"}
    array = ts.open({**SPEC, "kvstore": kvstore}, create=True, dtype="int16", shape=[2]).result()
    batch = ts.Batch()
    futures = [
        ts.KvStore.open(kvstore).result().read("zarr.json", batch=batch),
        ts.open({**SPEC, "kvstore": kvstore}, batch=batch),
        ts.open(kvstore, batch=batch),
        ts.open({"driver": "cast", "dtype": "int32", "base": kvstore}, batch=batch),
        array.read(batch=batch),
    ]
    array.resolve(batch=batch).result(timeout=60)  # the cache holds the value
    sleep(0.05)
    assert not any(future.done() for future in futures)
    batch.submit()
    for future in futures:
        future.result()


@both
@pytest.mark.parametrize("layer", ["", "cast", "overlay", "downsample"])
def test_functions_are_called_when_batch_is_submitted(ts: Any, layer: str) -> None:
    """The functions may read in another batch."""
    called = []
    base = ts.array([5, 6, 7, 8])

    def read(domain: Any, chunk: Any, parameters: Any) -> None:
        base[domain].read(batch=parameters.batch)
        called.append(str(domain))
        chunk[...] = 3

    store = ts.virtual_chunked(
        read, dtype=ts.int32, shape=[4], chunk_layout=ts.ChunkLayout(chunk_shape=[2])
    )
    if layer:
        store = {
            "cast": lambda: ts.cast(store, ts.float32),
            "overlay": lambda: ts.overlay([store]),
            "downsample": lambda: ts.downsample(store, [2], "mean"),
        }[layer]()
    batch = ts.Batch()
    future = store.read(batch=batch)
    future.force()
    sleep(0.05)
    assert called == [] or ts is ours  # the wanted operations start here
    batch.submit()
    assert set(future.result().tolist()) == {3}
    assert sorted(called) == ["{ [0, 2) }", "{ [2, 4) }"]


def test_coroutine_functions_read_in_batch() -> None:
    base = ours.array([5, 6, 7, 8], dtype=ours.int32)

    async def read(domain: Any, chunk: Any, parameters: Any) -> None:
        chunk[...] = await base[domain].read(batch=parameters.batch)

    async def main() -> list[int]:
        store = ours.virtual_chunked(read, dtype=ours.int32, shape=[4])
        with ours.Batch() as batch:
            future = store.read(batch=batch)
        return list(await future)

    assert asyncio.run(main()) == [5, 6, 7, 8]


@both
@pytest.mark.parametrize("driver", ["zarr3", "zarr"])
@pytest.mark.parametrize("layer", ["", "cast"])
def test_spec_has_bounds_set_by_other_handle_of_context(ts: Any, driver: str, layer: str) -> None:
    context, spec = ts.Context(), {"driver": driver, "kvstore": "memory://"}
    array = ts.open(spec, context=context, create=True, dtype=ts.int8, shape=[4]).result()
    other = ts.open(spec, context=context).result()
    shown = ts.cast(other, ts.int16) if layer else other
    array.resize(exclusive_max=[8]).result()
    json = shown.spec().to_json()
    assert json.get("base", json)["metadata"]["shape"] == [8]
    upper = {"zarr3": 8, "zarr": 4}[driver]  # of format 2, whose handle reports them
    assert json["transform"]["input_exclusive_max"] == [[upper]]
    assert shown.shape == (4,)
    assert shown.resolve().result().shape == (8,)


@pytest.mark.parametrize("driver", ["zarr3", "zarr"])
def test_spec_of_recreated_array_raises(driver: str) -> None:
    def describe(ts: Any) -> Any:
        context, spec = ts.Context(), {"driver": driver, "kvstore": "memory://"}
        old = ts.open(spec, context=context, create=True, dtype=ts.int8, shape=[4]).result()
        options: Any = {"create": True, "delete_existing": True, "dtype": ts.int16}
        ts.open(spec, context=context, shape=[5, 6], **options).result()
        assert (old.shape, repr(old)) == ((4,), "TensorStore(...)")
        return outcome(old.spec), outcome(old[1:].spec), outcome(lambda: old.url)

    assert describe(ours) == describe(theirs) == (ValueError,) * 3
