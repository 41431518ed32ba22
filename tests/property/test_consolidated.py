"""Random edits of a consolidated hierarchy through random handles: copies stay current."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessarr
from sampling import examples
from tessarr.errors import TessarrError
from tessarr.stores import MemoryStore

PATHS = ["a", "b", "a/b", "a/a", "b/a/b", "a/b/a"]
NAMES = st.sampled_from(PATHS)
ACTIONS = st.sampled_from(
    [
        *("group", "array", "overwrite", "delete", "attributes", "resize", "consolidate", "inner"),
        *("move", "several"),
    ]
)


def act(store: Any, handle: tessarr.Group, action: str, name: str, number: int) -> None:
    if action == "group":
        handle.create_group(name, attributes={"n": number})
    elif action in {"array", "overwrite"}:
        handle.create_array(name, shape=(number, 2), dtype="u1", overwrite=action == "overwrite")
    elif action == "delete":
        del handle[name]
    elif action == "attributes":
        handle[name].attrs.update(n=number)
    elif action == "resize":
        node = handle[name]
        if isinstance(node, tessarr.Array):
            node.resize(number, number)
    elif action == "move":
        handle.move(name, PATHS[number])
    elif action == "several":
        nodes = {name: None, PATHS[number]: {"shape": (number,), "dtype": "u1"}}
        handle.create_hierarchy(nodes, overwrite=number == 1)
    elif action == "consolidate":
        tessarr.consolidate_metadata(store)
    elif "/" in name:
        tessarr.consolidate_metadata(store, path=name.split("/", maxsplit=1)[0])


@pytest.mark.parametrize("zarr_format", [2, 3])
@examples(60)
@given(st.lists(st.tuples(ACTIONS, NAMES, st.integers(1, 4), st.booleans()), max_size=12))
def test_consolidated_copies_match_random_changes(
    zarr_format: Any, steps: list[tuple[str, str, int, bool]]
) -> None:
    store = MemoryStore()
    tessarr.create_group(store, zarr_format=zarr_format)
    by_copies = tessarr.consolidate_metadata(store)
    for action, name, number, use in steps:
        handle = by_copies if use else tessarr.open_group(store)
        if not use:  # an open group does not show changes of other handles, by design
            by_copies = tessarr.open_consolidated(store)
        with contextlib.suppress(TessarrError):
            act(store, handle, action, name, number)
        if not use or action in {"consolidate", "inner"}:
            by_copies = tessarr.open_consolidated(store)
        assert tessarr.consolidated_differences(store) == {}
        fresh = tessarr.open_group(store, "r", use_consolidated=False)
        assert str(by_copies.tree()) == str(fresh.tree())
        for path, node in fresh.members(None):
            assert by_copies[path].metadata.attributes == node.metadata.attributes
            if isinstance(node, tessarr.Group) and node.metadata.consolidated is not None:
                assert tessarr.consolidated_differences(store, path=path) == {}


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_consolidated_concurrent_writers_leave_current_copies(
    tmp_path: Any, zarr_format: Any
) -> None:
    root = tessarr.create_group(tmp_path / "s", zarr_format=zarr_format)
    for name in "abcd":
        root.create_group(name)
    tessarr.consolidate_metadata(tmp_path / "s")
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            handle = tessarr.open_group(tmp_path / "s")
            for turn in range(6):
                handle["abcd"[(number + turn) % 4]].attrs[f"k{number}"] = turn
                handle.create_group(f"{'abcd'[number % 4]}/n{number}-{turn}")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert tessarr.consolidated_differences(tmp_path / "s") == {}
    result = tessarr.open_consolidated(tmp_path / "s")
    assert len(result.members(None)) == 4 + 6 * 6
