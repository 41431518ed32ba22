"""Batches of changes: one update of consolidated metadata at the end of a block."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from stores.failing import Stopping
from tessarr.errors import ReadOnlyError, TessarrWarning
from tessarr.flow import changes
from tessarr.flow.changes import CopyUpdate, run_with_copy_updates
from tessarr.flow.run import Flow, Put, run_flow
from tessarr.metadata.copies_text import CopiesText
from tessarr.store.wrappers.instrumented import CountingStore

# Untyped, because the test knows the kind of each member.
open_group: Any = tessarr.open_group


class Recording(dict[str, bytes]):
    """Mapping that records the keys of all writes."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.writes: list[str] = []

    def __setitem__(self, key: str, value: bytes) -> None:
        self.writes.append(key)
        super().__setitem__(key, value)


def hierarchy(store: Any, zarr_format: Any) -> Any:
    """Create groups with consolidated metadata and return the root."""
    root: Any = tessarr.create_group(store, zarr_format=zarr_format)
    root.create_array("g/a", data=np.arange(6), chunks=2, attributes={"x": 1})
    root.create_array("g/h/b", shape=3, dtype="i2")
    root.create_array("kept", data=[1])
    tessarr.consolidate_metadata(store, "g")
    tessarr.consolidate_metadata(store)
    return open_group(store, mode="r+")


def holder(zarr_format: int) -> str:
    return "zarr.json" if zarr_format == 3 else ".zmetadata"


def marks(store: Any, zarr_format: int, group: str = "") -> dict[str, str]:
    items = tessarr.stores.LocalStore(store) if isinstance(store, Path) else store
    document = json.loads(bytes(items[group + holder(zarr_format)]))
    copies = document["consolidated_metadata"] if zarr_format == 3 else document
    result: dict[str, str] = copies.get("tessarr_changes", {})
    return result


def contents(group: Any) -> dict[str, Any]:
    """Return the attributes and shapes of all nodes below a group."""
    nodes = group.members(max_depth=None)
    return {path: (node.attrs.asdict(), getattr(node, "shape", None)) for path, node in nodes}


def check_current(store: Any, zarr_format: int, groups: Any = ("", "g")) -> None:
    """Check that all copies are current and unmarked."""
    for group in groups:
        assert tessarr.consolidated_differences(store, path=group or None) == {}
        assert marks(store, zarr_format, f"{group}/" if group else "") == {}


EDITS: dict[str, Callable[[Any], object]] = {
    "attributes": lambda root: root["g/a"].attrs.update(x=2),
    "attributes of a group": lambda root: root["g"].attrs.update(x=2),
    "resize and append": lambda root: (root["g/a"].resize(3), root["g/a"].append([1, 2])),
    "create": lambda root: root.create_array("g/n/m/a", shape=3),
    "create and delete": lambda root: (root.create_group("g/n/m"), root.__delitem__("g/n")),
    "delete": lambda root: root["g"].__delitem__("h"),
    "delete and create": lambda root: (root.__delitem__("g/h"), root.zeros("g/h/b/c", shape=1)),
    "overwrite": lambda root: root.create_array("g/h", shape=3, overwrite=True),
    "move": lambda root: root.move("g/h", "g/i"),
    "hierarchy": lambda root: root.create_hierarchy({"g/p/q": None, "g/p/r": {"shape": 1}}),
}


@pytest.mark.parametrize("edit", EDITS)
def test_batch_updates_copies_at_its_end(edit: str, zarr_format: Any) -> None:
    items: dict[str, bytes] = {}
    root = hierarchy(items, zarr_format)
    with root.batch() as group:
        assert group is root
        EDITS[edit](root)
        assert marks(items, zarr_format)
        reader = open_group(items, "r")
        assert not reader.consolidated
        assert str(reader.tree()) == str(root.tree())
    check_current(items, zarr_format)
    assert open_group(items, "r").consolidated


@pytest.mark.parametrize("count", [1, 30])
def test_batch_writes_copies_twice(count: int, zarr_format: Any) -> None:
    """The number of writes of the copies does not depend on the number of changes."""
    items = Recording()
    root = hierarchy(items, zarr_format)
    items.writes.clear()
    with root.batch():
        for number in range(count):
            array = root.create_array(f"new{number}", shape=3)
            array.attrs["number"] = number
            array.resize(5)
        assert items.writes.count(holder(zarr_format)) == 1
    assert items.writes.count(holder(zarr_format)) == 2
    check_current(items, zarr_format)


def test_batch_without_change_writes_nothing(zarr_format: Any) -> None:
    items = Recording()
    root = hierarchy(items, zarr_format)
    items.writes.clear()
    with root.batch():
        pass
    assert items.writes == []


def test_batch_without_copies_sends_no_requests(zarr_format: Any) -> None:
    store = CountingStore(tessarr.stores.MemoryStore())
    root = tessarr.create_group(store, zarr_format=zarr_format)
    counts = []
    for use_batch in (False, True):
        before = store.counts()
        if use_batch:
            with root.batch():
                root.create_array("b", shape=3)
        else:
            root.create_array("a", shape=3)
        counts.append({name: n - before[name] for name, n in store.counts().items()})
    assert counts[0] == counts[1]


def test_exception_in_batch_updates_copies(zarr_format: Any) -> None:
    items: dict[str, bytes] = {}
    root = hierarchy(items, zarr_format)
    with pytest.raises(KeyboardInterrupt), root.batch():
        root["g/a"].attrs["x"] = 2
        raise KeyboardInterrupt
    check_current(items, zarr_format)
    assert open_group(items, "r")["g/a"].attrs["x"] == 2


def test_failed_change_in_batch_keeps_copies_current(zarr_format: Any) -> None:
    items: dict[str, bytes] = {}
    root = hierarchy(items, zarr_format)
    with root.batch():
        with pytest.raises(tessarr.errors.ExistsError):
            root.create_array("g/a", shape=1)
        with pytest.raises(ValueError, match="cannot be stored"):
            root["g/a"].attrs["x"] = 1j
        root["g/a"].attrs["y"] = 1
    check_current(items, zarr_format)


def test_nested_batches_end_with_outer_one(zarr_format: Any) -> None:
    items = Recording()
    root = hierarchy(items, zarr_format)
    items.writes.clear()
    with root.batch():
        with root["g"].batch(), root.batch():
            root["g/a"].attrs["x"] = 2
        assert marks(items, zarr_format)
        root["kept"].attrs["x"] = 2
    assert items.writes.count(holder(zarr_format)) == 2
    check_current(items, zarr_format)


def test_outer_batch_of_inner_group_ends_by_itself(zarr_format: Any) -> None:
    """Changes belong to the innermost batch that covers them."""
    items: dict[str, bytes] = {}
    root = hierarchy(items, zarr_format)
    with root["g"].batch():
        root["g/a"].attrs["x"] = 2
        with root.batch():
            root["kept"].attrs["x"] = 2
            root["g/a"].attrs["x"] = 3
        assert len(marks(items, zarr_format)) == 1
        assert not open_group(items, "r").consolidated
    check_current(items, zarr_format)


def test_changes_outside_of_batch_update_copies_at_once(zarr_format: Any) -> None:
    """A change elsewhere keeps the mark of the batch."""
    items: dict[str, bytes] = {}
    root = hierarchy(items, zarr_format)
    with root["g"].batch():
        root["g/a"].attrs["x"] = 2
        root["kept"].attrs["y"] = 1
        assert len(marks(items, zarr_format)) == 1
        document = json.loads(items[holder(zarr_format)])
        assert '"y": 1' in json.dumps(document)
        assert not open_group(items, "r").consolidated
    check_current(items, zarr_format)


def test_other_objects_and_threads_belong_to_batch(tmp_path: Path, zarr_format: Any) -> None:
    root = hierarchy(tmp_path, zarr_format)
    with root.batch():
        threads = [
            threading.Thread(target=lambda n=n: open_group(tmp_path).zeros(f"g/t{n}", shape=n))
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        tessarr.open_array(tmp_path, path="g/a").attrs["x"] = 3
        assert len(marks(tmp_path, zarr_format)) == 1
        assert len(marks(tmp_path, zarr_format, "g/")) == 1
    check_current(tmp_path, zarr_format)
    assert "g/t3" in open_group(tmp_path, "r")


def test_threads_with_own_batches_wait_for_their_own_end(zarr_format: Any) -> None:
    store = tessarr.stores.MemoryStore()
    root = hierarchy(store, zarr_format)

    def work() -> None:
        with open_group(store).batch() as group:
            group["g/a"].attrs["x"] = 5
        copies = json.dumps(json.loads(bytes(store[holder(zarr_format)])))
        assert '"x": 5' in copies
        done.append(True)

    done: list[bool] = []
    with root.batch():
        root["kept"].attrs["x"] = 2
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert done
        assert len(marks(store, zarr_format)) == 1
    check_current(store, zarr_format)


def test_other_process_changes_nodes_during_batch(tmp_path: Path, zarr_format: Any) -> None:
    """Its change rebuilds the copies; the next change of the batch marks them again."""
    root = hierarchy(tmp_path, zarr_format)
    code = f"import tessarr; tessarr.open_group({str(tmp_path)!r}).create_group('g/h/other')"
    with root.batch():
        root["g/a"].attrs["x"] = 2
        del root["g/h"]
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
        assert tessarr.consolidated_differences(tmp_path) == {}
        assert not marks(tmp_path, zarr_format)
        root["g/a"].attrs["x"] = 3
        assert marks(tmp_path, zarr_format)
        assert not open_group(tmp_path, "r").consolidated
    check_current(tmp_path, zarr_format)
    assert "g/h/other" in open_group(tmp_path, "r")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_forked_child_does_not_defer(tmp_path: Path, zarr_format: Any) -> None:
    root = hierarchy(tmp_path, zarr_format)
    with root.batch():
        root["g/a"].attrs["x"] = 2
        child = os.fork()
        if child == 0:
            code = 1
            try:
                root.create_group("g/child")
                code = 0 if tessarr.consolidated_differences(tmp_path) == {} else 2
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
    check_current(tmp_path, zarr_format)


def test_consolidate_metadata_in_batch(zarr_format: Any) -> None:
    items: dict[str, bytes] = {}
    root = hierarchy(items, zarr_format)
    with root.batch():
        root["g/a"].attrs["x"] = 2
        tessarr.consolidate_metadata(items)
        assert not marks(items, zarr_format)
        root["g/a"].attrs["x"] = 3
        assert marks(items, zarr_format)
    check_current(items, zarr_format)
    with root.batch():
        root["g/a"].attrs["x"] = 4
        tessarr.remove_consolidated(items)
    assert not open_group(items, "r").consolidated


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("removed", ["", "g"])
def test_end_of_batch_does_not_restore_removed_copies(
    edit: str, removed: str, zarr_format: Any
) -> None:
    items: dict[str, bytes] = {}
    root = hierarchy(items, zarr_format)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with root.batch():
            EDITS[edit](root)
            tessarr.remove_consolidated(items, path=removed or None)
    check_current(items, zarr_format, groups={"", "g"} - {removed})
    assert not open_group(items, "r", path=removed).consolidated


def test_end_of_batch_does_not_restore_deleted_group(zarr_format: Any) -> None:
    items: dict[str, bytes] = {}
    root = hierarchy(items, zarr_format)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with root.batch():
            root.move("g/h", "g/i")
            del root["g"]
            root.create_group("g")
    check_current(items, zarr_format, groups={""})
    assert not open_group(items, "r", path="g").consolidated


@pytest.mark.parametrize("is_local", [False, True])
@pytest.mark.parametrize("group", ["", "g"])
def test_group_moved_in_batch_has_current_copies(
    group: str, is_local: bool, zarr_format: Any, tmp_path: Path
) -> None:
    """The batch of the root covers both paths; that of the group only the old one."""
    store: Any = tmp_path if is_local else {}
    root = hierarchy(store, zarr_format)
    tessarr.consolidate_metadata(store, "g/h")
    tessarr.consolidate_metadata(store, "g")
    tessarr.consolidate_metadata(store)
    root = open_group(store, mode="r+")
    with (root[group] if group else root).batch():
        root["g/a"].attrs["x"] = 2
        root["g/h/b"].attrs["x"] = 2
        root["g"].create_array("h/new", shape=3)
        root.move("g", "moved")
        root["moved/h/b"].attrs["y"] = 3
        root.move("moved/h", "other/h")
        root["other/h/new"].resize(7)
    check_current(store, zarr_format, groups={"", "moved", "other/h"})
    reader = open_group(store, "r")
    assert reader.consolidated
    assert reader["moved/a"].attrs["x"] == 2
    assert reader["other/h/b"].attrs.asdict() == {"x": 2, "y": 3}
    assert reader["other/h/new"].shape == (7,)
    assert "g" not in reader


def test_groups_that_change_their_paths_in_batch_have_current_copies(zarr_format: Any) -> None:
    items: dict[str, bytes] = {}
    root = hierarchy(items, zarr_format)
    root.create_array("f/a", shape=5)
    root.create_array("f/only", shape=5)
    for path in ("f", None):
        tessarr.consolidate_metadata(items, path)
    root = open_group(items, mode="r+")
    with root.batch():
        root["g/a"].attrs["x"] = "g"
        root["f/only"].attrs["x"] = "f"
        for source, target in (("f", "temporary"), ("g", "f"), ("temporary", "g")):
            root.move(source, target)
        root["g/a"].attrs["x"] = "f"
    check_current(items, zarr_format, groups={"", "f", "g"})
    assert [open_group(items, "r")[f"{path}/a"].attrs["x"] for path in "fg"] == ["g", "f"]


@pytest.mark.parametrize("is_local", [False, True])
def test_change_in_batch_does_not_parse_copies_again(
    is_local: bool, zarr_format: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store: Any = tmp_path if is_local else {}
    root = hierarchy(store, zarr_format)
    find, parsed = CopiesText.find, list[bytes]()

    def find_and_count(document: bytes, *arguments: Any, **keywords: Any) -> Any:
        parsed.append(document)
        return find(document, *arguments, **keywords)

    monkeypatch.setattr(CopiesText, "find", find_and_count)
    counts = []
    for count in (10, 40):
        parsed.clear()
        with root.batch():
            for number in range(count):
                array = root.create_array(f"new{count}-{number}", shape=3)
                array.attrs["number"] = number
                array.resize(5)
                if number % 3 == 0:
                    del root[array.path]
        counts.append(len(parsed))
    assert counts == [2, 2]  # for the mark and for the update
    check_current(store, zarr_format)


def test_change_in_batch_does_not_read_copies_again(tmp_path: Path, zarr_format: Any) -> None:
    """The change compares the version of the document instead."""
    store: Any = CountingStore(tessarr.stores.LocalStore(tmp_path))
    root = hierarchy(store, zarr_format)
    array = root["kept"]
    with root.batch():
        array.attrs["x"] = -1
        while store.get_version(holder(zarr_format))[1] is None:  # a recent file
            time.sleep(0.01)
        array.attrs["x"] = -2
        before = store.counts()["read_bytes"]
        for number in range(20):
            array.attrs["x"] = number
        size = (tmp_path / holder(zarr_format)).stat().st_size
        assert store.counts()["read_bytes"] - before < 10 * size  # documents of the array
    check_current(tmp_path, zarr_format)


def test_batch_rebuilds_copies_after_dead_program(zarr_format: Any) -> None:
    items: dict[str, bytes] = {}
    root = hierarchy(items, zarr_format)
    document = json.loads(items[holder(zarr_format)])
    copies = document["consolidated_metadata"] if zarr_format == 3 else document
    copies["tessarr_changes"] = {"1-dead": "g/a"}
    copies["metadata"].pop("kept" if zarr_format == 3 else "kept/.zarray")
    items[holder(zarr_format)] = json.dumps(document).encode()
    with root.batch():
        root["g/a"].attrs["x"] = 2
        root["g/a"].attrs["x"] = 3
    check_current(items, zarr_format)


def test_mark_of_long_batch_is_renewed(zarr_format: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs on stores without locks take a mark of ten minutes for that of a dead program."""
    items = Recording()
    root = hierarchy(items, zarr_format)
    now = 1_000_000_000.0
    monkeypatch.setattr("time.time", lambda: now)
    items.writes.clear()
    with root.batch():
        for later in (0.0, 100.0, 200.0, 301.0, 500.0):
            now = 1_000_000_000.0 + later
            root["kept"].attrs["x"] = later
            (mark,) = marks(items, zarr_format)
            assert changes._age_s(mark) < 300
    assert items.writes.count(holder(zarr_format)) == 3
    check_current(items, zarr_format)


def test_failed_update_at_end_warns_and_keeps_mark(zarr_format: Any) -> None:
    store = Stopping()
    root = hierarchy(store, zarr_format)

    def run() -> None:
        with root.batch():
            root["kept"].attrs["x"] = 2
            store.changes_left = 0

    with pytest.warns(TessarrWarning, match="call consolidate_metadata again"):
        run()
    assert marks(store, zarr_format)
    assert not open_group(dict(store), "r").consolidated


@pytest.mark.parametrize("in_batch", [False, True])
def test_failed_update_of_one_group_does_not_prevent_that_of_another(
    in_batch: bool, zarr_format: Any
) -> None:
    """A warning may be an error."""
    store = tessarr.stores.MemoryStore()
    root = hierarchy(store, zarr_format)
    key = holder(zarr_format)

    def damage_copies_of_root() -> Flow[None]:
        yield Put(key, bytes(store[key])[:-20])

    targets = [CopyUpdate((group, zarr_format), "g/a") for group in ("", "g")]
    with warnings.catch_warnings():
        warnings.simplefilter("error", TessarrWarning)
        expected = pytest.raises(TessarrWarning, match="metadata of group '/' does not show it")
        with expected, root.batch() if in_batch else nullcontext():
            run_flow(run_with_copy_updates(targets, damage_copies_of_root), store)
    check_current(store, zarr_format, groups={"g"})


@pytest.mark.slow
def test_batches_of_two_processes_leave_current_copies(tmp_path: Path, zarr_format: Any) -> None:
    """Each takes the mark of the other for that of a dead program."""
    hierarchy(tmp_path, zarr_format)
    code = """
import sys, tessarr
root = tessarr.open_group(sys.argv[1], mode="r+")
for n in range(3):
    with root.batch():
        for i in range(9):
            root["g/a"].attrs[f"{sys.argv[2]}{n}"] = i
            array = root.create_array(f"g/{sys.argv[2]}{n}_{i}", shape=1)
            if i % 3 == 0:
                del root[array.path]
        root.move(array.path, f"moved_{sys.argv[2]}{n}")
"""
    commands = [[sys.executable, "-c", code, str(tmp_path), name] for name in "xy"]
    processes = [subprocess.Popen(command) for command in commands]
    assert [process.wait(60) for process in processes] == [0, 0]
    check_current(tmp_path, zarr_format)
    assert len(open_group(tmp_path, "r")["g"]) == 2 + 2 * 3 * 5


@pytest.mark.parametrize("edit", EDITS)
def test_interrupted_batch_leaves_no_stale_copies(edit: str, zarr_format: Any) -> None:
    """After a stop at any write of a batch, copies are current or not used."""
    for count in range(100):
        store = Stopping()
        hierarchy(store, zarr_format)
        store.changes_left = count
        failed = False
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                root = open_group(store, mode="r+")
                with root.batch():
                    EDITS[edit](root)
                    root["kept"].attrs["x"] = 1
            except OSError:
                failed = True
        left = dict(store)
        for group in ("", "g"):
            reader = open_group(left, "r", path=group)
            stored = open_group(left, "r", path=group, use_consolidated=False)
            assert str(reader.tree()) == str(stored.tree())
            assert contents(reader) == contents(stored)
        if not failed and not caught:
            check_current(left, zarr_format)
            break
        open_group(left, mode="r+")["kept"].attrs["next"] = count
        assert tessarr.consolidated_differences(left) == {}
    assert count > 2


def test_batch_of_read_only_group_raises(zarr_format: Any) -> None:
    items: dict[str, bytes] = {}
    hierarchy(items, zarr_format)
    with pytest.raises(ReadOnlyError), open_group(items, "r").batch():
        pass
