"""Tessarr as the codec pipeline of zarr-python: equal to NumPy, without lost changes."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tessarr.zarr import CodecPipeline

zarr = pytest.importorskip("zarr", minversion="3.1", reason="zarr-python 3 runs the pipeline")

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHAPE = (23, 17)
LAYOUTS: dict[str, dict[str, Any]] = {
    "chunks of format 2": {"zarr_format": 2},
    "columns of format 2": {"zarr_format": 2, "order": "F"},
    "chunks of format 3": {"zarr_format": 3},
    "shards": {"zarr_format": 3, "shards": (6, 8)},
    "keys of format 2": {
        "zarr_format": 3,
        "chunk_key_encoding": {"name": "v2", "separator": "/"},
    },
}


@pytest.fixture(autouse=True)
def pipeline() -> Iterator[None]:
    """Select the pipeline, as programs do."""
    zarr.registry.register_pipeline(CodecPipeline)
    with zarr.config.set({"codec_pipeline.path": "tessarr.zarr.CodecPipeline"}):
        yield


@pytest.fixture(params=["memory", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A store of zarr-python."""
    if request.param == "memory":
        return zarr.storage.MemoryStore()
    return zarr.storage.LocalStore(tmp_path)


def _create(store: Any, **layout: Any) -> Any:
    array = zarr.create_array(
        store, name="g/a", shape=SHAPE, chunks=(3, 4), dtype="i4", fill_value=7, **layout
    )
    assert type(array.async_array.codec_pipeline) is CodecPipeline
    return array


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_selections_equal_numpy(store: Any, layout: dict[str, Any]) -> None:
    array = _create(store, **layout)
    expected = np.full(SHAPE, 7, "i4")
    random = np.random.default_rng(0)
    for number in range(30):
        box = tuple(slice(*sorted(random.integers(0, length + 1, 2))) for length in SHAPE)
        array[box] = expected[box] = random.integers(0, 99, expected[box].shape)
        row, step = int(random.integers(0, SHAPE[0])), int(random.integers(2, 6))
        array[row, ::step] = expected[row, ::step] = number
        rows, columns = random.integers(0, SHAPE[0], 5), random.integers(0, SHAPE[1], 5)
        mask, points = random.random(SHAPE[0]) < 0.4, random.random(SHAPE) < 0.2
        array.vindex[points] = expected[points] = number + 1
        few = np.unique(rows), np.unique(columns)
        array.oindex[few] = expected[np.ix_(*few)] = number + 2
        array.oindex[row, few[1]] = expected[row, few[1]] = number + 3
        for key in (box, row, (slice(None, None, 2), slice(None, None, step)), (row, 4), ...):
            np.testing.assert_array_equal(array[key], expected[key])
        np.testing.assert_array_equal(array.vindex[rows, columns], expected[rows, columns])
        np.testing.assert_array_equal(array.vindex[points], expected[points])
        for key in ((rows, columns), (mask, columns), (mask, slice(2, 9)), (row, columns)):
            outer = key if isinstance(key[0], int) or isinstance(key[1], slice) else np.ix_(*key)
            np.testing.assert_array_equal(array.oindex[key], expected[outer])
    np.testing.assert_array_equal(zarr.open_array(store, path="g/a", mode="r+")[:], expected)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_chunks_equal_those_of_zarr_python(tmp_path: Path, layout: dict[str, Any]) -> None:
    ours = _create(zarr.storage.LocalStore(tmp_path / "ours"), **layout)
    values = np.arange(SHAPE[0] * SHAPE[1], dtype="i4").reshape(SHAPE)
    ours[:] = values
    ours[2:5, 1:3] = 0
    with zarr.config.set({"codec_pipeline.path": "zarr.core.codec_pipeline.BatchedCodecPipeline"}):
        theirs = zarr.open_array(tmp_path / "ours", path="g/a", mode="r+")
        values[2:5, 1:3] = 0
        np.testing.assert_array_equal(theirs[:], values)
        theirs[0] = 3
    np.testing.assert_array_equal(ours[0], np.full(SHAPE[1], 3))


def test_writes_after_resize_keep_elements_of_the_last_chunk(store: Any) -> None:
    array = _create(store)
    array[:] = 1
    array.resize((40, 17))
    array[30:] = 2
    array[21:23] = 3
    expected = np.full((40, 17), 7, "i4")
    expected[:23], expected[30:], expected[21:23] = 1, 2, 3
    np.testing.assert_array_equal(array[:], expected)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("dtype", ["f8", "c16", "bool", "U5", "S3", "M8[s]", "m8[ms]", "string"])
def test_data_types_round_trip(store: Any, zarr_format: Any, dtype: str) -> None:
    array = zarr.create_array(store, shape=5, chunks=2, dtype=dtype, zarr_format=zarr_format)
    values = np.array([1, 0, 1, 1, 0])
    if dtype == "string":
        values = np.array(["a", "bb", "", "d", "é"], dtype=object)
    else:
        values = values.astype(dtype)
    array[:] = values
    np.testing.assert_array_equal(array[:], values)


def test_scalar_array_round_trips(store: Any) -> None:
    array = zarr.create_array(store, shape=(), dtype="f4")
    array[...] = 3
    assert array[()] == 3


def test_rectilinear_grid_uses_the_pipeline_of_zarr_python(store: Any) -> None:
    if "array.rectilinear_chunks" not in zarr.config.to_dict().get("array", {}) and (
        "rectilinear_chunks" not in zarr.config.to_dict().get("array", {})
    ):
        pytest.skip("this zarr-python has no rectilinear chunk grids")
    with zarr.config.set({"array.rectilinear_chunks": True}):
        array = zarr.create_array(store, shape=10, chunks=[[2, 3, 5]], dtype="i4")
    array[:] = np.arange(10)
    np.testing.assert_array_equal(array[1:7], np.arange(1, 7))
    assert type(array.async_array.codec_pipeline) is not CodecPipeline


def test_write_empty_chunks_is_followed(tmp_path: Path) -> None:
    for stores_empty in (False, True):
        folder = tmp_path / str(stores_empty)
        config = {"write_empty_chunks": stores_empty}
        array = zarr.create_array(folder, shape=4, chunks=2, dtype="i4", config=config)
        array[:] = 0
        assert array.nchunks_initialized == 2 * stores_empty


def test_pickled_array_reads_equal(tmp_path: Path) -> None:
    array = _create(zarr.storage.LocalStore(tmp_path))
    array[:] = 4
    again = pickle.loads(pickle.dumps(array))
    assert type(again.async_array.codec_pipeline) is CodecPipeline
    np.testing.assert_array_equal(again[:], array[:])


@pytest.mark.parametrize("layout", [{}, {"shards": (60, 60)}], ids=["chunks", "shards"])
def test_dask_blocks_across_chunks_lose_nothing(store: Any, layout: dict[str, Any]) -> None:
    dask_array = pytest.importorskip("dask.array", reason="Dask writes the blocks")
    values = np.arange(10_000, dtype="i4").reshape(100, 100) + 1
    for _ in range(5):
        array = zarr.create_array(
            store, shape=(100, 100), chunks=(30, 30), dtype="i4", overwrite=True, **layout
        )
        dask_array.store(dask_array.from_array(values, chunks=(7, 7)), array, lock=False)
        np.testing.assert_array_equal(array[:], values)


def test_threads_that_share_a_chunk_lose_nothing(store: Any) -> None:
    array = zarr.create_array(store, shape=200, chunks=50, dtype="i4")

    def write(number: int) -> None:
        array[number] = number + 1

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(200)))
    np.testing.assert_array_equal(array[:], np.arange(200) + 1)
