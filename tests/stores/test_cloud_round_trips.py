"""Arrays, groups and values on the servers of the clouds."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

import tessarr
from stores.clouds import Cloud
from tessarr.errors import ExistsError, NotFoundError
from tessarr.store.object.object_store import ObjectStore
from tessarr.store.object.open import open_object_url

ODD_NAMES = (
    "a b",
    "é ü 日本",
    "100%",
    "%25",
    "%2F",
    "a+b",
    "a#b",
    "a?b",
    "a=b",
    "a&b",
    "a~b",
    "<a>",
    "a'b",
    'a"b',
    "a;b,c",
    "(a)[b]{c}",
    "$a@b!c*",
    "a:b|c^d`e",
)


def open_store(cloud: Cloud, path: str = "", **options: Any) -> ObjectStore:
    return open_object_url(cloud.url(path), {**cloud.storage_options, **options})


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_array_life(cloud: Cloud, zarr_format: Literal[2, 3]) -> None:
    """Creation, reads, partial writes, append, resize and deletion act as on any store."""
    data = np.random.default_rng(0).integers(0, 1000, (60, 50)).astype("i4")
    options: dict[str, Any] = {"storage_options": cloud.storage_options}
    url = cloud.url("deep/x")
    array = tessarr.create_array(
        url, data=data, chunks=(20, 20), zarr_format=zarr_format, attributes={"a": 1}, **options
    )
    with pytest.raises(ExistsError):
        tessarr.create_array(url, shape=(3,), dtype="u1", **options)
    array[11:23, ::9] = -1
    array.append(data[:5])
    array.attrs["b"] = "é"
    expected = np.concatenate([data, data[:5]])
    expected[11:23, ::9] = -1
    again = tessarr.open_array(url, **options)
    np.testing.assert_array_equal(again[:], expected)
    np.testing.assert_array_equal(again[13:2:-3, [4, 40]], expected[13:2:-3][:, [4, 40]])
    assert dict(again.attrs) == {"a": 1, "b": "é"}
    again.resize((30, 70))
    expected = np.pad(expected[:30], ((0, 0), (0, 20)))
    np.testing.assert_array_equal(tessarr.open_array(url, mode="r", **options)[:], expected)
    chunks = [key for key in cloud.list() if key.rpartition("/")[2][0] not in ".z"]
    assert len(chunks) == 6  # 2 × 3, the new columns are empty
    new = tessarr.create_array(url, shape=(3,), dtype="u1", overwrite=True, **options)
    assert new[:].tolist() == [0, 0, 0]
    assert not [key for key in cloud.list() if key.endswith(("0", "1"))]


def test_shards_are_read_and_changed_in_parts(cloud: Cloud) -> None:
    data = np.random.default_rng(0).integers(0, 1000, (64, 64)).astype("i4")
    options: dict[str, Any] = {"storage_options": cloud.storage_options}
    url = cloud.url("x")
    tessarr.create_array(url, data=data, chunks=(8, 8), shards=(32, 32), **options)
    array = tessarr.open_array(url, **options)
    np.testing.assert_array_equal(array[5:40, 30], data[5:40, 30])
    array[10:50, 20:22] = 7
    array[0:8, 0:8] = 0
    data[10:50, 20:22] = 7
    data[0:8, 0:8] = 0
    np.testing.assert_array_equal(array[:], data)
    np.testing.assert_array_equal(tessarr.open_array(url, mode="r", **options)[:], data)
    assert len(cloud.list()) == 5


def test_group_life(cloud: Cloud) -> None:
    """Members, consolidated metadata, deletion and mode "w" act as on any store."""
    options: dict[str, Any] = {"storage_options": cloud.storage_options}
    url = cloud.url("g")
    group = tessarr.create_group(url, attributes={"title": "t"}, **options)
    for name in ("a", "b/c", "b/d"):
        group.create_array(name, data=np.arange(6), chunks=2)
    assert sorted(name for name, _ in group.members(max_depth=None)) == ["a", "b", "b/c", "b/d"]
    consolidated = tessarr.consolidate_metadata(url, **options)
    assert sorted(consolidated) == ["a", "b"]
    cloud.proxy.reset_counts()
    again = tessarr.open_group(url, mode="r", **options)
    assert [np.asarray(again[name]).sum() for name in ("a", "b/c")] == [15, 15]
    assert not any("list" in line for line in cloud.proxy.requests)
    del group["b"]
    assert list(tessarr.open_group(url, use_consolidated=False, **options)) == ["a"]
    assert list(tessarr.open_group(url, mode="w", **options)) == []
    assert cloud.list() == ["g/zarr.json"]
    with pytest.raises(NotFoundError):
        tessarr.open(cloud.url("none"), mode="r", **options)


def test_odd_names_are_listed(cloud: Cloud) -> None:
    """Nodes with odd names are created, listed, read and deleted; other clients see their keys."""
    options: dict[str, Any] = {"storage_options": cloud.storage_options}
    group = tessarr.create_group(cloud.url("odd + é"), **options)
    for number, name in enumerate(ODD_NAMES):
        group.create_array(name, data=np.array([1 + number]), compressors=None)
    assert sorted(group) == sorted(ODD_NAMES)
    for number, name in enumerate(ODD_NAMES):
        assert np.asarray(group[name]).tolist() == [1 + number]
        assert cloud.get(f"odd + é/{name}/c/0") == np.array([1 + number]).tobytes()
    store = open_store(cloud, "odd + é")
    keys = [f"{name}/{key}" for name in ODD_NAMES for key in ("c/0", "zarr.json")]
    assert store.list() == sorted([*keys, "zarr.json"])
    for name in ODD_NAMES:
        del group[name]
    assert cloud.list() == ["odd + é/zarr.json"]


def test_listing_and_deletion_span_pages(cloud: Cloud) -> None:
    """Clouds list and delete at most 1000 keys per request."""
    store = open_store(cloud, "many")
    array = tessarr.create_array(store, shape=1200, chunks=1, dtype="u1", compressors=None)
    array[:] = 1
    store.put("other/k", b"1")
    assert len(store.list("c/")) == 1200
    keys, prefixes = store.list_dir("c/")
    assert (len(keys), prefixes) == (1200, [])
    assert store.list_dir("") == (["zarr.json"], ["c/", "other/"])
    store.delete_prefix("c/")
    assert store.list() == ["other/k", "zarr.json"]
    assert array[:].sum() == 0


@pytest.mark.parametrize("size", [0, 1, 20_000_000])
def test_values_of_any_size_round_trip(cloud: Cloud, size: int) -> None:
    """Empty values, and values that are uploaded in parts, arrive complete."""
    value = np.random.default_rng(0).bytes(size)
    store = open_store(cloud)
    store.put("k", value)
    assert store.get("k") == value
    assert cloud.get("k") == value
    assert store.size("k") == size
    opened = store.open_value("k")
    assert opened is not None
    assert opened.read(size // 3, size // 2) == value[size // 3 :][: size // 2]
    assert store.replace("k", b"new", value)
    assert not store.replace("k", b"other", value)
    assert store.replace("k", value[::-1], b"new")
    assert store.get("k") == value[::-1]


def test_large_values_are_uploaded_in_parts(cloud: Cloud) -> None:
    """A value of 20 MB needs three parts, which are under way at the same time."""
    value = bytes(20_000_000)
    store = open_store(cloud)
    cloud.proxy.reset_counts()
    cloud.proxy.delay_s = 0.05
    store.put("k", value)
    writes = [line for line in cloud.proxy.requests if not line.startswith("GET")]
    if cloud.kind == "gs":
        assert len(writes) == 1  # the emulator has no multipart uploads
        return
    assert len(writes) == {"s3": 5, "az": 4}[cloud.kind]
    assert cloud.proxy.max_concurrent == 3


def test_ranges_beyond_end_are_refused(cloud: Cloud) -> None:
    """A truncated shard raises an error instead of reading other bytes."""
    options: dict[str, Any] = {"storage_options": cloud.storage_options}
    data = np.arange(64)
    tessarr.create_array(cloud.url("x"), data=data, chunks=8, shards=64, **options)
    whole = cloud.get("x/c/0")
    assert whole is not None
    array = tessarr.open_array(cloud.url("x"), mode="r", **options)
    for size in (0, 3, 40):
        cloud.put("x/c/0", whole[len(whole) - size :])  # the index alone remains, or less
        with pytest.raises(tessarr.errors.DataError):
            array[3]


def test_keys_of_other_programs_are_ignored(cloud: Cloud) -> None:
    """Folder markers and keys that are no paths do not disturb listings."""
    store = open_store(cloud, "root")
    group = tessarr.create_group(store)
    group.create_array("g/x", data=np.arange(3))
    keys = ["root/g/", "root/h/", "root/"]
    if cloud.kind == "az":  # the other servers make folders of such keys
        keys += ["root//x", "root/g//y"]
    for key in keys:
        cloud.put(key, b"")
    assert store.list() == ["g/x/c/0", "g/x/zarr.json", "g/zarr.json", "zarr.json"]
    assert list(group) == ["g"]
    assert [path for path, _ in group.members(max_depth=None)] == ["g", "g/x"]
    del group["g"]
    assert store.list() == ["zarr.json"]
