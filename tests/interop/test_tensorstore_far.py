"""How often a bucket is asked: never more than TensorStore does for the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ours
from stores import servers
from stores.servers import Door

theirs = pytest.importorskip("tensorstore", reason="compared with TensorStore's own requests")

MISSING = b"\2"  # the generation of what is absent
VALUES = np.arange(64 * 64, dtype="i4").reshape(64, 64)
CHUNKS = {"write_chunk": {"shape": [64, 64]}, "read_chunk": {"shape": [8, 8]}}


@pytest.fixture(scope="module")
def door() -> Iterator[Door]:
    with servers.s3() as found:
        yield found


class Side:
    """One implementation, on a folder of its own in the bucket."""

    def __init__(self, ts: Any, door: Door, path: str) -> None:
        self.ts, self.door, self.path = ts, door, path
        self.asked: dict[str, list[str]] = {}

    def place(self, path: str = "") -> dict[str, Any]:
        credentials = {"type": "environment"}
        whole = f"{self.path}{path}"
        return {**servers.spec("s3", self.door, whole), "aws_credentials": credentials}

    def does(self, name: str, work: Callable[[], Any]) -> Any:
        self.door.forget()
        found = work()
        self.asked[name] = self.door.requests
        return found


def arrays(side: Side) -> None:
    ts, does = side.ts, side.does
    spec = {"driver": "zarr3", "kvstore": side.place("a/")}
    new = {
        "create": True,
        "dtype": "int32",
        "shape": [64, 128],
        "chunk_layout": ts.ChunkLayout(CHUNKS),
    }
    made = does("create", lambda: ts.open(spec, **new).result())
    does("write a shard", lambda: made[:, :64].write(VALUES).result())
    opened = does("open", lambda: ts.open(spec).result())
    does("read a shard", lambda: opened[:, :64].read().result())
    does("read a part", lambda: opened[3, 3].read().result())
    does("read what is missing", lambda: opened[:, 64:].read().result())
    does("write a part", lambda: opened[3, 3].write(5).result())

    def transaction() -> None:
        with ts.Transaction() as transaction:
            inside = opened.with_transaction(transaction)
            for row in range(0, 32, 8):
                inside[row, 0].write(1).result()

    does("transaction", transaction)
    does("delete", lambda: ts.open(spec, delete_existing=True, **new).result())
    old = {"driver": "zarr", "kvstore": side.place("b/")}
    does("create zarr", lambda: ts.open(old, create=True, dtype="int32", shape=[9]).result())
    does("open zarr", lambda: ts.open(old).result())


def keys(side: Side) -> None:
    ts, does = side.ts, side.does
    store = ts.KvStore.open(side.place("k/")).result()
    does("write", lambda: store.write("k", b"12345").result())
    does("read", lambda: store.read("k").result())
    does("read a range", lambda: store.read("k", byte_range=slice(1, 2)).result())
    does("read the end", lambda: store.read("k", byte_range=slice(-2, None)).result())
    does("miss", lambda: store.read("absent").result())
    does("list", lambda: store.list().result())
    does("remove", lambda: store.write("k", None).result())
    first = does("create", lambda: store.write("j", b"1", if_equal=MISSING).result())
    second = does("change", lambda: store.write("j", b"2", if_equal=first.generation).result())
    side.door.forget()  # what follows is not counted
    late = store.write("j", b"3", if_equal=first.generation).result()
    assert late.generation == b""
    assert store.read("j").result().stamp.generation == second.generation
    does("remove this", lambda: store.write("j", None, if_equal=second.generation).result())
    assert store.read("j").result().state == "missing"


@pytest.mark.parametrize("scenario", [arrays, keys])
def test_a_bucket_is_asked_no_more_often(
    door: Door, scenario: Callable[[Side], None], request: pytest.FixtureRequest
) -> None:
    name = request.node.name
    sides = [Side(ours, door, f"{name}/ours/"), Side(theirs, door, f"{name}/theirs/")]
    for side in sides:
        scenario(side)
    for what, asked in sides[0].asked.items():
        assert len(asked) <= len(sides[1].asked[what]), (what, asked, sides[1].asked[what])
