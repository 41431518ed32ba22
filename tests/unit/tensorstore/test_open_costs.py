"""Costs of opening, in calls and requests: equal in every run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ts
from calls import record_calls
from tessarr.store import MemoryStore
from tessarr.store.wrappers.instrumented import CountingStore

CREATION: dict[str, Any] = {"dtype": ts.uint16, "shape": [100, 100]}
LAYOUT, SCHEMA = ts.ChunkLayout(chunk_shape=[100, 100]), ts.Schema(dtype="uint16")


def calls(act: Callable[[], object]) -> Counter[str]:
    """Count the calls of Python functions by name; return the smaller of two counts.

    A full memo evicts its items, which can happen in one of the two runs.
    """
    act()  # fills the memo
    return min((record_calls(act).names for _ in range(2)), key=Counter.total)


FORMS: dict[str, Callable[[Any, str, ts.Context], Any]] = {
    "JSON": lambda spec, _, context: ts.open(spec, context=context),
    "a spec": lambda spec, _, context: ts.open(SPECS[str(spec)], context=context),
    "a URL": lambda _, url, context: ts.open(url, context=context),
    "constraints": lambda spec, _, context: ts.open(spec, context=context, **CREATION),
    "a layout": lambda spec, _, context: ts.open(spec, context=context, chunk_layout=LAYOUT),
    "a schema": lambda spec, _, context: ts.open(spec, context=context, schema=SCHEMA),
    "a mode": lambda spec, _, context: ts.open(
        spec, context=context, open_mode=ts.OpenMode(open=True, create=True), **CREATION
    ),
    "a batch": lambda spec, _, context: _in_batch(spec, context),
    "found out": lambda spec, _, context: ts.open(spec["kvstore"], context=context),
}
MOST_CALLS = 400
"""With this many calls, opening again takes less than 1.5 times as long as with TensorStore."""
SPECS: dict[str, ts.Spec] = {}


def _in_batch(spec: Any, context: ts.Context) -> Any:
    with ts.Batch() as batch:
        return ts.open(spec, context=context, batch=batch)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("pool", [0, 10**6])
@pytest.mark.parametrize("where", ["memory", "file"])
@pytest.mark.parametrize("name", ["zarr", "zarr3"])
def test_reopen_derives_nothing_again(
    name: str, where: str, pool: int, form: str, tmp_path: Path
) -> None:
    location = "memory://a/" if where == "memory" else f"file://{tmp_path}/a/"
    spec = {"driver": name, "kvstore": location}
    context = ts.Context({"cache_pool": {"total_bytes_limit": pool}})
    ts.open(spec, context=context, create=True, **CREATION).result()
    SPECS[str(spec)] = ts.Spec(spec)
    opened = FORMS[form]
    url = f"{location}|{'zarr2' if name == 'zarr' else name}:"
    python = calls(lambda: opened(spec, url, context).result())
    for costly in ("JSONDecoder.decode", "ArrayProperties.__init__", "ZarrSpec.parse"):
        assert python[costly] == 0, python
    assert python.total() <= MOST_CALLS, python


@pytest.mark.parametrize("name", ["zarr", "zarr3"])
def test_uncached_value_is_fresh(name: str, tmp_path: Path) -> None:
    """A separate context creates one store with a cache, and sees changes."""
    spec = {"driver": name, "kvstore": f"file://{tmp_path}/"}
    spec["context"] = {"cache_pool": {"total_bytes_limit": 10**6}}
    ts.open(spec, create=True, **CREATION).result()
    python = calls(lambda: ts.open(spec).result())
    assert python["PooledCacheStore.__new__"] == 1, python
    context = ts.Context(spec.pop("context"))
    ts.open(spec, context=context).result()
    ts.open(spec).result().resize(exclusive_max=[50, 100]).result()
    assert ts.open(spec, context=context).result().shape == (50, 100)


@pytest.mark.parametrize("name", ["zarr", "zarr3"])
def test_valid_shape_does_not_validate_others(name: str) -> None:
    """The checks that depend on the shape run for each similar array."""
    spec = {"driver": name, "kvstore": "memory://a/", "create": True, "delete_existing": True}

    def create(*shape: int, **more: Any) -> ts.TensorStore:
        return ts.open(spec, dtype="int8", shape=shape, **more).result()

    short = {"chunk_layout": ts.ChunkLayout(chunk_shape=[10, -1])}
    assert [create(20, size, **short).chunk_layout.read_chunk.shape for size in (4, 5, 0, 4)] == [
        (10, size or 1) for size in (4, 5, 0, 4)
    ]
    fixed = {"chunk_layout": ts.ChunkLayout(chunk_shape=[2**20, 2**20])}
    assert create(2**30, 2**30, **fixed).shape == (2**30, 2**30)
    for length in (2**40, 2**62, 2**63):
        with pytest.raises((ValueError, TypeError)):
            create(2**40, length, **fixed)
    three = {"fill_value": [1, 2, 3]}
    for _ in range(2):
        with pytest.raises(ValueError, match="fill"):
            create(5, 3, **three)
        with pytest.raises(ValueError, match="fill"):
            create(5, 4, **three)


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_values_with_different_sign_are_not_similar(zero: float) -> None:
    spec = {"driver": "zarr3", "kvstore": "memory://a/", "create": True, "delete_existing": True}
    for length, factor in enumerate([zero, -zero, zero]):
        units = [ts.Unit(factor, "m")]
        built = ts.open(spec, dtype="int8", shape=[length], dimension_units=units).result()
        written_units = built.spec().to_json()["metadata"]["attributes"]["dimension_units"]
        assert written_units == [f"{factor:g} m"]


def test_inner_lengths_are_not_array_lengths() -> None:
    """The memo key of records contains the dimensions of the fields."""
    spec = {"driver": "zarr", "kvstore": "memory://a/", "create": True, "delete_existing": True}
    spec["metadata"] = {"dtype": [["x", "<i2", [3]]]}
    for length in (4, 5):
        assert ts.open(spec, shape=[length, 3]).result().shape == (length, 3)
        with pytest.raises(ValueError, match="does not match"):
            ts.open(spec, shape=[length, 4]).result()


@pytest.mark.parametrize("name", ["zarr", "zarr3"])
def test_open_of_missing_array_sends_single_request(name: str) -> None:
    store = CountingStore(MemoryStore())
    spec = {"driver": name, "kvstore": {"driver": "tessarr", "store": store}}
    with pytest.raises(ValueError, match="there is no array"):
        ts.open(spec).result()
    assert store.counts()["opens"] == 1, store.counts()


def test_constraints_are_checked_of_each_array() -> None:
    """A memo holds the specs and their results, and the check runs on the stored array."""
    context = ts.Context()
    spec = {"driver": "zarr3", "kvstore": "memory://a/"}
    new = {"create": True, "delete_existing": True, "context": context}
    for shape in ([4], [5], [4]):
        ts.open(spec, **new, dtype="int8", shape=shape).result()
        if shape == [4]:
            assert ts.open(spec, context=context, shape=[4]).result().shape == (4,)
        else:
            with pytest.raises(ValueError, match="does not match"):
                ts.open(spec, context=context, shape=[4]).result()


def test_update_does_not_change_cached_spec() -> None:
    spec = {"driver": "zarr3", "kvstore": "memory://a/"}
    item, other = ts.Spec(spec), ts.Spec(spec)
    item.update(shape=[4], dtype="int8")
    assert other == ts.Spec(spec)
    other.update(shape=[4], dtype=ts.int8)
    assert item == other
    item.update(create=True)
    assert item != other
    assert other.open_mode == ts.OpenMode(open=True)
    bound = ts.Spec(spec)
    bound.update(context=ts.Context())
    bound.update(shape=[4], dtype="int8")
    assert bound != other  # the memo excludes resources of a context


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("name", ["zarr", "zarr3"])
def test_similar_arrays_keep_their_fill_values(name: str, explicit: bool) -> None:
    """The array keeps the value of any kind, and with any source of the data type."""
    kind = {"dtype": "float32"}
    spec = {"driver": name, "kvstore": "memory://a/", "create": True, "delete_existing": True}
    spec.update(kind if explicit else {})
    context = ts.Context()
    for length, fill in enumerate([1, 1.5, -0.0, 0, None, np.nan, -np.inf, np.int8(1), True, 1.5]):
        parts: Any = {"shape": [4 + length], "fill_value": fill, **({} if explicit else kind)}
        built = ts.open(spec, context=context, **parts).result()
        again = ts.open({"driver": name, "kvstore": "memory://a/"}, context=context).result()
        for store in (built, again):
            assert store.shape == (4 + length,)
            if fill is None and name == "zarr":
                assert store.fill_value is None
            else:
                expected = np.float32(0 if fill is None else fill)
                assert np.array(store.fill_value).tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", ["zarr", "zarr3"])
def test_metadata_fill_value_holds_for_similar_arrays(name: str) -> None:
    kind = {"data_type": "float32"} if name == "zarr3" else {"dtype": "<f4"}
    spec = {"driver": name, "kvstore": "memory://a/", "create": True, "delete_existing": True}
    spec["metadata"] = {"fill_value": 2.5, **kind}
    for length in (4, 5, 6):
        assert ts.open(spec, shape=[length]).result().fill_value == 2.5
        with pytest.raises(ValueError, match="fill_value"):
            ts.open(spec, shape=[length], fill_value=3).result()


@pytest.mark.parametrize(
    "values",
    [
        [np.float16(1), np.uint16(0x3C00)],
        [np.array(0x3C00, "uint16"), np.array(1, "float16")],
        [np.zeros((), "S2,S2"), np.array(0, "float32")],
    ],
)
def test_arrays_of_same_bytes_have_separate_memos(values: list[Any]) -> None:
    def filled(value: Any) -> float:
        spec = ts.Spec({"driver": "zarr3", "kvstore": "memory://"})
        spec.update(dtype="float32", shape=[1], fill_value=value)
        return float(spec.fill_value[()])

    documents = []
    for value in values:
        try:
            documents.append(filled(value))
        except (TypeError, ValueError):
            documents.append(None)
    assert documents == [None if value.dtype.names else float(value) for value in values]


def test_shapes_of_same_bytes_have_separate_memos() -> None:
    spec = {"driver": "zarr3", "kvstore": "memory://"}
    for shape in (np.array([2, 0], "int32"), np.array([2], "int64")):
        built = ts.Spec(spec)
        built.update(shape=shape, dtype="int8")
        assert built.shape == tuple(shape)
