"""Format 3: groups, names and paths."""

from __future__ import annotations

import json
import unicodedata

import pytest

import tessarr
from conformance.sample_stores import V2, V3, chunk_keys, document, expect_defect, expect_refusal
from tessarr import stores
from tessarr.errors import ArgumentError, ExistsError, NotFoundError, TessarrWarning

GROUP = b'{"zarr_format": 3, "node_type": "group"}'


@pytest.mark.covers("V3-GRP-01")
def test_group_has_format_type_and_maybe_attributes():
    group = tessarr.open_group(stores.MemoryStore({"zarr.json": GROUP}), mode="r")
    assert (group.zarr_format, dict(group.attrs)) == (3, {})
    new = tessarr.create_group(None, attributes={"a": 1})
    assert json.loads(new.store.get("zarr.json")) == {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": {"a": 1},
    }


@pytest.mark.covers("V3-GRP-01", "V3-META-04", "V3-META-07")
@pytest.mark.parametrize(
    ("text", "loc"),
    [
        (b'{"zarr_format": 3, "node_type": "Group"}', "/node_type"),
        (b'{"zarr_format": 2, "node_type": "group"}', "/zarr_format"),
        (b'{"zarr_format": 3}', ""),
        (b'{"node_type": "group"}', ""),
        (b'{"zarr_format": 3, "node_type": "group", "attributes": []}', "/attributes"),
        (b'{"zarr_format": 3, "node_type": "group", "shape": [1]}', "/shape"),
    ],
)
def test_invalid_group_document_is_refused(text, loc):
    assert [problem.loc for problem in expect_refusal({"zarr.json": text}).problems] == [loc]


@pytest.mark.covers("V3-GRP-02")
def test_no_document_means_no_node():
    store = stores.MemoryStore({"zarr.json": GROUP, "a/b/zarr.json": GROUP, "c/c/0/0": b""})
    group = tessarr.open_group(store, mode="r")
    assert list(group) == []
    for path in ("a", "c"):
        assert path not in group
        with pytest.raises(NotFoundError):
            tessarr.open(store, mode="r", path=path)
    assert tessarr.open_group(store, mode="r", path="a/b") == group["a/b"]


@pytest.mark.covers("V3-GRP-03")
def test_creating_node_creates_groups_above_it():
    store = stores.MemoryStore()
    tessarr.create_array(store, path="a/b/c", shape=(2,), dtype="u1")
    assert set(store.list("")) == {
        "zarr.json",
        "a/zarr.json",
        "a/b/zarr.json",
        "a/b/c/zarr.json",
    }
    assert list(tessarr.open_group(store, mode="r", path="a")) == ["b"]


@pytest.mark.covers("V3-GRP-04")
def test_array_has_no_members():
    array = document(V3)
    store = stores.MemoryStore({"zarr.json": GROUP, "a/zarr.json": array, "a/b/zarr.json": GROUP})
    group = tessarr.open_group(store, mode="r")
    assert [name for name, _ in group.members(None)] == ["a"]
    with pytest.raises(ExistsError):
        tessarr.create_group(store, path="a/x")


@pytest.mark.covers("V3-GRP-05")
def test_listing_skips_other_keys():
    store = stores.MemoryStore(
        {
            "zarr.json": GROUP,
            "__pycache__/file": b"",
            ".../zarr.json": GROUP,
            "no/file": b"",
            "file": b"",
            "yes/zarr.json": GROUP,
        }
    )
    group = tessarr.open_group(store, mode="r")
    assert list(group) == ["yes"]
    assert [name for name, _ in group.members(None)] == ["yes"]


@pytest.mark.covers("V3-GRP-06", "V3-NAME-03")
def test_hierarchy_may_be_one_array():
    array = tessarr.create_array(None, shape=(2,), dtype="u1")
    array[...] = 1
    assert set(array.store.list("")) == {"zarr.json", "c/0"}
    assert isinstance(tessarr.open(array.store, mode="r"), tessarr.Array)


@pytest.mark.covers("V3-NAME-01", "ALL-12")
@pytest.mark.parametrize("name", ["...", ".", "..", "zarr.json", "a/.../b"])
@pytest.mark.parametrize("kind", ["array", "group"])
def test_invalid_names_are_refused(name, kind):
    store = stores.MemoryStore()
    settings = {"shape": (2,)} if kind == "array" else {}
    with pytest.raises(ArgumentError) as caught:
        getattr(tessarr, f"create_{kind}")(store, path=name, **settings)
    assert caught.value.kind == "invalid_path"
    assert store.list("") == []
    group = tessarr.create_group(store)
    with pytest.raises(ArgumentError):
        getattr(group, f"create_{kind}")(name, **settings)
    assert store.list("") == ["zarr.json"]


@pytest.mark.covers("V3-NAME-01")
@pytest.mark.parametrize("name", ["__a", "__", "a/__b", "__a/b"])
@pytest.mark.parametrize("kind", ["array", "group"])
def test_reserved_names_are_created_with_one_warning(name, kind):
    """Like xarray's arrays, they can be read, listed, copied and moved."""
    settings = {"shape": (2,)} if kind == "array" else {}
    with expect_defect("reserves names that begin with '__'"):
        getattr(tessarr, f"create_{kind}")(None, path=name, **settings)
    group = tessarr.create_group(None)
    with expect_defect("reserves names that begin with '__'"):
        node = getattr(group, f"create_{kind}")(name, **settings)
    assert node.path == name
    assert name in group
    assert [path for path, _ in group.members(None)][-1] == name
    assert type(group[name]) is type(node)
    group[name].attrs["x"] = 1
    result = tessarr.consolidate_metadata(group.store)
    assert result[name].attrs["x"] == 1
    with expect_defect("reserves names"):
        group.move(name, "__moved")
    assert "__moved" in list(group)
    target = stores.MemoryStore()
    with pytest.warns(TessarrWarning, match="reserves names"):
        tessarr.copy_to(group.store, target)
    assert tessarr.open(target, mode="r", path="__moved").attrs["x"] == 1
    if kind == "group":
        node = group["__moved"]
        node.create_group("below")  # without a warning: the name above is not new
    del group["__moved"]
    assert "__moved" not in group


@pytest.mark.covers("V3-NAME-01", "V3-GRP-05")
def test_reserved_names_are_read_and_listed_without_warning():
    store = stores.MemoryStore(
        {"zarr.json": GROUP, "__xarray_dataarray_variable__/zarr.json": document(V3)}
    )
    group = tessarr.open_group(store, mode="r")
    assert list(group) == ["__xarray_dataarray_variable__"]
    assert group["__xarray_dataarray_variable__"][0, 0] == 0
    assert [name for name, _ in group.arrays()] == list(group)


@pytest.mark.covers("V3-NAME-01")
@pytest.mark.parametrize("name", ["a.", ".a", "..a", "_a", "a__", "zarr", ".zarray", "a b", "0"])
def test_unusual_names_are_accepted(name):
    group = tessarr.create_group(None)
    group.create_group(name)
    assert list(group) == [name]


@pytest.mark.covers("V3-NAME-02")
def test_names_are_compared_character_by_character():
    composed, decomposed = unicodedata.normalize("NFC", "é"), unicodedata.normalize("NFD", "é")
    group = tessarr.create_group(None)
    for name in ("a", "A", composed, decomposed):
        group.create_group(name, attributes={"name": name})
    assert len(group) == 4
    assert group[composed].attrs["name"] == composed
    assert group[decomposed].attrs["name"] == decomposed
    with pytest.raises(ExistsError):
        group.create_group("A")


@pytest.mark.covers("V3-NAME-03")
@pytest.mark.parametrize("path", ["a/b", "/a/b", "a/b/", "/a/b/"])
def test_document_of_node_is_below_its_path(path):
    group = tessarr.create_group(None, path=path)
    assert (group.path, group.name) == ("a/b", "/a/b")
    assert group.store.get("a/b/zarr.json") is not None
    assert tessarr.open_group(group.store, mode="r").name == "/"


@pytest.mark.covers("V3-NAME-04")
@pytest.mark.parametrize("name", ["ñandú", "日本", "🦉", "a b", "x:y", "100%"])
def test_names_beyond_ascii_work(name, tmp_path):
    array = tessarr.create_group(tmp_path).create_array(name, shape=(2,), data=[1, 2])
    assert (tmp_path / name / "zarr.json").is_file()
    assert list(tessarr.open_group(tmp_path, mode="r")) == [name]
    assert array[...].tolist() == [1, 2]


@pytest.mark.covers("V3-NAME-05")
def test_member_named_c_is_accepted():
    group = tessarr.create_group(None)
    array = group.create_array("c", shape=(2,), dtype="u1")
    array[...] = 1
    assert chunk_keys(group) == {"c/c/0"}
    assert list(group) == ["c"]
    inner = group.create_group("c2/c/0")
    assert inner.path == "c2/c/0"


@pytest.mark.covers("V3-NAME-06")
def test_backslash_is_ordinary_character():
    group = tessarr.create_group(None)
    group.create_group("a\\b")
    assert list(group) == ["a\\b"]
    assert tessarr.create_group(group.store, path="x\\y").path == "x\\y"


@pytest.mark.covers("V3-GRP-07", "ALL-08")
def test_format_3_has_precedence_over_format_2():
    store = stores.MemoryStore({"zarr.json": document(V3), ".zarray": document(V2)})
    assert tessarr.open(store, mode="r").zarr_format == 3
    assert tessarr.open(store, mode="r", zarr_format=2).zarr_format == 2


@pytest.mark.covers("ALL-08")
def test_broken_document_stops_format_detection():
    others = {".zarray": document(V2), ".zgroup": b'{"zarr_format": 2}', "meta": b"{}"}
    assert expect_refusal({"zarr.json": b"{", **others}).key == "zarr.json"
    assert expect_refusal({".zarray": b"{", ".zgroup": b'{"zarr_format": 2}'}).key == ".zarray"


@pytest.mark.covers("V3-CONS-04")
def test_null_means_no_consolidated_metadata():
    text = b'{"zarr_format": 3, "node_type": "group", "consolidated_metadata": null}'
    group = tessarr.open_group(stores.MemoryStore({"zarr.json": text}), mode="r")
    assert list(group) == []
