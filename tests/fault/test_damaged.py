"""Damaged, truncated and oversized objects: one clear error, never a crash."""

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

# These detect every change of a bit; the others may decode to other values.
CHECKED = {"zstd", "gzip", "crc32c"}


def written(path: Path, chain: str) -> tuple[tessarr.Array, Path]:
    array = tessarr.create_array(
        path, shape=(16, 16), dtype="uint16", chunks=(8, 8), **CHAINS[chain]
    )
    array[:] = np.arange(256, dtype="uint16").reshape(16, 16) // 3
    key = "c/0/0"
    return array, path / key


@pytest.mark.parametrize("chain", CHAINS)
def test_every_truncation_is_a_data_error(tmp_path: Path, chain: str) -> None:
    """A chunk cut anywhere is refused with its key and grid position."""
    array, file = written(tmp_path / "a.zarr", chain)
    whole = file.read_bytes()
    for size in range(len(whole)):
        file.write_bytes(whole[:size])
        with pytest.raises(tessarr.errors.DataError) as caught:
            array[:]
        assert caught.value.key == "c/0/0"
        assert caught.value.chunk == (0, 0)


@pytest.mark.parametrize("chain", CHAINS)
def test_every_extension_is_a_data_error(tmp_path: Path, chain: str) -> None:
    """Bytes after the end of a chunk are refused (in a shard they are a gap, or move the index)."""
    array, file = written(tmp_path / "a.zarr", chain)
    whole = file.read_bytes()
    for tail in (b"\0", b"garbage" * 100):
        file.write_bytes(whole + tail)
        with pytest.raises(tessarr.errors.DataError):
            array[:]


@pytest.mark.parametrize("chain", CHAINS)
def test_bit_flips_never_crash(tmp_path: Path, chain: str) -> None:
    """Every single-bit flip gives a DataError, or values where nothing checks them."""
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
def test_a_damaged_chunk_is_not_half_overwritten(tmp_path: Path, chain: str) -> None:
    """A partial write into a chunk that cannot be decoded fails and leaves it as it is."""
    array, file = written(tmp_path / "a.zarr", chain)
    damaged = file.read_bytes()[:5]
    file.write_bytes(damaged)
    with pytest.raises(tessarr.errors.DataError):
        array[0, 0] = 1
    assert file.read_bytes() == damaged
    assert sorted(entry.name for entry in file.parent.iterdir()) in (["0"], ["0", "1"])


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """A sparse file of 1 TiB in place of a chunk takes no memory and no time."""
    array, file = written(tmp_path / "a.zarr", "zstd")
    with file.open("r+b") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(tessarr.errors.DataError, match="at most"):
        array[:]
