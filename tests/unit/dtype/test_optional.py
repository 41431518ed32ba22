"""Optional elements: data types with missing values, in the layout of zarrs."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tessarr
from tessarr import codecs, dtype
from tessarr.errors import ArgumentError, DataError, UnsupportedError
from tessarr.format.validation import Problems

MAYBE = {"name": "zarrs.optional", "configuration": {"name": "int16", "configuration": {}}}
NESTED = {"name": "zarrs.optional", "configuration": MAYBE}


def created(store=None, data_type=MAYBE, **options):
    options.setdefault("chunks", (2, 3))
    return tessarr.create_array(store, shape=(4, 5), dtype=data_type, **options)


def test_document_matches_zarrs():
    store = {}
    created(store, compressors=None)
    document = json.loads(store["zarr.json"])
    assert document["data_type"] == MAYBE
    assert document["fill_value"] is None
    little = {"name": "bytes", "configuration": {"endian": "little"}}
    assert document["codecs"] == [
        {
            "name": "zarrs.optional",
            "configuration": {"mask_codecs": [{"name": "bytes"}], "data_codecs": [little]},
        }
    ]
    assert dtype.to_data_type(NESTED).to_json(3) == NESTED
    assert dtype.to_data_type(NESTED).inner == dtype.to_data_type(MAYBE)


def test_optional_chunk_stores_mask_and_present_values():
    store = {}
    a = created(store, compressors=None)
    a[0, :3] = [258, None, -1]
    sizes = (6).to_bytes(8, "little") + (4).to_bytes(8, "little")
    assert store["c/0/0"] == sizes + bytes([1, 0, 1, 0, 0, 0]) + b"\2\1\xff\xff"
    a[0, 2] = None
    a[0, 0] = None
    assert list(store) == ["zarr.json"]


@pytest.mark.parametrize("data_type", [MAYBE, NESTED], ids=["once", "nested"])
@pytest.mark.parametrize(
    "options",
    [{}, {"shards": (4, 6)}, {"fill_value": 7}, {"compressors": ["zstd"], "order": "F"}],
    ids=["default", "shards", "fill", "F"],
)
def test_values_are_stored_and_read(data_type, options):
    a = created(None, data_type, **options)
    fill = options.get("fill_value")
    assert a["valid"].all() == (fill is not None)
    a[1] = np.ma.array(np.arange(5), mask=[1, 0, 0, 0, 1])
    a[2, ::2] = [5, None, 0]
    a[3, 3] = 0
    valid = np.zeros((4, 5), bool) if fill is None else np.ones((4, 5), bool)
    valid[1] = [False, True, True, True, False]
    valid[2, ::2] = [True, False, True]
    valid[3, 3] = True
    values_read = a[...]
    assert (values_read["valid"] == valid).all()
    innermost = values_read["value"] if data_type is MAYBE else values_read["value"]["value"]
    assert innermost[1].tolist() == [0, 1, 2, 3, 0]
    assert innermost[3, 3] == 0
    assert tessarr.create_array(None, data=values_read).dtype == a.dtype
    a[0] = values_read[1]
    assert (a["valid"][0] == valid[1]).all()


def test_own_codecs_for_mask_and_values():
    serializer = codecs.ZarrsOptional(["packbits", "gzip"], [codecs.Bytes("big"), "zstd"])
    a = created(None, serializer=serializer, compressors=None)
    a[...] = np.ma.array(np.arange(20).reshape(4, 5), mask=np.arange(20).reshape(4, 5) % 3 == 0)
    assert a["valid"].sum() == 13
    assert a["value"].sum() == sum(n for n in range(20) if n % 3)


def test_appending_and_creating_take_masks():
    data = np.ma.array([1, 2, 3], mask=[0, 1, 0])
    a = tessarr.create_array(None, data=data, dtype=MAYBE)
    a.append(data)
    assert a["valid"].tolist() == [True, False, True] * 2
    assert a["value"].tolist() == [1, 0, 3] * 2


def fill(value, data_type=MAYBE):
    problems = Problems()
    parsed = dtype.to_data_type(data_type)
    result = parsed.fill_from_json(value, 3, "/f", problems)
    if result is not None:
        assert parsed.fill_to_json(result, 3) == value
    return result if result is not None else problems.found[0].loc


def test_fill_values():
    assert fill(None) == b"\0\0\0"
    assert fill([258]) == b"\2\1\1"
    assert fill([None], NESTED) == b"\0\0\0\1"
    assert fill([[1]], NESTED) == b"\1\0\1\1"
    assert fill(1) == fill([1, 2]) == fill([]) == "/f"
    assert fill([2**40]) == "/f/0"
    maybe = dtype.to_data_type(MAYBE)
    assert maybe.cast_fill(np.ma.masked) == maybe.cast_fill(None) == bytes(3)
    assert maybe.cast_fill(maybe.scalar(b"\7\7\0")) == bytes(3)
    with pytest.raises(ValueError, match="not fit"):
        maybe.cast_fill(2**20)


def test_conflicting_arguments_raise():
    with pytest.raises(ArgumentError, match=r"does not take zarrs\.optional"):
        created(serializer="bytes")
    with pytest.raises(ArgumentError, match="are never missing"):
        tessarr.create_array(None, shape=3, dtype="i4", serializer=codecs.ZarrsOptional())
    with pytest.raises(UnsupportedError, match="format 2"):
        created(zarr_format=2)
    with pytest.raises(UnsupportedError, match="string"):
        dtype.to_data_type({"name": "zarrs.optional", "configuration": {"name": "string"}})
    with pytest.raises(ArgumentError):
        dtype.to_data_type({"name": "zarrs.optional", "configuration": {"a": 1}})


@pytest.mark.parametrize(
    "damaged",
    [
        b"\6",
        (2**63).to_bytes(8, "little") + bytes(8),
        (6).to_bytes(8, "little") + bytes(8) + b"\2" + bytes(5),
        (6).to_bytes(8, "little") + bytes(8) + b"\1" + bytes(5),
        (5).to_bytes(8, "little") + bytes(8) + bytes(5),
    ],
    ids=["header", "sizes", "bool", "no values", "mask"],
)
def test_damage_error_has_location(damaged):
    store = {}
    a = created(store, compressors=None)
    store["c/0/0"] = damaged
    with pytest.raises(DataError) as caught:
        a[...]
    assert caught.value.key == "c/0/0"
    assert "zarrs.optional" in str(caught.value)
