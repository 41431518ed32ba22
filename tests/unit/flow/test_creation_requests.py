"""Requests that the creation of a node sends to a local store."""

from __future__ import annotations

from pathlib import Path

import pytest

import tessarr
from tessarr.errors import ExistsError
from tessarr.stores import LocalStore


class NotingStore(LocalStore):
    """A local store that notes the keys of which it returns the size."""

    noted: list[str]

    def size(self, key: str) -> int | None:
        self.noted.append(key)
        return super().size(key)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_new_node_in_absent_folder_needs_no_look_at_documents(
    tmp_path: Path, zarr_format: int
) -> None:
    """An absent folder has no documents; only the mark of a deletion is beside it."""
    store = NotingStore(tmp_path)
    store.noted = []
    group = tessarr.create_group(store, zarr_format=zarr_format)
    store.noted.clear()
    group.create_array("a", shape=3)
    assert store.noted == ["a.__deleted"]
    (tmp_path / "b").mkdir()
    group.create_array("b", shape=3)
    assert set(store.noted) >= {"b/zarr.json", "b/.zarray", "b/.zgroup"}
    for name in ("a", "b"):
        with pytest.raises(ExistsError):
            group.create_array(name, shape=3)


@pytest.mark.parametrize("name", ["zarr.json", ".zarray", ".zgroup"])
def test_node_of_either_format_in_linked_folder_exists(tmp_path: Path, name: str) -> None:
    group = tessarr.create_group(tmp_path / "g")
    if name == ".zarray":
        tessarr.create_array(tmp_path / "other", shape=3, zarr_format=2)
    else:
        tessarr.create_group(tmp_path / "other", zarr_format=3 if name == "zarr.json" else 2)
    (tmp_path / "g" / "link").symlink_to(tmp_path / "other")
    with pytest.raises(ExistsError):
        group.create_array("link", shape=3)
    (tmp_path / "g" / "dangling").symlink_to(tmp_path / "none")
    group.create_array("dangling", shape=3, overwrite=True)
    assert group.get_array("dangling").shape == (3,)
