"""Requirements of stores, and the store in a folder; tests/stores has further tests."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tessarr
from tessarr.errors import ArgumentError
from tessarr.stores import ForeignStore, LocalStore, MemoryStore


@pytest.fixture(params=["local", "memory", "mapping"])
def store(request, tmp_path):
    if request.param == "local":
        return LocalStore(tmp_path / "store")
    return MemoryStore() if request.param == "memory" else ForeignStore({})


@pytest.mark.covers("V3-STORE-01")
def test_keys_are_strings_whose_case_counts(store):
    for key in ("a", "A", "é", "a.b", "b/a", "b/A"):
        store.put(key, key.encode())
    for key in ("a", "A", "é", "a.b", "b/a", "b/A"):
        assert store.get(key) == key.encode()
    store.put("a", b"new")
    assert store.get("a") == b"new"
    for key in ("a/", "", "/a", "a//b"):
        with pytest.raises(ArgumentError):
            store.put(key, b"")


@pytest.mark.covers("V3-STORE-02")
def test_absent_value_is_none(store):
    assert store.get("a") is None
    assert store.size("a") is None
    store.put("a", b"123")
    assert store.size("a") == 3
    assert store.get("a/b") is None


@pytest.mark.covers("V3-STORE-03", "V3-STORE-05")
def test_values_are_set_and_erased(store):
    for key in ("a/b", "a/c/d", "ab", "a.b"):
        store.put(key, b"1")
    store.delete("a/b")
    store.delete("a/b")
    store.delete("never")
    assert store.get("a/b") is None
    store.delete_prefix("a/")
    store.delete_prefix("nothing/")
    assert set(store.list("")) == {"ab", "a.b"}


@pytest.mark.covers("V3-STORE-04")
def test_keys_are_listed_by_prefix_and_by_level(store):
    for key in ("a/b", "a/c/d", "a/c/e", "b"):
        store.put(key, b"1")
    assert set(store.list("a/")) == {"a/b", "a/c/d", "a/c/e"}
    assert [sorted(name) for name in store.list_dir("a/")] == [["a/b"], ["a/c/"]]
    assert [sorted(name) for name in store.list_dir("")] == [["b"], ["a/"]]
    assert store.list("none/") == []
    assert tuple(store.list_dir("none/")) == ([], [])


@pytest.mark.covers("V3-FS-01", "V3-FS-02")
def test_key_is_path_below_folder(tmp_path):
    store = LocalStore(tmp_path / "new" / "folder")
    store.put("a/b/c", b"1")
    assert (tmp_path / "new" / "folder" / "a" / "b" / "c").read_bytes() == b"1"
    assert store.list("") == ["a/b/c"]
    assert store.get("a/b") is None
    assert store.size("a") is None


@pytest.mark.covers("V3-FS-03")
def test_only_files_are_keys(tmp_path):
    store = LocalStore(tmp_path)
    (tmp_path / "empty" / "folder").mkdir(parents=True)
    store.put("a/b", b"1")
    assert store.list("") == ["a/b"]
    keys, prefixes = store.list_dir("")
    assert keys == []
    assert "a/" in prefixes


@pytest.mark.covers("V3-FS-04")
def test_urls_and_plain_paths(tmp_path):
    folder = tmp_path / "a b%c"
    array = tessarr.create_array(folder, shape=(2,), data=[1, 2])
    url = "file://" + str(folder).replace("%", "%25").replace(" ", "%20")
    for location in (str(folder), folder, url, url.replace("file:///", "file://localhost/")):
        assert tessarr.open_array(location, mode="r")[...].tolist() == [1, 2]
    assert array.path == ""


@pytest.mark.covers("V3-FS-05")
def test_value_is_replaced_at_once(tmp_path):
    store = LocalStore(tmp_path)
    values = [bytes([i]) * 200_000 for i in (1, 2)]
    store.put("a", values[0])
    done = threading.Event()

    def write():
        for i in range(200):
            store.put("a", values[i % 2])
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    listed = set()
    while not done.is_set():
        assert LocalStore(tmp_path).get("a") in values
        listed |= set(store.list(""))
    writer.join()
    assert listed <= {"a"}


@pytest.mark.covers("V3-FS-05")
def test_temporary_files_are_no_keys(tmp_path):
    store = LocalStore(tmp_path)
    store.put("c/0", b"1")
    (tmp_path / "c" / "0.__lock").write_bytes(b"left behind")
    assert store.list("") == ["c/0"]
    assert store.list_dir("c/") == (["c/0"], [])


@pytest.mark.covers("V3-FS-06")
@pytest.mark.parametrize("key", ["../a", "a/../b", "/etc/passwd", "a\0b", "..", "a/..", "./a"])
def test_no_key_leads_out_of_folder(tmp_path, key):
    store = LocalStore(tmp_path / "inside")
    (tmp_path / "a").write_bytes(b"secret")
    for call in (store.get, store.delete, store.size, lambda key: store.put(key, b"")):
        with pytest.raises(ArgumentError):
            call(key)
    assert (tmp_path / "a").read_bytes() == b"secret"


@pytest.mark.covers("V3-FS-08")
@pytest.mark.parametrize("name", ["a.zarr", "a", "a.zip", "a.n5"])
def test_folder_name_is_ignored(tmp_path, name):
    tessarr.create_array(tmp_path / name, shape=(2,), data=np.arange(2))
    assert tessarr.open_array(tmp_path / name, mode="r")[...].tolist() == [0, 1]
