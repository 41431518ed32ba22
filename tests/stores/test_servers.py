"""Several processes that change one place on a server lose nothing of each other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tessarr
import tessarr.tensorstore as ts
from stores import servers
from stores.programs import go, start
from stores.servers import Door
from tessarr.stores import FsspecStore

COUNT = 5  # changes of each process


@pytest.fixture(scope="module")
def s3() -> Iterator[Door]:
    with servers.s3() as door:
        yield door


@pytest.fixture(scope="module")
def gcs() -> Iterator[Door]:
    with servers.gcs() as door:
        yield door


@pytest.fixture(params=["s3", "gcs"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Door, str]:
    """A kind of store, its server, and a path that is empty."""
    door: Door = request.getfixturevalue(request.param)
    door.refusals = []
    return request.param, door, tmp_path.name


def store_of(kind: str, url: str, path: str) -> FsspecStore:
    """Return the store of Tessarr's own interface."""
    if kind == "s3":
        return FsspecStore.from_url(f"s3://bucket/{path}", {"endpoint_url": url})
    return FsspecStore.from_url(f"gs://bucket/{path}", {"endpoint_url": url, "token": "anon"})


_WAIT = "print('ready', flush=True); input()\n"
_OWN = f"""
import sys
import tessarr
from stores.test_servers import COUNT, store_of
kind, url, path, number = *sys.argv[1:4], int(sys.argv[4])
store = store_of(kind, url, path)
cells, log = tessarr.open_array(store, path="cells"), tessarr.open_array(store, path="log")
{_WAIT}
for turn in range(COUNT):
    cells[turn, number] = 1 + turn
    log.append([[number, turn]] * 3)
    tessarr.open_group(store).attrs[f"{{number}}.{{turn}}"] = turn
"""
_TENSORSTORE = f"""
import sys
import tessarr.tensorstore as ts
from stores import servers
from stores.test_servers import COUNT
kind, url, path, number = *sys.argv[1:4], int(sys.argv[4])
door = servers.Door(0)
door.url = url
place = servers.spec(kind, door, path + "/cells/")
cells = ts.open({{"driver": "zarr3", "kvstore": place}}).result()
shape = [None, None, None]
{_WAIT}
for turn in range(COUNT):
    if number == 2 and turn % 2 == 0:
        with ts.Transaction() as transaction:
            cells.with_transaction(transaction)[turn, number] = 1 + turn
    else:
        cells[turn, number] = 1 + turn
    shape[number] = 100 + turn
    cells.resize(exclusive_max=shape[:2], expand_only=True).result()
"""


def run(program: str, kind: str, door: Door, path: str) -> None:
    """Have three processes do the same at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(p for p in __import__("sys").path if p))
        programs = [start(program, kind, door.url, path, number) for number in range(3)]
    go(programs)


def test_processes_lose_nothing_of_each_other(place: tuple[str, Door, str]) -> None:
    """Parts of one chunk, attributes, and rows that are appended."""
    kind, door, path = place
    store = store_of(kind, door.url, path)
    group = tessarr.create_group(store)
    cells = group.create_array("cells", shape=(COUNT, 3), chunks=(COUNT, 3), dtype="i4")
    log = group.create_array("log", shape=(0, 2), chunks=(8, 2), dtype="i4")
    run(_OWN, kind, door, path)
    assert (cells[:] == np.arange(1, COUNT + 1)[:, None]).all()
    assert len(tessarr.open_group(store).attrs) == 3 * COUNT
    rows = tessarr.open_array(store, path="log")[:].tolist()
    expected = sorted([number, turn] for number in range(3) for turn in range(COUNT) for _ in "012")
    assert sorted(rows) == expected
    assert log.shape == (0, 2)


def test_processes_lose_nothing_through_the_interface_of_tensorstore(
    place: tuple[str, Door, str],
) -> None:
    """Parts of one chunk, in transactions too, and bounds."""
    kind, door, path = place
    spec = {"driver": "zarr3", "kvstore": servers.spec(kind, door, f"{path}/cells/")}
    chunk = ts.ChunkLayout(chunk_shape=[2 * COUNT, 3])
    new = ts.open(spec, create=True, dtype="int32", shape=[COUNT, 3], chunk_layout=chunk).result()
    run(_TENSORSTORE, kind, door, path)
    assert (new.read().result() == np.arange(1, COUNT + 1)[:, None]).all()
    assert ts.open(spec).result().shape == (99 + COUNT, 99 + COUNT)
