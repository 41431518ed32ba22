"""Resolution of store arguments: paths, URLs, mappings and objects."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.store import ForeignStore, LocalStore, MemoryStore, open_store
from tessarr.stores import FsspecStore, SQLiteStore, ZipStore


def test_paths(tmp_path: Path) -> None:
    """A str or a path is a folder; a relative path starts at the current folder."""
    assert open_store(tmp_path) == open_store(str(tmp_path)) == (LocalStore(tmp_path), "")
    assert open_store("some/where")[0] == LocalStore(Path.cwd() / "some/where")
    assert open_store("odd:name#1?")[0] == LocalStore(Path.cwd() / "odd:name#1?")


def test_open_store_creates_nothing(tmp_path: Path) -> None:
    """Opening a store touches no file."""
    store, _ = open_store(tmp_path / "new")
    assert store.list() == []
    assert store.list_dir() == ([], [])
    store.delete("x")
    store.delete_prefix("")
    assert not (tmp_path / "new").exists()


def test_mode_r_makes_store_read_only(tmp_path: Path) -> None:
    """The mode applies only to stores that the call creates."""
    assert open_store(tmp_path, "r")[0].read_only
    assert open_store(tmp_path.as_uri(), "r")[0].read_only
    assert not open_store(tmp_path, "r+")[0].read_only
    memory = MemoryStore()
    assert open_store(memory, "r")[0] is memory


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:///a/b", "/a/b"),
        ("FILE:///a/b/", "/a/b"),
        ("file://localhost/a%20b%2Fc", "/a b/c"),
        ("file:///caf%C3%A9", "/café"),
        ("file:///%E9", "/\udce9"),
    ],
)
def test_file_urls(url: str, path: str) -> None:
    """File URLs are percent-decoded."""
    store, inside = open_store(url)
    assert isinstance(store, LocalStore)
    assert (store.path.rstrip("/"), inside) == (path, "")


def test_memory_urls() -> None:
    """A name identifies one store in the process; the rest of the URL is a path in it."""
    store, path = open_store("memory://test_url")
    store.put("k", b"v")
    again, inside = open_store("memory://test_url/a/b%20c/")
    assert (again, path, inside) == (store, "", "a/b c")
    assert again.get("k") == b"v"


@pytest.mark.parametrize(
    "url",
    [
        "file://host/a",
        "file://a",
        "file:///a?x=1",
        "file:///a#b",
        "memory://",
        "memory:///a",
        "file:///a%00b",
    ],
)
def test_malformed_urls(url: str) -> None:
    """A malformed URL raises an error."""
    with pytest.raises(ArgumentError):
        open_store(url)


@pytest.mark.parametrize("url", ["BLA://host/a", "foo+bar://x", "zip://a::foo+bar://x"])
def test_unknown_schemes_are_named(url: str) -> None:
    """An unknown scheme raises an error and is no folder name."""
    with pytest.raises(UnsupportedError) as caught:
        open_store(url)
    assert (
        caught.value.extension
        == url.rsplit("::", maxsplit=1)[-1].split("://", maxsplit=1)[0].lower()
    )
    assert url in str(caught.value)
    assert caught.value.kind == "unsupported"


@pytest.mark.parametrize(
    ("url", "module", "packages"),
    [
        ("simplecache::s3://bucket/a", "s3fs", "fsspec s3fs"),
        ("simplecache::gs://bucket/a", "gcsfs", "fsspec gcsfs"),
        ("simplecache::s3://bucket/a", "fsspec.core", "fsspec s3fs"),
        ("ftp://host/a", "fsspec.core", "fsspec"),
    ],
)
def test_missing_packages_are_named(
    url: str, module: str, packages: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the package to install."""
    for scheme in ("s3", "gs"):  # fsspec finds modules that are already imported
        known = importlib.import_module("fsspec.registry")._registry
        monkeypatch.delitem(known, scheme, raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UnsupportedError, match=f": pip install {packages}$") as caught:
        open_store(url)
    assert caught.value.kind == "missing_package"


def test_open_store_recognizes_files(tmp_path: Path) -> None:
    """The URL of an SQLite database is absolute or relative, and may include a path inside it."""
    file = tmp_path / "a b.db"
    store = SQLiteStore(file)
    assert open_store(f"sqlite://{tmp_path}/a%20b.db") == (store, "")
    assert open_store("sqlite://some/x.db") == (SQLiteStore("some/x.db"), "")
    assert open_store(f"sqlite://g/x::{file}") == (store, "g/x")
    assert open_store(f"sqlite://g%20/x::{file.as_uri()}") == (store, "g /x")
    assert open_store(f"sqlite://{tmp_path}/x.db", "r")[0].read_only
    for name in ("x.sqlite", "X.SQLITE3"):
        assert open_store(tmp_path / name) == (SQLiteStore(tmp_path / name), "")
    assert open_store(tmp_path / "x.db") == (LocalStore(tmp_path / "x.db"), "")
    assert open_store((tmp_path / "x.sqlite").as_uri()) == (SQLiteStore(tmp_path / "x.sqlite"), "")
    with SQLiteStore(tmp_path / "x.db") as store_:
        store_.put("k", b"v")
    assert open_store(tmp_path / "x.db") == (store_, "")
    (tmp_path / "folder.sqlite").mkdir()
    assert isinstance(open_store(tmp_path / "folder.sqlite")[0], LocalStore)
    (tmp_path / "text.sqlite").write_bytes(b"something else")
    assert isinstance(open_store(tmp_path / "text.sqlite")[0], LocalStore)
    for url in ("sqlite://", "sqlite://a::s3://bucket/x.db"):
        with pytest.raises(ArgumentError):
            open_store(url)


def test_zip_files_by_url(tmp_path: Path) -> None:
    """A URL is absolute or relative, and may be a chain or include a path inside the file."""
    file = tmp_path / "a b.zip"
    with ZipStore(file, mode="w") as store:
        store.update({"packed/zarr.json": b"{}", "packed/g/zarr.json": b"{}"})
    for url, inside in [
        (f"zip://{tmp_path}/a%20b.zip", "packed"),
        (f"zip://packed/g::{file}", "packed/g"),
        (f"zip://packed/g/::{file.as_uri()}", "packed/g"),
    ]:
        opened, path = open_store(url, "r")
        assert isinstance(opened, ZipStore)
        assert (path, opened.path, opened.read_only) == (inside, str(file), True)
        opened.close()
    file.rename(tmp_path / "plain.zip")
    far, path = open_store(f"zip://packed::simplecache::file://{tmp_path}/plain.zip")
    assert isinstance(far, FsspecStore)
    assert far.read_only
    assert (far.get("zarr.json"), far.list()) == (b"{}", ["g/zarr.json", "zarr.json"])


def test_storage_options_of_other_stores_raise(tmp_path: Path) -> None:
    """A store without options rejects all of them."""
    folder = [tmp_path, str(tmp_path), tmp_path.as_uri()]
    stores: list[Any] = [None, {}, *folder, "memory://x", MemoryStore()]
    for store in stores:
        assert open_store(store, storage_options={})
        with pytest.raises(TypeError, match="storage_options"):
            open_store(store, storage_options={"anon": True})
    with pytest.raises(TypeError, match="storage_options"):
        open_store("sqlite://x.db", storage_options={"anon": True})


def test_objects() -> None:
    """None creates a store, a mapping is wrapped, and a store is returned unchanged."""
    assert open_store(None)[0] != open_store(None)[0]
    items: dict[str, bytes] = {}
    assert open_store(items)[0] == ForeignStore(items)
    not_a_store: Any = 3
    with pytest.raises(TypeError, match="int is not a store"):
        open_store(not_a_store)
