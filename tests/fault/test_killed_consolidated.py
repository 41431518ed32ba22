"""SIGKILL during changes below consolidated metadata: readers use no stale copies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from fault.killing import marks, rounds
from fault.test_stopped_consolidated import ACTIONS, contents, has_marks, hierarchy, open_group
from tessarr.stores import LocalStore

pytestmark = marks

CASES = [
    *(("attributes", form) for form in (2, 3)),
    *((action, 3) for action in ("resize", "create", "assign", "delete", "move")),
    ("create", 2),
]


@pytest.mark.parametrize(("action", "zarr_format"), CASES)
def test_killed_change_leaves_no_stale_copies(
    tmp_path: Path, action: str, zarr_format: Any
) -> None:
    """After SIGKILL at any time, readers see the stored nodes; the next change updates copies."""

    def prepare(folder: Path) -> Callable[[], object]:
        hierarchy(folder / "a", zarr_format)
        return lambda: ACTIONS[action](open_group(folder / "a", mode="r+"))

    for folder in rounds(tmp_path, prepare):
        path = folder / "a"
        stored = contents(open_group(path, "r", use_consolidated=False))
        assert contents(open_group(path, "r")) == stored
        assert contents(tessarr.open_consolidated(path, mode="r")) == stored
        root = open_group(path, mode="r+")
        for name in stored:
            root[name].attrs["next"] = 1
        assert tessarr.consolidated_differences(path) == {}
        assert open_group(path, "r").consolidated
        assert not has_marks(dict(LocalStore(path)))
        assert not list(path.rglob("*.copies*"))


def test_killed_sequence_of_edits_leaves_no_stale_copies(tmp_path: Path) -> None:
    """A program makes several edits, and SIGKILL stops it at a random time."""

    def prepare(folder: Path) -> Callable[[], object]:
        root: Any = tessarr.create_group(folder / "a")
        for name in "abc":
            root.create_array(name, data=np.arange(3), attributes={"n": 0})
        tessarr.consolidate_metadata(folder / "a")

        def edit() -> None:
            opened = open_group(folder / "a", mode="r+")
            for number in range(1, 4):
                for name in "abc":
                    opened[name].attrs["n"] = number

        return edit

    for folder in rounds(tmp_path, prepare):
        stored = contents(open_group(folder / "a", "r", use_consolidated=False))
        assert contents(open_group(folder / "a", "r")) == stored


def test_killed_batch_leaves_no_stale_copies(tmp_path: Path) -> None:
    """A program changes nodes in a batch; after SIGKILL the next change updates the copies."""

    def prepare(folder: Path) -> Callable[[], object]:
        root: Any = tessarr.create_group(folder / "a")
        for name in "abc":
            root.create_array(name, data=np.arange(3), attributes={"n": 0})
        tessarr.consolidate_metadata(folder / "a")

        def edit() -> None:
            opened = open_group(folder / "a", mode="r+")
            for number in range(1, 4):
                with opened.batch():
                    for name in "abc":
                        opened[name].attrs["n"] = number
                    opened.create_array(f"new{number}", shape=3)
                    del opened[f"new{number}"]

        return edit

    for folder in rounds(tmp_path, prepare):
        path = folder / "a"
        stored = contents(open_group(path, "r", use_consolidated=False))
        assert contents(open_group(path, "r")) == stored
        open_group(path, mode="r+")["a"].attrs["next"] = 1
        assert tessarr.consolidated_differences(path) == {}
        assert open_group(path, "r").consolidated
