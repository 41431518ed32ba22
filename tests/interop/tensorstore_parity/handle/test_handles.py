# ruff: noqa: B023 (functions in loops are called at once)
"""Handles and specs match TensorStore's: opening, resizing, reading, writing, JSON.

Both packages run the same random program. Results must be equal. If one raises an error, the other
must raise an error that the same handlers catch.

Omitted, because TensorStore 0.1.86 is wrong or aborts: resizing below the lower bound of a view,
which empties the array; a spec after a failed update, which is half applied; ``minimal_spec`` of a
spec, which drops metadata against the documentation; the schema of a spec whose transform drops a
dimension; fields and ``open_as_void`` together with metadata, which abort. Tessarr's specs report
contradicting codecs at once, and accept ``attributes`` for arrays of format 2.
"""

from __future__ import annotations

import itertools
import random
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ts
from interop.tensorstore_parity.random_views import Keys, apply_views, same, some_view
from interop.tensorstore_parity.random_views import outcome as told_or_class
from sampling import seeds
from tessarr.errors import TessarrWarning

theirs = pytest.importorskip("tensorstore", reason="the package tensorstore is absent")

DTYPES = ["uint8", "int16", "float32", "bool", "complex64"]


def outcome(act: Any) -> Any:
    """Return the result of a function, or the builtin classes of its error."""
    try:
        return act()
    except (ValueError, IndexError, TypeError, KeyError, NotImplementedError, OverflowError) as e:
        return e


def agree(mine: Any, other: Any) -> bool:
    if isinstance(other, Exception):
        return isinstance(mine, type(other))
    if isinstance(other, np.ndarray):
        same = isinstance(mine, np.ndarray) and mine.dtype == other.dtype
        return same and bool(np.array_equal(mine, other))
    return not isinstance(mine, Exception) and bool(mine == other)


def json_of(spec: Any) -> Any:
    return spec.to_json()


def a_creation(draw: random.Random) -> dict[str, Any]:
    """Return the arguments of a creation."""
    rank = draw.randint(1, 3)
    shape = [draw.choice([0, 1, 2, 5, 9]) for _ in range(rank)]
    arguments: dict[str, Any] = {"dtype": draw.choice(DTYPES), "shape": shape}
    if draw.random() < 0.7:
        arguments["chunk_shape"] = [draw.randint(1, 4) for _ in range(rank)]
    if draw.random() < 0.3:
        arguments["fill_value"] = 1
    if draw.random() < 0.3:
        arguments["dimension_units"] = [draw.choice([None, "4 nm", "s"]) for _ in range(rank)]
    return arguments


def build(package: Any, driver: str, arguments: dict[str, Any]) -> Any:
    options = dict(arguments)
    if driver == "zarr":
        options.pop("dimension_units", None)
    if "chunk_shape" in options:
        options["chunk_layout"] = package.ChunkLayout(chunk_shape=options.pop("chunk_shape"))
    spec = {"driver": driver, "kvstore": "memory://"}
    return package.open(spec, create=True, **options).result()


@seeds(range(150))
def test_created_handles(seed: int) -> None:
    draw = random.Random(seed)
    driver, arguments = draw.choice(["zarr3", "zarr"]), a_creation(draw)
    mine, other = build(ts, driver, arguments), build(theirs, driver, arguments)
    for act in (
        lambda s: s.spec().to_json(),
        lambda s: s.spec(minimal_spec=True).to_json(),
        lambda s: s.spec(create=True, recheck_cached=False).to_json(),
        lambda s: s.schema.to_json(),
        lambda s: s.chunk_layout.to_json(),
        lambda s: s.codec.to_json(),
        lambda s: str(s.domain),
        lambda s: str(s.dimension_units),
        lambda s: s.fill_value,
        lambda s: (s.url, s.mode, s.rank, s.shape, s.origin, s.size, s.dtype.name),
        repr,
        lambda s: s.read().result(),
    ):
        assert agree(outcome(lambda: act(mine)), outcome(lambda: act(other))), act


@seeds(range(200))
def test_views_of_handles(seed: int) -> None:
    draw, keys = random.Random(seed), Keys(seed)
    driver, arguments = draw.choice(["zarr3", "zarr"]), a_creation(draw)
    mine, other = build(ts, driver, arguments), build(theirs, driver, arguments)
    values = (np.arange(mine.size) % 2).astype(arguments["dtype"]).reshape(mine.shape)
    for store in (mine, other):
        store.write(values).result()
    acts = some_view(keys, mine)
    item, two = apply_views(mine, ts, acts), apply_views(other, theirs, acts)
    for act in (
        lambda s: str(s.domain),
        lambda s: s.spec().to_json(),
        lambda s: s.schema.to_json(),
        lambda s: s.chunk_layout.to_json(),
        lambda s: str(s.resolve().result().domain),
        lambda s: str(s.resolve(fix_resizable_bounds=True).result().domain),
        lambda s: s.read().result(),
        lambda s: s.read(order="F").result(),
    ):
        assert agree(outcome(lambda: act(item)), outcome(lambda: act(two))), (acts, act)
    if not item.size:
        return
    items = (np.arange(item.size) % 3 == 0).astype(arguments["dtype"]).reshape(item.shape)
    for store in (item, two):
        outcome(lambda: store.write(items).result())
    assert agree(mine.read().result(), other.read().result()), acts


@seeds(range(300))
def test_resizing(seed: int) -> None:
    draw = random.Random(seed)
    arguments = a_creation(draw)
    rank = len(arguments["shape"])
    moves = [draw.randrange(8) for _ in range(draw.randint(0, 2))]
    dimension = draw.randrange(rank)

    def view(package: Any, store: Any) -> Any:
        d = package.d
        for move in moves:
            act = [
                lambda s: s[d[dimension].translate_by[3]],
                lambda s: s[d[dimension].stride[draw_stride]],
                lambda s: s[d[dimension][0:1]],
                lambda s: s.T,
                lambda s: s[d[dimension].mark_bounds_implicit[True]],
                lambda s: s[d[dimension].label["x"]],
                lambda s: s[d[:].diagonal],
                lambda s: s[d[dimension][0:99]],
            ][move]
            store = act(store)
        return store

    draw_stride = draw.choice([-1, 2])
    options: dict[str, Any] = {
        "exclusive_max": [draw.choice([None, None, 1, 3, 7, 12]) for _ in range(rank)],
        "resize_tied_bounds": draw.random() < 0.3,
        "resize_metadata_only": draw.random() < 0.3,
        "expand_only": draw.random() < 0.2,
        "shrink_only": draw.random() < 0.2,
    }
    if draw.random() < 0.2:
        options["inclusive_min"] = [draw.choice([None, 0, -3]) for _ in range(rank)]
    result = []
    for package in (ts, theirs):
        store = build(package, "zarr3", arguments)
        if store.size:
            store[...] = 1
        seen = outcome(lambda: view(package, store))
        if isinstance(seen, Exception):
            result.append([seen])
            continue
        pairs = zip(options["exclusive_max"], seen.origin, strict=False)
        if any(bound is not None and bound < origin for bound, origin in pairs):
            pytest.skip("below the lower bound of the view")
        resized = outcome(lambda: seen.resize(**options).result())
        after = store.resolve().result()
        result.append(
            [
                resized if isinstance(resized, Exception) else str(resized.domain),
                str(after.domain),
                after.read().result(),
                sorted(store.kvstore.list().result()),
            ]
        )
    assert len(result[0]) == len(result[1])
    for item, two in zip(*result, strict=True):
        assert agree(item, two), (moves, options, result)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("bound", [None, 5])
@pytest.mark.parametrize("key", [slice(None, None, 2), [1, 3], "diagonal", slice(None)])
def test_resizing_new_dimension_changes_nothing(key: Any, bound: Any, *, tied: bool) -> None:
    result = []
    for package in (ts, theirs):
        store = build(package, "zarr3", {"dtype": "int8", "shape": [4, 4]})
        view = store[package.d[0, 1].diagonal] if key == "diagonal" else store[key]
        view = view[ts.newaxis][package.d[0].mark_bounds_implicit[True]]
        bounds = [9, *(None for _ in range(view.rank - 2)), bound]
        resized = outcome(lambda: view.resize(None, bounds, resize_tied_bounds=tied).result())
        result.append(resized if isinstance(resized, Exception) else str(resized.domain))
    assert agree(*result), result


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("bounds", [([-4, None], None), ([0, None], None), (None, [None, 2])])
def test_resize_of_reversed_empty_view(bounds: Any, *, tied: bool) -> None:
    result = []
    for package in (ts, theirs):
        store = build(package, "zarr3", {"dtype": "int8", "shape": [0, 4]})
        view = store[package.d[0].stride[-1]]
        resized = outcome(lambda: view.resize(*bounds, resize_tied_bounds=tied).result())
        result.append(resized if isinstance(resized, Exception) else str(resized.domain))
    assert agree(*result), result


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("bound", [None, 4, 7])
@pytest.mark.parametrize("key", [[0, 1], [1], slice(0, 3), slice(0, 2), slice(0, 1), 1])
def test_resize_of_partial_view(key: Any, bound: Any, *, tied: bool) -> None:
    result = []
    for package in (ts, theirs):
        store = build(package, "zarr3", {"dtype": "int8", "shape": [2, 4]})
        view = store[key]
        bounds = [*(None for _ in range(view.rank - 1)), bound]
        resized = outcome(lambda: view.resize(None, bounds, resize_tied_bounds=tied).result())
        result.append(resized if isinstance(resized, Exception) else str(resized.domain))
    assert agree(*result), result


SPECS: list[dict[str, Any]] = [
    {"rank": 2},
    {"dtype": "int16"},
    {"dtype": "int99"},
    {"schema": {"domain": {"shape": [4, 5]}}},
    {"schema": {"dtype": "uint8", "fill_value": 3}},
    {"schema": {"chunk_layout": {"read_chunk": {"shape": [2, 2]}}}},
    {"schema": {"codec": {"driver": "zarr3", "codecs": ["gzip"]}}},
    {"transform": {"input_shape": [3, 4]}},
    {"transform": {"input_labels": ["x", "y"], "input_inclusive_min": [1, 2]}},
    {"transform": {"input_rank": 1, "output": [{"input_dimension": 0}, {"offset": 2}]}},
    {"metadata": {"shape": [4, 6]}},
    {"metadata": {"data_type": "uint8", "shape": [4, 6], "fill_value": 3}},
    {"metadata": {"fill_value": 3}},
    {"metadata": {"codecs": ["zstd"]}},
    {"metadata": {"shape": [4, 6], "dimension_names": ["a", None]}},
    {"metadata": {"attributes": {"b": 1}}},
    {"open": True, "create": True},
    {"create": True, "delete_existing": True},
    {"assume_metadata": True},
    {"open": 1},
    {"kvstore": "memory://a/b"},
    {"kvstore": {"driver": "file", "path": "/a//b"}},
    {"kvstore": {"driver": "file", "path": "/a"}, "path": "c"},
    {"path": "c"},
    {"recheck_cached_data": False, "recheck_cached_metadata": 5},
    {"recheck_cached_data": "x"},
    {"fill_missing_data_reads": False},
    {"store_data_equal_to_fill_value": True},
    {"cache_pool": {"total_bytes_limit": 5}},
    {"cache_pool": "cache_pool#a", "context": {"cache_pool#a": {"total_bytes_limit": 5}}},
    {"metadata_cache_pool": "cache_pool#b"},
    {"foo": 1},
    {"field": "a"},
    {"open_as_void": True},
    {"open_as_void": True, "field": "a"},
]

UPDATES: list[dict[str, Any]] = [
    *({"dtype": "int16"}, {"rank": 1}, {"rank": 2}, {"shape": [4, 6]}, {"shape": [2]}),
    *({"create": True}, {"open": True}, {"delete_existing": True}, {"assume_metadata": True}),
    *({"fill_value": 4}, {"dimension_units": ["nm", None]}, {"recheck_cached": False}),
    *({"strip_context": True}, {"unbind_context": True}),
]


@seeds(range(600))
def test_specs(seed: int) -> None:
    draw = random.Random(seed)
    members: dict[str, Any] = {"driver": draw.choice(["zarr3", "zarr3", "zarr3", "zarr"])}
    for part in draw.sample(SPECS, draw.randint(1, 3)):
        members.update(part)
    updates = draw.sample(UPDATES, draw.randint(0, 2))
    schema, metadata = members.get("schema", {}), members.get("metadata", {})
    if ("field" in members or "open_as_void" in members) and metadata:
        del members["metadata"]
        metadata = {}
    if "codec" in schema and (members["driver"] == "zarr" or "codecs" in metadata):
        del members["schema"]
    if "attributes" in metadata and members["driver"] == "zarr":
        del members["metadata"]
    if members["driver"] == "zarr" and metadata:  # TensorStore reports it later
        updates = [item for item in updates if "rank" not in item]
    drops = "output" in members.get("transform", {})
    result = []
    for package in (ts, theirs):
        results: list[Any] = []
        spec = outcome(lambda: package.Spec(members))
        results.append(spec if isinstance(spec, Exception) else None)
        for update in updates:
            if not isinstance(spec, Exception):
                error = outcome(lambda: spec.update(**update))
                results.append(error)
                spec = spec if error is None else error
        if not isinstance(spec, Exception):
            for name in ("rank", "domain", "transform", "dtype", "open_mode", "dimension_units"):
                value = outcome(lambda: getattr(spec, name))
                results.append(value if isinstance(value, Exception) else str(value))
            results += [outcome(spec.to_json), outcome(lambda: json_of(spec.chunk_layout))]
            results.append(None if drops else outcome(lambda: json_of(spec.schema)))
            results.append(outcome(lambda: json_of(spec[1:3])))
        result.append(results)
    assert len(result[0]) == len(result[1]), (members, updates, result)
    for item, two in zip(*result, strict=True):
        assert agree(item, two), (members, updates, item, two)


MARKED = ["", ".mark_bounds_implicit[True]", ".mark_bounds_implicit[True:False]", "[1:]", "[:, 1]"]


def small(package: Any, driver: str = "zarr3", **ways: bool) -> Any:
    spec = {"driver": driver, "kvstore": "memory://"}
    new = {"create": True, "open": True, "dtype": "int32", "shape": [4, 4]}
    return package.open(spec, **new, **ways).result()


@pytest.mark.parametrize("ways", [{}, {"read": True, "write": True}, {"write": True}], ids=str)
@pytest.mark.parametrize("view", ["'float64'", "'string'", "'int32'"])
def test_base_has_mode_of_view(view: str, ways: dict[str, bool]) -> None:
    def describe(package: Any) -> Any:
        transaction = package.Transaction()
        result = package.cast(small(package, **ways), eval(view))
        inside = package.cast(result.with_transaction(transaction), "int16").base
        modes = [item.mode for item in (result, result.base, inside, inside.base)]
        return modes, [item.transaction is transaction for item in (inside, inside.base)]

    assert told_or_class(lambda: describe(ts)) == told_or_class(lambda: describe(theirs))


@pytest.mark.parametrize("mark", MARKED)
@pytest.mark.parametrize("kind", ["zarr", "array", "cast", "stack"])
def test_base_has_bounds_of_view(kind: str, mark: str) -> None:
    def describe(package: Any) -> Any:
        base: Any = {
            "zarr": lambda: small(package),
            "array": lambda: package.array(np.zeros((4, 4))),
            "cast": lambda: package.cast(small(package), "int8"),
            "stack": lambda: package.stack([package.array(np.zeros(4))], axis=0),
        }[kind]()
        view = package.cast(eval(f"base{mark}", {"base": base}), "float32")
        return [str(item.domain) for item in (view, view.base, view.resolve().result().base)]

    assert told_or_class(lambda: describe(ts)) == told_or_class(lambda: describe(theirs))


@pytest.mark.parametrize("mark", ["[1:3]", "[:, ::-1]", ".T", "[3]", *MARKED])
@pytest.mark.parametrize("ends", [[3, 8], [8, 2], [None, None]], ids=str)
@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
def test_spec_bounds_match_tensorstore(driver: str, ends: Any, mark: str) -> None:
    def describe(package: Any) -> Any:
        store = small(package, driver)
        view = eval(f"store{mark}", {"store": store})
        store.resize(exclusive_max=ends).result()
        cast = package.cast(view, "int8")
        return [str(item.domain) for item in (view, view.spec(), cast, cast.spec())]

    assert told_or_class(lambda: describe(ts)) == told_or_class(lambda: describe(theirs))


def test_statistics_of_missing_positions() -> None:
    def describe(package: Any) -> Any:
        view = small(package)[package.IndexTransform(input_shape=[2, 1])][1:2, [0, 0, 1, 0]]
        return view.storage_statistics(query_not_stored=True).result()

    for package in (ts, theirs):
        with pytest.raises(ValueError):
            describe(package)


@pytest.mark.parametrize(
    "mark",
    [
        *("[-3:2]", "[-3:4]", "[-3:-1]", "[-3]", "[[-3, 1]]", "[[-3, 2, 3]]", "[[3, -1], [0, 1]]"),
        *(
            "[[-2, 2], [-1, 0]]",
            "[-3:4, -2:2]",
            "[2, -1]",
            "[[[-1], [2]], 1:3]",
            "[2:50]",
            "[::-2]",
        ),
        *(".T[[-1, 0], -2:4]", ".label['x', ''][ts.d['x'][-4:20:3]]", "[:2][-4:0]"),
    ],
)
@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
def test_statistics_outside_array(driver: str, mark: str) -> None:
    """If a handle keeps no bounds, positions outside the array are not stored."""

    def describe(package: Any, **requested: bool) -> Any:
        store = small(package, driver)[package.d[:].mark_bounds_implicit[True]]
        view = eval(f"store{mark}", {"store": store, "ts": package})
        result = view.storage_statistics(**requested).result()
        return result.not_stored, result.fully_stored

    for requested in ("query_not_stored", "query_fully_stored"):
        assert describe(ts, **{requested: True}) == describe(theirs, **{requested: True})


@pytest.mark.parametrize("shape", [(5, 0), (0, 5), (0,)], ids=str)
def test_outside_position_of_empty_view(shape: tuple[int, ...]) -> None:
    """The position is an error, except in an empty dimension with explicit bounds."""
    spec = {"driver": "zarr3", "kvstore": "memory://"}
    mine, other = (
        package.open(spec, create=True, dtype="int32", shape=shape).result()
        for package in (ts, theirs)
    )
    keys = [[], [7], [7, 0], 7, 0, -1, slice(7), slice(7, 7), slice(7, 9), slice(None), None]
    refused = 0
    for key in itertools.product(keys, repeat=len(shape)):
        for act in (lambda view: view.read().result(), lambda view: view.write(1).result()):
            expected = outcome(lambda: act(other[key]))
            assert agree(outcome(lambda: act(mine[key])), expected), key
            refused += type(expected) is ValueError
    assert refused


@pytest.mark.parametrize("driver", ["zarr3", "zarr"])
def test_spec_of_single_item_index_array(driver: str) -> None:
    def describe(package: Any) -> Any:
        view = small(package, driver).oindex[[3, 2], :1][package.d[0, 1].diagonal]
        views = [view, view.resolve().result(), view[[0, 0]], package.cast(view, "int16")]
        specs = [item.spec() for item in views] + [view.spec(minimal_spec=True)]
        return [spec.to_json()["transform"] for spec in specs]

    assert describe(ts) == describe(theirs)


_RECORDS: dict[str, Any] = {
    "zarr": {"shape": [3, 4], "chunks": [2, 2], "dtype": [["a", "<i2"], ["b", "|u1"]]},
    "zarr3": {
        "shape": [3, 4],
        "codecs": [{"name": "bytes", "configuration": {"endian": "big"}}],
        "data_type": {
            "name": "struct",
            "configuration": {
                "fields": [{"name": "a", "data_type": "int16"}, {"name": "b", "data_type": "uint8"}]
            },
        },
    },
}


@pytest.mark.parametrize("driver", _RECORDS)
@pytest.mark.parametrize("view", ["[...]", "[1:2]", ".T"])
@pytest.mark.parametrize("tied", [False, True])
def test_resize_of_field_needs_tied_bounds(driver: str, view: str, tied: bool) -> None:
    """Any bound, even the current bound, is an error unless the call allows tied bounds."""

    def describe(package: Any) -> list[Any]:
        result = []
        for kind in ({"field": "b"}, {"open_as_void": True}):
            for bounds in ([None, None], [3, None], [5, 4], [None, 2]):
                spec = {"driver": driver, "kvstore": "memory://", "metadata": _RECORDS[driver]}
                context = package.Context()
                package.open({**spec, "field": "a"}, create=True, context=context).result()
                handle = package.open({**spec, **kind}, context=context).result()
                seen = eval(f"handle{view}", {"handle": handle})
                ends = [*bounds, *[None] * (seen.rank - 2)]
                resize = partial(seen.resize, exclusive_max=ends, resize_tied_bounds=tied)
                result.append(isinstance(outcome(lambda act=resize: act().result()), ValueError))
                field_spec = {"driver": driver, "kvstore": "memory://", "field": "a"}
                again = package.open(field_spec, context=context).result()
                result.append(again.shape)
        return result

    assert describe(ts) == describe(theirs)


@pytest.mark.parametrize(
    ("data_type", "fill"),
    [
        *(("int16", None), ("int16", 7), ("bool", 1), ("complex64", 2)),
        *(("float32", 0.5), ("float32", float("nan")), ("float64", -float("inf"))),
    ],
)
def test_single_field_record_has_fill_value_of_field(
    data_type: str, fill: Any, tmp_path: Path
) -> None:
    """TensorStore stores it without the name that the format requires, and reads no other form."""
    metadata: dict[str, Any] = {
        "shape": [3],
        "codecs": _RECORDS["zarr3"]["codecs"],
        "data_type": {
            "name": "struct",
            "configuration": {"fields": [{"name": "a", "data_type": data_type}]},
        },
    }
    options = {} if fill is None else {"fill_value": np.array(fill, data_type)}
    spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/"}
    built = theirs.open({**spec, "metadata": metadata}, create=True, **options).result()
    built[0] = 1
    with pytest.warns(TessarrWarning, match="lacks the field's name"):
        result = ts.open(spec).result()
    assert same(result.fill_value, built.fill_value)
    assert same(result.read().result(), built.read().result())
    again = ts.open({**spec, "metadata": metadata}, create=True, delete_existing=True, **options)
    assert set(again.result().spec().to_json()["metadata"]["fill_value"]) == {"a"}
    with pytest.raises(ValueError, match="fill_value"):
        theirs.open(spec).result()


@pytest.mark.parametrize("first", ["|S3", "<i2", ["|S3", [1, 2]], ["<i2", [2]], "|V1"], ids=str)
@pytest.mark.parametrize("last", ["|V2", "|S2", ["|V2", [2]], "|S1", "<i2"], ids=str)
def test_byte_fields_are_written_in_position(first: Any, last: Any) -> None:
    """The bytes start after the preceding fields."""

    def describe(package: Any) -> Any:
        context = package.Context()
        members = [["é", *(item if isinstance(item, list) else [item])] for item in (first, last)]
        members[1][0] = "A"
        metadata = {"shape": [3], "chunks": [2], "dtype": members, "compressor": None}
        spec = {"driver": "zarr", "kvstore": "memory://", "metadata": metadata, "field": "A"}
        handle = package.open(spec, create=True, context=context).result()
        for part in (handle, handle[1:2], handle[2:][..., ::-1]):
            count, kind = (
                int(np.prod(part.shape)),
                {"byte": "V1", "char": "S1"}.get(part.dtype.name),
            )
            values = np.arange(1, count + 1, dtype="u1")
            values = values.astype("i2") if kind is None else values.view(kind)
            part.write(values.reshape(part.shape)).result()
        other = package.open({**spec, "field": "é"}, context=context).result()
        keys = package.KvStore.open("memory://", context=context).result()
        stored = [keys.read(key).result().value for key in ("0", "1")]
        return stored, other.dtype.name

    assert describe(ts) == describe(theirs)


@pytest.mark.parametrize("endian", ["big", "little"])
@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize(
    "data_type", ["int16", "complex64", "uint8", _RECORDS["zarr3"]["data_type"]], ids=str
)
def test_void_elements_equal_stored_bytes(
    data_type: Any, endian: str, sharded: bool, staged: bool
) -> None:
    def describe(package: Any) -> Any:
        context = package.Context()
        codecs: list[Any] = [{"name": "bytes", "configuration": {"endian": endian}}]
        if sharded:
            inside = {"chunk_shape": [1], "codecs": codecs}
            codecs = [{"name": "sharding_indexed", "configuration": inside}]
        metadata = {"shape": [3], "data_type": data_type, "codecs": codecs}
        spec = {"driver": "zarr3", "kvstore": "memory://", "metadata": metadata}
        field = {} if isinstance(data_type, str) else {"field": "a"}
        built = package.open({**spec, **field}, create=True, context=context).result()
        built.write(np.array([258, 3, 4]).astype(built.dtype.numpy_dtype)).result()
        void_spec = {"driver": "zarr3", "kvstore": "memory://", "open_as_void": True}
        handle = package.open(void_spec, context=context).result()
        into = {
            "shape": [3, handle.shape[1]],
            "chunks": [3, 99],
            "dtype": "|V1",
            "compressor": None,
        }
        read = {"driver": "zarr", "kvstore": "memory://read/", "metadata": into}
        copy = package.open(read, create=True, context=context).result()
        copy[..., 0].write(handle).result()  # NumPy 2.4 has no bytes of these
        transaction = package.Transaction() if staged else None
        within, seen = handle.with_transaction(transaction), []
        for part in (within[:1], within[1:, :1], within[1, ::-1]):
            count = int(np.prod(part.shape))
            values = np.arange(11, 11 + count, dtype="u1").view("V1").reshape(part.shape)
            part.write(values).result()
            if not sharded or package is ts:  # otherwise TensorStore may wait forever
                seen.append(built.with_transaction(transaction).read().result().tolist())
        if transaction is not None:
            transaction.commit_async().result()
        keys = package.KvStore.open("memory://", context=context).result()
        stored = [keys.read(key).result().value for key in ("read/0.0", "c/0")]
        seen.append(built.read().result().tolist())
        assert seen[-2:] in ([seen[-1]], [seen[-1]] * 2)
        return stored, seen[-1:] if sharded else seen

    assert str(describe(ts)) == str(describe(theirs))


def test_void_fill_value_equals_stored_bytes() -> None:
    codecs = [{"name": "bytes", "configuration": {"endian": "big"}}]
    metadata = {"shape": [2], "data_type": "int16", "codecs": codecs, "fill_value": 258}
    spec = {"driver": "zarr3", "kvstore": "memory://", "metadata": metadata, "open_as_void": True}
    built = ts.open(spec, create=True).result()
    assert built.fill_value.tobytes() == b"\1\2"
    assert built.read().result().tobytes() == b"\1\2\1\2"
