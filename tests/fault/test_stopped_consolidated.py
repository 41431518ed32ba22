"""Changes that stop below consolidated metadata: readers use no stale copies."""

from __future__ import annotations

import json
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tessarr
from stores.failing import Stopping
from tessarr.errors import StoreError, TessarrWarning
from tessarr.flow.changes import CopyUpdate, _put_mark
from tessarr.flow.consolidate import rebuild_copies
from tessarr.flow.consolidated_copies import copies_key
from tessarr.flow.run import Replace, perform_request, run_flow
from tessarr.format import json as _json
from tessarr.metadata.consolidated import read_marks
from tessarr.stores import MemoryStore

# Untyped, because the test knows the kind of each member.
open_group: Any = tessarr.open_group

ACTIONS: dict[str, Callable[[Any], object]] = {
    "attributes": lambda root: root["g/a"].attrs.update(x=2),
    "attributes of a group": lambda root: root["g"].attrs.update(x=2),
    "resize": lambda root: root["g/a"].resize(3),
    "append": lambda root: root["g/a"].append([7, 8, 9]),
    "fill value": lambda root: setattr(root["g/a"], "fill_value", 9),
    "create": lambda root: root.create_array("g/h/i/b", shape=3, dtype="i2"),
    "overwrite": lambda root: root.create_array("g/a", shape=3, dtype="i2", overwrite=True),
    "assign": lambda root: root.__setitem__("g/a", np.arange(4)),
    "delete": lambda root: root.__delitem__("g"),
    "move": lambda root: root.move("g", "h"),
}


def hierarchy(store: Any, zarr_format: Any) -> None:
    root: Any = tessarr.create_group(store, zarr_format=zarr_format)
    group = root.create_group("g")
    group.create_array("a", data=np.arange(6), chunks=2, attributes={"x": 1})
    root.create_array("kept", data=[1])
    tessarr.consolidate_metadata(store, "g")
    tessarr.consolidate_metadata(store)


def contents(group: Any) -> dict[str, Any]:
    """Return the metadata of all nodes below a group."""
    return {
        path: (node.metadata.attributes, getattr(node, "shape", None), node.attrs.asdict())
        for path, node in group.members(max_depth=None)
    }


def check_not_stale(items: dict[str, bytes]) -> None:
    """Check that reads with and without consolidated metadata agree."""
    stored = contents(open_group(dict(items), "r", use_consolidated=False))
    assert contents(open_group(dict(items), "r")) == stored
    assert contents(tessarr.open_consolidated(dict(items), mode="r")) == stored
    if "g" in stored:
        below = open_group(dict(items), "r", path="g")
        plain = open_group(dict(items), "r", path="g", use_consolidated=False)
        assert contents(below) == contents(plain)


def has_marks(items: dict[str, bytes]) -> bool:
    return any(b"tessarr_changes" in value for value in items.values())


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("action", ACTIONS)
def test_interrupted_change_leaves_no_stale_copies(action: str, zarr_format: Any) -> None:
    """After a stop at any change, copies are correct or unused; the next edit repairs them."""
    marked = False
    for count in range(100):
        store = Stopping()
        hierarchy(store, zarr_format)
        store.changes_left = count
        failed = False
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                ACTIONS[action](open_group(store, mode="r+"))
            except OSError:
                failed = True
        warned = [result for result in caught if issubclass(result.category, TessarrWarning)]
        left = dict(store)
        check_not_stale(left)
        marked |= has_marks(left)
        if not failed and not warned:
            assert not has_marks(left)
            assert tessarr.consolidated_differences(left) == {}
            break
        open_group(left, mode="r+")["kept"].attrs["next"] = count
        assert tessarr.consolidated_differences(left) == {}
        assert open_group(left, "r").consolidated
        check_not_stale(left)
    assert marked
    assert count > 2


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_consolidate_metadata_removes_marks(zarr_format: Any) -> None:
    """Consolidation creates valid copies and clears all marks."""
    items: dict[str, bytes] = {}
    hierarchy(items, zarr_format)
    key = ".zmetadata" if zarr_format == 2 else "zarr.json"
    document = json.loads(items[key])
    copies = document if zarr_format == 2 else document["consolidated_metadata"]
    copies["tessarr_changes"] = {"1-dead": "g/a"}
    items[key] = json.dumps(document).encode()
    assert not open_group(items, "r").consolidated
    assert list(tessarr.open_consolidated(items, mode="r")) == ["g", "kept"]
    tessarr.consolidate_metadata(items)
    assert not has_marks(items)
    assert open_group(items, "r").consolidated


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    ("age_s", "exclusive", "is_stale"), [(0, True, True), (0, False, False), (3600, False, True)]
)
def test_mark_of_dead_program_rebuilds_copies(
    zarr_format: Any, age_s: float, exclusive: bool, is_stale: bool
) -> None:
    """If locks exclude other processes, a mark belongs to a dead process; else its age decides."""
    store = MemoryStore()
    hierarchy(store, zarr_format)
    target = CopyUpdate(("", zarr_format), "g/a")
    run_flow(_put_mark(target, f"{time.time() - age_s:.0f}-other", exclusive=exclusive), store)
    mark = _put_mark(target, f"{time.time():.0f}-own", exclusive=exclusive)
    assert run_flow(mark, store)[0] == is_stale
    stored = store[copies_key("", zarr_format)]
    document, _ = _json.load(stored, what="the copies")
    assert {name.partition("-")[2] for name in read_marks(document, zarr_format)} == {
        "other",
        "own",
    }


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_consolidate_during_change_of_other_program_copies_change(zarr_format: Any) -> None:
    """Consolidation reads a node again if it changes meanwhile, also without locks."""
    store = MemoryStore()
    hierarchy(store, zarr_format)
    flow = rebuild_copies("", zarr_format)
    request = next(flow)
    edits = 0
    with pytest.raises(StopIteration):
        while True:
            if isinstance(request, Replace) and edits < 2:
                edits += 1
                open_group(store, mode="r+")["g/a"].attrs["x"] = 2 + edits
            request = flow.send(perform_request(request, store))
    assert edits == 2
    check_not_stale(dict(store))
    assert open_group(store, "r")["g/a"].attrs["x"] == 4


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_consolidate_with_endless_conflicts_raises(zarr_format: Any) -> None:
    """Consolidation ends with an error; the stored copies are those of the other writers."""
    store = MemoryStore()
    hierarchy(store, zarr_format)
    flow = rebuild_copies("", zarr_format)
    request = next(flow)
    with pytest.raises(StoreError, match="other programs change nodes"):
        for count in range(10_000):
            if isinstance(request, Replace):
                open_group(store, mode="r+")["g/a"].attrs["x"] = count
            request = flow.send(perform_request(request, store))
    check_not_stale(dict(store))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_rebuild_keeps_marks_of_live_programs(zarr_format: Any) -> None:
    """The mark of a live process remains until the copies include its change."""
    store = MemoryStore()
    hierarchy(store, zarr_format)
    target = CopyUpdate(("", zarr_format), "g/a")
    run_flow(_put_mark(target, "1-dead", exclusive=False), store)
    run_flow(_put_mark(target, "2-live", exclusive=False), store)
    run_flow(rebuild_copies("", zarr_format, is_active=lambda mark: mark == "2-live"), store)
    document, _ = _json.load(store[copies_key("", zarr_format)], what="the copies")
    assert read_marks(document, zarr_format) == {"2-live": "g/a"}


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_consolidate_metadata_waits_for_changes(tmp_path: Any, zarr_format: Any) -> None:
    """Marking a change and copying metadata hold the same key."""
    hierarchy(tmp_path, zarr_format)
    store = open_group(tmp_path, mode="r+").store
    done = threading.Event()

    def consolidate() -> None:
        tessarr.consolidate_metadata(tmp_path)
        done.set()

    thread = threading.Thread(target=consolidate)

    def start() -> bool:
        thread.start()
        return done.wait(0.1)

    assert not store.hold(".copies", start)
    thread.join(60)
    assert done.is_set()


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_change_without_mark_permission_leaves_no_mark(zarr_format: Any) -> None:
    """If one group refuses the mark, the marks on other groups are removed."""
    store = Stopping()
    hierarchy(store, zarr_format)
    marked = ".zmetadata" if zarr_format == 2 else "zarr.json"

    class Refusing(Stopping):
        def __setitem__(self, key: str, value: bytes) -> None:
            if key == f"g/{marked}":
                raise OSError("refused")
            super().__setitem__(key, value)

    refusing = Refusing(store)
    node = open_group(refusing, mode="r+")["g/a"]
    with pytest.raises(OSError, match="refused"):
        node.attrs["x"] = 2
    assert dict(refusing) == dict(store)


@pytest.mark.slow
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_marked_copies_open_in_zarr_python(tmp_path: Any, zarr_format: Any) -> None:
    """zarr-python opens a group whose copies are marked."""
    zarr = pytest.importorskip("zarr", reason="zarr-python opens the marked copies")
    hierarchy(tmp_path, zarr_format)
    key = tmp_path / (".zmetadata" if zarr_format == 2 else "zarr.json")
    document = json.loads(key.read_text())
    copies = document if zarr_format == 2 else document["consolidated_metadata"]
    copies["tessarr_changes"] = {"1-dead": "g/a"}
    key.write_text(json.dumps(document))
    for consolidated in (None, True):
        group = zarr.open_group(tmp_path, mode="r", use_consolidated=consolidated)
        assert group["g/a"][:].tolist() == list(range(6))
