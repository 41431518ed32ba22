"""Paths of nodes and keys of chunks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessarr.errors import ArgumentError
from tessarr.format import node_path as node_paths
from tessarr.format.chunk_key_encoding import DefaultKeys, V2Keys


@pytest.mark.parametrize(
    ("path", "zarr_format", "expected"),
    [
        ("", None, ""),
        ("/", 3, ""),
        ("a", 3, "a"),
        ("//a//b/", 2, "a/b"),
        ("a\\b", 2, "a/b"),
        ("a\\b", 3, "a\\b"),
        ("a\\b", None, "a\\b"),
        ("...", 2, "..."),
        ("__a", 2, "__a"),
        ("__a", 3, "__a"),
        ("ä/c", 3, "ä/c"),
        ("c", 3, "c"),
    ],
)
def test_paths_have_one_normal_form(path, zarr_format, expected):
    assert node_paths.normalize_path(path, zarr_format) == expected


@pytest.mark.parametrize(
    ("path", "zarr_format"),
    [
        (".", None),
        ("a/../b", None),
        ("..\\a", 2),
        ("...", 3),
        ("a/zarr.json", 3),
        ("a/.zarray", 2),
        ("a\0b", None),
        ("\ud800", None),
    ],
)
def test_invalid_names_raise(path, zarr_format):
    with pytest.raises(ArgumentError) as caught:
        node_paths.normalize_path(path, zarr_format)
    assert caught.value.kind == "invalid_path"


@given(st.text())
def test_no_path_leaves_root(path):
    for zarr_format in (2, 3, None):
        try:
            normal = node_paths.normalize_path(path, zarr_format)
        except ArgumentError:
            continue
        assert node_paths.normalize_path(normal, zarr_format) == normal
        assert not normal.startswith("/")
        assert not {".", "..", ""} & set(normal.split("/")) or normal == ""


@pytest.mark.parametrize("encoding", [cls(sep) for cls in (DefaultKeys, V2Keys) for sep in "/."])
@given(cell=st.lists(st.integers(0, 2**62), max_size=4))
def test_chunk_keys_decode_to_cells(encoding, cell):
    key = encoding.encode(cell)
    assert encoding.decode(key, len(cell)) == tuple(cell)
    assert not key.startswith("/")


@pytest.mark.parametrize(
    "key", ["c", "c/", "c/0", "c/00/1", "c/-1/0", "c/0/1/2", "c.0.1", "d/0/1", "c/0/x"]
)
def test_other_keys_decode_to_none(key):
    assert DefaultKeys().decode(key, 2) is None


def test_rank_0_keys_match_specification():
    assert DefaultKeys().encode(()) == DefaultKeys(".").encode(()) == "c"
    assert V2Keys().encode(()) == V2Keys("/").encode(()) == "0"
