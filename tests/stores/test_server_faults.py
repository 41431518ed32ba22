"""Server faults: each ends in a clear error, never in wrong data or a long wait."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from stores import servers
from stores.servers import Files, run_server
from tessarr.errors import ArgumentError, StoreError
from tessarr.store.wrappers.wrapper import RetryingStore
from tessarr.stores import HTTPStore

pytestmark = pytest.mark.slow

VALUES = np.arange(8 * 40_000, dtype="i4").reshape(8, 40_000)  # rows of 160 kB
SHARDS = {"chunks": (1, 1000), "shards": (1, 40_000)}


@pytest.fixture(params=[{"chunks": (1, 40_000)}, SHARDS], ids=["chunks", "shards"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a folder with rows as chunks or as shards."""
    tessarr.create_array(tmp_path, data=VALUES, compressors=None, **request.param)
    return tmp_path


class RangeServer(Files):
    """Handler that responds with another range than the request's."""

    def part(self, first: int, last: int) -> tuple[int, int]:
        raise NotImplementedError

    def do_GET(self) -> None:
        path, header = Path(self.translate_path(self.path)), self.headers.get("Range", "")
        match = re.fullmatch(r"bytes=(\d*)-(\d*)", header)
        if match and path.is_file():
            end = path.stat().st_size
            last = min(int(match[2]), end - 1) if match[1] else end - 1
            first = int(match[1]) if match[1] else max(0, end - int(match[2]))
            first, last = self.part(first, last)
            self.headers.replace_header("Range", f"bytes={first}-{last}")
        super().do_GET()


class ShortRangeServer(RangeServer):
    """Handler that responds with fewer bytes than the range has."""

    def part(self, first: int, last: int) -> tuple[int, int]:
        return first, min(last, first + 30_000)


class WrongRangeServer(RangeServer):
    """Handler that responds with an earlier range."""

    def part(self, first: int, last: int) -> tuple[int, int]:
        return max(0, first - 100), max(0, last - 100)


class AfterStart(RangeServer):
    """Handler that responds with a range after the first bytes."""

    def part(self, first: int, last: int) -> tuple[int, int]:
        return (first, last) if first else (last + 1, 2 * last + 1)


@contextmanager
def served(folder: Path, handler: type[Files], **settings: Any) -> Iterator[str]:
    handler_class = type("Handler", (handler,), settings)
    with run_server(partial(handler_class, directory=str(folder))) as port:
        yield f"http://127.0.0.1:{port}"


def opened(url: str, **settings: Any) -> tessarr.Array:
    return tessarr.open_array(HTTPStore(url, **settings), mode="r")


def test_short_response_is_completed(folder: Path) -> None:
    with served(folder, ShortRangeServer) as url:
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


@pytest.mark.parametrize(
    ("header", "count"),
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
    tmp_path: Path, header: str, count: int
) -> None:
    """The failed range has no total size, and an empty value has no generation."""
    requests: list[str] = []

    def get(self: Files) -> None:
        requests.append(self.headers.get("Range", ""))
        Files.do_GET(self)

    def refuse(self: Files, _: int) -> None:
        self.send_response(416)
        self.send_header("Content-Range", header)
        self.send_header("Content-Length", "0")
        self.end_headers()

    (tmp_path / "a").write_bytes(bytes(70_000))
    with served(tmp_path, Files, do_GET=get, _refuse=refuse) as url:
        store = HTTPStore(url)
        with pytest.raises(ArgumentError, match=r"for value of size 70000$"):
            store.read_versioned("a", byte_range=(80_000, 80_009))
    assert requests == ["bytes=80000-80008", ""][:count]


@pytest.mark.parametrize("handler", [WrongRangeServer, AfterStart])
def test_wrong_range_in_response_gives_no_wrong_data(folder: Path, handler: type[Files]) -> None:
    stored = (folder / "c/1/0").read_bytes()
    with served(folder, handler) as url:
        store = HTTPStore(url)
        for offset, count in ((0, 50), (0, 70_000), (500, 50), (90_000, 70_000)):
            with suppress(StoreError):
                value = store.open_value("c/1/0")
                assert value is not None
                assert value.read(offset, count) == stored[offset : offset + count]


# A program that ends


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
    requested, answers = threading.Semaphore(0), threading.Event()
    with served(folder, Withholding, asked=requested, answers=answers) as url:
        try:
            yield url, requested
        finally:
            answers.set()


def ended(
    program: list[str], requested: threading.Semaphore, most: int
) -> tuple[bytes, tuple[int, bytes]]:
    """End a program after `most` requests; return its output, and its exit code with stderr."""
    command = [sys.executable, "-c", *program]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            for _ in range(most):
                assert requested.acquire(timeout=30)
            written, errors = process.communicate(b"\n", timeout=30)
        finally:
            process.kill()
    return written, (process.returncode, errors)


_EXIT_PROGRAM = """
import sys, tessarr
import tessarr.tensorstore as ts
from tessarr.stores import HTTPStore
if sys.argv[2] == "ts":
    array = ts.open(sys.argv[1] + "/|zarr3:").result()
    future = array[0].read()
    future.force()
else:
    array = tessarr.open_array(HTTPStore(sys.argv[1]), mode="r")
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
    with withheld(tmp_path) as (url, requested):
        _, (code, errors) = ended([_EXIT_PROGRAM, url, kind, end], requested, 1)
    if end == "raise":
        assert code == 1
        assert errors.strip().endswith(b"ValueError: as it should")
    else:
        assert (code, errors) == (int(end), b"")


# Abandoned requests


def key_exists(name: str) -> bool:
    """Return whether a thread with this name exists."""
    results = []
    for task in Path("/proc/self/task").iterdir():
        try:
            results.append(task.joinpath("comm").read_text().strip())
        except OSError:  # the thread ended
            continue
    return name in results


@pytest.mark.skipif(sys.platform != "linux", reason="threads are found as Linux tells them")
def test_failed_read_is_not_repeated(tmp_path: Path) -> None:
    """After one read fails for good, the other reads of busy chunks are not retried."""
    tessarr.create_array(tmp_path, data=VALUES, chunks=(1, 40_000))
    with servers.file_server(tmp_path) as proxy:
        plain = HTTPStore(proxy.url, concurrency=8, retries=False)
        store = RetryingStore(plain, max_retries=10, first_delay_s=0.2, max_delay_s=0.2)
        array = tessarr.open_array(store, mode="r")
        proxy.reset_counts()
        proxy.refusals = [*[503] * 7, 403, *[503] * 1000]
        with pytest.raises(Exception, match="403"):
            array[:]
        while proxy.active or key_exists("tessarr-timer"):
            threading.Event().wait(0.01)
        assert len(proxy.requests) == 8
