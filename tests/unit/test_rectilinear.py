"""Arrays whose chunks differ in length: properties, resizing, appending."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr import codecs
from tessarr.errors import ArgumentError, MetadataError
from tessarr.format.chunk_grid import RectilinearGrid

CHUNKS = [[10, 20, 30], 4]


def created(**settings: Any) -> tessarr.Array:
    return tessarr.create_array(
        None, **{"shape": (60, 10), "dtype": "i4", "chunks": CHUNKS, "fill_value": -1, **settings}
    )


def numbers(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(np.prod(shape), dtype="i4").reshape(shape)


def document(array: tessarr.Array) -> Any:
    return json.loads(array.store.get("zarr.json") or b"")


def test_rectilinear_array_properties() -> None:
    a = created()
    assert a.chunks == ((10, 20, 30), 4)
    assert a.shards is None
    assert a.read_chunk_sizes == a.write_chunk_sizes == ((10, 20, 30), (4, 4, 2))
    assert (a.cdata_shape, a.nchunks) == ((3, 3), 9)
    assert repr(a) == "Array((60, 10), int32, chunks=((10, 20, 30), 4), order=C)"
    assert a.info.asdict()["chunks"] == [[10, 20, 30], 4]
    assert document(a)["chunk_grid"] == {
        "name": "rectilinear",
        "configuration": {"kind": "inline", "chunk_shapes": [[10, 20, 30], 4]},
    }
    assert created(chunks=a.chunks).metadata.chunk_grid == a.metadata.chunk_grid
    assert created(chunks=a.metadata.chunk_grid).chunks == a.chunks
    assert created(chunks=document(a)["chunk_grid"]).chunks == a.chunks


def test_shards_of_several_lengths() -> None:
    a = created(chunks=(5, 2), shards=CHUNKS)
    assert a.chunks == (5, 2)
    assert a.shards == ((10, 20, 30), 4)
    assert a.read_chunk_sizes == ((5,) * 12, (2,) * 5)
    assert a.write_chunk_sizes == ((10, 20, 30), (4, 4, 2))
    assert a.cdata_shape == (12, 5)
    a[:] = numbers(a.shape)
    assert a.nchunks_initialized == a.nchunks == 60
    np.testing.assert_array_equal(a[7:41:3, ::-1], numbers(a.shape)[7:41:3, ::-1])
    assert created(chunks=None, shards=CHUNKS).shards == a.shards  # subchunks guessed


def test_rectilinear_invalid_chunks_raise() -> None:
    with pytest.raises(ArgumentError, match="do not cover 61"):
        created(shape=(61, 10))
    with pytest.raises(ArgumentError, match="do not divide shards"):
        created(chunks=(4, 4), shards=CHUNKS)
    with pytest.raises(ArgumentError, match="one length along each axis"):
        created(chunks=CHUNKS, shards=(60, 12))
    with pytest.raises(ArgumentError, match="format 2 has chunks of one shape"):
        created(zarr_format=2)
    with pytest.raises(ArgumentError, match="less than 1"):
        created(chunks=[[60, 0], 4])
    assert created(chunks=[[20, 20, 20], [5, 5]], zarr_format=2).chunks == (20, 5)


def test_open_checks_every_shard_shape() -> None:
    """Subchunks must divide each length in the grid, and not only the longest."""
    document_value = document(created(chunks=(5, 2), shards=CHUNKS))
    document_value["chunk_grid"]["configuration"]["chunk_shapes"] = [[10, 18, 32], 4]
    with pytest.raises(MetadataError, match="5 does not divide 32"):
        tessarr.open_array({"zarr.json": json.dumps(document_value).encode()})


def test_blocks_and_iteration() -> None:
    a = created()
    a[:] = numbers(a.shape)
    np.testing.assert_array_equal(a.blocks[1, 2], numbers(a.shape)[10:30, 8:10])
    np.testing.assert_array_equal(a.blocks[-1], numbers(a.shape)[30:])
    a.blocks[0, 1:] = 7
    assert (a[:10, 4:] == 7).all()
    np.testing.assert_array_equal(np.stack(list(a)), a[:])


def test_only_touched_chunks_are_stored() -> None:
    a = created(dimension_separator=".")
    a[29:31, 3:5] = 5
    assert a.store.list("") == ["c.1.0", "c.1.1", "c.2.0", "c.2.1", "zarr.json"]
    assert a.nchunks_initialized == 4
    a[29, 3] = 9
    assert (a[29, 3], a[29, 4], a[28, 3]) == (9, 5, -1)


def test_chunks_past_edge_are_stored_whole() -> None:
    """A chunk across the edge has its full length; a chunk beyond the edge has no key."""
    a = created(shape=(25, 10), compressors=None, serializer="bytes")
    assert a.chunks == ((10, 15), 4)
    a[:] = numbers(a.shape)
    assert a.store.size("c/1/0") == 20 * 4 * 4
    assert a.store.list("c/2/") == []
    np.testing.assert_array_equal(a[:], numbers(a.shape))


@pytest.mark.parametrize("sharded", [False, True])
def test_growing_adds_one_chunk(sharded: bool) -> None:
    a = created(chunks=(5, 2), shards=CHUNKS) if sharded else created()
    a[:] = numbers(a.shape)
    a.resize(67, 12)
    more = 10 if sharded else 7
    lengths = [10, 20, 30, more]
    assert document(a)["chunk_grid"]["configuration"]["chunk_shapes"] == [lengths, 4]
    again = tessarr.open_array(a.store)
    for array in (a, again):
        np.testing.assert_array_equal(array[:60, :10], numbers((60, 10)))
        assert (array[60:] == -1).all()
    again[60:] = 3
    assert (a[60:] == 3).all()


@pytest.mark.parametrize("shape", [(60, 9), (45, 10), (30, 10), (29, 3), (1, 1), (0, 10), (0, 0)])
@pytest.mark.parametrize("sharded", [False, True])
def test_shrunk_and_regrown_array_reads_fill(shape: tuple[int, int], sharded: bool) -> None:
    a = created(chunks=(5, 2), shards=CHUNKS) if sharded else created()
    expected = np.full((70, 14), -1, "i4")
    expected[:60, :10] = numbers((60, 10))
    a[:] = expected[:60, :10]
    before = a.metadata.chunk_grid
    a.resize(shape)
    assert a.metadata.chunk_grid == before
    assert a.nchunks_initialized <= a.nchunks
    np.testing.assert_array_equal(a[:], expected[: shape[0], : shape[1]])
    expected[shape[0] :] = -1
    expected[:, shape[1] :] = -1
    a.resize(70, 14)
    np.testing.assert_array_equal(a[:], expected)
    np.testing.assert_array_equal(tessarr.open_array(a.store)[:], expected)


def test_append_adds_one_chunk() -> None:
    a = created()
    a[:] = 0
    other = tessarr.open_array(a.store)
    assert a.append(np.ones((3, 10))) == (63, 10)
    assert a.append(np.full((2, 10), 2)) == (65, 10)
    assert other.append(np.full((1, 10), 3)) == (66, 10)
    assert a.store.list("c/3/") == ["c/3/0", "c/3/1", "c/3/2"]
    assert other.chunks == ((10, 20, 30, 3, 2, 1), 4)
    np.testing.assert_array_equal(other[60:, 0], [1, 1, 1, 2, 2, 3])
    a.resize(64, 10)  # also has the other writer's chunk
    assert a.metadata.chunk_grid == other.metadata.chunk_grid
    assert a.append(np.full((2, 10), 8)) == (66, 10)
    np.testing.assert_array_equal(a[60:, 0], [1, 1, 1, 2, 8, 8])


def test_failed_append_keeps_grid() -> None:
    class Failing(dict[str, bytes]):
        full = False

        def __setitem__(self, key: str, value: bytes) -> None:
            if self.full and key.startswith("c/3"):
                raise OSError("full")
            super().__setitem__(key, value)

    items = Failing()
    a = tessarr.create_array(items, shape=(60, 10), chunks=CHUNKS, dtype="i4")
    before = dict(items)
    items.full = True
    with pytest.raises(OSError, match="full"):
        a.append(np.ones((3, 10)))
    assert items == before
    assert a.shape == (60, 10)
    assert a.chunks == ((10, 20, 30), 4)


def test_pickle_and_attributes_keep_grid() -> None:
    a = created()
    a[:] = numbers(a.shape)
    a.attrs["x"] = 1
    assert document(a)["chunk_grid"]["configuration"]["chunk_shapes"] == [[10, 20, 30], 4]
    again = pickle.loads(pickle.dumps(a))
    assert again.chunks == a.chunks
    np.testing.assert_array_equal(again[:], a[:])


class Shapes(codecs.ArrayArrayCodec):
    """A codec that reverses the first axis, and records the shapes of its input."""

    name = "tests.shapes"

    def __init__(self) -> None:
        self._seen: set[tuple[int, ...]] = set()

    def encode(self, array: np.ndarray) -> np.ndarray:
        self._seen.add(array.shape)
        return array[::-1]

    def decode(self, array: np.ndarray, spec: Any) -> np.ndarray:
        assert array.shape == spec.shape
        return array[::-1]


def test_rectilinear_python_codec_receives_chunk_shape() -> None:
    codec = Shapes()
    a = created(filters=[codec])
    a[:] = numbers(a.shape)
    np.testing.assert_array_equal(a[:], numbers(a.shape))
    assert codec._seen == {(10, 4), (20, 4), (30, 4)}


def test_chunk_shapes_beyond_cache_are_read() -> None:
    """The number of shapes exceeds the cache."""
    lengths = list(range(1, 41))
    a = tessarr.create_array(
        None, shape=(820, 820), dtype="u1", chunks=[lengths, lengths], compressors=None
    )
    values = np.random.default_rng(0).integers(1, 255, a.shape, "u1")
    a[:] = values
    np.testing.assert_array_equal(a[:], values)
    np.testing.assert_array_equal(
        a.vindex[[5, 800, 3], [7, 9, 700]], values[[5, 800, 3], [7, 9, 700]]
    )
    assert a.nchunks_initialized == 1600


def test_run_memory_does_not_depend_on_chunk_count() -> None:
    """One run has 2**40 chunks: neither opening nor reading lists them."""
    document_value = document(created(shape=(60,), chunks=[[10, 20, 30]]))
    document_value["shape"] = [2**40]
    document_value["chunk_grid"]["configuration"]["chunk_shapes"] = [[[1, 2**40]]]
    a = tessarr.open_array({"zarr.json": json.dumps(document_value).encode()})
    assert a.nchunks == 2**40
    a[2**39] = 3
    assert a[2**39 - 1 : 2**39 + 2].tolist() == [-1, 3, -1]


def test_empty_axis_grows_into_listed_chunks() -> None:
    a = tessarr.create_array(None, shape=(0, 3), dtype="i4", chunks=[[2, 5], [3]])
    assert a.chunks == ((), 3)
    assert a.append(numbers((4, 3))) == (4, 3)
    assert a.chunks == ((2, 2), 3)
    assert a.metadata.chunk_grid == RectilinearGrid.of([[2, 5], [3]])


def test_shards_in_shards_grow_by_whole_subchunks() -> None:
    """The subchunks of a shard divide it, not those of a subchunk; axes may be swapped."""
    inner = codecs.ShardingIndexed((2, 1), ["bytes"])
    chain = [codecs.Transpose("F"), codecs.ShardingIndexed((2, 4), [inner])]
    a = tessarr.create_array(None, shape=(12, 2), dtype="i4", chunks=[[4, 8], 2], codecs=chain)
    a[:] = numbers(a.shape)
    assert a.append(numbers((1, 2))) == (13, 2)
    assert a.shards == ((4, 8, 1), 2)
    assert a.metadata.chunk_grid == RectilinearGrid.of([[4, 8, 4], 2])
    np.testing.assert_array_equal(tessarr.open_array(a.store)[11:], [[22, 23], [0, 1]])
