"""Loops over metadata documents: consolidated metadata, attributes and new arrays."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import tessarr
from bench.loop_rows import LoopRow

__all__ = ["make_rows"]

NODES = 2000
"""The number of arrays with consolidated metadata."""

CREATED = 400
"""The number of arrays that a loop creates."""

COPIES = 30
"""Hierarchies with different documents: together too large for the memo of documents."""


def write_hierarchy(folder: Path, zarr_format: Any, title: int) -> Path:
    """Write arrays with attributes, and consolidated metadata."""
    root = tessarr.create_group(
        folder, zarr_format=zarr_format, attributes={"title": title}, overwrite=True
    )
    nodes = {
        f"g{number % 20}/a{number}": {
            "shape": (number + 1, 100),
            "dtype": "f4",
            "chunks": (1, 100),
            "attributes": {"units": "m", "long_name": f"variable {number}", "scale": 0.5},
        }
        for number in range(NODES)
    }
    root.create_hierarchy(nodes)
    tessarr.consolidate_metadata(folder)
    return folder


def open_rows(folder: Path, zarr_format: Any, key: str) -> Iterator[LoopRow]:
    """Yield the rows that open consolidated metadata."""
    first = write_hierarchy(folder / f"v{zarr_format}-0", zarr_format, 0)
    folders = [first]
    for title in range(1, COPIES):
        other = folder / f"v{zarr_format}-{title}"
        other.mkdir()
        document = (first / key).read_bytes()
        (other / key).write_bytes(document.replace(b'"title": 0', f'"title": {title}'.encode()))
        folders.append(other)
    unseen = cycle(folders[1:])  # the consolidation has parsed the first document
    calls: dict[str, Callable[[], object]] = {
        "tessarr": lambda: tessarr.open_consolidated(next(unseen), mode="r") and None,
        "json.loads": lambda: json.loads((first / key).read_bytes()) and None,
    }
    again: dict[str, Callable[[], object]] = {
        "tessarr": lambda: tessarr.open_consolidated(first, mode="r") and None,
        "json.loads": calls["json.loads"],
    }
    try:
        import zarr
    except ImportError:
        pass
    else:
        calls["zarr"] = again["zarr"] = lambda: zarr.open_consolidated(first) and None
    name = f"open {NODES} consolidated nodes, format {zarr_format}"
    yield LoopRow(name, calls, {"json.loads": 2.5, "zarr": 1.0})
    yield LoopRow(f"{name}, again", again, {"json.loads": 0.2, "zarr": 1.0})


def edit_row(folder: Path, zarr_format: Any, key: str) -> LoopRow:
    """Return the row that sets an attribute of an array below consolidated metadata."""
    ours = write_hierarchy(folder / f"edit{zarr_format}", zarr_format, 0)
    document = (ours / key).read_bytes()
    numbers = iter(range(1_000_000))
    array = tessarr.open_array(ours, path="g0/a0")

    def edit() -> None:
        array.attrs["number"] = next(numbers)

    calls: dict[str, Callable[[], object]] = {
        "tessarr": edit,
        "the write of the document": lambda: (folder / "copy").write_bytes(document) and None,
        "json.loads": lambda: json.loads(document) and None,
    }
    name = f"set an attribute below {NODES} consolidated nodes (≤ 20 ms), format {zarr_format}"
    return LoopRow(name, calls, {})


def create_row(folder: Path, zarr_format: Any) -> LoopRow:
    """Return the row that creates arrays below consolidated metadata."""

    def create(path: Path, *, consolidate: str) -> None:
        root = tessarr.create_group(path, zarr_format=zarr_format, overwrite=True)
        if consolidate != "no":
            root = tessarr.consolidate_metadata(path)
        if consolidate == "batch":
            with root.batch():
                fill(root)
        else:
            fill(root)

    def fill(root: Any) -> None:
        for number in range(CREATED):
            root.create_array(f"a{number}", shape=(10,), dtype="f4", attributes={"n": number})

    calls: dict[str, Callable[[], object]] = {
        f"tessarr, {what}": partial(create, folder / f"create-{use}", consolidate=use)
        for use, what in (("batch", "batch"), ("each", "one by one"), ("no", "no copies"))
    }
    try:
        import zarr
    except ImportError:
        pass
    else:

        def create_peer() -> None:
            path = folder / "create-zarr"
            root = zarr.open_group(path, mode="w", zarr_format=zarr_format)
            for number in range(CREATED):
                root.create_array(f"a{number}", shape=(10,), dtype="f4", attributes={"n": number})
            zarr.consolidate_metadata(path)

        calls["zarr, consolidated at the end"] = create_peer
    name = f"create {CREATED} arrays below consolidated metadata, format {zarr_format}"
    return LoopRow(name, calls, {"zarr, consolidated at the end": 1.0})


def make_rows(folder: Path) -> Iterator[LoopRow]:
    """Yield the rows."""
    for zarr_format, key in ((3, "zarr.json"), (2, ".zmetadata")):
        yield from open_rows(folder, zarr_format, key)
        yield edit_row(folder, zarr_format, key)
        yield create_row(folder, zarr_format)
