"""Peak memory: output + threads × (encoded + decoded chunk) + chunk cache + 60 MB."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr

pytestmark = pytest.mark.slow

MB = 1 << 20

PEAK = """
import sys, tessarr

def peak():
    # Not from getrusage, whose figure a process inherits from its parent.
    with open("/proc/self/status") as status:
        return int(status.read().split("VmHWM:")[1].split()[0]) * 1024
"""

READER = f"""{PEAK}
array = tessarr.open_array(sys.argv[1], mode="r")
array[0, 0]
before = peak()
data = array[:]
print(peak() - before, data.nbytes)
"""

LAYOUTS: dict[str, dict[str, Any]] = {
    "chunks": {"chunks": (1024, 1024)},
    "uncompressed": {"chunks": (1024, 1024), "compressors": None},
    "edges": {"chunks": (1000, 1000)},
    "shards": {"chunks": (128, 128), "shards": (2048, 2048)},
    "zstd F": {"chunks": (1024, 1024), "zarr_format": 2, "order": "F"},
}


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_peak_memory_of_whole_read(tmp_path: Path, layout: str) -> None:
    """A read of 128 MB needs the output, two chunks for each thread, and a small overhead."""
    path = tmp_path / "a.zarr"
    array = tessarr.create_array(path, shape=(4096, 8192), dtype="float32", **LAYOUTS[layout])
    rows = np.random.default_rng(0).integers(0, 1 << 20, (4096, 1)).astype("float32")
    array[:] = rows + np.arange(8192, dtype="float32")
    done = subprocess.run(
        [sys.executable, "-c", READER, str(path)], capture_output=True, text=True, check=True
    )
    grown, output = map(int, done.stdout.split())
    threads = len(os.sched_getaffinity(0))
    chunk = 4 * MB
    assert output * 0.9 < grown <= output + threads * 2 * chunk + 60 * MB


STATS = f"""{PEAK}
array = tessarr.open_array(sys.argv[1], mode="r")
array[0, 0]
before = peak()
array.stats()
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
@pytest.mark.parametrize("layout", [*LAYOUTS, "one chunk"])
def test_peak_memory_of_stats_is_bounded(tmp_path: Path, layout: str) -> None:
    """Statistics of 512 MB need less than 128 MB, also of one large uncompressed chunk."""
    one_chunk = {"chunks": (16384, 8192), "compressors": None}
    path = tmp_path / "a.zarr"
    array = tessarr.create_array(
        path, shape=(16384, 8192), dtype="float32", **LAYOUTS.get(layout, one_chunk)
    )
    rows = np.arange(16384, dtype="float32")
    array[:] = rows[:, None] % 1000 + np.arange(8192, dtype="float32")
    done = subprocess.run(
        [sys.executable, "-c", STATS, str(path)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 128 * MB


COPIER = f"""{PEAK}
source = tessarr.open_array(sys.argv[1], mode="r")
source[0, 0]
before = peak()
tessarr.copy_to(source, sys.argv[2], chunks=(4096, 16), memory_bytes=32 << 20)
target = tessarr.open_array(sys.argv[2], mode="r+")
target[...] = source
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_peak_memory_of_copy_from_rows_to_columns(tmp_path: Path) -> None:
    """A copy of 128 MB uses a buffer of 32 MB; an assignment uses the buffer of the option."""
    array = tessarr.create_array(
        tmp_path / "a", shape=(4096, 8192), dtype="float32", chunks=(16, 8192)
    )
    rows = np.random.default_rng(0).integers(0, 1 << 20, (4096, 1)).astype("float32")
    array[:] = rows + np.arange(8192, dtype="float32")
    code = COPIER.replace("target[...]", "with tessarr.options(copy_bytes=32 << 20): target[...]")
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a"), str(tmp_path / "b")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) <= 32 * MB + 60 * MB
    copied = tessarr.open_array(tmp_path / "b", mode="r")
    assert (copied[::100] == array[::100]).all()


CACHED = f"""{PEAK}
import tessarr.tensorstore as ts
limit = int(sys.argv[2])
grid = {{"name": "regular", "configuration": {{"chunk_shape": [2]}}}}
spec = {{
    "driver": "zarr3",
    "kvstore": "file://" + sys.argv[1] + "/",
    "recheck_cached_data": False,
    "metadata": {{"shape": [100_000], "data_type": "uint8", "chunk_grid": grid}},
}}
context = ts.Context({{"cache_pool": {{"total_bytes_limit": limit}}}})
array = ts.open(spec, create=True, open=True, context=context).result()
array[:1000].read().result()
before = peak()
array.read().result()
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_cache_of_absent_chunks_respects_its_limit(tmp_path: Path) -> None:
    """Cache entries for absent chunks hold no elements."""
    limit = 10_000_000
    done = subprocess.run(
        [sys.executable, "-c", CACHED, str(tmp_path), str(limit)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 2 * limit


COLUMN_READER = f"""{PEAK}
tessarr.configure(chunk_cache_bytes=32 << 20)
array = tessarr.open_array(sys.argv[1], mode="r")
array[0, 0]
before = peak()
for column in range(0, 8192, 64):
    array[:, column]
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
@pytest.mark.parametrize("layout", ["chunks", "shards"])
def test_chunk_cache_takes_at_most_its_size(tmp_path: Path, layout: str) -> None:
    """A loop over columns needs the chunk cache, two chunks for each thread, and 60 MB."""
    path = tmp_path / "a.zarr"
    array = tessarr.create_array(path, shape=(4096, 8192), dtype="float32", **LAYOUTS[layout])
    array[:] = np.arange(8192, dtype="float32")
    done = subprocess.run(
        [sys.executable, "-c", COLUMN_READER, str(path)], capture_output=True, text=True, check=True
    )
    threads = len(os.sched_getaffinity(0))
    assert int(done.stdout) <= 32 * MB + threads * 2 * 4 * MB + 60 * MB


PARTS_READER = f"""{PEAK}
import numpy as np
tessarr.configure(chunk_cache_bytes=32 << 20)
array = tessarr.open_array(sys.argv[1], mode="r")
array[0, 0]
rng = np.random.default_rng(0)
rows, columns = rng.integers(0, 4096, 1 << 18), rng.integers(0, 8192, 1 << 18)
keys = [(row, column) for row in range(0, 4096, 16) for column in range(0, 8192, 64)]
before = peak()
data = READ
print(peak() - before, data.nbytes)
"""

READS = {
    "rows in one call": "array.read_many(range(4096), stack=True)",
    "elements in one call": "array.read_many(keys, stack=True)",
    "cast": "array.astype('f8')[:]",
    "cast of a part": "array.astype('i2')[::8, ::3]",
    "points": "array.vindex[rows, columns]",
}
PARTS_LAYOUTS: dict[str, dict[str, Any]] = {
    "chunks": LAYOUTS["chunks"],
    "shards": LAYOUTS["shards"],
    "big-endian": {"chunks": (1024, 1024), "dtype": ">f4"},
    "uncompressed F": {**LAYOUTS["zstd F"], "compressors": None, "dtype": ">f4"},
}


@pytest.fixture(scope="module", params=PARTS_LAYOUTS)
def stored_array(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of an array of 128 MB."""
    path = tmp_path_factory.mktemp("array")
    settings = {"dtype": "f4", **PARTS_LAYOUTS[request.param]}
    array = tessarr.create_array(path, shape=(4096, 8192), **settings)
    array[:] = np.arange(8192, dtype="f4")
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
@pytest.mark.parametrize("read", READS)
def test_peak_memory_of_partial_reads(stored_array: Path, read: str) -> None:
    """A read needs the output, the chunk cache, two chunks for each thread, and 60 MB."""
    code = PARTS_READER.replace("READ", READS[read])
    done = subprocess.run(
        [sys.executable, "-c", code, str(stored_array)], capture_output=True, text=True, check=True
    )
    grown, output = map(int, done.stdout.split())
    threads = len(os.sched_getaffinity(0))
    assert grown <= output + 32 * MB + threads * 2 * 4 * MB + 60 * MB
