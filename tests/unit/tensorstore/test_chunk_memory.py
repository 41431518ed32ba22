"""Rewritten chunks reuse memory: the tests count page faults."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("resource")

_ROUNDS = """
import resource
import sys

import numpy as np

import tessarr.tensorstore as ts

driver, path, parts = sys.argv[1], sys.argv[2], int(sys.argv[3])
chunks = {"name": "regular", "configuration": {"chunk_shape": [512, 512]}}
metadata = {"shape": [2048, 2048], "data_type": "float32", "chunk_grid": chunks}
kvstore = {"driver": driver, "path": path}
array = ts.open({"driver": "zarr3", "kvstore": kvstore, "metadata": metadata}, create=True).result()
values = np.arange(2048 * 2048, dtype="f4").reshape(2048, 2048)


def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def written():
    before = faults()
    with ts.Transaction() as transaction:
        inside = array.with_transaction(transaction)
        for rows in np.split(np.arange(2048), parts):
            part = slice(rows[0], rows[-1] + 1)
            inside[part].write(values[part]).result()
    return faults() - before


for _ in range(4):
    written()  # replaced values, cached values and the memory of each thread
print(sum(written() for _ in range(8)), values.nbytes // resource.getpagesize())
"""


@pytest.mark.parametrize("driver", ["memory", "file"])
@pytest.mark.parametrize("parts", [1, 8], ids=["whole", "rows"])
def test_memory_of_replaced_values_is_reused(driver: str, parts: int, tmp_path: Path) -> None:
    """The allocator keeps all free memory: otherwise the count would depend on pauses."""
    command = [sys.executable, "-c", _ROUNDS, driver, f"{tmp_path}/", str(parts)]
    environment = os.environ | {"MIMALLOC_PURGE_DELAY": "-1"}
    done = subprocess.run(command, check=True, capture_output=True, env=environment)
    faults, pages = map(int, done.stdout.split())
    assert faults < pages  # 8 rounds without reuse would have 8 times as many
