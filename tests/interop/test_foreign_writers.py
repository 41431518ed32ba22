"""Stores that xarray and zarr-python write, opened by their paths."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tessarr

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_unnamed_xarray_dataarray_is_listed_and_read(tmp_path: Path, zarr_format: Any) -> None:
    """Its only array is called ``__xarray_dataarray_variable__``."""
    xr = pytest.importorskip("xarray", reason="the writer")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zarr-python warns about unratified features
        xr.DataArray(np.arange(6.0).reshape(2, 3)).to_zarr(
            tmp_path / "a.zarr", zarr_format=zarr_format
        )
    for group in (
        tessarr.open_group(tmp_path / "a.zarr", "r"),
        tessarr.open_consolidated(tmp_path / "a.zarr"),
    ):
        assert list(group) == ["__xarray_dataarray_variable__"]
        assert group.get_array("__xarray_dataarray_variable__")[:].tolist() == [
            [0.0, 1.0, 2.0],
            [3.0, 4.0, 5.0],
        ]
