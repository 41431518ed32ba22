"""What users give as a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.store import ForeignStore, LocalStore, MemoryStore, open_store


def test_paths(tmp_path: Path) -> None:
    """A str and a path are a folder; a relative one is meant from here and now."""
    assert open_store(tmp_path) == open_store(str(tmp_path)) == (LocalStore(tmp_path), "")
    assert open_store("some/where")[0] == LocalStore(Path.cwd() / "some/where")
    assert open_store("odd:name#1?")[0] == LocalStore(Path.cwd() / "odd:name#1?")


def test_nothing_is_created(tmp_path: Path) -> None:
    """Opening a store touches no file."""
    store, _ = open_store(tmp_path / "new")
    assert store.list() == []
    assert store.list_dir() == ([], [])
    store.delete("x")
    store.delete_prefix("")
    assert not (tmp_path / "new").exists()


def test_mode_r_makes_the_store_read_only(tmp_path: Path) -> None:
    """Only stores that are made here follow the mode."""
    assert open_store(tmp_path, "r")[0].read_only
    assert open_store(tmp_path.as_uri(), "r")[0].read_only
    assert not open_store(tmp_path, "r+")[0].read_only
    given = MemoryStore()
    assert open_store(given, "r")[0] is given


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
    """A name is one store in the process, and what follows is a path in it."""
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
    """What cannot be meant is refused."""
    with pytest.raises(ArgumentError):
        open_store(url)


@pytest.mark.parametrize("url", ["s3://bucket/a", "HTTP://host/a", "gs://b", "foo+bar://x"])
def test_unknown_schemes_are_named(url: str) -> None:
    """A scheme that is not supported is no folder of that name."""
    with pytest.raises(UnsupportedError) as caught:
        open_store(url)
    assert caught.value.extension == url.split("://", maxsplit=1)[0].lower()
    assert url in str(caught.value)


def test_objects() -> None:
    """None is a new store, a mapping is wrapped, a store is itself."""
    assert open_store(None)[0] != open_store(None)[0]
    items: dict[str, bytes] = {}
    assert open_store(items)[0] == ForeignStore(items)
    not_a_store: Any = 3
    with pytest.raises(TypeError, match="int is not a store"):
        open_store(not_a_store)
