"""The cache of a transaction's reads avoids repeated requests and never replaces store content."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import tessarr.tensorstore as ts

MEMBERS: dict[str, Any] = {
    "chunks": {"chunk_layout": {"chunk": {"shape": [8]}}},
    "shards": {
        "chunk_layout": {"write_chunk": {"shape": [8]}, "read_chunk": {"shape": [4]}},
    },
}


@pytest.mark.parametrize("members", MEMBERS.values(), ids=MEMBERS)
@pytest.mark.parametrize("pool", [0, 10**6])
@pytest.mark.parametrize("where", ["memory", "file"])
def test_commit_keeps_elements_of_other_writers(
    members: dict[str, Any], pool: int, where: str, tmp_path: Path
) -> None:
    path = f"{tmp_path}/" if where == "file" else "a/"
    spec = {"driver": "zarr3", "kvstore": {"driver": where, "path": path}, "schema": members}
    context = ts.Context({"cache_pool": {"total_bytes_limit": pool}})
    array = ts.open(spec, context=context, create=True, dtype=ts.uint8, shape=[8]).result()
    array.write(1).result()
    with ts.Transaction() as transaction:
        inside = array.with_transaction(transaction)
        inside[2] = 2
        assert inside.read().result().tolist() == [1, 1, 2, 1, 1, 1, 1, 1]
        array[5] = 5
        assert inside.read().result().tolist() == [1, 1, 2, 1, 1, 5, 1, 1]
        array[6] = 6
    assert array.read().result().tolist() == [1, 1, 2, 1, 1, 5, 6, 1]


def test_read_of_fresh_write_is_not_conflict(tmp_path: Path) -> None:
    """A new file has no generation, so its bytes are compared; later it has one."""
    spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/", "schema": MEMBERS["chunks"]}
    array = ts.open(spec, create=True, dtype=ts.uint8, shape=[8]).result()
    array.write(1).result()
    with ts.Transaction(repeatable_read=True) as transaction:
        inside = array.with_transaction(transaction)
        assert inside[1].read().result() == 1
        time.sleep(0.05)
        inside[2] = 2
    assert array.read().result().tolist() == [1, 1, 2, 1, 1, 1, 1, 1]


def test_reread_by_another_transaction_is_not_conflict(tmp_path: Path) -> None:
    """A written value has a version, which identifies it until a read of the new file."""
    context = ts.Context()
    spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/"}
    ts.open(spec, context=context, create=True, dtype=ts.uint8, shape=[8]).result()
    keys = ts.KvStore.open(spec["kvstore"], context=context).result()
    item, other = (ts.Transaction(repeatable_read=True) for _ in range(2))
    keys.with_transaction(item).read("absent").result()
    for transaction in (item, other):
        ts.open(spec, context=context, transaction=transaction).result()
    item.commit_sync()
    other.commit_sync()
