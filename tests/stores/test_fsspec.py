"""Stores on fsspec file systems: local, memory, and a web server on loopback."""

from __future__ import annotations

import gzip
import os
import pickle
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from upath import UPath

import tessarr
from stores.servers import Files, run_server
from tessarr.errors import ArgumentError, ReadOnlyError
from tessarr.store import LocalStore, open_store
from tessarr.store.wrappers.instrumented import CountingStore
from tessarr.stores import FsspecStore, FSStore, HTTPStore, LRUStoreCache, PrefixStore, ZipStore


class Server(Files):
    """Handler that records its requests."""

    requests: list[str]

    def do_GET(self) -> None:
        self.requests.append(f"GET {self.path}")
        super().do_GET()

    def do_HEAD(self) -> None:
        self.requests.append(f"HEAD {self.path}")
        super().do_HEAD()


@pytest.fixture(params=[True, False], ids=["ranges", "whole"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the URL of a server of ``tmp_path``, with or without ranges, and its requests."""
    requests: list[str] = []
    handler = type("Handler", (Server,), {"requests": requests, "ranges": request.param})
    with run_server(partial(handler, directory=str(tmp_path))) as port:
        yield f"http://127.0.0.1:{port}", requests


@pytest.mark.slow
def test_hierarchy_on_web_server_is_read(site: tuple[str, list[str]], tmp_path: Path) -> None:
    """A plain file server provides groups and arrays, with and without shards."""
    url, _ = site
    data = np.random.default_rng(0).random((300, 300))
    group = tessarr.create_group(tmp_path / "g")
    group.create_array("plain", data=data, chunks=(100, 100))
    group.create_array("sharded", data=data, chunks=(10, 10), shards=(300, 300))
    read = tessarr.open_group(f"{url}/g")
    assert read.read_only
    assert sorted(read.keys()) == ["plain", "sharded"]
    for name in read:
        array = tessarr.open_array(f"{url}/g/{name}")
        np.testing.assert_array_equal(array[:], data)
        np.testing.assert_array_equal(array[5:17, ::50], data[5:17, ::50])
    with pytest.raises(ReadOnlyError):
        tessarr.open_array(f"{url}/g/plain", mode="r+")[0, 0] = 1


@pytest.mark.slow
def test_document_needs_one_request(site: tuple[str, list[str]], tmp_path: Path) -> None:
    """The first request for a small document returns all of it."""
    url, requests = site
    tessarr.create_array(tmp_path / "a", data=np.arange(10), chunks=(5,))
    array = tessarr.open_array(f"{url}/a", mode="r", zarr_format=3)
    assert [request for request in requests if "zarr.json" in request] == ["GET /a/zarr.json"]
    del requests[:]
    assert array[:5].tolist() == [0, 1, 2, 3, 4]
    assert requests == ["GET /a/c/0"]


@pytest.mark.slow
def test_read_of_subchunk_reads_part_of_shard(tmp_path: Path, site: tuple[str, list[str]]) -> None:
    """The store sends ranged requests if the server supports them; a cache keeps the parts."""
    url, requests = site
    data = np.random.default_rng(0).random((500, 500))
    tessarr.create_array(
        tmp_path / "a", data=data, chunks=(50, 50), shards=(500, 500), compressors=None
    )
    counting = CountingStore(FsspecStore.from_url(f"{url}/a"))
    array = tessarr.open_array(LRUStoreCache(counting, None), mode="r")
    np.testing.assert_array_equal(array[:50, :50], data[:50, :50])
    # The document in memory, the shard index and the subchunk.
    assert counting.counts()["read_bytes"] < 30_000
    request_count = len(requests)
    np.testing.assert_array_equal(array[:50, :50], data[:50, :50])
    assert len(requests) == request_count


class Compressing(Files):
    """Handler that returns a gzip-compressed file if the request accepts that encoding."""

    def translate_path(self, path: str) -> str:
        return f"{super().translate_path(path)}{'.gz' if self.compresses() else ''}"

    def end_headers(self) -> None:
        if self.compresses():
            self.send_header("Content-Encoding", "gzip")
        super().end_headers()

    def compresses(self) -> bool:
        return "gzip" in self.headers["Accept-Encoding"]


@pytest.mark.slow
def test_ranged_reads_request_no_encoding(tmp_path: Path) -> None:
    """A range of the compressed response is no range of the value."""
    value = b"0123456789" * 20_000
    (tmp_path / "a").write_bytes(value)
    (tmp_path / "a.gz").write_bytes(gzip.compress(value))
    with run_server(partial(Compressing, directory=str(tmp_path))) as port:
        store = HTTPStore(f"http://127.0.0.1:{port}")
        assert store.get("a") == value
        part = store.open_value("a")
        assert part is not None
        assert (part.size, part.read(150_003, 4)) == (len(value), b"3456")


@pytest.mark.slow
@pytest.mark.parametrize("key", ["%2e%2e/secret", "a?b", "a#b", "a b", "a%20b", "é/ü", "a+b&c=d"])
def test_names_with_url_characters_round_trip(
    site: tuple[str, list[str]], tmp_path: Path, key: str
) -> None:
    """Keys are names, not URLs: each key maps to its own file below the root."""
    url, _ = site
    (tmp_path / "secret").write_bytes(b"outside")
    inside = LocalStore(tmp_path / "root")
    store = FsspecStore.from_url(f"{url}/root")
    assert store.get(key) is None
    inside.put(key, b"inside")
    assert store.get(key) == b"inside"
    assert store.size(key) == 6
    assert store.list() == [key]


def test_failing_file_system_is_not_empty_store() -> None:
    """Errors propagate; a forbidden file is absent only if an option says so."""

    class Forbidding(MemoryFileSystem):  # type: ignore[misc] # untyped
        def cat_file(self, path: str, **_: Any) -> bytes:
            raise PermissionError(path)

    store = FsspecStore(Forbidding(), "/nothing-here")
    with pytest.raises(PermissionError) as caught:
        store.get("k")
    assert any("k" in note for note in caught.value.__notes__)
    lenient = FsspecStore(Forbidding(), "/x", allowed_exceptions=(PermissionError,))
    assert lenient.get("k") is None
    assert FSStore("/x", fs=Forbidding(), exceptions=(PermissionError,)).get("k") is None


def test_local_file_system_uses_local_store(tmp_path: Path) -> None:
    """The local store keeps its locks and its atomic replacement."""
    store = FsspecStore(LocalFileSystem(), str(tmp_path / "x"))
    store.put("a/b", b"v")
    assert (tmp_path / "x" / "a" / "b").read_bytes() == b"v"
    assert LocalStore(tmp_path / "x").get("a/b") == b"v"
    assert open_store(UPath(tmp_path / "x"))[0] == LocalStore(tmp_path / "x")


def test_dir_file_system_is_unwrapped(tmp_path: Path) -> None:
    """Nested `DirFileSystem` objects and asynchronous wrappers for zarr-python 3 are unwrapped."""
    from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper

    inner = MemoryFileSystem()
    outer = DirFileSystem("/b/", DirFileSystem(f"{tmp_path}/a", inner))
    FsspecStore(outer, "c").put("k", b"v")
    assert inner.cat_file(f"{tmp_path}/a/b/c/k") == b"v"
    wrapped = AsyncFileSystemWrapper(inner, asynchronous=True)
    assert FsspecStore(wrapped, f"{tmp_path}/a").list() == ["b/c/k"]


@pytest.mark.slow
def test_asynchronous_file_system(site: tuple[str, list[str]], tmp_path: Path) -> None:
    """The store accepts an asynchronous file system and runs it without the caller's event loop."""
    (tmp_path / "k").write_bytes(b"v")
    fs = fsspec.filesystem("http", asynchronous=True)
    assert FsspecStore(fs, site[0]).get("k") == b"v"


def test_fsspec_object_is_returned_as_store(tmp_path: Path) -> None:
    """Users pass a map or a path as a store, and get the same object back as `store`."""
    where = f"memory:/{tmp_path}/given"
    for store in (fsspec.get_mapper(where), UPath(where)):
        array = tessarr.create_array(store, data=[1, 2, 3], overwrite=True)
        assert array.store is store
        assert tessarr.open_array(store, mode="r")[:].tolist() == [1, 2, 3]
        assert tessarr.open_array(FsspecStore.from_url(where), mode="r")[:].tolist() == [1, 2, 3]


def test_both_constructors_make_equal_stores(tmp_path: Path) -> None:
    """Stores from a URL, a path and a map are equal if file system and folder are equal."""
    where = f"memory:/{tmp_path}/x"
    store = FsspecStore.from_url(where)
    assert (
        store
        == FsspecStore.from_upath(UPath(where))
        == FsspecStore.from_mapper(fsspec.get_mapper(where))
    )
    assert store != FsspecStore.from_url(where, read_only=True)
    assert (store.fs, store.path) == (MemoryFileSystem(), f"{tmp_path}/x")
    again = pickle.loads(pickle.dumps(store))
    assert (again, hash(again), repr(again)) == (
        store,
        hash(store),
        f"FsspecStore('memory://{tmp_path}/x')",
    )
    with pytest.raises(TypeError):
        FsspecStore({}, "x")


def test_fsstore_accepts_arguments_of_zarr_python_2(tmp_path: Path) -> None:
    """The arguments have their meaning in zarr-python 2, or raise an error."""
    where = f"memory:/{tmp_path}/fs"
    store = FSStore(where, dimension_separator="/", check=True, create=True)
    array = tessarr.create_array(store, shape=(2, 2), chunks=(1, 1), zarr_format=2, dtype="i4")
    array[:] = 1
    assert store.get("0/0") is not None
    reader = FSStore(where, mode="r", key_separator="/")
    assert tessarr.open_array(reader, mode="r")[:].sum() == 4
    with pytest.raises(ReadOnlyError):
        reader.put("k", b"")
    again = pickle.loads(pickle.dumps(reader))
    assert again == reader
    assert again.read_only
    assert (again.dimension_separator, again.path) == ("/", reader.path)
    assert FSStore("/y", fs=MemoryFileSystem()).path == "/y"
    wrong: list[Callable[[], object]] = [
        lambda: FSStore(where, normalize_keys=True),
        lambda: FSStore(where, dimension_separator="-"),  # type: ignore[arg-type]
    ]
    for call in wrong:
        with pytest.raises(ArgumentError):
            call()
    with pytest.raises(TypeError, match="takes no 'anon'"):
        FSStore("/y", fs=MemoryFileSystem(), anon=True)


def test_listing_ignores_cache(tmp_path: Path) -> None:
    """Listings show keys of other writers, whatever fsspec has cached."""

    class Remembering(MemoryFileSystem):  # type: ignore[misc] # untyped
        cachable = False

        def __init__(self) -> None:
            super().__init__(use_listings_cache=True)

        def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
            result = self._ls_from_cache(path)
            if result is None:
                result = super().ls(path, detail=True)
                self.dircache[path] = result
            return result if detail else [entry["name"] for entry in result]

        def invalidate_cache(self, path: str | None = None) -> None:
            self.dircache.clear()

    store = FsspecStore(Remembering(), f"{tmp_path}/z")
    other = FsspecStore(MemoryFileSystem(), f"{tmp_path}/z")
    for number in range(3):
        other.put(f"a{number}", b"")
        assert len(store.list()) == len(store.list_dir()[0]) == number + 1
        store.put("size", b"x" * 100_000 * number)
        assert store.size("size") == 100_000 * number
        store.delete("size")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_forked_child_opens_own_connections(site: tuple[str, list[str]], tmp_path: Path) -> None:
    """The child has no request thread of the parent and starts another one."""
    (tmp_path / "k").write_bytes(b"v")
    store = FsspecStore.from_url(site[0])
    assert store.get("k") == b"v"
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(20)
            os._exit(0 if store.get("k") == b"v" else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert store.get("k") == b"v"


@pytest.mark.slow
def test_chained_url(site: tuple[str, list[str]], tmp_path: Path) -> None:
    """A chain of an fsspec cache and a server accepts options for each part."""
    tessarr.create_array(tmp_path / "a", data=[1, 2, 3])
    options = {"simplecache": {"cache_storage": str(tmp_path / "cache")}}
    store = FsspecStore.from_url(f"simplecache::{site[0]}/a", options)
    assert tessarr.open_array(store, mode="r")[:].tolist() == [1, 2, 3]
    assert any((tmp_path / "cache").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("site", [pytest.param(True, id="ranges")], indirect=True)
def test_zip_file_on_web_server_is_read(site: tuple[str, list[str]], tmp_path: Path) -> None:
    """The URL of the Zip file is enough, also if the file holds one folder."""
    for name, folder in (("plain.zip", ""), ("packed.zip", "packed.zarr")):
        with ZipStore(tmp_path / name, mode="w") as store:
            group = tessarr.create_group(PrefixStore(store, folder))
            group.create_array("a", data=[1, 2, 3])
        read = tessarr.open_group(f"{site[0]}/{name}")
        assert read.read_only
        for zip_store in (read, pickle.loads(pickle.dumps(read))):
            assert np.asarray(zip_store["a"]).tolist() == [1, 2, 3]


def test_deletion_removes_documents_before_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted deletion leaves no array without its chunks."""
    fs = MemoryFileSystem(skip_instance_cache=True)
    removed: list[list[str]] = []
    remove = fs.rm

    def record(paths: list[str]) -> None:
        removed.append(paths)
        remove(paths)

    monkeypatch.setattr(fs, "rm", record)
    store = FsspecStore(fs, "/documents-first")
    tessarr.create_group(store).create_group("g").create_array("a", data=[1, 2], chunks=1)
    store.delete_prefix("g/")
    documents, chunks = removed
    assert [path.rpartition("/")[2] for path in documents] == ["zarr.json", "zarr.json"]
    assert [path.rpartition("/")[2] for path in chunks] == ["0", "1"]


def test_delete_treats_no_key_as_pattern() -> None:
    """A deletion removes exactly the keys below the prefix, whatever characters they contain."""
    store = FsspecStore(MemoryFileSystem(), "/root[1]/a*")
    other = FsspecStore(MemoryFileSystem(), "/root1/ab")
    for key in ("x/a*", "x/ab", "x/[a]", "x/a", "x/?", "y"):
        store.put(key, b"1")
        other.put(key, b"1")
    store.delete_prefix("x/")
    assert store.list() == ["y"]
    assert len(other.list()) == 6
    other.delete_prefix("x/")
    assert other.list() == ["y"]
