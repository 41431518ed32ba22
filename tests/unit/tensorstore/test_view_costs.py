"""Costs of views, resizing and JSON, in calls: equal in every run on any machine."""

from __future__ import annotations

import gc
import pickle
import pickletools
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ts
from calls import record_calls
from tessarr.tensorstore.driver import ResizeRequest
from tessarr.tensorstore.drivers.zarr.array_properties import ArrayProperties, properties_of
from tessarr.tensorstore.future import executor
from tessarr.tensorstore.schema.element_type import WHOLE

VIEW = ts.IndexTransform(ts.IndexDomain(shape=[100000, 1000, 50]))
LONG = np.arange(10000) % 9999
SHORT = LONG % 1000
LISTED = VIEW[LONG]


def calls(act: Callable[[], object]) -> tuple[Counter[str], Counter[str]]:
    """Count the Python functions and the C functions that `act` calls."""
    act()  # fills the memo
    result = record_calls(act)
    return result.names, Counter(result.native)


ACTS: dict[str, Callable[[], object]] = {
    "view[5]": lambda: VIEW[5],
    "view[5:100, ::3, None]": lambda: VIEW[5:100, ::3, None],
    "view[10 000 indices]": lambda: VIEW[LONG],
    "view[mask of 10 000]": lambda: VIEW[LONG > 50],
    "view of indices [10:500]": lambda: LISTED[10:500],
    "view of indices [10 000 indices]": lambda: LISTED[LONG],
    "view[d[0, 1].label.translate_to]": (lambda: VIEW[ts.d[0, 1].label["x", "y"].translate_to[3]]),
}


@pytest.mark.parametrize("name", ACTS)
def test_operation_is_one_engine_call(name: str) -> None:
    """Composition has no intermediate values."""
    _, native = calls(ACTS[name])
    # The engine first tries an expression as a plain key.
    assert native["View.select"] <= 1, native
    done = sum(native[f"View.{way}"] for way in ("select", "apply_operations", "reverse"))
    assert done == 1 + ("d[" in name)


def test_views_of_subclass_have_base_class() -> None:
    class Derived(ts.IndexTransform):
        pass

    class Box(ts.IndexDomain):
        pass

    view, box = Derived(input_shape=[3, 4]), Box(shape=[3, 4])
    assert type(view.T) is type(view.label["x", "y"]) is type(view[1]) is ts.IndexTransform
    assert type(view.domain) is type(box.T) is type(box.label["x", "y"]) is ts.IndexDomain


@pytest.mark.parametrize("combine", [ts.concat, ts.stack, ts.overlay])
def test_combining_layers_is_cheap(combine: Any) -> None:
    def total(count: int) -> int:
        layers = [ts.array([1, 2]) for _ in range(count)]
        axis = () if combine is ts.overlay else (0,)
        return calls(lambda: combine(layers, *axis))[0].total()

    few, many = total(2), total(20)
    assert few <= 17
    assert many - few <= 18  # the data type of each


def test_chain_of_views_costs_as_much_as_one() -> None:
    """The composition's cost does not grow with the length of the chain."""
    view = VIEW
    for _ in range(40):
        view = view[1:, ::2].translate_to[0].T
    short = calls(lambda: VIEW[5:20, 0])
    again = calls(lambda: view[5:20, 0])
    assert (short[0].total(), short[1].total()) == (again[0].total(), again[1].total())


def test_read_lowers_its_view_once() -> None:
    spec = {"driver": "zarr3", "kvstore": "memory://"}
    store = ts.open(spec, create=True, dtype=ts.uint16, shape=[100, 100]).result()
    for view in (store[5:9, 3], store.oindex[[5, 7], [1, 2]], store.vindex[[5, 7], [1, 2]]):
        _, native = calls(lambda view=view: view.read().result())  # type: ignore[misc]
        assert native["Array._prepare_view_read"] == 1, native
        assert (
            native["View.to_selection"]
            == native["View.select"]
            == native["View.dims"]
            == native["View.maps"]
            == 0
        )


@pytest.mark.parametrize("key", [(5, 5), (slice(3, 8), 7), (slice(None, None, 3), slice(2, 8))])
def test_downsample_read_is_one_engine_call(key: Any) -> None:
    view = ts.downsample(ts.array(np.arange(600).reshape(20, 30)), [2, 3], "mean")
    store = view[:8, :10][key]
    python, native = calls(lambda: store.read().result())
    assert native["Blocks.source"] == native["BlockSource.part"] == native["reduce"] == 1, native
    assert python.total() <= 50, python


def test_chunks_in_cache_are_copied_by_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor._Pool, "_begin_thread", lambda pool: pool._threads.append(None))
    monkeypatch.setattr(executor, "_pools", {})  # this thread runs the work that it waits for
    monkeypatch.setattr("atexit.register", lambda _: None)
    store = ts.virtual_chunked(
        lambda _, chunk, __: chunk.fill(3),
        dtype=ts.uint16,
        shape=[100, 100],
        chunk_layout=ts.ChunkLayout(chunk_shape=[10, 10]),
        context=ts.Context({"cache_pool": {"total_bytes_limit": 10**6}}),
    )
    python, native = calls(lambda: store[5:, 3:].read().result())
    assert native["GridPartition.copy_known"] == 2, native  # none are left on the second call
    assert native["put"] == native["apply_view"] == native["GridPartition.__next__"] == 0, native
    assert python.total() <= 65, python


@pytest.mark.parametrize("kind", ["overlay", "concat", "stack"])
def test_stack_needs_one_call_for_each_layer(kind: str) -> None:
    layers = [ts.array(np.zeros((2, 3))) for _ in range(20)]
    options: dict[str, Any] = {} if kind == "overlay" else {"axis": 0}
    python, native = calls(lambda: getattr(ts, kind)(layers, **options))
    assert python.total() <= 2 * 20 + 8, python
    assert native["LayerStack.build"] == 1, native
    assert native["View.with_maps"] == 0, native
    assert native["LayerStack.views"] == native["LayerStack.visible"] == 0, native


def test_layers_in_folders_take_few_calls_each(tmp_path: Path) -> None:
    def layer(k: int) -> ts.TensorStore:
        spec = {"driver": "zarr3", "kvstore": (tmp_path / str(k)).as_uri() + "/"}
        return ts.open(spec, create=True, dtype=ts.uint16, shape=[2, 3]).result()

    store = ts.concat([layer(k) for k in range(20)], axis=0)[:, 1]
    python, native = calls(lambda: store.read().result())
    assert native["VisibleLayers.read"] == 1, native
    assert python["ZarrDriver.stored_array"] == 20, python
    assert python.total() - 2 * 20 <= 50, python


@pytest.mark.parametrize("name", ["zarr", "zarr3"])
def test_resize_derives_nothing_again(name: str) -> None:
    spec = {"driver": name, "kvstore": "memory://"}
    driver: Any = ts.open(spec, create=True, dtype=ts.uint16, shape=[1, 100]).result()._driver
    lengths = iter(range(200, 900))
    before = driver.codec

    def resize() -> None:
        upper = (next(lengths), None)
        driver._resize(driver.array, ResizeRequest((None, None), upper, limits=(None, None)))

    python, native = calls(resize)
    for costly in ("JSONDecoder.decode", "Chain.compile"):
        assert python[costly] == 0, python
    # Format 2 needs no documents above, and an array at the root has none.
    assert native["MemoryStore.write"] == native["Description.with_shape"] == 1, native
    assert native["MemoryStore.change"] == native["MemoryStore.get"] == 0, native
    assert native["MemoryStore.get_version"] == native["MemoryStore.replace"] == 0, native
    result = properties_of(driver.array._metadata, WHOLE)
    assert result.codec == before
    assert result.schema == ArrayProperties(driver.array._metadata, driver.opened_by._field).schema
    assert driver.domain.shape == (next(lengths) - 1, 100)


def test_operation_without_io_is_done_at_once(tmp_path: Path) -> None:
    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": f"{tmp_path}/a/"},
        "context": {"file_io_sync": False},
    }
    store = ts.open(spec, create=True, dtype=ts.uint16, shape=[1, 100]).result()
    resizing = store.resize(exclusive_max=[2, 100])
    assert resizing.done()
    assert resizing.result().write(3).commit.done()
    assert (tmp_path / "a/c/0/0").is_file()


def open_handle(url: str, **kind: Any) -> ts.TensorStore:
    spec = {"driver": "zarr3", "kvstore": f"memory://{url}"}
    return ts.open(spec, create=True, dtype=ts.uint16, **kind).result()


STORE = open_handle("a/", shape=[100, 100], chunk_layout=ts.ChunkLayout(chunk_shape=[10, 20]))
PART = STORE[5:50:3, 20:]


def test_unpickling_imports_few_names() -> None:
    steps = [step.name for step, *_ in pickletools.genops(pickle.dumps(STORE))]
    assert steps.count("STACK_GLOBAL") <= 2, steps  # opener and context


def test_view_layout_is_lazy() -> None:
    _, native = calls(lambda: STORE[5:50:3, 20:].schema)
    assert native["View.linear_maps"] == 0, native
    _, native = calls(lambda: STORE[5:50:3, 20:].chunk_layout.read_chunk.shape)
    assert native["View.linear_maps"] > 0, native
    assert not hasattr(PART.chunk_layout._constraints, "other")


def test_view_layout_is_computed_once() -> None:
    """A handle keeps it for its chunk layouts and schemas, which users can change independently."""
    part = STORE[5:50:3, 20:]
    _, native = calls(lambda: (part.chunk_layout.grid_origin, part.schema.chunk_layout.rank))
    assert native["View.linear_maps"] == 0, native
    part.chunk_layout.update(read_chunk_elements=7)
    assert part.schema.chunk_layout.read_chunk.elements is None


def test_returned_values_are_copies() -> None:
    document = STORE.spec().to_json()
    expected = repr(document)
    document["metadata"]["codecs"].clear()
    document["kvstore"]["path"] = "b/"
    del document["transform"]["input_exclusive_max"]
    assert repr(STORE.spec().to_json()) == expected
    STORE.kvstore.path = "b/"
    assert STORE.kvstore.path == "a/"
    layout, schema = ts.ChunkLayout(chunk_shape=[3]), ts.Schema(dtype="uint16")
    layout.update(inner_order=[0])
    schema.update(rank=3)
    assert ts.ChunkLayout(chunk_shape=[3]).inner_order is None
    assert ts.Schema(dtype="uint16").rank is None


def test_handle_kvstore_is_new_object() -> None:
    transaction = ts.Transaction()
    within = STORE.with_transaction(transaction)
    item, another = STORE.kvstore, STORE.kvstore
    item.path, item.transaction = "b/", transaction
    assert item is not another
    assert (another.path, another.transaction) == ("a/", None)
    for store in (within.kvstore, within[3:].kvstore):
        assert (store.path, store.transaction) == ("a/", transaction)
        store.transaction = None
    assert within.kvstore.transaction is transaction
    transaction.abort()


def test_linked_handles_are_garbage_collected() -> None:
    def create_reference() -> weakref.ref[ts.TensorStore]:
        known: list[object] = []
        handle = ts.virtual_chunked(lambda *_: known, dtype=ts.uint8, shape=[3])
        known += [handle, handle.label, STORE.with_transaction(ts.Transaction()).kvstore]
        return weakref.ref(handle)

    result = create_reference()
    gc.collect()
    assert result() is None


def test_resize_changes_spec() -> None:
    store = open_handle("b/", shape=[4])
    assert store.spec().to_json()["metadata"]["shape"] == [4]
    larger = store.resize(exclusive_max=[6]).result()
    assert larger.spec().to_json()["metadata"]["shape"] == [6]
    assert "metadata" not in larger.spec(minimal_spec=True).to_json()
    assert larger.spec(create=True).to_json()["create"] is True
    assert "create" not in larger.spec().to_json()
