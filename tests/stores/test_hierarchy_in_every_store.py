"""Groups behave the same in every store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest

import tessarr

if TYPE_CHECKING:
    from tessarr.store import Store


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_hierarchy_is_created_moved_and_deleted(store: Store, zarr_format: Literal[2, 3]) -> None:
    nodes: dict[str, Any] = {"a/b": {"shape": 5, "chunks": 2, "dtype": "i2"}, "c": None}
    created: dict[str, Any] = dict(tessarr.create_hierarchy(store, nodes, zarr_format=zarr_format))
    created["a/b"][:] = np.arange(5)
    root: Any = tessarr.open_group(store)
    root["d"] = root["a/b"]
    root.move("a", "c/moved")
    assert [path for path, _ in root.members(None)] == ["c", "c/moved", "c/moved/b", "d"]
    assert root["c/moved/b"][:].tolist() == root["d"][:].tolist() == [0, 1, 2, 3, 4]
    assert not any(key.startswith("a/") for key in store.list(""))
    del root["c"]
    root.clear()
    assert list(root) == []
    assert {key.rpartition("/")[2] for key in store.list("")} <= {"zarr.json", ".zgroup", ".zattrs"}
