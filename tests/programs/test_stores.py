"""Stores of zarr-python, obstore and Icechunk as stores of Tessarr."""

from __future__ import annotations

import asyncio
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import fsspec
import numpy as np
import pytest

import tessarr
from tessarr.errors import TessarrError, UnsupportedError
from tessarr.stores import FsspecStore, LocalStore

zarr = pytest.importorskip("zarr", minversion="3.1", reason="the stores of zarr-python 3")

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VALUES = np.arange(35, dtype="i4").reshape(5, 7)


class RecordingStore(zarr.storage.WrapperStore):  # type: ignore[misc]
    """A store that records the keys of its requests."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.requests: list[tuple[str, str]] = []

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        self.requests.append(("get", key))
        return await super().get(key, prototype, byte_range)

    async def set(self, key: str, value: Any) -> None:
        self.requests.append(("set", key))
        await super().set(key, value)


def _open_zip(folder: Path) -> Any:
    opening = zarr.storage.ZipStore.open(folder / "data.zip", mode="w")
    return zarr.core.sync.sync(opening)


def _open_fsspec(folder: Path) -> Any:
    return zarr.storage.FsspecStore.from_url(f"memory://{folder.name}")


def _open_obstore(folder: Path) -> Any:
    obstore = pytest.importorskip("obstore.store", reason="stores of obstore")
    del folder
    return zarr.storage.ObjectStore(obstore.MemoryStore())


STORES: dict[str, Callable[[Path], Any]] = {
    "memory": lambda folder: zarr.storage.MemoryStore(),
    "folder": zarr.storage.LocalStore,
    "zip": _open_zip,
    "fsspec": _open_fsspec,
    "object": _open_obstore,
    "logging": lambda folder: zarr.storage.LoggingStore(zarr.storage.MemoryStore(), "ERROR"),
    "logging zip": lambda folder: zarr.storage.LoggingStore(_open_zip(folder), "ERROR"),
    "wrapper": lambda folder: RecordingStore(zarr.storage.MemoryStore()),
}


SHARED = ["memory", "folder", "fsspec", "object"]
"""Stores that several handles may change, and that become read-only."""


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A store of zarr-python."""
    return STORES[request.param](tmp_path)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_store_with_array_of_zarr_python_reads_equal(store: Any, zarr_format: Any) -> None:
    theirs = zarr.create_array(
        store, name="a/b", shape=(5, 7), chunks=(2, 3), dtype="i4", zarr_format=zarr_format
    )
    theirs[:] = VALUES
    np.testing.assert_array_equal(tessarr.open_array(store, path="a/b", mode="r")[:], VALUES)
    assert list(tessarr.open_group(store, mode="r")) == ["a"]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_store_with_array_of_tessarr_reads_equal_in_zarr_python(
    store: Any, zarr_format: Any
) -> None:
    group = tessarr.create_group(store, zarr_format=zarr_format)
    ours = group.create_array("b", shape=(5, 7), chunks=(2, 3), dtype="i4")
    ours[1:, 2:] = VALUES[1:, 2:]
    expected = np.zeros_like(VALUES)
    expected[1:, 2:] = VALUES[1:, 2:]
    np.testing.assert_array_equal(zarr.open_array(store, path="b", mode="r+")[:], expected)


def test_store_with_shards_reads_and_writes_parts(
    request: pytest.FixtureRequest, store: Any
) -> None:
    theirs = zarr.create_array(store, shape=(8, 8), chunks=(2, 2), shards=(4, 8), dtype="u2")
    theirs[:] = 1
    ours = tessarr.open_array(store, mode="r")
    assert ours[3, 3:7].tolist() == [1, 1, 1, 1]
    if "zip" not in request.node.callspec.params["store"]:  # it would write a name twice
        tessarr.open_array(store, mode="r+")[3:5, 3] = 9
        assert theirs[2:6, 3].tolist() == [1, 9, 9, 1]


def test_store_lists_arrays_and_groups(store: Any) -> None:
    root = zarr.create_group(store)
    root.create_group("x/y")
    root.create_array("x/z", shape=3, dtype="i4")
    group = tessarr.open_group(store, mode="r")
    assert [name for name, _ in group.members(max_depth=None)] == ["x", "x/y", "x/z"]


def test_deleted_member_is_absent_in_zarr_python(tmp_path: Path) -> None:
    for name in SHARED:
        store = STORES[name](tmp_path)
        root = tessarr.create_group(store, overwrite=True)
        root.create_array("x", shape=3, dtype="i4")[:] = 1
        del root["x"]
        assert list(zarr.open_group(store, mode="r")) == [], name


def test_store_path_and_nodes_of_zarr_python_name_their_location(store: Any) -> None:
    root = zarr.create_group(store)
    array = root.create_array("x/y", shape=3, dtype="i4")
    array[:] = 7
    for location in (array.store_path, array):
        assert tessarr.open_array(location, mode="r")[:].tolist() == [7, 7, 7]
    assert list(tessarr.open_group(root["x"], mode="r")) == ["y"]


def test_native_stores_take_the_place_of_folders_and_file_systems(tmp_path: Path) -> None:
    local = tessarr.create_group(zarr.storage.LocalStore(tmp_path)).store
    assert local == zarr.storage.LocalStore(tmp_path)
    group = tessarr.open_group(zarr.storage.LocalStore(tmp_path))
    assert isinstance(group._store, LocalStore)
    memory = zarr.storage.FsspecStore(
        fsspec.filesystem("memory", asynchronous=True)
        if fsspec.filesystem("memory").async_impl
        else fsspec.implementations.asyn_wrapper.AsyncFileSystemWrapper(
            fsspec.filesystem("memory"), asynchronous=True
        ),
        path="/native",
    )
    assert isinstance(tessarr.create_group(memory, overwrite=True)._store, FsspecStore)


@pytest.mark.parametrize("store", SHARED, indirect=True)
def test_read_only_store_refuses_changes(store: Any) -> None:
    zarr.create_array(store, shape=3, dtype="i4")[:] = 1
    ours = tessarr.open_array(store.with_read_only(True), mode="r+")
    with pytest.raises(TessarrError, match="reading only"):
        ours[0] = 2
    assert ours[:].tolist() == [1, 1, 1]


def test_missing_node_sends_no_requests_for_format_1() -> None:
    store = RecordingStore(zarr.storage.MemoryStore())
    with pytest.raises(TessarrError):
        tessarr.open(store, mode="r")
    names = {key for _, key in store.requests}
    assert names <= {"zarr.json", ".zarray", ".zgroup"}


@pytest.mark.parametrize("store", [*SHARED, "logging", "wrapper"], indirect=True)
def test_concurrent_writes_of_one_chunk_lose_nothing(store: Any) -> None:
    tessarr.create_array(store, shape=200, chunks=50, dtype="i4")
    arrays = [tessarr.open_array(store, mode="r+") for _ in range(4)]

    def write(number: int) -> None:
        arrays[number % 4][number] = number + 1

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(200)))
    np.testing.assert_array_equal(tessarr.open_array(store, mode="r")[:], np.arange(200) + 1)


def test_array_in_folder_store_survives_pickling(tmp_path: Path) -> None:
    for store in (zarr.storage.LocalStore(tmp_path / "a"), _open_fsspec(tmp_path)):
        array = tessarr.create_array(store, shape=3, dtype="i4", overwrite=True)
        array[:] = 5
        assert pickle.loads(pickle.dumps(array))[:].tolist() == [5, 5, 5]


def test_open_in_the_event_loop_of_zarr_python_raises_error() -> None:
    store = RecordingStore(zarr.storage.MemoryStore())
    tessarr.create_array(store, shape=3, dtype="i4")

    async def read() -> Any:
        return tessarr.open_array(store, mode="r")

    with pytest.raises(UnsupportedError, match="event loop"):
        zarr.core.sync.sync(read())
    assert asyncio.run(read())[:].tolist() == [0, 0, 0]


def test_icechunk_session_reads_writes_and_commits() -> None:
    icechunk = pytest.importorskip("icechunk", reason="stores of Icechunk")
    repository = icechunk.Repository.create(icechunk.in_memory_storage())
    session = repository.writable_session("main")
    array = tessarr.create_array(session.store, path="a", shape=6, chunks=2, dtype="i4")
    array[1:5] = 3
    tessarr.create_group(session.store, path="g/h")
    assert list(tessarr.open_group(session.store, mode="r")) == ["a", "g"]
    session.commit("values")
    again = repository.readonly_session("main").store
    members = tessarr.open_group(again, mode="r").members(max_depth=None)
    assert [name for name, _ in members] == ["a", "g", "g/h"]
    assert tessarr.open_array(again, path="a", mode="r")[:].tolist() == [0, 3, 3, 3, 3, 0]
    with pytest.raises(TessarrError, match="reading only"):
        tessarr.open_array(again, path="a", mode="r+")[0] = 1


def test_icechunk_repository_is_named_in_the_error(tmp_path: Path) -> None:
    icechunk = pytest.importorskip("icechunk", reason="repositories of Icechunk")
    icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path)))
    with pytest.raises(TessarrError, match="Icechunk repository"):
        tessarr.open(tmp_path, mode="r")
    before = sorted(tmp_path.iterdir())
    for create in (
        tessarr.open,
        tessarr.create_group,
        lambda path: tessarr.open_group(path, mode="w"),
        lambda path: tessarr.create_array(path, shape=3, dtype="i4", overwrite=True),
        lambda path: tessarr.save(path, VALUES),
        lambda path: tessarr.copy_to(VALUES, path),
        lambda path: list(
            tessarr.create_hierarchy(path, {"": tessarr.create_group(None).metadata})
        ),
    ):
        with pytest.raises(TessarrError, match="Icechunk repository"):
            create(tmp_path)
    assert sorted(tmp_path.iterdir()) == before


class UnlistedStore(RecordingStore):
    """A store that lists groups and neither looks for single keys nor lists arrays."""

    async def exists(self, key: str) -> bool:
        raise NotImplementedError

    def list_prefix(self, prefix: str) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_groups_of_store_without_key_lookup_are_listed(zarr_format: Any) -> None:
    memory = zarr.storage.MemoryStore()
    root = zarr.create_group(memory, zarr_format=zarr_format)
    root.create_array("a", shape=3, dtype="i4")[:] = 1
    root.create_group("b/c")
    group = tessarr.open_group(UnlistedStore(memory), mode="r")
    assert list(group) == ["a", "b"]
    assert [name for name, _ in group.members(max_depth=None)] == ["a", "b", "b/c"]
    assert group["a"][:].tolist() == [1, 1, 1]
    with pytest.raises(UnsupportedError, match="cannot list the keys under 'a/': UnlistedStore"):
        _ = group["a"].nbytes_stored


def test_manifest_store_of_virtualizarr_reads_equal(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="the file that VirtualiZarr describes")
    parsers = pytest.importorskip("virtualizarr.parsers", reason="the stores of VirtualiZarr")
    registries = pytest.importorskip("obspec_utils.registry", reason="VirtualiZarr needs it")
    local = pytest.importorskip("obstore.store", reason="VirtualiZarr reads with it").LocalStore()
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("inner/a", data=VALUES, chunks=(2, 3))
        file.create_dataset("b", data=VALUES[0])
    registry = registries.ObjectStoreRegistry({"file://": local})
    store = parsers.HDFParser()(url=path.as_uri(), registry=registry)
    group = tessarr.open_group(store, mode="r")
    assert [name for name, _ in group.members(max_depth=None)] == ["b", "inner", "inner/a"]
    np.testing.assert_array_equal(group["inner/a"][1:4, ::2], VALUES[1:4, ::2])
    np.testing.assert_array_equal(group["b"][:], VALUES[0])
    with pytest.raises(TessarrError):
        group["b"][0] = 1
