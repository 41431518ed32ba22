"""Requests to S3 and GCS buckets: never more than TensorStore's for the same operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ours
from stores import servers
from stores.servers import Proxy

theirs = pytest.importorskip("tensorstore", reason="compared with TensorStore's own requests")

MISSING = b"\2"  # the generation of a missing key
VALUES = np.arange(64 * 64, dtype="i4").reshape(64, 64)
CHUNKS = {"write_chunk": {"shape": [64, 64]}, "read_chunk": {"shape": [8, 8]}}


@pytest.fixture(scope="module", params=["s3", "gcs"])
def bucket(request: pytest.FixtureRequest) -> Iterator[tuple[str, Proxy]]:
    with getattr(servers, request.param)() as proxy, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENSORSTORE_GCS_HTTP_URL", proxy.url)
        yield request.param, proxy


class Side:
    """One implementation, with its own folder in the bucket."""

    def __init__(self, ts: Any, bucket: tuple[str, Proxy], path: str) -> None:
        self.ts, self.path = ts, path
        self.kind, self.proxy = bucket
        self.request_counts: dict[str, list[str]] = {}

    @property
    def knows_ends(self) -> bool:
        """Whether both read suffixes of values: the GCS server sends TensorStore whole values."""
        return self.kind == "s3"

    def kvstore_of(self, path: str = "") -> dict[str, Any]:
        spec = servers.kvstore_spec(self.kind, self.proxy, f"{self.path}{path}")
        return {**spec, "aws_credentials": {"type": "environment"}} if self.kind == "s3" else spec

    def run_counted(self, name: str, work: Callable[[], Any]) -> Any:
        self.proxy.reset_counts()
        result = work()
        self.request_counts[name] = self.proxy.requests
        return result


def arrays(side: Side) -> None:
    ts, run_counted = side.ts, side.run_counted
    spec = {"driver": "zarr3", "kvstore": side.kvstore_of("x/a/")}
    new = {
        "create": True,
        "dtype": "int32",
        "shape": [64, 128],
        "chunk_layout": ts.ChunkLayout(CHUNKS),
    }
    array = run_counted("create", lambda: ts.open(spec, **new).result())
    run_counted("write a shard", lambda: array[:, :64].write(VALUES).result())
    opened = run_counted("open", lambda: ts.open(spec).result())
    run_counted("read a shard", lambda: opened[:, :64].read().result())
    if side.knows_ends:
        run_counted("read a part", lambda: opened[3, 3].read().result())
    run_counted("read what is missing", lambda: opened[:, 64:].read().result())
    run_counted("write a part", lambda: opened[3, 3].write(5).result())

    def transaction() -> None:
        with ts.Transaction() as transaction:
            inside = opened.with_transaction(transaction)
            for row in range(0, 32, 8):
                inside[row, 0].write(1).result()

    run_counted("transaction", transaction)
    grown = run_counted("grow", lambda: opened.resize(exclusive_max=[64, 192]).result())
    grown = run_counted("grow again", lambda: grown.resize(exclusive_max=[64, 256]).result())
    run_counted("shrink", lambda: grown.resize(exclusive_max=[64, 128]).result())
    again = ts.open(spec).result()

    def resized() -> None:
        with ts.Transaction() as transaction:
            again.with_transaction(transaction).resize(exclusive_max=[64, 200]).result()

    run_counted("grow in a transaction", resized)
    assert ts.open(spec).result().shape == (64, 200)
    run_counted("delete", lambda: ts.open(spec, delete_existing=True, **new).result())
    old = {"driver": "zarr", "kvstore": side.kvstore_of("b/")}
    run_counted("create zarr", lambda: ts.open(old, create=True, dtype="int32", shape=[9]).result())
    opened = run_counted("open zarr", lambda: ts.open(old).result())
    run_counted("grow zarr", lambda: opened.resize(exclusive_max=[20]).result())


def keys(side: Side) -> None:
    ts, run_counted = side.ts, side.run_counted
    store = ts.KvStore.open(side.kvstore_of("k/")).result()
    run_counted("write", lambda: store.write("k", b"12345").result())
    run_counted("read", lambda: store.read("k").result())
    run_counted("read a range", lambda: store.read("k", byte_range=slice(1, 2)).result())
    if side.knows_ends:
        run_counted("read the end", lambda: store.read("k", byte_range=slice(-2, None)).result())
    run_counted("miss", lambda: store.read("absent").result())
    run_counted("list", lambda: store.list().result())
    run_counted("remove", lambda: store.write("k", None).result())
    first = run_counted("create", lambda: store.write("j", b"1", if_equal=MISSING).result())
    second = run_counted(
        "change", lambda: store.write("j", b"2", if_equal=first.generation).result()
    )
    late = run_counted("refuse", lambda: store.write("j", b"3", if_equal=first.generation).result())
    assert late.generation == b""
    late = run_counted(
        "refuse to create", lambda: store.write("j", b"3", if_equal=MISSING).result()
    )
    assert late.generation == b""
    assert store.read("j").result().stamp.generation == second.generation
    run_counted("remove this", lambda: store.write("j", None, if_equal=second.generation).result())
    assert store.read("j").result().state == "missing"
    if side.kind == "gcs":  # one conditional request of TensorStore, a check and a deletion of ours
        del side.request_counts["remove this"]


@pytest.mark.parametrize("scenario", [arrays, keys])
def test_bucket_requests_do_not_exceed_tensorstore(
    bucket: tuple[str, Proxy], scenario: Callable[[Side], None]
) -> None:
    name = scenario.__name__
    sides = [Side(ours, bucket, f"{name}/ours/"), Side(theirs, bucket, f"{name}/theirs/")]
    for side in sides:
        scenario(side)
    for operation, requests in sides[0].request_counts.items():
        real = sides[1].request_counts[operation]
        assert len(requests) <= len(real), (operation, requests, real)
