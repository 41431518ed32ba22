"""Groups for users."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.errors import (
    ArgumentError,
    ExistsError,
    MetadataError,
    NotFoundError,
    ReadOnlyError,
    UnsupportedError,
)
from tessarr.stores import MemoryStore


@pytest.fixture
def group(store: Any, zarr_format: Any) -> tessarr.Group:
    group = tessarr.create_group(store, zarr_format=zarr_format)
    group.create_array("foo/bar/baz", shape=(4,), dtype="i4")
    group.create_array("quux", shape=(2, 2), dtype="f8")
    group.create_group("empty")
    return group


def test_group_is_mapping(group: tessarr.Group) -> None:
    assert list(group) == list(group.keys()) == ["empty", "foo", "quux"]
    assert len(group) == len(group.keys()) == len(group.items()) == 3
    assert isinstance(group, Mapping)
    assert dict(group) == dict(group.items())
    assert "foo" in group.keys()  # noqa: SIM118 (the view is tested)
    assert group.keys() & {"foo", "bar"} == {"foo"}
    assert repr(group.keys()) == "Keys(['empty', 'foo', 'quux'])"
    assert [name for name, _ in group.items()] == list(group)
    assert [type(node) for node in group.values()] == [tessarr.Group, tessarr.Group, tessarr.Array]
    assert list(group.array_keys()) == ["quux"]
    assert list(group.group_keys()) == ["empty", "foo"]
    assert list(group.arrays()) == [("quux", group["quux"])]
    assert list(group.array_values()) == [group["quux"]]
    assert list(group.group_values()) == [group["empty"], group["foo"]]
    assert next(group.groups()) == ("empty", group["empty"])
    assert list(group.array_keys(recurse=True)) == ["foo/bar/baz", "quux"]
    assert list(group.group_keys(recurse=True)) == ["empty", "foo", "foo/bar"]
    assert dict(group.groups(recurse=True))["foo/bar"] == group["foo/bar"]
    assert len(group["empty"]) == 0  # type: ignore[arg-type]
    assert group["empty"]


def test_paths(group: tessarr.Group) -> None:
    baz = group["foo/bar/baz"]
    foo = group["foo"]
    assert isinstance(foo, tessarr.Group)
    assert (baz.name, baz.basename, foo.name) == ("/foo/bar/baz", "baz", "/foo")
    assert foo["bar"]["baz"] == foo["/foo/bar/baz"] == foo["bar/baz/"] == baz  # type: ignore[index]
    assert foo["/"] == group
    assert "foo/bar" in group
    assert "bar" in foo
    assert b"bar" in foo
    assert foo[b"bar"] == foo["bar"]
    assert "nope" not in group
    assert "../x" not in group
    assert 3 not in group


def test_absent_member(group: tessarr.Group) -> None:
    with pytest.raises(KeyError, match="nope") as caught:
        group["nope"]
    assert isinstance(caught.value, NotFoundError)
    assert group.get("nope") is None
    assert group.get("nope", 5) == 5
    with pytest.raises(KeyError):
        del group["nope"]


@pytest.mark.parametrize("name", ["a/../b", "..", "a\0b"])
def test_group_invalid_names_raise(group: tessarr.Group, name: str) -> None:
    with pytest.raises(ArgumentError):
        group.create_group(name)
    with pytest.raises(ArgumentError):
        group[name]


def test_deleting(group: tessarr.Group) -> None:
    del group["foo/bar"]
    assert list(group["foo"]) == []
    del group["quux"]
    assert list(group) == ["empty", "foo"]
    with pytest.raises(ArgumentError):
        del group["/"]


def test_members_and_tree(group: tessarr.Group) -> None:
    assert [name for name, _ in group.members()] == ["empty", "foo", "quux"]
    paths = ["empty", "foo", "foo/bar", "foo/bar/baz", "quux"]
    assert [name for name, _ in group.members(max_depth=None)] == paths
    assert [node.path for _, node in group.members(None)] == paths
    assert [name for name, _ in group.members(1)] == ["empty", "foo", "foo/bar", "quux"]
    assert str(group.tree()) == (
        "/\n├── empty\n├── foo\n│   └── bar\n│       └── baz (4,) int32\n└── quux (2, 2) float64"
    )
    assert str(group.tree(level=1)) == "/\n├── empty\n├── foo\n└── quux (2, 2) float64"
    assert str(group.tree(level=0)) == "/"
    assert (group.nmembers(), group.nmembers(None)) == (3, 5)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_explicit_format_creates_group_beside_group_of_other_format(zarr_format: Any) -> None:
    store: dict[str, bytes] = {}
    other = tessarr.create_group(store, zarr_format=5 - zarr_format, attributes={"a": 1})
    other.create_group("b")
    group = tessarr.group(store, zarr_format=zarr_format)
    assert (group.zarr_format, dict(group.attrs)) == (zarr_format, {})
    assert dict(tessarr.open_group(store, zarr_format=5 - zarr_format).attrs) == {"a": 1}
    member = other.create_group("b", zarr_format=zarr_format)
    assert (member.path, member.zarr_format) == ("b", zarr_format)
    with pytest.raises(ExistsError):
        tessarr.create_group(store, zarr_format=zarr_format)
    with pytest.raises(ExistsError):
        other.create_group("b", zarr_format=zarr_format)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_explicit_format_does_not_hide_array_of_other_format(zarr_format: Any) -> None:
    store: dict[str, bytes] = {}
    tessarr.create_array(store, shape=3, zarr_format=5 - zarr_format)
    with pytest.raises(ExistsError):
        tessarr.create_group(store, zarr_format=zarr_format)


def test_create_group_existing_raises(group: tessarr.Group) -> None:
    for create in (group.create_group, lambda name: group.create_array(name, shape=1)):
        with pytest.raises(ExistsError):
            create("foo")
    with pytest.raises(ExistsError, match="is an array"):
        group.create_group("quux/x")
    a = group.create_array("foo", shape=1, overwrite=True)
    assert group["foo"] == a
    assert not any(key.startswith("foo/bar") for key in group.store.list(""))


def test_requiring(group: tessarr.Group) -> None:
    assert group.require_group("foo") == group["foo"]
    assert group.require_group("new/er") == group["new/er"]
    with pytest.raises(NotFoundError):
        group.require_group("quux")
    assert group.require_array("quux", shape=(2, 2), dtype="f8") == group["quux"]
    assert group.require_array("quux", shape=(2, 2), dtype="f4") == group["quux"]
    assert group.require_array("more", shape=3, dtype="u1").shape == (3,)
    for settings, message in (
        ({"shape": (2,)}, "shapes do not match"),
        ({"shape": (2, 2), "dtype": "c16"}, "dtypes cannot be safely cast"),
        ({"shape": (2, 2), "dtype": "f4", "exact": True}, "dtypes do not match exactly"),
    ):
        for require in (group.require_array, group.require_dataset):
            with pytest.raises(TypeError, match=message):
                require("quux", **settings)  # type: ignore[arg-type]
    with pytest.raises(NotFoundError):
        group.require_array("foo", shape=1)


def test_new_members_have_format_of_group(group: tessarr.Group) -> None:
    assert group["foo/bar/baz"].zarr_format == group.zarr_format
    with pytest.raises(ArgumentError):
        group.create_array("x", shape=1, zarr_format=5 - group.zarr_format)
    with pytest.raises(TypeError, match="surprise"):
        group.create_array("x", shape=1, surprise=True)
    assert "x" not in group


def test_array_from_data(group: tessarr.Group) -> None:
    a = group.create_array("data", data=np.arange(6).reshape(2, 3), attributes={"k": 1})
    assert a[1].tolist() == [3, 4, 5]
    assert dict(a.attrs) == {"k": 1}


def test_equality_repr_pickle(group: tessarr.Group, store: Any) -> None:
    assert group == tessarr.open_group(store)
    assert hash(group) == hash(tessarr.open_group(store))
    assert group["foo"] != group
    assert repr(group["foo"]) == f"Group(/foo, zarr_format={group.zarr_format})"
    again = pickle.loads(pickle.dumps(group))
    assert again == group or isinstance(store, MemoryStore)
    assert list(again) == list(group)


def test_reading_only(group: tessarr.Group, store: Any) -> None:
    only = tessarr.open_group(store, "r")
    before = store.list("")
    attempts: list[Any] = [
        lambda: only.create_group("x"),
        lambda: only.create_array("x", shape=1),
        lambda: only.require_group("x"),
        lambda: only.__delitem__("foo"),
        lambda: only.attrs.put({}),
        lambda: only["quux"].__setitem__(0, 1),  # type: ignore[union-attr]
    ]
    for attempt in attempts:
        with pytest.raises(ReadOnlyError):
            attempt()
    assert store.list("") == before
    assert all(node.read_only for _, node in only.members(None))


def test_group_in_mapping() -> None:
    items: dict[str, bytes] = {}
    g = tessarr.open_group(items)
    g.create_array("a", shape=4, dtype="u1", chunks=2)[:] = [1, 2, 3, 4]
    assert sorted(items) == ["a/c/0", "a/c/1", "a/zarr.json", "zarr.json"]
    assert tessarr.open(items, "r")["a"][2] == 3


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_invalid_member_is_listed_and_can_be_deleted(zarr_format: Any) -> None:
    store = MemoryStore()
    group = tessarr.create_group(store, zarr_format=zarr_format)
    store.put("bad/zarr.json" if zarr_format == 3 else "bad/.zarray", b"{")
    assert list(group) == ["bad"]
    assert "bad" in group
    with pytest.raises(MetadataError):
        group["bad"]
    del group["bad"]
    assert "bad" not in group
    assert list(group) == []


@pytest.mark.parametrize("dtype", [str, "string", bytes, np.dtypes.StringDType(), "int4", "M8[s]"])
def test_require_array_twice_returns_array(dtype):
    root = tessarr.create_group(None)
    created = root.require_array("a", shape=3, dtype=dtype)
    assert root.require_array("a", shape=3, dtype=dtype, exact=True).dtype == created.dtype
    with pytest.raises(TypeError, match="has data type"):
        root.require_array("a", shape=3, dtype="c16")


def test_pickled_array_hides_no_other_member(store: Any) -> None:
    """Every walk lists it as an `Unreadable`, which raises its error on use."""
    group = tessarr.create_group(store, zarr_format=2)
    group.create_array("a", data=[1, 2])
    with tessarr.options(allow_pickle=True):
        pickled = np.array(["x", None], object)
        group.create_array("b", data=pickled, object_codec=tessarr.codecs.Pickle())
    group.create_array("c/d", data=[3])
    opened = tessarr.open_group(store, "r")
    for names in (
        [name for name, _ in opened.members()],
        [name for name, _ in opened.items()],
        [node.basename for node in opened.values()],
    ):
        assert names == ["a", "b", "c"]
    visited: list[str] = []
    opened.visititems(lambda path, _: visited.append(path))
    assert visited == ["a", "b", "c", "c/d"]
    assert [name for name, _ in opened.arrays(recurse=True)] == ["a", "c/d"]
    assert list(opened.array_keys(recurse=True)) == ["a", "c/d"]
    assert [array.path for array in opened.array_values()] == ["a"]
    assert [name for name, _ in opened.groups()] == ["c"]
    assert (opened.info.arrays, opened.info.unreadable) == (("a",), ("b",))
    assert opened.tree().unreadable == ("b",)
    bad: Any = dict(opened.members())["b"]
    assert isinstance(bad, tessarr.Unreadable)
    for use in (lambda: bad.shape, lambda: bad[0], lambda: opened["b"]):
        with pytest.raises(UnsupportedError, match="is pickled"):
            use()
    with tessarr.options(allow_pickle=True):
        assert dict(opened.items())["b"][0] == "x"
        assert list(opened.array_keys()) == [name for name, _ in opened.arrays()] == ["a", "b"]
        assert opened.tree().unreadable == ()


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_missing_group_error_names_nodes_below(zarr_format: Any, store: Any) -> None:
    """A folder of arrays without a group document is no group."""
    for name in ("x", "y"):
        tessarr.create_array(store, path=f"top/{name}", shape=2, zarr_format=zarr_format)
    tessarr.create_array(store, path="deep/er/z", shape=2, zarr_format=zarr_format)
    for document in (".zgroup", ".zattrs", "zarr.json"):
        for folder in ("", "top/", "deep/", "deep/er/"):
            store.delete(folder + document)
    below = r"at path 'top' .*; below it lie nodes: 'x', 'y'; open one of them"
    for open_ in (tessarr.open, tessarr.open_group, tessarr.open_array):
        with pytest.raises(NotFoundError, match=below):
            open_(store, "r", path="top")
    with pytest.raises(NotFoundError, match="below it lie nodes: 'er/z'"):
        tessarr.open(store, "r", path="deep")
    with pytest.raises(NotFoundError, match="below it lie nodes: 'top/x', 'top/y'"):
        tessarr.open(store, "r")
    root = tessarr.create_group(store, zarr_format=zarr_format)
    with pytest.raises(NotFoundError, match=r"no array or group 'top' .*below it lie nodes: 'x'"):
        root["top"]
    with pytest.raises(NotFoundError, match=r"in group '/'$"):
        root["none"]
    assert not hasattr(root, "top")


def test_missing_group_error_names_some_of_many_nodes_below(tmp_path: Path) -> None:
    for i in range(20):
        tessarr.create_array(tmp_path / f"a{i:02}", shape=1)
    with pytest.raises(NotFoundError, match="'a06', 'a07' and 12 more; open"):
        tessarr.open_group(tmp_path, "r")
    with pytest.raises(NotFoundError, match=r"LocalStore\('.*read_only=True\)$"):
        tessarr.open_group(tmp_path / "a00", "r", zarr_format=2)


def test_missing_node_error_without_listing_has_no_hint() -> None:
    """A failing hint must not replace the error."""

    class Far(dict[str, bytes]):
        def __iter__(self) -> Any:
            raise OSError("cannot list")

    with pytest.raises(NotFoundError, match="there is no array or group at the root"):
        tessarr.open(Far(), "r")
