"""Consolidated metadata for users: opening in one request, and updates after edits."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import tessarr
from tessarr._engine import decode_json
from tessarr.errors import MetadataError, NotFoundError, TessarrWarning
from tessarr.flow.consolidate import consolidate
from tessarr.flow.open import MARKERS
from tessarr.flow.run import Hold, perform_request
from tessarr.store.wrappers.instrumented import CountingStore
from tessarr.stores import LoggingStore, MemoryStore

GROUP_V3 = {"zarr_format": 3, "node_type": "group"}


@pytest.fixture
def filled(zarr_format: Any) -> MemoryStore:
    store = MemoryStore()
    root = tessarr.create_group(store, zarr_format=zarr_format, attributes={"t": 1})
    root.create_array("a/x", shape=(4, 4), dtype="i4", attributes={"units": "m"})
    root.create_group("a/deep/er", attributes={"n": None})
    root.create_array("top", shape=(2,), dtype="u1")
    return store


@pytest.fixture
def consolidated(filled: MemoryStore) -> MemoryStore:
    tessarr.consolidate_metadata(filled)
    return filled


PATHS = ["a", "a/deep", "a/deep/er", "a/x", "top"]


def holder(zarr_format: int) -> str:
    return "zarr.json" if zarr_format == 3 else ".zmetadata"


def changed(counting: Any, action: Callable[[], Any]) -> dict[str, int]:
    before = counting.counts()
    action()
    return {k: n - before[k] for k, n in counting.counts().items() if n != before[k]}


def look(group: tessarr.Group) -> list[Any]:
    return [
        group.tree(), list(group), len(group), group.members(None), list(group.arrays()),
        group.info, group["a/x"].attrs["units"], group["a"]["deep/er"],
        group["a"].members(None), "a/x" in group, "nope" in group, group.get("a/nope"),
        group.require_group("a"),
    ]  # fmt: skip


@pytest.mark.covers("V2-CONS-03")
@pytest.mark.parametrize("use", [None, True])
def test_consolidated_group_needs_no_request_after_opening(
    consolidated: MemoryStore, zarr_format: Any, use: Any
) -> None:
    store = CountingStore(consolidated)
    opened = changed(store, lambda: tessarr.open_group(store, "r", use_consolidated=use))
    assert sum(opened.values()) <= (1 if zarr_format == 3 else 2 if use else 4), opened
    group = tessarr.open_group(store, "r", use_consolidated=use)
    assert group.consolidated
    assert changed(store, lambda: look(group)) == {}
    assert [path for path, _ in group.members(None)] == PATHS


def test_consolidation_reads_documents_once(filled: MemoryStore, zarr_format: Any) -> None:
    """The group that consolidation returns needs no further request."""
    calls: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: calls.append(record.getMessage().partition(":")[0])
    store = LoggingStore(filled, log_handler=handler)
    group = tessarr.consolidate_metadata(store, zarr_format=zarr_format)
    names = [holder(zarr_format), *(f"{path}/{MARKERS[zarr_format][0]}" for path in ("a/x", "top"))]
    assert [calls.count(f"open {name!r}") for name in names] == [1, 1, 1]
    calls.clear()
    look(group)
    assert calls == []


def test_consolidation_of_group_that_changes_meanwhile_reads_again(filled: MemoryStore) -> None:
    """A change after the group was opened is in the copies and in the document."""
    flow = consolidate("", zarr_format=3 if "zarr.json" in filled else 2)
    request = next(flow)
    root = tessarr.open_group(filled)
    with pytest.raises(StopIteration) as end:
        while True:
            if isinstance(request, Hold):
                root.attrs["t"] = 2
                root["top"].attrs["t"] = 3
            request = flow.send(perform_request(request, filled))
    meta, copies = end.value.value
    top = copies.find("top")
    assert top is not None
    assert (meta.attributes, top.attributes) == ({"t": 2}, {"t": 3})
    assert tessarr.open_consolidated(filled).attrs.asdict() == {"t": 2}


def test_consolidated_group_has_same_nodes(consolidated: MemoryStore) -> None:
    by_copies = tessarr.open(consolidated, "r")
    looked_up = tessarr.open(consolidated, "r", use_consolidated=False)
    assert by_copies.consolidated
    assert not looked_up.consolidated
    assert by_copies.metadata.attributes == {"t": 1}
    assert str(by_copies.tree()) == str(looked_up.tree())
    for (path, node), (other_path, other) in zip(
        by_copies.members(None), looked_up.members(None), strict=True
    ):
        assert path == other_path
        assert node == other
        assert node.metadata == other.metadata
        assert node.read_only


def test_open_group_for_writing_looks_up_members(consolidated: MemoryStore) -> None:
    group = tessarr.open_group(consolidated)
    assert not group.consolidated
    tessarr.open_group(consolidated).create_group("later")
    assert "later" in group


def test_open_consolidated_without_copies_raises(filled: MemoryStore, zarr_format: Any) -> None:
    attempts: list[Any] = [
        lambda: tessarr.open_consolidated(filled),
        lambda: tessarr.open_group(filled, "r", use_consolidated=True),
        lambda: tessarr.open(filled, "r", use_consolidated=True),
        lambda: tessarr.open_consolidated(filled, zarr_format=zarr_format),
        lambda: tessarr.consolidated_differences(filled),
    ]
    for attempt in attempts:
        with pytest.raises(ValueError, match="consolidated") as caught:
            attempt()
        assert caught.value.kind == "consolidated_not_found"  # type: ignore[attr-defined]
    for path in ("nowhere", "top"):
        with pytest.raises(NotFoundError):
            tessarr.open_consolidated(filled, path=path)
        with pytest.raises(NotFoundError):
            tessarr.consolidate_metadata(filled, path=path)
    with pytest.raises(ValueError, match="creates"):
        tessarr.open_group(filled, "w", use_consolidated=True)
    assert not tessarr.open_group(filled, "r").consolidated


EDITS: dict[str, Callable[[Any], Any]] = {
    "attribute of an array": lambda g: g["a/x"].attrs.update(units="km", more=[1]),
    "attribute of a group": lambda g: g["a/deep"].attrs.put({"k": {"l": None}}),
    "attribute of the root": lambda g: g.attrs.update(t=2),
    "resize": lambda g: g["a/x"].resize(9, 3),
    "append": lambda g: g["top"].append([1, 2, 3]),
    "new array": lambda g: g.create_array("b/c/new", shape=1),
    "new group": lambda g: g["a"].create_group("deep/er/est"),
    "overwritten group": lambda g: g.create_array("a", shape=3, overwrite=True),
    "overwritten array": lambda g: g.create_group("a/x", overwrite=True),
    "required": lambda g: g.require_group("p/q"),
    "deletion": lambda g: g.__delitem__("a/deep"),
    "deletion of an array": lambda g: g["a"].__delitem__("x"),
}


@pytest.mark.covers("V2-CONS-04")
@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("use", [False, True])
def test_edit_updates_consolidated_metadata(
    consolidated: MemoryStore, edit: str, use: bool
) -> None:
    """Edits through any handle update it, and the handle's own view, too."""
    group = tessarr.open_group(consolidated, "r+", use_consolidated=use)
    before = consolidated.get(holder(group.zarr_format))
    EDITS[edit](group)
    assert consolidated.get(holder(group.zarr_format)) != before
    assert tessarr.consolidated_differences(consolidated) == {}
    fresh = tessarr.open_group(consolidated, "r", use_consolidated=False)
    assert str(group.tree()) == str(fresh.tree())
    for path, node in fresh.members(None):
        assert group[path].metadata == node.metadata


def test_edits_by_path_keep_all_groups_above_in_step(filled: MemoryStore) -> None:
    tessarr.consolidate_metadata(filled, path="a")
    tessarr.consolidate_metadata(filled)
    tessarr.open_array(filled, path="a/x").attrs["units"] = "mm"
    tessarr.open_group(filled, path="a").create_array("y", shape=1)
    for path in ("a", None):
        assert tessarr.consolidated_differences(filled, path=path) == {}
        group = tessarr.open_consolidated(filled, path=path)
        assert group["/a/x"].attrs["units"] == "mm"
        assert "/a/y" in group


def test_create_failure_leaves_no_copy(zarr_format: Any) -> None:
    class NoChunks(dict[str, bytes]):
        def __setitem__(self, key: str, value: bytes) -> None:
            if key.endswith("0"):
                raise OSError("no space")
            super().__setitem__(key, value)

    items = NoChunks()
    tessarr.create_group(items, zarr_format=zarr_format)
    group = tessarr.consolidate_metadata(items)
    before = items[holder(zarr_format)]
    with pytest.raises(OSError, match="no space"):
        group.create_array("bad", data=[1, 2])
    assert "bad" not in group
    assert items[holder(zarr_format)] == before


def test_consolidated_differences_lists_changes(
    consolidated: MemoryStore, zarr_format: Any
) -> None:
    """The differences show the changes of programs that do not know consolidated metadata."""
    name = "zarr.json" if zarr_format == 3 else ".zarray"
    document = json.loads(bytes(consolidated.get("a/x/" + name) or b""))
    consolidated.put("a/x/" + name, json.dumps({**document, "shape": [5, 4]}).encode())
    consolidated.put("b/" + name, consolidated.get("top/" + name) or b"")
    for key in consolidated.list("top/"):
        consolidated.delete(key)
    result = tessarr.consolidated_differences(consolidated)
    assert result == {"a/x": "changed", "b": "missing", "top": "gone"}
    stale = tessarr.open_group(consolidated, "r")
    assert stale["a/x"].shape == (4, 4)  # type: ignore[union-attr]
    assert tessarr.open_array(consolidated, path="a/x").shape == (5, 4)
    assert "b" not in stale
    fresh = tessarr.consolidate_metadata(consolidated)
    assert tessarr.consolidated_differences(consolidated) == {}
    assert fresh["a/x"].shape == (5, 4)  # type: ignore[union-attr]
    assert list(fresh) == ["a", "b"]


def test_failed_update_of_consolidated_copy_warns(zarr_format: Any) -> None:
    """The edit stays, and readers ignore the copies; without room for a mark, the edit fails."""

    class Full(dict[str, bytes]):
        changes_left = 1000

        def __setitem__(self, key: str, value: bytes) -> None:
            self.changes_left -= key == holder(zarr_format)
            if self.changes_left < 0 and key == holder(zarr_format):
                raise OSError("no space")
            super().__setitem__(key, value)

    items = Full()
    group = tessarr.create_group(items, zarr_format=zarr_format)
    group.create_group("a")
    tessarr.consolidate_metadata(items)
    items.changes_left = 0
    a = tessarr.open_group(items, path="a")
    with pytest.raises(OSError, match="no space") as caught:
        a.attrs["x"] = 1
    assert "call remove_consolidated" in "".join(caught.value.__notes__)
    assert "x" not in tessarr.open_group(items, path="a").attrs
    items.changes_left = 1
    with pytest.warns(TessarrWarning, match="call consolidate_metadata again"):
        a.attrs["x"] = 1
    assert a.attrs["x"] == tessarr.open_group(items, path="a").attrs["x"] == 1
    assert tessarr.consolidated_differences(items) == {"a": "changed"}
    assert not tessarr.open_group(items, "r").consolidated


def test_removal(consolidated: MemoryStore) -> None:
    assert tessarr.remove_consolidated(consolidated)
    assert not tessarr.remove_consolidated(consolidated)
    with pytest.raises(NotFoundError):
        tessarr.open_consolidated(consolidated)
    group = tessarr.open_group(consolidated, "r")
    assert [path for path, _ in group.members(None)] == PATHS
    assert group.attrs["t"] == 1


def test_pickles_keep_copies(consolidated: MemoryStore) -> None:
    group = tessarr.open_consolidated(consolidated)
    group.create_group("new")
    for node in (group, group["a"]):
        again = pickle.loads(pickle.dumps(node))
        assert again.consolidated
        assert [path for path, _ in again.members(None)] == [p for p, _ in node.members(None)]


def test_consolidated_group_looks_up_nodes_outside(consolidated: MemoryStore) -> None:
    tessarr.consolidate_metadata(consolidated, path="a")
    group = tessarr.open_consolidated(consolidated, path="a")
    assert group["/top"].shape == (2,)  # type: ignore[union-attr]
    assert group["/"].attrs["t"] == 1
    assert not group["/"].consolidated  # type: ignore[union-attr]
    assert group["x"] == tessarr.open(consolidated, path="a/x")


def test_consolidated_invalid_member_is_unreadable(
    consolidated: MemoryStore, zarr_format: Any
) -> None:
    key = holder(zarr_format)
    document = json.loads(bytes(consolidated.get(key) or b""))
    copies = (document["consolidated_metadata"] if zarr_format == 3 else document)["metadata"]
    del copies["top" if zarr_format == 3 else "top/.zarray"]["shape"]
    consolidated.put(key, json.dumps(document).encode())
    group = tessarr.open_group(consolidated, "r")
    assert [path for path, _ in group.members(None)] == PATHS
    with pytest.raises(MetadataError, match="'shape' is missing") as caught:
        group["top"]
    assert "consolidated metadata of group '/'" in str(caught.value.__notes__)
    assert "top – unreadable" in str(group.tree())
    assert group["a/x"].shape == (4, 4)  # type: ignore[union-attr]


@pytest.mark.covers("V2-CONS-01", "V3-CONS-01", "V3-CONS-02")
def test_consolidated_document_matches_zarr_python(
    consolidated: MemoryStore, zarr_format: Any
) -> None:
    document = json.loads(bytes(consolidated.get(holder(zarr_format)) or b""))
    if zarr_format == 2:
        assert document["zarr_consolidated_format"] == 1
        assert document["metadata"][".zattrs"] == {"t": 1}
        assert document["metadata"]["a/x/.zarray"]["shape"] == [4, 4]
        return
    inner = document["consolidated_metadata"]
    assert inner["kind"] == "inline"
    assert inner["must_understand"] is False
    assert list(inner["metadata"]) == PATHS
    assert inner["metadata"]["a/x"]["node_type"] == "array"


# Documents of other writers


def of_v2(**metadata: Any) -> MemoryStore:
    document = {"zarr_consolidated_format": 1, "metadata": {".zgroup": {"zarr_format": 2}}}
    document["metadata"] |= {name.replace("__", "/."): value for name, value in metadata.items()}
    return MemoryStore({".zmetadata": json.dumps(document).encode()})


@pytest.mark.covers("V2-CONS-05", "V2-CONS-06")
def test_v2_without_attributes_and_with_members_of_zarr_python_3() -> None:
    extra = {"kind": "inline", "must_understand": False, "metadata": {}}
    store = of_v2(a__zgroup={"zarr_format": 2, "consolidated_metadata": extra})
    group = tessarr.open_consolidated(store)
    assert group["a"].attrs.asdict() == {}
    assert group.attrs.asdict() == {}
    assert list(group["a"]) == []  # type: ignore[arg-type]


@pytest.mark.covers("V2-CONS-02")
@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"{", "not JSON"),
        (b"[]", "not an object"),
        (b'{"metadata": {}}', "zarr_consolidated_format"),
        (b'{"metadata": {}, "zarr_consolidated_format": 2}', "2 is not 1"),
        (b'{"zarr_consolidated_format": 1}', "metadata"),
        (b'{"metadata": [], "zarr_consolidated_format": 1}', r"\[\] is not an object"),
    ],
)
def test_v2_broken(document: bytes, reason: str) -> None:
    """An explicit request raises an error; otherwise a warning says that the copies are ignored."""
    store = MemoryStore({".zgroup": b'{"zarr_format": 2}', ".zmetadata": document})
    with pytest.raises(MetadataError, match=reason):
        tessarr.open_consolidated(store)
    with pytest.warns(TessarrWarning, match=reason):
        assert not tessarr.open_group(store, "r").consolidated
    assert not tessarr.open_group(store).consolidated


@pytest.mark.covers("V2-CONS-02")
def test_consolidated_v2_unknown_entries_warn() -> None:
    group = {"zarr_format": 2}
    store = of_v2(**{"a__zgroup": group, "b__zmeta": {}, "../c__zgroup": group, "d__zattrs": {}})
    with pytest.warns(TessarrWarning, match="'b/.zmeta' is no document"):
        opened = tessarr.open_consolidated(store)
    assert list(opened) == ["a"]


def test_v2_by_another_name() -> None:
    store = of_v2(a__zgroup={"zarr_format": 2})
    store.put("meta/.mine", store.get(".zmetadata") or b"")
    store.delete(".zmetadata")
    opened = tessarr.open_consolidated(store, metadata_key="meta/.mine")
    assert list(opened) == ["a"]
    assert list(tessarr.open(store, "r", use_consolidated="meta/.mine")) == ["a"]


def of_v3(copies: Any) -> MemoryStore:
    document = {**GROUP_V3, "consolidated_metadata": copies}
    return MemoryStore({"zarr.json": json.dumps(document).encode()})


def inline(**metadata: Any) -> dict[str, Any]:
    return {"kind": "inline", "must_understand": False, "metadata": metadata}


@pytest.mark.covers("V3-CONS-04")
def test_consolidated_v3_null_means_absent() -> None:
    store = of_v3(None)
    assert not tessarr.open_group(store, "r").consolidated
    with pytest.raises(NotFoundError):
        tessarr.open_consolidated(store)


@pytest.mark.covers("V3-CONS-01", "V3-CONS-07")
@pytest.mark.parametrize(
    ("copies", "reason"),
    [
        ({"kind": "other", "metadata": {}}, "'other' is not 'inline'"),
        ({"kind": "inline", "must_understand": False}, "'metadata' is missing"),
        ({"kind": "inline", "metadata": []}, "not an object"),
        ({"metadata": {}}, "'kind' is missing"),
    ],
)
def test_v3_of_another_kind(copies: Any, reason: str) -> None:
    store = of_v3(copies)
    with pytest.raises(MetadataError, match=reason):
        tessarr.open_consolidated(store)
    with pytest.warns(TessarrWarning, match=reason):
        assert not tessarr.open_group(store, "r").consolidated
    group = tessarr.open_group(store)
    group.attrs["x"] = 1  # and the invalid copies are unchanged
    assert json.loads(bytes(store.get("zarr.json") or b""))["consolidated_metadata"] == copies


@pytest.mark.covers("V3-CONS-03", "V3-CONS-05")
def test_v3_in_any_order_and_nested() -> None:
    group = {**GROUP_V3, "attributes": {}}
    nested = {**group, "consolidated_metadata": inline(c=group, d=group)}
    store = of_v3(
        inline(**{"a/b/c": {**group, "attributes": {"first": 1}}, "a/b": nested, "a": group})
    )
    opened = tessarr.open_consolidated(store)
    assert [path for path, _ in opened.members(None)] == ["a", "a/b", "a/b/c", "a/b/d"]
    assert opened["a/b/c"].attrs["first"] == 1


@pytest.mark.parametrize("path", ["", "/a", "a/", "../a", "a//b", "...", "a/zarr.json"])
def test_consolidated_v3_invalid_paths_warn(path: str) -> None:
    store = of_v3(inline(**{path: GROUP_V3, "ok": GROUP_V3}))
    with pytest.warns(TessarrWarning, match="is no path"):
        opened = tessarr.open_consolidated(store)
    assert list(opened) == ["ok"]


def test_consolidated_members_below_array_are_ignored() -> None:
    store = MemoryStore()
    tessarr.create_group(store).create_array("a", shape=1)
    document = json.loads(bytes(store.get("a/zarr.json") or b""))
    opened = tessarr.open_consolidated(of_v3(inline(**{"a": document, "a/b": GROUP_V3})))
    assert [path for path, _ in opened.members(None)] == ["a"]


def test_consolidate_v3_nan_outside_of_attributes_raises() -> None:
    """The token would make the group's document unreadable to strict readers."""
    store = MemoryStore()
    array = tessarr.create_group(store).create_array(
        "a", shape=1, dtype="f4", fill_value=float("nan")
    )
    document = bytes(store.get("a/zarr.json") or b"")
    store.put("a/zarr.json", document.replace(b'"NaN"', b"NaN"))
    before = store.get("zarr.json")
    with (
        pytest.raises(MetadataError, match=r"'a/zarr.json'.*NaN"),
        pytest.warns(TessarrWarning, match="NaN"),
    ):
        tessarr.consolidate_metadata(store)
    assert store.get("zarr.json") == before
    assert str(array.fill_value) == "nan"


def test_consolidate_nodes_of_other_format_warns() -> None:
    store = MemoryStore()
    root = tessarr.create_group(store)
    root.create_group("new")
    tessarr.create_group({}, zarr_format=2)
    store.put("old/.zgroup", b'{"zarr_format": 2}')
    with pytest.warns(TessarrWarning, match="'old' among them"):
        assert list(tessarr.consolidate_metadata(store)) == ["new"]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_equal_consolidated_metadata_are_parsed_once(zarr_format: Any) -> None:
    """A second open parses nothing, and a change by one handle stays its own."""
    store: dict[str, bytes] = {}
    root = tessarr.create_group(store, zarr_format=zarr_format)
    for number in range(3):
        root.create_array(f"a{number}", shape=4, dtype="i4", attributes={"long": "x" * 50_000})
    tessarr.consolidate_metadata(store)
    first, second = (tessarr.open_consolidated(store) for _ in range(2))
    assert first["a0"]._meta is second["a0"]._meta
    first.create_array("b", shape=2, dtype="i4")
    assert list(first) == ["a0", "a1", "a2", "b"]
    assert list(second) == ["a0", "a1", "a2"]


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all decoded documents."""
    sizes: list[int] = []

    def decode(document: bytes, max_depth: int) -> Any:
        sizes.append(len(document))
        return decode_json(document, max_depth)

    monkeypatch.setattr("tessarr.format.json.decode_json", decode)
    return sizes


class Recording(dict[str, bytes]):
    """Mapping that records the keys of all writes."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def __setitem__(self, key: str, value: bytes) -> None:
        self.writes.append(key)
        super().__setitem__(key, value)


def many(count: int, zarr_format: Any) -> Recording:
    """Return a hierarchy with consolidated metadata of many nodes."""
    items = Recording()
    nodes = {f"g/n{number}": {"shape": (number,)} for number in range(count)}
    root = tessarr.create_group(items, zarr_format=zarr_format)
    list(root.create_hierarchy(nodes))
    tessarr.consolidate_metadata(items)
    items.writes.clear()
    return items


@pytest.mark.parametrize("edit", ["attribute", "root attribute", "create", "resize", "delete"])
def test_edit_parses_no_copies_and_writes_them_twice(
    edit: str, zarr_format: Any, decoded: list[int]
) -> None:
    """An edit decodes only small documents; it writes a mark, and then the new entry."""
    items = many(50, zarr_format)
    key = holder(zarr_format)
    root: Any = tessarr.open_group(items)
    size = len(items[key])
    decoded.clear()
    actions: dict[str, Callable[[], object]] = {
        "attribute": lambda: root["g/n3"].attrs.update(x=1),
        "root attribute": lambda: root.attrs.update(x=1),
        "create": lambda: root.create_array("g/new", shape=3),
        "resize": lambda: root["g/n3"].resize(10),
        "delete": lambda: root.__delitem__("g/n3"),
    }
    actions[edit]()
    assert decoded
    assert max(decoded) < size / 10
    # The root's own attributes are in the document with the copies of format 3.
    is_own_document = zarr_format == 3 and edit == "root attribute"
    assert items.writes.count(key) == (1 if is_own_document else 2)
    assert tessarr.consolidated_differences(items) == {}


def test_edit_result_equals_new_consolidation(zarr_format: Any) -> None:
    """Edits as text lead to the same document as `consolidate_metadata`."""
    items = many(20, zarr_format)
    root: Any = tessarr.open_group(items)
    root["g/n3"].attrs["é"] = {"x": [], "y": {}}
    root.attrs["x"] = [1]
    root.create_array("g/m", shape=2)
    del root["g/n5"]
    root.create_group("é/a b/c")
    edited = items[holder(zarr_format)]
    tessarr.consolidate_metadata(items)
    assert items[holder(zarr_format)] == edited


def test_content_is_parsed_once_in_process(zarr_format: Any, decoded: list[int]) -> None:
    """Repeated opens parse a document with copies once, also if it is large."""
    items = many(30, zarr_format)
    root = tessarr.open_group(items)
    root.create_array("large", shape=1, attributes={"text": "x" * 3_000_000})
    decoded.clear()
    for _ in range(3):
        copy = {key: bytes(bytearray(value)) for key, value in items.items()}
        assert tessarr.open_group(copy, "r")["g/n3"].shape == (3,)  # type: ignore[union-attr]
        assert tessarr.open_consolidated(copy)["g/n4"].shape == (4,)  # type: ignore[union-attr]
    assert sum(size > 3_000_000 for size in decoded) == 1
