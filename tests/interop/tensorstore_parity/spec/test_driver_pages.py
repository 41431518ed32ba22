"""The examples on the pages of the drivers ``zarr3`` and ``zarr`` match in both packages.

The tests use each fragment of JSON as a spec, as JSON again, and as the spec of a new array. They
also use it as a constraint on an existing array.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import tessarr.tensorstore as ours
from interop.tensorstore_parity.random_views import outcome

theirs: Any = pytest.importorskip("tensorstore", reason="compared with TensorStore's own")

GRID = {"name": "regular", "configuration": {"chunk_shape": [64, 64, 64]}}
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
SHARDS: dict[str, Any] = {
    "chunk_shape": [64, 64, 64],
    "codecs": [LITTLE, {"name": "gzip", "configuration": {"level": "5"}}],
    "index_codecs": [LITTLE, {"name": "crc32c"}],
    "index_location": "end",
}
BLOSC = {"cname": "blosclz", "clevel": 9, "typesize": 2, "shuffle": "bitshuffle"}
COMPRESSED = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}
BUCKET = {"driver": "gcs", "bucket": "my-bucket", "path": "path/to/array/"}
OF_THE_PAGE: dict[str, Any] = {
    "shape": [1000, 1000],
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [100, 100]}},
    "chunk_key_encoding": {"name": "default"},
    "codecs": [{"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5}}],
    "data_type": "int4",
}
WHOLE: dict[str, Any] = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [1000, 2000, 3000],
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [100, 200, 300]}},
    "chunk_key_encoding": {"name": "default"},
    "data_type": "uint16",
    "codecs": [LITTLE],
    "fill_value": 42,
}

METADATA: dict[str, dict[str, Any]] = {
    "the one of the driver": OF_THE_PAGE,
    "a whole document": WHOLE,
    "a document with names": WHOLE | {"dimension_names": ["x", "y", "z"], "fill_value": 0},
    "names, some of them none": WHOLE | {"dimension_names": ["x", None, ""]},
    "a shape": {"shape": [300, 400, 500]},
    "chunks": {"chunk_grid": GRID},
    "chunks without a name": {"chunk_grid": {"configuration": {"chunk_shape": [64, 64, 64]}}},
    "units": {"attributes": {"dimension_units": ["2 nm", "3 nm", "50 nm"]}},
    "units, some of them none": {"attributes": {"dimension_units": [None, "", "50 nm"]}},
    "attributes": {"attributes": {"anything": {"b": 1, "a": [None, True]}}},
    "names": {"dimension_names": ["x", "y", "z"], "shape": [30, 40, 50]},
    "transpose": {"codecs": [{"name": "transpose", "configuration": {"order": [2, 0, 1]}}]},
    "transpose to C": {"codecs": [{"name": "transpose", "configuration": {"order": "C"}}]},
    "transpose to F": {"codecs": [{"name": "transpose", "configuration": {"order": "F"}}]},
    "little": {"codecs": [LITTLE]},
    "shards, as shown": {"codecs": [{"name": "sharding_indexed", "configuration": SHARDS}]},
    "shards": {
        "codecs": [
            {
                "name": "sharding_indexed",
                "configuration": SHARDS
                | {"codecs": [LITTLE, {"name": "gzip", "configuration": {"level": 5}}]},
            }
        ]
    },
    "gzip": {"codecs": [{"name": "gzip", "configuration": {"level": 9}}]},
    "blosc": {"codecs": [{"name": "blosc", "configuration": BLOSC}]},
    "blosc of nothing stated": {"codecs": ["blosc"]},
    "zstd": {"codecs": [{"name": "zstd", "configuration": {"level": 6}}]},
    "a checksum": {"codecs": [{"name": "crc32c"}]},
    "a checksum by its name": {"codecs": ["crc32c"]},
    "keys": {"chunk_key_encoding": {"name": "default"}},
    "keys with points": {
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}}
    },
    "keys of format 2": {"chunk_key_encoding": {"name": "v2"}},
    "keys of format 2 with slashes": {
        "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "/"}}
    },
    **{
        f"of {name}": {"data_type": name}
        for name in (
            *("bool", "int4", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"),
            *("uint64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
        )
    },
}
METADATA_2: dict[str, dict[str, Any]] = {
    "the one of the driver": {
        "shape": [1000, 1000],
        "chunks": [100, 100],
        "dtype": "<i2",
        "order": "C",
        "compressor": COMPRESSED,
    },
    "a shape": {"shape": [300, 400, 500]},
    "chunks": {"chunks": [64, 64, 64]},
    "a fill value": {"dtype": "<f4", "fill_value": 2.5},
    "an order": {"order": "F"},
    "blosc": {"compressor": COMPRESSED},
    "zlib": {"compressor": {"id": "zlib", "level": 9}},
    "bz2": {"compressor": {"id": "bz2", "level": 1}},
    "zstd": {"compressor": {"id": "zstd", "level": 6}},
    "no compressor": {"compressor": None},
    "fields": {"dtype": [["x", "<u2", [2, 3]]], "shape": [4, 4]},
}
BESIDE: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a path": {"path": "path/to/data"},
    "a rank": {"rank": 3},
    "a transform": {
        "transform": {"input_shape": [[30], [40], [50]], "input_labels": ["x", "y", "z"]},
        "schema": {"domain": {"shape": [30, 40, 50]}},
    },
    "a schema": {"schema": {"dtype": "uint16", "domain": {"shape": [30, 40, 50]}}},
    "another schema": {"schema": {"dtype": "int8"}},
    "times": {"recheck_cached_metadata": "open", "recheck_cached_data": True},
    "other times": {"recheck_cached_metadata": False, "recheck_cached_data": 5},
    "pools": {
        "cache_pool": "cache_pool",
        "metadata_cache_pool": "cache_pool#other",
        "context": {"cache_pool#other": {"total_bytes_limit": 1000}},
    },
    "missing chunks": {"fill_missing_data_reads": False},
    "kept chunks": {"store_data_equal_to_fill_value": True},
    "defaults": {
        "open": True,
        "create": False,
        "delete_existing": False,
        "path": "",
        "assume_metadata": False,
        "assume_cached_metadata": False,
        "fill_missing_data_reads": True,
        "store_data_equal_to_fill_value": False,
        "data_copy_concurrency": "data_copy_concurrency",
    },
    "assumed": {"open": True, "assume_metadata": True},
    "assumed for now": {"open": True, "assume_cached_metadata": True},
    "no way to open": {"open": False, "create": False},
    "nothing to delete": {"delete_existing": True, "open": True, "create": True},
}
REFUSED = {"shards, as shown", "chunks without a name"}
"""Fragments without an equal result: a level in text, and an invalid grid."""

CASES = [
    *(("zarr3", name, {"metadata": one}) for name, one in METADATA.items()),
    *(("zarr", name, {"metadata": one}) for name, one in METADATA_2.items()),
    *(("zarr3", name, one) for name, one in BESIDE.items()),
    *(("zarr", name, one) for name, one in BESIDE.items()),
]


def _describe(ts: Any, driver: str, metadata: dict[str, Any], kvstore: Any) -> list[Any]:
    """Return the JSON of a spec, without reads and with all defaults."""
    spec = ts.Spec({"driver": driver, "kvstore": kvstore, **metadata})
    return [
        spec.to_json(),
        ts.Spec(spec.to_json(include_defaults=True)).to_json(include_defaults=True),
        *(outcome(lambda name=name: repr(getattr(spec, name))) for name in FACTS),
    ]


FACTS = (
    *("rank", "dtype", "domain", "shape", "chunk_layout", "codec", "fill_value", "schema"),
    *("dimension_units", "open_mode", "kvstore", "url", "transform"),
)


def _build(ts: Any, driver: str, metadata: dict[str, Any]) -> list[Any]:
    """Create an array, and return its documents and a spec that opens it again."""
    context = ts.Context()
    spec = ts.Spec({"driver": driver, "kvstore": "memory://", **metadata})
    needed: dict[str, Any] = {} if spec.dtype else {"dtype": "uint16"}
    if spec.domain is None or not spec.domain.size:
        needed["shape"] = [300, 400, 500]
    array = ts.open(spec, context=context, create=True, **needed).result()
    index = (1,) * array.rank
    array[index] = 1
    kvstore = ts.KvStore.open("memory://", context=context).result()
    results = [array.spec().to_json(), array.schema.to_json(), repr(array.domain)]
    results.append(sorted(kvstore.list().result()))
    again = ts.open(spec, context=context, open=True, create=False, delete_existing=False)
    return [*results, outcome(lambda: repr(again.result())), repr(array[index].read().result())]


@pytest.mark.parametrize(("driver", "name", "metadata"), CASES)
@pytest.mark.parametrize("kvstore", ["memory://path/to/", BUCKET], ids=["memory", "far"])
def test_specs_of_page(driver: str, name: str, metadata: Any, kvstore: Any) -> None:
    results = [outcome(partial(_describe, ts, driver, metadata, kvstore)) for ts in (ours, theirs)]
    assert results[0] == results[1]
    assert (results[0] is ValueError) == (name in REFUSED)


@pytest.mark.parametrize(("driver", "name", "metadata"), CASES)
def test_arrays_of_page(driver: str, name: str, metadata: Any) -> None:
    results = [outcome(partial(_build, ts, driver, metadata)) for ts in (ours, theirs)]
    assert results[0] == results[1]
    assert (results[0] is ValueError) == (name in REFUSED)


@pytest.mark.parametrize("field", ["x", "y", "z"])
@pytest.mark.parametrize("view", ["[1, 1]", "[1, ..., 1]", "[1]", "[:2, 1]", "[None, 1][0:3]"])
def test_read_inside_void_elements_matches_tensorstore(field: str, view: str) -> None:
    """One position inside an element is an array without dimensions; a write may replace it."""
    dtype = [["x", "<u2", [2, 3]], ["y", "<i4", [2]], ["z", "|S3"]]
    metadata = {"dtype": dtype, "shape": [4], "chunks": [2]}
    results = []
    for ts in (ours, theirs):
        spec = {"driver": "zarr", "kvstore": "memory://", "field": field, "metadata": metadata}
        array = ts.open(spec, create=True).result()
        for part in (array[1][..., 1], eval(f"array{view}")):
            values = part.read().result()
            results.append((values.shape, values.flags.writeable, values.tolist()))
    assert results[:2] == results[2:]
    assert results[1][1]
