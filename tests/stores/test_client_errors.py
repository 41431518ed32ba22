"""Errors of fsspec file systems and of their client libraries are store errors."""

from __future__ import annotations

import builtins
import errno
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import tessarr
from stores import servers
from stores.servers import Proxy
from tessarr.errors import NotFoundError, StoreError, UnsupportedError
from tessarr.store.fsspec.client_errors import find_hidden_failure
from tessarr.stores import FsspecStore

Operation = Callable[[FsspecStore], object]

READS: dict[str, Operation] = {
    "get": lambda store: store.get("a/b"),
    "size": lambda store: store.size("a/b"),
    "contains": lambda store: "a/b" in store,
    "open_value": lambda store: store.open_value("a/b"),
    "read_range": lambda store: store.read_versioned("a/b", byte_range=(1, 3)),
    "open_node": lambda store: tessarr.open(store, mode="r"),
}
LISTS: dict[str, Operation] = {
    "list": lambda store: store.list("a/"),
    "list_dir": lambda store: store.list_dir("a/"),
}
WRITES: dict[str, Operation] = {
    "put": lambda store: store.put("a/b", b"1"),
    "replace": lambda store: store.replace("a/b", b"1", None),
    "delete": lambda store: store.delete("a/b"),
    "delete_prefix": lambda store: store.delete_prefix("a/"),
    "rename": lambda store: store.rename("a", "b"),
    "create_array": lambda store: tessarr.create_array(store, data=[1, 2]),
}


@pytest.fixture
def closed() -> str:
    """Return the address of a port at which no server listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.parametrize("name", READS | LISTS)
def test_refused_connection_is_retryable_store_error_with_url_and_key(
    closed: str, name: str
) -> None:
    """The cause of the error is the error of the client library."""
    url = f"http://{closed}/x"
    with pytest.raises(StoreError, match=url) as caught:
        (READS | LISTS)[name](FsspecStore.from_url(url))
    error = caught.value
    assert (error.errno, error.retryable, error.kind) == (errno.ECONNREFUSED, True, "store_failed")
    assert error.key in {"a/b", "zarr.json", "a/"}
    assert f"{url}/{error.key}".rstrip("/") in str(error)
    assert type(error.__cause__).__module__.startswith("aiohttp")


def test_open_of_url_with_refused_connection_raises_store_error(closed: str) -> None:
    """The web file system reports a file as absent although its server is unreachable."""
    with pytest.raises(StoreError, match=closed) as caught:
        tessarr.open(f"simplecache::http://{closed}/x", mode="r")
    assert (caught.value.errno, caught.value.retryable) == (errno.ECONNREFUSED, True)


def test_open_of_zip_file_on_refused_connection_is_store_error(closed: str) -> None:
    """The file system of a chained URL reads the file in its constructor."""
    with pytest.raises(StoreError, match="cannot open") as caught:
        tessarr.open(f"zip::http://{closed}/x.zip", mode="r")
    assert (caught.value.errno, caught.value.retryable) == (errno.ECONNREFUSED, True)


def test_open_of_non_zip_file_raises_store_error() -> None:
    """Errors of file systems that are no `OSError` are store errors, too."""
    MemoryFileSystem().pipe_file("/broken.zip", b"not a Zip file")
    with pytest.raises(StoreError, match=r"cannot open .*zip file"):
        FsspecStore.from_url("zip::memory://broken.zip")


class Failing(MemoryFileSystem):  # type: ignore[misc] # untyped
    """File system whose operations all raise the same error."""

    cachable = False

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def _fail(self, *_: Any, **__: Any) -> Any:
        raise self.error

    cat_file = info = pipe_file = rm_file = rm = find = ls = _fail


@pytest.mark.parametrize("name", READS | LISTS | WRITES)
@pytest.mark.parametrize(
    ("error", "number", "retryable"),
    [
        (RuntimeError("the session is closed"), None, False),
        (ValueError("the file is closed"), None, False),
        (OSError(errno.ENOSPC, "no space left"), errno.ENOSPC, False),
        (PermissionError("not allowed"), errno.EACCES, False),
        (TimeoutError(), errno.ETIMEDOUT, True),
    ],
)
def test_error_of_file_system_is_store_error_for_every_operation(
    name: str, error: Exception, number: int | None, retryable: bool
) -> None:
    """The store error has the errno of the system error, and the class for that errno."""
    store = FsspecStore(Failing(error), "/folder")
    with pytest.raises(StoreError, match="memory:///folder") as caught:
        (READS | LISTS | WRITES)[name](store)
    assert (caught.value.errno, caught.value.retryable) == (number, retryable)
    assert isinstance(caught.value, PermissionError) == isinstance(error, PermissionError)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [TypeError("an option"), MemoryError(), UserWarning("old")])
def test_mistake_of_program_reaches_user_unchanged(error: Exception) -> None:
    """Program errors and lack of memory are no store errors."""
    store = FsspecStore(Failing(error), "/folder")
    for operation in (READS["get"], LISTS["list"], WRITES["put"]):
        with pytest.raises(type(error)) as caught:
            operation(store)
        assert caught.value is error


def test_interrupt_in_file_system_reaches_user() -> None:
    """Ctrl-C is no store error."""

    class Interrupted(MemoryFileSystem):  # type: ignore[misc] # untyped
        cachable = False

        def cat_file(self, *_: Any, **__: Any) -> bytes:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        FsspecStore(Interrupted(), "/x").get("a")


def test_operation_missing_in_file_system_raises_unsupported_error() -> None:
    """The message names the operation and the store."""
    store = FsspecStore(Failing(NotImplementedError()), "/folder")
    with pytest.raises(UnsupportedError, match="cannot list memory:///folder/a/: the file system"):
        store.list("a/")


def test_absent_file_hides_no_failure() -> None:
    """A response that reports absence is no failure."""
    error = FileNotFoundError("a")
    assert find_hidden_failure(error) is None
    error.__cause__ = cause = ConnectionResetError()
    assert find_hidden_failure(error) is cause
    assert find_hidden_failure(cause) is None


def test_chunk_in_cache_of_unreachable_server_is_not_absent(tmp_path: Path) -> None:
    """An absent chunk has the fill value; an unreachable chunk raises an error."""
    import fsspec

    tessarr.create_array(tmp_path / "x", data=np.arange(8), chunks=4)
    (tmp_path / "x" / "c" / "1").unlink()

    class Unreachable(type(fsspec.filesystem("file"))):  # type: ignore[misc] # untyped
        """File system whose disk is unreachable."""

        protocol = "unreachable"
        lost = False

        def exists(self, path: str, **_: Any) -> bool:
            return not self.lost and super().exists(path)

        def info(self, path: str, **_: Any) -> Any:
            if self.lost:
                raise FileNotFoundError(path) from ConnectionResetError(errno.ECONNRESET, "lost")
            return super().info(path)

    target = Unreachable()
    cache = fsspec.filesystem("simplecache", fs=target, cache_storage=str(tmp_path / "cache"))
    array = tessarr.open_array(FsspecStore(cache, str(tmp_path / "x")), mode="r")
    assert array[4:].tolist() == [0] * 4
    target.lost = True
    with pytest.raises(StoreError) as caught:
        array[...]
    assert (caught.value.errno, caught.value.retryable) == (errno.ECONNRESET, True)


# Servers on loopback


def create_s3_files(**arguments: Any) -> Any:
    """Return a file system of S3 that repeats no request."""
    s3fs = pytest.importorskip("s3fs", reason="needs s3fs")
    once = {"retries": {"total_max_attempts": 1, "mode": "standard"}}
    fs = s3fs.S3FileSystem(**arguments, config_kwargs=once, skip_instance_cache=True)
    fs.retries = 1
    return fs


@pytest.fixture(scope="module", params=["http", "s3"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Proxy, FsspecStore]]:
    """Yield a server and a store on it that does not retry."""
    if request.param == "http":
        folder = tmp_path_factory.mktemp("served")
        tessarr.create_array(folder / "x", data=np.arange(8), chunks=4)
        (folder / "x" / "large").write_bytes(bytes(200_000))
        with servers.file_server(folder) as proxy:
            yield proxy, FsspecStore.from_url(f"{proxy.url}/x")
        return
    with servers.s3() as proxy:
        store = FsspecStore(create_s3_files(endpoint_url=proxy.url), "bucket/errors")
        tessarr.create_array(store, data=np.arange(8), chunks=4)
        store.put("large", bytes(200_000))
        yield proxy, store


@pytest.mark.slow
@pytest.mark.parametrize("status", [429, 500, 503])
def test_failing_server_is_retryable_store_error_for_every_operation(
    server: tuple[Proxy, FsspecStore], status: int
) -> None:
    """A busy server reports no absent key, and later returns the values."""
    proxy, store = server
    operations = READS | LISTS if store.read_only else READS | LISTS | WRITES
    for name, operation in operations.items():
        proxy.refusals = [status] * 100
        with pytest.raises(StoreError) as caught:
            operation(store)
        proxy.refusals = []
        assert (name, caught.value.retryable) == (name, True)
        assert not isinstance(caught.value.__cause__, (StoreError, type(None)))
        assert "x/" in str(caught.value) or "bucket/errors" in str(caught.value)
    assert tessarr.open_array(store, mode="r")[...].tolist() == builtins.list(range(8))


@pytest.mark.slow
@pytest.mark.parametrize("status", [429, 503])
def test_part_of_opened_value_from_failing_server_is_store_error(
    server: tuple[Proxy, FsspecStore], status: int
) -> None:
    """A value opens while the server works; the server refuses a later part."""
    proxy, store = server
    value = store.open_value("large")
    assert value is not None
    proxy.refusals = [status]
    with pytest.raises(StoreError, match="large") as caught:
        value.read(150_000, 10)
    assert (caught.value.key, caught.value.retryable) == ("large", True)
    assert value.read(150_000, 10) == bytes(10)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["http", "s3"])
def test_host_without_address_is_retryable_store_error(scheme: str) -> None:
    """The error number of a failed name resolution is no errno of the system."""
    host = "http://no-such-host.invalid"
    if scheme == "s3":
        fs = create_s3_files(endpoint_url=host, key="k", secret="s")
        store = FsspecStore(fs, "bucket/x")
    else:
        store = FsspecStore.from_url(f"{host}/x")
    with pytest.raises(StoreError, match="no-such-host") as caught:
        store.get("a")
    assert (caught.value.errno, caught.value.retryable) == (None, True)


@pytest.mark.slow
def test_missing_credentials_are_store_error_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to do for public data."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    store = FsspecStore.from_url("s3://bucket/x", {"skip_instance_cache": True})
    for operation in (READS["open_node"], LISTS["list"], WRITES["put"]):
        with pytest.raises(StoreError, match=r"cannot .* s3://bucket/x.*'anon': True") as caught:
            operation(store)
        assert type(caught.value.__cause__).__name__ == "NoCredentialsError"
        assert not caught.value.retryable


@pytest.mark.slow
def test_write_to_missing_bucket_raises_store_error() -> None:
    """A key in an absent bucket is absent; a write to it raises an error."""
    with servers.s3() as proxy:
        store = FsspecStore(create_s3_files(endpoint_url=proxy.url), "other/x")
        assert store.get("a") is None
        with pytest.raises(StoreError, match="s3://other/x/a") as caught:
            store.put("a", b"1")
        assert not isinstance(caught.value, NotFoundError)
        assert not store.fs.exists("other")
