"""Operations of one batch share the requests for keys, metadata and chunks.

The number of requests never exceeds TensorStore's.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from interop.tensorstore_parity.request_counting import Side, codecs_of, requests
from stores import servers

SHAPE = (48, 40)
VALUES = np.arange(1, 1 + SHAPE[0] * SHAPE[1], dtype="i4").reshape(SHAPE)
STORED = ("chunks", "chunks, zstd", "shards", "shards, zstd")


class Session:
    """An array and its keys, for one side, in files or on a server."""

    def __init__(
        self, folder: Path, proxy: servers.Proxy | None, stored: str, *, real: bool
    ) -> None:
        self.side = side = Side(folder, real=real)
        self.proxy = proxy
        self.ts, self.context = side.ts, side.context
        grid = {"name": "regular", "configuration": {"chunk_shape": [16, 16]}}
        metadata = {"chunk_grid": grid, "codecs": codecs_of(stored, (4, 8))}
        source = {"driver": "file", "path": f"{folder}/a/"}
        spec = {"driver": "zarr3", "kvstore": source, "metadata": metadata}
        options = {"create": True, "dtype": side.ts.int32, "shape": SHAPE}
        side.ts.open(spec, **options).result().write(VALUES).result()
        time.sleep(0.03)
        self.kvstore = {**side.kvstore, "path": side._path("a/")}
        if proxy is not None:
            self.kvstore = {"driver": "http", "base_url": proxy.url, "path": f"/{folder.name}/a/"}
        self.keys = side.ts.KvStore.open(self.kvstore, context=side.context).result()

    def open(self, **members: Any) -> Any:
        batch = members.pop("batch", None)
        spec = {"driver": "zarr3", "kvstore": self.kvstore, **members}
        return self.ts.open(spec, context=self.context, batch=batch)

    def count_requests(self, begin: Callable[[Any], list[Any]]) -> tuple[int, int]:
        """Return the numbers of requests and of reads of the operations in a batch."""
        if self.proxy is not None:
            self.proxy.reset_counts()
        with self.side.counting():
            with self.ts.Batch() as batch:
                futures = begin(batch)
            for future in futures:
                future.result(timeout=30)
        if self.proxy is not None:
            return len(self.proxy.requests), 0
        return requests(self.side.counts)


Scenario = Callable[[Session], Callable[[Any], list[Any]]]


def read_array_and_key(session: Session) -> Callable[[Any], list[Any]]:
    array = session.open().result()
    return lambda batch: [array.read(batch=batch), session.keys.read("c/0/0", batch=batch)]


def read_part_and_byte_range(session: Session) -> Callable[[Any], list[Any]]:
    array, first = session.open().result(), slice(0, 10)
    return lambda batch: [
        session.keys.read("c/0/0", byte_range=first, batch=batch),
        array[:4, :8].read(batch=batch),
    ]


def read_several_handles(session: Session) -> Callable[[Any], list[Any]]:
    """The handles use caches with different settings."""
    arrays = [
        session.open(cache_pool="cache_pool#big", recheck_cached_data=recheck).result()
        for recheck in (True, "open", False)
    ]
    return lambda batch: [array[:16, :16].read(batch=batch) for array in arrays]


def open_and_read_document(session: Session) -> Callable[[Any], list[Any]]:
    return lambda batch: [
        session.open(batch=batch),
        session.keys.read("zarr.json", batch=batch),
        session.open(batch=batch),
    ]


def open_and_read_chunk(session: Session) -> Callable[[Any], list[Any]]:
    """The handle rechecks the metadata at each read."""
    array = session.open(recheck_cached_metadata=True).result()
    return lambda batch: [
        session.open(batch=batch, recheck_cached_metadata=True),
        array[:16, :16].read(batch=batch),
    ]


def resolve_and_read(session: Session) -> Callable[[Any], list[Any]]:
    array = session.open(recheck_cached_metadata=time.time() + 1000).result()
    keys = session.keys
    return lambda batch: [
        array[:16, :16].read(batch=batch),
        array.resolve(batch=batch),
        keys.read("zarr.json", batch=batch),
        array[:16, :9].read(batch=batch),
    ]


def read_json_and_key(session: Session) -> Callable[[Any], list[Any]]:
    spec = {
        "driver": "json",
        "kvstore": {**session.kvstore, "path": f"{session.kvstore['path']}zarr.json"},
        "recheck_cached_data": True,
    }
    arrays = [
        session.ts.open({**spec, "json_pointer": pointer}, context=session.context).result()
        for pointer in ("/shape", "/zarr_format")
    ]
    return lambda batch: [
        *(item.read(batch=batch) for item in arrays),
        session.keys.read("zarr.json", batch=batch),
    ]


def read_in_transaction(session: Session) -> Callable[[Any], list[Any]]:
    array, transaction = session.open().result(), session.ts.Transaction()
    inside, keys = array.with_transaction(transaction), session.keys.with_transaction(transaction)
    return lambda batch: [
        inside[:4, :8].read(batch=batch),
        keys.read("c/0/0", batch=batch),
        inside[:4, :8].read(batch=batch),
    ]


def read_beside_staged_elements(session: Session) -> Callable[[Any], list[Any]]:
    """The transaction has written a part of the chunk."""
    array, transaction = session.open().result(), session.ts.Transaction()
    inside = array.with_transaction(transaction)
    if session.proxy is None:
        inside[:2, :3] = 1
    return lambda batch: [handle[:4, :8].read(batch=batch) for handle in (inside, array, inside)]


# Tessarr's requests to files and to a server.
EXPECTED_REQUESTS: dict[Scenario, int] = {
    read_array_and_key: 9,
    read_part_and_byte_range: 1,
    read_several_handles: 1,
    open_and_read_document: 1,
    open_and_read_chunk: 2,
    resolve_and_read: 2,
    read_json_and_key: 1,
    read_in_transaction: 1,
    read_beside_staged_elements: 1,
}


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[servers.Proxy]:
    with servers.file_server(tmp_path) as server:
        yield server


@pytest.mark.parametrize("where", ["file", "http"])
@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("scenario", EXPECTED_REQUESTS, ids=lambda scenario: scenario.__name__)
def test_value_of_several_reads_is_requested_once(
    scenario: Scenario, stored: str, where: str, tmp_path: Path, proxy: servers.Proxy
) -> None:
    counts = []
    for word in ("mine", "other"):
        server = proxy if where == "http" else None
        session = Session(tmp_path / word, server, stored, real=word == "other")
        counts.append(session.count_requests(scenario(session)))
    mine, real = counts
    assert all(map(operator.le, mine, real)), (mine, real)
    assert mine[0] == EXPECTED_REQUESTS[scenario]
