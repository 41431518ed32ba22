"""Any JSON produces a value or an error of Tessarr; a value survives a round trip."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessarr.tensorstore as ts
from sampling import examples
from tessarr.errors import TessarrError

NAMES = [
    "aspect_ratio",
    "base",
    "cache_pool",
    "chunk",
    "chunk_layout",
    "chunk_grid",
    "chunk_shape",
    "codec",
    "codec_chunk",
    "codecs",
    "configuration",
    "context",
    "create",
    "data_copy_concurrency",
    "data_type",
    "dimension_units",
    "domain",
    "driver",
    "dtype",
    "elements",
    "elements_soft_constraint",
    "exclusive_max",
    "fill_value",
    "grid_origin",
    "inclusive_max",
    "inclusive_min",
    "index_array",
    "index_array_bounds",
    "inner_order",
    "inner_order_soft_constraint",
    "input_dimension",
    "input_exclusive_max",
    "input_inclusive_min",
    "input_labels",
    "input_rank",
    "input_shape",
    "kvstore",
    "labels",
    "limit",
    "metadata",
    "name",
    "offset",
    "open",
    "output",
    "path",
    "rank",
    "read_chunk",
    "recheck_cached_data",
    "recheck_cached_metadata",
    "schema",
    "shape",
    "shape_soft_constraint",
    "stride",
    "total_bytes_limit",
    "transform",
    "write_chunk",
]

WORDS = [
    "", "+inf", "-inf", "4 nm", "C", "F", "array", "blosc", "bool", "bytes", "cast", "default",
    "file", "file:///a|zarr3:", "float32", "gzip", "int4", "json", "memory", "memory://", "open",
    "r16", "shared", "sharding_indexed", "stack", "transpose", "uint16", "zarr", "zarr2", "zarr3",
]  # fmt: skip

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 40)
    | st.sampled_from([2**31, 2**53, 2**62 - 1, 2**62, 2**63, -(2**62), -(2**63), 2**64, 10**30])
    | st.floats()
    | st.sampled_from(WORDS)
    | st.text(max_size=4)
)

JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda parts: (
        st.lists(parts, max_size=4)
        | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), parts, max_size=4)
    ),
    max_leaves=12,
)

INDICES = st.lists(st.integers(-3, 9) | JSON, max_size=3) | JSON
GRID = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("shape", "aspect_ratio", "elements"), INDICES)
)
MAP = st.fixed_dictionaries(
    {},
    optional={
        "offset": SCALARS,
        "stride": SCALARS,
        "input_dimension": SCALARS,
        "index_array": INDICES,
        "index_array_bounds": INDICES,
    },
)
BOX = dict.fromkeys(("inclusive_min", "exclusive_max", "inclusive_max", "shape", "labels"), INDICES)
DOMAIN = st.fixed_dictionaries({}, optional=BOX | {"rank": SCALARS})
TRANSFORM = st.fixed_dictionaries(
    {},
    optional={f"input_{name}": value for name, value in BOX.items()}
    | {"input_rank": SCALARS, "output": st.lists(MAP | JSON, max_size=3) | JSON},
)
LAYOUT = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("read_chunk", "write_chunk", "codec_chunk", "chunk"), GRID | JSON)
    | {"rank": SCALARS, "inner_order": INDICES, "grid_origin": INDICES},
)
CODEC = st.fixed_dictionaries(
    {"driver": st.sampled_from(["zarr3", "zarr", "zarr2"]) | JSON},
    optional={"codecs": st.lists(JSON, max_size=3) | JSON, "compressor": JSON, "filters": JSON},
)
SCHEMA = st.fixed_dictionaries(
    {},
    optional={
        "rank": SCALARS,
        "dtype": SCALARS,
        "domain": DOMAIN | JSON,
        "chunk_layout": LAYOUT | JSON,
        "codec": CODEC | JSON,
        "fill_value": JSON,
        "dimension_units": INDICES,
    },
)

META = st.fixed_dictionaries(
    {},
    optional={
        "zarr_format": SCALARS,
        "node_type": SCALARS,
        "shape": INDICES,
        "data_type": SCALARS,
        "dtype": SCALARS,
        "chunks": INDICES,
        "chunk_grid": JSON,
        "chunk_key_encoding": JSON,
        "fill_value": JSON,
        "codecs": st.lists(JSON, max_size=3) | JSON,
        "compressor": JSON,
        "order": SCALARS,
        "attributes": JSON,
        "dimension_names": INDICES,
    },
)
SPEC = st.fixed_dictionaries(
    {"driver": st.sampled_from(["zarr3", "zarr", "zarr2", "auto"]) | JSON},
    optional={
        "kvstore": st.sampled_from([{"driver": "memory"}, "memory://a/"]) | JSON,
        "path": SCALARS,
        "metadata": META | JSON,
        "schema": SCHEMA | JSON,
        "transform": TRANSFORM | JSON,
        "rank": SCALARS,
        "dtype": SCALARS,
        "open": SCALARS,
        "create": SCALARS,
        "delete_existing": SCALARS,
        "assume_metadata": SCALARS,
        "recheck_cached_data": SCALARS,
        "recheck_cached_metadata": SCALARS,
        "fill_missing_data_reads": SCALARS,
        "cache_pool": JSON,
        "context": JSON,
        "field": JSON,
    },
)

KINDS: list[tuple[str, Callable[[Any], Any], st.SearchStrategy[Any]]] = [
    ("IndexDomain", lambda json: ts.IndexDomain(json=json), DOMAIN),
    ("IndexTransform", lambda json: ts.IndexTransform(json=json), TRANSFORM),
    ("ChunkLayout", ts.ChunkLayout, LAYOUT),
    ("CodecSpec", ts.CodecSpec, CODEC),
    ("Schema", ts.Schema, SCHEMA),
    ("Spec", ts.Spec, SPEC),
    ("Context.Spec", ts.Context.Spec, JSON),
    ("Context", ts.Context, JSON),
    ("KvStore.Spec", ts.KvStore.Spec, JSON),
]


@pytest.mark.parametrize(("name", "make", "form"), KINDS, ids=[kind[0] for kind in KINDS])
def test_any_json_is_value_or_error(
    name: str, make: Callable[[Any], Any], form: st.SearchStrategy[Any]
) -> None:
    """The JSON of an accepted value is accepted, and has the same JSON again."""

    @examples(50)
    @given(form | JSON)
    def check(json: Any) -> None:
        try:
            value = make(json)
        except TessarrError:
            return
        repr(value)
        if hasattr(value, "to_json"):
            again = value.to_json()
            assert make(again).to_json() == again

    check()


def _deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(200_000):
        value = [value]
    return value


HOSTILE: dict[str, Any] = {
    "nested": _deep(),
    "digits": 10**5000,
    "negative": -(10**400),
    "surrogate": "\ud800",
    "long": "x" * 10**5,
    "wide": [0] * 10**4,
    "name": {"\ud800" + "x" * 10**5: 1},
    "items": ["\ud800", 10**5000],
    "object": object(),
}

BLOSC = {"cname": "lz4", "clevel": 3, "shuffle": "shuffle", "typesize": 4, "blocksize": 0}
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
SHARDS = {
    "chunk_shape": [2, 2],
    "codecs": [LITTLE, {"name": "blosc", "configuration": BLOSC}],
    "index_codecs": [LITTLE, "crc32c"],
    "index_location": "end",
}
CHAIN = [
    {"name": "transpose", "configuration": {"order": [1, 0]}},
    {"name": "sharding_indexed", "configuration": SHARDS},
]
COMPLETE: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "Spec": (
        ts.Spec,
        {
            "driver": "zarr3",
            "kvstore": {"driver": "memory", "path": "a/"},
            "path": "b",
            "rank": 2,
            "dtype": "int32",
            "open": True,
            "recheck_cached_data": "open",
            "fill_missing_data_reads": True,
            "cache_pool": {"total_bytes_limit": 100},
            "metadata": {
                "shape": [8, 8],
                "data_type": "int32",
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 4]}},
                "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
                "fill_value": 3,
                "codecs": CHAIN,
                "dimension_names": ["x", "y"],
                "attributes": {"k": 1},
            },
            "context": {"data_copy_concurrency#a": {"limit": 2}},
        },
    ),
    "Spec of zarr": (
        ts.Spec,
        {
            "driver": "zarr",
            "kvstore": "memory://a/",
            "field": "f",
            "metadata": {
                "shape": [8],
                "chunks": [4],
                "dtype": [["f", "<i4"], ["g", "<f4", [2]]],
                "filters": [{"id": "delta", "dtype": "<i4"}],
                "compressor": {"id": "blosc", "cname": "lz4", "clevel": 3, "shuffle": 1},
            },
        },
    ),
    "Spec of array": (ts.Spec, {"driver": "array", "dtype": "int32", "array": [[1, 2], [3, 4]]}),
    "Schema": (
        ts.Schema,
        {
            "rank": 2,
            "dtype": "int32",
            "chunk_layout": {"write_chunk": {"shape": [4, 4]}},
            "fill_value": [[3]],
            "codec": {"driver": "zarr3", "codecs": CHAIN},
        },
    ),
    "ChunkLayout": (
        ts.ChunkLayout,
        {
            "inner_order": [0, 1],
            "grid_origin": [0, 0],
            "write_chunk": {"shape": [8, 8]},
            "read_chunk": {"aspect_ratio": [1, 2], "elements_soft_constraint": 9},
        },
    ),
    "KvStore.Spec": (
        ts.KvStore.Spec,
        {
            "driver": "file",
            "path": "/a",
            "file_io_concurrency": {"limit": 3},
            "file_io_locking": {"mode": "os"},
        },
    ),
    "KvStore.Spec of http": (
        ts.KvStore.Spec,
        {
            "driver": "http",
            "base_url": "http://localhost/",
            "path": "/a",
            "headers": ["a: b"],
            "http_request_retries": {"max_retries": 2, "initial_delay": "1s"},
        },
    ),
    "KvStore.Spec of s3": (
        ts.KvStore.Spec,
        {"driver": "s3", "bucket": "bucket", "path": "x", "aws_credentials": {"type": "default"}},
    ),
    "KvStore.Spec of layers": (
        ts.KvStore.Spec,
        {
            "driver": "kvstack",
            "layers": [
                {"base": "memory://a", "prefix": "x", "strip_prefix": 1},
                {"base": "memory://b", "exact": "y"},
            ],
        },
    ),
    "Context": (
        ts.Context,
        {"cache_pool": {"total_bytes_limit": 3}, "cache_pool#x": "cache_pool"},
    ),
}


def _json_paths(json: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    members = json.items() if isinstance(json, dict) else ()
    items = enumerate(json) if isinstance(json, list) else ()
    for name, value in (*members, *items):
        yield from _json_paths(value, (*path, name))


def _with(json: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    name, *rest = path
    copied = json.copy()
    copied[name] = _with(json[name], tuple(rest), value)
    return copied


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("name", COMPLETE)
def test_errors_show_any_value_briefly(name: str, hostile: str) -> None:
    """Unprintable and very long values produce Tessarr's errors at any position."""
    make, json = COMPLETE[name]
    make(json)
    for path in _json_paths(json):
        try:
            make(_with(json, path, HOSTILE[hostile]))
        except TessarrError as error:
            message = str(error)
            message.encode()
            assert len(message) < 2000, (path, message[:200])
