"""The chunk cache never returns an old value, and a remote read of a cached chunk has no body."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from stores import servers
from stores.clouds import Cloud
from stores.processes import start_program
from tessarr import _engine
from tessarr.store import ForeignStore
from tessarr.store.zip.nested import ZipValueStore
from tessarr.stores import HTTPStore, MemoryStore, ZipStore

LAYOUTS: dict[str, dict[str, Any]] = {
    "chunk": {"chunks": 64},
    "shard": {"chunks": 16, "shards": 64},
}
VALUES = np.arange(64)


def hits() -> int:
    return _engine.count_chunk_cache()["hits"]


def create(store: Any, layout: str, **settings: Any) -> tessarr.Array:
    settings = {**LAYOUTS[layout], "compressors": "zstd", **settings}
    array = tessarr.create_array(store, shape=64, dtype="i8", **settings)
    array[:] = VALUES
    time.sleep(0.03)  # a file that has just changed has no version
    return array


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("writer", ["same", "other", "store", "delete"])
def test_change_in_this_process_is_seen(writer: str, layout: str, tmp_path: Path) -> None:
    array = create(tmp_path, layout)
    other = tessarr.open_array(tmp_path)
    for number in range(3):
        before = hits()
        assert [array[2], array[3]] == [2 + 100 * number, 3 + 100 * number]
        assert hits() > before
        new = VALUES + 100 * (number + 1)
        if writer == "same":
            array[:] = new
        elif writer == "other":
            other[:] = new
        elif writer == "store":
            create(tmp_path / "new", layout, overwrite=True)[:] = new
            os.replace(tmp_path / "new/c/0", tmp_path / "c/0")
        else:
            (tmp_path / "c/0").unlink()
            assert array[3] == 0
            other[:] = new
        assert array[3] == 103 + 100 * number
        time.sleep(0.03)


WRITER = """
import mmap, sys, time
import numpy as np
import tessarr

array = tessarr.open_array(sys.argv[1], mode="r+")
with open(sys.argv[2], "r+b") as file:
    written = np.frombuffer(mmap.mmap(file.fileno(), 8), "i8")
print("ready", flush=True)
sys.stdin.readline()
for number in range(1, 200):
    if number % 3:
        array[...] = number
    else:
        array[10:30] = number
    written[0] = number
    time.sleep(0.03 if number % 8 == 0 else 0.001)
"""


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_reader_beside_writer_never_sees_an_old_value(layout: str, tmp_path: Path) -> None:
    """A value is read after its writer has announced it, by old and new array objects."""
    create(tmp_path / "a", layout)[...] = 0
    (tmp_path / "written").write_bytes(bytes(8))
    process = start_program(WRITER, tmp_path / "a", tmp_path / "written")
    written = np.memmap(tmp_path / "written", "i8", mode="r")
    array = tessarr.open_array(tmp_path / "a", mode="r")
    before, last = hits(), 0
    assert process.stdin is not None
    process.stdin.write(b"go\n")
    process.stdin.flush()
    while process.poll() is None or last < 199:
        last = int(written[0])
        assert array[20] >= last
        assert tessarr.open_array(tmp_path / "a", mode="r")[12:20].min() >= last
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert array[20] == 199
    assert hits() > before + 20


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["file", "value"])
def test_replaced_zip_member_is_seen(kind: str, layout: str, tmp_path: Path) -> None:
    """Chunks of Zip members are cached, and belong to one value of one state of the archive."""
    new: dict[str, bytes] = {}
    create(new, layout)[:] = VALUES + 100
    outer = MemoryStore()
    store: Any = ZipStore(tmp_path / "a.zip", mode="w")
    if kind == "value":
        store = ZipValueStore(outer, "a.zip")
    array = create(store, layout)
    for expected in (0, 100, 0):
        before = hits()
        assert [array[2], array[3], array[4]] == [expected + n for n in (2, 3, 4)]
        assert hits() == before + 2
        # Another object replaces the value.
        old = store["c/0"]
        if kind == "file":
            store.put("c/0", new["c/0"])
        else:
            ZipValueStore(outer, "a.zip").put("c/0", new["c/0"])
        new["c/0"] = old


def test_reopened_zip_file_shares_no_chunks_with_its_former_values(tmp_path: Path) -> None:
    for number in range(3):
        with ZipStore(tmp_path / "a.zip", mode="w") as store:
            create(store, "chunk")[:] = VALUES + number
        array = tessarr.open_array(ZipStore(tmp_path / "a.zip", mode="r"))
        assert [array[2], array[3]] == [2 + number, 3 + number]


def test_zip_value_without_version_caches_no_member() -> None:
    """Each read opens the archive again."""
    outer: dict[str, bytes] = {}
    array = create(ZipValueStore(ForeignStore(outer), "a.zip"), "chunk")
    before = _engine.count_chunk_cache()["bytes"]
    assert [array[2], array[3]] == [2, 3]
    assert _engine.count_chunk_cache()["bytes"] == before


class Conditional(servers.Files):
    """Handler that answers 304 if the file has not changed."""

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        tag = self.headers.get("If-None-Match")
        if tag and path.is_file() and tag == f'"{path.stat().st_mtime_ns:x}"':
            self.send_response(304)
            self.send_header("ETag", tag)
            self.end_headers()
        else:
            super().do_GET()


@pytest.mark.parametrize("kind", [Conditional, servers.Files])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_web_server_sends_an_unchanged_chunk_once(
    layout: str, kind: type[servers.Files], tmp_path: Path
) -> None:
    create(tmp_path, layout)
    with servers.file_server(tmp_path, kind) as proxy:
        array = tessarr.open_array(HTTPStore(proxy.url), mode="r")
        assert array[2] == 2
        for value in (3, 4):
            proxy.reset_counts()
            assert array[value] == value
            assert len(proxy.requests) == 1
            assert "If-None-Match" in proxy.headers[0]
        assert array[2:12].tolist() == list(range(2, 12))
        assert array[20] == 20
        tessarr.open_array(tmp_path)[...] = VALUES + 100
        assert array[5] == 105
        proxy.reset_counts()
        assert array[6] == 106
        assert len(proxy.requests) == 1
        (tmp_path / "c/0").unlink()
        assert array[6] == 0


def test_new_store_sends_no_version_of_a_former_store(tmp_path: Path) -> None:
    """A new store may have the address of a former one in memory."""
    create(tmp_path, "chunk")
    with servers.file_server(tmp_path, Conditional) as proxy:
        for _ in range(20):
            array = tessarr.open_array(HTTPStore(proxy.url), mode="r")
            proxy.reset_counts()
            assert [array[2], array[3]] == [2, 3]
            assert ["If-None-Match" in headers for headers in proxy.headers] == [False, True]
            del array


@pytest.mark.parametrize("layout", LAYOUTS)
def test_cloud_sends_an_unchanged_chunk_once(cloud: Cloud, layout: str) -> None:
    options = cloud.storage_options
    create(cloud.url("x"), layout, storage_options=options)
    writer = tessarr.open_array(cloud.url("x"), storage_options=options)
    array = tessarr.open_array(cloud.url("x"), mode="r", storage_options=options)
    assert array[2] == 2
    for value in (3, 4):
        cloud.proxy.reset_counts()
        assert array[value] == value
        assert len(cloud.proxy.requests) == 1
        condition = ("Range", "bytes=0-0") if cloud.kind == "gs" else ("If-None-Match", None)
        assert cloud.proxy.headers[0][condition[0]] == condition[1] or condition[1] is None
    writer[5] = 7
    assert [array[5], array[3]] == [7, 3]
    writer[...] = VALUES + 100
    assert array[5] == 105
    cloud.proxy.reset_counts()
    assert [array[6], array[7]] == [106, 107]
    assert len(cloud.proxy.requests) == 2


def test_several_remote_chunks_are_revalidated(cloud: Cloud) -> None:
    """Only the changed chunk of a selection is sent again."""
    options = cloud.storage_options
    settings: Any = {"chunks": 16, "compressors": "zstd", "storage_options": options}
    writer = tessarr.create_array(cloud.url("x"), data=VALUES, **settings)
    array = tessarr.open_array(cloud.url("x"), mode="r", storage_options=options)
    assert array[1:63].tolist() == list(range(1, 63))
    writer[20] = 7
    before = hits()
    values = array[15:49].tolist()
    assert values == [*range(15, 20), 7, *range(21, 49)]
    assert hits() >= before + 2
