"""Write-only functions of chunks: partial writes to cached chunks work as in TensorStore."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ours
from interop.tensorstore_parity.random_views import outcome

theirs = pytest.importorskip("tensorstore", reason="the package tensorstore is absent")

# Each write follows the previous one; the second item is its generation.
PROGRAMS: list[list[tuple[slice, str | None]]] = [
    [(slice(0, 4), None), (slice(0, 2), None), (slice(1, 2), None)],
    [(slice(0, 2), None), (slice(4, 8), None), (slice(5, 7), None), (slice(0, 4), None)],
    [(slice(0, 8), None), (slice(3, 5), None), (slice(7, 3, -2), None)],
    [(slice(0, 4), "g1"), (slice(0, 1), "g2"), (slice(1, 2), None), (slice(2, 3), "g3")],
]


class Writer:
    """A function that records its arguments."""

    def __init__(self, ts: Any) -> None:
        self.ts = ts
        self.generation: str | None = None
        self.calls: list[Any] = []

    def __call__(self, domain: Any, chunk: Any, parameters: Any) -> Any:
        self.calls.append((str(domain), np.asarray(chunk).tolist(), parameters.if_equal))
        if self.generation is None:
            return None
        stamp = self.ts.KvStore.TimestampedStorageGeneration
        return stamp(self.generation.encode(), time.time())

    def taken(self) -> list[Any]:
        """Return the recorded calls, and clear the record."""
        taken, self.calls = sorted(self.calls), []
        return taken


def open_handle(ts: Any, limit: int) -> tuple[Any, Writer]:
    """Return a write-only view of two chunks, and its function."""
    writer = Writer(ts)
    store = ts.virtual_chunked(
        None,
        writer,
        dtype=ts.int32,
        shape=[8],
        chunk_layout=ts.ChunkLayout(chunk_shape=[4]),
        context=ts.Context({"cache_pool": {"total_bytes_limit": limit}}),
    )
    return store, writer


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("staged", [False, True], ids=["alone", "in a transaction"])
def test_parts(program: list[tuple[slice, str | None]], staged: bool) -> None:
    def describe(ts: Any) -> list[Any]:
        result: list[Any] = []
        store, writer = open_handle(ts, 10**6)
        for k, (part, generation) in enumerate(program):
            writer.generation = generation
            txn = ts.Transaction() if staged else None
            view = store.with_transaction(txn)[part]
            end = outcome(lambda view=view, k=k: view.write(k).result())
            if txn is not None:
                end = outcome(txn.commit_sync)
            result.append((end, writer.taken()))
        return result

    assert describe(ours) == describe(theirs)


def test_partial_write_without_cache_is_refused() -> None:
    """TensorStore may still hold the chunk for a moment."""
    store, writer = open_handle(ours, 0)
    store[:4].write(1).result()
    writer.taken()
    with pytest.raises(ValueError, match="parts of chunks"):
        store[:2].write(2).result()
    assert writer.taken() == []


def test_written_chunks() -> None:
    """If one part fails, Tessarr writes no chunk; TensorStore writes the other chunks first."""
    store, writer = open_handle(ours, 10**6)
    store[:4].write(1).result()
    writer.taken()
    with pytest.raises(ValueError, match="parts of chunks"):
        store[2:6].write(2).result()
    assert writer.taken() == []


def test_write_only_handle_cannot_read() -> None:
    store, _ = open_handle(ours, 10**6)
    store.write(1).result()
    with pytest.raises(ValueError, match="writing only"):
        store.read().result()


def test_partial_write_of_changed_chunk() -> None:
    """The current content of a chunk is unknown without a function that reads."""
    store, writer = open_handle(ours, 10**6)
    writer.generation = "a"
    store[:4].write(1).result()
    writer.generation = ""
    for _ in range(2):
        with pytest.raises(ValueError, match="parts of chunks"):
            store[:2].write(2).result()
    assert [expected for *_, expected in writer.taken()] == [b"", b"a"]
