"""Server faults: each ends in a clear error, never in wrong data or a long wait."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import fsspec.asyn
import numpy as np
import pytest

import tessarr
import tessarr.tensorstore as ts
from stores import servers
from stores.servers import Files, Proxy, run_server
from tessarr.errors import ArgumentError, StoreError, UnsupportedError
from tessarr.store.wrappers.retry import RetryingStore
from tessarr.stores import FsspecStore, LRUStoreCache

pytestmark = pytest.mark.slow

VALUES = np.arange(8 * 40_000, dtype="i4").reshape(8, 40_000)  # rows of 160 kB
SHARDS = {"chunks": (1, 1000), "shards": (1, 40_000)}


@pytest.fixture(params=[{"chunks": (1, 40_000)}, SHARDS], ids=["chunks", "shards"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a folder with rows as chunks or as shards."""
    tessarr.create_array(tmp_path, data=VALUES, compressors=None, **request.param)
    return tmp_path


class Other(Files):
    """Handler that responds with another range than the request's."""

    def part(self, first: int, last: int) -> tuple[int, int]:
        raise NotImplementedError

    def do_GET(self) -> None:
        path, asked = Path(self.translate_path(self.path)), self.headers.get("Range", "")
        found = re.fullmatch(r"bytes=(\d*)-(\d*)", asked)
        if found and path.is_file():
            end = path.stat().st_size
            last = min(int(found[2]), end - 1) if found[1] else end - 1
            first = int(found[1]) if found[1] else max(0, end - int(found[2]))
            first, last = self.part(first, last)
            self.headers.replace_header("Range", f"bytes={first}-{last}")
        super().do_GET()


class Sparing(Other):
    """Handler that responds with fewer bytes than the range has."""

    def part(self, first: int, last: int) -> tuple[int, int]:
        return first, min(last, first + 30_000)


class Mistaken(Other):
    """Handler that responds with an earlier range."""

    def part(self, first: int, last: int) -> tuple[int, int]:
        return max(0, first - 100), max(0, last - 100)


class AfterStart(Other):
    """Handler that responds with a range after the first bytes."""

    def part(self, first: int, last: int) -> tuple[int, int]:
        return (first, last) if first else (last + 1, 2 * last + 1)


@contextmanager
def served(folder: Path, handler: type[Files], **settings: Any) -> Iterator[str]:
    made = type("Handler", (handler,), settings)
    with run_server(partial(made, directory=str(folder))) as port:
        yield f"http://127.0.0.1:{port}"


def opened(url: str, **settings: Any) -> tessarr.Array:
    return tessarr.open_array(FsspecStore.from_url(url, **settings), mode="r")


def test_short_response_is_completed(folder: Path) -> None:
    with served(folder, Sparing) as url:
        array = opened(url)
        assert (array[:] == VALUES).all()
        assert (array[3] == VALUES[3]).all()
        assert (array[2:7, 17_000:39_000] == VALUES[2:7, 17_000:39_000]).all()
        store = array.store
        assert store.get("c/1/0") == (folder / "c/1/0").read_bytes()
        value = store.open_value("c/1/0")
        assert value.read(100, 70_000) == (folder / "c/1/0").read_bytes()[100:70_100]


def test_range_unit_is_case_insensitive(folder: Path) -> None:
    with served(folder, Files, unit="Bytes") as url:
        assert (opened(url)[2:7, 17_000:39_000] == VALUES[2:7, 17_000:39_000]).all()


@pytest.mark.parametrize("own", [{}, {"client_kwargs": {"trust_env": False}}])
@pytest.mark.parametrize(
    ("told", "count"),
    [
        ("Bytes */70000", 1),
        ("bytes */+7", 2),
        ("bytes */99999", 2),
        ("*/7", 2),
        ("7", 2),
        ("bytes */0", 2),
        ("", 2),
    ],
)
def test_refused_range_without_size_reads_whole_file(
    tmp_path: Path, told: str, count: int, own: dict[str, Any]
) -> None:
    """The failed range has no total size, and an empty value has no generation."""
    requests: list[str] = []

    def get(self: Files) -> None:
        requests.append(self.headers.get("Range", ""))
        Files.do_GET(self)

    def refuse(self: Files, _: int) -> None:
        self.send_response(416)
        self.send_header("Content-Range", told)
        self.send_header("Content-Length", "0")
        self.end_headers()

    (tmp_path / "a").write_bytes(bytes(70_000))
    with served(tmp_path, Files, do_GET=get, _refuse=refuse) as url:
        store = FsspecStore.from_url(url, own)
        with pytest.raises(ArgumentError, match=r"for value of size 70000$"):
            store.read_versioned("a", byte_range=(80_000, 80_009))
    assert requests == ["bytes=80000-80008", ""][:count]


@pytest.mark.parametrize("handler", [Mistaken, AfterStart])
def test_wrong_range_in_response_raises(folder: Path, handler: type[Files]) -> None:
    stored = (folder / "c/1/0").read_bytes()
    with served(folder, handler) as url:
        store = FsspecStore.from_url(url)
        for offset, count in ((0, 50), (0, 70_000), (500, 50), (90_000, 70_000)):
            try:
                value = store.open_value("c/1/0")
                assert value is not None
                found = value.read(offset, count)
            except StoreError as error:
                assert "the server gave" in str(error)
            else:
                assert found == stored[offset : offset + count]


# A loop that ends


class Withholding(Files):
    """Handler that delays responses for chunks until an event is set."""

    asked: threading.Semaphore
    answers: threading.Event

    def do_GET(self) -> None:
        if "/c/" in self.path:
            self.asked.release()
            self.answers.wait(60)
        super().do_GET()


@contextmanager
def withheld(folder: Path) -> Iterator[tuple[str, threading.Semaphore]]:
    """Yield the URL of a server without responses, and a semaphore that counts chunk requests."""
    asked, answers = threading.Semaphore(0), threading.Event()
    with served(folder, Withholding, asked=asked, answers=answers) as url:
        try:
            yield url, asked
        finally:
            answers.set()


def ended(
    program: list[str], asked: threading.Semaphore, most: int
) -> tuple[bytes, tuple[int, bytes]]:
    """End a program after `most` requests; return its output, and its exit code with stderr."""
    command = [sys.executable, "-c", *program]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            for _ in range(most):
                assert asked.acquire(timeout=30)
            written, errors = process.communicate(b"\n", timeout=30)
        finally:
            process.kill()
    return written, (process.returncode, errors)


_CLOSED = """
import asyncio, sys, threading
import tessarr
from fsspec.implementations.http import HTTPFileSystem
from tessarr.errors import StoreError
from tessarr.stores import FsspecStore

url, what, cancelled = sys.argv[1:]
loop = asyncio.new_event_loop()
loop.set_exception_handler(lambda *_: None)  # of tasks that were under way
serving = threading.Thread(target=loop.run_forever)
serving.start()
store = FsspecStore(HTTPFileSystem(loop=loop), url, concurrency=4)
array = tessarr.open_array(store, mode="r")

def told():
    try:
        eval(what)
    except StoreError as error:
        print(error, flush=True)

async def cancel():
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)

waiting = threading.Thread(target=told)
waiting.start()
input()
if cancelled == "True":
    asyncio.run_coroutine_threadsafe(cancel(), loop).result()
loop.call_soon_threadsafe(loop.stop)
serving.join()
loop.close()
waiting.join()
told()
"""


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize(
    ("what", "most"),
    [
        ("array[0]", 1),
        ("array[:]", 4),
        ("array.read(0).result()", 1),
        ("array.read().result()", 4),
        ("store.get('c/0/0')", 1),
    ],
)
def test_closed_event_loop_raises_in_waiting_threads(
    tmp_path: Path, what: str, most: int, cancelled: bool
) -> None:
    tessarr.create_array(tmp_path, data=VALUES, chunks=(1, 40_000))
    with withheld(tmp_path) as (url, asked):
        told, _ = ended([_CLOSED, url, what, str(cancelled)], asked, most)
    assert told.count(b"was closed during the request") == 2, told


# The thread of a loop


@pytest.fixture(scope="module")
def bucket() -> Iterator[Proxy]:
    with servers.s3() as proxy:
        yield proxy


def outcomes(works: list[Callable[[], object]]) -> list[object]:
    """Return the result or the exception of each function."""
    found: list[object] = []
    for work in works:
        try:
            found.append(work())
        except Exception as error:
            found.append(error)
    return found


def test_changes_in_loop_thread_raise(bucket: Proxy) -> None:
    """The same changes succeed on other threads."""
    settings = {"endpoint_url": bucket.url, "client_kwargs": {"region_name": "us-east-1"}}
    fs = fsspec.filesystem("s3", **settings)
    values = np.arange(64)
    store = FsspecStore(fs, "bucket/inside", concurrency=8)
    array = tessarr.create_array(store, data=values, chunks=4)
    remembered = tessarr.open_array(LRUStoreCache(store, max_size=2**20))
    few = tessarr.open_array(FsspecStore(fs, "bucket/inside", concurrency=2))
    works: list[Callable[[], object]] = [
        lambda: array.__setitem__(slice(None), 1),
        lambda: array.__setitem__(slice(1, 63), 2),
        lambda: few.__setitem__(slice(None), 3),
        lambda: remembered[:],
        lambda: few[:],
        lambda: array.__getitem__(slice(3)),
        lambda: array.__setitem__(slice(3), 4),
        lambda: array.resize((4,)),
    ]

    async def inside() -> list[object]:
        return outcomes(works)

    for error in fsspec.asyn.sync(fs.loop, inside, timeout=60):
        assert isinstance(error, UnsupportedError), error
        assert "cannot wait" in str(error)
    assert (array[:] == values).all()
    array[:] = 5
    assert (few[:] == 5).all()


def test_futures_in_loop_thread_raise(bucket: Proxy) -> None:
    """A read raises an error if the loop itself sends the requests; other reads succeed."""
    place = {"driver": "zarr3", "kvstore": servers.kvstore_spec("s3", bucket, "futures/")}
    layout = ts.ChunkLayout(chunk_shape=[4])
    array = ts.open(place, create=True, dtype=ts.int32, shape=[64], chunk_layout=layout).result()
    values = np.arange(64, dtype="i4")
    array.write(values).result()
    assert np.array_equal(array.read().result(), values)
    promise, future = ts.Promise.new()
    works: list[Callable[[], object]] = [
        lambda: array[3].read().result(),
        lambda: array.read().result(),
        lambda: array.read().result(timeout=60),
        lambda: array.write(values).result(),
        lambda: array.__setitem__(3, 3),
        lambda: array.kvstore["zarr.json"],
        lambda: array.kvstore.read("zarr.json").result(),
        lambda: ts.open(place, open=True).result(),
    ]

    async def inside() -> list[object]:
        threading.Timer(0.2, promise.set_result, ["told by others"]).start()
        return [future.result(), *outcomes(works)]

    loop = fsspec.asyn.get_loop()
    told, *errors = fsspec.asyn.sync(loop, inside, timeout=60)
    assert told == "told by others"
    for number, error in enumerate(errors):
        if number < 3 and isinstance(error, (np.ndarray, np.generic)):
            expected = values[3] if number == 0 else values  # the engine sent the request itself
            assert np.array_equal(error, expected)
        elif number in {3, 4} and error is None:
            pass  # the engine stored the value itself
        else:
            assert isinstance(error, UnsupportedError), error
    array.write(values).result()
    assert np.array_equal(array.read().result(), values)


def test_limits_in_loop_thread_raise(bucket: Proxy) -> None:
    """A thread that holds the only permit waits for the thread of the loop."""
    context = ts.Context({"s3_request_concurrency": {"limit": 1}})
    place = {"driver": "zarr3", "kvstore": servers.kvstore_spec("s3", bucket, "turns/")}
    kind: dict[str, Any] = {"dtype": ts.int32, "shape": [4]}
    array = ts.open(place, create=True, context=context, **kind).result()
    array.write(7).result()

    async def inside() -> ts.Future[Any]:
        reading = array[3].read()
        time.sleep(0.3)  # noqa: ASYNC251 (the thread of the loop is to be held)
        with pytest.raises(UnsupportedError, match="cannot wait"):
            array.kvstore["zarr.json"]
        return reading

    assert fsspec.asyn.sync(fsspec.asyn.get_loop(), inside, timeout=60).result() == 7


# A program that ends

_LEFT = """
import sys, tessarr
import tessarr.tensorstore as ts
from tessarr.stores import FsspecStore
if sys.argv[2] == "ts":
    array = ts.open(sys.argv[1] + "/|zarr3:").result()
    future = array[0].read()
    future.force()
else:
    array = tessarr.open_array(FsspecStore.from_url(sys.argv[1]), mode="r")
    future = array.read(0)
    if sys.argv[2] == "waited":
        import contextlib, threading
        def wait():
            with contextlib.suppress(Exception):  # at the end, fsspec closes connections
                future.result()
        threading.Thread(target=wait, daemon=True).start()
input()
if sys.argv[3] == "raise":
    raise ValueError("as it should")
sys.exit(int(sys.argv[3]))
"""


@pytest.mark.parametrize("end", ["0", "3", "raise"])
@pytest.mark.parametrize("kind", ["plain", "waited", "ts"])
def test_program_exits_while_one_chunk_is_pending(tmp_path: Path, kind: str, end: str) -> None:
    tessarr.create_array(tmp_path, data=VALUES, chunks=(1, 40_000))
    with withheld(tmp_path) as (url, asked):
        _, (code, errors) = ended([_LEFT, url, kind, end], asked, 1)
    if end == "raise":
        assert code == 1
        assert errors.strip().endswith(b"ValueError: as it should")
    else:
        assert (code, errors) == (int(end), b"")


# Abandoned requests


def is_there(name: str) -> bool:
    """Return whether a thread with this name exists."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        try:
            found.append(task.joinpath("comm").read_text().strip())
        except OSError:  # the thread ended
            continue
    return name in found


@pytest.mark.skipif(sys.platform != "linux", reason="threads are found as Linux tells them")
def test_failed_read_is_not_repeated(tmp_path: Path) -> None:
    """After one read fails for good, the other reads of busy chunks are not retried."""
    tessarr.create_array(tmp_path, data=VALUES, chunks=(1, 40_000))
    with servers.file_server(tmp_path) as proxy:
        plain = FsspecStore.from_url(proxy.url, concurrency=8)
        store = RetryingStore(plain, max_retries=10, first_delay_s=0.2, max_delay_s=0.2)
        array = tessarr.open_array(store, mode="r")
        proxy.reset_counts()
        proxy.refusals = [503] * 7 + [403] + [503] * 1000
        with pytest.raises(Exception, match="403"):
            array[:]
        while proxy.active or is_there("tessarr-timer"):
            threading.Event().wait(0.01)
        assert len(proxy.requests) == 8


_WITHOUT_THREADS = """
import sys
from dataclasses import dataclass
import numpy as np
import tessarr
from tessarr._engine import SplitStore
from tessarr.extensions import ChunkKeyEncoding, register_key_encoding
from tessarr.stores import FsspecStore, LocalStore, RetryingStore

@register_key_encoding
@dataclass(frozen=True)
class Hidden(ChunkKeyEncoding):
    name = "tests.hidden"

    @classmethod
    def from_json(cls, configuration):
        return cls()

    def to_json(self):
        return {"name": self.name}

    def encode(self, cell):
        return f".{cell[0]}" if cell[0] % 2 else str(cell[0])  # half of them like documents

    def decode(self, key, rank):
        return (int(key.strip(".")),)

values = np.arange(64)
folder = LocalStore(sys.argv[1])
tessarr.create_array(folder, data=values, chunks=2, chunk_key_encoding="tests.hidden")
far = RetryingStore(FsspecStore.from_url(sys.argv[2], concurrency=8), first_delay_s=0.001)
array = tessarr.open_array(SplitStore(folder, far), mode="r")
assert (array[:] == values).all()
assert (array.read().result() == values).all()
"""


def test_remote_chunks_are_read_without_new_threads(tmp_path: Path) -> None:
    with servers.file_server(tmp_path) as proxy:
        proxy.refusals = [0, 503, 503]
        program = [sys.executable, "-c", _WITHOUT_THREADS, str(tmp_path), proxy.url]
        no_stack = {**os.environ, "RUST_MIN_STACK": str(1 << 60)}
        done = subprocess.run(program, check=False, env=no_stack, timeout=60, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert proxy.refusals == []
