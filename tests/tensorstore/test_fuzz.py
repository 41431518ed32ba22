"""Whatever JSON is given, there comes out a value, or an error of ours; and a value survives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessarr.tensorstore as ts
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
def test_any_json_is_a_value_or_an_error(
    name: str, make: Callable[[Any], Any], form: st.SearchStrategy[Any]
) -> None:
    """What is accepted gives JSON that is accepted, and gives the same JSON again."""

    @settings(max_examples=settings().max_examples // 2)
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
