"""Edits of consolidated metadata as text: the same result as an edit of the parsed document."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessarr.errors import MetadataError
from tessarr.format import json as _json
from tessarr.metadata.consolidated import MEMBER, replace_copies, replace_marks
from tessarr.metadata.copies_text import CopiesText, insert_copies, split_copies

GROUP = {"zarr_format": 3, "node_type": "group", "attributes": {"name": "é\n", "empty": {}}}
SETTINGS = {2: {"indent": 4, "sort_keys": True}, 3: {"indent": 2}}


def node(zarr_format: int, number: int) -> dict[str, Any]:
    if zarr_format == 3:
        return {"zarr.json": {**GROUP, "attributes": {"number": number, "list": [1, {"x": "]}"}]}}}
    return {".zgroup": {"zarr_format": 2}, ".zattrs": {"number": number}}


def document(zarr_format: int, nodes: dict[str, Any], marks: dict[str, str]) -> bytes:
    base = GROUP if zarr_format == 3 else None
    value = replace_marks(replace_copies(base, zarr_format, nodes), zarr_format, marks)
    return _json.dump(value, **SETTINGS[zarr_format])


def find(text: bytes, zarr_format: Any) -> CopiesText:
    copies = CopiesText.find(text, zarr_format, what="the copies")
    assert copies is not None
    return copies


paths = st.sampled_from(["a", "a/b", "a/b/c", "a.b", "a b", "b", "é", "é/😀", 'q"\\', "z/zz"])


@given(
    zarr_format=st.sampled_from([2, 3]),
    before=st.dictionaries(paths, st.integers()),
    after=st.dictionaries(paths, st.integers()),
    marks=st.tuples(*[st.dictionaries(st.sampled_from("123"), st.just("a"))] * 2),
)
def test_text_edit_equals_edit_of_parsed_document(
    zarr_format: int, before: dict[str, int], after: dict[str, int], marks: Any
) -> None:
    """Any set of nodes and marks becomes any other one, byte for byte."""
    old = {path: node(zarr_format, number) for path, number in before.items()}
    new = {path: node(zarr_format, number) for path, number in after.items()}
    copies = find(document(zarr_format, old, marks[0]), zarr_format)
    assert copies.marks() == marks[0]
    assert sorted(copies.paths_below(["a"])) == sorted(p for p in before if p.startswith("a/"))
    removed = [path for path in before if path not in after]
    assert copies.replace(new, removed, marks[1]) == document(zarr_format, new, marks[1])


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("separators", [(",", ":"), (" ,\n", " : ")])
def test_documents_of_other_writers_stay_valid(zarr_format: Any, separators: Any) -> None:
    nodes = {path: node(zarr_format, 0) for path in ("b", "a")}
    text = document(zarr_format, nodes, {})
    foreign = json.dumps(json.loads(text), separators=separators, ensure_ascii=False).encode()
    changed = find(foreign, zarr_format).replace({"c": node(zarr_format, 1)}, ["b"], {"1": "c"})
    expected = document(zarr_format, {"a": nodes["a"], "c": node(zarr_format, 1)}, {"1": "c"})
    assert json.loads(changed) == json.loads(expected)


def test_other_members_of_copies_stay() -> None:
    text = b'{"metadata": {"a/.zgroup": {"zarr_format": 2}}, "zarr_consolidated_format": 1, "x": 2}'
    assert json.loads(find(text, 2).replace({}, ["a"], {})) == {
        "metadata": {},
        "zarr_consolidated_format": 1,
        "x": 2,
    }


@pytest.mark.parametrize(
    "text",
    [b"[]", b"{}", b'{"metadata": []}', b'{"consolidated_metadata": null}',
     b'{"consolidated_metadata": {"metadata": 1}}'],
)  # fmt: skip
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_document_without_copies_is_none(text: bytes, zarr_format: Any) -> None:
    assert CopiesText.find(text, zarr_format, what="x") is None


@pytest.mark.parametrize("text", [b'{"metadata": {', b'{"metadata', b"{]"])
def test_document_without_end_raises(text: bytes) -> None:
    with pytest.raises(MetadataError, match="invalid the copies: not JSON"):
        CopiesText.find(text, 2, what="the copies")


def test_split_copies_and_insert_them() -> None:
    text = document(3, {"a": node(3, 1)}, {"1": "a"})
    own, copies = split_copies(text)
    assert own == _json.dump(GROUP, indent=2)
    assert copies is not None
    assert json.loads(copies) == json.loads(text)[MEMBER]
    assert insert_copies(own, copies) == text
    assert split_copies(own) == (own, None)
    assert insert_copies(own, None) == own
    broken = b'{"consolidated_metadata": {'
    assert split_copies(broken) == (broken, None)
