"""Further members of arrays in zarr-python 2.1.2, 2.18 and 3."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr import codecs
from tessarr.errors import ArgumentError, MetadataError, ReadOnlyError
from tessarr.store.wrappers.instrumented import CountingStore


def test_fill_value_setter_changes_missing_elements(zarr_format: Any) -> None:
    a = tessarr.full(6, 1, chunks=2, dtype="i2", zarr_format=zarr_format)
    a[0] = 5
    a.fill_value = 9
    assert (a.fill_value, a[:].tolist()) == (9, [5, 1, 9, 9, 9, 9])
    assert tessarr.Array(a.store)[:].tolist() == a[:].tolist()
    a[2:4] = 9
    assert a.nchunks_initialized == 1
    a.fill_value = None
    assert a.fill_value == (None if zarr_format == 2 else 0)
    for wrong in ("x", 1 << 20):
        with pytest.raises((ValueError, OverflowError)):
            a.fill_value = wrong
    assert tessarr.Array(a.store).fill_value == a.fill_value
    with pytest.raises(ReadOnlyError):
        tessarr.Array(a.store, read_only=True).fill_value = 3


def test_read_only_setter_rejects_changes(zarr_format: Any, tmp_path: Any) -> None:
    a = tessarr.zeros(4, store=tmp_path, zarr_format=zarr_format)
    a.read_only = True
    changes: list[Any] = [
        lambda: a.__setitem__(0, 1),
        lambda: a.__setitem__(slice(None), np.ones(4)),
        lambda: a.write(0, 1),
        lambda: a.resize(2),
        lambda: a.attrs.update(x=1),
    ]
    for change in changes:
        with pytest.raises(ReadOnlyError):
            change()
    a.read_only = False
    a[:] = np.ones(4)
    b = tessarr.open_array(tmp_path, "r")
    with pytest.raises(ReadOnlyError, match="store"):
        b.read_only = False
    assert b.read_only


def test_compressors_are_accepted_by_old_names() -> None:
    a = tessarr.create_array(shape=4, zarr_format=2, compressors=codecs.Zlib(3))
    assert (a.compressor, a.compression) == (codecs.Zlib(3), "zlib")
    assert a.compression_opts == {"id": "zlib", "level": 3}
    b = tessarr.create_array(shape=4, compressors=None)
    assert (b.compressor, b.compression, b.compression_opts) == (None, None, None)
    c = tessarr.create_array(shape=4, compressors=["zstd", "crc32c"])
    with pytest.raises(ArgumentError, match="compressors"):
        _ = c.compressor
    assert len(c.compressors) == 2


def test_digest_hashes_stored_chunks_and_documents(zarr_format: Any) -> None:
    """Chunks in the order of the grid, then the documents, as in zarr-python 2.18."""
    a = tessarr.zeros((30, 2), chunks=(2, 2), zarr_format=zarr_format, path="x")
    a[:] = np.arange(60).reshape(30, 2)
    a.attrs["x"] = 1
    keys = ["x/zarr.json"] if zarr_format == 3 else ["x/.zarray", "x/.zattrs"]
    form = "x/c/{}/0" if zarr_format == 3 else "x/{}.0"
    expected = b"".join(bytes(a.store.get(key)) for key in [*map(form.format, range(15)), *keys])
    assert a.digest() == hashlib.sha1(expected).digest()
    assert a.hexdigest("md5") == hashlib.md5(expected).hexdigest()
    a.store.put("x/stray", b"1")
    assert a.digest() == hashlib.sha1(expected).digest()
    for name in ("nothing", "shake_128"):
        with pytest.raises(ArgumentError):
            a.digest(name)


def test_iteration_reads_each_chunk_once(zarr_format: Any) -> None:
    data = np.arange(44).reshape(11, 4)
    created = tessarr.create_array(data=data, chunks=(3, 2), zarr_format=zarr_format)
    store = CountingStore(created.store)
    a = tessarr.Array(store)
    before = store.counts()
    np.testing.assert_array_equal(list(a), data)
    assert store.counts()["opens"] - before["opens"] == 8  # 4 × 2 chunks
    for bounds in ((None, None), (2, 9), (3, 6), (4, 5), (5, 5), (7, 3), (0, 99), (20, 30)):
        np.testing.assert_array_equal(
            np.array(list(a.islice(*bounds))).reshape(-1, 4), data[slice(*bounds)]
        )
    wrong: list[Any] = [(-1, None), (0, -1), (0.5, 1), (0, "x")]
    for bounds in wrong:
        with pytest.raises(ValueError, match="count from 0"):
            a.islice(*bounds)
    with pytest.raises(TypeError, match="without axes"):
        iter(tessarr.zeros(()))


def test_other_libraries_take_arrays_by_dlpack() -> None:
    a = tessarr.create_array(data=[[1, 2], [3, 4]])
    np.testing.assert_array_equal(np.from_dlpack(a), a[:])
    assert a.__dlpack_device__() == (1, 0)


def test_info_block_of_tutorial() -> None:
    class Mine(dict[str, bytes]):
        """A store of the user's own class."""

    a = tessarr.create_array(
        Mine(),
        path="foo/bar",
        shape=(10000, 10000),
        chunks=(1000, 1000),
        dtype="i4",
        zarr_format=2,
        filters=[codecs.Delta("i4"), codecs.Shuffle(4)],
        compressors=None,
    )
    a = tessarr.Array(a.store, "foo/bar", chunk_store={}, synchronizer=tessarr.ThreadSynchronizer())
    size = len(a.store["foo/bar/.zarray"]) + 2
    assert str(a.info) == (
        "Array(/foo/bar, (10000, 10000), int32, chunks=(1000, 1000), order=C)\n"
        f"  nbytes: 381.5M; nbytes_stored: {size}; ratio: {4e8 / size:.1f}; initialized: 0/100\n"
        f"  filters: {a.filters[0]!r}\n"
        f"           {a.filters[1]!r}\n"
        "  store: Mine; chunk_store: dict; synchronizer: ThreadSynchronizer"
    )
    assert repr(a) == "Array(/foo/bar, (10000, 10000), int32, chunks=(1000, 1000), order=C)"
    assert str(a.info_complete()) == repr(a.info) == str(a.info)
    items = dict(a.info_items())
    assert items["Name"] == "/foo/bar"
    assert items["Chunks initialized"] == "0/100"
    assert items["No. bytes"] == "400000000 (381.5M)"
    assert (items["Filter [0]"], items["Compressor"]) == (repr(a.filters[0]), "None")


def test_info_block_lists_codec_roles() -> None:
    a = tessarr.create_array(
        shape=8, dtype="u1", chunks=2, shards=4, compressors=["zstd", "crc32c"]
    )
    lines = str(a.info).splitlines()
    assert "  compressor: Zstd" in "\n".join(lines)
    assert any(line.startswith("              Crc32c") for line in lines)
    assert dict(a.info_items())["Shard shape"] == "(4,)"


def test_updated_attributes_give_array_back(zarr_format: Any) -> None:
    a = tessarr.zeros(3, zarr_format=zarr_format)
    a.attrs["x"] = 1
    assert a.update_attributes({"y": 2}) is a
    assert dict(a.attrs) == {"x": 1, "y": 2}
    with tessarr.Array(a.store) as b:
        assert b.attrs["y"] == 2


def test_uncached_metadata_that_is_invalid_raises() -> None:
    a = tessarr.zeros(3)
    b = tessarr.Array(a.store, cache_metadata=False)
    a.store.put("zarr.json", b"{")
    with pytest.raises(MetadataError):
        b[:]


def test_with_config_changes_runtime_settings(zarr_format: Any) -> None:
    a = tessarr.zeros(4, chunks=2, zarr_format=zarr_format)
    assert (a.config.write_empty_chunks, a.config.order) == (False, "C")
    b = a.with_config({"write_empty_chunks": True})
    b[:2] = 0
    assert (a.nchunks_initialized, b.write_empty_chunks, a.write_empty_chunks) == (1, True, False)
    assert b.with_config(a.config).config == a.config
    assert a.view().with_config({}).is_view
    with pytest.raises(TypeError):
        a.with_config({"colour": 1})
    assert tessarr.Array.open(a.store, zarr_format=zarr_format) == a


def test_read_direct_and_write_direct_match_h5py() -> None:
    data = np.arange(12).reshape(3, 4)
    a = tessarr.create_array(data=data, chunks=2)
    room = np.zeros((5, 4), int)
    a.read_direct(room, np.s_[1:3], np.s_[::4])
    np.testing.assert_array_equal(room[::4], data[1:3])
    a.read_direct(room, np.s_[0:2], np.s_[[1, 3]])
    np.testing.assert_array_equal(room[[1, 3]], data[:2])
    whole = np.zeros((3, 4), "f4")
    a.read_direct(whole)
    np.testing.assert_array_equal(whole, data)
    a.write_direct(room, np.s_[2], np.s_[0])
    assert a[0].tolist() == [0] * 4
    a.write_direct(data)
    np.testing.assert_array_equal(a[:], data)
    assert (a.len(), a.maxshape, a.fillvalue) == (3, (None, None), 0)
    with pytest.raises(ArgumentError):
        a.read_direct(np.zeros((2, 2)))


@pytest.mark.parametrize(
    "sel", [..., slice(1, 6), (slice(2, 3), slice(0, 9)), (2, slice(3, 5)), slice(0, 0)]
)
@pytest.mark.parametrize("chunks", [(2, 4), [[1, 5, 1], 9]])
def test_iter_chunks_covers_selection(sel: Any, chunks: Any) -> None:
    """Each selected element is in exactly one part, and each part in one chunk."""
    a = tessarr.zeros((7, 9), chunks=chunks, dtype="i4")
    for number, part in enumerate(a.iter_chunks(sel), 1):
        assert not a[part].any()
        before = a.nchunks_initialized
        a[part] = number
        assert a.nchunks_initialized == before + 1
    expected = np.zeros((7, 9), bool)
    expected[sel] = True
    np.testing.assert_array_equal(a[:] > 0, expected)


def test_iter_chunks_with_step_raises() -> None:
    a = tessarr.zeros((7, 9), chunks=4)
    for sel in (np.s_[::2], np.s_[::-1]):
        with pytest.raises(ArgumentError, match="step 1"):
            list(a.iter_chunks(sel))


def test_asstr_reads_bytes_as_text() -> None:
    words = ["żółw", "b", ""]
    for data, dtype in (([w.encode() for w in words], bytes), (words, str)):
        a = tessarr.create_array(data=data, dtype=dtype)
        assert a.asstr()[:].tolist() == words
        assert a.asstr()[0] == words[0]
    fixed = tessarr.create_array(data=np.array([b"ab", b"c"]).reshape(1, 2))
    assert fixed.asstr()[:].tolist() == [["ab", "c"]]
    latin = tessarr.create_array(data=np.array([b"\xe9"]))
    assert latin.asstr("latin-1")[0] == "é"
    assert latin.asstr(errors="ignore")[0] == ""
    with pytest.raises(UnicodeDecodeError):
        latin.asstr()[:]
    latin.asstr()[0] = b"z"
    assert latin[0] == b"z"


def test_fields_indexer_reads_and_writes() -> None:
    data = np.array([(1, 2.5), (3, 4.5)], [("x", "i4"), ("y", "f8")])
    a = tessarr.create_array(data=data)
    assert a.fields("y")[:].tolist() == [2.5, 4.5]
    assert a.fields(["y"])[1].tolist() == (4.5,)
    a.fields("x")[:] = 9
    assert a[:].tolist() == [(9, 2.5), (9, 4.5)]
