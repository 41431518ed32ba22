"""The chunk cache: what it holds, how much, and how to disable it."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import tessarr
from tessarr import _engine
from tessarr.codecs import Blosc
from tessarr.errors import ArgumentError, DataError
from tessarr.extensions import BytesBytesCodec, deliver, register_codec
from tessarr.stores import MemoryStore

MB = 1 << 20
VALUES = np.arange(48 * 20, dtype="i4").reshape(48, 20)


@register_codec
@dataclass(frozen=True)
class Counting(BytesBytesCodec):
    """Codec that counts the decoded chunks."""

    name = "test.counting"
    decoded: ClassVar[int] = 0

    def encode(self, data: Any) -> Any:
        return np.frombuffer(data, "u1") ^ np.uint8(1)

    def decode(self, data: Any, out: Any = None) -> Any:
        Counting.decoded += 1
        return deliver(self.encode(data), out)


LAYOUTS: dict[str, dict[str, Any]] = {
    "chunks": {"chunks": (12, 20)},
    "several chunks": {"chunks": (12, 7)},
    "edges": {"chunks": (11, 9)},
    "shards": {"chunks": (4, 5), "shards": (16, 20)},
    "F": {"chunks": (12, 20), "zarr_format": 2, "order": "F"},
    "big-endian": {"chunks": (12, 20), "dtype": ">i4"},
}


@pytest.fixture(autouse=True)
def _defaults() -> Iterator[None]:
    """Use an empty cache of the default size."""
    with tessarr.options(chunk_cache_bytes=0):
        pass
    with tessarr.options(chunk_cache_bytes=None):
        yield


def create(store: Any, **settings: Any) -> tessarr.Array:
    """Return an array with `VALUES`, whose files are old enough to have a version."""
    settings = {"dtype": "i4", "compressors": Counting(), **settings}
    array = tessarr.create_array(store, shape=VALUES.shape, **settings)
    array[:] = VALUES
    time.sleep(0.03)
    Counting.decoded = 0
    return array


def cached_bytes() -> int:
    return _engine.count_chunk_cache()["bytes"]


def read_rows(array: tessarr.Array) -> None:
    for row in range(len(VALUES)):
        assert np.array_equal(array[row], VALUES[row])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_loop_over_rows_decodes_each_chunk_once(kind: str, layout: str, tmp_path: Path) -> None:
    array = create(tmp_path if kind == "folder" else MemoryStore(), **LAYOUTS[layout])
    cells = -(-np.array(array.shape) // array.chunks)
    read_rows(array)
    assert Counting.decoded == np.prod(cells)
    read_rows(array)
    assert Counting.decoded == np.prod(cells)


def test_every_kind_of_partial_read_uses_the_cache(tmp_path: Path) -> None:
    array = create(tmp_path, chunks=(12, 20))
    out = np.empty(20, "i4")
    for row in range(12):
        assert array[row, 3] == VALUES[row, 3]
        assert array.oindex[[row], [0, 5]].tolist() == VALUES[[row], [[0, 5]]].tolist()
        assert array.vindex[[row, 1], [2, 3]].tolist() == [VALUES[row, 2], VALUES[1, 3]]
        assert array.read(row).result().tolist() == VALUES[row].tolist()
        assert array.get_basic_selection(row, out=out).tolist() == VALUES[row].tolist()
        assert array.blocks[0][row].tolist() == VALUES[row].tolist()
    whole = 12  # `blocks` reads the chunk
    assert Counting.decoded == 1 + whole


def test_arrays_of_one_folder_share_the_cache(tmp_path: Path) -> None:
    create(tmp_path / "a", chunks=(12, 20))
    for _ in range(3):
        read_rows(tessarr.open_array(tmp_path / "a", mode="r"))
        group = tessarr.open_group(tmp_path, mode="a")
        read_rows(group["a"])  # type: ignore[arg-type]
    assert Counting.decoded == 4


@pytest.mark.parametrize("layout", ["chunks", "shards"])
def test_whole_reads_fill_nothing(layout: str, tmp_path: Path) -> None:
    array = create(tmp_path, **LAYOUTS[layout])
    first = slice(0, 48 if layout == "shards" else 12)
    for _ in range(2):
        assert np.array_equal(array[:], VALUES)
        assert np.array_equal(array[first], VALUES[first])
    assert cached_bytes() == 0


def test_strided_reads_of_whole_subchunks_fill_nothing(tmp_path: Path) -> None:
    array = create(tmp_path, chunks=(1, 20), shards=(16, 20))
    assert np.array_equal(array[::2], VALUES[::2])
    assert np.array_equal(array.oindex[[3, 7, 40]], VALUES[[3, 7, 40]])
    assert cached_bytes() == 0


def test_uncompressed_chunks_are_not_cached(tmp_path: Path) -> None:
    before = _engine.count_chunk_cache()
    for shards in (None, (24, 20)):
        array = create(tmp_path / f"{shards}", chunks=(12, 20), shards=shards, compressors=None)
        read_rows(array)
    assert _engine.count_chunk_cache() == before


def test_size_0_disables_the_cache(tmp_path: Path) -> None:
    array = create(tmp_path, chunks=(12, 20))
    with tessarr.options(chunk_cache_bytes=0):
        read_rows(array)
    assert Counting.decoded == 48
    read_rows(array.with_config({"chunk_cache_bytes": 0}))
    assert Counting.decoded == 96
    assert cached_bytes() == 0


def test_configure_changes_the_cache_of_the_process(tmp_path: Path) -> None:
    array = create(tmp_path, chunks=(12, 20))
    read_rows(array)
    assert cached_bytes() >= VALUES.nbytes
    tessarr.configure(chunk_cache_bytes=0)
    assert cached_bytes() == 0
    tessarr.configure(chunk_cache_bytes=None)
    assert 0 < _engine.chunk_cache_bytes() <= 64 * MB
    read_rows(array)
    assert cached_bytes() >= VALUES.nbytes


def test_array_with_its_own_cache(tmp_path: Path) -> None:
    array = create(tmp_path, chunks=(12, 20)).with_config({"chunk_cache_bytes": MB})
    assert array.config.chunk_cache_bytes == MB
    with tessarr.options(chunk_cache_bytes=0):
        read_rows(array)
        read_rows(array)
    assert Counting.decoded == 4
    for other in (
        pickle.loads(pickle.dumps(array)),
        tessarr.open_array(tmp_path, config={"chunk_cache_bytes": MB}),
        tessarr.Array(tmp_path, config=array.config),
    ):
        assert other.config.chunk_cache_bytes == MB
    assert tessarr.open_array(tmp_path).config.chunk_cache_bytes is None


@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_views_of_an_array_share_its_own_cache(kind: str, tmp_path: Path) -> None:
    config = {"chunk_cache_bytes": MB}
    store = tmp_path if kind == "folder" else MemoryStore()
    create(store, path="a", chunks=(12, 20))
    array = tessarr.open_array(store, path="a", config=config)
    group = tessarr.open_group(store)
    read_rows(array)
    for other in (
        array.with_config(config),
        group["a"].with_config(config),  # type: ignore[union-attr]
        tessarr.open_array(store, path="a", config=config),
    ):
        read_rows(other)
    assert Counting.decoded == 4
    read_rows(array.with_config({"chunk_cache_bytes": 2 * MB}))
    assert Counting.decoded == 8


@pytest.mark.parametrize("size", [-1, 1.5, True, "1", 2**64])
def test_wrong_size_raises_error(size: Any, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="chunk_cache_bytes must be a number of bytes or None"):
        tessarr.configure(chunk_cache_bytes=size)
    array = create(tmp_path, chunks=(12, 20))
    with pytest.raises(ArgumentError, match="chunk_cache_bytes of config must be a number"):
        array.with_config({"chunk_cache_bytes": size})


def test_cache_holds_at_most_its_size(tmp_path: Path) -> None:
    array = create(tmp_path, chunks=(12, 20))  # chunks of 960 bytes
    with tessarr.options(chunk_cache_bytes=3000):
        for _ in range(2):
            for row in (0, 12, 24, 36):
                assert np.array_equal(array[row], VALUES[row])
                assert 960 <= cached_bytes() <= 3000
    assert cached_bytes() <= 3000


def test_chunks_that_do_not_fit_are_not_cached(tmp_path: Path) -> None:
    array = create(tmp_path, chunks=(12, 20))
    with tessarr.options(chunk_cache_bytes=950):
        assert np.array_equal(array[0], VALUES[0])
        assert cached_bytes() == 0
    with tessarr.options(chunk_cache_bytes=4200):
        assert np.array_equal(array[:, 0], VALUES[:, 0])  # 4 chunks need more than half of it
        assert cached_bytes() == 0
        assert np.array_equal(array[:24, 0], VALUES[:24, 0])
        assert cached_bytes() >= 2 * 960


def test_subchunks_that_do_not_fit_are_not_cached(tmp_path: Path) -> None:
    array = create(tmp_path, chunks=(4, 5), shards=(48, 20))  # subchunks of 80 bytes
    with tessarr.options(chunk_cache_bytes=2000):
        assert np.array_equal(array[:, 0], VALUES[:, 0])  # 12 subchunks
        assert 0 < cached_bytes() <= 2000
    with tessarr.options(chunk_cache_bytes=0):
        pass
    with tessarr.options(chunk_cache_bytes=1900):
        assert np.array_equal(array[:, 0], VALUES[:, 0])
        assert cached_bytes() == 0


def test_subchunks_of_several_shards_that_do_not_fit_are_not_cached(tmp_path: Path) -> None:
    array = create(tmp_path, **LAYOUTS["shards"])  # 3 shards with 4 subchunks of 80 bytes in a row
    with tessarr.options(chunk_cache_bytes=1900):
        assert np.array_equal(array[::3, 0], VALUES[::3, 0])
        assert cached_bytes() == 0
        assert np.array_equal(array[:32:3, 0], VALUES[:32:3, 0])
        assert cached_bytes() >= 8 * 80


def test_subchunk_that_several_reads_share_is_counted_once(tmp_path: Path) -> None:
    array = create(tmp_path, chunks=(4, 20), shards=(48, 20))  # subchunks of 320 bytes
    with tessarr.options(chunk_cache_bytes=1000):
        values = array.read_many([0, 1, 2])
        assert np.array_equal(values, VALUES[:3])
        assert cached_bytes() >= 320


@pytest.mark.parametrize("layout", ["chunks", "shards"])
def test_writes_drop_the_old_chunk(layout: str, tmp_path: Path) -> None:
    array = create(tmp_path, **LAYOUTS[layout])
    array[0, 0]
    assert cached_bytes() > 0
    array[1, 1] = 7
    assert cached_bytes() == 0
    assert (array[1, 1], array[0, 0]) == (7, 0)


def test_small_part_of_large_chunk_is_decoded_alone_at_first(tmp_path: Path) -> None:
    """A random access must not decode a large chunk that no other read needs."""
    values = np.arange(MB, dtype="i4").reshape(1024, 1024)
    array = tessarr.create_array(tmp_path, data=values, chunks=(512, 1024), compressors=Blosc())
    time.sleep(0.03)
    assert np.array_equal(array[5], values[5])
    assert cached_bytes() == 0
    assert np.array_equal(array[700], values[700])
    assert cached_bytes() == 0
    assert np.array_equal(array[6], values[6])
    assert 2 * MB < cached_bytes() < 3 * MB
    assert np.array_equal(array[:400], values[:400])
    assert np.array_equal(array[600:1000], values[600:1000])  # a large part
    assert cached_bytes() > 4 * MB


def test_invalid_boolean_fails_only_the_reads_that_select_it(tmp_path: Path) -> None:
    values = np.arange(8, dtype="u1").reshape(4, 2)
    stored = tessarr.create_array(tmp_path, data=values, chunks=(4, 2), compressors="zstd")
    document = tmp_path / "zarr.json"
    text = document.read_text().replace('"uint8"', '"bool"')
    document.write_text(text.replace('"fill_value": 0', '"fill_value": false'))
    time.sleep(0.03)
    array = tessarr.open_array(tmp_path)
    assert (stored.dtype, array.dtype) == ("u1", "?")
    for _ in range(3):
        assert array[0].tolist() == [False, True]
        with pytest.raises(DataError, match="a boolean is stored as neither 0 nor 1"):
            array[2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_forked_child_starts_with_an_empty_cache(tmp_path: Path) -> None:
    array = create(tmp_path, chunks=(12, 20))
    own = create(tmp_path / "own", chunks=(12, 20)).with_config({"chunk_cache_bytes": MB})
    read_rows(array)
    read_rows(own)
    child = os.fork()
    if child == 0:
        try:
            Counting.decoded = 0
            empty = cached_bytes() == 0
            read_rows(array)
            read_rows(own)
            os._exit(0 if empty and Counting.decoded == 8 else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert cached_bytes() > 0
    Counting.decoded = 0
    read_rows(array)
    assert Counting.decoded == 0
