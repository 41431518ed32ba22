"""Concurrent reads of many remote chunks, without a thread for each request."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

import tessarr
import tessarr.tensorstore as ts
from stores.proxy import Answer, Fault
from stores.servers import Files, Proxy, file_server, run_server
from tessarr.store.wrappers.wrapper import RetryingStore
from tessarr.stores import FsspecStore, HTTPStore

pytestmark = pytest.mark.slow

VALUES = np.arange(4096, dtype="i4").reshape(64, 64)
MANY = 64  # chunks


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Proxy]:
    """Run a web server of an array with one row in each chunk except the last."""
    array = tessarr.create_array(tmp_path, shape=(MANY, 64), chunks=(1, 64), dtype="i4")
    array[: MANY - 1] = VALUES[: MANY - 1]
    with file_server(tmp_path) as proxy:
        yield proxy
        while proxy.active:  # the server also answers requests that the client cancelled
            time.sleep(0.01)


def opened(url: str, concurrency: int) -> tessarr.Array:
    """Return the array of a server."""
    return tessarr.open_array(HTTPStore(url, concurrency=concurrency), mode="r")


def waits(task: Path) -> bool:
    """Return whether a thread is one of the engine's threads for blocking calls."""
    with suppress(OSError):  # the thread ended
        return task.joinpath("comm").read_text().startswith("tessarr-wait")
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted as Linux tells them")
def test_read_of_many_chunks_uses_few_threads(web: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The decoding threads send as many concurrent requests as the store permits."""
    tasks = Path("/proc/self/task")
    while any(map(waits, tasks.iterdir())):  # threads of other tests end soon
        time.sleep(0.05)
    array = opened(web.url, MANY)
    threads: list[int] = []
    entered, together = web.track_request, threading.Event()

    @contextmanager
    def counted(line: str, headers: dict[str, str]) -> Iterator[Answer | Fault | None]:
        with entered(line, headers) as refusal:
            if web.active == MANY - 1:
                threads.append(sum(map(waits, tasks.iterdir())))
                together.set()
            together.wait(30)
            yield refusal

    monkeypatch.setattr(web, "track_request", counted)
    web.reset_counts()
    assert (array[: MANY - 1] == VALUES[: MANY - 1]).all()
    assert len(web.requests) == web.max_concurrent == MANY - 1
    assert threads[0] < MANY // 2
    with_fill = array[:]
    assert (with_fill[:-1] == VALUES[:-1]).all()
    assert not with_fill[-1].any()


@pytest.mark.parametrize("concurrency", [3, 7])
def test_read_sends_at_most_concurrency_requests(web: Proxy, concurrency: int) -> None:
    array = opened(web.url, concurrency)
    web.delay_s = 0.01
    web.reset_counts()
    assert (array[:63] == VALUES[:63]).all()
    assert 1 < web.max_concurrent <= concurrency


def test_failed_request_ends_read_and_names_chunk(web: Proxy) -> None:
    array = opened(web.url, 8)
    web.delay_s = 0.01
    web.reset_counts()
    web.refusals = [0, 0, 403]
    with pytest.raises(Exception, match="403") as caught:
        array[:]
    assert "c/" in str(caught.value)
    assert len(web.requests) < MANY
    assert (array[:63] == VALUES[:63]).all()


def test_busy_server_is_retried(web: Proxy) -> None:
    plain = HTTPStore(web.url, concurrency=8, retries=False)
    often, seldom = (
        tessarr.open_array(RetryingStore(plain, max_retries=most, first_delay_s=1e-3), mode="r")
        for most in (8, 3)
    )
    web.reset_counts()
    web.refusals = [503] * 8
    assert (often[:63] == VALUES[:63]).all()
    assert web.refusals == []
    assert len(web.requests) == 63 + 8
    web.reset_counts()
    web.refusals = [503] * 1000
    with pytest.raises(Exception, match="503"):
        seldom[:]
    paths = [line.split()[1] for line in web.requests]
    assert max(map(paths.count, paths)) == 4
    web.refusals = []


def test_listing_in_loop_thread_does_not_deadlock(web: Proxy) -> None:
    store = FsspecStore.from_url(web.url, concurrency=16)

    async def inside() -> None:
        with pytest.raises(NotImplementedError, match="cannot wait"):
            store.read_batch([("get", "zarr.json"), ("get", "c/0/0")], 2)

    fsspec.asyn.sync(store.fs.loop, inside, timeout=10)


def test_interrupted_batch_of_reads_does_not_delay_the_exit(
    web: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    track_request, ended = web.track_request, threading.Event()

    @contextmanager
    def hang(line: str, headers: dict[str, str]) -> Iterator[Any]:
        with track_request(line, headers) as status:
            ended.wait()
            yield status

    monkeypatch.setattr(web, "track_request", hang)
    code = (
        "from tessarr.stores import FsspecStore\n"
        f"store = FsspecStore.from_url({web.url!r})\n"
        "store.read_batch([('get', f'k{i}') for i in range(5)], 5)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    try:
        while web.active < 5 and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        ended.set()
    assert "KeyboardInterrupt" in errors


def test_waiting_reads_all_proceed(web: Proxy, tmp_path: Path) -> None:
    """A read of many chunks does not delay reads of single chunks."""
    context = ts.Context({"http_request_concurrency": {"limit": 2}})
    array = ts.open(f"{web.url}/|zarr3:", context=context).result()
    store = ts.KvStore.open(f"{web.url}/", context=context).result()
    web.delay_s = 0.01
    web.reset_counts()
    many = array.read()
    values = [store.read("zarr.json").result().value for _ in range(3)]
    assert len(web.requests) < MANY
    assert (many.result()[:63] == VALUES[:63]).all()
    assert set(values) == {tmp_path.joinpath("zarr.json").read_bytes()}
    assert web.max_concurrent == 2


class Withholding(Files):
    """Handler that delays responses for chunks until an event is set."""

    asked: Callable[[], object]
    answers: threading.Event
    late: Callable[[], object]

    def do_GET(self) -> None:
        if "/c/" in self.path:
            self.asked()
            if not self.answers.wait(20):
                self.late()
        super().do_GET()


def test_interrupt_ends_wait_for_responses(web: Proxy, tmp_path: Path) -> None:
    del web
    main = threading.main_thread().ident
    assert main is not None
    requested, answers = threading.Semaphore(0), threading.Event()
    late = threading.Event()
    settings = {"asked": requested.release, "answers": answers, "late": late.set}
    handler = type("Handler", (Withholding,), settings)

    def interrupt() -> None:
        for _ in range(8):
            requested.acquire()
        signal.pthread_kill(main, signal.SIGINT)

    with run_server(partial(handler, directory=str(tmp_path))) as port:
        array = opened(f"http://127.0.0.1:{port}", 8)
        waiting = threading.Thread(target=interrupt)
        waiting.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                array[:]
            assert not late.is_set()
            assert not requested.acquire(blocking=False)  # the client sent no further request
        finally:
            answers.set()
        waiting.join()
        assert (array[:63] == VALUES[:63]).all()


_EXIT_PROGRAM = """
import sys, tessarr
from tessarr.stores import FsspecStore, HTTPStore
array = tessarr.open_array(HTTPStore(sys.argv[1], concurrency=8), mode="r")
future = array.read()
input()
"""


def test_program_exits_while_responses_are_pending(web: Proxy, tmp_path: Path) -> None:
    del web
    requested, answers = threading.Semaphore(0), threading.Event()
    settings = {"asked": requested.release, "answers": answers, "late": answers.is_set}
    handler = type("Handler", (Withholding,), settings)
    with run_server(partial(handler, directory=str(tmp_path))) as port:
        program = [sys.executable, "-c", _EXIT_PROGRAM, f"http://127.0.0.1:{port}"]
        with subprocess.Popen(program, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as reader:
            try:
                for _ in range(8):
                    assert requested.acquire(timeout=30)
                _, errors = reader.communicate(b"\n", timeout=30)
            finally:
                answers.set()
                reader.kill()
    assert (reader.returncode, errors) == (0, b"")


@pytest.mark.parametrize("rows", [1, 4])
def test_reads_of_shard_parts_are_concurrent(tmp_path: Path, rows: int) -> None:
    """The responses for eight distant subchunks wait until all eight requests arrive."""
    values = np.random.default_rng(0).integers(0, 2**31, (4, 1 << 18), dtype="i4")
    tessarr.create_array(tmp_path, data=values, shards=(1, 1 << 18), chunks=(1, 1 << 13))
    with file_server(tmp_path) as proxy:
        array = opened(proxy.url, 64)
        together = threading.Barrier(8)
        entered = proxy.track_request

        @contextmanager
        def meeting(line: str, headers: dict[str, str]) -> Iterator[Answer | Fault | None]:
            with entered(line, headers) as refusal:
                span = next(text for name, text in headers.items() if name.lower() == "range")
                if rows == 1 and "=-" not in span:
                    together.wait(20)
                yield refusal

        proxy.track_request = meeting  # type: ignore[method-assign]
        proxy.reset_counts()
        assert (array[:rows, :: 1 << 15] == values[:rows, :: 1 << 15]).all()
        assert len(proxy.requests) == rows * (8 + 1)
        assert proxy.max_concurrent >= 8
