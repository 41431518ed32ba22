"""Format 2: paths, groups, attributes."""

from __future__ import annotations

import json

import pytest

import tessarr
from conformance.sample_stores import V2, document, expect_refusal, open_v2
from tessarr import stores
from tessarr.errors import ArgumentError, ExistsError, NotFoundError, TessarrWarning

GROUP = b'{"zarr_format": 2}'


def documents(store):
    return {key for key in store.list("") if key.rpartition("/")[2].startswith(".z")}


@pytest.mark.covers("V2-PATH-01")
@pytest.mark.parametrize(
    "path", ["a/b", "/a/b", "a/b/", "//a//b//", "a\\b", "\\a\\\\b\\", "/a\\b/", "a/\\/b"]
)
def test_paths_are_normalised(path):
    store = stores.MemoryStore()
    array = tessarr.create_array(store, path=path, shape=(2,), dtype="u1", zarr_format=2)
    assert array.path == "a/b"
    assert "a/b/.zarray" in documents(store)
    assert tessarr.open_array(store, mode="r", path=path, zarr_format=2) == array
    assert tessarr.open_group(store, mode="r")[path] == array


@pytest.mark.covers("V2-PATH-02")
@pytest.mark.parametrize("path", [".", "..", "a/..", "../a", "a/./b", "a\\..\\b", "a/../../b"])
def test_dots_are_no_names(path):
    store = stores.MemoryStore()
    with pytest.raises(ArgumentError) as caught:
        tessarr.create_group(store, path=path, zarr_format=2)
    assert caught.value.kind == "invalid_path"
    assert store.list("") == []
    group = tessarr.create_group(store, zarr_format=2)
    with pytest.raises(ArgumentError):
        group.create_array(path, shape=(2,))
    with pytest.raises(ArgumentError):
        group[path]


@pytest.mark.covers("V2-PATH-03")
@pytest.mark.parametrize("path", [None, "", "/"])
def test_keys_of_root_have_no_prefix(path):
    store = stores.MemoryStore()
    array = tessarr.create_array(store, path=path, shape=(2,), dtype="u1", zarr_format=2)
    array[...] = 1
    assert (array.path, array.name) == ("", "/")
    assert set(store.list("")) == {".zarray", ".zattrs", "0"}


@pytest.mark.covers("V2-GRP-01")
@pytest.mark.parametrize("text", [b"{}", b'{"zarr_format": 3}', b'{"zarr_format": "2"}', b"[]"])
def test_valid_document_defines_group(text):
    assert expect_refusal({".zgroup": text}).key == ".zgroup"
    assert expect_refusal({".zgroup": b"{"}).problems[0].kind == "invalid_json"
    group = tessarr.open_group(stores.MemoryStore({".zgroup": GROUP}), mode="r")
    assert group.zarr_format == 2
    with pytest.raises(NotFoundError):
        tessarr.open_group(stores.MemoryStore({".zattrs": b"{}"}), mode="r")
    with pytest.raises(NotFoundError):
        tessarr.open_group(stores.MemoryStore({"a/.zgroup": GROUP}), mode="r")


@pytest.mark.covers("V2-GRP-02")
def test_group_document_has_format_alone():
    group = tessarr.create_group(None, zarr_format=2, attributes={"a": 1})
    assert json.loads(group.store.get(".zgroup")) == {"zarr_format": 2}


@pytest.mark.covers("V2-GRP-02")
def test_unknown_members_of_group_are_ignored():
    more = b'{"zarr_format": 2, "consolidated_metadata": null, "x": {"y": 1}}'
    group = tessarr.open_group(stores.MemoryStore({".zgroup": more}), mode="r+")
    group.attrs["a"] = 1
    assert json.loads(group.store.get(".zattrs")) == {"a": 1}


@pytest.mark.covers("V2-GRP-03")
def test_creating_node_creates_groups_above_it():
    store = stores.MemoryStore()
    tessarr.create_array(store, path="a/b/c", shape=(2,), dtype="u1", zarr_format=2)
    assert {key for key in documents(store) if key.endswith(".zgroup")} == {
        ".zgroup",
        "a/.zgroup",
        "a/b/.zgroup",
    }
    tessarr.create_group(store, path="a/d/e", zarr_format=2)
    assert {"a/d/.zgroup", "a/d/e/.zgroup"} <= documents(store)


@pytest.mark.covers("V2-GRP-04")
def test_members_are_direct_children():
    store = stores.MemoryStore(
        {
            ".zgroup": GROUP,
            "a/.zgroup": GROUP,
            "a/b/.zgroup": GROUP,
            "x/.zarray": document(V2),
            "x/y/.zgroup": GROUP,
            "no/node/.zgroup": GROUP,
            "data": b"",
        }
    )
    group = tessarr.open_group(store, mode="r")
    assert list(group) == ["a", "x"]
    assert (list(group.array_keys()), list(group.group_keys())) == (["x"], ["a"])
    assert [name for name, _ in group.members(None)] == ["a", "a/b", "x"]


@pytest.mark.covers("V2-GRP-05")
@pytest.mark.parametrize("kind", ["create_group", "create_array"])
def test_existing_node_stays_without_overwrite(kind):
    store = stores.MemoryStore()
    old = tessarr.create_array(store, path="a", shape=(2,), dtype="u1", zarr_format=2)
    old[...] = 1
    settings = {"zarr_format": 2, "path": "a"} | ({"shape": (3,)} if "array" in kind else {})
    with pytest.raises(ExistsError):
        getattr(tessarr, kind)(store, **settings)
    assert old[...].tolist() == [1, 1]
    getattr(tessarr, kind)(store, **settings, overwrite=True)
    assert not [key for key in store.list("a/") if ".z" not in key]


@pytest.mark.covers("V2-GRP-05")
def test_overwrite_removes_nodes_below():
    group = tessarr.create_group(None, path="a", zarr_format=2)
    group.create_array("b/c", shape=(2,), data=[1, 2])
    tessarr.create_array(group.store, path="a", shape=(1,), zarr_format=2, overwrite=True)
    assert set(group.store.list("")) == {".zgroup", ".zattrs", "a/.zarray", "a/.zattrs"}


@pytest.mark.covers("V2-GRP-06")
def test_nothing_is_created_below_array():
    store = stores.MemoryStore()
    tessarr.create_array(store, path="a", shape=(2,), zarr_format=2)
    before = set(store.list(""))
    for path in ("a/b", "a/b/c"):
        with pytest.raises(ExistsError):
            tessarr.create_group(store, path=path, zarr_format=2)
        with pytest.raises(ExistsError):
            tessarr.create_array(store, path=path, shape=(2,), zarr_format=2)
    assert set(store.list("")) == before


@pytest.mark.covers("V2-GRP-06")
def test_path_with_array_and_group_is_reported():
    store = stores.MemoryStore({".zgroup": GROUP, "a/.zgroup": GROUP, "a/.zarray": document(V2)})
    group = tessarr.open_group(store, mode="r")
    with pytest.warns(TessarrWarning, match="a"):
        assert list(group.array_keys()) == ["a"]


@pytest.mark.covers("V2-ATTR-01")
@pytest.mark.parametrize("text", [b"[]", b"null", b'"a"', b"1", b"{"])
def test_attributes_are_object(text):
    assert expect_refusal({".zarray": document(V2), ".zattrs": text}).key == ".zattrs"
    assert expect_refusal({".zgroup": GROUP, ".zattrs": text}).key == ".zattrs"


@pytest.mark.covers("V2-ATTR-01")
def test_absent_attributes_are_none():
    array = open_v2()
    assert dict(array.attrs) == {}
    array.attrs["a"] = 1
    assert json.loads(array.store.get(".zattrs")) == {"a": 1}


ATTRIBUTES = (
    b'{"z": 1, "a": 1.0, "m": {"y": null, "b": [true, false, 1, 0, -0.0]}, "n": null, '
    b'"big": 123456789012345678901234567890, "small": 1e-320, "empty": {}, "list": [], '
    b'"text": "\\u00e4\xc3\xb6\\ud83d\\ude00"}'
)


def to_strict_form(value):
    """Return a form that distinguishes 1, 1.0 and true, and the order of members."""
    if isinstance(value, dict):
        return [(name, to_strict_form(item)) for name, item in value.items()]
    return [to_strict_form(item) for item in value] if isinstance(value, list) else repr(value)


@pytest.mark.covers("V2-ATTR-02")
def test_rewrite_preserves_attributes_and_their_order():
    array = open_v2(zattrs=ATTRIBUTES)
    array.attrs["new"] = 1
    document = json.loads(array.store.get(".zattrs"))
    expected = json.loads(ATTRIBUTES) | {"new": 1}
    assert to_strict_form(document) == to_strict_form(expected)
    new = tessarr.create_array(None, shape=(1,), zarr_format=2, attributes=json.loads(ATTRIBUTES))
    assert to_strict_form(json.loads(new.store.get(".zattrs"))) == to_strict_form(
        json.loads(ATTRIBUTES)
    )


@pytest.mark.covers("V2-ATTR-03")
def test_non_json_tokens_of_format_2_are_read():
    """Tessarr reads these tokens without a warning (ADR 10)."""
    array = open_v2(zattrs=b'{"a": NaN, "b": [-Infinity], "c": 1}')
    assert str(array.attrs["a"]) == "nan"
    assert array.attrs["b"] == [float("-inf")]
