"""Schemas, chunk layouts, codec specs and units: features of Tessarr only."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessarr.tensorstore as ts
from tessarr.errors import ArgumentError, TessarrError, UnsupportedError
from tessarr.metadata import v2, v3
from tessarr.metadata.node import ArrayMeta, GroupMeta
from tessarr.tensorstore.drivers.zarr import resolve_metadata
from tessarr.tensorstore.drivers.zarr.array_properties import properties_of
from tessarr.tensorstore.schema.element_type import WHOLE, Field


def meta_of(driver: str = "zarr3", metadata: Any = None, **schema: Any) -> Any:
    return resolve_metadata.new_metadata(driver, metadata, ts.Schema(**schema))


def test_failed_update_changes_nothing() -> None:
    """A conflict leaves schema and layout unchanged."""
    schema = ts.Schema(rank=2, chunk_layout=ts.ChunkLayout(chunk_shape=[3, 4]))
    before = schema.to_json()
    with pytest.raises(ArgumentError, match="does not match"):
        schema.update(dtype="int8", chunk_layout=ts.ChunkLayout(read_chunk_shape=[5, 4]))
    assert schema.to_json() == before
    layout = ts.ChunkLayout(chunk_shape=[3, 4])
    with pytest.raises(ArgumentError, match="does not match"):
        layout.update(inner_order=[1, 0], read_chunk_shape=[5, 4])
    assert layout == ts.ChunkLayout(chunk_shape=[3, 4])


def test_layout_of_schema_is_copy() -> None:
    """A change of the `chunk_layout` result does not change the schema."""
    schema = ts.Schema(rank=2)
    schema.chunk_layout.update(inner_order=[1, 0])
    assert schema.to_json() == {"rank": 2}


def test_fill_values_are_not_changed_from_outside() -> None:
    """Memo results of equal schemas, specs and documents equal the original values."""
    spec = {"driver": "zarr3", "kvstore": "memory://", "schema": {"dtype": "int8", "fill_value": 4}}
    scalar = np.array(5, "int8")
    fills = [
        ts.Schema(dtype="int8", fill_value=scalar).fill_value,
        ts.Spec(spec).fill_value,
        ts.open(spec, create=True, shape=[2], context=ts.Context()).result().fill_value,
    ]
    scalar[...] = 7
    for fill, expected in zip(fills, [5, 4, 4], strict=True):
        assert fill is not None
        assert fill == expected
        with pytest.raises(ValueError, match="read-only"):
            fill[...] = 9


@pytest.mark.parametrize(
    "spec",
    [
        {"driver": "zarr3", "kvstore": "memory://"},
        {"driver": "auto", "kvstore": "memory://"},
        {"driver": "cast", "dtype": "int8", "base": {"driver": "zarr3", "kvstore": "memory://"}},
    ],
)
def test_schema_of_spec_is_copy(spec: Any) -> None:
    """A change of the copy changes neither the spec nor equal specs."""
    before = ts.Spec(spec).schema.to_json()
    ts.Spec(spec).schema.update(dimension_units=["5nm"])
    assert ts.Spec(spec).schema.to_json() == before


def test_codec_chunks_are_set_by_keyword() -> None:
    """`codec_chunk_shape` constrains codec chunks; TensorStore changes read chunks."""
    layout = ts.ChunkLayout(codec_chunk_shape=[2, 3])
    assert layout.to_json() == {"codec_chunk": {"shape": [2, 3]}}


def test_schema_without_rank_is_not_indexed() -> None:
    """The result is an error; TensorStore ends the process."""
    with pytest.raises(ArgumentError, match="no rank"):
        ts.Schema(dtype="int8")[1]


@pytest.mark.parametrize(
    "value",
    [
        ts.Schema(dtype="float32", shape=[2, 3], fill_value=np.nan, dimension_units=["4nm", None]),
        ts.Schema(codec=ts.CodecSpec({"driver": "zarr3", "codecs": ["gzip"]})),
        ts.ChunkLayout(chunk_shape=[3, 4], inner_order_soft_constraint=[1, 0]),
        ts.CodecSpec({"driver": "zarr", "compressor": None}),
        ts.Unit(3.5, "nm"),
    ],
)
def test_values_are_pickled_and_copied(value: Any) -> None:
    """Copies are equal."""
    for other in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value)):
        assert repr(other) == repr(value)
        assert type(other) is type(value)


@pytest.mark.parametrize(
    ("dtype", "values"),
    [("int8", [4, 5]), ("ustring", ["a", "b"]), ("json", [{"a": 1}, 2]), (None, ["a", "b"])],
)
def test_fill_values_of_scalars_stay_arrays(dtype: Any, values: list[Any]) -> None:
    """The fill value stays an array in views of a position, and in views without dimensions."""
    kind = dtype if dtype == "int8" else object
    seen = ts.Schema(dtype=dtype, shape=[2], fill_value=np.array(values, kind))[1]
    for schema in (seen, ts.Schema(schema=seen), ts.Schema(rank=0, schema=seen)):
        assert isinstance(schema.fill_value, np.ndarray)
        assert schema.fill_value.shape == ()
        assert schema.fill_value.item() == values[1]
    spec = ts.Spec({"driver": "zarr3", "kvstore": "memory://", "transform": {"input_rank": 0}})
    spec.update(dtype=dtype, fill_value=np.array(values[1], kind))
    assert spec.to_json()["schema"] == {"fill_value": values[1]}
    with pytest.raises(TypeError, match="is not a list"):
        spec.update(fill_value=np.array(values[1], kind), shape=5)  # type: ignore[arg-type]


def test_equal_fill_values_do_not_conflict() -> None:
    """Fill values of different data types are equal if their values are equal."""
    schema = ts.Schema({"fill_value": 42})
    schema.update(fill_value=42)
    with pytest.raises(ArgumentError, match="does not match"):
        schema.update(fill_value=43)


@pytest.mark.parametrize(("value", "dtype"), [(300, "uint8"), (2.5, "uint8"), (-1, "uint16")])
def test_fill_values_that_do_not_fit_are_refused(value: Any, dtype: str) -> None:
    """Conversion never truncates silently, whenever the data type becomes known."""
    with pytest.raises(ArgumentError, match="does not fit"):
        ts.Schema(dtype=dtype, fill_value=value)
    with pytest.raises(ArgumentError, match="fill_value"):
        meta_of(fill_value=value, metadata={"data_type": dtype, "shape": [3]})


def test_tessarr_codecs_merge_in_schema() -> None:
    """Creation chooses and merges Tessarr's own codecs and data types like others."""
    codec = ts.CodecSpec({"driver": "zarr3", "codecs": ["numcodecs.zlib"]})
    meta = meta_of(dtype="ustring", shape=[10], codec=codec)
    assert [item["name"] for item in meta.codecs.to_json()] == ["vlen-utf8", "numcodecs.zlib"]
    lz4 = ts.CodecSpec({"driver": "zarr", "compressor": {"id": "lz4"}})
    assert "LZ4" in str(meta_of("zarr", dtype="int8", shape=[10], codec=lz4).codecs)


def test_data_type_missing_in_format_is_refused() -> None:
    """The error occurs before any write."""
    with pytest.raises(UnsupportedError, match="json"):
        meta_of(dtype="json", shape=[3])
    with pytest.raises(UnsupportedError, match="json"):
        meta_of("zarr", dtype="json", shape=[3])


def test_fields_and_bytes_of_records() -> None:
    """A field has its type and its inner dimensions; the bytes are a last dimension."""
    metadata = {"dtype": [["a", "<i2"], ["b", "<f4", [2]]], "shape": [5]}
    meta = resolve_metadata.new_metadata("zarr", metadata, ts.Schema(), Field("b"))
    schema = properties_of(meta, Field("b")).schema
    assert (schema.dtype, schema.shape) == (ts.float32, (5, 2))
    assert schema.chunk_layout.read_chunk.shape == (5, 2)
    raw = properties_of(meta, Field(as_void=True)).schema
    assert (raw.dtype, raw.shape) == (ts.byte, (5, 10))
    with pytest.raises(ArgumentError, match="give one of 'a', 'b'"):
        properties_of(meta, WHOLE)
    with pytest.raises(ArgumentError, match="exclude"):
        Field.of("a", as_void=True)


def test_raw_elements() -> None:
    """``r16``, whose parsing ends TensorStore's process, is bytes in a last dimension."""
    meta = resolve_metadata.new_metadata("zarr3", {"data_type": "r16", "shape": [4]}, ts.Schema())
    schema = properties_of(meta, WHOLE).schema
    assert (schema.dtype, schema.shape, schema.rank) == (ts.byte, (4, 2), 2)


def test_constraints_come_back_from_metadata() -> None:
    """The constraints from an array's metadata create the same array."""
    meta = meta_of(
        metadata={"attributes": {"a": 1}, "codecs": ["gzip"]},
        dtype="int16",
        domain=ts.IndexDomain(shape=[100, 200], labels=["x", ""]),
        fill_value=3,
        dimension_units=["4nm", None],
    )
    again = resolve_metadata.new_metadata(
        "zarr3", properties_of(meta, WHOLE).constraints, ts.Schema()
    )
    assert properties_of(again, WHOLE).metadata_json == properties_of(meta, WHOLE).metadata_json
    resolve_metadata.check(
        meta, properties_of(meta, WHOLE).constraints, properties_of(meta, WHOLE).schema
    )


def test_existing_arrays_of_other_grids() -> None:
    """A rectilinear grid has no write chunk, and meets no constraint on one."""
    from tessarr.metadata.build import build_array_meta

    meta = build_array_meta(shape=(10,), dtype="int8", chunks=[[3, 7]])
    assert properties_of(meta, WHOLE).chunk_layout.write_chunk.shape == (None,)
    with pytest.raises(ArgumentError, match="chunk_shape"):
        grid = {"name": "regular", "configuration": {"chunk_shape": [5]}}
        resolve_metadata.check(meta, {"chunk_grid": grid}, ts.Schema())


NAMES = """
    rank dtype domain chunk_layout codec fill_value driver dimension_units shape codecs name chunk
    configuration id inner_order write_chunk read_chunk elements aspect_ratio labels compressor
    order chunk_shape inclusive_min exclusive_max level data_type chunk_grid attributes grid_origin
    dimension_names clevel index_codecs filters endian chunks chunk_key_encoding
"""
WORDS = ["int32", "zarr3", "zarr", "gzip", "bytes", "sharding_indexed", "C", "blosc", "<i4", "|b1"]
LEAVES = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats()
JSON = st.recursive(
    LEAVES | st.integers(-2, 9) | st.text(max_size=4) | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(NAMES.split()), inner, max_size=5)
    ),
    max_leaves=14,
)


@given(JSON)
def test_any_json_is_value_or_error(value: Any) -> None:
    """All errors are Tessarr's, and accepted values have a JSON form."""
    for make in (
        ts.Schema,
        ts.ChunkLayout,
        ts.CodecSpec,
        lambda json: ts.Unit(json=json),
        lambda json: resolve_metadata.read_constraints("zarr3", json),
        lambda json: resolve_metadata.read_constraints("zarr", json),
    ):
        if value is None:
            continue
        try:
            value_made = make(value)
        except TessarrError:
            continue
        again = make(value_made.to_json())
        assert repr(again.to_json()) == repr(value_made.to_json())


def test_blosc_shuffles_whole_elements() -> None:
    """Blosc shuffles complex numbers as a whole, and records and raw bytes as bytes."""
    results = []
    for data_type in ("complex64", "int16", "r32"):
        metadata = {"data_type": data_type, "shape": [4], "codecs": ["blosc"]}
        meta = resolve_metadata.new_metadata("zarr3", metadata, ts.Schema())
        results.append(meta.codecs.to_json()[-1]["configuration"]["typesize"])
    assert results == [8, 2, 1]


def test_grids_are_created_and_changed() -> None:
    grid = ts.ChunkLayout.Grid({"shape": [10, 0], "elements_soft_constraint": 5})
    grid.update(shape=[0, 12], aspect_ratio_soft_constraint=[1, 2])
    assert (grid.shape, grid.elements, grid.elements_soft_constraint) == ((10, 12), None, 5)
    soft = ts.ChunkLayout.Grid(grid_soft_constraint=grid, elements=7)
    assert soft.to_json() == {
        "aspect_ratio_soft_constraint": [1.0, 2.0],
        "elements": 7,
        "shape_soft_constraint": [10, 12],
    }
    assert pickle.loads(pickle.dumps(soft)) == soft != grid
    with pytest.raises(ArgumentError, match="rank"):
        grid.update(rank=3)
    assert (ts.ChunkLayout.Grid().rank, ts.ChunkLayout.Grid(rank=2).shape) == (None, (None, None))
    layout = ts.ChunkLayout(
        write_chunk=grid, read_chunk_shape=[0, 6], grid_origin=[0, 0], finalize=True
    )
    assert (layout.write_chunk.to_json(), layout.read_chunk.shape) == ({"shape": [10, 12]}, (10, 6))


@pytest.mark.parametrize(
    "wrong",
    [
        {"chunk_shape": "x"},
        {"chunk_shape": 5},
        {"rank": "2"},
        {"chunk_elements": 2.5},
        {"inner_order": [0.0, 1]},
        {"chunk_aspect_ratio": ["a"]},
        {"foo": 1},
    ],
)
def test_keywords_of_layouts_have_types(wrong: Any) -> None:
    with pytest.raises(TypeError):
        ts.ChunkLayout(**wrong)
    assert ts.ChunkLayout(rank=-1).rank == -1


WISHES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "default": ("zarr3", {}, {"dtype": "uint16"}),
    "shards": (
        "zarr3",
        {},
        {
            "dtype": "uint16",
            "chunk_layout": ts.ChunkLayout(read_chunk_elements=50, write_chunk_elements=500),
        },
    ),
    "shards of a shape": (
        "zarr3",
        {},
        {"dtype": "int8", "chunk_layout": ts.ChunkLayout(read_chunk_shape=[3, 4])},
    ),
    "whole axes": (
        "zarr3",
        {},
        {"dtype": "int8", "chunk_layout": ts.ChunkLayout(chunk_shape=[-1, 4])},
    ),
    "order": (
        "zarr3",
        {"attributes": {"a": 1}},
        {"dtype": "int8", "fill_value": 7, "chunk_layout": ts.ChunkLayout(inner_order=[1, 0])},
    ),
    "subchunks": (
        "zarr3",
        {
            "codecs": [
                {
                    "name": "sharding_indexed",
                    "configuration": {"chunk_shape": [2, 2], "codecs": ["zstd"]},
                }
            ],
            "dimension_names": ["x", None],
        },
        {"dtype": "float32", "dimension_units": ["4nm", None]},
    ),
    "format 2": ("zarr", {"compressor": None}, {"dtype": "uint16"}),
    "order of format 2": ("zarr", {"order": "F", "dtype": "<f4"}, {"fill_value": 1}),
}
SHAPES = [(1000, 1000), (4000, 3), (1, 1), (0, 9), (4000, 3), (1500, 1500), (2**40, 7), (999, 1)]


@pytest.mark.parametrize("wish", WISHES)
@pytest.mark.parametrize("kind", ["schema", "metadata"])
def test_created_metadata_equals_its_document(wish: str, kind: str) -> None:
    driver, metadata, parts = WISHES[wish]
    for shape in SHAPES:
        constraints = {**metadata, "shape": shape} if kind == "metadata" else metadata
        schema = ts.Schema(**parts, **({} if kind == "metadata" else {"shape": shape}))
        created = resolve_metadata.new_metadata(driver, constraints, schema)
        assert created == read_again(created)
        assert created.shape == shape
        resolve_metadata.check(created, constraints, schema)


def read_again(meta: ArrayMeta) -> ArrayMeta | GroupMeta:
    if meta.zarr_format == 3:
        return v3.parse(v3.dump(meta), where="")
    stored = v2.dump(meta)
    return v2.parse_array(stored[v2.ARRAY], stored[v2.ATTRIBUTES], where="")


def test_refused_creation_is_refused_again() -> None:
    """Creation checks equal constraints again if their bounds differ."""
    resolve_metadata.new_metadata("zarr3", {}, ts.Schema(dtype="int8", shape=[4, 5]))
    wrong = [
        ts.IndexDomain(inclusive_min=[1, 0], shape=[4, 5]),
        ts.IndexDomain(
            inclusive_min=[0, 0], exclusive_max=[4, 2**62], implicit_upper_bounds=[0, 1]
        ),
        ts.IndexDomain(shape=[2**40, 2**40]),
    ]
    for domain in wrong:
        for _ in range(2):
            with pytest.raises(ValueError, match=r"domain|elements"):
                resolve_metadata.new_metadata("zarr3", {}, ts.Schema(dtype="int8", domain=domain))
    labelled = ts.Schema(dtype="int8", domain=ts.IndexDomain(shape=[4, 5], labels=["x", "y"]))
    assert resolve_metadata.new_metadata("zarr3", {}, labelled).dimension_names == ("x", "y")
    with pytest.raises(ValueError, match="rank"):
        resolve_metadata.new_metadata("zarr3", {"shape": [4]}, ts.Schema(dtype="int8", rank=2))


def test_merged_duplicate_labels_are_refused() -> None:
    schema = ts.Schema(domain=ts.IndexDomain(labels=["y", ""], shape=[2, 3]))
    with pytest.raises(ValueError, match="'y' stands for several dimensions"):
        schema.update(domain=ts.IndexDomain(labels=["", "y"], shape=[2, 3]))
    with pytest.raises(ValueError, match=r"dimension 1: .*does not match"):
        schema.update(domain=ts.IndexDomain(shape=[2, 4]))
    schema.update(domain=ts.IndexDomain(labels=["", "x"], shape=[2, 3]))
    assert schema.domain == ts.IndexDomain(labels=["y", "x"], shape=[2, 3])


def test_codec_json_is_copy() -> None:
    spec = ts.CodecSpec({"driver": "zarr", "compressor": {"id": "zlib", "level": 1}})
    spec.to_json()["compressor"]["level"] = 9
    assert spec.to_json()["compressor"] == {"id": "zlib", "level": 1}
