"""The steps of TensorStore's tutorial have equal results with Tessarr's drivers.

The tutorial's own arrays have other formats: N5 and neuroglancer.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ours

theirs = pytest.importorskip("tensorstore", reason="compared with TensorStore's own")

METADATA: dict[str, dict[str, Any]] = {
    "zarr3": {
        "data_type": "uint32",
        "shape": [1000, 20000],
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [100, 100]}},
        "codecs": ["gzip"],
    },
    "zarr": {
        "dtype": "<u4",
        "shape": [1000, 20000],
        "chunks": [100, 100],
        "compressor": {"id": "gzip"},
    },
}
VOLUME: dict[str, Any] = {
    "schema": {
        "dtype": "uint64",
        "domain": {"shape": [344, 395, 414, 1], "labels": ["x", "y", "z", "channel"]},
        "chunk_layout": {
            "read_chunk": {"shape": [8, 8, 8, 1]},
            "write_chunk": {"shape": [64, 64, 64, 1]},
        },
    },
    "context": {"cache_pool": {"total_bytes_limit": 100_000_000}},
    "recheck_cached_data": "open",
}


def first_part(ts: Any, driver: str, folder: Path) -> Any:
    """Create an array in a folder, write a part of it in three forms, and read."""
    dataset = ts.open(
        {
            "driver": driver,
            "kvstore": {"driver": "file", "path": f"{folder}/dataset/"},
            "metadata": METADATA[driver],
            "create": True,
            "delete_existing": True,
        }
    ).result()
    write_future = dataset[80:82, 99:102].write([[1, 2, 3], [4, 5, 6]])
    result = [write_future.result()]

    async def waiting() -> Any:
        return await write_future

    result.append(asyncio.run(waiting()))
    dataset[80:82, 99:102] = [[1, 2, 3], [4, 5, 6]]
    result.append(repr(dataset[80:83, 99:102].read().result()))
    return result


@pytest.mark.parametrize("driver", METADATA)
def test_part_of_array_is_written_and_read(driver: str, tmp_path: Path) -> None:
    result = first_part(ours, driver, tmp_path / "ours")
    assert result == first_part(theirs, driver, tmp_path / "theirs")
    assert result[:2] == [None, None]


def second_part(ts: Any, folder: Path) -> Any:
    """Look at a large labelled volume without reading it, then read one plane."""
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{folder}/volume/"}, **VOLUME}
    dataset = ts.open(spec, create=True).result()
    result = [repr(dataset), repr(dataset.domain)]

    async def waiting() -> Any:
        return (await ts.open(spec)).domain

    result.append(repr(asyncio.run(waiting())))
    dataset_3d = dataset[ts.d["channel"][0]]
    result.append(repr(dataset_3d.domain))
    plane = dataset_3d[150:250, 150:250, 200]
    plane.write(np.arange(10000, dtype="u8").reshape(100, 100)).result()
    result += [repr(plane), repr(plane.domain)]
    read_future = plane.read()
    result += [repr(read_future.result()), repr(np.array(dataset_3d[150:250, 150:250, 200]))]
    return [line.replace(str(folder), "…") for line in result]


def test_plane_of_volume_is_read(tmp_path: Path) -> None:
    assert second_part(ours, tmp_path / "ours") == second_part(theirs, tmp_path / "theirs")
