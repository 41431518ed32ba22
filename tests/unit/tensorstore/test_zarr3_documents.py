"""Tessarr accepts and produces the documents on the page of the driver ``zarr3``."""

from __future__ import annotations

from typing import Any

import pytest

import tessarr.tensorstore as ts

GRID = {"name": "regular", "configuration": {"chunk_shape": [100, 200, 300]}}
ARRAY: dict[str, Any] = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [1000, 2000, 3000],
    "chunk_grid": GRID,
    "chunk_key_encoding": {"name": "default"},
    "data_type": "uint16",
    "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    "fill_value": 42,
}


def schema_of(metadata: Any) -> ts.Schema:
    """Open an array whose document the JSON driver wrote, and return its schema."""
    context, kvstore = ts.Context(), {"driver": "memory"}
    document = {"driver": "json", "kvstore": kvstore, "path": "zarr.json"}
    ts.open(document, context=context).result().write(metadata).result()
    return ts.open({"driver": "zarr3", "kvstore": kvstore}, context=context).result().schema


def test_schema_of_array_without_shards() -> None:
    assert schema_of(ARRAY).to_json() == {
        "chunk_layout": {
            "grid_origin": [0, 0, 0],
            "inner_order": [0, 1, 2],
            "read_chunk": {"shape": [100, 200, 300]},
            "write_chunk": {"shape": [100, 200, 300]},
        },
        "codec": {
            "codecs": [{"configuration": {"endian": "little"}, "name": "bytes"}],
            "driver": "zarr3",
        },
        "domain": {"exclusive_max": [[1000], [2000], [3000]], "inclusive_min": [0, 0, 0]},
        "dtype": "uint16",
        "fill_value": 42,
        "rank": 3,
    }


def test_names_of_dimensions_are_labels() -> None:
    named = ARRAY | {"dimension_names": ["x", "y", "z"], "fill_value": 0}
    domain = schema_of(named).domain
    assert domain is not None
    assert domain.to_json() == {
        "exclusive_max": [[1000], [2000], [3000]],
        "inclusive_min": [0, 0, 0],
        "labels": ["x", "y", "z"],
    }


def test_absent_and_empty_names_are_no_label() -> None:
    domain = schema_of(ARRAY | {"dimension_names": ["x", None, ""]}).domain
    assert domain is not None
    assert domain.labels == ("x", "", "")


def test_duplicate_dimension_names_give_no_labels() -> None:
    domain = schema_of(ARRAY | {"dimension_names": ["x", "x", "z"]}).domain
    assert domain is not None
    assert domain.labels == ("", "", "")


@pytest.mark.parametrize(
    ("expected", "read", "write"),
    [
        ({}, [101, 101, 101], [101, 101, 101]),
        (
            {
                "chunk_aspect_ratio": [2, 1, 1],
                "read_chunk_elements": 2000000,
                "write_chunk_elements": 1000000000,
            },
            [200, 100, 100],
            [1000, 1000, 1000],
        ),
        (
            {"read_chunk_shape": [64, 64, 64], "write_chunk_shape": [512, 512, 512]},
            [64, 64, 64],
            [512, 512, 512],
        ),
    ],
)
def test_chunks_are_chosen(expected: dict[str, Any], read: list[int], write: list[int]) -> None:
    store = ts.open(
        {"driver": "zarr3", "kvstore": {"driver": "memory"}},
        create=True,
        dtype=ts.uint16,
        shape=[1000, 2000, 3000],
        chunk_layout=ts.ChunkLayout(**expected),
    ).result()
    assert store.chunk_layout.to_json() == {
        "grid_origin": [0, 0, 0],
        "inner_order": [0, 1, 2],
        "read_chunk": {"shape": read},
        "write_chunk": {"shape": write},
    }


def test_spec_with_partial_metadata_is_accepted() -> None:
    """Creation chooses all codec and grid members that the spec omits."""
    spec = ts.Spec(
        {
            "driver": "zarr3",
            "kvstore": {"driver": "memory", "path": "path/to/array/"},
            "metadata": {
                "shape": [1000, 1000],
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [100, 100]}},
                "chunk_key_encoding": {"name": "default"},
                "codecs": [{"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5}}],
                "data_type": "int4",
            },
        }
    )
    assert spec.dtype == ts.int4
    store = ts.open(spec, create=True).result()
    metadata = store.spec().to_json()["metadata"]
    assert metadata["codecs"][-1] == {
        "name": "blosc",
        "configuration": {
            "cname": "lz4", "clevel": 5, "shuffle": "bitshuffle", "typesize": 1, "blocksize": 0,
        },
    }  # fmt: skip


CODECS = [
    {"name": "transpose", "configuration": {"order": [2, 0, 1]}},
    {"name": "bytes", "configuration": {"endian": "little"}},
    {
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": [64, 64, 64],
            "codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "gzip", "configuration": {"level": 5}},
            ],
            "index_codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "crc32c"},
            ],
            "index_location": "end",
        },
    },
    {"name": "gzip", "configuration": {"level": 9}},
    {
        "name": "blosc",
        "configuration": {
            "cname": "blosclz", "clevel": 9, "typesize": 2, "shuffle": "bitshuffle",
        },
    },
    {"name": "zstd", "configuration": {"level": 6}},
    {"name": "crc32c"},
    "crc32c",
]  # fmt: skip


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_documented_codecs_are_accepted(codec: Any) -> None:
    """Each may be the only member: creation chooses the others, and the array has the codec."""
    store = ts.open(
        {
            "driver": "zarr3",
            "kvstore": {"driver": "memory"},
            "metadata": {
                "shape": [128, 128, 128],
                "data_type": "uint16",
                "codecs": [codec],
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [64, 64, 64]}},
            },
        },
        create=True,
    ).result()
    stored = store.spec().to_json()["metadata"]["codecs"]
    name = codec if isinstance(codec, str) else codec["name"]
    expected = {} if isinstance(codec, str) else codec.get("configuration", {})
    codec_json = next(codec_document for codec_document in stored if codec_document["name"] == name)
    configuration = codec_json.get("configuration", {})
    assert {key: configuration.get(key, "end") for key in expected} == expected
    store[3, 4, 5] = 77
    assert store[3, 4, 4:6].read().result().tolist() == [0, 77]


@pytest.mark.parametrize(
    ("encoding", "key"),
    [
        ({"name": "default"}, b"c/0/1"),
        ({"name": "default", "configuration": {"separator": "."}}, b"c.0.1"),
        ({"name": "v2"}, b"0.1"),
        ({"name": "v2", "configuration": {"separator": "/"}}, b"0/1"),
    ],
)
def test_keys_of_chunks(encoding: Any, key: bytes) -> None:
    store = ts.open(
        {
            "driver": "zarr3",
            "kvstore": {"driver": "memory"},
            "metadata": {
                "shape": [4, 4],
                "data_type": "int8",
                "chunk_key_encoding": encoding,
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 2]}},
            },
        },
        create=True,
    ).result()
    store[0, 3] = 5
    assert store.kvstore is not None
    assert sorted(store.kvstore.list().result()) == sorted([b"zarr.json", key])
    assert store.spec().to_json()["metadata"]["chunk_key_encoding"]["name"] == encoding["name"]


def test_units_of_dimensions() -> None:
    store = ts.open(
        {"driver": "zarr3", "kvstore": {"driver": "memory"}},
        create=True,
        dtype=ts.uint8,
        shape=[10, 10, 10],
        dimension_units=["2 nm", "3 nm", "50 nm"],
    ).result()
    assert store.dimension_units == (ts.Unit("2 nm"), ts.Unit("3 nm"), ts.Unit("50 nm"))
    attributes = store.spec().to_json()["metadata"]["attributes"]
    assert attributes == {"dimension_units": ["2 nm", "3 nm", "50 nm"]}


def test_chunks_equal_to_fill_value_are_not_stored() -> None:
    spec = {"driver": "zarr3", "kvstore": {"driver": "memory"}}
    for keep, keys in ((False, 1), (True, 5)):
        store = ts.open(
            spec | {"store_data_equal_to_fill_value": keep},
            create=True,
            dtype=ts.int16,
            shape=[4, 4],
            fill_value=7,
            chunk_layout=ts.ChunkLayout(chunk_shape=[2, 2]),
        ).result()
        store.write(7).result()
        assert store.kvstore is not None
        assert len(store.kvstore.list().result()) == keys


def test_missing_chunk_with_refusal_raises() -> None:
    spec = {"driver": "zarr3", "kvstore": {"driver": "memory"}, "fill_missing_data_reads": False}
    layout = ts.ChunkLayout(chunk_shape=[2])
    store = ts.open(spec, create=True, dtype=ts.int16, shape=[4], chunk_layout=layout).result()
    store[:2] = 1
    assert store[:2].read().result().tolist() == [1, 1]
    with pytest.raises(ValueError, match="c/1"):
        store.read().result()
