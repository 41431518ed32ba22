"""Names, keywords and positions of zarr-python 2 and 3 in their users' calls."""

from __future__ import annotations

import asyncio
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.errors import (
    ArgumentError,
    MetadataError,
    NotFoundError,
    NotJSONError,
)

FORMATS = pytest.mark.parametrize("zarr_format", [2, 3])


# Creation and access


def test_keys_of_chunks_are_named_as_in_zarr_python() -> None:
    expected: dict[Any, tuple[int, str]] = {
        ("default", "."): (3, "c.0.1"),
        ("v2", "/"): (3, "0/1"),
        ("v2", "."): (2, "0.1"),
    }
    for encoding, (zarr_format, key) in expected.items():
        items: dict[str, bytes] = {}
        a = tessarr.create(
            (4, 4),
            chunks=2,
            store=items,
            chunk_key_encoding=encoding,
            zarr_format=zarr_format,
        )
        a[:] = 1
        assert key in items
    items = {}
    document_value = {"name": "v2", "separator": "/"}
    a = tessarr.zeros(4, chunks=2, store=items, chunk_key_encoding=document_value, zarr_format=2)
    assert json.loads(items[".zarray"])["dimension_separator"] == "/"
    assert a[:].tolist() == [0] * 4


def test_chunk_key_encoding_missing_in_format_2_is_refused() -> None:
    for settings in (
        {"chunk_key_encoding": "default"},
        {"chunk_key_encoding": ("v2", "/"), "dimension_separator": "."},
    ):
        with pytest.raises(ArgumentError, match="chunk_key_encoding"):
            tessarr.zeros(4, zarr_format=2, **settings)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="separator"):
        tessarr.zeros(4, chunk_key_encoding=("default", "-"))


def test_chunk_shape_is_chunks() -> None:
    assert tessarr.create((4, 4), chunk_shape=(2, 4)).chunks == (2, 4)
    a = tessarr.zeros((4, 4), chunks=2)
    assert tessarr.zeros_like(a, chunk_shape=4).chunks == (4, 4)
    with pytest.raises(TypeError, match="chunks or chunk_shape"):
        tessarr.zeros(4, chunks=2, chunk_shape=4)


def test_open_like_with_path_opens_node() -> None:
    items: dict[str, bytes] = {}
    a = tessarr.ones(4, chunks=2, dtype="i2")
    b = tessarr.open_like(a, path="x/y", store=items)
    assert (b.path, b.dtype, b.chunks) == ("x/y", a.dtype, (2,))
    assert "x/y/zarr.json" in items
    with pytest.raises(TypeError, match="string"):
        tessarr.open_like(a, Path("x"), store=items)


def test_load_of_path_returns_array(tmp_path: Path) -> None:
    tessarr.save_group(tmp_path / "g", a=[1, 2])
    assert tessarr.load(tmp_path / "g", "a").tolist() == [1, 2]


def test_consolidation_by_position_and_under_another_name() -> None:
    items: dict[str, bytes] = {}
    tessarr.group(items, zarr_format=2).zeros("a/b", shape=3)
    assert list(tessarr.consolidate_metadata(items, "a")) == ["b"]
    assert "a/.zmetadata" in items
    group = tessarr.consolidate_metadata(items, metadata_key=".mine")
    assert group.consolidated
    assert ".zmetadata" not in items
    with pytest.raises(FileNotFoundError):
        tessarr.open_consolidated(items, "r")  # which has the default name
    result = tessarr.open_consolidated(items, ".mine", "r")
    assert result["a/b"].shape == (3,)
    assert result.read_only
    new: dict[str, bytes] = {}
    tessarr.group(new)
    with pytest.raises(ArgumentError, match="format 3"):
        tessarr.consolidate_metadata(new, metadata_key=".mine")


def test_create_with_mode_follows_mode() -> None:
    items: dict[str, bytes] = {}
    for mode in ("w", None, "w"):
        if mode is None:
            with pytest.raises(FileExistsError):
                tessarr.create(3, store=items, mode=mode)
        assert tessarr.create(data=[1, 2], shape=2, store=items, mode="w")[1] == 2
    with pytest.raises(ArgumentError, match="'r'"):
        tessarr.create(3, mode="r")


def test_other_names_and_positions() -> None:
    source: dict[str, bytes] = {}
    group = tessarr.group(source)
    group["a"] = [1, 2]
    dest: dict[str, bytes] = {}
    assert tessarr.copy_store(source, dest, "", "", None, None, 0, "raise", True)[0] > 0
    assert not dest
    assert "a" in str(tessarr.tree(grp=group))
    assert isinstance(group["a"].async_array, tessarr.AsyncArray)


def test_records_in_lists_are_elements() -> None:
    a = tessarr.array([(1, 2.5), (3, 4.5)], dtype="i4,f8")
    assert a.shape == (2,)
    assert a[:].tolist() == [(1, 2.5), (3, 4.5)]
    assert isinstance(a[0], np.void)
    b = tessarr.group().create_dataset("b", data=[[(1, 2.5)]], dtype="i4,f8")
    assert b.shape == (1, 1)


# Arrays


@FORMATS
def test_store_path_of_nodes(zarr_format: Any, tmp_path: Path) -> None:
    group = tessarr.open_group(tmp_path / "g", zarr_format=zarr_format)
    a = group.array("a/b", [1, 2])
    store_path = a.store_path
    assert (store_path.store, store_path.path) == (a.store, "a/b")
    assert str(store_path) == f"file://{tmp_path}/g/a/b"
    assert tessarr.open_array(store_path, "r")[:].tolist() == [1, 2]
    assert store_path == group.store_path / "a" / "b" != group.store_path
    assert len({store_path, group.store_path / "a/b"}) == 1
    assert str(tessarr.zeros(1).store_path) == "MemoryStore()"
    assert store_path != "a/b"


@FORMATS
def test_array_opens_from_metadata_document(zarr_format: Any) -> None:
    items: dict[str, bytes] = {}
    tessarr.array([1, 2, 3], store=items, path="p", zarr_format=zarr_format)
    name = "zarr.json" if zarr_format == 3 else ".zarray"
    document = json.loads(items[f"p/{name}"])
    store_path = tessarr.open(items, path="p").store_path
    created = tessarr.Array.from_dict(store_path, {**document, "attributes": {"x": 1}})
    assert created[:].tolist() == [1, 2, 3]
    assert created.attrs["x"] == 1
    assert created.zarr_format == zarr_format
    with pytest.raises(ArgumentError, match="metadata of an array"):
        tessarr.Array.from_dict(items, {"shape": [3]})
    with pytest.raises(MetadataError):
        tessarr.Array.from_dict(items, {**document, "shape": "x"})


def test_constructors_take_keywords_of_zarr_python_2() -> None:
    items: dict[str, bytes] = {}
    chunks: dict[str, bytes] = {}
    lock = tessarr.ThreadSynchronizer()
    tessarr.group(items, chunk_store=chunks, zarr_format=2)
    group = tessarr.Group(items, None, False, chunks, lock)
    assert group.synchronizer is lock
    a = group.zeros("a", shape=4, chunks=2)
    assert tessarr.Group(items, zarr_version=2, meta_array=None).zarr_format == 2
    b = tessarr.Array(
        items, "a", cache_attrs=False, partial_decompress=True, zarr_version=2, meta_array=None
    )
    assert not b.cache_metadata
    c = tessarr.Array.open(items, "a", config={"write_empty_chunks": True})
    assert c.write_empty_chunks
    assert c.with_config(a.config).write_empty_chunks is False
    assert c.with_config({"order": "C"}).write_empty_chunks
    assert tessarr.zeros(3, config=c.config).write_empty_chunks
    with pytest.raises(TypeError, match="did you mean 'zarr_version'"):
        tessarr.Array(items, "a", zar_version=2)


def test_keywords_of_methods() -> None:
    a = tessarr.zeros((4, 4))
    a.resize(new_shape=(2, 3))
    assert a.shape == (2, 3)
    for wrong in ({"new_shape": (1,)}, {"new_shape": (1, 2, 3)}):
        with pytest.raises(ArgumentError):
            a.resize(**wrong)
    with pytest.raises(ArgumentError):
        a.resize(1, 2, new_shape=(1, 2))
    a.update_attributes(new_attributes={"x": 1})
    assert a.attrs["x"] == 1

    async def resize() -> None:
        await a.async_array.resize((1, 1), delete_outside_chunks=True)

    asyncio.run(resize())
    assert a.shape == (1, 1)
    b = tessarr.array(np.arange(9), chunks=4)
    b.resize(2, delete_outside_chunks=False)
    assert b.nchunks_initialized == 1
    b.resize(9, delete_outside_chunks=False)
    assert b[:].tolist() == list(range(9))


def test_mask_selection_accepts_keyword() -> None:
    """Both methods have `mask=`, as in both generations, and `meta_array` as in 2.18."""
    a = tessarr.array(np.arange(4))
    mask = np.array([True, False, True, False])
    a.set_mask_selection(mask=mask, value=7)
    assert a.get_mask_selection(mask=mask).tolist() == [7, 7]
    assert isinstance(a.meta_array, np.ndarray)


def test_view_is_not_array() -> None:
    a = tessarr.array(np.arange(4, dtype="u1"))
    view = a.view(dtype="i1")
    assert view != a
    assert a != view
    assert view == a.view(dtype="i1") != a.view(dtype="?")
    assert hash(view) == hash(a)  # equal hashes are allowed


# Groups and attributes


def test_groups_take_keywords_of_zarr_python_3() -> None:
    items: dict[str, bytes] = {}
    group = tessarr.Group.from_store(items)
    group.create_array("a", shape=3, storage_options=None)
    with pytest.raises(TypeError, match="storage_options"):
        group.create_array("b", shape=3, storage_options={"anon": True})
    assert asyncio.run(group.update_attributes_async({"x": 1})) == group
    assert group.attrs["x"] == 1
    assert not tessarr.Group.open(items, use_consolidated=False).consolidated
    tessarr.consolidate_metadata(items)
    assert tessarr.Group.open(items, use_consolidated=True).consolidated


@FORMATS
def test_not_json_error_is_type_error_and_value_error(zarr_format: Any) -> None:
    a = tessarr.zeros(2, zarr_format=zarr_format)
    for wrong in ({"x": object()}, {"x": {1, 2}}, {"x": 1j}):
        with pytest.raises(NotJSONError) as caught:
            a.attrs.put(wrong)
        assert isinstance(caught.value, TypeError)
        assert isinstance(caught.value, ValueError)
        with pytest.raises(TypeError):
            tessarr.create_group(None, attributes=wrong, zarr_format=zarr_format)
    assert not a.attrs


# Missing chunks


@pytest.mark.parametrize(("zarr_format", "shards"), [(2, None), (3, None), (3, 4)])
def test_missing_chunk_with_refuse_raises(zarr_format: Any, shards: Any, tmp_path: Path) -> None:
    folder = tmp_path / "a"
    settings: dict[str, Any] = {"shards": shards} if shards else {}
    config = {"read_missing_chunks": False}
    a = tessarr.zeros(8, chunks=2, store=folder, zarr_format=zarr_format, config=config, **settings)
    a[1] = 5
    assert a[:2].tolist() == [0, 5]
    for key in (slice(None), 7, [1, 6], slice(5, 3, -1)):
        with pytest.raises(NotFoundError, match="the chunk is missing") as caught:
            a[key]
        assert caught.value.key is not None
        assert caught.value.chunk == ((1,) if shards else caught.value.chunk)
    strict = tessarr.open_array(folder, missing="refuse")
    loose = tessarr.open_array(folder, "r")
    assert loose[:].tolist() == [0, 5, *[0] * 6]
    assert (a.config.read_missing_chunks, loose.config.read_missing_chunks) == (False, True)
    if shards:
        assert a[2:4].tolist() == [0, 0]
        with pytest.raises(NotFoundError, match=r"subchunk \(1\)"):
            strict[2:4]
        strict[2] = 7  # a write to a missing chunk succeeds
        assert strict[2:4].tolist() == [7, 0]
    for other in (
        pickle.loads(pickle.dumps(strict)),
        loose.with_config(config),
        tessarr.Array(folder, config=config),
        tessarr.open(folder, missing="refuse"),
        strict.view(),
    ):
        with pytest.raises(NotFoundError):
            other[6]
    assert a.with_config({"read_missing_chunks": True})[6] == 0
    a.resize(12)
    with pytest.raises(NotFoundError):
        a[10]


def test_missing_chunk_in_group_with_refuse_raises(tmp_path: Path) -> None:
    group = tessarr.open(tmp_path / "g", config={"read_missing_chunks": False})
    created = group.zeros("a", shape=4)
    for a in (created, group["a"]):
        with pytest.raises(NotFoundError):
            a[0]
    with pytest.raises(ArgumentError, match="'no'"):
        tessarr.zeros(3, store=tmp_path / "no", missing="no")  # type: ignore[arg-type]
    assert not (tmp_path / "no").exists()
