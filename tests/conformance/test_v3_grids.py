"""Format 3: the grid of chunks, and their keys."""

from __future__ import annotations

import numpy as np
import pytest

import tessarr
from conformance.sample_stores import (
    LITTLE,
    chunk_keys,
    expect_defect,
    expect_read_error,
    gzip,
    has_same_bits,
    open_v3,
    problems_v3,
    regular,
    rewrite_document,
    sharding,
)
from tessarr import stores
from tessarr.errors import ArgumentError

# Grid


@pytest.mark.covers("V3-GRID-01")
@pytest.mark.parametrize(
    ("value", "loc", "kind"),
    [
        (regular(3), "/chunk_grid/configuration/chunk_shape", "mismatch"),
        (regular(3, 2, 1), "/chunk_grid/configuration/chunk_shape", "mismatch"),
        (regular(3, -2), "/chunk_grid/configuration/chunk_shape/1", "invalid_value"),
        (regular(3.5, 2), "/chunk_grid/configuration/chunk_shape/0", "wrong_type"),
        (regular("3", 2), "/chunk_grid/configuration/chunk_shape/0", "wrong_type"),
        ({"name": "regular"}, "/chunk_grid/configuration", "missing_member"),
        ("regular", "/chunk_grid", "missing_member"),
        (
            {"name": "regular", "configuration": {"chunk_shape": 3}},
            "/chunk_grid/configuration/chunk_shape",
            "wrong_type",
        ),
    ],
)
def test_regular_grid_has_length_per_axis(value, loc, kind):
    assert problems_v3(chunk_grid=value) == {loc: kind}


@pytest.mark.covers("V3-GRID-02")
def test_chunk_length_0_along_nonempty_axis_is_refused():
    problems = problems_v3(chunk_grid=regular(0, 2))
    assert problems == {"/chunk_grid/configuration/chunk_shape/0": "invalid_value"}


@pytest.mark.covers("V3-GRID-02")
def test_chunk_length_of_0_passes_along_empty_axis():
    with expect_defect("chunk length of 0"):
        array = open_v3(shape=[0, 4], chunk_grid=regular(0, 2))
    assert array[...].shape == (0, 4)


@pytest.mark.covers("V3-GRID-03")
def test_chunks_are_stored_whole_and_may_be_larger_than_array():
    array = open_v3(shape=[2, 3], chunk_grid=regular(10, 2))
    array[...] = [[1, 2, 3], [4, 5, 6]]
    assert array.cdata_shape == (1, 2)
    assert {key: len(array.store.get(key)) for key in chunk_keys(array)} == {
        "c/0/0": 80,
        "c/0/1": 80,
    }
    stored = np.frombuffer(array.store.get("c/0/1"), "<i4").reshape(10, 2)
    assert stored[:2, 0].tolist() == [3, 6]


@pytest.mark.covers("V3-GRID-04")
def test_empty_axis_has_no_chunks():
    array = open_v3(shape=[0, 4])
    assert (array.nchunks, array[...].shape) == (0, (0, 4))
    array[...] = 1
    assert chunk_keys(array) == set()
    assert array.append(np.ones((2, 4), "i4")) == (2, 4)
    assert chunk_keys(array) == {"c/0/0", "c/0/1"}


# Keys


@pytest.mark.covers("V3-KEY-01", "V3-KEY-02", "V3-KEY-03", "V3-KEY-04")
@pytest.mark.parametrize(
    ("encoding", "key", "scalar"),
    [
        ("default", "c/1/10", "c"),
        ({"name": "default"}, "c/1/10", "c"),
        ({"name": "default", "configuration": {"separator": "/"}}, "c/1/10", "c"),
        ({"name": "default", "configuration": {"separator": "."}}, "c.1.10", "c"),
        ("v2", "1.10", "0"),
        ({"name": "v2", "configuration": {"separator": "."}}, "1.10", "0"),
        ({"name": "v2", "configuration": {"separator": "/"}}, "1/10", "0"),
    ],
)
def test_keys_of_chunks(encoding, key, scalar):
    array = open_v3(shape=[6, 40], chunk_key_encoding=encoding)
    array.store.put(key, np.arange(6, dtype="<i4").tobytes())
    assert array[3:, 20:22].tolist() == [[0, 1], [2, 3], [4, 5]]
    array.store.delete(key)
    array[3, 20] = 5
    assert chunk_keys(array) == {key}
    single = open_v3(shape=[], chunk_grid=regular(), chunk_key_encoding=encoding)
    single[()] = 5
    assert chunk_keys(single) == {scalar}


@pytest.mark.covers("V3-KEY-03")
@pytest.mark.parametrize("separator", ["-", "//", "", None, 1, "c"])
@pytest.mark.parametrize("name", ["default", "v2"])
def test_other_separators_are_refused(name, separator):
    encoding = {"name": name, "configuration": {"separator": separator}}
    loc = "/chunk_key_encoding/configuration/separator"
    assert list(problems_v3(chunk_key_encoding=encoding)) == [loc]


@pytest.mark.covers("V3-KEY-04")
def test_keys_are_below_array():
    group = tessarr.create_group(None)
    array = group.create_array("a/b", shape=(200,), chunks=(1,), dtype="u1")
    array[0] = array[100] = 1
    assert chunk_keys(array) == {"a/b/c/0", "a/b/c/100"}


@pytest.mark.covers("V3-PIPE-09")
@pytest.mark.parametrize("size", [0, 23, 25])
def test_chunk_of_wrong_decoded_size_raises(size):
    import gzip as gz

    array = open_v3({"c/0/0": bytes(size)})
    with expect_read_error("wrong_size", "c/0/0"):
        array[0]
    array = open_v3({"c/1/1": gz.compress(bytes(size))}, codecs=[LITTLE, gzip()])
    with expect_read_error(key="c/1/1"):
        array[...]


@pytest.mark.covers("ALL-12")
@pytest.mark.parametrize(
    "settings",
    [
        {"shape": (-1,)},
        {"dtype": "i1", "fill_value": 300},
        {"dtype": "bool", "fill_value": 2},
        {"dtype": "f4", "fill_value": 1e40},
        {"chunks": (0,)},
        {"chunks": (3,), "shards": (4,)},
        {"filters": [{"name": "transpose", "configuration": {"order": [1, 0]}}]},
        {"dimension_names": ["a", "b"]},
        {"compressors": [{"name": "gzip", "configuration": {"level": 10}}]},
        {"codecs": ["bytes", "bytes"]},
        {"codecs": ["crc32c", "bytes"]},
        {"attributes": {"complex": 1j}},
        {"path": "a/../b"},
        {"path": "..."},
        {"path": "zarr.json"},
    ],
)
def test_written_grids_are_valid(settings):
    store = stores.MemoryStore()
    with pytest.raises(ArgumentError):
        tessarr.create_array(store, **{"shape": (8,), "dtype": "i4", **settings})
    assert store.list("") == []


# Rectilinear grids


def rectilinear(*chunk_shapes, **more):
    configuration = {"kind": "inline", "chunk_shapes": list(chunk_shapes), **more}
    return {"name": "rectilinear", "configuration": configuration}


@pytest.mark.covers("X-RECT-01")
@pytest.mark.parametrize(
    ("lengths", "edges"),
    [([2, 3, 1], [2, 3, 1]), ([[2, 3]], [2, 2, 2]), ([4, [1, 2]], [4, 1, 1]), (4, [4, 4])],
)
def test_edges_of_rectilinear_grid(lengths, edges):
    """Lengths are single numbers, runs, or one number for all; stored chunks are whole."""
    values = np.arange(24, dtype="<i4").reshape(6, 4)
    array = open_v3(chunk_grid=rectilinear(lengths, [1, 3]))
    array[...] = values
    padded = np.zeros((sum(edges), 4), "<i4")
    padded[:6] = values
    start = 0
    for cell, edge in enumerate(edges):
        rows = padded[start : start + edge]
        assert array.store.get(f"c/{cell}/0") == rows[:, :1].tobytes()
        assert array.store.get(f"c/{cell}/1") == rows[:, 1:].tobytes()
        start += edge
    assert len(chunk_keys(array)) == 2 * len(edges)
    has_same_bits(tessarr.open_array(array.store, mode="r")[1:, ::-2], values[1:, ::-2])
    assert rewrite_document(array)["chunk_grid"]["configuration"]["chunk_shapes"] == [
        lengths,
        [1, 3],
    ]


@pytest.mark.covers("X-RECT-01")
@pytest.mark.parametrize(
    ("grid", "loc"),
    [
        (rectilinear([6]), "/chunk_shapes"),
        (rectilinear([6], [4], [1]), "/chunk_shapes"),
        (rectilinear([2, 3], [4]), "/chunk_shapes/0"),
        (rectilinear([6], []), "/chunk_shapes/1"),
        (rectilinear([6, 0], [4]), "/chunk_shapes/0/1"),
        (rectilinear([6, -1], [4]), "/chunk_shapes/0/1"),
        (rectilinear([6.5], [4]), "/chunk_shapes/0/0"),
        (rectilinear(["6"], [4]), "/chunk_shapes/0/0"),
        (rectilinear([[2, 0]], [4]), "/chunk_shapes/0/0"),
        (rectilinear([[2]], [4]), "/chunk_shapes/0/0"),
        (rectilinear([[2, 3, 1]], [4]), "/chunk_shapes/0/0"),
        (rectilinear(0, [4]), "/chunk_shapes/0"),
        (rectilinear(None, [4]), "/chunk_shapes/0"),
        (rectilinear([6], [4], kind="file"), "/kind"),
        (rectilinear([6], [4], x=1), "/x"),
        ({"name": "rectilinear"}, ""),
        ({"name": "rectilinear", "configuration": {"kind": "inline"}}, ""),
    ],
)
def test_malformed_rectilinear_grid_problems_have_json_path(grid, loc):
    problems = problems_v3(chunk_grid=grid)
    assert any(problem.startswith("/chunk_grid/configuration" + loc) for problem in problems), (
        problems
    )


@pytest.mark.covers("X-RECT-01")
def test_shards_of_rectilinear_grid():
    values = np.arange(24, dtype="<i4").reshape(6, 4)
    array = open_v3(chunk_grid=rectilinear([4, 2], [4]), codecs=[sharding(2, 2)])
    array[...] = values
    array[3:5, 1:3] = -values[3:5, 1:3]
    values[3:5, 1:3] *= -1
    has_same_bits(tessarr.open_array(array.store, mode="r")[...], values)
    assert chunk_keys(array) == {"c/0/0", "c/1/0"}
    problems = problems_v3(chunk_grid=rectilinear([3, 3], [4]), codecs=[sharding(2, 2)])
    assert "mismatch" in problems.values()
