"""Specs and schemas accept objects inside JSON, if the objects have a JSON form."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ts

SPEC: dict[str, Any] = {"driver": "zarr3", "kvstore": "memory://"}


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("schema", ts.Schema(rank=2, dtype=ts.int8)),
        ("transform", ts.IndexTransform(input_shape=[2, 3])),
        ("kvstore", ts.KvStore.Spec("memory://x/")),
        ("context", ts.Context.Spec({"cache_pool": {"total_bytes_limit": 5}})),
        ("dtype", ts.int8),
        ("metadata", {"shape": np.array([4, 5])}),
        ("metadata", {"data_type": "int8", "fill_value": np.int8(3)}),
    ],
)
def test_of_specs(member: str, value: Any) -> None:
    plain = value.to_json() if hasattr(value, "to_json") else None
    if plain is None:
        plain = {name: getattr(item, "tolist", lambda i=item: i)() for name, item in value.items()}
    assert ts.Spec({**SPEC, member: value}) == ts.Spec({**SPEC, member: plain})


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("domain", ts.IndexDomain(shape=[4, 5])),
        ("chunk_layout", ts.ChunkLayout(chunk_shape=[2, 2])),
        ("codec", ts.CodecSpec({"driver": "zarr3"})),
        ("fill_value", np.int8(3)),
        ("fill_value", np.array([1, 2], "i1")),
        ("dimension_units", [ts.Unit("4nm"), None]),
        ("dtype", ts.int8),
    ],
)
def test_of_schemas(member: str, value: Any) -> None:
    written = ts.Schema({"rank": 2, "dtype": "int8", member: value})
    assert written == ts.Schema(**{"rank": 2, "dtype": ts.int8, member: value})
    assert ts.Schema(written.to_json()) == written


def test_arrays_are_lists() -> None:
    spec = ts.Spec({"driver": "array", "dtype": "int16", "array": np.arange(3)})
    assert ts.open(spec).result().read().result().tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "member", ["schema", "metadata", "context", "field", "path", "transform", "dtype", "kvstore"]
)
def test_null_member_is_refused(member: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        ts.Spec({**SPEC, member: None})


def test_no_field_is_empty_name() -> None:
    spec = ts.Spec({**SPEC, "field": "", "dtype": "int8", "schema": {"domain": {"shape": [2]}}})
    assert "field" not in spec.to_json()
    assert ts.open(spec, create=True).result().shape == (2,)


def test_defaults_name_rank_and_type_of_schema() -> None:
    spec = ts.Spec({**SPEC, "metadata": {"shape": [4, 5], "data_type": "int8"}})
    assert spec.to_json(include_defaults=True)["schema"] == {"dtype": "int8", "rank": 2}
    assert "schema" not in spec.to_json()
    store = ts.open(spec, create=True).result()
    document = store[1:3].spec(minimal_spec=True).to_json(include_defaults=True)
    assert document["schema"] == {"dtype": "int8", "rank": 2}


def test_units_by_keywords() -> None:
    assert ts.Unit(multiplier=4, base_unit="nm") == ts.Unit("4nm") == ts.Unit(unit="4 nm")
    assert ts.Unit(unit=(4, "nm")) == ts.Unit(4, base_unit="nm")
    assert ts.Unit() == ts.Unit(1, "")
    with pytest.raises(TypeError):
        ts.Unit(4, 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        ts.Unit((4, "nm", 5))


def test_minimal_specs_have_unstored_members() -> None:
    metadata = {"shape": [3], "data_type": "int8", "attributes": {"a": 1}}
    layout = {"chunk_layout": {"read_chunk": {"shape": [2]}, "write_chunk": {"shape": [2]}}}
    spec = ts.Spec({**SPEC, "metadata": metadata, "schema": layout})
    spec.update(minimal_spec=True)
    assert spec.to_json() == {
        "driver": "zarr3",
        "dtype": "int8",
        "kvstore": {"driver": "memory"},
        "schema": layout,
        "transform": {"input_inclusive_min": [0], "input_exclusive_max": [[3]]},
    }
    nested = ts.Spec({"driver": "cast", "dtype": "int16", "base": {**SPEC, "metadata": metadata}})
    nested.update(minimal_spec=True)
    assert "metadata" not in nested.to_json()["base"]


def test_bound_resources_are_serialized_by_name() -> None:
    context = ts.Context({"cache_pool": {"total_bytes_limit": 5}})
    store = ts.open(
        {**SPEC, "schema": {"domain": {"shape": [2]}}}, create=True, dtype="int8", context=context
    ).result()
    spec = store.spec(retain_context=True)
    document = spec.to_json()
    assert document["context"]["cache_pool"] == {"total_bytes_limit": 5}
    assert "cache_pool" not in document
    assert "'cache_pool': ['cache_pool']" in repr(spec)


@pytest.mark.parametrize(("length", "lines"), [(57, 6), (58, 8)])
def test_json_repr_lines_have_room_for_commas(length: int, lines: int) -> None:
    spec = ts.Spec({"driver": "array", "dtype": "json", "array": {"key": "x" * length}, "rank": 0})
    assert len(repr(spec).splitlines()) == lines


CONSTRUCTORS: dict[str, Any] = {
    "spec": ts.Spec,
    "schema": ts.Schema,
    "codec": ts.CodecSpec,
    "layout": ts.ChunkLayout,
    "context": ts.Context,
    "store": ts.KvStore.Spec,
    "path": lambda value: ts.Spec({**SPEC, "path": value}),
    "rank": lambda value: ts.Spec({**SPEC, "rank": value}),
    "attributes": lambda value: ts.Spec({**SPEC, "metadata": {"attributes": {"a": value}}}),
    "rank of schema": lambda value: ts.Schema({"rank": value}),
    "keyword": lambda value: ts.Schema(rank=value),
    "limit": lambda value: ts.Context({"cache_pool": {"total_bytes_limit": value}}),
    "path of store": lambda value: ts.KvStore.Spec({"driver": "file", "path": value}),
    "driver of codec": lambda value: ts.CodecSpec({"driver": value}),
}


@pytest.mark.parametrize("value", [object(), {1, 2}, 1j], ids=["object", "set", "complex"])
@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_non_json_raises_type_error(name: str, value: Any) -> None:
    with pytest.raises(TypeError):
        CONSTRUCTORS[name](value)


def test_defaults_are_serialized_everywhere() -> None:
    spec = ts.Spec({**SPEC, "metadata": {"chunk_key_encoding": {"name": "v2"}}})
    assert spec.to_json()["metadata"]["chunk_key_encoding"] == {"name": "v2"}
    document = spec.to_json(include_defaults=True)["metadata"]["chunk_key_encoding"]
    assert document == {"name": "v2", "configuration": {"separator": "."}}
    base = {"driver": "array", "array": [1, 2], "dtype": "int8"}
    view = {"base": base, "downsample_factors": [2], "downsample_method": "mean"}
    document = ts.Spec({"driver": "downsample", **view}).to_json(include_defaults=True)["base"]
    assert (document["context"], document["dtype"]) == ({}, "int8")
    assert ts.Spec({"driver": "downsample", **view}).to_json()["base"].keys() == {
        "driver", "array", "transform",
    }  # fmt: skip


@pytest.mark.parametrize("json", [{}, {"headers": ["a: b"]}])
def test_serialized_json_is_copy(json: dict[str, Any]) -> None:
    spec = ts.KvStore.Spec({"driver": "http", "base_url": "http://127.0.0.1/", **json})
    document = spec.to_json(include_defaults=True)
    document["headers"].append("c: d")
    assert spec.to_json(include_defaults=True)["headers"] == json.get("headers", [])


@pytest.mark.parametrize(
    "expected",
    [
        ts.Schema(
            rank=1,
            dtype=ts.int8,
            chunk_layout=ts.ChunkLayout(
                write_chunk_shape=[4], read_chunk_elements=2, inner_order=[0], grid_origin=[0]
            ),
            codec=ts.CodecSpec(
                {"driver": "zarr3", "codecs": [{"name": "gzip", "configuration": {"level": 1}}]}
            ),
        ),
        ts.ChunkLayout(
            rank=2,
            grid_origin=[None, 1],
            grid_origin_soft_constraint=[1, None],
            codec_chunk_elements=4,
            write_chunk_shape=[3, 4],
        ),
        ts.ChunkLayout.Grid(
            elements=9, shape_soft_constraint=[None, 3], shape=[3, None], aspect_ratio=[1, 2]
        ),
        ts.CodecSpec({"driver": "zarr", "filters": None, "compressor": {"level": 1, "id": "zlib"}}),
    ],
    ids=lambda expected: type(expected).__name__,
)
def test_members_are_reported_by_name(expected: Any) -> None:
    """The order is that of the names, like in specs, and not that of the arguments."""
    assert json.dumps(expected.to_json()) == json.dumps(expected.to_json(), sort_keys=True)


HALF = "\ud800"  # half of a surrogate pair: JSON can escape it, no encoding has it


def test_json_only_texts_have_repr() -> None:
    attributes = {HALF: 1, "a": [HALF, {"b": HALF}]}
    spec = ts.Spec({**SPEC, "metadata": {"attributes": attributes}})
    assert spec.to_json()["metadata"]["attributes"] == attributes
    assert repr(spec).encode().count(rb"\ud800") == 3
    schema = ts.Schema(dtype=ts.json, fill_value={HALF: 1})
    assert schema.to_json()["fill_value"] == {HALF: 1}
    assert rb"\ud800" in repr(schema).encode()


def test_json_only_texts_survive_in_documents() -> None:
    context = ts.Context()
    document = ts.open({"driver": "json", "kvstore": "memory://a"}, context=context).result()
    value = {"é": HALF, HALF: ["é"]}
    document.write(value).result()
    assert document.read().result()[()] == value
    assert json.loads(document.kvstore.read("").result().value) == value
    document.write({"é": 1}).result()
    assert document.kvstore.read("").result().value == '{"é":1}'.encode()
