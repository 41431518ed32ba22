"""Uses of groups by users of h5py and of zarr-python."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from stores.failing import Failing
from tessarr.errors import ArgumentError, ExistsError, NotFoundError, ReadOnlyError, StoreError
from tessarr.store.wrappers.instrumented import CountingStore
from tessarr.stores import LocalStore, MemoryStore


@pytest.fixture
def root(store: Any, zarr_format: Any) -> tessarr.Group:
    root = tessarr.create_group(store, zarr_format=zarr_format, attributes={"title": "t"})
    root.create_group("foo/bar").array("baz", np.arange(6).reshape(2, 3), chunks=(1, 3))
    root.zeros("quux", shape=3, dtype="u1")
    return root


def test_direct_construction(root: tessarr.Group, store: Any) -> None:
    again = tessarr.Group(store)
    assert again == root
    assert again.attrs["title"] == "t"
    assert (
        tessarr.Group(store, "/foo/bar") == tessarr.Group(store, path="foo/bar") == root["foo/bar"]
    )
    only = tessarr.Group(store, read_only=True)
    with pytest.raises(ReadOnlyError):
        only["foo"].create_group("x")
    for path in ("quux", "nope"):
        with pytest.raises(NotFoundError):
            tessarr.Group(store, path)
    with pytest.raises(NotFoundError):
        tessarr.Group(store, zarr_format=5 - root.zarr_format)


def test_chunks_in_another_store(zarr_format: Any) -> None:
    documents: dict[str, bytes] = {}
    chunks: dict[str, bytes] = {}
    tessarr.create_group(documents, zarr_format=zarr_format)
    group = tessarr.Group(documents, chunk_store=chunks)
    group.create_group("a").array("b", [1, 2, 3])
    assert group.store is documents
    assert group.chunk_store is chunks
    assert len(chunks) == 1
    assert tessarr.Group(documents, None, True, chunks)["a/b"][:].tolist() == [1, 2, 3]
    assert tessarr.Group(documents)["a/b"][:].tolist() == [0, 0, 0]
    group.move("a", "c")
    assert group["c/b"][:].tolist() == [1, 2, 3]
    assert all(key.startswith("c/b/") for key in chunks)


def test_group_synchronizer_applies_to_members(store: Any) -> None:
    guard = tessarr.ThreadSynchronizer()
    tessarr.create_group(store).create_group("a").zeros("b", shape=2)
    for group in (
        tessarr.Group(store, synchronizer=guard),
        tessarr.open_group(store, synchronizer=guard),
        tessarr.group(store, synchronizer=guard),
    ):
        assert group.synchronizer is guard
        assert group["a"].synchronizer is guard
        assert group["a/b"].synchronizer is guard
        assert {node.synchronizer for _, node in group.members(None)} == {guard}
        assert group.zeros("new", shape=1, overwrite=True).synchronizer is guard
        assert group.zeros("new", shape=1, overwrite=True, synchronizer=None).synchronizer is None
    assert pickle.loads(pickle.dumps(group)).synchronizer is guard
    assert str(group.info).endswith("; synchronizer: ThreadSynchronizer")


def test_cache_attrs_false_reads_attributes_again(store: Any, zarr_format: Any) -> None:
    root = tessarr.create_group(store, zarr_format=zarr_format)
    follows, keeps = tessarr.Group(store, cache_attrs=False), tessarr.Group(store)
    root.attrs["k"] = 1
    assert follows.attrs.asdict() == {"k": 1}
    assert keeps.attrs.asdict() == {}


def test_info(root: tessarr.Group) -> None:
    root.create_group("empty")
    kind = type(root.store).__name__
    assert str(root.info) == (
        f"Group(/, 3)\n  arrays: 1; quux\n  groups: 2; empty, foo\n  store: {kind}"
    )
    assert str(root["empty"].info) == f"Group(/empty, 0)\n  store: {kind}"
    items = dict(root.info_items())
    assert items["No. members"] == "3"
    assert (items["Arrays"], items["Groups"], items["Store type"]) == ("quux", "empty, foo", kind)
    assert "<td" in root.info._repr_html_()
    assert str(root.info_complete()) == str(root.info)
    for i in range(30):
        root.create_group(f"group{i:02}")
    assert max(len(line) for line in str(root.info).splitlines()) <= 80


def test_attribute_access(root: tessarr.Group) -> None:
    assert root.foo.bar.baz == root["foo/bar/baz"]
    assert {"foo", "quux", "create_group"} <= set(dir(root))
    with pytest.raises(AttributeError, match="nope"):
        _ = root.nope
    assert not hasattr(root, "nope")
    assert root._ipython_key_completions_() == ["foo", "quux"]


def test_getattr_of_private_names_costs_no_request(store: Any) -> None:
    counted = CountingStore(store)
    group = tessarr.create_group(counted)
    before = counted.counts()
    for name in ("__array__", "_repr_mimebundle_", "_ipython_canary_method_should_not_exist_"):
        assert not hasattr(group, name)
    assert counted.counts() == before


def test_require_and_create_several(root: tessarr.Group) -> None:
    assert root.create_groups("a", "b/c") == (root["a"], root["b/c"])
    assert root.require_groups("a", "d") == (root["a"], root["d"])
    with pytest.raises(ExistsError):
        root.create_groups("e", "a")
    assert root.create_groups("a", "e", overwrite=True) == (root["a"], root["e"])
    root["a"].create_group("below")
    assert list(root.require_group("a", overwrite=True)) == []


def test_group_creates_arrays_by_all_method_names(root: tessarr.Group) -> None:
    created = {
        "e": root.empty("e", shape=2),
        "z": root.zeros("z", shape=2),
        "o": root.ones(name="o", shape=(2,)),
        "f": root.full("f", fill_value=7, shape=2, dtype="i4"),
        "a": root.array("a", [1, 2]),
        "c": root.create("c", shape=2, dtype="u1"),
        "d": root.create_dataset("d", (2,), "f4"),
        "r": root.require_dataset("r", shape=2, dtype="f4"),
    }
    assert all(root[name] == array for name, array in created.items())
    assert created["z"][:].tolist() == [0, 0]
    assert created["o"][:].tolist() == [1, 1]
    assert created["f"][:].tolist() == [7, 7]
    assert created["a"][:].tolist() == [1, 2]
    assert (created["c"].dtype, created["d"].dtype) == (np.dtype("u1"), np.dtype("f4"))
    assert {array.zarr_format for array in created.values()} == {root.zarr_format}


def test_group_creates_like_arrays(root: tessarr.Group) -> None:
    source = tessarr.full((4, 6), 5, dtype="i2", chunks=(2, 3), zarr_format=root.zarr_format)
    for name, fill in (("empty", 0), ("zeros", 0), ("ones", 1), ("full", 5)):
        created = getattr(root, f"{name}_like")(name, source)
        assert root[name] == created
        assert (created.shape, created.dtype, created.chunks) == ((4, 6), np.int16, (2, 3))
        assert created.compressors == source.compressors
        assert np.unique(created[:]).tolist() == [fill]
    assert root.full_like("seven", source, 7, chunks=(4, 6)).chunks == (4, 6)
    assert root.full_like("eight", [1, 2, 3], fill_value=8)[:].tolist() == [8, 8, 8]
    assert root.create_dataset_like("d", source, dtype="f8").dtype == np.float64
    other = tessarr.ones((4, 6), chunks=(2, 3), zarr_format=5 - root.zarr_format)
    assert root.zeros_like("other", other).zarr_format == root.zarr_format


def test_setitem_copies_array_with_settings(root: tessarr.Group) -> None:
    source = root.create_array(
        "source", data=["a", "bc", ""], dtype=str, chunks=2, attributes={"k": 1}
    )
    root["target"] = source
    target = root.get_array("target")
    assert target.metadata == source.metadata
    assert target.attrs["k"] == 1
    assert target[:].tolist() == ["a", "bc", ""]


def test_assignment(root: tessarr.Group) -> None:
    root["x"] = [1, 2, 3]
    root["deep/er"] = np.ones((2, 2))
    root["foo"] = 5  # replaces a group and all its members
    assert root["x"][:].tolist() == [1, 2, 3]
    assert root["deep/er"].shape == (2, 2)
    assert root["foo"][()] == 5
    assert "foo/bar" not in root
    root.update({"x": [4]}, y=[5])
    assert (root["x"][:].tolist(), root["y"][:].tolist()) == ([4], [5])
    assert root.setdefault("x", [6]) == root["x"]
    assert root.setdefault("w", [7])[:].tolist() == [7]  # type: ignore[index]
    with pytest.raises(TypeError, match="copy"):
        root["z"] = root["deep"]
    root["copied"] = root["deep/er"]
    assert root["copied"][:].tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize("target", ["foo/bar/baz", "foo/bar", "foo", "foo/bar/baz/"])
def test_setitem_of_array_onto_itself_keeps_values(root: tessarr.Group, target: str) -> None:
    """An assignment over a group above the array also keeps its values."""
    root[target] = root["foo/bar/baz"]
    np.testing.assert_array_equal(root.get_array(target)[:], np.arange(6).reshape(2, 3))


def test_create_group_in_place_of_itself_raises(root: tessarr.Group) -> None:
    before = stored(root)
    foo = root.get_group("foo")
    changes: list[Any] = [
        lambda: root.__setitem__("/", 5),
        lambda: root.create_group("", overwrite=True),
        lambda: foo.__setitem__("/foo", 5),
        lambda: foo.create_array("/", shape=1, overwrite=True),
        lambda: foo.require_group("/foo", overwrite=True),
    ]
    for change in changes:
        with pytest.raises(ExistsError, match="itself"):
            change()
    assert stored(root) == before


def test_nodes_are_accepted_as_stores(root: tessarr.Group) -> None:
    """Parameters for stores also accept groups and arrays of Tessarr."""
    foo = root["foo"]
    assert tessarr.open(foo) == foo
    assert tessarr.open(foo, path="bar/baz") == root["foo/bar/baz"]
    assert tessarr.open_array(root["quux"], "r") == root["quux"]
    assert tessarr.Group(foo, "bar") == root["foo/bar"]
    created = tessarr.create_array(foo, path="new", shape=1, zarr_format=root.zarr_format)
    assert created == root["foo/new"]
    assert tessarr.open_group(foo, "r").read_only


def test_constructors_of_zarr_python_3(store: Any, zarr_format: Any) -> None:
    created = tessarr.Group.from_store(store, attributes={"k": 1}, zarr_format=zarr_format)
    assert created.attrs.asdict() == {"k": 1}
    assert tessarr.Group.open(store) == created
    with pytest.raises(ExistsError):
        tessarr.Group.from_store(store)
    assert tessarr.Group.from_store(store, overwrite=True).attrs.asdict() == {}
    with pytest.raises(NotFoundError):
        tessarr.Group.open({}, zarr_format=zarr_format)


def test_get_with_getclass_matches_h5py(root: tessarr.Group) -> None:
    assert root.get("quux", getclass=True) is tessarr.Array
    assert root.get("foo", getclass=True) is tessarr.Group
    assert root.get("nope", getclass=True) is None
    assert root.get_array("foo/bar/baz") == root["foo/bar/baz"]
    assert root.get_group("foo") == root["foo"]
    with pytest.raises(NotFoundError, match="but a group"):
        root.get_array("foo")
    with pytest.raises(NotFoundError, match="but an array"):
        root.get_group("quux")


def test_parent_and_file(root: tessarr.Group) -> None:
    bar = root["foo/bar"]
    assert isinstance(bar, tessarr.Group)
    assert bar.parent == root["foo"]
    assert bar.parent.parent == bar.file == root.file == root.parent == root


def test_visiting(root: tessarr.Group) -> None:
    seen: list[Any] = []
    assert root.visit(seen.append) is None
    assert seen == ["foo", "foo/bar", "foo/bar/baz", "quux"]
    seen.clear()
    root["foo"].visitkeys(seen.append)  # type: ignore[union-attr]
    assert seen == ["bar", "bar/baz"]
    seen.clear()
    root.visitvalues(seen.append)
    assert [node.path for node in seen] == ["foo", "foo/bar", "foo/bar/baz", "quux"]
    assert (
        root.visititems(lambda path, node: node if path.endswith("z") else None)
        == (root["foo/bar/baz"])
    )


def test_with(root: tessarr.Group, store: Any) -> None:
    with tessarr.open_group(store) as opened, opened.create_group("new") as new:
        new.zeros("a", shape=1)
    assert "new/a" in root


class Closing(dict[str, bytes]):
    """A mapping that the user must close."""

    closed = False

    def close(self) -> None:
        self.closed = True


def test_with_statement_closes_store() -> None:
    store = Closing()
    with tessarr.open_group(store):
        assert not store.closed
    assert store.closed
    store.closed = False
    with tessarr.open_array(store, path="a", shape=1):
        pass
    assert store.closed


@pytest.fixture(params=["memory", "local", "mapping"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    created = {"memory": MemoryStore, "local": lambda: tmp_path / "store", "mapping": dict}
    return created[request.param]()


def stored(group: tessarr.Group) -> dict[str, bytes | None]:
    store = group._store
    return {key: store.get(key) for key in store.list("")}


def test_moving(any_store: Any, zarr_format: Any) -> None:
    """All members move to the new path with the same bytes, and all other nodes are unchanged."""
    root = tessarr.create_group(any_store, zarr_format=zarr_format)
    root.create_group("foo/bar", attributes={"k": 1}).array("baz", np.arange(6), chunks=2)
    root.zeros("quux", shape=3)
    before = stored(root)
    root.move("foo/bar", "new/er")
    after = stored(root)
    old = {key: value for key, value in before.items() if key.startswith("foo/bar/")}
    renamed = {key.replace("foo/bar/", "new/er/"): value for key, value in old.items()}
    parents = {key for key in after if key.startswith("new/") and key.count("/") == 1}
    assert {key: after[key] for key in after.keys() - parents} == {
        key: value for key, value in {**before, **renamed}.items() if key not in old
    }
    assert list(root) == ["foo", "new", "quux"]
    assert root["new/er/baz"][:].tolist() == list(range(6))
    assert root["new/er"].attrs["k"] == 1
    root["new"].move("er/baz", "/top")  # type: ignore[union-attr]
    assert root["top"][:].tolist() == list(range(6))
    assert list(root["new/er"]) == []


def test_move_invalid_source_or_target_raises(root: tessarr.Group) -> None:
    before = stored(root)
    for source, dest, error in (
        ("nope", "x", NotFoundError),
        ("foo", "quux", ExistsError),
        ("foo", "foo", ExistsError),
        ("foo", "quux/x", ExistsError),
        ("foo", "foo/x", ArgumentError),
        ("/", "x", ArgumentError),
        ("foo", "..", ArgumentError),
    ):
        with pytest.raises(error):
            root.move(source, dest)
        assert stored(root) == before
    with pytest.raises(ReadOnlyError):
        tessarr.Group(root.store, read_only=True).move("foo", "x")


def test_move_onto_leftover_chunks_raises(root: tessarr.Group) -> None:
    root._store.put("new/0", b"stray")
    with pytest.raises(ExistsError, match="already holds keys"):
        root.move("quux", "new")
    assert "quux" in root


def test_move_failure_changes_nothing(zarr_format: Any) -> None:
    items = Failing()
    root = tessarr.create_group(items, zarr_format=zarr_format)
    root.create_group("foo").array("a", np.arange(8), chunks=2)
    before = dict(items)
    steps = 0
    while True:
        items.changes_left = steps
        try:
            root.move("foo", "bar")
            break
        except StoreError:
            assert dict(items) == before
            steps += 1
    assert steps > 5
    assert root["bar/a"][:].tolist() == list(range(8))
    assert "foo" not in root


def test_moving_keeps_consolidated_metadata_in_step(store: Any, zarr_format: Any) -> None:
    root = tessarr.create_group(store, zarr_format=zarr_format)
    root.create_group("foo/bar").zeros("a", shape=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        group = tessarr.consolidate_metadata(store)
        group.move("foo", "new/er")
        assert tessarr.consolidated_differences(store) == {}
    assert [path for path, _ in group.members(None)] == [
        "new",
        "new/er",
        "new/er/bar",
        "new/er/bar/a",
    ]


def test_refresh(store: Any, zarr_format: Any) -> None:
    root = tessarr.create_group(store, zarr_format=zarr_format)
    root.create_group("a")
    tessarr.consolidate_metadata(store)
    group = tessarr.open_consolidated(store)
    below = group["a"]
    tessarr.open_group(store, use_consolidated=False)["a"].attrs["k"] = 1
    root.create_group("b")
    assert list(group) == ["a"]
    group.refresh()
    assert list(group) == ["a", "b"]
    assert group["a"].attrs["k"] == 1
    below.refresh()
    assert below.attrs["k"] == 1
    del root["a"]
    with pytest.raises(NotFoundError):
        below.refresh()


def test_members_bypass_consolidated_metadata(store: Any) -> None:
    tessarr.create_group(store)
    tessarr.consolidate_metadata(store)
    group = tessarr.open_consolidated(store)
    tessarr.open_group(store).create_group("b")
    assert group.members() == ()
    result = group.members(use_consolidated_for_children=False)
    assert [name for name, _ in result] == ["b"]


def test_pickled_group_keeps_runtime_settings(tmp_path: Path) -> None:
    group = tessarr.create_group(LocalStore(tmp_path))
    only = pickle.loads(pickle.dumps(tessarr.Group(group.store, read_only=True)))
    assert only == group
    assert only.read_only


def test_tree_for_notebooks(root: tessarr.Group) -> None:
    """Groups fold; names are text, not HTML."""
    root.create_group("<b>")
    html = root.tree()._repr_html_()
    assert html.count("<details") == html.count("</details>") == 3
    assert html.count("<ul>") == html.count("</ul>")
    assert html.count("<li>") == html.count("</li>") == 5
    assert "&lt;b&gt;" in html
    assert html.count("<details open>") == 1
    assert root.tree(expand=True)._repr_html_().count("<details open>") == 3


def test_notebooks_show_members_of_group(root: tessarr.Group) -> None:
    """Deeper nodes, which may be many, appear only in `tree`."""
    html = root._repr_html_()
    assert "foo" in html
    assert "bar" not in html


def test_tree_with_max_nodes_is_truncated(root: tessarr.Group) -> None:
    drawing = root.tree(max_nodes=2)
    assert str(drawing) == ("/\n├── foo\n│   └── bar\n… and 2 more: tree(max_nodes=None) shows all")
    html = drawing._repr_html_()
    assert "… and 2 more" in html
    assert html.count("<details") == html.count("</details>")
    assert html.count("<li>") == html.count("</li>") == 2
