"""Slightly wrong documents: parsing never crashes, and parsed metadata survive a round trip."""

from __future__ import annotations

import contextlib
import copy
import json
import warnings

from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from tessarr.errors import MetadataError, UnsupportedError
from tessarr.metadata import ArrayMeta, v2, v3
from tests.unit.metadata import test_v2, test_v3

SHARDED = {
    **test_v3.MINIMAL,
    "codecs": [
        test_v3.transpose(1, 0),
        test_v3.sharding([1, 3], codecs=[test_v3.LITTLE, "crc32c"]),
        {
            "name": "blosc",
            "configuration": {
                "cname": "zstd",
                "clevel": 5,
                "shuffle": "shuffle",
                "typesize": 4,
                "blocksize": 0,
            },
        },
    ],
    "dimension_names": ["x", None],
    "storage_transformers": [],
    "attributes": {"a": [1, {"b": None}]},
}
GROUP = {"zarr_format": 3, "node_type": "group", "attributes": {}, "consolidated_metadata": None}
V2 = {
    **test_v2.MINIMAL,
    "compressor": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    "filters": [{"id": "zlib", "level": 1}, {"id": "crc32c"}],
    "dimension_separator": "/",
}

leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, 1, 2, 3, -1, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64, 10**100])
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["int8", "complex64", "r16", "|V2", ">f4", "NaN", "0x7fc00001", "bytes"])
    | st.sampled_from(["transpose", "sharding_indexed", "v2", "default", "gzip", "F", "big"])
)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


def json_paths(value, path=()):
    """Yield the path of each item inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for name, item in list(items):
        yield (*path, name)
        if isinstance(item, dict | list):
            yield from json_paths(item, (*path, name))


@st.composite
def mutated(draw, document):
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(json_paths(document)) or [()]))
        if not path:
            return document
        parent = document
        for name in path[:-1]:
            parent = parent[name]
        if draw(st.booleans()):
            parent[path[-1]] = draw(values)
        elif isinstance(parent, dict):
            del parent[path[-1]]
        else:
            parent.insert(path[-1], draw(values))
    return document


def parse(document):
    data = json.dumps(document).encode()
    if document.get("zarr_format") == 2 or "dtype" in document:
        return v2.parse_array(data, None, where="a")
    return v3.parse(data, where="a")


def check(document):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            meta = parse(document)
        except (MetadataError, UnsupportedError) as error:
            assert len(str(error)) < 10_000
            return
    if isinstance(meta, ArrayMeta):
        meta.description()
        assert len(meta.chunk_shape) == meta.rank
        hash(meta)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = v3.dump(meta) if meta.zarr_format == 3 else v2.dump(meta)[".zarray"]
        again = parse(json.loads(text))
        assert (v3.dump(again) if meta.zarr_format == 3 else v2.dump(again)[".zarray"]) == text


@examples(400)
@given(mutated(SHARDED))
def test_arrays_of_format_3(document):
    check(document)


@examples(300)
@given(mutated(V2))
def test_arrays_of_format_2(document):
    check(document)


@examples(100)
@given(mutated(GROUP))
def test_groups_of_format_3(document):
    check(document)


@given(values)
def test_any_json_parses_or_raises_documented_error(value):
    for parse_bytes in (v3.parse, lambda data, where: v2.parse_array(data, data, where=where)):
        with contextlib.suppress(MetadataError, UnsupportedError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parse_bytes(json.dumps(value).encode(), where="")
