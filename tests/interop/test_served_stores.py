"""Stores that `tessarr.serve` serves, read by other programs."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from stores.clouds import FOLDER
from tessarr import codecs

VALUES = np.arange(60 * 70, dtype="f4").reshape(60, 70)
LAYOUTS: dict[str, dict[str, Any]] = {
    "format 2": {"zarr_format": 2, "chunks": (20, 30)},
    "format 3": {"zarr_format": 3, "chunks": (20, 30), "compressors": codecs.GZip(level=1)},
    "shards": {"zarr_format": 3, "chunks": (10, 10), "shards": (40, 40)},
}


@pytest.fixture(params=LAYOUTS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a hierarchy with an array of two axes and its coordinates."""
    layout = LAYOUTS[request.param]
    root = tessarr.open_group(tmp_path / "g.zarr", mode="w", zarr_format=layout["zarr_format"])

    def name_axes(*names: str) -> dict[str, Any]:
        is_new = root.zarr_format == 3
        return (
            {"dimension_names": names} if is_new else {"attributes": {"_ARRAY_DIMENSIONS": names}}
        )

    array = root.create_array("t", shape=VALUES.shape, dtype="f4", **name_axes("y", "x"), **layout)
    array[:] = VALUES
    x = root.create_array("x", shape=(70,), dtype="i4", **name_axes("x"))
    x[:] = np.arange(70)
    tessarr.consolidate_metadata(tmp_path / "g.zarr")
    return tmp_path / "g.zarr"


@pytest.fixture(params=["folder", "zip"])
def url(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    """Yield the address of the hierarchy, which a folder or a Zip file contains."""
    store = folder
    if request.param == "zip":
        store = folder.with_suffix(".zip")
        tessarr.copy_store(folder, store)
    with tessarr.serve(store) as server:
        yield server.url


def test_zarr_python_reads(url: str) -> None:
    zarr = pytest.importorskip("zarr", reason="zarr-python is not installed")
    group = zarr.open_group(url, mode="r")
    assert sorted(group) == ["t", "x"]
    np.testing.assert_array_equal(group["t"][3:50, 5:66], VALUES[3:50, 5:66])


def test_tensorstore_reads(url: str) -> None:
    tensorstore = pytest.importorskip("tensorstore", reason="TensorStore is not installed")
    driver = "zarr3" if tessarr.open(url, mode="r").zarr_format == 3 else "zarr"
    array = tensorstore.open({"driver": driver, "kvstore": f"{url}t/"}).result()
    np.testing.assert_array_equal(array[3:50, 5:66].read().result(), VALUES[3:50, 5:66])


@pytest.mark.parametrize("engine", ["zarr", "tessarr"])
def test_xarray_reads(url: str, engine: str) -> None:
    xarray = pytest.importorskip("xarray", reason="xarray is not installed")
    with xarray.open_dataset(url, engine=engine) as dataset:
        assert dataset["t"].dims == ("y", "x")
        np.testing.assert_array_equal(dataset["t"].sel(x=slice(5, 65))[3:50], VALUES[3:50, 5:66])


def test_links_open_store(url: str, folder: Path) -> None:
    """The code that the server prints runs."""
    zarr = pytest.importorskip("zarr", reason="zarr-python is not installed")
    tensorstore = pytest.importorskip("tensorstore", reason="TensorStore is not installed")
    with tessarr.serve(folder / "t") as server:
        modules = {"zarr": zarr, "tensorstore": tensorstore}
        opened = eval(server.links["zarr-python"], modules)
        np.testing.assert_array_equal(opened[:2], VALUES[:2])
        array = eval(server.links["TensorStore"], modules).result()
        np.testing.assert_array_equal(array[:2].read().result(), VALUES[:2])


ZARRITA = """
import * as zarr from "zarrita";
const [url, useSuffixRequest] = [process.argv[2], process.argv[3] === "suffix"];
const store = new zarr.FetchStore(url, { useSuffixRequest });
const root = await zarr.open(store, { kind: "group" });
const array = await zarr.open(root.resolve("t"), { kind: "array" });
const part = await zarr.get(array, [zarr.slice(3, 50), zarr.slice(5, 66)]);
console.log(JSON.stringify({ shape: part.shape, data: Array.from(part.data) }));
"""
"""A program for Node that reads a part of an array."""


@pytest.mark.parametrize("requests", ["suffix", "HEAD"])
def test_zarrita_reads(url: str, tmp_path: Path, requests: str) -> None:
    """The client finds the index of a shard with a suffix range, or with HEAD and a range."""
    node = shutil.which("node")
    modules = FOLDER / "zarrita" / "node_modules"
    if node is None or not (modules / "zarrita").is_dir():
        pytest.skip("Node or zarrita is not installed: `just servers` installs zarrita")
    (tmp_path / "node_modules").symlink_to(modules)
    (tmp_path / "read.mjs").write_text(ZARRITA)
    done = subprocess.run(
        [node, "read.mjs", url, requests],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    part = json.loads(done.stdout)
    values = np.asarray(part["data"], "f4").reshape(part["shape"])
    np.testing.assert_array_equal(values, VALUES[3:50, 5:66])
