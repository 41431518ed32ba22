"""Verbs that only read open files of HDF5, netCDF and NumPy without a copy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tessarr
from tessarr.copying.file_store import FileStore
from tessarr.store.adapt import adapt_store

if TYPE_CHECKING:
    from cli.conftest import Run


@pytest.fixture
def hdf5(here: Path) -> Path:
    """Return the file ``data.h5``."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(here / "data.h5", "w") as file:
        file.attrs["title"] = "trial"
        values = np.arange(24.0).reshape(4, 6)
        file.create_dataset("run/a", data=values, chunks=(3, 4), compression="gzip", shuffle=True)
        file["run/a"].attrs["units"] = "K"
        file["text"] = np.array(["x", "yy"], dtype=h5py.string_dtype())
        file["scalar"] = 5
        file["ref"] = np.array([file["run"].ref], dtype=h5py.ref_dtype)
    return here / "data.h5"


def test_verbs_read_hdf5_files(run: Run, hdf5: Path) -> None:
    """The path may continue to a node in the file; a note names nodes that Zarr cannot hold."""
    code, out, err = run("tree", "data.h5")
    assert (code, out.splitlines()[1:3]) == (0, ["├── run", "│   └── a (4, 6) float64"])
    assert err.startswith("tessarr: not shown: /ref: ")
    assert run("cat", "data.h5/run/a", "[3, 2:4]")[1] == "20.0\n21.0\n"
    assert run("cat", "data.h5/text")[1] == "x\nyy\n"
    assert run("cat", "data.h5/scalar")[1] == "5\n"
    assert json.loads(run("stats", "data.h5/run/a", "--json")[1])["sum"] == 276.0
    info = run("info", "data.h5/run/a")[1]
    assert "array, in HDF5" in info
    assert "data.h5" in info
    assert "3 × 4" in info
    assert run("attrs", "data.h5/run/a")[1] == 'units  "K"\n'


def test_verbs_read_npy_files(run: Run, here: Path) -> None:
    """A file of NumPy is an array at the root."""
    values = np.arange(12, dtype=">i2").reshape(3, 4)
    np.save(here / "a.npy", values)
    assert run("cat", "a.npy", "1")[1].split() == ["4", "5", "6", "7"]
    assert "in NumPy" in run("info", "a.npy")[1]
    assert run("tree", "a.npy")[1].startswith("Array(")
    assert json.loads(run("stats", "a.npy", "--json")[1])["max"] == 11


def test_verbs_read_netcdf_3_files(run: Run, here: Path) -> None:
    """netCDF-3 files are not HDF5; SciPy or netCDF4 reads them."""
    io = pytest.importorskip("scipy.io")
    with io.netcdf_file(here / "a.nc", "w") as file:
        file.createDimension("x", 3)
        file.createVariable("v", "i4", ("x",))[:] = [4, 5, 9]
    assert json.loads(run("stats", "a.nc/v", "x=1:", "--json")[1])["mean"] == 7
    assert "in netCDF-3" in run("info", "a.nc/v")[1]


def test_netcdf_3_file_without_package_names_it(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what to install."""
    (here / "a.nc").write_bytes(b"CDF\x01" + bytes(28))

    def refuse(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("tessarr.copying.netcdf3.import_module", refuse)
    code, _, err = run("info", "a.nc")
    assert code == 1
    assert "netCDF-3" in err
    assert "pip install netCDF4" in err


def test_damaged_hdf5_file_is_an_error(run: Run, here: Path) -> None:
    """The message names the file."""
    pytest.importorskip("h5py")
    (here / "a.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    code, _, err = run("tree", "a.h5")
    assert code == 1
    assert "a.h5" in err


def test_missing_node_in_file_is_an_error(run: Run, hdf5: Path) -> None:
    """The message names the path and a similar one."""
    code, _, err = run("info", "data.h5/run/aa")
    assert code == 1
    assert "'run/aa'" in err
    assert "did you mean 'run/a'?" in err


def test_file_store_lists_documents_and_chunks(hdf5: Path) -> None:
    """Keys are those of the copy; sizes need no read."""
    store = FileStore(str(hdf5))
    assert sorted(store.list("run/a/")) == [
        *(f"run/a/c/{row}/{column}" for row in (0, 1) for column in (0, 1)),
        "run/a/zarr.json",
    ]
    keys, prefixes = store.list_dir("run/a/")
    assert (list(keys), list(prefixes)) == (["run/a/zarr.json"], ["run/a/c/"])
    value = store.open_value("run/a/c/1/1")
    assert value is not None
    assert value.size == 3 * 4 * 8
    assert store.get("run/a/c/2/0") is None
    assert store.open_value("run/b") is None
    group = tessarr.open_group(adapt_store(store, read_only=True), mode="r")
    assert group.get_array("run/a")[3, 5] == 23
    store.close()
