"""Ranks, fields, units, fill values and filters of specs match TensorStore's."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ours

theirs = pytest.importorskip("tensorstore", reason="compared with TensorStore's own")

MEMORY = {"kvstore": "memory://"}
NEW: dict[str, Any] = {"create": True, "dtype": "int8", "shape": [3]}
ONE_FIELD: dict[str, Any] = {"dtype": [["x", "<u2", [2, 3]]], "shape": [4]}


def _spec(**members: Any) -> Callable[[Any], Any]:
    return lambda ts: ts.Spec({**MEMORY, **members}).to_json()


def _build(**members: Any) -> Callable[[Any], Any]:
    def make(ts: Any) -> Any:
        array = ts.open({**MEMORY, **members}, create=True).result()
        fill = array.fill_value
        return array.spec().to_json(), None if fill is None else fill.tolist()

    return make


def _with_array(ts: Any, resources: Any = None) -> Any:
    context = ts.Context(resources or {})
    ts.open({"driver": "zarr3", **MEMORY}, **NEW, context=context).result()
    return context


def _layers(units: list[list[str | None]], **fields: Any) -> Callable[[Any], Any]:
    def make(ts: Any) -> Any:
        layers = [
            ts.open(
                {"driver": "zarr3", **MEMORY},
                create=True,
                dtype="int8",
                shape=[4],
                dimension_units=layer_unit,
            ).result()
            for layer_unit in units
        ]
        stack = ts.stack(layers, **fields)
        return [str(unit) for unit in stack.dimension_units], stack.spec().to_json()

    return make


def _evaluate(**fields: Any) -> Callable[[Any], Any]:
    """Open the other package's array by a spec without a format."""

    def find(ts: Any) -> Any:
        context = _with_array(ts, {"cache_pool#a": {"total_bytes_limit": 1000}})
        spec = ts.Spec({"driver": "auto", **MEMORY, **fields})
        store = ts.open(spec, context=context).result()
        document = store.spec(retain_context=True).to_json()
        return spec.to_json(), spec.to_json(include_defaults=True), str(store.domain), document

    return find


def _fill(json: Any = None, *, first: str | None = None, **later: Any) -> Callable[[Any], Any]:
    """Return the fill values of a spec and of the array that it creates."""

    def evaluate(ts: Any) -> Any:
        fields = {} if json is None else {"schema": {"fill_value": json}}
        dtype = {} if first is None else {"dtype": first}
        spec = ts.Spec({"driver": "zarr3", **MEMORY, **dtype, **fields})
        spec.update(**later)
        document, known = spec.to_json(), spec.fill_value
        fill = ts.open(spec, create=True, shape=[2]).result().fill_value
        return document, str(known.dtype), known.tolist(), str(fill.dtype), fill.tolist()

    return evaluate


def _updated(ts: Any, **options: Any) -> Any:
    spec = ts.Spec({"driver": "zarr3", **MEMORY})
    spec.update(**options)
    return spec.to_json()


def _copied_as_json(ts: Any) -> Any:
    target = ts.array(np.zeros((), "i4"))
    target.astype("json").write(ts.array(np.array("5", "O"), dtype="json")).result()
    return target.read().result().tolist()


def _class_of(act: Callable[..., Any], *arguments: Any) -> str:
    """Return the builtin class of an error."""
    classes = (TypeError, OverflowError, ValueError)
    with pytest.raises(classes) as caught:
        act(*arguments)
    return next(cls.__name__ for cls in classes if caught.errisinstance(cls))


SCENES: dict[str, Callable[[Any], Any]] = {
    "a fill value of JSON, before a data type": _fill(3, first="uint8"),
    "a data type after a fill value of JSON": _fill(3, dtype="float32"),
    "a fill value after a data type": _fill(first="float32", fill_value=3),
    "a NumPy scalar after a data type": _fill(first="uint8", fill_value=np.int64(3)),
    "a fill value beside a data type": _fill(fill_value=3, dtype="float32"),
    "a pool for any format": _evaluate(cache_pool="cache_pool#a"),
    "files of any format": _evaluate(file_io_sync=False, s3_request_retries={"max_retries": 3}),
    "a service of others": _evaluate(grpc_client_credentials={}, tsgrpc_request_retries={}),
    "a domain for any format": _evaluate(schema={"domain": {"shape": [3]}}),
    "an implicit bound for any format": _evaluate(
        schema={"domain": {"inclusive_min": [0], "exclusive_max": [[3]]}}
    ),
    "no pool in particular": lambda ts: (
        ts.open({"driver": "auto", **MEMORY, "cache_pool": None}, context=_with_array(ts))
        .result()
        .shape
    ),
    "a rank that follows from chunks": _spec(
        driver="zarr", metadata={"chunks": [3, 4, 5], "dtype": "<u2"}
    ),
    "a rank that follows from units": _spec(
        driver="zarr3",
        metadata={"attributes": {"dimension_units": ["m", "m", "s"]}, "data_type": "uint16"},
    ),
    "rank 0": _spec(driver="zarr3", rank=0),
    "a stack of rank 0": lambda ts: ts.Spec(
        {"driver": "stack", "layers": [{"driver": "array", "array": 1, "dtype": "int8"}]}
    ).to_json(),
    "the only field": _build(driver="zarr", metadata={"dtype": [["x", "<i2"]], "shape": [4]}),
    "the fill value of the only field": _build(
        driver="zarr", metadata=ONE_FIELD, schema={"fill_value": [[1, 2, 3], [4, 5, 6]]}
    ),
    "units of layers": _layers([["4nm"], ["4nm"]]),
    "units of some layers": _layers([["4nm"], [None]]),
    "units that differ": _layers([["4nm"], ["5nm"]]),
    "units that are stated": _layers([["4nm"], ["5nm"]], dimension_units=["2s", None]),
    "numbers as text": lambda ts: [
        ts.Schema({"dtype": "float32", "fill_value": text}).to_json()
        for text in ("-inf", "1e3", " 1 ", "0x10", ".5")
    ],
    "names that are empty": _build(
        driver="zarr3",
        metadata={"shape": [2, 3], "data_type": "int8", "dimension_names": ["", None]},
    ),
    "which staleness bound counts": lambda ts: _updated(
        ts, recheck_cached="open", recheck_cached_data=True, recheck_cached_metadata=False
    ),
    "floats of one byte": lambda ts: str(
        ts.open({"driver": "array", "dtype": "float8_e5m2", "array": [[1, 2]]})
        .result()
        .read()
        .result()
    ),
    "wishes for an array's chunks": lambda ts: (
        ts.open(
            {"driver": "array", "dtype": "int8", "array": [[1], [2]]},
            chunk_layout=ts.ChunkLayout(
                {"chunk": {"elements": 1, "shape_soft_constraint": [1, 1]}}
            ),
        )
        .result()
        .chunk_layout.to_json()
    ),
    "JSON of no axes": _copied_as_json,
    "what is not a number of JSON": lambda ts: [
        _class_of(ts.array([1, 2], dtype="int32").astype("json").__setitem__, ..., value)
        for value in (1j, 2**70, object(), "x", {"a": 1})
    ],
    "integers as text": lambda ts: [
        ts.Schema({"dtype": name, "fill_value": " 1"}).to_json() for name in ("int4", "uint64")
    ],
}


@pytest.mark.parametrize("name", SCENES)
def test_spec_fields_match_tensorstore(name: str) -> None:
    assert SCENES[name](ours) == SCENES[name](theirs)


@pytest.mark.parametrize("ts", [ours, theirs], ids=["ours", "theirs"])
def test_open_or_create_detects_any_format(ts: Any) -> None:
    context = ts.Context()
    options = {"context": context, "create": True}
    ts.open({"driver": "zarr3", **MEMORY}, dtype="int8", shape=[3], **options).result()
    assert ts.open("memory://|auto:", open=True, **options).result().shape == (3,)


REFUSED: dict[str, Callable[[Any], Any]] = {
    "a path behind any format": lambda ts: ts.Spec("memory://a|auto:b"),
    "a new array of any format, by a change": lambda ts: ts.Spec("memory://|auto:").update(
        create=True
    ),
    "a pool that is none": _spec(driver="auto", cache_pool=1),
    "a pool that is not defined": _evaluate(cache_pool="cache_pool#b"),
    "no filters": _spec(driver="zarr", metadata={"filters": 5}),
    "a grid without a name": _spec(
        driver="zarr3", metadata={"chunk_grid": {"configuration": {"chunk_shape": [1]}}}
    ),
    "a grid without a shape": _spec(
        driver="zarr3", metadata={"chunk_grid": {"name": "regular", "configuration": {}}}
    ),
    "bytes of no dimensions": _spec(driver="zarr3", open_as_void=True, rank=0),
    "an array's chunks": lambda ts: ts.open(
        {"driver": "array", "dtype": "int8", "array": [1]},
        chunk_layout=ts.ChunkLayout(chunk_shape=[1]),
    ).result(),
    "33 dimensions": _spec(driver="zarr", metadata={"shape": [1] * 33}),
    "text that is no number": lambda ts: ts.Schema({"dtype": "float32", "fill_value": "1_0"}),
    "JSON of two depths": lambda ts: ts.Spec(
        {"driver": "array", "dtype": "json", "array": ["x", [1]]}
    ),
    "a new array of any format": lambda ts: ts.open("memory://|auto:", create=True).result(),
    "no array of any format": lambda ts: ts.open(
        "memory://|auto:", open=True, create=True
    ).result(),
    "a fill value of several fields": _build(
        driver="zarr",
        field="x",
        metadata={"dtype": [["x", "<u2"], ["y", "<u2"]], "shape": [4]},
        schema={"fill_value": 7},
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("ts", [ours, theirs], ids=["ours", "theirs"])
def test_refused(ts: Any, name: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        REFUSED[name](ts)


@pytest.mark.parametrize("ts", [ours, theirs], ids=["ours", "theirs"])
def test_deep_copied_context_has_own_caches(ts: Any, tmp_path: Path) -> None:
    array = ts.open(
        {
            "driver": "zarr",
            "kvstore": {"driver": "file", "path": f"{tmp_path}/"},
            "recheck_cached_data": False,
            "recheck_cached_metadata": False,
        },
        create=True,
        dtype=ts.uint16,
        shape=[100, 100],
        context=ts.Context({"cache_pool": {"total_bytes_limit": 10**6}}),
    ).result()
    assert copy.copy(array) is array
    other = copy.deepcopy(array)
    array[0, 0] = 42
    assert other[0, 0].read().result() == 42
    array[0, 0] = 43
    assert (array[0, 0].read().result(), other[0, 0].read().result()) == (43, 42)


@pytest.mark.parametrize("ts", [ours, theirs], ids=["ours", "theirs"])
def test_arrays_in_memory_take_part_in_no_transaction(ts: Any) -> None:
    array = ts.array([1, 2])
    with pytest.raises(NotImplementedError):
        ts.open(array.spec(), transaction=ts.Transaction()).result()
    joined = array.with_transaction(ts.Transaction())
    for future in (joined.read(), joined.resolve(), joined.write(3)):
        with pytest.raises(NotImplementedError):
            future.result()


@pytest.mark.parametrize("ts", [ours, theirs], ids=["ours", "theirs"])
def test_statistics_of_outside_view_raise_like_read(ts: Any) -> None:
    array = ts.open({"driver": "zarr3", **MEMORY}, **NEW).result()
    view = array[ts.IndexDomain(shape=[2])][[2, 1]]
    for act in (view.read, view.storage_statistics):
        with pytest.raises(ValueError, match="outside"):
            act().result()


@pytest.mark.parametrize("ts", [ours, theirs], ids=["ours", "theirs"])
def test_staleness_bound_forms_match_tensorstore(ts: Any) -> None:
    with pytest.raises(TypeError, match="recheck_cached_data"):
        _updated(ts, recheck_cached="open", recheck_cached_data="x")


def test_statistics_without_support_fail_in_future() -> None:
    future = ours.stack([ours.array(np.zeros(2))]).storage_statistics()
    with pytest.raises(NotImplementedError):
        future.result()


@pytest.mark.parametrize("ts", [ours, theirs], ids=["ours", "theirs"])
def test_open_handles_see_array_recreated_by_transaction(ts: Any) -> None:
    context = ts.Context()
    spec = {"driver": "zarr3", "kvstore": "memory://"}
    options = {"context": context, "create": True, "dtype": "int8", "shape": [7]}
    handle = ts.open(spec, **options).result()
    handle.resize(exclusive_max=[3]).result()
    transaction = ts.Transaction()
    ts.open(spec, delete_existing=True, transaction=transaction, **options).result()
    assert handle.read().result().shape == (3,)
    transaction.commit_sync()
    assert handle.read().result().shape == (7,)


@pytest.mark.parametrize("name", ["fill_value", "dimension_units", "domain", "chunk_layout"])
def test_contradictory_layout_affects_only_the_layout(name: str) -> None:
    """The chunk layout of schema and metadata differ; other properties stay available."""
    grid = {"name": "regular", "configuration": {"chunk_shape": [3, 4]}}
    layout = {"write_chunk": {"shape": [5, 5]}}
    spec = {
        **MEMORY,
        "driver": "zarr3",
        "dtype": "int8",
        "metadata": {"chunk_grid": grid},
        "schema": {"chunk_layout": layout, "fill_value": 3},
    }
    if name == "chunk_layout":
        for ts in (ours, theirs):
            with pytest.raises(ValueError, match="write_chunk"):
                _ = ts.Spec(spec).chunk_layout
    else:
        assert repr(getattr(ours.Spec(spec), name)) == repr(getattr(theirs.Spec(spec), name))
        assert ours.Spec(spec)[2:].fill_value == theirs.Spec(spec)[2:].fill_value
