"""SIGKILL during a commit: each key is whole, and an atomic store holds all changes or none."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ts

pytestmark = pytest.mark.slow

COMMITTER = """
import sys, itertools, json, tessarr.tensorstore as ts
from tessarr.stores import SQLiteStore
path, atomic = sys.argv[1], sys.argv[2] == "sqlite"
place = SQLiteStore(path) if atomic else "file://" + path + "/"
array = ts.open({"driver": "zarr3", "kvstore": ts.KvStore.open(place).result().spec()}).result()
first = int(array[0, 0].read().result()) + 1
print("ready", flush=True)
for number in itertools.count(first):
    with ts.Transaction(atomic=atomic) as transaction:
        inside = array.with_transaction(transaction)
        inside[:40] = number
        inside[40:] = number
"""


def opened(kind: str, path: Path, **options: Any) -> ts.TensorStore:
    if kind == "sqlite":
        from tessarr.stores import SQLiteStore

        location = ts.KvStore.open(SQLiteStore(path)).result().spec()
    else:
        location = ts.KvStore.Spec(f"file://{path}/")
    return ts.open({"driver": "zarr3", "kvstore": location}, **options).result()


@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_killed_transaction_leaves_complete_keys(tmp_path: Path, kind: str) -> None:
    """Each shard has the value of one commit; in SQLite all shards have the same one."""
    path = tmp_path / "array"
    chunks = ts.ChunkLayout(read_chunk_shape=[8, 8], write_chunk_shape=[32, 32])
    opened(
        kind, path, create=True, dtype=ts.int64, shape=[128, 128], chunk_layout=chunks
    ).write(0).result()  # fmt: skip
    moments = random.Random(5)
    for _ in range(4):
        committer = subprocess.Popen(
            [sys.executable, "-c", COMMITTER, str(path), kind], stdout=subprocess.PIPE, text=True
        )
        assert committer.stdout is not None
        assert committer.stdout.readline() == "ready\n"
        time.sleep(moments.uniform(0.02, 0.1))
        os.kill(committer.pid, signal.SIGKILL)
        committer.communicate()
        array = opened(kind, path)
        values = array.read().result().reshape(4, 32, 4, 32)
        numbers = np.unique(values)
        for row in range(4):
            for column in range(4):
                assert np.unique(values[row, :, column]).size == 1
        assert numbers.size == 1 or (kind == "file" and numbers[-1] - numbers[0] == 1)
        # Leftovers do not block the next commit.
        with ts.Transaction() as transaction:
            array.with_transaction(transaction).write(numbers[-1]).result()
        assert np.unique(array.read().result()).tolist() == [numbers[-1]]
