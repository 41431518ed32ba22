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


class Place:
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
        made = {"driver": "zarr3", "kvstore": source, "metadata": metadata}
        how = {"create": True, "dtype": side.ts.int32, "shape": SHAPE}
        side.ts.open(made, **how).result().write(VALUES).result()
        time.sleep(0.03)
        self.place = {**side.kvstore, "path": side._path("a/")}
        if proxy is not None:
            self.place = {"driver": "http", "base_url": proxy.url, "path": f"/{folder.name}/a/"}
        self.keys = side.ts.KvStore.open(self.place, context=side.context).result()

    def open(self, **members: Any) -> Any:
        batch = members.pop("batch", None)
        spec = {"driver": "zarr3", "kvstore": self.place, **members}
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


Scenario = Callable[[Place], Callable[[Any], list[Any]]]


def chunk_and_key(place: Place) -> Callable[[Any], list[Any]]:
    array = place.open().result()
    return lambda batch: [array.read(batch=batch), place.keys.read("c/0/0", batch=batch)]


def part_and_span(place: Place) -> Callable[[Any], list[Any]]:
    array, first = place.open().result(), slice(0, 10)
    return lambda batch: [
        place.keys.read("c/0/0", byte_range=first, batch=batch),
        array[:4, :8].read(batch=batch),
    ]


def several_handles(place: Place) -> Callable[[Any], list[Any]]:
    """The handles use caches with different settings."""
    arrays = [
        place.open(cache_pool="cache_pool#big", recheck_cached_data=recheck).result()
        for recheck in (True, "open", False)
    ]
    return lambda batch: [array[:16, :16].read(batch=batch) for array in arrays]


def opened_and_document(place: Place) -> Callable[[Any], list[Any]]:
    return lambda batch: [
        place.open(batch=batch),
        place.keys.read("zarr.json", batch=batch),
        place.open(batch=batch),
    ]


def opened_and_read(place: Place) -> Callable[[Any], list[Any]]:
    """The handle rechecks the metadata at each read."""
    array = place.open(recheck_cached_metadata=True).result()
    return lambda batch: [
        place.open(batch=batch, recheck_cached_metadata=True),
        array[:16, :16].read(batch=batch),
    ]


def looked_at(place: Place) -> Callable[[Any], list[Any]]:
    array = place.open(recheck_cached_metadata=time.time() + 1000).result()
    keys = place.keys
    return lambda batch: [
        array[:16, :16].read(batch=batch),
        array.resolve(batch=batch),
        keys.read("zarr.json", batch=batch),
        array[:16, :9].read(batch=batch),
    ]


def json_and_key(place: Place) -> Callable[[Any], list[Any]]:
    spec = {
        "driver": "json",
        "kvstore": {**place.place, "path": f"{place.place['path']}zarr.json"},
        "recheck_cached_data": True,
    }
    found = [
        place.ts.open({**spec, "json_pointer": at}, context=place.context).result()
        for at in ("/shape", "/zarr_format")
    ]
    return lambda batch: [
        *(one.read(batch=batch) for one in found),
        place.keys.read("zarr.json", batch=batch),
    ]


def in_a_transaction(place: Place) -> Callable[[Any], list[Any]]:
    array, transaction = place.open().result(), place.ts.Transaction()
    inside, keys = array.with_transaction(transaction), place.keys.with_transaction(transaction)
    return lambda batch: [
        inside[:4, :8].read(batch=batch),
        keys.read("c/0/0", batch=batch),
        inside[:4, :8].read(batch=batch),
    ]


def beside_what_is_written(place: Place) -> Callable[[Any], list[Any]]:
    """The transaction has written a part of the chunk."""
    array, transaction = place.open().result(), place.ts.Transaction()
    inside = array.with_transaction(transaction)
    if place.proxy is None:
        inside[:2, :3] = 1
    return lambda batch: [one[:4, :8].read(batch=batch) for one in (inside, array, inside)]


# Tessarr's requests to files and to a server.
ASKS: dict[Scenario, int] = {
    chunk_and_key: 9,
    part_and_span: 1,
    several_handles: 1,
    opened_and_document: 1,
    opened_and_read: 2,
    looked_at: 2,
    json_and_key: 1,
    in_a_transaction: 1,
    beside_what_is_written: 1,
}


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[servers.Proxy]:
    with servers.file_server(tmp_path) as made:
        yield made


@pytest.mark.parametrize("where", ["file", "http"])
@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("scenario", ASKS, ids=lambda scenario: scenario.__name__)
def test_value_of_several_reads_is_requested_once(
    scenario: Scenario, stored: str, where: str, tmp_path: Path, proxy: servers.Proxy
) -> None:
    counts = []
    for word in ("mine", "other"):
        at = proxy if where == "http" else None
        place = Place(tmp_path / word, at, stored, real=word == "other")
        counts.append(place.count_requests(scenario(place)))
    mine, real = counts
    assert all(map(operator.le, mine, real)), (mine, real)
    assert mine[0] == ASKS[scenario]
