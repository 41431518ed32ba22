"""Decoded chunks stay in a cache pool, within its limit, while the stored chunks are unchanged."""

from __future__ import annotations

import bz2
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
import tessarr.tensorstore as ts
from tessarr.codec.stdlib import BZ2
from tessarr.store.wrappers.instrumented import CountingStore
from tessarr.stores import LocalStore

BYTES = {"name": "bytes", "configuration": {"endian": "big"}}
BZIP2 = {"name": "numcodecs.bz2", "configuration": {"level": 1}}
VALUES = np.random.default_rng(0).integers(0, 1000, (256, 256), "i4")


class Decodings:
    """A counter of the codec's decodings."""

    count = 0

    def since(self) -> int:
        count, self.count = self.count, 0
        return count


@pytest.fixture
def decodings(monkeypatch: pytest.MonkeyPatch) -> Decodings:
    counted, decode = Decodings(), BZ2.decode_at_most

    def counting(self: BZ2, *arguments: Any) -> bytes:
        counted.count += 1
        return decode(self, *arguments)

    monkeypatch.setattr(BZ2, "decode_at_most", counting)
    return counted


def _metadata(*, sharded: bool) -> dict[str, Any]:
    codecs: list[Any] = [BYTES, BZIP2]
    if sharded:
        inside = {"chunk_shape": [32, 32], "codecs": codecs, "index_codecs": [BYTES]}
        codecs = [{"name": "sharding_indexed", "configuration": inside}]
    grid = {"name": "regular", "configuration": {"chunk_shape": [64, 128]}}
    return {"shape": [256, 256], "data_type": "int32", "chunk_grid": grid, "codecs": codecs}


def _opened(
    folder: Path, limit: int, *, sharded: bool = False, **members: Any
) -> tuple[ts.TensorStore, CountingStore]:
    store = CountingStore(LocalStore(folder))
    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "tessarr", "store": store},
        "metadata": _metadata(sharded=sharded),
        "recheck_cached_data": False,
        **members,
    }
    ts.open(spec, create=True, open=True).result().write(VALUES).result()
    time.sleep(0.03)  # until time stamps show changes of files reliably
    context = ts.Context({"cache_pool": {"total_bytes_limit": limit}})
    return ts.open(spec, context=context).result(), store


@pytest.mark.parametrize("sharded", [False, True])
def test_chunk_is_decoded_once(tmp_path: Path, decodings: Decodings, sharded: bool) -> None:
    array, store = _opened(tmp_path, 10**7, sharded=sharded)
    decodings.since()
    assert np.array_equal(array[:64, :128].read().result(), VALUES[:64, :128])
    assert decodings.since() == (8 if sharded else 1)
    before = store.counts()
    assert np.array_equal(array[3:40, 5:70].read().result(), VALUES[3:40, 5:70])
    assert np.array_equal(array[:64, :128].read(order="F").result(), VALUES[:64, :128])
    points = array.vindex[[0, 63], [127, 1]].read().result()
    assert points.tolist() == VALUES[[0, 63], [127, 1]].tolist()
    with ts.Batch() as batch:
        futures = [array[k : k + 9, :60].read(batch=batch) for k in (0, 5)]
    assert np.array_equal(futures[1].result(), VALUES[5:14, :60])
    assert decodings.since() == 0
    assert store.counts() == before


def test_handles_of_context_share_decoded_chunks(tmp_path: Path, decodings: Decodings) -> None:
    array, _ = _opened(tmp_path, 10**7)
    array.read().result()
    decodings.since()
    other = ts.open(array.spec(retain_context=True)).result()
    assert np.array_equal(other.read().result(), VALUES)
    assert decodings.since() == 0


@pytest.mark.parametrize("sharded", [False, True])
def test_written_chunk_is_decoded_again(tmp_path: Path, sharded: bool) -> None:
    """The writer may be this handle, another handle of the context, or another process."""
    array, _ = _opened(tmp_path, 10**7, sharded=sharded, recheck_cached_data=True)
    array.read().result()
    array[3, 5] = -1
    assert array[3, 5].read().result() == -1
    ts.open(array.spec(retain_context=True)).result()[3, 6] = -2
    assert array[3, 4:8].read().result().tolist() == [VALUES[3, 4], -1, -2, VALUES[3, 7]]
    tessarr.open_array(str(tmp_path))[3, 4] = -3
    assert array[3, 4:8].read().result().tolist() == [-3, -1, -2, VALUES[3, 7]]
    array.kvstore.delete_range(ts.KvStore.KeyRange("c/0/0", "c/0/1")).result()
    assert not array[:64, :128].read().result().any()
    assert np.array_equal(array[64:].read().result(), VALUES[64:])


def test_limit_counts_decoded_bytes(tmp_path: Path, decodings: Decodings) -> None:
    """The pool has room for three of eight chunks of 32 kB, and not for their encoded values."""
    array, store = _opened(tmp_path, 3 * 34_000)
    decodings.since()
    for _ in range(2):
        for row in range(0, 192, 64):
            array[row, 0].read().result()
    assert decodings.since() == 3
    opens = store.counts()["opens"]
    array[192, 0].read().result()
    array[0, 0].read().result()  # is the least recently used
    assert decodings.since() == 2
    assert store.counts()["opens"] == opens + 2
    array[192, 0].read().result()
    assert decodings.since() == 0
    small, _ = _opened(tmp_path, 10_000)  # no chunk has room
    for _ in range(2):
        small[0, 0].read().result()
    assert decodings.since() == 2


def test_damaged_chunks_are_not_cached(tmp_path: Path) -> None:
    """Each read reports the damage, and reads a repaired chunk."""
    array, _ = _opened(tmp_path, 10**7, recheck_cached_data=True)
    whole = (tmp_path / "c/0/0").read_bytes()
    (tmp_path / "c/0/0").write_bytes(bz2.compress(b"short"))
    for _ in range(2):
        with pytest.raises(ValueError, match="c/0/0"):
            array[0, 0].read().result()
    (tmp_path / "c/0/0").write_bytes(whole)
    assert array[0, 0].read().result() == VALUES[0, 0]


def test_arrays_with_other_decoding_do_not_share_chunks(tmp_path: Path) -> None:
    """Two handles of one context share the cache, although they use different byte orders."""
    store, context = LocalStore(tmp_path), ts.Context({"cache_pool": {"total_bytes_limit": 10**7}})
    results = []
    for endian in ("big", "little"):
        metadata = _metadata(sharded=False)
        metadata["codecs"][0] = {"name": "bytes", "configuration": {"endian": endian}}
        spec = {
            "driver": "zarr3",
            "kvstore": {"driver": "tessarr", "store": store},
            "metadata": metadata,
            "recheck_cached_data": False,
        }
        if endian == "big":
            ts.open(spec, create=True).result().write(VALUES).result()
        array = ts.open(spec, context=context, open=True, assume_metadata=True).result()
        results.append(array[:64, :128].read().result())
    assert np.array_equal(results[0], VALUES[:64, :128])
    assert np.array_equal(results[1], results[0].byteswap())


@pytest.mark.parametrize("data_type", ["bool", "string", "int4", "complex64"])
def test_cached_elements_of_each_type_are_equal(data_type: str, tmp_path: Path) -> None:
    store, context = LocalStore(tmp_path), ts.Context({"cache_pool": {"total_bytes_limit": 10**7}})
    created = tessarr.create_array(
        store, shape=(40,), chunks=(16,), dtype=data_type, compressors={"name": "gzip"}
    )
    values = np.asarray(created[...]).copy()
    if values.dtype.kind in "bc":
        values[::3] = 1
    elif data_type == "string":
        values[::3] = "text"
    created[...] = values
    spec = {"driver": "zarr3", "kvstore": {"driver": "tessarr", "store": store}}
    array = ts.open(spec, context=context, open=True).result()
    for _ in range(2):
        assert np.array_equal(array.read().result(), np.asarray(values, array.dtype.numpy_dtype))
        assert array[7:21].read().result().tolist() == array.read().result()[7:21].tolist()
