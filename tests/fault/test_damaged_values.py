"""Damaged, truncated and oversized values: each raises one clear error and never crashes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr import codecs

CHAINS: dict[str, dict[str, Any]] = {
    "raw": {"compressors": None},
    "blosc": {"compressors": codecs.Blosc(cname="lz4")},
    "blosc zstd bits": {"compressors": codecs.Blosc(cname="zstd", shuffle=2)},
    "zstd": {"compressors": codecs.Zstd(checksum=True)},
    "gzip": {"compressors": codecs.GZip(level=1)},
    "crc32c": {"compressors": codecs.Crc32c()},
    "shards": {"shards": (16, 16), "compressors": codecs.Zstd(checksum=True)},
    "shards raw": {"shards": (16, 16), "compressors": None},
}

# These codecs detect every flipped bit; the others may decode to other values.
CHECKED = {"zstd", "gzip", "crc32c"}


def written(path: Path, chain: str) -> tuple[tessarr.Array, Path]:
    array = tessarr.create_array(
        path, shape=(16, 16), dtype="uint16", chunks=(8, 8), **CHAINS[chain]
    )
    array[:] = np.arange(256, dtype="uint16").reshape(16, 16) // 3
    key = "c/0/0"
    return array, path / key


@pytest.mark.parametrize("chain", CHAINS)
def test_truncated_chunk_raises_data_error(tmp_path: Path, chain: str) -> None:
    """A chunk truncated at any byte raises an error with its key and grid position."""
    array, file = written(tmp_path / "a.zarr", chain)
    whole = file.read_bytes()
    for size in range(len(whole)):
        file.write_bytes(whole[:size])
        with pytest.raises(tessarr.errors.DataError) as caught:
            array[:]
        assert caught.value.key == "c/0/0"
        assert caught.value.chunk == (0, 0)


@pytest.mark.parametrize("chain", CHAINS)
def test_extended_chunk_raises_data_error(tmp_path: Path, chain: str) -> None:
    """Extra bytes after a chunk raise an error; in a shard they are a gap, or move the index."""
    array, file = written(tmp_path / "a.zarr", chain)
    whole = file.read_bytes()
    for tail in (b"\0", b"garbage" * 100):
        file.write_bytes(whole + tail)
        with pytest.raises(tessarr.errors.DataError):
            array[:]


@pytest.mark.parametrize("chain", CHAINS)
def test_bit_flips_never_crash(tmp_path: Path, chain: str) -> None:
    """Each single-bit flip raises a DataError, or changes values if no checksum covers them."""
    array, file = written(tmp_path / "a.zarr", chain)
    whole = bytearray(file.read_bytes())
    dice = random.Random(3)
    flips = range(len(whole) * 8)
    for flip in dice.sample(flips, min(len(flips), 800)):
        damaged = bytearray(whole)
        damaged[flip // 8] ^= 1 << flip % 8
        file.write_bytes(damaged)
        try:
            values = array[:]
        except tessarr.errors.DataError as error:
            assert error.key == "c/0/0"
        else:
            assert values.shape == (16, 16)
            if chain in CHECKED:
                np.testing.assert_array_equal(values.ravel()[:8], np.arange(8) // 3)


@pytest.mark.parametrize("chain", CHAINS)
def test_partial_write_of_damaged_chunk_leaves_it_unchanged(tmp_path: Path, chain: str) -> None:
    """A partial write to a chunk that fails to decode raises an error."""
    array, file = written(tmp_path / "a.zarr", chain)
    damaged = file.read_bytes()[:5]
    file.write_bytes(damaged)
    with pytest.raises(tessarr.errors.DataError):
        array[0, 0] = 1
    assert file.read_bytes() == damaged
    assert sorted(entry.name for entry in file.parent.iterdir()) in (["0"], ["0", "1"])


def test_huge_chunk_file_raises_before_reading(tmp_path: Path) -> None:
    """A sparse file of 1 TiB as a chunk takes no memory and no time."""
    array, file = written(tmp_path / "a.zarr", "zstd")
    with file.open("r+b") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(tessarr.errors.DataError, match="at most"):
        array[:]


HUGE = {
    "zstd": codecs.Zstd(),
    "gzip": codecs.GZip(level=1),
    "lz4": codecs.LZ4(),
    "blosc": codecs.Blosc(cname="zstd"),
    "two codecs": [codecs.Zstd(), codecs.Crc32c()],
}


@pytest.mark.parametrize("chain", HUGE)
@pytest.mark.parametrize("damage", [b"", b"x", b"garbage" * 1000])
def test_impossible_chunk_size_allocates_nothing(chain: str, damage: bytes) -> None:
    """Metadata that claim chunks of 1 TiB, with a few invalid bytes, raise a DataError."""
    n = 1 << (30 if chain == "blosc" else 40)  # a Blosc buffer holds at most 2 GiB
    array = tessarr.create_array(None, shape=2 * n, chunks=n, dtype="u1", compressors=HUGE[chain])
    array.store.put("c/0", damage)
    for key in (5, slice(5, 10), [7]):
        with pytest.raises(tessarr.errors.DataError, match="at least") as caught:
            array[key]
        assert (caught.value.key, caught.value.chunk) == ("c/0", (0,))


@pytest.mark.parametrize("chain", HUGE)
def test_highly_compressed_chunk_reads(chain: str) -> None:
    """A chunk of 96 MB of one value reaches the maximum compression ratio."""
    n = 96 << 20
    array = tessarr.create_array(None, shape=n, chunks=n, dtype="u1", compressors=HUGE[chain])
    array[...] = 7
    assert array.nbytes_stored < n / 200
    assert (array[-1], int(array[::1000].min())) == (7, 7)


def test_read_larger_than_memory_raises_memory_error() -> None:
    """A read beyond the available memory fails as in NumPy; a smaller read succeeds."""
    array = tessarr.create_array(None, shape=1 << 50, chunks=1 << 20, dtype="u1", fill_value=3)
    with pytest.raises(MemoryError):
        array[:]
    assert array[1 << 49] == 3


@pytest.mark.parametrize("name", ["zarr.json", ".zarray", ".zgroup", ".zattrs"])
def test_huge_document_raises_before_reading(tmp_path: Path, name: str) -> None:
    """A sparse file of 1 TiB as a metadata document takes no memory and no time."""
    tessarr.create_group(tmp_path, zarr_format=3 if name == "zarr.json" else 2)
    (tmp_path / ".zgroup").unlink(missing_ok=name == "zarr.json")
    if name == ".zattrs":
        (tmp_path / ".zgroup").write_text('{"zarr_format": 2}')
    with (tmp_path / name).open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(tessarr.errors.MetadataError, match="more than 268435456 bytes") as caught:
        tessarr.open(tmp_path, mode="r")
    assert caught.value.key == name
    assert [problem.kind for problem in caught.value.problems] == ["too_large"]
    tessarr.create_group(tmp_path, overwrite=True)
    assert isinstance(tessarr.open(tmp_path, mode="r"), tessarr.Group)


class Opened:
    """Value with a size that is known before a read."""

    def __init__(self, size: int) -> None:
        self.size = size

    def read(self, offset: int, count: int) -> bytes:
        raise AssertionError(f"{count} bytes at {offset} were asked for")


class Huge:
    """Store in Python that reports sizes."""

    def get(self, key: str) -> bytes:
        raise AssertionError(f"{key} was asked for whole")

    def open_value(self, key: str) -> Opened | None:
        return Opened(1 << 40) if key == "zarr.json" else None

    def list(self, prefix: str) -> list[str]:
        return [key for key in ["zarr.json"] if key.startswith(prefix)]


def test_huge_document_of_python_store_raises_before_reading() -> None:
    """The reader requests only the size of the value from the store."""
    with pytest.raises(tessarr.errors.MetadataError, match="more than"):
        tessarr.open(Huge(), mode="r")  # type: ignore[arg-type]  # it is read-only


def test_metadata_bytes_option_limits_documents() -> None:
    """A document up to the limit is read; a larger one raises an error, also in memory."""
    group = tessarr.create_group(None, attributes={"text": "x" * 1000})
    with tessarr.options(metadata_bytes=100), pytest.raises(tessarr.errors.MetadataError):
        tessarr.open(group.store)
    assert tessarr.open(group.store).attrs["text"] == "x" * 1000
