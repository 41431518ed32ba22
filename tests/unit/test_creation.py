"""Creation of arrays: the keywords of both generations, defaults, and similar arrays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.array.keywords import SETTING_NAMES
from tessarr.codecs import Blosc, Delta, Fletcher32, GZip, Shuffle, Zlib, Zstd
from tessarr.errors import ArgumentError, ExistsError, UnsupportedError

FORMATS = pytest.mark.parametrize("zarr_format", [2, 3])


# Names and orders of arguments


def test_create_argument_order_matches_zarr_python_2() -> None:
    store: dict[str, bytes] = {}
    a = tessarr.create(
        (6, 4), (3, 2), "i2", Zlib(3), 7, "F", store, None, False, "a/b", None, None, True
    )
    assert (a.shape, a.chunks, a.dtype, a.order, a.fill_value) == ((6, 4), (3, 2), "i2", "F", 7)
    assert a.compressors == (Zlib(3),)
    assert (a.path, a.store) == ("a/b", store)
    with pytest.raises(ExistsError):
        tessarr.create(3, None, None, "default", 0, "C", store, None, False, "a/b")
    again = tessarr.create(3, None, None, "default", 0, "C", store, None, True, "a/b")
    assert again.compressors == (Blosc(),)


def test_open_array_argument_order_matches_zarr_python_2(tmp_path: Path) -> None:
    sync = None
    a = tessarr.open_array(
        tmp_path, "w", (6, 4), (3, 2), "i2", Zlib(3), 7, "F", sync, None, True, "x"
    )
    assert (a.shape, a.chunks, a.order, a.fill_value, a.path) == ((6, 4), (3, 2), "F", 7, "x")
    assert tessarr.open_array(tmp_path, "r", path="x", chunks=(1, 1)).chunks == (3, 2)


def test_group_argument_order_matches_zarr_python_2() -> None:
    store: dict[str, bytes] = {}
    chunks: dict[str, bytes] = {}
    tessarr.create_array(store, path="g/old", shape=1)
    assert list(tessarr.group(store, False, chunks, None, "g")) == ["old"]
    assert list(tessarr.group(store, True, chunks, None, "g")) == []
    assert tessarr.open_group(store, "r", None, "g").path == "g"


@FORMATS
def test_older_keyword_names_are_accepted(zarr_format: Any) -> None:
    a = tessarr.zeros(4, zarr_format=zarr_format, compressor=Zstd(2))
    assert a.compressors == (Zstd(2),)
    b = tessarr.create(4, fillvalue=3, zarr_version=zarr_format, compressor=None)
    assert (b.fill_value, b.zarr_format, b.compressors) == (3, zarr_format, ())
    for default in ("default", "auto"):
        assert tessarr.zeros(4, compressor=default).compressors == (Blosc(),)


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"compressor": Zlib(), "compressors": Zstd()}, "compressors or compressor"),
        ({"compression": "gzip", "compressors": Zstd()}, "compressors or compression"),
        ({"fillvalue": 1, "fill_value": 2}, "fill_value or fillvalue"),
        ({"zarr_version": 2, "zarr_format": 3}, "zarr_format or zarr_version"),
        ({"compression_opts": 1}, "compression_opts needs compression"),
        ({"chunk": (1,)}, "unexpected keyword argument 'chunk'; did you mean 'chunks'"),
        ({"config": {"colour": 1}}, "config has no member 'colour'"),
        ({"name": "a", "path": "b"}, "name or path"),
    ],
)
def test_create_contradictory_or_unknown_settings_raise(settings: Any, names: str) -> None:
    store: dict[str, bytes] = {}
    with pytest.raises(TypeError, match=names):
        tessarr.create_array(store, shape=3, **settings)
    assert store == {}


@pytest.mark.parametrize("opener", [tessarr.open, tessarr.open_array, tessarr.open_group])
def test_open_existing_node_with_unknown_keyword_raises(opener: Any) -> None:
    store: dict[str, bytes] = {}
    if opener is tessarr.open_group:
        tessarr.create_group(store)
    else:
        tessarr.create_array(store, shape=1)
    with pytest.raises(TypeError, match=f"{opener.__name__}.*'modes'"):
        opener(store, modes="r")


@pytest.mark.parametrize("shape", [(4, 4), 4])
def test_create_array_shape_as_store_raises(shape: Any) -> None:
    with pytest.raises(TypeError, match=r"tessarr\.create"):
        tessarr.create_array(shape)


def test_open_with_array_settings_without_shape_raises() -> None:
    store: dict[str, bytes] = {}
    with pytest.raises(TypeError, match="shape"):
        tessarr.open(store, "w", dtype="i4")
    assert store == {}


@pytest.mark.parametrize(
    ("compression", "options", "in_2", "in_3"),
    [
        ("gzip", None, Zlib(), GZip()),
        ("gzip", 4, Zlib(4), GZip(4)),
        (7, None, Zlib(7), GZip(7)),
        ("zlib", [2], Zlib(2), Zlib(2)),
        ("blosc", {"cname": "zstd", "clevel": 2}, Blosc("zstd", 2), Blosc("zstd", 2)),
        ("blosc", ("zstd", 2), Blosc("zstd", 2), Blosc("zstd", 2)),
        (Zstd(3), None, Zstd(3), Zstd(3)),
        ("none", None, None, None),
        (None, None, None, None),
        ("default", None, Blosc(), Blosc()),
    ],
)
def test_names_of_compression(compression: Any, options: Any, in_2: Any, in_3: Any) -> None:
    for zarr_format, codec in ((2, in_2), (3, in_3)):
        a = tessarr.zeros(
            4, compression=compression, compression_opts=options, zarr_format=zarr_format
        )
        assert a.compressors == (() if codec is None else (codec,))


def test_create_unknown_compression_raises() -> None:
    for name in ("lzf", "szip", "nothing"):
        with pytest.raises(UnsupportedError, match=name):
            tessarr.zeros(4, compression=name)
    with pytest.raises(ArgumentError, match="compression_opts"):
        tessarr.zeros(4, compression="gzip", compression_opts=11)
    with pytest.raises(ArgumentError, match="compression_opts"):
        tessarr.zeros(4, compression="gzip", compression_opts={"colour": 1})


def test_keywords_of_h5py() -> None:
    keywords = {"shape": (4, 3), "chunks": True, "maxshape": (None, 3), "dtype": "i4"}
    a = tessarr.create_array(compression="gzip", shuffle=True, fletcher32=True, **keywords)
    assert a.compressors == (Shuffle(4), GZip(), Fletcher32())
    b = tessarr.create_array(zarr_format=2, compression="gzip", shuffle=True, **keywords)
    assert (b.filters, b.compressors) == ((Shuffle(4),), (Zlib(),))
    c = tessarr.create_array(shuffle=True, **keywords)  # Blosc shuffles without a filter
    assert c.compressors == (Blosc(),)
    for array in (a, b, c):
        array[:] = np.arange(12).reshape(4, 3)
        assert array[3, 2] == 11
    for maxshape in ((None,), (3, 3), 4):
        with pytest.raises(ArgumentError, match="maxshape"):
            tessarr.create_array(shape=(4, 3), maxshape=maxshape)


def test_config_of_zarr_python() -> None:
    a = tessarr.create_array(shape=2, config={"write_empty_chunks": True, "order": "F"})
    assert a.write_empty_chunks
    both = tessarr.zeros(2, config={"write_empty_chunks": True}, write_empty_chunks=False)
    assert not both.write_empty_chunks

    @dataclass
    class Config:
        def to_dict(self) -> dict[str, Any]:
            return {"write_empty_chunks": True}

    assert tessarr.open_array(a.store, config=Config()).write_empty_chunks
    with pytest.raises(TypeError, match="read_missing"):
        tessarr.zeros(2, config={"read_missing": False})


def test_create_meta_array_must_be_numpy() -> None:
    assert tessarr.zeros(2, meta_array=np.empty(())).shape == (2,)
    with pytest.raises(UnsupportedError, match="meta_array"):
        tessarr.zeros(2, meta_array=object())


def test_create_array_docstring_lists_every_setting() -> None:
    docstring = str(tessarr.create_array.__doc__)
    names = {name.strip() for line in docstring.splitlines() for name in line.split(",")}
    assert SETTING_NAMES - names == set()


# Data


def test_create_array_with_chunk_store() -> None:
    documents: dict[str, bytes] = {}
    chunks: dict[str, bytes] = {}
    a = tessarr.array([1, 2, 3], store=documents, path="a", chunk_store=chunks, chunks=2)
    assert sorted(documents) == ["a/zarr.json", "zarr.json"]
    assert sorted(chunks) == ["a/c/0", "a/c/1"]
    assert a.store is documents
    assert a.chunk_store is chunks
    for opened in (
        tessarr.open(documents, "r", path="a", chunk_store=chunks),
        tessarr.open_array(documents, "r", path="a", chunk_store=chunks),
        tessarr.open_group(documents, "r", chunk_store=chunks)["a"],
    ):
        assert list(opened[:]) == [1, 2, 3]  # type: ignore[index]


def test_create_array_without_write_data_stores_no_chunks() -> None:
    a = tessarr.create_array(data=[1, 2, 3], write_data=False)
    assert (a.shape, a.dtype, list(a)) == ((3,), np.dtype(int), [0, 0, 0])


def test_create_array_read_only_is_read_only() -> None:
    a = tessarr.array([1, 2, 3], read_only=True)
    assert a.read_only
    assert list(a) == [1, 2, 3]
    assert tessarr.zeros(3, read_only=True).read_only


def test_array_function_takes_chunks_of_data() -> None:
    a = tessarr.array(np.arange(12).reshape(4, 3), chunks=(2, 3))
    assert tessarr.array(a).chunks == (2, 3)
    assert tessarr.array(a, chunks=(4, 1)).chunks == (4, 1)

    class Blocks(np.ndarray):
        chunks = ((3, 1), (3,))

    assert tessarr.array(a[:].view(Blocks)).chunks == (3, 3)


class Lazy:
    """An array that records the size of each read."""

    def __init__(self, values: Any) -> None:
        self.values = values
        self.shape = values.shape
        self.dtype = values.dtype
        self.largest = 0

    def __getitem__(self, key: Any) -> Any:
        part = self.values[key]
        self.largest = max(self.largest, part.size)
        return part

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise AssertionError("read whole")


def test_create_array_from_lazy_data_reads_parts() -> None:
    lazy = Lazy(np.arange(4_000_000).reshape(2000, 2000))
    with tessarr.options(copy_bytes=1 << 22):
        a = tessarr.create_array(data=lazy, chunks=(100, 2000))
    assert 0 < lazy.largest < 2_000_000
    assert a.dtype == lazy.dtype
    assert np.array_equal(a[:], lazy.values)


@FORMATS
def test_overwriting_array_with_itself(zarr_format: Any) -> None:
    store: dict[str, bytes] = {}
    a = tessarr.array([1, 2, 3], store=store, path="a/b", zarr_format=zarr_format)
    b = tessarr.array(a, store=store, path="a", overwrite=True, zarr_format=zarr_format)
    assert list(b) == [1, 2, 3]
    assert not any("b" in key for key in store)


def test_failure_to_write_data_removes_array() -> None:
    class Broken(Lazy):
        def __getitem__(self, key: Any) -> Any:
            raise OSError("gone")

    store: dict[str, bytes] = {}
    with pytest.raises(OSError, match="gone"):
        tessarr.create_array(store, data=Broken(np.zeros((3, 3))))
    assert store == {}


# Similar arrays


@FORMATS
def test_create_like_array_copies_settings(zarr_format: Any) -> None:
    a = tessarr.create_array(
        shape=(6, 4),
        dtype="i2",
        chunks=(3, 2),
        filters=[Delta("i2")],
        compressors=Zstd(4),
        order="F",
        fill_value=9,
        zarr_format=zarr_format,
        attributes={"unit": "m"},
    )
    alike = {
        tessarr.empty_like(a): None if zarr_format == 2 else 0,
        tessarr.zeros_like(a): 0,
        tessarr.ones_like(a): 1,
        tessarr.full_like(a): 9,
        tessarr.full_like(a, 5): 5,
        tessarr.full_like(a, fillvalue=5): 5,
        tessarr.open_like(a, None, mode="w"): 9,
    }
    for b, fill_value in alike.items():
        assert b.fill_value == fill_value
        assert (b.shape, b.chunks, b.dtype, b.order) == (a.shape, a.chunks, a.dtype, "F")
        assert (b.filters, b.compressors) == (a.filters, a.compressors)
        assert (b.zarr_format, dict(b.attrs)) == (zarr_format, {})
        b[:] = np.arange(24).reshape(6, 4)
        assert b[5, 3] == 23


def test_create_like_array_with_overrides() -> None:
    a = tessarr.zeros((6, 4), dtype="i2", chunks=(3, 2), filters=[Delta("i2")], zarr_format=2)
    b = tessarr.zeros_like(a, dtype="f4", chunks=None, compression=None, zarr_format=3)
    assert (b.dtype, b.chunks, b.filters, b.compressors) == ("f4", (6, 4), (), ())
    assert b.zarr_format == 3
    c = tessarr.zeros_like(a, shape=5)
    assert (c.shape, c.chunks, c.filters) == ((5,), (5,), a.filters)


def test_create_like_sharded_array_copies_names() -> None:
    a = tessarr.zeros((8, 8), chunks=(2, 2), shards=(4, 4), dimension_names=["y", "x"])
    b = tessarr.ones_like(a)
    assert (b.chunks, b.shards, b.dimension_names) == ((2, 2), (4, 4), ("y", "x"))
    c = tessarr.ones_like(a, zarr_format=2)
    assert (c.chunks, c.shards, c.dimension_names) == ((2, 2), None, None)
    d = tessarr.ones_like(a, shape=(8,))
    assert (d.shards, d.dimension_names) == (None, None)


def test_zeros_like_of_text_in_other_format() -> None:
    for source, goal in ((2, 3), (3, 2)):
        a = tessarr.array(["a", "bc"], dtype=str, zarr_format=source)
        b = tessarr.zeros_like(a, zarr_format=goal)
        b[:] = a[:]
        assert list(b[:]) == ["a", "bc"]


def test_full_like_of_foreign_arrays() -> None:
    a = tessarr.zeros_like(np.ones((3, 4), "i2"))
    assert (a.shape, a.dtype, a.compressors) == ((3, 4), "i2", (Blosc(),))
    assert tessarr.full_like([1.0, 2.0], 3)[1] == 3


@FORMATS
def test_from_array_keeps_everything(zarr_format: Any) -> None:
    a = tessarr.create_array(
        data=np.arange(24, dtype="i2").reshape(6, 4),
        chunks=(3, 2),
        compressors=Zstd(4),
        fill_value=9,
        zarr_format=zarr_format,
        attributes={"unit": "m"},
        dimension_separator="/" if zarr_format == 2 else ".",
    )
    b = tessarr.from_array("memory://from_array", data=a, overwrite=True)
    assert b.metadata == a.metadata
    assert np.array_equal(b[:], a[:])
    c = tessarr.from_array(data=a, chunks=(2, 4), compressors=None, write_data=False)
    assert (c.chunks, c.compressors, c.attrs["unit"], c[5, 3]) == ((2, 4), (), "m", 9)
    d = tessarr.from_array(data=a, fill_value=None, write_data=False)
    assert d.fill_value == (None if zarr_format == 2 else 0)


# Defaults


def test_default_compressor_setter_applies() -> None:
    from tessarr import storage

    assert storage.default_compressor == Blosc()
    try:
        storage.default_compressor = Zstd(1)
        assert tessarr.zeros(3).compressors == (Zstd(1),)
        assert tessarr.group().create_array("a", shape=3, zarr_format=3).compressors == (Zstd(1),)
        storage.default_compressor = None
        assert tessarr.zeros(3, zarr_format=2).compressors == ()
        with pytest.raises(UnsupportedError, match="nothing"):
            storage.default_compressor = "nothing"
        assert storage.default_compressor is None
    finally:
        storage.default_compressor = "auto"
    assert tessarr.zeros(3).compressors == (Blosc(),)


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        (None, (313, 313)),
        (True, (313, 313)),
        ("auto", (313, 313)),
        (False, (10000, 10000)),
        (-1, (10000, 10000)),
        (1000, (1000, 1000)),
        ((100, None), (100, 10000)),
        ((None, 100), (10000, 100)),
        ((100, -1), (100, 10000)),
        ((100,), (100, 10000)),
    ],
)
def test_chunks(chunks: Any, expected: Any) -> None:
    assert tessarr.zeros((10000, 10000), chunks=chunks, dtype="i4").chunks == expected


def test_open_consolidated_takes_settings_of_open_group() -> None:
    store: dict[str, bytes] = {}
    chunks: dict[str, bytes] = {}
    group = tessarr.group(store, chunk_store=chunks)
    group.array("a", [1, 2])
    tessarr.consolidate_metadata(store, storage_options=None)
    for settings in ({}, {"use_consolidated": True, "storage_options": None}):
        opened = tessarr.open_consolidated(store, mode="r", chunk_store=chunks, **settings)
        assert opened.consolidated
        assert list(opened["a"][:]) == [1, 2]
    with pytest.raises(TypeError, match="'chunks_store'"):
        tessarr.open_consolidated(store, chunks_store=chunks)


def test_runtime_settings_apply_in_every_function() -> None:
    sync = tessarr.ThreadSynchronizer()
    store: dict[str, bytes] = {}
    settings: dict[str, Any] = {"synchronizer": sync, "cache_metadata": False}
    created = [
        tessarr.zeros(3, store=store, path="a", **settings),
        tessarr.create(3, None, None, None, 0, "C", store, sync, True, "a", cache_metadata=False),
        tessarr.array([1], store=store, path="a", overwrite=True, **settings),
        tessarr.full_like(np.zeros(3), 2, store=store, path="b", **settings),
        tessarr.from_array(store, data=[1], path="c", **settings),
        tessarr.open_array(store, path="a", **settings),
        tessarr.open_array(store, "r", path="a", synchronizer=sync, cache_attrs=False),
        tessarr.open(store, path="a", **settings),
        tessarr.open(store, "w", path="d", shape=2, **settings),
        tessarr.open_like(np.zeros(2), {}, **settings),
    ]
    for array in created:
        assert array.synchronizer is sync
        assert array.cache_metadata is False
    group = tessarr.group(store, synchronizer=sync)
    assert group["a"].synchronizer is sync
    assert group.zeros("f", 3).synchronizer is sync
    assert group.zeros("g", 3, synchronizer=None, cache_metadata=False).cache_metadata is False


def test_uncached_metadata_shows_concurrent_changes() -> None:
    store: dict[str, bytes] = {}
    a = tessarr.zeros(3, store=store, cache_metadata=False)
    tessarr.open_array(store).resize(5)
    assert a.shape == (5,)
