"""Random arguments of the index space's classes: accepted values and errors."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ours
from interop.tensorstore_parity.random_views import outcome

theirs = pytest.importorskip("tensorstore")

_CLASSES = (TypeError, IndexError, ValueError)
_FLAT: list[Any] = [
    *(None, 0, 1, 5, -1, 33, 2**62 - 2, 2**62, 2**63, 1.0, 1.5, True),
    *("x", "", b"y", np.int64(3), {}, {"rank": 1}),
]
_LISTS: list[Any] = [
    *([], [1], [3, 4], (2,), [-1, 5], [1.0], [None], ["x"], ["x", ""], ["x", "x"], [b"x"]),
    *([True], [False, True], [[1]], "ab", np.array([2, 3]), np.array([1.0]), {"a": 1}),
]
_BOUNDS = ("inclusive_min", "exclusive_max", "inclusive_max", "shape", "labels")
_IMPLICIT = ("implicit_lower_bounds", "implicit_upper_bounds")
_KEYWORDS = {
    "Dim": [
        *("inclusive_min", "exclusive_max", "inclusive_max", "size", "label"),
        *("implicit_lower", "implicit_upper"),
    ],
    "IndexDomain": ["rank", *_BOUNDS, *_IMPLICIT],
    "IndexTransform": ["input_rank", *(f"input_{name}" for name in _BOUNDS), *_IMPLICIT],
    "OutputIndexMap": ["offset", "stride", "input_dimension", "index_array"],
    "Unit": ["multiplier", "base_unit"],
}


def _drawn(name: str, draw: random.Random) -> tuple[list[Any], dict[str, Any]]:
    first = [draw.choice(_FLAT) for _ in range(draw.choice((0, 0, 1, 2)))]
    if name == "IndexTransform":  # TensorStore crashes with these
        first = [
            item for item in first[:1] if not isinstance(item, (str, bytes, dict))
        ]  # it ends there
    keywords: dict[str, Any] = {}
    count = min(draw.choice((0, 1, 1, 2, 3)), len(_KEYWORDS[name]))
    for keyword in draw.sample(_KEYWORDS[name], count):
        lists = keyword.removeprefix("input_") in {*_BOUNDS, *_IMPLICIT, "index_array"}
        kinds = _LISTS if lists and name != "Dim" else _FLAT
        if keyword in {"implicit_lower", "implicit_upper"}:
            kinds = [True, False, "x"]  # some overloads for numbers accept only booleans
        keywords[keyword] = draw.choice(kinds)
    return first, keywords


def _build(of: Any, first: list[Any], keywords: dict[str, Any]) -> object:
    try:
        return repr(of(*first, **keywords))
    except _CLASSES as error:
        return next(item for item in _CLASSES if isinstance(error, item))


@pytest.mark.parametrize("name", _KEYWORDS)
def test_random_arguments_match_tensorstore(name: str) -> None:
    draw = random.Random(name)
    for _ in range(1500):
        first, keywords = _drawn(name, draw)
        expected = _build(getattr(theirs, name), first, keywords)
        assert _build(getattr(ours, name), first, keywords) == expected, (first, keywords)


_OTHERS = [
    "ts.IndexDomain(dimensions=[ts.Dim(3), ts.Dim(label='x')])",
    "ts.IndexDomain([ts.Dim(3)], rank=1)",
    "ts.IndexDomain([ts.Dim(3)], labels=['x'])",
    "ts.IndexDomain([2, 3])",
    "ts.IndexDomain(ts.IndexDomain(2))",
    "ts.IndexDomain(dims=[ts.Dim(3)])",
    "ts.IndexDomain(json={'x'})",
    "ts.IndexDomain(json='x')",
    "ts.IndexDomain(json={'rank': object()})",
    "ts.IndexDomain(json={'labels': [b'x']})",
    "ts.IndexDomain(json={'rank': 1}, rank=1)",
    "ts.IndexDomain(2).hull(5)",
    "ts.IndexTransform(json=object())",
    "ts.IndexTransform(json={'input_rank': 1}, input_rank=1)",
    "ts.IndexTransform(domain=2)",
    "ts.IndexTransform(domain=ts.IndexDomain(2), output=[ts.OutputIndexMap(3)])",
    "ts.IndexTransform(ts.IndexDomain(2), [ts.OutputIndexMap(3)])",
    "ts.IndexTransform([ts.Dim(3)])",
    "ts.IndexTransform(input_shape=[2], domain=ts.IndexDomain(1))",
    "ts.IndexTransform(ts.IndexDomain(2), output=[5])",
    "2**70 in ts.Dim(3)",
    "ts.d['x'].mark_bounds_implicit[::1]",
    "ts.Schema(rank=-1)",
    "ts.Schema(shape=5)",
    "ts.Schema(fill_value=object())",
    "ts.Context(spec={})",
]


@pytest.mark.parametrize("text", _OTHERS)
def test_other_arguments(text: str) -> None:
    def result(ts: Any) -> object:
        try:
            return repr(eval(text, {"ts": ts}))
        except _CLASSES as error:
            return next(item for item in _CLASSES if isinstance(error, item))

    assert result(ours) == result(theirs)


_TOO_LARGE = [
    *("ts.IndexTransform(3).translate_to[N]", "ts.IndexTransform(3).translate_by[N, 1, 1]"),
    *("ts.IndexTransform(3)[ts.d[0].stride[N]]", "ts.IndexTransform(3)[N:]"),
    *("ts.IndexTransform(3)[0:5:N]", "ts.IndexTransform(input_rank=1)([N])"),
    *("ts.IndexDomain(shape=[3, 4])[N:]", "ts.IndexDomain(rank=N)", "ts.IndexDomain(shape=[N])"),
    *("ts.IndexDomain(json={'rank': N})", "ts.IndexTransform(json={'input_shape': [N]})"),
    *("ts.Schema(rank=N)", "ts.Schema(shape=[N])", "ts.Schema(fill_value=N)"),
    *("ts.Schema(dtype='int64', fill_value=N)", "ts.Schema(dtype='float64', fill_value=N)"),
    *("ts.Schema({'rank': N})", "ts.Schema({'dimension_units': [[N, 'm']]})"),
    *("ts.Schema({'fill_value': N})", "ts.Schema({'dtype': 'float32', 'fill_value': N})"),
    *("ts.ChunkLayout(rank=N)", "ts.ChunkLayout(inner_order=[N])"),
    *("ts.ChunkLayout(chunk_shape=[N])", "ts.ChunkLayout(grid_origin=[N])"),
    *("ts.ChunkLayout(read_chunk_elements=N)", "ts.ChunkLayout({'chunk': {'shape': [N]}})"),
    *("ts.ChunkLayout({'chunk': {'aspect_ratio': [N]}})", "ts.ChunkLayout.Grid(shape=[N])"),
    *("ts.ChunkLayout.Grid({'elements': N})", "ts.open(ts.Spec({'driver': 'zarr3'}), rank=N)"),
    "ts.CodecSpec({'driver': 'zarr', 'compressor': {'id': 'zlib', 'level': N}})",
    "ts.Context({'cache_pool': {'total_bytes_limit': N}})",
    "ts.Context.Spec({'data_copy_concurrency': {'limit': N}})",
    "ts.Spec({'driver': 'zarr3', 'metadata': {'shape': [N]}})",
    "ts.Spec({'driver': 'zarr', 'metadata': {'dtype': '|i1', 'fill_value': N}})",
    "ts.Spec({'driver': 'array', 'dtype': 'int64', 'array': [N]})",
    "ts.Spec({'driver': 'zarr3', 'recheck_cached_data': N})",
    *("ts.open(N)", "ts.KvStore.open(N)", "ts.KvStore.Spec({'driver': 'memory', 'path': N})"),
    "ts.downsample(ts.array([1, 2, 3]), [N], 'mean')",
    *("ts.stack([ts.array([1])], axis=N)", "ts.concat([ts.array([1])], axis=N)"),
    "ts.overlay([ts.array([1])], rank=N)",
    "ts.virtual_chunked(lambda *_: None, dtype=ts.int64, rank=N)",
    "ts.KvStore.open('memory://').result().list(strip_prefix_length=N)",
    "ts.KvStore.open('memory://').result().delete_range(N)",
    "new(ts).resize(exclusive_max=[N])",
]


def _new(ts: Any) -> Any:
    spec = {"driver": "zarr3", "kvstore": "memory://"}
    return ts.open(spec, dtype="int8", shape=[2], create=True).result()


@pytest.mark.parametrize("number", [2**70, -(2**63) - 1])
@pytest.mark.parametrize("text", _TOO_LARGE)
def test_integers_of_more_than_64_bits(text: str, number: int) -> None:
    def result(ts: Any) -> object:
        try:
            return repr(eval(text, {"ts": ts, "N": number, "new": _new}))
        except (ValueError, TypeError, OverflowError) as error:
            return type(error)

    expected, actual = result(theirs), result(ours)
    if isinstance(expected, type):
        assert isinstance(actual, type)
        assert issubclass(actual, expected), actual
    else:
        assert actual == expected


def test_large_fill_value_is_not_negative() -> None:
    for ts in (theirs, ours):
        with pytest.raises(OverflowError):
            ts.Schema(dtype="int64", fill_value=2**63)
        assert ts.Schema(dtype="uint64", fill_value=2**63).fill_value == 2**63


@pytest.mark.parametrize(
    "act",
    [
        *(
            "list('a')",
            "list(['a'])",
            "list(strip_prefix_length=-1)",
            "read('a', staleness_bound='x')",
            "read(['a'], byte_range=slice(3, 1))",
            "write(['a'], b'', if_equal=1)",
        ),
        *("experimental_copy_range_to(None)", "experimental_copy_range_to(keys, 'a')"),
        "experimental_copy_range_to(keys, source_staleness_bound='x')",
    ],
)
@pytest.mark.parametrize("ts", [ours, theirs], ids=["ours", "theirs"])
def test_arguments_of_other_types_are_refused_by_keys(ts: Any, act: str) -> None:
    keys = ts.KvStore.open("memory://").result()
    with pytest.raises(TypeError):
        eval(f"keys.{act}", {"keys": keys})


@pytest.mark.parametrize("method", ["result", "exception"])
@pytest.mark.parametrize(
    "arguments", [{"timeout": "1"}, {"deadline": "x"}, {"deadline": [1]}], ids=str
)
@pytest.mark.parametrize("ts", [ours, theirs], ids=["ours", "theirs"])
def test_invalid_timeout_of_done_future_is_refused(
    ts: Any, arguments: dict[str, Any], method: str
) -> None:
    promise, cancelled = ts.Promise.new()
    cancelled.cancel()
    for future in (ts.Future(3), cancelled):
        with pytest.raises(TypeError):
            getattr(future, method)(**arguments)
    del promise


VALUES = ["-2**40", "1j", "None", "[[1], [2, 3]]", "np.ones(7)", "np.ones((2, 2, 3))", "2", "'x'"]
VALUES += ["np.ones((1, 1, 1, 1))", "np.ones(5, 'i2')", "np.ones((1, 1, 1), 'i4')", "np.ones(0)"]


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("shape", [[], [3], [2, 3]], ids=str)
@pytest.mark.parametrize("writable", [False, True])
def test_error_precedence_matches_tensorstore(
    values: str, shape: list[int], *, writable: bool
) -> None:
    arguments = eval(values, {"np": np})

    def written(ts: Any) -> Any:
        array = ts.array(np.zeros(shape, "i4"))
        store = array if writable else ts.downsample(array, [1] * len(shape), "mean")
        store.write(arguments).result()
        return store.read().result().tolist()

    assert outcome(lambda: written(ours)) == outcome(lambda: written(theirs))


@pytest.mark.parametrize("values", [*VALUES, "2**70", "np.ones((3, 4), 'i4')"])
@pytest.mark.parametrize("shape", [[], [3], [2, 3]], ids=str)
@pytest.mark.parametrize("end", ["abort", "commit_sync"])
def test_value_conversion_precedes_transaction_check(
    values: str, shape: list[int], end: str
) -> None:
    arguments = eval(values, {"np": np})

    def written(ts: Any) -> Any:
        transaction = ts.Transaction()
        spec = {"driver": "zarr3", "kvstore": "memory://"}
        store = ts.open(spec, create=True, dtype="int32", shape=shape).result()
        store = store.with_transaction(transaction)
        getattr(transaction, end)()
        return store.write(arguments).result()

    assert outcome(lambda: written(ours)) == outcome(lambda: written(theirs))


_CONTEXTS: list[tuple[Any, ...]] = [
    *((), (None,), ({},), ({}, None), ({}, "parent"), (None, None), (5,), ({}, 5), ("spec", None)),
]
_NAMED: list[dict[str, Any]] = [
    *({}, {"parent": None}, {"parent": "parent"}, {"spec": None}, {"spec": "spec"}, {"spec": {}}),
    *({"json": None}, {"json": {}, "parent": None}, {"spec": None, "parent": "parent"}),
]


@pytest.mark.parametrize("named", _NAMED, ids=str)
@pytest.mark.parametrize("arguments", _CONTEXTS, ids=str)
def test_contexts(arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    def describe(ts: Any) -> Any:
        values = {"parent": ts.Context(), "spec": ts.Context.Spec({})}
        meant = [values[item] if isinstance(item, str) else item for item in arguments]
        by_name = {
            name: values[item] if isinstance(item, str) else item for name, item in named.items()
        }
        built = ts.Context(*meant, **by_name)
        return built.spec and built.spec.to_json(), built.parent is values["parent"]

    assert outcome(lambda: describe(ours)) == outcome(lambda: describe(theirs))


@pytest.mark.parametrize("rank", [True, False, np.int8(2), -1, 32, 33, 2.0, "2"])
def test_ranks_of_layouts(rank: Any) -> None:
    def describe(ts: Any) -> Any:
        layout, grid = ts.ChunkLayout(rank=rank), ts.ChunkLayout.Grid(rank=rank)
        chunked = outcome(lambda: ts.ChunkLayout(rank=rank, read_chunk_shape=[3]).to_json())
        return layout.rank, layout.to_json(), grid.rank, grid.to_json(), chunked

    assert outcome(lambda: describe(ours)) == outcome(lambda: describe(theirs))
    of_json = outcome(lambda: ours.ChunkLayout({"rank": rank}).rank)
    assert of_json == outcome(lambda: theirs.ChunkLayout({"rank": rank}).rank)


_GRIDS = [{"shape": [2, 3]}, {"shape_soft_constraint": [4, None]}, {"elements": 6}]
_OF_LAYOUTS: dict[str, list[Any]] = {
    "rank": [2, -1, 33, "x", True],
    "inner_order": [[0, 1], [1, 0], [0, 0], 5, [5]],
    "grid_origin": [[0, 0], [1, None], ["x"], [2**63]],
    "shape": [[2, 2], [5, None], [-5], ["x"], 5, [4, 6]],
    "elements": [6, 5, -1, "x"],
    "aspect_ratio": [[1, 1], [2, 1], 5, [-1], ["x"]],
}


@pytest.mark.parametrize("number", range(150))
def test_layouts_by_several_keywords(number: int) -> None:
    """Keywords apply one after another: the first error wins, and the first soft constraint."""
    draw = random.Random(number)
    arguments: dict[str, Any] = {}
    for _ in range(draw.randrange(1, 6)):
        name = draw.choice([*_OF_LAYOUTS, "grid"])
        chunk = draw.choice(["chunk", "write_chunk", "read_chunk"])
        if name == "grid":
            arguments[chunk] = draw.choice(_GRIDS)
            continue
        value = draw.choice(_OF_LAYOUTS[name])
        key = f"{chunk}_{name}" if name in {"shape", "elements", "aspect_ratio"} else name
        arguments[key + ("" if name == "rank" else draw.choice(["", "_soft_constraint"]))] = value

    def describe(ts: Any) -> Any:
        keywords = {
            key: ts.ChunkLayout.Grid(value) if isinstance(value, dict) else value
            for key, value in arguments.items()
        }
        layout = ts.ChunkLayout(chunk_shape_soft_constraint=[7, 7])
        layout.update(**keywords)
        return ts.ChunkLayout(**keywords).to_json(), layout.to_json()

    assert outcome(lambda: describe(ours)) == outcome(lambda: describe(theirs)), arguments
