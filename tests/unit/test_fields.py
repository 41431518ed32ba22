"""Reads and writes of named fields; the other fields keep every byte."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

import tessarr
from tessarr import codecs
from tessarr.errors import ArgumentError, MetadataError, SelectionError

RECORD = np.dtype(
    [
        ("a", "<i4"),
        ("b", "|S3"),
        ("c", "<f8"),
        ("d", "<u2", (2,)),
        ("e", [("f", "u1"), ("g", "M8[s]")]),
    ]
)
SIMPLE = np.dtype([("x", "<f4"), ("y", "<u2"), ("z", "<i8")])
SHAPE = (7, 9)


def any_records(dtype, shape, seed=1):
    dice = np.random.default_rng(seed)
    size = int(np.prod(shape, dtype=int)) * dtype.itemsize
    return np.frombuffer(dice.bytes(size), dtype).reshape(shape).copy()


LAYOUTS = {
    "v2": {"zarr_format": 2, "chunks": (3, 4)},
    "v2 F raw": {"zarr_format": 2, "chunks": (3, 4), "order": "F", "compressors": None},
    "v2 one element per chunk": {"zarr_format": 2, "chunks": (1, 1), "compressors": None},
    "v3": {"chunks": (3, 4)},
    "v3 big": {"chunks": (3, 4), "serializer": codecs.Bytes("big"), "compressors": ["zstd"]},
    "v3 shards": {"chunks": (1, 2), "shards": (4, 6)},
    "v3 raw shards F": {"chunks": (2, 2), "shards": (4, 6), "order": "F", "compressors": None},
}


def created(layout, dtype, **more):
    if "zarr_format" not in LAYOUTS[layout]:
        dtype = SIMPLE
    return tessarr.create_array(None, shape=SHAPE, dtype=dtype, **LAYOUTS[layout], **more)


KEYS = [
    ...,
    (slice(1, 6, 2), slice(None, None, -1)),
    (2, slice(3, 8)),
    (6, 8),
    ([4, 0, 4], slice(2, 5)),
    ([1, 2, 3], [0, 8, 4]),
    (None, 0),
    np.arange(63).reshape(SHAPE) % 3 == 0,
]


def with_names(names, key):
    return (names, *key) if isinstance(key, tuple) else (names, key)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("key", KEYS, ids=range(len(KEYS)))
def test_field_reads_match_numpy(layout, key):
    a = created(layout, RECORD)
    values = any_records(a.dtype, SHAPE)
    a[...] = values
    for name in a.dtype.names:
        expected = values[key][name] if a.ndim else values[name]
        result = a[with_names(name, key)]
        assert result.dtype == expected.dtype
        assert result.shape == expected.shape
        assert result.tobytes() == expected.tobytes()
        assert a.read(with_names(name, key)).result().tobytes() == expected.tobytes()
    names = list(a.dtype.names)[::-2]
    result = a[with_names(names, key)]
    assert result.dtype.names == tuple(names)
    assert result.dtype.itemsize == sum(a.dtype[name].itemsize for name in names)
    for name in names:
        assert result[name].tobytes() == values[key][name].tobytes()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("key", KEYS, ids=range(len(KEYS)))
def test_field_write_keeps_other_fields(layout, stored, key):
    dtype = RECORD if "zarr_format" in LAYOUTS[layout] else SIMPLE
    fill = any_records(dtype, (), 3)[()]
    a = created(layout, RECORD, fill_value=fill)
    values = np.broadcast_to(np.asarray(fill), SHAPE).copy()
    if stored:
        values = any_records(a.dtype, SHAPE)
        a[...] = values
    for seed, names in enumerate([*a.dtype.names, list(a.dtype.names)[::-2], list(a.dtype.names)]):
        part = any_records(a.dtype, np.shape(values[key]), 10 + seed)[names]
        if isinstance(names, list):
            new = values[key].copy()
            for name in names:
                new[name] = part[name]
            values[key] = new
        else:
            values[names][key] = part
        a[with_names(names, key)] = part
        assert a[...].tobytes() == values.tobytes()


def test_field_write_of_whole_chunk_keeps_other_fields(tmp_path):
    a = tessarr.create_array(tmp_path, shape=(4,), dtype=SIMPLE, chunks=(2,))
    a[...] = any_records(SIMPLE, (4,))
    before = a[...]
    a["y"] = 7
    assert a["y"].tolist() == [7] * 4
    for name in ("x", "z"):
        assert a[name].tobytes() == before[name].tobytes()


def test_field_write_of_fill_deletes_chunk():
    a = tessarr.create_array({}, shape=(4,), dtype=SIMPLE, chunks=(4,))
    a["y"] = 7
    assert a.nchunks_initialized == 1
    a["y"] = 0
    assert a.nchunks_initialized == 0


def test_field_names_work_anywhere_in_key():
    a = tessarr.create_array(None, shape=(4,), dtype=SIMPLE)
    values = any_records(SIMPLE, (4,))
    a[...] = values
    assert a["x", 1:3].tobytes() == a[1:3, "x"].tobytes() == values["x"][1:3].tobytes()
    assert a["x", "z"].dtype.names == ("x", "z")
    assert a["x", 0] == values["x"][0] or np.isnan(values["x"][0])
    assert isinstance(a["x", 0], np.float32)
    assert a.oindex["x", [0, 2]].tobytes() == values["x"][[0, 2]].tobytes()
    assert a.vindex["x", [0, 2]].tobytes() == values["x"][[0, 2]].tobytes()
    assert a.blocks["x", 0].tobytes() == values["x"].tobytes()
    a.oindex["y", [0, 2]] = 5
    a.vindex["z", [1]] = 6
    assert (a["y", 0], a["y", 2], a["z", 1]) == (5, 5, 6)


def test_field_of_rank_0_array_is_array():
    a = tessarr.create_array(None, shape=(), dtype=SIMPLE)
    a["y"] = 3
    assert a["y"].shape == ()
    assert isinstance(a["y"], np.ndarray)
    assert isinstance(a.get_basic_selection((), fields="y"), np.uint16)


@pytest.mark.parametrize("form", ["basic", "orthogonal", "coordinate", "mask", "block"])
def test_indexing_methods_accept_fields(form):
    a = tessarr.create_array(None, shape=(4,), dtype=SIMPLE, chunks=(4,))
    values = any_records(SIMPLE, (4,))
    a[...] = values
    key = {"mask": np.ones(4, bool), "block": 0, "coordinate": [0, 1, 2, 3]}.get(form, slice(None))
    read = getattr(a, f"get_{form}_selection")
    write = getattr(a, f"set_{form}_selection")
    assert read(key, fields="y").tobytes() == values["y"].tobytes()
    assert read(key, fields=["z", "y"]).dtype.names == ("z", "y")
    out = np.empty(4, "u2")
    assert read(key, fields="y", out=out) is out
    assert out.tobytes() == values["y"].tobytes()
    write(key, [1, 2, 3, 4], fields="y")
    assert a["y"].tolist() == [1, 2, 3, 4]
    assert a["z"].tobytes() == values["z"].tobytes()


def test_subarray_field_reads_as_array():
    a = tessarr.create_array(None, shape=(3,), dtype=RECORD, zarr_format=2)
    a["d"] = [[1, 2], [3, 4], [5, 6]]
    out = np.zeros((3, 2), "u2")
    assert a.get_basic_selection(fields="d", out=out) is out
    assert out.tolist() == [[1, 2], [3, 4], [5, 6]]
    a["d", 1] = 9
    a["d", 2] = [7, 8]
    assert a["d"].tolist() == [[1, 2], [9, 9], [7, 8]]
    assert a["d", 2].tolist() == [7, 8]
    with pytest.raises(ArgumentError):
        a.get_basic_selection(fields="d", out=np.zeros((3, 3), "u2"))
    with pytest.raises(ArgumentError):
        a["d", 0] = [1, 2, 3]


def test_unknown_field_raises():
    a = tessarr.create_array(None, shape=(3,), dtype=SIMPLE)
    with pytest.raises(SelectionError, match="no field 'w': there are 'x', 'y', 'z'"):
        a["w"]
    with pytest.raises(SelectionError, match="no field 'w'"):
        a["w"] = 1
    with pytest.raises(ArgumentError, match="different"):
        a[["x", "x"]]
    with pytest.raises(ArgumentError, match="different"):
        a.get_basic_selection(fields=[])
    with pytest.raises(ArgumentError, match="shape"):
        a["x"] = [1, 2]
    with pytest.raises(SelectionError):
        a["x", 3]
    plain = tessarr.create_array(None, shape=(3,), dtype="i4")
    with pytest.raises(SelectionError):
        plain["x"]
    with pytest.raises(SelectionError, match="it has no fields"):
        plain.get_basic_selection(fields="x")


def test_engine_invalid_field_parts_raise():
    a = tessarr.create_array(None, shape=(3,), dtype=SIMPLE)
    buffer = np.zeros(3, "u2")
    axes, out_axes = ((0, 1, 3),), (0,)
    a._read(axes, out_axes, buffer, [(4, 0, 2)])
    for fields in ([(4, 1, 2)], [(4, 0, 2**63)], [], [(4, 2**64 - 1, 2)]):
        with pytest.raises(TypeError):
            a._read(axes, out_axes, buffer, fields)
    for fields in ([(13, 0, 2)], [(2**64 - 1, 0, 2)], [(0, 0, 2), (1, 0, 1)]):
        with pytest.raises(SelectionError):
            a._read(axes, out_axes, buffer, fields)
    with pytest.raises(TypeError):
        a._read(axes, out_axes, np.array([None] * 3), [(0, 0, 4)])


def _documents_of_fields(count):
    """Return documents with `count` fields: of format 2 flat and nested, and of format 3."""
    flat = [[f"f{i}", "<i4"] for i in range(count)]
    nested = [[f"f{i}", [["a", "<i4"]]] for i in range(count // 2)]
    old = {"zarr_format": 2, "shape": [4], "chunks": [2], "compressor": None, "filters": None}
    old |= {"order": "C", "fill_value": None}
    for dtype in (flat, nested):
        yield ".zarray", {**old, "dtype": dtype}
    fields = [{"name": name, "data_type": "int32"} for name, _ in flat]
    yield (
        "zarr.json",
        {
            "zarr_format": 3,
            "node_type": "array",
            "shape": [4],
            "data_type": {"name": "struct", "configuration": {"fields": fields}},
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
            "chunk_key_encoding": {"name": "default"},
            "fill_value": dict.fromkeys((name for name, _ in flat), 0),
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        },
    )


@pytest.mark.slow
def test_record_with_too_many_fields_raises_on_open():
    """A document of 9 MB with 200,000 fields costs little more than the parsing of its JSON."""
    for key, document in _documents_of_fields(200_000):
        store = tessarr.stores.MemoryStore({key: json.dumps(document).encode()})
        started = time.process_time()
        with pytest.raises(MetadataError, match="more than 65536 fields") as caught:
            tessarr.open_array(store, mode="r")
        assert [problem.kind for problem in caught.value.problems] == ["too_large"]
        assert time.process_time() - started < 3


def test_record_with_many_fields_opens():
    """A table may have thousands of columns."""
    for key, document in _documents_of_fields(3000):
        store = tessarr.stores.MemoryStore({key: json.dumps(document).encode()})
        assert len(tessarr.open_array(store, mode="r").dtype.names) >= 1500


def test_record_with_too_many_fields_raises_on_create():
    """Tessarr does not store an array that it cannot open again."""
    inner = np.dtype([(f"f{i}", "u1") for i in range(300)])
    with pytest.raises(ArgumentError, match="more than 65536 fields"):
        tessarr.zeros(3, dtype=[(f"g{i}", inner) for i in range(300)])
