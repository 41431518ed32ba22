"""Dask arrays as sources and targets, and copies on the workers of a cluster."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tessarr
import tessarr.zarr
from tessarr.cli import main
from tessarr.errors import ArgumentError

distributed = pytest.importorskip("distributed", reason="a cluster runs the copies")

import dask  # noqa: E402 (after the package that needs it)
import dask.array as dask_array  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A client of a cluster of three worker processes."""
    with (
        distributed.LocalCluster(
            n_workers=3, threads_per_worker=1, dashboard_address=":0", memory_limit="500MB"
        ) as cluster,
        closing(distributed.Client(cluster, set_as_default=False)) as client,
    ):
        yield client


def _create(folder: Path, **settings: Any) -> tuple[Any, Any]:
    array = tessarr.create_array(folder, shape=(300, 200), dtype="i4", **settings)
    values = np.arange(60_000, dtype="i4").reshape(300, 200)
    array[:] = values
    return array, values


def test_arrays_are_sources_and_targets(tmp_path: Path) -> None:
    array, values = _create(tmp_path / "a", chunks=(30, 40))
    lazy = dask_array.from_array(array, chunks=array.chunks)
    target = tessarr.create_array(tmp_path / "b", shape=(300, 200), chunks=(50, 50), dtype="i4")
    dask_array.store(lazy.rechunk((7, 11)), target, lock=False)
    np.testing.assert_array_equal(target[:], values)


def _create_target(kind: str, folder: Path, layout: dict[str, Any]) -> Any:
    settings: dict[str, Any] = {"shape": (100, 100), "dtype": "i4", **layout}
    if kind == "array":
        return tessarr.create_array(folder, **settings)
    zarr = pytest.importorskip("zarr", minversion="3.1", reason="the program with the array")
    if kind == "drop-in":
        return tessarr.zarr.create_array(folder, **settings)
    with zarr.config.set({"codec_pipeline.path": "tessarr.zarr.CodecPipeline"}):
        return zarr.create_array(folder, **settings)


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
@pytest.mark.parametrize(
    "layout",
    [{"chunks": (30, 30)}, {"chunks": (15, 15), "shards": (30, 30)}],
    ids=["chunks", "shards"],
)
@pytest.mark.parametrize("kind", ["array", "drop-in", "codec pipeline"])
def test_blocks_across_chunks_lose_nothing(
    tmp_path: Path, client: Any, kind: str, layout: dict[str, Any], scheduler: str
) -> None:
    values = np.arange(10_000, dtype="i4").reshape(100, 100) + 1
    blocks = dask_array.from_array(values, chunks=(7, 7))
    chosen = client if scheduler == "processes" else "threads"
    for run in range(2):
        target = _create_target(kind, tmp_path / str(run), layout)
        with dask.config.set(scheduler=chosen, num_workers=8):
            dask_array.store(blocks, target, lock=False)
        stored = tessarr.open_array(tmp_path / str(run), mode="r")[:]
        np.testing.assert_array_equal(stored, values)


def test_arrays_of_tessarr_zarr_pass_checks_of_zarr_arrays(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr", minversion="3.1", reason="Dask checks its classes")
    values = np.arange(100).reshape(10, 10)
    blocks = dask_array.from_array(values, chunks=(5, 5))
    settings: dict[str, Any] = {"shape": (10, 10), "chunks": (5, 5), "dtype": "i8"}
    array = tessarr.zarr.create_array(tmp_path / "a", **settings)
    group = tessarr.zarr.create_group(tmp_path / "g")
    for copy in (array, pickle.loads(pickle.dumps(array))):
        assert isinstance(copy, zarr.Array)
        assert type(copy) is tessarr.zarr.Array
    for copy in (group, pickle.loads(pickle.dumps(group))):
        assert isinstance(copy, zarr.Group)
        assert type(copy) is tessarr.zarr.Group
    assert not isinstance(array, zarr.Group)
    blocks.to_zarr(array)
    np.testing.assert_array_equal(dask_array.from_zarr(array).compute(), values)
    with tessarr.zarr.install():
        installed = zarr.create_array(tmp_path / "b", **settings)
        blocks.to_zarr(installed)
        np.testing.assert_array_equal(dask_array.from_zarr(installed).compute(), values)


@pytest.mark.parametrize("layout", [{"chunks": (7, 200)}, {"chunks": (30, 40), "shards": (60, 80)}])
def test_rechunked_copy_on_a_cluster_is_equal(
    tmp_path: Path, client: Any, layout: dict[str, Any]
) -> None:
    _, values = _create(tmp_path / "a", chunks=(30, 40))
    seen: list[tuple[int, int]] = []
    tessarr.copy_to(
        tmp_path / "a",
        tmp_path / "b",
        client=client,
        memory_bytes=20_000,
        progress=lambda done, total: seen.append((done, total)),
        **layout,
    )
    np.testing.assert_array_equal(tessarr.open_array(tmp_path / "b", mode="r")[:], values)
    assert seen[-1] == (values.nbytes, values.nbytes)
    assert len(seen) > 5


def test_hierarchy_with_equal_chunks_is_copied_as_stored(tmp_path: Path, client: Any) -> None:
    root = tessarr.create_group(tmp_path / "a")
    root.create_array("x/y", data=np.arange(100), chunks=7)
    report = tessarr.copy_to(tmp_path / "a", tmp_path / "b", client=client)
    assert [node.as_stored for node in report.nodes if node.kind == "array"] == [True]
    np.testing.assert_array_equal(
        tessarr.open_group(tmp_path / "b", mode="r")["x/y"][:], np.arange(100)
    )


def test_copy_of_memory_store_on_a_cluster_is_refused(tmp_path: Path, client: Any) -> None:
    source = tessarr.create_array(None, shape=10, dtype="i4")
    with pytest.raises(ArgumentError, match="memory of this process"):
        tessarr.copy_to(source, tmp_path / "b", client=client)
    zarr = pytest.importorskip("zarr", reason="its store in memory")
    fsspec = pytest.importorskip("fsspec", reason="its file system in memory")
    files = tessarr.stores.FsspecStore(fsspec.filesystem("memory"), "/cluster")
    tessarr.create_array(tmp_path / "a", shape=10, dtype="i4")
    for target in (zarr.storage.MemoryStore(), files, {}):
        with pytest.raises(ArgumentError, match="memory of this process"):
            tessarr.copy_to(tmp_path / "a", target, client=client)
    with pytest.raises(ArgumentError, match="Zarr stores"):
        tessarr.copy_to(np.arange(3), tmp_path / "b", client=client)


def test_command_copies_on_a_cluster(
    tmp_path: Path, client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    _, values = _create(tmp_path / "a", chunks=(30, 40))
    address = client.scheduler.address
    arguments = ["rechunk", str(tmp_path / "a"), str(tmp_path / "b"), "--chunks", "100,10"]
    assert main([*arguments, "--dask", address, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
    np.testing.assert_array_equal(tessarr.open_array(tmp_path / "b", mode="r")[:], values)
    assert main([*arguments, "--dask", "nonsense", "--overwrite"]) == 1
    assert "nonsense" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["nowhere", "other://127.0.0.1:8786"])
def test_command_with_a_wrong_address_fails_and_ends(tmp_path: Path, address: str) -> None:
    _create(tmp_path / "a", chunks=(30, 40))
    arguments = ["copy", str(tmp_path / "a"), str(tmp_path / "b"), "--dask", address]
    done = subprocess.run(
        [sys.executable, "-m", "tessarr", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode
    assert f"there is no Dask scheduler at {address!r}" in done.stderr
    assert "Exception ignored" not in done.stderr
    assert not (tmp_path / "b").exists()


def test_rechunking_survives_a_killed_worker_within_worker_memory(
    tmp_path: Path, client: Any
) -> None:
    """The array has half the memory of a worker; no worker pauses or exceeds its memory."""
    source = tessarr.create_array(
        tmp_path / "a", shape=(8192, 16384), chunks=(64, 16384), dtype="i2", compressors=None
    )
    for start in range(0, 8192, 512):
        source[start : start + 512] = _make_rows(start)
    processes = {*client.run(os.getpid).values()}
    killed: list[int] = []
    states: set[str] = set()
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        seen.append((done, total))
        workers = client.scheduler_info(n_workers=-1)["workers"]
        states.update(worker["status"] for worker in workers.values())
        if not killed and done > total // 4:
            killed.append(min(processes))
            os.kill(killed[0], signal.SIGKILL)

    tessarr.copy_to(
        tmp_path / "a",
        tmp_path / "b",
        client=client,
        chunks=(8192, 256),
        memory_bytes=1 << 24,
        progress=progress,
    )
    assert killed
    # The nannies, which restart workers above their memory limit, have restarted no other worker.
    assert processes & {*client.run(os.getpid).values()} == processes - {*killed}
    assert "paused" not in states
    assert seen[-1] == (source.nbytes, source.nbytes)
    target = tessarr.open_array(tmp_path / "b", mode="r")
    assert target.chunks == (8192, 256)
    for start in range(0, 8192, 512):
        np.testing.assert_array_equal(target[start : start + 512], _make_rows(start))


def _make_rows(start: int) -> Any:
    return np.random.default_rng(start).integers(0, 1000, (512, 16384), dtype="i2")
