"""Blocking functions of chunks do not block other threads."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ts

COUNT = 64  # more chunks than threads
LONGEST_S = 60.0  # limit for tests that would wait forever


@pytest.fixture
def view(tmp_path: Path) -> Iterator[ts.TensorStore]:
    """Return a view whose functions read and write files with coroutines."""
    layout = ts.ChunkLayout(chunk_shape=[1, 8])
    value: Any = {"dtype": ts.uint16, "shape": [COUNT, 8], "chunk_layout": layout}
    files = ts.open(f"file://{tmp_path}/|zarr3:", create=True, **value).result()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def read(domain: ts.IndexDomain, chunk: Any, _: object) -> None:
        await asyncio.sleep(0.01)  # so that all reads are pending
        chunk[...] = await files[domain].read()

    async def write(domain: ts.IndexDomain, chunk: Any, _: object) -> None:
        await asyncio.sleep(0.01)
        await files[domain].write(chunk)

    yield ts.virtual_chunked(read, write, loop=loop, **value)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.mark.slow
def test_many_reads_and_writes_wait_for_others(view: ts.TensorStore) -> None:
    """Any number of functions can block at the same time."""
    values = np.arange(8 * COUNT, dtype="u2").reshape(COUNT, 8)
    for part in (slice(None), slice(2, 5)):  # chunks, and parts of them
        writes = [view[row, part].write(values[row, part] + 1) for row in range(COUNT)]
        for write in writes:
            write.result(LONGEST_S)
        reads = [view[row].read() for row in range(COUNT)]
        values[:, part] += 1
        assert np.array_equal([read.result(LONGEST_S) for read in reads], values)


def test_parts_of_one_chunk_are_written_one_after_another(view: ts.TensorStore) -> None:
    """The view keeps every concurrent write to a chunk, although each one reads the chunk first."""
    writes = [view[3, column].write(column + 1) for column in range(8)]
    for write in writes:
        write.result(LONGEST_S)
    assert view[3].read().result(LONGEST_S).tolist() == list(range(1, 9))


@pytest.mark.slow
def test_blocked_functions_do_not_block_other_threads(view: ts.TensorStore) -> None:
    """Many copies and transactions, which wait for functions in threads, finish."""
    values = np.arange(8 * COUNT, dtype="u2").reshape(COUNT, 8)
    view.write(values).result(LONGEST_S)
    copied = ts.array(np.zeros_like(values))
    copies = [copied[row].write(view[row]) for row in range(COUNT)]
    for copy in copies:
        copy.result(LONGEST_S)
    assert np.array_equal(copied.read().result(), values)

    transactions = [ts.Transaction() for _ in range(COUNT)]
    for row, transaction in enumerate(transactions):
        view.with_transaction(transaction)[row, :3].write(row).result(LONGEST_S)
    for end in [transaction.commit_async() for transaction in transactions]:
        end.result(LONGEST_S)
    values[:, :3] = np.arange(COUNT)[:, None]
    assert np.array_equal(view.read().result(LONGEST_S), values)


def test_failed_function_unblocks_others(view: ts.TensorStore) -> None:
    """A write that waits for a failing change still starts."""
    failing, begun = iter([True]), threading.Event()

    def read(_: object, chunk: Any, __: object) -> Any:
        if next(failing, False):
            begun.set()
            promise, future = ts.Promise.new()
            threading.Timer(0.05, promise.set_exception, [OSError("no")]).start()
            return future
        chunk[...] = 1
        return None

    written: list[list[int]] = []

    def write(_: object, chunk: Any, __: object) -> None:
        written.append(chunk.tolist())

    other = ts.virtual_chunked(read, write, dtype=ts.uint16, shape=[3])
    first = other[0].write(5)
    assert begun.wait(LONGEST_S)  # concurrent writes have no order
    second = other[1].write(6)
    with pytest.raises(OSError, match="no"):
        first.result(LONGEST_S)
    second.result(LONGEST_S)
    assert written == [[1, 6, 1]]


@pytest.mark.slow
def test_program_ends_despite_blocked_function() -> None:
    """Exit does not wait for futures that never finish."""
    program = """
import tessarr.tensorstore as ts
promise, future = ts.Promise.new()
view = ts.virtual_chunked(lambda *_: future, lambda *_: future, dtype=ts.uint8, shape=[2])
under_way = [view[0].read(), view.write([1, 2])]
print(ts.array([1]).read().result())
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=True,
        text=True,
        timeout=LONGEST_S,
    )
    assert done.stdout == "[1]\n"
